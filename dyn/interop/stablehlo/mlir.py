"""StableHLO's records as modules of jaxlib's MLIR bindings, and back. The only file that touches the bindings."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import ArtifactError, BackendUnavailableError, UnsupportedOpError
from dyn.interop.stablehlo.literals import parse_elements
from dyn.ir.hlo import (
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
from dyn.source import UNKNOWN, Loc

Array = np.ndarray[Any, Any]

#: MLIR's names of element types.
ELEMENTS: dict[str, DType] = {
    "i1": dtypes.bool_, "i8": dtypes.int8, "i16": dtypes.int16, "i32": dtypes.int32, "i64": dtypes.int64,
    "ui8": dtypes.uint8, "ui16": dtypes.uint16, "ui32": dtypes.uint32, "ui64": dtypes.uint64,
    "f16": dtypes.float16, "bf16": dtypes.bfloat16, "f32": dtypes.float32, "f64": dtypes.float64,
    "complex<f32>": dtypes.complex64, "complex<f64>": dtypes.complex128,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in ELEMENTS.items()}
_MAGIC = b"ML\xefR"


@functools.lru_cache(maxsize=1)
def bindings() -> Any:
    """``jaxlib.mlir`` with the dialects that programs are read with; BackendUnavailableError without jaxlib."""
    try:
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, sdy, stablehlo
    except ImportError as error:
        raise BackendUnavailableError(
            f"StableHLO is read and written with the MLIR bindings of jaxlib, which cannot be imported ({error}).",
            remedy='install them with: pip install "dyn[jax]"',
        ) from error
    stablehlo.register_stablehlo_passes()
    return _Bindings(ir, passmanager, _jax_mlir_ext, stablehlo, (stablehlo, chlo, sdy))


class _Bindings:
    def __init__(self, ir: Any, passmanager: Any, jax: Any, stablehlo: Any, dialects: tuple[Any, ...]) -> None:
        self.ir, self.passmanager, self.jax, self.stablehlo = ir, passmanager, jax, stablehlo
        self.dialects = dialects

    def context(self) -> Any:
        """A context of its own for each module: contexts are not shared between threads."""
        context = self.ir.Context()
        registry = self.ir.DialectRegistry()
        self.jax.register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        for dialect in self.dialects:
            dialect.register_dialect(context)
        return context


# --- writing ----------------------------------------------------------------------------------------------------------


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
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise ArtifactError(f"the program is not valid StableHLO: {error}") from None


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
    _write_block(ir, made.regions[0], region, locs, "func.return", {})


def _write_block(
    ir: Any, place: Any, region: HloRegion, locs: Sequence[Any], end: str, outer: Mapping[HloValue, Any]
) -> None:
    block = place.blocks.append(*[_type(ir, p.type) for p in region.params], arg_locs=list(locs))
    values = dict(outer)
    values.update(zip(region.params, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for op in region.ops:
            _write_op(ir, op, values)
        ir.Operation.create(end, operands=[values[v] for v in region.results])


def _write_op(ir: Any, op: HloOp, values: dict[HloValue, Any]) -> None:
    loc = _location(ir, op.loc)
    made = ir.Operation.create(
        op.name, results=[_type(ir, v.type) for v in op.results], operands=[values[v] for v in op.operands],
        attributes={name: _attribute(ir, value) for name, value in op.attrs.items()}, regions=len(op.regions), loc=loc,
    )  # fmt: skip
    for place, region in zip(made.regions, op.regions, strict=True):
        _write_block(ir, place, region, [loc] * len(region.params), "stablehlo.return", values)
    values.update(zip(op.results, made.results, strict=True))


def _type(ir: Any, type: HloType) -> Any:
    dims = "".join(f"{d if isinstance(d, int) else '?'}x" for d in type.shape)
    return ir.Type.parse(f"tensor<{dims}{_NAMES[type.dtype]}>")


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
    """Dense elements. The bindings take bools packed, and floats that NumPy has not by their bits."""
    dtype, data = dtypes.dtype(array.dtype), np.ascontiguousarray(array).reshape(array.shape)
    element = ir.Type.parse(_NAMES[dtype])
    if dtype is dtypes.bool_:
        data = np.packbits(data, bitorder="little")
    elif dtype is dtypes.bfloat16:
        data = data.view(np.uint16)
    if array.size == 0:
        return ir.Attribute.parse(f"dense<> : {_type(ir, HloType(dtype, array.shape))}")
    return ir.DenseElementsAttr.get(data, type=element, shape=list(array.shape))


def text_of(module: Any, *, locations: bool = False) -> str:
    return str(module.operation.get_asm(enable_debug_info=locations))


def bytecode_of(module: Any) -> bytes:
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


def portable_artifact(module: Any, version: str) -> bytes:
    """VHLO bytecode of a version; CHLO is written out in StableHLO first, for it has no versions.

    ``module`` is left as it is. Raises ArtifactError for versions that cannot be written.
    """
    m = bindings()
    with module.context, m.ir.Location.unknown():
        copy = m.ir.Module.parse(bytecode_of(module))
        if any(name.startswith("chlo.") for name in operation_names(copy)):
            legalize_chlo(copy)
        try:
            return m.stablehlo.serialize_portable_artifact(copy, version)
        except (ValueError, m.ir.MLIRError) as error:
            low, high = m.stablehlo.get_minimum_version(), m.stablehlo.get_current_version()
            raise ArtifactError(
                f"the program cannot be written for StableHLO {version}: {error}.",
                remedy=f"use a version from {low} to {high} that has all of its operations.",
            ) from None


def version_of_weeks(weeks: int) -> str:
    """The newest version that consumers of so many weeks ago could read."""
    m = bindings()
    for least, requirement in ((12, "WEEK_12"), (4, "WEEK_4"), (0, "NONE")):
        if weeks >= least:
            chosen = getattr(m.stablehlo.StablehloCompatibilityRequirement, requirement)
            return str(m.stablehlo.get_version_from_compatibility_requirement(chosen))
    raise ArtifactError(f"version={weeks} is a negative number of weeks.")


# --- reading ----------------------------------------------------------------------------------------------------------


def parse(source: str | bytes, known: Callable[[str], bool]) -> HloModule:
    """Text, bytecode or a portable artifact as records.

    CHLO that is not ``known`` (by operation names), or is of complex numbers, is written out in StableHLO. Raises
    ArtifactError, with MLIR's line and column, for what is none of these.
    """
    m = bindings()
    context = m.context()
    found: list[str] = []

    def note(diagnostic: Any) -> bool:
        found.append(f"{diagnostic.location}: {diagnostic.message}")
        return True

    with context, m.ir.Location.unknown(), context.attach_diagnostic_handler(note):
        try:
            module = _parsed(m, context, source)
        except (m.ir.MLIRError, ValueError, RuntimeError) as error:
            said = "; ".join(found) or str(error).strip() or "it cannot be parsed"
            raise ArtifactError(f"this is no StableHLO module: {said}") from None
        if any(_is_foreign(op, known) for op in operations(module)):
            legalize_chlo(module)
        return _Reader(m.ir).module(module)


def _parsed(m: _Bindings, context: Any, source: str | bytes) -> Any:
    if isinstance(source, bytes) and source.startswith(_MAGIC):
        if source[5:14] == b"StableHLO":
            return m.stablehlo.deserialize_portable_artifact(context, source)
        return m.ir.Module.parse(source, context)
    text = source if isinstance(source, str) else source.decode("utf-8", errors="strict")
    if not text.strip():
        raise ValueError("it is empty")
    return m.ir.Module.parse(text, context)


def operations(module: Any) -> Iterator[Any]:
    """All operations of a module, those in regions included."""
    pending = [module.operation]
    while pending:
        op = pending.pop()
        yield op
        pending += [inner.operation for region in op.regions for block in region for inner in block]


def operation_names(module: Any) -> set[str]:
    """The names of all operations of a module."""
    return {op.name for op in operations(module)}


def _is_foreign(op: Any, known: Callable[[str], bool]) -> bool:
    """Whether an operation is CHLO that has to be written out: dyn's twins are of real numbers."""
    return op.name.startswith("chlo.") and not (
        known(op.name) and all("complex<" not in str(v.type) for v in op.operands)
    )


