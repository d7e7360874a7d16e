"""Functions of the gamma family by sums and fractions, computed in float64: zeta, polygamma, and the incomplete gamma
functions; and modified Bessel functions, scaled."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.interop.torch.aten.tables import Promotion, kept_order, pointwise, takes_call
from dyn.interop.torch.tracing import TorchTracing

_FLOAT = Promotion.INT_TO_FLOAT
_EPSILON = 2.0**-53
_MOST_STEPS = 2000


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats that is computed in float64 and rounded once."""

    def run(*operands: Any) -> Any:
        dtype = operands[0].dtype
        wide = [operand.astype("float64") for operand in operands]
        return function(*dnp.broadcast_arrays(*wide)).astype(dtype)

    return run


# ---- zeta ------------------------------------------------------------------------------------------------------------


def _bernoulli(count: int) -> list[Fraction]:
    """The Bernoulli numbers from 0 on."""
    made: list[Fraction] = []
    for m in range(count):
        made.append(Fraction(m == 0) - sum([math.comb(m, k) * made[k] / (m - k + 1) for k in range(m)], Fraction()))
    return made


#: Of Euler and Maclaurin's sum: the Bernoulli numbers 2, 4, … over the factorials of these.
_TAIL = [float(b / math.factorial(k)) for k, b in enumerate(_bernoulli(25)) if k and k % 2 == 0]
#: The terms up to here are summed one by one.
_FAR = 9.0


@in_float64
def zeta(x: Any, q: Any) -> Any:
    """Hurwitz's: the sum of ``(q + k) ** -x`` over ``k`` from 0 on (DLMF 25.11.1, 25.11.28)."""
    is_pole = (q <= 0) & (q == dnp.floor(q))
    start = dnp.where(is_pole, 1.0, q)

    def step(state: Any) -> Any:
        place, total = state
        is_near = place <= _FAR
        return dnp.where(is_near, place + 1, place), dnp.where(is_near, total + dnp.power(place, -x), total)

    place, total = lax.while_loop(lambda state: dnp.any(state[0] <= _FAR), step, (start, dnp.zeros_like(x)))
    power = dnp.power(place, -x)
    made = total + power * place / (x - 1) + power / 2
    factor = x * power / place
    for number, share in enumerate(_TAIL):
        made = made + share * factor
        factor = factor * ((x + 2 * number + 1) / place) * ((x + 2 * number + 2) / place)
    made = dnp.where((q < 0) & (x != dnp.floor(x)), dnp.nan, made)
    made = dnp.where(is_pole, dnp.inf, made)
    return dnp.where(x == 1, dnp.inf, dnp.where((x < 1) | dnp.isnan(x) | dnp.isnan(q), dnp.nan, made))


@takes_call("polygamma.default", order=lambda args, kwargs: kept_order(args[1:], kwargs))
def polygamma(tracing: TorchTracing, n: int, a: Any) -> Any:
    """The derivative number ``n`` of ``digamma``."""
    value = tracing.value(a)
    computed = value.astype("float32") if value.dtype.itemsize < 4 or value.dtype.kind in "iub" else value
    if n < 2:
        made = lax.polygamma(n, computed)
    else:
        sign = 1.0 if n % 2 else -1.0
        made = in_float64(lambda x: sign * math.factorial(n) * zeta(dnp.full_like(x, n + 1), x))(computed)
    return made.astype(value.dtype) if value.dtype.kind not in "iub" else made


for _name in ("default", "other_scalar", "self_scalar"):
    pointwise(f"special_zeta.{_name}", operands=2, promotion=_FLOAT)(zeta)
pointwise("prims::zeta.default", operands=2)(zeta)


# ---- incomplete gamma ------------------------------------------------------------------------------------------------


def _lower(a: Any, x: Any) -> Any:
    """The share of the integral up to ``x``, by its series (DLMF 8.11.4). It is for ``x < a + 1``."""

    def step(state: Any) -> Any:
        number, term, total = state
        term = term * x / (a + number)
        return number + 1, term, total + term

    def goes_on(state: Any) -> Any:
        number, term, total = state
        return (number < _MOST_STEPS) & dnp.any(term > _EPSILON * total)

    one = dnp.ones_like(x)
    total = lax.while_loop(goes_on, step, (dnp.ones((), dtype="float64"), one, one))[2]
    return total * dnp.exp(a * dnp.log(x) - x - lax.lgamma(a + 1))


