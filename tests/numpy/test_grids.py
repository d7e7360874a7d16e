"""Indices of grids and triangles, and arrays with elements added, left out or replaced: NumPy's at every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import DynError, ShapeError, UnsupportedOpError
from tests.numpy.differential import compare

SIZES = (0, 1, 2, 7)


def test_indices() -> None:
    def program(xp: Any, x: Any) -> Any:
        n, m = x.shape
        return (
            xp.indices((n, m)), xp.indices((3,), dtype="int32"), *xp.indices((n, 2, m), sparse=True),
            xp.fromfunction(lambda i, j: i * 2 + j, (n, m)), x[xp.ix_(xp.arange(n), xp.arange(m)[::-1])],
            *xp.ix_([1, 2], xp.arange(n)),
        )  # fmt: skip

    compare(program, "float64 n m", sizes=SIZES)


@pytest.mark.parametrize("k", [-3, -1, 0, 1, 4])
def test_triangles(k: int) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        n = x.shape[0]
        return (
            *xp.tril_indices(n, k), *xp.triu_indices(n, k), *xp.tril_indices(4, k, 6), *xp.triu_indices(5, k, 2),
            *xp.triu_indices_from(y, k), *xp.tril_indices_from(y, k),
        )  # fmt: skip

    compare(program, "float64 n", "float64 4 3", sizes=(0, 1, 2, 3, 7))


def test_elements_of_triangles() -> None:
    """The elements taken there have a size that follows from the matrix's."""

    @dyn.jit
    def f(x: Any) -> Any:
        rows, columns = dnp.triu_indices(x.shape[0], 1)
        return x[rows, columns].sum()

    for n in (1, 2, 7, 64):
        x = np.random.default_rng(n).standard_normal((n, n))
        np.testing.assert_allclose(f(x), x[np.triu_indices(n, 1)].sum(), rtol=1e-6, atol=1e-9)
    assert f.cache_info().compiles == 1


def test_diagonals() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            *xp.diag_indices(x.shape[0], 3), *xp.diag_indices_from(x), xp.diagflat(x), xp.diagflat(x[:, :1], 2),
            xp.diagflat(x[0], -1),
        )  # fmt: skip

    compare(program, "float64 3 3")
    compare(lambda xp, x: xp.diag_indices_from(x), "float64 n n")


def test_grids_of_what_is_true() -> None:
    f = dyn.jit(lambda x, rows: x[dnp.ix_(rows, dnp.asarray([2, 0]))])
    for n in (1, 2, 7):
        x, rows = np.random.default_rng(n).standard_normal((n, 3)), np.arange(n) % 2 == 0
        np.testing.assert_array_equal(f(x, rows), x[np.ix_(rows, [2, 0])])
    assert f.cache_info().compiles == 1


def test_numbers_of_elements() -> None:
    def program(xp: Any, x: Any) -> Any:
        n, m = x.shape
        numbers = xp.arange(n * m)
        places = xp.unravel_index(numbers, (n, m))
        return (
            *places, *xp.unravel_index(numbers[:5], (n * m,)), xp.ravel_multi_index(places, (n, m)),
            xp.ravel_multi_index(places, (n, m), order="F"),
        )  # fmt: skip

    compare(program, "float64 n m", sizes=(1, 2, 7))


def test_numbers_out_of_range() -> None:
    x, y = np.array([5, -1, 2]), np.array([0, 9, -3])
    modes: tuple[Any, ...] = ("wrap", "clip", ("clip", "wrap"))
    for mode in modes:
        np.testing.assert_array_equal(
            dnp.ravel_multi_index((x, y), (3, 4), mode), np.ravel_multi_index((x, y), (3, 4), mode)
        )
    np.testing.assert_array_equal(dnp.unravel_index([-1, 99], (3, 4)), [[2, 2], [3, 3]])


# ---- longer and shorter ----------------------------------------------------------------------------------------------


