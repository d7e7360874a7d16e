"""Contractions of GPUs as loops around staged packs and multiplications: run by an interpreter of kernel IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import IRError, NotYetError
from dyn.lower.gpu.barriers import BarrierPoint, Barriers
from dyn.lower.gpu.dialect import dialect_of, gpu_target
from dyn.lower.gpu.emit import Emitter
from dyn.schedule.gpu.blocked import blocked
from dyn.schedule.gpu.contractions import blockings
from dyn.schedule.kernel import (
    Buffer,
    Clear,
    Kernel,
    Load,
    Loop,
    Multiply,
    Operand,
    Pack,
    Role,
    Space,
    Spill,
    Stmt,
    Store,
    Tile,
)
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.target import Target
from dyn.shapes import as_dim, symbol
from tests.lower.contractions import LHS, RHS, chunked
from tests.schedule.kernel_interpreter import Run, run_product
from tests.schedule.test_blocked import changed

F32, F64, I8, I32, I64 = dtypes.float32, dtypes.float64, dtypes.int8, dtypes.int32, dtypes.int64
#: With copies that go on by themselves, without, and with warps of 64 lanes.
TARGETS = [gpu_target("cuda", "sm_80"), gpu_target("cuda", "sm_75"), gpu_target("rocm", "gfx90a")]


def execute(kernel: Kernel, target: Target, m: int, n: int, k: int, lhs: str, rhs: str) -> Run:
    """Run the blocked form of a kernel of three sizes, and check what it computes."""
    return run_product(blocked(kernel, target), (m, n, k), lhs, rhs)


@settings(max_examples=25)
@given(
    st.sampled_from([0, 1, 2, 7, 9]), st.sampled_from([0, 1, 3, 17, 33]), st.sampled_from([0, 1, 5, 16, 17, 70]),
    st.sampled_from(TARGETS), st.sampled_from(sorted(LHS)), st.sampled_from(sorted(RHS)),
    st.sampled_from([F32, F64, I8, I32, I64]), st.integers(0, 3),
)  # fmt: skip
def test_any_sizes_layouts_and_tiles(
    m: int, n: int, k: int, target: Target, lhs: str, rhs: str, dtype: DType, which: int
) -> None:
    """Every product is there once, and no two elements of a slice have one place."""
    several = blockings(dtype, target.warp)
    of = several[min(which, len(several) - 1)]
    run = execute(chunked(of.tile, of.rows, of.columns, lhs, rhs=rhs, dtype=dtype), target, m, n, k, lhs, rhs)
    if m and n:
        assert run.products % (m * n) == 0
        assert k <= run.products // (m * n) < k + of.depth


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_an_operand_is_packed_once_a_block(target: Target) -> None:
    (of,) = [of for of in blockings(F32, target.warp) if (of.rows, of.columns) == (32, 64)]
    run = execute(chunked(of.tile, of.rows, of.columns), target, 33, 65, 40, "mk", "kn")
    assert set(run.packed.values()) == {2}, "two blocks along the other operand"
    assert len(run.packed) == 33 * 40 + 40 * 65


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_what_is_copied_has_three_slots(target: Target) -> None:
    """And lies along the steps, if it does in memory: elsewhere it is turned on its way."""
    tile = Tile(8, 8, (Operand.LHS, Operand.RHS), 128)
    form = blocked(chunked(tile, 128, 64, rhs="nk"), target)
    packs = [stmt for stmt in walk_stmts(form.body) if isinstance(stmt, Pack)]
    copies = target.arch == "sm_80"
    assert [(pack.staged.slots, pack.staged.copied) for pack in packs if pack.staged is not None] == (
        [(3, True)] * 2 if copies else [(2, False)] * 2
    )
    assert [pack.inner.var.name for pack in packs] == (["r", "r"] if copies else ["i", "j"])


def test_barriers_stand_where_results_take_the_place_of_slices() -> None:
    target = TARGETS[0]
    tile = Tile(8, 8, (Operand.LHS, Operand.RHS), 128)
    form = blocked(chunked(tile, 128, 64), target)
    needed = Barriers(form, exchanges=True).needed
    (spill,) = [stmt for stmt in walk_stmts(form.body) if isinstance(stmt, Spill)]
    (lanes,) = [stmt for stmt in walk_stmts(form.body) if isinstance(stmt, Loop) and stmt.role is Role.LANE]
    assert needed == {(id(spill), BarrierPoint.BEFORE), (id(lanes), BarrierPoint.BEFORE)}


def test_texts(golden: Callable[[str, str], None]) -> None:
    """Operands that the device copies, along steps and not; with parts; and integers in words."""
    cuda, _, hip = TARGETS
    low, *_, high = blockings(F32, cuda.warp)
    texts = {
        "copied": (chunked(high.tile, high.rows, high.columns, rhs="nk"), cuda),
        "parts": (chunked(low.tile, low.rows, low.columns), cuda),
        "moved by threads": (chunked(low.tile, low.rows, low.columns, dtype=I8), hip),
    }
    lines = [f"// {name}\n{kernel_text(blocked(kernel, target))}" for name, (kernel, target) in texts.items()]
    golden("gpu_blocked.txt", "\n".join(lines))


def test_kernels_without_contractions_stay() -> None:
    kernel = Kernel("nothing", (), (), (), ())
    assert blocked(kernel, TARGETS[0]) is kernel


def test_faults_are_found() -> None:
    """Each rule of staged packs and of accumulators in registers."""
    form = blocked(chunked(Tile(8, 8, (Operand.LHS, Operand.RHS), 128), 128, 64), TARGETS[0])
    other, scratch = symbol("other"), Buffer("sums", F32, Space.SCRATCH, 64)
    out = next(stmt.buffer for stmt in walk_stmts(form.body) if isinstance(stmt, Store))
    acc = next(stmt.acc for stmt in walk_stmts(form.body) if isinstance(stmt, Clear))
    faults: list[tuple[type[Stmt], dict[str, Any], str]] = [
        (Clear, {"acc": scratch}, "sums is cleared or spilled, and lies in no registers"),
        (Spill, {"acc": scratch}, "sums is cleared or spilled, and lies in no registers"),
        (Spill, {"buffer": out}, "c, which a contraction stores to, is no scratch"),
        (Spill, {"start": as_dim(other)}, "the first row of a spill mentions other, which is not in scope"),
        (Spill, {"buffer": Buffer("wide", F64, Space.SCRATCH, 64)}, "acc, of f32, is spilled to f64"),
        (Multiply, {"acc": scratch}, "sums lies in scratch, where cores has no sums"),
        (Store, {"value": Load(acc, 0)}, "acc is read, and lies in registers"),
        (Loop, {"step": 4}, "loop p goes by 4, and stages nothing"),
    ]
    for of, changes, message in faults:
        with pytest.raises(IRError, match=message):
            check(changed(form, of, **changes))
    (loop,) = [s for s in walk_stmts(form.body) if isinstance(s, Loop) and any(isinstance(t, Pack) for t in s.body)]
    with pytest.raises(IRError, match="a pack to slices is staged, and heads no serial loop"):
        check(changed(form, Loop, of=loop, body=(*loop.body[2:], *loop.body[:2])))


def test_multiplications_that_gpus_do_not_generate_yet() -> None:
    """Operands that are neither staged nor in scratch."""
    target = TARGETS[0]
    form = blocked(chunked(Tile(8, 8, (Operand.LHS, Operand.RHS), 128), 128, 64), target)
    outside = Load(form.buffers[0], as_dim(form.dims[0]))
    with pytest.raises(NotYetError) as caught:
        Emitter(changed(form, Multiply, lhs=outside), dialect_of(target), 32, 128).emit()
    assert str(caught.value) == (
        "kernel chunks: a multiplication reads a, which is neither staged in the loop around it nor stored to "
        "scratch, and that is not generated for GPUs yet."
    )
