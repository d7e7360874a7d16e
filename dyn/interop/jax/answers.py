"""Answers to what JAX's code and the user's lines ask of symbolic sizes while a function is traced.

JAX answers a comparison by ``==`` of two sizes with no where it cannot decide it, and a truth value with yes: it has to
answer, for hashing. So ``if x.shape[0] == 1`` would go one way for every size. A comparison by ``<`` and its kin, a
division that has to leave no rest, and ``int()`` raise where JAX cannot decide them. Here each question is answered as
PyTorch's are (:mod:`dyn.interop.torch.sym_nodes`): by a proof of dyn's, from what is known of the sizes and was
answered before; else as the sizes of the call at hand have it, and the answer is a guard of the program
(:class:`~dyn.interop.jax.sizes.SizeGuard`).

That holds for the user's lines and for the functions of JAX's that are written in terms of others: ``jax.numpy``,
``jax.scipy``, ``jax.lax``, … Those that JAX is built upon ask whether sizes are *known* to be equal
(``core.definitely_equal``), and where they are not known to be, take a way that is right for both, or raise. They are
told what is proved; what they were told wrongly is noted (:attr:`Answers.doubts`), so that a trace that fails can be
made again under the right answer. Sizes that a line of the user's looks up in a table are compared by their hashes
first, which are not those of numbers: such a size is made a number (:attr:`Answers.looked_up`).

Who asks is heard by :mod:`dyn.interop.jax.listening`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from dyn.errors import ArgumentError
from dyn.interop.jax import floats_of_sizes
from dyn.interop.jax.askers import (
    acts,
    beyond_the_class,
    broadcasts,
    calls,
    calls_builtin,
    compares,
    demands,
    is_standard,
    is_user,
    loc_of,
)
from dyn.interop.jax.sizes import ReasonKind, SizeGuard, TraceSizes
from dyn.shapes import (
    Dim,
    Opaque,
    OpaqueKind,
    Reason,
    Relation,
    RelKind,
    Symbol,
    SymExpr,
    free_symbols,
    mod,
    parse_dim,
)
from dyn.source import Loc
from dyn.trace import answered_names


@dataclass(frozen=True, slots=True)
class Doubt:
    """Two sizes that are equal in this call, and that JAX's own code was told are not."""

    left: Dim
    right: Dim
    loc: Loc


