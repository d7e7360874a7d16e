"""Scatters on GPUs: run by the shim for warps of 32 and 64 lanes, in the forms that sizes choose, and compared to the
last bit with updates one after the other; the same bits for any grid and order of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import lax
from dyn.backends.base import Source
from dyn.backends.cuda import CudaBackend
from dyn.backends.reference import bind_symbols, run_reference
from dyn.backends.rocm import RocmBackend
from dyn.lower.gpu.dialect import gpu_target
from dyn.schedule.gpu.sorting import MOST
from dyn.schedule.target import Target
from dyn.shapes import evaluate, free_symbols
from tests.lower.gpu_programs import TARGETS as TWO
from tests.lower.gpu_programs import holds, run
from tests.rarely import rarely
from tests.schedule.gpu_cases import Case, Suite, at
from tests.schedule.test_gpu_sorting import bits

TARGETS = {**TWO, "hip32": gpu_target("rocm", "gfx1030")}
Array = np.ndarray[Any, Any]
SIZES = (0, 1, 2, 31, 32, 33, 257, 4096)
#: Few elements and many updates; many elements; and both few, by other forms.
VECTORS = (*[(n, 1500) for n in (0, 1, 2, 33, 300)], *[(70000, k) for k in SIZES], (300, 90), (9, 5000))
ROWS = at(
    "0 3 1500; 1 1 1500; 5 3 1500; 33 31 2100; 700 100 300; 70000 1 33; 300 257 1; 300 257 0; 4 20000 40; 7 33 90"
)
THREES = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
)
ROW_WINDOWS = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
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
        lambda x, i, u: x.at[:, i].add(u), "float32 m n, int32 k, float32 m k",
        at("3 5 1500; 31 33 1100; 300 257 40; 2 0 1500"),
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
        dyn.vmap(added), "float32 b n, int32 b k, float32 b k", at("3 5 1500; 9 9000 70; 0 3 1500; 7 10000 2100")
    ),
    "windows that meet": Case(
        lambda x, i, u: lax.scatter_add(x, i, u, THREES), "float32 n, int32 k 1, float32 k 3", at("9 700; 70000 33")
    ),
    "one window": Case(
        lambda x, u: lax.dynamic_update_slice(x, u, (1, 2)), "float32 n m, float32 k l",
        at("1 1 1 1; 400 300 0 5; 400 300 30 50; 60 60 50 50"),
    ),
    "windows longer than the array": Case(
        lambda x, i, u: lax.scatter_add(x, i, u, ROW_WINDOWS), "float32 n m, int32 k 1, float32 k l",
        at("5 3 7 257; 300 257 40 300; 300 257 40 200; 9 9 90 20"),
    ),
    **{
        dtype: Case(lambda x, i, u: x.at[i].multiply(u), f"{dtype} n, int32 k, {dtype} k", at("40 1500; 70000 33"))
        for dtype in ("int8", "uint16", "int64", "float16", "bfloat16", "float8_e4m3fn", "float64")
    },
}  # fmt: skip


class Scatters(Suite):
    """Scatters to places of which some are outside of the array, and many are the same."""

    def arrays(self, name: str, sizes: tuple[int, ...]) -> list[Array]:
        arrays, rng = self.cases[name].arrays(sizes), np.random.default_rng(sum(sizes))
        longest = max(arrays[0].shape, default=0) + 3
        for number in range(1, max(len(arrays) - 1, 2)):
            old = arrays[number]
            if old.dtype.kind in "iu":
                most = min(longest, np.iinfo(old.dtype).max)
                arrays[number] = rng.integers(-most if old.dtype.kind == "i" else 0, most, old.shape).astype(old.dtype)
        return arrays

    def forms(self, name: str, sizes: tuple[int, ...]) -> list[str]:
        """The kernels that a call launches, those of no blocks left out."""
        program = self.programs(TARGETS["cuda"])[name].program
        env, found = bind_symbols(program.function, self.arrays(name, sizes)), list[str]()
        for launch in program.launches:
            if any(holds(c, env) for c in launch.unless) or (launch.when is not None and not holds(launch.when, env)):
                continue
            variant = next(v for v in launch.variants if v.condition is None or holds(v.condition, env))
            found += [variant.note] if evaluate(variant.grid, env) else []
        return found

    def compare(self, name: str, target: Target, *, races: bool = False) -> None:
        module, compiled = self.machine(target, races=races), self.programs(target)[name]
        for sizes in self.cases[name].sizes:
            arrays = self.arrays(name, sizes)
            wanted = run_reference(compiled.program.function, arrays)
            for grid, seed in ((3, 1), (7, 2)):
                for x, y in zip(run(module, compiled, arrays, grid, seed), wanted, strict=True):
                    assert x is not None
                    assert bits(x) == bits(y), f"{name} at {sizes} in {grid} blocks"


SUITE = Scatters(CASES)
#: Some of them, for what takes longer.
FEWER = ("elements", "rows", "last one", "middle", "points", "an example each", "windows that meet", "one window")
SHORTER = Scatters({name: CASES[name] for name in FEWER})
FEWEST = Scatters({
    "rows": replace(CASES["rows"], sizes=at("5 3 1500; 700 100 300; 300 257 1")),
    "an example each": replace(CASES["an example each"], sizes=at("3 5 1500; 2 40000 70")),
})  # fmt: skip


@pytest.mark.parametrize("dialect", ["cuda", rarely("hip64")])
@pytest.mark.parametrize("name", CASES)
def test_scatters(name: str, dialect: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    SUITE.compare(name, TARGETS[dialect])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dialect"), [("rows", "cuda"), ("an example each", "hip64")])
def test_no_races(name: str, dialect: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    FEWEST.compare(name, TARGETS[dialect], races=True)


#: Kernels that spill, and the bytes of it: best=none, current: the number of a block of an example's updates is divided
#: by a function that ptxas calls, and for this architecture it keeps a few words of a thread in memory meanwhile.
SPILLS = {"sm_80": {}, "sm_90a": {}, "sm_120": {"an example each": 16}}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_nvrtc_compiles_them_without_spills(arch: str, require_module: Callable[[str], Any]) -> None:
    require_module("cuda.bindings.nvrtc")
    target, spilled = gpu_target("cuda", arch), dict[str, int]()
    suite = SHORTER if arch == "sm_90a" else FEWEST
    names = list(suite.cases)
    for symbol, used in CudaBackend(target).compile(suite.source(target)).resources:
        assert used.registers <= 64
        if used.spill_store_bytes or used.spill_load_bytes:
            spilled[names[int(symbol[1:].partition("_")[0])]] = max(used.spill_store_bytes, used.spill_load_bytes)
    assert spilled == SPILLS[arch]


def test_hipcc_compiles_them(require_tool: Callable[..., str]) -> None:
    require_tool("hipcc")
    target = TARGETS["hip64"]
    assert RocmBackend(target).compile(FEWEST.source(target)).data[:4] == b"\x7fELF"


def test_runs_are_folded_in_registers(require_module: Callable[[str], Any]) -> None:
    """A place is read before its run and stored after it, not once for each update."""
    require_module("cuda.bindings.nvrtc")
    target = TARGETS["cuda"]
    texts = SHORTER.programs(target)["rows"].texts
    (folded,) = [text for variant, text in texts.items() if variant.note == "scatter, folded"]
    source = Source(folded.text, (folded.symbol,))
    body = CudaBackend(target).compile(source).ptx.split(".entry")[-1]
    assert body.count("st.global") == 1
    assert body.count("add.rn.f32") > 4


# ---- which form ------------------------------------------------------------------------------------------------------

SORTED = ["scatter, destinations", "scatter, a block a row", "scatter, lengths of runs", "scatter, copied"]
MERGED = ["scatter, destinations", "scatter, runs of 2048", *["scatter, runs merged"] * 2]
#: The form at sizes of the array's rows and columns, and of the updates.
CHOSEN: dict[tuple[int, int, int], list[str]] = {
    (7, 33, 90): ["scatter scatter, by place"],
    (7, 33, 1024): ["scatter scatter, by place"],
    (7, 33, 1025): [*SORTED, "scatter, folded"],
    (65536, 1, 33): ["scatter scatter, by place"],
    (65537, 1, 33): [*SORTED, "scatter, folded, short rows"],
    (65537, 1, 2048): [*SORTED, "scatter, folded, short rows"],
    (65537, 1, 2049): [*MERGED, *SORTED[2:], "scatter, folded, short rows"],
    (4, 16383, 128): ["scatter scatter, by place"],
    (5, 16383, 1): [*SORTED, "scatter, folded"],
    (4, 16385, 128): ["scatter scatter"],
    (4, 16385, 129): [*SORTED, "scatter, folded"],
    (4, 16385, 0): ["scatter scatter"],
}


def test_sizes_choose_the_form() -> None:
    for sizes, wanted in CHOSEN.items():
        assert SUITE.forms("rows", sizes) == wanted, sizes
    assert SUITE.forms("one window", (400, 300, 30, 50)) == [
        "dynamic_update_slice, copied", "dynamic_update_slice, apart",
    ]  # fmt: skip
    assert SUITE.forms("one window", (40, 30, 30, 20)) == ["scatter dynamic_update_slice, by place"]


def test_places_are_counted_in_32_bits() -> None:
    """Where there are more updates, or more places, the form for any sizes is chosen."""
    program = SUITE.programs(TARGETS["cuda"])["elements"].program
    whole, *others = program.launches
    (condition,) = {launch.when for launch in others}
    assert whole.unless == (condition,)
    assert condition is not None
    (n,), (k,) = (program.function.params[number].shape for number in (0, 1))
    symbols = [next(iter(free_symbols(dim))) for dim in (n, k)]
    for sizes, chosen in ((10, MOST), True), ((10, MOST + 1), False), ((MOST - 1, 9), True), ((MOST, 9), False):
        assert holds(condition, dict(zip(symbols, sizes, strict=True))) is chosen, sizes


def test_what_has_places_of_its_own_everywhere_is_one_launch() -> None:
    """One place for each update along all axes, or updates that all cover the whole array."""
    suite = Scatters({"whole": Case(lambda x, u: x.at[:].add(u), "float32 n, float32 n", at("3"))})
    (launch,) = suite.programs(TARGETS["cuda"])["whole"].program.launches
    assert launch.when is None
