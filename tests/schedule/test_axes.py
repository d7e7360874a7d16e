"""Merging loops that one stride runs through, and cutting them."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyn.schedule.axes import Axis, axis, collapse, flatten, index_of, linearize, split
from dyn.shapes import Dim, as_dim, evaluate, mod, substitute
from dyn.shapes import symbol as new_symbol

n_symbol, m_symbol = new_symbol("n"), new_symbol("m")
n, m, k = as_dim(n_symbol), as_dim(m_symbol), as_dim(new_symbol("k"))


def _axes(*extents: Dim) -> list[Axis]:
    return [axis(f"i{number}", extent) for number, extent in enumerate(extents)]


def test_a_dense_array_is_one_loop() -> None:
    axes = _axes(n, m, k)
    (merged,), change = collapse(axes, [linearize(index_of(axes), (n, m, k))])
    assert merged.extent == n * m * k
    assert substitute(linearize(index_of(axes), (n, m, k)), change) is as_dim(merged.var)


def test_what_a_broadcast_leaves() -> None:
    """A row that every row adds: the rows cannot be merged with the columns, but with one another."""
    axes = _axes(n, m, k)
    i, j, c = index_of(axes)
    dims = [linearize((i, j, c), (n, m, k)), c]
    left, change = collapse(axes, dims)
    assert [a.extent for a in left] == [n * m, k]
    assert substitute(dims[0], change) == as_dim(left[0].var) * k + as_dim(left[1].var)


def test_axes_that_nothing_mentions_merge() -> None:
    assert [a.extent for a in collapse(_axes(n, m), [])[0]] == [n * m]


@pytest.mark.parametrize("where", ["transposed", "opaque"])
def test_what_does_not_merge(where: str) -> None:
    axes = _axes(n, m)
    i, j = index_of(axes)
    dim = j * n + i if where == "transposed" else i * m + mod(j, 3)
    left, change = collapse(axes, [dim])
    assert left == axes
    assert change == {}


sizes = st.lists(st.sampled_from([0, 1, 2, 3]), min_size=1, max_size=4)


@given(sizes, st.data())
def test_collapse_keeps_every_index(shape: list[int], data: st.DataObject) -> None:
    """The indices that the loops make, in order, are those that the merged loops make."""
    made = [new_symbol(f"d{a}") for a in range(len(shape))]
    symbols = [as_dim(s) for s in made]
    env = dict(zip(made, shape, strict=True))
    axes = _axes(*symbols)
    index = index_of(axes)
    dims: list[Dim] = []
    for _ in range(data.draw(st.integers(1, 3))):
        used = [a for a in range(len(shape)) if data.draw(st.booleans())]
        order = data.draw(st.permutations(used))
        dims.append(linearize(tuple(index[a] for a in order), tuple(symbols[a] for a in order)))
    left, change = collapse(axes, dims)

    def values(loops: list[Axis], exprs: list[Dim]) -> list[tuple[int, ...]]:
        ranges = [range(evaluate(a.extent, env)) for a in loops]
        points = (env | {a.var: i for a, i in zip(loops, point, strict=True)} for point in product(*ranges))
        return [tuple(evaluate(e, point) for e in exprs) for point in points]

    assert values(axes, dims) == values(left, [substitute(d, change) for d in dims])


@given(st.integers(0, 40), st.sampled_from([1, 4, 7, 16]), st.booleans())
def test_split_visits_each_once(extent: int, chunk: int, symbolic: bool) -> None:
    size: Dim = n if symbolic else extent
    env = {n_symbol: extent}
    whole = axis("i", size)
    outer, inner, change = split(whole, chunk)
    seen: list[int] = []
    for o in range(evaluate(outer.extent, env)):
        bound = env | {outer.var: o}
        seen += [evaluate(change[whole.var], bound | {inner.var: i}) for i in range(evaluate(inner.extent, bound))]
    assert seen == list(range(extent))


def test_a_short_axis_is_not_cut() -> None:
    outer, inner, _ = split(axis("i", 7), 16)
    assert (outer.extent, inner.extent) == (1, 7)


@given(st.integers(0, 3), st.integers(0, 3))
def test_flatten(a: int, b: int) -> None:
    axes = _axes(n, m)
    (whole,), change = flatten(axes)
    env = {n_symbol: a, m_symbol: b}
    pairs = [
        tuple(evaluate(change[x.var], env | {whole.var: i}) for x in axes) for i in range(evaluate(whole.extent, env))
    ]
    assert pairs == list(product(range(a), range(b)))


def test_an_axis_without_elements_is_divided_by_nothing() -> None:
    """A loop of no steps: what its variables would be is never asked for, and dividing by 0 is no dimension."""
    axes = _axes(n, 0, 3)
    (whole,), change = flatten(axes)
    assert whole.extent == 0
    assert set(change) == {a.var for a in axes}
