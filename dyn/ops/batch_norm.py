"""Normalisation over all axes but that of the features (https://openxla.org/stablehlo/spec#batch_norm_training).

Floats of 16 bits are computed with in float32, and rounded at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Attrs, Composite, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.expansion import Expand, expanded, expanded_batch, expanded_jvp, expanded_vjp
from dyn.ops.rules import FLOAT, require_kinds
from dyn.shapes import RelKind, product

Array = np.ndarray[Any, Any]


def _check(ctx: TypeContext, x: TensorType, per_feature: Sequence[TensorType], attrs: Attrs) -> None:
    """Refuse operands that do not have a feature each."""
    axis = attrs["feature_index"]
    require_kinds(ctx, (x, *per_feature), FLOAT)
    if not 0 <= axis < x.rank:
        raise ctx.fail(f"{axis} is no axis of {x}")
    for number, v in enumerate(per_feature):
        if v.rank != 1:
            raise ctx.fail(f"operand {number + 1} is {v}, and has to have an element for each feature")
        ctx.require(RelKind.EQ, v.shape[0], x.shape[axis], "there is an element for each feature")


class _Normal(Arithmetic):
    """Arithmetic on an array and on what it has for each feature; wide where its floats are narrow."""

    def __init__(self, b: Builder, op: Op) -> None:
        super().__init__(b)
        x = op.operands[0]
        self.shape, self.axis, self.dtype = x.shape, op.attrs["feature_index"], x.dtype
        self.epsilon = op.attrs["epsilon"]
        self.others = tuple(a for a in range(len(x.shape)) if a != self.axis)

    def wide(self, x: Value) -> Value:
        return self.b.op("convert", x, dtype=dtypes.float32) if self.dtype.is_narrow else x

    def narrow(self, x: Value) -> Value:
        return self.b.op("convert", x, dtype=self.dtype) if self.dtype.is_narrow else x

    def spread(self, x: Value) -> Value:
        """A value for each feature, spread to each element."""
        return self.b.op("broadcast_in_dim", x, shape=self.shape, dims=(self.axis,))

    def total(self, x: Value) -> Value:
        """The sum for each feature."""
        return self.b.op("reduce", x, axes=self.others, combine="add", nonempty=False) if self.others else x

    def count(self, like: Value) -> Value:
        """Number of elements of a feature."""
        size = self.b.op("dim_size", size=product([self.shape[a] for a in self.others]), dtype=like.dtype)
        made = self.b.op("convert", size, dtype=like.dtype)
        return self.b.op("broadcast_in_dim", made, shape=like.shape, dims=())

    def root(self, variance: Value) -> Value:
        return self.f("sqrt", self.add(variance, self.epsilon))

    def normal(self, x: Value, scale: Value, offset: Value, mean: Value, variance: Value) -> Value:
        ratio = self.div(self.sub(x, self.spread(mean)), self.spread(self.root(variance)))
        return self.add(self.mul(ratio, self.spread(scale)), self.spread(offset))


def _inference(b: Builder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
    n = _Normal(b, op)
    x, scale, offset, mean, variance = map(n.wide, operands)
    return (n.narrow(n.normal(x, scale, offset, mean, variance)),)


def _training(b: Builder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
    n = _Normal(b, op)
    x, scale, offset = map(n.wide, operands)
    count = n.count(scale)
    mean = n.div(n.total(x), count)
    off = n.sub(x, n.spread(mean))
    variance = n.div(n.total(n.mul(off, off)), count)
    return tuple(n.narrow(v) for v in (n.normal(x, scale, offset, mean, variance), mean, variance))


def _grad(b: Builder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
    """The cotangents of x, scale and offset from that of the output of training."""
    n = _Normal(b, op)
    x, scale, mean, variance, ct = map(n.wide, operands)
    off, root, count = n.sub(x, n.spread(mean)), n.root(variance), n.count(scale)
    whole, along = n.total(ct), n.total(n.mul(ct, off))
    share = n.spread(n.div(along, n.add(variance, n.epsilon)))
    rest = n.sub(n.sub(n.mul(ct, n.spread(count)), n.spread(whole)), n.mul(off, share))
    of_x = n.mul(n.spread(n.div(n.div(scale, root), count)), rest)
    return tuple(n.narrow(v) for v in (of_x, n.div(along, root), whole))


# --- NumPy --------------------------------------------------------------------------------------------------------


def _numpy(expand: Callable[..., Sequence[Array]]) -> Callable[..., Array | tuple[Array, ...]]:
    """A reference from a function of arrays whose features are their last axis."""

    def reference(*operands: Array, epsilon: float, feature_index: int) -> Array | tuple[Array, ...]:
        dtype = operands[0].dtype
        wide = dtypes.dtype(dtype).wide.np
        moved = [np.moveaxis(x.astype(wide), feature_index, -1) if x.ndim > 1 else x.astype(wide) for x in operands]
        with np.errstate(all="ignore"):
            made = expand(*moved, np.asarray(epsilon, wide))
        found = tuple(np.moveaxis(v, -1, feature_index).astype(dtype) if v.ndim > 1 else v.astype(dtype) for v in made)
        return found[0] if len(made) == 1 else found

    return reference


#: Rows from which on sums are of pairs: NumPy adds rows up one after the other, which costs digits of thousands.
_MANY_ROWS = 128


def _sum(x: Array) -> Array:
    """The sum for each feature."""
    rows = math.prod(x.shape[:-1])
    if rows < _MANY_ROWS:
        return np.asarray(x.sum(tuple(range(x.ndim - 1)), dtype=x.dtype))
    return np.asarray(np.ascontiguousarray(x.reshape(rows, x.shape[-1]).T).sum(-1, dtype=x.dtype))


def _inference_arrays(x: Array, scale: Array, offset: Array, mean: Array, var: Array, e: Array) -> tuple[Array, ...]:
    return ((x - mean) / np.sqrt(var + e) * scale + offset,)


def _training_arrays(x: Array, scale: Array, offset: Array, e: Array) -> tuple[Array, ...]:
    count = np.asarray(np.prod(x.shape[:-1]), x.dtype)
    mean = _sum(x) / count
    var = _sum((x - mean) ** 2) / count
    return *_inference_arrays(x, scale, offset, mean, var, e), mean, var


def _grad_arrays(x: Array, scale: Array, mean: Array, var: Array, ct: Array, e: Array) -> tuple[Array, ...]:
    count, off, root = np.asarray(np.prod(x.shape[:-1]), x.dtype), x - mean, np.sqrt(var + e)
    along = _sum(ct * off)
    return scale / root / count * (ct * count - _sum(ct) - off * (along / (var + e))), along / root, _sum(ct)


def _samples(vectors: int, *, whole: bool = False) -> Callable[[], list[Sample]]:
    """Arrays with features in front, at the end and alone; variances are not negative."""

    def make() -> list[Sample]:
        calls: list[Sample] = []
        for dtype in (dtypes.float32, dtypes.float64, dtypes.bfloat16):
            for shape, axis in (((3, 2), 1), ((2, 5, 3), 1), ((1, 4), 0), ((2, 0), 1), ((7, 1, 64), 2)):
                rng = np.random.default_rng(len(calls))
                x, ct = (rng.uniform(-2, 2, shape).astype(dtype.np) for _ in range(2))
                per = [rng.uniform(0.5, 2, shape[axis]).astype(dtype.np) for _ in range(vectors)]
                attrs = {"epsilon": 0.125, "feature_index": axis}
                calls.append(Sample((x, *per, ct) if whole else (x, *per), attrs))
        return calls

    return make


def _define(
    name: str,
    types: Callable[..., tuple[TensorType, ...]],
    expand: Expand,
    arrays: Any,
    made: Callable[[], list[Sample]],
) -> OpDef:
    return OpDef(
        name, OpKind.OPAQUE, types=types, loops=Composite(), reference=_numpy(arrays), samples=made,
        vjp=expanded_vjp(expand), jvp=expanded_jvp(expand), batch=expanded_batch(expand), simplify=expanded(expand),
    )  # fmt: skip


def _inference_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, *vectors = operands
    _check(ctx, x, vectors, attrs)
    return (TensorType(x.dtype, x.shape),)


def _training_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, *vectors = operands
    _check(ctx, x, vectors, attrs)
    feature = TensorType(x.dtype, (x.shape[attrs["feature_index"]],))
    return TensorType(x.dtype, x.shape), feature, feature


def _grad_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, *vectors, ct = operands
    require_kinds(ctx, (x, ct), FLOAT)
    if ct.rank != x.rank:
        raise ctx.fail(f"the cotangent {ct} is not like {x}")
    for axis, (own, other) in enumerate(zip(x.shape, ct.shape, strict=True)):
        ctx.require(RelKind.EQ, own, other, f"the operand and its cotangent agree on axis {axis}")
    return _training_types(ctx, (x, *vectors), attrs)


#: ``(x - mean) / sqrt(variance + epsilon) * scale + offset``: of x, scale, offset, mean, variance.
batch_norm_inference = _define("batch_norm_inference", _inference_types, _inference, _inference_arrays, _samples(4))
#: The same with the mean and the variance of the elements of each feature, and these: of x, scale, offset.
batch_norm_training = _define("batch_norm_training", _training_types, _training, _training_arrays, _samples(2))
#: The cotangents of x, scale and offset: of x, scale, mean, variance and the cotangent of the normalised array.
batch_norm_grad = _define("batch_norm_grad", _grad_types, _grad, _grad_arrays, _samples(3, whole=True))
