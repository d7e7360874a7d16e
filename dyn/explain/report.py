"""Records of one program for ``explain()``; ``text`` and ``html`` show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from enum import Enum
from itertools import groupby
from types import MappingProxyType
from typing import Any

from dyn.backends.binaries import Origin
from dyn.backends.deferred import DeferredState
from dyn.compilation_record import CompilationRecord
from dyn.explain.figures import BoundaryFigures, KernelFigures, ProgramFigures
from dyn.explain.sizes import size_in_words
from dyn.explain.words import pluralized
from dyn.frozen import record
from dyn.ir.binding import AxisCheck
from dyn.ir.core import Function, Value
from dyn.lower.host import InRegion, MemorySpace, site_text
from dyn.pipeline import Optimized
from dyn.schedule.kernel_text import kernel_name
from dyn.schedule.launch import Launch, Variant, by_group, general_launches
from dyn.shapes import Declaration, Dim, Reason, Relation, as_dim, format_dim, format_shape, product
from dyn.source import Loc
from dyn.stitch.groups import Group, GroupKind
from dyn.trace.function import TracedFunction

#: ``when`` of a row for a kernel in a region of a loop or a choice.
IN_REGION = "in a region"


class Status(Enum):
    """Origin of a fact: declared, needed or proved."""

    #: The user said so; checked at each call.
    DECLARED = "declared"
    #: An operation needs it, and nothing proves it; checked at each call.
    NEEDED = "needed"
    #: It follows from the others; nothing is left to check.
    PROVED = "proved"


@record()
class DimRow:
    """A dimension: the axis that gives its size, what was declared of it, and what it was proved equal to."""

    name: str
    origin: str
    declared: str
    same: str


@record()
class FactRow:
    """Something that is true of the dims, or that a call was routed by."""

    text: str
    status: Status
    why: str
    loc: Loc | None = None

    def because(self) -> str:
        """``add broadcasts axis 1 (model.py:84)``"""
        where = "" if self.loc is None or not self.loc.line else f" ({self.loc})"
        return f"{self.why}{where}"


@record()
class VariantRow:
    """A version of a kernel, and for which sizes it runs."""

    note: str
    when: str
    #: How its loops were made of those of the group: ``split i0 by 8192, bind i0 to lanes``.
    schedule: str = ""
    #: Whether it is compiled, for one that calls can do without: ``not compiled yet``.
    state: str = ""

    def region_figures(self, kernel: KernelFigures | None) -> list[KernelFigures]:
        """Figures of what it stands for, of those of a loop's or a choice's regions: of several that read the same."""
        inside = kernel.regions if kernel is not None and self.when == IN_REGION else ()
        return [inner for inner in inside if inner.kernel == self.note]


@record()
class GroupRow:
    """A kernel: what it iterates over, which of the user's lines it computes, and why it is no larger."""

    kind: str
    name: str
    space: str
    reduced: tuple[int, ...]
    ops: int
    #: The bytes of traffic that fusing saves, ``""`` where there is nothing inside to save.
    saved: str
    lines: tuple[str, ...]
    ends: tuple[str, ...]
    variants: tuple[VariantRow, ...]
    #: The names of the ops that compute operands of a contraction while it reads them.
    prologue: tuple[str, ...] = ()
    #: The ops of other kernels whose results this one computes again.
    recomputed: tuple[str, ...] = ()
    #: How many groups of the program read the same.
    count: int = 1
    #: Whether it reduces the other axes too.
    columns: bool = False

    def boundaries(self, kernel: KernelFigures | None) -> Sequence[BoundaryFigures | None]:
        """Figures of each of its ends."""
        return (None,) * len(self.ends) if kernel is None or not kernel.boundaries else kernel.boundaries


