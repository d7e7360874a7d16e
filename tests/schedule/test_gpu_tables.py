"""The schedules of GPUs, class by class of nest: run by the shim in both dialects at sizes around warps, blocks and
tiles, and compared with the reference; the same bits for any grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dyn
import dyn.numpy as dnp
from dyn import nn
from dyn.backends.rocm import RocmBackend
from dyn.schedule.families import schedules_of
from tests.rarely import rarely
from tests.schedule.gpu_cases import TARGETS, Case, Suite, at, both, edges, gpu_target


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
    "softmax of halves": Case(stitched, "bfloat16 n m", both("33 32; 2 1025; 3 1028; 1 13000")),
    "norm of halves": Case(
        lambda x, s: nn.layer_norm(x, weight=s, bias=s), "bfloat16 n m, bfloat16 m", both("40 33; 2 1025; 3 1028")
    ),
    "rows of bytes": Case(lambda x: dnp.sum(x, axis=1, dtype=dnp.int32), "int8 n m", both("2 1025")),
    "rows back": Case(lambda x, y: dnp.sum(x[:, ::-1] * y, axis=1), f"{MATRIX}, {MATRIX}", both("2 1025")),
    "parts of rows": Case(lambda x: dnp.sum(x[:, 1:], axis=1), MATRIX, both("2 1026")),
    "derivative of a softmax": Case(
        lambda y, g: (g - dnp.sum(y * g, axis=-1, keepdims=True)) * y, f"{MATRIX}, {MATRIX}", both("2 1025")
    ),
    "layer norm": Case(normalised, "float32 n m, float32 m", at("1 1; 3 31; 40 33; 2 1025; 1 13000")),
    "columns": Case(lambda x: dnp.sum(x, axis=0), MATRIX, both("1300 3; 1024 70")),
    "columns, stitched": Case(lambda x: x - dnp.mean(x, axis=0, keepdims=True), MATRIX, both()[7:]),
    "batch norm": Case(
        lambda x, s, b: (x - dnp.mean(x, axis=0)) / dnp.sqrt(dnp.var(x, axis=0) + 1e-5) * s + b,
        "float32 n m, float32 m, float32 m", at("1 3; 255 5; 256 1; 257 3; 1300 70"),
    ),
    "long columns, stitched": Case(lambda x: x - dnp.mean(x, axis=0), MATRIX, at("256 33; 1025 3; 0 3; 300 0")),
    "few long rows": Case(stitched, MATRIX, at("1 16385; 3 17000; 2 40000")),
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
    "side by side, much": Case(
        lambda x, y: dnp.concatenate([x + 1, y], axis=1), "float32 n m, float32 n k", at("1030 601 500; 1024 1024 0")
    ),
    "three pieces": Case(
        lambda x, y, z: dnp.concatenate([x, y * 2, z], axis=1), "bfloat16 n m, bfloat16 n k, bfloat16 n 1",
        at("0 0 0; 1 1 1; 3 0 2; 2 64 7"),
    ),
    "many pieces": Case(
        lambda *xs: dnp.concatenate(xs, axis=1), ", ".join(["float32 n m", "float32 n k"] * 5),
        at("0 0 0; 1 1 1; 3 65 2"),
    ),
    "running": Case(lambda x: dnp.cumulative_sum(x, axis=1), MATRIX, both("2 3000; 1 40000; 3 16385; 40 32")),
    "running back": Case(lambda x: dyn.lax.cummax(x, axis=0, reverse=True), "float16 n", edges("2049; 40000")),
    "running integers": Case(lambda x: dyn.lax.cumprod(x, axis=1), "int32 n m", both("2 3000; 1 40000")),
    "running down": Case(lambda x: dnp.cumulative_sum(x, axis=0), MATRIX, both("3000 2; 1025 70")),
    "compacted": Case(lambda x: dnp.nonzero(x > 0, size=50)[0], "float32 n", edges("1025; 2049; 40000")),
    "compacted rows": Case(
        dyn.vmap(lambda row: dnp.unique(row, size=9)), MATRIX, at("1 1; 3 31; 40 33; 3 600; 2 2049"),
    ),
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

SUITE = Suite(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_nvrtc_compiles_them_without_spills(arch: str, require_module: Callable[[str], Any]) -> None:
    """Nor do those that call functions of ptxas's own, as 64-bit divisions do ("outer and inner", on sm_90a)."""
    require_module("cuda.bindings.nvrtc")
    target, names = gpu_target("cuda", arch), list(CASES)
    found = SUITE.reports(target)
    assert all(used.registers <= schedules_of(target).limits(target).registers for used in found.values())
    spilled = {names[int(symbol[1:].partition("_")[0])] for symbol, used in found.items() if used.spilled_bytes}
    assert spilled == set()


@pytest.mark.slow
def test_hipcc_compiles_them(require_tool: Callable[..., str]) -> None:
    require_tool("hipcc")
    assert RocmBackend(TARGETS["hip64"]).compile(SUITE.source(TARGETS["hip64"])).data[:4] == b"\x7fELF"


@pytest.mark.parametrize("dialect", [rarely("cuda"), "hip64"])
@pytest.mark.parametrize("name", CASES)
def test_classes(name: str, dialect: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    SUITE.check(name, TARGETS[dialect])
