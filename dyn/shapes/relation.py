"""Relations between dimensions, with their reasons, and the answers to questions about them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NoReturn

from dyn.errors import DomainError, ShapeError
from dyn.frozen import record
from dyn.shapes.expr import Dim, Opaque, OpaqueKind, Symbol, SymExpr, all_atoms
from dyn.shapes.text import format_dim
from dyn.shapes.walk import evaluate, free_symbols, last_data_dependent, substitute
from dyn.source import Loc


class Verdict(Enum):
    """PROVED: true for every assignment that the facts allow. REFUTED: false for every one. UNKNOWN: neither shown."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


def literal(text: str) -> str:
    """A text as a part of a ``form``, which says of the braces in it nothing but themselves."""
    return text.replace("{", "{{").replace("}", "}}")


@record()
class Reason:
    """Reason of a fact: ``"x.shape[1] and w.shape[0] are contracted by dot_general"``, and the user's line.

    ``form`` is a text that is said of dims, and these dims, where that is known (:meth:`about`). ``error`` is the class
    of the error where the fact does not hold; with one that is given, ``form`` of the dims' values is its whole text,
    and ``remedy`` what is to be done about it.
    """

    text: str
    loc: Loc | None = None
    form: tuple[str, tuple[Dim, ...]] | None = None
    error: type[ShapeError | DomainError] | None = None
    remedy: str = ""

    def __str__(self) -> str:
        return self.text if self.loc is None else f"{self.text} ({self.loc})"

    @staticmethod
    def about(
        form: str, dims: Sequence[Dim], loc: Loc | None, error: type[ShapeError | DomainError] | None = None,
        remedy: str = "",
    ) -> Reason:  # fmt: skip
        """The reason with the dims in the places ``{}`` of ``form``, which says the same of other dims."""
        return Reason(form.format(*[format_dim(dim) for dim in dims]), loc, (form, tuple(dims)), error, remedy)

    def substituted(self, dims: Mapping[Symbol, Dim]) -> Reason:
        """The reason with symbols replaced, where it knows the dims that it speaks of; else the reason as it is."""
        if self.form is None:
            return self
        form, own = self.form
        return Reason.about(form, [substitute(dim, dims) for dim in own], self.loc, self.error, self.remedy)


Why = tuple[Reason, ...]


@record()
class Answer:
    """A verdict and the reasons of the facts that it rests on; none where the algebra alone decides."""

    verdict: Verdict
    why: Why = ()

    @property
    def proved(self) -> bool:
        return self.verdict is Verdict.PROVED

    @property
    def refuted(self) -> bool:
        return self.verdict is Verdict.REFUTED

    @property
    def unknown(self) -> bool:
        return self.verdict is Verdict.UNKNOWN

    def __bool__(self) -> NoReturn:
        raise TypeError("an Answer has three values: ask .proved, .refuted or .unknown")


class Outcome(Enum):
    """Truth of a relation for given sizes: NO_VALUE where a side divides by zero or cannot be broadcast.

    A relation without a value is neither true nor false, and so is its negation: whoever goes by one has to raise.
    """

    YES = "yes"
    NO = "no"
    NO_VALUE = "no value"


class RelKind(Enum):
    """The relations."""

    __hash__ = object.__hash__  # that of Enum is written in Python

    #: ``lhs == rhs``
    EQ = "eq"
    #: ``lhs >= rhs``
    GE = "ge"
    #: ``lhs != 0``; ``rhs`` is not looked at
    NONZERO = "nonzero"
    #: ``rhs`` is a multiple of ``lhs``; of 0 only 0 is
    DIVIDES = "divides"
    #: ``lhs == rhs``, the element counts of two shapes
    SAME_NUMEL = "same_numel"
    #: ``lhs == rhs`` or ``lhs == 1`` or ``rhs == 1``
    BROADCASTS = "broadcasts"


def _divides(k: int, a: int) -> bool:
    return a == 0 if k == 0 else a % k == 0


_HOLDS: dict[RelKind, Callable[[int, int], bool]] = {
    RelKind.EQ: lambda a, b: a == b,
    RelKind.GE: lambda a, b: a >= b,
    RelKind.NONZERO: lambda a, b: a != 0,
    RelKind.DIVIDES: _divides,
    RelKind.SAME_NUMEL: lambda a, b: a == b,
    RelKind.BROADCASTS: lambda a, b: a == b or 1 in (a, b),
}


def truth(kind: RelKind, lhs: int, rhs: int) -> bool:
    """Whether a relation holds between two numbers."""
    return _HOLDS[kind](lhs, rhs)


