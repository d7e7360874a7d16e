"""Contractions whose operands the device copies to shared memory by itself: every barrier and every wait is needed, and
what is left out does not go unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.compilation_record import CompilationRecord
from dyn.lower.gpu.dialect import CUDA, gpu_target
from dyn.lower.gpu.emit import GpuKernelText, emit_kernel
from dyn.pipeline import optimize
from dyn.schedule.launch import Variant
from dyn.shapes import evaluate
from tests.shim.run import ShimError, ShimModule

Array = np.ndarray[Any, Any]
#: Three tiles of rows for one block, and four slices, of which the last one is not whole.
ROWS, COLUMNS, STEPS = 260, 70, 52
SEEDS = range(1, 5)
BARRIER = "__syncthreads();"


@pytest.fixture(autouse=True)
def compiler(require_tool: Callable[..., str]) -> None:
    require_tool("g++")


@lru_cache
def general(arch: str) -> Variant:
    """The kernel for any sizes of ``a @ b.T``: both operands lie along the contracted axis."""
    structs = [dyn.ShapeDtypeStruct(shape, "float32") for shape in (("m", "k"), ("n", "k"))]
    traced = dyn.jit(lambda a, b: a @ b.T).trace(*structs).traced
    return optimize(traced, gpu_target("cuda", arch), CompilationRecord()).launches[0].variants[-1]


def text_for(arch: str) -> GpuKernelText:
    return emit_kernel(general(arch).kernel, gpu_target("cuda", arch))


@dataclass(frozen=True)
class Change:
    """Text in place of the ``which``-th occurrence of another one."""

    old: str
    new: str
    which: int = 0


CHANGES = {
    "waits for too few": Change("dyn_await_copies<1>();", "dyn_await_copies<2>();"),
    "does not wait": Change("dyn_await_copies<1>();", ""),
    "ends no group": Change("dyn_commit_copies();", ""),
    "has two stages": Change("stage0 == 2 ? 0", "stage0 == 1 ? 0"),
    "multiplies what is asked for": Change("(stage0)", "(last0)"),
    **{f"has no barrier {number}": Change(BARRIER, "", number) for number in range(3)},
}


@lru_cache
def module() -> tuple[ShimModule, dict[str, GpuKernelText]]:
    """The kernel, and what it becomes by each change."""
    whole = text_for("sm_80")
    texts = {"": whole}
    for number, (name, change) in enumerate(CHANGES.items()):
        parts = whole.text.split(change.old)
        at = change.which + 1
        assert at < len(parts), name
        text = change.old.join(parts[:at]) + change.new + change.old.join(parts[at:])
        symbol = f"{whole.symbol}_{number}"
        text = text.replace(f" {whole.symbol}(", f" {symbol}(")
        texts[name] = GpuKernelText(text, symbol, whole.scratch_bytes, whole.threads)
    return ShimModule(list(texts.values()), CUDA), texts


def operands(steps: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    return rng.integers(-4, 5, (ROWS, steps)), rng.integers(-4, 5, (COLUMNS, steps))


def run(name: str, seed: int, steps: int = STEPS) -> Array | str:
    """What a launch of one block leaves, or its error."""
    arrays = [*[a.astype(np.float32) for a in operands(steps)], np.zeros((ROWS, COLUMNS), np.float32)]
    variant, (shim, texts) = general("sm_80"), module()
    names = {"m": ROWS, "n": COLUMNS, "k": steps}
    env = {s: names[s.name] for d in variant.dims if not isinstance(d, int) for s in d.symbols}
    dims = [evaluate(d, env) for d in variant.dims]
    shared = texts[name].scratch_bytes
    assert isinstance(shared, int)
    try:
        shim.run(texts[name].symbol, arrays, dims, 1, texts[name].threads, shared, seed)
    except ShimError as error:
        return str(error)
    return arrays[2]


def expected(steps: int = STEPS) -> Array:
    a, b = operands(steps)
    return (a @ b.T).astype(np.float32)


@pytest.mark.parametrize("steps", [0, 1, 3, 15, 16, 17, 33, STEPS])
def test_copies_in_any_order_of_threads(steps: int) -> None:
    """Of whole slices and of parts, at places that are multiples of 16 bytes and at others."""
    for seed in (0, *SEEDS):
        np.testing.assert_array_equal(run("", seed, steps), expected(steps))


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_left_out_is_noticed(name: str) -> None:
    right = expected()
    found = [run(name, seed) for seed in SEEDS]
    assert any(isinstance(one, str) or not np.array_equal(one, right) for one in found)


def test_older_devices_move_operands_through_registers() -> None:
    assert "dyn_copy_async" in text_for("sm_80").text
    assert "dyn_copy_async" not in text_for("sm_75").text


MISTAKES = {
    "to_global": ("dyn_copy_async<4>(b0, b0 + 1, 4);", "an asynchronous copy of 4 of 4 bytes from "),
    "at_an_odd_place": ("dyn_copy_async<16>(dyn_shared + 4, b0, 16);", "an asynchronous copy of 16 of 16 bytes from "),
    "too_much": ("dyn_copy_async<4>(dyn_shared, b0, 8);", "an asynchronous copy of 8 of 4 bytes from "),
    "without_end": (
        "for (int i = 0; i < 300; ++i) dyn_copy_async<4>(dyn_shared, b0, 4);", "a thread waits for none of 256 copies",
    ),
}  # fmt: skip


def test_the_shim_refuses_what_devices_do_not_do() -> None:
    shared = "alignas(16) extern __shared__ unsigned char dyn_shared[];"
    texts = [
        GpuKernelText(f'extern "C" __global__ void {name}(float* b0) {{\n{shared}\n{body}\n}}\n', name, 64, 32)
        for name, (body, _) in MISTAKES.items()
    ]
    shim = ShimModule(texts, CUDA)
    for name, (_, message) in MISTAKES.items():
        with pytest.raises(ShimError) as caught:
            shim.run(name, [np.zeros(64, np.float32)], [], 1, 32, 64)
        assert f"{name}, block 0: {message}" in str(caught.value)
