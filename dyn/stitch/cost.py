"""Costs of groups: bytes and launches as formulas of sizes, and their price in seconds.

A plan is made once for all sizes, so a decision is priced at several *points* of them: the sizes that are declared as
likely, or else a small, a middling and a large one. No point comes from a call: plans are the same in every process.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum

from dyn.errors import ShapeError
from dyn.frozen import record
from dyn.ir.core import Function, Value
from dyn.ir.opdef import OpKind
from dyn.shapes import Dim, Facts, Symbol, as_dim, dim_sum, evaluate, format_dim, free_symbols
from dyn.stitch.drafts import Draft, Drafts
from dyn.stitch.fusion import EPILOGUES
from dyn.stitch.relations import AT_RELATED_PLACES
from dyn.stitch.spread import left_to_readers


class Limit(Enum):
    """Limit that a kernel's time mostly comes from."""

    MEMORY = "memory"
    ARITHMETIC = "arithmetic"
    LAUNCH = "launch"


@record()
class Estimate:
    """Estimated time of a kernel, and which limit binds; ``level`` of the memory is where its arrays lie, from 1."""

    seconds: float
    limit: Limit
    level: int


@record()
class Prices:
    """Prices of a target for the parts of a cost, in seconds, of one core.

    ``levels`` are the bytes that each level of the memory holds and the seconds for a byte of an array that lies there,
    nearest first; the last level holds every array. ``flop`` is for an operation of float32, of which a multiply-add
    has two, and ``work`` for a unit of ``Scalar.work``.
    """

    levels: tuple[tuple[float, float], ...]
    launch: float
    flop: float
    work: float

    def level(self, nbytes: float) -> int:
        """The level in which arrays of so many bytes lie, counted from 1."""
        for number, (capacity, _) in enumerate(self.levels, 1):
            if nbytes <= capacity:
                return number
        return len(self.levels)

    def transfer(self, nbytes: float) -> float:
        """Seconds to read or write an array of so many bytes."""
        return nbytes * self.levels[self.level(nbytes) - 1][1]

    def apart(self, arrays: Iterable[float]) -> float:
        """Seconds that it takes more if two groups are apart: to write, or to read again, arrays of so many bytes
        each, and for a launch."""
        return self.launch + sum(map(self.transfer, arrays))

    def kernel(self, nbytes: float, flops: float, work: float) -> Estimate:
        """Estimated time of a kernel that moves so many bytes, with operations of float32 and units of ``Scalar.work``.

        Arithmetic takes place while arrays are moved at the pace of the level that all of them together lie in.
        """
        transfer, arithmetic = self.transfer(nbytes), flops * self.flop + work * self.work
        if self.launch >= max(transfer, arithmetic):
            limit = Limit.LAUNCH
        else:
            limit = Limit.MEMORY if transfer >= arithmetic else Limit.ARITHMETIC
        return Estimate(max(transfer, arithmetic) + self.launch, limit, self.level(nbytes))


#: One core of an Emerald Rapids, by ``scripts/measure_prices.py``.
X86 = Prices(((24e3, 1 / 196e9), (1e6, 1 / 78e9), (16e6, 1 / 39e9), (math.inf, 1 / 26e9)), 70e-9, 1 / 155e9, 1 / 32e9)

#: No array has as many bytes: shares of sums stay numbers.
_MOST_BYTES = 2.0**64
#: A formula that is longer is told to nobody.
_LONGEST = 60
#: Sizes for a dim of which nothing is declared.
_USUAL = (4, 64, 1024)


@record(eq=False)
class PricePoints:
    """Sizes of a function's dims at which costs are compared."""

    sizes: tuple[Mapping[Symbol, int], ...]
    _known: dict[Dim, tuple[float, ...]] = field(default_factory=dict[Dim, tuple[float, ...]])
    _bytes: dict[tuple[int, tuple[Dim, ...]], tuple[float, ...]] = field(
        default_factory=dict[tuple[int, tuple[Dim, ...]], tuple[float, ...]]
    )

    @staticmethod
    def of(function: Function) -> PricePoints:
        """The points of a function: each gives all dims their likely sizes in turn, or usual ones within bounds."""
        choices = {symbol: _choices(symbol, function.facts) for symbol in function.symbols()}
        return PricePoints(tuple([{symbol: sizes[n] for symbol, sizes in choices.items()} for n in range(len(_USUAL))]))

    def values(self, dim: Dim) -> tuple[float, ...]:
        """A dim at each point. Sizes that have no value there count as usual ones."""
        if isinstance(dim, int):
            return (float(dim),) * len(self.sizes)
        known = self._known.get(dim)
        if known is None:
            found = [_value(dim, sizes, usual) for sizes, usual in zip(self.sizes, _USUAL, strict=True)]
            known = self._known[dim] = tuple(found)
        return known

    def bytes(self, value: Value) -> tuple[float, ...]:
        """The bytes of a value at each point."""
        known = self._bytes.get((value.dtype.itemsize, value.shape))
        if known is None:
            axes = [self.values(dim) for dim in value.shape]
            elements = [math.prod(point) for point in zip(*axes, strict=True)] or [1.0] * len(self.sizes)
            known = tuple([min(value.dtype.itemsize * count, _MOST_BYTES) for count in elements])
            self._bytes[value.dtype.itemsize, value.shape] = known
        return known


