"""unique along an axis, in the odd cases; every size is in test_measured_shapes."""

from __future__ import annotations

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError, UnsupportedOpError
from tests.numpy.differential import rendered

ROWS = np.array([[1, 2], [0, 1], [1, 2]])


def test_one_compile() -> None:
    f = dyn.jit(lambda x: dnp.unique(x, axis=0, return_index=True, return_inverse=True, return_counts=True))
    for n in (0, 1, 2, 7, 64, 1000):
        x = np.random.default_rng(n).integers(0, 2, (n, 1 + n % 9)).astype(np.int8)
        wanted = np.unique(x, axis=0, return_index=True, return_inverse=True, return_counts=True)
        for found, other in zip(f(x), wanted, strict=True):
            np.testing.assert_array_equal(found, other, strict=True)
    assert f.cache_info().compiles == 1


def test_nans_and_zeros() -> None:
    """Rows are alike where their elements are: NaN with ``equal_nan`` (NumPy never takes such rows for alike)."""
    x = np.array([[np.nan, 1], [-0.0, 1], [np.nan, 1], [0.0, 1], [np.nan, 0]], np.float32)
    np.testing.assert_array_equal(dnp.unique(x, axis=0), [[0, 1], [np.nan, 0], [np.nan, 1]])
    apart = np.unique(x, axis=0)
    np.testing.assert_array_equal(dnp.unique(x, axis=0, equal_nan=False), apart)


def test_rows_without_columns() -> None:
    for rows in (0, 1, 3):
        found, counts = dnp.unique(np.zeros((rows, 0)), axis=0, return_counts=True)
        assert found.shape == (min(rows, 1), 0)
        np.testing.assert_array_equal(counts, [rows] if rows else [])


def test_a_size_of_ones_own() -> None:
    found, places, counts = dnp.unique(ROWS, axis=0, size=4, return_index=True, return_counts=True)
    np.testing.assert_array_equal(found, [[0, 1], [1, 2], [0, 1], [0, 1]])
    np.testing.assert_array_equal(places, [1, 0, 1, 1])
    np.testing.assert_array_equal(counts, [1, 2, 0, 0])
    np.testing.assert_array_equal(dnp.unique(ROWS, axis=0, size=3, fill_value=7), [[0, 1], [1, 2], [7, 7]])
    np.testing.assert_array_equal(dnp.unique(ROWS, axis=0, size=1), [[0, 1]])
    np.testing.assert_array_equal(dnp.unique(np.zeros((0, 2)), axis=0, size=1, fill_value=7), [[7, 7]])
    batched = dyn.vmap(lambda x: dnp.unique(x, axis=0, size=2))(np.stack([ROWS, ROWS * 0]))
    np.testing.assert_array_equal(batched, [[[0, 1], [1, 2]], [[0, 0], [0, 0]]])


def test_gradient() -> None:
    """It goes to the first of rows that are alike."""
    gradient = dyn.grad(lambda x: dnp.sum(dnp.unique(x, axis=0) ** 2))(ROWS.astype(float))
    np.testing.assert_allclose(gradient, [[2, 4], [0, 2], [0, 0]])


def test_errors() -> None:
    with pytest.raises(ShapeError) as caught:
        dnp.unique(ROWS, axis=2)
    assert rendered(caught.value) == (
        "unique: axis 2 is not an axis of an array with 2 axes.\n  at <the line>\n  help: its axes are from -2 to 1."
    )
    with pytest.raises(UnsupportedOpError) as complex_rows:
        dnp.unique(ROWS + 1j, axis=0)
    assert rendered(complex_rows.value) == (
        "unique does not take complex128.\n  at <the line>\n  help: take the parts of it."
    )
