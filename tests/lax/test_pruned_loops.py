"""Loops carry what is read of them, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.ir.core import Function, Op

Array = Any


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def optimized(f: dyn.Jitted, *args: Array) -> Function:
    return f.trace(*args).lower().optimized.function


def loops(function: Function) -> list[Op]:
    return [op for op in function.ops if op.opdef.name in ("scan", "while")]


def test_a_scan_of_which_one_value_is_read() -> None:
    def f(x: Array) -> Array:
        def step(c: Any, row: Any) -> Any:
            a, b, d, e = c
            return (a + b, b * row[0], d + row[1], e * 2), a * d

        return lax.scan(step, (x[0], x[0], x[0], x[0]), (x, x * 2))[0][0]

    compiled = dyn.jit(f)
    x = floats(5)
    (loop,) = loops(optimized(compiled, x))
    assert loop.attrs["carries"] == 2
    assert (len(loop.operands), len(loop.results)) == (3, 2)
    a = b = x[0]
    for row in x:
        a, b = a + b, b * row
    np.testing.assert_allclose(compiled(x), a, rtol=1e-5)


def test_a_while_loop_keeps_what_its_condition_reads() -> None:
    def f(n: Array, x: Array) -> Array:
        def body(c: Any) -> Any:
            i, gap, total, unread = c
            return i + gap, gap, total * 0.5 + 1, unread * total

        return lax.while_loop(lambda c: c[0] < 10, body, (n, dnp.asarray(3), x, x))[2]

    compiled = dyn.jit(f)
    (loop,) = loops(optimized(compiled, np.int64(0), floats(3)))
    assert len(loop.operands) == 3
    wanted = floats(3)
    for _ in range(4):
        wanted = wanted * np.float32(0.5) + 1
    np.testing.assert_allclose(compiled(np.int64(0), floats(3)), wanted, rtol=1e-6)
    assert compiled.cache_info().compiles == 1


def test_backward_no_cotangent_of_what_nobody_asked_for() -> None:
    """By ``w`` alone, though each step reads ``u`` too."""

    def loss(w: Array, u: Array, xs: Array) -> Array:
        return dnp.sum(lax.scan(lambda h, x: (dnp.tanh(h * w + x * u), None), dnp.zeros_like(w), xs)[0])

    def carried(f: dyn.Jitted) -> list[int]:
        found = loops(optimized(f, floats(4), floats(4), floats(3, 4)))
        return [sum(p.shape != () for p in op.regions[0].params[: op.attrs["carries"]]) for op in found]

    one, both = dyn.jit(dyn.grad(loss)), dyn.jit(dyn.grad(loss, argnums=(0, 1)))
    assert carried(one)[-1] + 1 == carried(both)[-1]
    w, u, xs = floats(4), floats(4, seed=1), floats(3, 4, seed=2)
    np.testing.assert_array_equal(one(w, u, xs), both(w, u, xs)[0])
