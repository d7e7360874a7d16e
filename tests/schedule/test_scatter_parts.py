"""Scatters in parts: their sizes, the same bits for any number of threads, and what may not be cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config, dtypes

Array = np.ndarray[Any, Any]
#: Around where parts begin to pay, around a part's size, and around the most parts.
SIZES = (0, 1, 16383, 16384, 16385, 24577, 64 * 8192 + 1)


def _kernels(function: Any, *arguments: Any) -> list[str]:
    text = function.trace(*arguments).lower().as_text("kernel")
    return [line[3:] for line in text.splitlines() if line.startswith("// ")]


def _parts(function: Any, *arguments: Any) -> int:
    return sum(", parts" in note and "joined" not in note for note in _kernels(function, *arguments))


@pytest.mark.parametrize("size", SIZES)
def test_counts(size: int) -> None:
    """Places outside of the array are left out, negative ones count from the end."""
    rng = np.random.default_rng(size)
    places = rng.integers(-300, 300, size)
    with config.override(variants="all"):
        counted = dyn.jit(lambda at: dnp.zeros(256, dtypes.int32).at[at].add(1))(places)
    at = np.where(places < 0, places + 256, places)
    expected = np.bincount(at[(at >= 0) & (at < 256)], minlength=256)
    np.testing.assert_array_equal(counted, expected)


@pytest.mark.parametrize(("method", "ufunc"), [("min", np.minimum), ("max", np.maximum), ("mul", np.multiply)])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_integers_are_exact(method: str, ufunc: np.ufunc, dtype: str) -> None:
    """Columns have updates of their own; products leave the range of their dtype."""
    rng = np.random.default_rng(3)
    x, updates = rng.integers(0, 100, (2, 5, 3)).astype(dtype), rng.integers(0, 100, (2, 9000, 3)).astype(dtype)
    places = rng.integers(0, 5, 9000)
    function = dyn.jit(lambda x, at, u: getattr(x.at[:, at], method)(u))
    assert _parts(function, x, places, updates)
    expected = x.copy()
    for example, rows in zip(expected, updates, strict=True):
        ufunc.at(example, places, rows)
    with config.override(variants="all"):
        np.testing.assert_array_equal(function(x, places, updates), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_sums_have_the_same_bits_however_they_run(dtype: str) -> None:
    element = dtypes.dtype(dtype)
    rng = np.random.default_rng(4)
    x, updates = rng.normal(0, 1, (7, 3)).astype(element.np), rng.normal(0, 1, (40000, 3)).astype(element.np)
    places = rng.integers(0, 7, 40000)

    def add(x: Any, at: Any, u: Any) -> Any:
        return x.at[at].add(u)

    results: list[bytes] = []
    for threads in (1, 2, 5):
        for shapes in (None, "7 3, n, n 3", "7 3, 40000, 40000 3"):
            with config.override(num_threads=threads, variants="all"):
                results.append(np.asarray(dyn.jit(add, shapes=shapes)(x, places, updates)).tobytes())
        strided = np.asfortranarray(updates)
        results.append(np.asarray(dyn.jit(add)(x, places, strided)).tobytes())
    assert len(set(results)) == 1
    if dtype != "bfloat16":
        expected = x.astype(np.float64)
        np.add.at(expected, places, updates.astype(np.float64))
        np.testing.assert_allclose(np.asarray(dyn.jit(add)(x, places, updates), np.float64), expected, 1e-4, 1e-4)


@pytest.mark.parametrize(("method", "ufunc"), [("min", np.minimum), ("max", np.maximum), ("mul", np.multiply)])
def test_other_monoids_of_floats(method: str, ufunc: np.ufunc) -> None:
    """A NaN stays where it is met, and so does the -0.0 of an array that nothing meets."""
    rng = np.random.default_rng(8)
    places, u = rng.integers(0, 4, 20000), rng.choice([1.0, -1.0, 0.5, 2.0], 20000).astype("f4")
    u[(places == 2).argmax()] = np.nan
    x = np.array([np.inf, 3.0, 4.0, -np.inf, -0.0], "f4")
    function = dyn.jit(lambda x, at, u: getattr(x.at[at], method)(u))
    assert _parts(function, x, places, u)
    expected = x.astype("f8")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        ufunc.at(expected, places, u.astype("f8"))
        expected = expected.astype("f4")
    result = np.asarray(function(x, places, u))
    np.testing.assert_allclose(result, expected, 1e-5)
    assert np.signbit(result[4])


def test_a_zero_that_nothing_is_added_to_keeps_its_sign() -> None:
    x = np.array([-0.0, 0.0, 5.0], "f4")
    places = np.full(20000, 2)
    result = np.asarray(dyn.jit(lambda x, at: x.at[at].add(1.0))(x, places))
    np.testing.assert_array_equal(result, np.array([-0.0, 0.0, 20005.0], "f4"))
    assert np.signbit(result).tolist() == [True, False, False]


def test_nan_and_infinities_stay_where_they_are_added() -> None:
    updates = np.ones(20000, "f4")
    updates[[5, 19000]] = np.nan, np.inf
    places = np.arange(20000) % 4
    result = np.asarray(dyn.jit(lambda at, u: dnp.zeros(4).at[at].add(u))(places, updates))
    assert np.isnan(result).tolist() == [False, True, False, False]
    assert np.isposinf(result).tolist() == [True, False, False, False]


def test_complex_numbers() -> None:
    rng = np.random.default_rng(7)
    places, real, imag = rng.integers(0, 5, 20000), *rng.integers(-3, 4, (2, 20000))
    u = (real + 1j * imag).astype("c8")
    result = dyn.jit(lambda at, u: dnp.zeros(5, dtypes.complex64).at[at].add(u))(places, u)
    np.testing.assert_array_equal(result, np.bincount(places, real, 5) + 1j * np.bincount(places, imag, 5))


def test_indices_of_several_axes() -> None:
    """Updates may be cut along the first of their axes alone, and along the second where the first is 1."""
    rng = np.random.default_rng(5)
    function = dyn.jit(lambda x, i, j, u: x.at[i, j].add(u))
    for shape in ((200, 150), (1, 30000), (30000, 1), (30000, 0)):
        i, j = (rng.integers(0, 4, shape) for _ in range(2))
        u, x = rng.integers(0, 9, shape), np.zeros((4, 4), "i8")
        expected = x.copy()
        np.add.at(expected, (i, j), u)
        with config.override(variants="all"):
            np.testing.assert_array_equal(function(x, i, j, u), expected)


def test_a_donated_array_is_updated() -> None:
    """In its own memory, with few updates and with many."""
    function = dyn.jit(lambda x, at: x.at[at].add(1), donate_argnums=0)
    for size in (10, 50000):
        places = np.arange(size) % 5
        x = dyn.asarray(np.zeros(5, "i8"))
        result = np.asarray(function(x, places))
        np.testing.assert_array_equal(result, np.bincount(places, minlength=5))
    # Of a large array whose size nobody has declared nothing is copied for a few updates.
    text = function.trace(np.zeros(5, "i8"), np.arange(9)).lower().as_text("kernel")
    assert "in place" in text


def test_what_keeps_its_order_is_not_cut() -> None:
    """The last of several values for one place counts; and large arrays have no copy in each part."""
    x, places, u = np.zeros(4, "f4"), np.arange(30000) % 4, np.ones(30000, "f4")
    assert not _parts(dyn.jit(lambda x, at, u: x.at[at].set(u)), x, places, u)
    large = dyn.jit(lambda x, at, u: x.at[at].add(u), shapes="5000, n, n")
    assert not _parts(large, np.zeros(5000, "f4"), places, u)


def test_examples_and_gradients() -> None:
    rng = np.random.default_rng(6)
    places, u = rng.integers(0, 6, (3, 20000)), rng.integers(-3, 4, (3, 20000)).astype("f4")
    each = dyn.jit(dyn.vmap(lambda at, u: dnp.zeros(6).at[at].add(u)))(places, u)
    for row, at, values in zip(np.asarray(each), places, u, strict=True):
        np.testing.assert_array_equal(row, np.bincount(at, values, 6))
    # The gradient of a gather adds up what many places read.
    gradient = dyn.jit(dyn.grad(lambda x, at, u: (x[at] * u).sum()))(np.zeros(6, "f4"), places[0], u[0])
    np.testing.assert_array_equal(gradient, np.bincount(places[0], u[0], 6))
