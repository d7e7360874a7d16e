"""The steps of contractions: which may be taken, which may not, and how they are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
from dyn.schedule.axes import Axis
from dyn.schedule.contract import dot_nest
from dyn.schedule.kernel import Operand, Tile, TileContract
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.loops import Loops, ScheduleError
from tests.stitch.models import Model, optimized


def _loops(*, batch: bool = False, two: bool = False) -> Loops:
    """``z[m, n] = tanh(x[k, m] · y[k, n])``, perhaps with a batch, or with two axes in place of ``k``."""
    m = Model("f")
    reduced = ("k", "l") if two else ("k",)
    first = ("b",) if batch else ()
    x, y = m.param("x", *first, *reduced, "m"), m.param("y", *first, *reduced, "n")
    along = tuple(range(len(first), len(first) + len(reduced)))
    attrs: Any = {
        "lhs_batch": tuple(range(len(first))), "rhs_batch": tuple(range(len(first))),
        "lhs_contracting": along, "rhs_contracting": along[::-1] if two else along,
    }  # fmt: skip
    if two:
        y = m.param("w", "l", "k", "n")
    plan = optimized(m.function(m.op("tanh", m.op("dot_general", x, y, **attrs)))).plan
    (group,) = plan.groups
    (op,) = (op for op in group.ops if op.opdef.name == "dot_general")
    return Loops(dot_nest(plan, group, op))


def _last(loops: Loops) -> tuple[Axis, Axis]:
    return loops.shared[-2], loops.shared[-1]


def _tile(loops: Loops) -> TileContract:
    (tile,) = (s for s in walk_stmts(loops.variant("").kernel.body) if isinstance(s, TileContract))
    return tile


def test_a_tile_has_the_epilogue_of_the_phases_behind_it() -> None:
    loops = _loops(batch=True)
    loops.tensorise(*_last(loops), Tile(4, 32, ()))
    assert loops.steps[-1:] == loops.steps
    assert str(loops.steps[-1]) == "tensorise m2 n2 over k1 in tiles of 4x32"
    assert len(_tile(loops).epilogue) == 1
    assert [a.name for a in loops.shared] == ["b0"]


def test_operands_go_where_their_axes_are() -> None:
    """Rows of the right operand: it becomes the left one."""
    loops = _loops()
    row, column = loops.shared
    before = _loops()
    before.tensorise(*_last(before), Tile(4, 32))
    loops.reorder([column, row])
    loops.tensorise(column, row, Tile(4, 32, (Operand.LHS, Operand.RHS)))
    assert str(loops.steps[-1]) == "tensorise n1 m1 over k0 in tiles of 4x32, lhs staged, rhs staged"
    swapped, plain = _tile(loops), _tile(before)
    assert isinstance(swapped.lhs, type(plain.rhs))
    assert [b.name for b in loops.code.buffers().values()] == [b.name for b in before.code.buffers().values()]


def test_rows_and_columns_are_of_different_operands() -> None:
    loops = _loops(batch=True)
    batch, row, column = loops.shared
    loops.reorder([row, batch, column])
    with pytest.raises(ScheduleError, match=r"^b0, n2 are not rows of one operand and columns of the other$"):
        loops.tensorise(batch, column, Tile(4, 32))


def test_rows_and_columns_are_the_last_shared_axes() -> None:
    loops = _loops(batch=True)
    batch, row, column = loops.shared
    loops.reorder([row, column, batch])
    with pytest.raises(ScheduleError, match=r"^m2, n2 are not the last shared axes, or lanes go along them$"):
        loops.tensorise(row, column, Tile(4, 32))


def test_one_axis_is_contracted() -> None:
    loops = _loops(two=True)
    with pytest.raises(ScheduleError, match=r"^k0, k1 are several axes, or contracted beside something else$"):
        loops.tensorise(*_last(loops), Tile(4, 32))
    loops.flatten(loops.phases[0].axes, loops.phases[0])
    loops.tensorise(*_last(loops), Tile(4, 32))
    (digits,) = _tile(loops).digits
    assert [len(digits.parts), len(loops.steps)] == [2, 2]


def test_what_follows_has_no_loops_of_its_own() -> None:
    loops = _loops()
    loops.phases[1].axes.append(loops.phases[0].axes[0])
    with pytest.raises(ScheduleError, match=r"^a phase behind the contraction has loops of its own$"):
        loops.tensorise(*_last(loops), Tile(4, 32))


def test_only_a_contraction_is_tensorised() -> None:
    loops = _loops()
    del loops.phases[0]
    with pytest.raises(ScheduleError, match=r"^the first phase is no contraction$"):
        loops.tensorise(*_last(loops), Tile(4, 32))


def test_a_fork_is_changed_by_itself() -> None:
    loops = _loops()
    other = loops.fork()
    other.tensorise(*_last(other), Tile(4, 32))
    assert (len(loops.steps), len(loops.phases), len(loops.shared)) == (0, 2, 2)
    loops.variant("a fold like any other")


def test_explain_tells_the_steps() -> None:
    f = dyn.jit(lambda x, y: x @ y, shapes="m 64, 64 96")
    f(np.ones((3, 64), np.float32), np.ones((64, 96), np.float32))
    assert "tensorise m0 n1 over k1 in tiles of" in str(f.explain())
