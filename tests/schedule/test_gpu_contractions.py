"""Contractions and convolutions on GPUs: tiles in registers and shared memory, run by the shim with warps of 32 and 64
lanes at sizes around tiles, in every layout and dtype; compiled for each architecture without spills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import dyn
import dyn.numpy as dnp
from dyn import nn
from dyn.backends.cuda import CudaBackend
from dyn.backends.rocm import RocmBackend
from dyn.lower.gpu.dialect import gpu_target
from dyn.schedule.families import schedules_of
from tests.rarely import rarely
from tests.schedule.gpu_cases import TARGETS, Case, Suite, at

#: Rows, contracted, columns: nothing, one, around warps, tiles and slices.
TILES = "0 1 1; 1 0 1; 1 1 0; 1 1 1; 2 3 1; 7 33 31; 8 65 33; 9 31 65; 32 2 64; 33 32 257; 129 40 66"
FEW = at("0 1 1; 2 0 2; 1 1 1; 5 33 31; 33 9 65")


def product(a: Any, b: Any) -> Any:
    return a @ b


def pullback(f: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The gradient of an argument of ``f``, for the last argument as the cotangent."""

    def gradient(*args: Any) -> Any:
        _, back = dyn.vjp(f, *args[:-1])
        return back(args[-1])[number]

    return gradient


def convolution(x: Any, w: Any, numbers: tuple[str, str, str] = ("NHWC", "HWIO", "NHWC"), **given: Any) -> Any:
    return nn.conv(x, w, dimension_numbers=numbers, **given)


