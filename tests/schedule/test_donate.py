"""Donated arguments: which result takes whose memory, and what kernels say of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.compilation_record import CompilationRecord
from dyn.lower.gpu.dialect import gpu_target
from dyn.lower.gpu.emit import emit_kernel
from dyn.pipeline import Optimized, optimize
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.launch import Launch
from dyn.schedule.target import Target
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
