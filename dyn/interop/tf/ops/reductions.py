"""Sums, means, greatest and first elements along axes, and what runs along one."""

from __future__ import annotations

import math
from typing import Any

import dyn.numpy as dnp
from dyn import lax, nn
from dyn.interop.converters import Data, axes_of, rank_of
from dyn.interop.tf.converter_registry import converts, takes_call
from dyn.interop.tf.ops.indexing import in_range
from dyn.interop.tf.values import Reductions, known_dtype
from dyn.trace.dims import max_dim, wrap_dim

_REDUCED = {"Sum": dnp.sum, "Prod": dnp.prod, "Max": dnp.max, "Min": dnp.min, "All": dnp.all, "Any": dnp.any}


def _least(dtype: Any) -> Any:
    return dnp.iinfo(dtype).min if dtype.kind in "iu" else -dnp.inf


def _greatest(dtype: Any) -> Any:
    return dnp.iinfo(dtype).max if dtype.kind in "iu" else dnp.inf


def _register(name: str, function: Any) -> None:
    @takes_call(name, attrs=["keep_dims"])
    def reduce(call: Any) -> Any:
        a, keepdims = call.value(0), bool(call.attributes(["keep_dims"]).get("keep_dims"))
        if isinstance(call.inputs[1], Reductions):
            return summed_to(a, call.inputs[1])
        axes = axes_of(call.numbers(1), rank_of(a))
        if name in ("Sum", "Prod"):
            return function(a, axis=axes, keepdims=keepdims, dtype=a.dtype)
        if name in ("Max", "Min"):  # of nothing TensorFlow has a result, too
            nothing = _least(a.dtype) if name == "Max" else _greatest(a.dtype)
            return function(a, axis=axes, keepdims=keepdims, initial=nothing)
        return function(a, axis=axes, keepdims=keepdims)


for _name, _function in _REDUCED.items():
    _register(_name, _function)


@converts("Mean", numbers=(1,))
def mean(a: Data, axes: Any, *, keep_dims: bool = False) -> Any:
    return dnp.mean(a, axis=axes_of(axes, rank_of(a)), keepdims=keep_dims).astype(a.dtype)


def summed_to(a: Data, reductions: Reductions) -> Any:
    """A gradient summed for an operand that was broadcast to its shape: the axes that are 1 there, or are not at all.

    Of an axis that may be 1 or not, the sum is over the quotient of both sizes. More axes may follow: those of the
    matrices in a product of many.
    """
    own, extra, first = reductions.own, max(len(reductions.other) - len(reductions.own), 0), reductions.first
    trace = a._trace
    if extra:
        a = dnp.sum(a, axis=tuple(range(first, first + extra)), dtype=a.dtype)
    for axis, dim in enumerate(own, first):
        size = a.dims[axis]
        if size == dim or trace.facts.eq(size, dim).proved:
            continue
        if dim == 1:
            a = dnp.sum(a, axis=axis, keepdims=True, dtype=a.dtype)
            continue
        count = wrap_dim(trace, dim)
        parted = (*a.shape[:axis], count, a.shape[axis] // max_dim(count, 1), *a.shape[axis + 1 :])
        a = dnp.sum(dnp.reshape(a, parted), axis=axis + 1, dtype=a.dtype)
    return a


def above_lowest(a: Data, lowest: float | None = None) -> Any:
    """Elements as TensorFlow finds the greatest: it begins with the lowest number, and no NaN is greater than that."""
    if a.dtype.kind in "iub":
        return a
    least = dnp.asarray(dnp.finfo(a.dtype).min if lowest is None else lowest, dtype=a.dtype)
    return dnp.where(a > least, a, least)


@converts("ArgMax", numbers=(1,))
def argmax(a: Data, axis: Any, *, output_type: str = "int64") -> Any:
    return dnp.argmax(above_lowest(a), axis=int(axis)).astype(known_dtype(output_type).np)


@converts("ArgMin", numbers=(1,))
def argmin(a: Data, axis: Any, *, output_type: str = "int64") -> Any:
    if a.dtype.kind not in "iub":
        highest = dnp.asarray(dnp.finfo(a.dtype).max, dtype=a.dtype)
        a = dnp.where(a < highest, a, highest)
    return dnp.argmin(a, axis=int(axis)).astype(known_dtype(output_type).np)


@converts("EuclideanNorm", numbers=(1,))
def euclidean_norm(a: Data, axes: Any, *, keep_dims: bool = False) -> Any:
    return dnp.sqrt(dnp.sum(dnp.square(dnp.abs(a)), axis=axes_of(axes, rank_of(a)), keepdims=keep_dims))


def _running(name: str, function: Any, nothing: Any) -> None:
    @converts(name, numbers=(1,))
    def run(a: Data, axis: Any, *, exclusive: bool = False, reverse: bool = False) -> Any:
        axis = int(axis) % rank_of(a)
        if exclusive:  # moved by one, with nothing at the start
            pads = [(0, 0, 0)] * rank_of(a)
            pads[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
            a = lax.pad(a, dnp.asarray(nothing, dtype=a.dtype), pads)
        return function(a, axis, reverse)


_running("Cumsum", lax.cumsum, 0)
_running("Cumprod", lax.cumprod, 1)
_running("CumulativeLogsumexp", lax.cumlogsumexp, -math.inf)


@converts("Softmax")
def softmax(a: Data) -> Any:
    return nn.softmax(a, axis=-1)


@converts("LogSoftmax")
def log_softmax(a: Data) -> Any:
    return nn.log_softmax(a, axis=-1)


@converts("L2Loss")
def l2_loss(a: Data) -> Any:
    return dnp.sum(dnp.square(a)) * 0.5


@converts("TopKV2", sizes=(1,))
def top_k(a: Data, k: Any, *, index_type: str = "int32") -> Any:
    values, places = lax.top_k(a, k)
    return [values, places.astype(known_dtype(index_type).np)]


@converts("InTopKV2")
def in_top_k(predictions: Data, targets: Data, k: Data) -> Any:
    classes = predictions.shape[1]
    there = (targets >= 0) & (targets.astype("int64") < classes)
    if_there = dnp.where(there, targets, 0).astype("int64")
    own = dnp.take_along_axis(predictions, if_there[:, None], axis=1)
    return there & dnp.all(dnp.isfinite(predictions), axis=1) & (dnp.sum(predictions > own, axis=1) < k)


@converts("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(logits: Data, labels: Data) -> Any:
    in_range(labels, logits.shape[-1], 1, "label {} is out of range for {} classes")
    logs = nn.log_softmax(logits, axis=-1)
    loss = -dnp.take_along_axis(logs, labels[:, None].astype("int64"), axis=-1)[:, 0]
    classes = lax.broadcasted_iota(labels.dtype, logits.shape, 1)
    return [loss, dnp.exp(logs) - (classes == labels[:, None]).astype(logits.dtype)]


@converts("SoftmaxCrossEntropyWithLogits")
def cross_entropy(logits: Data, labels: Data) -> Any:
    logs = nn.log_softmax(logits, axis=-1)
    return [-dnp.sum(labels * logs, axis=-1), dnp.exp(logs) - labels]
