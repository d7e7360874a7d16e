"""Branches on sizes that have no value: they raise, and neither way is taken for granted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError


def o(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, "f4")


def remainder(x: Any, y: Any) -> Any:
    if x.shape[0] % y.shape[0] == 0:
        return x
    return x + y[0]


def quotient(x: Any, y: Any) -> Any:
    n, m = x.shape[0], y.shape[0]
    if n // m > 4:
        return x
    return dnp.max(y)


def protected(x: Any, y: Any) -> Any:
    n, m = x.shape[0], y.shape[0]
    if m != 0 and n % m == 0:
        return x
    return x * 2


@pytest.mark.parametrize("function", [remainder, quotient])
@pytest.mark.parametrize("first", [None, (4, 2), (3, 2), (9, 1)])
def test_a_branch_without_a_value_raises_and_compiles_nothing(function: Callable[..., Any], first: Any) -> None:
    jitted = dyn.jit(function)
    if first is not None:
        jitted(o(first[0]), o(first[1]))
    before = jitted.cache_info().compiles
    for _ in range(3):
        with pytest.raises(ShapeError, match=r"has no answer: .* divides by zero: y_0 is 0"):
            jitted(o(3), o(0))
    assert jitted.cache_info().compiles == before


def test_the_whole_text() -> None:
    jitted = dyn.jit(remainder)
    with pytest.raises(ShapeError) as caught:
        jitted(o(3), o(0))
    line = remainder.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "the branch on mod(x_0, y_0) == 0 has no answer: mod(x_0, y_0) divides by zero: y_0 is 0.\n"
        "  x_0 is x.shape[0] = 3\n"
        "  y_0 is y.shape[0] = 0\n"
        f"  at test_guards_without_value.py:{line}  if x.shape[0] % y.shape[0] == 0:\n"
        "  help: use max(n, 1) as a divisor that may be 0."
    )


def test_an_earlier_branch_that_goes_the_other_way_keeps_a_division_from_being_asked() -> None:
    jitted = dyn.jit(protected)
    sizes = [(4, 2), (3, 2), (3, 0), (0, 0), (4, 2), (5, 0)]
    for n, m in sizes:
        expected = protected(o(n), o(m))
        np.testing.assert_array_equal(jitted(o(n), o(m)), expected)
    # Two ways lead to ``x * 2``: they have one program.
    assert jitted.cache_info().compiles == 2


def test_compiled_stages_raise_too() -> None:
    compiled = dyn.jit(remainder).lower(o(4), o(2)).compile()
    with pytest.raises(ShapeError, match="has no answer"):
        compiled(o(3), o(0))
