"""checkpoint: the same numbers as without, less memory, and what the policies keep."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import checkpoint_policies as policies
from dyn import lax
from dyn.errors import ArgumentError, ShapeError
from dyn.shapes import evaluate, free_symbols

Array = Any
BLOCKS, WIDTH = 12, 64
POLICIES: dict[str, policies.Policy | None] = {
    "none": None,
    "nothing": policies.nothing_saveable,
    "everything": policies.everything_saveable,
    "dots": policies.dots_saveable,
    "dots without batches": policies.dots_with_no_batch_dims_saveable,
    "only these": policies.save_only_these_names("hidden"),
    "any but these": policies.save_any_names_but_these("hidden"),
    "all but these": policies.save_anything_except_these_names("hidden"),
}


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(mine: Any, theirs: Any, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=tolerance, atol=tolerance)


def block(params: Any, x: Array) -> Array:
    h = dyn.checkpoint_name(dnp.tanh(x @ params["a"]), "hidden")
    return x + dnp.tanh(h @ params["b"]) @ params["c"]


def loss(wrap: Callable[[Any], Any]) -> Callable[[Any, Array], Array]:
    def f(params: Any, x: Array) -> Array:
        for own in params:
            x = wrap(block)(own, x)
        return dnp.sum(x * x)

    return f


def weights(blocks: int) -> list[dict[str, Array]]:
    return [{name: floats(WIDTH, WIDTH, seed=3 * i + j) * 0.1 for j, name in enumerate("abc")} for i in range(blocks)]


def bytes_of(function: Any, blocks: int, rows: int) -> int:
    """What a gradient keeps in memory beside its arguments and results, for so many rows."""
    shapes = [{name: dyn.ShapeDtypeStruct((WIDTH, WIDTH), "float32") for name in "abc"} for _ in range(blocks)]
    compiled = dyn.jit(function).lower(shapes, dyn.ShapeDtypeStruct(("n", WIDTH), "float32")).compile()
    arena: Any = compiled.version.optimized.host.arena
    assert compiled.memory_analysis() == dyn.shapes.format_dim(arena)
    (symbol,) = free_symbols(arena)
    return evaluate(arena, {symbol: rows})


def with_policy(policy: policies.Policy | None) -> Callable[[Any], Any]:
    return lambda f: dyn.checkpoint(f, policy=policy)


def test_memory_of_twelve_blocks() -> None:
    """Without, each block keeps three arrays for its derivative, from which others are computed again; with, its
    argument alone."""
    row = 4 * WIDTH
    plain = bytes_of(dyn.grad(loss(lambda f: f)), BLOCKS, 1000)
    saved = {name: bytes_of(dyn.grad(loss(with_policy(p))), BLOCKS, 1000) for name, p in POLICIES.items()}
    merged = bytes_of(dyn.grad(loss(lambda f: dyn.checkpoint(f, prevent_cse=False))), BLOCKS, 1000)
    assert BLOCKS * 3 * row * 1000 <= plain <= (3 * BLOCKS + 4) * row * 1000
    assert saved["none"] == saved["nothing"] == saved["any but these"]
    assert saved["nothing"] <= (BLOCKS + 10) * row * 1000
    assert saved["everything"] == plain
    assert saved["nothing"] < saved["only these"] < saved["everything"]
    assert saved["nothing"] < saved["dots"] == saved["dots without batches"] <= (3 * BLOCKS + 4) * row * 1000
    assert saved["only these"] <= (2 * BLOCKS + 10) * row * 1000
    assert merged == plain


@pytest.mark.parametrize("name", POLICIES)
def test_the_derivatives_are_the_same(name: str) -> None:
    wanted = dyn.jit(dyn.value_and_grad(loss(lambda f: f), (0, 1)))
    found = dyn.jit(dyn.value_and_grad(loss(with_policy(POLICIES[name])), (0, 1)))
    params = weights(2)
    for rows in (0, 1, 2, 7, 64, 1000):
        x = floats(rows, WIDTH, seed=9)
        (a, (p, dx)), (b, (q, dy)) = found(params, x), wanted(params, x)
        close(a, b)
        close(dx, dy)
        for mine, theirs in zip(p, q, strict=True):
            for key in "abc":
                close(mine[key], theirs[key], 1e-3)
    assert found.cache_info().compiles == 1


def attention(np_: Any, x: Array, w: Array) -> Array:
    q = x @ w
    scores = np_.einsum("bnd,bmd->bnm", q, x)
    return np_.tanh(np_.einsum("bnm,bmd->bnd", np_.tanh(scores), x)) * 0.5 + x


USES: dict[str, Callable[[Any, Any, Any], Callable[[Array, Array], Any]]] = {
    "grad": lambda lib, np_, f: lib.grad(lambda x, w: np_.sum(f(x, w)), (0, 1)),
    "nested": lambda lib, np_, f: lib.grad(lambda x, w: np_.sum(lib.checkpoint(lambda x: f(f(x, w), w))(x)), (0, 1)),
    "grad of grad": lambda lib, np_, f: lib.grad(
        lambda x, w: np_.sum(lib.grad(lambda x: np_.sum(f(x, w)))(x) ** 2), (0, 1)
    ),
    "jvp": lambda lib, np_, f: lambda x, w: lib.jvp(f, (x, w), (x, w)),
    "grad of jvp": lambda lib, np_, f: lib.grad(lambda x, w: np_.sum(lib.jvp(f, (x, w), (x, w))[1]), (0, 1)),
    "vmap of grad": lambda lib, np_, f: lib.vmap(lib.grad(lambda x, w: np_.sum(f(x[None], w)), (0, 1)), (0, None)),
    "grad of vmap": lambda lib, np_, f: lib.grad(lambda x, w: np_.sum(lib.vmap(lambda x: f(x[None], w))(x)), (0, 1)),
    "a scan": lambda lib, np_, f: lib.grad(
        lambda x, w: np_.sum(lib.lax.scan(lambda c, _: (f(c, w), c), x, None, length=3)[0]), (0, 1)
    ),
    "a value": lambda lib, np_, f: f,
}


@pytest.mark.parametrize("use", USES)
def test_against_jax(use: str) -> None:
    jax: ModuleType = pytest.importorskip("jax")
    policy = policies.dots_with_no_batch_dims_saveable
    f = dyn.checkpoint(lambda x, w: attention(dnp, x, w), policy=policy)
    g = jax.checkpoint(
        lambda x, w: attention(jax.numpy, x, w), policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    )
    mine, theirs = dyn.jit(USES[use](dyn, dnp, f)), USES[use](jax, jax.numpy, g)
    for count in (0, 1, 3):
        x, w = floats(count, 5, 4) * 0.3, floats(4, 4, seed=1) * 0.3
        a, b = mine(x, w), theirs(x, w)
        for one, other in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,), strict=True):
            close(one, other, 1e-3)
    assert mine.cache_info().compiles == 1


def spread_out(wrap: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Divisions by sums along rows and columns in turn: they are not one kernel."""

    def f(x: Array) -> Array:
        for number in range(8):
            x = wrap(lambda x, axis=number % 2: dnp.sin(x / (1 + dnp.sum(x * x, axis=axis, keepdims=True))))(x)
        return dnp.sum(x * x)

    return f


