"""LAPACK and BLAS by name, for native code: SciPy's own, through the pointers that it has for Cython.

SciPy is imported when code that calls them is loaded.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from functools import cache, lru_cache

from dyn.requirements import scipy_module

#: How the text of a library call (``dyn.lower.lapack``) refers to a function.
_NAME = re.compile(rb"dyn_(blas|lapack)_([a-z0-9]+)")


@lru_cache(maxsize=1)
def has_lapack() -> bool:
    """Whether this Python has SciPy, which is looked for and not imported."""
    return importlib.util.find_spec("scipy") is not None


def lapack_imports(data: bytes) -> dict[str, int]:
    """The addresses of the functions of LAPACK and BLAS that an object refers to, by the names it has for them.

    BackendUnavailableError where SciPy is not installed.
    """
    return {match[0].decode(): _address(match[1].decode(), match[2].decode()) for match in _NAME.finditer(data)}


@cache
def _address(library: str, name: str) -> int:
    # Prototypes of our own: those in ctypes.pythonapi are everybody's.
    named = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointed = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    capsule = scipy_module(f"linalg.cython_{library}", library.upper()).__pyx_capi__[name]
    return pointed(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, named(capsule))
