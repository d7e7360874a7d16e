"""Random numbers from keys, as in JAX. Empty in this version."""