def test_the_second_pass_waits_for_the_cotangents() -> None:
    """Both passes read the same arrays: side by side they would both be kept."""
    x = floats(5, 64)
    close(dyn.grad(spread_out(dyn.checkpoint))(x), dyn.grad(spread_out(lambda f: f))(x))
    shape = dyn.ShapeDtypeStruct((1000, 64), "float32")
    once, twice = (
        int(dyn.jit(dyn.grad(spread_out(wrap))).lower(shape).compile().memory_analysis())
        for wrap in (lambda f: f, dyn.checkpoint)
    )
    assert twice < 0.8 * once


def test_what_it_closes_over_is_differentiated_by() -> None:
    def f(x: Array, y: Array) -> Array:
        return dnp.sum(dyn.checkpoint(lambda x: dnp.sin(x) * y)(x))

    x, y = floats(4), floats(4, seed=1)
    for found, wanted in zip(dyn.grad(f, (0, 1))(x, y), (np.cos(x) * y, np.sin(x)), strict=True):
        close(found, wanted)


def test_loops_inside() -> None:
    """Under a policy that saves a loop its rows are saved with it; otherwise it runs again."""

    def f(x: Array) -> Array:
        return dnp.sum(lax.scan(lambda c, a: (dnp.tanh(c * a), c), x[0], x)[1])

    x = floats(5)
    wanted = dyn.grad(f)(x)
    for policy in (None, policies.everything_saveable, policies.save_anything_except_these_names("none")):
        close(dyn.grad(dyn.checkpoint(f, policy=policy))(x), wanted)
    body = dyn.checkpoint(lambda c, a: (dnp.tanh(c * a), c), prevent_cse=False)
    close(dyn.grad(lambda x: dnp.sum(lax.scan(body, x[0], x)[1]))(x), wanted)


