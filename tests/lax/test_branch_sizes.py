"""Branches whose results have sizes that they find out inside: the result has the size of the branch that runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError, TraceError, UnsupportedOpError
from dyn.interop import stablehlo
from tests.canary import watched
from tests.numpy.differential import rendered

Array = Any
SIZES = (0, 1, 2, 7, 64, 1000)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


#: Branches of dyn and of NumPy, of an array.
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "masks": (lambda xp, x: x[x > 0], lambda xp, x: x[x < 0.5] * 2),
    "a_mask_and_all": (lambda xp, x: x[x > 0], lambda xp, x: x),
    "all_and_a_mask": (lambda xp, x: x + 1, lambda xp, x: x[x > 0]),
    "unique": (lambda xp, x: xp.unique(xp.floor(x)), lambda xp, x: xp.sort(x)),
    "a_mask_of_a_mask": (lambda xp, x: x[x > -0.5][x[x > -0.5] < 0.5], lambda xp, x: x[x > 9]),
    "computed_sizes": (lambda xp, x: xp.concat([x[x > 0], x]), lambda xp, x: xp.zeros(3, dtype="float64")),
    "two_axes": (lambda xp, x: x[x > 0][:, None] * x[x < 0], lambda xp, x: x[:, None] * x),
    "several_results": (lambda xp, x: (x[x > 0], xp.nonzero(x > 0)[0]), lambda xp, x: (x, xp.arange(x.shape[0]))),
    "one_of_one_size": (lambda xp, x: (xp.sum(x[x > 0]), x[x > 0]), lambda xp, x: (xp.sum(x), x[:0])),
}


@pytest.mark.parametrize("name", PAIRS)
def test_as_numpy(name: str) -> None:
    first, second = PAIRS[name]
    f = dyn.jit(lambda p, x: lax.cond(p, lambda v: first(dnp, v), lambda v: second(dnp, v), x))
    for n in SIZES:
        x = floats(n)
        for flag in (True, False):
            wanted = (first if flag else second)(np, x)
            made = f(flag, x)
            for a, b in zip(*[v if isinstance(v, tuple) else (v,) for v in (made, wanted)], strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b)
    assert f.cache_info().compiles == 1


def test_what_follows_computes_with_the_size() -> None:
    f = dyn.jit(lambda p, x: dnp.cumsum(lax.cond(p, lambda: x[x > 0], lambda: x)[::-1] * 2 + 1))
    for n in SIZES:
        x = floats(n)
        np.testing.assert_allclose(f(True, x), np.cumsum(x[x > 0][::-1] * 2 + 1))
        np.testing.assert_allclose(f(False, x), np.cumsum(x[::-1] * 2 + 1))


def test_switch_between_many() -> None:
    branches = [lambda xp, x: xp.unique(x), lambda xp, x: x[x > 1], lambda xp, x: x]
    f = dyn.jit(lambda i, x: lax.switch(i, [lambda v, b=b: b(dnp, v) for b in branches], x) + 1)
    for n in SIZES:
        x = np.floor(3 * floats(n))
        for i, number in ((-1, 0), (0, 0), (1, 1), (2, 2), (5, 2)):
            np.testing.assert_array_equal(f(np.int32(i), x), branches[number](np, x) + 1)
    assert f.cache_info().compiles == 1


def test_branches_in_branches_and_loops() -> None:
    def nested(x: Array, p: Any, q: Any) -> Array:
        return lax.cond(p, lambda v: lax.cond(q, lambda u: u[u > 1], lambda u: u[u > 0], v), lambda v: v, x)

    def loop(x: Array) -> Array:
        def body(i: Any, total: Array) -> Array:
            return total + dnp.sum(lax.cond(i > 2, lambda: x[x * 2 > i - 3], lambda: x))

        return lax.fori_loop(0, 5, body, 0.0)

    f, g = dyn.jit(nested), dyn.jit(loop)
    for n in SIZES:
        x = floats(n)
        for p in (True, False):
            for q in (True, False):
                np.testing.assert_array_equal(f(x, p, q), (x[x > 1] if q else x[x > 0]) if p else x)
        wanted = sum((x[x * 2 > i - 3] if i > 2 else x).sum() for i in range(5))
        np.testing.assert_allclose(g(x), wanted, atol=1e-9)


def test_derivatives() -> None:
    def loss(x: Array, p: Any) -> Array:
        return dnp.sum(lax.cond(p, lambda v: v[v > 0] ** 2, lambda v: v * 3, x) ** 2)

    gradient = dyn.jit(dyn.grad(loss))
    twice = dyn.jit(dyn.grad(lambda x, p: dnp.sum(dyn.grad(loss)(x, p) ** 2)))
    again = dyn.jit(dyn.grad(dyn.checkpoint(loss)))
    for n in SIZES:
        x = floats(n)
        for f in (gradient, again, dyn.grad(loss)):
            np.testing.assert_allclose(f(x, True), np.where(x > 0, 4 * x**3, 0))
            np.testing.assert_allclose(f(x, False), 18 * x)
        np.testing.assert_allclose(twice(x, True), np.where(x > 0, 2 * 4 * x**3 * 12 * x**2, 0))
        made = dyn.jvp(lambda v: loss(v, True), (x,), (x,))[1]
        np.testing.assert_allclose(made, np.sum(np.where(x > 0, 4 * x**3, 0) * x))


def test_at_every_edge_of_memory() -> None:
    with watched():
        f = dyn.jit(lambda p, x: lax.cond(p, lambda v: v[v > 0], lambda v: v * 2, x))
        for n in SIZES:
            x = floats(n)
            for flag in (True, False):
                np.testing.assert_array_equal(f(flag, x), x[x > 0] if flag else x * 2)


def test_by_many_threads_of_many_elements() -> None:
    f = dyn.jit(lambda p, x: lax.cond(p, lambda v: v[v > 0], lambda v: v[v > 1] * 2, x))
    x = floats(1_000_000)
    np.testing.assert_array_equal(f(True, x), x[x > 0])
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for i in range(40):
                own = x[: i * 7]
                np.testing.assert_array_equal(f(bool(i % 2), own), own[own > 0] if i % 2 else own[own > 1] * 2)
        except BaseException as error:  # of the thread's, for the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert f.cache_info().compiles == 1


def test_through_stablehlo() -> None:
    f = dyn.jit(lambda p, x: lax.cond(p, lambda v: v[v > 0], lambda v: v[v > 1] * 2, x))
    specs = dyn.ShapeDtypeStruct((), "bool"), dyn.ShapeDtypeStruct(("n",), "float64")
    again = stablehlo.load(f.trace(*specs).lower().as_text(dialect="stablehlo"))
    for n in SIZES:
        x = floats(n)
        np.testing.assert_array_equal(again(np.asarray(True), x), x[x > 0])
        np.testing.assert_array_equal(again(np.asarray(False), x), x[x > 1] * 2)


# ---- what is demanded and refused ------------------------------------------------------------------------------------


def test_sizes_that_are_known_before_have_to_agree() -> None:
    """As in JAX: only what a branch finds out itself may be another size than in the other branch."""
    f = dyn.jit(lambda p, x, y: lax.cond(p, lambda: x, lambda: y))
    np.testing.assert_array_equal(f(False, np.ones(3), np.zeros(3)), np.zeros(3))
    with pytest.raises(ShapeError, match="branch 1 of cond gives the result with the size 4 on axis 0, where that of"):
        f(False, np.ones(3), np.zeros(4))


def test_what_a_branch_demands_is_checked_where_it_runs() -> None:
    f = dyn.jit(lambda p, x, y: lax.cond(p, lambda: x[x > 0] + y, lambda: y))
    x = np.array([1.0, -1, 2])
    np.testing.assert_array_equal(f(True, x, np.ones(2)), [2, 3])
    np.testing.assert_array_equal(f(False, x, np.ones(5)), np.ones(5))
    with pytest.raises(ShapeError, match="count broadcasts with y_0 is required, but count is 2 and y_0 is 5"):
        f(True, x, np.ones(5))


def test_numbers_of_axes_have_to_agree() -> None:
    with pytest.raises(TraceError, match=r"branch 1 of cond gives f64\[.*\] for the result, and that of another"):
        dyn.jit(lambda p, x: lax.cond(p, lambda v: v[v > 0], lambda v: v[:, None], x))(True, np.ones(3))


def test_effects_happen_once() -> None:
    seen: list[Array] = []

    def branch(v: Array) -> Array:
        dyn.debug.callback(lambda v: seen.append(np.array(v)), v)
        return v[v > 0]

    f = dyn.jit(lambda p, x: lax.cond(p, branch, lambda v: v, x))
    x = np.array([1.0, -1, 2])
    np.testing.assert_array_equal(f(True, x), [1, 2])
    np.testing.assert_array_equal(f(False, x), x)
    assert len(seen) == 1


def test_a_size_that_follows_from_a_call_with_effects() -> None:
    def branch(v: Array) -> Array:
        mask = dyn.io_callback(lambda v: v > 0, dyn.ShapeDtypeStruct(v.shape, "bool"), v)
        return v[mask]

    with pytest.raises(UnsupportedOpError) as caught:
        dyn.jit(lambda p, x: lax.cond(p, branch, lambda v: v, x))(True, np.ones(3))
    assert rendered(caught.value) == (
        "custom_call: what a callback with effects gives is needed by the sizes of what a branch gives, which are "
        "found out before the branch is run, and it is not called twice.\n"
        "  at <the line>\n"
        "  help: make the call outside of loops, branches and checkpoints, and pass in what it gives; or use "
        "dyn.pure_callback."
    )


def test_vmap_over_the_choice() -> None:
    with pytest.raises(UnsupportedOpError, match="vmap: measure: a size that depends on values would be"):
        dyn.vmap(lambda v: dnp.sum(lax.cond(v[0] > 0, lambda u: u[u > 0], lambda u: u, v)))(np.ones((3, 4)))


def test_arrays_of_two_lengths_that_are_closed_over() -> None:
    """Outside of a trace, as in a jitted function, to which their sizes are numbers."""
    for n, m in ((5, 5), (5, 4), (0, 3), (4, 4)):
        x, y = floats(n), floats(m, seed=1)

        def choice(p: Any, x: Array = x, y: Array = y) -> Array:
            return lax.cond(p, lambda: dnp.exp(x), lambda: dnp.exp(y))

        def other(i: Any, x: Array = x, y: Array = y) -> Array:
            return lax.switch(i, [lambda v: v * x, lambda v: y[:, None] * v, lambda v: v * x[::2]][::2], 2.0)

        for call in (choice, dyn.jit(choice)):
            np.testing.assert_allclose(call(True), np.exp(x))
            np.testing.assert_allclose(call(False), np.exp(y))
        for call in (other, dyn.jit(other)):
            np.testing.assert_allclose(call(0), x * 2)
            np.testing.assert_allclose(call(1), x[::2] * 2)


def test_an_argument_and_an_array_that_is_closed_over_have_one_length() -> None:
    x, y = floats(5), floats(4)

    def choice(p: Any, v: Array) -> Array:
        return lax.cond(p, lambda v: v * 2, lambda v: dnp.exp(y), v)

    for call, symbols in (
        (choice, ["args_1_0 is args[1].shape[0] = 5", "captured0_0 is captured0.shape[0] = 4"]),
        (dyn.jit(choice), ["v_0 is v.shape[0] = 5"]),
    ):
        np.testing.assert_allclose(call(True, x), x * 2)
        with pytest.raises(ShapeError) as caught:
            call(False, x)
        problem = "branch 1 of cond gives the result with the size 4 on axis 0, where that of another branch has 5."
        lines = [line for line in str(caught.value).splitlines() if not line.startswith("  at ")]
        assert lines == [problem, *[f"  {one}" for one in symbols], "  help: pass arguments whose shapes satisfy it."]
