"""Floats that a function closes over are numbers of its program, not of its code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.specialize.program import CODES

SCALE = 0.3


def ones(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype="f4").reshape(shape) + 1


def made(function: Callable[..., Any], *args: Any) -> tuple[Any, int]:
    """The result of a new jitted function, and how many programs its code had to be made for."""
    before = CODES.info().programs
    result = dyn.jit(function)(*args)
    return result, CODES.info().programs - before


def test_another_float_in_a_closure_needs_no_code() -> None:
    def scaled(s: float) -> Callable[..., Any]:
        return lambda x: dnp.exp(x * s) / (x + s)

    x = ones(7)
    counts: list[int] = []
    for s in (0.1, 0.3, 1.7, -2.7, 1e-5):
        result, count = made(scaled(s), x)
        counts.append(count)
        np.testing.assert_allclose(result, np.exp(x * np.float32(s)) / (x + np.float32(s)), rtol=2e-6)
        assert result.dtype == np.float32
    assert counts[1:] == [0, 0, 0, 0]


def test_two_floats_that_are_equal_are_one_number() -> None:
    def both(a: float, b: float) -> Callable[..., Any]:
        return lambda x: x * a + b

    f = dyn.jit(both(0.3, float("0.3")))
    np.testing.assert_allclose(f(ones(3)), ones(3) * np.float32(0.3) + np.float32(0.3), rtol=1e-6)
    assert [np.asarray(a).item() for a in f.programs[0].traced.captured] == [np.float32(0.3)]


def test_defaults_partials_globals_and_functions_inside() -> None:
    def with_default(value: float) -> Callable[..., Any]:
        def f(x: Any, s: float = value) -> Any:
            return x * s + 5

        return f

    def nested(value: float) -> Callable[..., Any]:
        def inner(x: Any) -> Any:
            return x * value - 6

        return lambda x: inner(x) + 8

    for make in (with_default, nested):
        made(make(0.7), ones(3))
        result, count = made(make(0.9), ones(3))
        assert count == 0
        np.testing.assert_allclose(result, make(0.9)(ones(3)), rtol=1e-6)

    def by_partial(value: float) -> Callable[..., Any]:
        return functools.partial(lambda s, x: x / s, value)

    made(by_partial(0.7), ones(3))
    result, count = made(by_partial(0.9), ones(3))
    assert count == 0
    np.testing.assert_allclose(result, ones(3) / np.float32(0.9), rtol=1e-6)
    assert dyn.jit(lambda x: x - SCALE)(ones(3))[0] == np.float32(1) - np.float32(0.3)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 4.0, float("inf"), float("-inf"), float("nan")])
def test_numbers_that_simplify_stay_in_the_code(number: float) -> None:
    def f(x: Any) -> Any:
        return x * number + number

    jitted = dyn.jit(f)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(jitted(ones(3)), f(ones(3)))
    assert jitted.programs[0].traced.captured == ()


def test_exponents_and_what_is_no_arithmetic_stay_in_the_code() -> None:
    e, start = 2.7, 3.3

    def results(x: Any) -> Any:
        return x**e, dnp.pad(x, 1, constant_values=start), e

    jitted = dyn.jit(results)
    power, padded, alone = jitted(ones(3))
    np.testing.assert_allclose(power, ones(3) ** np.float32(e), rtol=1e-6)
    np.testing.assert_array_equal(padded, np.pad(ones(3), 1, constant_values=start))
    assert float(alone) == pytest.approx(e)
    assert jitted.programs[0].traced.captured == ()


def test_a_base_is_a_number_and_its_exponent_none() -> None:
    base = 2.7
    jitted = dyn.jit(lambda x: base**x)
    np.testing.assert_allclose(jitted(ones(3)), np.float32(base) ** ones(3), rtol=1e-6)


def test_bodies_of_loops_and_branches() -> None:
    rate = 0.3

    def f(x: Any) -> Any:
        grown = lax.fori_loop(0, 3, lambda i, c: c * rate, x)
        return lax.cond(dnp.sum(x) > 0, lambda v: v * rate, lambda v: v, grown) * rate

    want = ones(3) * np.float32(rate) ** 5
    np.testing.assert_allclose(dyn.jit(f)(ones(3)), want, rtol=1e-6)


def test_gradients_and_calls_in_traces() -> None:
    rate = 0.3

    def loss(w: Any) -> Any:
        return dnp.sum(w * w * rate)

    np.testing.assert_allclose(dyn.jit(dyn.grad(loss))(ones(3)), 2 * ones(3) * np.float32(rate), rtol=1e-6)
    inner = dyn.jit(lambda w: w * rate)
    np.testing.assert_allclose(dyn.jit(lambda w: inner(w) + w)(ones(3)), ones(3) * np.float32(1.3), rtol=1e-6)
    np.testing.assert_allclose(dyn.vmap(inner)(ones(2, 3)), ones(2, 3) * np.float32(rate), rtol=1e-6)


def test_dtypes_are_those_of_literals() -> None:
    s = 0.3
    for dtype in ("f2", "f4", "f8", "i4", "c8", "?"):
        x = np.ones(3, dtype)
        closed, literal = dyn.jit(lambda x: x * s)(x), dyn.jit(lambda x: x * 0.3)(x)
        assert closed.dtype == literal.dtype
        np.testing.assert_array_equal(closed, literal)


def test_a_float_that_changes_later_is_what_it_was() -> None:
    """As in JAX: only its code is shared, not the number."""
    box = [0.3]

    def make() -> Callable[..., Any]:
        s = box[0]

        def f(x: Any) -> Any:
            return x * s

        def change(value: float) -> None:
            nonlocal s
            s = value

        f.change = change  # type: ignore[attr-defined]
        return f

    function: Any = make()
    jitted = dyn.jit(function)
    first = jitted(ones(3))
    function.change(0.7)
    np.testing.assert_array_equal(jitted(ones(3)), first)
