"""Charts as SVG: bars of several parts, ratios on both sides of one, and strips of dots.

Two fit side by side into the column of a page, and one onto a phone at its own size. Each has a ground of its own, with
colours for dark pages.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 360
_MARGIN = 14
#: The colours of each of those that are compared: on a light ground, and on a dark one.
COLORS = {
    "dyn": ("#1d4ed8", "#60a5fa"),
    "compiling": ("#d97706", "#fbbf24"),
    "PyTorch": ("#c2410c", "#fb923c"),
    "torch.compile": ("#a21caf", "#e879f9"),
    "JAX": ("#0f766e", "#2dd4bf"),
    "NumPy": ("#475569", "#94a3b8"),
    "ONNX Runtime": ("#6d28d9", "#a78bfa"),
    "tf.function": ("#be185d", "#f472b6"),
    "TensorFlow's XLA": ("#4d7c0f", "#a3e635"),
}
_OTHER = ("#64748b", "#94a3b8")
_STYLE = (
    "text{fill:#0f172a}.note{fill:#475569;font-size:11px}.ground{fill:#fff}.line{stroke:#94a3b8}"
    "@media (prefers-color-scheme:dark){text{fill:#e2e8f0}.note{fill:#a3b1c6}.ground{fill:#0f172a}"
    ".line{stroke:#64748b}%s}"
)
#: Where a logarithmic axis may have a mark.
_MARKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Bar:
    """A bar of parts, one after the other, each with its colour; the text stands behind it."""

    label: str
    parts: tuple[tuple[str, float], ...]
    text: str


@dataclass(frozen=True)
class Ratios:
    """A subject and the machine, and how many times as long each of the others took as dyn."""

    label: str
    ratios: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Strip:
    """Ratios by the names of what was measured, as dots on a line."""

    label: str
    color: str
    ratios: Mapping[str, float]


class _Picture:
    """The lines of a picture, from its top down; ``y`` is where the next thing goes."""

    def __init__(self, title: str, description: str, width: int = WIDTH) -> None:
        self.width = width
        self.lines: list[str] = []
        self.description = description
        self.y = 26
        self.classes: dict[str, tuple[str, str]] = {}
        for line in textwrap.wrap(title, width // 9):
            self.text(_MARGIN, self.y, line, 'font-weight="600"')
            self.y += 18

    def text(self, x: float, y: float, text: str, more: str = "") -> None:
        self.lines.append(f'<text x="{x:.0f}" y="{y:.0f}"{" " * bool(more)}{more}>{escape(text, quote=False)}</text>')

    def color(self, name: str) -> str:
        """The class of a color."""
        known = f"c{list(COLORS).index(name)}" if name in COLORS else "other"
        self.classes[known] = COLORS.get(name, _OTHER)
        return f'class="{known}"'

    def bar(self, x: float, y: float, width: float, height: float, color: str) -> None:
        at = f'x="{x:.1f}" y="{y:.0f}" width="{max(width, 0.5):.1f}" height="{height:.0f}"'
        self.lines.append(f"<rect {at} {self.color(color)}/>")

    def line(self, x: float, y: float, to_y: float, more: str = "") -> None:
        self.lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y:.0f}" y2="{to_y:.0f}" class="line"{more}/>')

    def svg(self) -> str:
        height = self.y + 10
        style = "".join(f".{name}{{fill:{light}}}" for name, (light, _) in sorted(self.classes.items()))
        dark = "".join(f".{name}{{fill:{dark}}}" for name, (_, dark) in sorted(self.classes.items()))
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height:.0f}" width="{self.width}" '
            f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="13" role="img">',
            f"<title>{escape(self.description, quote=False)}</title>",
            f"<style>{style}{_STYLE % dark}</style>",
            f'<rect width="{self.width}" height="{height:.0f}" rx="6" class="ground"/>',
        ]
        return "\n".join([*head, *self.lines, "</svg>"]) + "\n"


class _Axis:
    """A logarithmic axis that has 1 on it."""

    def __init__(self, values: Sequence[float], left: float, right: float) -> None:
        self.low, self.high = math.log(min(0.8, *values) / 1.08), math.log(max(1.25, *values) * 1.08)
        self.left, self.right = left, right

    def at(self, value: float) -> float:
        part = (math.log(value) - self.low) / (self.high - self.low)
        return self.left + part * (self.right - self.left)

    def draw(self, picture: _Picture, top: float) -> None:
        """Draw its marks from ``top`` to where the picture is now, and which side is whose below."""
        shown = [1.0]
        for mark in sorted(_MARKS, key=lambda mark: abs(math.log(mark))):
            if self.left <= self.at(mark) <= self.right and all(
                abs(self.at(mark) - self.at(other)) > 30 for other in shown
            ):
                shown.append(mark)
        for mark in sorted(shown):
            picture.line(self.at(mark), top, picture.y, "" if mark == 1 else ' stroke-opacity="0.35"')
            picture.text(self.at(mark), picture.y + 13, f"{mark:g}×", 'text-anchor="middle" class="note"')
        picture.y += 30
        picture.text(self.left, picture.y, "← dyn is slower", 'class="note"')
        picture.text(self.right, picture.y, "dyn is quicker →", 'text-anchor="end" class="note"')


def times(ratio: float) -> str:
    """``0.82×``, ``12×``"""
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def bars(title: str, rows: Sequence[Bar], legend: Sequence[str] = (), width: int = WIDTH) -> str:
    """Bars from one line, as long as the sums of their parts."""
    said = "; ".join(f"{row.label} {row.text}" for row in rows)
    picture = _Picture(title, f"{title}: {said}.", width)
    left, right = 112, 138
    scale = (width - left - right) / max(sum(size for _, size in row.parts) for row in rows)
    for row in rows:
        picture.text(left - 8, picture.y + 15, row.label, 'text-anchor="end"')
        x = float(left)
        for color, size in row.parts:
            if size:
                picture.bar(x, picture.y, size * scale, 20, color)
                x += size * scale
        picture.text(x + 6, picture.y + 15, row.text)
        picture.y += 28
    x = left
    for name in legend:
        picture.bar(x, picture.y + 2, 10, 10, name)
        picture.text(x + 15, picture.y + 11, name, 'class="note"')
        x += 100
    picture.y += 10 if legend else -6
    return picture.svg()


def ratios(title: str, rows: Sequence[Ratios]) -> str:
    """Bars to the right of 1 where dyn is quicker and to the left where it is slower, of one colour for each other."""
    said = "; ".join(f"{row.label}: " + ", ".join(f"{name} {times(r)}" for name, r in row.ratios) for row in rows)
    picture = _Picture(title, f"{title}. {said}.")
    axis = _Axis([ratio for row in rows for _, ratio in row.ratios], 118, WIDTH - 46)
    top = picture.y - 8
    one = axis.at(1)
    for row in rows:
        picture.text(_MARGIN, picture.y + 5, row.label, 'class="note"')
        picture.y += 10
        for name, ratio in row.ratios:
            x = axis.at(ratio)
            picture.bar(min(one, x), picture.y + 1, abs(x - one), 11, name)
            picture.text(110, picture.y + 11, name, 'text-anchor="end" font-size="12"')
            picture.text(max(one, x) + 5, picture.y + 11, times(ratio), 'font-size="12"')
            picture.y += 15
        picture.y += 8
    axis.draw(picture, top)
    return picture.svg()


def strips(title: str, rows: Sequence[Strip]) -> str:
    """A line of dots for each row, with a tick at their geometric mean."""
    means = [geometric_mean(list(row.ratios.values())) for row in rows]
    least = [min(row.ratios.items(), key=lambda item: item[1]) for row in rows]
    said = [
        f"{row.label}: {times(mean)} in geometric mean, least {times(ratio)} ({name})"
        for row, mean, (name, ratio) in zip(rows, means, least, strict=True)
    ]
    picture = _Picture(title, f"{title}. {'; '.join(said)}.")
    axis = _Axis([ratio for row in rows for ratio in row.ratios.values()], 22, WIDTH - 22)
    top = picture.y - 8
    for row, mean, (_, ratio) in zip(rows, means, least, strict=True):
        picture.text(_MARGIN, picture.y + 6, row.label, 'font-size="12"')
        text = f"mean {times(mean)}, least {times(ratio)}"
        picture.text(WIDTH - _MARGIN, picture.y + 6, text, 'text-anchor="end" class="note"')
        y = picture.y + 18
        for place, value in enumerate(row.ratios.values()):
            dot = f'cx="{axis.at(value):.1f}" cy="{y + 3 * (place % 3 - 1)}" r="2.6" fill-opacity="0.75"'
            picture.lines.append(f"<circle {dot} {picture.color(row.color)}/>")
        picture.bar(axis.at(mean) - 1, y - 8, 2, 16, row.color)
        picture.y += 36
    axis.draw(picture, top)
    return picture.svg()
