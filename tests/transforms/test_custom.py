"""custom_vjp and custom_jvp: against JAX, in every transformation, under symbolic dims, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, DynError, TraceError, UnsupportedOpError

Array = Any
SIZES = (0, 1, 2, 7, 64, 1000)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def close(mine: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    if isinstance(mine, tuple | list):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            close(a, b, tolerance)
        return
    a, b = np.asarray(mine), np.asarray(theirs)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def text_of(kind: type[DynError], call: Callable[..., Any], *args: Any) -> str:
    """The error's text without its line, which is this file's."""
    with pytest.raises(kind) as caught:
        call(*args)
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))


# ---- against JAX, in every transformation ----------------------------------------------------------------------------


def doubled_slope(lib: Any, np_: Any) -> Any:
    """``sin(x) * y``, whose cotangent of x is made twice what it is, with residuals of many forms."""

    @lib.custom_vjp
    def f(x: Array, y: Array) -> Array:
        return np_.sin(x) * y

    def fwd(x: Array, y: Array) -> Any:
        return f(x, y), {"cos": np_.cos(x), "rest": (np_.sin(x), [y, None], 2)}

    def bwd(kept: Any, ct: Array) -> Any:
        sine, (y, _), factor = kept["rest"]
        return ct * kept["cos"] * y * factor, ct * sine

    f.defvjp(fwd, bwd)
    return f


def tripled_slope(lib: Any, np_: Any) -> Any:
    """``sin(x) * y``, whose tangent by x is made three times what it is."""

    @lib.custom_jvp
    def f(x: Array, y: Array) -> Array:
        return np_.sin(x) * y

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), 3 * np_.cos(x) * dx * y + np_.sin(x) * dy

    return f


#: What is done with a function of two vectors.
USES: dict[str, Callable[[Any, Any, Any], Callable[[Array, Array], Any]]] = {
    "the value": lambda lib, np_, f: f,
    "grad": lambda lib, np_, f: lib.grad(lambda x, y: np_.sum(f(x, y) ** 2), (0, 1)),
    "grad of grad": lambda lib, np_, f: lib.grad(
        lambda x, y: np_.sum(lib.grad(lambda x: np_.sum(f(x, y)))(x) ** 2), (0, 1)
    ),
    "value_and_grad of value_and_grad": lambda lib, np_, f: lib.grad(
        lambda x, y: sum(np_.sum(part) for part in lib.value_and_grad(lambda x: np_.sum(f(x, y)))(x))
    ),
    "vmap": lambda lib, np_, f: lib.vmap(f),
    "vmap of one": lambda lib, np_, f: lib.vmap(lambda x, y: f(x, np_.sum(y)), (0, None)),
    "vmap of grad": lambda lib, np_, f: lib.vmap(lib.grad(lambda x, y: f(x, y) * f(y, x), (0, 1))),
    "grad of vmap": lambda lib, np_, f: lib.grad(lambda x, y: np_.sum(lib.vmap(f, (0, None))(x, np_.sum(y))), (0, 1)),
    "grad of vmap of vmap": lambda lib, np_, f: lib.grad(
        lambda x, y: np_.sum(lib.vmap(lambda a: lib.vmap(lambda b: f(a, b))(y))(x) ** 2), (0, 1)
    ),
    "a scan": lambda lib, np_, f: lib.grad(
        lambda x, y: np_.sum(lib.lax.scan(lambda c, a: (f(c, a), f(a, c)), np_.sum(x), y)[1]), (0, 1)
    ),
    "a choice": lambda lib, np_, f: lib.grad(
        lambda x, y: np_.sum(lib.lax.cond(np_.sum(x) > 0, f, lambda x, y: f(y, x), x, y)), (0, 1)
    ),
    "a checkpoint": lambda lib, np_, f: lib.grad(
        lambda x, y: np_.sum(lib.checkpoint(lambda x: f(f(x, y), y))(x) ** 2), (0, 1)
    ),
    "grad of jit": lambda lib, np_, f: lib.grad(lambda x, y: np_.sum(lib.jit(f)(x, y)), (0, 1)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", [doubled_slope, tripled_slope])
def test_rules_go_through_every_transformation(make: Any, use: str, jax: ModuleType) -> None:
    mine = dyn.jit(USES[use](dyn, dnp, make(dyn, dnp)))
    theirs = USES[use](jax, jax.numpy, make(jax, jax.numpy))
    for size in SIZES if use == "grad" else (0, 1, 7):
        x, y = floats(size), floats(size, seed=1)
        close(mine(x, y), theirs(x, y))
    assert mine.cache_info().compiles == 1


def test_tangents_of_ones_own(jax: ModuleType) -> None:
    mine, theirs = tripled_slope(dyn, dnp), tripled_slope(jax, jax.numpy)
    x, y, dx, dy = (floats(5, seed=i) for i in range(4))
    close(dyn.jvp(mine, (x, y), (dx, dy)), jax.jvp(theirs, (x, y), (dx, dy)))
    close(dyn.hessian(lambda x: dnp.sum(mine(x, y)))(x), jax.jit(jax.hessian(lambda x: theirs(x, y).sum()))(x))
    push = dyn.jit(lambda x, dx: dyn.jvp(dyn.grad(lambda x: dnp.sum(mine(x, y))), (x,), (dx,)))
    close(push(x, dx), jax.jvp(jax.grad(lambda x: theirs(x, y).sum()), (x,), (dx,)))


def test_a_hessian_goes_through_the_rules() -> None:
    """Forward over backward: what is differentiated forward is the rules, which have derivatives both ways."""
    f = dyn.custom_vjp(lambda x: dnp.sum(x**3))
    f.defvjp(lambda x: (dnp.sum(x**3), x), lambda x, ct: (ct * x**2,))
    x = floats(4)
    close(dyn.hessian(f)(x), np.diag(2 * x))


def test_arguments_that_are_not_differentiated_by(jax: ModuleType) -> None:
    def make(lib: Any, np_: Any) -> Any:
        def apply(g: Any, x: Array, n: int) -> Array:
            return g(x) ** n

        f = lib.custom_vjp(apply, nondiff_argnums=(0, 2))
        f.defvjp(lambda g, x, n: (g(x) ** n, x), lambda g, n, x, ct: (ct * n * 10 * g(x),))
        j = lib.custom_jvp(apply, nondiff_argnums=(0, 2))
        j.defjvp(lambda g, n, p, t: (g(p[0]) ** n, t[0] * n * 10))
        return f, j

    mine, theirs = make(dyn, dnp), make(jax, jax.numpy)
    x = floats(3)
    for f, g in zip(mine, theirs, strict=True):
        close(
            dyn.grad(lambda x, f=f: dnp.sum(f(dnp.tanh, x, 3)))(x),
            jax.jit(jax.grad(lambda x, g=g: g(jax.numpy.tanh, x, 3).sum()))(x),
        )
        close(f(dnp.tanh, x, n=2), np.tanh(x) ** 2)


def test_arguments_by_name_and_defaults() -> None:
    @dyn.custom_jvp
    def f(x: Array, scale: Array = 2.0) -> Array:
        return x * scale

    f.defjvps(lambda t, result, x, scale: t * scale, None)
    x = floats(3)
    close(f(scale=np.float32(3), x=x), 3 * x)
    close(dyn.grad(lambda x: dnp.sum(f(x)))(x), np.full(3, 2, np.float32))
    close(dyn.grad(lambda s: dnp.sum(f(x, s)))(np.float32(5)), np.float32(0))


def test_a_rule_for_each_argument(jax: ModuleType) -> None:
    def make(lib: Any, np_: Any) -> Any:
        @lib.custom_jvp
        def f(x: Array, y: Array, z: Array) -> Array:
            return np_.exp(x) * y + z

        f.defjvps(lambda t, result, x, y, z: t * result, lambda t, result, x, y, z: 2 * t * np_.exp(x), None)
        return f

    mine, theirs = make(dyn, dnp), make(jax, jax.numpy)
    args = tuple(floats(4, seed=i) for i in range(3))
    close(
        dyn.grad(lambda *a: dnp.sum(mine(*a)), (0, 1, 2))(*args),
        jax.jit(jax.grad(lambda *a: theirs(*a).sum(), (0, 1, 2)))(*args),
    )


def test_trees_integers_and_zeros(jax: ModuleType) -> None:
    """Arguments and results are trees, some of their leaves integers; None stands for the cotangents of a subtree."""

    def make(lib: Any, np_: Any) -> Any:
        @lib.custom_vjp
        def f(params: Any, k: Array) -> Any:
            return {"out": params["w"] * params["b"], "k": k + 1}

        def bwd(kept: Any, ct: Any) -> Any:
            return {"w": ct["out"] * 3, "b": None, "more": (ct["out"], None)}, None

        f.defvjp(lambda params, k: (f(params, k), ()), bwd)
        return f

    mine, theirs = make(dyn, dnp), make(jax, jax.numpy)
    params = {"w": floats(3), "b": floats(3, seed=1), "more": (floats(3, seed=2), floats(2, seed=3))}
    k = np.arange(3)
    found = dyn.grad(lambda p: dnp.sum(mine(p, k)["out"]))(params)
    wanted = jax.jit(jax.grad(lambda p: theirs(p, k)["out"].sum()))(params)
    for name in ("w", "b", "more"):
        close(found[name], wanted[name])
    seen: list[Any] = []

    g = dyn.custom_vjp(lambda x, k: (x * 2, k))
    g.defvjp(
        lambda x, k: ((x * 2, k), None), lambda _, ct: seen.append((ct[1].dtype, ct[1].shape == (3,))) or (ct[0], k)
    )
    close(dyn.grad(lambda x: dnp.sum(g(x, k)[0]))(floats(3)), np.ones(3, np.float32))
    assert seen == [(np.int64, True)]


def test_a_gradient_that_is_clipped() -> None:
    """A cotangent that the function's own derivative would never be; bounds are no arrays, the size is a dimension."""

    def clip(low: float, high: float, x: Array) -> Array:
        return x

    clipped = dyn.custom_vjp(clip, nondiff_argnums=(0, 1))
    clipped.defvjp(
        lambda low, high, x: (x, x.shape[0]), lambda low, high, size, ct: (dnp.clip(ct, low, high) / (size + 1),)
    )
    f = dyn.jit(dyn.grad(lambda x: dnp.sum(clipped(-1.0, 1.0, x) ** 3)))
    for size in SIZES:
        x = floats(size)
        close(f(x), (np.clip(3 * x**2, -1, 1) / np.float32(size + 1)).astype(np.float32))
    assert f.cache_info().compiles == 1


