"""Products of sparse matrices in compressed rows: against dense ones, as users call them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
from dyn import lax
from dyn.errors import ShapeError, UnsupportedOpError

Array = np.ndarray[Any, Any]


def _matrix(lengths: Sequence[int], columns: int, integer: Any = np.int64) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(len(lengths))
    starts = np.cumsum([0, *lengths])
    count = int(starts[-1])
    values = rng.standard_normal(count).astype(np.float32)
    return values, rng.integers(0, max(columns, 1), count).astype(integer), starts.astype(integer)


def _table(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _product(values: Array, indices: Array, starts: Array, dense: Array) -> Array:
    matrix = np.zeros((len(starts) - 1, len(dense)), dense.dtype)
    bounds = np.clip(np.asarray(starts).astype(np.int64), 0, len(values))
    for row in range(len(matrix)):
        for place in range(bounds[row], bounds[row + 1]):
            if 0 <= indices[place] < len(dense):
                matrix[row, indices[place]] += values[place]
    return np.tensordot(matrix, dense, 1)


@pytest.mark.parametrize(
    ("lengths", "shape", "integer"),
    [
        ([2, 0, 3], (4, 5), np.int64), ([], (4, 5), np.int64), ([0], (0, 1), np.int64), ([1] * 1000, (10, 1), np.int32),
        ([5] * 3, (7,), np.int64), ([3, 1], (2, 2, 3), np.int64), ([100_000], (50, 17), np.int64),
        ([0, 1, 0], (3, 0), np.int64), ([2, 2], (3, 130), np.uint64), ([2, 2], (3, 3), np.int8),
    ],
)  # fmt: skip
def test_shapes_and_integers(lengths: list[int], shape: tuple[int, ...], integer: Any) -> None:
    args = (*_matrix(lengths, shape[0], integer), _table(*shape))
    expected = _product(*args)
    for function in (lax.csr_matmul, dyn.jit(lax.csr_matmul)):
        np.testing.assert_allclose(function(*args), expected, rtol=1e-4, atol=1e-3)


def test_one_program_for_rows_of_any_length() -> None:
    function = dyn.jit(lax.csr_matmul)
    for lengths in ([3, 1, 0, 2], [0, 0, 6], [6], []):
        args = (*_matrix(lengths, 9), _table(9, 33))
        np.testing.assert_allclose(function(*args), _product(*args), rtol=1e-4, atol=1e-5)
    assert function.cache_info().compiles == 1


def test_what_the_arrays_say_is_not_trusted() -> None:
    values, indices, _ = _matrix([6], 4)
    dense = _table(4, 5)
    for starts in ([-9, 3, 99], [4, 2, 6], [99, 99], [0, 6]):
        for at in (indices, indices - 10, indices + 2**62, indices * 0 - 1):
            args = values, at, np.array(starts), dense
            np.testing.assert_allclose(lax.csr_matmul(*args), _product(*args), rtol=1e-4, atol=1e-5)
    infinite = np.array([np.inf, np.nan], np.float32)
    assert (lax.csr_matmul(infinite, np.array([4, -1]), np.array([0, 2]), dense) == 0).all()


def test_derivatives_of_what_is_closed_over() -> None:
    values, indices, starts = _matrix([2, 0, 3, 1], 4)
    dense = _table(4, 5)

    def loss(values: Any, dense: Any) -> Any:
        return (lax.csr_matmul(values, indices, starts, dense) ** 2).sum()

    by_values, by_dense = dyn.jit(dyn.grad(loss, argnums=(0, 1)))(values, dense)
    matrix = _product(values, indices, starts, np.eye(4, dtype=np.float32))
    given = 2 * matrix @ dense
    rows = np.searchsorted(starts, np.arange(len(values)), side="right") - 1
    np.testing.assert_allclose(by_dense, matrix.T @ given, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_values, (given[rows] * dense[indices]).sum(1), rtol=1e-4, atol=1e-5)
    # Elements in front of the first row and behind the last one have no derivative.
    inner = np.array([1, 3, 4])
    (cut,) = dyn.grad(lambda values: lax.csr_matmul(values, indices, inner, dense).sum(), argnums=(0,))(values)
    expected = np.where((np.arange(6) >= 1) & (np.arange(6) < 4), dense[indices].sum(1), 0)
    np.testing.assert_allclose(cut, expected, rtol=1e-5, atol=1e-6)


def test_many_examples() -> None:
    values, indices, starts = _matrix([2, 0, 3, 1], 4)
    dense = _table(4, 5)
    many = np.stack([values, 2 * values]), np.stack([indices, indices - 1]), np.stack([starts, [0, 1, 1, 1, 6]])
    tables = np.stack([dense, dense - 1])
    one = values, indices, starts, dense
    for chosen in range(1, 16):
        mapped = [bool(chosen >> place & 1) for place in range(4)]
        args = [every if own else alone for own, every, alone in zip(mapped, (*many, tables), one, strict=True)]
        made = dyn.vmap(lax.csr_matmul, in_axes=tuple([0 if own else None for own in mapped]))(*args)
        each = [[x[i] if own else x for own, x in zip(mapped, args, strict=True)] for i in range(2)]
        np.testing.assert_allclose(made, np.stack([_product(*x) for x in each]), rtol=1e-4, atol=1e-5)


def test_other_dtypes() -> None:
    values, indices, starts = _matrix([2, 0, 3, 1], 4)
    dense = _table(4, 5)
    whole = np.rint(values * 3), np.rint(dense * 3)
    for dtype in (ml_dtypes.bfloat16, np.float16, np.int32, np.int8, np.float64, np.complex64):
        given, table = (x.astype(dtype) for x in whole)
        made = np.asarray(lax.csr_matmul(given, indices, starts, table))
        assert made.dtype == dtype
        np.testing.assert_array_equal(made.astype(np.complex64), _product(whole[0], indices, starts, whole[1]))
    twisted = values + 1j * values[::-1], dense - 2j * dense
    made = lax.csr_matmul(twisted[0].astype("c8"), indices, starts, twisted[1].astype("c8"))
    np.testing.assert_allclose(made, _product(twisted[0], indices, starts, twisted[1].astype("c16")), rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ((0, lambda x: x[:2]), ShapeError, "there is an index for each value"),
        ((2, lambda x: x[:0]), ShapeError, "row_starts_0 >= 1 is required"),
        ((0, lambda x: x[None]), ShapeError, "have one axis each and the dense array some, not 2, 1, 1, 2"),
        ((1, lambda x: x.astype("f4")), UnsupportedOpError, "indices and row starts of float32 and int64"),
        ((3, lambda x: x.astype("f8")), UnsupportedOpError, "values of float32 and a dense array of float64"),
    ],
)
def test_errors(change: tuple[int, Any], error: type[Exception], text: str) -> None:
    args: list[Array] = [*_matrix([2, 0, 3, 1], 4), _table(4, 5)]
    args[change[0]] = change[1](args[change[0]])
    with pytest.raises(error, match=re.escape(text)):
        lax.csr_matmul(*args)
