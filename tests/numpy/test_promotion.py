"""Dtypes combine as in NumPy 2; Python numbers and dimensions are weak."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config, dtypes, lax
from dyn.errors import ShapeError, UnsupportedOpError
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


# ---- sizes as numbers of narrow integers -----------------------------------------------------------------------------

BYTES = np.arange(3, dtype=np.int8)
NARROW: dict[str, Callable[[Any, Any], Any]] = {
    "asarray": lambda x, n: dnp.asarray(n, dtype="int8"),
    "a list": lambda x, n: dnp.asarray([1, n], dtype="int8"),
    "full": lambda x, n: dnp.full(3, n, "int8"),
    "full_like": dnp.full_like,
    "arithmetic": lambda x, n: x + n,
    "a ufunc": np.maximum,
    "an update": lambda x, n: dnp.asarray(x).at[1].add(n),
    "insert": lambda x, n: dnp.insert(x, 1, n),
    "pad": lambda x, n: dnp.pad(x, 1, constant_values=n),
    "lax.add": lax.add,
    "lax.full": lambda x, n: lax.full((2,), n, "int8"),
    "an initial value": lambda x, n: lax.reduce(x, n, lax.add, (0,)),
    "a loop's carry": lambda x, n: lax.scan(lambda c, row: (n, row), np.int8(0), x)[0],
}


@pytest.mark.parametrize("name", NARROW)
def test_a_size_has_to_be_a_number_of_the_dtype_that_it_takes(name: str) -> None:
    function = NARROW[name]
    of_sizes = dyn.jit(lambda x, y: function(x, y.shape[0]))
    for n in (0, 5, 127, 128, 300):
        y = np.zeros(n)
        if n < 128:
            wanted = np.asarray(dyn.jit(lambda x: function(x, n))(BYTES))  # noqa: B023  # called at once
            made = np.asarray(of_sizes(BYTES, y))
            assert made.dtype == wanted.dtype == np.int8
            np.testing.assert_array_equal(made, wanted)
        else:
            with pytest.raises(ShapeError) as caught:
                of_sizes(BYTES, y)
            assert str(caught.value).splitlines()[0] == (
                f"127 >= y_0 is required, but y_0 is {n}: the size y_0 becomes a number of int8."
            )
            with pytest.raises(UnsupportedOpError) as alone:
                dyn.jit(lambda x: function(x, n))(BYTES)  # noqa: B023
            assert f"{n}, which does not fit in int8" in str(alone.value) or str(alone.value).startswith(
                f"the Python integer {n} does not fit in int8."
            )
    assert of_sizes.cache_info().compiles == 1


def test_a_negative_size_is_no_unsigned_number() -> None:
    f = dyn.jit(lambda x, y: x + (y.shape[0] - 2))
    ones = np.ones(2, np.uint64)
    np.testing.assert_array_equal(f(ones, np.zeros(5)), ones + 3)
    with pytest.raises(ShapeError) as caught:
        f(ones, np.zeros(1))
    assert str(caught.value).splitlines()[0] == (
        "y_0 - 2 >= 0 is required, but y_0 - 2 is -1 (y_0 is 1): the size y_0 - 2 becomes a number of uint64."
    )


def test_a_branch_that_is_not_taken_takes_any_size() -> None:
    f = dyn.jit(lambda x, y, flag: lax.cond(flag, lambda: dnp.asarray(x) + y.shape[0], lambda: dnp.asarray(x) * 2))
    np.testing.assert_array_equal(f(BYTES, np.zeros(300), np.asarray(False)), BYTES * 2)
    np.testing.assert_array_equal(f(BYTES, np.zeros(9), np.asarray(True)), BYTES + 9)
    with pytest.raises(ShapeError, match="the size y_0 becomes a number of int8"):
        f(BYTES, np.zeros(300), np.asarray(True))


@pytest.mark.parametrize("make", [lambda n: dnp.asarray(n, dtype="int8"), lambda n: dyn.asarray([1, n], "int8")])
def test_integers_outside_of_traces_have_to_fit_too(make: Callable[[int], Any]) -> None:
    assert np.asarray(make(127)).dtype == np.int8
    with pytest.raises(UnsupportedOpError) as caught:
        make(300)
    assert caught.value.problem == "the Python integer 300 does not fit in int8."


def test_conversions_of_arrays_wrap() -> None:
    f = dyn.jit(lambda y: dnp.asarray(y.shape[0]).astype("int8"))
    assert int(f(np.zeros(300))) == 44
    assert int(dnp.asarray(np.int64(300), dtype="int8")) == 44


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8])
def test_signed_integers_compare_with_uint64_by_value(name: str, dtype: Any) -> None:
    """Their common dtype is float64, in which 2**62 + 1 is 2**62 and -1 would be no number of uint64."""
    info = np.iinfo(dtype)
    signed = np.array([-1, 0, min(2**62 + 1, info.max), info.max, 5, info.min], dtype)
    unsigned = np.array([2**64 - 1, 0, 2**62, 2**63, 5, 2**63], np.uint64)
    ours, theirs = getattr(dnp, name), getattr(np, name)
    for x, y in ((signed, unsigned), (unsigned, signed), (signed[:1], unsigned), (unsigned[:0], signed[:1])):
        expected = theirs(x, y)
        np.testing.assert_array_equal(ours(x, y), expected)
        for function in (ours, theirs):
            np.testing.assert_array_equal(dyn.jit(function)(x, y), expected)
        np.testing.assert_array_equal(dyn.jit(lambda x, y=y: ours(x, y))(x), expected)


def test_integers_of_traces_around_are_compared() -> None:
    """One operand is of the trace around the one that compares."""
    bounds, x = np.array([2, 3]), np.arange(4)
    unsigned = x.astype(np.uint64)

    def around(bounds: Any, x: Any) -> Any:
        return dyn.vmap(lambda bound: dnp.where(x < bound, x, 0) + dnp.where(bound > x, 1, 0))(bounds)

    expected = np.where(x < bounds[:, None], x, 0) + (bounds[:, None] > x)
    for other in (x, unsigned):
        np.testing.assert_array_equal(dyn.jit(around)(bounds, other), expected)
        looped = dyn.jit(lambda b, x: lax.fori_loop(0, 2, lambda i, n: n + dnp.sum((x > i) & (i < x) & (b > 0)), 0))
        assert looped(np.int64(1), other) == np.sum(x > 0) + np.sum(x > 1)