def legalize_chlo(module: Any) -> None:
    """Write CHLO out in StableHLO, in place."""
    m = bindings()
    pipeline = "builtin.module(func.func(chlo-legalize-to-stablehlo,shape-legalize-to-stablehlo),canonicalize)"
    try:
        m.passmanager.PassManager.parse(pipeline).run(module.operation)
    except m.ir.MLIRError as error:
        raise UnsupportedOpError(f"CHLO operations that have no form in StableHLO: {error}") from None


_FIELD = re.compile(r"(\w+) = (\[[^\]]*\]|-?\d+)")


class _Reader:
    """MLIR's objects as records."""

    def __init__(self, ir: Any) -> None:
        self.ir = ir
        self.types: dict[str, HloType] = {}
        self.locs: dict[Any, Loc] = {}

    def module(self, module: Any) -> HloModule:
        functions: dict[str, HloFunction] = {}
        for op in module.body.operations:
            if op.operation.name != "func.func":
                loc = self.loc(op.operation.location)
                raise UnsupportedOpError(f"{op.operation.name} in a module is not supported.", loc=loc)
            function = self.function(op)
            functions[function.name] = function
        attrs = module.operation.attributes
        name = attrs["sym_name"].value if "sym_name" in attrs else "module"
        return HloModule(name, functions)

    def function(self, op: Any) -> HloFunction:
        attrs = op.operation.attributes
        name = attrs["sym_name"].value
        if not list(op.operation.regions[0]):
            raise UnsupportedOpError(f"the function @{name} has no body.", loc=self.loc(op.operation.location))
        body = self.region(op.operation.regions[0], {})
        block = op.operation.regions[0].blocks[0]
        public = "sym_visibility" not in attrs or attrs["sym_visibility"].value != "private"
        return HloFunction(
            name, body, self.mappings(attrs, "arg_attrs"), self.mappings(attrs, "res_attrs"),
            tuple([self.loc(a.location) for a in block.arguments]), public,
            tuple([self.name_of(a.location) for a in block.arguments]),
        )  # fmt: skip

    def mappings(self, attrs: Any, name: str) -> tuple[Mapping[str, Any], ...]:
        return tuple([self.attribute(a) for a in attrs[name]]) if name in attrs else ()

    def region(self, region: Any, outer: Mapping[Any, HloValue]) -> HloRegion:
        blocks = list(region)
        if len(blocks) != 1:
            raise UnsupportedOpError(f"a region of {len(blocks)} blocks is not supported.")
        (block,) = blocks
        values = dict(outer)
        params: list[HloValue] = []
        for argument in block.arguments:
            values[argument] = HloValue(self.type(argument.type, self.loc(argument.location)))
            params.append(values[argument])
        ops: list[HloOp] = []
        *body, end = list(block.operations)
        for op in body:
            ops.append(self.op(op.operation, values))
        return HloRegion(tuple(params), tuple(ops), tuple([values[v] for v in end.operands]))

    def op(self, op: Any, values: dict[Any, HloValue]) -> HloOp:
        loc = self.loc(op.location)
        results = tuple([HloValue(self.type(v.type, loc)) for v in op.results])
        regions = tuple([self.region(region, values) for region in op.regions if list(region)])
        made = HloOp(
            op.name, tuple([values[v] for v in op.operands]), self.attributes(op, results), results, regions, loc
        )
        values.update(zip(op.results, results, strict=True))
        return made

    def attributes(self, op: Any, results: tuple[HloValue, ...]) -> dict[str, Any]:
        if op.name == "stablehlo.constant":
            return {"value": self.constant(op, results[0].type)}
        return {name: self.attribute(op.attributes[name]) for name in op.attributes}

    def constant(self, op: Any, type: HloType) -> Array:
        """Where the bindings have no array for an element type, its text says what it is."""
        dtype, shape = type.dtype, tuple([int(d) for d in type.shape if isinstance(d, int)])
        try:
            attribute = op.attributes["value"]
            found = np.array(attribute)
            if found.dtype == dtype.np:
                return np.array(found, order="C").reshape(shape)
            text = str(attribute)
        except (TypeError, ValueError, BufferError):
            text = str(op)
        return parse_elements(text, dtype, shape)

    def attribute(self, attr: Any) -> Any:
        ir = self.ir
        match attr:
            case ir.BoolAttr() | ir.IntegerAttr() | ir.FloatAttr() | ir.StringAttr():
                return attr.value
            case ir.FlatSymbolRefAttr():
                return HloSymbol(attr.value)
            case ir.DenseI64ArrayAttr() | ir.DenseBoolArrayAttr() | ir.DenseI32ArrayAttr():
                return tuple(attr)
            case ir.DenseIntElementsAttr():
                found: Any = np.array(attr)
                return tuple(map(tuple, found.tolist())) if found.ndim == 2 else tuple(found.ravel().tolist())
            case ir.ArrayAttr():
                return tuple([self.attribute(a) for a in attr])
            case ir.DictAttr():
                return {named: self.attribute(attr[named]) for named in _names(attr)}
            case ir.UnitAttr():
                return True
            case _:
                return self.text_attribute(str(attr))

    def text_attribute(self, text: str) -> Any:
        enum = re.fullmatch(r"#\w+<(\w+) (\w+)>", text)
        if enum is not None:
            return HloEnum(enum[1], enum[2])
        numbers = re.fullmatch(r"#stablehlo\.(\w+)<(.*)>", text, re.DOTALL)
        if numbers is None:
            return HloText(text)
        if numbers[1] == "conv":
            return HloNumbers("conv", {"text": numbers[2]})
        fields: dict[str, Any] = {}
        for name, value in _FIELD.findall(numbers[2]):
            inner = [int(n) for n in re.findall(r"-?\d+", value)]
            fields[name] = tuple(inner) if value.startswith("[") else inner[0]
        return HloNumbers(numbers[1], fields)

    def type(self, type: Any, loc: Loc) -> HloType:
        text = str(type)
        found = self.types.get(text)
        if found is None:
            found = self.types[text] = self.new_type(type, text, loc)
        return found

    def new_type(self, type: Any, text: str, loc: Loc) -> HloType:
        if not isinstance(type, self.ir.RankedTensorType):
            if text in ("index", *ELEMENTS):  # what shape, arith and tensor operations compute with
                return HloType(ELEMENTS.get(text, dtypes.int64), ())
            raise UnsupportedOpError(f"values of type {text} are not supported.", loc=loc)
        element = str(type.element_type)
        dtype = dtypes.int64 if element == "index" else ELEMENTS.get(element)
        if dtype is None:
            raise UnsupportedOpError(f"elements of type {element} ({text}) are not supported.", loc=loc)
        shape = tuple([None if type.is_dynamic_dim(a) else type.get_dim_size(a) for a in range(type.rank)])
        return HloType(dtype, shape)

    def loc(self, loc: Any) -> Loc:
        """The innermost line of a file that it names; else the innermost name."""
        ir, name = self.ir, ""
        for _ in range(64):
            match loc:
                case ir.FileLineColLoc():
                    return Loc(loc.filename, loc.start_line, name)
                case ir.NameLoc():
                    name = name or loc.name_str
                    loc = loc.child_loc
                case ir.CallSiteLoc():
                    loc = loc.callee
                case ir.FusedLoc() if loc.locations:
                    loc = loc.locations[0]
                case _:
                    break
        return Loc(name) if name else UNKNOWN

    def name_of(self, loc: Any) -> str:
        return loc.name_str if isinstance(loc, self.ir.NameLoc) else ""


def _names(attr: Any) -> list[str]:
    return [named.name if hasattr(named, "name") else named for named in attr]
