"""New tensors: of one number, of numbers in a row, of the shape of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch

import dyn.numpy as dnp
from dyn.interop.torch.aten.tables import converts, in_place, kept_order, named_order
from dyn.interop.torch.layouts import Order, order_of
from dyn.interop.torch.sizes import as_dim, require_true
from dyn.interop.torch.tensors import numpy_dtype, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.shapes import Dim, RelKind, SymExpr
from dyn.trace.context import current_trace
from dyn.trace.dims import max_dim, unwrap_dim
from dyn.trace.tracer import Tracer


def _dtype(dtype: torch.dtype | None, otherwise: torch.dtype | None = None) -> Any:
    """The NumPy dtype of PyTorch's, or of the one that PyTorch takes where none is named."""
    return numpy_dtype(dtype or otherwise or torch.get_default_dtype())


def _of_number(number: Any) -> torch.dtype:
    """The dtype of a tensor of a number: Python's, a scalar of the program, or a size."""
    kind = number.dtype.kind if isinstance(number, Tracer) else ""
    if isinstance(number, bool) or kind == "b":
        return torch.bool
    return torch.get_default_dtype() if isinstance(number, float) or kind == "f" else torch.int64


@converts("full.default")
def full(sizes: Sequence[Any], value: Any, dtype: Any = None, **options: Any) -> Tracer:
    return dnp.full(tuple(sizes), value, dtype=_dtype(dtype, _of_number(value)))


@converts("scalar_tensor.default")
def scalar_tensor(value: Any, dtype: Any = None, **options: Any) -> Tracer:
    return dnp.asarray(value, dtype=_dtype(dtype))


@converts("empty_permuted.default", order=lambda args, kwargs: tuple(args[1]))
def empty_permuted(sizes: Sequence[Any], order: Sequence[int], dtype: Any = None, **options: Any) -> Tracer:
    return zeros(sizes, dtype=dtype)


@converts("empty.memory_format", "zeros.default", "_efficientzerotensor.default")
def zeros(sizes: Sequence[Any], *rest: Any, dtype: Any = None, **options: Any) -> Tracer:
    return dnp.zeros(tuple(sizes), dtype=_dtype(dtype))


@converts("ones.default")
def ones(sizes: Sequence[Any], dtype: Any = None, **options: Any) -> Tracer:
    return dnp.ones(tuple(sizes), dtype=_dtype(dtype))


def _strided_order(args: Sequence[Any], kwargs: dict[str, Any]) -> Order | None:
    """The order of sizes and strides, which are the last two arguments."""
    return order_of(*[[as_dim(n) for n in numbers] for numbers in args[-2:]])


@converts("empty_strided.default", order=_strided_order)
def empty_strided(sizes: Sequence[Any], strides: Any, dtype: Any = None, **options: Any) -> Tracer:
    return dnp.zeros(tuple(sizes), dtype=_dtype(dtype))


@converts("new_empty_strided.default", order=_strided_order)
def new_empty_strided(a: Tracer, sizes: Sequence[Any], strides: Any, dtype: Any = None, **options: Any) -> Tracer:
    return new_zeros(a, sizes, dtype)


@converts("new_empty.default", "new_zeros.default")
def new_zeros(a: Tracer, sizes: Sequence[Any], dtype: Any = None, **options: Any) -> Tracer:
    return dnp.zeros(tuple(sizes), dtype=a.dtype if dtype is None else _dtype(dtype))


@converts("new_ones.default")
def new_ones(a: Tracer, sizes: Sequence[Any], dtype: Any = None, **options: Any) -> Tracer:
    return dnp.ones(tuple(sizes), dtype=a.dtype if dtype is None else _dtype(dtype))


@converts("new_full.default")
def new_full(a: Tracer, sizes: Sequence[Any], value: Any, dtype: Any = None, **options: Any) -> Tracer:
    return dnp.full(tuple(sizes), value, dtype=a.dtype if dtype is None else _dtype(dtype))


@converts("full_like.default", order=named_order)
def full_like(a: Tracer, value: Any, dtype: Any = None, **options: Any) -> Tracer:
    return dnp.full(a.shape, value, dtype=a.dtype if dtype is None else _dtype(dtype))


@converts("zeros_like.default", "empty_like.default", order=named_order)
def zeros_like(a: Tracer, dtype: Any = None, **options: Any) -> Tracer:
    return full_like(a, 0, dtype)


@converts("ones_like.default", order=named_order)
def ones_like(a: Tracer, dtype: Any = None, **options: Any) -> Tracer:
    return full_like(a, 1, dtype)


@converts("prims::iota.default")
def iota(
    length: Any, start: Any, step: Any, dtype: Any, device: Any = None, requires_grad: bool = False
) -> Tracer:  # fmt: skip
    """``length`` numbers from ``start`` on, by ``step``."""
    return (dnp.arange(length, dtype="int64") * step + start).astype(numpy_dtype(dtype))


def _order_of_strides(args: Sequence[Any], kwargs: dict[str, Any]) -> Order | None:
    """The order of the strides that a tensor is copied to."""
    return order_of([as_dim(size) for size in args[0].shape], [as_dim(stride) for stride in args[1]])


@converts("prims::copy_strided.default", order=_order_of_strides)
def copy_strided(a: Tracer, strides: Sequence[Any]) -> Tracer:
    return a


