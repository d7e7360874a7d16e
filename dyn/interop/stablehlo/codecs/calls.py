"""Codecs of calls, of barriers, and of what has no form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.interop.stablehlo.attributes import whole
from dyn.interop.stablehlo.codecs.elementwise import decode_as
from dyn.interop.stablehlo.hlo import Codec, HloInt, HloOp, HloRegion, HloType, HloValue
from dyn.ir.builder import Builder
from dyn.ir.core import Value
from dyn.ir.external import External
from dyn.ir.inline_regions import build_region
from dyn.ir.types import TensorType


def _types(op: Any) -> list[HloType]:
    return [HloType.of(v.type) for v in op.results]


def _encode_region(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    made = e.inlined(op.regions[0], operands)
    return [e.cast(value, type) for value, type in zip(made, _types(op), strict=True)]


def written_out(what: str) -> Codec:
    """The codec of a call that is the ops of its first region."""
    return Codec(f"decomposed: its region, {what}", _encode_region)


def in_other_ops(what: str, expand: Callable[[Builder, Any, tuple[Value, ...]], Sequence[Value]]) -> Codec:
    """The codec of an op that is written as other ops: ``expand(b, op, operands)`` makes them, of values that have the
    types of its operands."""

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        types = [v.type for v in op.operands]
        region = build_region(Builder(e.facts, op.loc), types, lambda b, params: expand(b, op, params))
        return [e.cast(v, type) for v, type in zip(e.inlined(region, operands), _types(op), strict=True)]

    return Codec(f"decomposed: {what}", encode)


# --- optimization_barrier ---------------------------------------------------------------------------------------------


def _encode_barrier(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    types = [v.type for v in operands]
    made = e.ops("stablehlo.optimization_barrier", operands, types)
    return [e.cast(value, type) for value, type in zip(made, _types(op), strict=True)]


optimization_barrier = Codec(
    "stablehlo.optimization_barrier",
    _encode_barrier,
    {"stablehlo.optimization_barrier": decode_as("optimization_barrier")},
)


# --- custom_call ------------------------------------------------------------------------------------------------------

#: Attributes that say how an operation is called, and not what it is given.
_CALLING = {
    "call_target_name", "api_version", "backend_config", "has_side_effect", "called_computations", "operand_layouts",
    "result_layouts", "output_operand_aliases", "indices_of_shape_operands",
}  # fmt: skip


def _encode_custom_call(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """Write a custom call. Where a result has symbolic sizes, the shapes of all results are further operands."""
    target = op.attrs["target"]
    if isinstance(target, External):
        raise UnsupportedOpError(
            f"{target.name} has no form in StableHLO: the function that it calls is in this process.",
            loc=op.loc,
            remedy="register the function by name with dyn.lax.register_custom_call, and call it with "
            "dyn.lax.custom_call.",
        )
    types = _types(op)
    dynamic = not all(type.static for type in types)
    shapes = [e.dims(type.shape) for type in types] if dynamic else []
    places = np.arange(len(operands), len(operands) + len(shapes), dtype=np.int64)
    return e.ops(
        "stablehlo.custom_call", [*operands, *shapes], types, call_target_name=target,
        api_version=HloInt(4), backend_config=dict(op.attrs.get("attributes", ())),
        indices_of_shape_operands=places if dynamic else None,
    )  # fmt: skip


def _decode_custom_call(d: Any, op: HloOp) -> Sequence[Any]:
    """A call of what was registered with ``dyn.lax.register_custom_call``."""
    places = op.attrs.get("indices_of_shape_operands", ())
    given = [d.value(v) for i, v in enumerate(op.operands) if i not in places]
    shapes = [d.dims(op.operands[i]) for i in places] or [v.shape for v in op.results]
    if not all(None not in shape for shape in shapes):
        d.fail("has results whose sizes are not known", "sizes have to follow from the arguments' shapes.")
    config = op.attrs.get("backend_config", {})
    named: dict[str, Any] = whole(config) if isinstance(config, Mapping) else {"backend_config": config}
    named |= {name: op.attrs[name] for name in op.attrs if name not in _CALLING}
    return d.b.op_all(
        "custom_call", *given, target=op.attrs["call_target_name"], dtypes=tuple([v.dtype for v in op.results]),
        shapes=tuple(shapes), attributes=tuple(sorted(named.items())),
    )  # fmt: skip


custom_call = Codec("stablehlo.custom_call", _encode_custom_call, {"stablehlo.custom_call": _decode_custom_call})


# --- composite --------------------------------------------------------------------------------------------------------


def _encode_composite(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """A function of the module has no sizes but those of its parameters: what needs others is written out here."""
    (region,) = op.regions
    body = e.outlined(op.attrs["name"], region)
    if body is None:
        return _encode_region(e, op, operands)
    given = [e.cast(v, HloType.of(p.type)) for v, p in zip(operands, region.params, strict=True)]
    made = e.ops(
        "stablehlo.composite", given, [HloType.of(v.type) for v in region.results], name=op.attrs["name"],
        version=HloInt(op.attrs["version"]), composite_attributes=dict(op.attrs["attributes"]), decomposition=body,
    )  # fmt: skip
    return [e.cast(value, type) for value, type in zip(made, _types(op), strict=True)]


def _decode_composite(d: Any, op: HloOp) -> Sequence[Any]:
    values = [_strong(d, d.value(v)) for v in op.operands]
    types = [TensorType(v.dtype, v.shape) for v in values]
    (region,), free = d.closed([d.callee(op.attrs["decomposition"])], types)
    attributes = tuple(sorted(op.attrs.get("composite_attributes", {}).items()))
    return d.b.op_all(
        "composite", *values, *free, regions=(region,), name=op.attrs["name"], version=op.attrs.get("version", 0),
        attributes=attributes,
    )  # fmt: skip


def _strong(d: Any, value: Value) -> Value:
    return d.b.op("convert", value, dtype=value.dtype) if value.type.weak else value


composite = Codec("stablehlo.composite", _encode_composite, {"stablehlo.composite": _decode_composite})


# --- measure ----------------------------------------------------------------------------------------------------------


#: The composite that says of a number that it is a size, and how it is called; others see the number.
MEASURE = "dyn.measure"


def _encode_measure(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    symbol, number = op.attrs["dim"].is_symbol, HloValue(HloType(dtypes.int64, ()))
    if e.for_xla:
        raise NotYetError(
            f"{symbol.name}, a size that depends on values, has no form that XLA can refine.", loc=op.loc,
            remedy="give the function a size of your own (size= of nonzero, unique and their kin).",
        )  # fmt: skip
    same = e.function("measure", HloRegion((number,), (), (number,)))
    attrs = {"name": MEASURE, "decomposition": same, "composite_attributes": {"name": symbol.name}}
    (made,) = e.ops("stablehlo.composite", operands, [number.type], **attrs)
    e.sizes.bind_symbol(symbol, made)
    return [made]


measure = Codec("composite dyn.measure: the number itself, which sizes are computed with", _encode_measure)
