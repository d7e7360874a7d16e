"""What the GPU emitter writes: golden files, the tables' totality, literals, index expressions, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.lower.gpu.dialect import CUDA, HIP, dialect_of, gpu_target
from dyn.lower.gpu.emit import emit_kernel
from dyn.lower.gpu.indices import dim_text
from dyn.lower.gpu.scalars import C_TYPES, TABLE, apply, literal
from dyn.ops.scalar import COMPARISONS, Scalar
from dyn.schedule.kernel import Buffer, Const, Kernel, Load, Loop, Operand, Ref, Role, Store, Tile, TileContract
from dyn.schedule.kernel_verifier import check
from dyn.schedule.target import Target
from dyn.shapes import as_dim, broadcast, dim_max, dim_min, floordiv, mod, symbol
from dyn.shapes.expr import Atom
from tests.lower import gpu_kernels
from tests.lower.gpu_kernels import COMPUTED, F32, STORED, defined

TARGETS = {"cuda": gpu_target("cuda", "sm_90a"), "hip": gpu_target("rocm", "gfx90a")}
GROUPS = {
    "softmax": gpu_kernels.softmax,
    "bias_gelu_tanh": lambda: gpu_kernels.bias_gelu("tanh"),
    "bias_gelu_erf": lambda: gpu_kernels.bias_gelu("erf"),
}


@pytest.mark.parametrize("dialect", TARGETS)
@pytest.mark.parametrize("group", GROUPS)
def test_golden(group: str, dialect: str, golden: Callable[[str, str], None]) -> None:
    golden(f"gpu_{group}.{dialect}.txt", emit_kernel(GROUPS[group](), TARGETS[dialect]).text)


def test_names_do_not_matter() -> None:
    """Kernels made twice, with symbols and buffers of their own, have one text."""
    for make in GROUPS.values():
        assert emit_kernel(make(), TARGETS["cuda"]).text == emit_kernel(make(), TARGETS["cuda"]).text


def test_what_a_launch_needs() -> None:
    kernel = gpu_kernels.softmax()
    text = emit_kernel(kernel, TARGETS["cuda"])
    cols = kernel.dims[1]
    assert (text.symbol, text.threads) == ("softmax", 256)
    assert text.scratch_bytes == 64 + 16 * floordiv(as_dim(cols) + 3, 4)
    assert emit_kernel(kernel, TARGETS["hip"]).scratch_bytes == 32 + 16 * floordiv(as_dim(cols) + 3, 4)
    one_warp = emit_kernel(kernel, TARGETS["cuda"], block=32)
    assert one_warp.scratch_bytes == 16 * floordiv(as_dim(cols) + 3, 4)
    assert one_warp.text.count("__syncthreads") == 0  # each thread reads back what it stored itself
    assert emit_kernel(replace(kernel, name="a.b-c"), TARGETS["cuda"]).symbol == "a_b_c"


def test_without_lanes_a_block_is_a_warp() -> None:
    n, i = symbol("n"), symbol("i")
    x, y = Buffer("x", F32), Buffer("y", F32)
    body = Loop(Role.GRID, i, as_dim(n), (Store(y, as_dim(i), Load(x, as_dim(i))),))
    kernel = Kernel("k", (x, y), (n,), (), (body,))
    check(kernel)
    assert [emit_kernel(kernel, target).threads for target in TARGETS.values()] == [32, 64]


# ---- the tables ------------------------------------------------------------------------------------------------------


def test_the_table_is_total() -> None:
    assert set(TABLE) == set(Scalar)
    assert set(C_TYPES) == {*STORED, *dtypes.FLOAT8}


@pytest.mark.parametrize("fn", Scalar, ids=lambda fn: fn.text)
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_a_function_has_a_text_or_is_not_defined(fn: Scalar, dtype: DType) -> None:
    if fn is Scalar.CAST:
        for to in STORED:
            assert apply(fn, dtype, to, ("x",))
        return
    if fn is Scalar.BITCAST:
        assert all("x" in apply(fn, dtype, to, ("x",)) for to in gpu_kernels.same_width(dtype))
        return
    args = ("x", "y", "z")[: fn.arity]
    result = dtypes.bool_ if fn in COMPARISONS else dtype
    if defined(fn, dtype):
        text = apply(fn, dtype, result, args)
        assert all(re.search(rf"\b{arg}\b", text) for arg in args) or text == "true"
        assert "{" not in text
    else:
        with pytest.raises(UnsupportedOpError) as caught:
            apply(fn, dtype, result, args)
        assert str(caught.value) == f"{fn.text} of {dtype.name} is not defined.\n  help: cast the argument first."


def test_nothing_computes_in_halves() -> None:
    for dtype in (dtypes.float16, dtypes.bfloat16):
        for fn in set(Scalar) - {Scalar.CAST, Scalar.BITCAST, Scalar.SELECT}:
            with pytest.raises(UnsupportedOpError):
                apply(fn, dtype, dtype, ("x", "y", "z")[: fn.arity])


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        (dtypes.bool_, True, "true"),
        (dtypes.int8, -128, "((signed char)-128)"),
        (dtypes.uint16, 7, "((unsigned short)7)"),
        (dtypes.int32, 5, "5"),
        (dtypes.int32, -5, "(-5)"),
        (dtypes.int32, -(2**31), "(-2147483647 - 1)"),
        (dtypes.uint32, 2**32 - 1, "4294967295u"),
        (dtypes.int64, -(2**63), "(-9223372036854775807LL - 1)"),
        (dtypes.uint64, 2**64 - 1, "18446744073709551615uLL"),
        (dtypes.float32, 0.1, "0.1f"),
        (dtypes.float32, 1e300, "__int_as_float(0x7f800000)"),
        (dtypes.float32, -0.0, "(-0.0f)"),
        (dtypes.float64, 0.1, "0.1"),
        (dtypes.float64, -np.inf, "(-__longlong_as_double(0x7ff0000000000000LL))"),
        (dtypes.float32, np.nan, "__int_as_float(0x7fc00000)"),
        (dtypes.float16, 1.0, "dyn_f16{0x3c00}"),
        (dtypes.bfloat16, -2.0, "dyn_bf16{0xc000}"),
    ],
)
def test_literals(dtype: DType, value: float, text: str) -> None:
    assert literal(Const(dtype, value)) == text


def test_index_expressions() -> None:
    a, b, c = symbol("a"), symbol("b"), symbol("c")
    names: dict[Atom, str] = {a: "d0", b: "d1", c: "i0"}
    x, y, i = as_dim(a), as_dim(b), as_dim(c)
    assert dim_text(7, names) == "7"
    assert dim_text(2**40, names) == "1099511627776LL"
    assert dim_text(x * y + 3 * i - 1, names) == "d0 * d1 + 3 * i0 - 1"
    assert dim_text(4 - x * x, names) == "-d0 * d0 + 4"
    assert dim_text(floordiv(x, 3) + mod(x, 8) * 9, names) == "dyn_floordiv(d0, 3) + 9 * (d0 & 7)"
    assert dim_text(floordiv(x + 1, 2) - mod(x, y), names) == "((d0 + 1) >> 1) - dyn_mod(d0, d1)"
    assert dim_text(dim_min(x, y, 5) * dim_max(x, y), names) == "dyn_imin(5, dyn_imin(d0, d1)) * dyn_imax(d0, d1)"
    assert dim_text(broadcast(x, y), names) == "dyn_broadcast(d0, d1)"


# ---- what is refused -------------------------------------------------------------------------------------------------


def contraction(shape: Tile) -> Kernel:
    m, n, k, row, col, red = map(symbol, ("m", "n", "k", "row", "col", "red"))
    a, b, c, acc = Buffer("a", F32), Buffer("b", F32), Buffer("c", F32), Ref("acc", F32)
    epilogue = (Store(c, as_dim(row) * as_dim(n) + as_dim(col), acc),)
    lhs = Load(a, as_dim(row) * as_dim(k) + as_dim(red))
    rhs = Load(b, as_dim(red) * as_dim(n) + as_dim(col))
    tile = TileContract(row, col, red, as_dim(m), as_dim(n), as_dim(k), lhs, rhs, acc, epilogue, shape)
    return Kernel("matmul", (a, b, c), (m, n, k), (), (tile,))


def test_tiles_that_no_block_has() -> None:
    with pytest.raises(ValueError, match="f32 has no blocks of threads with tiles of 6x64, rhs staged"):
        emit_kernel(contraction(Tile(6, 64)), TARGETS["cuda"])
    high = Tile(8, 8, (Operand.LHS, Operand.RHS), threads=128)
    with pytest.raises(ValueError, match="m results do not fit into a tile of 128x64"):
        emit_kernel(contraction(high), TARGETS["cuda"])


def test_complex_numbers_wait() -> None:
    n, i = symbol("n"), symbol("i")
    x, y = Buffer("x", dtypes.complex64), Buffer("y", dtypes.complex64)
    body = Loop(Role.LANE, i, as_dim(n), (Store(y, as_dim(i), Load(x, as_dim(i))),))
    with pytest.raises(NotYetError) as caught:
        emit_kernel(Kernel("k", (x, y), (n,), (), (body,)), TARGETS["hip"])
    assert str(caught.value) == (
        "complex64 is not generated for GPUs yet.\n  help: compute with the real and imaginary parts."
    )


def test_blocks_are_whole_warps() -> None:
    with pytest.raises(ValueError, match="a block of 96 threads is not made of warps of 64, or too large"):
        emit_kernel(gpu_kernels.softmax(), TARGETS["hip"], block=96)


def test_teams_are_parts_of_warps() -> None:
    n, t = symbol("n"), symbol("t")
    kernel = Kernel("k", (), (n,), (), (Loop(Role.TEAM, t, as_dim(n), width=64),))
    with pytest.raises(ValueError, match="a team of 64 lanes does not fit into a warp of 32"):
        emit_kernel(kernel, TARGETS["cuda"])


def test_dialects() -> None:
    assert [dialect_of(t) for t in TARGETS.values()] == [CUDA, HIP]
    assert [gpu_target("rocm", a).warp for a in ("gfx90a", "gfx940", "gfx1030", "gfx1100")] == [64, 64, 32, 32]
    with pytest.raises(UnsupportedOpError) as caught:
        dialect_of(Target("x86", "znver4"))
    assert str(caught.value) == (
        "x86:znver4 is not a GPU that dyn has a dialect for.\n  help: use a target of one of the families cuda, rocm."
    )
