"""Sorts on GPUs: run by the shim for warps of 32 and 64 lanes at sizes around teams, warps, blocks and runs of several
widths, and compared to the last bit with the reference; with races looked for, and the same bits for any grid."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import dyn.numpy as dnp
from dyn import dtypes, lax
from dyn.backends.cuda import CudaBackend
from dyn.backends.reference import run_reference
from dyn.backends.rocm import RocmBackend
from dyn.dtypes import Kind
from dyn.lower.gpu.dialect import gpu_target
from dyn.schedule.target import Target
from tests.lower.gpu_programs import TARGETS as TWO
from tests.lower.gpu_programs import run
from tests.rarely import rarely
from tests.schedule.gpu_cases import Case, Suite, at

TARGETS = {**TWO, "hip32": gpu_target("rocm", "gfx1030")}
Array = np.ndarray[Any, Any]
#: Around teams, warps, blocks and runs of several widths.
LENGTHS = at("0; 1; 2; 31; 32; 33; 257; 4096; 5000; 70000")
FEW = at("0; 1; 2; 33; 257; 2049; 9000")
ROWS = at("0 3; 3 0; 1 1; 5 2; 9 31; 33 33; 3 257; 2 2049; 3 5000")


CASES: dict[str, Case] = {
    "floats": Case(dnp.sort, "float32 n", LENGTHS),
    "rows of places": Case(lambda x: dnp.argsort(x, axis=1), "float32 n m", ROWS),
    "columns": Case(lambda x: dnp.sort(x, axis=0), "float32 m n", at("0 3; 3 0; 2 5; 257 3; 2049 2; 5000 3")),
    "middle": Case(lambda x: dnp.sort(x, axis=1), "int32 a b c", at("2 0 3; 1 1 1; 2 5 3; 2 300 3; 2 5000 2")),
    "places backwards": Case(lambda x: dnp.argsort(x, descending=True), "float16 n", FEW),
    "carried": Case(lambda x, y, z: lax.sort((x, y, z), num_keys=1), "int8 n, complex64 n, bool n", LENGTHS),
    "two keys": Case(lambda *xs: lax.sort(xs, num_keys=2), "int8 n, float32 n, int64 n", FEW),
    "nothing but keys": Case(lambda *xs: lax.sort(xs, num_keys=2), "uint8 n, float64 n", FEW),
    "one array twice": Case(lambda x: lax.sort((x, x), num_keys=1), "int16 n 100", at("0; 1; 9")),
    "greatest": Case(lambda x: lax.top_k(x, 3), "float32 n m", at("0 3; 1 3; 5 4; 9 31; 33 33; 3 257; 2 2049; 3 5000")),
    "many greatest": Case(lambda x: lax.top_k(x, 3000), "float32 n", at("3000; 4096; 9000; 70000")),
    "greatest of columns": Case(lambda x: lax.top_k(x, 2, axis=0), "float16 40 n", at("0; 1; 257")),
    "none": Case(lambda x: lax.top_k(x, 0), "float32 n 5", at("0; 1; 5")),
    **{
        dtype.name: Case(lambda x: (dnp.sort(x, axis=1), *lax.top_k(x, 9)), f"{dtype.name} n 100", at("1; 9"))
        for dtype in dtypes.ALL
        if dtype.kind is not Kind.COMPLEX and dtype.bits >= 8 and dtype is not dtypes.float32
    },
}


class Sorts(Suite):
    """Sorts, of numbers among which are many equal ones, and NaN, infinities and zeros of both signs."""

    def arrays(self, name: str, sizes: tuple[int, ...]) -> list[Array]:
        return [_with_special(x, sum(sizes)) for x in self.cases[name].arrays(sizes)]

    def compare(self, name: str, target: Target, *, races: bool = False) -> None:
        module, compiled = self.machine(target, races=races), self.programs(target)[name]
        assert all(launch.variants for launch in compiled.program.launches)
        for sizes in self.cases[name].sizes:
            arrays = self.arrays(name, sizes)
            wanted = run_reference(compiled.program.function, arrays)
            for grid, seed in ((3, 1), (7, 2))[: 1 if max(sizes) > 4096 else 2]:
                made = run(module, compiled, arrays, grid, seed)
                for x, y in zip(made, wanted, strict=True):
                    assert x is not None
                    assert bits(x) == bits(y), f"{name} at {sizes} in {grid} blocks"


def _with_special(x: Array, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if x.dtype.kind in "biuc":
        return x
    odd = rng.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0]), x.shape)
    return np.where(rng.random(x.shape) < 0.3, odd, np.asarray(x, np.float64)).astype(x.dtype)


def bits(x: Array) -> bytes:
    """The bits of elements; of NaN it says that it is one."""
    if x.dtype.kind in "biuc":
        return x.tobytes()
    wide = np.asarray(x).astype(np.float64)
    return np.where(np.isnan(wide), np.nan, wide).tobytes()


SUITE = Sorts(CASES)


#: Some of them, for what takes longer.
FEWER = ("floats", "rows of places", "two keys", "greatest")
SHORTER = Sorts({name: CASES[name] for name in FEWER})


@pytest.mark.parametrize("dialect", [rarely("cuda"), "hip64"])
@pytest.mark.parametrize("name", CASES)
def test_sorts(name: str, dialect: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    SUITE.compare(name, TARGETS[dialect])


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        (name, dialect) if dialect == "cuda" else rarely(name, dialect)
        for name, dialect in zip(FEWER, cycle(TWO), strict=False)
    ],
)
def test_no_races(name: str, dialect: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    SHORTER.compare(name, TARGETS[dialect], races=True)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_nvrtc_compiles_them_without_spills(arch: str, require_module: Callable[[str], Any]) -> None:
    require_module("cuda.bindings.nvrtc")
    target = gpu_target("cuda", arch)
    suite = SUITE if arch == "sm_90a" else SHORTER
    for _, used in CudaBackend(target).compile(suite.source(target)).resources:
        assert used.registers <= 64
        assert used.spill_store_bytes == used.spill_load_bytes == 0


def test_hipcc_compiles_them(require_tool: Callable[..., str]) -> None:
    require_tool("hipcc")
    target = TARGETS["hip64"]
    assert RocmBackend(target).compile(SHORTER.source(target)).data[:4] == b"\x7fELF"


def test_launches() -> None:
    """Widths double from launch to launch, by one kernel, in pairs that end where they began."""
    launches = SUITE.programs(TARGETS["cuda"])["floats"].program.launches
    short, runs, *merges, results = launches
    assert [launch.when and launch.when.describe() for launch in (short, runs, results)] == [
        "n <= 2048", "n > 2048", "n > 2048",
    ]  # fmt: skip
    assert len({merge.variants[0].kernel for merge in merges[::2]}) == 1
    assert len(merges) == 22
    for number, (there, back) in enumerate(zip(merges[::2], merges[1::2], strict=True)):
        assert there.when == back.when
        assert there.when is not None
        assert there.when.low == (2048 << 2 * number) + 1
        assert there.buffers == back.buffers[::-1]
    assert results.buffers[0] in runs.temporaries
    known = SUITE.programs(TARGETS["cuda"])["one array twice"].program.launches
    assert [[v.note for v in launch.variants] for launch in known] == [["sort, rows of up to 256 by 32 lanes"]]