@converts("fill.Scalar", "fill.Tensor", order=kept_order)
def fill(a: Tracer, value: Any) -> Tracer:
    return dnp.broadcast_to(dnp.asarray(value).astype(a.dtype), a.shape)


#: The numerators of steps between sizes: their products with sizes are exact in float64.
_MOST_PARTS = 1 << 20


def _arange(start: Any, end: Any, step: Any, dtype: Any) -> Tracer:
    numbers = [int(n) if isinstance(n, bool) else n for n in (start, end, step)]
    integers = not any(_of_number(n).is_floating_point for n in numbers)
    dtype = _dtype(dtype, torch.int64 if integers else None)
    if dtype == np.int64 and not integers:  # PyTorch counts by what is left of the numbers
        numbers, integers = [_truncated(n) for n in numbers], True
    start, end, step = numbers
    if any(isinstance(n, Tracer) for n in numbers):
        return _arange_of_scalars(start, end, step, dtype)
    between_sizes = any(isinstance(unwrap_dim(n), SymExpr) for n in numbers)
    if between_sizes and not integers:
        return _arange_of_fractions(start, end, step, dtype)
    if not isinstance(step, int | float):  # a size
        return (dnp.arange(max_dim(-((start - end) // step), 0)) * step + start).astype(dtype)
    if integers and isinstance(step, int) and step > 0:
        _demand_order(unwrap_dim(start), unwrap_dim(end))
    return dnp.arange(start, end, step, dtype=dtype)


def _truncated(number: Any) -> Any:
    """A number as an integer, toward 0, as C++ converts floats; sizes as they are."""
    if isinstance(number, float):
        return int(number)
    return number.astype("int64") if isinstance(number, Tracer) else number


def _arange_of_scalars(start: Any, end: Any, step: Any, dtype: np.dtype[Any]) -> Tracer:
    """Numbers in a row between numbers that the program finds out, so that it finds out how many there are too."""
    doubles = [dnp.asarray(n, dtype="float64") if isinstance(n, float) else n for n in (start, end, step)]
    bounds = [n if isinstance(n, Tracer) else dnp.asarray(n) for n in doubles]
    first, last, by = [n.astype("float64") for n in bounds]
    forward, back = dnp.logical_and(by > 0, last >= first), dnp.logical_and(by < 0, last <= first)
    finite = dnp.logical_and(dnp.isfinite(first), dnp.isfinite(last))
    ahead = dnp.logical_and(dnp.logical_or(forward, back), finite)
    require_true(bounds[0]._trace, ahead, "an arange's steps do not lead to its end", "pass other bounds.")
    return dnp.arange(*bounds, dtype=dtype)


def _arange_of_fractions(start: Any, end: Any, step: Any, dtype: np.dtype[Any]) -> Tracer:
    """Numbers in a row between sizes in steps such as 0.5 or -1.0. How many there are is a formula of the sizes; in
    steps that are sizes, and of fractions that integers are no good for, such as 0.1, the program finds it out.
    """
    finite = all(math.isfinite(n) for n in (start, end, step) if isinstance(n, float))
    parts = [Fraction(n) if isinstance(n, int | float) else n for n in (start, end, step)] if finite else []
    scale = math.lcm(*[n.denominator for n in parts if isinstance(n, Fraction)])
    by = int(parts[2] * scale) if parts and isinstance(parts[2], Fraction) else 0
    if not 0 < abs(by) <= _MOST_PARTS or scale > _MOST_PARTS:
        return _arange_of_scalars(start, end, step, dtype)
    first, last = [int(n * scale) if isinstance(n, Fraction) else n * scale for n in parts[:2]]
    ends = unwrap_dim(first), unwrap_dim(last)
    _demand_order(*(ends if by > 0 else reversed(ends)))
    numbers = dnp.arange(-((first - last) // by))
    if np.issubdtype(dtype, np.integer):
        start, step = [int(n) if isinstance(n, float) else n for n in (start, step)]
        return (numbers * step + start).astype(dtype)
    return (numbers.astype("float64") * step + start).astype(dtype)


def _demand_order(start: Dim | None, end: Dim | None) -> None:
    """Demand what PyTorch does: that numbers in a row end at the first of them or above."""
    trace = current_trace()
    if trace is not None and start is not None and end is not None:
        trace.demand(RelKind.GE, end, start, "arange ends where it starts, or above")


@converts("arange.default")
def arange(end: Any, dtype: Any = None, **options: Any) -> Tracer:
    return _arange(0, end, 1, dtype)


@converts("arange.start", "arange.start_step")
def arange_from(start: Any, end: Any, step: Any = 1, dtype: Any = None, **options: Any) -> Tracer:
    return _arange(start, end, step, dtype)


@in_place("copy_.default", "prims::copy_to.default")
def copy_(tracing: TorchTracing, target: Any, source: Any, non_blocking: bool = False) -> Any:
    tracing.write(target, record_of(source).value)
    return target


@in_place("zero_.default")
def zero_(tracing: TorchTracing, target: Any) -> Any:
    value = record_of(target).value
    tracing.write(target, dnp.zeros(value.shape, dtype=value.dtype))
    return target


@converts("copy.default", order=kept_order)
def copy(a: Tracer, source: Tracer, non_blocking: bool = False) -> Tracer:
    return dnp.broadcast_to(source.astype(a.dtype), a.shape)
