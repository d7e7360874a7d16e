"""The error bounds of the float32 polynomials, on random bits, samples and special values, for each kind of CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from dyn.lower.target import Target
from dyn.ops.scalar import Scalar
from tests.lower.x86_run import F32, ap, compile_kernels, elementwise, runnable

#: The function in float64, and the bound in ulp: with fused multiply-add, and without.
BOUNDS: dict[Scalar, tuple[Callable[..., Any], float, float]] = {
    Scalar.EXP: (np.exp, 1.0, 1.5),
    Scalar.EXPM1: (np.expm1, 2.0, 2.0),
    Scalar.LOG: (np.log, 1.0, 1.0),
    Scalar.LOG1P: (np.log1p, 2.0, 2.0),
    Scalar.TANH: (np.tanh, 5.0, 6.0),
    Scalar.LOGISTIC: (scipy.special.expit, 3.0, 3.0),
    Scalar.ERF: (scipy.special.erf, 6.0, 7.0),
    Scalar.RSQRT: (lambda x: 1 / np.sqrt(x), 2.0, 2.0),
    Scalar.CBRT: (np.cbrt, 1.0, 1.0),
    Scalar.SIN: (np.sin, 1.0, 1.0),
    Scalar.COS: (np.cos, 1.0, 1.0),
}
SPECIAL = [
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 1.1754944e-38, -1.1754942e-38, 3.4028235e38,
    -3.4028235e38, 88.72, 88.73, 89.0, 90.0, -87.3, -103.9, -103.98, -104.0, -105.0, 0.5, 2.0, 8.3, 9.0, 3.75, 4.0,
    1e30, -1e30, 2.0**40, 2.0**41, 16777216.0,
]  # fmt: skip


def samples() -> np.ndarray:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint64).astype(np.uint32).view(np.float32)
    spread = [rng.standard_normal(1 << 17) * s for s in (0.1, 1, 20)]
    parts = [*spread, rng.uniform(-110, 110, 1 << 17), 1 + rng.standard_normal(1 << 16) * 1e-3, SPECIAL]
    return np.concatenate([bits, *[np.asarray(p, np.float32) for p in parts]])


def error_in_ulps(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """0 where both are the same, NaN included; infinite where only one is NaN or infinite beyond rounding."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
        unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(np.float32).tiny)).astype(np.float64)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        error = np.abs(got.astype(np.float64) - expected) / unit
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


@pytest.mark.parametrize("target", runnable(), ids=lambda t: t.arch)
def test_bounds(target: Target) -> None:
    x = samples()
    compiled = compile_kernels([elementwise(f.text, lambda v, f=f: ap(f, v), [F32], F32) for f in BOUNDS], target)
    for (fn, (reference, fused, separate)), run in zip(BOUNDS.items(), compiled, strict=True):
        y = np.empty_like(x)
        run([len(x)], [x, y])
        with np.errstate(all="ignore"):
            expected = np.asarray(reference(x.astype(np.float64)))
        error = error_in_ulps(y, expected)
        worst = int(error.argmax())
        assert error[worst] <= (separate if target.vector_bytes == 16 else fused), (fn.text, x[worst], y[worst])
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(y[zero]), np.signbit(expected[zero]), err_msg=fn.text)
        if fn in (Scalar.TANH, Scalar.ERF, Scalar.SIN, Scalar.COS):
            assert np.nanmax(np.abs(y)) <= 1, fn.text


def test_power() -> None:
    rng = np.random.default_rng(6)
    bases = np.concatenate([np.exp(rng.standard_normal(1 << 16) * 10), rng.integers(-9, 10, 1 << 12), [np.inf, np.nan]])
    exponents = np.concatenate([rng.standard_normal(1 << 16) * 5, rng.integers(-9, 10, 1 << 12), [-0.5, 0.0]])
    x, y = bases.astype(np.float32), exponents.astype(np.float32)
    special = np.array(SPECIAL, np.float32)
    grid = np.meshgrid(special, special)
    x, y = np.concatenate([x, grid[0].ravel()]), np.concatenate([y, grid[1].ravel()])
    (run,) = compile_kernels([elementwise("pow", lambda a, b: ap(Scalar.POW, a, b), [F32, F32], F32)])
    got = np.empty_like(x)
    run([len(x)], [x, y, got])
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64))
    error = error_in_ulps(got, expected)
    worst = int(error.argmax())
    assert error[worst] <= 1, (x[worst], y[worst], got[worst], expected[worst])
