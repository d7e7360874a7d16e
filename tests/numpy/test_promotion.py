"""Dtypes combine as in NumPy 2; Python numbers and dimensions are weak."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dyn import config, dtypes
from tests.numpy.differential import compare, run, trace

DTYPES = ["bool", "int8", "int32", "int64", "uint8", "uint32", "float16", "float32", "float64"]


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(DTYPES, 2)))
def test_two_arrays(a: str, b: str) -> None:
    compare(lambda xp, x, y: (x + y, x * y, x < y, xp.where(x, x, y)), f"{a} n", f"{b} n", sizes=(0, 3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [True, 3, 0.5])
def test_python_numbers_are_weak(dtype: str, number: float) -> None:
    compare(lambda xp, x: (x + number, number * x, x == number), f"{dtype} n", sizes=(0, 3), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
def test_dimensions_are_weak(dtype: str) -> None:
    # NumPy's sizes are Python ints, and weak as well.
    compare(lambda xp, x: (x * x.shape[0], x.shape[0] + x, x - x.shape[0] * 2), f"{dtype} n", sizes=(0, 3), rtol=1e-3)


def test_scalars_made_of_dimensions_stay_weak() -> None:
    def program(xp: Any, x: Any) -> Any:
        return x * (x.shape[1] ** -0.5), x / x.shape[1], (x.shape[1] / 2) * x, x.sum() * (1 / x.shape[1])

    traced = trace(program, "float32 n m")
    assert [v.dtype for v in traced.function.results] == [dtypes.float32] * 4
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for actual, wanted in zip(run(traced, [x]), program(np, x), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-6)


def test_bfloat16() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return x + 1.5, x * y, xp.exp(x), x.sum(), x < 0

    traced = trace(program, "bfloat16 n", "float32 n")
    found = [v.dtype for v in traced.function.results]
    assert found == [dtypes.bfloat16, dtypes.float32, dtypes.bfloat16, dtypes.bfloat16, dtypes.bool_]


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("bfloat16", "float16", "float32"),
        ("bfloat16", "int8", "bfloat16"),
        ("bfloat16", "int32", "float64"),
        ("bfloat16", "float64", "float64"),
        ("bool", "bfloat16", "bfloat16"),
    ],
)
def test_bfloat16_with_others(a: str, b: str, result: str) -> None:
    assert dtypes.promote(dtypes.dtype(a), dtypes.dtype(b)) is dtypes.dtype(result)
    assert dtypes.promote(dtypes.dtype(b), dtypes.dtype(a)) is dtypes.dtype(result)


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_default_float(default: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        return xp.exp(x), x / 2, x + 0.5, xp.mean(x), xp.zeros(3), xp.where(x > 0, 1.0, 0.0), xp.asarray(0.5)

    with config.override(default_float=default):
        traced = trace(program, "int64 n")
    assert {v.dtype.name for v in traced.function.results} == {default}


def test_astype() -> None:
    def program(xp: Any, x: Any) -> Any:
        return x.astype("float32"), xp.astype(x, xp.int32), x.astype(bool), x.astype(np.float16), x.astype(int)

    compare(program, "float64 n", oracle=lambda xp, x: (
        x.astype("f4"), x.astype("i4"), x.astype(bool), x.astype("f2"), x.astype(int),
    ))  # fmt: skip


def test_dtypes_compare_with_what_arrays_have() -> None:
    def program(xp: Any, x: Any) -> Any:
        assert x.dtype == xp.float32
        assert x.dtype != xp.float64
        assert x.dtype == np.float32
        assert (x.ndim, x.itemsize) == (2, 4)
        return x

    compare(program, "float32 n 3")


@pytest.mark.parametrize("code", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_codes_of_dtypes_are_numpys(code: str) -> None:
    assert dtypes.dtype(code).np == np.dtype(code)
    compare(lambda xp, x: x.astype(code), "int32 n")
