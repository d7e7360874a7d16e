"""Modules of the bindings as StableHLO's records."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import ArtifactError, DynError, UnsupportedOpError
from dyn.interop.stablehlo.attributes import ANYWHERE, OF_FUNCTIONS, OF_MODULES, OF_VALUES, SEGMENTS, WRITTEN_OUT
from dyn.interop.stablehlo.hlo import (
    HloEnum,
    HloFunction,
    HloModule,
    HloNumbers,
    HloOp,
    HloRegion,
    HloSymbol,
    HloText,
    HloType,
    HloValue,
)
from dyn.interop.stablehlo.literals import parse_elements
from dyn.interop.stablehlo.mlir.context import ELEMENTS, bindings
from dyn.interop.stablehlo.mlir.forms import parsed
from dyn.interop.stablehlo.mlir.guard import begin
from dyn.interop.stablehlo.mlir.passes import legalize_chlo
from dyn.interop.stablehlo.mlir.untrusted_modules import Diagnostics, operations, readable
from dyn.interop.stablehlo.scopes import ValueScope
from dyn.source import UNKNOWN, Loc

Array = np.ndarray[Any, Any]
#: The bindings' values, by what they are here.
_Values = ValueScope[Any, HloValue]


def parse(source: str | bytes, known: Callable[[str], bool], *, file: str = "-", trusted: bool = False) -> HloModule:
    """Text, bytecode or a portable artifact as records.

    CHLO that is not ``known`` (by operation names), or is of complex numbers, is written out in StableHLO. ``file`` is
    what lines of a text without locations are said to be of. What is ``trusted`` is read without the guards against
    damaged and hostile modules. Raises ArtifactError, with MLIR's line and column, for what is none of these.
    """
    if not trusted:
        begin()  # it starts while the bindings are imported here
    m = bindings()
    context, said = m.context(), Diagnostics()
    with context, m.ir.Location.unknown(), context.attach_diagnostic_handler(said.note):
        try:
            module = parsed(context, source, trusted=trusted)
        except (m.ir.MLIRError, ValueError, RuntimeError) as error:
            text = said.text(error)
            _refuse_dialect(text, source, file)
            raise _refusal(text) from None
        try:
            reader = _MlirReader(m.ir, file, tokens=not trusted)
            if any(_is_foreign(op, known) for op in operations(module)):
                reader.check_chlo(module)
                module = legalize_chlo(module, trusted=trusted)
            return reader.module(module)
        except DynError:
            raise
        except (KeyError, TypeError, RuntimeError) as error:  # of the bindings: names and attributes that they have not
            raise ArtifactError(f"this module has something that jaxlib's bindings cannot read: {error}") from error


_UNREGISTERED = re.compile(
    r'(?:line (\d+), column \d+: )?`?([!#])"(\w+)"<"(.*)">`?.* created with unregistered dialect'
)
_KINDS = {"quant": "quantized types", "sparse_tensor": "sparse tensors"}


def _refusal(said: str) -> ArtifactError | UnsupportedOpError:
    """The error for a module that is not read: types that dyn has not are named; the rest is as MLIR says it."""
    found = _UNREGISTERED.search(said)
    if found is None or found[3] not in _KINDS:
        return ArtifactError(f"this is no StableHLO module: {said}")
    loc = Loc("-", int(found[1])) if found[1] else None
    return UnsupportedOpError(f"{_KINDS[found[3]]} ({found[2]}{found[3]}.{found[4]}) are not supported.", loc=loc)


def _refuse_dialect(said: str, source: str | bytes, file: str) -> None:
    """Raise UnsupportedOpError where MLIR stopped at a dialect that it does not know; it says where, and not which."""
    place = re.search(r"line (\d+), column (\d+): operation being parsed with an unregistered dialect", said)
    if place is None:
        return
    lines = (source if isinstance(source, str) else source.decode("utf-8", errors="replace")).split("\n")
    line, column = int(place[1]), int(place[2])
    words = re.finditer(r"[A-Za-z_][\w$-]*(?:\.[\w$-]+)+", lines[line - 1] if line <= len(lines) else "")
    names = [word[0] for word in words if word.start() < column]  # the place is that of the name, or behind it
    if names:
        dialect = names[-1].split(".")[0]
        raise UnsupportedOpError(
            f"{names[-1]} is an operation of the dialect {dialect!r}, which is not read.", loc=Loc(file, line),
            remedy="lower the program to StableHLO; chlo, shape, tensor and arith are read beside it.",
        ) from None  # fmt: skip


def _is_foreign(op: Any, known: Callable[[str], bool]) -> bool:
    """Tell whether an operation is CHLO that has to be written out: dyn's twins are of real numbers."""
    if not op.name.startswith("chlo."):
        return False
    real = all("complex<" not in str(v.type) for v in op.operands)
    return not (known(op.name) and (real or op.name.startswith("chlo.broadcast_")))


