"""Generated kernels under the shim's race detector: what they store and load between barriers, in any order of threads.

The detector itself is tried on kernels that race, and on ones that look as if they did.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest

from dyn.lower.gpu.dialect import CUDA, HIP
from dyn.lower.gpu.emit import GpuKernelText
from tests.lower import test_gpu_faults as faults
from tests.lower import test_gpu_run as kernels
from tests.shim.run import ShimError, ShimModule


@pytest.fixture(autouse=True)
def compiler(require_tool: Callable[..., str]) -> None:
    require_tool("g++")


# ---- generated kernels -----------------------------------------------------------------------------------------------


@lru_cache
def machine_for(variant: str) -> kernels.Machine:
    return kernels.machine_for(variant, races=True)


@pytest.mark.parametrize("variant", ["cuda", "hip64"])
@pytest.mark.parametrize("size", [1, 33, 600])
@pytest.mark.parametrize(
    "run",
    [
        *[partial(kernels.test_softmax, name=name) for name in ("softmax", "softmax_of_4")],
        kernels.test_column_sum, kernels.test_teams, kernels.test_updates,
        kernels.test_what_is_carried_changes_places, kernels.test_copies_of_the_code, kernels.test_gather,
        kernels.test_masked_concat, kernels.test_scratch_and_its_barriers, kernels.test_uniform_scratch,
        partial(kernels.test_reductions, special=0.0), partial(kernels.test_states_of_several_values, special=3),
    ],
    ids=lambda run: (run.func if isinstance(run, partial) else run).__name__.removeprefix("test_"),
)  # fmt: skip
def test_kernels_do_not_race(run: Callable[[kernels.Machine, int], None], variant: str, size: int) -> None:
    run(machine_for(variant), size)


@lru_cache
def broken() -> ShimModule:
    return ShimModule([text for subject in faults.subjects().values() for text in subject.texts], CUDA, races=True)


@pytest.mark.parametrize("name", ["softmax", "turn", "norms", "teams", "counted"])
def test_each_missing_barrier_is_a_race(name: str) -> None:
    """With the threads in order, where the result may come out right."""
    subject = faults.subjects()[name]
    whole, *texts = subject.texts
    for text in texts:
        found = faults.run(subject, text, 0, broken())
        assert any(isinstance(result, str) and "race: " in result for result in found), text.symbol
    assert all(isinstance(result, bytes) for result in faults.run(subject, whole, 0, broken()))


# ---- the detector ----------------------------------------------------------------------------------------------------

KERNEL = """extern "C" __global__ void __launch_bounds__(64) {name}(float* b0, int* b1) {{
    extern __shared__ unsigned char dyn_shared[]; float* const s = (float*)dyn_shared; const int i = threadIdx.x;
    {body}
}}"""
#: What may be, in a grid of two blocks.
FINE = {
    "barrier": "s[i] = 1; __syncthreads(); b0[i + 64 * blockIdx.x] = s[63 - i];",
    "warp": "s[i] = 1; __syncwarp(); b0[i + 64 * blockIdx.x] = s[i ^ 1];",
    "read_by_all": "b0[i + 64 * blockIdx.x] = b0[200];",
    "own_byte": "((char*)s)[i] = 1; b0[i + 64 * blockIdx.x] = ((char*)s)[i];",
    "in_turn": "for (int k = 0; k < 3; ++k) { __syncthreads(); if (i == k) s[0] = k; }",
    "atomics": "__atomic_fetch_add(b1, 1, __ATOMIC_RELAXED);",
}
RACES = {
    "no_barrier": ("s[i] = 1;\n b0[64 * blockIdx.x + i] = s[i ^ 32];", "shared memory"),
    "other_warp": ("s[i] = 1; __syncwarp();\n b0[64 * blockIdx.x + i] = s[i ^ 32];", "shared memory"),
    "shuffle": ("s[i] = 1; __shfl_xor_sync(~0u, 1.0f, 1);\n b0[64 * blockIdx.x + i] = s[i ^ 1];", "shared memory"),
    "too_early": ("s[i] = 1; __syncthreads(); b0[64 * blockIdx.x + i] = s[63 - i];\n s[i] = 2;", "shared memory"),
    "same_place": ("if (blockIdx.x == 0) b0[0] = i;", "has written"),
    "blocks": ("if (i == 0) b0[0] = 1;", "another block has written"),
    "blocks_read": ("if (blockIdx.x == 0) b0[i] = b0[200];\n else b0[200] = i;", "has"),
    "half_atomic": ("if (i == 0) b1[0] = 1;\n else __atomic_fetch_add(b1, 1, __ATOMIC_RELAXED);", "has written"),
}
HIP_KERNELS = {
    "wave_fine": "s[i] = 1; " + HIP.team_barrier + " b0[i + 64 * blockIdx.x] = s[i ^ 1];",
    "wave_race": "s[i] = 1; __builtin_amdgcn_wave_barrier(); b0[i + 64 * blockIdx.x] = s[i ^ 1];",
}


@lru_cache
def module(hip: bool = False) -> ShimModule:
    bodies = HIP_KERNELS if hip else FINE | {name: body for name, (body, _) in RACES.items()}
    texts = [GpuKernelText(KERNEL.format(name=name, body=body), name, 0, 64) for name, body in bodies.items()]
    return ShimModule(texts, HIP if hip else CUDA, 64 if hip else 32, races=True)


def launch(name: str, seed: int, *, hip: bool = False, grid: int = 2) -> Any:
    arrays = [np.zeros(256, np.float32), np.zeros(1, np.int32)]
    module(hip).run(name, arrays, [], grid, 64, 256, seed)


@pytest.mark.parametrize("name", FINE)
def test_what_does_not_race(name: str) -> None:
    for seed in range(3):
        launch(name, seed)


@pytest.mark.parametrize("name", RACES)
def test_what_races(name: str) -> None:
    for seed in range(3):  # the order of threads in this run does not matter
        with pytest.raises(ShimError) as caught:
            launch(name, seed)
        assert RACES[name][1] in str(caught.value)


def test_message() -> None:
    with pytest.raises(ShimError) as caught:
        launch("no_barrier", 0)
    assert re.fullmatch(
        r"no_barrier, block 0: race: thread 0 reads byte 128 of shared memory, which thread 32 has written "
        r"\(line 4, line 3\)|no_barrier, block 0: race: thread \d+ writes byte \d+ of shared memory, which thread \d+ "
        r"has read \(line 3, line 4\)",
        str(caught.value),
    )


def test_barriers_of_amds_waves_need_a_fence() -> None:
    launch("wave_fine", 1, hip=True)
    with pytest.raises(ShimError) as caught:
        launch("wave_race", 1, hip=True)
    assert "race: " in str(caught.value)