def test_arguments_of_all_sorts() -> None:
    @dyn.checkpoint(static_argnums=(1,))
    def f(x: Array, how: str, *, scale: Array) -> Any:
        return {"y": getattr(dnp, how)(x) * scale, "n": dnp.arange(3)}

    x = floats(3)
    close(dyn.grad(lambda x: dnp.sum(f(x, "sin", scale=2.0)["y"]))(x), 2 * np.cos(x))
    close(f(x, "cos", scale=np.float32(3))["y"], 3 * np.cos(x))
    assert dyn.remat is dyn.checkpoint
    names = dyn.checkpoint_name({"a": x, "b": 2}, "both")
    assert names["a"] is x
    assert names["b"] == 2


def test_what_it_refuses() -> None:
    def text(call: Callable[[], Any]) -> str:
        with pytest.raises(ArgumentError) as caught:
            call()
        return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))

    anything: Any = lambda *args: True  # noqa: E731
    assert text(lambda: dyn.checkpoint(block, policy=anything)) == (
        "dyn.checkpoint: policy is a function, and has to be one of dyn.checkpoint_policies.\n"
        "  help: use dyn.checkpoint_policies.dots_saveable or another one, or name values with dyn.checkpoint_name and "
        "use save_only_these_names."
    )
    three: Any = 3
    assert text(lambda: dyn.checkpoint(three)) == (
        "dyn.checkpoint takes a function, not a int.\n  help: pass the function itself."
    )
    assert text(lambda: dyn.checkpoint(block, static_argnums=2)({}, floats(1))) == (
        "dyn.checkpoint(block): static_argnums=(2,), and the function was called with 2 positional arguments.\n"
        "  help: pass that argument by position."
    )
    assert text(lambda: dyn.jit(lambda x: dyn.checkpoint(lambda x, mode: x)(x, "sin"))(floats(1))) == (
        "<lambda>: args[0][1] is a str, which is not an array.\n"
        "  help: pass arrays or numbers there, and close over everything else."
    )


def test_sizes_that_are_found_out_inside() -> None:
    """The second pass finds them out once more; nothing of such a size is kept, or comes out."""

    def f(x: Array) -> Array:
        chosen = x[x > 0]
        return dnp.sum(dnp.sin(chosen) * chosen)

    x = floats(9)
    wanted = np.where(x > 0, np.sin(x) + x * np.cos(x), 0)
    for policy in (None, policies.everything_saveable):
        g = dyn.checkpoint(f, policy=policy)
        close(dyn.grad(g)(x), wanted)
        close(dyn.vjp(g, x)[1](np.float32(1))[0], wanted)
        close(dyn.grad(lambda x, g=g: dnp.sum(dyn.grad(g)(x)))(x), dyn.grad(lambda x: dnp.sum(dyn.grad(f)(x)))(x))
    with pytest.raises(ShapeError, match="the size of axis 0 is found out inside of it"):
        dyn.grad(lambda x: dnp.sum(dyn.checkpoint(lambda x: x[x > 0])(x)))(x)
