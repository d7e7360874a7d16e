"""First and second derivatives where functions have kinks, ends, poles and branches: JAX's, or another for a reason.

All functions are in one program. What differs from JAX is in ``OWN``, with its reason, as ``docs/numerics.md`` has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax, nn

Array = Any
inf, nan = np.inf, np.nan

POINTS = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 6, 800, -800, inf, -inf, nan])
SHORT = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, 3, inf, -inf, nan])
LEFT, RIGHT = (grid.ravel() for grid in np.meshgrid(SHORT, SHORT))

NUMPY = [
    "abs",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "cbrt",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "i0",
    "log",
    "log10",
    "log1p",
    "log2",
    "nan_to_num",
    "reciprocal",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "floor",
    "sign",
]
LAX = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "exp2",
    "expm1",
    "lgamma",
    "log1p",
    "logistic",
    "rsqrt",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]
LAYERS = [
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "soft_sign",
    "softplus",
    "squareplus",
]
TWO = [
    "arctan2",
    "divide",
    "float_power",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "maximum",
    "minimum",
    "multiply",
    "power",
    "remainder",
    "floor_divide",
]

#: Outside of its domain a function is NaN, and its derivative there is no one's.
DOMAINS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("arccos", "arcsin", "arctanh", "acos", "asin", "atanh", "erf_inv"), (-1, 1)),
    **dict.fromkeys(("arccosh", "acosh"), (1, inf)),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt"), (0, inf)),
    "log1p": (-1, inf),
}
#: Where dyn's derivatives are others than JAX's: function, order, place, dyn's, and why.
OWN: list[tuple[str, int, Callable[[Array], Array], float, str]] = [
    ("abs", 1, lambda x: x == 0, 0.0, "the middle of -1 and 1, as in PyTorch; JAX has 1"),
    ("abs", 1, np.isnan, nan, "JAX has -1"),
    ("celu", 2, lambda x: x == 0, 1.0, "that of elu, which celu is for alpha = 1; JAX has 1/4"),
    ("soft_sign", 2, lambda x: x == 0, 0.0, "the middle of -2 and 2; JAX has -2"),
    ("arctanh", 2, lambda x: np.abs(x) == 1, inf, "with the sign of x; JAX has NaN"),
    ("atanh", 2, lambda x: np.abs(x) == 1, inf, "with the sign of x; JAX has NaN"),
    ("digamma", 1, lambda x: x == inf, 0.0, "the limit; JAX has NaN"),
    ("digamma", 2, lambda x: x == inf, 0.0, "the limit; JAX has NaN"),
    ("lgamma", 2, lambda x: x == inf, 0.0, "the limit; JAX has NaN"),
]


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def derivatives(grad: Any, total: Any, function: Callable[[Array], Array], x: Array) -> tuple[Array, Array]:
    first = grad(lambda x: total(function(x)))
    return first(x), grad(lambda x: total(first(x)))(x)


def all_of(grad: Any, total: Any, functions: dict[str, Callable[[Array], Array]], x: Array) -> Any:
    return {name: derivatives(grad, total, f, x) for name, f in functions.items()}


def alike(a: Array, b: Array) -> Array:
    """Where two are the same, signs of zeros left out, to a rounding."""
    return (np.isnan(a) & np.isnan(b)) | (a == b) | np.isclose(a, b, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("room", ["numpy", "lax", "nn"])
def test_of_one_array(room: str, jax: ModuleType, quick_xla: None) -> None:
    names, mine, theirs = {
        "numpy": (NUMPY, dnp, jax.numpy), "lax": (LAX, lax, jax.lax), "nn": (LAYERS, nn, jax.nn)
    }[room]  # fmt: skip
    own = dyn.jit(lambda x: all_of(dyn.grad, dnp.sum, {name: getattr(mine, name) for name in names}, x))
    with jax.enable_x64(True):
        other = jax.jit(lambda x: all_of(jax.grad, jax.numpy.sum, {name: getattr(theirs, name) for name in names}, x))
        found, wanted = own(POINTS), other(POINTS)
    assert own.cache_info().compiles == 1
    for name in names:
        low, high = DOMAINS.get(name, (-inf, inf))
        for order in (1, 2):
            place = ((low <= POINTS) & (high >= POINTS)) | np.isnan(POINTS)
            a, b = found[name][order - 1], np.array(wanted[name][order - 1])
            for _, _, where, value, why in (row for row in OWN if row[:2] == (name, order)):
                special = where(POINTS) & place
                assert not alike(a, b)[special].any(), f"{name}: {why}: JAX has it too"
                b[special] = value * np.sign(POINTS[special]) if value == inf else value
            wrong = ~alike(a, b) & place
            assert not wrong.any(), f"{name}, order {order}: at {POINTS[wrong]} {a[wrong]}, and not {b[wrong]}"


def two_orders(grad: Any, total: Any, function: Callable[[Array, Array], Array], x: Array, y: Array) -> Any:
    first = grad(lambda x, y: total(function(x, y)), argnums=(0, 1))
    second = [grad(lambda x, y, k=k: total(first(x, y)[k]), argnums=(0, 1))(x, y) for k in (0, 1)]
    return [*first(x, y), *second[0], *second[1]]


def test_of_two_arrays(jax: ModuleType, quick_xla: None) -> None:
    """At ties, zeros, poles and infinities. Where JAX has NaN, or no derivative, dyn's value is asserted below."""
    own = dyn.jit(lambda x, y: {name: two_orders(dyn.grad, dnp.sum, getattr(dnp, name), x, y) for name in TWO})
    with jax.enable_x64(True):
        total = jax.numpy.sum
        functions = {name: getattr(jax.numpy, name) for name in TWO}
        other = jax.jit(lambda x, y: {name: two_orders(jax.grad, total, f, x, y) for name, f in functions.items()})
        found, wanted = own(LEFT, RIGHT), other(LEFT, RIGHT)
    finite = np.isfinite(LEFT) & np.isfinite(RIGHT)
    tie = LEFT == RIGHT
    left_out = {
        **dict.fromkeys(("fmax", "fmin"), tie | (np.isnan(LEFT) & np.isnan(RIGHT))),
        **dict.fromkeys(("power", "float_power"), ((LEFT == 0) | np.isnan(LEFT)) & np.isin(RIGHT, (0, 1))),
        **dict.fromkeys(("logaddexp", "logaddexp2"), ~finite),
        "hypot": ~finite | (np.abs(LEFT) == np.abs(RIGHT)),
        "remainder": np.isinf(LEFT),
    }
    for name in TWO:
        for number, (a, b) in enumerate(zip(found[name], wanted[name], strict=True)):
            is_left_out = left_out.get(name)
            wrong = ~alike(a, np.asarray(b)) & ~(np.zeros_like(tie) if is_left_out is None else is_left_out)
            places = list(zip(LEFT[wrong], RIGHT[wrong], strict=True))
            assert not wrong.any(), f"{name}, {number}: at {places} {a[wrong]}, and not {np.asarray(b)[wrong]}"


