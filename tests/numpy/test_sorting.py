"""Sorting and running sums: NumPy's values at every size, from one trace, called from compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import InvalidValueError, UnsupportedOpError
from tests.numpy.differential import compare

DTYPES = ("float32", "float64", "int32", "uint8", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort(dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        return [xp.sort(x, axis=axis) for axis in (0, 1, -1, None)]

    compare(program, f"{dtype} n 3 m")


@pytest.mark.parametrize("dtype", DTYPES)
def test_argsort(dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        options = {"kind": "stable"} if xp is np else {}
        return [xp.argsort(x, axis=axis, **options) for axis in (0, 1, -1, None)]

    compare(program, f"{dtype} n 3 m")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running(name: str, dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        return [getattr(xp, name)(x, axis=axis) for axis in (0, 1, -1, None)]

    compare(program, f"{dtype} n 3 m", rtol=1e-5)


def test_running_in_another_dtype_and_the_standards_names() -> None:
    compare(lambda xp, x: xp.cumsum(x, axis=0, dtype="float32"), "int32 n m")
    compare(
        lambda xp, x: (xp.cumulative_sum(x, axis=1, include_initial=True), xp.cumulative_prod(x, axis=0)), "int64 n m"
    )
    compare(lambda xp, x: xp.cumulative_sum(x), "float64 n")


def test_descending_is_stable_and_nan_comes_first() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        return dnp.sort(x, descending=True), dnp.argsort(x, descending=True)

    x = np.array([1.0, np.nan, 3.0, 1.0, -0.0, 0.0], np.float32)
    values, order = f(x)
    np.testing.assert_array_equal(values, x[[1, 2, 0, 3, 4, 5]])
    np.testing.assert_array_equal(np.signbit(values), np.signbit(x[[1, 2, 0, 3, 4, 5]]))
    np.testing.assert_array_equal(order, [1, 2, 0, 3, 4, 5])


def test_what_surrounds_a_library_call_is_compiled() -> None:
    """Views and inlined numbers are stored for it, its results are read by kernels, one compile serves all sizes."""

    @dyn.jit
    def f(x: Any, scale: Any) -> Any:
        ordered = dnp.sort(dnp.exp(x).T * scale, axis=0)
        ranks = dnp.argsort(dnp.argsort(x, axis=1), axis=1)
        flat = dnp.cumsum(x.reshape(-1))
        return ordered[:2] + 1.0, ranks * 2, flat.reshape(x.shape), dnp.sort(dnp.ones(x.shape[0]) * scale)

    for n, m in ((3, 4), (2, 2), (0, 5), (7, 2), (64, 3), (1, 9)):
        x = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
        a, b, c, d = f(x, np.float32(2.0))
        np.testing.assert_allclose(a, np.sort(np.exp(x).T * 2, axis=0)[:2] + 1, rtol=1e-5)
        np.testing.assert_array_equal(b, 2 * x.argsort(axis=1).argsort(axis=1))
        np.testing.assert_allclose(c, np.cumsum(x).reshape(n, m), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(d, np.full(n, 2, np.float32))
    assert f.cache_info().compiles == 1
    assert "library sort" in f.explain().__str__()


def test_what_a_library_raises_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise MemoryError("no room to sort in")

    f = dyn.jit(lambda x: dnp.sort(-x) + 1)
    x = np.arange(3.0).astype(dyn.dtypes.float8_e5m2.np)  # for which there is no native code
    before = f(x)
    with monkeypatch.context() as patch:
        patch.setattr("dyn.ops.sorting.sort.sort_into", refuse)
        with pytest.raises(MemoryError, match="no room to sort in"):
            f(x)
    np.testing.assert_array_equal(f(x), before)


def test_refusals() -> None:
    with pytest.raises(InvalidValueError, match="cumulative_sum of an array with 2 axes needs axis="):
        dnp.cumulative_sum(np.ones((2, 2)))
    with pytest.raises(UnsupportedOpError, match="sort does not take complex64"):
        dnp.sort(np.ones(2, np.complex64))


def test_views_of_what_was_sorted() -> None:
    """A library's result cannot be stored in another order by the library: the view is a copy of its own."""
    compare(lambda xp, x: (xp.sort(x, 1).T, xp.sort(x, 0)[::-1], xp.sort(x, 1).reshape(-1)), "float32 n m")
