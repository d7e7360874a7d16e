"""Sums, means, extremes and their kin over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn.interop.torch.aten.tables import converts
from dyn.interop.torch.tensors import numpy_dtype
from dyn.trace.tracer import Tracer


def _axes(axes: Any) -> Any:
    """The axes that PyTorch names: none of them, and an empty list, are all."""
    if axes is None or isinstance(axes, int):
        return axes
    return tuple(axes) if axes else None


def _in_dtype(a: Tracer, dtype: Any) -> Tracer:
    return a if dtype is None else a.astype(numpy_dtype(dtype))


def _dtype_of(a: Tracer, dtype: Any) -> Any:
    """The dtype of sums and products: the one that is asked for; of integers int64."""
    if dtype is not None:
        return numpy_dtype(dtype)
    return "int64" if a.dtype.kind in "biu" else a.dtype


@converts("sum.default", "sum.dim_IntList")
def sum(a: Tracer, axes: Any = None, keepdim: bool = False, dtype: Any = None) -> Tracer:
    wanted, axis = _dtype_of(a, dtype), _axes(axes) if a.ndim else None
    if wanted == "bool":  # whose sum PyTorch finds as it adds any other numbers: a truth value
        return dnp.any(a, axis=axis, keepdims=keepdim and a.ndim > 0)
    return dnp.sum(a.astype(wanted), axis=axis, dtype=wanted, keepdims=keepdim and a.ndim > 0)


@converts("prims::sum.default")
def prims_sum(a: Tracer, axes: Any, output_dtype: Any = None) -> Tracer:
    return sum(a, axes, dtype=output_dtype)


@converts("prims::prod.default")
def prims_prod(a: Tracer, axes: Any, output_dtype: Any = None) -> Tracer:
    return prod(a, _axes(axes), dtype=output_dtype)


@converts("prims::amax.default")
def prims_amax(a: Tracer, axes: Any, output_dtype: Any = None) -> Tracer:
    return _in_dtype(dnp.max(a, axis=_axes(axes)), output_dtype)


@converts("prims::amin.default")
def prims_amin(a: Tracer, axes: Any, output_dtype: Any = None) -> Tracer:
    return _in_dtype(dnp.min(a, axis=_axes(axes)), output_dtype)


@converts("mean.default", "mean.dim")
def mean(a: Tracer, axes: Any = None, keepdim: bool = False, dtype: Any = None) -> Tracer:
    return dnp.mean(_in_dtype(a, dtype), axis=_axes(axes) if a.ndim else None, keepdims=keepdim and a.ndim > 0)


@converts("prod.default", "prod.dim_int")
def prod(a: Tracer, axis: Any = None, keepdim: bool = False, dtype: Any = None) -> Tracer:
    wanted, axis = _dtype_of(a, dtype), axis if a.ndim else None
    if wanted == "bool":
        return dnp.all(a, axis=axis, keepdims=keepdim and a.ndim > 0)
    return dnp.prod(a.astype(wanted), axis=axis, dtype=wanted, keepdims=keepdim and a.ndim > 0)


@converts("amax.default")
def amax(a: Tracer, axes: Sequence[int] = (), keepdim: bool = False) -> Tracer:
    return dnp.max(a, axis=_axes(axes) if a.ndim else None, keepdims=keepdim and a.ndim > 0)


@converts("amin.default")
def amin(a: Tracer, axes: Sequence[int] = (), keepdim: bool = False) -> Tracer:
    return dnp.min(a, axis=_axes(axes) if a.ndim else None, keepdims=keepdim and a.ndim > 0)


@converts("max.default")
def max(a: Tracer) -> Tracer:
    return dnp.max(a)


@converts("min.default")
def min(a: Tracer) -> Tracer:
    return dnp.min(a)


@converts("max.dim")
def max_dim(a: Tracer, axis: int, keepdim: bool = False) -> tuple[Tracer, Tracer]:
    return _extreme(a, axis, keepdim, dnp.max, dnp.argmax)


@converts("min.dim")
def min_dim(a: Tracer, axis: int, keepdim: bool = False) -> tuple[Tracer, Tracer]:
    return _extreme(a, axis, keepdim, dnp.min, dnp.argmin)


def _extreme(a: Tracer, axis: int, keepdim: bool, value: Any, place: Any) -> tuple[Tracer, Tracer]:
    if a.ndim == 0:
        return a, dnp.zeros((), dtype="int64")
    return value(a, axis=axis, keepdims=keepdim), place(a, axis=axis, keepdims=keepdim).astype("int64")


@converts("argmax.default")
def argmax(a: Tracer, axis: Any = None, keepdim: bool = False) -> Tracer:
    return _place(dnp.argmax, a, axis, keepdim)


@converts("argmin.default")
def argmin(a: Tracer, axis: Any = None, keepdim: bool = False) -> Tracer:
    return _place(dnp.argmin, a, axis, keepdim)


def _place(function: Any, a: Tracer, axis: Any, keepdim: bool) -> Tracer:
    if a.ndim == 0:
        return dnp.zeros((), dtype="int64")
    return function(a, axis=axis, keepdims=keepdim).astype("int64")


@converts("any.default", "any.dim", "any.dims")
def any(a: Tracer, axes: Any = None, keepdim: bool = False) -> Tracer:
    return _truth(dnp.any, a, axes, keepdim)


@converts("all.default", "all.dim", "all.dims")
def all(a: Tracer, axes: Any = None, keepdim: bool = False) -> Tracer:
    return _truth(dnp.all, a, axes, keepdim)


def _truth(function: Any, a: Tracer, axes: Any, keepdim: bool) -> Tracer:
    """``any`` or ``all`` over axes. An empty list names none here, and not all of them."""
    if axes is None or not a.ndim:
        chosen: Any = None
    else:
        chosen = axes if isinstance(axes, int) else tuple(axes)
    made = function(a, axis=chosen, keepdims=keepdim and a.ndim > 0)
    return made.astype("uint8") if a.dtype == "uint8" else made


@converts("cumsum.default")
def cumsum(a: Tracer, axis: int, dtype: Any = None) -> Tracer:
    wanted = _dtype_of(a, dtype)
    return dnp.cumsum(a.astype(wanted), axis=axis, dtype=wanted) if a.ndim else a.astype(wanted)


@converts("cumprod.default")
def cumprod(a: Tracer, axis: int, dtype: Any = None) -> Tracer:
    wanted = _dtype_of(a, dtype)
    return dnp.cumprod(a.astype(wanted), axis=axis, dtype=wanted) if a.ndim else a.astype(wanted)


def _var(a: Tracer, axes: Any, correction: Any, keepdim: bool) -> Tracer:
    chosen = _axes(axes) if a.ndim else None
    return dnp.var(a, axis=chosen, ddof=1 if correction is None else correction, keepdims=keepdim and a.ndim > 0)


@converts("prims::var.default")
def prims_var(a: Tracer, axes: Any = None, correction: Any = 1, output_dtype: Any = None) -> Tracer:
    return _in_dtype(_var(a, axes, correction, False), output_dtype)


@converts("var.correction")
def var(a: Tracer, axes: Any = None, correction: Any = None, keepdim: bool = False) -> Tracer:
    return _var(a, axes, correction, keepdim)


@converts("std.correction")
def std(a: Tracer, axes: Any = None, correction: Any = None, keepdim: bool = False) -> Tracer:
    return dnp.sqrt(_var(a, axes, correction, keepdim))


@converts("var_mean.correction")
def var_mean(a: Tracer, axes: Any = None, correction: Any = None, keepdim: bool = False) -> tuple[Tracer, Tracer]:
    return _var(a, axes, correction, keepdim), mean(a, axes, keepdim)