#: Function, arguments, and its six derivatives: by x, by y, by xx, xy, yx, yy.
PAIRS: list[tuple[str, tuple[float, float], tuple[float, ...]]] = [
    ("fmax", (1, 1), (0.5, 0.5, 0, 0, 0, 0)),
    ("power", (0, 0), (0, 0, 0, 0, 0, 0)),
    ("power", (nan, 0), (0, nan, 0, nan, nan, nan)),
    ("power", (2, 0), (0, np.log(2), 0, 0.5, 0.5, np.log(2) ** 2)),
    ("hypot", (0, 0), (0, 0, 0, 0, 0, 0)),
    ("hypot", (1, 1), (0.5**0.5, 0.5**0.5, *(np.array([1, -1, -1, 1]) * 0.5**1.5))),
    ("hypot", (1, nan), (nan,) * 6),
    ("hypot", (1, inf), (0, nan, 0, nan, nan, nan)),
    ("logaddexp", (inf, inf), (0.5, 0.5, 0, 0, 0, 0)),
    ("logaddexp", (-inf, 1), (0, 1, 0, 0, 0, 0)),
    ("logaddexp", (1, inf), (0, 1, 0, 0, 0, 0)),
]


def test_of_pairs_by_value() -> None:
    step = dyn.jit(
        lambda x, y: {name: two_orders(dyn.grad, dnp.sum, getattr(dnp, name), x, y) for name in {p[0] for p in PAIRS}}
    )
    for name, (x, y), wanted in PAIRS:
        found = [float(v) for v in step(np.float64(x), np.float64(y))[name]]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=f"{name}({x}, {y})")
    assert step.cache_info().compiles == 1


# ---- masks, knots, singular matrices ---------------------------------------------------------------------------------

HOLES = np.array([1, nan, 2, -1.0])
KNOTS, HEIGHTS = np.array([0.0, 1, 2]), np.array([0.0, 2, 3])


