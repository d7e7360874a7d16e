"""The cost model of kernels on GPUs: what it must say of kernels whose limits are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import dyn
from benchmarks.gpu.model import DEVICES, GpuModel, LaunchEstimate, estimate
from benchmarks.suites import gpu_model
from dyn import dtypes
from dyn.compilation_record import CompilationRecord
from dyn.lower.gpu.emit import emit_kernel
from dyn.pipeline import optimize
from dyn.schedule.launch import Launch

H100 = DEVICES["H100"]
TARGET = gpu_model.TARGETS["H100"]
DEVICE_NAMES = list(DEVICES)


def launches_of(function: Callable[..., Any], *shapes: tuple[str, ...]) -> tuple[Launch, ...]:
    structs = [dyn.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return optimize(dyn.jit(function).trace(*structs).traced, TARGET, CompilationRecord()).launches


def general(
    launch: Launch, sizes: dict[str, int], held: int, device: GpuModel = H100, registers: int = 32
) -> LaunchEstimate:
    """The estimate of a launch's general kernel, whose dims are what ``sizes`` says by the host's names."""
    variant = launch.variants[-1]
    symbols = {s.name: s for d in variant.dims if not isinstance(d, int) for s in d.symbols}
    env = {symbols[name]: size for name, size in sizes.items() if name in symbols}
    dims = {s: dyn.shapes.evaluate(d, env) for s, d in zip(variant.kernel.dims, variant.dims, strict=True)}
    return estimate(variant.kernel, emit_kernel(variant.kernel, TARGET), dims, held, registers, device)


def added(n: int, device: GpuModel = H100, registers: int = 32) -> LaunchEstimate:
    (launch,) = launches_of(lambda x, y: x + y, ("n",), ("n",))
    return general(launch, {"n": n}, 12 * n, device, registers)


def product(n: int, device: GpuModel = H100, registers: int = 167) -> LaunchEstimate:
    launch = launches_of(lambda a, b: a @ b, ("m", "k"), ("k", "n"))[0]
    return general(launch, {"m": n, "k": n, "n": n}, 12 * n * n, device, registers)


@pytest.mark.parametrize("name", DEVICE_NAMES)
def test_sums_of_long_arrays_take_the_time_of_their_bytes(name: str) -> None:
    device = DEVICES[name]
    found = added(10**8, device)
    assert (found.bytes, found.multiply_adds, found.limit) == (12 * 10**8, 0, "memory")
    assert found.share > 0.95
    assert found.seconds == pytest.approx(12e8 / device.memory, rel=0.05)


def test_few_blocks_do_not_fill_a_memory() -> None:
    """So many bytes are on their way as the threads of a few multiprocessors have asked for."""
    slow, quick = added(10**8), added(10**8, replace(H100, multiprocessors=4))
    assert quick.seconds > 5 * slow.seconds
    assert quick.share < 0.2


def test_products_are_counted() -> None:
    found = product(1024)
    assert (found.multiply_adds, found.limit) == (1024**3, "arithmetic")
    assert found.seconds > 1024**3 / H100.multiply_adds(dtypes.float32)
    assert 0.5 < found.share < product(4096).share < 1


def test_registers_and_shared_memory_bound_the_blocks_of_a_multiprocessor() -> None:
    assert [product(4096, registers=n).resident for n in (128, 168, 255)] == [4, 3, 2]
    assert product(4096, registers=64).resident == 5  # three slices of both operands are 38 KiB
    assert added(10**6, registers=255).occupancy < added(10**6).occupancy == 1


def test_blocks_go_in_waves() -> None:
    """133 blocks on 132 multiprocessors take the time of two, and 132 that of one."""
    one, two = product(1024, replace(H100, multiprocessors=128)), product(1024, replace(H100, multiprocessors=127))
    assert two.seconds > 1.5 * one.seconds


def test_tables_are_marked_as_computed(require_module: Callable[[str], Any]) -> None:
    require_module("cuda.bindings.nvrtc")
    arguments = type("Arguments", (), {"devices": "H100", "programs": "product, float32"})
    report = gpu_model.run(arguments)  # pyright: ignore[reportArgumentType]  # all that it reads
    assert [table.title for table in report.tables] == ["H100 SXM: computed, not measured"]
    assert len(report.tables[0].rows) == 2
    assert "Nothing here was measured" in report.notes[0]
