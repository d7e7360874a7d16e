"""Operations that producers compute sizes with: of the dialects ``arith``, ``tensor``, ``shape``; CHLO that broadcasts.

Where they compute with sizes alone, ``sizes`` has them. Here is the rest: those that ask for a shape, those that say
what sizes must be, and what they are of data. Integers of ``arith`` have no sign of their own; sizes are not negative,
and data are taken to be signed, but for what asks for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn.dtypes import Kind
from dyn.interop.sizes import elements
from dyn.interop.sizes.elements import SizeQuery
from dyn.interop.stablehlo.hlo import HloEnum, HloOp, HloType, HloValue
from dyn.ir.core import Value
from dyn.shapes import Dim, RelKind
from dyn.shapes import broadcast as broadcast_dims

Array = np.ndarray[Any, Any]
#: What a rule gives for each result: a tensor, or elements that are sizes.
Made = Value | Array
#: ``rule(reader, operation)``; None where the operation computes with sizes and has a rule there.
Rule = Callable[[Any, HloOp], Sequence[Made] | None]

# --- arith ------------------------------------------------------------------------------------------------------------

_TWINS = {
    "addi": "add", "subi": "subtract", "muli": "multiply", "divsi": "divide", "remsi": "remainder", "maxsi": "maximum",
    "minsi": "minimum", "andi": "and", "ori": "or", "xori": "xor", "select": "select", "index_cast": "convert",
    "index_castui": "convert", "extsi": "convert", "extui": "convert", "trunci": "convert",
}  # fmt: skip
#: ``arith.cmpi``'s predicates by their numbers; from 6 on they are those of numbers without a sign.
_PREDICATES = ("EQ", "NE", "LT", "LE", "GT", "GE", "LT", "LE", "GT", "GE")


def as_stablehlo(d: Any, op: HloOp) -> HloOp:
    """An operation of ``arith`` as StableHLO's of the same meaning; any other as it is."""
    if not op.name.startswith("arith."):
        return op
    name = op.name.removeprefix("arith.")
    if name == "cmpi":
        predicate = int(op.attrs["predicate"])
        if predicate > 5 and any(d.known(v) is None for v in op.operands):
            d.fail("compares data as numbers without a sign", "compare what has an unsigned type.")
        direction = HloEnum("comparison_direction", _PREDICATES[predicate])
        return replace(op, name="stablehlo.compare", attrs={"comparison_direction": direction})
    if name == "extui" and op.operands[0].dtype.kind is not Kind.BOOL and d.known(op.operands[0]) is None:
        d.fail("widens data as numbers without a sign", "use an unsigned type.")
    return replace(op, name=f"stablehlo.{_TWINS[name]}", attrs={}) if name in _TWINS else op


# --- shapes of tensors ------------------------------------------------------------------------------------------------


def _sizes(dims: Sequence[Dim]) -> Array:
    made = np.empty(len(dims), object)
    made[:] = list(dims)
    return made


def _number(dim: Any) -> Array:
    made = np.empty((), object)
    made[()] = dim
    return made


def _shape_of(d: Any, op: HloOp) -> Sequence[Made]:
    return [_sizes(d.value(op.operands[0]).shape)]


def _place(d: Any, value: HloValue) -> int:
    known = d.known(value)
    place = None if known is None else known[()]
    return place if isinstance(place, int) else d.fail("asks for the size of an axis that is not known")


def _dim(d: Any, op: HloOp) -> Sequence[Made]:
    shape, axis = d.value(op.operands[0]).shape, _place(d, op.operands[1])
    if not 0 <= axis < len(shape):
        d.fail(f"asks for the size of axis {axis}")
    return [_number(shape[axis])]


def _rank(d: Any, op: HloOp) -> Sequence[Made]:
    return [_number(len(op.operands[0].shape))]


# --- data in tensors --------------------------------------------------------------------------------------------------


def _all_known(d: Any, op: HloOp) -> bool:
    return all(d.known(v) is not None for v in op.operands)