def _upper(a: Any, x: Any) -> Any:
    """The share of the integral from ``x`` on, by its continued fraction (DLMF 8.9.2). It is for ``x >= a + 1``."""

    def step(state: Any) -> Any:  # Lentz's way
        number, b, c, d, made, _ = state
        share = number * (a - number)
        b = b + 2
        d = 1 / (share * d + b)
        c = b + share / c
        return number + 1, b, c, d, made * c * d, c * d

    def goes_on(state: Any) -> Any:
        return (state[0] < _MOST_STEPS) & dnp.any(dnp.abs(state[5] - 1) > 2 * _EPSILON)

    b = x + 1 - a
    start = (dnp.ones((), dtype="float64"), b, dnp.full_like(x, 1e300), 1 / b, 1 / b, dnp.zeros_like(x))
    return lax.while_loop(goes_on, step, start)[4] * dnp.exp(a * dnp.log(x) - x - lax.lgamma(a))


def _incomplete(a: Any, x: Any, is_upper: bool) -> Any:
    is_inside = (a > 0) & (x > 0) & dnp.isfinite(a) & dnp.isfinite(x)
    is_low = x < a + 1
    low = _lower(dnp.where(is_inside & is_low, a, 1.0), dnp.where(is_inside & is_low, x, 0.5))
    high = _upper(dnp.where(is_inside & ~is_low, a, 1.0), dnp.where(is_inside & ~is_low, x, 3.0))
    made = dnp.where(is_low, 1 - low, high) if is_upper else dnp.where(is_low, low, 1 - high)
    # At the ends all or nothing is below; at both at once, and outside of them, there is no answer.
    is_nothing, is_all = (x == 0) | dnp.isinf(a), (a == 0) | dnp.isinf(x)
    below = dnp.where(is_nothing, 0.0, 1.0)
    ends = 1 - below if is_upper else below
    is_undefined = (a < 0) | (x < 0) | (is_nothing & is_all) | ((a == 0) & dnp.isnan(x))
    is_undefined = is_undefined | ((dnp.isnan(a) | dnp.isnan(x)) & ~is_nothing & ~is_all)
    return dnp.where(is_undefined, dnp.nan, dnp.where(is_inside, made, ends))


for _name, _is_upper in {"igamma": False, "igammac": True}.items():

    @in_float64
    def _share(a: Any, x: Any, is_upper: bool = _is_upper) -> Any:
        return _incomplete(a, x, is_upper)

    pointwise(f"{_name}.default", operands=2, promotion=_FLOAT)(_share)
    pointwise(f"prims::{_name}.default", operands=2)(_share)


# ---- modified Bessel functions ---------------------------------------------------------------------------------------

_SERIES_TO, _SERIES_TERMS, _ASYMPTOTIC_TERMS = 20.0, 60, 30


def _bessel(order: int, is_scaled: bool) -> Callable[..., Any]:
    """``I`` of an order, 0 or 1, times ``exp(-|x|)`` where it is scaled: by its series (DLMF 10.25.2), and from 20 on
    by its asymptotic expansion (10.40.1)."""
    shares = [1.0]
    for k in range(1, _ASYMPTOTIC_TERMS):
        shares.append(shares[-1] * -(4 * order**2 - (2 * k - 1) ** 2) / (8 * k))

    @in_float64
    def bessel(x: Any) -> Any:
        size = dnp.abs(x)
        near = dnp.minimum(size, _SERIES_TO)
        square, series = near * near / 4, dnp.ones_like(x)
        for k in range(_SERIES_TERMS, 0, -1):
            series = 1 + series * square / (k * (k + order))
        far = dnp.maximum(size, _SERIES_TO)
        tail = dnp.zeros_like(x)
        for share in reversed(shares):
            tail = tail / far + share
        tail = tail / dnp.sqrt(2 * math.pi * far)
        series = series * (near / 2) ** order
        is_near = size < _SERIES_TO
        if is_scaled:
            made = dnp.where(is_near, series * dnp.exp(-near), tail)
        else:
            half = dnp.exp(far / 2)  # twice, for the product may be finite where the power is not
            made = dnp.where(is_near, series, tail * half * half)
        made = dnp.where(dnp.isnan(x), x, made)
        return dnp.copysign(made, x) if order else made

    return bessel


for _name, _order, _is_scaled in (
    ("i0", 0, False), ("special_i0e", 0, True), ("special_i1", 1, False), ("special_i1e", 1, True),
    ("special_modified_bessel_i0", 0, False), ("special_modified_bessel_i1", 1, False),
):  # fmt: skip
    pointwise(f"{_name}.default", operands=1, promotion=_FLOAT)(_bessel(_order, _is_scaled))
for _order in (0, 1):
    pointwise(f"prims::bessel_i{_order}.default", operands=1)(_bessel(_order, False))
    pointwise(f"prims::bessel_i{_order}e.default", operands=1)(_bessel(_order, True))
