"""Questions about dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import InvalidValueError
from dyn.frozen import record
from dyn.numpy._operands import combine
from dyn.numpy._public import ArrayLike, DTypeLike
from dyn.source import user_loc
from dyn.trace.dims import SymbolicDim
from dyn.trace.lift import WEAK_DTYPES, dtype_of
from dyn.trace.tracer import Tracer

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "promote_types", "result_type"]


def result_type(*values: ArrayLike | DTypeLike) -> np.dtype[Any]:
    """Dtype that arrays, dtypes and Python numbers promote to, as NumPy 2 promotes them: Python numbers are weak.

    Args:
        *values: arrays, dtypes in any spelling, Python numbers and dimensions.

    Returns:
        A NumPy dtype.

    Raises:
        InvalidValueError: if there are none.
        UnsupportedOpError: if they have no common dtype.

    Example:
        >>> dnp.result_type(np.int8, 1.5, np.float16)
        dtype('float16')
    """
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
    if not strong and not weak:
        raise InvalidValueError("result_type of nothing.", loc=user_loc(), remedy="give an array or a dtype.")
    return combine(strong, weak)[0].np


def _own(value: Any) -> DType:
    """The dtype of an array, or the one that is meant."""
    return dtype_of(value.dtype if hasattr(value, "dtype") and not isinstance(value, type) else value)


def promote_types(a: DTypeLike, b: DTypeLike) -> np.dtype[Any]:
    """Dtype that arrays of two dtypes promote to.

    Args:
        a: a dtype in any spelling.
        b: another one.

    Returns:
        A NumPy dtype.

    Raises:
        UnsupportedOpError: if they have no common dtype.

    Example:
        >>> dnp.promote_types("int32", "float32")
        dtype('float64')
    """
    return dtypes.promote(dtype_of(a), dtype_of(b)).np


def can_cast(from_: ArrayLike | DTypeLike, to: DTypeLike, /) -> bool:
    """Tell whether every value of one dtype has its equal in another, which is what they promote to.

    Args:
        from_: array, or dtype in any spelling.
        to: dtype in any spelling.

    Returns:
        A Python bool.

    Raises:
        UnsupportedOpError: if one is no dtype that dyn has.

    Example:
        >>> dnp.can_cast("int8", "int16"), dnp.can_cast("int16", "int8")
        (True, False)
    """
    own = _own(from_)
    return dtypes.promote(own, dtype_of(to)) is dtype_of(to)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Tell whether a dtype is of a kind.

    Args:
        dtype: dtype in any spelling.
        kind: ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``, ``"real floating"``,
            ``"complex floating"``, ``"numeric"``, a dtype, or a tuple of these.

    Returns:
        A Python bool.

    Example:
        >>> dnp.isdtype("bfloat16", "real floating")
        True
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    own = dtype_of(dtype)
    if own.np.type.__module__ == "ml_dtypes":  # NumPy does not know its kind
        return any(k in ("real floating", "numeric") if isinstance(k, str) else dtype_of(k) is own for k in kinds)
    return bool(np.isdtype(own.np, tuple(k if isinstance(k, str) else dtype_of(k).np for k in kinds)))


@record()
class FloatLimits:
    """The limits of a float dtype, of the parts of a complex one: Python floats, as the array API standard has them."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]
    _numpy: Any

    def __getattr__(self, name: str) -> Any:
        # NumPy's others: tiny, resolution, precision, …
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._numpy, name)


def finfo(type: ArrayLike | DTypeLike, /) -> FloatLimits:
    """Limits of a float dtype, or of an array's; of complex ones those of their parts.

    Args:
        type: dtype in any spelling, or array.

    Returns:
        A record with ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal`` as Python floats, ``dtype``, and NumPy's
        others.

    Raises:
        InvalidValueError: if it is no float dtype.

    Example:
        >>> dnp.finfo("bfloat16").eps
        0.0078125
    """
    own = _own(type)
    if not own.is_inexact:
        raise InvalidValueError(f"finfo: {own.name} is no float dtype.", loc=user_loc(), remedy="use dyn.numpy.iinfo.")
    info: Any = ml_dtypes.finfo(own.np)
    eps, most, least, normal = (float(getattr(info, name)) for name in ("eps", "max", "min", "smallest_normal"))
    return FloatLimits(int(info.bits), eps, most, least, normal, np.dtype(info.dtype), info)


def iinfo(type: ArrayLike | DTypeLike, /) -> Any:
    """Limits of an integer dtype, or of an array's.

    Args:
        type: dtype in any spelling, or array.

    Returns:
        A record with ``bits``, ``max``, ``min`` and ``dtype``.

    Raises:
        InvalidValueError: if it is no integer dtype.

    Example:
        >>> dnp.iinfo("int8").max
        127
    """
    own = _own(type)
    if not own.is_integer:
        raise InvalidValueError(
            f"iinfo: {own.name} is no integer dtype.", loc=user_loc(), remedy="use dyn.numpy.finfo."
        )
    return np.iinfo(own.np)
