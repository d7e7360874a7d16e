"""The graph of a program as SVG, without scripts, ids or anything to load, so that it can stand in any page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dyn.explain.graph import Arrow, Box, BoxGraph, BoxLine, Layers
from dyn.explain.layout import DrawingLayout, Point, layered
from dyn.frozen import record

#: A box shows at most this many rows; the rest are counted.
_MOST_ROWS = 14
_ROW = 16.0
_HEAD = 42.0
_PAD = 10.0
#: Width of a character of the monospaced text, at 11 px, and of a title's.
_CHAR, _TITLE_CHAR = 6.65, 7.3
_MOST_CHARS = 46
_CHIP = 18.0
#: Room on the right for the arrows that lead from a layer to the next.
_LANE = 20.0


@record()
class _Drawn:
    """A box with its size, its rows as they are shown and the widths of its output labels."""

    box: Box
    width: float
    height: float
    rows: tuple[BoxLine, ...]
    chips: tuple[float, ...]


def draw(graph: BoxGraph, label: str) -> str:
    """The SVG. ``label`` says what it shows, for those who cannot see it."""
    drawn = [_measure(box) for box in graph.boxes]
    pairs = list(dict.fromkeys((arrow.tail, arrow.head) for arrow in graph.arrows))
    layout = layered([(d.width, d.height) for d in drawn], pairs, gap=50.0)
    frames = [_frame(layers, graph, drawn, layout) for layers in graph.layers]
    width = max([layout.width, *[frame.right + 16 for frame in frames]])
    # Everything may stand a little left of the leftmost box: a frame's border.
    left = min([0.0, *[frame.left - 6 for frame in frames]])
    parts = [
        f'<svg class="dyn-picture" role="img" aria-label="{escape(label)}" width="{width - left:.0f}" '
        f'height="{layout.height:.0f}" viewBox="{left:.0f} 0 {width - left:.0f} {layout.height:.0f}">'
    ]
    for layers, frame in zip(graph.layers, frames, strict=True):
        parts.append(_frame_svg(frame, layers.count) if frame.alone else "")
    parts += _arrows(graph, drawn, layout)
    for layers, frame in zip(graph.layers, frames, strict=True):
        parts += _back(layers, drawn, layout, frame.right - 10)
    # Where there is no frame to say it, each box says how often it is repeated.
    bare = [layers for layers, frame in zip(graph.layers, frames, strict=True) if not frame.alone]
    times = {box: layers.count for layers in bare for box in layers.boxes}
    for number, one in enumerate(drawn):
        parts.append(_box_svg(one, layout.corners[number], times.get(number, 1)))
    return "".join([*parts, "</svg>"])


# ---- boxes -----------------------------------------------------------------------------------------------------------


def _measure(box: Box) -> _Drawn:
    rows = box.rows
    if len(rows) > _MOST_ROWS:
        first, last = (_MOST_ROWS - 1) // 2, _MOST_ROWS // 2
        more = BoxLine(f"… {len(rows) - first - last} more …", "", "more")
        rows = (*rows[:first], more, *rows[-last:])
    texts = [len(_short(row.left)) + len(_short(row.right)) + 3 for row in rows]
    chips = tuple(_CHAR * len(_short(text)) + 14 for text in box.outputs)
    wide = max(
        [_CHAR * count for count in texts]
        + [_TITLE_CHAR * len(_short(box.title)) + 8 * len(box.kind) + 34, _CHAR * len(_short(box.subtitle))]
        + [sum(chips) + 8 * len(chips)],
    )
    if box.kind == "parameter":
        return _Drawn(box, max(_TITLE_CHAR * len(_short(box.title)) + 24, chips[0] + 16, 70), 40.0, (), chips)
    if box.kind == "result":
        named = max(_TITLE_CHAR * len(_short(box.title)), _CHAR * len(_short(box.subtitle))) + 24
        return _Drawn(box, max(named, 70), 40.0, (), ())
    height = _HEAD + _ROW * len(rows) + (_PAD + _CHIP / 2 if rows else _CHIP / 2)
    return _Drawn(box, max(wide + 2 * _PAD, 170), height, rows, chips)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"


def _text(x: float, y: float, text: str, style: str, anchor: str = "start") -> str:
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{at}>{escape(_short(text))}</text>'


def _box_svg(one: _Drawn, corner: Point, times: int) -> str:
    box, x, y = one.box, corner.x, corner.y
    body = [f'<g class="dyn-box dyn-{box.kind}"><title>{escape(box.tooltip)}</title>']
    middle = x + one.width / 2
    if box.kind in ("parameter", "result"):
        body.append(_rect(x, y, one.width, one.height, 20, "dyn-body"))
        body.append(_text(middle, y + (18 if box.kind == "result" else 22), box.title, "dyn-title", "middle"))
        if box.subtitle:
            body.append(_text(middle, y + 32, box.subtitle, "dyn-mono", "middle"))
    else:
        body.append(_rect(x, y, one.width, one.height, 7, "dyn-body"))
        body.append(
            f'<path class="dyn-band" d="M{x:.1f} {y + _HEAD - 4:.1f}v{-(_HEAD - 11):.1f}a7 7 0 0 1 7-7'
            f'h{one.width - 14:.1f}a7 7 0 0 1 7 7v{_HEAD - 11:.1f}z"/>'
        )
        body.append(_text(x + _PAD, y + 16, box.title, "dyn-title"))
        kind = f"{box.kind} × {times}" if times > 1 else box.kind
        body.append(_text(x + one.width - _PAD, y + 16, kind, "dyn-kind", "end"))
        body.append(_text(x + _PAD, y + 32, box.subtitle, "dyn-mono"))
        for i, row in enumerate(one.rows):
            base = y + _HEAD + _ROW * i + 11
            body.append(_text(x + _PAD, base, row.left, f"dyn-mono dyn-{row.role}"))
            if row.right:
                body.append(_text(x + one.width - _PAD, base, row.right, f"dyn-mono dyn-type dyn-{row.role}", "end"))
    for number, text in enumerate(box.outputs):
        centre = _chip_centre(one, corner, number)
        wide = one.chips[number]
        top = y + one.height - _CHIP / 2
        body.append(_rect(centre - wide / 2, top, wide, _CHIP, 9, "dyn-chip"))
        body.append(_text(centre, top + 13, text, "dyn-mono dyn-chip-text", "middle"))
    return "".join([*body, "</g>"])


def _rect(x: float, y: float, width: float, height: float, radius: float, style: str) -> str:
    return (
        f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.0f}"/>'
    )


def _chip_centre(one: _Drawn, corner: Point, number: int) -> float:
    """The place at which an output leaves its box: the labels stand side by side around the middle."""
    total = sum(one.chips) + 8 * (len(one.chips) - 1)
    return corner.x + one.width / 2 - total / 2 + sum(one.chips[:number]) + 8 * number + one.chips[number] / 2


# ---- arrows ----------------------------------------------------------------------------------------------------------


def _arrows(graph: BoxGraph, drawn: Sequence[_Drawn], layout: DrawingLayout) -> list[str]:
    """Arrows arrive side by side on a box's upper edge, in the order of where they come from."""
    arriving: dict[int, list[Arrow]] = {}
    for arrow in graph.arrows:
        arriving.setdefault(arrow.head, []).append(arrow)
    parts: list[str] = []
    for head, arrows in arriving.items():
        arrows.sort(key=lambda a: (layout.paths[a.tail, a.head][-2].x, a.output))
        corner, width = layout.corners[head], drawn[head].width
        step = min(26.0, (width - 24) / max(len(arrows), 1))
        for place, arrow in enumerate(arrows):
            path = layout.paths[arrow.tail, arrow.head]
            start = Point(_chip_centre(drawn[arrow.tail], layout.corners[arrow.tail], arrow.output), path[0].y)
            end = Point(corner.x + width / 2 + step * (place - (len(arrows) - 1) / 2), path[-1].y)
            told = drawn[arrow.tail].box.outputs[arrow.output]
            through = f" through {arrow.views}" if arrow.views else ""
            parts.append(_arrow_svg([start, Point(start.x, path[1].y), *path[2:-1], end], f"{told}{through}"))
    return parts


