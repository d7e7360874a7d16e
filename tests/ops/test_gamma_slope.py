"""The derivative of draws of the gamma distribution, against mpmath and against ``jax.grad``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import dyn
from dyn import dtypes, random
from dyn.backends.reference import run_reference
from dyn.ir.builder import Builder
from dyn.ir.core import Function, ParamInfo, Value
from dyn.ir.types import TensorType
from dyn.ops.gamma_slope import logarithmic_slope
from dyn.shapes import Facts
from dyn.source import Loc
from tests.ops.test_transform_rules import DRAWN

pytestmark = pytest.mark.usefixtures("quick_xla")

Array = np.ndarray[Any, Any]
KEY = random.key(4)


def slopes(a: Array, x: Array) -> Array:
    b = Builder(Facts.EMPTY, Loc("sample.py", 1))
    params = [Value(TensorType(dtypes.float64, a.shape), name) for name in ("a", "log", "x")]
    made = logarithmic_slope(b, *params)
    infos = tuple(ParamInfo(v.name) for v in params)
    with np.errstate(all="ignore"):
        return run_reference(Function("f", tuple(params), tuple(b.ops), (made,), b.facts, infos), [a, np.log(x), x])[0]


def exact(a: float, x: float) -> float:
    """``-(dP/da) / (p x)`` by a central difference with 40 digits."""
    with mpmath.workdps(40):
        number, place = mpmath.mpf(a), mpmath.mpf(x)
        change = mpmath.diff(lambda t: mpmath.gammainc(t, 0, place, regularized=True), number, h=mpmath.mpf(10) ** -15)
        return float(-change * mpmath.gamma(number) / (place**number * mpmath.exp(-place)))


def test_slopes_against_mpmath() -> None:
    """From the far left to the far right of distributions of every form."""
    parameters, levels = (0.01, 0.3, 1.0, 2.5, 40.0, 3e3), (1e-12, 1e-3, 0.5, 0.9, 1 - 1e-10)
    pairs = [(a, float(scipy.special.gammaincinv(a, level))) for a in parameters for level in levels]
    a, x = np.array([pair for pair in pairs if pair[1] > 1e-300]).T
    wanted = [exact(*pair) for pair in zip(a, x, strict=True)]
    np.testing.assert_allclose(slopes(a, x), wanted, rtol=1e-12)


def test_slopes_where_there_are_none() -> None:
    a = np.array([0.0, -1.0, np.nan, 1.0, 1.0, np.inf])
    x = np.array([1.0, 1.0, 1.0, -1.0, np.nan, 2.0])
    assert np.isnan(slopes(a, x)[:5]).all()


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("log_space", [False, True])
def test_both_derivatives_of_draws(name: str, log_space: bool) -> None:
    """Forward and backward, of the number drawn and of its logarithm: what mpmath's slopes are compared with."""
    assert name == "random_gamma"
    draw, a = random.loggamma if log_space else random.gamma, np.array([0.1, 1.0, 3.0, 40.0])
    drawn, forward = dyn.jvp(lambda a: draw(KEY, a, (4,), "float64"), (a,), (np.ones(4),))
    backward = dyn.grad(lambda a: draw(KEY, a, (4,), "float64").sum())(a)
    x = np.exp(drawn) if log_space else np.asarray(drawn)
    wanted = slopes(a, x) * (1 if log_space else x)
    np.testing.assert_allclose(forward, wanted, rtol=1e-12)
    np.testing.assert_allclose(backward, wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_against_jax(require_module: Callable[[str], Any], dtype: str) -> None:
    jax = require_module("jax")
    key = np.asarray(jax.random.PRNGKey(2))
    a = np.array([0.05, 0.7, 1.0, 3.3, 80.0], dtype)
    with jax.enable_x64(dtype == "float64"):
        for name in ("gamma", "loggamma"):
            mine = dyn.vmap(dyn.grad(lambda v, name=name: getattr(random, name)(key, v, (50,), dtype).sum()))(a)
            theirs = jax.jit(
                jax.vmap(jax.grad(lambda v, name=name: getattr(jax.random, name)(key, v, (50,), dtype).sum()))
            )(a)
            assert mine.dtype == theirs.dtype
            np.testing.assert_allclose(mine, theirs, rtol=1e-5 if dtype == "float32" else 1e-10)


def test_of_a_number_that_has_vanished() -> None:
    """Its logarithm, which is drawn itself, goes on."""
    key, a = random.key(1), np.full(64, 1e-3, np.float32)
    drawn = random.gamma(key, a)
    assert (drawn == 0).any()
    for name in ("gamma", "loggamma"):
        slope = np.asarray(dyn.grad(lambda v, name=name: getattr(random, name)(key, v).sum())(a))
        assert np.isfinite(slope).all()
        assert (slope[drawn == 0] == 0).all() == (name == "gamma")


@pytest.mark.slow
def test_what_is_made_of_gamma_has_derivatives(require_module: Callable[[str], Any]) -> None:
    jax = require_module("jax")
    key, a = np.asarray(jax.random.PRNGKey(5)), np.array([0.5, 2.0, 3.0], np.float32)

    def total(r: Any) -> Callable[[Any], Any]:
        def f(a: Any) -> Any:
            first = r.dirichlet(key, a, (4,))[:, 0].sum() + r.beta(key, a, 2.0).sum()
            return first + r.chisquare(key, a).sum() + r.t(key, a).sum()

        return f

    np.testing.assert_allclose(dyn.grad(total(random))(a), jax.jit(jax.grad(total(jax.random)))(a), rtol=2e-4)
