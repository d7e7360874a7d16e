"""Prices explanations at sizes: what each kernel does for them, about how long that takes, and what bounds it.

Bytes and operations are those of ``cost_analysis``, and times those of ``dyn.stitch.cost``, by which groups were
decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dyn.errors import ArgumentError, ShapeError
from dyn.explain.cost_analysis import Analyst, GroupCost, NamedSizes, check_size
from dyn.explain.explanation import Explanation
from dyn.explain.figures import BoundaryFigures, KernelFigures, ProgramFigures
from dyn.explain.report import GroupRow, Report
from dyn.ir.opdef import Control
from dyn.lower.host import MemorySpace
from dyn.ops.counts import at_sizes, leaves_of
from dyn.schedule.launch import Body, Launch, by_group, general_launches
from dyn.shapes import Dim, Symbol, as_dim, free_symbols
from dyn.stitch.cost import X86, Estimate
from dyn.stitch.groups import End, Group


def priced(explanation: Explanation, sizes: Mapping[str, int]) -> Explanation:
    """The explanation with figures at some sizes, of the programs that hold for these.

    Raises:
        ArgumentError: for a name that no program has a size of, what is no size, and where no program holds.
    """
    programs = [_Program(report, sizes) for report in _reports(explanation)]
    if not programs:
        return explanation
    _check(sizes, programs)
    found: dict[int, Report] = {}
    refusals: list[ArgumentError] = []
    for program in programs:
        try:
            found[id(program.report)] = program.priced()
        except ArgumentError as error:
            refusals.append(error)
    if not found:
        raise _no_program(refusals, sizes)
    return _replaced(explanation, found)


def _check(sizes: Mapping[str, int], programs: Sequence[_Program]) -> None:
    """Raise an ArgumentError for a name that no program has, or what is no size."""
    if len(programs) == 1:
        programs[0].symbols.check(sizes)
        return
    names = sorted({name for program in programs for name in program.symbols.names})
    for name, size in sizes.items():
        if name not in names:
            there = ", ".join(names) or "none"
            raise ArgumentError(f"no program has a size {name!r}.", remedy=f"their sizes are {there}.")
        check_size(name, size)


def _no_program(refusals: Sequence[ArgumentError], sizes: Mapping[str, int]) -> ArgumentError:
    if len(refusals) == 1:
        return refusals[0]
    reasons = [f"program {number}: {error.problem}" for number, error in enumerate(refusals, 1)]
    return ArgumentError(
        f"none of the {len(refusals)} programs holds for {_text(sizes)}.",
        notes=tuple(reasons),
        remedy="give sizes that one of them holds for.",
    )


def _text(sizes: Mapping[str, int]) -> str:
    return ", ".join([f"{name}={size}" for name, size in sizes.items()]) or "no sizes"


def _reports(explanation: Explanation) -> Iterator[Report]:
    yield from explanation.versions
    for part in explanation.parts:
        yield from _reports(part)


def _replaced(explanation: Explanation, reports: Mapping[int, Report]) -> Explanation:
    """The explanation with other reports in the place of some."""
    ways = tuple([
        replace(way, programs=tuple([reports.get(id(report), report) for report in way.programs]))
        for way in explanation.ways
    ])  # fmt: skip
    return replace(explanation, ways=ways, parts=tuple([_replaced(part, reports) for part in explanation.parts]))


N = TypeVar("N", int, float)


class _Program:
    """A program, and the sizes of those names that it has."""

    def __init__(self, report: Report, sizes: Mapping[str, int]) -> None:
        self.report = report
        self.function = report.optimized.function
        self.facts = self.function.facts
        symbols = dict.fromkeys([*report.traced.function.symbols(), *self.function.symbols()])
        unknown = Analyst(self.facts).of(report.optimized.launches, 1, "").unknown()
        self.symbols = NamedSizes(self.facts, tuple(symbols), tuple(unknown))
        self.sizes = {name: size for name, size in sizes.items() if name in self.symbols.names}

    def priced(self) -> Report:
        """The report with figures.

        Raises:
            ArgumentError: where a size is missing, and where the program does not hold for them.
        """
        values = self._values()
        self._check_holds(values)
        return _Pricer(self.report, self.sizes, values).report_with_figures()

    def _values(self) -> dict[Symbol, int]:
        """The size of each symbol that is given by name, or follows from others."""
        given = self.symbols(self.sizes)
        values: dict[Symbol, int] = {}
        for symbol in dict.fromkeys([*self.symbols.symbols, *given]):
            value = given[symbol] if symbol in given else at_sizes(self.facts.simplify(as_dim(symbol)), given)
            if isinstance(value, int):
                values[symbol] = value
        for param in self.function.params:
            for symbol in sorted(free_symbols(param.type.size), key=lambda one: one.uid):
                if symbol not in values:
                    raise self._missing(symbol)
        return values

    def _missing(self, symbol: Symbol) -> ArgumentError:
        names = ", ".join(self.symbols.names)
        return ArgumentError(f"the program's size {symbol.name!r} is missing.", remedy=f"its sizes are {names}.")

    def _check_holds(self, values: Mapping[Symbol, int]) -> None:
        """Raise an ArgumentError where the program is not for these sizes."""
        for declaration in self.facts.declarations:
            size = values.get(declaration.symbol)
            if size is not None and not declaration.holds(size):
                raise self._not_held(f"{declaration.describe()} is required: {declaration.reason.text}.")
        for relation in (*self.report.traced.guards, *self.facts.relations):
            if relation.symbols() <= values.keys() and not relation.holds(values):
                raise self._not_held(relation.failure(values))

    def _not_held(self, problem: str) -> ArgumentError:
        return ArgumentError(
            f"the program does not hold for {_text(self.sizes)}: {problem}", remedy="give sizes that it holds for."
        )


class _Pricer:
    """Figures of a program's kernels at the sizes that it holds for; ``values`` are those of its symbols."""

    def __init__(self, report: Report, sizes: Mapping[str, int], values: Mapping[Symbol, int]) -> None:
        self.report, self.sizes, self.values = report, sizes, values
        optimized = report.optimized
        #: The prices are those of a processor.
        self.prices = None if optimized.host.space is MemorySpace.DEVICE else X86
        self.launches = _chosen(optimized.launches, values)
        analyst = Analyst(optimized.function.facts)
        unknown = analyst.of(self.launches, 1, "").unknown()
        #: Names of numbers that were not given, with their meanings.
        self.unknown = {name: text for name, text in unknown.items() if name not in sizes}
        self.costs = {cost.group: cost for cost in analyst.costs}
        #: Groups of plans that these sizes do not choose.
        self.idle = {group for launch in optimized.launches if launch.is_choice for group in _groups(launch)}
        self.idle -= {launch.group for launch in self.launches}
        self._known: dict[Group, KernelFigures | None] = {}

    def report_with_figures(self) -> Report:
        """The report, in which kernels that read the same are told apart where their figures differ."""
        rows: list[GroupRow] = []
        launches: list[tuple[Launch, ...]] = []
        figures: list[KernelFigures | None] = []
        for row, alike in zip(self.report.groups, self.report.launches, strict=True):
            by_figures: dict[KernelFigures | None, list[Launch]] = {}
            for launch in alike:
                by_figures.setdefault(self._with_boundaries(launch), []).append(launch)
            for own, some in by_figures.items():
                rows.append(replace(row, count=len(some)))
                launches.append(tuple(some))
                runs = None if own is None or own.runs is None else own.runs * len(some)
                figures.append(None if own is None else replace(own, runs=runs))
        seconds = self._seconds(self.launches)
        shared = tuple([self._with_share(own, seconds) for own in figures])
        program = ProgramFigures(self.sizes, *self._amounts(self.launches), seconds, shared, self.unknown)
        return replace(self.report, groups=tuple(rows), launches=tuple(launches), figures=program)

    def _with_share(self, figures: KernelFigures | None, whole: float | None) -> KernelFigures | None:
        """Figures with the share of the whole program's seconds."""
        if figures is None or not whole or figures.seconds is None or figures.runs is None:
            return figures
        regions = [self._with_share(inner, whole) for inner in figures.regions]
        share = figures.runs * figures.seconds / whole
        return replace(figures, share=share, regions=tuple([inner for inner in regions if inner is not None]))

    def _with_boundaries(self, launch: Launch) -> KernelFigures | None:
        """Figures of a launch's group in one run, with those of its boundaries; None where they have no value."""
        figures = self._figures(launch)
        if figures is None or figures.runs == 0:
            return figures
        ends = {str(end): self._boundary(end) for end in reversed(launch.group.ends)}
        return replace(figures, boundaries=tuple([ends[str(end)] for end in dict.fromkeys(launch.group.ends)]))

    def _boundary(self, end: End) -> BoundaryFigures | None:
        arrays = [self._number(nbytes) for nbytes in end.arrays]
        known = [nbytes for nbytes in arrays if nbytes is not None]
        if len(known) < len(arrays):
            return None
        return BoundaryFigures(sum(known), None if self.prices is None else self.prices.apart(known))

    def _figures(self, launch: Launch) -> KernelFigures | None:
        """Figures of one run of a launch's group; None where it has no numbers."""
        if launch.group not in self._known:
            self._known[launch.group] = self._found(launch)
        return self._known[launch.group]

    def _found(self, launch: Launch) -> KernelFigures | None:
        group = launch.group
        name = f"{group.kind.value} {group.name}"
        if group in self.idle:
            return KernelFigures(name, 0, 0, 0, 0.0, None, 0, 0)
        if launch.bodies:
            return self._control(launch, name)
        cost = self.costs.get(group)
        nbytes = None if cost is None else self._bytes(cost)
        if cost is None or nbytes is None:
            return None
        flops, transcendentals = self._number(cost.kernel.flops), self._number(cost.kernel.transcendentals)
        found = self._estimate(cost, nbytes)
        level = 0 if found is None or found.level == len(X86.levels) else found.level
        seconds, limit = (None, None) if found is None else (found.seconds, found.limit)
        runs = self._number(cost.kernel.times)
        return KernelFigures(name, nbytes, flops, transcendentals, seconds, limit, level, runs)

    def _bytes(self, cost: GroupCost) -> int | None:
        """Bytes that a kernel moves: where a size is 0 they may be less than the formula has."""
        total = 0
        for buffers, runs in cost.moved:
            moved = [(self._number(accessed), self._number(held)) for accessed, held in buffers]
            times = self._number(runs)
            for accessed, held in moved:
                if accessed is None or held is None or times is None:
                    return None
                total += times * min(accessed, held)
        return total

    def _estimate(self, cost: GroupCost, nbytes: int) -> Estimate | None:
        """About the time of a kernel. Numbers of 8 bytes take twice as long as those of 4."""
        counts = {dtype: self._number(count) for dtype, count in cost.work.flops.items()}
        work = self._number(cost.work.function_work)
        if self.prices is None or work is None:
            return None
        flops = 0
        for dtype, count in counts.items():
            if count is None:
                return None
            flops += 2 * count if dtype.itemsize == 8 else count
        return self.prices.kernel(nbytes, flops, work)

    def _control(self, launch: Launch, name: str) -> KernelFigures:
        """A loop or a choice: one run is all that its regions do; of a choice the region that takes most."""
        inner = [one for body in launch.bodies for run in _by_group(body.launches) if (one := self._figures(run))]
        alike = Counter(inner)
        regions = tuple([replace(one, runs=None if one.runs is None else one.runs * n) for one, n in alike.items()])
        if any(one.runs is None for one in regions):
            return KernelFigures(name, None, None, None, None, None, 0, None, regions=regions)
        own = (launch,)
        return KernelFigures(name, *self._amounts(own), self._seconds(own), None, 0, 1, regions=regions)

    def _amounts(self, launches: Sequence[Launch]) -> tuple[int, int, int]:
        """Bytes, operations and transcendental functions of launches, of those that have numbers."""
        return (
            self._sum(launches, lambda one: one.nbytes or 0),
            self._sum(launches, lambda one: one.flops or 0),
            self._sum(launches, lambda one: one.transcendentals or 0),
        )

    def _seconds(self, launches: Sequence[Launch]) -> float | None:
        """Seconds of launches, of those that have times."""
        return None if self.prices is None else self._sum(launches, lambda one: one.seconds or 0.0)

    def _sum(self, launches: Sequence[Launch], quantity: Callable[[KernelFigures], N]) -> N:
        """A quantity of all runs of launches: of a choice that of the region that has most."""
        total: Any = 0
        for launch in _by_group(launches):
            if launch.bodies:
                parts = [self._sum(body.launches, quantity) for body in launch.bodies]
                is_loop = launch.group.ops[0].opdef.loops in (Control.SCAN, Control.WHILE)
                total += sum(parts) if is_loop else max(parts)
                continue
            figures = self._figures(launch)
            if figures is not None:
                total += quantity(figures) * self._least(self.costs[launch.group].kernel.times)
        return total

    def _number(self, count: Dim) -> int | None:
        """A count at the sizes; None where it has no value, as one has that depends on what was not given."""
        named = {symbol: self.sizes[symbol.name] for symbol in leaves_of(count) if symbol.name in self.sizes}
        try:
            number = at_sizes(count, {**self.values, **named})
        except ShapeError:
            return None
        return number if isinstance(number, int) else None

    def _least(self, count: Dim) -> int:
        """A count at the sizes, in which 0 stands for what was not given."""
        others = {
            symbol: 0 for symbol in leaves_of(count) if symbol not in self.values and symbol.name not in self.sizes
        }
        return self._number(at_sizes(count, others)) or 0


def _chosen(launches: Sequence[Launch], values: Mapping[Symbol, int]) -> tuple[Launch, ...]:
    """Launches in their order, of alternatives those of the first plan that is right for the sizes."""
    found: list[Launch] = []
    for launch in launches:
        if launch.is_choice:
            found += next(body.launches for body in launch.bodies if _is_right(body, values))
        else:
            found.append(launch)
    return tuple(found)


def _is_right(body: Body, values: Mapping[Symbol, int]) -> bool:
    """Return True for an alternative that is known to be right for the sizes; the last one always is."""
    try:
        return body.when is None or body.when.holds(values)
    except (KeyError, ShapeError):
        return False


def _by_group(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    return by_group(tuple(general_launches(launches)))


def _groups(choice: Launch) -> Iterator[Group]:
    """The groups of all alternatives."""
    for body in choice.bodies:
        yield from (launch.group for launch in body.launches)
