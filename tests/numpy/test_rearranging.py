"""Elements taken, padded, stacked, split and turned as NumPy has it, at every size, from one trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dyn.errors import ShapeError
from tests.numpy.differential import compare, run, trace

# ---- take ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("kind", ["int8", "int32", "uint64"])
def test_take_modes(mode: str, kind: str) -> None:
    def program(xp: Any, x: Any, i: Any) -> Any:
        return xp.take(x, i, 0, mode=mode), xp.take(x, i, axis=1, mode=mode), xp.take(x, i, mode=mode)

    def oracle(xp: Any, x: Any, i: Any) -> Any:
        return program(np, x, i.astype(np.int64))

    compare(program, "float32 n 3", f"{kind} m", oracle=oracle)


def test_take_fills() -> None:
    traced = trace(
        lambda xp, x, i: (xp.take(x, i, mode="fill"), xp.take(x, i, mode="fill", fill_value=7)), "float32 n", "int64 m"
    )
    x, i = np.arange(3, dtype=np.float32), np.array([-4, -3, 0, 2, 3])
    filled, given = run(traced, [x, i])
    np.testing.assert_array_equal(filled, [np.nan, 0, 0, 2, np.nan])
    assert given.tolist() == [7, 0, 0, 2, 7]
    for kind, wanted in (("int8", -128), ("uint8", 255), ("bool", True)):
        traced = trace(lambda xp, x, i: xp.take(x, i, mode="fill"), f"{kind} n", "uint64 m")
        (filled,) = run(traced, [np.zeros(3, kind), np.array([2**64 - 1], np.uint64)])
        assert filled.tolist() == [wanted]


def test_take_from_nothing_is_an_error_when_called() -> None:
    traced = trace(lambda xp, x, i: (x[i], xp.take(x, i, 0, mode="wrap")), "float32 n 3", "int64 m")
    nothing, place = np.zeros((0, 3), np.float32), np.zeros((1,), np.int64)
    assert [r.shape for r in run(traced, [nothing, place[:0]])] == [(0, 3), (0, 3)]
    with pytest.raises(ShapeError, match="elements are taken from an axis that has some"):
        run(traced, [nothing, place])


def test_take_along_axis() -> None:
    def program(xp: Any, x: Any, i: Any) -> Any:
        return (
            xp.take_along_axis(x, i % 3, 1), xp.take_along_axis(x, i[:, :1] % 3, axis=-1),
            xp.take_along_axis(x, i[:1] * 0 - 1, axis=1), xp.take_along_axis(x, x[:, :1].astype("int32") * 0, 1),
        )  # fmt: skip

    compare(program, "float32 n 3", "int64 n m")
    compare(lambda xp, x, i: xp.take_along_axis(x, i % 4, 0), "float64 4 m", "int8 n m")
    compare(lambda xp, x, i: xp.take_along_axis(x, i % 12, None), "float64 4 3", "int8 n")


def test_put_along_axis() -> None:
    def program(xp: Any, x: Any, i: Any, v: Any) -> Any:
        return xp.put_along_axis(x, i % 3, v, 1, inplace=False), xp.put_along_axis(x, i % 3, 5, -1, inplace=False)

    def oracle(xp: Any, x: Any, i: Any, v: Any) -> Any:
        first, second = x.copy(), x.copy()
        np.put_along_axis(first, i % 3, v, 1)
        np.put_along_axis(second, i % 3, 5, -1)
        return first, second

    compare(program, "float32 n 3", "int64 n m", "float32 n m", oracle=oracle)


# ---- pad -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_pad_with_own_elements(mode: str) -> None:
    compare(lambda xp, x: xp.pad(x, ((3, 2), (0, 4)), mode), "int32 n 3", sizes=(1, 2, 3, 7))
    compare(lambda xp, x: xp.pad(x, (0, 9), mode), "float32 n", sizes=(0, 1, 2, 7))


def test_pad_with_constants() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        m = y.shape[0]
        return (
            xp.pad(x, 1), xp.pad(x, (0, 2), constant_values=3), xp.pad(x, ((0, 0), (2, 1)), constant_values=-1.5),
            xp.pad(x, (m, 1)), xp.pad(x, ((m, 0), (0, m))), xp.pad(x, 0), xp.pad(x, 2, constant_values=(1, 2)),
            xp.pad(x, ((1, 0), (1, 2)), constant_values=((1, 2), (3, 4))), xp.pad(x > 0, 1),
        )  # fmt: skip

    compare(program, "float32 n 3", "float32 m")


def test_pad_by_dimensions() -> None:
    compare(lambda xp, x, y: xp.pad(x, (y.shape[0], y.shape[0]), "reflect"), "int64 n", "int64 m", sizes=(1, 2, 7))


# ---- diagonals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, -1, 3, -9])
def test_diagonals(k: int) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return xp.diagonal(x, k), xp.diag(x, k), xp.diag(x[:, 0], k), xp.diagonal(y, k, 2, 0), xp.diagonal(y, k, -2, -1)

    compare(program, "float32 n m", "int32 n 2 m")


def test_diagonals_in_sums() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return (
            xp.einsum("ii", x), xp.einsum("ii->i", x), xp.einsum("ii,ij->j", x, x), xp.einsum("kik->ki", y),
            xp.einsum("ij,kjk->ki", x, y),
        )  # fmt: skip

    compare(program, "float64 n n", "float64 m n m", sizes=(0, 1, 3))


def test_triangles() -> None:
    compare(lambda xp, x: (xp.tril(x), xp.triu(x, 1), xp.tril(x, -1), xp.tri(x.shape[0], 3, 1)), "float64 n m")


# ---- together and apart ----------------------------------------------------------------------------------------------


def test_stacks() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return (
            xp.dstack([x, x]), xp.dstack([y, y + 1]), xp.column_stack([x, y]), xp.column_stack([y, y, x]),
            xp.vstack([x, x]), xp.hstack([x, x]), xp.stack([y, y], axis=-1), xp.atleast_3d(y), xp.atleast_3d(x),
        )  # fmt: skip

    compare(program, "float32 n 3", "float32 n")


def test_splits() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            *xp.hsplit(x, 2), *xp.vsplit(x, [1]), *xp.split(x, [-1]), *xp.split(x, [2, 1, -2]), *xp.hsplit(x[0], 2),
            *xp.dsplit(x[:, :, None] * xp.ones(4), 2), *xp.array_split(x, 3), *xp.vsplit(x * 1, 1),
        )  # fmt: skip

    with np.errstate(all="ignore"):
        compare(program, "float64 n 4", sizes=(1, 2, 3, 7))
    compare(lambda xp, x: xp.split(x, 3), "float32 n", sizes=(0, 3, 6, 7))


@pytest.mark.parametrize("k", [-1, 0, 1, 2, 3, 6])
def test_rot90(k: int) -> None:
    compare(lambda xp, x, y: (xp.rot90(x, k), xp.rot90(y, k, (2, 0))), "float32 n m", "float32 n 2 m")


def test_roll() -> None:
    compare(lambda xp, x: (xp.roll(x, 2), xp.roll(x, -1, 0), xp.roll(x, (1, 2), (0, 1)), xp.roll(x, 9, 1)), "int64 n m")
