"""Random programs under random schedules, compared with the reference; and the schedule of docs/schedules.md."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyn.errors import IRError, NotYetError
from dyn.schedule import contractions as contraction_tables
from dyn.schedule import plan as plans
from dyn.schedule import tiles
from dyn.schedule.accesses import crossed_loads
from dyn.schedule.axes import Axis, AxisKind, axis
from dyn.schedule.gpu import tables as gpu
from dyn.schedule.kernel import Operand, Role, Store, Tile
from dyn.schedule.launch_cache import KnownGroups
from dyn.schedule.loops import Loops, ScheduleError
from dyn.schedule.nest import Nest, Stage
from dyn.schedule.nests import loop_nest, stitch_nest
from dyn.schedule.phases import Phase
from dyn.schedule.sweeps import Sweeps
from dyn.schedule.target import Target
from dyn.schedule.x86 import tables
from tests.lower.gpu_programs import TARGETS, Compiled, compare_programs, compile_function, drawn
from tests.nn import test_convolution as convolutions
from tests.numpy.differential import compare
from tests.schedule.test_split import SMALL
from tests.stitch.models import optimized
from tests.stitch.programs import Program, contractions, programs
from tests.stitch.test_plans import PROGRAMS
from tests.stitch.test_random_programs import CHECKS, run_program


def _shared_steps(loops: Loops, rng: Random) -> None:
    """Shared axes fused here and there, and put into another order: they are all parallel."""
    if loops.shared and rng.random() < 0.7:
        first = rng.randrange(len(loops.shared))
        loops.fuse(loops.shared[first : rng.randrange(first, len(loops.shared)) + 1])
    if rng.random() < 0.5:
        loops.reorder(rng.sample(loops.shared, len(loops.shared)))


def _cut(loops: Loops, rng: Random) -> int:
    """Some of the shared axes cut, and what lies in their chunks put behind all others: how many these are."""
    chosen = rng.sample(loops.shared, rng.randrange(min(len(loops.shared), 2) + 1))
    inner = [loops.split(a, rng.choice([1, 2, 3, 16, 100]))[1] for a in chosen]
    loops.reorder([*[a for a in loops.shared if a not in inner], *inner])
    return len(inner)


def _tile(loops: Loops, rng: Random) -> None:
    """Any two of the shared axes in tiles, with copies along the one and lanes along the other."""
    rows, lanes = rng.sample(loops.shared, 2)
    rest = [a for a in loops.shared if a not in (rows, lanes)]
    down, inside = loops.split(rows, rng.choice([1, 5, 40]))
    steps, copies = loops.split(inside, rng.choice([1, 2, 3, 8, 16]))
    columns, across = loops.split(lanes, rng.choice([3, 16, 50]))
    loops.reorder([*rest, down, columns, steps, across, copies])
    loops.bind_tile(steps, across, copies)


def _own_steps(loops: Loops, phase: Phase, rng: Random) -> None:
    """A phase's axes fused, and those that are reduced by monoids, or by nothing, cut."""
    if rng.random() < 0.7:
        loops.fuse(phase.axes, phase)
    if rng.random() < 0.5:
        chosen = rng.choice(phase.axes)
        if chosen.kind in (AxisKind.PARALLEL, AxisKind.REDUCE, AxisKind.CONTRACTED):
            loops.split(chosen, rng.choice([1, 2, 5, 64]), phase)


def _jam(loops: Loops, rng: Random) -> None:
    """Some folds carried, and iterations of what is around the lanes that go together."""
    for phase in loops.phases:
        if rng.random() < 0.5 and all(fold.monoid.scalar is not None and not fold.block for fold in phase.folds):
            loops.carry(phase)
    if len(loops.shared) > 1 and loops.is_serial() and rng.random() < 0.7:
        rows, lanes = loops.shared[-2:]
        if rows.var not in lanes.symbols:
            loops.jam(rows, rng.choice([1, 2, 3, 7]))