#: Types of the dialect shape: sizes, of one axis or of all, and that a constraint holds.
_OF_SHAPES = {
    "!shape.shape": HloType(dtypes.int64, (None,)),
    "!shape.size": HloType(dtypes.int64, ()),
    "!shape.witness": HloType(dtypes.bool_, ()),
}
#: Numbers in an attribute; more are nothing that an operation is told.
_MANY = 100_000
#: What NumPy has.
MOST_AXES = 64
#: Regions in each other: fewer than Python's own limit allows.
DEEPEST = 100
#: What a module says of how many processes run it.
_COUNTS = ("mhlo.num_partitions", "mhlo.num_replicas")
#: Attributes whose fields are no numbers.
_IN_WORDS = ("dot_algorithm", "result_accuracy")
_FIELD = re.compile(r"(\w+) = (\[[^\]]*\]|-?\d+)")


#: The type of a token, no value of which is kept.
_TOKEN = HloType(dtypes.bool_, ())


def _arrays(values: Sequence[HloValue]) -> tuple[HloValue, ...]:
    """The values that are no tokens."""
    return tuple([v for v in values if v.type is not _TOKEN])


class _MlirReader:
    """MLIR's objects as records."""

    def __init__(self, ir: Any, file: str, *, tokens: bool) -> None:
        self.ir, self.file = ir, file
        #: Whether tokens are refused. JAX orders effects by them, which in dyn's programs are in order anyway.
        self.tokens = tokens
        self.types: dict[str, HloType] = {}
        self.depth = 0

    def module(self, module: Any) -> HloModule:
        functions: dict[str, HloFunction] = {}
        for op in module.body.operations:
            if op.operation.name == "sdy.mesh":  # the devices that arrays are spread over: there is one here
                continue
            if op.operation.name != "func.func":
                loc = self.loc(op.operation.location)
                raise UnsupportedOpError(f"{op.operation.name} in a module is not supported.", loc=loc)
            function = self.function(op)
            functions[function.name] = function
        attrs = module.operation.attributes
        self.check("the module", _names(attrs), OF_MODULES, module.operation.location)
        name = _text(attrs["sym_name"]) if "sym_name" in attrs else "module"
        counts = {name: self.attribute(attrs[name]) for name in _COUNTS if name in attrs}
        return HloModule(name, functions, counts)

    def check(self, what: str, names: Iterable[str], known: Collection[str], location: Any) -> None:
        """Refuse attributes that nothing is known of: they may say that something else is meant."""
        for name in names:
            if name not in known:
                raise UnsupportedOpError(
                    f"{what} has the attribute {name}, which is not known here.", loc=self.loc(location),
                    remedy="leave it out where it changes no element of the results.",
                )  # fmt: skip

    def check_chlo(self, module: Any) -> None:
        """Refuse attributes of CHLO's operations that would be lost where they are written out in StableHLO."""
        for op in operations(module):
            if op.name.startswith("chlo."):
                self.check(op.name, _names(op.attributes), {*ANYWHERE, *SEGMENTS, *WRITTEN_OUT}, op.location)

    def function(self, op: Any) -> HloFunction:
        attrs = op.operation.attributes
        name = _text(attrs["sym_name"])
        self.check(f"the function @{name}", _names(attrs), OF_FUNCTIONS, op.operation.location)
        for field, of in (("arg_attrs", "argument"), ("res_attrs", "result")):
            for number, found in enumerate(self.entries(attrs, field)):
                self.check(f"{of} {number} of @{name}", _names(found), OF_VALUES, op.operation.location)
        if not list(op.operation.regions[0]):
            raise UnsupportedOpError(f"the function @{name} has no body.", loc=self.loc(op.operation.location))
        body = self.region(op.operation.regions[0], None)
        block = op.operation.regions[0].blocks[0]
        arguments = [a for a in block.arguments if self.type(a.type, self.loc(a.location)) is not _TOKEN]
        public = "sym_visibility" not in attrs or _text(attrs["sym_visibility"]) != "private"
        return HloFunction(
            name, body, self.mappings(attrs, "arg_attrs"), self.mappings(attrs, "res_attrs"),
            public, tuple([self.name_of(a.location) for a in arguments]),
        )  # fmt: skip

    def mappings(self, attrs: Any, name: str) -> tuple[Mapping[str, Any], ...]:
        every = [self.attribute(a) for a in self.entries(attrs, name)]
        return tuple([one for one in every if self.tokens or "jax.token" not in one])

    @staticmethod
    def entries(attrs: Any, name: str) -> Iterable[Any]:
        """The entries of an array among the attributes; MLIR's bindings have no ``get`` in older versions."""
        found: Iterable[Any] = attrs[name] if name in attrs else ()  # noqa: SIM401  # see above
        return found

    def region(self, region: Any, outer: _Values | None) -> HloRegion:
        blocks = list(region)
        if len(blocks) != 1:
            raise UnsupportedOpError(f"a region of {len(blocks)} blocks is not supported.")
        (block,) = blocks
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnsupportedOpError(f"regions are more than {DEEPEST} deep.")
        values: _Values = ValueScope(outer)
        params: list[HloValue] = []
        for argument in block.arguments:
            params.append(HloValue(self.type(argument.type, self.loc(argument.location))))
            values[argument] = params[-1]
        ops: list[HloOp] = []
        *body, end = list(block.operations)
        self.check(end.operation.name, _names(end.operation.attributes), ANYWHERE, end.operation.location)
        for op in body:
            ops.append(self.op(op.operation, values))
        self.depth -= 1
        return HloRegion(_arrays(params), tuple(ops), _arrays([values[v] for v in end.operands]))

    def op(self, op: Any, values: _Values) -> HloOp:
        loc = self.loc(op.location)
        results = tuple([HloValue(self.type(v.type, loc)) for v in op.results])
        regions = tuple([self.region(region, values) for region in op.regions if list(region)])
        operands = _arrays([values[v] for v in op.operands])
        made = HloOp(op.name, operands, self.attributes(op, results), _arrays(results), regions, loc)
        values.own.update(zip(op.results, results, strict=True))
        return made

    def attributes(self, op: Any, results: tuple[HloValue, ...]) -> dict[str, Any]:
        names = _names(op.attributes)
        if op.name != "stablehlo.constant":
            return {name: self.attribute(op.attributes[name]) for name in names}
        rest = {name: self.attribute(op.attributes[name]) for name in names if name != "value"}
        return {"value": self.constant(op, results[0].type), **rest}

    def constant(self, op: Any, type: HloType) -> Array:
        """Its elements; without strides where all are one. Where the bindings have no array of a type there is text."""
        dtype, shape = type.dtype, tuple([int(d) for d in type.shape if isinstance(d, int)])
        try:
            attribute = op.attributes["value"]
            found = np.asarray(attribute)
            if found.dtype == dtype.np:
                alike = found.size > 1 and not any(found.strides)
                return np.broadcast_to(found[(0,) * found.ndim].copy(), shape) if alike else found.copy().reshape(shape)
            text = str(attribute)
        except (TypeError, ValueError, BufferError):
            text = str(op)
        return parse_elements(text, dtype, shape)

    def attribute(self, attr: Any) -> Any:
        ir = self.ir
        match attr:
            case ir.BoolAttr() | ir.IntegerAttr() | ir.FloatAttr():
                return attr.value
            case ir.StringAttr():
                return _text(attr)
            case ir.FlatSymbolRefAttr():
                return HloSymbol(readable(lambda: attr.value, "?"))
            case ir.DenseI64ArrayAttr() | ir.DenseBoolArrayAttr() | ir.DenseI32ArrayAttr():
                return tuple(attr)
            case ir.DenseIntElementsAttr():
                found: Any = np.asarray(attr)
                if found.size > _MANY:
                    return HloText(str(attr))
                return tuple(map(tuple, found.tolist())) if found.ndim == 2 else tuple(found.ravel().tolist())
            case ir.ArrayAttr():
                return tuple([self.attribute(a) for a in attr])
            case ir.DictAttr():
                return {named: self.attribute(attr[named]) for named in _names(attr)}
            case ir.UnitAttr():
                return True
            case _:
                return self.text_attribute(readable(lambda: str(attr), "?"))

    def text_attribute(self, text: str) -> Any:
        enum = re.fullmatch(r"#\w+<(\w+) (\w+)>", text)
        if enum is not None:
            return HloEnum(enum[1], enum[2])
        numbers = re.fullmatch(r"#stablehlo\.(\w+)<(.*)>", text, re.DOTALL)
        if numbers is None:
            return HloText(text)
        if numbers[1] == "conv":
            return HloNumbers("conv", {"text": numbers[2]})
        if numbers[1] in _IN_WORDS:
            return HloText(text)
        fields: dict[str, Any] = {}
        for name, value in _FIELD.findall(numbers[2]):
            inner = [int(n) for n in re.findall(r"-?\d+", value)]
            fields[name] = tuple(inner) if value.startswith("[") else inner[0]
        return HloNumbers(numbers[1], fields)

    def type(self, type: Any, loc: Loc) -> HloType:
        text = readable(lambda: str(type), "?")
        found = self.types.get(text)
        if found is None:
            found = self.types[text] = self.new_type(type, text, loc)
        return found

    def new_type(self, type: Any, text: str, loc: Loc) -> HloType:
        if text == "!stablehlo.token" and not self.tokens:
            return _TOKEN
        if not isinstance(type, self.ir.RankedTensorType):
            if text in ("index", *ELEMENTS):  # what shape, arith and tensor operations compute with
                return HloType(ELEMENTS.get(text, dtypes.int64), ())
            if text in _OF_SHAPES:
                return _OF_SHAPES[text]
            raise UnsupportedOpError(f"values of type {text} are not supported.", loc=loc)
        element = str(type.element_type)
        dtype = dtypes.int64 if element == "index" else ELEMENTS.get(element)
        if dtype is None:
            raise UnsupportedOpError(f"elements of type {element} ({text}) are not supported.", loc=loc)
        shape = tuple([None if type.is_dynamic_dim(a) else type.get_dim_size(a) for a in range(type.rank)])
        if len(shape) > MOST_AXES or dtype.itemsize * math.prod([d for d in shape if d]) >= 1 << 63:
            raise UnsupportedOpError(
                f"values of type {text} are not supported: an array has {MOST_AXES} axes and 2**63 bytes at most.",
                loc=loc,
            )
        return HloType(dtype, shape, _bounds(type.encoding, text, loc))

    def loc(self, loc: Any) -> Loc:
        """The innermost line of a file that it names; else the innermost name."""
        name = ""
        for _ in range(64):
            match _kind_of_location(loc):
                case "file":
                    file = _name(loc, "filename")
                    return Loc(self.file if file == "-" else file, loc.start_line, name)  # MLIR's name of a text
                case "name":
                    name = name or _name(loc, "name_str")
                    loc = loc.child_loc
                case "callsite":
                    loc = loc.callee
                case "fused" if loc.locations:
                    loc = loc.locations[0]
                case _:
                    break
        return Loc(name) if name else UNKNOWN

    def name_of(self, loc: Any) -> str:
        return _name(loc, "name_str") if _kind_of_location(loc) == "name" else ""