def test_without_a_derivative_the_rules_are_not_run() -> None:
    calls: list[str] = []
    f = dyn.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: calls.append("fwd") or (x, None), lambda _, ct: calls.append("bwd") or (ct,))
    close(dyn.jit(dyn.vmap(f))(floats(3)), 2 * floats(3))
    assert calls == []
    dyn.grad(lambda x: dnp.sum(f(x)))(floats(3))
    assert calls == ["fwd", "bwd"]


def test_rules_close_over_what_the_function_may() -> None:
    """Tracers of the traces around it, arrays, and dims; they are no reason for another program."""
    table = floats(3, seed=3)

    def outer(x: Array, y: Array) -> Array:
        f = dyn.custom_vjp(lambda x: x * y)
        f.defvjp(lambda x: (x * y + 0 * table[0], None), lambda _, ct: (ct * y * 7 + table[0] * x.shape[0],))
        return dnp.sum(f(x))

    gradient = dyn.jit(dyn.grad(outer))
    for size in (1, 4):
        x, y = floats(size), floats(size, seed=1)
        close(gradient(x, y), 7 * y + table[0] * np.float32(size))
    assert gradient.cache_info().compiles == 1
    each = dyn.vmap(dyn.grad(lambda x, y: outer(x[None], y[None])), (0, 0))
    close(each(floats(4), floats(4, seed=1)), 7 * floats(4, seed=1) + table[0])


