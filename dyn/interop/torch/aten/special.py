"""Special functions, and functions of two elements that PyTorch's own decompositions broadcast by their sizes."""

from __future__ import annotations

import math
from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.interop.torch.aten.tables import Promotion, converts, kept_orders, pointwise
from dyn.shapes import RelKind
from dyn.trace.tracer import Tracer

_FLOAT = Promotion.INT_TO_FLOAT

# ---- of one element --------------------------------------------------------------------------------------------------


def _erfcx(a: Any) -> Any:
    """``exp(a²) erfc(a)``; from 4 on by Laplace's continued fraction (DLMF 7.9.4), with terms enough for float64."""
    near = dnp.minimum(a, 4)
    far = dnp.maximum(a, 4)
    rest = far
    for term in range(_FRACTION_TERMS, 0, -1):
        rest = far + term / 2 / rest
    return dnp.where(a < 4, dnp.exp(near * near) * lax.erfc(near), 1 / (math.sqrt(math.pi) * rest))


_FRACTION_TERMS = 50


def _digamma(a: Any) -> Any:
    """At 0 infinite, with the sign that it has beside it: PyTorch's convention."""
    return dnp.where(a == 0, dnp.copysign(dnp.full_like(a, dnp.inf), -a), lax.digamma(a))


def _normal_quantile(a: Any) -> Any:
    return math.sqrt(2) * lax.erf_inv(2 * a - 1)


#: By the names of ATen and of PyTorch's primitive operators.
for _names, _function in {
    ("lgamma", "lgamma"): lax.lgamma, ("digamma", "digamma"): _digamma, ("erfc", "erfc"): lax.erfc,
    ("erfinv", "erf_inv"): lax.erf_inv, ("special_erfcx", "erfcx"): _erfcx,
}.items():  # fmt: skip
    pointwise(f"{_names[0]}.default", operands=1, promotion=_FLOAT)(_function)
    pointwise(f"prims::{_names[1]}.default", operands=1)(_function)
for _name, _function in {
    "acos": dnp.arccos, "acosh": dnp.arccosh, "asin": dnp.arcsin, "asinh": dnp.arcsinh, "atan": dnp.arctan,
    "atanh": dnp.arctanh, "cosh": dnp.cosh, "sinh": dnp.sinh, "tan": dnp.tan, "exp2": dnp.exp2, "log2": dnp.log2,
    "log10": dnp.log10, "trunc": dnp.trunc, "cbrt": dnp.cbrt, "erf": lax.erf, "ndtri": _normal_quantile,
    "bitwise_not": dnp.bitwise_not, "conj_physical": dnp.conj,
}.items():  # fmt: skip
    pointwise(f"prims::{_name}.default", operands=1)(_function)
for _name, _function in {"isfinite": dnp.isfinite, "signbit": dnp.signbit}.items():
    pointwise(f"prims::{_name}.default", operands=1, promotion=Promotion.ALWAYS_BOOL)(_function)


@converts("frexp.Tensor", "prims::frexp.default", order=kept_orders)
def frexp(a: Tracer) -> tuple[Tracer, Tracer]:
    mantissa, exponent = dnp.frexp(a)
    return mantissa, exponent.astype("int32")


# ---- of two elements -------------------------------------------------------------------------------------------------


def _xlogy(a: Any, b: Any) -> Any:
    return _times_where(a, b, dnp.log(b))


def _xlog1py(a: Any, b: Any) -> Any:
    return _times_where(a, b, dnp.log1p(b))


def _times_where(a: Any, b: Any, log: Any) -> Any:
    """``a * log``: 0 where ``a`` is, but for a NaN."""
    return dnp.where(dnp.isnan(b), b, dnp.where(a == 0, dnp.zeros_like(a), a * log))


def _heaviside(a: Any, b: Any) -> Any:
    """0 below 0 and 1 above it; ``b`` at 0 itself. Of NaN it is 0 in PyTorch, and NaN in NumPy."""
    return dnp.where(a == 0, b, (a > 0).astype(a.dtype))


for _name in ("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self"):
    pointwise(_name, operands=2, promotion=_FLOAT)(_xlogy)
for _name in ("default", "other_scalar", "self_scalar"):
    pointwise(f"special_xlog1py.{_name}", operands=2, promotion=_FLOAT)(_xlog1py)
