"""A trace in progress: the program so far, the sizes it was started with, and what it has asked of them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np

from dyn import config, dtypes
from dyn.dtypes import DType
from dyn.errors import IRError, LeakedTracerError, NotYetError, TraceError, UndecidedDimError, UnsupportedOpError
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, ParamInfo, Region, Value
from dyn.ir.types import TensorType
from dyn.lazy_property import lazy_property
from dyn.ops.shape import constant, dim_size
from dyn.shapes import (
    Dim,
    Facts,
    Reason,
    Relation,
    RelKind,
    Symbol,
    as_dim,
    evaluate,
    format_dim,
    free_symbols,
    linear_in,
    substitute,
)
from dyn.source import Loc, is_own_frame, user_loc
from dyn.trace.attributes import AttributeReads
from dyn.trace.held import Frozen
from dyn.trace.identifiers import identifier
from dyn.trace.literals import is_literal


class Namespace(Protocol):
    """The NumPy namespace as tracers see it: its functions by name, and what it takes for an operand."""

    def is_operand(self, value: object) -> bool: ...

    def has(self, name: str) -> bool: ...

    def __getattr__(self, name: str) -> Callable[..., Any]: ...


class _NamespaceHook:
    """The one hook upward: ``dyn/__init__`` installs the NumPy namespace here, once."""

    namespace: Namespace | None = None


_HOOK = _NamespaceHook()


def install_namespace(namespace: Namespace) -> None:
    """Give tracers the namespace that their operators and protocols call."""
    _HOOK.namespace = namespace


def installed_namespace() -> Namespace:
    """The namespace that was installed."""
    if _HOOK.namespace is None:
        raise NotYetError("dyn.trace was imported without dyn; import dyn first.")
    return _HOOK.namespace


@dataclass(eq=False)
class Trace:
    """The state of one trace. It lives as long as the traced function runs and is known to one context only."""

    name: str
    builder: Builder
    #: The size each symbol has in the call that started the trace; empty when there is none to go by.
    sizes: dict[Symbol, int] = field(default_factory=dict[Symbol, int])
    #: Relations that a Python branch took for granted.
    guards: list[Relation] = field(default_factory=list[Relation])
    hidden: list[tuple[Value, ParamInfo, Any]] = field(default_factory=list[tuple[Value, ParamInfo, Any]])
    alive: bool = True
    #: Whether a size has been asked for its hash.
    has_hashed: bool = False
    #: The trace around this one, where this is that of a region or of a function that is called there.
    outer: Trace | None = None
    #: Of a function that is called in another trace: what its dims are there. None of any other trace.
    caller_dims: Mapping[Symbol, Dim] | None = None
    #: Of such a function: whether it reads what the traces around it know, and so is a part of them.
    reads_outside: bool = False
    #: Of such a function: what it has asked of derivatives that are taken around it (``dyn.trace.custom``).
    derivatives: list[Any] = field(default_factory=list[Any])
    #: Second halves of derivatives that are programs, before what they are given was chosen; None where sizes chose.
    halves: list[Region | None] = field(default_factory=list[Region | None])
    #: Whether a region may read values of the traces around it.
    closes: bool = True
    #: What was data_dependent here, with the arrays that were made of it (``dyn.trace.data_dependent``).
    data_dependent: dict[Any, tuple[Value, Dim]] = field(default_factory=dict[Any, tuple[Value, Dim]])
    #: Whether derivatives are taken of what is traced.
    differentiates: bool = False
    #: What this is a rule of, for its derivative.
    rule_of: object = None
    #: Whether numbers and arrays that are closed over are hidden parameters, of any value and of any size.
    abstracts_closures: bool = False
    #: What it has read of plain objects' attributes; None of the trace of a region.
    reads: AttributeReads | None = None
    #: Gives the names of the arrays that the function closes over, by identity.
    closure: Callable[[], Mapping[int, str]] = dict
    #: The floats that the function closes over, by identity, and the constants that were made of them.
    closed_floats: Mapping[int, object] = field(default_factory=dict[int, object])
    of_closed_floats: list[Value] = field(default_factory=list[Value])
    #: The numbers that are hidden parameters here.
    numbers: dict[Value, object] = field(default_factory=dict[Value, object])
    #: The error of an array of its that JAX's code in C was given, which raises one of its own (``dyn.trace.foreign``).
    refused_look: TraceError | None = None
    #: By identity, the captured arrays that nothing changes, and the elements of constants (``dyn.trace.constants``).
    frozen: dict[int, Frozen] = field(default_factory=dict[int, Frozen])
    constants: dict[int, tuple[Any, Dense]] = field(default_factory=dict[int, tuple[Any, Dense]])
    #: Sizes that functions which are called here say are likely, by symbol (``expect``).
    likely: dict[Symbol, tuple[int, ...]] = field(default_factory=dict[Symbol, tuple[int, ...]])
    #: Hidden parameters by the array, and by whether their axes are dims.
    _hidden_index: dict[tuple[int, bool], Value] = field(default_factory=dict[tuple[int, bool], Value])

    @property
    def here(self) -> Trace:
        """The trace of the region in this one that is being traced; this one where there is none.

        Values and dims from outside of a region know the trace that they come from. What is asked and demanded of them
        inside is asked and demanded there.
        """
        current = current_trace()
        return current if current is not None and self.encloses(current) else self

    @property
    def facts(self) -> Facts:
        return self.here.builder.facts

    @property
    def namespace(self) -> Namespace:
        return installed_namespace()

    @property
    def program(self) -> Trace:
        """The trace of the function that this is in. Dims, guards and captured arrays are its, for all regions."""
        trace = self
        while trace.outer is not None and trace.caller_dims is None:
            trace = trace.outer
        return trace

    def read_from(self, other: Trace) -> None:
        """Note that something is used here that ``other`` knows, a trace around this one."""
        own, home = self.program, other.program
        while own is not home and own.outer is not None:
            own.reads_outside = True
            own = own.outer.program

    def described(self) -> str:
        """The regions and functions around a value, from the inside out: ``the body of scan, in f``."""
        return self.name if self.outer is None else f"{self.name}, in {self.outer.described()}"

    def encloses(self, inner: Trace) -> bool:
        """Whether ``inner`` is this trace, or that of a region in it."""
        trace: Trace | None = inner
        while trace is not None and trace is not self:
            trace = trace.outer
        return trace is self

    def may_read(self, other: Trace) -> bool:
        """Whether values of another trace are values here: it encloses this one, and no region between is closed."""
        trace = self
        while trace is not other and trace.outer is not None and trace.closes:
            trace = trace.outer
        return trace is other and self.alive and other.alive

    def refuse_closure(self, what: str, notes: tuple[str, ...] = ()) -> NoReturn:
        """Raise for a value from outside in a region that takes none."""
        raise UnsupportedOpError(
            f"{self.name} reads {what} from outside.",
            loc=user_loc(),
            notes=notes,
            remedy="make it one more operand: there are its arguments, Python numbers and dimensions alone.",
        )

    def check_alive(self, what: Callable[[], str], notes: tuple[str, ...] = ()) -> None:
        """Raise LeakedTracerError, about ``what()`` of this trace, when the traced function has returned."""
        if not self.alive:
            raise LeakedTracerError(
                f"{what()} of a trace of {self.name!r} is used outside that trace.",
                loc=user_loc(),
                notes=notes,
                remedy="return it from the function instead of keeping it in a global, an attribute or a list.",
            )

    def emit(self, name: str, /, *operands: Value, **attrs: Any) -> Value:
        """Append an op of one result at the user's line."""
        (value,) = self.emit_all(name, *operands, **attrs)
        return value

    def emit_all(
        self, name: str, /, *operands: Value, regions: tuple[Region, ...] = (), **attrs: Any
    ) -> tuple[Value, ...]:
        """Append an op at the user's line."""
        self.check_alive(lambda: f"the op {name}")
        self.builder.loc = user_loc()
        return self.builder.op_all(name, *operands, regions=regions, **attrs)

    def constant(self, array: np.ndarray[Any, Any], *, weak: bool = False) -> Value:
        """A literal. Its array is copied and never changes."""
        self.builder.loc = user_loc()
        self.check_alive(lambda: "a constant")
        attrs: dict[str, Any] = {"weak": True} if weak else {}
        (value,) = self.builder.emit(constant, (), value=Dense(array), **attrs)
        return value

    def number(self, number: object, array: np.ndarray[Any, Any], *, weak: bool = False) -> Value:
        """A number of the user's, whose value in the program is ``array``.

        It is a literal; but where the trace abstracts closures, only if it is written in the code that leads here.
        """
        trace, program = self, self.program
        while trace is not program and trace.outer is not None and trace.closes:
            trace = trace.outer
        if trace is not program or not trace.abstracts_closures or is_literal(number):
            value = self.constant(array, weak=weak)
            if self is program and id(number) in self.closed_floats:
                self.of_closed_floats.append(value)
            return value
        dtype = dtypes.dtype(array.dtype)
        value = trace._hide(array, TensorType(dtype, (), weak), f"captured{len(trace.hidden)}")
        trace.numbers[value] = number
        return value

    def known_number(self, value: Value) -> Any:
        """The number that each element of a value is in this trace; None where it is not known.

        Other calls of the program may have another one: it is for checks, and for what is traced anew at each call.
        """
        element = self.builder.uniform(value)
        return self.program.numbers.get(value) if element is None else element.item()

    def captured(
        self, array: Any, dtype: DType, shape: tuple[int, ...], name: str = "captured", *, literal: bool = False
    ) -> Value:
        """An array that the function closes over, as a hidden parameter: read at each call, never copied.

        Where the trace abstracts closures, its axes are dims, whose sizes are those of this array; those of a
        ``literal``, which is written in the code, are numbers.
        """
        if self.outer is not None and self.caller_dims is None:
            if not self.closes:
                self.refuse_closure(f"an array ({TensorType(dtype, shape)})")
            return self.outer.captured(array, dtype, shape, name, literal=literal)
        has_dims = self.abstracts_closures and not literal
        value = self._hidden_index.get((id(array), has_dims))
        if value is None:
            called = self._closure_names.get(id(array)) if name == "captured" else None
            numbered = f"{name}{len(self.hidden)}"
            name, called = identifier(called or numbered, name), called or numbered
            dims: tuple[Dim, ...] = shape
            if has_dims:
                symbol = self.builder.symbols.symbol
                symbols = [symbol(f"{name}_{axis}", f"{called}.shape[{axis}]") for axis in range(len(shape))]
                self.sizes.update(zip(symbols, shape, strict=True))
                dims = tuple([as_dim(s) for s in symbols])
            # The entry keeps the array alive, so its id stays its own.
            value = self._hide(array, TensorType(dtype, dims), name, called)
            self._hidden_index[id(array), has_dims] = value
        return value

    @lazy_property
    def _closure_names(self) -> Mapping[int, str]:
        """The names of what the function closes over."""
        return self.closure()

    def _hide(self, array: Any, type: TensorType, name: str, called: str = "") -> Value:
        value = Value(type, name)
        self.hidden.append((value, ParamInfo(called or name, hidden=True), array))
        return value

    def dim_value(self, dim: Dim) -> Any:
        """A size as a weakly typed scalar."""
        self.check_alive(lambda: f"the dimension {format_dim(dim)}")
        self.builder.loc = user_loc()
        (value,) = self.builder.emit(dim_size, (), size=dim, dtype=dtypes.int64)
        return self.namespace.wrap(self, value)

    # Questions ------------------------------------------------------------------------------------------------

    def decide(self, yes: Relation, no: Relation) -> bool:
        """Decide which of two opposite relations holds: by proof, or by this trace's sizes and a guard.

        Raises UndecidedDimError where there are no sizes to go by, and ShapeError where these have no answer.
        """
        question = _question(yes)
        self.check_alive(lambda: f"the question {question}")
        here = self.here
        if here.builder.facts.ask(yes).proved:
            return True
        if here.builder.facts.ask(no).proved:
            return False
        self._check_asker(question)
        if any(symbol.data_dependent for symbol in yes.symbols()):
            follows = here.by_emptiness(
                lambda facts: True if facts.ask(yes).proved else False if facts.ask(no).proved else None, yes.symbols()
            )
            if follows is not None:
                return follows
        answer = here.answer(yes, no)
        here.take(yes if answer else no)
        return answer

    def by_emptiness(self, known: Callable[[Facts], bool | None], symbols: frozenset[Symbol]) -> bool | None:
        """The answer to a question of measured sizes that follows from which sizes of this call are 0, with a guard.

        Whether ``n + count == 0``, of ``count`` elements that a mask takes, is known for n >= 1, and for n == 0 if the
        mask has n elements. None where nothing follows; what is ``known`` from facts is asked of these facts and more.
        """
        program, facts = self.program, self.builder.facts
        loc, each = user_loc(), list[Relation]()
        for symbol in sorted(symbols & program.sizes.keys(), key=lambda one: one.uid):
            dim = as_dim(symbol)
            if program.sizes[symbol] == 0:
                each.append(Relation(RelKind.EQ, dim, 0, Reason.about("the branch on {} == 0", (dim,), loc)))
            else:
                each.append(Relation(RelKind.GE, dim, 1, Reason.about("the branch on {} > 0", (dim,), loc)))
        for relations in [*([one] for one in each), *([each] if len(each) > 1 else [])]:
            more = facts
            for relation in relations:
                more = more.assume(relation)
            answer = known(more)
            if answer is not None:
                for relation in relations:
                    self.take(relation)
                return answer
        return None

    def answer(self, yes: Relation, no: Relation | None = None) -> bool:
        """Whether a relation holds in this trace's calls, or its opposite ``no``; by sizes where there is no proof.

        Of a function that is called in another trace it is asked there. Raises what :meth:`decide` does.
        """
        asked = self.builder.facts.ask(yes)
        if asked.proved:
            return True
        if asked.refuted if no is None else self.builder.facts.ask(no).proved:
            return False
        program = self.program
        if program.outer is not None and program.caller_dims is not None:
            there = program.caller_dims
            return program.outer.answer(yes.substituted(there), None if no is None else no.substituted(there))
        symbols = yes.symbols()
        if symbols <= program.sizes.keys():
            return yes.decided(program.sizes)
        late = any(s.data_dependent for s in symbols)
        raise UndecidedDimError(
            f"whether {_question(yes)} cannot be decided: {self._origins(symbols)}.",
            loc=user_loc(),
            remedy="it is known when the program runs, and not while it is traced: use dyn.numpy.where, or "
            "dyn.lax.cond on a comparison of an array."
            if late
            else "call the function with arrays instead of tracing it for a ShapeDtypeStruct, declare the "
            "dimension's range with dyn.Dim or constraints=, or use dyn.numpy.where.",
        )

    def take(self, relation: Relation) -> None:
        """Take for granted what a branch went by: a guard, unless it is proved, here and around this function."""
        if self.builder.facts.ask(relation).proved:
            return
        program = self.program
        builder = program.builder  # whatever region it is asked in, the code there was chosen for all calls
        builder.facts = builder.facts.assume(relation)
        program.guards.append(relation)
        if program.outer is not None and program.caller_dims is not None:
            program.outer.take(relation.substituted(program.caller_dims))

    def expect(self, dim: Dim, sizes: Sequence[int]) -> None:
        """Hint that a dim of this program, a symbol or a multiple of one and a number, often has one of these sizes."""
        if isinstance(dim, int) or len(dim.symbols) != 1:
            return
        (symbol,) = dim.symbols
        linear = linear_in(dim, symbol)
        if linear is None or not isinstance(linear[0], int) or not isinstance(linear[1], int):
            return
        factor, rest = linear[0], linear[1]
        own = [(size - rest) // factor for size in sizes if (size - rest) % factor == 0]
        likely = self.program.likely
        likely[symbol] = tuple(dict.fromkeys((*likely.get(symbol, ()), *own)))

    def only_value(self, dim: Dim) -> int | None:
        """The number that a dim is in all calls; None where it may differ.

        What only the facts around a function say is asked of its other callers.
        """
        value = self.builder.facts.simplify(dim)
        if isinstance(value, int):
            return value
        program = self.program
        if program.outer is None or program.caller_dims is None:
            return None
        found = program.outer.only_value(substitute(dim, program.caller_dims))
        if found is not None:
            reason = Reason.about("the branch on {} == {}", (dim, found), user_loc())
            self.take(Relation(RelKind.EQ, dim, found, reason))
        return found

    def size_of_call(self, dim: Dim) -> int | None:
        """The number that a dim is in the call that is traced; None where there is none, or it depends on data."""
        value = self.builder.facts.simplify(dim)
        if isinstance(value, int):
            return value
        program = self.program
        if program.outer is not None and program.caller_dims is not None:
            return program.outer.size_of_call(substitute(value, program.caller_dims))
        return evaluate(value, program.sizes) if value.symbols <= program.sizes.keys() else None

    def _check_asker(self, question: str) -> None:
        """Only user code makes guards; dyn's own asks the facts, where unknown is an answer. Checked in tests."""
        if not config.current().verify_ir:
            return
        frame = sys._getframe(1)
        # A function of theirs in C, or a graph, has no frame: it is called by a frame of CALLS_USERS.
        while frame is not None and not frame.f_globals.get("CALLS_USERS") and _asks_for_others(frame.f_globals):
            frame = frame.f_back
        if frame is not None and frame.f_globals.get("CALLS_USERS"):
            return
        if frame is not None and is_own_frame(frame.f_code.co_filename):
            raise IRError(
                f"dyn's own code branches on {question}",
                loc=Loc(frame.f_code.co_filename, frame.f_lineno),
                remedy="ask trace.facts there.",
            )

    # Demands --------------------------------------------------------------------------------------------------

    def require(self, relation: Relation) -> None:
        """Demand a relation of the dims: proved, or checked at each call; in a region, where that runs."""
        self.here.builder.adopt((relation,))

    def demand(self, kind: RelKind, lhs: Dim, rhs: Dim, text: str) -> None:
        """Demand a relation at the user's line; ``text`` says why. What is one dim is equal as it is."""
        if kind is not RelKind.EQ or lhs is not rhs:
            self.require(Relation(kind, lhs, rhs, Reason(text, user_loc())))

    def origin(self, dim: Dim) -> str:
        """Origins of a dim's symbols, as text: ``x.shape[0]``."""
        return self._origins(free_symbols(dim))

    def _origins(self, symbols: frozenset[Symbol]) -> str:
        return ", ".join(f"{s.name} is {s.origin}" for s in sorted(symbols, key=lambda s: s.uid))


def _asks_for_others(module: dict[str, Any]) -> bool:
    """Whether the code of a module, by its globals, asks on behalf of whoever called it."""
    return module.get("__name__", "").startswith("dyn.trace.") or module.get("ASKS_FOR_OTHERS", False)


def _question(relation: Relation) -> str:
    """The condition of a Python branch, as text."""
    return relation.reason.text.removeprefix("the branch on ").removeprefix("not ")


_current: ContextVar[Trace | None] = ContextVar("dyn_trace", default=None)


def current_trace() -> Trace | None:
    """The innermost trace of this context."""
    return _current.get()


def trace_variable() -> ContextVar[Trace | None]:
    """The context variable that holds it, for native code, which reads it itself."""
    return _current


class tracing:
    """``with tracing(trace):`` makes a trace the current one."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def __enter__(self) -> Trace:
        self.token = _current.set(self.trace)
        return self.trace

    def __exit__(self, *exc: object) -> None:
        _current.reset(self.token)
        self.trace.alive = False


@contextlib.contextmanager
def outside_of_regions(trace: Trace) -> Iterator[None]:
    """Write into ``trace``, which is open around the region that is being traced, before the op of that region."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)
