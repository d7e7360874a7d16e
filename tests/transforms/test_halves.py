"""vjp and linearize outside of a trace: what the first program keeps, and the second one makes of it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError, ShapeError
from dyn.transforms import second_halves

Array = Any


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(mine: Any, theirs: Any) -> None:
    for a, b in zip(dyn.tree.leaves(mine), dyn.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)


def network(w: Array, x: Array) -> Any:
    """A loop, a mean whose divisor is a dim, a broadcast back to rows."""
    h, _ = lax.scan(lambda c, a: (dnp.tanh(c @ w + a), None), dnp.zeros((x.shape[1],), x.dtype), x)
    return {"y": dnp.sum(h) * dnp.exp(x), "m": dnp.mean(x, axis=1) * 2.5}


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 64])
def test_the_two_halves_are_the_whole(rows: int) -> None:
    w, x = floats(3, 3), floats(rows, 3, seed=1)
    ct = {"y": floats(rows, 3, seed=2), "m": floats(rows, seed=3)}
    result, pull = dyn.vjp(network, w, x)
    wanted = dyn.jit(lambda w, x, ct: (network(w, x), dyn.vjp(network, w, x)[1](ct)))(w, x, ct)
    close((result, pull(ct)), wanted)
    close(pull(dyn.tree.map(lambda v: 2 * v, ct)), dyn.tree.map(lambda v: 2 * v, wanted[1]))
    again, push = dyn.linearize(network, w, x)
    close((again, push(w, x)), dyn.jvp(network, (w, x), (w, x)))


def test_the_function_is_computed_once() -> None:
    calls: list[int] = []
    lax.register_custom_call("test.counted", lambda x: calls.append(x.size) or x**3)

    @dyn.custom_jvp
    def cube(x: Array) -> Array:
        return lax.custom_call("test.counted", dyn.ShapeDtypeStruct(x.shape, x.dtype), x)

    cube.defjvps(lambda t, result, x: 3 * x * x * t)

    def f(x: Array) -> Array:
        return dnp.sin(cube(x))

    for count, size in enumerate((4, 6), 1):
        x = floats(size)
        _, pull = dyn.vjp(f, x)
        for ct in (np.ones_like(x), x):
            close(pull(ct), (np.cos(x**3) * 3 * x * x * ct,))
        assert len(calls) == count


def test_what_was_kept_is_its_own() -> None:
    """An argument that is written to afterwards is what it was where the derivative was asked for."""
    x = floats(4)
    before = x.copy()
    _, pull = dyn.vjp(lambda x: x * x, x)
    x[:] = 7
    close(pull(np.ones(4, np.float32)), (2 * before,))


def test_no_dim_is_lost() -> None:
    """Nothing of the function is kept that has the size which the cotangent is spread to."""
    for size in (0, 1, 5):
        _, pull = dyn.vjp(lambda x, y: dnp.sum(x) + y, floats(size), np.float32(2))
        close(pull(np.float32(3)), (np.full(size, 3, np.float32), np.float32(3)))
    _, push = dyn.linearize(lambda x: dnp.zeros((x.shape[0] * 2, 3)), floats(4))
    assert push(floats(4)).shape == (8, 3)


def test_numbers_integers_and_more_that_comes_back() -> None:
    def f(x: Array, scale: Array, k: Array) -> Any:
        return dnp.sin(x) * scale, {"more": k + 1}

    x, k = floats(3), np.arange(3)
    result, pull, aux = dyn.vjp(f, x, 2.0, k, has_aux=True)
    close((result, aux), (np.sin(x) * 2, {"more": k + 1}))
    found = pull(np.ones(3, np.float32))
    close(found[:2], (np.cos(x) * 2, np.sin(x).sum()))
    assert found[2].dtype == np.int64
    close(found[2], np.zeros(3))
    result, push, aux = dyn.linearize(f, x, 2.0, k, has_aux=True)
    close(push(x, 0.0, k), np.cos(x) * 2 * x)


def test_pulled_inside_of_other_programs() -> None:
    x = floats(4)
    _, pull = dyn.vjp(dnp.sin, x)
    close(dyn.jit(lambda ct: pull(ct)[0] * 2)(x), 2 * np.cos(x) * x)
    close(dyn.vmap(lambda ct: pull(ct)[0])(floats(3, 4)), np.cos(x) * floats(3, 4))
    close(dyn.grad(lambda ct: dnp.sum(pull(ct)[0] ** 2))(x), 2 * np.cos(x) ** 2 * x)


def test_a_cotangent_of_another_size_is_refused() -> None:
    _, pull = dyn.vjp(dnp.sin, floats(4))
    with pytest.raises(ShapeError) as caught:
        pull(floats(3))
    assert "the cotangent of the result has its size on axis 0" in str(caught.value)


def test_a_function_that_is_differentiated_again_has_the_second_half_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    jit = second_halves.jit
    monkeypatch.setattr(second_halves, "jit", lambda function, **more: made.append(function) or jit(function, **more))
    monkeypatch.setattr(second_halves, "_HALVES", second_halves._Halves())
    for size, scale in ((3, 2.0), (3, 2.0), (5, 4.0), (0, 1.0)):
        x = floats(size)
        _, pull = dyn.vjp(lambda x: {"y": dnp.tanh(x) * scale}, x)  # noqa: B023 - it is called here
        close(pull({"y": x}), ((1 - np.tanh(x) ** 2) * scale * x,))
        _, push = dyn.linearize(lambda x: (dnp.sin(x),), x)
        close(push(x), (np.cos(x) * x,))
    assert len(made) == 2


def test_residuals_have_the_dims_that_the_first_half_found_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is demanded of them, and errors and texts call them what the first half does."""
    made: list[Any] = []
    jit = second_halves.jit
    monkeypatch.setattr(second_halves, "jit", lambda *given, **more: made.append(jit(*given, **more)) or made[-1])
    monkeypatch.setattr(second_halves, "_HALVES", second_halves._Halves())

    def f(x: Array, w: Array, n: Array) -> Array:
        for _ in range(4):
            x = dnp.tanh(x @ w) * 2
        flat = dnp.exp(dnp.reshape(x, (-1,)))  # its size is a product
        chosen = flat[dnp.nonzero(n)[0]]  # a size that only the first half finds out
        return dnp.sum(flat * flat) + dnp.sum(chosen**3)

    def of_numpy(x: Array, w: Array, n: Array) -> Array:
        for _ in range(4):
            x = np.tanh(x @ w) * 2
        flat = np.exp(x.reshape(-1))
        return np.sum(flat * flat) + np.sum(flat[np.nonzero(n)[0]] ** 3)

    for rows, width in ((3, 4), (1, 1), (0, 3), (5, 0), (2, 7)):
        x, w = floats(rows, width).astype(np.float64), floats(width, width, seed=1).astype(np.float64)
        n = np.arange(rows * width) % 2
        result, pull = dyn.vjp(f, x, w, n)
        close(result, of_numpy(x, w, n))
        by_x, by_w, _ = pull(np.float64(1))
        for given, found in ((x, by_x), (w, by_w)):
            for place in [(0, 0), (rows - 1, -1)] if given.size else []:
                steps = [0.0, 0.0]
                for number, step in enumerate((1e-6, -1e-6)):
                    old, given[place] = given[place], given[place] + step
                    steps[number] = of_numpy(x, w, n)
                    given[place] = old
                np.testing.assert_allclose(found[place], (steps[0] - steps[1]) / 2e-6, rtol=1e-4)
    (program,) = made
    function = program.programs[0].traced.function
    assert not any("has its size on axis" in relation.reason.text for relation in function.facts.relations)
    names = [symbol.name for symbol in function.symbols()]
    assert sorted(names) == ["args_0_0", "args_0_1", "args_1_0", "args_1_1", "args_2_0", "count"]