SAME = partial(convolution, padding="SAME")
DEPTHWISE = partial(convolution, padding="SAME", feature_group_count=6)
GROUPED = partial(convolution, padding="SAME", feature_group_count=2)
NCHW = partial(convolution, numbers=("NCHW", "OIHW", "NCHW"), padding="SAME")
IMAGES = at("0 5 5; 1 0 3; 1 1 1; 2 5 7; 1 9 33")
CASES: dict[str, Case] = {
    "matrices": Case(product, "float32 m k, float32 k n", at(TILES + "; 257 33 31")),
    "left transposed": Case(lambda a, b: a.T @ b, "float32 k m, float32 k n", at("1 1 1; 33 5 31; 40 129 66; 257 2 3")),
    "right transposed": Case(lambda a, b: a @ b.T, "float32 m k, float32 n k", at(TILES)),
    "both transposed": Case(lambda a, b: a.T @ b.T, "float32 k m, float32 n k", FEW),
    "strided": Case(lambda a, b: a[:, ::2] @ b[::2, ::3], "float32 m 66, float32 66 n", at("1 1; 9 31; 65 200")),
    "doubles": Case(product, "float64 m k, float64 k n", at("1 1 1; 3 40 33; 33 31 65; 66 65 66")),
    "halves": Case(product, "float16 m k, float16 k n", at("1 1 1; 3 40 33; 33 31 65; 130 64 72")),
    "bfloat16": Case(lambda a, b: a @ b.T, "bfloat16 m k, bfloat16 n k", at("1 1 1; 3 40 33; 33 31 65; 130 64 72")),
    "float8": Case(lambda a, b: a.astype("float32") @ b.astype("float32"), "float8_e4m3fn m k, float8_e5m2 k n", FEW),
    "integers": Case(product, "int32 m k, int32 k n", FEW),
    "long integers": Case(product, "int64 m k, int64 k n", FEW),
    "bytes": Case(product, "int8 m k, int8 k n", FEW),
    "unsigned": Case(product, "uint16 m k, uint16 k n", FEW),
    "complex": Case(product, "complex64 m k, complex64 k n", FEW),
    "complex doubles": Case(lambda a, b: dnp.conj(a) @ b + 1, "complex128 m k, complex128 k n", FEW),
    "batched": Case(product, "float32 b m k, float32 b k n", at("0 1 1 1; 1 1 1 1; 3 9 33 31; 2 33 5 65")),
    "stretched": Case(product, "float32 b m k, float32 c k n", at("1 1 1 1 1; 3 9 5 1 31; 1 9 5 2 3")),
    "heads": Case(
        lambda q, k: dnp.einsum("bshd,bthd->bhst", q, k), "float32 b s 3 8, float32 b t 3 8",
        at("1 1 1; 2 33 5; 2 5 65; 0 3 3"),
    ),
    "several axes": Case(lambda a, b: dnp.tensordot(a, b, axes=((0, 2), (2, 0))), "float32 p m q, float32 q n p", at(
        "1 1 1 1; 3 9 5 7; 2 33 20 65; 0 2 3 2")),
    "vector times matrix": Case(lambda v, w: v @ w, "float32 k, float32 k n", at("0 1; 1 1; 33 31; 257 65; 4000 33")),
    "matrix times vector": Case(lambda w, v: w @ v, "float32 n k, float32 k", at("1 0; 1 1; 31 33; 65 257; 33 4000")),
    "dots": Case(lambda a, b: dnp.sum(a * b), "float32 n, float32 n", at("0; 1; 33; 257; 40000")),
    "inner": Case(dnp.vecdot, "float32 b n, float32 b n", at("0 1; 3 0; 2 33; 3 257")),
    "outer": Case(dnp.outer, "float32 m, float32 n", at("0 1; 1 1; 33 65")),
    "long": Case(product, "float32 m k, float32 k n", at("3 2047 5; 3 2048 5; 40 2100 33; 1 5000 1")),
    "of dear elements": Case(
        lambda a, b: dnp.exp(a) @ (dnp.tanh(b) + 1), "float32 m k, float32 k n", at("1 1 1; 3 40 33; 33 31 65; 2 0 3")
    ),
    "of cheap elements": Case(
        lambda a, c, b: (a + c) @ (b * 2), "float32 m k, float32 k, float32 k n", at("1 1 1; 3 40 33; 33 31 65")
    ),
    "bias and gelu": Case(
        lambda a, b, c: nn.gelu(a @ b + c, approximate=False), "float32 m k, float32 k n, float32 n", FEW,
    ),
    "residual in halves": Case(
        lambda a, b, c: a @ b + c, "bfloat16 m k, bfloat16 k n, bfloat16 m n", at("1 1 1; 3 40 33; 33 31 65; 0 2 2")
    ),
    "known weights": Case(product, "float32 m 96, float32 96 40", at("0; 1; 8; 9; 33; 129")),
    "small weights": Case(product, "float32 m 3, float32 3 2", at("0; 1; 8; 9; 33; 129")),
    "image": Case(SAME, "float32 n h w 5, float32 3 3 5 7", IMAGES),
    "image of features": Case(NCHW, "float32 n 5 h w, float32 7 5 3 3", IMAGES),
    "strides": Case(partial(SAME, window_strides=2), "float32 n h w 4, float32 3 3 4 9", IMAGES),
    "dilated": Case(partial(NCHW, rhs_dilation=2), "float32 n 4 h w, float32 9 4 3 2", IMAGES),
    "holes": Case(
        partial(convolution, padding=((1, 1), (2, 0)), lhs_dilation=(2, 1)), "float32 n h w 4, float32 3 2 4 9", IMAGES
    ),
    "depthwise": Case(DEPTHWISE, "float32 n h w 6, float32 3 3 1 6", IMAGES),
    "a channel a group": Case(
        lambda x, w: convolution(x, w, padding="SAME", feature_group_count=x.shape[3]),
        "float32 n h w c, float32 3 3 1 c", at("1 1 1 1; 2 5 7 9; 1 3 3 33"),
    ),
    "grouped": Case(GROUPED, "float32 n h w 6, float32 3 3 3 18", IMAGES),
    "undecided": Case(
        convolution, "float32 n h w c, float32 a b c f",
        at("1 1 1 1 1 1 1; 2 5 7 3 3 2 9; 1 9 8 5 1 1 33; 2 3 3 2 5 1 4"),
    ),
    "a line": Case(
        partial(nn.conv, padding="SAME", dimension_numbers=("NWC", "WIO", "NWC")), "float32 n w 4, float32 5 4 8",
        at("0 3; 1 1; 3 33; 2 257"),
    ),
    "gradient of the image": Case(
        pullback(partial(SAME, window_strides=2), 0), "float32 n 9 9 4, float32 3 3 4 6, float32 n 5 5 6", at("0; 1; 3")
    ),
    "gradient of the kernel": Case(
        pullback(SAME, 1), "float32 n h w 4, float32 3 3 4 6, float32 n h w 6", (*IMAGES, *at("3 27 26; 40 8 7")),
    ),
    "image of many features": Case(SAME, "float32 n h w 256, float32 3 3 256 5", at("0 3 3; 1 1 1; 1 3 4")),
    "gradient of groups": Case(
        pullback(GROUPED, 1), "float32 n h w 6, float32 3 3 3 8, float32 n h w 8", at("0 5 5; 1 1 1; 2 5 7")
    ),
    "normed image": Case(
        lambda x, s, w, b: dnp.maximum(SAME(x * s, w) + b, 0), "float32 n h w 5, float32 5, float32 3 3 5 7, float32 7",
        IMAGES,
    ),
    "doubles of an image": Case(NCHW, "float64 n 3 h w, float64 5 3 3 3", at("1 1 1; 2 5 7")),
    "halves of an image": Case(SAME, "float16 n h w 8, float16 3 3 8 8", at("1 1 1; 2 5 7")),
}  # fmt: skip
SUITE = Suite(CASES)
#: What is compiled for each architecture, and run on the third kind of machine: the others take minutes.
SAMPLE = Suite({name: CASES[name] for name in (
    "right transposed", "doubles", "bfloat16", "several axes", "bias and gelu", "vector times matrix",
    "image of features", "undecided", "gradient of the kernel",
)})  # fmt: skip

