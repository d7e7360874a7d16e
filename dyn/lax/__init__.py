"""Control flow and the raw ops, with JAX's names and argument orders. Empty in this version."""
