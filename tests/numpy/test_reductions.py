"""Reductions: NumPy's values, dtypes and shapes at every size, from one trace."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from tests.numpy.differential import compare, trace

AXES = (None, 0, 1, -1, (0, 2), (0, 1, 2), ())


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "bool", "float32"])
@pytest.mark.parametrize("name", ["sum", "prod", "any", "all", "count_nonzero"])
def test_monoids(name: str, dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        fn = getattr(xp, name)
        return [fn(x, axis=a, keepdims=k) for a in AXES for k in (False, True) if name != "count_nonzero" or a != ()]

    compare(program, f"{dtype} n 3 m", sizes=(0, 1, 7), rtol=1e-4)


EXTREMES = [(name, dtype) for name in ("max", "min", "ptp") for dtype in ("float64", "int32", "uint8", "bool")]
EXTREMES.remove(("ptp", "bool"))  # NumPy does not subtract booleans


@pytest.mark.parametrize(("name", "dtype"), EXTREMES)
def test_extremes(name: str, dtype: str) -> None:
    for axis in AXES:
        compare(lambda xp, x, axis=axis: getattr(xp, name)(x, axis=axis), f"{dtype} n 3 m")
        compare(lambda xp, x, axis=axis: getattr(xp, name)(x, axis=axis, keepdims=True), f"{dtype} n 3 m")


def test_extremes_of_nan() -> None:
    compare(lambda xp, x: (xp.max(xp.log(x), axis=1), xp.min(xp.log(x), axis=1)), "float64 n 7")


def test_extremes_with_an_initial_value_take_nothing() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            xp.max(x, axis=0, initial=-np.inf), xp.min(x, axis=0, initial=2.5), xp.max(x, initial=0),
            xp.max(x, axis=1, initial=-9, where=x < 0), xp.min(x, where=x > 0, initial=9.0),
        )  # fmt: skip

    traced = compare(program, "float64 n m")
    assert traced.function.facts.relations == ()


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e8m0fnu"])
def test_extremes_of_floats_without_infinities(dtype: str, size: int) -> None:
    """What a maximum starts from is no infinity, which would be NaN there."""
    powers = 2.0 ** np.arange(size)
    x = powers.astype(dyn.dtype(dtype).np)

    def program(x: Any) -> Any:
        pooled = dyn.nn.max_pool(x[None, :, None], (3,), (1,), padding="SAME")
        return dnp.max(x, initial=1), dnp.min(x, initial=2), dnp.max(x, where=x > 1, initial=-np.inf), pooled[0, :, 0]

    most, least, chosen, pooled = dyn.jit(program)(x)
    assert (float(most), float(least)) == (powers.max(initial=1), 1 if size else 2)
    assert float(chosen) == (powers[-1] if size > 1 else float(ml_dtypes.finfo(x.dtype).min))
    np.testing.assert_array_equal(np.asarray(pooled).astype("f8"), [*powers[1:], *powers[-1:]])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "bool", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_moments(name: str, dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        fn = getattr(xp, name)
        return [fn(x, axis=a, keepdims=k) for a in (None, 0, (0, 2), -1) for k in (False, True)]

    compare(program, f"{dtype} n 3 m", sizes=(0, 1, 7), rtol=2e-3 if dtype == "float16" else 1e-5)


def test_options_of_moments() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            xp.var(x, axis=0, ddof=1), xp.std(x, ddof=2), xp.var(x, axis=1, correction=1.5),
            xp.mean(x, dtype="float32"), xp.mean(x, axis=0, where=x > 0), xp.var(x, axis=0, where=x > 0),
            xp.sum(x, dtype="float32"), xp.sum(x, axis=0, initial=5.0), xp.sum(x, where=x > 0),
            xp.prod(x, axis=1, where=x > 0, initial=2.0),
            xp.any(x, axis=0, where=x > 0), xp.all(x, axis=0, where=x > 0), xp.average(x, axis=0),
            xp.average(x, axis=1, weights=xp.abs(x) + 1),
        )  # fmt: skip

    compare(program, "float64 n 3", rtol=2e-5)


def test_options_of_moments_of_complex_numbers() -> None:
    def program(xp: Any, x: Any) -> Any:
        there = xp.real(x) > 0
        holes = xp.where(there, x, xp.nan)
        return (
            xp.mean(x, axis=0, where=there), xp.var(x, axis=0, where=there), xp.std(x, axis=1, ddof=1),
            xp.var(x, dtype="complex128"), xp.var(xp.real(x), dtype="complex128"),
            xp.nanmean(holes, axis=0), xp.nanvar(holes, axis=0), xp.nanstd(holes),
        )  # fmt: skip

    compare(program, "complex128 n 3", rtol=1e-9)


def test_methods() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            x.sum(), x.sum(0), x.sum(axis=1, keepdims=True), x.mean(-1), x.var(), x.std(0), x.prod(), x.any(), x.all(1),
            x.max(initial=0), x.min(axis=0, initial=9), x.sum(dtype="float32"), x.round(), x.copy(), x.conj(),
        )  # fmt: skip

    compare(program, "float64 n 3", rtol=1e-5)


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float32", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "uint16", "uint64", "bool"],
)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_extremes(name: str, dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        fn = getattr(xp, name)
        return fn(x), fn(x, axis=0), fn(x, 1), fn(x, axis=-1, keepdims=True), fn(x, keepdims=True), getattr(x, name)(0)

    compare(program, f"{dtype} n m")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_arg_extremes_take_the_first_of_equals_and_the_first_nan(dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        odd = xp.where(x > 1, xp.nan, xp.where(x < -1, -xp.inf, x * 0)).astype(dtype)
        return [f(odd, axis=a, keepdims=k) for f in (xp.argmax, xp.argmin) for a in (None, 0, 1) for k in (False, True)]

    compare(program, f"{dtype} n m", sizes=(1, 2, 7, 64))


NAN_REDUCTIONS = ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"]


@pytest.mark.parametrize("name", NAN_REDUCTIONS)
def test_reductions_without_nans(name: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        fn = getattr(xp, name)
        holes = xp.where(x < 0, xp.nan, x)
        lost = xp.where(x < 99, xp.nan, x)
        return (fn(holes), fn(holes, axis=0), fn(holes, axis=1, keepdims=True), fn(lost, axis=1), fn(y, axis=0))

    compare(program, "float64 n m", "int32 n", sizes=(0, 1, 2, 7), rtol=1e-9)


def test_spread_without_nans_of_too_few() -> None:
    compare(lambda xp, x: xp.nanvar(xp.where(x < 0, xp.nan, x), axis=1, ddof=2), "float64 n 3", rtol=1e-9)


def test_places_without_nans() -> None:
    def program(xp: Any, x: Any) -> Any:
        holes = xp.where(x < 0, xp.nan, x)
        return [getattr(xp, name)(holes, axis=1, keepdims=k) for name in ("nanargmax", "nanargmin") for k in (0, 1)]

    def oracle(xp: Any, x: Any) -> Any:
        lost = (x < 0).all(1)
        results: list[Any] = []
        for fn, fill in ((np.argmax, -np.inf), (np.argmin, np.inf)):
            found = np.where(lost, -1, fn(np.where(x < 0, fill, x), axis=1))
            results += [found, found[:, None]]
        return results

    compare(program, "float64 n 4", oracle=oracle)


def test_arg_extremes_of_nan() -> None:
    compare(lambda xp, x: (xp.argmax(xp.log(x), axis=1), xp.argmin(xp.log(x), axis=1)), "float64 n 7")


def test_numpy_functions_themselves() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            np.sum(x, axis=0),
            np.mean(x),
            np.concatenate([x, x]),
            np.max(x, initial=0),
            np.where(x > 0, x, 0),
            np.ndim(x),
        )

    compare(program, "float64 n 3")


def test_dtypes_of_sums() -> None:
    traced = trace(lambda xp, x, y: (xp.sum(x), xp.sum(y), xp.prod(x)), "int8 n", "uint16 n")
    assert [v.dtype.name for v in traced.function.results] == ["int64", "uint64", "int64"]
