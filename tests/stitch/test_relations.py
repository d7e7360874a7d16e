"""Relations of values to the axes of a group, on small programs."""

from __future__ import annotations

import pytest

from dyn.ir.core import Function
from dyn.ir.parser import parse_function
from dyn.stitch.access import Views
from dyn.stitch.relations import (
    Extent,
    GroupAxes,
    Kept,
    Other,
    Relation,
    Same,
    Spread,
    extent,
    permutes,
    reading,
    reading_of_view,
    relation,
    spans_reduced,
)

PROGRAM = """
func @f(%x: f32[n, m] "x", %y: f32[n, k] "y", %r: f32[n, 1] "r", %v: f32[n] "v") -> (f32[n, m], f32[m, n], f32[n, m], f32[n, m], f32[n, broadcast(k, m)], f32[n - 1, m], f32[n, 1, m]) {
  dim n: "x.shape[0]"
  dim m: "x.shape[1]"
  dim k: "y.shape[1]"
  %same = reshape(%x) {shape = [n, m]} : f32[n, m]  @ model.py:1
  %turned = transpose(%x) {permutation = [1, 0]} : f32[m, n]  @ model.py:2
  %column = broadcast_in_dim(%r) {dims = [0, 1], shape = [n, m]} : f32[n, m]  @ model.py:3
  %row = broadcast_in_dim(%v) {dims = [0], shape = [n, m]} : f32[n, m]  @ model.py:4
  %stretched = broadcast_in_dim(%y) {dims = [0, 1], shape = [n, broadcast(k, m)]} : f32[n, broadcast(k, m)]  @ model.py:5
  %shifted = slice(%x) {limit = [n, m], start = [1, 0], strides = [1, 1]} : f32[n - 1, m]  @ model.py:6
  %apart = broadcast_in_dim(%x) {dims = [0, 2], shape = [n, 1, m]} : f32[n, 1, m]  @ model.py:7
  return %same, %turned, %column, %row, %stretched, %shifted, %apart
}
"""  # fmt: skip  # noqa: E501
#: The results of the program, by their numbers.
SAME, TURNED, COLUMN, ROW, STRETCHED, SHIFTED, APART = range(7)


@pytest.fixture(scope="module")
def function() -> Function:
    return parse_function(PROGRAM)


def views(function: Function) -> Views:
    return Views(function.producers(), lambda value: False)


@pytest.mark.parametrize(
    ("number", "lies", "expected"),
    [
        (SAME, (0, 1), Same()),
        (TURNED, (0, 1), Other()),
        (TURNED, (1, 0), Same()),  # of a value that lies so
        (COLUMN, (0, 1), Same()),  # its one column is each column's
        (ROW, (0,), Kept((0,))),
        (ROW, (1,), Other()),
        (ROW, (0, 1), Other()),
        (STRETCHED, (0, 1), Spread((1,))),
        (SHIFTED, (0, 1), Other()),
    ],
)
def test_relations(function: Function, number: int, lies: tuple[int, ...], expected: Relation) -> None:
    read = reading(views(function), function.results[number])
    assert relation(read, range(2), lies, 2) == expected


def test_an_index_of_rows_reads_rows(function: Function) -> None:
    """A reader that has the kept axes alone reads along these."""
    read = reading(views(function), function.params[3])
    assert relation(read, (0,), (0,), 2) == Kept((0,))
    assert relation(read, (1,), (0,), 2) == Other()
    assert relation(read, (1,), (1,), 2) == Kept((1,))


def test_extents(function: Function) -> None:
    facts, (n, m), (_, k) = function.facts, function.params[0].shape, function.params[1].shape
    axes = GroupAxes((n, m), frozenset({1}))
    assert axes.kept == (0,)
    assert axes.reduces_last
    shapes = {(n, m): Extent.FULL, (n,): Extent.KEPT, (n, 1): Extent.KEPT, (m,): Extent.OTHER, (n, k): Extent.OTHER}
    assert {shape: extent(facts, shape, axes) for shape in shapes} == shapes
    assert extent(facts, (n,), GroupAxes((n, m))) is Extent.OTHER
    assert extent(facts, (), GroupAxes(())) is Extent.FULL
    assert not GroupAxes(()).reduces_last
    assert spans_reduced(facts, (1, m), axes)
    assert not spans_reduced(facts, (n, 1), axes)
    assert not spans_reduced(facts, (n,), axes)


def test_permutations(function: Function) -> None:
    """Each element once, in any order; what is spread, shifted or has no place in the view is none."""
    made = function.producers()
    found = {
        number: permutes(function.facts, value, reading_of_view(views(function), made[value]))
        for number, value in enumerate(function.results)
    }
    assert [number for number, one in found.items() if one] == [SAME, TURNED, APART]
