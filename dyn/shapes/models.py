"""Models: sizes under which everything that is known holds. What one of them contradicts has no proof.

Most questions have no answer, and a search for a proof that there is none takes thousands of times what it takes to
evaluate both sides for a few sizes. A model is kept from snapshot to snapshot as long as it satisfies what is learned;
where it does not, one of the sizes is changed so that it does, if that can be done at once.

Models decide nothing but where not to look: a claim that is false in one is not PROVED, one that is true in one not
REFUTED. Nothing about them depends on symbols' ages, so the same program has the same answers in every process.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dyn.shapes.expr import Dim, Opaque, SymExpr
from dyn.shapes.relation import Relation, RelKind, truth
from dyn.shapes.symbols import Symbol
from dyn.shapes.walk import linear_in, opaques_below, value_of_opaque

#: The size that each of the first models gives to a symbol, from 32 random bits of its own.
_SIZES: tuple[Callable[[int], int], ...] = (
    lambda bits: 1000 + bits % 7919,
    lambda bits: (bits >> 3) % 4,
    lambda bits: 2 + (bits >> 5) % 7,
    lambda bits: 1,
    lambda bits: 0,
    lambda bits: 9000 - bits % 7919,
    lambda bits: (bits >> 11) % 2,
    lambda bits: 1 - (bits >> 11) % 2,
    lambda bits: 1 if (bits >> 13) % 2 else 17 + (bits >> 15) % 500,
)
#: How many are kept, how many more are remembered, and how many values of expressions one of them remembers.
_MOST = 20
_REMEMBERED = 64
_VALUES = 4096
#: Sizes that are tried for one that has to change, besides those that the relation says.
_OTHERS = (0, 1, 2, 3, 64, 1000, 10**6)

Check = Callable[["Assignment", Symbol], bool]

#: What a table has of an expression that was not evaluated yet, where None says that it has no value.
_UNSEEN: Any = object()


class NoValueError(Exception):
    """An expression has no value in a model."""


class Assignment:
    """Sizes of all symbols: those in ``chosen``, and of others what ``default`` says. Values of terms are kept.

    Made by :func:`first_models` and :meth:`but`.
    """

    __slots__ = ("chosen", "default", "others", "table", "terms", "values")

    def __init__(self, table: _ModelTable, default: Callable[[int], int], chosen: Mapping[Symbol, int]) -> None:
        self.table = table
        self.default = default
        self.chosen = chosen
        #: What the default says of symbols, for all models that have it.
        self.others = table.sizes.setdefault(default, {})
        self.terms: dict[Opaque, int | None] = {}
        self.values: dict[SymExpr, int | None] = {}

    def size(self, symbol: Symbol) -> int:
        found = self.chosen.get(symbol)
        if found is None:
            found = self.others.get(symbol)
        if found is None:
            bits = zlib.crc32(symbol.name.encode()) * 2654435761 % 2**32  # mixed: names differ in few bits
            found = self.others[symbol] = self.default(bits)
        return found

    def value(self, dim: Dim) -> int | None:
        """The value of an expression; None where it has none."""
        if isinstance(dim, int):
            return dim
        found = self.values.get(dim, _UNSEEN)
        if found is not _UNSEEN:
            return found
        if len(self.values) >= _VALUES:
            self.values.clear()
            self.terms.clear()
        value: int | None = None
        try:
            for atom in opaques_below(dim, self.terms.__contains__) if dim.is_large else ():
                self._keep(atom)
            value = self._value(dim)
        except NoValueError:
            pass
        self.values[dim] = value
        return value

    def _value(self, dim: SymExpr) -> int:
        total = dim.constant
        for mono, coefficient in dim.terms:
            for atom, power in mono.factors:
                if isinstance(atom, Symbol):
                    value = self.size(atom)
                else:
                    value = self.terms[atom] if atom in self.terms else self._keep(atom)
                    if value is None:
                        raise NoValueError
                coefficient *= value if power == 1 else value**power
            total += coefficient
        return total

    def _keep(self, atom: Opaque) -> int | None:
        if atom in self.terms:
            return self.terms[atom]
        result: int | None
        try:
            result = value_of_opaque(
                atom.kind, [arg if isinstance(arg, int) else self._value(arg) for arg in atom.args]
            )
        except NoValueError:
            result = None
        self.terms[atom] = result
        return result

    def outcome(self, relation: Relation) -> bool | None:
        """Whether a relation holds; None where a side has no value."""
        lhs, rhs = self.value(relation.lhs), self.value(relation.rhs)
        return None if lhs is None or rhs is None else truth(relation.kind, lhs, rhs)

    def but(self, symbol: Symbol, size: int) -> Assignment:
        """These sizes, with one of them changed."""
        return self.table.model(self.default, {**self.chosen, symbol: size})


class _ModelTable:
    """The models of one program, each of them once, so that what was evaluated is not evaluated again.

    Those that have not been asked for longest are forgotten.
    """

    __slots__ = ("models", "sizes")

    def __init__(self) -> None:
        self.sizes: dict[object, dict[Symbol, int]] = {}
        self.models: dict[tuple[object, frozenset[tuple[Symbol, int]]], Assignment] = {}

    def model(self, default: Callable[[int], int], chosen: Mapping[Symbol, int]) -> Assignment:
        key = default, frozenset(chosen.items())
        found = self.models.pop(key, None)
        if found is None:
            found = Assignment(self, default, chosen)
            while len(self.models) > _REMEMBERED:
                self.models.pop(next(iter(self.models)), None)
        self.models[key] = found
        return found


Models = tuple[Assignment, ...]


def first_models() -> Models:
    """Models of no facts at all, of a program that begins."""
    table = _ModelTable()
    return tuple([table.model(default, {}) for default in _SIZES])


def satisfying(models: Models, relation: Relation, check: Check) -> Models:
    """The models in which a relation holds, and some that were changed so that it does.

    ``check(model, symbol)`` says whether all else that is known and mentions the symbol holds.
    """
    kept: list[Assignment] = []
    changes: list[_Change] = []
    for model in models:
        if model.outcome(relation):
            kept.append(model)
        else:
            changes = changes or _changes(relation)
            mended = next(_mended(model, relation, changes, check), None)
            if mended is not None:
                kept.append(mended)
    return tuple(kept[:_MOST])


#: A symbol, and the factor and the rest of ``lhs - rhs`` as a line in it.
_Change = tuple[Symbol, tuple[Dim, Dim] | None]


def _changes(relation: Relation) -> list[_Change]:
    """The sizes to change so that a relation holds: the youngest first, of which least is known."""
    symbols = sorted(relation.symbols(), key=lambda symbol: -symbol.uid)[:3]
    gap = relation.lhs - relation.rhs
    return [(symbol, linear_in(gap, symbol)) for symbol in symbols]


def _mended(model: Assignment, relation: Relation, changes: list[_Change], check: Check) -> Iterator[Assignment]:
    for symbol, line in changes:
        holds, solutions = _on_line(model, relation, line)
        tried: set[int] = {model.size(symbol)}
        for size in (*solutions, *_sizes_for(model, relation, symbol)):
            if size in tried or size < 0 or not holds(size):
                continue
            tried.add(size)
            changed = model.but(symbol, size)
            if changed.outcome(relation) and check(changed, symbol):
                yield changed


def _on_line(
    model: Assignment, relation: Relation, line: tuple[Dim, Dim] | None
) -> tuple[Callable[[int], bool], tuple[int, ...]]:
    """Whether a size may be right where the sides differ by a line in it, and at which sizes that is 0, or nearly.

    A size is tried in a model of its own, in which everything is evaluated anew. Most are wrong, which the line says.
    """
    if line is None:
        return _always, ()
    factor, rest = model.value(line[0]), model.value(line[1])
    if factor is None or rest is None:
        return _always, ()
    found = (-rest // factor, -(rest // factor)) if factor else ()
    if relation.kind is RelKind.GE:
        return lambda size: factor * size + rest >= 0, found
    if relation.kind in (RelKind.EQ, RelKind.SAME_NUMEL):
        return lambda size: factor * size + rest == 0, found
    return _always, found if relation.kind is RelKind.BROADCASTS else ()


def _always(size: int) -> bool:
    return True


def _sizes_for(model: Assignment, relation: Relation, symbol: Symbol) -> Iterator[int]:
    """Sizes with which a relation may hold."""
    now = model.size(symbol)
    if relation.kind is RelKind.DIVIDES:
        k = model.value(relation.lhs)
        if k:
            yield now + -now % k
        yield 0
    elif relation.kind is RelKind.NONZERO:
        yield now + 1
    else:
        yield from (value for side in (relation.lhs, relation.rhs) if (value := model.value(side)) is not None)
    yield from _OTHERS


def turning_points(dims: Iterable[Dim]) -> Iterator[tuple[Symbol, int]]:
    """Sizes at which an expression takes another course: where an argument of a term in it is 0, or next to it.

    Only where that is about one size. ``min(n - 5, 3)`` turns at 8.
    """
    seen: set[tuple[Symbol, int]] = set()
    for dim in dims:
        if isinstance(dim, int) or dim.is_large:
            continue
        for atom in sorted([atom for atom in dim.atoms if isinstance(atom, Opaque)], key=lambda atom: atom.key):
            for i, arg in enumerate(atom.args):
                for gap in [arg, *[arg - other for other in atom.args[:i]]]:
                    if isinstance(gap, int) or gap.height or len(gap.terms) != 1 or len(gap.symbols) != 1:
                        continue
                    (symbol,) = gap.symbols
                    factor = gap.terms[0][1]
                    root = -gap.constant // factor
                    for size in (root, root + 1, root - 1):
                        if size >= 0 and (symbol, size) not in seen:
                            seen.add((symbol, size))
                            yield symbol, size
