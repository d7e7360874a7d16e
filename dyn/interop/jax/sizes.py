"""Sizes of the arguments of one program: their names, what is known of them, and the guards that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import gcd
from typing import Any, Literal

from dyn.interop.jax.expressions import (
    UnreadableError,
    difference,
    divisions,
    evaluate,
    is_term,
    linear,
    names_in,
    plus_one,
    product,
    python_text,
    renamed,
    solved,
)
from dyn.ir.binding import Bind, Binding
from dyn.lazy_property import lazy_property
from dyn.shapes import Reason, Relation, RelKind, Symbol, parse_dim, symbol
from dyn.source import Loc


class ReasonKind(Enum):
    """Kinds of reasons why a program is for some sizes only, the mildest first."""

    ASKED = "a line asks"
    EQUAL = "JAX wants equal sizes"
    ORDER = "JAX has to know which is larger"
    DIVIDES = "JAX has to divide"
    STATIC = "JAX takes no symbol here"


@dataclass(frozen=True, slots=True)
class SizeGuard:
    """A condition on the sizes of a call, beside what was declared: ``left op right``, in base names.

    ``loc`` is the user's line that made it necessary, ``why`` what JAX said of it.
    """

    left: str
    op: Literal["==", "!=", ">="]
    right: str
    kind: ReasonKind
    loc: Loc
    why: str = ""

    def holds(self, env: Mapping[str, int]) -> bool:
        """Tell whether it is true for these sizes; not where a side has no value."""
        symbols = {name: symbol(name, name) for name in env}
        return self.relation(symbols).holds({symbols[name]: value for name, value in env.items()})

    def relation(self, symbols: Mapping[str, Symbol]) -> Relation:
        """The guard as a relation between dims."""
        left, right = (parse_dim(side.replace("^", "**"), symbols) for side in (self.left, self.right))
        reason = Reason(self.why or self.kind.value, self.loc)
        if self.op == "!=":
            return Relation(RelKind.NONZERO, left - right, 0, reason)
        return Relation(RelKind.EQ if self.op == "==" else RelKind.GE, left, right, reason)

    def text(self, places: Mapping[str, str]) -> str:
        """``x.shape[0] == y.shape[0]``"""
        return f"{python_text(self.left, places)} {self.op} {python_text(self.right, places)}"

    def same(self, other: SizeGuard) -> bool:
        """Tell whether both ask for the same."""
        return (self.left, self.op, self.right) == (other.left, other.op, other.right)


@dataclass(frozen=True, slots=True)
class AxisSource:
    """The axis that a name's value is read from: ``factor*name + offset`` is its size."""

    leaf: int
    axis: int
    factor: int = 1
    offset: int = 0

    def of(self, size: str) -> str:
        """The value as Python text, where ``size`` is the axis's."""
        if self.offset:
            size = f"({size} - {self.offset})"
        return size if self.factor == 1 else f"({size} // {self.factor})"


