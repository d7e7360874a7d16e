"""Replays of calls: what they stop at, what they say of it, and that a debugger steps through them."""

from __future__ import annotations

import contextlib
import io
import pdb
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.ir.opdef import REGISTRY

Array = np.ndarray[Any, Any]


def softmax(x: Any) -> Any:
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
    return e / dnp.sum(e, axis=-1, keepdims=True)


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (3, 7)])
def test_the_result_is_that_of_a_call(shape: tuple[int, int]) -> None:
    f = dyn.jit(softmax)
    x = np.linspace(-2, 2, shape[0] * shape[1], dtype="f4").reshape(shape)
    replay = f.replay(x)
    assert replay.stop is None
    np.testing.assert_array_equal(replay.result, f(x))  # to the bit: each op rounds as it does in a kernel of many
    assert repr(replay) == f"replay of softmax at x_0 = {shape[0]}, x_1 = {shape[1]}: 9 operations, nothing found"
    assert f.cache_info().compiles == 1


def test_the_first_infinity_and_nan() -> None:
    def f(x: Any) -> Any:
        y = dnp.log(x)
        return (y * 0).sum()

    replay = dyn.jit(f).replay(np.array([1.0, 0.0, 2.0], "f4"))
    assert replay.stop is not None
    assert (replay.stop.cause, replay.stop.op, replay.stop.step) == ("infinity", "log", 1)
    assert str(replay).splitlines() == [
        "replay of f at x_0 = 3: stopped",
        "step 1, log: made the first infinity: 1 of the 3 elements of its result, float32[3], the first at [1]",
        "  at test_replay.py:40  y = dnp.log(x)",
        "  operand 0 is float32[3], from 0.0 to 2.0",
        "  step through it with .again(debugger=True)",
    ]
    np.testing.assert_array_equal(replay.stop.results[0], np.array([0, -np.inf, np.log(np.float32(2))], "f4"))
    assert replay.result is None
    again = replay.again(stop_at=("nan",))
    assert again.stop is not None
    assert (again.stop.cause, again.stop.op) == ("nan", "multiply")
    never = replay.again(stop_at=())
    assert never.stop is None
    assert np.isnan(never.result)
    with pytest.raises(dyn.errors.InvalidValueError) as error:
        replay.again(stop_at=("inf",))  # type: ignore[arg-type]
    assert str(error.value) == ("replay: stop_at has 'inf'.\n  help: it is some of 'nan', 'infinity', 'difference'.")


def test_loops_and_choices_are_stepped_into() -> None:
    def sums(x: Any) -> Any:
        def body(i: Any, total: Any) -> Any:
            return total + 1 / (x[i] - 3)

        return dyn.lax.cond(x[0] > 0, lambda: dyn.lax.fori_loop(0, x.shape[0], body, dnp.zeros((), "f4")), lambda: x[0])

    f = dyn.jit(sums)
    replay = f.replay(np.array([1, 2, 3, 4], "f4"))
    assert replay.stop is not None
    assert (replay.stop.cause, replay.stop.op) == ("infinity", "divide")
    assert replay.stop.loc.code == "return total + 1 / (x[i] - 3)"
    for x in (np.array([1, 2, 4], "f4"), np.array([-1.0], "f4")):
        np.testing.assert_array_equal(f.replay(x).result, f(x))


def test_sizes_that_a_program_finds_out() -> None:
    f = dyn.jit(lambda x: (x[x > 0] * 2, dnp.unique(x)))
    for x in (np.array([-1, 2, 2, 3], "f4"), np.zeros(0, "f4"), np.array([-1], "f4")):
        replay = f.replay(x)
        assert replay.stop is None
        for made, wanted in zip(replay.result, f(x), strict=True):
            np.testing.assert_array_equal(made, wanted)


def test_trees_captured_arrays_and_nested_functions() -> None:
    w = dyn.asarray(np.eye(3, dtype="f4"))
    inner = dyn.jit(lambda y: dnp.tanh(y @ w))
    f = dyn.jit(lambda tree, *, scale: {"out": inner(tree["x"]) * scale})
    given = {"x": np.ones((2, 3), "f4")}
    replay = f.replay(given, scale=2.0)
    assert replay.stop is None
    np.testing.assert_array_equal(replay.result["out"], f(given, scale=2.0)["out"])


