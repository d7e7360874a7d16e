"""The explanation as a self-contained piece of HTML: no scripts, nothing loaded, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from dyn.explain.figures import BoundaryFigures, KernelFigures, at
from dyn.explain.graph import make_graph
from dyn.explain.markup import mono, table, tag
from dyn.explain.picture import draw
from dyn.explain.report import FactRow, Report, Status
from dyn.explain.style import style
from dyn.explain.words import COLUMNS, pluralized
from dyn.ir.printer import print_function
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.launch import walk_launches

if TYPE_CHECKING:
    from dyn.explain.explanation import Explanation

#: Code longer than this is cut: a notebook keeps what it shows.
_MOST_CODE = 24_000
#: Tables that are longer than this are closed at first.
_MOST_OPEN = 12
_STATUS_CLASS = {Status.DECLARED: "dyn-parameter", Status.NEEDED: "dyn-contract", Status.PROVED: "dyn-loop"}
_STATUS_TEXT = {Status.DECLARED: "declared", Status.NEEDED: "needed", Status.PROVED: "proved"}


def page(explanation: Explanation) -> str:
    """The explanation of a function: a heading, and a part for each of its programs."""
    return style() + _function(explanation)


def _function(explanation: Explanation) -> str:
    name, count, number = explanation.name, len(explanation.versions), 0
    counts = "".join(
        f'<span class="dyn-count">{escape(pluralized(n, what))}</span>' for what, n in explanation.cache.items()
    )
    parts = [f'<div class="dyn-explain"><div><span class="dyn-name">{escape(name)}</span>{counts}</div>']
    parts += _texts(explanation.notes)
    for way in explanation.ways:
        parts += _texts(way.notes)
        for report in way.programs:
            number += 1
            body = _version(name, report)
            if count == 1:
                parts.append(body)
                continue
            because = f"<small>because {escape(report.because)}</small>" if report.because else ""
            parts.append(
                f'<details class="dyn-version"{" open" if number == 1 else ""}><summary>program {number} of '
                f"{count}{because}</summary>{body}</details>"
            )
        parts += _texts(way.pieces)
    if not (explanation.ways or explanation.failures or explanation.parts):
        parts.append('<p class="dyn-none">Not called yet: nothing is compiled.</p>')
    parts += _texts(explanation.failures)
    return "".join([*parts, *map(_function, explanation.parts), "</div>"])


def _texts(texts: Sequence[str]) -> list[str]:
    """The notes of a front end, one to a line."""
    return [f"<pre>{escape(text)}</pre>" for text in texts]


def _version(name: str, report: Report) -> str:
    few_dims, few_facts = len(report.dims) <= _MOST_OPEN, len(report.facts) <= _MOST_OPEN
    checks = pluralized(sum(row.status is not Status.PROVED for row in report.facts), "check")
    kinds = f"{pluralized(len(report.groups), 'kind')} of kernel"
    sections = [
        _section("Picture", _summary(report), _picture(name, report), opened=True),
        _section("Dims", pluralized(len(report.dims), "symbolic dim"), _dims(report), opened=few_dims),
        _section("Facts", f"{checks} at each call", _facts(report.facts), opened=few_facts),
        _section("Guards", pluralized(len(report.guards), "guard"), _guards(report.guards), opened=bool(report.guards)),
        _section("Groups and variants", kinds, _groups(report), opened=report.figures is not None),
        _section("Memory", _memory_summary(report), _memory(report)),
        _section("Compile time", _time(report), _stages(report)),
        _section("Code", "DHLO, kernels, host program", _code(report)),
    ]
    return "".join(sections)


def _time(report: Report) -> str:
    """``310 ms; kernels: 2 from disk``"""
    return f"{1000 * report.seconds:.0f} ms" + (f"; kernels: {report.origins}" if report.origins else "")


def _summary(report: Report) -> str:
    launched = f"{pluralized(sum(row.count for row in report.groups), 'kernel')} a call"
    return launched if report.saved == "0" else f"{launched}; fusing saves {report.saved} bytes of traffic"


def _picture(name: str, report: Report) -> str:
    svg = draw(make_graph(report.optimized), f"The kernels of {name}, and the arrays between them")
    return f'<div class="dyn-scroll">{svg}</div>'


def _section(title: str, note: str, body: str, *, opened: bool = False) -> str:
    return (
        f"<details{' open' if opened else ''}><summary>{title}<small>{escape(note)}</small></summary>{body}</details>"
    )


def _dims(report: Report) -> str:
    rows = [
        (mono(row.name), mono(row.origin), mono(row.declared), mono(row.same)) for row in report.dims
    ]  # fmt: skip
    return table(("dim", "is the size of", "declared", "the same as"), rows)


def _facts(facts: Sequence[FactRow]) -> str:
    rows = [
        (mono(row.text), tag(_STATUS_TEXT[row.status], _STATUS_CLASS[row.status]), *_why(row)) for row in facts
    ]  # fmt: skip
    legend = (
        '<p class="dyn-none">Declared and needed facts are checked at each call, before anything is computed; '
        "proved ones follow from them.</p>"
    )
    return table(("fact", "known", "why", "your line"), rows) + (legend if rows else "")


def _guards(guards: Sequence[FactRow]) -> str:
    return table(("guard", "why", "your line"), [(mono(row.text), *_why(row)) for row in guards])


def _why(row: FactRow) -> tuple[str, str]:
    loc = row.loc
    return escape(row.why), mono(loc.describe()) if loc is not None and loc.line else ""


def _groups(report: Report) -> str:
    program = report.figures
    sizes = "" if program is None else at(program.sizes_text)
    rows: list[tuple[str, ...]] = []
    for row, figures in zip(report.groups, report.kernel_figures(), strict=True):
        beside = COLUMNS if row.columns else ""
        over = f' <span class="dyn-quiet">over {list(row.reduced)}{beside}</span>' if row.reduced else ""
        times = f"\u00a0×\u00a0{row.count}" if row.count > 1 else ""
        variants = "".join(
            f'<div>{escape(v.note)} <span class="dyn-quiet">{escape(v.when)}'
            + (f", {escape(v.state)}</span></div>" if v.state else "</span></div>")
            + (f'<div class="dyn-quiet">schedule: {escape(v.schedule)}</div>' if v.schedule else "")
            + "".join([f"<div>{_figures(inner)}</div>" for inner in v.region_figures(figures)])
            for v in row.variants
        )
        lines = "".join(f"<div>{mono(line)}</div>" for line in row.lines)
        told = [f"computed as operands are read: {', '.join(row.prologue)}"] if row.prologue else []
        told += [f"computed again, rather than read: {op}" for op in row.recomputed]
        ends = "".join(f"<div>{escape(line)}</div>" for line in told)
        for end, boundary in zip(row.ends, row.boundaries(figures), strict=True):
            ends += f"<div>{escape(end)}</div>{'' if boundary is None else _boundary(boundary)}"
        rows.append((
            f"{tag(row.kind, f'dyn-{row.kind}')}<br><b>{escape(row.name)}</b>{times}<br>{mono(row.space)}{over}",
            "" if figures is None else _figures(figures), lines, variants, mono(row.saved), ends,
        ))  # fmt: skip
    heads = ("kernel", sizes, "your lines", "variants", "saves, bytes", "ends because")
    return table(heads, rows) + ("" if program is None else f"<p>{escape(program.text())}.</p>")


def _figures(figures: KernelFigures) -> str:
    """Figures of a kernel, with its share as a bar."""
    if figures.runs == 0:
        return '<span class="dyn-quiet">does not run</span>'
    bar = "" if figures.share is None else f'<span class="dyn-bar" style="width:{100 * figures.share:.0f}px"></span>'
    time = figures.time()
    return f"{escape(figures.amounts())}{f'<br>{escape(time)}' if time else ''}{f'<br>{bar}' if bar else ''}"


def _boundary(boundary: BoundaryFigures) -> str:
    return f'<div class="dyn-quiet">{escape(boundary.text())}</div>'


def _memory_summary(report: Report) -> str:
    """``0 bytes between kernels for most sizes``"""
    usual, *others = report.memory.arena_in_words.partition(" for most sizes")
    return f"{usual} bytes between kernels{others[0]}"


def _memory(report: Report) -> str:
    memory = report.memory
    said = "".join([f"<p>{line}.</p>" for line in memory.told()])
    if not memory.slots:
        return f'<p class="dyn-none">No intermediate arrays.</p>{said}'
    texts = zip(memory.slots_in_words, memory.slots, strict=True)
    slots = [(str(number), *map(mono, slot)) for number, slot in enumerate(texts)]
    arena = ("arena", mono(memory.arena_in_words), mono(memory.arena))
    return f"<p>Slots are used again as values die.</p>{said}" + table(("slot", "bytes", "formula"), [*slots, arena])


def _stages(report: Report) -> str:
    most = max([seconds for _, seconds in report.stages], default=0.0) or 1.0
    rows = [
        (
            escape(stage),
            f"{1000 * seconds:.1f} ms",
            f'<span class="dyn-bar" style="width:{200 * seconds / most:.0f}px"></span>',
        )
        for stage, seconds in report.stages
    ]
    return table(("stage", "time", ""), rows)


def _code(report: Report) -> str:
    optimized = report.optimized
    kernels = {id(v.kernel): v.kernel for launch in walk_launches(optimized.launches) for v in launch.variants}
    texts = {
        "DHLO, after all passes": (print_function(optimized.function), 'as_text("dhlo")'),
        "Kernels": ("\n".join(kernel_text(kernel) for kernel in kernels.values()), 'as_text("kernel")'),
        "Host program": (optimized.host.text(), 'as_text("host")'),
    }
    parts: list[str] = []
    for title, (text, whole) in texts.items():
        shown = text
        if len(text) > _MOST_CODE:
            shown = text[: text.rindex("\n", 0, _MOST_CODE)]
            shown += f"\n… {len(text) - len(shown):,} more characters; .trace(...).lower().{whole} gives all"
        parts.append(_section(title, f"{text.count(chr(10)):,} lines", f"<pre>{escape(shown)}</pre>"))
    return "".join(parts)
