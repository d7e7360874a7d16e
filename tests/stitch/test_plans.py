"""What becomes one kernel, and where groups end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest

from dyn import dtypes
from dyn.ir.core import Function
from dyn.passes.own_results import own_results
from dyn.passes.redundancy import eliminate_common_subexpressions, eliminate_dead_code
from dyn.passes.refine_shapes import refine_shapes
from dyn.passes.simplify import simplify
from dyn.schedule.plan import lower_plan
from dyn.stitch.groups import GroupKind, Plan
from dyn.stitch.plan import stitch
from tests.stitch.models import TARGET, Model, optimized, transformer


def softmax() -> Function:
    m = Model("softmax")
    return m.function(m.softmax(m.param("x", "n", "m")))


def softmax_between() -> Function:
    """A scale before and a mask after: all of it is one kernel."""
    m = Model("softmax_between")
    x, scale, keep = m.param("x", "b", "n", "m"), m.param("scale", "m"), m.param("keep", "b", "n", "m")
    return m.function(m.mul(m.softmax(m.mul(x, scale)), keep))


def layer_norm() -> Function:
    m = Model("layer_norm")
    x, scale, shift = m.param("x", "b", "s", 768), m.param("scale", 768), m.param("shift", 768)
    return m.function(m.layer_norm(x, scale, shift))


def bias_gelu() -> Function:
    m = Model("bias_gelu")
    return m.function(m.gelu(m.add(m.param("x", "n", 3072), m.param("bias", 3072))))


def residual() -> Function:
    """layer_norm(x @ w + bias + x): the contraction takes its additions, the norm is a kernel of its own."""
    m = Model("residual")
    x, w, bias = m.param("x", "b", "s", 64), m.param("w", 64, 64), m.param("bias", 64)
    y = m.add(m.add(m.dot(x, w), bias), x)
    return m.function(m.layer_norm(y, m.param("scale", 64), m.param("shift", 64)))


def attention() -> Function:
    m = Model("attention")
    q, k, v = (m.param(name, "b", "s", 64) for name in "qkv")
    return m.function(m.attention(q, k, v, m.param("mask", "b", "s")))


def embedding() -> Function:
    m = Model("embedding")
    ids, table, places = (
        m.param("ids", "b", "s", dtype=dtypes.int32),
        m.param("table", 100, 64),
        m.param("places", "s", 64),
    )
    x = m.add(m.take(table, ids), places)
    return m.function(m.layer_norm(x, m.param("scale", 64), m.param("shift", 64)))


def columns() -> Function:
    m = Model("columns")
    x = m.param("x", "n", "m")
    return m.function(m.sub(x, m.mean(x, 0)))


def middle_axis() -> Function:
    m = Model("middle_axis")
    x = m.param("x", "a", "b", "c")
    return m.function(m.reduce(m.op("exponential", x), 1, keep=False))


def full_reduction() -> Function:
    m = Model("full_reduction")
    x, y = m.param("x", "n", "m"), m.param("y", "n", "m")
    return m.function(m.reduce(m.mul(x, y), (0, 1), keep=False))


def two_axes() -> Function:
    """Sums of rows and of columns take one pass."""
    m = Model("two_axes")
    e = m.op("exponential", m.param("x", "n", "m"))
    return m.function(m.reduce(e, 0, keep=False), m.reduce(e, 1, keep=False))


def rows_of_columns() -> Function:
    """Rows that need a reduction of columns do not share a pass with it."""
    m = Model("rows_of_columns")
    x = m.param("x", "n", "m")
    e = m.sub(x, m.reduce(x, 0, "maximum"))
    return m.function(m.reduce(e, 1, keep=False), m.reduce(e, 0, keep=False))


def several_consumers() -> Function:
    m = Model("several_consumers")
    x = m.param("x", "n", "m")
    e = m.op("exponential", x)
    return m.function(m.add(e, 1.0), m.mul(e, e), m.reduce(e, 1, "maximum", keep=False))


def square() -> Function:
    """exp(x) + exp(x).T reads exp(x) at two places: it is stored first."""
    m = Model("square")
    e = m.op("exponential", m.param("x", "n", "n"))
    return m.function(m.add(e, m.transpose(e, 1, 0)))


def diamond() -> Function:
    """z = y @ w; y + z must not join the group of y, which z waits for."""
    m = Model("diamond")
    x, w = m.param("x", "n", 64), m.param("w", 64, 64)
    y = m.op("exponential", x)
    return m.function(m.add(y, m.op("tanh", m.softmax(m.dot(y, w)))))


def views() -> Function:
    """Results that are views: of a computed value in its order, permuted, of a parameter, and twice the same."""
    m = Model("views")
    x = m.param("x", "n", "m")
    e, t = m.op("exponential", x), m.op("tanh", x)
    n, k = x.shape
    return m.function(m.reshape(e, n * k), m.transpose(t, 1, 0), m.transpose(x, 1, 0), e, x)


def undecided() -> Function:
    m = Model("undecided")
    return m.function(m.add(m.param("x", "n"), m.param("y", "m")))


def scalars() -> Function:
    """Arithmetic on sizes and scalar parameters belongs to no group."""
    m = Model("scalars")
    x, rate = m.param("x", "n", "m"), m.param("rate")
    size = m.op("dim_size", size=x.shape[1], dtype=dtypes.float32)
    return m.function(m.mul(x, m.mul(m.op("rsqrt", size), rate)))


def siblings() -> Function:
    """Reductions and an elementwise op of one array are one kernel; what multiplies it is another one."""
    m = Model("siblings")
    x = m.param("x", "n", "m")
    low, high = (m.reduce(x, 1, combine, keep=False) for combine in ("minimum", "maximum"))
    return m.function(low, high, m.op("exponential", x), m.reduce(x, 0, keep=False), m.dot(x, m.transpose(x, 1, 0)))


def contraction_transposed() -> Function:
    """Transposes into and out of a contraction are no kernels of their own."""
    m = Model("contraction_transposed")
    x, w = m.param("x", "k", "n"), m.param("w", "m", "k")
    y = m.op("tanh", m.dot(m.transpose(x, 1, 0), m.transpose(w, 1, 0)))
    return m.function(m.transpose(y, 1, 0))


def recomputed() -> Function:
    """Of what a product's epilogue reads of another one's, behind h and tanh(h), these two are stored alone."""
    m = Model("recomputed")
    x, w = m.param("x", "n", "m"), m.param("w", "m", "m")
    h = m.add(m.dot(x, w), 0.5)
    t = m.op("tanh", h)
    y = m.dot(m.mul(h, t), w)
    for value in (m.add(t, 1.0), m.each("subtract", 1.0, t), m.mul(h, 0.5), h):
        y = m.mul(y, value)
    return m.function(y)


def not_recomputed() -> Function:
    """What is dear, a result, the operand of a product, or of more bytes, is stored; what is read transposed, too."""
    m = Model("not_recomputed")
    x, w = m.param("x", "n", "n"), m.param("w", "n", "n")
    dear, shown, turned = m.op("tanh", x), m.add(x, 1.0), m.mul(x, 3.0)
    two = m.add(m.param("y", "n", "n"), m.param("z", "n", "n"))
    first = m.softmax(m.add(m.add(dear, shown), m.add(turned, two)))
    product = m.dot(m.mul(first, 2.0), w)
    rest = m.add(m.add(product, dear), m.add(shown, m.transpose(turned, 1, 0)))
    return m.function(m.add(rest, two), shown)


def _pairs(name: str, size: int) -> Function:
    """``sum_j exp(-|x_i - y_j|²)`` of points in space of so many dimensions."""
    m = Model(name)
    x, y = m.param("x", "n", size), m.param("y", "m", size)
    (n, k), (rows, _) = x.shape, y.shape
    spread = (m.b.op("broadcast_in_dim", v, shape=(n, rows, k), dims=dims) for v, dims in ((x, (0, 2)), (y, (1, 2))))
    d = m.op("subtract", *spread)
    squares = m.reduce(m.mul(d, d), 2, keep=False)
    return m.function(m.reduce(m.op("exponential", m.op("negate", squares)), 1, keep=False))


def pairs() -> Function:
    """One kernel, which folds each distance where it is read."""
    return _pairs("pairs", 3)


def long_pairs() -> Function:
    """Distances of many terms are kernels of their own."""
    return _pairs("long_pairs", 40)


PROGRAMS: dict[str, Callable[[], Function]] = {
    f.__name__: f
    for f in (
        softmax, softmax_between, layer_norm, bias_gelu, residual, attention, embedding, columns, middle_axis,
        full_reduction, two_axes, rows_of_columns, several_consumers, square, diamond, views, undecided, scalars,
        siblings, contraction_transposed, recomputed, not_recomputed, pairs, long_pairs,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_plan(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.txt", optimized(PROGRAMS[name]()).plan.text())


@pytest.mark.parametrize("name", ["softmax", "softmax_between", "layer_norm", "bias_gelu", "embedding", "columns"])
def test_one_kernel(name: str) -> None:
    assert len(optimized(PROGRAMS[name]()).plan.groups) == 1


def test_contractions_take_their_epilogue() -> None:
    plan = optimized(attention()).plan
    assert [(g.kind, len(g.ops)) for g in plan.groups] == [
        (GroupKind.CONTRACT, 3),  # scores, scale, mask
        (GroupKind.STITCH, 5),
        (GroupKind.CONTRACT, 2),  # stored with its axes exchanged
    ]
    assert [g.kind for g in optimized(residual()).plan.groups] == [GroupKind.CONTRACT, GroupKind.STITCH]


def test_a_layer_of_a_transformer() -> None:
    one, two = (optimized(transformer(n)).plan for n in (1, 2))
    kinds = Counter(g.kind for g in two.groups[len(one.groups) :])
    assert kinds == {GroupKind.CONTRACT: 8, GroupKind.STITCH: 3}


def _check(plan: Plan) -> None:
    """Every group runs after those that make what it reads; nothing is in two groups."""
    done = set(plan.function.params)
    seen: set[object] = set()
    for group in plan.groups:
        assert not seen & set(group.ops)
        seen |= set(group.ops)
        stack = [v for op in group.ops for v in op.operands]
        members = group.members()
        while stack:
            value = stack.pop()
            if value in members or (value in plan.stored and value in done):
                continue
            assert value not in plan.stored, f"{group.name} reads {value!r} before it is computed"
            stack.extend(plan.producers[value].operands)
        done |= set(group.outputs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_order(name: str) -> None:
    _check(optimized(PROGRAMS[name]()).plan)


# --- size ------------------------------------------------------------------------------------------------------------


def _passes(function: Function) -> Function:
    for step in (refine_shapes, simplify, eliminate_common_subexpressions, own_results, eliminate_dead_code):
        function = step(function)
    return function


def test_a_long_chain_is_groups_of_a_bounded_size() -> None:
    """2,000 elementwise ops: no recursion, no quadratic time."""
    m = Model("chain")
    x = y = m.param("x", "n", "m")
    for number in range(1000):
        y = m.op("negate", m.add(y, float(number)))
    row = m.softmax(y)
    function = _passes(m.function(row, x))
    start = time.process_time()
    plan = stitch(function)
    launches = lower_plan(plan, TARGET)
    assert time.process_time() - start < 5
    assert [len(g.ops) for g in plan.groups] == [512, 512, 512, 469, 1]
    assert len(launches) == 10  # five of them are for parts of long rows


def test_many_layers_take_linear_time() -> None:
    def seconds(layers: int) -> float:
        function = _passes(transformer(layers))
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            lower_plan(stitch(function), TARGET)
            best = min(best, time.process_time() - start)
        return best

    few, many = seconds(5), seconds(40)
    assert many < 20 * few, f"5 layers take {few:.3f} s, 40 layers {many:.3f} s"


def test_layers_share_their_kernels() -> None:
    one, two = (optimized(transformer(n)) for n in (1, 3))
    kernels = [{id(v.kernel) for launch in o.launches for v in launch.variants} for o in (one, two)]
    assert len(kernels[0]) == len(kernels[1])