@record()
class MemoryRow:
    """Intermediate memory in bytes: the formula of the whole, and of each slot; and the bytes of each large constant,
    and of each array that is kept ``in_panels``.

    ``arena_in_words`` and ``slots_in_words`` are the same for people, case by case.
    """

    arena: str
    slots: tuple[str, ...]
    constants: tuple[int, ...]
    arena_in_words: str
    slots_in_words: tuple[str, ...]
    in_panels: tuple[int, ...] = ()

    def told(self) -> list[str]:
        """Lines about large constants and about arrays in panels."""
        lines: list[str] = []
        if self.constants:
            lines.append(f"{pluralized(len(self.constants), 'large constant')}, of {sum(self.constants)} bytes")
        if self.in_panels:
            count, size = len(self.in_panels), sum(self.in_panels)
            what = "1 array that never changes, kept" if count == 1 else f"{count} arrays that never change, kept"
            lines.append(f"{what} in panels, as products read them: {size} bytes")
        return lines


@record(eq=False)
class Report:
    """Report on one program."""

    #: Why it was compiled, beside the programs there were.
    because: str
    dims: tuple[DimRow, ...]
    facts: tuple[FactRow, ...]
    guards: tuple[FactRow, ...]
    groups: tuple[GroupRow, ...]
    #: The bytes of traffic that all groups together save.
    saved: str
    memory: MemoryRow
    kernels: int
    #: Where the machine code of the kernels came from: ``3 compiled, 2 from disk``; ``""`` without kernels.
    origins: str
    #: Seconds by stage, in order.
    stages: tuple[tuple[str, float], ...]
    #: For the picture and the code, which are made when they are shown, and for what is priced.
    optimized: Optimized
    traced: TracedFunction
    #: The launches of each of the groups; several where groups read the same.
    launches: tuple[tuple[Launch, ...], ...]
    #: Figures at sizes, where some were given.
    figures: ProgramFigures | None = None

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.stages)

    def kernel_figures(self) -> Sequence[KernelFigures | None]:
        """Figures of each of the groups."""
        return (None,) * len(self.groups) if self.figures is None else self.figures.kernels

    def as_dict(self) -> dict[str, Any]:
        """It as dicts, lists, strings and numbers, without the picture and the code."""
        left_out = {"optimized", "traced", "launches", *(["figures"] if self.figures is None else [])}
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self) if field.name not in left_out}


def _plain(value: Any) -> Any:
    """Rows as what JSON has."""
    match value:
        case tuple():
            return [_plain(one) for one in value]
        case Mapping():
            return {name: _plain(one) for name, one in value.items()}
        case Enum():
            return value.value
        case Loc():
            return value.describe() if value.line else None
        case str() | int() | float() | None:
            return value
        case _:
            return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def make_report(
    optimized: Optimized,
    traced: TracedFunction,
    record: CompilationRecord,
    because: str,
    states: Mapping[str, DeferredState] = MappingProxyType({}),
    resources: Mapping[str, str] = MappingProxyType({}),
    in_panels: tuple[int, ...] = (),
) -> Report:
    """The report of one program, which keeps arrays of so many bytes ``in_panels``; ``states`` has those of its
    deferred kernels, by name, and ``resources`` what the compiler says of a GPU's."""

    def state(variant: Variant) -> str:
        if not states and not resources:
            return ""
        name = kernel_name(variant.kernel)
        known = states.get(name) if variant.deferred else None
        return ", ".join([*([] if known is None else [known.value]), *([resources[name]] if name in resources else [])])

    saved: Dim = 0
    for launch in by_group(tuple(general_launches(optimized.launches))):
        saved = saved + saved_bytes(launch.group)
    groups = _groups(optimized.launches, state, on_device=optimized.host.space is MemorySpace.DEVICE)
    return Report(
        because,
        tuple(dim_rows(optimized.function)),
        _facts(optimized),
        tuple(_relation(guard, Status.NEEDED) for guard in traced.guards),
        tuple([replace(row, count=len(launches)) for row, launches in groups.items()]),
        format_dim(saved),
        _memory(optimized, in_panels),
        record.kernels_compiled,
        _origins(record),
        tuple(record.seconds.items()),
        optimized,
        traced,
        tuple(map(tuple, groups.values())),
    )


def _origins(record: CompilationRecord) -> str:
    counts = Counter(record.kernel_origins())
    return ", ".join([f"{counts[origin]} {origin.value}" for origin in Origin if counts[origin]])