@record()
class Relation:
    """A relation that must hold, with why; the one source of what is said when it does not.

    ``lhs_shape`` and ``rhs_shape`` are the shapes of a SAME_NUMEL, where it was made from shapes.
    """

    kind: RelKind
    lhs: Dim
    rhs: Dim
    reason: Reason
    lhs_shape: tuple[Dim, ...] | None = None
    rhs_shape: tuple[Dim, ...] | None = None

    def symbols(self) -> frozenset[Symbol]:
        """The symbols that it is about."""
        return free_symbols(self.lhs) | free_symbols(self.rhs)

    def substituted(self, dims: Mapping[Symbol, Dim]) -> Relation:
        """The relation with symbols replaced, all at once."""

        def shape(own: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
            return None if own is None else tuple([substitute(d, dims) for d in own])

        return Relation(
            self.kind, substitute(self.lhs, dims), substitute(self.rhs, dims), self.reason.substituted(dims),
            shape(self.lhs_shape), shape(self.rhs_shape),
        )  # fmt: skip

    def last_data_dependent(self) -> int:
        """The age of the youngest measured symbol that it is about; -1 where there is none."""
        return max(last_data_dependent(self.lhs), last_data_dependent(self.rhs))

    def holds(self, env: Mapping[Symbol, int]) -> bool:
        """Whether it is true for these sizes. A relation without a value is not, and its negation is not either."""
        return self.outcome(env) is Outcome.YES

    def outcome(self, env: Mapping[Symbol, int]) -> Outcome:
        """Its truth for these sizes."""
        try:
            return Outcome.YES if self._value(env) else Outcome.NO
        except ShapeError:
            return Outcome.NO_VALUE

    def decided(self, env: Mapping[Symbol, int]) -> bool:
        """Whether it is true for these sizes; the ShapeError of the line that asks where it has no value."""
        try:
            return self._value(env)
        except ShapeError as error:
            symbols = sorted(self.symbols(), key=lambda s: s.uid)
            raise ShapeError(
                f"{self.reason.text.replace(' on not ', ' on ', 1)} has no answer: {error.problem}",
                loc=self.reason.loc,
                notes=tuple(f"{s.name} is {s.origin} = {env[s]}" for s in symbols),
                remedy=error.remedy,
            ) from None

    def _value(self, env: Mapping[Symbol, int]) -> bool:
        return truth(self.kind, evaluate(self.lhs, env), evaluate(self.rhs, env))

    def describe(self, names: Mapping[Symbol, str] | None = None) -> str:
        """``s == t``"""
        lhs, rhs = format_dim(self.lhs, names), format_dim(self.rhs, names)
        match self.kind:
            case RelKind.EQ:
                return f"{lhs} == {rhs}"
            case RelKind.GE:
                return f"{lhs} >= {rhs}"
            case RelKind.NONZERO:
                return f"{lhs} != 0"
            case RelKind.DIVIDES:
                return f"{_factor(self.rhs, rhs)} % {_factor(self.lhs, lhs)} == 0"
            case RelKind.SAME_NUMEL:
                if self.lhs_shape is None or self.rhs_shape is None:
                    return f"{lhs} == {rhs}"
                shapes = [format_shape(shape, names) for shape in (self.lhs_shape, self.rhs_shape)]
                return f"{shapes[0]} and {shapes[1]} have the same number of elements"
            case RelKind.BROADCASTS:
                return f"{lhs} broadcasts with {rhs}"

    def failure(self, values: Mapping[Symbol, int], names: Mapping[Symbol, str] | None = None) -> str:
        """Text of an error about these sizes: ``s == t is required, but s is 3 and t is 4: <reason>.``"""
        if self.reason.error is not None and self.reason.form is not None:
            form, dims = self.reason.form
            return f"{form.format(*[_value(dim, values) for dim in dims])}."
        symbolic = dict.fromkeys([side for side in self._sides() if isinstance(side, SymExpr)])
        whole = [f"{format_dim(side, names)} is {_value(side, values)}" for side in symbolic]
        alone = {side.is_symbol for side in symbolic}
        parts = sorted({s for side in symbolic for s in free_symbols(side)} - alone, key=lambda s: s.uid)
        text = " and ".join(whole)
        if parts:
            text += f" ({', '.join([f'{format_dim_name(s, names)} is {values[s]}' for s in parts])})"
        return f"{self.describe(names)} is required, but {text}: {self.reason.text}."

    @property
    def error(self) -> type[ShapeError | DomainError]:
        """Class of the error where it does not hold."""
        return self.reason.error or ShapeError

    @property
    def remedy(self) -> str:
        """Remedy for a call in which it does not hold."""
        return self.reason.remedy or "pass arguments whose shapes satisfy it."

    def _sides(self) -> tuple[Dim, ...]:
        return (self.lhs,) if self.kind is RelKind.NONZERO else (self.lhs, self.rhs)


def first_broken(guards: Iterable[Relation], env: Mapping[Symbol, int]) -> Relation | None:
    """The first guard that is false for these sizes; None where all are true.

    Guards are in the order in which a function asked them. So where the first that is not true has no value, the
    function would come to the same question with these sizes: its ShapeError is raised.
    """
    return next((guard for guard in guards if not guard.decided(env)), None)


def value_conditions(dim: Dim) -> list[tuple[RelKind, Dim, Dim]]:
    """The relations that hold wherever an expression has a value, and without one of which it has none.

    They say that the sizes broadcast which are broadcast in it, and that no divisor is 0.
    """
    found: list[tuple[RelKind, Dim, Dim]] = []
    for atom in all_atoms(dim):
        if not isinstance(atom, Opaque):
            continue
        if atom.kind is OpaqueKind.BROADCAST:
            found += [(RelKind.BROADCASTS, a, b) for a, b in itertools.combinations(atom.args, 2)]
        elif atom.kind in (OpaqueKind.FLOORDIV, OpaqueKind.MOD) and not isinstance(atom.args[1], int):
            found.append((RelKind.NONZERO, atom.args[1], 0))
    return found


def format_dim_name(sym: Symbol, names: Mapping[Symbol, str] | None) -> str:
    return sym.name if names is None else names.get(sym, sym.name)


def format_shape(shape: tuple[Dim, ...], names: Mapping[Symbol, str] | None = None) -> str:
    """``(b, s, 768)``, as Python writes a tuple."""
    return f"({', '.join([format_dim(dim, names) for dim in shape])}{',' if len(shape) == 1 else ''})"


def _value(dim: Dim, values: Mapping[Symbol, int]) -> str:
    try:
        return str(evaluate(dim, values))
    except ShapeError as error:
        return f"without a value ({error.problem.rstrip('.')})"


def _factor(dim: Dim, text: str) -> str:
    return text if isinstance(dim, int) or (len(dim.terms) == 1 and not dim.constant) else f"({text})"