_LOCATIONS = {"FileLineColLoc": "file", "NameLoc": "name", "CallSiteLoc": "callsite", "FusedLoc": "fused"}


def _kind_of_location(loc: Any) -> str:
    """The kind of a location, by its class or, where it has none of its own (jaxlib 0.9), by what it says of itself."""
    kind = _LOCATIONS.get(type(loc).__name__, "")
    if not kind and hasattr(loc, "is_a_file"):
        return next((kind for kind in _LOCATIONS.values() if getattr(loc, f"is_a_{kind}")()), "")
    return kind


def _text(attr: Any) -> str:
    """A string, which need not be UTF-8."""
    return attr.value_bytes.decode(errors="backslashreplace")


def _name(loc: Any, field: str) -> str:
    """A text of a location."""
    return readable(lambda: getattr(loc, field), "?")


def _bounds(encoding: Any, text: str, loc: Loc) -> tuple[int | None, ...]:
    """``#stablehlo.bounds<8, ?>``"""
    if encoding is None:
        return ()
    found = re.fullmatch(r"#stablehlo\.bounds<(.*)>", str(encoding))
    if found is None:
        raise UnsupportedOpError(f"tensors with {encoding} ({text}) are not supported.", loc=loc)
    return tuple([None if word.strip() == "?" else int(word) for word in found[1].split(",")])


def _names(attr: Any) -> list[str]:
    return [named.name if hasattr(named, "name") else named for named in attr]
