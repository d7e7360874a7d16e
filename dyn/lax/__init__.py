"""Control flow and the raw ops, with JAX's names and argument orders."""

from dyn.lax._reduce import reduce

__all__ = ["reduce"]
