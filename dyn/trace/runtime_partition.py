"""Partitions of a derivative whose bytes are formulas that cross: the sizes of a call choose between two.

What a partition (:mod:`dyn.trace.partition`) keeps is the least for sizes of some kind: as a rule for large ones. Where
another is less by a quarter for smaller ones, or for one size that is small beside the others, one relation between
their bytes tells which is taken. It is a guard, as a branch of the user's would be: a call on the other side is traced
again, and has a program of its own, whose second half is that of the other partition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import product as combinations

from dyn.dtypes import DType
from dyn.errors import ShapeError, UndecidedDimError
from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.shapes import Dim, Reason, Relation, RelKind, Symbol, dim_sum, evaluate, free_symbols, product
from dyn.shapes.expr import Atom, atom_dim
from dyn.source import user_loc
from dyn.trace.context import Trace

#: The bytes of a value.
Sizes = Callable[[Value], int]

#: The numbers that a symbol counts as. With large ones for all a partition is what is right as sizes grow.
_LARGE, _SMALL = 4096, 64
#: Up to so many symbols every choice of large and small ones is looked at; of more, all large and all small ones.
_MOST_SYMBOLS = 3
#: The share of bytes that another partition has to save somewhere, to be worth a program of its own.
_WORTH = 0.25
#: The values that a guard's reason names, of each partition.
_NAMED = 3


@record(eq=False)
class Partition:
    """What the second program computes ``again``, what it is given instead, and the bytes of that as a formula.

    With segments the bytes are those of the peak: what is kept, and what the greatest segment keeps while it runs.
    """

    again: Mapping[Value, Op]
    kept: Collection[Value]
    cost: Dim


def bytes_of(trace: Trace, values: Iterable[Value]) -> Dim:
    """The bytes of some values, as a formula of sizes."""
    return dim_sum([product((_count(trace, value), value.dtype.itemsize)) for value in values])


def _count(trace: Trace, value: Value) -> Dim:
    """The number of elements, by sizes that the trace does not know as numbers."""
    return product([trace.builder.facts.simplify(dim) for dim in value.shape])


def least_of(trace: Trace, partition: Callable[[Sizes], Partition], values: Iterable[Value]) -> Partition:
    """The partition that keeps least in the calls of this trace; of large sizes, where nothing tells.

    ``partition`` makes that for given sizes of ``values``, which are all that it asks for.
    """
    counts = {value: _count(trace, value) for value in values}
    symbols = sorted({symbol for count in counts.values() for symbol in free_symbols(count)}, key=lambda s: s.uid)
    size = _sizes(counts, dict.fromkeys(symbols, _LARGE))
    usual = partition(size)
    tried, found = [[size(value) for value in counts]], list[tuple[Partition, dict[Symbol, int]]]()
    for numbers in _others(symbols):
        size = _sizes(counts, numbers)
        bytes_there = [size(value) for value in counts]
        if not any(_are_proportional(bytes_there, known) for known in tried):  # else the same partition is the least
            tried.append(bytes_there)
            found.append((partition(size), numbers))
    facts = trace.builder.facts
    for other, _ in found:  # segments of the least peak are not found for certain
        if other.cost is not usual.cost and facts.ge(usual.cost, other.cost).proved:
            usual = other
    best, least = usual, 1 - _WORTH
    for other, numbers in found:
        share = _value(other.cost, numbers) / _value(usual.cost, numbers)
        if share <= least:
            best, least = other, share
    return usual if best is usual else _chosen(trace, usual, best)


def _others(symbols: Collection[Symbol]) -> Iterable[dict[Symbol, int]]:
    """Sizes other than large ones alone, small ones alone first."""
    if len(symbols) > _MOST_SYMBOLS:
        return [dict.fromkeys(symbols, _SMALL)]
    every = combinations((_SMALL, _LARGE), repeat=len(symbols))
    return [dict(zip(symbols, numbers, strict=True)) for numbers in every if _SMALL in numbers]


def _sizes(counts: Mapping[Value, Dim], numbers: Mapping[Symbol, int]) -> Sizes:
    """The bytes of values where symbols are these numbers."""
    known: dict[Dim, int] = {}

    def size(value: Value) -> int:
        count = counts[value]
        if count not in known:
            known[count] = _value(count, numbers, len(value.shape))
        return known[count] * value.dtype.itemsize

    return size


def _are_proportional(some: list[int], others: list[int]) -> bool:
    return not some or all(one * others[0] == some[0] * other for one, other in zip(some, others, strict=True))


def _value(dim: Dim, numbers: Mapping[Symbol, int], rank: int = 0) -> int:
    """A number of elements or bytes, at least 1; large, where there are no such sizes."""
    try:
        return max(evaluate(dim, numbers), 1)
    except ShapeError:
        return _LARGE**rank


def _chosen(trace: Trace, usual: Partition, other: Partition) -> Partition:
    """One of two partitions, by the sizes of the call, with a guard: the other one where it takes a fifth less."""
    more, less = _without_common_factor(4 * usual.cost, 5 * other.cost)
    only = [[v for v in a.kept if v not in b.kept] for a, b in ((usual, other), (other, usual))]
    yes = Relation(RelKind.GE, less, more, _reason(*only))
    no = Relation(RelKind.GE, more - 1, less, _reason(*reversed(only)))
    try:
        is_usual = trace.answer(yes, no)
    except (UndecidedDimError, ShapeError):  # there are no sizes to go by, or they have no such bytes
        return usual
    trace.take(yes if is_usual else no)
    return usual if is_usual else other


def _reason(kept: list[Value], others: list[Value]) -> Reason:
    """The reason of a guard: the derivative keeps some values rather than others."""
    (some, dims), (rest, more) = (_types(values) for values in (kept, others))
    return Reason.about(f"the derivative keeps {some} rather than {rest}", (*dims, *more), user_loc())


def _types(values: list[Value]) -> tuple[str, list[Dim]]:
    """Text of the types of values, with places for their dims, and these."""
    parts: list[str] = []
    dims: list[Dim] = []
    counts: dict[tuple[DType, tuple[Dim, ...]], int] = {}
    for value in values:
        counts[value.dtype, value.shape] = counts.get((value.dtype, value.shape), 0) + 1
    for (dtype, shape), count in list(counts.items())[:_NAMED]:
        times = f"{count} of " if count > 1 else ""
        parts.append(f"{times}{dtype.name}[{', '.join(['{}'] * len(shape))}]")
        dims += shape
    more = [f"{len(counts) - _NAMED} more"] if len(counts) > _NAMED else []
    return " and ".join([*parts, *more]) or "nothing", dims


def _without_common_factor(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Two polynomials, divided by the numbers and powers that all terms of both have: they compare as before but where
    such a factor is 0, and numbers stay small."""
    terms = [_terms(dim) for dim in (a, b)]
    every = [term for own in terms for term in own]
    if not every:
        return a, b
    divisor = math.gcd(*[coefficient for coefficient, _ in every])
    common = {atom: min([powers.get(atom, 0) for _, powers in every]) for atom in every[0][1]}
    first, second = (
        dim_sum([
            product([coefficient // divisor, *[_power(atom, n - common.get(atom, 0)) for atom, n in powers.items()]])
            for coefficient, powers in own
        ])
        for own in terms
    )  # fmt: skip
    return first, second


def _terms(dim: Dim) -> list[tuple[int, dict[Atom, int]]]:
    """Coefficients, and the powers of atoms that they belong to."""
    if isinstance(dim, int):
        return [(dim, {})] if dim else []
    constant = [(dim.constant, dict[Atom, int]())] if dim.constant else []
    return [*[(coefficient, dict(mono.factors)) for mono, coefficient in dim.terms], *constant]


def _power(atom: Atom, exponent: int) -> Dim:
    return product([atom_dim(atom)] * exponent)