def _choices(symbol: Symbol, facts: Facts) -> tuple[int, ...]:
    likely = sorted(facts.likely(symbol))
    if likely:
        return likely[0], likely[len(likely) // 2], likely[-1]
    low, high = facts.bounds(as_dim(symbol))
    return tuple([min(max(size, low or 0), size if high is None else high) for size in _USUAL])


def _value(dim: Dim, sizes: Mapping[Symbol, int], usual: int) -> float:
    try:
        return float(evaluate(dim, sizes))
    except (KeyError, ShapeError, OverflowError):
        return float(usual)


class Savings:
    """Savings of making one group of two: arrays that are not written, or read once less, and a launch."""

    def __init__(self, drafts: Drafts, prices: Prices) -> None:
        self.drafts, self.prices = drafts, prices
        self.points = PricePoints.of(drafts.function)
        self._transfers: dict[Value, tuple[float, ...]] = {}
        self._totals = self._sum(list(self._all_transfers()))

    def _all_transfers(self) -> Iterator[tuple[float, ...]]:
        for draft in self.drafts.groups.values():
            yield (self.prices.launch,) * len(self.points.sizes)
            for value in (*draft.sources, *[v for op in draft.ops for v in op.results]):
                yield self.transfers(value)

    def _sum(self, times: list[tuple[float, ...]]) -> tuple[float, ...]:
        return tuple([sum(point) for point in zip(*times, strict=True)])

    def transfers(self, value: Value) -> tuple[float, ...]:
        """Seconds to read or write a value, at each point."""
        known = self._transfers.get(value)
        if known is None:
            points = self.points.bytes(value) if self._is_moved(value) else (0.0,) * len(self.points.sizes)
            known = self._transfers[value] = tuple(map(self.prices.transfer, points))
        return known

    def seconds(self, a: Draft, b: Draft) -> tuple[float, ...]:
        """Seconds that are saved at each point if two groups become one."""
        transfers = [self.transfers(value) for value in self._saved(a, b)]
        return self._sum([(self.prices.launch,) * len(self.points.sizes), *transfers])

    def arrays(self, a: Draft, b: Draft) -> tuple[Dim, ...]:
        """Bytes of each array that is not written, or read once less, if two groups become one."""
        return tuple([value.type.nbytes for value in self._saved(a, b) if self._is_moved(value)])

    def _is_moved(self, value: Value) -> bool:
        """Return True for a value that lies in memory: it is not left to what reads it."""
        return value not in self.drafts.group_of or not left_to_readers(self.drafts, value)

    def describe(self, a: Draft, b: Draft) -> str:
        """Cost of two groups being apart, in words: ``8*b*s bytes, about 1.2 µs at b=64, s=64``, at the middling
        point."""
        nbytes, seconds = dim_sum(self.arrays(a, b)), self.seconds(a, b)[len(_USUAL) // 2]
        sizes = self.points.sizes[len(_USUAL) // 2]
        symbols = sorted(free_symbols(nbytes), key=lambda symbol: symbol.name)
        formula = format_dim(nbytes)
        if len(formula) > _LONGEST:
            return f"about {1e6 * seconds:.2g} µs at usual sizes"
        at = ", ".join(f"{symbol.name}={sizes.get(symbol, _USUAL[len(_USUAL) // 2])}" for symbol in symbols)
        return f"{formula} bytes, about {1e6 * seconds:.2g} µs{f' at {at}' if at else ''}"

    def share(self, a: Draft, b: Draft) -> float:
        """The share of the whole program that is saved, in the mean of the points."""
        saved = self.seconds(a, b)
        return sum([own / whole for own, whole in zip(saved, self._totals, strict=True)]) / len(saved)

    def _saved(self, a: Draft, b: Draft) -> Iterator[Value]:
        """The values that are not written, or read once less: once for each of the two."""
        small, large = (a, b) if len(a.sources) + len(a.ops) <= len(b.sources) + len(b.ops) else (b, a)
        group_of = self.drafts.group_of
        for value in small.sources:
            if value in large.sources or group_of.get(value) is large:
                yield value  # read once less
            if group_of.get(value) is large and self._is_internal(value, a, b):
                yield value  # not written
        for op in small.ops:
            for value in op.results:
                if value in large.sources:
                    if value not in small.sources:
                        yield value
                    if self._is_internal(value, a, b):
                        yield value

    def _is_internal(self, value: Value, a: Draft, b: Draft) -> bool:
        """Whether a value, which one of two groups makes, is not written once others that read it have joined them too:
        elementwise functions and reductions may, the latter not as epilogues. So what reads an array together with
        others is not the last to."""
        if value in self.drafts.pinned or value in self.drafts.shown:
            return False
        kinds = (OpKind.POINTWISE,) if a.kind in EPILOGUES or b.kind in EPILOGUES else AT_RELATED_PLACES
        return all(
            self.drafts.draft_of[reader] in (a, b) or reader.opdef.kind in kinds
            for reader in self.drafts.readers.get(value, ())
        )
