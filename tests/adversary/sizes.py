"""Which calls break what a program took for granted."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from dyn.errors import ShapeError
from dyn.shapes import Dim, Outcome, Relation, Symbol, SymExpr, evaluate, free_symbols, linear_in
from tests.adversary.programs import Program, Shapes, axes_of

_SMALL = (0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17)
_HUGE = (0, 1, 2, 2**20, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**40, 2**61, 2**62 - 1, 2**62, 2**63 - 1)
#: More elements than this an argument shall not have.
_LARGEST = 4000


def _thresholds(program: Program) -> list[int]:
    """Sizes at, and one off, the numbers in the text."""
    numbers = {int(n) for n in re.findall(r"(?<![\w.*])\d+(?![\w.])", program.text)}
    return sorted({n + off for n in numbers if n <= 40 for off in (-1, 0, 1) if n + off >= 0})


def candidates(program: Program, random: Random) -> Iterator[tuple[Shapes, int]]:
    """Shapes to call with, without end, and the value of the index ``i``; most give each name of an axis one size."""
    names = axes_of(program.arguments)
    pool = [*_SMALL, *_thresholds(program)]
    while True:
        sizes = {name: random.choice(_HUGE if name == "h" else pool) for name in names}
        if random.random() < 0.15:
            sizes = dict.fromkeys((n for n in names if n != "h"), random.choice(pool)) | {"h": sizes.get("h", 0)}
        shapes = [list(a.shape(sizes)) for a in program.arguments]
        if not program.declared and random.random() < 0.25:  # axes of one name that differ
            axes = [
                (s, n) for s, a in zip(shapes, program.arguments, strict=True) for n in range(len(s)) if a.name != "h"
            ]
            if axes:
                shape, number = random.choice(axes)
                shape[number] = random.choice(
                    (0, 1, 1, max(shape[number] - 1, 0), shape[number] + 1, random.choice(pool))
                )
        index = random.choice((0, 0, 1, 2, 3, 5, -1, -3, 9, 1000))
        if all(_count(s) <= _LARGEST for s in shapes):
            yield tuple(map(tuple, shapes)), index


def near(program: Program, shapes: Shapes) -> Iterator[Shapes]:
    """Shapes of which one or two axes, or all axes of one or two names, differ from those of a call."""
    named: dict[str, list[tuple[int, int]]] = {}
    for number, argument in enumerate(program.arguments):
        for axis, name in enumerate(argument.axes):
            if isinstance(name, str):
                named.setdefault(name, []).append((number, axis))
    alone = [] if program.declared else [[(n, axis)] for n, shape in enumerate(shapes) for axis in range(len(shape))]
    groups = [*named.values(), *[group for group in alone if group not in named.values()]]
    sizes = sorted({0, 1, 2, *(n for shape in shapes for n in shape if n <= _LARGEST)}, key=lambda n: (n != 1, n))
    for count in (1, 2):
        for changed in itertools.combinations(groups, count):
            for values in itertools.product(sizes, repeat=count):
                new = [list(shape) for shape in shapes]
                for group, size in zip(changed, values, strict=True):
                    for number, axis in group:
                        new[number][axis] = size
                if all(_count(shape) <= _LARGEST for shape in new):
                    yield tuple(map(tuple, new))


def _count(shape: Sequence[int]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def pattern(versions: Sequence[Any], shapes: Shapes) -> tuple[Any, ...]:
    """How a call answers each guard and fact of the compiled programs: it holds, does not, or has no value."""
    found: list[Any] = []
    for traced in versions:
        env = _bound(traced.function, shapes)
        relations: tuple[Relation, ...] = (*traced.guards, *traced.function.facts.relations)
        found.append(tuple([_outcome(relation, env) for relation in relations]))
    return (*found, tuple(min(n, 2) for shape in shapes for n in shape))


def _outcome(relation: Relation, env: dict[Symbol, int]) -> Outcome | None:
    """None where it is about sizes that values decide."""
    return relation.outcome(env) if relation.symbols() <= env.keys() else None


def _bound(function: Any, shapes: Shapes) -> dict[Symbol, int]:
    """The sizes of symbols, as far as they can be told."""
    env: dict[Symbol, int] = {}
    pairs: list[tuple[Dim, int]] = []
    for param, info, shape in zip(function.params, function.infos, shapes, strict=False):
        pairs += zip(param.shape if info.dims is None else info.dims, shape, strict=True)
    for dim, size in sorted(pairs, key=lambda pair: isinstance(pair[0], SymExpr) and pair[0].is_symbol is None):
        symbols = free_symbols(dim) - env.keys()
        if len(symbols) == 1:
            (symbol,) = symbols
            linear = linear_in(dim, symbol)
            try:
                if linear is not None and (factor := evaluate(linear[0], env)):
                    env[symbol] = (size - evaluate(linear[1], env)) // factor
            except ShapeError:
                continue
    return env


class Chooser:
    """Chooses the next call: rather one whose pattern has not been seen."""

    def __init__(self, program: Program, random: Random) -> None:
        self._candidates = candidates(program, random)
        self._random = random
        self._seen: set[tuple[Any, ...]] = set()
        self._given: set[tuple[Shapes, int]] = set()

    def next(self, versions: Sequence[Any]) -> tuple[Shapes, int]:
        """Shapes and an index. ``versions`` are the traces of the programs compiled so far."""
        best: tuple[Shapes, int] | None = None
        for shapes, index in itertools.islice(self._candidates, 24):
            if (shapes, index) in self._given:
                continue
            best = best or (shapes, index)
            found = pattern(versions, shapes)
            if found not in self._seen:
                self._seen.add(found)
                best = shapes, index
                break
        if best is None:
            best = next(self._candidates)
        self._given.add(best)
        return best