def test_methods() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def forward(self, x: Array) -> Array:
            return x * self.scale

        f = dyn.custom_vjp(forward, nondiff_argnums=(0,))
        f.defvjp(lambda self, x: (self.forward(x), None), lambda self, _, ct: (ct * self.scale * 10,))

    model = Model(2.0)
    close(dyn.grad(lambda x: dnp.sum(model.f(x)))(floats(3)), np.full(3, 20, np.float32))
    close(model.f(floats(3)), 2 * floats(3))


# ---- what they refuse ------------------------------------------------------------------------------------------------


def wrong(fwd: Any, bwd: Any) -> Callable[[], Any]:
    @dyn.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x["a"] * y

    f.defvjp(fwd, bwd)
    return lambda: dyn.grad(lambda x: dnp.sum(f(x, np.float32(2))))({"a": floats(3)})


def never(*args: Any) -> Any:
    raise AssertionError


def right_fwd(x: Any, y: Any) -> Any:
    return x["a"] * y, None


def test_rules_of_another_structure() -> None:
    assert text_of(TraceError, wrong(lambda x, y: x["a"], never)) == (
        "the forward rule of f returns a pair (result, residuals), and it returned a Tracer.\n"
        "  help: return (result, None) where nothing is kept."
    )
    assert text_of(TraceError, wrong(lambda x, y: ((x["a"], y), None), never)) == (
        "the forward rule of f gives another result than the function.\n"
        "  rule:     (*, *)\n"
        "  function: *\n"
        "  help: return a tree of the function's structure."
    )
    assert text_of(TraceError, wrong(lambda x, y: (x["a"] > 0, None), never)) == (
        "the forward rule of f gives i1[args_0_a_0] for the result, and what the function gives is f32[args_0_a_0].\n"
        "  help: convert it with .astype, or start from another value."
    )
    assert text_of(TraceError, wrong(right_fwd, lambda _, ct: {"a": ct})) == (
        "the backward rule of f gives cotangents of another structure than the arguments.\n"
        "  cotangents: {'a': *}\n"
        "  arguments:  ({'a': *}, *)\n"
        "  help: return a tuple with a cotangent for each argument that is not in nondiff_argnums, or None where it is "
        "zero."
    )
    assert text_of(TraceError, wrong(right_fwd, lambda _, ct: ({"b": ct}, ct))) == (
        "the backward rule of f gives cotangents of another structure than the arguments.\n"
        "  cotangents: ({'b': *}, *)\n"
        "  arguments:  ({'a': *}, *)\n"
        "  help: return a tuple with a cotangent for each argument that is not in nondiff_argnums, or None where it is "
        "zero."
    )
    assert text_of(TraceError, wrong(right_fwd, lambda _, ct: ({"a": dnp.sum(ct)}, None))) == (
        "the backward rule of f gives f32[] for the cotangent of args[0]['a'], and the argument is f32[args_0_a_0].\n"
        "  help: convert it with .astype, or start from another value."
    )


