"""Products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import NotYetError
from dyn.interop.torch.aten.tables import axis_of, converts
from dyn.interop.torch.composites import composite
from dyn.interop.torch.tensors import numpy_dtype
from dyn.source import user_loc
from dyn.trace.tracer import Tracer


@converts("mm.default", "bmm.default", "mv.default", "dot.default")
def matmul(a: Tracer, b: Tracer) -> Tracer:
    return dnp.matmul(a, b)


def _times(factor: Any, value: Tracer) -> Tracer:
    return value if isinstance(factor, int) and factor == 1 else value * dnp.asarray(factor, dtype=value.dtype)


def _is_zero(factor: Any) -> bool:
    """Whether a factor is 0, in any type of numbers: PyTorch does not read what it multiplies with that."""
    return isinstance(factor, int | float) and factor == 0


def _added(c: Tracer, product: Tracer, beta: Any) -> Tracer:
    """``beta * c + product``: without ``c``, NaN or not, where the factor is 0."""
    return dnp.broadcast_to(product, _broadcast(c, product)) if _is_zero(beta) else dnp.add(_times(beta, c), product)


def _broadcast(c: Tracer, product: Tracer) -> Any:
    """The shape of both, for which ``c`` has to fit."""
    return dnp.broadcast_arrays(c, product)[1].shape


def _product(alpha: Any, a: Tracer, b: Tracer) -> Tracer:
    """``alpha * a @ b``: zeros, as BLAS has them, where the factor is 0."""
    product = dnp.matmul(a, b)
    return dnp.zeros_like(product) if _is_zero(alpha) else _times(alpha, product)


@converts("addmm.default", "addmv.default")
def addmm(c: Tracer, a: Tracer, b: Tracer, beta: Any = 1, alpha: Any = 1) -> Tracer:
    return _added(c, _product(alpha, a, b), beta)


@converts("baddbmm.default")
def baddbmm(c: Tracer, a: Tracer, b: Tracer, beta: Any = 1, alpha: Any = 1) -> Tracer:
    return _added(c, _times(alpha, dnp.matmul(a, b)), beta)


@converts("_int_mm.default")
def int_matmul(a: Tracer, b: Tracer) -> Tracer:
    """The product of matrices of int8, in int32."""
    return dnp.matmul(a.astype("int32"), b.astype("int32"))


@converts("linear.default")
def linear(x: Tracer, weight: Tracer, bias: Tracer | None = None) -> Tracer:
    product = dnp.matmul(x, dnp.transpose(weight))
    return product if bias is None else product + bias


@composite("linear.default")
def linear_of_rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """One product of matrices. PyTorch asks first whether ``x`` lies in rows, which it may do at some sizes only, and
    adds the bias before or after it restores the axes; the sums are the same."""
    if weight.ndim != 2 or x.ndim < 2:
        product = x.matmul(weight.t())
        return product if bias is None else product + bias
    rows = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    made = rows.mm(weight.t()) if bias is None else torch.addmm(bias, rows, weight.t())
    return made if x.ndim == 2 else torch.ops.aten._unsafe_view(made, (*x.shape[:-1], weight.shape[0]))


@converts("addbmm.default")
def addbmm(c: Tracer, a: Tracer, b: Tracer, beta: Any = 1, alpha: Any = 1) -> Tracer:
    return _added(c, dnp.sum(_product(alpha, a, b), axis=0), beta)


@converts("_trilinear.default")
def trilinear(
    a: Tracer, b: Tracer, c: Tracer, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
    sumdim: Sequence[int], unroll_dim: int = 1,
) -> Tracer:  # fmt: skip
    """Sums of products of three tensors, along axes that two of them at most lack. PyTorch takes an axis that all three
    lack for one of size 0: what it loops over (``unroll_dim``) then adds nothing."""
    rank = a.ndim + len(expand1)
    lacking = [{axis_of(axis, rank) for axis in axes} for axes in (expand1, expand2, expand3)]
    whole = [dnp.expand_dims(x, axis=tuple(sorted(axes))) for x, axes in zip((a, b, c), lacking, strict=True)]
    summed = {axis_of(axis, rank) for axis in sumdim}
    made = dnp.sum(whole[0] * whole[1] * whole[2], axis=tuple(sorted(summed)))
    nowhere = set.intersection(*lacking)
    if not nowhere - summed and axis_of(unroll_dim, rank) not in nowhere:
        return made
    left = [axis for axis in range(rank) if axis not in summed]
    shape = [0 if axis in nowhere else size for axis, size in zip(left, made.shape, strict=True)]
    return dnp.zeros(tuple(shape), dtype=made.dtype)


# ---- groups of rows -------------------------------------------------------------------------------------------------


@converts("_grouped_mm.default")
def grouped_mm(a: Tracer, b: Tracer, offs: Tracer | None = None, bias: Any = None, out_dtype: Any = None) -> Tracer:
    """Products of groups, of which ``offs`` has the ends: of rows of ``a`` and matrices of ``b``, of matrices of ``a``
    and columns of ``b``, or of columns of ``a`` and rows of ``b``, a matrix for each. What is in no group is 0."""
    if bias is not None:
        raise NotYetError("a bias of groups.", loc=user_loc(), remedy="add it to the result.")
    dtype = a.dtype if out_dtype is None else numpy_dtype(out_dtype)
    if offs is None:
        return dnp.matmul(a, b).astype(dtype)
    starts = dnp.concatenate([dnp.zeros((1,), dtype=offs.dtype), offs[:-1]])
    shapes = {(2, 3): (a.shape[0], b.shape[-1]), (3, 2): (a.shape[-2], b.shape[1]), (2, 2): (a.shape[0], b.shape[1])}
    shape = shapes.get((a.ndim, b.ndim))
    if shape is None:
        raise NotYetError(f"groups of an array of rank {a.ndim} times one of rank {b.ndim}.", loc=user_loc())

    def group(i: Any, made: Any) -> Any:
        own: Any = slice(starts[i], offs[i])
        if b.ndim == 3:
            place, product = own, dnp.matmul(a[own], b[i])
        elif a.ndim == 3:
            place, product = (slice(None), own), dnp.matmul(a[i], b[:, own])
        else:
            place, product = i, dnp.matmul(a[:, own], b[own])
        return made.at[place].set(product.astype(dtype))

    groups = offs.shape[0]
    return lax.fori_loop(0, groups, group, dnp.zeros(shape if a.ndim + b.ndim > 4 else (groups, *shape), dtype=dtype))


# transformers' own forms of it, for compilers: each is a loop in Python that nothing else looks into.


@converts("transformers::grouped_mm_fallback")
def grouped_mm_fallback(input: Tracer, weight: Tracer, offs: Tracer) -> Tracer:
    return grouped_mm(input, weight, offs)


@converts("transformers::grouped_mm_fallback_backward")
def grouped_mm_fallback_backward(
    input: Tracer, weight: Tracer, offs: Tracer, grad_output: Tracer
) -> tuple[Tracer, Tracer]:
    of_weight = grouped_mm(dnp.transpose(input), grad_output, offs)
    return grouped_mm(grad_output, dnp.transpose(weight, (0, 2, 1)), offs), of_weight
