"""Text to binary to something that runs, and the runtime that it runs in. Impure."""
