"""Running reductions along an axis, JAX's cumsum and its kin, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.inline_regions import build_region
from dyn.ir.opdef import Attrs, JvpRule, OpDef, OpKind, RunningLoops, Sample, TypeContext, VjpRule
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.complex_parts import Pair, Real, componentwise, extreme, product
from dyn.ops.decomposed_rules import jvp_by_parts, vjp_by_parts
from dyn.ops.indexing.along import add_along, take_along
from dyn.ops.reduce import COMBINES
from dyn.ops.rules import axis_samples, numbers
from dyn.ops.transform_rules import one_later, shifted

Array = np.ndarray[Any, Any]


def cumulative_vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value, ...]:
    """Cotangent of running folds: of a sum the running sum from the other side; of an extreme all of it to the element
    that it is; of a product in shares."""
    (ct,), axis = cts, op.attrs["dimension"]
    if op.attrs["combine"] == "add":
        return (_sums(b, op, ct, back=True),)
    if op.attrs["combine"] != "multiply":
        return (add_along(b, ct, _chosen(b, op), axis),)

    def smooth(inner: Builder, x: Value, y: Value, ct: Value) -> Value:
        a = Arithmetic(inner)
        return a.div(_sums(inner, op, a.mul(ct, y), back=True), x)

    return _of_product(b, op, ct, smooth, vjp_by_parts(_running_product))


def cumulative_jvp(b: Builder, op: Op, tangents: tuple[Value]) -> tuple[Value, ...]:
    (t,), axis = tangents, op.attrs["dimension"]
    if op.attrs["combine"] == "add":
        return (_sums(b, op, t),)
    if op.attrs["combine"] != "multiply":
        return (take_along(b, t, _chosen(b, op), axis),)

    def smooth(inner: Builder, x: Value, y: Value, t: Value) -> Value:
        a = Arithmetic(inner)
        return a.mul(y, _sums(inner, op, a.div(t, x)))

    return _of_product(b, op, t, smooth, jvp_by_parts(_running_product))


def _sums(b: Builder, op: Op, x: Value, *, back: bool = False) -> Value:
    """The running sum of ``x`` in the op's direction; from the other side with ``back``."""
    axis, reverse = op.attrs["dimension"], op.attrs["reverse"]
    return b.op("cumulative", x, dimension=axis, combine="add", reverse=reverse is not back)


def _chosen(b: Builder, op: Op) -> Value:
    """The place of the element that each running extreme is: of equal ones, the last so far, as in PyTorch.

    An element that equals the extreme up to itself is that extreme, or is NaN, which stays; the place is the furthest
    so far of one that does. (JAX's derivative at equal elements depends on how it shares out the work.)
    """
    (x,), y, a = op.operands, op.result, Arithmetic(b)
    axis, reverse = op.attrs["dimension"], op.attrs["reverse"]
    is_it = b.op("or", a.cmp(x, "EQ", y), a.cmp(x, "NE", x))
    places = b.op("iota", shape=x.shape, dimension=axis, dtype=dtypes.int64)
    marked = a.where(is_it, places, 2**63 - 1 if reverse else 0)
    return b.op("cumulative", marked, dimension=axis, combine="minimum" if reverse else "maximum", reverse=reverse)


