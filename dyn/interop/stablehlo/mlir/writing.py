"""StableHLO's records as modules of the bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import ArtifactError
from dyn.interop.stablehlo.hlo import (
    HloEnum,
    HloFloat,
    HloFunction,
    HloInt,
    HloModule,
    HloNumbers,
    HloOp,
    HloRegion,
    HloSymbol,
    HloText,
    HloType,
    HloValue,
)
from dyn.interop.stablehlo.mlir.context import NAMES, bindings
from dyn.interop.stablehlo.mlir.untrusted_modules import Diagnostics
from dyn.interop.stablehlo.scopes import ValueScope
from dyn.source import UNKNOWN, Loc

Array = np.ndarray[Any, Any]
_Values = ValueScope[HloValue, Any]


def write(module: HloModule) -> Any:
    """The module as MLIR, verified. Raises ArtifactError with MLIR's own diagnosis where it is not valid."""
    m = bindings()
    context = m.context()
    with context, m.ir.Location.unknown():
        made = m.ir.Module.create()
        made.operation.attributes["sym_name"] = m.ir.StringAttr.get(module.name)
        for name, value in module.attrs.items():
            made.operation.attributes[name] = _attribute(m.ir, value)
        for function in module.functions.values():
            _write_function(m.ir, made.body, function)
        _verify(m.ir, made)
    return made


def _verify(ir: Any, module: Any) -> None:
    said = Diagnostics()
    with module.context.attach_diagnostic_handler(said.note):
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            raise ArtifactError(f"the program is not valid StableHLO: {said.text(error)}") from None


def _write_function(ir: Any, body: Any, function: HloFunction) -> None:
    region = function.body
    params, results = ([_type(ir, v.type) for v in values] for values in (region.params, region.results))
    attrs = {
        "sym_name": ir.StringAttr.get(function.name),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(params, results)),
        "sym_visibility": ir.StringAttr.get("public" if function.public else "private"),
    }
    if function.result_attrs:
        attrs["res_attrs"] = ir.ArrayAttr.get([_attribute(ir, a) for a in function.result_attrs])
    if function.param_attrs:
        attrs["arg_attrs"] = ir.ArrayAttr.get([_attribute(ir, a) for a in function.param_attrs])
    names = function.param_names or ("",) * len(params)
    locs = [ir.Location.name(name) if name else ir.Location.unknown() for name in names]
    made = ir.Operation.create("func.func", attributes=attrs, regions=1, ip=ir.InsertionPoint(body))
    _write_block(ir, made.regions[0], region, locs, "func.return", None)


def _write_block(ir: Any, place: Any, region: HloRegion, locs: Sequence[Any], end: str, outer: _Values | None) -> None:
    block = place.blocks.append(*[_type(ir, p.type) for p in region.params], arg_locs=list(locs))
    values: _Values = ValueScope(outer)
    values.own.update(zip(region.params, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for op in region.ops:
            _write_op(ir, op, values)
        ir.Operation.create(end, operands=[values[v] for v in region.results])


def _write_op(ir: Any, op: HloOp, values: _Values) -> None:
    loc = _location(ir, op.loc)
    made = ir.Operation.create(
        op.name, results=[_type(ir, v.type) for v in op.results], operands=[values[v] for v in op.operands],
        attributes={name: _attribute(ir, value) for name, value in op.attrs.items()}, regions=len(op.regions), loc=loc,
    )  # fmt: skip
    for place, region in zip(made.regions, op.regions, strict=True):
        _write_block(ir, place, region, [loc] * len(region.params), "stablehlo.return", values)
    values.own.update(zip(op.results, made.results, strict=True))


def _type(ir: Any, type: HloType) -> Any:
    dims = "".join(f"{d if isinstance(d, int) else '?'}x" for d in type.shape)
    return ir.Type.parse(f"tensor<{dims}{NAMES[type.dtype]}>")


def _location(ir: Any, loc: Loc) -> Any:
    if not loc.line:
        return ir.Location.name(loc.file) if loc.file and loc is not UNKNOWN else ir.Location.unknown()
    place = ir.Location.file(loc.file, loc.line, 0)
    return ir.Location.name(loc.function, childLoc=place) if loc.function else place


def _attribute(ir: Any, value: Any) -> Any:
    match value:
        case bool():
            return ir.BoolAttr.get(value)
        case int():
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
        case HloInt():
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(value.bits), value.value)
        case float():
            return ir.FloatAttr.get(ir.F64Type.get(), value)
        case HloFloat():
            return ir.FloatAttr.get(ir.F32Type.get(), value.value)
        case str():
            return ir.StringAttr.get(value)
        case np.ndarray():
            return _elements(ir, value)
        case HloEnum():
            return ir.Attribute.parse(f"#stablehlo<{value.kind} {value.value}>")
        case HloNumbers():
            fields = [f"{k} = {list(v) if isinstance(v, tuple) else v}" for k, v in value.fields.items() if v != ()]
            return ir.Attribute.parse(f"#stablehlo.{value.kind}<{', '.join(fields)}>")
        case HloText():
            return ir.Attribute.parse(value.text)
        case HloSymbol():
            return ir.FlatSymbolRefAttr.get(value.name)
        case tuple():
            return _tuple(ir, value)
        case Mapping():
            return ir.DictAttr.get({str(k): _attribute(ir, v) for k, v in value.items()})
        case _:
            raise TypeError(f"no attribute: {value!r}")


def _tuple(ir: Any, value: tuple[Any, ...]) -> Any:
    if value and isinstance(value[0], tuple):
        return _elements(ir, np.array(value, np.int64).reshape(len(value), -1))
    if value and all(isinstance(v, bool) for v in value):
        return ir.DenseBoolArrayAttr.get(list(value))
    if all(isinstance(v, int) for v in value):
        return ir.DenseI64ArrayAttr.get(list(value))
    return ir.ArrayAttr.get([_attribute(ir, v) for v in value])


def _elements(ir: Any, array: Array) -> Any:
    """Dense elements. The bindings take floats that NumPy has not by their bits."""
    dtype, data = dtypes.dtype(array.dtype), np.ascontiguousarray(array).reshape(array.shape)
    element = ir.Type.parse(NAMES[dtype])
    if dtype.is_narrow:
        data = data.view(f"u{dtype.itemsize}")
    if array.size == 0:
        return ir.Attribute.parse(f"dense<> : {_type(ir, HloType(dtype, array.shape))}")
    return ir.DenseElementsAttr.get(data, type=element, shape=list(array.shape))
