"""``x[...]`` as NumPy has it, clamping and out-of-range errors included, at every size, from one trace."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
from tests.numpy.differential import compare, run, trace

BOUNDS = (None, 0, 1, 3, 9, -1, -2, -9)


@pytest.mark.parametrize("step", [None, 2, 3, -1, -2])
@pytest.mark.parametrize("start", BOUNDS)
def test_slices(start: int | None, step: int | None) -> None:
    for stop in BOUNDS:
        compare(lambda xp, x, stop=stop: x[start:stop:step], "float32 n", sizes=(0, 1, 2, 3, 7))


@pytest.mark.parametrize("step", [1, 2, -1])
def test_slices_of_a_static_axis(step: int) -> None:
    traced = compare(lambda xp, x: tuple(x[a:b:step] for a in BOUNDS for b in BOUNDS), "float32 5")
    assert traced.function.facts.relations == ()


def test_slices_bounded_by_dimensions() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        m = y.shape[0]
        return x[:m], x[m:], x[m : m + 2], x[:-1], x[: x.shape[0] - 1], x[m - 1 :], x[: m - 3], x[-m:], x[m : -m - 1]

    compare(program, "float32 n", "float32 m", sizes=(0, 1, 2, 3, 4, 7))


def test_slices_backwards_from_dimensions() -> None:
    """A bound of minus the size is the first element there, not a place before it."""

    def program(xp: Any, x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        return x[-n::-1], x[-n::-2], x[: -n - 1 : -1], x[:-n:-1], x[-m::-1], x[m::-1], x[m - n :: -1], x[: m - n : -2]

    compare(program, "float32 n", "float32 m", sizes=(0, 1, 2, 3, 4, 7))


def test_slices_that_fit_by_construction() -> None:
    traced = compare(lambda xp, x: x[1:] - x[:-1], "float32 n")
    assert traced.function.facts.relations == ()


def test_whole_slices_cost_nothing() -> None:
    traced = trace(lambda xp, x: x[:, ...][:][0:][: x.shape[0]] + 0, "float32 n 3")
    assert "slice" not in {op.opdef.name for op in traced.function.ops}


def test_numbers() -> None:
    compare(lambda xp, x: (x[0], x[-1], x[1, 2], x[:, 0], x[..., -1], x[np.int64(0)], x[-2]), "float32 4 3")
    for index in (0, 1, -1, -2, 6):
        compare(lambda xp, x, index=index: x[index], "float32 n 3")


def test_dimensions_as_numbers() -> None:
    compare(lambda xp, x: x[x.shape[0] - 1], "float32 n 3", sizes=(1, 2, 7))
    compare(lambda xp, x, y: x[y.shape[0]], "float32 n 3", "float32 m")
    compare(lambda xp, x, y: x[y.shape[0] - 2], "float32 n 3", "float32 m", sizes=(0, 1, 2, 3))


def test_new_axes_and_ellipsis() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            x[None], x[:, None], x[..., None], x[None, :, None, :, None], x[..., 1, None], x[()], x[...],
            x[None, 1:, 0], x[xp.newaxis, ..., xp.newaxis, :2],
        )  # fmt: skip

    compare(program, "float32 n 3")


def test_integer_arrays() -> None:
    def program(xp: Any, x: Any, i: Any) -> Any:
        return (
            x[i], x[:, i], x[..., i, :], x[i, 1:], x[None, i], x[0, i], x[i, 0], x[:, i, 0], x[1, :, i], x[i, :, 1],
            x[[2, 0, -1]], x[np.array([[1], [3]])], xp.take(x, i, axis=1), x.take(i, 0), xp.take(x, i),
        )  # fmt: skip

    def wrapped(xp: Any, x: Any, i: Any) -> Any:
        return program(xp, x, i % 4)

    compare(wrapped, "float32 4 5 6", "int64 n")
    compare(wrapped, "float32 4 5 6", "int32 n 2", sizes=(0, 1, 3))


@pytest.mark.parametrize("library", ["dyn", "jax.numpy", "torch"])
@pytest.mark.parametrize("places", [[2, 0, -1], [1], [], [[0, 1], [2, 2]]])
def test_arrays_of_libraries_that_are_closed_over(
    library: str, places: Any, require_module: Callable[[str], ModuleType]
) -> None:
    x, i = np.arange(12, dtype=np.float32).reshape(3, 4), np.array(places, np.int32)
    index = require_module(library).asarray(i)

    def function(x: Any) -> Any:
        return x[index], x[:, index], x[index, 1:], x[0, index], x.at[index].add(1)

    wanted = x[i], x[:, i], x[i, 1:], x[0, i], x.copy()
    np.add.at(wanted[-1], i, 1)
    for one, other in zip(dyn.jit(function)(x), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(dyn.vmap(lambda row: row[index])(x), x[:, i])


def test_traced_scalars() -> None:
    def program(xp: Any, x: Any, i: Any) -> Any:
        j = xp.sum(i) % 4
        return x[j], x[j, j], x[:, j], x[j, :, j], x[j, 1:, 0], x[0, j], x[:, j, i % 4], x[j, :, i % 4]

    compare(program, "float32 4 5 6", "int64 n", sizes=(0, 1, 3))


def test_indices_clamp() -> None:
    traced = trace(lambda xp, x, i: x[i], "float32 n", "int64 m")
    (result,) = run(traced, [np.arange(3, dtype=np.float32), np.array([-9, -1, 0, 2, 9])])
    assert result.tolist() == [0, 2, 0, 2, 2]


def test_take_from_nothing() -> None:
    compare(lambda xp, x, i: xp.take(x, i * 0, 0), "float32 n 3", "int64 m")


def test_diff() -> None:
    compare(lambda xp, x: (xp.diff(x), xp.diff(x, 2), xp.diff(x, axis=0), xp.diff(x > 0)), "float64 n m")