def _of_product(
    b: Builder, op: Op, moved: Value, smooth: Callable[..., Value], exact: VjpRule | JvpRule
) -> tuple[Value, ...]:
    """Derivative of a running product, applied to ``moved``: by division where no factor is 0, else by a scan.

    A derivative of the division is right where it is one; that of the scan is right everywhere.
    """
    (x,) = op.operands
    zero = Arithmetic(b).cmp(x, "EQ", 0)
    some = b.op("reduce", zero, axes=tuple(range(len(x.shape))), combine="or", nonempty=False)
    operands = (x, op.result, moved)
    types = [TensorType(v.dtype, v.shape) for v in operands]

    def by_steps(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        (found,) = exact(inner, replace(op, operands=params[:1]), params[2:])
        assert isinstance(found, Value), "a product depends on what moves"
        return [found]

    regions = build_region(b, types, by_steps), build_region(b, types, lambda inner, params: [smooth(inner, *params)])
    return b.op_all("if", some, *operands, regions=regions)


def _running_product(b: Builder, op: Op, operands: tuple[Value, ...]) -> tuple[Value]:
    """A running product as a scan, of halves in float32."""
    (x,), axis = operands, op.attrs["dimension"]
    half = x.dtype.is_narrow
    wide = b.op("convert", x, dtype=dtypes.float32) if half else x
    front = (axis, *(a for a in range(len(x.shape)) if a != axis))
    rows = b.op("transpose", wide, permutation=front)
    row = TensorType(rows.dtype, rows.shape[1:])
    one = Arithmetic(b).fill(Value(row), 1)

    def step(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        made = inner.op("multiply", *params)
        return [made, made]

    region = build_region(b, [row, row], step)
    attrs = {"carries": 1, "length": rows.shape[0], "reverse": op.attrs["reverse"]}
    made = b.op_all("scan", one, rows, regions=(region,), **attrs)[1]
    made = b.op("transpose", made, permutation=tuple(front.index(a) for a in range(len(front))))
    return (b.op("convert", made, dtype=x.dtype) if half else made,)


_RUNNING = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def _running_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = operands
    if not 0 <= attrs["dimension"] < x.rank:
        raise ctx.fail(f"{attrs['dimension']} is no axis of {x}")
    if x.dtype.kind is Kind.BOOL and attrs["combine"] in ("add", "multiply"):
        raise ctx.unsupported(f"cannot {attrs['combine']} {x.dtype.name}", "convert it with .astype('int64')")
    return (TensorType(x.dtype, x.shape),)


def _running(x: Array, dimension: int, combine: str, reverse: bool) -> Array:
    rounded = combine in ("add", "multiply")
    wide = x.astype(dtypes.dtype(x.dtype).accumulator.np, copy=False) if rounded else dtypes.widened(x)
    wide = np.flip(wide, dimension) if reverse else wide
    with np.errstate(all="ignore"):
        result = _RUNNING[combine].accumulate(wide, axis=dimension, dtype=wide.dtype).astype(x.dtype)
    return np.flip(result, dimension) if reverse else result


def _running_parts(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """Running folds of complex parts: of sums each part's own; products and extremes are scans of both together."""
    combine = op.attrs["combine"]
    if combine == "add":
        return componentwise(b, op, operands)
    ((re, im),), axis = operands, op.attrs["dimension"]
    front = (axis, *(a for a in range(len(re.shape)) if a != axis))
    rows = [b.op("transpose", part, permutation=front) for part in (re, im)]
    row = TensorType(re.dtype, rows[0].shape[1:])
    first = {"multiply": (1, 0), "maximum": (-math.inf, -math.inf), "minimum": (math.inf, math.inf)}[combine]
    starts = [Arithmetic(b).fill(Value(row), start) for start in first]

    def step(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        so_far, this = (params[0], params[1]), (params[2], params[3])
        if combine == "multiply":
            made = product(Real(inner), so_far, this)
        else:
            made = extreme(Real(inner), so_far, this, "GT" if combine == "maximum" else "LT")
        return [*made, *made]

    attrs = {"carries": 2, "length": rows[0].shape[0], "reverse": op.attrs["reverse"]}
    made = b.op_all("scan", *starts, *rows, regions=(build_region(b, [row] * 4, step),), **attrs)[2:]
    back = tuple(front.index(a) for a in range(len(front)))
    real, imag = (b.op("transpose", part, permutation=back) for part in made)
    return real, imag


def _samples() -> list[Sample]:
    found = [
        s
        for s in axis_samples(*({"combine": c, "reverse": r} for c in _RUNNING for r in (False, True)))
        if s.operands[0].dtype != np.bool_ or s.attrs["combine"] in ("maximum", "minimum")
    ]
    for size in (0, 1, 7, 64):
        k = numbers((3, size), np.int64)
        z = (k * 7 % 5 + 1j * (k * 3 % 4)).astype(np.complex64)  # many have equal real parts
        found += [
            Sample((z,), {"dimension": axis, "combine": combine, "reverse": reverse})
            for axis in (0, 1) for combine in ("add", "maximum", "minimum") for reverse in (False, True)
        ]  # fmt: skip
    return found


#: Along ``dimension``, each element combined with all before it (after it, where ``reverse``): JAX's cumsum and kin.
cumulative = OpDef(
    "cumulative",
    OpKind.RUNNING,
    types=_running_types,
    loops=RunningLoops(combine=lambda attrs: COMBINES[attrs["combine"]]),
    reference=_running,
    samples=_samples,
    vjp=cumulative_vjp, jvp=cumulative_jvp, batch=shifted(dimension=one_later),
    parts=_running_parts,
)  # fmt: skip
