"""Functions of users outside of jit: their Python runs at each call; their code is found by what was traced."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.specialize.shared_code import CODES
from tests.threads import in_threads

X = np.arange(1, 6, dtype=np.float32)
SCALE = 2.0


def compiled(run: Callable[[], Any]) -> int:
    """How many programs are compiled, or found elsewhere than in memory, by ``run``."""
    before = CODES.info().programs
    run()
    return CODES.info().programs - before


class Model:
    def __init__(self, scale: Any) -> None:
        self.scale, self.table = scale, {"w": scale}

    def loss(self, x: Any) -> Any:
        return dnp.sum(x * self.scale)

    def looked_up(self, x: Any) -> Any:
        return dnp.sum(x * self.table["w"])


def test_what_changed_is_seen() -> None:
    scale = 2.0
    gradient = dyn.grad(lambda x: dnp.sum(x * scale))
    assert gradient(X)[0] == 2
    scale = 3.0
    assert gradient(X)[0] == 3
    assert dyn.grad(lambda x: dnp.sum(x * scale))(X)[0] == 3


def test_globals_attributes_and_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(2.0)
    functions = {
        "attribute": dyn.grad(model.loss), "entry": dyn.grad(model.looked_up),
        "global": dyn.grad(lambda x: dnp.sum(x * SCALE)),
    }  # fmt: skip
    for function in functions.values():
        assert function(X)[0] == 2
    model.scale = model.table["w"] = 5.0
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    for name, function in functions.items():
        assert function(X)[0] == 5, name


@pytest.mark.parametrize("kind", ["vmap", "scan", "cond", "while_loop", "fori_loop", "map", "checkpoint", "vectorize",
                                  "piecewise", "apply_along_axis", "associative_scan", "reduce"])  # fmt: skip
def test_every_way_to_hand_in_a_function_runs_it(kind: str) -> None:
    box = [1.0]

    def of(x: Any) -> Any:
        return x * box[0]

    def run() -> Any:
        match kind:
            case "vmap":
                return dyn.vmap(of)(X)
            case "scan":
                return lax.scan(lambda c, x: (c, of(x)), 0.0, X)[1]
            case "cond":
                return lax.cond(True, of, lambda x: x, X)
            case "while_loop":
                return lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, of(c[1])), (0, X))[1]
            case "fori_loop":
                return lax.fori_loop(0, 1, lambda i, x: of(x), X)
            case "map":
                return lax.map(of, X)
            case "checkpoint":
                return dyn.checkpoint(of)(X)
            case "vectorize":
                return dnp.vectorize(of)(X)
            case "piecewise":
                return dnp.piecewise(X, [X > 0], [of])
            case "apply_along_axis":
                return dnp.apply_along_axis(of, 0, X)
            case "associative_scan":
                return lax.associative_scan(lambda a, b: b * box[0] + 0 * a, X) / np.array([1, *[box[0]] * 4]) * box[0]
            case _:
                return lax.reduce(np.ones(3, "f4"), np.float32(1), lambda a, b: a * b * box[0], (0,)) ** (1 / 3) * X

    for value in (1.0, 3.0, 7.0):
        box[0] = value
        np.testing.assert_allclose(run(), X * value, rtol=1e-5)


def test_random_draws_of_numpy_are_new_each_time() -> None:
    rng = np.random.default_rng(0)
    noisy = dyn.grad(lambda x: dnp.sum(x * rng.standard_normal(5).astype("f4")))
    assert not np.array_equal(noisy(X), noisy(X))


def test_new_values_and_sizes_of_what_is_closed_over_need_no_program() -> None:
    def steps(values: list[Any]) -> None:
        for value in values:
            dyn.grad(lambda x: dnp.sum(dnp.tanh(x * value)))(X)  # noqa: B023  # called at once

    assert compiled(lambda: steps([0.125, 0.375, 7.5, -1.25])) <= 1
    assert compiled(lambda: steps([np.float32(v) for v in (0.125, 0.375)])) <= 1
    assert compiled(lambda: steps([np.full(5, v, "f4") for v in (1, 2)])) <= 1

    def products() -> None:
        for n in (3, 4, 0, 1, 64):
            w, v = np.ones((n, n), "f4"), np.ones(n, "f4")
            result = dyn.grad(lambda v: dnp.sum(dnp.matmul(w, v)))(v)  # noqa: B023
            np.testing.assert_array_equal(result, np.full(n, n))

    assert compiled(products) <= 1


def test_functions_that_do_the_same_share_code_whatever_they_are_called() -> None:
    first = dyn.grad(lambda alpha: dnp.sum(dnp.sinh(alpha) * alpha))
    second = dyn.grad(lambda beta: dnp.sum(dnp.sinh(beta) * beta))
    first(X)
    assert compiled(lambda: second(X)) == 0


def test_errors_name_the_line_of_this_call() -> None:
    def failing(x: Any) -> Any:
        return dnp.sum(x + np.ones(7, "f4"))

    for _ in range(2):
        with pytest.raises(dyn.errors.ShapeError, match=r"x \+ np\.ones\(7"):
            dyn.grad(failing)(np.ones(3, "f4"))


def test_what_functions_close_over_dies_with_them() -> None:
    class Held(np.ndarray):
        pass

    def use() -> Any:
        w = np.ones((64, 64), "f4").view(Held)
        dyn.grad(lambda v: dnp.sum(dnp.matmul(w, v)))(np.ones(64, "f4"))
        dyn.vmap(lambda v: dnp.matmul(w, v))(np.ones((2, 64), "f4"))
        lax.scan(lambda c, x: (c, dnp.matmul(w, x)), 0.0, np.ones((2, 64), "f4"))
        return weakref.ref(w)

    held = [use() for _ in range(3)]
    gc.collect()
    assert [ref() is None for ref in held] == [True] * 3


def test_a_pull_runs_no_code_of_the_user_and_compiles_once() -> None:
    runs: list[int] = []

    def f(x: Any) -> Any:
        runs.append(1)
        return dnp.sin(x) * x

    _, pull = dyn.vjp(f, X)
    assert len(runs) == 1
    first = pull(np.ones(5, "f4"))
    assert compiled(lambda: pull(np.full(5, 2, "f4"))) == 0
    np.testing.assert_allclose(pull(np.full(5, 2, "f4"))[0], 2 * first[0], rtol=1e-6)
    assert len(runs) == 1
    _, again = dyn.vjp(f, X + 1)
    assert compiled(lambda: again(np.ones(5, "f4"))) == 0


def test_many_threads_trace_and_one_compiles() -> None:
    results: list[Any] = []

    def run(number: int) -> Any:
        return dyn.grad(lambda x: dnp.sum(dnp.cosh(x) * number * 0.75))(X)

    assert compiled(lambda: results.extend(in_threads(run, range(8)))) <= 1
    for number, result in enumerate(results):
        np.testing.assert_allclose(result, np.sinh(X) * number * 0.75, rtol=1e-5, atol=1e-6)


def test_one_traces_while_another_does() -> None:
    """No lock is held while code of users runs: one may wait for another that is traced."""
    inside, go_on = threading.Event(), threading.Event()

    def waits(x: Any) -> Any:
        inside.set()
        assert go_on.wait(60)
        return x * 2

    slow = dyn.jit(waits)
    thread = threading.Thread(target=lambda: slow(X))
    thread.start()
    assert inside.wait(60)
    np.testing.assert_array_equal(dyn.jit(lambda x: x + 1)(X), X + 1)
    np.testing.assert_array_equal(dyn.grad(lambda x: dnp.sum(x * x))(X), 2 * X)
    go_on.set()
    thread.join()
    np.testing.assert_array_equal(slow(X), 2 * X)
    assert slow.cache_info().compiles == 1


def test_integers_that_do_not_fit_are_errors_for_every_value() -> None:
    small = np.zeros(3, np.uint8)
    with pytest.raises(dyn.errors.UnsupportedOpError, match="300 does not fit in uint8"):
        dyn.vmap(lambda x: x + 300)(small)
    for value in (200, 300, 201, 70000):
        if value < 256:
            np.testing.assert_array_equal(dyn.vmap(lambda x: x + value)(small), np.full(3, value))  # noqa: B023
        else:
            with pytest.raises(dyn.errors.UnsupportedOpError, match=f"{value} does not fit in uint8"):
                dyn.vmap(lambda x: x + value)(small)  # noqa: B023
