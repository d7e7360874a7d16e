"""Scatters on GPUs: run by the shim for warps of 32 and 64 lanes, in the forms that sizes choose, and compared to the
last bit with updates one after the other; the same bits for any grid and order of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes, lax
from dyn.backends.cuda import CudaBackend
from dyn.backends.reference import run_reference
from dyn.backends.rocm import RocmBackend
from dyn.dtypes import Kind
from dyn.lower.gpu.dialect import gpu_target
from dyn.schedule.launch import Launch
from dyn.schedule.target import Target
from tests.lower.gpu_programs import TARGETS as TWO
from tests.lower.gpu_programs import run
from tests.schedule.gpu_cases import Case, Suite, at
from tests.schedule.test_gpu_sorting import bits

TARGETS = {**TWO, "hip32": gpu_target("rocm", "gfx1030")}
Array = np.ndarray[Any, Any]
SIZES = (0, 1, 2, 31, 32, 33, 257, 4096)
#: Few elements and many updates; many elements; and both few, by other forms.
VECTORS = (*[(n, 1500) for n in (0, 1, 2, 33, 300)], *[(70000, k) for k in SIZES], (300, 90), (9, 5000))
ROWS = at("0 3 1500; 1 1 1500; 5 3 1500; 33 31 2100; 700 100 300; 70000 1 33; 300 257 1; 300 257 0; 4 20000 40; 7 33 90")
THREES = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
)


def added(x: Any, i: Any, u: Any) -> Any:
    return x.at[i].add(u)


CASES: dict[str, Case] = {
    "elements": Case(added, "float32 n, int32 k, float32 k", VECTORS),
    "rows": Case(added, "float32 n m, int64 k, float32 k m", ROWS),
    "counts": Case(lambda x, i: x.at[i].add(1), "int32 n, int16 k", VECTORS),
    "last one": Case(lambda x, i, u: x.at[i].set(u), "float32 n m, int32 k, float32 k m", ROWS),
    "last element": Case(lambda x, i, u: x.at[i].set(u), "complex64 n, int32 k, complex64 k", at("3 1500; 70000 40")),
    "one value": Case(lambda x, i: x.at[i].set(True), "bool n, uint64 k", at("3 1500; 70000 40; 1 1500")),
    "a function": Case(lambda x, i: x.at[i].apply(lambda v: v * 3 + 1), "float32 n, int32 k", at("5 1500; 70000 99")),
    "columns": Case(
        lambda x, i, u: x.at[:, i].add(u), "float32 m n, int32 k, float32 m k", at("3 5 1500; 31 33 1100; 300 257 40; 2 0 1500")
    ),
    "middle": Case(
        lambda x, i, u: x.at[:, i].multiply(u), "float32 a n b, int32 k, float32 a k b", at("3 5 2 1500; 31 90 33 40")
    ),
    "points": Case(
        lambda x, i, j, u: x.at[i, j].add(u), "float32 n m, int32 k, int32 k, float32 k", at("3 5 1500; 300 257 400")
    ),
    "apart from one another": Case(
        lambda x, i, j, u: x.at[i, :, j].add(u), "float32 n c m, int32 k, int32 k, float32 k c",
        at("3 4 5 1500; 30 40 70 200"),
    ),
    "of several axes": Case(
        lambda x, i, u: x.at[i].max(u), "int32 n m, int32 k l, int32 k l m", at("3 2 40 50; 400 300 7 9")
    ),
    "an example each": Case(
        dyn.vmap(added), "float32 b n, int32 b k, float32 b k", at("3 5 1500; 9 9000 70; 0 3 1500; 300 300 2100")
    ),
    "windows that meet": Case(
        lambda x, i, u: lax.scatter_add(x, i, u, THREES), "float32 n, int32 k 1, float32 k 3", at("9 700; 70000 33")
    ),
    "one window": Case(
        lambda x, u: lax.dynamic_update_slice(x, u, (1, 2)), "float32 n m, float32 k l",
        at("1 1 1 1; 400 300 0 5; 400 300 30 50; 60 60 50 50"),
    ),
    **{
        dtype.name: Case(
            lambda x, i, u: x.at[i].multiply(u), f"{dtype.name} n, int32 k, {dtype.name} k", at("40 1500; 70000 33")
        )
        for dtype in dtypes.ALL
        if dtype.kind not in (Kind.COMPLEX, Kind.BOOL) and dtype.bits >= 8 and dtype is not dtypes.float32
    },
}  # fmt: skip


class Scatters(Suite):
    """Scatters to places of which some are outside of the array, and many are the same."""

    def arrays(self, name: str, sizes: tuple[int, ...]) -> list[Array]:
        arrays, rng = self.cases[name].arrays(sizes), np.random.default_rng(sum(sizes))
        longest = max(arrays[0].shape, default=0)
        wide = [n for n, a in enumerate(self.cases[name].arguments.split(", ")) if n and a.split()[0] in PLACES]
        for n in wide:
            if arrays[n].dtype.kind in "iu" and arrays[n].dtype != arrays[0].dtype or n < len(arrays) - 1:
                low, high = (0, longest + 3) if arrays[n].dtype.kind == "u" else (-longest - 3, longest + 3)
                most = np.iinfo(arrays[n].dtype).max
                drawn = rng.integers(max(low, -most), min(high, most), arrays[n].shape)
                arrays[n] = drawn.astype(arrays[n].dtype)
        return arrays

    def compare(self, name: str, target: Target, *, races: bool = False) -> None:
        module, compiled = self.machine(target, races=races), self.programs(target)[name]
        for sizes in self.cases[name].sizes:
            arrays = self.arrays(name, sizes)
            wanted = run_reference(compiled.program.function, arrays)
            for grid, seed in ((3, 1), (7, 2)):
                for x, y in zip(run(module, compiled, arrays, grid, seed), wanted, strict=True):
                    assert x is not None
                    assert bits(x) == bits(y), f"{name} at {sizes} in {grid} blocks"


PLACES = ("int16", "int32", "int64", "uint64")
SUITE = Scatters(CASES)


@pytest.mark.parametrize("dialect", TWO)
@pytest.mark.parametrize("name", CASES)
def test_scatters(name: str, dialect: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    SUITE.compare(name, TARGETS[dialect])
