"""JAX in and out: ``jit`` compiles JAX's functions, ``exported`` gives JAX programs of dyn."""

from dyn.interop.jax.exported import exported
from dyn.interop.jax.jit import JaxJitted, jit

__all__ = ["JaxJitted", "exported", "jit"]