def _cast(d: Any, op: HloOp) -> Sequence[Made] | None:
    """The tensor itself; that its sizes are those of the result is what every result is held to."""
    return None if _all_known(d, op) else [d.value(op.operands[0])]


def _extract(d: Any, op: HloOp) -> Sequence[Made] | None:
    if _all_known(d, op):
        return None
    x, places = d.value(op.operands[0]), [_place(d, v) for v in op.operands[1:]]
    if not places:
        return [x]
    limit, ones = tuple([p + 1 for p in places]), (1,) * len(places)
    return [d.b.op("reshape", d.b.op("slice", x, start=tuple(places), limit=limit, strides=ones), shape=())]


def _from_elements(d: Any, op: HloOp) -> Sequence[Made] | None:
    shape = op.results[0].shape
    if _all_known(d, op) or not op.operands:
        return None
    parts = [d.b.op("reshape", d.value(v), shape=(1,)) for v in op.operands]
    return [d.b.op("reshape", d.b.op("concatenate", *parts, dimension=0), shape=shape)]


# --- constraints ------------------------------------------------------------------------------------------------------
# A witness is a truth value: what it stands for is demanded where it is made, and a region that needs it runs.

_TRUE = _number(True)


def _aligned(d: Any, op: HloOp) -> list[tuple[Dim, ...]]:
    """The sizes that stand above each other in shapes that are broadcast together, those of one shape as its own."""
    shapes = [d.dims(v) for v in op.operands]
    rank = max((len(s) for s in shapes), default=0)
    return list(zip(*[(1,) * (rank - len(s)) + s for s in shapes], strict=True))


def _demand_broadcast(d: Any, op: HloOp, columns: Sequence[tuple[Dim, ...]]) -> None:
    for sizes in columns:
        joined = sizes[0]
        for size in sizes[1:]:
            d.demand(RelKind.BROADCASTS, joined, size, f"{op.name} takes shapes that broadcast")
            joined = broadcast_dims(joined, size)


def _broadcast(d: Any, op: HloOp) -> Sequence[Made]:
    columns = _aligned(d, op)
    _demand_broadcast(d, op, columns)
    return [_sizes([broadcast_dims(*sizes) for sizes in columns])]


def _cstr_broadcastable(d: Any, op: HloOp) -> Sequence[Made]:
    _demand_broadcast(d, op, _aligned(d, op))
    return [_TRUE]


def _cstr_eq(d: Any, op: HloOp) -> Sequence[Made]:
    shapes = [d.dims(v) for v in op.operands]
    if len({len(s) for s in shapes}) > 1:
        d.fail("takes shapes of different ranks to be equal")
    for sizes in zip(*shapes, strict=True):
        for size in sizes[1:]:
            d.demand(RelKind.EQ, sizes[0], size, f"{op.name} takes shapes that are equal")
    return [_TRUE]


def _cstr_require(d: Any, op: HloOp) -> Sequence[Made]:
    d.assertion(op.operands[0], str(op.attrs["msg"]))
    return [_TRUE]


def _is_broadcastable(d: Any, op: HloOp) -> Sequence[Made]:
    asked = SizeQuery(d.b.facts, op.results[0].dtype)
    truth: Any = True
    for first, *rest in _aligned(d, op):
        for size in rest:
            truth = elements.both(asked, truth, asked.broadcasts(first, size))
    return [_number(truth)]


def _shape_eq(d: Any, op: HloOp) -> Sequence[Made]:
    shapes = [d.dims(v) for v in op.operands]
    if len({len(s) for s in shapes}) > 1:
        return [_number(False)]
    asked = SizeQuery(d.b.facts, op.results[0].dtype)
    truth: Any = True
    for first, *rest in zip(*shapes, strict=True):
        for size in rest:
            truth = elements.both(asked, truth, asked.holds("==", first, size))
    return [_number(truth)]


