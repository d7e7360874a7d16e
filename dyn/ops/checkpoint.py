"""Functions that are computed again where they are differentiated, instead of being remembered: ``dyn.checkpoint``.

The first pass keeps what went in, and what a policy saves of what is computed on the way. The second one, among the ops
of the derivatives, stands behind a barrier, so that it is not merged with the first (A. Griewank and A. Walther,
"Algorithm 799: Revolve", 2000, on trading memory for work).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value, with_operands
from dyn.ir.data_dependent import own_mentions, with_own_dims
from dyn.ir.differentiate import gathered, pull_back
from dyn.ir.effects import has_own_effect, regions_without_effects
from dyn.ir.evaluate import RegionFunction
from dyn.ir.inline_regions import build_region, copied, written_once
from dyn.ir.opdef import (
    ContractionLoops,
    Convolution,
    ElementLoops,
    Inline,
    OpDef,
    OpKind,
    Sample,
)
from dyn.ir.types import TensorType
from dyn.ops.call_rules import Maybe, batched_region, call_types, distinct, or_zeros, pushed, smooth
from dyn.ops.identities import nothing
from dyn.ops.pointwise import draw
from dyn.ops.rules import ANY, same_type
from dyn.ops.transform_rules import elementwise_vjp, linear, pointwise_batch
from dyn.shapes import Dim, Facts
from dyn.source import UNKNOWN

Array = np.ndarray[Any, Any]

# --- policies -----------------------------------------------------------------------------------------------------


def _is_dot(op: Op) -> bool:
    return isinstance(op.opdef.loops, ContractionLoops | Convolution)


def _is_plain_dot(op: Op) -> bool:
    return isinstance(op.opdef.loops, ContractionLoops) and not op.attrs["lhs_batch"]


def _is_named(op: Op) -> bool:
    return op.opdef is checkpoint_name


#: What each policy saves: of an op, and of the names that the policy goes with. A policy is the attribute
#: ``(rule, *names)``.
POLICIES: dict[str, Callable[[Op, Sequence[str]], bool]] = {
    "everything_saveable": lambda op, names: True,
    "nothing_saveable": lambda op, names: False,
    "dots_saveable": lambda op, names: _is_dot(op),
    "dots_with_no_batch_dims_saveable": lambda op, names: _is_plain_dot(op),
    "save_only_these_names": lambda op, names: _is_named(op) and op.attrs["name"] in names,
    "save_any_names_but_these": lambda op, names: _is_named(op) and op.attrs["name"] not in names,
    "save_anything_except_these_names": lambda op, names: True,
}


def _kept(region: Region, policy: tuple[str, ...]) -> list[Op]:
    """The ops whose results the policy saves, and those with effects, which run once. A value that has a name which is
    left out is not saved without it.

    Neither is one of a size that the function finds out: the second pass finds out its own.
    """
    rule, *names = policy
    out: set[Value] = set()
    if rule == "save_anything_except_these_names":
        out = {v for op in region.ops if _is_named(op) and op.attrs["name"] in names for v in (*op.operands, op.result)}
    return [
        op
        for op in region.ops
        if has_own_effect(op) or (POLICIES[rule](op, names) and out.isdisjoint(op.results) and not own_mentions(op))
    ]


# --- rules --------------------------------------------------------------------------------------------------------


def _prepare(op: Op) -> Op:
    """Keeps what the policy saves: one more result each."""
    if "saved" in op.attrs:
        return op
    (body,) = op.regions
    b = Builder(Facts.EMPTY, op.loc)  # nothing is inferred, so nothing is demanded
    params = tuple([Value(v.type, v.name) for v in body.params])
    results = written_once(b, body, params, prepare=True)
    flat = Region(params, tuple(b.ops), results, body.demands)
    kept = list(dict.fromkeys(v for inner in _kept(flat, op.attrs["policy"]) for v in inner.results))
    attrs = {**op.attrs, "saved": len(kept)}
    made = (*op.results, *(Value(v.type, v.name) for v in kept))
    return Op(op.opdef, op.operands, attrs, made, op.loc, (replace(flat, results=(*results, *kept)),))


def _vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """The second pass and the derivatives: a checkpoint of their own, for derivatives of the second order."""
    if "saved" not in op.attrs:
        ready = copied(_prepare(op), {v: v for v in op.operands})
        b.append(ready)
        op, cts = ready, (*cts, *(None,) * (len(ready.results) - len(cts)))
    (body,) = op.regions
    outs = len(op.results) - op.attrs["saved"]
    known = {j: ct for j, ct in enumerate(cts) if ct is not None}
    own = smooth(op.operands)
    count = len(op.operands)
    saved = op.results[outs:]
    given = [*op.operands, *saved, *known.values()]

    def backward(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        values, own_body = _behind_barrier(inner, op, params), with_own_dims(inner, body)
        args, memory = values[:count], dict(zip(own_body.results[outs:], values[count:], strict=False))
        of_results: list[Maybe] = [None] * len(cts)
        for place, j in enumerate(known):
            of_results[j] = values[count + len(saved) + place]
        ops, results = _second_pass(inner, own_body, args, memory)
        found = pull_back(inner, ops, gathered(inner, results, of_results), args)
        return [or_zeros(inner, found[i], args[i]) for i in own]

    region = build_region(b, [v.type for v in given], backward)
    attrs = {name: value for name, value in op.attrs.items() if name != "saved"}
    made = iter(b.emit(op.opdef, given, (region,), **attrs))
    return tuple([next(made) if i in own else None for i in range(count)])


def _behind_barrier(b: Builder, op: Op, values: Sequence[Value]) -> list[Value]:
    """The values where the second pass may have them: not before the cotangents are there."""
    if not op.attrs["prevent_cse"] or op.attrs["policy"] == ("everything_saveable",):
        return distinct(b, values)
    return list(b.op_all("optimization_barrier", *values))


def _second_pass(
    b: Builder, body: Region, args: Sequence[Value], memory: dict[Value, Value]
) -> tuple[tuple[Op, ...], list[Value]]:
    """The region's ops, of which those whose results are remembered, and those with effects, are not written again;
    and its results."""
    values: dict[Value, Value] = dict(zip(body.params, args, strict=True))
    ops: list[Op] = []
    for op in body.ops:
        if all(v in memory for v in op.results):
            values.update((v, memory[v]) for v in op.results)
            again = with_operands(op, values)
            ops.append(
                Op(op.opdef, again.operands, op.attrs, tuple([memory[v] for v in op.results]), op.loc, op.regions)
            )
        else:
            again = copied(regions_without_effects(op), values)
            b.append(again)
            ops.append(again)
    return tuple(ops), [values.get(v, v) for v in body.results]


def _jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """Tangents are a checkpoint too: they may be pulled back."""
    (body,) = op.regions
    moving = {i: t for i, t in enumerate(tangents) if t is not None}
    given = [*op.operands, *moving.values()]
    count, found = len(op.operands), smooth(op.results)

    def forward(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        own: list[Maybe] = [None] * count
        for place, i in enumerate(moving):
            own[i] = params[count + place]
        made = pushed(inner, body, params[:count], own)
        return [or_zeros(inner, made[j], op.results[j]) for j in found]

    region = build_region(b, [v.type for v in given], forward)
    attrs = {name: value for name, value in op.attrs.items() if name != "saved"}
    made = iter(b.emit(op.opdef, given, (region,), **attrs))
    return tuple([next(made) if j in found else None for j in range(len(op.results))])


def _batch(b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    region, _ = batched_region(b, op.regions[0], flags, size, len(op.results))
    return b.emit(op.opdef, operands, (region,), **op.attrs)


# --- the ops ------------------------------------------------------------------------------------------------------


def _computed(*arrays: Array, regions: tuple[RegionFunction, ...], **attrs: Any) -> tuple[Array, ...]:
    return regions[0](*arrays)


def _samples() -> list[Sample]:
    def build(b: Builder, p: tuple[Value, ...]) -> tuple[Value, ...]:
        x, y = p
        inner = b.op("checkpoint_name", b.op("sine", x), name="inner")
        return b.op("multiply", b.op("tanh", inner), y), b.op("add", inner, y)

    calls: list[Sample] = []
    for rule in POLICIES:
        for shape in ((0,), (1,), (7,), (2, 3)):
            x = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
            type = TensorType(dtypes.float64, shape)
            region = build_region(Builder(Facts.EMPTY, UNKNOWN), (type, type), build)
            names = ("inner",) if "names" in rule else ()
            attrs = {"policy": (rule, *names), "prevent_cse": rule != "dots_saveable"}
            calls.append(Sample((x, x + 2), attrs, (region,)))
    return calls


#: The results of its region, which derivatives compute again: with what ``policy`` saves of it, kept by the first pass
#: in ``saved`` further results.
checkpoint = OpDef(
    "checkpoint",
    OpKind.CALL,
    types=call_types,
    loops=Inline.AFTER_TRACE,
    reference=_computed,
    samples=_samples,
    vjp=_vjp, jvp=_jvp, batch=_batch,
    prepare=_prepare,
)  # fmt: skip

#: The operand, which policies know by ``name``.
checkpoint_name = OpDef(
    "checkpoint_name",
    OpKind.POINTWISE,
    types=same_type(ANY),
    loops=ElementLoops(lambda k, op, index, get: get(0, index)),
    reference=lambda x, name: np.array(x),
    samples=lambda: [Sample(s.operands, {"name": "x"}) for s in draw(1, (dtypes.float32, dtypes.int8))()],
    vjp=elementwise_vjp(lambda a, ct, y, x: (ct,)),
    jvp=linear(), batch=pointwise_batch,
    simplify=nothing,
    parts=lambda b, op, operands: operands[0],
)  # fmt: skip
