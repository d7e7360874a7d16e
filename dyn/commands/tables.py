"""Tables on a terminal: with rich where it is installed and somebody is looking, in plain columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """Aligned columns; one that is empty in every row is left out."""
        kept = [i for i in range(len(self.columns)) if any(row[i] for row in self.rows)]
        lines = [[self.columns[i] for i in kept], *[[row[i] for i in kept] for row in self.rows]]
        widths = [max(len(line[i]) for line in lines) for i in range(len(kept))]
        told = [
            "  " + "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([self.title, *told])


def show(title: str, tables: Sequence[Table], text: str, *, plain: bool) -> None:
    """Print a title, tables and a text under them."""
    if plain or not _show_with_rich(title, tables, text):
        print("\n\n".join([title, *[table.text() for table in tables], *([text] if text else [])]))


def _show_with_rich(title: str, tables: Sequence[Table], text: str) -> bool:
    if not sys.stdout.isatty():
        return False
    try:
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text
    except ImportError:
        return False
    console = Console(highlight=False)
    console.print(Text(title, style="bold"))
    for table in tables:
        made = RichTable(title=Text(table.title, style="bold"), title_justify="left")
        kept = [i for i in range(len(table.columns)) if any(row[i] for row in table.rows)]
        for i in kept:
            made.add_column(table.columns[i], overflow="fold")
        for row in table.rows:
            made.add_row(*[Text(row[i], style="red" if row[i] == "no" else "") for i in kept])
        console.print(made)
    if text:
        console.print(Text(text))
    return True
