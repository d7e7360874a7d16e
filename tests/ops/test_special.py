"""The bounds of the functions that are formulas, against values of 40 digits, and their special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import dyn
from dyn import lax
from dyn.errors import NotYetError, UnsupportedOpError

Array = np.ndarray[Any, Any]
Require = Callable[[str], Any]
INF, NAN = math.inf, math.nan


def units(found: Array, wanted: Array, floor: float) -> float:
    """The greatest error in units in the last place of the value, or of ``floor`` where the value is nearer to 0."""
    wide = np.longdouble if found.dtype == np.float64 else np.float64
    size = np.maximum(np.abs(wanted), floor).astype(found.dtype)
    with np.errstate(all="ignore"):
        error = np.abs(found.astype(wide) - wanted.astype(wide)) / np.spacing(size).astype(wide)
    finite = np.isfinite(wanted) & np.isfinite(wanted.astype(found.dtype))
    assert (np.isfinite(found) | ~finite).all()
    return float(np.max(error[finite], initial=0))


def spread(low: float, high: float, count: int = 1500) -> Array:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(low, high, count), np.linspace(low, high, 501)])


#: Next to the poles from -1 to -8, where the result is near 0 too.
BY_POLES = np.concatenate([-float(n) + spread(-1, 1, 50) * 10.0 ** spread(-14, -1, 50) for n in range(1, 9)])
GAMMA = np.concatenate([spread(1e-9, 3), spread(3, 40), 10.0 ** spread(-30, 30, 300), spread(-9.9, -0.01)])
CASES: dict[str, tuple[Any, Array, float, dict[str, float]]] = {
    # The values nearest to 0 are bounded by their distance: 1 for lgamma and digamma, whose roots are no numbers.
    "lgamma": (lambda x, mp: mp.log(abs(mp.gamma(x))), GAMMA, 1.0, {"float32": 1.0, "float64": 2.0}),
    "digamma": (lambda x, mp: mp.digamma(x), GAMMA, 1.0, {"float32": 1.0, "float64": 40.0}),
    "erfc": (lambda x, mp: mp.erfc(x), spread(-6, 26.5), 0.0, {"float32": 1.0, "float64": 5.0}),
    "sinh": (lambda x, mp: mp.sinh(x), spread(-80, 80), 0.0, {"float32": 8.0, "float64": 8.0}),
    "cosh": (lambda x, mp: mp.cosh(x), spread(-80, 80), 0.0, {"float32": 8.0, "float64": 8.0}),
    "asin": (lambda x, mp: mp.asin(x), spread(-1, 1), 0.0, {"float32": 8.0, "float64": 8.0}),
    "acos": (lambda x, mp: mp.acos(x), spread(-1, 1), 0.0, {"float32": 8.0, "float64": 8.0}),
    "asinh": (lambda x, mp: mp.asinh(x), 10.0 ** spread(-20, 20), 0.0, {"float32": 8.0, "float64": 8.0}),
    "acosh": (lambda x, mp: mp.acosh(x), spread(1, 50), 0.0, {"float32": 8.0, "float64": 8.0}),
    "atanh": (lambda x, mp: mp.atanh(x), spread(-0.999, 0.999), 0.0, {"float32": 8.0, "float64": 8.0}),
}


#: Around the roots, 1 and 2; around each number at which another formula begins; of all sizes.
ABOVE_0 = np.concatenate([
    *[root + spread(-1, 1, 100) * 10.0 ** spread(-12, -1, 100) for root in (1.0, 2.0)],
    *[spread(edge - 0.06, edge + 0.06, 100) for edge in (0.25, 0.5826, 0.7, 1.41, 2.5, 7.5, 8.0)],
    10.0 ** spread(-300, 305, 1000), np.arange(1.0, 200.0),
])  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lgamma_above_0_is_within_two_units_of_itself(dtype: str, require_module: Require) -> None:
    mp = require_module("mpmath").mp
    mp.dps = 40
    limit = 1e305 if dtype == "float64" else 1e36
    x = ABOVE_0[np.abs(np.log(ABOVE_0)) < np.log(limit)].astype(dtype)
    wanted = [mp.loggamma(mp.mpf(float(v))) for v in x]
    unit = np.abs(np.spacing(np.array([float(v) for v in wanted]).astype(dtype)).astype("f8"))
    apart = [float(mp.mpf(float(a)) - b) for a, b in zip(dyn.jit(lax.lgamma)(x), wanted, strict=True)]
    assert np.max(np.abs(apart) / unit) <= (2 if dtype == "float64" else 1)


def test_lgamma_next_to_its_poles(require_module: Require) -> None:
    """From -8 on the greater terms, of 20 to 35, cancel where the result is near 0."""
    mp = require_module("mpmath").mp
    mp.dps = 40
    for x, bound in ((BY_POLES, 2.0), (BY_POLES - 8.0, 6.0), (BY_POLES - 30.0, 2.0)):
        apart = x[x != np.floor(x)]
        wanted = np.array([_number(mp.log(abs(mp.gamma(mp.mpf(float(v)))))) for v in apart], np.longdouble)
        assert units(np.asarray(dyn.jit(lax.lgamma)(apart)), wanted, 1.0) <= bound


def test_the_derivative_of_trigamma(require_module: Require) -> None:
    """Polygamma of order 2, by mpmath's reflection below 0, where it has none itself; and that one's derivative."""
    mp = require_module("mpmath").mp
    mp.dps = 40
    x = np.array([1e-3, 0.1, 1, 1.46, 3, 7.9, 8, 8.1, 30, 1e4, -0.3, -0.999, -1.5, -4.4, -20.7])

    def exact(order: int, v: Any) -> Any:
        if v > 0:
            return mp.psi(order, v)
        mirrored = mp.psi(order, 1 - v) * (-1) ** order
        return mirrored - mp.diff(lambda t: mp.pi * mp.cospi(t) / mp.sinpi(t), v, order)

    slope = dyn.vmap(dyn.grad(dyn.grad(lax.digamma)))
    for dtype, bound in (("float32", 1e-6), ("float64", 1e-13)):
        narrow = x.astype(dtype)
        wanted = [float(exact(2, mp.mpf(float(v)))) for v in narrow]
        np.testing.assert_allclose(slope(narrow), wanted, rtol=bound)
    third = dyn.vmap(dyn.grad(dyn.grad(dyn.grad(lax.digamma))))
    np.testing.assert_allclose(third(x), [float(exact(3, mp.mpf(float(v)))) for v in x], rtol=1e-10)
    assert np.isnan(slope(np.array([0.0, -1.0, np.nan]))).all()


@pytest.mark.parametrize("name", sorted(CASES))
def test_bounds(name: str, require_module: Require) -> None:
    mp = require_module("mpmath").mp
    mp.dps = 40
    exact, points, floor, bounds = CASES[name]
    fn = dyn.jit(getattr(lax, name))
    for dtype, bound in bounds.items():
        x = points.astype(dtype)
        wanted = np.array([_number(exact(mp.mpf(float(v)), mp)) for v in x], np.longdouble)
        assert units(np.asarray(fn(x)), wanted, floor) <= bound, dtype


def _number(value: Any) -> np.longdouble:
    """A number of many digits as the two float64 that are nearest, added up."""
    high = float(value)
    return np.longdouble(high) + np.longdouble(float(value - high)) if math.isfinite(high) else np.longdouble(high)


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfc"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits_are_rounded_once(name: str, dtype: str) -> None:
    kind = dyn.dtypes.dtype(dtype).np
    x = np.linspace(-3.9, 9, 400).astype(kind)
    reference = {"lgamma": scipy.special.gammaln, "digamma": scipy.special.psi, "erfc": scipy.special.erfc}[name]
    found = np.asarray(getattr(lax, name)(x))
    assert found.dtype == kind
    wanted = reference(x.astype(np.float64))
    wanted = np.where(np.isnan(found.astype("f8")), np.nan, wanted)
    near = {"float16": 2**-10, "bfloat16": 2**-7}[dtype]
    np.testing.assert_allclose(found.astype("f8"), wanted, rtol=near, atol=near / 8)


def test_numbers_below_0_whose_inverses_are_infinite() -> None:
    """No infinity is taken from another."""
    x = np.array([-1e-300, 1e-300, -1e-310, 1e-310, -5e-324])
    np.testing.assert_array_equal(lax.polygamma(1, x), [INF] * 5)
    np.testing.assert_allclose(lax.digamma(x), [1e300, -1e300, INF, -INF, INF])


def test_special_values() -> None:
    x = np.array([0.0, -0.0, -1.0, -2.0, INF, -INF, NAN, 1.0, 2.0, 1e308, -1e300, 5e-324])
    near: dict[str, Any] = {"rtol": 1e-13, "atol": 1e-14}
    np.testing.assert_allclose(
        lax.lgamma(x), [INF, INF, INF, INF, INF, INF, NAN, 0, 0, scipy.special.gammaln(1e308), INF, 744.4400719213812],
        **near,
    )  # fmt: skip
    np.testing.assert_allclose(
        lax.digamma(x), [NAN, NAN, NAN, NAN, INF, NAN, NAN, -np.euler_gamma, 1 - np.euler_gamma, math.log(1e308), NAN,
                         -INF], **near,
    )  # fmt: skip
    np.testing.assert_allclose(lax.erfc(x)[:9], [1, 1, 1.842700792949715, 1.9953222650189528, 0, 2, NAN,
                                                  0.15729920705028513, 0.004677734981047266], **near)  # fmt: skip
    for function in (lax.lgamma, lax.digamma, lax.erfc):
        np.testing.assert_allclose(dyn.jit(function).reference(x), function(x), **near)
    np.testing.assert_array_equal(np.signbit(lax.sinh(x)[:2]), [False, True])
    np.testing.assert_array_equal(lax.polygamma(1, x)[2:7], [INF, INF, 0, INF, NAN])
    np.testing.assert_allclose(lax.polygamma(1, np.array([1.0, 2.5, -0.5])), [np.pi**2 / 6, 0.49035775610023486,
                                                                             8.934802200544679])  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_next_after(dtype: str) -> None:
    kind = dyn.dtypes.dtype(dtype).np
    values = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 3e-5], kind)
    x, y = (v.reshape(-1) for v in np.meshgrid(values, values))
    found, wanted = np.asarray(lax.nextafter(x, y)), np.nextafter(x, y)
    np.testing.assert_array_equal(found.astype("f8"), wanted.astype("f8"))
    moved = x != y  # of equal zeros NumPy gives the first one in float16, and the second one else
    np.testing.assert_array_equal(np.signbit(found)[moved], np.signbit(wanted)[moved])
    np.testing.assert_array_equal(np.signbit(found)[x == y], np.signbit(y)[x == y])


def test_reduce_precision_is_that_of_jax(require_module: Require) -> None:
    jax_lax = require_module("jax").lax
    rng = np.random.default_rng(0)
    odd = [NAN, INF, -INF, 0.0, -0.0, 65519.0, 65520.0, 6.2e-5, 6.09e-5, 3.0, 1e-30, 1e30, 3.3e38]
    x = np.concatenate([rng.standard_normal(500) * 10.0 ** rng.integers(-20, 20, 500), odd]).astype(np.float32)
    for bits in ((5, 10), (8, 7), (4, 3), (5, 2), (2, 1), (8, 0), (8, 23), (11, 52)):
        found, wanted = (np.asarray(f(x, *bits)) for f in (lax.reduce_precision, jax_lax.reduce_precision))
        np.testing.assert_array_equal(found, wanted, err_msg=str(bits))
        np.testing.assert_array_equal(np.signbit(found[:-13]), np.signbit(wanted[:-13]))


def test_what_is_not_there_yet_says_so() -> None:
    for name in ("bessel_i0e", "bessel_i1e", "betainc", "igamma", "igammac", "zeta"):
        with pytest.raises(NotYetError) as caught:
            getattr(lax, name)(np.zeros(3), np.zeros(3))
        assert caught.value.problem == f"{name} comes later."
    with pytest.raises(NotYetError) as caught:
        lax.polygamma(2, np.ones(3))
    assert caught.value.problem == "polygamma of the order 2 comes later."
    with pytest.raises(UnsupportedOpError) as refused:
        lax.rng_uniform(0.0, 1.0, (3,))
    assert refused.value.problem == "rng_uniform has a state that nobody passes to it: compiled programs have none."


def test_gradients() -> None:
    x = np.array([0.3, 1.7, 4.2, -0.4])
    near: dict[str, Any] = {"rtol": 1e-9}
    np.testing.assert_allclose(dyn.grad(lambda x: lax.lgamma(x).sum())(x), scipy.special.psi(x), **near)
    np.testing.assert_allclose(
        dyn.grad(lambda x: lax.digamma(x).sum())(x)[:3], scipy.special.polygamma(1, x[:3]), **near
    )
    np.testing.assert_array_equal(dyn.grad(lambda x: lax.reduce_precision(x, 5, 2).sum())(x), np.ones(4))