@dataclass(frozen=True)
class TraceSizes:
    """The sizes that a trace is made with.

    ``axes`` has for each symbolic leaf what its axes are: numbers, and expressions of base names. ``actual`` are the
    base names' values in the call that the program is made for, and ``places`` where each is read. ``known`` says
    what some names are in terms of others; ``parts`` are names made here: ``h = b/k`` where ``k`` divides ``b``.
    """

    axes: Mapping[int, tuple[int | str, ...]]
    actual: Mapping[str, int]
    places: Mapping[str, AxisSource]
    known: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: Mapping[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    constraints: tuple[tuple[str, str, str], ...] = ()
    guards: tuple[SizeGuard, ...] = ()

    # What there is ------------------------------------------------------------------------------------------------

    @lazy_property
    def env(self) -> Mapping[str, int]:
        """The values of all names."""
        env = dict(self.actual)
        for part, (name, divisor) in self.parts.items():
            env[part] = env[name] // divisor
        return env

    @property
    def free(self) -> tuple[str, ...]:
        """The names that are not known in terms of others."""
        return tuple([name for name in self.env if name not in self.known])

    @lazy_property
    def order(self) -> Mapping[str, int]:
        """Numbers of the names: of two names that are equal the first stays."""
        return {name: number for number, name in enumerate(self.env)}

    def base(self, text: str) -> str:
        """An expression with the names that were made here written out."""
        while any(name in self.parts for name in names_in(text)):
            text = renamed(text, {new: f"floordiv({name}, {divisor})" for new, (name, divisor) in self.parts.items()})
        return text

    def value(self, text: str) -> int | None:
        """The value of an expression in the call at hand; None for what is no expression of these names."""
        try:
            made = evaluate(text, self.env)
        except (UnreadableError, ArithmeticError):
            return None
        return made if isinstance(made, int) else None

    def knows(self, left: str, right: str) -> bool:
        """Tell whether ``left == right`` follows from what the names are known to be."""
        return difference(self._resolved(left), self._resolved(right)) == {} or (left, "==", right) in self.constraints

    # What can be learnt -------------------------------------------------------------------------------------------

    def with_guard(self, guard: SizeGuard) -> TraceSizes:
        """These sizes under one more condition."""
        written = replace(guard, left=self.base(guard.left), right=self.base(guard.right))
        if any(written.same(other) for other in self.guards):
            return self
        return replace(self, guards=(*self.guards, written))

    def equal(self, guard: SizeGuard) -> TraceSizes | None:
        """These sizes with ``guard.left == guard.right``, which holds now; None where it cannot be told to JAX."""
        left, right = self._resolved(guard.left), self._resolved(guard.right)
        answer = solved(left, right, self.order)
        if answer is not None:
            name, text = answer
            made = replace(self, known={**self.known, name: text})
            terms = linear(text)
            if terms is not None and any(f < 0 for f in terms.values()):
                made = replace(made, constraints=(*made.constraints, (text, ">=", "1")))
            return made.with_guard(guard)
        for one, other in ((left, right), (right, left)):
            # JAX replaces the one term on the left by the right side, wherever it comes.
            term = one.removeprefix("-").strip()
            if linear(one) is None and term not in other and is_term(term):
                made = replace(self, constraints=(*self.constraints, (one, "==", other)))
                return made.with_guard(guard)
        return None

    def ordered(self, guard: SizeGuard) -> TraceSizes | None:
        """These sizes with ``guard.left >= guard.right``, which holds now; None where that has been said already."""
        constraint = (guard.left, ">=", guard.right)
        if constraint in self.constraints:
            return None
        return replace(self, constraints=(*self.constraints, constraint)).with_guard(guard)

    def divided(self, text: str, divisor: str, loc: Loc, why: str, kind: ReasonKind) -> TraceSizes | None:
        """These sizes with ``divisor`` dividing ``text``, as it does now: a condition on one name.

        The name becomes a multiple of a new one: a name of a product, or the only name of something else, such as
        ``floordiv(n, 2) - 1``, which may do. None where there is none.
        """
        left, right = self._resolved(text), self._resolved(divisor)
        found, by = product(left), product(right)
        if found is None and len({*names_in(left)}) == 1:
            found = 1, [*names_in(left)]
        if found is None or by is None or not found[0] or not by[0]:
            return None
        (factor, names), (number, common) = found, by
        for name in common:
            if name not in names:
                return None
            names.remove(name)
        number = abs(number) // gcd(factor, number)
        # The last name that can have all of it: axes at the end change the least.
        name = next((n for n in reversed(names) if self.env[n] % number == 0), None)
        if name is None or number == 1:
            return None
        return self._halved(name, number, SizeGuard(f"mod({name}, {number})", "==", "0", kind, loc, why))

    def _halved(self, name: str, number: int, guard: SizeGuard) -> TraceSizes:
        new = f"{name}_by_{number}"
        made = self.with_guard(guard)
        return replace(made, known={**made.known, name: f"{number}*{new}"}, parts={**made.parts, new: (name, number)})

    def static(self, name: str, loc: Loc, why: str) -> TraceSizes:
        """These sizes with a name that is a number: one program for each."""
        guard = SizeGuard(name, "==", str(self.env[name]), ReasonKind.STATIC, loc, why)
        return replace(self, known={**self.known, name: str(self.env[name])}).with_guard(guard)

    def all_static(self, loc: Loc, why: str) -> TraceSizes:
        """These sizes as numbers, without any symbol."""
        made = self
        for name in self.free:
            if name not in made.parts:
                made = made.static(name, loc, why)
        return replace(made, known={**made.known, **{n: str(self.env[n]) for n in self.free}}, constraints=())

    def again(self, guard: SizeGuard) -> TraceSizes | None:
        """These sizes with a guard of another program; None where it does not hold of them."""
        if any(name not in self.actual for text in (guard.left, guard.right) for name in names_in(text)):
            return None
        if guard.kind is ReasonKind.STATIC:
            return self.static(guard.left, guard.loc, guard.why) if guard.left in self.free else None
        if guard.kind is ReasonKind.ORDER and not guard.holds(self.actual):
            guard = replace(guard, left=guard.right, right=plus_one(guard.left))
        if not guard.holds(self.actual) or guard.op == "!=":
            return None
        if guard.kind is ReasonKind.ORDER:
            return self.ordered(guard)
        for text, divisor in divisions(guard.left) if guard.left.startswith("mod(") and guard.right == "0" else ():
            made = self.divided(text, divisor, guard.loc, guard.why, guard.kind)
            if made is not None:
                return made
        return self.equal(guard)

    def _resolved(self, text: str) -> str:
        """An expression in free names alone."""
        while any(name in self.known for name in names_in(text)):
            text = renamed(text, self.known)
        return text

    # What JAX is given --------------------------------------------------------------------------------------------

    def shapes(self, jax: Any) -> dict[int, tuple[Any, ...]]:
        """The shapes of the symbolic leaves, with JAX's dimensions in a new scope.

        Raises ValueError or NotImplementedError where JAX has no use for a constraint.
        """
        constraints = self._constraint_texts(self._dims(jax, ()))
        env = self._dims(jax, constraints)
        return {
            leaf: tuple([axis if isinstance(axis, int) else evaluate(axis, env) for axis in axes])
            for leaf, axes in self.axes.items()
        }

    def _dims(self, jax: Any, constraints: Sequence[str]) -> dict[str, Any]:
        scope, free = jax.export.SymbolicScope(constraints), self.free
        dims = jax.export.symbolic_shape(f"({', '.join(free)},)", scope=scope) if free else ()
        env: dict[str, Any] = dict(zip(free, dims, strict=True))
        missing = list(self.known)
        while missing:
            ready = [name for name in missing if all(n in env for n in names_in(self.known[name]))]
            env |= {name: evaluate(self.known[name], env) for name in ready}
            missing = [name for name in missing if name not in env]
        return env

    def _constraint_texts(self, env: Mapping[str, Any]) -> list[str]:
        """The constraints in free names; those that have become plain are left out."""
        texts: dict[str, None] = {}
        for left, op, right in self.constraints:
            try:
                a, b = evaluate(left, env), evaluate(right, env)
            except Exception:  # max and min compare, which JAX may refuse
                a, b = left, right
            if not isinstance(a, int) or not isinstance(b, int):
                texts[f"{a} {op} {b}"] = None
        return list(texts)

    # How calls are told apart -------------------------------------------------------------------------------------

    def conditions(self, position: Mapping[int, int]) -> tuple[Binding, tuple[Relation, ...]]:
        """The guards as relations between dims, and how these follow from the shapes of the symbolic leaves.

        ``position`` is the place of each leaf among the symbolic ones.
        """
        symbols = {name: symbol(name, name) for name in self.places}
        binds = tuple([
            Bind(symbols[name], position[p.leaf], p.axis, p.factor, p.offset) for name, p in self.places.items()
        ])  # fmt: skip
        return Binding(binds, ()), tuple([guard.relation(symbols) for guard in self.guards])
