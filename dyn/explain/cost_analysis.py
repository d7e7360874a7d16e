"""Cost analysis of a program: operations and bytes as formulas of its sizes, by kernel and in all.

Formulas are those of the kernels that are right for all sizes. Bytes are right where no size is 0.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dyn.errors import ArgumentError
from dyn.explain.report import group_row
from dyn.explain.text import group_title
from dyn.ir.core import Function
from dyn.ir.opdef import Control
from dyn.ops.counts import UnknownCount, at_sizes, leaves_of, unknown_count
from dyn.ops.work import OpWork
from dyn.schedule.launch import Dispatch, Launch, general_launches
from dyn.schedule.launch_cost import buffer_bytes, bytes_formula, general_way, group_work
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, Symbol, as_dim, dim_max, format_dim, free_symbols
from dyn.source import Loc
from dyn.stitch.groups import Group


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Cost of one kernel, each time that it runs: numbers, or formulas of sizes.

    Attributes:
        kernel: kernel's line in ``explain()``.
        group: kind of group: ``"loop"``, ``"stitch"``, …
        times: how often it runs in a call; in a loop as often as that goes round.
        flops: operations, a multiply-add two of them, without transcendental functions.
        transcendentals: transcendental functions of elements.
        bytes_accessed: bytes of memory that it reads and writes.
        branch: choice that has to be made for it to run, as ``"branch 1 of if at model.py:7"``; empty if there is none.
        lines: user's lines that it computes.
    """

    kernel: str
    group: str
    times: Dim
    flops: Dim
    transcendentals: Dim
    bytes_accessed: Dim
    branch: str = ""
    lines: tuple[str, ...] = ()


class CostAnalysis(dict[str, Dim]):
    """Operations and bytes of a program by JAX's names, as numbers or as formulas of its sizes.

    It is a dict of ``"flops"``, ``"transcendentals"`` and ``"bytes accessed"``. A formula is an expression of the
    program's dims, which prints as ``2*m*k*n``; a number is a Python int, and exact.

    Args:
        totals: the numbers or formulas by name.
        kernels: those of each kernel.
        unknown: names in the formulas that are no sizes of arguments, each with its meaning.
        sizes: the function that finds the symbols of sizes given by name.
    """

    def __init__(
        self,
        totals: Mapping[str, Dim],
        kernels: Sequence[KernelCost],
        unknown: Mapping[str, str],
        sizes: Callable[[Mapping[str, int]], Mapping[Symbol, Dim]],
    ) -> None:
        super().__init__(totals)
        self._kernels, self._unknown, self._sizes = tuple(kernels), dict(unknown), sizes

    @property
    def kernels(self) -> tuple[KernelCost, ...]:
        """Costs of the kernels, in the order of the program."""
        return self._kernels

    @property
    def unknown(self) -> Mapping[str, str]:
        """Names in the formulas that are no sizes of arguments, each with its meaning.

        They are numbers of iterations of loops, data-dependent sizes, and operations of functions outside.
        """
        return self._unknown

    def at(self, sizes: Mapping[str, int]) -> CostAnalysis:
        """Cost at some sizes.

        Args:
            sizes: sizes by name, as in ``{"b": 8, "s": 128}``; any of :attr:`unknown` too. What is left out stays in
                the formulas.

        Returns:
            The analysis, of numbers where all is given.

        Raises:
            ArgumentError: for a name that the program has no size of, or what is no size.
        """
        known = self._sizes(sizes)
        named = {symbol for count in self.values() for symbol in leaves_of(count) if symbol.name in sizes}
        known = {**known, **{symbol: sizes[symbol.name] for symbol in named}}

        def put(count: Dim) -> Dim:
            return at_sizes(count, known)

        kernels = [
            replace(
                kernel, times=put(kernel.times), flops=put(kernel.flops),
                transcendentals=put(kernel.transcendentals), bytes_accessed=put(kernel.bytes_accessed),
            )
            for kernel in self._kernels
        ]  # fmt: skip
        unknown = {name: text for name, text in self._unknown.items() if name not in sizes}
        return CostAnalysis({name: put(count) for name, count in self.items()}, kernels, unknown, self._sizes)

    def __repr__(self) -> str:
        return f"CostAnalysis({', '.join(f'{name}={format_dim(count)}' for name, count in self.items())})"

    def __str__(self) -> str:
        lines = [f"{name}: {format_dim(count)}" for name, count in self.items()]
        # The layers of a model cost the same.
        for kernel, count in Counter([replace(kernel, lines=()) for kernel in self._kernels]).items():
            times = "" if kernel.times == 1 else f", {format_dim(kernel.times)} times"
            alike = "" if count == 1 else f", {count} alike"
            lines.append(f"{kernel.kernel}{times}{f', in {kernel.branch}' if kernel.branch else ''}{alike}")
            for name, count in (
                ("flops", kernel.flops),
                ("transcendentals", kernel.transcendentals),
                ("bytes accessed", kernel.bytes_accessed),
            ):
                lines.append(f"  {name}: {format_dim(count)}")
        lines += [f"{name}: {text}" for name, text in self._unknown.items()]
        return "\n".join(lines)


