"""A layered layout of boxes and arrows: who reads stands below who is read.

The method is Sugiyama's ("Methods for visual understanding of hierarchical system structures", 1981): layers by longest
path, invisible points where an arrow passes a layer, order within a layer by barycentres, and then places that are
least squares to the neighbours', kept apart by pooling adjacent violators. It is plain geometry: boxes are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from dyn.frozen import record

#: Sweeps over the layers: the order settles in a few.
_SWEEPS = 12
#: The least distance between neighbours in a layer.
_GAP = 28.0
#: The width that is kept free for an arrow that passes a layer.
_PASSAGE = 14.0


@record()
class Point:
    x: float
    y: float


@record()
class DrawingLayout:
    """Layout of a drawing: each box's upper left corner, the points of each arrow from tail to head, the size."""

    corners: tuple[Point, ...]
    paths: Mapping[tuple[int, int], tuple[Point, ...]]
    width: float
    height: float


def layered(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], *, margin: float = 16.0, gap: float = 44.0
) -> DrawingLayout:
    """Lay out boxes of ``sizes`` (width, height). An edge ``(a, b)`` says that ``b`` reads ``a``; ``a < b`` always."""
    layers, chains, widths = _layers([w for w, _ in sizes], edges)
    links = [pair for chain in chains.values() for pair in pairwise(chain)]
    above, below = _neighbours(len(widths), links)
    _order(layers, above, below)
    centres = _places(layers, widths, above, below)
    shift = margin - min((centres[v] - widths[v] / 2 for v in range(len(widths))), default=0.0)
    centres = [x + shift for x in centres]
    tops: list[float] = []
    heights: list[float] = []
    y = margin
    for layer in layers:
        tops.append(y)
        heights.append(max((sizes[v][1] for v in layer if v < len(sizes)), default=0.0))
        y += heights[-1] + gap
    level = {v: i for i, layer in enumerate(layers) for v in layer}
    corners = tuple(Point(centres[v] - w / 2, tops[level[v]]) for v, (w, _) in enumerate(sizes))
    paths: dict[tuple[int, int], tuple[Point, ...]] = {}
    for (a, b), chain in chains.items():
        bottom = tops[level[a]] + heights[level[a]]  # beside the box, taller ones of its layer may stand above this
        points = [Point(centres[a], corners[a].y + sizes[a][1]), Point(centres[a], bottom)]
        for v in chain[1:-1]:
            top = tops[level[v]]
            points += [Point(centres[v], top), Point(centres[v], top + heights[level[v]])]
        paths[a, b] = (*points, Point(centres[b], corners[b].y))
    right = max((centres[v] + widths[v] / 2 for v in range(len(widths))), default=0.0)
    return DrawingLayout(corners, paths, right + margin, max(y - gap, margin) + margin)


def _layers(
    widths: list[float], edges: Sequence[tuple[int, int]]
) -> tuple[list[list[int]], dict[tuple[int, int], list[int]], list[float]]:
    """The layers with their passages, the chain of points of each edge, and the width of every point.

    Arrows from one box share the points that they pass.
    """
    count = len(widths)
    readers: list[list[int]] = [[] for _ in range(count)]
    sources: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        readers[a].append(b)
        sources[b].append(a)
    level = [0] * count
    for v in range(count):
        level[v] = max((level[a] + 1 for a in sources[v]), default=0)
    for v in reversed(range(count)):  # what reads nothing stands just above its first reader
        if not sources[v] and readers[v]:
            level[v] = min(level[b] for b in readers[v]) - 1
    layers: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for v in range(count):
        layers[level[v]].append(v)
    all_widths = list(widths)
    chains: dict[tuple[int, int], list[int]] = {}
    passages: dict[tuple[int, int], int] = {}
    for a, b in edges:
        chain = [a]
        for between in range(level[a] + 1, level[b]):
            if (a, between) not in passages:
                passages[a, between] = len(all_widths)
                layers[between].append(len(all_widths))
                all_widths.append(_PASSAGE)
            chain.append(passages[a, between])
        chains[a, b] = [*chain, b]
    return layers, chains, all_widths


def _neighbours(count: int, links: Sequence[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in dict.fromkeys(links):
        above[b].append(a)
        below[a].append(b)
    return above, below


# ---- order -----------------------------------------------------------------------------------------------------------


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Order each layer in place, for few crossings."""
    best = [list(layer) for layer in layers]
    fewest = _crossings(layers, below)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        near = above if down else below
        for i in range(1, len(layers)) if down else reversed(range(len(layers) - 1)):
            place = {v: k for k, v in enumerate(layers[i - 1 if down else i + 1])}
            layer = layers[i]
            now = {v: float(k) for k, v in enumerate(layer)}
            weight = {
                v: sum(place[u] for u in near[v]) / len(near[v]) if near[v] else now[v] for v in layer
            }  # fmt: skip
            layer.sort(key=lambda v: (weight[v], now[v]))
        crossings = _crossings(layers, below)
        if crossings < fewest:
            fewest, best = crossings, [list(layer) for layer in layers]
    layers[:] = best


def _crossings(layers: list[list[int]], below: list[list[int]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        place = {v: k for k, v in enumerate(lower)}
        ends = [sorted(place[u] for u in below[v]) for v in upper]
        seen: list[int] = []
        for some in ends:
            total += sum(1 for end in some for other in seen if other > end)
            seen += some
    return total


# ---- places ----------------------------------------------------------------------------------------------------------


def _places(
    layers: list[list[int]], widths: list[float], above: list[list[int]], below: list[list[int]]
) -> list[float]:
    """The centre of every point: near its neighbours', in order, and apart from one another."""
    centres = [0.0] * len(widths)
    for layer in layers:
        x = 0.0
        for v in layer:
            centres[v] = x + widths[v] / 2
            x += widths[v] + _GAP
        for v in layer:
            centres[v] -= (x - _GAP) / 2
    for sweep in range(_SWEEPS):
        for i in range(len(layers)) if sweep % 2 == 0 else reversed(range(len(layers))):
            layer = layers[i]
            wish: list[float] = []
            for v in layer:
                near = (above if sweep % 2 == 0 else below)[v] or [v]
                wish.append(sum(centres[u] for u in near) / len(near))
            for v, x in zip(layer, _apart(wish, [widths[v] for v in layer]), strict=True):
                centres[v] = x
    return centres


def _apart(wish: list[float], widths: list[float]) -> list[float]:
    """The places nearest to those wished for, in the sense of least squares, that keep order and distance.

    Without the distances, they are a monotone regression: violators that are neighbours are pooled.
    """
    offsets = [0.0]
    for a, b in pairwise(widths):
        offsets.append(offsets[-1] + (a + b) / 2 + _GAP)
    pools: list[tuple[float, int]] = []
    for w, offset in zip(wish, offsets, strict=True):
        total, count = w - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before = pools.pop()
            total, count = total + before[0], count + before[1]
        pools.append((total, count))
    flat = [total / count for total, count in pools for _ in range(count)]
    return [x + offset for x, offset in zip(flat, offsets, strict=True)]
