"""Arguments whose names or equality are not what they seem: each call is what plain Python makes of it.

Every call is made three times: to compile, to make a plan for the native entry, and by that plan.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn

X = np.arange(3, dtype="f4")


def same_as_python(function: Callable[..., Any], calls: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> Any:
    """The jitted function, after each call three times, in turn and in reverse."""
    f = dyn.jit(function)
    for args, kwargs in [*calls, *calls[::-1]] * 3:
        expected = function(*args, **kwargs)
        found = f(*args, **kwargs)
        assert np.array_equal(np.array(found), np.array(expected)), (args, kwargs, found)
    return f


def test_a_keyword_with_the_name_of_a_positional_only_argument() -> None:
    def f(x: Any, /, **k: Any) -> Any:
        return x - k["x"]

    same_as_python(f, [((X,), {"x": 2.0}), ((X,), {"x": X * 3})])


def test_a_keyword_that_looks_like_one_of_args() -> None:
    def f(*args: Any, **k: Any) -> Any:
        return args[0] - k["args[0]"] + k["it's \"k['x']\""]

    same_as_python(f, [((X,), {"args[0]": X * 2, "it's \"k['x']\"": X * 7})])


def test_a_static_argument_and_a_keyword_of_its_name() -> None:
    def f(n: Any, /, **k: Any) -> Any:
        return k["n"] * len(str(n))

    jitted = dyn.jit(f, static_argnums=0)
    for n, factor in (("a", 1), ("abc", 3)):
        for _ in range(3):
            assert jitted(n, n=X).tolist() == (X * factor).tolist()


def test_the_name_of_such_a_keyword_in_errors() -> None:
    f = dyn.jit(lambda x, /, **k: x)
    with pytest.raises(dyn.errors.ArgumentError) as caught:
        f(X, x="text")
    assert str(caught.value) == (
        "<lambda>(): k['x'] is a str, which is not an array.\n"
        "  help: pass an array or a number, or name the argument in static_argnames=."
    )


def test_the_order_of_keywords_that_have_names_is_no_matter() -> None:
    f = dyn.jit(lambda *, a, b: a - b)
    for _ in range(2):
        assert f(b=X, a=X * 2).tolist() == f(a=X * 2, b=X).tolist() == X.tolist()
    assert f.cache_info().compiles == 1


@dataclasses.dataclass(frozen=True)
class Options:
    scale: Any
    note: Any = dataclasses.field(default="", compare=False)


@pytest.mark.parametrize(
    "values",
    [
        [0.0, -0.0],
        [complex(0.0, 0.0), complex(0.0, -0.0), complex(-0.0, 0.0)],
        [1, True, 1.0],
        [(1,), (True,), (1.0,)],
        [((0.0, "a"), 1), ((-0.0, "a"), 1), ((0, "a"), 1)],
        [frozenset([1]), frozenset([True]), frozenset([1.0])],
        [Options(0.0), Options(-0.0), Options(0), Options((False,)), Options((0,))],
        [np.float32(0), np.float32(-0.0), np.float64(0)],
    ],
    ids=["zeros", "complex", "numbers", "tuples", "nested", "sets", "dataclasses", "numpy"],
)
def test_static_arguments_that_are_equal_and_differ(values: list[Any]) -> None:
    f = dyn.jit(lambda x, s: x + len(repr(s)), static_argnames="s")
    for _ in range(3):
        for value in values:
            copy = pickle.loads(pickle.dumps(value))
            for given in (value, copy):
                assert f(X, given).tolist() == (X + len(repr(given))).tolist(), given
    assert f.cache_info().compiles == len(values)


def test_static_arguments_that_are_the_same() -> None:
    f = dyn.jit(lambda x, s: x, static_argnames="s")
    for value in (float("nan"), float("nan"), (1, "a"), (1, "".join("a")), Options(1, "x"), Options(1, "y")):
        for _ in range(3):
            f(X, value)
    assert f.cache_info().compiles == 3