def _arrow_svg(points: Sequence[Point], told: str) -> str:
    first, *others = points
    y = first.y + _CHIP / 2
    d = [f"M{first.x:.1f} {y:.1f}"]
    x = first.x
    for i, point in enumerate(others):
        stop = point.y - 7 if point is others[-1] else max(point.y, y)
        if i % 2 == 0:  # straight to the end of the box's layer, and through those that are passed
            d.append(f"V{stop:.1f}")
        else:
            half = (stop - y) / 2
            d.append(f"C{x:.1f} {y + half:.1f} {point.x:.1f} {stop - half:.1f} {point.x:.1f} {stop:.1f}")
        x, y = point.x, stop
    title = f"<title>{escape(told)}</title>"
    return f'<g class="dyn-arrow">{title}<path d="{"".join(d)}"/>{_head(points[-1])}</g>'


def _head(tip: Point) -> str:
    return (
        f'<polygon points="{tip.x:.1f},{tip.y:.1f} {tip.x - 4:.1f},{tip.y - 8:.1f} {tip.x + 4:.1f},{tip.y - 8:.1f}"/>'
    )


def _back(layers: Layers, drawn: Sequence[_Drawn], layout: DrawingLayout, right: float) -> list[str]:
    """Path of an arrow from the end of a layer up to where the next one reads it, along the frame's right side."""
    parts: list[str] = []
    lanes = {source: i for i, source in enumerate(dict.fromkeys((arrow.tail, arrow.output) for arrow in layers.back))}
    for arrow in layers.back:
        lane = lanes[arrow.tail, arrow.output]
        tail, head = layout.corners[arrow.tail], layout.corners[arrow.head]
        x = _chip_centre(drawn[arrow.tail], tail, arrow.output)
        low = tail.y + drawn[arrow.tail].height + _CHIP / 2
        side = right - 5 * lane
        tip = Point(head.x + drawn[arrow.head].width - 14 - 8 * lane, head.y)
        d = (
            f"M{x:.1f} {low:.1f}v4q0 8 8 8H{side - 8:.1f}q8 0 8-8V{tip.y - 14:.1f}q0-8-8-8H{tip.x + 8:.1f}"
            f"q-8 0-8 8V{tip.y - 7:.1f}"
        )
        told = f"{drawn[arrow.tail].box.outputs[arrow.output]} for the next of {layers.count}"
        parts.append(
            f'<g class="dyn-arrow dyn-back"><title>{escape(told)}</title><path d="{d}"/>{_head(tip)}</g>'
        )  # fmt: skip
    return parts


