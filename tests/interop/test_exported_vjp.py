"""Exported programs of dyn under JAX's derivatives: dyn's vjp, at every size, also after a round trip through bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import UnsupportedOpError

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from dyn.interop.jax import call, exported  # noqa: E402

S = dyn.ShapeDtypeStruct


def program(np: Any) -> Any:
    def f(x: Any, w: Any, k: Any) -> Any:
        y = np.tanh(x @ w)
        return y[:, ::2] + x[:, :1], np.argmax(y, axis=1) + k, (y * y).sum()

    return f


def loss(f: Any, k: Any) -> Any:
    def of(x: Any, w: Any) -> Any:
        some, _, total = f(x, w, k)
        return jnp.sin(some).sum() + total

    return of


def data(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((n, 4), np.float32), rng.standard_normal((4, n + 1), np.float32)
    return jnp.asarray(x), jnp.asarray(w)


def test_gradients_at_every_size_and_after_a_round_trip() -> None:
    traced = dyn.jit(program(dnp)).trace(S(("b", 4), "float32"), S((4, "s"), "float32"), S((), "int32"))
    once = exported(traced)
    assert once.has_vjp()
    pulled = once.vjp()
    assert [str(a) for a in pulled.in_avals[3:]] == ["float32[b,floordiv(s + 1, 2)]", "float0[b]", "float32[]"]
    assert [str(a) for a in pulled.out_avals] == ["float32[b,4]", "float32[4,s]", "float0[]"]
    again = jax.export.deserialize(once.serialize(vjp_order=1))
    k = jnp.int32(3)
    for n in (1, 2, 7, 64):
        wanted = jax.jit(jax.grad(loss(program(jnp), k), (0, 1)))(*data(n))
        for source in (once, again):
            made = jax.jit(jax.grad(loss(source.call, k), (0, 1)))(*data(n))
            for a, w in zip(made, wanted, strict=True):
                np.testing.assert_allclose(a, w, 1e-4, 1e-5)


def test_second_derivatives_and_one_result() -> None:
    cube = exported(dyn.jit(lambda x: x * x * x).lower(np.ones(3, np.float32)).compile())
    again = jax.export.deserialize(cube.serialize(vjp_order=2))
    for source in (cube, again):
        for n in (1, 4):
            x = jnp.arange(1.0, n + 1)
            slope = jax.grad(lambda x, f=source.call: f(x).sum())
            np.testing.assert_allclose(jax.grad(lambda x, s=slope: s(x).sum())(x), 6 * x, 1e-5)


def test_what_is_declared_and_what_is_closed_over() -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    f = dyn.jit(lambda x, tree: dnp.reshape(x, (-1, 2)) @ weights * tree["scale"], shapes="2*k")
    once = exported(f.trace(np.ones(4, np.float32), {"scale": np.ones((), np.float32)}))
    assert str(once.in_avals[0]) == "float32[2*k]"
    for n in (2, 6):
        x, scale = jnp.ones(n), jnp.float32(3.0)
        by_x, by_scale = jax.grad(lambda x, s: once.call(x, s).sum(), (0, 1))(x, scale)
        np.testing.assert_allclose(by_x, np.tile(3 * weights.sum(1), n // 2))
        np.testing.assert_allclose(by_scale, weights.sum() * n / 2)


def test_branches_go_as_they_went() -> None:
    f = dyn.jit(lambda x: x * 2 if x.shape[0] > 3 else x * x)
    once = exported(f.trace(np.ones(5, np.float32)))
    assert jax.grad(lambda x: once.call(x).sum())(jnp.ones(7)).tolist() == [2.0] * 7


def test_a_derivative_of_ones_own() -> None:
    @dyn.custom_vjp
    def bent(x: Any) -> Any:
        return dnp.sin(x)

    bent.defvjp(lambda x: (dnp.sin(x), x), lambda x, ct: (5 * x * ct,))
    once = exported(dyn.jit(bent.__call__).trace(S(("n",), "float32")))
    assert jax.grad(lambda x: once.call(x).sum())(jnp.arange(3.0)).tolist() == [0, 5, 10]


def test_no_derivative_is_said_when_it_is_asked_for() -> None:
    f = dyn.jit(lambda x: dyn.lax.while_loop(lambda c: c.sum() < 10, lambda c: c * 2, x))
    once = exported(f.trace(S(("n",), "float32")))
    assert once.call(jnp.ones(3)).tolist() == [4, 4, 4]
    with pytest.raises(UnsupportedOpError) as info:
        jax.grad(lambda x: once.call(x).sum())(jnp.ones(3))
    assert "while" in info.value.problem


def test_call_under_export_has_gradients_too() -> None:
    n = jax.export.symbolic_shape("n")
    ours = call(lambda x: dnp.sin(x) * x)
    once = jax.export.export(jax.jit(jax.grad(lambda x: ours(x).sum())))(jax.ShapeDtypeStruct(n, jnp.float32))
    x = jnp.arange(5.0)
    np.testing.assert_allclose(once.call(x), jax.grad(lambda x: (jnp.sin(x) * x).sum())(x), 1e-5)
