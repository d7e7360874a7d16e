"""What launches are thought to cost: formulas over the host's dims, right within a small factor."""

from __future__ import annotations

import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.ops.scalar import Scalar
from dyn.schedule.cost import iteration_cost, traffic
from dyn.schedule.kernel import (
    Apply,
    Buffer,
    Const,
    Kernel,
    Load,
    Loop,
    Ref,
    Role,
    Stmt,
    Store,
    Tile,
    TileContract,
    Update,
    scalar_fold,
)
from dyn.schedule.launch import Launch
from dyn.schedule.launch_cost import group_work, leading_launches
from dyn.shapes import Dim, Symbol, as_dim, dim_min, evaluate, floordiv, format_dim, symbol
from tests.stitch.models import optimized
from tests.stitch.test_plans import PROGRAMS

F32 = dtypes.float32
N, G, ROW, J, K = (symbol(name, "a test") for name in "ngijk")
X, OUT = Buffer("x", F32), Buffer("out", F32)


def test_a_loop_costs_what_it_moves_and_computes() -> None:
    load = Load(X, as_dim(ROW))
    store = Store(OUT, as_dim(ROW), Apply(Scalar.EXP, (load,), F32))
    assert iteration_cost((Loop(Role.LANE, ROW, as_dim(N), (store,)),), ()) == 32 * as_dim(
        N
    )  # 4 read, 24 exp, 4 written
    fold = scalar_fold(Ref("acc", F32), Scalar.ADD, Const(F32, 0.0), load)
    assert iteration_cost((Loop(Role.LANE, ROW, as_dim(N), (), (fold,)),), ()) == 4 * as_dim(N)


def test_an_update_reads_and_writes_a_place_of_its_own() -> None:
    row = Load(Buffer("ids", dtypes.int64), as_dim(ROW))
    update = Update(OUT, as_dim(J), ((J, row),), Scalar.ADD, Const(F32, 1.0))
    assert iteration_cost((update,), (Loop(Role.GRID, ROW, 3),)) == 8 + 2 * 4 + 16


def test_the_first_iteration_of_a_grid_stands_for_all() -> None:
    load = Load(X, as_dim(ROW))
    loop = Loop(Role.LANE, ROW, dim_min(8192, as_dim(N) - 8192 * as_dim(G)), (Store(OUT, as_dim(ROW), load),))
    assert iteration_cost((loop,), (Loop(Role.GRID, G, 3),)) == 8 * dim_min(8192, as_dim(N))


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


# ---- bytes of memory -------------------------------------------------------------------------------------------------


def copied(loops: list[tuple[Role, Symbol, Dim]]) -> Kernel:
    """A kernel of loops, outermost first, in which an element is copied."""
    body: tuple[Stmt, ...] = (Store(OUT, as_dim(J), Load(X, as_dim(J))),)
    for role, var, extent in reversed(loops):
        body = (Loop(role, var, extent, body),)
    return Kernel("copied", (X, OUT), (N,), (), body)


def test_loops_that_cut_an_extent_go_over_the_whole() -> None:
    n, g, row = as_dim(N), as_dim(G), as_dim(ROW)
    blocks = floordiv(n + 8191, 8192)
    once = copied([(Role.GRID, G, blocks), (Role.LANE, J, dim_min(8192, n - 8192 * g))])
    assert traffic(once, [as_dim(N)]) == (n, n)
    assert traffic(once, [9000]) == (9000, 9000)
    # Parts of parts.
    groups, steps = floordiv(blocks + 63, 64), dim_min(64, blocks - 64 * g)
    twice = copied([
        (Role.GRID, G, groups), (Role.SERIAL, ROW, steps), (Role.LANE, J, dim_min(8192, n - 8192 * (64 * g + row))),
    ])  # fmt: skip
    assert traffic(twice, [as_dim(N)]) == (n, n)
    # A loop between them goes over each piece again.
    between = copied([(Role.GRID, G, blocks), (Role.SERIAL, K, 3), (Role.LANE, J, dim_min(8192, n - 8192 * g))])
    assert traffic(between, [as_dim(N)]) == (3 * n, 3 * n)


def test_pieces_of_pieces_go_over_the_whole() -> None:
    # Blocks of 512, of which neighbours go together four by four.
    n, g, row = as_dim(N), as_dim(G), as_dim(ROW)
    block = dim_min(512, n - 512 * g)
    kernel = copied([
        (Role.GRID, G, floordiv(n + 511, 512)), (Role.LANE, ROW, floordiv(block + 3, 4)),
        (Role.UNROLL, J, dim_min(4, block - 4 * row)),
    ])  # fmt: skip
    assert traffic(kernel, [as_dim(N)]) == (n, n)
    assert traffic(kernel, [1001]) == (1001, 1001)


def test_of_other_loops_the_first_iteration_stands_for_all() -> None:
    n, g = as_dim(N), as_dim(G)
    too_few = copied([(Role.GRID, G, floordiv(n, 8192)), (Role.LANE, J, dim_min(8192, n - 8192 * g))])
    assert traffic(too_few, [as_dim(N)])[0] == floordiv(n, 8192) * dim_min(8192, n)
    triangle = copied([(Role.GRID, G, n), (Role.LANE, J, n - g)])
    assert traffic(triangle, [as_dim(N)])[0] == n * n


def test_a_group_in_parts_counts_once_each_way() -> None:
    spec = dyn.ShapeDtypeStruct(("m", "k"), "float32")
    launches = dyn.jit(dnp.sum).lower(spec).compile("x86:x86-64-v4").program.optimized.launches
    whole, parts, joined = launches
    assert parts.when is not None
    assert leading_launches(launches) == {whole, parts}
    assert joined.group is whole.group
    assert {dtype.name: format_dim(count) for dtype, count in group_work(whole.group).flops.items()} == {
        "float32": "m*k"
    }
