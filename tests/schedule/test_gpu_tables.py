"""The schedules of GPUs, class by class of nest: run by the shim in both dialects at sizes around warps, blocks and
tiles, and compared with the reference; the same bits for any grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.backends.base import Source
from dyn.backends.cuda import CudaBackend
from dyn.backends.reference import run_reference
from dyn.backends.rocm import RocmBackend
from dyn.lower.gpu.dialect import dialect_of
from tests.lower.gpu_programs import TARGETS, Compiled, compile_function, run
from tests.shim.run import ShimModule

Array = np.ndarray[Any, Any]
#: Around a few lanes, warps, tiles and blocks.
EDGES = (0, 1, 2, 31, 33, 65, 257)


@dataclass(frozen=True)
class Case:
    """A program, its arguments (a dtype and dims each), and the sizes of their dims that it is run at."""

    function: Callable[..., Any]
    arguments: str
    sizes: tuple[tuple[int, ...], ...]

    def structs(self) -> list[dyn.ShapeDtypeStruct]:
        made: list[dyn.ShapeDtypeStruct] = []
        for argument in self.arguments.split(", "):
            dtype, *dims = argument.split()
            made.append(dyn.ShapeDtypeStruct(tuple([int(d) if d.isdigit() else d for d in dims]), dtype))
        return made

    def arrays(self, sizes: Sequence[int]) -> list[Array]:
        rng, names, free = np.random.default_rng(sum(sizes)), dict[str, int](), iter(sizes)
        arrays: list[Array] = []
        for argument in self.arguments.split(", "):
            dtype, *dims = argument.split()
            for d in dims:
                if d not in names:
                    names[d] = int(d) if d.isdigit() else next(free)
            shape = [names[d] for d in dims]
            values = rng.integers(-9, 10, shape) if dtype.startswith("int") else rng.standard_normal(shape)
            arrays.append(np.asarray(values).astype(dtypes.dtype(dtype).np))
        return arrays


def at(text: str) -> tuple[tuple[int, ...], ...]:
    """Sizes: ``at("1 1; 3 31")``."""
    return tuple(tuple(map(int, sizes.split())) for sizes in text.split(";"))


def edges(more: str = "") -> tuple[tuple[int, ...], ...]:
    """Vectors around the edges."""
    return (*[(n,) for n in EDGES], *at(more or "1023; 2049"))


def both(more: str = "65 33") -> tuple[tuple[int, ...], ...]:
    """Matrices of few rows around the edges, and more."""
    return (*[(n, m) for n in (0, 1, 3) for m in EDGES], (33, 31), *at(more))


def stitched(x: Any) -> Any:
    """A softmax: the exponentials are needed by two sweeps."""
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True, initial=-9))
    return e / dnp.sum(e, axis=-1, keepdims=True)


def normalised(x: Any, scale: Any) -> Any:
    mean = dnp.mean(x, axis=-1, keepdims=True)
    return (x - mean) / dnp.sqrt(dnp.var(x, axis=-1, keepdims=True) + 1e-5) * scale


MATRIX = "float32 n m"
CUBE = "float32 a b c"
CASES: dict[str, Case] = {
    "one run": Case(lambda x, y: (x + y, x * 2), "float32 n, float32 n", edges("1023; 4099")),
    "mixed widths": Case(lambda x, y: x + y, "float16 n, float64 n", edges()),
    "bytes": Case(lambda x: x > 1, "int8 n", edges()),
    "bias": Case(lambda x, b: dnp.tanh(x + b), "float32 n m, float32 m", both("2 1025")),
    "stretched": Case(lambda x, y: x + y, "float32 n m, float32 k m", at("1 1 1; 3 33 3; 3 33 1; 1 257 5; 0 4 1")),
    "a row of scalars": Case(lambda x, c: x * c, "float32 n m, float32 n 1", both()),
    "strided": Case(lambda x: x[:, ::2] + x[:, ::-1][:, ::2], MATRIX, both()),
    "transpose": Case(lambda x: x.T + 1, MATRIX, both("32 64; 100 70")),
    "added to its transpose": Case(lambda x, y: x + y.T, "float32 n m, float32 m n", both("32 32")),
    "many transposes": Case(
        lambda *xs: sum(x.T * n for n, x in enumerate(xs, 1)), ", ".join(["float64 n m"] * 7), at("1 1; 3 33; 70 40")
    ),
    "permuted": Case(lambda x: dnp.permute_dims(x, (2, 0, 1)) * 2, CUBE, at("0 2 3; 1 1 1; 2 33 40; 40 2 33; 3 5 65")),
    "heads": Case(lambda x: dnp.permute_dims(x, (0, 2, 1, 3)) * 2, "float32 a b 4 c", at("0 2 3; 1 1 1; 2 33 40")),
    "rows": Case(lambda x: dnp.sum(x, axis=1), MATRIX, both("2 1025; 9 1024; 2 16385; 1 40000")),
    "wide rows": Case(lambda x: dnp.max(x, axis=1, initial=-100), "float64 n m", both("2 1025")),
    "narrow rows": Case(lambda x: dnp.sum(x, axis=1), "bfloat16 n m", both("2 1025")),
    "softmax": Case(stitched, MATRIX, both("33 32; 2 1025; 1 13000")),
    "layer norm": Case(normalised, "float32 n m, float32 m", at("1 1; 3 31; 40 33; 2 1025; 1 13000")),
    "columns": Case(lambda x: dnp.sum(x, axis=0), MATRIX, both("1300 3; 1024 70")),
    "columns, stitched": Case(lambda x: x - dnp.mean(x, axis=0, keepdims=True), MATRIX, both()[7:]),
    "everything": Case(lambda x: dnp.sum(x) + 1, MATRIX, both("200 257")),
    "outer and inner": Case(
        lambda x: dnp.sum(x, axis=(0, 2)), CUBE, at("0 2 3; 2 0 3; 1 1 1; 5 3 4; 7 2 130; 130 2 131")
    ),
    "middle": Case(lambda x: dnp.sum(x, axis=1), CUBE, at("0 2 3; 2 0 3; 1 1 1; 5 3 4; 2 2000 3")),
    "integers": Case(lambda x: (dnp.sum(x, axis=1), dnp.min(x, axis=1, initial=3)), "int32 n m", both("2 1025")),
    "gather": Case(
        lambda x, i: dnp.take(x, i, axis=0), "float32 n m, int32 k", at("1 1 1; 5 3 4; 7 33 9; 4 257 2; 3 8 0")
    ),
    "concatenation": Case(
        lambda x, y: dnp.concatenate([x, y], axis=0), "float32 n m, float32 k m", at("0 0 0; 1 1 1; 3 65 2; 2 300 4"),
    ),
    "side by side": Case(
        lambda x, y: dnp.concatenate([x + 1, y], axis=1), "float32 n m, float32 n k",
        at("0 0 0; 1 1 1; 3 65 2; 2 300 4"),
    ),
    "running": Case(lambda x: dnp.cumulative_sum(x, axis=1), MATRIX, both("2 3000; 1 40000; 3 16385; 40 32")),
    "running back": Case(lambda x: dyn.lax.cummax(x, axis=0, reverse=True), "float16 n", edges("2049; 40000")),
    "running integers": Case(lambda x: dyn.lax.cumprod(x, axis=1), "int32 n m", both("2 3000; 1 40000")),
    "running down": Case(lambda x: dnp.cumulative_sum(x, axis=0), MATRIX, both("3000 2; 1025 70")),
    "rows of updates": Case(
        lambda x, i, u: x.at[i].add(u), "float32 n m, int32 k, float32 k m",
        at("1 1 1; 5 3 4; 7 33 90; 4 257 20; 3 8 0"),
    ),
    "many places": Case(lambda x, i, u: x.at[i].add(u), "float32 n, int32 k, float32 k", at("1 1; 300 90; 70000 50")),
    "places of halves": Case(lambda x, i, u: x.at[i].multiply(u), "float16 n, int32 k, float16 k", at("1 1; 30 90")),
    "a window of updates": Case(
        lambda x, u: dyn.lax.dynamic_update_slice(x, u, (1, 2)), "float32 n m, float32 k l",
        at("1 1 1 1; 40 70 3 5; 9 9 9 9; 300 300 2 40"),
    ),
}  # fmt: skip


@lru_cache
def programs_for(dialect: str) -> dict[str, Compiled]:
    compiled: dict[str, Compiled] = {}
    for number, (name, case) in enumerate(CASES.items()):
        function = dyn.jit(case.function).trace(*case.structs()).traced.function
        compiled[name] = compile_function(function, TARGETS[dialect], f"k{number}")
    return compiled


@lru_cache
def machine(dialect: str) -> ShimModule:
    """All programs for one dialect, in one translation unit."""
    target = TARGETS[dialect]
    texts = [text for each in programs_for(dialect).values() for text in each.texts.values()]
    return ShimModule(texts, dialect_of(target), target.warp)


def source(dialect: str) -> Source:
    """The kernels of all programs."""
    texts = [text for each in programs_for(dialect).values() for text in each.texts.values()]
    return Source("\n".join(t.text for t in texts), tuple(t.symbol for t in texts))


def test_nvrtc_compiles_them(require_module: Callable[[str], Any]) -> None:
    require_module("cuda.bindings.nvrtc")
    assert CudaBackend(TARGETS["cuda"]).compile(source("cuda")).data


def test_hipcc_compiles_them(require_tool: Callable[..., str]) -> None:
    require_tool("hipcc")
    assert RocmBackend(TARGETS["hip64"]).compile(source("hip64")).data[:4] == b"\x7fELF"


@pytest.mark.parametrize("dialect", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_classes(name: str, dialect: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    module, case, compiled = machine(dialect), CASES[name], programs_for(dialect)[name]
    for sizes in case.sizes:
        arrays = case.arrays(sizes)
        expected = run_reference(compiled.program.function, arrays)
        results = run(module, compiled, arrays)
        for result, value in zip(results, expected, strict=True):
            assert result is not None
            tolerance = 2e-2 if result.dtype.itemsize == 2 else 2e-5
            a, b = (np.asarray(v).astype(np.float64) for v in (result, value))
            most = tolerance * (1 + np.abs(b[np.isfinite(b)]).max(initial=0))
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=most, err_msg=f"{name} at {sizes}")
        for grid, seed in ((1, 2), (7, 3)):
            again = run(module, compiled, arrays, grid, seed)
            assert all(
                a is not None and b is not None and a.tobytes() == b.tobytes()
                for a, b in zip(results, again, strict=True)
            )
