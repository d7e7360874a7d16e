"""Random numbers that are drawn while a function is traced: a warning says that they are constants."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.trace import random_draws

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
    monkeypatch.setattr(random_draws, "_is_alone", lambda: True)
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
    monkeypatch.setattr(random_draws, "_is_alone", lambda: False)
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


def test_threads_of_dyns_are_no_others() -> None:
    """In a new process the first call has the compiler imported by one."""
    program = """
import warnings, random, numpy as np, dyn
def noise(): return random.random()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    dyn.jit(lambda x: x + noise())(np.zeros(3))
print(len(told))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        assert not random_draws._is_alone()
    finally:
        stop.set()
        other.join()


def test_a_function_inside_another_tells_of_its_own_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_draws, "_is_alone", lambda: True)
    inner = dyn.jit(by_python)
    with pytest.warns(UserWarning, match="drew random numbers") as told:
        dyn.jit(lambda x: inner(x) + 1)(np.zeros(3))
    assert [str(one.message).partition("(")[0] for one in told] == ["by_python"]


def test_a_generator_of_an_object() -> None:
    class Noise:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)

        def add(self, x: Any) -> Any:
            return x + self.rng.normal()

    with pytest.warns(UserWarning, match=r"by self\.rng while it was traced"):
        dyn.jit(Noise().add)(np.zeros(3))


def test_a_fork_draws_nothing() -> None:
    """Python seeds its generator anew in the child, which the function does not see; the parent's draws are told."""
    program = """
import os, random, sys, warnings, numpy as np, dyn
def forks(x):
    children.append(os.fork())
    return x + 1
def draws(x):
    return forks(x) * random.random()
for function in forks, draws:
    children = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        dyn.jit(function)(np.zeros(3))
    if children == [0]:
        os._exit(len(told))
    print(len(told), os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "0 0\n1 0\n"


@pytest.mark.parametrize("names", [(), ("Generator",), ("Generator", "RandomState")])
def test_numpy_random_is_being_imported_by_another_thread(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module is in ``sys.modules`` before it has its names."""
    begun = types.ModuleType("numpy.random")
    for name in names:
        setattr(begun, name, getattr(np.random, name))
    monkeypatch.setitem(sys.modules, "numpy.random", begun)
    held = {"not": "a generator"}

    @dyn.jit
    def f(x):
        return x + len(held)

    assert f(np.zeros(2)).tolist() == [1.0, 1.0]
