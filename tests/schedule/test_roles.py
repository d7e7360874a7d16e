"""Teams of lanes, and the steps that bind roles: what they keep to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyn import dtypes
from dyn.errors import IRError
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import AxisKind, axis
from dyn.schedule.kernel import Buffer, Const, Fold, Kernel, Load, Loop, Ref, Role, Stmt, Store, scalar_fold
from dyn.schedule.kernel_text import kernel_hash, kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.loops import Loops, ScheduleError
from dyn.schedule.nest import Nest, Stage
from dyn.schedule.nests import loop_nest, stitch_nest
from dyn.schedule.sweeps import Sweeps
from dyn.shapes import as_dim, symbol
from tests.stitch.models import optimized
from tests.stitch.test_plans import PROGRAMS

N, T, J = symbol("n"), symbol("t"), symbol("i")
X, Y = Buffer("x", dtypes.float32), Buffer("y", dtypes.float32)
STORE = Store(Y, as_dim(T), Load(X, as_dim(T)))


def _kernel(*body: Stmt) -> Kernel:
    return Kernel("k", (X, Y), (N,), (), body)


def _team(*body: Stmt, width: int = 8, folds: tuple[Fold, ...] = ()) -> Loop:
    return Loop(Role.TEAM, T, as_dim(N), body or (STORE,), folds, width=width)


def test_widths_are_part_of_a_kernel() -> None:
    kernels = [_kernel(_team(width=width)) for width in (1, 8, 32)]
    for kernel in kernels:
        check(kernel)
    assert len({kernel_hash(kernel) for kernel in kernels}) == 3
    assert "team t0 < d0 of 32 lanes {" in kernel_text(kernels[-1])


_FOLD = scalar_fold(Ref("r", X.dtype), Scalar.ADD, Const(X.dtype, 0.0), Load(X, as_dim(T)))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (_team(width=0), "kernel k: team loop t has teams of 0 lanes, which is no power of two"),
        (_team(width=12), "kernel k: team loop t has teams of 12 lanes, which is no power of two"),
        (_team(folds=(_FOLD,)), "kernel k: team loop t folds or carries something"),
        (
            Loop(Role.LANE, J, as_dim(N), (_team(),)),
            "kernel k: team loop t stands inside a lane loop, or around another team loop",
        ),
        (
            Loop(Role.TEAM, J, as_dim(N), (_team(),), width=8),
            "kernel k: team loop i stands inside a lane loop, or around another team loop",
        ),
        (
            _team(Loop(Role.SERIAL, J, as_dim(T), (Loop(Role.LANE, symbol("j"), as_dim(N), (STORE,)),))),
            "kernel k: lanes of team loop t stand in loop i, which is longer in some teams than in others",
        ),
    ],
)
def test_other_team_loops_are_refused(body: Loop, text: str) -> None:
    with pytest.raises(IRError) as error:
        check(_kernel(body))
    assert str(error.value) == text


# --- steps ------------------------------------------------------------------------------------------------------------


def _loops(name: str) -> Loops:
    plan = optimized(PROGRAMS[name]()).plan
    (group,) = plan.groups
    if not group.reduced:
        return Loops(loop_nest(plan, group))
    sweeps = Sweeps(plan, group, scratch=True)
    kept = {n: sweep.kept for n, sweep in enumerate(s for s in sweeps.sweeps if s) if sweep.kept}
    return Loops(stitch_nest(plan, group, sweeps), keep=kept)


def _wrong_order(loops: Loops) -> None:
    loops.bind_last([Role.LANE, Role.TEAM], 8)


def _few_at_once(loops: Loops) -> None:
    loops.bind_last([Role.LANE, Role.UNROLL])


def _lanes_twice(loops: Loops) -> None:
    loops.bind_lanes(loops.phases[0])
    loops.bind_last([Role.LANE])


def _unbounded(loops: Loops) -> None:
    loops.bind_last([Role.TEAM], 32)


@pytest.mark.parametrize(
    ("name", "steps", "text"),
    [
        ("bias_gelu", _wrong_order, "i0, i1 do not take lane, team"),
        ("bias_gelu", _few_at_once, "i1 has more in it than a few stores"),
        ("softmax", _lanes_twice, "i0 have lanes inside of them already"),
        ("softmax", _unbounded, "i0 has no number of teams, for which there would be scratch"),
    ],
)
def test_roles_that_axes_do_not_take(name: str, steps: Callable[[Loops], None], text: str) -> None:
    loops = _loops(name)
    with pytest.raises(ScheduleError) as error:
        steps(loops)
    assert str(error.value) == text


def test_only_axes_without_an_order_become_one() -> None:
    plan = optimized(PROGRAMS["softmax"]()).plan
    (group,) = plan.groups
    ordered, free = axis("a", 2, AxisKind.FOLD), axis("b", 3)
    loops = Loops(Nest(plan, group, (), (Stage((ordered, free)),)))
    (phase,) = loops.phases
    with pytest.raises(ScheduleError, match=r"^a, b do not follow one another, or differ in kind$"):
        loops.flatten(phase.axes, phase)
    with pytest.raises(ScheduleError, match=r"^a, b have an order, and b cannot be the outermost$"):
        loops.bind_lanes(phase, outermost=True)


def test_tiles_have_a_size() -> None:
    loops = _loops("bias_gelu")
    rows, columns = loops.shared
    loops.sink([rows, columns])
    with pytest.raises(ScheduleError, match=r"^i0, i1 are not the axes of a tile that is stored$"):
        loops.stage(columns, rows, 32)
