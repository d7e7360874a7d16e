"""Draws for the solver and the guards, without compiling: sizes for which an answer is false.

A world is some sizes of a few symbols, and relations that hold for them, which the facts are told. Each question is put
to the facts, and its answer held to what Python's integers say, at the world's own sizes and at others that satisfy the
relations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from dyn.errors import ShapeError
from dyn.shapes import (
    Dim,
    Facts,
    Outcome,
    Reason,
    Relation,
    RelKind,
    Symbol,
    as_dim,
    dim_max,
    dim_min,
    evaluate,
    floordiv,
    mod,
    symbol,
)

_REASON = Reason("the adversary says so")
_SYMBOLS = tuple(symbol(name, name) for name in "abcd")
Sizes = Mapping[Symbol, int]
#: An expression and the same in Python's integers, which raises ZeroDivisionError where it has no value.
Pair = tuple[Dim, Callable[[Sizes], int]]


@dataclass(frozen=True)
class Wrong:
    """An answer that is false: the seed of its world, the question, and the sizes."""

    seed: int
    what: str


def _leaf(random: Random) -> Pair:
    if random.random() < 0.7:
        s = random.choice(_SYMBOLS)
        return as_dim(s), lambda sizes: sizes[s]
    n = random.choice((0, 1, 1, 2, 3, 4, 5, 8, -1, -2, 2**31, 2**62) if random.random() < 0.1 else (0, 1, 2, 3, 4, -1))
    return n, lambda sizes: n


_JOINS: tuple[tuple[Callable[[Dim, Dim], Dim], Callable[[int, int], int]], ...] = (
    (lambda a, b: a + b, lambda a, b: a + b),
    (lambda a, b: a - b, lambda a, b: a - b),
    (lambda a, b: a * b, lambda a, b: a * b),
    (floordiv, lambda a, b: a // b),
    (mod, lambda a, b: a % b),
    (dim_min, min),
    (dim_max, max),
)


def expression(random: Random, depth: int) -> Pair:
    """A random expression; a division by the number 0 is left out, since dims refuse it at once."""
    if depth == 0 or random.random() < 0.2:
        return _leaf(random)
    (a, f), (b, g) = expression(random, depth - 1), expression(random, depth - 1)
    join, plain = random.choice(_JOINS)
    try:
        return join(a, b), lambda sizes: plain(f(sizes), g(sizes))
    except ShapeError:
        return a, f


@dataclass(frozen=True)
class Question:
    """A relation, and its outcome in Python's integers."""

    relation: Relation
    plain: Callable[[Sizes], Outcome]


def _divides(k: int, a: int) -> bool:
    return a == 0 if k == 0 else a % k == 0


_PLAIN: dict[RelKind, Callable[[int, int], bool]] = {
    RelKind.EQ: lambda a, b: a == b,
    RelKind.GE: lambda a, b: a >= b,
    RelKind.NONZERO: lambda a, b: a != 0,
    RelKind.DIVIDES: _divides,
    RelKind.SAME_NUMEL: lambda a, b: a == b,
    RelKind.BROADCASTS: lambda a, b: a == b or 1 in (a, b),
}


def question(random: Random) -> Question:
    """A random relation of random expressions."""
    kind = random.choice(tuple(RelKind))
    (a, f), (b, g) = expression(random, random.randint(0, 3)), expression(random, random.randint(0, 2))

    def plain(sizes: Sizes) -> Outcome:
        try:
            return Outcome.YES if _PLAIN[kind](f(sizes), g(sizes)) else Outcome.NO
        except ZeroDivisionError:
            return Outcome.NO_VALUE

    return Question(Relation(kind, a, b, _REASON), plain)


def _sizes(random: Random) -> dict[Symbol, int]:
    largest = random.choice((1, 3, 9, 40, 2**33))
    return {s: random.choice((0, 1, 2, random.randint(0, largest))) for s in _SYMBOLS}


def world(seed: int, questions: int = 8, others: int = 40) -> tuple[list[Wrong], Counter[str]]:
    """What is wrong with the answers about one world, and how many draws there were of each kind."""
    random = Random(seed)
    home, facts = _sizes(random), Facts.EMPTY
    told: list[Question] = []
    for _ in range(random.randint(0, 4)):
        fact = question(random)
        if fact.plain(home) is not Outcome.YES:
            continue
        try:
            facts = facts.assume(fact.relation)
        except ShapeError as error:
            return [Wrong(seed, f"a relation that holds for {_named(home)} is refused: {error.problem}")], Counter()
        told.append(fact)
    worlds = [home, *_near(random, home, told, others)]
    wrong: list[Wrong] = []
    counts: Counter[str] = Counter()
    for asked in [*told, *(question(random) for _ in range(questions))]:
        relation, answer = asked.relation, facts.ask(asked.relation)
        simple = facts.simplify(relation.lhs)
        least, greatest = facts.bounds(relation.lhs)
        for sizes in worlds:
            counts[answer.verdict.value] += 1
            expected = asked.plain(sizes)
            found = relation.outcome(sizes)
            text = f"{relation.describe()} for {_named(sizes)}, given {[q.relation.describe() for q in told]}"
            # Canonical form may lose a division that does not matter, such as 0 * (a // b); never a value.
            if expected is not Outcome.NO_VALUE and found is not expected:
                wrong.append(Wrong(seed, f"{text} is {found.value}, and in Python {expected.value}"))
            if (answer.proved and expected is Outcome.NO) or (answer.refuted and expected is Outcome.YES):
                wrong.append(Wrong(seed, f"{text} is {answer.verdict.value}, and in Python {expected.value}"))
            if expected is Outcome.NO_VALUE:
                continue
            value = evaluate(relation.lhs, sizes)
            if (least is not None and value < least) or (greatest is not None and value > greatest):
                wrong.append(Wrong(seed, f"{relation.lhs} is {value} for {text}, and bounded by {least}, {greatest}"))
            try:
                if evaluate(simple, sizes) != value:
                    wrong.append(Wrong(seed, f"{relation.lhs} is simplified to {simple}: {text}"))
            except ShapeError:
                wrong.append(Wrong(seed, f"{relation.lhs} is simplified to {simple}, which has no value: {text}"))
    return wrong, counts


def _near(random: Random, home: Sizes, told: list[Question], count: int) -> Iterator[dict[Symbol, int]]:
    """Other sizes for which all that the facts were told holds, one off here and there, or anything."""
    for _ in range(count):
        sizes = dict(home) if random.random() < 0.6 else _sizes(random)
        for s in random.sample(_SYMBOLS, random.randint(1, 3)):
            sizes[s] = max(random.choice((sizes[s] - 1, sizes[s] + 1, sizes[s] * 2, 0, 1, random.randint(0, 12))), 0)
        if all(q.plain(sizes) is Outcome.YES for q in told):
            yield sizes


def _named(sizes: Sizes) -> str:
    return ", ".join(f"{s.name}={n}" for s, n in sizes.items())
