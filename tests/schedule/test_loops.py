"""LOOP and STITCH groups as kernels, and contractions: golden kernels for a target that is given as plain data."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyn import dtypes
from dyn.ir.core import Function, Op, Value
from dyn.schedule.kernel import Space, Store
from dyn.schedule.kernel_text import kernel_hash, kernel_text
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.plan import group_shape
from dyn.schedule.sweeps import Sweeps
from dyn.schedule.target import Target
from dyn.shapes import symbol
from dyn.stitch.groups import GroupKind
from tests.stitch.models import Model, optimized, transformer
from tests.stitch.test_plans import PROGRAMS


def _kernels(function: Function, target: Target | None = None) -> str:
    done = optimized(function) if target is None else optimized(function, target)
    return "\n".join(kernel_text(v.kernel) for launch in done.launches for v in launch.variants)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("attention", "residual", "diamond")])
def test_kernels(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"loops_{name}.txt", _kernels(PROGRAMS[name]()))


@pytest.mark.parametrize("name", ["attention", "residual"])
def test_contractions(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"contract_{name}.txt", _kernels(PROGRAMS[name]()))


def test_gpu_schedules_are_their_own(golden: Callable[[str, str], None]) -> None:
    golden("loops_softmax_gelu_cuda.txt", _kernels(PROGRAMS["bias_gelu"](), Target("cuda", "sm_90a", warp=32)))


# --- what is kept between sweeps --------------------------------------------------------------------------------------


def _kept(function: Function) -> list[tuple[int, str]]:
    """The sweep and the op of each row that is kept in scratch."""
    plan = optimized(function).plan
    (group,) = [g for g in plan.groups if g.kind is GroupKind.STITCH]
    sweeps = Sweeps(plan, group, scratch=True)
    return [(number, plan.producers[v].opdef.name) for number, s in enumerate(sweeps.sweeps) for v in s.kept]


def test_exponentials_are_kept() -> None:
    assert _kept(PROGRAMS["softmax"]()) == [(1, "exponential")]


def test_a_difference_is_computed_again() -> None:
    assert _kept(PROGRAMS["layer_norm"]()) == []


def test_a_gathered_sum_is_kept() -> None:
    assert _kept(PROGRAMS["embedding"]()) == [(0, "add")]


def test_nothing_is_kept_for_one_sweep() -> None:
    assert _kept(PROGRAMS["several_consumers"]()) == []


def test_a_value_is_kept_where_it_is_first_needed() -> None:
    """tanh(x) is known from the start, and needed first beside the sum of what a maximum gave."""
    m = Model("late")
    x = m.param("x", "n", "m")
    t = m.op("tanh", m.add(x, 1.0))
    top = m.reduce(m.mul(x, x), 1, "maximum")
    total = m.reduce(m.mul(t, top), 1)
    assert _kept(m.function(m.div(t, total))) == [(1, "tanh")]


def test_scratch_holds_one_row() -> None:
    done = optimized(PROGRAMS["softmax_between"]())
    (variant,) = done.launches[0].variants
    (row,) = variant.kernel.scratch
    assert row.space is Space.SCRATCH
    assert row.size is not None
    stores = [s for s in walk_stmts(variant.kernel.body) if isinstance(s, Store)]
    assert [s.buffer is row for s in stores] == [True, False]


# --- identity ---------------------------------------------------------------------------------------------------------


def test_layers_have_equal_hashes() -> None:
    """Twelve groups a layer, and no new kernel after the first layers."""
    hashes = [
        [kernel_hash(v.kernel) for launch in optimized(transformer(n)).launches for v in launch.variants]
        for n in (1, 2, 3)
    ]
    assert set(hashes[1]) == set(hashes[2])
    assert len(set(hashes[2])) < len(hashes[1])


def test_a_hash_does_not_depend_on_other_symbols() -> None:
    first = [kernel_hash(v.kernel) for launch in optimized(PROGRAMS["attention"]()).launches for v in launch.variants]
    for number in range(100):
        symbol(f"other{number}")
    again = [kernel_hash(v.kernel) for launch in optimized(PROGRAMS["attention"]()).launches for v in launch.variants]
    assert first == again


def test_groups_that_differ_have_different_shapes() -> None:
    """Everything that lowering looks at is in a group's shape."""

    def shape(build: Callable[[Model, Value], Value]) -> tuple[object, ...]:
        m = Model("f")
        plan = optimized(m.function(build(m, x := m.param("x", "n", 8)), m.op("negate", x))).plan
        return tuple(str(part) for part in group_shape(plan, plan.groups[0])[0])

    builds: list[Callable[[Model, Value], Value]] = [
        lambda m, x: m.add(x, 1.0),
        lambda m, x: m.add(x, 2.0),
        lambda m, x: m.add(x, x),
        lambda m, x: m.sub(x, 1.0),
        lambda m, x: m.op("convert", x, dtype=dtypes.float64),
        lambda m, x: m.op("convert", x, dtype=dtypes.int32),
        lambda m, x: m.reduce(x, 0, keep=False),
        lambda m, x: m.reduce(x, 1, keep=False),
        lambda m, x: m.reduce(x, 1, "maximum", keep=False),
        lambda m, x: m.op("exponential", m.transpose(x, 1, 0)),
        lambda m, x: m.op("exponential", x),
    ]
    shapes = [shape(b) for b in builds]
    assert len(set(shapes)) == len(shapes)


def test_operands_in_another_order_are_another_shape() -> None:
    def shape(swap: bool) -> tuple[object, ...]:
        m = Model("f")
        x, y = m.param("x", "n"), m.param("y", "n")
        plan = optimized(m.function(m.sub(y, m.mul(x, y)) if swap else m.sub(x, m.mul(x, y)))).plan
        return tuple(str(part) for part in group_shape(plan, plan.groups[0])[0])

    assert shape(True) != shape(False)


def test_one_launch_a_group_with_its_own_arrays() -> None:
    """Groups that share kernels do not share arrays."""
    m = Model("f")
    x, y = m.param("x", "n"), m.param("y", "n")
    done = optimized(m.function(m.op("tanh", x), m.op("tanh", y)))
    first, second = done.launches
    assert first.variants[0].kernel is second.variants[0].kernel
    assert first.buffers != second.buffers
    producers: dict[Value, Op] = dict(done.plan.producers)
    for launch in done.launches:
        read, written = launch.buffers
        assert producers[written].operands == (read,)


# --- computed indices, deep chains ------------------------------------------------------------------------------------


def test_an_index_that_is_computed_from_an_index() -> None:
    """A gather from an iota: the row number itself is the value."""
    m = Model("f")
    ids = m.param("ids", "n", dtype=dtypes.int32)
    iota = m.op("iota", shape=(m.dim("n"),), dimension=0, dtype=dtypes.int32)
    assert "index(" in _kernels(m.function(m.take(iota, ids)))


def test_deep_chains_in_every_schedule() -> None:
    for axis in (None, 0, 1):
        m = Model("deep")
        y = m.param("x", "n", "m")
        for _ in range(700):
            y = m.op("tanh", m.op("negate", y))
        function = m.function(y if axis is None else m.reduce(y, axis, keep=False))
        launches = optimized(function).launches
        kernels = [kernel_text(v.kernel) for launch in launches for v in launch.variants]
        # Groups have at most 512 ops: 256 + 256 + 188 of each. What joins parts has none.
        assert {text.count("tanh(") for text in kernels} <= {0, 188, 256}
