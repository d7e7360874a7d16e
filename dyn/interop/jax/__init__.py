"""JAX in and out."""

from dyn.interop.jax.exported import exported

__all__ = ["exported"]
