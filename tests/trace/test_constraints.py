"""Constraints that cannot be met, or cannot be read: the whole text of each error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
from dyn.errors import ArgumentError, DynError, ShapeError
from tests.trace.tracing import text_of


def double(x: Any) -> Any:
    return x + x


@pytest.mark.parametrize(
    ("constraints", "error", "text"),
    [
        (
            "s >= 4, s <= 2",
            ShapeError,
            "2 >= s cannot hold.\n"
            "  needed: constraints='s >= 4, s <= 2'\n"
            "  at constraints=\n"
            "  help: make the sizes agree, or change the declaration that fixes them.",
        ),
        (
            ("s % 8 == 0", "s == 12"),
            ShapeError,
            "s == 12 cannot hold.\n"
            "  needed: constraints='s == 12'\n"
            "  known: constraints='s % 8 == 0' (constraints=)\n"
            "  at constraints=\n"
            "  help: make the sizes agree, or change the declaration that fixes them.",
        ),
        (
            "s >= 4, t <= 2",
            ArgumentError,
            "cannot read a dimension: unknown name 't' (known: s, x.shape[0]) at column 9.\n"
            "  s >= 4, t <= 2\n"
            "          ^\n  at tracing.py:N  fn(*args, **kwargs)",
        ),
        (
            "s // (s - s) == 2",
            ArgumentError,
            "cannot read a dimension: floordiv(s, 0) divides by zero at column 3.\n  s // (s - s) == 2\n    ^\n"
            "  at tracing.py:N  fn(*args, **kwargs)",
        ),
    ],
)
def test_constraints_that_cannot_be(constraints: Any, error: type[DynError], text: str) -> None:
    f = dyn.jit(double, shapes="s", constraints=constraints)
    found = text_of(error, f.trace, dyn.ShapeDtypeStruct(("s",), "float32"))
    assert found == text


def test_a_divisor_that_is_zero_in_a_call() -> None:
    f = dyn.jit(double, shapes="s", constraints="12 // s == 2")
    assert f(np.ones(5, "f4")).shape == (5,)
    assert text_of(ShapeError, f, np.ones(0, "f4")) == (
        "floordiv(12, s) divides by zero: s is 0.\n"
        "  s is x.shape[0] = 0\n"
        "  at constraints=\n"
        "  help: use max(n, 1) as a divisor that may be 0."
    )