class _Drawn:
    """Schedules in place of the tables' own."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def elementwise(self, sizes: object, *, narrow: bool = False) -> Callable[[Loops], None]:
        def schedule(loops: Loops) -> None:
            _shared_steps(loops, self.rng)
            if any(phase.axes for phase in loops.phases):
                return
            if len(loops.shared) > 1 and loops.is_flat() and (narrow or self.rng.random() < 0.3):
                _tile(loops, self.rng)
                return
            inner = _cut(loops, self.rng)
            count = self.rng.randrange(inner, len(loops.shared) + 1)
            if count > 1 or (count and self.rng.random() < 0.5):
                loops.sink(loops.shared[-count:])
                for phase in loops.phases:
                    if self.rng.random() < 0.8:
                        loops.bind_lanes(phase)
            elif count:
                loops.bind_lane(loops.shared[-1])

        return schedule

    def along_rows(self, part: int = 0) -> Callable[[Loops], None]:
        def schedule(loops: Loops) -> None:
            for phase in loops.phases:
                if phase.axes:
                    _own_steps(loops, phase, self.rng)
                    if self.rng.random() < 0.8:
                        loops.bind_lanes(phase)
            _shared_steps(loops, self.rng)

        return schedule

    def columns(self, sizes: object, part: int = 0) -> Callable[[Loops], None]:
        def schedule(loops: Loops) -> None:
            for phase in loops.phases:
                if phase.axes:
                    _own_steps(loops, phase, self.rng)
            _shared_steps(loops, self.rng)
            if loops.shared and self.rng.random() < 0.8:
                *_, lanes = loops.shared if self.rng.random() < 0.3 else loops.split(loops.shared[-1], 3)
                loops.bind_lane(lanes)
                _jam(loops, self.rng)

        return schedule

    def dots(self, part: int = 0) -> Callable[[Loops], None]:
        return self.along_rows(part)

    def in_tiles(self, variant: object, row: Axis, column: Axis) -> Callable[[Loops], None]:
        def schedule(loops: Loops) -> None:
            rng = self.rng
            if rng.random() < 0.3:  # a fold like any other
                (self.along_rows() if rng.random() < 0.5 else self.columns(None))(loops)
                return
            if rng.random() < 0.3:
                loops.flatten(loops.phases[0].axes, loops.phases[0])
            sides = [row, column] if rng.random() < 0.7 else [column, row]
            cut = [loops.split(side, rng.choice([1, 3, 40, 300])) for side in sides]
            *outer, rows, columns = [a for pair in zip(*cut, strict=True) for a in pair]
            rest = [a for a in loops.shared if a not in (*outer, rows, columns)]
            loops.reorder([*rng.sample([*rest, *outer], len(rest) + 2), rows, columns])
            staged = (Operand.RHS,) if rng.random() < 0.5 else ()
            loops.tensorise(rows, columns, Tile(rng.choice([1, 3, 4]), rng.choice([1, 20, 48, 64]), staged))

        return schedule


_TABLES = {tables: ("elementwise", "along_rows", "columns"), tiles: ("in_tiles",), contraction_tables: ("dots",)}


@contextlib.contextmanager
def _random_schedules(seed: int) -> Iterator[None]:
    """Schedules drawn at random, and no program that none can be drawn for."""
    drawn = _Drawn(Random(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "KNOWN", KnownGroups())  # what was lowered by other schedules
        for table, names in _TABLES.items():
            for name in names:
                patch.setattr(table, name, getattr(drawn, name))
        try:
            yield
        except NotYetError:
            hypothesis.reject()
        except IRError as error:
            if isinstance(error, ScheduleError) or "the facts do not imply" not in str(error):
                raise
            hypothesis.reject()


class _DrawnForGpus:
    """Schedules in place of the GPUs' own: teams, lanes, a few neighbours, tiles."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def elementwise(self, target: Target) -> Callable[[Loops], None]:
        def schedule(loops: Loops) -> None:
            rng = self.rng
            _shared_steps(loops, rng)
            if len(loops.shared) > 1 and loops.is_flat() and rng.random() < 0.5 and self._stage(loops):
                return
            roles = [role for role in (Role.TEAM, Role.LANE) if rng.random() < 0.7][-len(loops.shared) :]
            if not loops.shared or not roles:
                return
            if Role.LANE in roles and loops.is_flat() and rng.random() < 0.7:
                loops.split(loops.shared[-1], rng.choice([1, 2, 3, 4, 8]))
                roles.append(Role.UNROLL)
            elif rng.random() < 0.7:
                loops.split(loops.shared[-1], rng.choice([1, 7, 33]))
            loops.bind_last(roles, rng.choice([1, 2, 8, 32]) if Role.TEAM in roles else 0)

        return schedule

    def _stage(self, loops: Loops) -> bool:
        down, across = self.rng.sample(loops.shared, 2)
        if not crossed_loads(loops, across, down):
            return False
        rest = [a for a in loops.shared if a not in (down, across)]
        tiles, rows = loops.split(down, self.rng.choice([1, 5, 32]))
        columns, inside = loops.split(across, self.rng.choice([3, 16, 32]))
        loops.reorder([*rest, tiles, columns, rows, inside])
        loops.sink([rows, inside])
        loops.stage(inside, rows, self.rng.choice([1, 4, 32]))
        return True

    def along_rows(self, width: int = 0, *, long: bool = False, short: bool = False) -> Callable[[Loops], None]:
        def schedule(loops: Loops) -> None:
            for phase in loops.phases:
                if not phase.axes:
                    continue
                if self.rng.random() < 0.5:
                    loops.flatten(phase.axes, phase)
                else:
                    _own_steps(loops, phase, self.rng)
                stores = all(isinstance(stmt, Store) for stmt in phase.body)
                if len(phase.axes) == 1 and stores and self.rng.random() < 0.5:
                    loops.bind_neighbours(phase, self.rng.choice([1, 2, 3, 4, 8]))
                elif self.rng.random() < 0.9:
                    loops.bind_lanes(phase, outermost=self.rng.random() < 0.5 and _is_free(phase))
            _shared_steps(loops, self.rng)
            if width and loops.shared:
                loops.split(loops.shared[-1], self.rng.choice([1, 2, 3, 8]))
                loops.bind_last([Role.TEAM], width)

        return schedule

    def columns(self, loops: Loops) -> None:
        _Drawn(self.rng).columns(None)(loops)