class Answers:
    """The answers of one trace.

    Attributes:
        sizes: the sizes of the call, with the guards that answers have made.
        doubts: what JAX's own code was told, and is otherwise in this call, oldest first.
        looked_up: sizes that a table of the user's was asked for, each with the line.
        needed: sizes that JAX's own code needed numbers for, the latest last.
        computed_with: sizes that became arrays of the program, the latest last.
        has_floats: whether floats of sizes became arrays of the program.
    """

    def __init__(self, sizes: TraceSizes) -> None:
        self.sizes = sizes
        self.has_floats = False
        self._facts = sizes.facts()
        self._scope: Any = None
        self._dims: dict[str, Dim | None] = {}
        self._doubts: dict[Doubt, None] = {}
        self._looked_up: dict[Symbol, Loc] = {}
        self._needed: dict[Symbol, None] = {}
        self._computed_with: dict[Symbol, None] = {}
        self._refused: dict[SizeGuard, None] = {}
        self._spread: dict[SizeGuard, None] = {}

    @property
    def settled(self) -> TraceSizes:
        """The sizes of a trace that came to its end: those that JAX raised for, and the function went on, too."""
        return functools.reduce(TraceSizes.with_guard, self._refused, self.sizes)

    @property
    def spread(self) -> TraceSizes:
        """The sizes, of which those are known to be 1 that JAX has to broadcast in this call and raised for instead."""
        return functools.reduce(TraceSizes.with_guard, self._spread, self.sizes)

    @property
    def needed(self) -> list[Symbol]:
        return list(self._needed)

    @property
    def computed_with(self) -> list[Symbol]:
        return list(self._computed_with)

    @property
    def doubts(self) -> list[Doubt]:
        return list(self._doubts)

    @property
    def looked_up(self) -> dict[Symbol, Loc]:
        return dict(self._looked_up)

    def shapes(self, jax: Any) -> dict[int, tuple[Any, ...]]:
        """The shapes of the call's symbolic leaves, whose sizes are answered for from here on."""
        found = self.sizes.shapes(jax)
        sizes = [size for shape in found.values() for size in shape if not isinstance(size, int)]
        self._scope = sizes[0].scope if sizes else None
        return found

    # What is asked ------------------------------------------------------------------------------------------------

    def dim(self, size: Any) -> Dim | None:
        """The dim that a size of JAX's is; None for one of another trace."""
        if isinstance(size, int):
            return size
        if getattr(size, "scope", None) is not self._scope:
            try:
                return operator.index(size)
            except TypeError:
                return None
        text = str(size)
        if text not in self._dims:
            try:
                self._dims[text] = parse_dim(text.replace("^", "**"), self.sizes.symbols)
            except ArgumentError:  # a name that the function itself has brought
                self._dims[text] = None
        return self._dims[text]

    def is_own(self, size: Any) -> bool:
        """Whether it is a symbolic size of this trace."""
        return self._scope is not None and getattr(size, "scope", None) is self._scope

    def equal(self, left: Any, right: Any, frame: FrameType | None) -> bool:
        """``left == right``, which JAX cannot decide, where it is asked by an expression in ``frame``."""
        frame = beyond_the_class(frame)
        is_acting = frame is not None and acts(frame)
        if not (frame is None or compares(frame) or (is_acting and calls_builtin(frame))):
            return False
        a, b = self.dim(left), self.dim(right)
        if a is None or b is None:
            return False
        if is_acting:
            return self._decided(ReasonKind.ASKED, (RelKind.EQ, a, b), (RelKind.NONZERO, a - b, 0), loc_of(frame))
        if self.sizes.value(a) != self.sizes.value(b):
            if demands(frame):
                self._refuse(a, b, frame)
            return False
        if self._facts.eq(a, b).proved:
            return True
        if not any(isinstance(one, int) and one < 2 for one in (a, b)) and demands(frame):
            self._take(SizeGuard.of(ReasonKind.EQUAL, RelKind.EQ, a, b, loc_of(frame)))
            return True
        self._doubts.setdefault(Doubt(a, b, loc_of(frame)))
        return False

    def is_true(self, size: Any, frame: FrameType | None) -> bool:
        """``bool(size)``."""
        dim = self.dim(size)
        if dim is None or frame is None or not acts(frame):
            return True
        return self._decided(ReasonKind.ASKED, (RelKind.NONZERO, dim, 0), (RelKind.EQ, dim, 0), loc_of(frame))

    def at_least(self, left: Any, right: Any, frame: FrameType | None) -> bool | None:
        """``left >= right``, which JAX cannot decide; None where it is not about this trace."""
        a, b = self.dim(left), self.dim(right)
        if a is None or b is None or self.sizes.value(a) is None or self.sizes.value(b) is None:
            return None
        return self._decided(ReasonKind.ORDER, (RelKind.GE, a, b), (RelKind.GE, b, a + 1), loc_of(frame))

    def is_proved_at_least(self, left: Any, right: Any) -> bool:
        """``left >= right``, where that is proved of sizes of this trace; nothing is asked, and no guard made."""
        a, b = self.dim(left), self.dim(right)
        if a is None or b is None:
            return False
        return self._facts.ask(Relation(RelKind.GE, a, b, _PROVED)).proved

    def quotient(self, left: Any, right: Any, frame: FrameType | None) -> bool | None:
        """Whether ``right``, which is at least 1, divides ``left``; None where it is not about this trace."""
        a, b = self.dim(left), self.dim(right)
        if a is None or b is None or self.sizes.value(a) is None or not self.sizes.value(b):
            return None
        if self._facts.divides(b, a).proved:
            return True
        rest = mod(a, b)
        return self._decided(ReasonKind.DIVIDES, (RelKind.EQ, rest, 0), (RelKind.NONZERO, rest, 0), loc_of(frame))

    def divides_by_positive(self, size: Any, frame: FrameType | None) -> bool:
        """Whether sizes are divided in ``size``, by what is at least 1 each."""
        dim = self.dim(size)
        divisors = [] if dim is None or self.sizes.value(dim) is None else list(_divisors(dim))
        return bool(divisors) and all(
            self._decided(ReasonKind.ORDER, (RelKind.GE, one, 1), (RelKind.GE, 0, one), loc_of(frame))
            for one in divisors
        )

    def number(self, size: Any, frame: FrameType | None) -> int | None:
        """``int(size)`` in a line of the user's, which has a program for each value; None elsewhere."""
        return None if frame is None or not is_user(frame.f_code) else self.taken(size, frame)

    def taken(self, size: Any, frame: FrameType | None) -> int | None:
        """The number that a size is, which has a program for each; None where it is not of this trace."""
        dim = self.dim(size)
        value = None if dim is None else self.sizes.value(dim)
        if dim is not None and value is not None and not self._is_number(dim):
            self._take(SizeGuard.of(ReasonKind.NUMBER, RelKind.EQ, dim, value, loc_of(frame)))
        return value

    def need(self, size: Any) -> None:
        """Note that JAX's own code needs a number in the place of a size, and will say so."""
        self._note(self._needed, size)

    def compute_with(self, size: Any) -> None:
        """Note that a size becomes an array of the program, of which Python may need the number yet."""
        self._note(self._computed_with, size)

    def _note(self, notes: dict[Symbol, None], size: Any) -> None:
        dim = self.dim(size)
        for symbol in () if dim is None else free_symbols(dim):
            notes.pop(symbol, None)
            notes[symbol] = None

    def computed(self, size: Any, function: str, frame: FrameType | None, *, of_python: bool) -> Any:
        """A function of a size, of ``math`` or of NumPy; None outside of this trace.

        It is of its number, with a program for each, where it is none of :data:`~floats_of_sizes.FUNCTIONS`.
        """
        if not self.is_own(size):
            return None
        if function in floats_of_sizes.FUNCTIONS:
            found = self.float_of(floats_of_sizes.array_function(function), size, weak=of_python)
            if found is not None:
                return found
        value = self.taken(size, frame)
        return None if value is None else getattr(math if of_python else np, function)(value)

    def power(self, size: Any, exponent: Any) -> Any:
        """A size to a power that is a float; None for others, and outside of this trace."""
        if not self.is_own(size) or not floats_of_sizes.is_exponent(exponent):
            return None
        return self.float_of(lambda array: array**exponent, size, weak=not isinstance(exponent, np.generic))

    def float_of(self, function: Callable[[Any], Any], size: Any, *, weak: bool) -> Any:
        """A function of a size as an array of the program; None where the size is known to be a number."""
        if self._is_number(self.dim(size)):
            return None
        self.has_floats = True
        self.compute_with(size)
        return floats_of_sizes.of_size(function, size, weak=weak)

    def _is_number(self, dim: Dim | None) -> bool:
        """Return True if it is known that a size is the number that it is in this call."""
        value = None if dim is None else self.sizes.value(dim)
        return dim is not None and value is not None and self._facts.eq(dim, value).proved

    def look_up(self, size: Any, frame: FrameType | None) -> None:
        """Note that the hash of a size is asked for in ``frame``, where that is a table of the user's."""
        while frame is not None and (
            frame.f_code.co_name == "__hash__" or is_standard(frame.f_code) or answered_names.is_stand_in(frame)
        ):
            frame = frame.f_back
        if frame is None or not is_user(frame.f_code) or (calls(frame) and not calls_builtin(frame)):
            return
        dim = self.dim(size)
        for symbol in () if dim is None else free_symbols(dim):
            self._looked_up.setdefault(symbol, loc_of(frame))

    def _refuse(self, a: Dim, b: Dim, frame: FrameType | None) -> None:
        """Note that JAX is about to raise for sizes that differ: a function that goes on is for such sizes only.

        Where one of them is 1 in this call JAX would have gone on, had it known.
        """
        if any(isinstance(one, int) and one < 2 for one in (a, b)):
            return
        loc, spread = loc_of(frame), [one for one in (a, b) if broadcasts(frame)]
        ones = [one for one in spread if self.sizes.value(one) == 1]
        for one in ones:
            self._spread.setdefault(SizeGuard.of(ReasonKind.EQUAL, RelKind.EQ, one, 1, loc))
        for difference in () if ones else (a - b, *[one - 1 for one in spread]):
            if not self._facts.nonzero(difference).proved:
                self._refused.setdefault(SizeGuard.of(ReasonKind.EQUAL, RelKind.NONZERO, difference, 0, loc))

    # How it is answered -------------------------------------------------------------------------------------------

    def _decided(self, kind: ReasonKind, yes: tuple[RelKind, Dim, Dim], no: tuple[RelKind, Dim, Dim], loc: Loc) -> bool:
        """The answer to a question: proved, or that of the sizes of this call, which is a guard then."""
        asked, opposite = (SizeGuard.of(kind, *one, loc) for one in (yes, no))
        answer = self._facts.ask(asked.relation)
        if answer.proved or answer.refuted:
            return answer.proved
        if self._facts.ask(opposite.relation).proved:
            return False
        holds = asked.relation.holds(self.sizes.actual)
        self._take(asked if holds else opposite)
        return holds

    def _take(self, guard: SizeGuard) -> None:
        self.sizes = self.sizes.with_guard(guard)
        self._facts = self._facts.assume(guard.relation)


_PROVED = Reason("JAX chooses among sizes")


def _divisors(dim: Dim) -> Iterator[Dim]:
    """The sizes that are divided by in an expression, the innermost first."""
    for atom in dim.atoms if isinstance(dim, SymExpr) else ():
        if isinstance(atom, Opaque):
            for argument in atom.args:
                yield from _divisors(argument)
            if atom.kind in (OpaqueKind.FLOORDIV, OpaqueKind.MOD):
                yield atom.args[1]
