"""Donated arguments: which result takes whose memory, and what kernels say of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.compilation_record import CompilationRecord
from dyn.lower.gpu.dialect import gpu_target
from dyn.lower.gpu.emit import emit_kernel
from dyn.ops.scalar import Scalar
from dyn.pipeline import Optimized, optimize
from dyn.schedule.donate import _meets_itself
from dyn.schedule.kernel import Apply, Buffer, Const, Kernel, Load, Loop, Ref, Role, Stmt, Store, scalar_fold
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.launch import Launch
from dyn.schedule.target import Target
from dyn.shapes import as_dim, symbol
from examples import optimizers

CUDA = gpu_target("cuda", "sm_90a")
X86 = Target("x86", "x86-64-v3", vector_bytes=32, registers=16)
SHAPES = ((64, 48), (48,), (48,), ("n", 48))


def struct(*shape: Any, dtype: str = "float32") -> dyn.ShapeDtypeStruct:
    return dyn.ShapeDtypeStruct(shape, dtype)


def adam_step(params: Any, state: Any, x: Any) -> Any:
    """A step of Adam whose gradients are a contraction's, sums' and an elementwise one."""
    w, a, b, table = params

    def loss(params: Any) -> Any:
        w, a, b, table = params
        return dnp.sum((x @ w + a) * b) + dnp.sum(table * table)

    gradients = dyn.grad(loss)([w, a, b, table])
    adam = optimizers.adam(1e-3)
    updates, state = adam.update(gradients, state, params)
    return optimizers.apply_updates(params, updates), state


def structs() -> tuple[Any, Any, Any]:
    def arrays() -> list[dyn.ShapeDtypeStruct]:
        return [struct(*shape) for shape in SHAPES]

    return arrays(), optimizers.AdamState(struct(dtype="int32"), arrays(), arrays()), struct("m", 64)


def optimized(function: Any, arguments: Any, target: Target, **options: Any) -> Optimized:
    return optimize(dyn.jit(function, **options).trace(*arguments).traced, target, CompilationRecord())


@pytest.mark.parametrize("target", [X86, CUDA], ids=["x86", "cuda"])
def test_a_step_of_adam_takes_all_of_its_arguments(target: Target) -> None:
    """Weights are computed of new means, and those of one gradient of the weights themselves."""
    found = optimized(adam_step, structs(), target, donate_argnums=(0, 1))
    taken = {reuse.output: reuse.input for reuse in found.host.reuses}
    assert taken == {number: number for number in range(3 * len(SHAPES) + 1)}
    assert not found.useless


def test_results_leave_each_argument_to_the_one_that_updates_it() -> None:
    """The first result could take the memory of either; the second one only that which it updates."""

    def step(a: Any, b: Any, c: Any) -> Any:
        return dnp.exp(c[::-1]), a + dnp.cumulative_sum(c), b * 2

    found = optimized(step, [struct("n")] * 3, X86, donate_argnums=(0, 1))
    assert {reuse.output: reuse.input for reuse in found.host.reuses}[2] == 1


def moments(m: Any, v: Any, w: Any, g: Any) -> Any:
    m, v = 0.9 * m + g, 0.99 * v + g * g
    return m, v, w - m / dnp.sqrt(v)


def launch_of(target: Target, *donated: int) -> Launch:
    (launch,) = optimized(moments, [struct("n")] * 4, target, donate_argnums=donated).launches
    return launch


def test_buffers_that_may_be_one_are_named() -> None:
    launch = launch_of(CUDA, 0, 1, 2)
    for variant in launch.variants:
        assert len(variant.kernel.overlapping) == 6
        assert "may overlap {" in kernel_text(variant.kernel)
        text = emit_kernel(variant.kernel, CUDA).text
        assert len(re.findall(r"float\* __restrict__ \w+[,)]", text)) == 1  # the gradient's
    for variant in launch_of(CUDA).variants:
        assert not variant.kernel.overlapping
        assert "overlap" not in kernel_text(variant.kernel)
        assert len(re.findall(r"float\* __restrict__ \w+[,)]", emit_kernel(variant.kernel, CUDA).text)) == 7


def test_a_loop_carries_moments_in_place() -> None:
    def steps(m: Any, v: Any, w: Any, g: Any) -> Any:
        return dyn.lax.fori_loop(0, 5, lambda _, s: moments(s[0], s[1], s[2], g), (m, v, w))

    found = optimized(steps, [struct("n")] * 4, X86)
    (body,) = [launch.bodies[-1] for launch in found.launches if launch.bodies]
    assert len(body.in_place) >= 3
    inside = [launch for launch in body.launches if launch.variants and len(launch.group.outputs) == 3]
    assert inside
    assert all(variant.kernel.overlapping for launch in inside for variant in launch.variants)


@pytest.mark.parametrize("n", [0, 1, 3, 1000])
def test_donated_moments_are_the_same(n: int) -> None:
    rng = np.random.default_rng(n)

    def arrays() -> list[Any]:
        return [dyn.asarray(rng.random(n, np.float32) + 1) for _ in range(4)]

    given = arrays()
    wanted = dyn.jit(moments)(*given)
    m, v, w, g = [dyn.asarray(np.array(a)) for a in given]
    found = dyn.jit(moments, donate_argnums=(0, 1, 2), shapes="n, n, n, n")(m, v, w, g)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
    np.testing.assert_array_equal(np.asarray(g), np.asarray(given[3]))


def test_a_loop_reads_what_a_loop_inside_hands_on() -> None:
    """The first value is not written over the old one before that has been read through the inner loop's result."""

    def step(s: Any) -> Any:
        x, y = s
        total, same = dyn.lax.fori_loop(0, 2, lambda _, t: (t[0] + t[1], dnp.maximum(t[1], t[1])), (y, x))
        new = dnp.cumsum(total)
        return new, same[::-1] + new

    f = dyn.jit(lambda x, y: dyn.lax.fori_loop(0, 3, lambda _, s: step(s), (x, y)), shapes="n, n")
    for n in (0, 1, 2, 7, 100):
        x, y = np.arange(n, dtype=np.float32) % 5, np.ones(n, np.float32)
        found = f(x, y)
        for _ in range(3):
            new = np.cumsum(y + x + x)
            x, y = new, x[::-1] + new
        for ours, theirs in zip(found, (x, y), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_what_one_kernel_may_store_where_it_reads() -> None:
    """Of each row one number is stored, and a second one that shares the first one's read: not behind a fold, where a
    GPU reads again. Nor may a kernel store where it reads how long its rows are."""
    f32, i32 = dtypes.float32, dtypes.int32
    row, lane, length = symbol("row"), symbol("lane"), symbol("length")
    out, other, source, rows = (Buffer(name, f32) for name in ("out", "other", "source", "rows"))
    read = Load(source, as_dim(row))
    total = Ref("total", f32)
    fold = scalar_fold(total, Scalar.ADD, Const(f32, 0.0), Load(rows, as_dim(row) * 8 + as_dim(lane)))
    first = Store(out, as_dim(row), read)
    second = Store(other, as_dim(row), Apply(Scalar.ADD, (read, read), f32))
    loop = Loop(Role.LANE, lane, 8, folds=(fold,))

    def in_place(*body: Stmt) -> bool:
        grid = Loop(Role.GRID, row, 16, body)
        return _meets_itself(Kernel("k", (out, other, source, rows), (), (), (grid,)), out, source)

    assert in_place(loop, first, second)
    assert in_place(loop, second, first)
    assert not in_place(first, loop, second)
    assert in_place(first, loop)
    again = Store(other, as_dim(row), Load(source, as_dim(row)))
    assert in_place(again, first)
    assert not in_place(first, again)

    lengths, counts = Buffer("lengths", i32), Buffer("counts", i32)
    count = Load(lengths, as_dim(row))
    ragged = Loop(
        Role.LANE,
        lane,
        as_dim(length),
        (Store(counts, as_dim(row) + as_dim(lane), Const(i32, 1)),),
        bound=((length, count),),
    )
    grid = Loop(Role.GRID, row, 16, (ragged,))
    assert not _meets_itself(Kernel("k", (counts, lengths), (), (), (grid,)), counts, lengths)
