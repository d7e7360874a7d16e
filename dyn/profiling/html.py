"""A profile as a self-contained piece of HTML, in the style of explanations."""

from __future__ import annotations

from html import escape

from dyn.explain.markup import mono, table, tag
from dyn.explain.style import style
from dyn.profiling.averages import HEADS, Averages, summary
from dyn.profiling.events import Events

#: Rows beyond these are left out.
_MOST_ROWS = 200
#: Width of the bar of a row that took all the time, in pixels.
_WIDTH = 120


def page(averages: Averages, events: Events) -> str:
    """The rows of a profile, those that took most time first, and what they leave out."""
    rows: list[tuple[str, ...]] = []
    for row in list(averages)[:_MOST_ROWS]:
        function, kernel, variant, *numbers = averages.cells(row)
        bar = f'<span class="dyn-bar" style="width:{max(_WIDTH * row.share, 1):.0f}px"></span>'
        kind = f"{tag(row.group, f'dyn-{row.group}')} {mono(kernel.removeprefix(f'{row.group} '))}"
        rows.append((mono(function), kind, mono(variant), *map(escape, numbers), bar))
    notes = [f'<p class="dyn-quiet">{escape(line)}</p>' for line in summary(events)]
    left = len(averages) - len(rows)
    if left > 0:
        notes.append(f'<p class="dyn-quiet">… and {left} more rows</p>')
    head = '<div><span class="dyn-name">profile</span></div>'
    return f'{style()}<div class="dyn-explain">{head}{table((*HEADS, "of all"), rows)}{"".join(notes)}</div>'