def analyze(function: Function, launches: Sequence[Launch], names: Sequence[Symbol]) -> CostAnalysis:
    """The cost of a program's launches; ``names`` are the symbols that users have names for."""
    analyst = Analyst(function.facts)
    total = analyst.of(launches, 1, "")
    unknown = total.unknown()
    counts = {"flops": total.flops, "transcendentals": total.transcendentals, "bytes accessed": total.nbytes}
    known = dict.fromkeys([*names, *function.symbols()])
    kernels = [cost.kernel for cost in analyst.costs]
    return CostAnalysis(counts, kernels, unknown, NamedSizes(function.facts, tuple(known), tuple(unknown)))


def check_size(name: str, size: object) -> None:
    """Raise an ArgumentError for what is no size."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ArgumentError(f"{size!r} is no size of {name!r}.", remedy="give a number that is not negative.")


@dataclass(frozen=True, eq=False, slots=True)
class NamedSizes:
    """Finds the symbols of sizes given by name; ``others`` are names of numbers that are no sizes of arguments."""

    facts: Facts
    symbols: tuple[Symbol, ...]
    others: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names that may be given."""
        return [*sorted({symbol.name for symbol in self.symbols}), *self.others]

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise an ArgumentError for a name that there is not, or what is no size."""
        names = self.names
        for name, size in sizes.items():
            if name not in names:
                there = ", ".join(names) or "none"
                raise ArgumentError(f"the program has no size {name!r}.", remedy=f"its sizes are {there}.")
            check_size(name, size)

    def __call__(self, sizes: Mapping[str, int]) -> Mapping[Symbol, Dim]:
        """The symbols of sizes, with what the program calls them."""
        self.check(sizes)
        found: dict[Symbol, Dim] = {}
        for symbol in self.symbols:
            if symbol.name not in sizes:
                continue
            found[symbol] = sizes[symbol.name]
            # What the program calls it, where it was found equal to another one.
            same = self.facts.simplify(as_dim(symbol))
            if not isinstance(same, int) and same.is_symbol is not None:
                found.setdefault(same.is_symbol, sizes[symbol.name])
        return found


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of some launches."""

    flops: Dim = 0
    transcendentals: Dim = 0
    nbytes: Dim = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.transcendentals + other.transcendentals, self.nbytes + other.nbytes)

    def times(self, count: Dim) -> Cost:
        """The cost of running so many times."""
        return Cost(self.flops * count, self.transcendentals * count, self.nbytes * count)

    def unknown(self) -> dict[str, str]:
        """Names in the formulas that are no sizes of arguments, each with its meaning."""
        mentioned = leaves_of(self.flops) | leaves_of(self.transcendentals) | leaves_of(self.nbytes)
        return {
            symbol.name: symbol.origin if isinstance(symbol, UnknownCount) else f"data-dependent size {symbol.origin}"
            for symbol in sorted(mentioned, key=lambda symbol: symbol.uid)
            if isinstance(symbol, UnknownCount) or symbol.data_dependent
        }


