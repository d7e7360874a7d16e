"""Hosts: the libraries of arguments and results, NumPy, PyTorch, JAX, DLPack; and CPython itself."""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np

from dyn.hosts.base import Host, NumpyArray
from dyn.hosts.dlpack import ForeignHost, export_dlpack
from dyn.hosts.jax import JaxHost
from dyn.hosts.numpy import NumpyHost, is_plain
from dyn.hosts.torch import TorchHost
from dyn.late_imports import import_whole

NUMPY, TORCH, JAX, FOREIGN = NumpyHost(), TorchHost(), JaxHost(), ForeignHost()
#: The class whose objects a host owns, by the module that must have been imported for one to exist.
_CLASSES = (("torch", "Tensor", TORCH), ("jax", "Array", JAX), ("jax.core", "Tracer", JAX))


def keeps_order(host: Host) -> bool:
    """Whether a library's own elementwise operations give results in the order of axes in which arguments lie."""
    return host in (NUMPY, TORCH)


def fast_path() -> str | None:
    """Reason why calls cannot go through the native entry in this process.

    Returns:
        A sentence, or None where they can.
    """
    import_whole("dyn.hosts.cpython")
    from dyn.hosts import cpython  # `import dyn` does without

    return cpython.fast_path()


def host_of(value: object) -> Host | None:
    """Host of an array.

    Args:
        value: any object.

    Returns:
        Its library's host; None for what is no array: numbers, strings, containers, classes.

    Example:
        >>> dyn.hosts.host_of(np.ones(3)).name
        'numpy'
    """
    return _host_of_type(type(value))


@lru_cache(maxsize=512)
def _host_of_type(kind: type) -> Host | None:
    if issubclass(kind, np.ndarray | np.generic):
        return NUMPY
    if issubclass(kind, str | bytes | bool | int | float | complex | type):
        return None
    for module, name, host in _CLASSES:
        loaded = getattr(sys.modules.get(module), name, None)
        if loaded is not None and _is_subclass(kind, loaded):
            return host
    protocols = ("__array_interface__", "__array__", "__dlpack__")
    return FOREIGN if any(hasattr(kind, protocol) for protocol in protocols) else None


def _is_subclass(kind: type, base: type) -> bool:
    """``issubclass``, for bases that answer for objects alone as well (``jax.Array``)."""
    try:
        return issubclass(kind, base)
    except TypeError:
        return False


__all__ = [
    "FOREIGN", "JAX", "NUMPY", "TORCH", "Host", "NumpyArray", "export_dlpack", "fast_path", "host_of", "is_plain",
]  # fmt: skip
