"""The error bounds of the elementary functions, on random bits, samples and special values, for each kind of CPU."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

from dyn import dtypes
from dyn.dtypes import DType
from dyn.lower.x86.bounds import ErrorBound
from dyn.lower.x86.scalars import TABLE
from dyn.ops.erf_inverse import erf_inv_formula, xla_erf_inv_formula
from dyn.ops.formula import Num
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import ExprBuilder
from dyn.schedule.target import Target
from tests.integers.edges import assert_equal, wanted
from tests.lower.x86_run import F32, ap, compile_kernels, elementwise, runnable

#: Error bounds by function and dtype; what has none is rounded correctly.
BOUNDS = {fn: row.bounds for fn, row in TABLE.items() if row.bounds is not None}

F64 = dtypes.float64
Array = np.ndarray[Any, Any]


def _erf(x: Array) -> Array:
    """libm's, within 1 ulp of float64; NumPy has none and SciPy's is further off."""
    return np.array([math.erf(v) for v in x.astype(np.float64).tolist()], x.dtype)


#: Each function at a higher precision: float64 for float32, the 64 bits of x87 for float64.
UNARY: dict[Scalar, Callable[..., Any]] = {
    Scalar.EXP: np.exp, Scalar.EXPM1: np.expm1, Scalar.LOG: np.log, Scalar.LOG1P: np.log1p, Scalar.TANH: np.tanh,
    Scalar.LOGISTIC: lambda x: 1 / (1 + np.exp(-x)), Scalar.ERF: _erf, Scalar.RSQRT: lambda x: 1 / np.sqrt(x),
    Scalar.CBRT: np.cbrt, Scalar.SIN: np.sin, Scalar.COS: np.cos, Scalar.TAN: np.tan,
}  # fmt: skip
BINARY: dict[Scalar, Callable[..., Any]] = {Scalar.POW: np.power, Scalar.ATAN2: np.arctan2}
SPECIAL = [
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, 1e-45, -1e-45, 1.1754944e-38, -1.1754942e-38,
    3.4028235e38, -3.4028235e38, 88.72, 88.73, 89.0, 90.0, -87.3, -103.9, -103.98, -104.0, -105.0, 8.3, 9.0, 3.75, 4.0,
    1e30, -1e30, 2.0**30, 2.0**31, 2.0**40, 2.0**41, 16777216.0, 2.0**53, 2.0**53 + 2, 5e-324, -5e-324, 1e-310,
    2.2250738585072014e-308, -2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 709.78, 709.79,
    709.9, 710.5, -745.1, -745.2, -708.4, 5.9, 6.0, 6.1, 1e-300, 1e300,
]  # fmt: skip


def higher(dtype: DType) -> Any:
    return np.float64 if dtype is F32 else np.longdouble


def samples(dtype: DType) -> Array:
    rng = np.random.default_rng(5)
    bits = np.frombuffer(rng.bytes(dtype.itemsize << 16), dtype.np)
    spread = [rng.standard_normal(1 << 15) * s for s in (1e-3, 0.1, 1, 20, 300)]
    near_one = [1 + rng.standard_normal(1 << 14) * s for s in (1e-3, 1e-9)]
    turns = [
        np.arange(-3000, 3000) * (np.pi / 2),
        rng.uniform(-1e6, 1e6, 1 << 13),
        rng.uniform(-(2**31), 2**31, 1 << 13),
    ]
    parts = [*spread, rng.uniform(-110, 110, 1 << 15), *near_one, *turns, SPECIAL]
    with np.errstate(all="ignore"):
        return np.concatenate([bits, *[np.asarray(p).astype(dtype.np) for p in parts]])


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Bases and exponents: far and near 1, random bits, whole numbers, and all pairs of special values."""
    rng = np.random.default_rng(6)
    n = 1 << 14
    bits = [np.frombuffer(rng.bytes(dtype.itemsize * n), dtype.np) for _ in range(2)]
    whole = rng.integers(-9, 10, (2, 1 << 12))
    x = [np.exp(rng.standard_normal(n) * 10), 1 + rng.standard_normal(n) * 1e-3, bits[0], whole[0]]
    y = [rng.standard_normal(n) * 20, rng.standard_normal(n) * 1e5, bits[1], whole[1]]
    grid = np.meshgrid(SPECIAL, SPECIAL)
    with np.errstate(all="ignore"):
        a, b = (np.concatenate([np.asarray(p).astype(dtype.np) for p in parts]) for parts in (x, y))
        left, right = (g.ravel().astype(dtype.np) for g in grid)
    return np.concatenate([a, left]), np.concatenate([b, right])


