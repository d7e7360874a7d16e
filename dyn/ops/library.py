"""Sorting, which a library computes for now, and what runs along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.core import Op, Value
from dyn.ir.inline_regions import build_region
from dyn.ir.opdef import Attrs, LibraryRoutine, OpDef, OpKind, RunningLoops, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.complex_parts import Pair, Real, componentwise, product
from dyn.ops.order_rules import cumulative_jvp, cumulative_vjp, sort_jvp, sort_vjp
from dyn.ops.ordering import sort_into, stable_order
from dyn.ops.reduce import COMBINES
from dyn.ops.rules import require_same_shapes, samples
from dyn.ops.transform_rules import one_later, shifted

Array = np.ndarray[Any, Any]
_DTYPES = (dtypes.float32, dtypes.bfloat16, dtypes.int64, dtypes.uint8, dtypes.bool_, dtypes.float8_e5m2)


def _axis_samples(*attrs: dict[str, Any]) -> list[Sample]:
    return [
        Sample(sample.operands, {"dimension": axis, **own})
        for sample in samples(1, _DTYPES, -9.0, 9.0)()
        for axis in range(sample.operands[0].ndim)
        for own in attrs
    ]


# --- sort ---------------------------------------------------------------------------------------------------------


def _sort_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    require_same_shapes(ctx, operands)
    if not 0 <= attrs["dimension"] < operands[0].rank:
        raise ctx.fail(f"{attrs['dimension']} is no axis of {operands[0]}")
    count = attrs.get("num_keys", 1)
    if not 1 <= count <= len(operands):
        raise ctx.fail(f"{count} of {len(operands)} operands cannot be keys", "there is at least one operand a key.")
    for key in operands[:count]:
        if key.dtype.kind is Kind.COMPLEX:
            raise ctx.unsupported(
                f"keys are not {key.dtype.name}, which has no order", "sort by real and imaginary parts"
            )
    return tuple(TensorType(x.dtype, x.shape) for x in operands)


def _sort_into(results: Sequence[Array], *operands: Array, dimension: int, descending: bool, num_keys: int = 1) -> None:
    if len(operands) == 1:
        sort_into(results[0], operands[0], dimension, descending)
        return
    order = stable_order(operands[:num_keys], dimension, descending)
    for result, x in zip(results, operands, strict=True):
        if x.ndim == 1:
            x.take(order, out=result, mode="clip")  # in any other mode NumPy writes into a buffer first
        else:
            result[...] = np.take_along_axis(x, order, axis=dimension)


def _sort(*operands: Array, **attrs: Any) -> Array | tuple[Array, ...]:
    results = tuple(np.empty_like(x, order="C") for x in operands)
    _sort_into(results, *operands, **attrs)
    return results[0] if len(operands) == 1 else results


def _key_samples() -> list[Sample]:
    """Samples of sorting by two and three keys, with equal ones among them."""
    calls: list[Sample] = []
    for size in (0, 1, 2, 7, 64):
        rng = np.random.default_rng(size)
        first = rng.integers(0, 3, (2, size)).astype(np.int32)
        second = np.where(rng.random((2, size)) < 0.2, np.nan, rng.integers(0, 3, (2, size))).astype(np.float32)
        places = np.broadcast_to(np.arange(size), (2, size)).copy()
        for descending in (False, True):
            attrs = {"dimension": 1, "descending": descending, "num_keys": 2}
            calls.append(Sample((first, second, places), attrs))
    return [*calls, Sample((first, second.astype(np.float16), second > 1, places), {**attrs, "num_keys": 3})]


#: The operands in the order of the first one's elements along ``dimension``, of equal ones in that of the second one's,
#: and so on for ``num_keys`` of them (1 where it is left out); what is equal in all keeps its order, and NaN is more
#: than any number. Other orders are ``sort_by``'s.
sort = OpDef(
    "sort",
    OpKind.OPAQUE,
    types=_sort_types,
    loops=LibraryRoutine("sort", into=_sort_into),
    reference=_sort,
    samples=lambda: _axis_samples({"descending": False}, {"descending": True})
    + [
        Sample((keys, np.arange(5)[None]), {"dimension": 1, "descending": descending})
        for keys in (np.array([[2.0, np.nan, -0.0, 2.0, 0.0]], np.float32), np.array([[3, 1, 3, 2, 1]], np.int8))
        for descending in (False, True)
    ]
    + _key_samples(),
    vjp=sort_vjp, jvp=sort_jvp, batch=shifted(dimension=one_later),
)  # fmt: skip


# --- running reductions -------------------------------------------------------------------------------------------

_RUNNING = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def _running_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = operands
    if not 0 <= attrs["dimension"] < x.rank:
        raise ctx.fail(f"{attrs['dimension']} is no axis of {x}")
    if x.dtype.kind is Kind.BOOL and attrs["combine"] in ("add", "multiply"):
        raise ctx.unsupported(f"cannot {attrs['combine']} {x.dtype.name}", "convert it with .astype('int64')")
    return (TensorType(x.dtype, x.shape),)


def _running(x: Array, dimension: int, combine: str, reverse: bool) -> Array:
    wide = np.flip(dtypes.widened(x), dimension) if reverse else dtypes.widened(x)
    with np.errstate(all="ignore"):
        result = _RUNNING[combine].accumulate(wide, axis=dimension, dtype=wide.dtype).astype(x.dtype)
    return np.flip(result, dimension) if reverse else result


def _running_parts(b: Any, op: Op, operands: tuple[Any, ...]) -> Pair:
    """Running folds of complex parts: of sums each part's own; a product is a scan of the parts together."""
    if op.attrs["combine"] == "add":
        return componentwise(b, op, operands)
    ((re, im),), axis = operands, op.attrs["dimension"]
    front = (axis, *(a for a in range(len(re.shape)) if a != axis))
    rows = [b.op("transpose", part, permutation=front) for part in (re, im)]
    row = TensorType(re.dtype, rows[0].shape[1:])
    starts = [Arithmetic(b).fill(Value(row), start) for start in (1, 0)]

    def step(inner: Any, params: tuple[Value, ...]) -> list[Value]:
        made = product(Real(inner), (params[0], params[1]), (params[2], params[3]))
        return [*made, *made]

    attrs = {"carries": 2, "length": rows[0].shape[0], "reverse": op.attrs["reverse"]}
    made = b.op_all("scan", *starts, *rows, regions=(build_region(b, [row] * 4, step),), **attrs)[2:]
    back = tuple(front.index(a) for a in range(len(front)))
    real, imag = (b.op("transpose", part, permutation=back) for part in made)
    return real, imag


#: Along ``dimension``, each element combined with all before it (after it, where ``reverse``): JAX's cumsum and kin.
cumulative = OpDef(
    "cumulative",
    OpKind.RUNNING,
    types=_running_types,
    loops=RunningLoops(combine=lambda attrs: COMBINES[attrs["combine"]]),
    reference=_running,
    samples=lambda: [
        s
        for s in _axis_samples(*({"combine": c, "reverse": r} for c in _RUNNING for r in (False, True)))
        if s.operands[0].dtype != np.bool_ or s.attrs["combine"] in ("maximum", "minimum")
    ],
    vjp=cumulative_vjp, jvp=cumulative_jvp, batch=shifted(dimension=one_later),
    parts=_running_parts,
)  # fmt: skip
