"""Questions about dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.numpy._operands import combine, dtype_of
from dyn.numpy._public import ArrayLike, DTypeLike
from dyn.trace.dims import SymbolicDim
from dyn.trace.lift import WEAK_DTYPES
from dyn.trace.tracer import Tracer

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "promote_types", "result_type"]


def result_type(*values: ArrayLike | DTypeLike) -> np.dtype[Any]:
    """The dtype that arrays, dtypes and Python numbers combine to."""
    strong: list[DType] = []
    weak: list[Kind] = []
    for value in values:
        if isinstance(value, Tracer) and value.weak:
            weak.append(value.element_type.kind)
        elif isinstance(value, SymbolicDim):
            weak.append(Kind.INT)
        elif type(value) in WEAK_DTYPES:
            weak.append(WEAK_DTYPES[type(value)].kind)
        else:
            strong.append(_own(value))
    return combine(strong, weak)[0].np


def _own(value: Any) -> DType:
    """The dtype of an array, or the one that is meant."""
    return dtype_of(value.dtype if hasattr(value, "dtype") and not isinstance(value, type) else value)


def promote_types(a: DTypeLike, b: DTypeLike) -> np.dtype[Any]:
    """The dtype that arrays of two dtypes combine to."""
    return dtypes.promote(dtype_of(a), dtype_of(b)).np


def can_cast(source: ArrayLike | DTypeLike, to: DTypeLike) -> bool:
    """Whether every value of one dtype has its equal in another, which is what they promote to."""
    own = _own(source)
    return dtypes.promote(own, dtype_of(to)) is dtype_of(to)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a dtype is of a kind: ``"integral"``, ``"real floating"``, …, a dtype, or a tuple of these."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    own = dtype_of(dtype)
    if own is dtypes.bfloat16:
        return any(k in ("real floating", "numeric") if isinstance(k, str) else dtype_of(k) is own for k in kinds)
    return bool(np.isdtype(own.np, tuple(k if isinstance(k, str) else dtype_of(k).np for k in kinds)))


def finfo(dtype: DTypeLike) -> Any:
    """The limits of a float dtype."""
    return ml_dtypes.finfo(dtype_of(dtype).np)


def iinfo(dtype: DTypeLike) -> Any:
    """The limits of an integer dtype."""
    return np.iinfo(dtype_of(dtype).np)