@pytest.mark.parametrize(
    ("function", "point", "wanted"),
    [
        (dnp.nanvar, HOLES, np.array([2 / 9, 0, 8 / 9, -10 / 9])),
        (lambda x: dnp.var(x, where=x == x), HOLES, np.array([2 / 9, 0, 8 / 9, -10 / 9])),
        (dnp.nanstd, HOLES, np.array([2 / 9, 0, 8 / 9, -10 / 9]) / (2 * np.sqrt(14 / 9))),
        (lambda x: dnp.std(x, where=x == x), HOLES, np.array([2 / 9, 0, 8 / 9, -10 / 9]) / (2 * np.sqrt(14 / 9))),
        (lambda x: dnp.nanvar(x, ddof=1), np.array([1, nan]), np.zeros(2)),
        (lambda x: dnp.nanstd(x, ddof=1.5), np.array([1, nan]), np.zeros(2)),
        (dnp.nanvar, np.array([nan, nan]), np.zeros(2)),
        (dnp.nanmean, np.array([nan, nan]), np.zeros(2)),
        (dnp.nanmean, HOLES, np.array([1, 0, 1, 1]) / 3),
        (
            lambda x: dnp.interp(x, KNOTS, HEIGHTS),
            np.array([0, 0.5, 1, 1.5, 2, -1, 3]),
            np.array([2, 2, 1, 1, 1, 0, 0]),
        ),
        (
            lambda x: dnp.interp(x, KNOTS, HEIGHTS, "extrapolate", "extrapolate"),
            np.array([-1.0, 3]),
            np.array([2, 1.0]),
        ),
        (lambda x: dnp.interp(x, KNOTS, np.array([0, 2, inf])), np.array([1.0, 2.0]), np.array([0.0, 0.0])),
        (lambda y: dnp.interp(np.array([inf, -inf, nan, 1]), KNOTS, y), HEIGHTS, np.array([1.0, 1, 1])),
        (nn.elu, np.array([0.0, -0.0]), np.ones(2)),
        (nn.relu, np.array([0.0, -0.0, 1]), np.array([0.0, 0, 1])),
    ],
)
def test_gradients_by_value(function: Callable[[Array], Array], point: Array, wanted: Array) -> None:
    found = dyn.grad(lambda x: dnp.sum(function(x)))(point)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    halved = dyn.grad(lambda x: dnp.sum(function(x)))(point.astype(np.float16))
    np.testing.assert_allclose(halved, wanted, rtol=2e-3)


def by_permutations(a: Array) -> Array:
    """Second derivatives of the determinant: for rows i, k and columns j, l the minor without them, with its sign."""
    n = len(a)
    found = np.zeros((n,) * 4)
    for i, j, k, l in np.ndindex(*found.shape):  # noqa: E741
        if i != k and j != l:
            rows, columns = np.delete(np.arange(n), (i, k)), np.delete(np.arange(n), (j, l))
            sign = (-1) ** (i + j + k + l) * (1 if (i < k) == (j < l) else -1)
            found[i, j, k, l] = sign * np.linalg.det(a[np.ix_(rows, columns)])
    return found


def test_second_derivative_of_det() -> None:
    """Of regular and singular matrices of every rank, of equal singular values, in one program."""
    hessian = dyn.jit(dyn.hessian(dnp.linalg.det))
    squares = [
        np.array([[1.0, 2], [2, 4]]), np.zeros((2, 2)), np.eye(3), np.arange(9.0).reshape(3, 3), np.diag([1.0, 0, 0]),
        np.diag([1.0, 1, 0]), np.zeros((3, 3)), np.zeros((1, 1)), np.array([[2.0]]), np.diag([1.0, 2, 3, 4]),
        np.array([[1.0, 2, 0, 1], [3, 1, 1, 2], [4, 3, 1, 3], [0, 1, 1, 0]]), np.zeros((0, 0)),
    ]  # fmt: skip
    for a in squares:
        np.testing.assert_allclose(hessian(a), by_permutations(a), atol=1e-12)
    assert hessian.cache_info().compiles == 1


