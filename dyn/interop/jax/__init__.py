"""JAX in and out: ``jit`` compiles JAX's functions, ``call`` and ``exported`` give JAX programs of dyn."""

from dyn.interop.jax.call import JaxCallable, call
from dyn.interop.jax.exported import exported
from dyn.interop.jax.jit import JaxJitted, jit

__all__ = ["JaxCallable", "JaxJitted", "call", "exported", "jit"]