def _facts(optimized: Optimized) -> tuple[FactRow, ...]:
    checked = _checked(optimized)
    told = {row.text for row in checked}
    return (*checked, *[row for row in _proved(optimized.function) if row.text not in told])


def dim_rows(function: Function) -> list[DimRow]:
    """The symbols of a function, each with the axis that gives its size."""
    declared = {d.symbol: d for d in function.facts.declarations}
    rows: list[DimRow] = []
    for symbol in function.symbols():
        same = format_dim(function.facts.simplify(as_dim(symbol)))
        told = declared[symbol].describe() if symbol in declared else ""
        rows.append(DimRow(symbol.name, symbol.origin, told, "" if same == symbol.name else same))
    return rows


def _checked(optimized: Optimized) -> list[FactRow]:
    """The checks of the host program at each call."""
    rows: list[FactRow] = []
    for site in optimized.host.sites:
        if isinstance(site, InRegion):
            row = _relation(site.relation, Status.NEEDED)
            rows.append(replace(row, why=f"{row.why}, in a loop or a branch: checked where that runs"))
        elif isinstance(site, Relation):
            said = site.reason.loc is not None and not site.reason.loc.line
            rows.append(_relation(site, Status.DECLARED if said else Status.NEEDED))
        elif isinstance(site, Declaration):
            rows.append(FactRow(site.describe(), Status.DECLARED, site.reason.text, site.reason.loc))
    return [*_sizes(optimized), *rows]


#: Arguments of static shapes, which parameter trees have by the hundred, that are told of one by one.
_MOST_SHAPES = 8


def _sizes(optimized: Optimized) -> list[FactRow]:
    """The sizes that arguments were declared with: of those that are numbers alone, the whole shape."""
    infos, params = optimized.function.infos, optimized.function.params
    names = [info.name for info in infos]
    sites = [s for s in optimized.host.sites if isinstance(s, AxisCheck) and not infos[s.input].hidden]
    counts = Counter(site.input for site in sites)
    whole = {
        n: f"{names[n]}.shape == {format_shape(params[n].shape)}"
        for n, count in counts.items()
        if count == len(params[n].shape)
    }
    texts = [site_text(site, names) for site in sites if site.input not in whole]
    shapes = list(whole.values())
    if len(shapes) > _MOST_SHAPES:
        shapes = [f"{shapes[0]}, and so on for {len(shapes) - 1} other arguments"]
    return [FactRow(text, Status.DECLARED, "declared") for text in (*texts, *shapes)]


def _relation(relation: Relation, status: Status) -> FactRow:
    return FactRow(relation.describe(), status, relation.reason.text, relation.reason.loc)


def _proved(function: Function) -> list[FactRow]:
    """Proved facts of the dims: equalities, and bounds and factors beyond those that were declared."""
    facts = function.facts
    declared = {d.symbol: d for d in facts.declarations}
    rows: list[FactRow] = []
    for symbol in function.symbols():
        dim = as_dim(symbol)
        same = facts.simplify(dim)
        if same is not dim:
            rows.append(_derived(f"{symbol.name} == {format_dim(same)}", facts.eq(dim, same).why))
            continue
        low, high = facts.bounds(dim)
        told = declared.get(symbol)
        if low is not None and low > (0 if told is None else told.min):
            rows.append(_derived(f"{symbol.name} >= {low}", facts.ge(dim, low).why))
        if high is not None and (told is None or told.max is None or high < told.max):
            rows.append(_derived(f"{symbol.name} <= {high}", facts.ge(high, dim).why))
        factor = facts.multiple(dim)
        if factor > (1 if told is None else told.multiple_of):
            rows.append(_derived(f"{symbol.name} % {factor} == 0", facts.divides(factor, dim).why))
    return rows


def _derived(text: str, why: Sequence[Reason]) -> FactRow:
    return FactRow(text, Status.PROVED, "; ".join(str(reason) for reason in why) or "by arithmetic alone")


# ---- groups ----------------------------------------------------------------------------------------------------------


