"""From StableHLO's records to the ops of a trace.

A program is read by running it on the values of a trace: each operation becomes what its codec says, calls are written
out where they stand, and shape arithmetic is computed with the trace's own dims (``sizes``) instead of being traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from dyn.dtypes import DType, Kind
from dyn.errors import ArtifactError, UnsupportedOpError
from dyn.interop.stablehlo import sizes
from dyn.interop.stablehlo.extra import EXTRA
from dyn.interop.stablehlo.scopes import Scope
from dyn.interop.stablehlo.sizes import Open
from dyn.ir.core import Dense, Op, Region, Value, with_operands
from dyn.ir.hlo import Codec, DecodeRule, HloFunction, HloModule, HloOp, HloRegion, HloSymbol, HloValue
from dyn.ir.opdef import REGISTRY
from dyn.ir.types import TensorType
from dyn.ops.custom_call import registered
from dyn.shapes import Dim, OpaqueKind, Reason, Relation, RelKind, SymExpr
from dyn.source import UNKNOWN, Loc
from dyn.trace.context import Trace, tracing
from dyn.trace.lift import lift
from dyn.trace.tracer import Tracer

Array = np.ndarray[Any, Any]
#: ``impl(*arrays, **attributes)``: an array, or a tuple of them.
CustomCall = Callable[..., Any]
#: Calls and regions in each other: fewer than Python's own limit allows.
_DEEPEST = 100


@functools.lru_cache(maxsize=1)
def decoders() -> Mapping[str, DecodeRule]:
    """What each operation is read by: the codecs of the ops, and ``extra``."""
    found: dict[str, DecodeRule] = {}
    for opdef in REGISTRY.values():
        if isinstance(opdef.stablehlo, Codec):
            for name, rule in opdef.stablehlo.decode.items():
                if name in found:
                    raise AssertionError(f"{name} is read by two ops, {opdef.name} among them")
                found[name] = rule
    return {**EXTRA, **found}


def is_known(name: str) -> bool:
    """Whether an operation is read as it is."""
    return name in decoders()


@dataclass(eq=False)
class _Entry:
    """What is known of a value: its tensor, where one was made, and its elements, where those are sizes."""

    value: Value | None = None
    known: Array | None = None
    #: The operation that computes it, where elements are open questions.
    op: HloOp | None = None


class _Block:
    """The values of a block that is being read, into a trace of its own."""

    def __init__(self, trace: Trace, outer: _Block | None = None) -> None:
        self.trace = trace
        self.outer = outer
        self.entries: Scope[HloValue, _Entry] = Scope(None if outer is None else outer.entries)

    def find(self, value: HloValue) -> _Entry:
        found = self.entries.find(value)
        if found is None:
            raise ArtifactError(f"a value of type {value.type} is used where it is not defined")
        return found


class Reader:
    """The :class:`~dyn.ir.hlo.Decoder` of a module's operations."""

    def __init__(self, module: HloModule, trace: Trace, custom_calls: Mapping[str, CustomCall]) -> None:
        self.module = module
        self.custom_calls = custom_calls
        self.block = _Block(trace)
        self.op: HloOp | None = None
        self.depth = 0
        #: The operation that made each value: for slices from a computed place to that and a size.
        self.makers: dict[HloValue, HloOp] = {}

    # Running ----------------------------------------------------------------------------------------------------

    def call(self, function: HloFunction, args: Sequence[Value]) -> list[Value]:
        """The ops of a function on values of the trace; gives its results."""
        entries = self._called(function, [_Entry(value) for value in args])
        return [self._tensor(e, v.dtype) for e, v in zip(entries, function.body.results, strict=True)]

    def _called(self, function: HloFunction, args: Sequence[_Entry]) -> list[_Entry]:
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

    def _run(self, region: HloRegion) -> list[_Entry]:
        for op in region.ops:
            self.step(op)
        return [self.block.find(v) for v in region.results]

    def step(self, op: HloOp) -> None:
        outer, self.op = self.op, op
        self.makers.update(dict.fromkeys(op.results, op))
        made = self._structural(op)
        if made is None:
            known = self._computed(op)
            made = [_Entry(known=known, op=op)] if known is not None else self._decoded(op)
        if len(made) != len(op.results):
            raise ArtifactError(f"{op.name} gives {len(op.results)} values, and was read as {len(made)}")
        self.block.entries.own.update(zip(op.results, made, strict=True))
        self.op = outer

    def _structural(self, op: HloOp) -> list[_Entry] | None:
        """Calls, sizes, assertions."""
        match op.name:
            case "func.call":
                return self._called(self._function(op.attrs["callee"]), [self.block.find(v) for v in op.operands])
            case "stablehlo.composite" if self._written_out(op):
                callee = self._function(op.attrs["decomposition"])
                return self._called(callee, [self.block.find(v) for v in op.operands])
            case "stablehlo.get_dimension_size":
                return [self._scalar_entry(self.value(op.operands[0]).shape[op.attrs["dimension"]])]
            case "stablehlo.optimization_barrier" if self._reads_sizes(op):
                return [self.block.find(v) for v in op.operands]
            case "shape.shape_of":
                return [_Entry(known=np.array(self.value(op.operands[0]).shape, object))]
            case "tensor.dim":
                place = self.known(op.operands[1])
                if place is None or not isinstance(place[()], int):
                    self.fail("asks for the size of an axis that is not known")
                return [self._scalar_entry(self.value(op.operands[0]).shape[int(place[()])])]
            case "stablehlo.custom_call" if op.attrs["call_target_name"] == "shape_assertion":
                self._assert(op)
                return []
            case _:
                return None

    def _reads_sizes(self, op: HloOp) -> bool:
        return any(self.block.find(v).known is not None for v in op.operands)

    def _written_out(self, op: HloOp) -> bool:
        """Whether a composite is the ops of its decomposition: where it computes with sizes, and where dyn has what it
        is called, and not of complex numbers."""
        if f"composite.{op.attrs['name']}" in decoders():
            return any(v.dtype.kind is Kind.COMPLEX for v in op.operands)
        return not op.operands or self._reads_sizes(op)

    @staticmethod
    def _scalar_entry(dim: Dim) -> _Entry:
        known = np.empty((), object)
        known[()] = dim
        return _Entry(known=known)

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

    def _decoded(self, op: HloOp) -> list[_Entry]:
        self.b.loc = op.loc if op.loc is not UNKNOWN else self.b.loc
        name = op.name
        if name == "stablehlo.custom_call":
            target = op.attrs["call_target_name"]
            if target in self.custom_calls:
                return [_Entry(v) for v in self._custom(self.custom_calls[target], op)]
            if target not in registered():
                name = f"custom_call.{target}"
        elif name == "stablehlo.composite" and f"composite.{op.attrs['name']}" in decoders():
            name = f"composite.{op.attrs['name']}"
        rule = decoders().get(name)
        if rule is None:
            remedy = (
                "give it one: dyn.interop.stablehlo.register_custom_call(name, impl)."
                if name.startswith("custom_call.")
                else ""
            )
            self.fail("has no meaning in this version", remedy)
        return [_Entry(v) for v in rule(self, op)]

    def _custom(self, impl: CustomCall, op: HloOp) -> list[Value]:
        """What a user's function makes of the operands: arrays to arrays, with the attributes by name."""
        attrs = {k: v for k, v in op.attrs.items() if k not in ("call_target_name", "api_version")}
        trace = self.block.trace
        made = impl(*[Tracer(trace, self.value(v)) for v in op.operands], **attrs)
        results = made if isinstance(made, tuple | list) else (made,)
        return [self._as_type(lift(trace, r), v.dtype) for r, v in zip(results, op.results, strict=True)]

    def _as_type(self, value: Value, dtype: DType) -> Value:
        plain = value.dtype is dtype and not value.type.weak
        return value if plain else self.b.op("convert", value, dtype=dtype)

    # Facts ------------------------------------------------------------------------------------------------------

    def _assert(self, op: HloOp) -> None:
        """What the producer checks is demanded of the dims."""
        known = self.block.find(op.operands[0]).known
        if known is None:
            self.fail("asserts something that is no relation between sizes")
        truth = known[()]
        if truth is True:
            return
        message = str(op.attrs.get("error_message", "an imported program asserts it"))
        reason = Reason(_first_sentence(message), op.loc)
        if not isinstance(truth, Open):
            raise UnsupportedOpError(f"the imported program refuses all sizes: {message}", loc=op.loc)
        for kind, lhs, rhs in _relations(truth, self):
            self.b.facts = self.b.facts.assume(Relation(kind, lhs, rhs, reason))

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
        loc = op.loc if op.loc is not UNKNOWN else None
        raise UnsupportedOpError(f"{name} of ({operands}) {text}.", loc=loc, remedy=remedy)

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
            entry = _Entry(copied)
        made = self._tensor(entry, value.dtype)
        self.block.entries[value] = _Entry(made, entry.known, entry.op)
        return made

    def _copied(self, value: HloValue, entry: _Entry) -> Value | None:
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

    def _tensor(self, entry: _Entry, dtype: DType) -> Value:
        return self._made(entry, dtype) if entry.value is None else entry.value

    def _made(self, entry: _Entry, dtype: DType) -> Value:
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
        known = self.known(value)
        if known is None or any(not isinstance(e, int | SymExpr) for e in known.ravel()):
            if value.shape == (0,):
                return ()
            self.fail("has a size that depends on data", "sizes have to follow from the arguments' shapes.")
        return tuple(known.ravel().tolist())

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

    # Regions ----------------------------------------------------------------------------------------------------

    def _inner(self, region: HloRegion, params: Sequence[Value]) -> tuple[Region, Loc]:
        trace, loc = self.block.trace, self.b.loc
        self._deeper("a composite is made of itself, or regions")
        inner = Trace(trace.name, trace.builder.inner(), trace.sizes, trace.guards, outer=trace)
        self.block = _Block(inner, self.block)
        self.block.entries.own.update((p, _Entry(v)) for p, v in zip(region.params, params, strict=True))
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


