"""Random numbers that are drawn while a function is traced: a warning says that they are constants."""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn

GENERATOR = np.random.default_rng(0)
TOLD = "while it was traced: they are constants of its program, the same in each call.\n"
HELP = "  help: pass them as an argument, or draw with dyn.random from a key that is one."


def noise(x: Any) -> Any:
    return x + np.random.rand()


def by_python(x: Any) -> Any:
    return x * random.random()


def by_generator(x: Any) -> Any:
    return x + GENERATOR.normal()


def elsewhere(x: Any) -> Any:
    return noise(x)


@pytest.mark.parametrize(
    ("function", "source"),
    [(noise, "numpy.random"), (by_python, "random"), (by_generator, "GENERATOR"), (elsewhere, "numpy.random")],
)
def test_draws_are_told(function: Callable[..., Any], source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    np.random.rand()  # it is imported, as it is where a helper draws
    f = dyn.jit(function)
    with pytest.warns(UserWarning, match="drew random numbers") as told:
        first = f(np.zeros(3))
    (one,) = told
    assert str(one.message) == (f"{function.__name__}() drew random numbers by {source} {TOLD}{HELP}")
    assert (one.filename, one.lineno) == (__file__, function.__code__.co_firstlineno)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(f(np.zeros(3)), first)  # and a call says nothing
        assert f(np.zeros(5)).shape == (5,)


def test_draws_of_other_threads_are_not_told_as_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With threads about, which draw too, a function is not blamed unless its code says that it draws."""
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dyn.jit(elsewhere)(np.zeros(3))
    with pytest.warns(UserWarning, match="drew random numbers"):
        dyn.jit(noise)(np.zeros(3))


def test_a_generator_that_is_closed_over() -> None:
    mine = random.Random(3)
    with pytest.warns(UserWarning, match=r"by mine while it was traced"):
        dyn.jit(lambda x: x + mine.random())(np.zeros(2))


def test_what_draws_nothing_says_nothing() -> None:
    keys = dyn.random.key(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dyn.jit(lambda x: x + dyn.random.normal(keys, x.shape))(np.zeros(3))
        dyn.jit(lambda x, draws: x + draws)(np.zeros(3), np.random.default_rng().normal(size=3))
        dyn.jit(dyn.grad(lambda x: (x * x).sum()))(np.zeros(3))


def test_an_error_comes_first() -> None:
    def fails(x: Any) -> Any:
        random.random()
        raise ValueError("mine")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="mine"):
            dyn.jit(fails)(np.zeros(3))