BRANCHES: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "a root": (
        lambda y, w: dyn.vmap(lambda v: lax.cond(v > 0, dnp.sqrt, lambda v: v * 0, v))(y).sum(),
        np.array([-1.0, 0.0, 4.0]),
        [0, 0, 0.25],
    ),
    "a norm": (
        lambda y, w: dyn.vmap(
            lambda v: lax.cond(dnp.sum(v * v) > 0, lambda v: dnp.sqrt(dnp.sum(v * v)), lambda v: 0 * v.sum(), v)
        )(y).sum(),
        np.array([[0.0, 0.0], [3.0, 4.0]]),
        [[0, 0], [0.6, 0.8]],
    ),
    "one of several": (
        lambda y, w: dyn.vmap(
            lambda v: lax.switch((v > 0).astype("int32") + (v > 2), [lambda v: v, dnp.log, dnp.sqrt], v)
        )(y).sum(),
        np.array([-1.0, 0.0, 1.0, 4.0]),
        [1, 1, 1, 0.25],
    ),
    "pieces": (
        lambda y, w: dnp.piecewise(y, [y > 0, y <= 0], [dnp.log, lambda v: v * 0.0]).sum(),
        np.array([-1.0, 0.0, 4.0]),
        [0, 0, 0.25],
    ),
    "pieces, of which the last counts": (
        lambda y, w: dnp.piecewise(y, [y > -2, y <= 0], [dnp.log, lambda v: v * 3, 7.0]).sum(),
        np.array([-5.0, -1.0, 0.0, 4.0]),
        [3, 3, 3, 0.25],
    ),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_that_an_example_does_not_take_have_no_derivative(name: str) -> None:
    function, y, expected = BRANCHES[name]
    for gradient in (dyn.jit(dyn.grad(function)), dyn.grad(function)):
        np.testing.assert_allclose(gradient(y, 1.0), expected, rtol=1e-12)
    np.testing.assert_allclose(dyn.jit(dyn.jacfwd(function))(y, 1.0), expected, rtol=1e-12)
    lowered = dyn.jit(function).lower(y, 1.0).as_text()
    assert "stop_gradient" not in lowered
    assert lowered.count("select(") <= 2


def test_what_examples_share_has_no_derivative_through_branches_that_none_takes() -> None:
    def f(w: Any, y: Any) -> Any:
        return dyn.vmap(lambda v: lax.cond(v > 0, lambda v: v, lambda v: v * dnp.sqrt(w), v))(y).sum()

    assert dyn.jit(dyn.grad(f))(-1.0, np.array([1.0, 2.0])) == 0


def test_what_all_examples_share_is_computed_once() -> None:
    """Of branches too: the examples' own masks are where it meets what is their own."""

    def each(p: Any, x: Any, w: Any) -> Any:
        return lax.cond(p, lambda x, w: dnp.tanh(w).sum() + x, lambda x, w: x, x, w)

    mapped = dyn.jit(dyn.vmap(each, in_axes=(0, 0, None)))
    text = mapped.lower(np.ones(3, bool), np.ones(3, np.float32), np.ones(5, np.float32)).as_text()
    (sizes,) = re.findall(r"= tanh.* : f32\[(.*?)\]", text)
    assert "," not in sizes  # one axis, w's own
    assert "stop_gradient" not in text


@pytest.mark.parametrize("taken", [(0, 0, 0), (0, 1, 2), (1, 1, 1)])
@pytest.mark.parametrize("shared", [1.5, -1.0])
def test_slopes_of_branches_for_what_all_examples_share(taken: tuple[int, ...], shared: float) -> None:
    jax = pytest.importorskip("jax")

    def loss(np_: Any, lax_: Any, vmap: Any) -> Any:
        def each(p: Any, x: Any, w: Any) -> Any:
            branches = [
                lambda x, w: np_.sqrt(x - w).sum() + (np_.sqrt(np_.outer(w, w)) @ x).sum(),
                lambda x, w: np_.log(w).sum() * x[0],
                lambda x, w: lax_.cond(x[0] > 1, lambda x, w: (x / w).sum(), lambda x, w: (x**w).sum(), x, w),
            ]
            return lax_.switch(p, branches, x, w)

        return lambda x, w, p: vmap(each, in_axes=(0, 0, None))(p, x, w).sum()

    x, w, p = np.linspace(0.5, 3, 6).reshape(3, 2), np.full(2, shared), np.array(taken)
    with jax.enable_x64(True):
        right = jax.grad(loss(jax.numpy, jax.lax, jax.vmap), argnums=(0, 1))(x, w, p)
        wanted = [np.asarray(one) for one in right]
    found = dyn.jit(dyn.grad(loss(dnp, lax, dyn.vmap), argnums=(0, 1)))(x, w, p)
    for mine, one in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, one, rtol=1e-9)


def test_second_derivatives_of_running_sums_of_exponentials() -> None:
    def f(x: Any) -> Any:
        return (lax.cumlogsumexp(x) ** 2).sum()

    x, step = np.zeros(3), 1e-5
    hessian = dyn.jit(dyn.hessian(f))(x)
    gradient = dyn.jit(dyn.grad(f))
    differences = [(gradient(x + step * e) - gradient(x - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(hessian, differences, atol=1e-8)


@pytest.mark.parametrize("exponent", [inf, -inf, nan])
def test_powers_by_a_number_that_is_not_finite(exponent: float) -> None:
    x = np.array([0.0, 0.5, 1.0, 2.0, -1.0, inf, nan])
    with np.errstate(all="ignore"):
        expected = np.power(x, exponent)
    for power in (dyn.jit(lambda x: x**exponent), lambda x: dnp.power(x, exponent)):
        np.testing.assert_array_equal(power(x), expected)
