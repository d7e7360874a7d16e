"""That the shim sees what it is there for: each barrier that the emitter writes is needed, and one that is missing, in
a divergent place or a scratch buffer that is too small does not go unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from dyn.lower.gpu.dialect import CUDA, gpu_target
from dyn.lower.gpu.emit import GpuKernelText, emit_kernel
from dyn.schedule.kernel import Kernel
from dyn.shapes import evaluate
from tests.lower import gpu_kernels
from tests.shim.run import ShimError, ShimModule

Array = np.ndarray[Any, Any]
BARRIER, TEAM_BARRIER = "__syncthreads();", "__syncwarp();"
COLS, ROWS = 500, 6
SEEDS = range(1, 9)
BROKEN = """
extern "C" __global__ void __launch_bounds__(64) {name}(float* b0) {{
    {body}
}}
"""


@dataclass(frozen=True)
class Subject:
    """A kernel that needs barriers, with sizes to run it at, and its texts: whole, and without each barrier in turn."""

    kernel: Kernel
    sizes: tuple[tuple[int, ...], ...]
    texts: tuple[GpuKernelText, ...]


def without_barriers(kernel: Kernel, *sizes: tuple[int, ...], barrier: str = BARRIER) -> Subject:
    whole = emit_kernel(kernel, gpu_target("cuda", "sm_80"))
    parts = whole.text.split(barrier)
    texts = [whole]
    for k in range(1, len(parts)):
        name = f"{whole.symbol}_without_{k}"
        text = barrier.join(parts[:k]) + barrier.join(["", *parts[k:]])[len(barrier) :]
        text = text.replace(f" {whole.symbol}(", f" {name}(")
        texts.append(GpuKernelText(text, name, whole.scratch_bytes, whole.threads))
    return Subject(kernel, sizes, tuple(texts))


@lru_cache
def subjects() -> dict[str, Subject]:
    return {
        "softmax": without_barriers(gpu_kernels.softmax(), (ROWS, COLS)),
        "softmax_of_4": without_barriers(gpu_kernels.softmax_of_neighbours(4), (ROWS, COLS)),
        "turn": without_barriers(gpu_kernels.turn(), (ROWS, COLS, 3)),
        "norms": without_barriers(gpu_kernels.norms(), (ROWS, COLS, 3), (ROWS, COLS, 0)),
        "teams": without_barriers(gpu_kernels.teams(sums=False), (ROWS, COLS), barrier=TEAM_BARRIER),
        "counted": without_barriers(gpu_kernels.counted(), (COLS, 40)),
    }


BODIES = {
    "divergent": f"if (threadIdx.x < 40) {BARRIER}",
    "two_places": f"if (threadIdx.x < 32) {BARRIER}\n    else {BARRIER}",
    "half_a_warp": "if (threadIdx.x < 16) b0[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);",
    "overrun": "alignas(16) extern __shared__ unsigned char dyn_shared[];\n    dyn_shared[threadIdx.x] = 1;",
}


@lru_cache
def module() -> ShimModule:
    texts = [text for subject in subjects().values() for text in subject.texts]
    texts += [GpuKernelText(BROKEN.format(name=name, body=body), name, 0, 64) for name, body in BODIES.items()]
    return ShimModule(texts, CUDA)


@pytest.fixture(autouse=True)
def compiler(require_tool: Callable[..., str]) -> None:
    require_tool("g++")


#: What kernels get that have more than one input and one output.
_ARRAYS: dict[str, Callable[[Array, Array], list[Array]]] = {
    "teams": lambda x, y: [x, y, np.empty(ROWS, np.float32)],
    "counted": lambda x, y: [x, np.arange(40) % 7, y],
}


def run(subject: Subject, text: GpuKernelText, seed: int, on: ShimModule | None = None) -> list[bytes | str]:
    """What launches of one block leave in the output, or their errors."""
    x = np.random.default_rng(1).standard_normal((ROWS, COLS)).astype(np.float32)
    results: list[bytes | str] = []
    for dims in subject.sizes:
        y = np.zeros_like(x)
        shared = evaluate(text.scratch_bytes, dict(zip(subject.kernel.dims, dims, strict=True)))
        try:
            arrays = _ARRAYS.get(subject.kernel.name, lambda x, y: [x, y])(x, y)
            (module() if on is None else on).run(text.symbol, arrays, dims, 1, text.threads, shared, seed)
            results.append(y.tobytes())
        except ShimError as error:
            results.append(str(error))
    return results


@pytest.mark.parametrize(
    ("name", "barriers"), [("softmax", 2), ("softmax_of_4", 2), ("turn", 4), ("norms", 4), ("teams", 2), ("counted", 2)]
)
def test_a_missing_barrier_is_caught(name: str, barriers: int) -> None:
    """So a barrier stands where it is needed, and nowhere else."""
    subject = subjects()[name]
    whole, *broken = subject.texts
    assert len(broken) == barriers
    right = run(subject, whole, 0)
    assert all(run(subject, whole, seed) == right for seed in SEEDS)
    for text in broken:
        assert any(run(subject, text, seed) != right for seed in SEEDS), f"{text.symbol} went unnoticed"


def test_threads_in_order_hide_a_missing_barrier() -> None:
    """Which is why the order is shuffled."""
    subject = subjects()["norms"]
    whole, *broken = subject.texts
    right = run(subject, whole, 0)
    assert any(run(subject, text, 0) == right for text in broken)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("divergent", "divergent barrier: thread 0 waits at line 3, thread 40 has ended"),
        ("two_places", "divergent barrier: thread 0 waits at line 3, thread 32 waits at line 4"),
        ("half_a_warp", "divergent barrier: thread 0 is in a shuffle at line 3, thread 16 has ended"),
        ("overrun", "shared memory is written past its 20 bytes"),
    ],
)
def test_faults_are_reported(name: str, message: str) -> None:
    with pytest.raises(ShimError) as caught:
        module().run(name, [np.zeros(64, np.float32)], [], 1, 64, 20)
    assert str(caught.value) == f"{name}, block 0: {message}"