def test_tangents_of_another_structure() -> None:
    def attempt(rule: Any) -> str:
        f = dyn.custom_jvp(lambda x: (x, x))
        f.__name__ = "f"
        f.defjvp(rule)
        return text_of(TraceError, lambda: dyn.grad(lambda x: dnp.sum(f(x)[0]))(floats(3)))

    assert attempt(lambda p, t: p[0]) == (
        "the jvp rule of f returns a pair (result, tangent), and it returned a Tracer.\n"
        "  help: return (result, tangent)."
    )
    assert attempt(lambda p, t: ((p[0], p[0]), t[0])) == (
        "the jvp rule of f gives a tangent of another structure than the result.\n"
        "  tangent: *\n"
        "  result:  (*, *)\n"
        "  help: return a tree of the function's structure."
    )
    assert attempt(lambda p, t: (p[0], t[0])) == (
        "the jvp rule of f gives another result than the function.\n"
        "  rule:     *\n"
        "  function: (*, *)\n"
        "  help: return a tree of the function's structure."
    )


def test_by_what_it_closes_over_there_is_no_derivative() -> None:
    def f(x: Array, y: Array) -> Array:
        inner = dyn.custom_vjp(lambda x: x * y)
        inner.__name__ = "inner"
        inner.defvjp(lambda x: (x * y, None), lambda _, ct: (ct * y,))
        return dnp.sum(inner(x))

    def g(x: Array, y: Array) -> Array:
        inner = dyn.custom_jvp(lambda x: x * y)
        inner.__name__ = "inner"
        inner.defjvp(lambda p, t: (p[0] * y, t[0] * y))
        return dnp.sum(inner(x))

    x = np.float32(3)
    for function in (f, g):
        close(dyn.grad(function)(x, x), x)
        assert text_of(UnsupportedOpError, dyn.grad(function, 1), x, x) == (
            "inner closes over an array (f32[]) that is differentiated by, and its own derivative is by its arguments "
            "alone.\n"
            "  help: pass the array as an argument, or use dyn.stop_gradient of it."
        )
    assert "inner closes over" in text_of(UnsupportedOpError, lambda: dyn.jvp(lambda y: g(x, y), (x,), (x,)))


