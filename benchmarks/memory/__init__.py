"""Memory-bound programs, written for each library, and the machine's own limits."""
