"""The explanation as text."""

from __future__ import annotations

from collections.abc import Sequence

from dyn.explain.figures import at
from dyn.explain.report import DimRow, GroupRow, Report, Status
from dyn.explain.words import COLUMNS, pluralized


def version_text(report: Report) -> str:
    """Text of one program: why it is there, its dims, facts, guards, groups, variants, memory and compile times."""
    lines: list[str] = []
    for title, entries in sections(report):
        lines.append(f"  {title}" if entries else f"  {title}: none")
        lines += [f"    {entry}" for entry in entries]
    return "\n".join(lines)


def sections(report: Report) -> list[tuple[str, list[str]]]:
    """Titles, with what stands under each: dims first, what compiling took last."""
    proved = [row for row in report.facts if row.status is Status.PROVED]
    return [
        ("dims", [dim_text(row) for row in report.dims]),
        (
            "facts, checked at each call",
            [f"{row.text}: {row.because()}" for row in report.facts if row.status is not Status.PROVED],
        ),
        *([("proved from them", [f"{row.text}: {row.because()}" for row in proved])] if proved else []),
        ("guards, which choose the program", [f"{row.text}: {row.because()}" for row in report.guards]),
        ("groups, each one kernel", _groups(report)),
        ("memory", _memory(report)),
        ("compiled", _times(report)),
    ]


def group_title(row: GroupRow) -> str:
    """``stitch reduce_exponential [b, s] over axes [1]``"""
    reduced = f" over axes {list(row.reduced)}" if row.reduced else ""
    return f"{row.kind} {row.name} {row.space}{reduced}{COLUMNS if row.columns else ''}"


def dim_text(row: DimRow) -> str:
    """``s = x.shape[1], declared min=1, the same as t``"""
    text = f"{row.name} = {row.origin}"
    if row.declared:
        text += f", {row.declared}"
    if row.same:
        text += f", the same as {row.same}"
    return text


def _groups(report: Report) -> list[str]:
    lines: list[str] = []
    sizes = report.figures.sizes_text if report.figures is not None else ""
    for row, figures in zip(report.groups, report.kernel_figures(), strict=True):
        times = f", {row.count} times" if row.count > 1 else ""
        saved = f"saves {row.saved} bytes of traffic" if row.saved else "nothing inside to save"
        lines.append(f"{group_title(row)}: {pluralized(row.ops, 'op')}, {saved}{times}")
        lines += [f"  {figures.text(sizes)}"] if figures is not None else []
        lines += [f"  from {line}" for line in row.lines]
        lines += [f"  prologue, computed as operands are read: {', '.join(row.prologue)}"] if row.prologue else []
        lines += [f"  computed again, rather than read: {op}" for op in row.recomputed]
        for end, boundary in zip(row.ends, row.boundaries(figures), strict=True):
            lines.append(f"  ends: {end}")
            lines += [f"    {boundary.text()} {at(sizes)}"] if boundary is not None else []
        for variant in row.variants:
            lines.append(f"  variant {variant.note}: {variant.when}{f', {variant.state}' if variant.state else ''}")
            lines += [f"    schedule: {variant.schedule}"] if variant.schedule else []
            lines += [f"    {inner.text(sizes)}" for inner in variant.region_figures(figures)]
    if sum(row.count for row in report.groups) > 1 and report.saved != "0":
        lines.append(f"all of them save {report.saved} bytes of traffic")
    lines += [report.figures.text()] if report.figures is not None else []
    return lines


def _memory(report: Report) -> list[str]:
    slots = report.memory.slots_in_words
    lines = ["no intermediate arrays"]
    if slots:
        lines = [
            f"arena, in bytes: {report.memory.arena_in_words}",
            f"{pluralized(len(slots), 'slot')}, used again as values die:",
        ]
        lines += [f"  slot {i}: {slot}" for i, slot in enumerate(slots)]
    lines += report.memory.told()
    return lines


def _times(report: Report) -> list[str]:
    kernels = pluralized(report.kernels, "distinct kernel")
    return [
        f"total {1000 * report.seconds:.1f} ms, {kernels}{f': {report.origins}' if report.origins else ''}",
        *stage_lines(report.stages),
    ]


def stage_lines(stages: Sequence[tuple[str, float]]) -> list[str]:
    """``trace 12.3 ms``, a line a stage."""
    return [f"{stage} {1000 * seconds:.1f} ms" for stage, seconds in stages]
