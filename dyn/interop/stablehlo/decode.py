"""Reader of StableHLO's records into the ops of a trace.

A program is read by running it on the values of a trace: each operation becomes what its codec says, calls are written
out where they stand, and shape arithmetic is computed with the trace's own dims (``sizes``) instead of being traced.

This file is longer than most: it is one class, which every rule is given, over the values that were read so far.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import ArtifactError, DynError, UnsupportedOpError
from dyn.interop.sizes.conditions import Comparison, Junction
from dyn.interop.stablehlo import dialects, sizes
from dyn.interop.stablehlo.attributes import Attributes, whole, without_effect
from dyn.interop.stablehlo.claims import reason_of, relations
from dyn.interop.stablehlo.codecs import CODECS
from dyn.interop.stablehlo.codecs.calls import MEASURE
from dyn.interop.stablehlo.composed_operations import EXTRA
from dyn.interop.stablehlo.custom_calls import Imported
from dyn.interop.stablehlo.hlo import DecodeRule, HloFunction, HloModule, HloOp, HloRegion, HloSymbol, HloType, HloValue
from dyn.interop.stablehlo.scopes import ValueScope
from dyn.ir.core import Dense, Op, Region, Value, with_operands
from dyn.ir.types import TensorType
from dyn.ops.custom_call import is_registered
from dyn.shapes import Dim, Reason, Relation, RelKind, SymExpr, as_dim, symbol
from dyn.source import UNKNOWN, Loc
from dyn.trace.context import Trace, tracing
from dyn.trace.data_dependent import dim_from_value
from dyn.trace.lift import lift
from dyn.trace.tracer import Tracer

Array = np.ndarray[Any, Any]
#: ``impl(*arrays, **attributes)``: an array, or a tuple of them.
CustomCall = Callable[..., Any]
#: Calls and regions in each other: fewer than Python's own limit allows.
_DEEPEST = 100
#: The version of CHLO's composites that the rules are for; a newer one is its decomposition.
_NEWEST_COMPOSITE = 1
#: What puts sizes together: theirs are those of the parts.
_PARTS = ("stablehlo.concatenate", "stablehlo.reshape", "stablehlo.convert", "tensor.from_elements")
#: Operations that a module may be written out to, calls in calls: so many, and so many for each that it has.
_LARGEST, _LARGEST_FOR_EACH = 100_000, 100


@functools.lru_cache(maxsize=1)
def decoders() -> Mapping[str, DecodeRule]:
    """The rule that reads each operation: the codecs of the ops, and ``extra``."""
    found: dict[str, DecodeRule] = {}
    for op, codec in CODECS.items():
        for name, rule in codec.decode.items():
            if name in found:
                raise AssertionError(f"{name} is read by two ops, {op} among them")
            found[name] = rule
    return {**EXTRA, **found}


def is_known(name: str) -> bool:
    """Tell whether an operation is read as it is."""
    return name in decoders() or name in dialects.RULES


@dataclass(eq=False)
class _DecodedValue:
    """Knowledge of a value: its tensor, where one was made, and its elements, where those are sizes."""

    value: Value | None = None
    known: Array | None = None
    #: The operation that computes it, where elements are open questions.
    op: HloOp | None = None


def _entry(made: Value | Array) -> _DecodedValue:
    return _DecodedValue(made) if isinstance(made, Value) else _DecodedValue(known=made)


class _Block:
    """The values of a block that is being read, into a trace of its own."""

    def __init__(self, trace: Trace, outer: _Block | None = None) -> None:
        self.trace = trace
        self.outer = outer
        self.entries: ValueScope[HloValue, _DecodedValue] = ValueScope(None if outer is None else outer.entries)

    def find(self, value: HloValue) -> _DecodedValue:
        found = self.entries.find(value)
        if found is None:
            raise ArtifactError(f"a value of type {value.type} is used where it is not defined")
        return found

    def has(self, value: HloValue) -> bool:
        """Tell whether it was read, here or around."""
        return self.entries.find(value) is not None


def rule_names(op: HloOp) -> tuple[str, ...]:
    """The names of an operation: of custom calls and composites also those that their rules have."""
    if op.name == "stablehlo.custom_call":
        return op.name, f"custom_call.{op.attrs['call_target_name']}"
    return (op.name, f"composite.{op.attrs['name']}") if op.name == "stablehlo.composite" else (op.name,)


class OpReader:
    """The :class:`~dyn.interop.stablehlo.hlo.Decoder` of a module's operations."""

    def __init__(
        self, module: HloModule, trace: Trace, custom_calls: Mapping[str, CustomCall],
        rules: Mapping[str, DecodeRule] | None = None, imported: Sequence[Imported] = (),
    ) -> None:  # fmt: skip
        self.module = module
        self.imported = {function.number: function for function in imported}
        #: ``rules`` are those of a producer whose operations differ from the specification's.
        self.rules = decoders() if rules is None else {**decoders(), **rules}
        self.custom_calls = custom_calls
        self.block = _Block(trace)
        self.op: HloOp | None = None
        self.depth = 0
        self.left = _LARGEST + _LARGEST_FOR_EACH * _count(f.body for f in module.functions.values())
        #: The operation that made each value: for slices from a computed place to that and a size.
        self.makers: dict[HloValue, HloOp] = {}

    # Running ----------------------------------------------------------------------------------------------------

    def call(self, function: HloFunction, args: Sequence[Value]) -> list[Value]:
        """The ops of a function on values of the trace; gives its results."""
        entries = self._called(function, [_DecodedValue(value) for value in args])
        return [self._tensor(e, v.dtype) for e, v in zip(entries, function.body.results, strict=True)]

    def _called(self, function: HloFunction, args: Sequence[_DecodedValue]) -> list[_DecodedValue]:
        if len(args) != len(function.body.params):
            raise ArtifactError(f"@{function.name} takes {len(function.body.params)} values, not {len(args)}")
        self._deeper(f"@{function.name} calls itself, or calls")
        self.block.entries.own.update(zip(function.body.params, args, strict=True))
        results = self._run(function.body)
        self.depth -= 1
        return results

    def _deeper(self, what: str) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UnsupportedOpError(f"{what} are {_DEEPEST} deep.")

    def _run(self, region: HloRegion) -> list[_DecodedValue]:
        for op in region.ops:
            self.step(op)
        return [self.block.find(v) for v in region.results]

    def step(self, op: HloOp) -> None:
        """Read an operation: its results are values of the block from here on."""
        outer, self.op = self.op, op
        self.left -= 1
        if self.left < 0:
            raise UnsupportedOpError(
                "the functions of the module call each other too often: written out, it is too large."
            )
        self.makers.update(dict.fromkeys(op.results, op))
        made = self._read(op)
        if len(made) != len(op.results):
            raise ArtifactError(f"{op.name} gives {len(op.results)} values, and was read as {len(made)}")
        for result, entry in zip(op.results, made, strict=True):
            self._hold(op, result, entry)
        self.block.entries.own.update(zip(op.results, made, strict=True))
        self.op = outer

    def _read(self, op: HloOp) -> list[_DecodedValue]:
        """The results, after every attribute was looked at, or is known to change nothing."""
        attrs = Attributes(op.attrs)
        seen = replace(op, attrs=attrs)
        made = self._structural(seen)
        if made is None:
            seen = dialects.as_stablehlo(self, seen)
            known = self._computed(seen)
            made = [_DecodedValue(known=known, op=seen)] if known is not None else self._decoded(seen)
        if made and all(entry.known is not None and entry.known.size == 0 for entry in made):
            return made  # of no elements there is nothing to say
        names = rule_names(op)
        for attribute, value in attrs.unread():
            if not any(without_effect(name, attribute, value) for name in names):
                self.fail(
                    f"has the attribute {attribute}, which is not known here",
                    "leave it out where it changes no element of the results.",
                )
        return made

    def _structural(self, op: HloOp) -> list[_DecodedValue] | None:
        """Calls, sizes, assertions."""
        match op.name:
            case "func.call":
                return self._called(self._function(op.attrs["callee"]), [self.block.find(v) for v in op.operands])
            case "stablehlo.composite" if op.attrs["name"] == MEASURE:
                return [self._measure(op)]
            case "stablehlo.composite" if self._written_out(op):
                callee = self._function(whole(op.attrs)["decomposition"])  # which has all that the attributes say
                return self._called(callee, [self.block.find(v) for v in op.operands])
            case "stablehlo.get_dimension_size":
                return [self._scalar_entry(self.value(op.operands[0]).shape[op.attrs["dimension"]])]
            case "stablehlo.optimization_barrier" if self._reads_sizes(op):
                return [self.block.find(v) for v in op.operands]
            case "stablehlo.custom_call" if op.attrs["call_target_name"] == "shape_assertion":
                self.assertion(op.operands[0], str(op.attrs.get("error_message", "an imported program asserts it")))
                return []
            case _:
                rule = dialects.RULES.get(op.name)
                made = None if rule is None else self._ruled(rule, op)
                return None if made is None else [_entry(m) for m in made]

    def _hold(self, op: HloOp, result: HloValue, entry: _DecodedValue) -> None:
        """Demand what the type of a result says of its sizes: numbers, and bounds."""
        if entry.value is None or len(entry.value.shape) != len(result.shape):
            return
        for axis, (dim, said) in enumerate(zip(entry.value.shape, result.shape, strict=True)):
            bound = result.type.bound(axis)
            if isinstance(said, int):
                self.demand(RelKind.EQ, dim, said, f"{op.name} gives {said} elements along axis {axis}")
            elif bound is not None:
                self.demand(RelKind.GE, bound, dim, f"{op.name} gives at most {bound} elements along axis {axis}")

    def _reads_sizes(self, op: HloOp) -> bool:
        return any(self.block.find(v).known is not None for v in op.operands)

    def _written_out(self, op: HloOp) -> bool:
        """Tell whether a composite is the ops of its decomposition.

        It is where it computes with sizes, and where dyn has no op of its name, or none for complex numbers.
        """
        if f"composite.{op.attrs['name']}" in self.rules:
            complex_ = any(v.dtype.kind is Kind.COMPLEX for v in op.operands)
            return complex_ or int(op.attrs.get("version", 0)) > _NEWEST_COMPOSITE
        return not op.operands or self._reads_sizes(op)

    @staticmethod
    def _scalar_entry(dim: Dim) -> _DecodedValue:
        known = np.empty((), object)
        known[()] = dim
        return _DecodedValue(known=known)

    def _function(self, symbol: HloSymbol) -> HloFunction:
        function = self.module.functions.get(symbol.name)
        if function is None:
            raise ArtifactError(f"there is no function @{symbol.name} in the module")
        return function

    def _computed(self, op: HloOp) -> Array | None:
        if len(op.results) != 1 or not sizes.followed(op.results[0].dtype):
            return None
        operands: list[Array] = []
        for value in op.operands:
            known = self.block.find(value).known
            if known is None:
                return None
            operands.append(known)
        return sizes.computed(op, operands, self.b.facts)

    def _decoded(self, op: HloOp) -> list[_DecodedValue]:
        self.b.loc = op.loc if op.loc is not UNKNOWN else self.b.loc
        *_, name = rule_names(op)
        if op.name == "stablehlo.custom_call":
            target = op.attrs["call_target_name"]
            if target in self.custom_calls:
                return [_DecodedValue(v) for v in self._custom(self.custom_calls[target], op)]
            if is_registered(target):
                name = op.name
        elif op.name == "stablehlo.composite" and name not in self.rules:
            name = op.name
        rule = self.rules.get(name)
        if rule is None:
            remedy = (
                "give it one: dyn.interop.stablehlo.register_custom_call(name, impl), where impl may be a dyn.ffi_call."
                if name.startswith("custom_call.")
                else ""
            )
            self.fail("has no meaning in this version", remedy)
        return [_DecodedValue(v) for v in self._ruled(rule, op)]

    def _ruled(self, rule: Callable[[Any, HloOp], Any], op: HloOp) -> Any:
        """The results of a rule for an operation; UnsupportedOpError where it is not as the rule has it.

        The verifier knows the attributes of StableHLO's operations, but not those of custom calls and composites.
        """
        try:
            return rule(self, op)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DynError):
                raise
            said = f"{type(error).__name__}: {error}"
        self.fail(f"is not as it should be: {said}")

    def _custom(self, impl: CustomCall, op: HloOp) -> list[Value]:
        """The results of a user's function of the operands: arrays to arrays, with the attributes by name."""
        attrs = {k: v for k, v in whole(op.attrs).items() if k not in ("call_target_name", "api_version")}
        trace = self.block.trace
        made = impl(*[Tracer(trace, self.value(v)) for v in op.operands], **attrs)
        results = made if isinstance(made, tuple | list) else (made,)
        return [self._as_type(lift(trace, r), v.dtype) for r, v in zip(results, op.results, strict=True)]

    def _as_type(self, value: Value, dtype: DType) -> Value:
        plain = value.dtype is dtype and not value.type.weak
        return value if plain else self.b.op("convert", value, dtype=dtype)

    def stand_ins(self, op: HloOp) -> list[_DecodedValue]:
        """Values for the results of an operation that cannot be read, so that those after it can be looked at."""
        shapes = [tuple([as_dim(symbol("unread")) if d is None else d for d in v.shape]) for v in op.results]
        return [_DecodedValue(Value(TensorType(v.dtype, s))) for v, s in zip(op.results, shapes, strict=True)]

    # Facts ------------------------------------------------------------------------------------------------------

    def assertion(self, value: HloValue, message: str) -> None:
        """Demand of the dims what the producer checks; what is no relation of theirs is computed, and checked."""
        known = self.known(value)
        truth = None if known is None else known[()]
        if truth is True:
            return
        if truth is not None and not isinstance(truth, Comparison | Junction):
            raise UnsupportedOpError(f"the imported program refuses all sizes: {message}", loc=self.loc)
        claimed = None if truth is None else relations(truth)
        if claimed is None:
            holds = self.b.op("convert", self.value(value), dtype=dtypes.int64)
            origin = "whether what the imported program asserts holds, as 0 or 1"
            claimed = [(RelKind.EQ, dim_from_value(self.block.trace, holds, "holds", origin), 1)]
        for kind, lhs, rhs in claimed:
            self.demand(kind, lhs, rhs, reason_of(message))

    def demand(self, kind: RelKind, lhs: Dim, rhs: Dim, text: str) -> None:
        """Demand a relation at the operation's line, where it has one: a name alone says nothing to the user."""
        if kind is not RelKind.EQ or lhs is not rhs:
            loc = self.loc if self.loc is not None and self.loc.line else None
            self.b.facts = self.b.facts.assume(Relation(kind, lhs, rhs, Reason(text, loc)))

    @property
    def loc(self) -> Loc | None:
        """The line of the operation that is read."""
        return None if self.op is None or self.op.loc is UNKNOWN else self.op.loc

    # What rules ask ---------------------------------------------------------------------------------------------

    @property
    def b(self) -> Any:
        return self.block.trace.builder

    def fail(self, text: str, remedy: str = "") -> NoReturn:
        op = self.op
        assert op is not None
        name = op.name
        if name == "stablehlo.custom_call":
            name = f"the custom call {op.attrs['call_target_name']!r}"
        elif name == "stablehlo.composite":
            name = f"the composite {op.attrs['name']!r}"
        operands = ", ".join([self._described(v) for v in op.operands])
        raise UnsupportedOpError(f"{name} of ({operands}) {text}.", loc=self.loc, remedy=remedy)

    def _described(self, value: HloValue) -> str:
        entry = self.block.find(value)
        return str(value.type if entry.value is None else entry.value.type)

    def value(self, value: HloValue) -> Value:
        """The tensor; sizes become one here, in this block."""
        entry = self.block.find(value)
        if entry.value is not None and not (self.block.outer is not None and value not in self.block.entries.own):
            return entry.value
        if entry.value is not None:
            copied = self._copied(value, entry)
            if copied is None:
                return entry.value
            entry = _DecodedValue(copied)
        made = self._tensor(entry, value.dtype)
        self.block.entries[value] = _DecodedValue(made, entry.known, entry.op)
        return made

    def _copied(self, value: HloValue, entry: _DecodedValue) -> Value | None:
        """A number from outside of a region, made again in it."""
        block: _Block | None = self.block.outer
        while block is not None and entry.value is not None:
            maker = block.trace.builder.producer(entry.value)
            if maker is not None:
                if maker.operands or not isinstance(maker.attrs.get("value"), Dense):
                    return None
                return self.b.op(maker.opdef.name, **maker.attrs)
            block = block.outer
        return None

    def _tensor(self, entry: _DecodedValue, dtype: DType) -> Value:
        return self._made(entry, dtype) if entry.value is None else entry.value

    def _made(self, entry: _DecodedValue, dtype: DType) -> Value:
        """Sizes as a tensor."""
        assert entry.known is not None
        known = entry.known
        if not all(isinstance(e, int | SymExpr) for e in known.ravel()):
            assert entry.op is not None
            outer, self.op = self.op, entry.op
            (made,) = self._decoded(entry.op)
            self.op = outer
            assert made.value is not None
            return made.value
        if not any(isinstance(e, SymExpr) for e in known.ravel()):
            return self.b.op("constant", value=Dense(np.array(known.tolist(), dtype.np).reshape(known.shape)))
        if known.ndim == 0:
            size = self.b.op("dim_size", size=known[()], dtype=dtype)
            return self.b.op("convert", size, dtype=dtype)
        first = known.ravel()[0]
        if all(e is first for e in known.ravel()):
            one = self._made(self._scalar_entry(first), dtype)
            return self.b.op("broadcast_in_dim", one, shape=known.shape, dims=())
        parts = [self._made(self._scalar_entry(e), dtype) for e in known.ravel()]
        rows = [self.b.op("reshape", part, shape=(1,)) for part in parts]
        return self.b.op("reshape", self.b.op("concatenate", *rows, dimension=0), shape=known.shape)

    def known(self, value: HloValue) -> Array | None:
        return self.block.find(value).known

    def dims(self, value: HloValue) -> tuple[Dim, ...]:
        """The elements as sizes: those that data say are measured while the program runs."""
        known = self.known(value)
        if known is not None and all(isinstance(e, int | SymExpr) for e in known.ravel()):
            return tuple(known.ravel().tolist())
        if value.shape == (0,):
            return ()
        maker = self.makers.get(value)
        if maker is not None and maker.name in _PARTS and self._inside(maker):
            return tuple([dim for part in maker.operands for dim in self.dims(part)])
        return self._measured(value)

    def _inside(self, op: HloOp) -> bool:
        """Tell whether an operation's operands are still what they were when it was read."""
        return all(self.block.has(v) for v in op.operands)

    def _measured(self, value: HloValue) -> tuple[Dim, ...]:
        vector = self.value(value)
        lengths = [n for n in vector.shape if isinstance(n, int)]
        if not vector.dtype.is_integer or len(lengths) != len(vector.shape):
            self.fail(f"has sizes that are {vector.type}", "sizes are integers, and their number is known.")
        count = math.prod(lengths)
        flat = self.b.op("reshape", vector, shape=(count,))
        dims: list[Dim] = []
        for i in range(count):
            one = self.b.op("slice", flat, start=(i,), limit=(i + 1,), strides=(1,))
            dims.append(self._size(self.b.op("reshape", one, shape=()), "size"))
        return tuple(dims)

    def _measure(self, op: HloOp) -> _DecodedValue:
        """A number that is a size from here on, as dyn writes it."""
        entry = self.block.find(op.operands[0])
        if entry.known is not None:
            return entry
        count = self.value(op.operands[0])
        attrs: Mapping[str, Any] = op.attrs.get("composite_attributes", {})
        dim = self._size(count, str(attrs.get("name", "size")))
        return _DecodedValue(count, self._scalar_entry(dim).known)

    def _size(self, count: Value, name: str) -> Dim:
        """A number that the program computes as a dim."""
        origin = f"a size that {self.op.name} is given" if self.op is not None else "a size"
        return dim_from_value(self.block.trace, count, name, origin)

    def matrix(self, value: HloValue) -> tuple[tuple[Dim, ...], ...]:
        flat, width = self.dims(value), value.shape[-1]
        assert isinstance(width, int)
        return tuple([flat[i : i + width] for i in range(0, len(flat), width)])

    def difference(self, limit: HloValue, start: HloValue) -> tuple[Dim, ...] | None:
        """``limit - start``, where ``limit`` was made by adding sizes to ``start``."""
        maker = self.makers.get(limit)
        if maker is None or maker.name != "stablehlo.add" or start not in maker.operands:
            return None
        first, second = maker.operands
        extent = second if first is start else first
        return self.dims(extent) if self.known(extent) is not None else None

    def callee(self, symbol: HloSymbol) -> HloRegion:
        """The body of a function of the module."""
        return self._function(symbol).body

    def constant(self, array: Array) -> Value:
        return self.b.op("constant", value=Dense(array))

    def stand_in(self, value: Value) -> HloValue:
        """An operand for an operation that is made up here."""
        made = HloValue(HloType.of(value.type))
        self.block.entries[made] = _DecodedValue(value)
        return made

    def here(self, region: HloRegion) -> list[Value | Array]:
        """The results of a region without parameters that runs here."""
        return [
            e.known if e.value is None and e.known is not None else self._tensor(e, v.dtype)
            for e, v in zip(self._run(region), region.results, strict=True)
        ]

    # Regions ----------------------------------------------------------------------------------------------------

    def _inner(self, region: HloRegion, params: Sequence[Value]) -> tuple[Region, Loc]:
        trace, loc = self.block.trace, self.b.loc
        self._deeper("a composite is made of itself, or regions")
        inner = Trace(trace.name, trace.builder.inner(), trace.sizes, trace.guards, outer=trace)
        self.block = _Block(inner, self.block)
        self.block.entries.own.update((p, _DecodedValue(v)) for p, v in zip(region.params, params, strict=True))
        with tracing(inner):
            for op in region.ops:
                self.step(op)
            results = tuple([self._plain(self.value(v)) for v in region.results])
        made = Region(tuple(params), tuple(inner.builder.ops), results, inner.builder.demands)
        assert self.block.outer is not None
        self.block = self.block.outer
        self.depth -= 1
        return made, loc

    def _plain(self, value: Value) -> Value:
        return self.b.op("convert", value, dtype=value.dtype) if value.type.weak else value

    def scalar_region(self, region: HloRegion, count: int | None = None) -> Region:
        params = [Value(TensorType(p.dtype, ())) for p in region.params]
        made, self.b.loc = self._inner(region, params)
        return made

    def closed(
        self, regions: Sequence[HloRegion], types: Sequence[TensorType]
    ) -> tuple[tuple[Region, ...], list[Value]]:
        made: list[Region] = []
        for region in regions:
            inner, self.b.loc = self._inner(region, [Value(t) for t in types])
            made.append(inner)
        free = list(dict.fromkeys(v for region in made for v in region.reads()))
        return tuple([_taking(region, free) for region in made]), free


def _count(regions: Iterable[HloRegion]) -> int:
    """The operations of regions and of those in them."""
    return sum(1 + _count(op.regions) for region in regions for op in region.ops)


def _taking(region: Region, free: Sequence[Value]) -> Region:
    """The region with values from outside as parameters after its own."""
    own = {value: Value(TensorType(value.dtype, value.shape), value.name) for value in free}
    ops: tuple[Op, ...] = tuple([with_operands(op, own) for op in region.ops])
    results = tuple([own.get(v, v) for v in region.results])
    return replace(region, params=(*region.params, *own.values()), ops=ops, results=results)
