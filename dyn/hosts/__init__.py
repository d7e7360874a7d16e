"""What an argument is, and what a result becomes: NumPy, PyTorch, JAX and DLPack arrays; CPython itself."""

from dyn.hosts.cpython import fast_path

__all__ = ["fast_path"]