for _name, _function in {
    "fmax": dnp.fmax, "fmin": dnp.fmin, "gcd": dnp.gcd, "nextafter": dnp.nextafter, "hypot": dnp.hypot,
    "heaviside": _heaviside, "lcm": dnp.lcm,
}.items():  # fmt: skip
    pointwise(f"{_name}.default", operands=2)(_function)
for _name, _function in {
    "logaddexp": dnp.logaddexp, "logaddexp2": dnp.logaddexp2,
}.items():  # fmt: skip
    pointwise(f"{_name}.default", operands=2, promotion=_FLOAT)(_function)
for _name, _function in {
    "fmax": dnp.fmax, "fmin": dnp.fmin, "gcd": dnp.gcd, "nextafter": dnp.nextafter, "hypot": dnp.hypot,
    "bitwise_and": dnp.bitwise_and,
    "bitwise_or": dnp.bitwise_or, "bitwise_xor": dnp.bitwise_xor, "shift_left": dnp.left_shift,
    "shift_right_arithmetic": dnp.right_shift,
}.items():  # fmt: skip
    pointwise(f"prims::{_name}.default", operands=2)(_function)


@pointwise("lerp.Tensor", "lerp.Scalar", operands=3)
def lerp(a: Any, b: Any, weight: Any) -> Any:
    """From the nearer end, as PyTorch: at a weight of 1 it is ``b`` itself."""
    across = b - a
    return dnp.where(dnp.abs(weight) < 0.5, a + weight * across, b - across * (1 - weight))


@pointwise("ldexp.Tensor", operands=2, promotion=_FLOAT)
def ldexp(a: Any, b: Any) -> Any:
    return a * dnp.exp2(b)


@converts("linalg_cross.default")
def cross(a: Tracer, b: Tracer, dim: int = -1) -> Tracer:
    for given in (a, b):
        given._trace.here.demand(RelKind.EQ, given.dims[dim], 3, f"linalg.cross takes vectors of 3 on dimension {dim}")
    a, b = dnp.broadcast_arrays(a, b)
    x, y, z = (dnp.take(a, dnp.asarray((i + 1) % 3), axis=dim) for i in (0, 1, 2))
    u, v, w = (dnp.take(b, dnp.asarray((i + 1) % 3), axis=dim) for i in (0, 1, 2))
    # The elements 1, 2, 0 of each: what stands for element i is that of i + 1.
    return dnp.stack([x * v - y * u, y * w - z * v, z * u - x * w], axis=dim)


# ---- orthogonal polynomials ------------------------------------------------------------------------------------------


def _polynomial(name: str, first: Any, after: Any, shifted: bool = False) -> None:
    """A family by its recurrence: ``first(x)`` is that of degree 1, ``after(k, x, p, q)`` follows ``p`` of degree ``k``
    and ``q`` before it. Degrees are rounded towards 0, and those below 0 give 0.
    """

    def evaluate(x: Any, n: Any) -> Any:
        if shifted:
            x = 2 * x - 1
        n = dnp.trunc(n)
        one = dnp.ones_like(x + n)
        x = x * one
        most = dnp.max(n, initial=0)

        def step(state: Any) -> Any:
            k, q, p, made = state
            following = after(k, x, p, q)
            return k + 1, p, following, dnp.where(n == k + 1, following, made)

        p = first(x) * one
        made = dnp.where(n == 0, one, dnp.where(n == 1, p, dnp.zeros_like(one)))
        start = (dnp.ones((), dtype=x.dtype), one, p, made)
        return lax.while_loop(lambda state: state[0] < most, step, start)[3]

    for overload in ("default", "x_scalar", "n_scalar"):
        pointwise(f"special_{name}.{overload}", operands=2, promotion=_FLOAT)(evaluate)


def _doubled(k: Any, x: Any, p: Any, q: Any) -> Any:
    return 2 * x * p - q


for _prefix in ("", "shifted_"):
    for _letter, _start in {
        "t": lambda x: x, "u": lambda x: 2 * x, "v": lambda x: 2 * x - 1, "w": lambda x: 2 * x + 1,
    }.items():  # fmt: skip
        _polynomial(f"{_prefix}chebyshev_polynomial_{_letter}", _start, _doubled, shifted=bool(_prefix))
_polynomial("hermite_polynomial_h", lambda x: 2 * x, lambda k, x, p, q: 2 * (x * p - k * q))
_polynomial("hermite_polynomial_he", lambda x: x, lambda k, x, p, q: x * p - k * q)
_polynomial("laguerre_polynomial_l", lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1))
_polynomial("legendre_polynomial_p", lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))
