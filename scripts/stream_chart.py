"""Draws ``docs/images/stream.svg``, the chart of README.md, from the figures in ``docs/performance.md``.

``python -m scripts.stream_chart`` after the table of that page has changed; a test compares the two.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "images" / "stream.svg"
#: The section of the page whose table is drawn, and how its peers are called.
SECTION = "shape_stream: 12-layer BERT over 100 shapes"
PEERS = {"dyn": "dyn", "torch": "PyTorch, eager", "jax": "jax.jit"}
TITLE = "A 12-layer BERT meets 100 shapes: seconds, each shape once"

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW, _BAR = 680, 120, 180, 52, 40, 22
#: The picture has a ground of its own, for pages that are dark.
_COLORS = {"dyn": ("#1d4ed8", "#f59e0b")}
_OTHERS = ("#94a3b8", "#f59e0b")


def figures(page: str) -> dict[str, dict[str, float]]:
    """The table ``In all`` of the section: by its rows' names, the peers' numbers."""
    section = page.split(f"## {SECTION}\n", 1)[1].split("\n## ", 1)[0]
    table = section.split("**In all**", 1)[1].split("**", 1)[0].strip().splitlines()
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {
        name: {
            peer: float(cell.replace(",", ""))
            for peer, cell in zip(header[1:], cells, strict=True)
            if re.fullmatch(r"[\d.,]+", cell)
        }
        for name, *cells in rows
    }


def chart(table: Mapping[str, Mapping[str, float]]) -> str:
    """A bar for each peer: the time of touching every shape once, of which compiling has its own colour."""
    totals, compiling, compiles = (table[name] for name in ("first touch, s", "compiling, s", "compiles"))
    scale = (_WIDTH - _LEFT - _RIGHT) / max(totals.values())
    height = _TOP + _ROW * len(PEERS) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="14" role="img">',
        f"<title>{_description(totals, compiling, compiles)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        f'<text x="16" y="28" fill="#0f172a" font-weight="600">{TITLE}</text>',
    ]
    for place, (peer, name) in enumerate(PEERS.items()):
        lines += _bar(name, _COLORS.get(peer, _OTHERS), _TOP + place * _ROW, scale, totals[peer], compiling[peer])
        number = int(compiles[peer])
        said = f"{totals[peer]:.0f} s" + (f", {number} compile{'s' if number > 1 else ''}" if number else "")
        x, y = _LEFT + totals[peer] * scale + 8, _TOP + place * _ROW + 16
        lines.append(f'<text x="{x:.0f}" y="{y}" fill="#0f172a">{said}</text>')
    y = height - 14
    lines += [
        f'<rect x="{_LEFT}" y="{y - 11}" width="12" height="12" fill="{_OTHERS[1]}"/>',
        f'<text x="{_LEFT + 18}" y="{y}" fill="#475569" font-size="12">compiling</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _bar(name: str, colors: Sequence[str], y: int, scale: float, total: float, compiling: float) -> list[str]:
    running, making = (total - compiling) * scale, compiling * scale
    return [
        f'<text x="{_LEFT - 10}" y="{y + 16}" text-anchor="end" fill="#0f172a">{name}</text>',
        f'<rect x="{_LEFT}" y="{y}" width="{making:.1f}" height="{_BAR}" fill="{colors[1]}"/>',
        f'<rect x="{_LEFT + making:.1f}" y="{y}" width="{running:.1f}" height="{_BAR}" fill="{colors[0]}"/>',
    ]


def _description(totals: Mapping[str, float], compiling: Mapping[str, float], compiles: Mapping[str, float]) -> str:
    each = [
        f"{name} {totals[peer]} seconds, with {int(compiles[peer])} compiles of {compiling[peer]} seconds in all"
        for peer, name in PEERS.items()
    ]
    return f"Every shape once: {'; '.join(each)}."


def main() -> int:
    """Draw it again."""
    PICTURE.write_text(chart(figures(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
