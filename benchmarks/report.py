"""What a benchmark found, for a terminal, for docs/performance/ and for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows of text; the first column is a label, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        rule = "|".join(["---", *["---:"] * (len(self.header) - 1)])
        lines = [_row(self.header), f"|{rule}|", *[_row(row) for row in self.rows]]
        return f"**{self.title}**\n\n" + "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """Tables, what a reader has to know of them, and everything that was measured."""

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    def markdown(self) -> str:
        notes = "\n".join(f"- {note}" for note in self.notes)
        return "\n\n".join([f"## {self.title}", *[table.markdown() for table in self.tables], notes]) + "\n"

    def json(self) -> str:
        return json.dumps({"title": self.title, "notes": self.notes, **self.data}, indent=1) + "\n"

    def show(self) -> None:
        """Print for a person."""
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable

        console = Console()
        console.print(f"\n[bold]{self.title}[/bold]")
        for table in self.tables:
            shown = RichTable(title=table.title, box=box.SIMPLE_HEAD, title_justify="left", title_style="")
            for i, name in enumerate(table.header):
                shown.add_column(name, justify="right" if i else "left", style="bold" if name == "dyn" else "")
            for row in table.rows:
                shown.add_row(*row)
            console.print(shown)
        for note in self.notes:
            console.print(f"· {note}", style="dim", highlight=False)


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