def _groups(
    launches: Sequence[Launch], state: Callable[[Variant], str], *, on_device: bool
) -> dict[GroupRow, list[Launch]]:
    """Groups, each once, with their launches: several of those that read the same, as the layers of a model do."""
    found: dict[GroupRow, list[Launch]] = {}
    for around, of in _alternatives(launches):
        for launch in by_group(of):
            found.setdefault(group_row(launch, state, around, on_device=on_device), []).append(launch)
    return found


def _alternatives(launches: Sequence[Launch]) -> list[tuple[str, tuple[Launch, ...]]]:
    """Runs of launches, each with when it is chosen: empty for those to which there is no alternative."""
    runs: list[tuple[str, tuple[Launch, ...]]] = []
    for is_choice, some in groupby(launches, key=lambda launch: launch.is_choice):
        if not is_choice:
            runs.append(("", tuple(some)))
            continue
        for launch in some:
            for body in launch.bodies:
                runs.append(("otherwise" if body.when is None else body.when.describe(), body.launches))
    return runs


def group_row(
    launch: Launch, state: Callable[[Variant], str] = lambda variant: "", around: str = "", *, on_device: bool = False
) -> GroupRow:
    """The row of a launch's group; ``state`` says what is to be said of a variant's kernel, and ``around`` when the
    launch is chosen, where there are alternatives. A program whose buffers are ``on_device`` calls libraries on the
    host.
    """
    group = launch.group
    inside = _inside(group)

    def when(variant: Variant) -> str:
        condition = " and ".join(part for part in ("" if around == "otherwise" else around, variant.when()) if part)
        return (
            ", ".join([*["otherwise"] * (around == "otherwise"), *[f"when {condition}"] * bool(condition)]) or "always"
        )

    variants = [VariantRow(v.note, when(v), ", ".join(v.steps), state(v)) for v in launch.variants]
    if launch.call is not None:
        variants.append(VariantRow("a library call, on the host" if on_device else "a library call", "always"))
    if launch.measures is not None:
        read = "fetched" if on_device else "read"
        variants.append(VariantRow(f"{launch.measures.name} is {read} by the host program", "always"))
    for body in launch.bodies:
        for inner in by_group(tuple(general_launches(body.launches))):
            variants.append(VariantRow(f"{inner.group.kind.value} {inner.group.name}", IN_REGION))
    return GroupRow(
        group.kind.value,
        group.name,
        f"[{', '.join(format_dim(d) for d in group.space)}]",
        tuple(sorted(group.reduced)),
        len(group.ops),
        format_dim(saved_bytes(group)) if inside else "",
        tuple(dict.fromkeys(op.loc.describe() for op in group.ops if op.loc.line)),
        tuple(dict.fromkeys(map(str, group.ends))),
        tuple(dict.fromkeys(variants)),
        tuple([op.opdef.name for op in group.prologue]),
        tuple([f"{op.opdef.name} at {op.loc}" for op in group.recomputed]),
        columns=bool(group.columns),
    )


def saved_bytes(group: Group) -> Dim:
    """The bytes that fusing keeps off memory: each inner value would be written once and read once."""
    saved: Dim = 0
    for value in _inside(group):
        saved = saved + 2 * product(value.shape) * value.dtype.itemsize
    return saved


def _inside(group: Group) -> frozenset[Value]:
    """The values that a group computes and does not store. What nobody reads of a loop or a choice is none of them."""
    whole = group.bodies or group.kind is GroupKind.DATA_DEPENDENT_SIZE
    return frozenset() if whole else group.members() - frozenset(group.outputs)


def _memory(optimized: Optimized, in_panels: tuple[int, ...]) -> MemoryRow:
    host, facts = optimized.host, optimized.function.facts
    return MemoryRow(
        format_dim(host.arena),
        tuple(format_dim(slot) for slot in host.slots),
        tuple(dense.nbytes for dense in host.constants),
        size_in_words(host.arena, facts),
        tuple(size_in_words(slot, facts) for slot in host.slots),
        in_panels,
    )
