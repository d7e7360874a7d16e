"""Calls of SciPy's smaller subpackages, and of those of which few functions support the array API."""

from __future__ import annotations

from typing import Any

from tests.libraries.calls import Table, grid, normal, positive, rising, uniform

CONSTANTS, DIFFERENTIATE, INTEGRATE = [Table(f"scipy.{n}") for n in ("constants", "differentiate", "integrate")]
INTERPOLATE, LINALG, OPTIMIZE = [Table(f"scipy.{n}") for n in ("interpolate", "linalg", "optimize")]

CONSTANTS.add("lambda2nu nu2lambda", positive("n"))
CONSTANTS.add("convert_temperature", positive("n"), by=lambda f, xp, x: f(x, "Celsius", "Kelvin"))

DIFFERENTIATE.add("derivative", positive("n"), by=lambda f, xp, x: f(xp.exp, x).df)
DIFFERENTIATE.add(
    "jacobian",
    positive("3 n"),
    by=lambda f, xp, x: f(lambda v: xp.stack([v[0] * v[1], v[2] ** 2]), x).df,
    wide_only=True,
)
DIFFERENTIATE.add(
    "hessian", positive("3"), by=lambda f, xp, x: f(lambda v: v[0] * v[1] + v[2] ** 3, x).ddf, wide_only=True
)

INTEGRATE.add("trapezoid cumulative_trapezoid", normal("n"), rising("n"))
INTEGRATE.add("cumulative_simpson", normal("n"), rising("n"), by=lambda f, xp, y, x: f(y, x=x))
INTEGRATE.add("romb", normal("9"))
INTEGRATE.add(
    "cubature", uniform("2", 0.0, 0.2), uniform("2", 1.0, 2.0),
    by=lambda f, xp, a, b: f(lambda x: xp.exp(-xp.sum(x * x, axis=-1)), a, b).estimate,
)  # fmt: skip
INTEGRATE.add(
    "qmc_quad", uniform("2", 0.0, 0.2), uniform("2", 1.0, 2.0), eager_only="it draws random numbers in Python",
    by=lambda f, xp, a, b: f(lambda x: xp.sum(x * x, axis=0), a, b, qrng=_points()).integral,
)  # fmt: skip


def _points() -> Any:
    """A sequence of points in two dimensions, the same ones in each run."""
    from scipy.stats import qmc

    return qmc.Halton(2, rng=1)


INTEGRATE.add("tanhsinh", positive("n"), by=lambda f, xp, a: f(xp.exp, 0 * a, a).integral)
INTEGRATE.add(
    "nsum", positive("n"), by=lambda f, xp, a: f(lambda k, a: a / k**3, xp.asarray(1.0), xp.inf, args=(a,)).sum
)

OPTIMIZE.add("rosen rosen_der rosen_hess", positive("n"))
OPTIMIZE.add("rosen_hess_prod", positive("n"), positive("n"))


def _shifted_square(x: Any, c: Any) -> Any:
    """A function with its minimum at ``c``."""
    return (x - c) ** 2


def _cubic(x: Any, c: Any) -> Any:
    """A function with its root at the third root of ``c``."""
    return x**3 - c


OPTIMIZE.add("elementwise.bracket_root", positive("n"), by=lambda f, xp, c: f(_cubic, 0 * c, args=(c,)).bracket)
OPTIMIZE.add(
    "elementwise.bracket_minimum", positive("n"), by=lambda f, xp, c: f(_shifted_square, 0 * c, args=(c,)).bracket
)
OPTIMIZE.add("elementwise.find_root", positive("n"), by=lambda f, xp, c: f(_cubic, (0 * c, c + 2), args=(c,)).x)
OPTIMIZE.add(
    "elementwise.find_minimum", positive("n"),
    by=lambda f, xp, c: f(_shifted_square, (c - 1, c + 0.2, c + 1), args=(c,)).x,
)  # fmt: skip

LINALG.add("orthogonal_procrustes", normal("n 3"), normal("n 3"), more=1)
LINALG.add("block_diag", normal("n 2"), normal("2 3"))
LINALG.add("fiedler", normal("n"))

#: Places, values, and where the interpolants are evaluated.
_XY = rising("n"), normal("n")
_AT = uniform("5", 1.0, 2.0)
INTERPOLATE.add(
    "make_interp_spline make_smoothing_spline make_splrep Akima1DInterpolator CubicSpline PchipInterpolator", *_XY, _AT,
    by=lambda f, xp, x, y, at: f(x, y)(at), more=4,
)  # fmt: skip
INTERPOLATE.add("CubicHermiteSpline", *_XY, normal("n"), _AT, by=lambda f, xp, x, y, d, at: f(x, y, d)(at), more=4)
INTERPOLATE.add("make_lsq_spline", *_XY, _AT, by=lambda f, xp, x, y, at: f(x, y, _knots(xp, x))(at), more=8)
INTERPOLATE.add("generate_knots", *_XY, by=lambda f, xp, x, y: list(f(x, y)), more=8, eager_only="it is a generator")
INTERPOLATE.add("make_splprep", normal("2 n"), _AT, by=lambda f, xp, x, at: f(list(x), s=0.1)[0](at / 2), more=8)
INTERPOLATE.add("BSpline", grid("9"), normal("5"), _AT, by=lambda f, xp, t, c, at: f(t, c, 3)(at / 4 + 0.1))
INTERPOLATE.add("NdBSpline", grid("9"), normal("5"), uniform("n 1"), by=lambda f, xp, t, c, at: f((t,), c, 3)(at))
INTERPOLATE.add("PPoly BPoly", normal("4 n"), grid("n+1"), uniform("5"), by=lambda f, xp, c, x, at: f(c, x)(at))
INTERPOLATE.add(
    "RBFInterpolator", normal("n 2"), normal("n"), normal("5 2"), by=lambda f, xp, x, y, at: f(x, y)(at), more=4
)
INTERPOLATE.add(
    "RegularGridInterpolator", rising("n"), normal("n 3"), uniform("6 2", 1.0, 1.4),
    by=lambda f, xp, x, v, at: f((x, xp.asarray([0.0, 1.0, 2.0])), v)(at),
)  # fmt: skip


def _knots(xp: Any, x: Any) -> Any:
    """Knots of a cubic spline on the places ``x``, with one in the middle."""
    ends = [xp.broadcast_to(x[end], (4,)) for end in (0, -1)]
    return xp.concat([ends[0], xp.reshape(xp.mean(x), (1,)), ends[1]])
