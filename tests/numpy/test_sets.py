"""Arrays as sets: what NumPy's and JAX's functions say of the odd cases. Every size is in test_measured_shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import InvalidValueError, UnsupportedOpError
from tests.numpy.differential import rendered

jnp = pytest.importorskip("jax.numpy")

FUNCTIONS = ("union1d", "intersect1d", "setdiff1d", "setxor1d")
X = np.array([np.nan, 1, -0.0, np.nan, 2, 0.0, np.inf], np.float32)
Y = np.array([np.nan, 2, np.nan, 5, -np.inf, np.inf], np.float32)


def check(found: Any, wanted: Any) -> None:
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(own), np.asarray(other), strict=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_is_one_element_of_an_array_and_none_of_two(name: str) -> None:
    check([getattr(dnp, name)(X, Y)], [getattr(np, name)(X, Y)])
    check([getattr(dnp, name)(Y, X)], [getattr(np, name)(Y, X)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_compile(name: str) -> None:
    f = dyn.jit(getattr(dnp, name))
    for n in (0, 1, 2, 7, 64, 1000):
        rng = np.random.default_rng(n)
        x, y = rng.integers(0, n + 1, n), rng.integers(0, n + 1, 2 * n)
        check([f(x, y)], [getattr(np, name)(x, y)])
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [2, 9])
def test_sizes_of_ones_own(name: str, size: int) -> None:
    x, y = np.array([3, 1, 3, 7, 2], np.int32), np.array([[2, 9], [3, 2]], np.int32)
    for more in ({}, {"fill_value": -4}):
        own, other = (getattr(lib, name)(x, y, size=size, **more) for lib in (dnp, jnp))
        check([own], [other])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_size_of_0(name: str) -> None:
    x, y = np.array([3, 1], np.int32), np.array([2, 3], np.int32)
    check([getattr(dnp, name)(x, y, size=0)], [np.zeros(0, np.int32)])


def test_of_nothing_zeros_are_filled_in() -> None:
    none = np.zeros(0, np.float32)
    for f in (dnp.intersect1d, dnp.setdiff1d, dnp.setxor1d):
        np.testing.assert_array_equal(f(none, none, size=2), [0, 0])
    np.testing.assert_array_equal(dnp.union1d(none, none, size=2, fill_value=3), [3, 3])
    np.testing.assert_array_equal(dnp.setdiff1d(none, none, True, size=2, fill_value=3), [3, 3])


def test_places_of_what_is_common() -> None:
    """The first ones; a given size goes on with places that are outside of the arrays."""
    x, y = np.array([[4, 3], [3, 1]], np.int64), np.array([1, 4, 1, 4, 0], np.int64)
    check(dnp.intersect1d(x, y, return_indices=True), np.intersect1d(x, y, return_indices=True))
    values, first, second = dnp.intersect1d(x, y, return_indices=True, size=4)
    np.testing.assert_array_equal(values, [1, 4, 1, 1])
    np.testing.assert_array_equal(first, [3, 0, 4, 4])
    np.testing.assert_array_equal(second, [0, 1, 5, 5])


def test_setdiff1d_keeps_dtype_and_order() -> None:
    great = np.array([2**53 + 1, 5], np.int64)
    check([dnp.setdiff1d(great, np.array([5.0]))], [np.array([5, 2**53 + 1])[1:]])
    x = np.array([9, 1, 3, 9])
    check([dnp.setdiff1d(x, [3], assume_unique=True)], [np.array([9, 1, 9])])
    np.testing.assert_array_equal(dnp.setdiff1d(x, [3], assume_unique=True, size=5), [9, 1, 9, 0, 0])
    np.testing.assert_array_equal(dnp.setdiff1d(x, [3], assume_unique=True, size=2, fill_value=7), [9, 1])


def test_lists_and_scalars() -> None:
    np.testing.assert_array_equal(dnp.union1d(3, [4, 3]), [3, 4])
    np.testing.assert_array_equal(dnp.intersect1d([1, 2], 2), [2])
    np.testing.assert_array_equal(dnp.trim_zeros([0, 1, 0, 2, 0]), [1, 0, 2])
    np.testing.assert_array_equal(dnp.trim_zeros(np.float32(3)), np.float32(3))


def test_vmap_with_a_size() -> None:
    x = np.arange(6).reshape(2, 3)
    found = dyn.vmap(lambda a, b: dnp.setxor1d(a, b, size=3, fill_value=-1))(x, x % 4)
    np.testing.assert_array_equal(found, [[-1, -1, -1], [0, 1, 4]])


def test_gradients() -> None:
    """They go to the element that is taken: the first of those that are equal, and of common ones that of ``x``."""
    x = np.array([3.0, 2, 1, 3])
    y = np.array([2.0, 5])
    for f, wanted in (
        (dnp.setdiff1d, [6, 0, 2, 0]), (dnp.intersect1d, [0, 4, 0, 0]), (dnp.setxor1d, [6, 0, 2, 0]),
        (lambda x, y: dnp.trim_zeros(x - y[0]), [2, 0, -2, 2]),
    ):  # fmt: skip
        gradient = dyn.grad(lambda x, y, f=f: dnp.sum(f(x, y) ** 2))(x, y)
        np.testing.assert_allclose(gradient, wanted)


def test_trim_zeros_takes_nan_for_a_number() -> None:
    x = np.array([0.0, -0.0, np.nan, 0.0, 1, 0])
    check([dnp.trim_zeros(x)], [x[2:5]])
    check([dnp.trim_zeros(x * 0, "f")], [x[2:] * 0])


def test_errors() -> None:
    with pytest.raises(InvalidValueError) as caught:
        dnp.trim_zeros(X, "q")
    assert rendered(caught.value) == (
        "trim_zeros: 'q' names no ends.\n  at <the line>\n  help: use 'f' for the front, 'b' for the back."
    )
    for name in FUNCTIONS:
        with pytest.raises(UnsupportedOpError) as caught:
            getattr(dnp, name)(X, X + 1j)
        assert rendered(caught.value) == (
            f"{name} does not take complex64.\n  at <the line>\n  help: take the parts of it."
        )
