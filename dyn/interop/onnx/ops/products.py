"""Products of matrices."""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn.interop.converters import Data
from dyn.interop.onnx.evaluation import converts


@converts("MatMul")
def matmul(a: Data, b: Data) -> Any:
    return dnp.matmul(a, b)


@converts("Gemm")
def gemm(
    a: Data, b: Data, c: Data = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> Any:  # ONNX's names
    made = dnp.matmul(dnp.transpose(a) if transA else a, dnp.transpose(b) if transB else b)
    made = _times(made, alpha)
    return made if c is None else made + _times(c, beta)


def _times(a: Data, factor: float) -> Any:
    if factor == 1:
        return a
    return (a * factor).astype(a.dtype)


@converts("Einsum")
def einsum(*values: Data, equation: str) -> Any:
    return dnp.einsum(equation.replace(" ", ""), *values)
