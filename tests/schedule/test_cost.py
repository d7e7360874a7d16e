"""What launches are thought to cost: formulas over the host's dims, right within a small factor."""

from __future__ import annotations

import pytest

from dyn import dtypes
from dyn.ops.scalar import Scalar
from dyn.schedule.cost import iteration_cost
from dyn.schedule.kernel import (
    Apply,
    Buffer,
    Const,
    Load,
    Loop,
    Ref,
    Role,
    Store,
    Tile,
    TileContract,
    Update,
    scalar_fold,
)
from dyn.schedule.launch import Launch
from dyn.shapes import as_dim, dim_min, evaluate, symbol
from tests.stitch.models import optimized
from tests.stitch.test_plans import PROGRAMS

F32 = dtypes.float32
N, G, ROW, J, K = (symbol(name, "a test") for name in "ngijk")
X, OUT = Buffer("x", F32), Buffer("out", F32)


def test_a_loop_costs_what_it_moves_and_computes() -> None:
    load = Load(X, as_dim(ROW))
    store = Store(OUT, as_dim(ROW), Apply(Scalar.EXP, (load,), F32))
    assert iteration_cost((Loop(Role.LANE, ROW, as_dim(N), (store,)),), ()) == 16 * as_dim(
        N
    )  # 4 read, 8 exp, 4 written
    fold = scalar_fold(Ref("acc", F32), Scalar.ADD, Const(F32, 0.0), load)
    assert iteration_cost((Loop(Role.LANE, ROW, as_dim(N), (), (fold,)),), ()) == 4 * as_dim(N)


def test_an_update_reads_and_writes_a_place_of_its_own() -> None:
    row = Load(Buffer("ids", dtypes.int64), as_dim(ROW))
    update = Update(OUT, as_dim(J), ((J, row),), Scalar.ADD, Const(F32, 1.0))
    assert iteration_cost((update,), (ROW,)) == 8 + 2 * 4 + 16


def test_the_first_iteration_of_a_grid_stands_for_all() -> None:
    load = Load(X, as_dim(ROW))
    loop = Loop(Role.LANE, ROW, dim_min(8192, as_dim(N) - 8192 * as_dim(G)), (Store(OUT, as_dim(ROW), load),))
    assert iteration_cost((loop,), (G,)) == 8 * dim_min(8192, as_dim(N))


def test_an_extent_that_depends_on_an_outer_loop() -> None:
    load = Load(X, as_dim(J))
    inner = Loop(Role.SERIAL, J, dim_min(4, as_dim(N) - 4 * as_dim(ROW)), (Store(OUT, as_dim(J), load),))
    assert iteration_cost((Loop(Role.SERIAL, ROW, 3, (inner,)),), ()) == 24 * dim_min(4, as_dim(N))


def test_a_contraction_costs_its_arithmetic_its_operands_and_its_epilogue() -> None:
    acc = Ref("acc", F32)
    tile = TileContract(
        ROW, J, K, 8, 48, as_dim(N), Load(X, as_dim(K)), Load(X, as_dim(J)), acc,
        (Store(OUT, as_dim(J), acc),), Tile(8, 48),
    )  # fmt: skip
    cost = iteration_cost((tile,), ())
    assert evaluate(cost, {N: 100}) == 8 * 48 * 100 // 4 + (8 + 48) * 100 * 4 + 8 * 48 * 4


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_costs_mention_only_the_hosts_dims_and_are_not_negative(name: str) -> None:
    host = optimized(PROGRAMS[name]()).host
    launches: tuple[Launch, ...] = host.launches
    for launch in launches:
        for variant in launch.variants:
            for size in (0, 1, 2, 7, 1000):
                env = dict.fromkeys(host.symbols, size)
                if evaluate(variant.grid, env) > 0:
                    assert evaluate(variant.cost, env) >= 0