# ---- layers ----------------------------------------------------------------------------------------------------------


@record()
class _LayerFrame:
    """The area of a layer, the arrows to its boxes included; ``alone`` where no other box stands there."""

    left: float
    top: float
    right: float
    bottom: float
    alone: bool


def _frame(layers: Layers, graph: BoxGraph, drawn: Sequence[_Drawn], layout: DrawingLayout) -> _LayerFrame:
    inside = [(layout.corners[i], drawn[i]) for i in layers.boxes]
    top = min(c.y for c, _ in inside) - 26
    bottom = max(c.y + d.height for c, d in inside) + 26
    arrows = [a for a in graph.arrows if a.tail in layers.boxes or a.head in layers.boxes]
    passed = [p.x for a in arrows for p in layout.paths[a.tail, a.head][2:-1] if top <= p.y <= bottom]
    left = min([*[c.x for c, _ in inside], *passed]) - 14
    right = max([*[c.x + d.width for c, d in inside], *passed]) + 14 + (_LANE if layers.back else 0)
    alone = True
    for i, one in enumerate(drawn):
        corner = layout.corners[i]
        beside = corner.x > right or corner.x + one.width < left
        over = corner.y > bottom or corner.y + one.height + _CHIP / 2 < top
        alone = alone and (i in layers.boxes or beside or over)
    return _LayerFrame(left, top, right, bottom, alone)


def _frame_svg(frame: _LayerFrame, count: int) -> str:
    rect = _rect(frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top, 12, "dyn-frame")
    return rect + _text(frame.left + 12, frame.top + 17, f"layer × {count}", "dyn-layer")
