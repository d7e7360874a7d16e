"""The layered layout: pure geometry, checked on random graphs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dyn.explain.layout import layered


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    count = draw(st.integers(0, 12))
    sizes = draw(st.lists(st.tuples(st.floats(1, 300), st.floats(1, 300)), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, max(count - 1, 0)), st.integers(0, max(count - 1, 0)))
    edges = draw(st.lists(pairs.filter(lambda p: p[0] < p[1]), max_size=20)) if count > 1 else []
    return sizes, list(dict.fromkeys(edges))


@given(graphs())
def test_boxes_stand_apart_inside_the_picture_and_below_what_they_read(graph) -> None:
    sizes, edges = graph
    layout = layered(sizes, edges)
    boxes = [(c.x, c.y, c.x + w, c.y + h) for c, (w, h) in zip(layout.corners, sizes, strict=True)]
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert top >= 0
        assert right <= layout.width
        assert bottom <= layout.height
        for other in boxes[:i]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
    for a, b in edges:
        assert boxes[a][3] < boxes[b][1]
        path = layout.paths[a, b]
        assert [p.y for p in path] == sorted(p.y for p in path)
        assert (path[0].y, path[-1].y) == (boxes[a][3], boxes[b][1])


@given(graphs())
def test_arrows_that_pass_a_layer_pass_between_its_boxes(graph) -> None:
    sizes, edges = graph
    layout = layered(sizes, edges)
    for (tail, _), path in layout.paths.items():
        for point in path[2:-1]:
            for corner, (w, h) in zip(layout.corners, sizes, strict=True):
                assert not (corner.x < point.x < corner.x + w and corner.y <= point.y <= corner.y + h)
        assert path[1].x == path[0].x == layout.corners[tail].x + sizes[tail][0] / 2


@given(graphs())
def test_arrows_bend_between_layers_where_no_box_stands(graph) -> None:
    sizes, edges = graph
    layout = layered(sizes, edges)
    for path in layout.paths.values():
        for above, below in zip(path[1::2], path[2::2], strict=True):
            for corner, (_, h) in zip(layout.corners, sizes, strict=True):
                assert corner.y + h <= above.y or below.y <= corner.y


def test_a_chain_is_straight_and_a_fork_is_symmetric() -> None:
    chain = layered([(40, 10), (80, 10), (20, 10)], [(0, 1), (1, 2)])
    assert (
        len({round(c.x + w / 2, 6) for c, (w, _) in zip(chain.corners, [(40, 0), (80, 0), (20, 0)], strict=True)}) == 1
    )
    fork = layered([(40, 10)] * 4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    centres = [c.x + 20 for c in fork.corners]
    assert centres[0] == centres[3] == (centres[1] + centres[2]) / 2


def test_crossings_are_removed() -> None:
    layout = layered([(10, 10)] * 6, [(0, 5), (1, 4), (2, 3)])
    order = sorted(range(3), key=lambda i: layout.corners[i].x)
    below = sorted(range(3, 6), key=lambda i: layout.corners[i].x)
    assert [5 - i for i in order] == below


def test_nothing_is_laid_out_too() -> None:
    layout = layered([], [])
    assert (layout.corners, dict(layout.paths)) == ((), {})
