"""A product of float32 matrices by OpenBLAS, from the wheel ``scipy-openblas32``, by its C interface.

One row is ``cblas_sgemv``, which is the quicker one there; batches are ``cblas_sgemm_batch_strided``. Results are
written into one array again and again, where others have new ones. How many threads it has says the environment.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy_openblas32

from benchmarks.products.product import Product
from benchmarks.products.rotation import Rotation

_ROWS_FIRST, _AS_IT_IS, _TRANSPOSED = 101, 111, 112
_INT, _FLOAT, _POINTER, _STRIDE = ctypes.c_int, ctypes.c_float, ctypes.c_void_p, ctypes.c_int


class Peer(Rotation):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        product = Product(**config)
        if product.dtype != "float32" or product.scales:
            raise NotImplementedError("this build has products of float32, float64 and complex numbers alone")
        result = np.empty(product.result_shape, np.float32)
        calls = [_call(product, params["x"], w, result) for w in params["weights"]]
        super().__init__(calls, f"OpenBLAS {scipy_openblas32.__version__} ({_core()})")


@functools.cache
def _library() -> ctypes.CDLL:
    folder = Path(scipy_openblas32.get_lib_dir())
    return ctypes.CDLL(str(folder / scipy_openblas32.get_library(fullname=True)))


def _core() -> str:
    """The processor that it has found."""
    name = _library().scipy_openblas_get_corename
    name.restype = ctypes.c_char_p
    return name().decode()


def _call(product: Product, x: np.ndarray, w: np.ndarray, result: np.ndarray) -> Callable[[], np.ndarray]:
    m, k, n = product.rows, product.depth, product.columns
    left, right = _order(product.transposed_left), _order(product.transposed_right)
    lhs, rhs, to = x.ctypes.data, w.ctypes.data, result.ctypes.data
    lda, ldb = x.shape[-1], w.shape[-1]
    if product.batch > 1:
        f = _library().scipy_cblas_sgemm_batch_strided
        matrix = [_POINTER, _INT, _STRIDE]
        f.argtypes = [*[_INT] * 6, _FLOAT, *matrix, *matrix, _FLOAT, *matrix, _INT]
        words = (_ROWS_FIRST, left, right, m, n, k, 1.0, lhs, lda, m * k, rhs, ldb, k * n, 0.0, to, n, m * n,
                 product.batch)  # fmt: skip
    elif m == 1:
        f = _library().scipy_cblas_sgemv
        f.argtypes = [*[_INT] * 4, _FLOAT, _POINTER, _INT, _POINTER, _INT, _FLOAT, _POINTER, _INT]
        words = (_ROWS_FIRST, _order(not product.transposed_right), *w.shape, 1.0, rhs, ldb, lhs, 1, 0.0, to, 1)
    else:
        f = _library().scipy_cblas_sgemm
        f.argtypes = [*[_INT] * 6, _FLOAT, _POINTER, _INT, _POINTER, _INT, _FLOAT, _POINTER, _INT]
        words = (_ROWS_FIRST, left, right, m, n, k, 1.0, lhs, lda, rhs, ldb, 0.0, to, n)
    f.restype = None

    def call() -> np.ndarray:
        f(*words)
        return result

    # The addresses are those of arrays that live as long as the call.
    call.__dict__["operands"] = (x, w)
    return call


def _order(transposed: bool) -> int:
    return _TRANSPOSED if transposed else _AS_IT_IS