def test_no_rule_and_no_forward() -> None:
    f = dyn.custom_vjp(lambda x: x)
    f.__name__ = "f"
    assert text_of(ArgumentError, f, floats(2)) == (
        "dyn.custom_vjp(f) was called, and has no derivative yet.\n  help: call f.defvjp(fwd, bwd) first."
    )
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    assert text_of(UnsupportedOpError, dyn.jacfwd(f), floats(2)) == (
        "f has a derivative of its own that goes backward (dyn.custom_vjp), and forward it has none.\n"
        "  help: use grad, vjp or jacrev, or give the function a dyn.custom_jvp, which serves both."
    )
    j = dyn.custom_jvp(lambda x: x)
    j.__name__ = "j"
    assert text_of(ArgumentError, j, floats(2)) == (
        "dyn.custom_jvp(j) was called, and has no derivative yet.\n  help: call j.defjvp(jvp) first."
    )
    j.defjvps(None, None)
    assert text_of(ArgumentError, dyn.grad(lambda x: dnp.sum(j(x))), floats(2)) == (
        "dyn.custom_jvp(j): defjvps was given 2 rules, and the function 1 arguments.\n"
        "  help: give a rule, or None, for each argument."
    )


def test_arguments_that_are_not_there() -> None:
    f = dyn.custom_vjp(lambda x, n: x, nondiff_argnums=(2,))
    f.__name__ = "f"
    f.defvjp(lambda x, n: (x, None), lambda n, _, ct: (ct,))
    assert text_of(ArgumentError, f, floats(2), 3) == (
        "dyn.custom_vjp(f): nondiff_argnums=(2,), and the function was called with 2 arguments.\n"
        "  help: name arguments that are there."
    )
    assert text_of(ArgumentError, f, floats(2)) == "f(): missing a required argument: 'n'."
    assert text_of(ArgumentError, lambda: dyn.custom_vjp(lambda x: x, nondiff_argnames=("y",))) == (
        "dyn.custom_vjp(<lambda>): nondiff_argnames names 'y', which is no argument.\n  help: the arguments are x."
    )
    assert text_of(ArgumentError, lambda: dyn.custom_jvp(3)) == (  # pyright: ignore[reportArgumentType]  # refused
        "dyn.custom_jvp takes a function, not a int.\n  help: pass the function itself."
    )
    g = dyn.custom_jvp(lambda x, *, k: x)
    g.__name__ = "g"
    g.defjvps(None)
    assert text_of(ArgumentError, lambda: g(floats(2), k=1)) == (
        "dyn.custom_jvp(g): k cannot be passed by position.\n"
        "  help: let the function take its arguments by position: the rules are given them so."
    )
    assert text_of(ArgumentError, lambda: f.defvjp(lambda x: x, lambda x: x, symbolic_zeros=True)) == (
        "dyn.custom_vjp(f): symbolic_zeros=True is not for dyn.\n"
        "  help: leave it out: zeros are arrays to a rule, and cost nothing where it multiplies by them alone."
    )
