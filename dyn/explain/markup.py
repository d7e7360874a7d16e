"""Pieces of HTML that explanations and profiles are made of."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already; a column of nothing is left out. It scrolls where it is too wide."""
    if not rows:
        return '<p class="dyn-none">None.</p>'
    empty = ("", mono(""))
    kept = [i for i in range(len(heads)) if any(row[i] not in empty for row in rows)]
    heads, rows = [heads[i] for i in kept], [[row[i] for i in kept] for row in rows]
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    made = f'<table class="dyn-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="dyn-wide">{made}</div>'


def mono(text: str) -> str:
    """Text as code."""
    return f"<code>{escape(text)}</code>"


def tag(text: str, style_class: str) -> str:
    """Text on a label of the colour of a kind."""
    return f'<span class="dyn-tag {style_class}">{escape(text)}</span>'
