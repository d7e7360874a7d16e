"""vjp and linearize outside of a trace: what the first program keeps, and the second one makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError

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