def _const_witness(d: Any, op: HloOp) -> Sequence[Made]:
    if not op.attrs["passing"]:
        d.fail("says that a constraint never holds")
    return [_TRUE]


def _assuming(d: Any, op: HloOp) -> Sequence[Made]:
    return d.here(op.regions[0])


# --- set_dimension_size -----------------------------------------------------------------------------------------------


def _set_dimension_size(d: Any, op: HloOp) -> Sequence[Made]:
    """The beginning of an axis, as far as a number says that the program finds out while it runs."""
    x, axis = d.value(op.operands[0]), op.attrs["dimension"]
    (size,) = d.dims(op.operands[1])
    d.demand(RelKind.GE, x.shape[axis], size, f"{op.name} of axis {axis} keeps that many of its elements")
    limit = tuple([size if a == axis else n for a, n in enumerate(x.shape)])
    zeros, ones = (0,) * len(limit), (1,) * len(limit)
    return [d.b.op("slice", x, start=zeros, limit=limit, strides=ones)]


# --- CHLO that broadcasts ---------------------------------------------------------------------------------------------

_BROADCASTING = {
    "add", "and", "atan2", "compare", "complex", "divide", "maximum", "minimum", "multiply", "or", "power",
    "remainder", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
}  # fmt: skip


def _broadcasting(d: Any, op: HloOp) -> Sequence[Made]:
    """NumPy's broadcasting, then StableHLO's operation. ``broadcast_dimensions`` are axes of the lower rank's."""
    values = [d.value(v) for v in op.operands]
    rank = max(len(v.shape) for v in values)
    given = op.attrs.get("broadcast_dimensions")
    places = [
        tuple(given) if given is not None and len(v.shape) < rank else tuple(range(rank - len(v.shape), rank))
        for v in values
    ]
    columns: list[tuple[Dim, ...]] = []
    for axis in range(rank):
        sizes = [v.shape[at.index(axis)] for v, at in zip(values, places, strict=True) if axis in at]
        columns.append(tuple(sizes))
    _demand_broadcast(d, op, columns)
    shape = tuple([broadcast_dims(*sizes) for sizes in columns])
    spread = [
        d.stand_in(v if v.shape == shape else d.b.op("broadcast_in_dim", v, shape=shape, dims=at))
        for v, at in zip(values, places, strict=True)
    ]
    attrs = {k: v for k, v in op.attrs.items() if k != "broadcast_dimensions"}
    result = HloValue(HloType(op.results[0].dtype, shape))
    name = "stablehlo." + op.name.removeprefix("chlo.broadcast_")
    d.step(HloOp(name, tuple(spread), attrs, (result,), (), op.loc))
    return [d.value(result)]


def _constant_like(d: Any, op: HloOp) -> Sequence[Made]:
    x, value = d.value(op.operands[0]), op.attrs["value"]
    one = d.constant(np.asarray(value, op.results[0].dtype.np))
    return [d.b.op("broadcast_in_dim", one, shape=x.shape, dims=())]


RULES: Mapping[str, Rule] = {
    "tensor.dim": _dim,
    "tensor.rank": _rank,
    "tensor.cast": _cast,
    "tensor.extract": _extract,
    "tensor.from_elements": _from_elements,
    "shape.shape_of": _shape_of,
    "shape.dim": _dim,
    "shape.broadcast": _broadcast,
    "shape.cstr_broadcastable": _cstr_broadcastable,
    "shape.cstr_eq": _cstr_eq,
    "shape.cstr_require": _cstr_require,
    "shape.const_witness": _const_witness,
    "shape.assuming_all": lambda d, op: [_TRUE],
    "shape.assuming": _assuming,
    "shape.is_broadcastable": _is_broadcastable,
    "shape.shape_eq": _shape_eq,
    "stablehlo.set_dimension_size": _set_dimension_size,
    "chlo.constant_like": _constant_like,
    **{f"chlo.broadcast_{name}": _broadcasting for name in sorted(_BROADCASTING)},
}
