"""Survey of a module: all of its operations that dyn does not have, where reading stops at the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dyn.errors import DynError, UnsupportedOpError
from dyn.interop.stablehlo import mlir
from dyn.interop.stablehlo.decode import OpReader, is_known
from dyn.interop.stablehlo.hlo import HloFunction, HloModule, HloOp, HloRegion, HloSymbol, HloValue
from dyn.interop.stablehlo.load import custom_calls
from dyn.source import UNKNOWN, Loc
from dyn.trace.context import Trace, current_trace
from dyn.trace.function import LeafSpec, trace_function
from dyn.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why an operation is not supported, with how often it stands, and at which lines of the module."""

    name: str
    text: str
    remedy: str = ""
    lines: tuple[str, ...] = ()
    count: int = 1


@dataclass(frozen=True, slots=True)
class Survey:
    """The contents of a module: how often it has each operation, by name, and what of it dyn cannot do."""

    operations: tuple[tuple[str, int], ...]
    problems: tuple[Problem, ...]

    @property
    def total(self) -> int:
        return sum(count for _, count in self.operations)


def survey(module: HloModule, function: HloFunction) -> Survey:
    """Look at every operation of ``function`` and of what it calls, each function once; nothing is compiled."""
    counts: Counter[str] = Counter()
    pending, seen = [function], {function.name}
    while pending:
        for op in _ops(pending.pop().body):
            counts[op_name(op)] += 1
            for callee in op.attrs.values():
                if isinstance(callee, HloSymbol) and callee.name in module.functions and callee.name not in seen:
                    seen.add(callee.name)
                    pending.append(module.functions[callee.name])
    return Survey(tuple(sorted(counts.items())), tuple(_problems(module, function)))


def op_name(op: HloOp) -> str:
    """An operation as people tell it from others: custom calls by their targets, composites by their names."""
    if op.name == "stablehlo.custom_call":
        return f"custom_call {op.attrs['call_target_name']}"
    return f"composite {op.attrs['name']}" if op.name == "stablehlo.composite" else op.name


def _ops(region: HloRegion) -> Iterator[HloOp]:
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from _ops(inner)


def _problems(module: HloModule, function: HloFunction) -> list[Problem]:
    notes = _Notes()
    specs = [
        LeafSpec(f"arg{i}", v.dtype, tuple([d if isinstance(d, int) else None for d in v.shape]))
        for i, v in enumerate(function.body.params)
    ]

    def run(tracers: list[Tracer]) -> list[Any]:
        trace = current_trace()
        assert trace is not None, "a module is read in a trace"
        _Surveyor(module, trace, notes).call(function, [t.value_in(trace) for t in tracers])
        return []

    try:
        trace_function(run, "survey", specs)
    except DynError as error:
        # After a stand-in nothing is sure; with none, this is why the module cannot be read.
        if not notes.found:
            notes.add("the module", error)
    return notes.problems()


class _Notes:
    """The problems that were found, equal reasons once."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Problem] = {}

    def add(self, name: str, error: DynError, loc: Loc = UNKNOWN) -> None:
        # What the operands are has no part in it that nothing is known of an operation.
        text = "nothing says what it computes." if _NO_MEANING in error.problem else error.problem
        known = self.found.get((name, text), Problem(name, text, error.remedy, count=0))
        where = error.loc if loc is UNKNOWN else loc
        lines = known.lines if where is None else tuple(dict.fromkeys([*known.lines, str(where)]))
        self.found[name, text] = replace(known, lines=lines, count=known.count + 1)

    def problems(self) -> list[Problem]:
        return list(self.found.values())


class _Surveyor(OpReader):
    """A reader that notes what it cannot read, puts stand-ins for it, and goes on."""

    def __init__(self, module: HloModule, trace: Trace, notes: _Notes) -> None:
        super().__init__(module, trace, custom_calls())
        self.notes = notes
        #: What stand-ins are, and what was computed of them: where it fails, that is no news.
        self.unsure: set[HloValue] = set()

    def step(self, op: HloOp) -> None:
        inner = list(op.regions)
        if op.name == "func.call":
            inner.append(self._function(op.attrs["callee"]).body)
        if not self.unsure.isdisjoint(op.operands):
            self.unsure.update(op.results, *[region.params for region in inner])
        super().step(op)
        if not all(self.unsure.isdisjoint(region.results) for region in inner):
            self.unsure.update(op.results)

    def _read(self, op: HloOp) -> Any:
        return self._tried(super()._read, op)

    def _tried(self, read: Callable[[HloOp], Any], op: HloOp) -> Any:
        block, depth = self.block, self.depth
        try:
            return read(op)
        except Exception as error:
            self.block, self.depth, self.op = block, depth, op
            if self.unsure.isdisjoint(op.operands):
                if not isinstance(error, DynError):
                    raise
                self.notes.add(op_name(op), error, op.loc)
            elif isinstance(error, UnsupportedOpError) and _NO_MEANING in error.problem:
                self.notes.add(op_name(op), error, op.loc)
            self.unsure.update(op.results)
            return self.stand_ins(op)


#: What a reader says of an operation that nothing is known of, whatever its operands are.
_NO_MEANING = "has no meaning in this version"


def types_not_supported(source: str | bytes) -> tuple[Problem, ...]:
    """The types of a module that dyn has not, and how many values have each."""
    m = mlir.bindings()
    context = m.context()
    with context, m.ir.Location.unknown():
        module = mlir.parsed(context, source, trusted=False)
        counts: Counter[str] = Counter()
        names: dict[str, str] = {}
        pending = [module.operation]
        while pending:
            op = pending.pop()
            for value in op.results:
                counts[str(value.type)] += 1
                names.setdefault(str(value.type), op.name)
            for region in op.regions:
                for block in region:
                    counts.update(str(a.type) for a in block.arguments)
                    pending += [inner.operation for inner in block]
    found: list[Problem] = []
    for text, count in sorted(counts.items()):
        try:
            mlir.parse(f"func.func @main(%arg0: {text}) {{ return }}", is_known)
        except UnsupportedOpError as error:
            found.append(Problem(names.get(text, "an argument"), error.problem, count=count))
        except DynError:
            continue  # a type that means nothing outside of this module
    return tuple(found)
