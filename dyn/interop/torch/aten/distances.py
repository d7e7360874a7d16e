"""Distances of rows, and their derivatives by PyTorch's conventions where the norms have kinks."""

from __future__ import annotations

import math
from typing import Any

import dyn.numpy as dnp
from dyn.interop.torch.aten.tables import converts
from dyn.trace.dims import max_dim
from dyn.trace.tracer import Tracer


@converts("_cdist_forward.default")
def cdist(a: Tracer, b: Tracer, p: float, compute_mode: int | None = None) -> Tracer:
    """The norm of the difference of each row of one and each row of the other."""
    return _norm(a[..., :, None, :] - b[..., None, :, :], p)


def _norm(across: Any, p: float) -> Tracer:
    """The norm along the last axis."""
    across = dnp.abs(across)
    if p == 0:
        return dnp.sum(dnp.not_equal(across, 0).astype(across.dtype), axis=-1)
    if p == math.inf:
        return dnp.max(across, axis=-1, initial=0)
    if p == 1:
        return dnp.sum(across, axis=-1)
    if p == 2:
        return dnp.sqrt(dnp.sum(across * across, axis=-1))
    return dnp.sum(across**p, axis=-1) ** (1 / p)


@converts("_cdist_backward.default")
def cdist_backward(cotangent: Tracer, a: Tracer, b: Tracer, p: float, distance: Tracer) -> Tracer:
    across = a[..., :, None, :] - b[..., None, :, :]
    return dnp.sum(_norm_backward(cotangent[..., None], across, p, distance[..., None]), axis=-2)


def _norm_backward(cotangent: Tracer, across: Tracer, p: float, norm: Tracer) -> Tracer:
    """The cotangent of ``across``, for that of its norm.

    PyTorch's conventions: 0 where the norm is 0; of a maximum all the elements that have its size get the cotangent;
    for ``p < 1``, where the slope at 0 is infinite, elements that are 0 get none.
    """
    size, sign, zero = dnp.abs(across), dnp.sign(across), dnp.zeros_like(across)
    if p == 0:
        return zero * cotangent
    if p == 1:
        return cotangent * sign
    if p == math.inf:
        return dnp.where(size == norm, cotangent * sign, zero)
    safe = dnp.where(norm == 0, dnp.ones_like(norm), norm)
    if p == 2:
        return dnp.where(norm == 0, zero, cotangent / safe * across)
    some = dnp.where(size == 0, dnp.ones_like(size), size) if p < 1 else size
    made = sign * some ** (p - 1) * (cotangent / safe ** (p - 1))
    return dnp.where(norm == 0, zero, made)


def _pairs(size: Any) -> tuple[Tracer, Tracer]:
    """The numbers of each two of ``size`` rows, a row with those after it."""
    # Of pair k the rows before it have size - 1, size - 2, ... pairs.
    last = dnp.cumsum(size - 1 - dnp.arange(size))
    pair = dnp.arange(size * max_dim(size - 1, 0) // 2)
    first = dnp.searchsorted(last, pair, side="right")
    return first, pair - (dnp.take(last, first) - (size - 1 - first)) + first + 1


@converts("_pdist_forward.default")
def pdist(a: Tracer, p: float = 2.0) -> Tracer:
    """The distances of each two rows, a row with those after it."""
    first, second = _pairs(a.shape[0])
    return _norm(dnp.take(a, first, axis=0) - dnp.take(a, second, axis=0), p)


@converts("_pdist_backward.default")
def pdist_backward(cotangent: Tracer, a: Tracer, p: float, distance: Tracer) -> Tracer:
    first, second = _pairs(a.shape[0])
    across = dnp.take(a, first, axis=0) - dnp.take(a, second, axis=0)
    made: Any = _norm_backward(cotangent[:, None], across, p, distance[:, None])
    return dnp.zeros_like(a).at[first].add(made).at[second].add(-made)
