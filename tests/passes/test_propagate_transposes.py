"""Transposes that cancel across regions: golden text, where nothing is to be done, and what is computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dyn.backends.reference import run_reference
from dyn.ir.core import Function, Value
from dyn.ir.printer import print_function
from dyn.ir.verifier import verify
from dyn.passes.propagate_transposes import propagate_transposes
from dyn.passes.redundancy import eliminate_common_subexpressions, eliminate_dead_code
from dyn.passes.refine_shapes import refine_shapes
from tests.stitch.models import Model, optimized


def there_and_back() -> Function:
    """Channels last inside, channels first outside."""
    m = Model("there_and_back")
    x, bias = m.param("x", "b", 8, "h", "w"), m.param("bias", 8)
    y = m.add(m.transpose(x, 0, 2, 3, 1), bias)
    return m.function(m.transpose(m.op("tanh", y), 0, 3, 1, 2))


def normalised() -> Function:
    """A normalisation over what is the last axis inside: its reductions and their broadcasts turn with it."""
    m = Model("normalised")
    x = m.param("x", "b", 8, "s")
    inside = m.layer_norm(m.transpose(x, 0, 2, 1), m.param("scale", 8), m.param("shift", 8))
    return m.function(m.transpose(inside, 0, 2, 1))


def reduced() -> Function:
    """What is left of the axes stands in another order."""
    m = Model("reduced")
    t = m.transpose(m.param("x", "a", "b", "c"), 2, 1, 0)
    return m.function(m.reduce(m.op("exponential", t), 1, keep=False))


def positions() -> Function:
    """An iota is made in the other order."""
    m = Model("positions")
    x = m.param("x", "n", "m")
    t = m.transpose(x, 1, 0)
    i = m.op("iota", shape=t.shape, dimension=1, dtype=x.dtype)
    return m.function(m.transpose(m.mul(t, i), 1, 0), m.transpose(m.op("negate", t), 1, 0))


def twice() -> Function:
    """Rotated twice by one order: each time leads into a region."""
    m = Model("twice")
    once = m.transpose(m.param("x", "a", "b", "c"), 1, 2, 0)
    rotated = m.transpose(once, 1, 2, 0)
    return m.function(m.reduce(once, 0, "maximum", keep=False), m.reduce(rotated, 0, "maximum", keep=False))


def dense() -> Function:
    """A product of matrices over merged axes: of the axes as they are, with bias and activation behind it."""
    m = Model("dense")
    x, w, bias = m.param("x", "b", "s", 16), m.param("w", 16, 8), m.param("bias", 8)
    flat = m.op("reshape", x, shape=(x.shape[0] * x.shape[1], 16))
    y = m.op("reshape", contracted(m, flat, w), shape=(*x.shape[:2], 8))
    return m.function(m.op("tanh", m.add(y, bias)))


def batched() -> Function:
    """Axes of a batch are merged on both sides, and parted behind."""
    m = Model("batched")
    x, y = m.param("x", "b", 4, "s", 16), m.param("y", "b", 4, "t", 16)
    batch = x.shape[0] * 4
    flat = [m.op("reshape", one, shape=(batch, *one.shape[2:])) for one in (x, y)]
    made = m.op("dot_general", *flat, lhs_batch=(0,), rhs_batch=(0,), lhs_contracting=(2,), rhs_contracting=(2,))
    return m.function(m.op("reshape", made, shape=(*x.shape[:3], y.shape[2])))


def other_axes() -> Function:
    """Stays: axes are parted otherwise than they were merged, or the product itself is a result."""
    m = Model("other_axes")
    x, w = m.param("x", "b", "s", 16), m.param("w", 16, 8)
    b, s = x.shape[:2]
    made = contracted(m, m.op("reshape", x, shape=(b * s, 16)), w)
    other = contracted(m, m.op("reshape", m.op("negate", x), shape=(b * s, 16)), w)
    return m.function(made, m.op("reshape", made, shape=(b, s, 8)), m.op("reshape", other, shape=(s, b, 8)))


def contracted(m: Model, x: Value, w: Value) -> Value:
    return m.op("dot_general", x, w, lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), rhs_contracting=(0,))


def other_users() -> Function:
    """Stays: the transposed array itself is a result, and it meets an array in its own order."""
    m = Model("other_users")
    x, y = m.param("x", "n", "m"), m.param("y", "m", "n")
    t = m.op("exponential", m.transpose(x, 1, 0))
    s = m.add(m.op("tanh", m.transpose(x, 1, 0)), y)
    return m.function(t, m.transpose(t, 1, 0), m.transpose(s, 1, 0))


def attention() -> Function:
    """Stays: between two contractions nothing is transposed back."""
    m = Model("attention")
    q, k, v = (m.param(name, "b", "s", 64) for name in "qkv")
    return m.function(m.attention(q, k, v, m.param("mask", "b", "s")))


def softmax_of_columns() -> Function:
    """Stays: the result is wanted in the order in which it is computed."""
    m = Model("softmax_of_columns")
    return m.function(m.softmax(m.transpose(m.param("x", "n", "m"), 1, 0)))


TURNED = (there_and_back, normalised, reduced, positions, dense, batched)
CALM = (other_axes, other_users, attention, softmax_of_columns)
Build = Callable[[], Function]


def prepared(function: Function) -> Function:
    return eliminate_common_subexpressions(refine_shapes(function))


@pytest.mark.parametrize("build", TURNED, ids=lambda f: f.__name__)
def test_golden(build: Build, golden: Callable[[str, str], None]) -> None:
    before = prepared(build())
    after = eliminate_dead_code(verify(propagate_transposes(before), "propagate_transposes"))
    text = print_function(after)
    golden(f"layout_{before.name}.txt", f"{print_function(before)}# after propagate_transposes\n{text}")
    assert print_function(eliminate_dead_code(propagate_transposes(after))) == text


@pytest.mark.parametrize("build", CALM, ids=lambda f: f.__name__)
def test_nothing_to_do(build: Build) -> None:
    before = prepared(build())
    assert propagate_transposes(before) is before


@pytest.mark.parametrize("sizes", [(0, 3, 2), (2, 0, 1), (1, 1, 1), (3, 5, 7)])
def test_products_over_axes_as_they_are(sizes: tuple[int, ...]) -> None:
    b, s, t = sizes
    rng = np.random.default_rng(0)
    for build, shapes in ((dense, ((b, s, 16), (16, 8), (8,))), (batched, ((b, 4, s, 16), (b, 4, t, 16)))):
        before = prepared(build())
        after = propagate_transposes(before)
        given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        for one, other in zip(run_reference(before, given), run_reference(after, given), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("build", [there_and_back, normalised, dense], ids=lambda f: f.__name__)
def test_one_kernel_without_strides(build: Build) -> None:
    plan = optimized(build()).plan
    assert len(plan.groups) == 1
    assert "transpose" not in plan.text()


def test_a_transpose_of_a_transpose_leads_in() -> None:
    before = prepared(twice())
    after = verify(propagate_transposes(before), "propagate_transposes")
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    for one, other in zip(run_reference(before, [x]), run_reference(after, [x]), strict=True):
        np.testing.assert_array_equal(one, other)


def random_program(data: st.DataObject) -> Function:
    """Transposes by two orders among elementwise ops, reductions and their broadcasts."""
    m = Model("random")
    values: list[Value] = [m.param("x", "a", "b", "c"), m.param("y", "c", "b", "a")]
    for _ in range(data.draw(st.integers(2, 9))):
        x = data.draw(st.sampled_from(values))
        kind = data.draw(st.sampled_from(["transpose", "transpose", "tanh", "add", "reduce", "result", "row", "iota"]))
        if kind == "transpose":
            values.append(m.transpose(x, *data.draw(st.sampled_from([(2, 1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1)]))))
        elif kind == "add":
            y = data.draw(st.sampled_from([v for v in values if v.shape == x.shape]))
            values.append(m.op("add", x, y))
        elif kind == "reduce":
            values.append(m.reduce(x, data.draw(st.integers(0, 2)), "maximum"))
        elif kind == "row":
            row = m.reduce(x, data.draw(st.sampled_from([(0, 1), (0, 2), (1, 2)])), "minimum")
            values.append(m.op("multiply", row, x))
        elif kind == "iota":
            i = m.op("iota", shape=x.shape, dimension=data.draw(st.integers(0, 2)), dtype=x.dtype)
            values.append(m.op("subtract", x, i))
        else:
            values.append(m.op("negate", x))
    results = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    flat = m.reduce(values[-1], data.draw(st.integers(0, 2)), "maximum", keep=False)
    return m.function(*results, flat)


@settings(max_examples=300)
@given(data=st.data())
def test_meaning_is_kept(data: st.DataObject) -> None:
    before = prepared(random_program(data))
    after = verify(propagate_transposes(before), "propagate_transposes")
    rng = np.random.default_rng(0)
    for a, b, c in ((2, 3, 4), (1, 0, 2), (1, 1, 3)):
        shapes = {"x": (a, b, c), "y": (c, b, a)}
        arrays = [rng.standard_normal(shapes[info.name]).astype(np.float32) for info in before.infos]
        for one, other in zip(run_reference(before, arrays), run_reference(after, arrays), strict=True):
            np.testing.assert_array_equal(one, other)
