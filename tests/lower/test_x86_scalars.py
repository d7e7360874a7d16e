"""Every scalar function on every dtype, in vectors and one at a time, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from dyn import dtypes
from dyn.backends.x86 import host_target
from dyn.dtypes import DType, Kind
from dyn.errors import UnsupportedOpError
from dyn.lower.x86.emit import emit_kernel
from dyn.lower.x86.scalars import TABLE
from dyn.ops import bits
from dyn.ops import elementwise as elementwise_ops
from dyn.ops.scalar import COMPARISONS, Scalar
from tests.integers.edges import wanted
from tests.lower.x86_run import Compiled, ap, compile_kernels, elementwise

#: Error bounds by function and dtype; what has none is rounded correctly.
BOUNDS = {fn: row.bounds for fn, row in TABLE.items() if row.bounds is not None}

INTS = tuple(d for d in dtypes.ALL if d.is_integer)
FLOATS = (dtypes.float32, dtypes.float64)
DTYPES = (dtypes.bool_, *INTS, *FLOATS)

#: How far results of a float function may be from the correctly rounded one, in units in the last place; of float64
#: from NumPy's float64, which is off itself.
ULPS = {fn: max(bound.separate for bound in bounds.values()) + 0.5 for fn, bounds in BOUNDS.items()}
ULPS[Scalar.FMA] = 1.0  # its reference is off itself


def test_the_table_is_total() -> None:
    assert set(TABLE) == set(Scalar)


def _sign(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.sign(x), x) if x.dtype.kind == "f" else np.sign(x)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a / b if a.dtype.kind == "f" else wanted("divide", dtypes.dtype(a.dtype), a, b)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmod(a, b) if a.dtype.kind == "f" else wanted("remainder", dtypes.dtype(a.dtype), a, b)


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.power(a, b) if a.dtype.kind == "f" else wanted("power", dtypes.dtype(a.dtype), a, b)


def _extremum(function: Callable[..., np.ndarray], positive: bool) -> Callable[..., np.ndarray]:
    """IEEE's maximum and minimum: NumPy's, but for the order of zeros."""

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = function(a, b)
        if a.dtype.kind != "f":
            return result
        signs = (np.logical_and if positive else np.logical_or)(np.signbit(a), np.signbit(b))
        return np.where((a == 0) & (b == 0), np.copysign(0, np.where(signs, -1, 1)), result).astype(a.dtype)

    return reference


REFERENCE: dict[Scalar, Callable[..., Any]] = {
    Scalar.NEG: np.negative,
    Scalar.ABS: np.abs,
    Scalar.SIGN: _sign,
    Scalar.EXP: np.exp,
    Scalar.EXPM1: np.expm1,
    Scalar.LOG: np.log,
    Scalar.LOG1P: np.log1p,
    Scalar.TANH: np.tanh,
    Scalar.LOGISTIC: scipy.special.expit,
    Scalar.ERF: scipy.special.erf,
    Scalar.FMA: elementwise_ops.fused_multiply_add.reference,
    Scalar.SQRT: np.sqrt,
    Scalar.RSQRT: lambda x: 1 / np.sqrt(x),
    # In long doubles: NumPy's own for doubles is up to 2 ULPs off on some processors.
    Scalar.CBRT: lambda x: np.cbrt(np.asarray(x, np.longdouble)).astype(np.float64),
    Scalar.SIN: np.sin,
    Scalar.COS: np.cos,
    Scalar.TAN: np.tan,
    Scalar.ATAN2: np.arctan2,
    Scalar.FLOOR: np.floor,
    Scalar.CEIL: np.ceil,
    Scalar.ROUND_EVEN: np.rint,
    Scalar.ROUND_AFZ: elementwise_ops.round_nearest_afz.reference,
    Scalar.POPCNT: bits.popcnt.reference,
    Scalar.CLZ: bits.count_leading_zeros.reference,
    Scalar.SHL: bits.shift_left.reference,
    Scalar.SHRA: bits.shift_right_arithmetic.reference,
    Scalar.SHRL: bits.shift_right_logical.reference,
    Scalar.IS_FINITE: np.isfinite,
    Scalar.NOT: np.invert,
    Scalar.ADD: np.add,
    Scalar.SUB: np.subtract,
    Scalar.MUL: np.multiply,
    Scalar.DIV: _divide,
    Scalar.REM: _remainder,
    Scalar.POW: _power,
    Scalar.MAX: _extremum(np.maximum, True),
    Scalar.MIN: _extremum(np.minimum, False),
    Scalar.AND: np.bitwise_and,
    Scalar.OR: np.bitwise_or,
    Scalar.XOR: np.bitwise_xor,
    Scalar.EQ: np.equal,
    Scalar.NE: np.not_equal,
    Scalar.LT: np.less,
    Scalar.LE: np.less_equal,
    Scalar.GT: np.greater,
    Scalar.GE: np.greater_equal,
    Scalar.SELECT: np.where,
}

_FLOAT_ONLY = {
    Scalar.EXP, Scalar.EXPM1, Scalar.LOG, Scalar.LOG1P, Scalar.TANH, Scalar.LOGISTIC, Scalar.ERF, Scalar.SQRT,
    Scalar.RSQRT, Scalar.CBRT, Scalar.SIN, Scalar.COS, Scalar.TAN, Scalar.ATAN2, Scalar.FLOOR, Scalar.CEIL,
    Scalar.ROUND_EVEN, Scalar.ROUND_AFZ, Scalar.FMA,
}  # fmt: skip
_INT_ONLY = {Scalar.SHL, Scalar.SHRA, Scalar.SHRL, Scalar.POPCNT, Scalar.CLZ}
_NOT_FLOAT = {Scalar.NOT, Scalar.AND, Scalar.OR, Scalar.XOR} | _INT_ONLY
_NOT_BOOL = _INT_ONLY | {Scalar.NEG, Scalar.SIGN, Scalar.SUB, Scalar.DIV, Scalar.REM, Scalar.POW}


def is_defined(fn: Scalar, dtype: DType) -> bool:
    if dtype.is_float:
        return fn not in _NOT_FLOAT
    return fn not in _FLOAT_ONLY and not (dtype is dtypes.bool_ and fn in _NOT_BOOL)


CASES = [(fn, d) for fn in REFERENCE for d in DTYPES if is_defined(fn, d)]


def values(dtype: DType, seed: int, count: int = 1100) -> np.ndarray:
    """Random bits, small numbers and special ones."""
    rng = np.random.default_rng(seed)
    if dtype is dtypes.bool_:
        return rng.integers(0, 2, count).astype(bool)
    raw = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype.np)
    if dtype.kind is Kind.FLOAT:
        info = np.finfo(dtype.np)
        special = [
            0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan,
            info.tiny, -info.tiny, info.smallest_subnormal, -info.smallest_subnormal, info.max, info.min, 1 + info.eps,
        ]  # fmt: skip
        small = rng.standard_normal(count) * np.repeat([0.1, 1, 10, 100], -(-count // 4))[:count]
    else:
        info = np.iinfo(dtype.np)
        special = [0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1, *([-1, -2] if info.min else [])]
        small = rng.integers(max(info.min, -9), 10, count)
    chosen = np.where(rng.integers(0, 2, count).astype(bool), raw, small.astype(dtype.np))
    chosen[: count // 2] = rng.choice(np.array(special, dtype.np), count // 2)
    return rng.permutation(chosen)


def _assert_close(fn: Scalar, args: list[np.ndarray], got: np.ndarray, expected: np.ndarray) -> None:
    bound = ULPS.get(fn)
    if bound is None or got.dtype.kind != "f":
        same = (got == expected) | ((got != got) & (expected != expected))
        same &= (got != 0) | (np.signbit(got) == np.signbit(expected)) if got.dtype.kind == "f" else True
    else:
        with np.errstate(all="ignore"):  # overflow is meant
            rounded = expected.astype(got.dtype)
            unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(got.dtype).tiny)).astype(np.float64)
        same = (got == rounded) | ((got != got) & (rounded != rounded))
        with np.errstate(all="ignore"):
            same |= np.abs(got.astype(np.float64) - expected) <= bound * unit
        same &= (got != 0) | (rounded != 0) | (np.signbit(got) == np.signbit(rounded))
    bad = np.flatnonzero(~same)[:5]
    assert not bad.size, [(fn.text, *[a[i] for a in args], got[i], expected[i]) for i in bad]


@pytest.fixture(scope="module")
def compiled() -> dict[tuple[Scalar, DType, bool], Compiled]:
    """All cases, in vectors and scalar, from one module."""
    keys = [(fn, d, scalar) for fn, d in CASES for scalar in (False, True)]
    kernels = []
    for fn, d, scalar in keys:
        result = dtypes.bool_ if fn in COMPARISONS or fn is Scalar.IS_FINITE else d
        inputs = [dtypes.bool_, d, d] if fn is Scalar.SELECT else [d] * fn.arity
        name = f"{fn.text}_{d.short}"
        kernels.append(elementwise(name, lambda *a, f=fn, r=result: ap(f, *a, dtype=r), inputs, result, scalar=scalar))
    return dict(zip(keys, compile_kernels(kernels), strict=True))


@pytest.mark.parametrize("fn", list(REFERENCE), ids=lambda fn: fn.text)
def test_scalar(fn: Scalar, compiled: dict[tuple[Scalar, DType, bool], Compiled]) -> None:
    for d in DTYPES:
        if not is_defined(fn, d):
            continue
        args = [values(d, k) for k in range(fn.arity)]
        if fn is Scalar.SELECT:
            args[0] = values(dtypes.bool_, 7)
        with np.errstate(all="ignore"):
            wide = [a.astype(np.float64) if fn in ULPS and d.is_float else a for a in args]
            expected = np.asarray(REFERENCE[fn](*wide))
        for scalar in (False, True):
            got = np.empty(len(args[0]), expected.dtype if fn not in ULPS or not d.is_float else d.np)
            compiled[fn, d, scalar]([len(got)], [*args, got])
            _assert_close(fn, args, got, expected)


def test_undefined_combinations_are_named() -> None:
    for fn in REFERENCE:
        for d in DTYPES:
            if not is_defined(fn, d):
                kernel = elementwise("k", lambda *a, f=fn: ap(f, *a), [d] * fn.arity, d)
                with pytest.raises(UnsupportedOpError) as error:
                    emit_kernel(kernel, host_target())
                assert str(error.value) == f"{fn.text} of {d.name} is not defined.\n  help: cast the argument first."
