"""Kernel expressions: shared nodes, computed indices, 16-bit floats, parameters in place of host sizes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyn import dtypes
from dyn.errors import NotYetError
from dyn.integers import INT64, divide, remainder
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import ExprBuilder, Parameters, Rewriter
from dyn.schedule.kernel import Apply, Buffer, Const, Expr, Index, Load
from dyn.schedule.kernel_walks import walk_exprs
from dyn.shapes import Dim, as_dim, dim_max, dim_min, evaluate, floordiv, mod, substitute
from dyn.shapes import symbol as new_symbol

n_symbol, i_symbol = new_symbol("n"), new_symbol("i")
n, i = as_dim(n_symbol), as_dim(i_symbol)


def test_nodes_are_shared() -> None:
    k = ExprBuilder()
    buffer = Buffer("x", dtypes.float32)
    first, again = (k.apply(Scalar.ADD, [k.load(buffer, i), k.const(dtypes.float32, 1)], dtypes.float32) for _ in "ab")
    assert first is again
    assert k.index(dtypes.int64, i + 1) is k.index(dtypes.int64, i + 1)
    assert k.load(buffer, i) is not k.load(buffer, i + 1)


def test_zeros_of_both_signs_are_two_constants() -> None:
    k = ExprBuilder()
    assert k.const(dtypes.float32, 0.0) is not k.const(dtypes.float32, -0.0)
    assert k.const(dtypes.float32, 1) is k.const(dtypes.float32, 1.0)


def test_halves_are_computed_in_float32() -> None:
    k = ExprBuilder()
    x = k.load(Buffer("x", dtypes.bfloat16), i)
    total = k.apply(Scalar.ADD, [x, x], dtypes.bfloat16)
    assert isinstance(total, Apply)
    assert (total.fn, total.dtype) == (Scalar.CAST, dtypes.bfloat16)
    (inside,) = total.args
    assert isinstance(inside, Apply)
    assert (inside.fn, inside.dtype) == (Scalar.ADD, dtypes.float32)


@pytest.mark.parametrize(
    ("value", "source", "target", "folded"),
    [
        (2.0, dtypes.float32, dtypes.float64, True),
        (300, dtypes.int32, dtypes.uint8, False),  # wraps
        (-1, dtypes.int32, dtypes.uint8, False),
        (7, dtypes.int64, dtypes.int32, True),
        (2.5, dtypes.float32, dtypes.int32, False),  # truncates and saturates
        (math.nan, dtypes.float32, dtypes.int32, False),
        (True, dtypes.bool_, dtypes.int32, True),
        (3, dtypes.int32, dtypes.bool_, False),
        (1 << 40, dtypes.int64, dtypes.float32, False),  # rounds
    ],
)
def test_only_exact_conversions_of_literals_are_folded(
    value: float, source: dtypes.DType, target: dtypes.DType, folded: bool
) -> None:
    k = ExprBuilder()
    assert isinstance(k.cast(k.const(source, value), target), Const) is folded


def test_complex_comes_later() -> None:
    with pytest.raises(NotYetError):
        ExprBuilder().const(dtypes.complex64, 1)


# --- computed indices -------------------------------------------------------------------------------------------------


def _value(expr: Expr, env: dict[object, int], computed: int) -> int:
    """An expression over int64, with every load giving ``computed``."""
    done: dict[int, int] = {}
    for e in walk_exprs((expr,)):
        if isinstance(e, Const):
            done[id(e)] = int(e.value)
        elif isinstance(e, Index):
            done[id(e)] = evaluate(e.expr, env)  # pyright: ignore[reportArgumentType]
        elif isinstance(e, Load):
            done[id(e)] = computed
        else:
            assert isinstance(e, Apply)
            done[id(e)] = _FUNCTIONS[e.fn](*[done[id(a)] for a in e.args])
    return done[id(expr)]


_FUNCTIONS = {
    Scalar.ADD: lambda a, b: a + b,
    Scalar.SUB: lambda a, b: a - b,
    Scalar.MUL: lambda a, b: a * b,
    Scalar.MIN: min,
    Scalar.MAX: max,
    Scalar.DIV: lambda a, b: divide(INT64, a, b),
    Scalar.REM: lambda a, b: remainder(INT64, a, b),
    Scalar.XOR: lambda a, b: a ^ b,
    Scalar.AND: lambda a, b: a & b,
    Scalar.EQ: lambda a, b: int(a == b),
    Scalar.NE: lambda a, b: int(a != b),
    Scalar.LT: lambda a, b: int(a < b),
    Scalar.SELECT: lambda p, a, b: a if p else b,
}


@given(st.integers(-9, 9), st.integers(1, 5), st.integers(0, 9))
def test_an_index_over_a_computed_value(row: int, size: int, place: int) -> None:
    """``iota`` of a gathered index, and what slices and reshapes make of it."""
    k = ExprBuilder()
    v = k.bind(k.load(Buffer("rows", dtypes.int64), i))
    bound = next(iter(k.bound))
    dims: list[Dim] = [
        v, v * n + i, 2 * v - 3, v * v + n, floordiv(v + i, n), mod(v - i, n), dim_min(v, n), dim_max(v, i, 2),
        floordiv(v, 3) * 3 + mod(v, 3),
    ]  # fmt: skip
    env = {n_symbol: size, i_symbol: place}
    for dim in dims:
        wanted = evaluate(dim, env | {bound: row})
        assert _value(k.index(dtypes.int64, dim), env, row) == wanted  # pyright: ignore[reportArgumentType]


def test_a_value_is_bound_once() -> None:
    k = ExprBuilder()
    value = k.load(Buffer("rows", dtypes.int64), i)
    assert k.bind(value) is k.bind(value)
    assert k.bind(k.index(dtypes.int64, n + i)) is n + i
    assert k.bind(k.const(dtypes.int64, 4)) == 4


# --- rewriting --------------------------------------------------------------------------------------------------------


def test_rewriting_shares_what_was_shared_and_keeps_what_stays() -> None:
    k = ExprBuilder()
    buffer = Buffer("x", dtypes.float32)
    still = k.apply(Scalar.EXP, [k.load(buffer, n)], dtypes.float32)
    moved = k.load(buffer, i)
    both = k.apply(Scalar.ADD, [still, moved], dtypes.float32)
    twice = k.apply(Scalar.MUL, [both, both], dtypes.float32)
    new = Rewriter(lambda dim: substitute(dim, {i_symbol: n + 1})).expr(twice)
    assert isinstance(new, Apply)
    assert new.args[0] is new.args[1]
    assert isinstance(new.args[0], Apply)
    assert new.args[0].args[0] is still


def test_rewriting_a_long_chain_needs_no_recursion() -> None:
    k = ExprBuilder()
    value = k.load(Buffer("x", dtypes.float32), i)
    for _ in range(5000):
        value = k.apply(Scalar.NEG, [value], dtypes.float32)
    assert Rewriter(lambda dim: dim).expr(value) is value


# --- parameters -------------------------------------------------------------------------------------------------------


def test_parameters_take_the_host_part_of_each_coefficient() -> None:
    m = as_dim(new_symbol("m"))
    parameters = Parameters(frozenset({i_symbol}))
    assert str(parameters.rewrite(3 * i + n * m * i + 2 * n + 5)) == "i*d1 + d0"
    assert list(parameters.symbols) == [2 * n + 5, n * m + 3]
    assert parameters.rewrite(7) == 7
    assert parameters.rewrite(2 * n + 5) is as_dim(parameters.symbols[2 * n + 5])  # pyright: ignore[reportArgumentType]


@given(st.integers(0, 6), st.integers(1, 6), st.integers(0, 6))
def test_parameters_keep_the_value(size: int, other: int, place: int) -> None:
    m_symbol = new_symbol("m")
    m = as_dim(m_symbol)
    parameters = Parameters(frozenset({i_symbol}))
    env = {n_symbol: size, m_symbol: other, i_symbol: place}
    for dim in (n * i + m, floordiv(n * i + 3, m), mod(i, m) * n * m - i * i, dim_min(256, n - 4 * i) * m, i, n * m):
        new = parameters.rewrite(dim)
        inner = {symbol: evaluate(host, env) for host, symbol in parameters.symbols.items()}
        assert evaluate(new, {i_symbol: place} | inner) == evaluate(dim, env)