def test_sizes_of_residuals_may_be_any_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_halves, "_HALVES", second_halves._Halves())

    def f(x: Array) -> Array:
        n, m = x.shape
        longer = dnp.tanh(dnp.concatenate([dnp.reshape(x, (-1,)), x[0]]) * 2)  # n * m + m
        part = dnp.tanh(longer[: (n // 2) * (m // 3) + 1] * 3)
        return dnp.sum(longer * longer) + dnp.sum(part * part * part[:1])

    for n, m in ((4, 6), (1, 1), (5, 3)):
        x = floats(n, m)
        result, pull = dyn.vjp(f, x)
        close(result, dyn.jit(f)(x))
        close(pull(np.float32(1)), dyn.jit(lambda x: dyn.vjp(f, x)[1](np.float32(1)))(x))


def test_dims_of_one_name_are_not_one_dim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_halves, "_HALVES", second_halves._Halves())
    for sizes in ((2, 3, 4, 5), (1, 1, 0, 3), (4, 4, 4, 4)):
        a, b, c, d = [floats(size, seed=size) for size in sizes]

        def f(*xs: Array) -> Any:
            # Each has a size that is called the same.
            return sum([dnp.sum(dnp.tanh(x[dnp.nonzero(x > 0)[0]])) for x in xs])

        _, pull = dyn.vjp(f, a, b, c, d)
        close(pull(np.float32(1)), tuple([np.where(x > 0, 1 - np.tanh(x) ** 2, 0) for x in (a, b, c, d)]))


def test_second_halves_of_trees_that_differ_have_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree may hold anything: what is remembered of a half knows leaves alone."""
    monkeypatch.setattr(second_halves, "_HALVES", second_halves._Halves())
    x = floats(3)

    class Node:
        def __init__(self, value: Any, beside: Any) -> None:
            self.value, self.beside = value, beside

    class Beside:
        pass

    dyn.tree.register_pytree_node(Node, lambda n: ((n.value,), n.beside), lambda beside, c: Node(c[0], beside))
    beside = Beside()
    _, pull = dyn.vjp(lambda n: n.value * 2, Node(x, beside))
    (pulled,) = pull(x)
    assert pulled.beside is beside
    close(pulled.value, 2 * x)
    alive = weakref.ref(beside)
    del beside, pull, pulled
    gc.collect()
    assert alive() is None


def test_what_a_second_half_is_given_has_the_tree_that_it_is_for() -> None:
    x = floats(3)
    _, pull = dyn.vjp(lambda x: {"y": x * 2}, x)
    for _ in range(2):
        with pytest.raises(ArgumentError) as caught:
            pull({"z": x})
        assert (caught.value.problem, caught.value.remedy) == (
            "dyn.vjp(<lambda>): the cotangents are {'z': *}, and what they belong to is {'y': *}.",
            "pass a tree of cotangents of that structure.",
        )
        with pytest.raises(ArgumentError) as caught:
            pull({"y": "x"})
        assert str(caught.value) == (
            "pull(): tree[0] is a str, which is not an array.\n"
            "  help: pass an array or a number, or name the argument in static_argnames=."
        )
        close(pull({"y": x}), (2 * x,))


@pytest.mark.slow
def test_a_deep_network_has_a_pull_however_many_dims_it_keeps() -> None:
    layers = [(floats(8, 8, seed=i), floats(8, seed=100 + i)) for i in range(40)]

    def deep(params: Any, x: Array) -> Any:
        for w, b in params:
            x = dnp.tanh(x @ w + b)
        return dnp.mean(x)

    x = floats(3, 8)
    out, pull = dyn.vjp(deep, layers, x)
    wanted = dyn.jit(dyn.grad(deep, argnums=(0, 1)))(layers, x)
    close(pull(np.ones((), "f4")), wanted)
    close(out, dyn.jit(deep)(layers, x))
