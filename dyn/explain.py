"""``explain()``: what a compilation found out and decided, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dyn.ir.core import Function
from dyn.lower.host import AxisCheck, site_text
from dyn.lower.launch import Launch
from dyn.pipeline import Optimized, Record
from dyn.shapes import Declaration, Dim, Relation, as_dim, format_dim, product
from dyn.source import Loc
from dyn.stitch.groups import Group
from dyn.trace.function import TracedFunction


@dataclass(frozen=True)
class Explanation:
    """The explanation of every program of a function. ``str()`` and ``print`` give the text."""

    name: str
    versions: tuple[str, ...]
    cache: Mapping[str, int]

    def __str__(self) -> str:
        counts = ", ".join(_count(count, what) for what, count in self.cache.items())
        head = f"{self.name}: {counts}"
        if not self.versions:
            return f"{head}\n  not called yet: nothing is compiled"
        if len(self.versions) == 1:
            return f"{head}\n{self.versions[0]}"
        parts = [f"program {i + 1} of {len(self.versions)}\n{text}" for i, text in enumerate(self.versions)]
        return "\n".join([head, *parts])

    __repr__ = __str__


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def explain_version(optimized: Optimized, traced: TracedFunction, record: Record) -> str:
    """One program: its dims, facts, guards, groups, variants, memory and compile times."""
    function = optimized.function
    sections = [
        ("dims", _dims(function)),
        ("facts, checked at each call", _facts(optimized)),
        ("guards, which choose the program", [_relation(guard) for guard in traced.guards]),
        ("groups, each one kernel", _groups(optimized.launches)),
        ("memory", _memory(optimized)),
        ("compiled", _times(record)),
    ]
    lines: list[str] = []
    for title, entries in sections:
        lines.append(f"  {title}" if entries else f"  {title}: none")
        lines += [f"    {entry}" for entry in entries]
    return "\n".join(lines)


def _dims(function: Function) -> list[str]:
    declared = {d.symbol: d for d in function.facts.declarations}
    lines: list[str] = []
    for symbol in function.symbols():
        simplified = function.facts.simplify_shape((as_dim(symbol),))[0]
        text = f"{symbol.name} = {symbol.origin}"
        if symbol in declared:
            text += f", {declared[symbol].describe()}"
        if format_dim(simplified) != symbol.name:
            text += f", the same as {format_dim(simplified)}"
        lines.append(text)
    return lines


def _facts(optimized: Optimized) -> list[str]:
    names = [info.name for info in optimized.function.infos]
    hidden = [info.hidden for info in optimized.function.infos]
    lines: list[str] = []
    for site in optimized.host.sites:
        if isinstance(site, Relation):
            lines.append(_relation(site))
        elif isinstance(site, Declaration):
            lines.append(f"{site.describe()}: {site.reason.text}")
        elif isinstance(site, AxisCheck) and not hidden[site.input]:
            lines.append(f"{site_text(site, names)}: declared")
    return lines


def _relation(relation: Relation) -> str:
    return f"{relation.describe()}: {relation.reason.text}{_at(relation.reason.loc)}"


def _at(loc: Loc | None) -> str:
    return "" if loc is None else f" ({loc})"


def _groups(launches: Sequence[Launch]) -> list[str]:
    """Every group once: those that read the same, as the layers of a model do, are counted."""
    counts = Counter(tuple(_group(launch)) for launch in launches)
    lines: list[str] = []
    for (head, *rest), count in counts.items():
        lines += [f"{head}, {count} times" if count > 1 else head, *rest]
    return lines


def _group(launch: Launch) -> list[str]:
    group = launch.group
    space = ", ".join(format_dim(d) for d in group.space)
    reduced = f" over axes {sorted(group.reduced)}" if group.reduced else ""
    lines = [f"{group.kind.value} {group.name} [{space}]{reduced}: {_count(len(group.ops), 'op')}, {_saved(group)}"]
    for loc in dict.fromkeys(op.loc for op in group.ops):
        lines.append(f"  from {loc.describe()}")
    lines += [f"  ends: {end}" for end in dict.fromkeys(group.ends)]
    for variant in launch.variants:
        when = "always" if variant.condition is None else f"when {variant.condition.describe()}"
        lines.append(f"  variant {variant.note}: {when}")
    return lines


def _saved(group: Group) -> str:
    """The bytes that fusing keeps off memory: each inner value would be written once and read once."""
    inner = [v for op in group.ops for v in op.results if v not in group.outputs]
    saved: Dim = 0
    for value in inner:
        saved = saved + 2 * product(value.shape) * value.dtype.itemsize
    return f"saves {format_dim(saved)} bytes of traffic" if inner else "nothing inside to save"


def _memory(optimized: Optimized) -> list[str]:
    host = optimized.host
    if not host.slots:
        return ["no intermediate arrays"]
    lines = [f"arena {format_dim(host.arena)} bytes, in {len(host.slots)} slots used again as values die:"]
    return lines + [f"  slot {i}: {format_dim(slot)}" for i, slot in enumerate(host.slots)]


def _times(record: Record) -> list[str]:
    total = sum(record.seconds.values())
    lines = [f"{stage} {1000 * seconds:.1f} ms" for stage, seconds in record.seconds.items()]
    return [f"total {1000 * total:.1f} ms, {_count(record.kernels_compiled, 'distinct kernel')}", *lines]
