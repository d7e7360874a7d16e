"""Sums, greatest elements and their kin along axes, and what runs along one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dyn.numpy as dnp
from dyn import lax, nn
from dyn.interop.converters import Data, axis_of, rank_of
from dyn.interop.onnx.evaluation import converts

#: A reduction of elements along axes: of those, the axes, and whether they stay.
Reduction = Callable[[Any, "tuple[int, ...]", bool], Any]


def _sum(a: Data, axes: tuple[int, ...], keep: bool) -> Any:
    return dnp.sum(a, axis=axes, keepdims=keep, dtype=a.dtype)


def _greatest(a: Data, axes: tuple[int, ...], keep: bool) -> Any:
    if a.dtype.kind == "b":
        return dnp.any(a, axis=axes, keepdims=keep)
    nothing = dnp.iinfo(a.dtype).min if a.element_type.is_integer else -dnp.inf
    return dnp.max(a, axis=axes, keepdims=keep, initial=nothing)


def _least(a: Data, axes: tuple[int, ...], keep: bool) -> Any:
    if a.dtype.kind == "b":
        return dnp.all(a, axis=axes, keepdims=keep)
    nothing = dnp.iinfo(a.dtype).max if a.element_type.is_integer else dnp.inf
    return dnp.min(a, axis=axes, keepdims=keep, initial=nothing)


def _reduces(name: str, reduction: Reduction) -> None:
    @converts(name, numbers=(1,))
    def reduce(
        a: Data, given: Any = None, *, axes: list[int] | None = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        found = axes if given is None else given.reshape(-1).tolist()
        whole = () if noop_with_empty_axes else range(rank_of(a))
        own = tuple([axis_of(axis, a) for axis in found] if found else whole)
        return reduction(a, own, bool(keepdims)).astype(a.dtype)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum, "ReduceMax": _greatest, "ReduceMin": _least,
    "ReduceProd": lambda a, axes, keep: dnp.prod(a, axis=axes, keepdims=keep, dtype=a.dtype),
    "ReduceMean": lambda a, axes, keep: dnp.mean(a, axis=axes, keepdims=keep),
    "ReduceL1": lambda a, axes, keep: _sum(dnp.abs(a), axes, keep),
    "ReduceL2": lambda a, axes, keep: dnp.sqrt(_sum(dnp.square(a), axes, keep)),
    "ReduceSumSquare": lambda a, axes, keep: _sum(dnp.square(a), axes, keep),
    "ReduceLogSum": lambda a, axes, keep: dnp.log(_sum(a, axes, keep)),
    "ReduceLogSumExp": lambda a, axes, keep: nn.logsumexp(a, axis=axes, keepdims=keep),
}  # fmt: skip
for _name, _reduction in _REDUCTIONS.items():
    _reduces(_name, _reduction)


def _picks(name: str, function: Callable[..., Any]) -> None:
    @converts(name)
    def pick(a: Data, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        if select_last_index:
            found = a.shape[axis] - 1 - function(dnp.flip(a, axis=axis), axis=axis, keepdims=bool(keepdims))
        else:
            found = function(a, axis=axis, keepdims=bool(keepdims))
        return found.astype("int64")


_picks("ArgMax", dnp.argmax)
_picks("ArgMin", dnp.argmin)


@converts("CumSum", numbers=(1,))
def cumulative_sum(a: Data, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    number = axis_of(int(axis.reshape(())), a)
    made = lax.cumsum(a, number, reverse=bool(reverse))
    return (made - a if a.element_type.is_integer else _shifted(made, number, bool(reverse))) if exclusive else made


def _shifted(made: Data, axis: int, reverse: bool) -> Any:
    """Running sums of what comes before each element: 0 first, and the last one gone."""
    pads = [(0, 0, 0)] * rank_of(made)
    pads[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    return lax.pad(made, dnp.zeros((), dtype=made.dtype), pads)


@converts("TopK", sizes=(1,))
def top_k(a: Data, k: Any, *, axis: int = -1, largest: int = 1) -> Any:
    count = k[0] if isinstance(k, list) else k
    if largest:
        values, places = lax.top_k(a, count, axis=axis_of(axis, a))
    else:  # of integers the complement has the opposite order, without one that is beyond them
        turned = dnp.bitwise_invert(a) if a.element_type.is_integer else dnp.negative(a)
        values, places = lax.top_k(turned, count, axis=axis_of(axis, a))
        values = dnp.bitwise_invert(values) if a.element_type.is_integer else dnp.negative(values)
    return [values, places.astype("int64")]


@converts("Softmax")
def softmax(a: Data, *, axis: int = -1) -> Any:
    return nn.softmax(a, axis=axis)


@converts("LogSoftmax")
def log_softmax(a: Data, *, axis: int = -1) -> Any:
    return nn.log_softmax(a, axis=axis)


@converts("Hardmax")
def hardmax(a: Data, *, axis: int = -1) -> Any:
    greatest = dnp.argmax(a, axis=axis, keepdims=True)
    places = lax.broadcasted_iota(greatest.dtype, a.shape, axis_of(axis, a))
    return dnp.equal(places, greatest).astype(a.dtype)
