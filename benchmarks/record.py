"""The record of measurements, ``docs/performance/*.md``: its sections, and their tables as numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Table

RECORD = Path(__file__).resolve().parent.parent / "docs" / "performance"


@dataclass(frozen=True)
class Section:
    """A section of a page of the record."""

    page: str
    title: str
    text: str

    def tables(self) -> list[Table]:
        """The tables in their order. A title is the line in bold before, if there is one."""
        tables: list[Table] = []
        title, lines = "", list[str]()
        for line in [*self.text.splitlines(), ""]:
            if line.startswith("|"):
                lines.append(line)
                continue
            if len(lines) > 2:
                header, _, *rows = [tuple(cell.strip() for cell in one.strip("|").split("|")) for one in lines]
                tables.append(Table(title, header, tuple(rows)))
                title = ""
            lines = []
            bold = re.fullmatch(r"\*\*(.+)\*\*", line.strip())
            title = bold[1] if bold is not None else title
        return tables

    def table(self, which: str | int) -> Table:
        """The table of a title, or of a place among all.

        Raises:
            ValueError: if there is none, or several have the title.
        """
        tables = self.tables()
        chosen = tables[which : which + 1] if isinstance(which, int) else [t for t in tables if t.title == which]
        if len(chosen) != 1:
            raise ValueError(f"{self.page}, {self.title!r}: {len(chosen)} tables are {which!r}.")
        return chosen[0]


def section(page: str, title: str) -> Section:
    """The section of a page of the record, by its heading.

    Raises:
        ValueError: if the page has no such section, or two.
    """
    text = (RECORD / f"{page}.md").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]
    bodies = [body for heading, _, body in parts if heading == title]
    if len(bodies) != 1:
        raise ValueError(f"{page}.md has {len(bodies)} sections {title!r}.")
    return Section(page, title, bodies[0])


def number(cell: str) -> float | None:
    """A cell's number: ``1,259`` and ``2.12×`` are numbers, ``–`` and an empty cell are none."""
    plain = cell.replace(",", "").rstrip("×").strip()
    return float(plain) if re.fullmatch(r"\d+(\.\d+)?", plain) else None


def row(table: Table, label: str) -> tuple[float | None, ...]:
    """The numbers of the row of a label; the label itself is None.

    Raises:
        ValueError: if no row or several have the label.
    """
    rows = [cells for cells in table.rows if cells[0] == label]
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows of {table.title!r} are {label!r}.")
    return tuple(None if place == 0 else number(cell) for place, cell in enumerate(rows[0]))
