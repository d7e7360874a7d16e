"""Small programs that were once compiled wrongly: each was found by a random program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dyn import dtypes
from dyn.ir.core import Function
from dyn.shapes import Symbol, evaluate, floordiv
from tests.stitch.models import Model
from tests.stitch.programs import Program
from tests.stitch.test_random_programs import run_program


def stretched_result() -> Function:
    """A result that shows one computed element n times is not a permutation of it."""
    m = Model("f")
    x, n = m.param("x", 1), m.param("y", "n").shape[0]
    y = m.sub(x, m.reduce(x, 0))
    return m.function(m.op("broadcast_in_dim", y, shape=(n,), dims=(0,)))


def first_half() -> Function:
    """A prefix has the index of the whole, and is no permutation of it either."""
    m = Model("f")
    e = m.op("exponential", m.param("x", "n", "m"))
    n, k = e.shape
    half = m.op("slice", e, start=(0, 0), limit=(n, floordiv(k, 2)), strides=(1, 1))
    return m.function(half, m.op("negate", e), m.op("slice", half, start=(0, 0), limit=(1, 0), strides=(1, 1)))


def taken_from_indices() -> Function:
    """What is taken from an iota is the computed index itself."""
    m = Model("f")
    ids = m.param("ids", "n", dtype=dtypes.int32)
    iota = m.op("iota", shape=ids.shape, dimension=0, dtype=dtypes.int32)
    return m.function(m.take(m.op("negate", m.op("negate", iota)), ids), m.take(iota, ids))


def vector_by_vector() -> Function:
    m = Model("f")
    x, y = m.param("x", "n"), m.param("y", "n")
    return m.function(m.dot(x, y))


def folded_array() -> Function:
    """A constant that is computed at compile time and has several elements."""
    m = Model("f")
    x = m.param("x", 4)
    ones = m.stretch(m.number(1.0), *x.shape)
    return m.function(m.op("compare", x, m.op("negate", ones), direction="LT"))


def two_contracted_axes() -> Function:
    """Axes in another order than they lie: no one stride runs through both."""
    m = Model("f")
    x, y = m.param("x", "n", "m", "k"), m.param("y", "m", "n", "k")
    return m.function(
        m.op("dot_general", x, y, lhs_batch=(), rhs_batch=(), lhs_contracting=(0, 1), rhs_contracting=(1, 0))
    )


def many_scalars() -> Function:
    """Long arithmetic on sizes: shared parts must not be computed again and again."""
    m = Model("f")
    x = m.param("x", "n")
    s = m.op("dim_size", size=x.shape[0], dtype=dtypes.float32)
    for _ in range(40):
        s = m.op("tanh", m.add(s, s))
    return m.function(m.mul(x, s))


def kept_where_it_is_needed() -> Function:
    m = Model("f")
    x = m.param("x", "n", "m")
    t = m.op("tanh", m.add(x, 1.0))
    total = m.reduce(m.mul(t, m.reduce(m.mul(x, x), 1, "maximum")), 1)
    return m.function(m.add(t, m.op("tanh", total)))


FOUND: list[Callable[[], Function]] = [
    stretched_result, first_half, taken_from_indices, vector_by_vector, folded_array, two_contracted_axes, many_scalars,
    kept_where_it_is_needed,
]  # fmt: skip


@pytest.mark.parametrize("build", FOUND, ids=lambda build: build.__name__)
def test_found(build: Callable[[], Function]) -> None:
    function = build()
    envs: list[dict[Symbol, int]] = [dict.fromkeys(function.symbols(), size) for size in (0, 1, 2, 7, 64)]
    envs += [{s: size + i for i, s in enumerate(function.symbols())} for size in (1, 5)]
    run_program(Program(function, tuple(envs), 0))


def test_arguments_are_arrays() -> None:
    """The oracle's own inputs: a NumPy scalar has no memory that could be pointed to."""
    m = Model("f")
    function = m.function(m.op("negate", m.param("x")), m.op("not", m.param("p", dtype=dtypes.bool_)))
    arguments = Program(function, (), 0).arguments({})
    assert all(type(a) is np.ndarray and a.shape == tuple(evaluate(d, {}) for d in ()) for a in arguments)
