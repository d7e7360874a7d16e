"""grad, vjp, jvp and Jacobians: against JAX and against each other, under symbolic dims, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, LeakedTracerError, ShapeError

Array = Any
SIZES = (1, 2, 7, 64)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def tree_close(mine: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    if isinstance(mine, dict):
        assert sorted(mine) == sorted(theirs)
        for name in mine:
            tree_close(mine[name], theirs[name], tolerance)
    elif isinstance(mine, tuple | list):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            tree_close(a, b, tolerance)
    else:
        a, b = np.asarray(mine), np.asarray(theirs)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# ---- against JAX, at every size with one program ---------------------------------------------------------------------


def mlp(np_: Any, params: Any, x: Array, y: Array) -> Array:
    for layer in params[:-1]:
        x = np_.tanh(x @ layer["w"] + layer["b"])
    out = x @ params[-1]["w"] + params[-1]["b"]
    return np_.mean((out - y) ** 2)


def softmax_loss(np_: Any, x: Array, w: Array) -> Array:
    z = x @ w
    z = z - np_.max(z, axis=-1, keepdims=True)
    p = np_.exp(z) / np_.sum(np_.exp(z), axis=-1, keepdims=True)
    return -np_.sum(np_.log(p + 1e-6) * p) + np_.prod(1 + 0.1 * w, axis=0).sum()


def broadcasts(np_: Any, x: Array, row: Array, column: Array) -> Array:
    both = x * row + column / (1 + x**2)
    return np_.sum(np_.where(both > 0, both, np_.sqrt(np_.abs(both) + 1)) ** 1.5)


def views(np_: Any, x: Array) -> Array:
    turned = np_.transpose(np_.reshape(x, (x.shape[0] * x.shape[1], 1)), (1, 0))[:, ::-1]
    cut = np_.concatenate([turned[:, 1:], turned[:, :-1] * 2], axis=1)
    return np_.sum(np_.cos(cut) * np_.minimum(cut, 0.3)) + np_.sum(np_.einsum("ij,kj->ik", x, np_.maximum(x, 0)))


def roots(np_: Any, x: Array) -> Array:
    y = np_.sqrt(np_.abs(x) + 1)
    return np_.sum(np_.log1p(y) + np_.expm1(-y) + np_.arctan2(x, y) + np_.clip(x, -0.5, 0.5) + np_.cbrt(y))


CASES: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "mlp": (
        mlp,
        lambda n: (
            [{"w": floats(5, 7, seed=1), "b": floats(7)}, {"w": floats(7, 2, seed=2), "b": floats(2)}],
            floats(n, 5, seed=3),
            floats(n, 2, seed=4),
        ),
    ),
    "softmax": (softmax_loss, lambda n: (floats(n, 4), floats(4, n, seed=1))),
    "broadcasts": (broadcasts, lambda n: (floats(n, 3), floats(3, seed=1), floats(n, 1, seed=2))),
    "views": (views, lambda n: (floats(n, 3),)),
    "roots": (roots, lambda n: (floats(3, n),)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_jax(name: str, jax: ModuleType) -> None:
    body, make = CASES[name]
    count = len(make(1))
    mine = dyn.jit(dyn.value_and_grad(lambda *args: body(dnp, *args), argnums=tuple(range(count))))
    theirs = jax.jit(jax.value_and_grad(lambda *args: body(jax.numpy, *args), argnums=tuple(range(count))))
    for size in SIZES:
        args = make(size)
        tree_close(mine(*args), theirs(*args))
    assert mine.cache_info().compiles == 1


def test_nothing_at_all() -> None:
    """Sums over no rows: the gradients of what is shared are zeros."""
    step = dyn.jit(dyn.grad(lambda w, x: dnp.sum(dnp.tanh(x @ w)), argnums=(0, 1)))
    by_w, by_x = step(floats(3, 2), floats(0, 3))
    assert by_x.shape == (0, 3)
    np.testing.assert_array_equal(by_w, np.zeros((3, 2), np.float32))
    assert step(floats(3, 2), floats(4, 3))[1].shape == (4, 3)
    assert step.cache_info().compiles == 1


UNDECIDED = dyn.jit(dyn.grad(lambda a, b: dnp.sum(a * b * b), argnums=(0, 1)))


@pytest.mark.parametrize("sizes", [(4, 4), (4, 1), (1, 4), (1, 1), (0, 1), (1, 0), (0, 0)])
def test_an_undecided_broadcast(sizes: tuple[int, int]) -> None:
    a, b = floats(sizes[0]), floats(sizes[1], seed=1)
    by_a, by_b = UNDECIDED(a, b)
    wide_a, wide_b = np.broadcast_arrays(a, b)
    wanted_a, wanted_b = wide_b * wide_b, 2 * wide_a * wide_b
    np.testing.assert_allclose(by_a, wanted_a.sum(keepdims=True) if sizes[0] == 1 else wanted_a, rtol=1e-5)
    np.testing.assert_allclose(by_b, wanted_b.sum(keepdims=True) if sizes[1] == 1 else wanted_b, rtol=1e-5)
    assert UNDECIDED.cache_info().compiles == 1


# ---- transformations of transformations ------------------------------------------------------------------------------


def test_they_nest(jax: ModuleType) -> None:
    def f(np_: Any, x: Array) -> Array:
        return np_.sum(np_.sin(x) * np_.exp(-x * x))

    x = floats(6)
    mine, theirs = (lambda v: f(dnp, v)), (lambda v: f(jax.numpy, v))
    wanted = jax.jit(jax.hessian(theirs))(x)
    tree_close(dyn.hessian(mine)(x), wanted, 1e-4)
    tree_close(dyn.jacfwd(dyn.jacfwd(mine))(x), wanted, 1e-4)
    tree_close(dyn.jacrev(dyn.jacrev(mine))(x), wanted, 1e-4)
    third = dyn.jit(dyn.grad(lambda v: dnp.sum(dyn.grad(lambda w: dnp.sum(dyn.grad(mine)(w) ** 2))(v))))
    tree_close(
        third(x),
        jax.jit(jax.grad(lambda v: jax.grad(lambda w: (jax.grad(theirs)(w) ** 2).sum())(v).sum()))(x),
        1e-3,
    )
    inner = dyn.jit(mine)
    tree_close(dyn.grad(inner)(x), dyn.jit(dyn.grad(mine))(x))
    rows = floats(4, 6)
    tree_close(dyn.vmap(dyn.grad(dyn.jit(mine)))(rows), jax.jit(jax.vmap(jax.grad(theirs)))(rows))


def test_the_same_value_inside_and_outside() -> None:
    """The derivative is by the argument alone, wherever else its array is read."""

    def f(x: Array) -> Array:
        return dyn.grad(lambda y: dnp.sum(x * y * y))(x)

    x = floats(3)
    np.testing.assert_allclose(dyn.jit(f)(x), 2 * x * x, rtol=1e-6)
    np.testing.assert_allclose(dyn.jit(lambda x: dyn.grad(lambda a, b: dnp.sum(a * b), 0)(x, x))(x), x, rtol=1e-6)
    # Of the whole, the closure's share counts too.
    np.testing.assert_allclose(dyn.grad(lambda x: dnp.sum(f(x)))(x), 4 * x, rtol=1e-6)


def test_forward_and_backward_agree(jax: ModuleType) -> None:
    def f(np_: Any, x: Array, w: Array) -> tuple[Array, Array]:
        y = np_.tanh(x @ w)
        return y, np_.sum(y, axis=0)

    x, w, dx, dw = floats(4, 3), floats(3, 2, seed=1), floats(4, 3, seed=2), floats(3, 2, seed=3)
    tree_close(dyn.jvp(lambda *a: f(dnp, *a), (x, w), (dx, dw)), jax.jvp(lambda *a: f(jax.numpy, *a), (x, w), (dx, dw)))
    result, pull = dyn.vjp(lambda *a: f(dnp, *a), x, w)
    theirs, jax_pull = jax.vjp(lambda *a: f(jax.numpy, *a), x, w)
    tree_close(result, theirs)
    cts = (floats(4, 2, seed=4), floats(2, seed=5))
    tree_close(pull(cts), jax_pull(cts))
    result, push = dyn.linearize(lambda *a: f(dnp, *a), x, w)
    tree_close(push(dx, dw), jax.jvp(lambda *a: f(jax.numpy, *a), (x, w), (dx, dw))[1])

    @dyn.jit
    def inside(x: Array, w: Array, dx: Array, dw: Array, cts: Any) -> Any:
        y, pull = dyn.vjp(lambda *a: f(dnp, *a), x, w)
        z, push = dyn.linearize(lambda *a: f(dnp, *a), x, w)
        return y, pull(cts), z, push(dx, dw)

    mine = inside(x, w, dx, dw, cts)
    tree_close(mine[1], jax_pull(cts))
    tree_close(mine[3], jax.jvp(lambda *a: f(jax.numpy, *a), (x, w), (dx, dw))[1])


def test_jacobians_of_trees(jax: ModuleType) -> None:
    def f(np_: Any, p: Any, x: Array) -> Any:
        return {"a": np_.sin(p["w"] @ x), "b": np_.sum(p["c"] * x)}

    p, x = {"w": floats(2, 3), "c": floats(3, seed=1)}, floats(3, seed=2)
    for mine, theirs in ((dyn.jacfwd, jax.jacfwd), (dyn.jacrev, jax.jacrev)):
        tree_close(
            mine(lambda *a: f(dnp, *a), argnums=(0, 1))(p, x), theirs(lambda *a: f(jax.numpy, *a), argnums=(0, 1))(p, x)
        )


def test_complex_numbers(jax: ModuleType) -> None:
    z = (floats(3) + 1j * floats(3, seed=1)).astype(np.complex64)
    tree_close(dyn.grad(lambda z: dnp.sum(dnp.sin(z) * z), holomorphic=True)(z), np.sin(z) + z * np.cos(z), 1e-4)

    def real(np_: Any, x: Array) -> Array:
        w = np_.exp(x * 1j) * (x + 2j)
        return np_.sum(np_.abs(w) + np_.real(w * w) + np_.imag(np_.conj(w)))

    x = floats(4)
    tree_close(dyn.grad(lambda v: real(dnp, v))(x), jax.jit(jax.grad(lambda v: real(jax.numpy, v)))(x), 1e-4)


# ---- options ---------------------------------------------------------------------------------------------------------


def test_aux_numbers_and_stops() -> None:
    def f(x: Array, k: Any) -> Any:
        return dnp.sum(x**2) * k, {"twice": 2 * x, "name": None}

    x = floats(3)
    (value, aux), gradient = dyn.value_and_grad(f, has_aux=True)(x, 2.0)
    np.testing.assert_allclose(value, 2 * np.sum(x**2), rtol=1e-6)
    np.testing.assert_allclose(aux["twice"], 2 * x)
    assert aux["name"] is None
    np.testing.assert_allclose(gradient, 4 * x, rtol=1e-6)
    gradient, aux = dyn.grad(f, argnums=(0, 1), has_aux=True)(x, 2.0)
    np.testing.assert_allclose(gradient[1], np.sum(x**2), rtol=1e-6)
    assert gradient[1].dtype == np.float32
    assert dyn.grad(lambda v: v**3)(2.0) == 12
    stopped = dyn.grad(lambda v: dnp.sum(v * dyn.stop_gradient(v)))(x)
    np.testing.assert_allclose(stopped, x)
    np.testing.assert_array_equal(dyn.stop_gradient(x), x)
    gradient = dyn.grad(lambda v: dnp.sum(v["x"] * v["i"]), allow_int=True)({"x": x, "i": np.arange(3)})
    np.testing.assert_array_equal(gradient["i"], np.zeros(3, np.int64))


def test_methods_and_names() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = np.float32(3)

        def loss(self, x: Array) -> Array:
            return dnp.sum(x * x) * self.scale

    x = floats(3)
    np.testing.assert_allclose(dyn.grad(Model().loss)(x), 6 * x, rtol=1e-6)

    def f(x: Array) -> Array:
        return dnp.sum(x)

    assert dyn.grad(f).__name__ == "f"
    assert repr(dyn.grad(f)) == f"dyn.grad({f!r})"


def test_python_branches_still_make_guards() -> None:
    @dyn.jit
    @dyn.grad
    def f(x: Array) -> Array:
        return dnp.sum(x) if x.shape[0] > 3 else dnp.sum(x * x)

    np.testing.assert_allclose(f(floats(2)), 2 * floats(2))
    np.testing.assert_allclose(f(floats(5)), np.ones(5))
    assert f.cache_info().compiles == 2


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(kind: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value).splitlines()[0]


def test_errors_name_the_argument() -> None:
    def loss(p: Any, x: Array) -> Array:
        return dnp.sum(p["w"] * x)

    x = floats(3)
    assert refused(ArgumentError, lambda: dyn.grad(loss)({"w": np.arange(3)}, x)) == (
        "dyn.grad(loss): args[0]['w'] is int64, and a derivative by integers or booleans is not defined."
    )
    assert refused(ArgumentError, lambda: dyn.grad(loss, argnums=2)({"w": x}, x)) == (
        "dyn.grad(loss): argnums=2, and the function was called with 2 positional arguments."
    )

    def rows(x: Array) -> Array:
        return x * 2

    assert refused(ArgumentError, lambda: dyn.jit(dyn.grad(rows))(x)) == (
        "dyn.grad(rows): the function returns f32[x_0], and not a scalar."
    )

    def pair(x: Array) -> Any:
        return dnp.sum(x), dnp.sum(x)

    assert refused(ArgumentError, lambda: dyn.grad(pair)(x)) == (
        "dyn.grad(pair): the function returns (*, *), and not a scalar."
    )
    assert refused(ArgumentError, lambda: dyn.grad(rows, has_aux=True)(x)) == (
        "dyn.grad(rows): with has_aux=True the function returns a pair, and it returned a Tracer."
    )
    z = x.astype(np.complex64)
    assert refused(ArgumentError, lambda: dyn.grad(rows)(z)) == (
        "dyn.grad(rows): args[0] is complex64, and a derivative by complex numbers is defined for holomorphic "
        "functions."
    )
    assert refused(ArgumentError, lambda: dyn.grad(rows, holomorphic=True)(x)) == (
        "dyn.grad(rows): holomorphic=True takes complex arguments, and args[0] is float32."
    )
    assert refused(ArgumentError, lambda: dyn.grad(3)) == "dyn.grad takes a function, not a int."  # type: ignore[arg-type]


def test_cotangents_and_tangents_have_to_fit() -> None:
    def f(x: Array) -> Any:
        return {"y": x * 2}

    x = floats(3)
    _, pull = dyn.vjp(f, x)
    assert refused(ArgumentError, lambda: pull(x)) == (
        "dyn.vjp(f): the cotangents are *, and what they belong to is {'y': *}."
    )
    assert refused(ArgumentError, lambda: pull({"y": x.astype(np.float64)})) == (
        "dyn.vjp(f): the cotangent of the result['y'] is float64, and must be float32."
    )
    assert refused(ShapeError, lambda: pull({"y": floats(3, 1)})).startswith(
        "dyn.vjp(f): the cotangent of the result['y'] has 2 axes, and must have 1"
    )
    assert "the tangent of args[0] has its size on axis 0" in refused(
        ShapeError, lambda: dyn.jvp(f, (x,), (floats(4),))
    )
    assert refused(ArgumentError, lambda: dyn.jvp(f, x, (x,))) == (
        "dyn.jvp(f): primals is a ndarray, not a tuple of arguments."
    )


def test_a_leak_says_where_it_was_made() -> None:
    kept: list[Any] = []

    def f(x: Array) -> Array:
        y = x * 2
        kept.append(y)
        return dnp.sum(y)

    @dyn.jit
    def outer(x: Array) -> Array:
        gradient = dyn.grad(f)(x)
        return gradient + kept[0]

    with pytest.raises(LeakedTracerError) as error:
        outer(floats(3))
    text = str(error.value)
    assert "of a trace of 'dyn.grad(f)' is used outside that trace" in text
    assert "y = x * 2" in text