def test_append_and_resize() -> None:
    def program(xp: Any, x: Any) -> Any:
        n, _ = x.shape
        return (
            xp.append(x, x * 2), xp.append(x, x[:1], axis=0), xp.append(x, [[1.0, 2.0]]), xp.resize(x, (3, n)),
            xp.resize(x, 7), xp.resize(x, (n, 0)),
        )  # fmt: skip

    compare(program, "float64 n 3", sizes=(1, 2, 7))
    compare(lambda xp, x: xp.resize(x, (2, 3)), "float64 n", sizes=SIZES)


@pytest.mark.parametrize(
    "obj", [0, 2, -1, [0, 2], [-1, -3], [1, 1, 0], slice(1, 3), slice(None, -1), slice(-2, None), slice(0, 0)], ids=repr
)
def test_delete(obj: Any) -> None:
    compare(lambda xp, x: (xp.delete(x, obj, axis=0), xp.delete(x, obj, axis=1)), "float64 n 4", sizes=(0, 2, 3, 7))
    compare(lambda xp, x: xp.delete(x, obj), "float64 n 4", sizes=(1, 2, 7))


def test_delete_of_a_known_size() -> None:
    compare(lambda xp, x: (xp.delete(x, slice(None, None, 2), 1), xp.delete(x, [0, -1], 1)), "float64 n 5")


@pytest.mark.parametrize("obj", [0, 2, -1, [0, 2], [2, 0], [-1, -2], [1, 1, 1]], ids=repr)
def test_insert(obj: Any) -> None:
    def program(xp: Any, x: Any) -> Any:
        count = len(obj) if isinstance(obj, list) else 1
        rows = xp.asarray(np.arange(4.0 * count).reshape(count, 4))
        more = rows if isinstance(obj, list) else rows[0]
        return (
            xp.insert(x, obj, 9.5, axis=0), xp.insert(x, obj, more, axis=0), xp.insert(x, obj, 3),
            xp.insert(x, obj, x[:, 0][:, None] if isinstance(obj, list) else x[:, 0], axis=1),
        )  # fmt: skip

    compare(program, "float64 n 4", sizes=(2, 3, 7))