@contextlib.contextmanager
def other_reference(name: str, function: Any) -> Iterator[None]:
    """An op is said to be another function: so its kernel is wrong."""
    opdef = REGISTRY[name]
    right = opdef.reference
    object.__setattr__(opdef, "reference", lambda *arrays, **attrs: function(*arrays))
    try:
        yield
    finally:
        object.__setattr__(opdef, "reference", right)


def test_a_wrong_kernel_is_found() -> None:
    f = dyn.jit(lambda x: dnp.tanh(x * 2).sum())
    x = np.array([0.0, 1.0], "f4")
    with other_reference("tanh", np.sin):
        replay = f.replay(x)
    assert replay.stop is not None
    assert (replay.stop.cause, replay.stop.op) == ("difference", "tanh")
    made, wanted = replay.stop.results[0][1], np.sin(np.float32(2))
    assert abs(made - np.tanh(np.float32(2))) < 1e-6
    assert replay.stop.text == (
        f"differs from the reference in 1 of the 2 elements, the first at [1]: {made!s}, and not {wanted!s}"
    )
    with other_reference("tanh", lambda x: np.tanh(x) * np.float32(1.001)):
        assert f.replay(x).stop is not None
        assert f.replay(x).again(tolerance=0.01).stop is None


def test_a_debugger_steps_through_it() -> None:
    f = dyn.jit(lambda x: dnp.log(x) + 1)
    out = io.StringIO()
    commands = "n\nn\np v1\nc\n"  # to the first op, past it, look, go on
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=out, skip=("dyn.*",), nosigint=True)
    replay = f.replay(np.array([1.0, 0.0], "f4")).again(debugger=debugger)
    text = out.getvalue()
    assert "-> v1 = op.log(0, x)  # f32[x_0]  test_replay.py" in text
    assert "step 1, log: made the first infinity" in text
    assert "array([  0., -inf], dtype=float32)" in text
    assert replay.stop is not None
    np.testing.assert_array_equal(replay.result, np.array([1, -np.inf], "f4"))


def test_a_debugger_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It steps into regions, and not into what computes the operations."""
    typed = io.StringIO("s\n" * 6 + "q\n")
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdin", typed)
    monkeypatch.setattr(sys, "stdout", shown)
    f = dyn.jit(lambda x: dyn.lax.fori_loop(0, 3, lambda i, c: dnp.sin(c) * 2, x))
    replay = f.replay(np.ones(2, "f4")).again(debugger=True)
    places = [line for line in shown.getvalue().splitlines() if line.startswith(("> ", "(Pdb) > "))]
    assert len(places) > 1
    assert all("<replay of lambda>" in place for place in places)
    assert (replay.is_left, replay.stop, replay.result) == (True, None, None)
    assert repr(replay) == f"replay of lambda at x_0 = 2: {replay.steps} operations, left in the debugger"
    assert sys.gettrace() is None


def test_values_are_forgotten_after_their_last_use() -> None:
    code = dyn.jit(lambda x: dnp.exp(dnp.sin(x))).replay(np.ones(2, "f4")).code
    assert [line.split("  #")[0] for line in code.splitlines()] == [
        "def lambda_(op, x):",
        "    v1 = op.sine(0, x)",
        "    v2 = op.exponential(1, v1); del v1",
        "    return (v2, )",
    ]


def test_the_text_is_short() -> None:
    replay = dyn.jit(lambda tree: sum(tree) * 2).replay([np.zeros((30, 30), "f4")] * 100)
    heading = ", ".join([f"tree_{n}_{axis} = 30" for n in range(6) for axis in (0, 1)])
    assert repr(replay) == f"replay of lambda at {heading}, 188 more sizes: {replay.steps} operations, nothing found"


def test_functions_outside_run_once_a_replay() -> None:
    calls: list[float] = []

    def noted(x: Any) -> Any:
        dyn.debug.callback(lambda a: calls.append(float(a.sum())), x)
        return x + 1

    dyn.jit(noted).replay(np.ones(3, "f4"))
    assert calls == [3.0]


def test_arguments_that_do_not_fit() -> None:
    f = dyn.jit(lambda x, y: x + y)
    with pytest.raises(dyn.errors.ArgumentError):
        f.replay(np.ones(3))
    with pytest.raises(dyn.errors.ArgumentError) as error:
        f.replay(dyn.ShapeDtypeStruct((3,), "float32"), np.ones(3))
    assert "has no elements" in str(error.value)
    with pytest.raises(dyn.errors.ShapeError):
        f.replay(np.ones(3), np.ones(2))