def error_in_ulps(got: Array, expected: Array) -> Array:
    """0 where both are the same, NaN included; infinite where only one is NaN or infinite beyond rounding."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(got.dtype)
        unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(got.dtype).tiny)).astype(expected.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        error = np.abs(got.astype(expected.dtype) - expected) / unit
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error)).astype(np.float64)


def limit(bound: ErrorBound, target: Target) -> float:
    return bound.separate if target.vector_bytes == 16 else bound.fused


def check(fn: Scalar, target: Target, dtype: DType, args: tuple[Array, ...], got: Array, expected: Array) -> None:
    error = error_in_ulps(got, expected)
    worst = int(error.argmax())
    where = (fn.text, dtype.name, *[a[worst] for a in args], got[worst], expected[worst])
    assert error[worst] <= limit(BOUNDS[fn][dtype], target), where
    zero = (expected == 0) & (got == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]), err_msg=fn.text)


def test_every_bound_is_tested() -> None:
    assert set(BOUNDS) == {*UNARY, *BINARY}
    assert all(set(bounds) == {F32, F64} for bounds in BOUNDS.values())


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("target", runnable(), ids=lambda t: t.arch)
def test_bounds(target: Target, dtype: DType) -> None:
    x = samples(dtype)
    kernels = [elementwise(f.text, lambda v, f=f: ap(f, v), [dtype], dtype) for f in UNARY]
    for (fn, reference), run in zip(UNARY.items(), compile_kernels(kernels, target), strict=True):
        y = np.empty_like(x)
        run([len(x)], [x, y])
        with np.errstate(all="ignore"):
            check(fn, target, dtype, (x,), y, np.asarray(reference(x.astype(higher(dtype)))))
        if fn in (Scalar.TANH, Scalar.ERF, Scalar.SIN, Scalar.COS):
            assert np.nanmax(np.abs(y)) <= 1, fn.text


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("target", runnable(), ids=lambda t: t.arch)
def test_bounds_of_two_arguments(target: Target, dtype: DType) -> None:
    x, y = pairs(dtype)
    kernels = [elementwise(f.text, lambda a, b, f=f: ap(f, a, b), [dtype] * 2, dtype) for f in BINARY]
    for (fn, reference), run in zip(BINARY.items(), compile_kernels(kernels, target), strict=True):
        got = np.empty_like(x)
        run([len(x)], [x, y, got])
        with np.errstate(all="ignore"):
            expected = np.asarray(reference(x.astype(higher(dtype)), y.astype(higher(dtype))))
        check(fn, target, dtype, (x, y), got, expected)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_all_halves(dtype: DType) -> None:
    """Every float16 and bfloat16: in float32, rounded once more, is the correctly rounded result or next to it."""
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype.np)

    def kernel(fn: Scalar) -> Any:
        def make(v: Any) -> Any:
            return ap(Scalar.CAST, ap(fn, ap(Scalar.CAST, v, dtype=F32)), dtype=dtype)

        return elementwise(fn.text, make, [dtype], dtype)

    for (fn, reference), run in zip(UNARY.items(), compile_kernels([kernel(f) for f in UNARY]), strict=True):
        y = np.empty_like(x)
        run([len(x)], [x, y])
        with np.errstate(all="ignore"):
            wanted = np.asarray(reference(x.astype(np.float64))).astype(dtype.np)
        near = np.abs(_place(y) - _place(wanted)) <= 1
        nan = np.isnan(y.astype(np.float32)) & np.isnan(wanted.astype(np.float32))
        assert (near | nan).all(), (fn.text, x[~(near | nan)][:5])


def _place(x: Array) -> Array:
    """Where a 16-bit float stands among all, -0.0 beside 0.0."""
    bits = x.view(np.int16).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


#: Units of the inverse's value at the argument, or at one that is at most one unit from it; of float32 and float64.
INVERSES: dict[str, tuple[Callable[[Num], Num], bool, tuple[float, float]]] = {
    "erf_inv": (erf_inv_formula, True, (4, 7)),
    "xla_erf_inv": (xla_erf_inv_formula, False, (8, 8)),
}


@pytest.mark.parametrize("name", INVERSES)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("target", runnable(), ids=lambda t: t.arch)
def test_the_inverse_of_erf(target: Target, dtype: DType, name: str) -> None:
    """Next to -1 and 1 too: where XLA's squares its argument, that rounding counts as one of the argument."""
    formula, is_exact, bounds = INVERSES[name]
    rng = np.random.default_rng(8)
    drawn = rng.uniform(-1, 1, 1 << 16), 1 - 10 ** rng.uniform(-16, 0, 1 << 14), rng.standard_normal(1 << 10) * 1e-30
    last = np.nextafter(dtype.np.type(1), dtype.np.type(0))
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, last, -last, 1.5, -np.inf, np.nan, 5e-324, 1e-45])
    x = np.concatenate([*drawn, special]).astype(dtype.np)
    kernel = elementwise(name, lambda v: formula(Num(ExprBuilder(), v, dtype)).value, [dtype], dtype)
    (run,) = compile_kernels([kernel], target)
    y = np.empty_like(x)
    run([len(x)], [x, y])
    inside = np.abs(x) < 1
    steps = [np.nextafter(np.where(inside, x, 0), dtype.np.type(end)) for end in (-1, 1)]
    low, exact, high = (scipy.special.erfinv(np.where(inside, v, 0).astype("f8")) for v in (steps[0], x, steps[1]))
    low, high = (exact, exact) if is_exact else (low, high)
    unit = np.spacing(np.where(inside, np.maximum(np.abs(y), np.finfo(dtype.np).tiny), 1)).astype(np.float64)
    bound = bounds[dtype is F64] * unit
    assert np.all((y >= low - bound)[inside] & (y <= high + bound)[inside])
    small = np.abs(x) < 0.9
    assert np.max(np.abs(y - exact)[small] / unit[small]) <= 6
    ends = np.where(np.abs(x) == 1, np.copysign(np.inf, x), np.nan)
    np.testing.assert_array_equal(y[~inside], ends[~inside])
    np.testing.assert_array_equal(np.signbit(y[x == 0]), np.signbit(x[x == 0]))