@dataclass(frozen=True, eq=False, slots=True)
class GroupCost:
    """Cost of a group's kernel, its operations by dtype, and what its launches move (``buffer_bytes``), each with how
    often it is launched."""

    group: Group
    kernel: KernelCost
    work: OpWork
    moved: tuple[tuple[list[tuple[Dim, Dim]], Dim], ...]


class Analyst:
    """Walks launches, and notes the cost of each kernel: ``costs``, in the order of the program."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.costs: list[GroupCost] = []
        self._positive: set[Symbol] = set()
        self._loops = itertools.count()

    def of(self, launches: Sequence[Launch], times: Dim, branch: str) -> Cost:
        """The cost of launches that run so many times."""
        total = Cost()
        for group, run in itertools.groupby(general_launches(launches), key=lambda launch: launch.group):
            same = tuple(run)
            if group.bodies:
                total = total + self._control(same[0], times, branch)
            elif same[0].measures is None:
                total = total + self._kernel(same, times, branch)
        return total

    def _kernel(self, launches: Sequence[Launch], times: Dim, branch: str) -> Cost:
        first, nbytes, moved = launches[0], as_dim(0), list[tuple[list[tuple[Dim, Dim]], Dim]]()
        work = group_work(first.group)
        for launch, runs in general_way(launches):
            buffers = buffer_bytes(Dispatch(launch, launch.variants[-1] if launch.variants else None))
            for pair in buffers:
                self._assume_positive(*pair)
            nbytes = nbytes + runs * bytes_formula(buffers, self.facts)
            moved.append((buffers, runs))
        row = group_row(first)
        cost = Cost(*[self.facts.simplify(count) for count in (work.total, work.transcendentals, nbytes)])
        kernel = KernelCost(
            group_title(row), row.kind, times, cost.flops, cost.transcendentals, cost.nbytes, branch, row.lines
        )
        self.costs.append(GroupCost(first.group, kernel, work, tuple(moved)))
        return cost.times(times)

    def _control(self, launch: Launch, times: Dim, branch: str) -> Cost:
        """The cost of a loop or a choice: of its regions, as often as they run. Of a choice it is the greatest."""
        (op,) = launch.group.ops
        where = f"{op.opdef.name}{_place(op.loc)}"
        bodies = [body.launches for body in launch.bodies]
        if op.opdef.loops is Control.SCAN:
            return self.of(bodies[0], times * op.attrs["length"], branch)
        if op.opdef.loops is Control.WHILE:
            trips = unknown_count(f"trips{next(self._loops)}", f"iterations of {where}")
            return self.of(bodies[0], times * (trips + 1), branch) + self.of(bodies[1], times * trips, branch)
        costs = [self.of(body, times, f"branch {number} of {where}") for number, body in enumerate(bodies)]
        return Cost(
            self._greatest([cost.flops for cost in costs]),
            self._greatest([cost.transcendentals for cost in costs]),
            self._greatest([cost.nbytes for cost in costs]),
        )

    def _greatest(self, counts: Sequence[Dim]) -> Dim:
        greatest = counts[0]
        for count in counts[1:]:
            if self.facts.ge(count, greatest).proved:
                greatest = count
            elif not self.facts.ge(greatest, count).proved:
                greatest = dim_max(greatest, count)
        return greatest

    def _assume_positive(self, *counts: Dim) -> None:
        """Take it that no size is 0: formulas would have a case for each."""
        for symbol in frozenset().union(*map(free_symbols, counts)) - self._positive:
            self._positive.add(symbol)
            claim = Relation(RelKind.GE, as_dim(symbol), 1, Reason("no size is 0"))
            if not self.facts.ask(claim).refuted:
                self.facts = self.facts.assume(claim)


def _place(loc: Loc) -> str:
    return f" at {loc}" if loc.line else ""
