"""Control flow and the raw ops, with JAX's names and argument orders."""

from dyn.lax._reduce import reduce, reduce_window

__all__ = ["reduce", "reduce_window"]
