"""Functions of elements: values, dtypes and shapes are NumPy's, at every size, from one trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from tests.numpy.differential import Program, compare, run, trace

FLOATS = ("float32", "float64", "float16")
UNARY = {
    "exp": lambda xp, x: xp.exp(x),
    "exp2": lambda xp, x: xp.exp2(x),
    "expm1": lambda xp, x: xp.expm1(x),
    "log": lambda xp, x: xp.log(x),
    "log1p": lambda xp, x: xp.log1p(x),
    "log2": lambda xp, x: xp.log2(x),
    "log10": lambda xp, x: xp.log10(x),
    "sqrt": lambda xp, x: xp.sqrt(x),
    "cbrt": lambda xp, x: xp.cbrt(x),
    "sin": lambda xp, x: xp.sin(x),
    "cos": lambda xp, x: xp.cos(x),
    "tan": lambda xp, x: xp.tan(x),
    "sinh": lambda xp, x: xp.sinh(x),
    "cosh": lambda xp, x: xp.cosh(x),
    "tanh": lambda xp, x: xp.tanh(x),
    "deg2rad": lambda xp, x: xp.deg2rad(x),
    "rad2deg": lambda xp, x: xp.rad2deg(x),
    "square": lambda xp, x: xp.square(x),
    "abs": lambda xp, x: xp.abs(x),
    "fabs": lambda xp, x: xp.fabs(x),
    "sign": lambda xp, x: xp.sign(x),
    "negative": lambda xp, x: -x,
    "positive": lambda xp, x: +x,
    "floor": lambda xp, x: xp.floor(x),
    "ceil": lambda xp, x: xp.ceil(x),
    "trunc": lambda xp, x: xp.trunc(x),
    "round": lambda xp, x: xp.round(x),
    "conj": lambda xp, x: xp.conj(x),
    "real": lambda xp, x: xp.real(x),
    "imag": lambda xp, x: xp.imag(x),
    "isnan": lambda xp, x: xp.isnan(xp.log(x)),
    "isinf": lambda xp, x: xp.isinf(xp.log(x)),
    "isposinf": lambda xp, x: xp.isposinf(-xp.log(x)),
    "isneginf": lambda xp, x: xp.isneginf(xp.log(x)),
    "isfinite": lambda xp, x: xp.isfinite(xp.log(x)),
    "logical_not": lambda xp, x: xp.logical_not(x),
    "nan_to_num": lambda xp, x: xp.nan_to_num(xp.log(x), nan=7.0, posinf=8.0),
}


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: str) -> None:
    if dtype in ("int32", "int64") and name in ("imag", "sign", "round"):
        sizes = (0, 3)
    else:
        sizes = (0, 1, 7)
    compare(UNARY[name], f"{dtype} n 3", sizes=sizes, rtol=4e-3 if dtype == "float16" else 2e-6)


@pytest.mark.parametrize("decimals", [1, 3, -1])
def test_round_to_decimals(decimals: int) -> None:
    compare(lambda xp, x: xp.round(x * 17.3, decimals), "float64 n")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_round_of_integers_to_tens_and_hundreds(dtype: str) -> None:
    x = np.array([0, 4, 5, 6, 14, 15, 16, 25, 50, 51, 99, 100, 101], dtype)
    for decimals in (-1, -2):
        for own in (x, x - x - x) if dtype.startswith("i") else (x,):
            actual = np.asarray(dnp.round(own, decimals))
            assert actual.dtype == own.dtype
            np.testing.assert_array_equal(actual, np.round(own, decimals))


def test_signs_of_zeros() -> None:
    x = np.array([0.0, -0.0, 1.0, -2.0])
    z = np.array([complex(-0.0, 1), complex(-0.0, -0.0), complex(0.0, -2.0)])
    for actual, wanted in ((dnp.sign(x), np.sign(x)), (dnp.sign(z), np.sign(z))):
        actual = np.asarray(actual)
        np.testing.assert_array_equal(actual, wanted)
        for part in (np.real, np.imag):
            np.testing.assert_array_equal(np.signbit(part(actual)), np.signbit(part(wanted)))


BINARY = {
    "add": lambda xp, x, y: x + y,
    "subtract": lambda xp, x, y: x - y,
    "multiply": lambda xp, x, y: x * y,
    "true_divide": lambda xp, x, y: x / y,
    "floor_divide": lambda xp, x, y: xp.floor_divide(x, y),
    "remainder": lambda xp, x, y: x % y,
    "divmod": lambda xp, x, y: xp.divmod(x, y),
    "fmod": lambda xp, x, y: xp.fmod(x, y),
    "maximum": lambda xp, x, y: xp.maximum(x, y),
    "minimum": lambda xp, x, y: xp.minimum(x, y),
    "fmax": lambda xp, x, y: xp.fmax(x, y),
    "fmin": lambda xp, x, y: xp.fmin(x, y),
    "equal": lambda xp, x, y: x == y,
    "not_equal": lambda xp, x, y: x != y,
    "less": lambda xp, x, y: x < y,
    "less_equal": lambda xp, x, y: x <= y,
    "greater": lambda xp, x, y: x > y,
    "greater_equal": lambda xp, x, y: x >= y,
    "logical_and": lambda xp, x, y: xp.logical_and(x, y),
    "logical_or": lambda xp, x, y: xp.logical_or(x, y),
    "logical_xor": lambda xp, x, y: xp.logical_xor(x, y),
}


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: str) -> None:
    compare(BINARY[name], f"{dtype} n 3", f"{dtype} n 3", sizes=(0, 1, 7))


FLOAT_BINARY = {
    "power": lambda xp, x, y: xp.power(xp.abs(x) + 0.1, y),
    "hypot": lambda xp, x, y: xp.hypot(x, y),
    "hypot_of_infinity": lambda xp, x, y: xp.hypot(xp.log(xp.abs(x)), y),
    "logaddexp": lambda xp, x, y: xp.logaddexp(x, y),
    "logaddexp_of_infinity": lambda xp, x, y: xp.logaddexp(xp.log(xp.abs(x)), xp.log(xp.abs(y))),
    "heaviside": lambda xp, x, y: xp.heaviside(x, y),
    "isclose": lambda xp, x, y: xp.isclose(x, xp.round(x), 0.1, 0.1),
    "mod_of_zero": lambda xp, x, y: x % (y * 0),
    "floor_divide_by_zero": lambda xp, x, y: x // (y * 0),
}


@pytest.mark.parametrize("name", FLOAT_BINARY)
def test_float_binary(name: str) -> None:
    compare(FLOAT_BINARY[name], "float64 n", "float64 n")


def test_remainders_have_the_signs_of_python() -> None:
    pairs = [(a, b) for a in (-7, -4, -0.0, 0.0, 4, 7) for b in (-4, -2.5, 2.5, 4)]
    x, y = np.array(pairs).T
    traced = trace(lambda xp, x, y: (x // y, x % y), "float64 n", "float64 n")
    quotient, rest = run(traced, [x, y])
    np.testing.assert_array_equal(quotient, x // y)
    np.testing.assert_array_equal(rest, x % y)
    np.testing.assert_array_equal(np.signbit(rest), np.signbit(x % y))


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8"])
@pytest.mark.parametrize("sign", ["&", "|", "^"])
def test_bits(sign: str, dtype: str) -> None:
    programs: dict[str, Program] = {
        "&": lambda xp, x, y: (x & y, xp.bitwise_and(x, y)),
        "|": lambda xp, x, y: (x | y, xp.bitwise_or(x, y)),
        "^": lambda xp, x, y: (x ^ y, ~x),
    }
    compare(programs[sign], f"{dtype} n", f"{dtype} n")


def test_booleans() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return x + y, x * y, xp.maximum(x, y), xp.minimum(x, y), xp.abs(x), x + 1, x * 2.0, x < y

    compare(program, "bool n", "bool n")


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 8, 13, -1, -3, 0.5, -0.5, 2.0, 2.5])
def test_static_powers(exponent: float) -> None:
    compare(lambda xp, x: (xp.abs(x) + 0.5) ** exponent, "float64 n")


@pytest.mark.parametrize("exponent", [0, 1, 2, 7, 0.5, 2.0])
def test_integer_powers(exponent: float) -> None:
    compare(lambda xp, x: x**exponent, "int64 n")


def test_power_by_multiplication_and_by_roots() -> None:
    def names(program: Program) -> list[str]:
        return [op.opdef.name for op in trace(program, "float32 n").function.ops if op.operands]

    assert names(lambda xp, x: x**3) == ["multiply", "multiply"]
    assert names(lambda xp, x: x**0.5) == ["sqrt"]
    assert names(lambda xp, x: x**-0.5) == ["rsqrt"]


def test_clip_and_where() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return (
            xp.clip(x, -1, 1), xp.clip(x, None, y), xp.clip(x, y, None), xp.clip(x, min=0), x.clip(-2, 2),
            xp.where(x > y, x, y), xp.where(x > 0, x, 0), xp.where(x, 1.0, y), xp.where(x > 0, 1.0, 0.0),
            xp.where(x > 0, 1, 0), xp.select([x > 1, x > 0], [x, y], 3),
        )  # fmt: skip

    compare(program, "float64 n 3", "float64 n 3")


def test_chained_comparison_of_python_numbers_on_the_left() -> None:
    compare(lambda xp, x: (x > 1, 2.0 - x, 3 / x, 2 // x, 5 % x, 2.0**x, 1 & (x > 0)), "float64 n")


@pytest.mark.parametrize("name", ["add", "exp", "maximum", "matmul", "isnan", "floor_divide", "bitwise_and", "invert"])
def test_ufuncs_of_numpy_itself(name: str) -> None:
    ufunc = getattr(np, name)
    dtype = "int64" if name in ("bitwise_and", "invert") else "float64"
    arguments = ("n 3", "3 4") if name == "matmul" else ("n 3",) * ufunc.nin
    compare(lambda xp, *arrays: ufunc(*arrays), *(f"{dtype} {a}" for a in arguments))


def test_numpy_arrays_and_scalars_beside_tracers() -> None:
    table, scalar = np.arange(3, dtype=np.float64), np.float32(2.5)

    def program(xp: Any, x: Any) -> Any:
        return (
            x + table,
            table - x,
            table @ x.T,
            scalar * x,
            np.array(2.0) + x,
            table[::-1] + x,
            table.astype(">f8") * x,
        )

    compare(program, "float64 n 3")


def test_a_captured_array_is_read_at_each_call() -> None:
    table = np.zeros(3)
    traced = trace(lambda xp, x: x + table, "float64 n 3")
    assert run(traced, [np.ones((1, 3))])[0].tolist() == [[1, 1, 1]]
    table[:] = 5
    assert run(traced, [np.ones((1, 3))])[0].tolist() == [[6, 6, 6]]
    assert len(traced.captured) == 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_floored_quotient_of_zero_has_the_sign_of_the_exact_one(dtype: str) -> None:
    x = np.array([-1, 1, 0.0, -0.0, 0.0, -0.0, -1, 0, 5], dtype)
    y = np.array([-2, 2, -2, 2, 2, -2, -np.inf, 0, -np.inf], dtype)
    with np.errstate(all="ignore"):
        expected = x // y
    actual = dyn.jit(lambda x, y: x // y)(x, y)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


@pytest.mark.parametrize("dtype", FLOATS)
def test_constants_keep_the_sign_of_zero(dtype: str) -> None:
    x = np.array([1, 5], dtype)
    positive, negative = dyn.jit(lambda x: (dnp.where(x > 3, x, 0.0), dnp.where(x > 3, x, -0.0)))(x)
    assert np.signbit(positive).tolist() == [False, False]
    assert np.signbit(negative).tolist() == [True, False]


def test_divmod_of_arrays() -> None:
    x, y = np.array([7.5, -7.5, 0.0]), np.array([2.0, 2.0, 3.0])
    for made in (dyn.jit(lambda x, y: (divmod(x, y), divmod(x, 2), divmod(9, y)))(x, y),):
        for own, expected in zip(made, (divmod(x, y), divmod(x, 2), divmod(9, y)), strict=True):
            np.testing.assert_array_equal(own, expected)
    np.testing.assert_array_equal(divmod(dyn.asarray(x), 2), np.divmod(x, 2))
    np.testing.assert_array_equal(divmod(9, dyn.asarray(y)), np.divmod(9, y))


def test_formats_of_traced_numbers_are_refused_in_words() -> None:
    for text in (lambda x: f"{x[0]:.2f}", lambda x: x.item(0)):
        with pytest.raises(dyn.errors.TraceError, match="needs the elements"):
            dyn.jit(text)(np.ones(3))


@pytest.mark.parametrize("bounds", [(np.uint64(3), 6), (np.float32(3),), (np.int8(1), np.int16(9), np.uint8(2))])
def test_ranges_between_numpys_scalars(bounds: Any) -> None:
    expected = np.arange(*map(float, bounds))
    for made in (dyn.jit(lambda x: dnp.arange(*bounds))(np.ones(1)), dnp.arange(*bounds)):
        np.testing.assert_array_equal(np.asarray(made), expected)