WATCHED = Suite({
    name: CASES[name] for name in ("right transposed", "several axes", "undecided", "of dear elements", "doubles")
})  # fmt: skip


@pytest.mark.parametrize("dialect", ["cuda", rarely("hip64")])
@pytest.mark.parametrize("name", CASES)
def test_contractions(name: str, dialect: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    SUITE.check(name, TARGETS[dialect])


@pytest.mark.parametrize("name", SAMPLE.cases)
def test_hip_with_warps_of_32_lanes(name: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    SAMPLE.check(name, gpu_target("rocm", "gfx1030"))


@pytest.mark.parametrize("name", WATCHED.cases)
def test_no_races(name: str, require_tool: Callable[..., str]) -> None:
    """No thread reads what another one writes between barriers."""
    require_tool("g++")
    WATCHED.check(name, TARGETS["cuda"], races=True)


@pytest.mark.parametrize("arch", [rarely("sm_80"), "sm_90a", rarely("sm_120")])
def test_nvrtc_compiles_them_without_spills(arch: str, require_module: Callable[[str], Any]) -> None:
    require_module("cuda.bindings.nvrtc")
    target = gpu_target("cuda", arch)
    for name, used in CudaBackend(target).compile(SAMPLE.source(target)).resources:
        assert used.spill_store_bytes == used.spill_load_bytes == 0, name
        assert used.registers <= schedules_of(target).limits(target).registers


@pytest.mark.parametrize("arch", ["gfx90a", rarely("gfx1030")])
def test_hipcc_compiles_them_without_spills(arch: str, require_tool: Callable[..., str]) -> None:
    """Vector registers alone count: scalar ones that are too many go to lanes of those, not to memory."""
    require_tool("hipcc")
    target = gpu_target("rocm", arch)
    for kernel in RocmBackend(target).compile(SAMPLE.source(target)).kernels:
        assert kernel.vgpr_spills == 0, kernel


def test_shared_memory_is_within_the_limits() -> None:
    for target in TARGETS.values():
        limits = schedules_of(target).limits(target)
        texts = [text for each in SUITE.programs(target).values() for text in each.texts.values()]
        sizes = [text.scratch_bytes for text in texts if isinstance(text.scratch_bytes, int)]
        assert max(sizes) <= (limits.scratch_bytes or 0)
        assert all(text.threads <= limits.threads for text in texts)