def test_delete_at_computed_places() -> None:
    """One program for all sizes and places; NumPy refuses places that are not there, which take the nearest here."""
    at = dyn.jit(lambda x, i: (dnp.delete(x, i, axis=0), dnp.delete(x, i[None], axis=1), dnp.delete(x, [i])))
    several = dyn.jit(lambda x, i, mask: (dnp.delete(x, i, axis=0), dnp.delete(x, mask, axis=0)))
    for n in (1, 2, 7):
        x = np.arange(3.0 * n).reshape(n, 3)
        for i in {0, n // 2, -1, -n}:
            inner = max(-3, min(i, 2))
            own, wanted = at(x, np.int16(i)), (np.delete(x, i, 0), np.delete(x, inner, 1), np.delete(x, i))
            for part, other in zip(own[::2], wanted[::2], strict=True):
                np.testing.assert_array_equal(part, other)
            np.testing.assert_array_equal(own[1], wanted[1])
        for places in ([0, -1, 0], [], [n - 1]):
            mask = np.arange(n) % 2 == 0
            own = several(x, np.array(places, np.int64), mask)
            for part, other in zip(own, (np.delete(x, np.array(places, np.int64), 0), x[~mask]), strict=True):
                np.testing.assert_array_equal(part, other)
    assert at.cache_info().compiles == several.cache_info().compiles == 1
    np.testing.assert_array_equal(dnp.delete(np.arange(4), [True, False, False, True]), [1, 2])
    np.testing.assert_array_equal(dnp.delete(np.arange(4), np.uint64(2**63)), [0, 1, 2])
    np.testing.assert_array_equal(dyn.vmap(lambda i: dnp.delete(np.arange(3), i))(np.array([0, -1])), [[1, 2], [0, 1]])
    with pytest.raises(ShapeError):
        at(np.ones((0, 3)), np.int16(0))


def test_places_that_are_dimensions() -> None:
    def program(xp: Any, x: Any) -> Any:
        n, _ = x.shape
        return (
            xp.delete(x, n // 2, axis=0), xp.delete(x, n - 1), xp.insert(x, n // 2, 5.0, axis=0),
            xp.insert(x, n, x[0], axis=0), xp.insert(x, [n // 2], x, axis=0),
            xp.insert(x, [0, n, n // 2], [[1.0], [2.0], [3.0]], axis=0),
            xp.insert(x, slice(None, None, 2), -1.0, axis=0), xp.insert(x, slice(None, 0, -1), -1.0, axis=0),
        )  # fmt: skip

    compare(program, "float64 n 4", sizes=(1, 2, 7))
    sizes: list[Any] = []
    dyn.jit(lambda x: sizes.append(dnp.delete(x, x.shape[0] // 2).shape), shapes=["n"])(np.ones(3))
    assert str(sizes) == "[(n - 1,)]"


def test_insert_at_computed_places() -> None:
    f = dyn.jit(
        lambda x, i, places, v: (
            dnp.insert(x, i, v),
            dnp.insert(x, [i], v),
            dnp.insert(x, places, 9.5),
            dnp.insert(x, [i, 0, i], [1, 2, 3]),
        )
    )
    for n in (0, 1, 5):
        x = np.arange(float(n))
        for i in {0, n // 2, n, -n}:
            for places in ([0, n, 0, -n], [], [i]):
                v, at = np.arange(0.5, 2 + len(places)), np.array(places, np.int32)
                wanted = (
                    np.insert(x, i, v),
                    np.insert(x, [i], v),
                    np.insert(x, at, 9.5),
                    np.insert(x, [i, 0, i], [1, 2, 3]),
                )
                for part, other in zip(f(x, np.int32(i), at, v), wanted, strict=True):
                    np.testing.assert_array_equal(part, other)
    assert f.cache_info().compiles == 1
    rows = np.arange(6.0).reshape(2, 3)
    slope = dyn.grad(lambda x, i: (dnp.insert(x, i, x[0], axis=1) ** 2).sum())(rows[:, :2], np.int32(1))
    np.testing.assert_array_equal(slope, 2 * rows[:, :2] + np.array([[0, 2], [0, 0]]))


def test_block_and_rollaxis() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            xp.block([[x, x * 2], [x * 3, x * 4]]), xp.block([x, x]), xp.block([[x[0], x[0]], [x[0], x[0]]]),
            *(xp.rollaxis(x[None, :, None], a, s) for a in (0, 2, -1) for s in (0, 1, 3, -1, 4)), xp.block(x),
        )  # fmt: skip

    compare(program, "float64 n 2", sizes=(1, 2, 7))


# ---- replaced and chosen ---------------------------------------------------------------------------------------------


def test_fill_diagonal() -> None:
    def program(xp: Any, x: Any, y: Any, z: Any) -> Any:
        made = []
        for a, val, wrap in ((x, 9, False), (x, z, False), (y, 9, True), (y, z, True), (y, -1.5, False)):
            if xp is np:
                own = a.copy()
                np.fill_diagonal(own, val, wrap)
            else:
                own = dnp.fill_diagonal(a, val, wrap, inplace=False)
            made.append(own)
        return made

    compare(program, "float64 n m", "float64 n 3", "float64 2", sizes=(1, 2, 7, 9))


def test_fill_diagonal_of_cubes() -> None:
    cube = np.zeros((3, 3, 3))
    wanted = cube.copy()
    np.fill_diagonal(wanted, 4)
    np.testing.assert_array_equal(dnp.fill_diagonal(cube, 4, inplace=False), wanted)


def test_put_and_place() -> None:
    def program(xp: Any, x: Any, v: Any) -> Any:
        if xp is not np:
            return (
                dnp.put(x, [0, 1, -1], v, inplace=False), dnp.put(x, [9, -9, 3], v, mode="clip", inplace=False),
                dnp.put(x, [9, -9, 3], v, "wrap", inplace=False), dnp.place(x, x > 0, v, inplace=False),
            )  # fmt: skip
        made = [x.copy() for _ in range(4)]
        np.put(made[0], [0, 1, -1], v)
        np.put(made[1], [9, -9, 3], v, mode="clip")
        np.put(made[2], [9, -9, 3], v, mode="wrap")
        np.place(made[3], x > 0, v)
        return made

    compare(program, "float64 n 3", "float64 2", sizes=(1, 2, 7))


def test_choices() -> None:
    def program(xp: Any, x: Any, i: Any) -> Any:
        return (
            xp.choose(i, [x, x * 2, -1.0], mode="clip"), xp.choose(i, [x, x * 2, x[0]], mode="wrap"),
            xp.choose(i, [x], mode="clip"),
            xp.piecewise(x, [x < 0, x > 1], [lambda v: -v, lambda v: v * v, 5.0]),
            xp.piecewise(x, [x < 0, x > 1], [lambda v, a: v * a, 3], 2.0),
        )  # fmt: skip

    compare(program, "float64 n 2", "int32 n 2", sizes=(1, 2, 7))


# ---- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: dnp.put([1, 2], 0, x[0]), UnsupportedOpError, "put cannot change a list, which is not dyn's."),
        (
            lambda x: dnp.delete(x, [0, -1]),
            UnsupportedOpError,
            "delete: places are counted from both ends of axis 0 of x (n,), whose size is not known.",
        ),
        (lambda x: dnp.delete(x, 1.5), UnsupportedOpError, "delete: the places are of type float, not integers."),
        (lambda x: dnp.insert(x, x > 0, 1), UnsupportedOpError, "insert: the places are of type i1[n], not integers."),
        (
            lambda x: dnp.insert(x, x.astype("int32")[None], 1),
            ShapeError,
            "insert: the places (1, n) have 2 axes.",
        ),
        (
            lambda x: dnp.delete(x, slice(None, None, 2)),
            UnsupportedOpError,
            "delete: a slice with the step 2 of axis 0 of x (n,), whose size is not known.",
        ),
        (lambda x: dnp.block([[x], x]), ShapeError, "block: an array stands 1 lists deep, and another one 2."),
        (lambda x: dnp.choose(x > 0, []), ShapeError, "choose: there are no choices."),
        (
            lambda x: dnp.piecewise(x, [x > 0], [1, 2, 3]),
            ShapeError,
            "piecewise: 3 functions are given for 1 conditions.",
        ),
        (
            lambda x: dnp.tril_indices(x.shape[0], 0, 3),
            UnsupportedOpError,
            "tril_indices: the size of a triangle of n rows and 3 columns is not known.",
        ),
        (
            lambda x: dnp.ravel_multi_index((x > 0,), (3,)),
            UnsupportedOpError,
            "ravel_multi_index takes integers, not bool.",
        ),
    ],
)
def test_refusals(call: Any, kind: type[DynError], text: str) -> None:
    def f(x: Any) -> Any:
        return call(x)

    with pytest.raises(kind) as caught:
        dyn.jit(f, shapes=[("n",)])(np.ones(3, np.float32))
    assert caught.value.problem == text
    assert caught.value.remedy
    assert caught.value.loc is not None


def test_places_that_are_not_there() -> None:
    f = dyn.jit(lambda x: dnp.delete(x, 3))
    np.testing.assert_array_equal(f(np.arange(4)), [0, 1, 2])
    with pytest.raises(ShapeError) as caught:
        f(np.arange(3))
    assert "delete: place 3 is inside of axis 0" in str(caught.value)


# ---- written as indices ----------------------------------------------------------------------------------------------


def test_grids_written_as_indices() -> None:
    def program(xp: Any, x: Any) -> Any:
        n, m = x.shape
        return (
            xp.mgrid[0:n, 2:m], xp.mgrid[0:7:2], xp.mgrid[-1:1:5j, 0:3], *xp.ogrid[0:n, 0:m:3], xp.ogrid[:n],
            xp.mgrid[0.5:3.0:0.5], x[xp.s_[1:, ::2]], x[xp.index_exp[..., :1]],
        )  # fmt: skip

    compare(program, "float64 n m", sizes=(2, 7))
    np.testing.assert_array_equal(dnp.mgrid[0:3, 0:2], np.mgrid[0:3, 0:2])
    with pytest.raises(UnsupportedOpError) as caught:
        dnp.mgrid[3]
    assert caught.value.problem == "a grid is made of slices, not of the int 3."