def _taking(region: Region, free: Sequence[Value]) -> Region:
    """The region with values from outside as parameters after its own."""
    own = {value: Value(TensorType(value.dtype, value.shape), value.name) for value in free}
    ops: tuple[Op, ...] = tuple([with_operands(op, own) for op in region.ops])
    results = tuple([own.get(v, v) for v in region.results])
    return replace(region, params=(*region.params, *own.values()), ops=ops, results=results)


def _first_sentence(message: str) -> str:
    """What an assertion says, without what only its producer knows."""
    text = message.removeprefix("Input shapes do not match the polymorphic shapes specification. ")
    return text.split(" Using the following", 1)[0].rstrip(". ")


def _relations(truth: Open, reader: Reader) -> list[tuple[RelKind, Dim, Dim]]:
    """What holds where an open question is answered with yes."""
    if not truth.any or len(truth.relations) == 1:
        return [_divisible(*r) for r in truth.relations]
    sides = [(lhs, rhs) for kind, lhs, rhs in truth.relations if kind is RelKind.EQ]
    if len(sides) == len(truth.relations):
        pairs = [(a, b) for a, b in sides if a != 1 and b != 1]
        ones = {a if b == 1 else b for a, b in sides if a == 1 or b == 1}
        if len(pairs) == 1 and ones <= set(pairs[0]) and len(ones) == 2:
            return [(RelKind.BROADCASTS, *pairs[0])]
    reader.fail("asserts that one of several relations between sizes holds")


def _divisible(kind: RelKind, lhs: Dim, rhs: Dim) -> tuple[RelKind, Dim, Dim]:
    """``mod(n, 2) == 0`` is that 2 divides n."""
    atom = sizes.opaque(lhs)
    if kind is RelKind.EQ and rhs == 0 and atom is not None and atom.kind is OpaqueKind.MOD:
        dividend, divisor = atom.args
        return RelKind.DIVIDES, divisor, dividend
    return kind, lhs, rhs