def _is_free(phase: Phase) -> bool:
    """Whether no extent depends on another axis of the phase, so that any of them may be the outermost."""
    own = {a.var for a in phase.axes}
    return all(own.isdisjoint(a.symbols) for a in phase.axes)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_random_programs_on_gpus(target: Target, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    rng = Random(len(target.arch))

    def compiled(program: Program, name: str) -> Compiled:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plans, "KNOWN", KnownGroups())
            schedules = _DrawnForGpus(rng)
            for table in ("elementwise", "along_rows", "columns"):
                patch.setattr(gpu, table, getattr(schedules, table))
            return compile_function(program.function, target, name)

    assert compare_programs(drawn(40), target, compiled) > 25


@hypothesis.settings(max_examples=60, suppress_health_check=CHECKS)
@given(programs(), st.integers(0, 2**32))
def test_random_programs(program: Program, seed: int) -> None:
    with _random_schedules(seed):
        run_program(program)


@hypothesis.settings(max_examples=40, suppress_health_check=CHECKS)
@given(contractions(), st.integers(0, 2**32))
def test_random_contractions(program: Program, seed: int) -> None:
    with _random_schedules(seed):
        run_program(program)


@hypothesis.settings(max_examples=30, suppress_health_check=CHECKS)
@given(contractions(), st.integers(0, 2**32))
def test_random_contractions_in_parts(program: Program, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch, _random_schedules(seed):
        patch.setattr(tables, "SIZES", SMALL)
        run_program(program)


@hypothesis.settings(max_examples=25, suppress_health_check=CHECKS)
@given(case=convolutions.cases(), seed=st.integers(0, 2**32))
def test_random_convolutions(case: convolutions.Case, seed: int) -> None:
    with _random_schedules(seed):
        convolutions.check(case, seed % 10)


def test_the_schedule_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text()
    example, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(example, scope)  # the page's own text
    taken: list[str] = []

    def schedule(loops: Loops) -> None:
        scope["four_rows"](loops)
        taken.extend(map(str, loops.steps))

    monkeypatch.setattr(tables, "elementwise", lambda sizes: schedule)
    compare(lambda xp, x, y: x + y, "float32 n m", "float32 m", sizes=(0, 1, 2, 3, 4, 5, 17))
    assert taken == ["split i0 by 4", "sink i0 i1", "bind i1 to lanes"]


# --- steps that may not be taken --------------------------------------------------------------------------------------


def _loops(name: str) -> Loops:
    plan = optimized(PROGRAMS[name]()).plan
    (group,) = plan.groups
    sweeps = Sweeps(plan, group, scratch=False) if group.reduced else None
    return Loops(loop_nest(plan, group) if sweeps is None else stitch_nest(plan, group, sweeps))


def test_what_is_folded_stays_inside() -> None:
    loops = _loops("softmax")
    with pytest.raises(ScheduleError, match=r"^i0 stay outside of what is folded, and of lanes$"):
        loops.sink(loops.shared[-1:])


def test_only_the_last_axes_sink() -> None:
    loops = _loops("bias_gelu")
    with pytest.raises(ScheduleError, match=r"^i0 are not the last shared axes, or lanes go along them$"):
        loops.sink(loops.shared[:1])


def test_lanes_go_along_one_axis() -> None:
    loops = _loops("bias_gelu")
    with pytest.raises(ScheduleError, match=r"^i0 is not the last shared axis, or phases have lanes of their own$"):
        loops.bind_lane(loops.shared[0])


def test_axes_that_are_fused_follow_one_another() -> None:
    loops = _loops("bias_gelu")
    with pytest.raises(ScheduleError, match=r"^i1, i0 do not follow one another$"):
        loops.fuse(loops.shared[::-1])


def test_an_order_that_counts_is_kept() -> None:
    plan = optimized(PROGRAMS["softmax"]()).plan
    (group,) = plan.groups
    first, second = axis("a", 2, AxisKind.FOLD), axis("b", 3, AxisKind.FOLD)
    free = axis("c", 4)
    loops = Loops(Nest(plan, group, (), (Stage((first, second, free)),)))
    (phase,) = loops.phases
    loops.reorder([free, first, second], phase)
    with pytest.raises(ScheduleError, match=r"^a, b have to stay in their order$"):
        loops.reorder([second, first, free], phase)
    with pytest.raises(ScheduleError, match=r"^b, of kind fold, cannot be bound to lanes here$"):
        loops.bind_lanes(phase)