@pytest.mark.parametrize("signed", [True, False])
def test_division_of_long_integers(signed: bool) -> None:
    """Quotients of all sizes, divisors around powers of two, and what wraps, against Python's integers."""
    dtype = dtypes.int64 if signed else dtypes.uint64
    rng = np.random.default_rng(7)
    edges = [2**k + d for k in range(64) for d in (-1, 0, 1)] + [2**64 - 1, 2**64 - 2, 3, 10**18]
    values = np.array([v % 2**64 for v in (*edges, *[-v for v in edges])], np.uint64).view(dtype.np)
    grid = np.meshgrid(values, values)
    shifts = rng.integers(0, 63, (2, 1 << 15)).astype(np.uint64)
    raw = rng.integers(0, 2**64 - 1, (2, 1 << 15), np.uint64, endpoint=True) >> shifts
    x = np.concatenate([grid[0].ravel(), raw[0].view(dtype.np)])
    y = np.concatenate([grid[1].ravel(), raw[1].view(dtype.np)])
    fns = (Scalar.DIV, Scalar.REM)
    kernels = [elementwise(f.text, lambda a, b, f=f: ap(f, a, b), [dtype] * 2, dtype) for f in fns]
    quotient, rest = (np.empty_like(x) for _ in fns)
    for run, got in zip(compile_kernels(kernels), (quotient, rest), strict=True):
        run([len(x)], [x, y, got])
    assert_equal(quotient, wanted("divide", dtype, x, y), x, y)
    assert_equal(rest, wanted("remainder", dtype, x, y), x, y)


def test_the_documentation_has_the_same_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \(([\d.]+)\) \| ([\d.]+) \(([\d.]+)\) \|", text, re.MULTILINE)
    written = {name: tuple(map(float, numbers)) for name, *numbers in rows}
    assert written == {
        fn.text: (by[F32].fused, by[F32].separate, by[F64].fused, by[F64].separate) for fn, by in BOUNDS.items()
    }
