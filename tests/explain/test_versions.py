"""Why a function was compiled once more, in words."""

from __future__ import annotations

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.explain.versions import ArgumentKey, MadeFor, why_new


def because(function) -> list[str]:
    return [report.because for report in function.explain().versions]


def test_each_difference_has_its_words() -> None:
    f = dyn.jit(lambda x, w, axis: dnp.sum(x * w, axis=axis), static_argnames="axis")
    one = np.ones((2, 3), "f4")
    f(one, one, axis=0)
    f(one.astype("f8"), one, axis=0)
    f(one, one[0], axis=0)
    f(one, 2.0, axis=0)
    f(one, one, axis=1)
    f(one.astype("f8"), one[0].astype("f8"), axis=0)
    with dyn.config.override(default_float="float64"):
        f(one, one, axis=1)
    assert because(f) == [
        "",
        "x is float64, and was float32 in program 1, the nearest",
        "w has 1 axis, and had 2 in program 1, the nearest",
        "w is a Python number (float64), and was float32 of 1 axis in program 3, the nearest",
        "axis = 1, and was 0 in program 1, the nearest",
        "w is float64 of 1 axis, and was float32 of 2 axes in program 2, the nearest",
        "the setting default_float is float64, and was float32 in program 5, the nearest",
    ]


def test_trees_and_missing_arguments() -> None:
    @dyn.jit
    def f(tree, *more):
        return sum(dnp.sum(leaf) for leaf in tree.values()) + sum(dnp.sum(m) for m in more)

    one = np.ones(2, "f4")
    f({"a": one})
    f({"a": one, "b": one})
    f({"a": one}, one)
    f({"a": one, "b": one}, one)
    assert because(f)[1] == "tree is {'a': *, 'b': *}, and was {'a': *} in program 1, the nearest"
    assert because(f)[2] == "more[0] is passed, and was not in program 1, the nearest"
    assert because(f)[3] == "tree is {'a': *, 'b': *}, and was {'a': *} in program 3, the nearest"


def test_a_broken_guard_names_the_line() -> None:
    @dyn.jit
    def f(x):
        if x.shape[0] > 128:
            return x * 2
        return x * 3

    f(np.ones(3, "f4"))
    f(np.ones(300, "f4"))
    line = f.__wrapped__.__code__.co_firstlineno + 2
    first, second = because(f)
    assert first == ""
    assert second == f"program 1 is for 128 >= x_0, and x_0 is 300 (test_versions.py:{line}  if x.shape[0] > 128:)"
    assert f"program 2 of 2, because {second}\n" in str(f.explain())


def test_the_nearest_of_equals_is_the_latest() -> None:
    made = [MadeFor((ArgumentKey("x", name, 1, False),), (("x", "*"),), (), ()) for name in ("int8", "int16", "int32")]
    assert why_new(made[2], made[:2], ["", ""]) == "x is int32, and was int16 in program 2, the nearest"


def test_no_program_is_no_reason() -> None:
    assert why_new(MadeFor((), (), (), ()), [], []) == ""


@pytest.mark.parametrize("count", [1, 3])
def test_stages_that_are_compiled_by_hand_are_not_in_the_way(count: int) -> None:
    f = dyn.jit(lambda x: x + 1)
    f.trace(np.ones(2, "f4")).lower().compile()
    for rank in range(count):
        f(np.ones((1,) * rank, "f4"))
    assert len(because(f)) == count
