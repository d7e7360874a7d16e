"""Tracing small functions in tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import dyn
from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.printer import print_function
from dyn.ir.verifier import verify
from dyn.trace.function import Declarations, LeafSpec, TracedFunction, trace_function

assert dyn.__version__ != ""  # importing dyn installs the NumPy namespace

f32 = dtypes.float32


def leaf(name: str, *axes: int | str | None, sizes: tuple[int, ...] | None = None, dtype: DType = f32) -> LeafSpec:
    """An argument: a size of None an axis where no other is given."""
    return LeafSpec(name, dtype, axes, sizes=sizes)


def trace(
    fn: Callable[..., Any], *leaves: LeafSpec, dims: tuple[Any, ...] = (), constraints: tuple[str, ...] = ()
) -> TracedFunction:
    """The traced and verified function, called with a tracer for each leaf."""
    traced = trace_function(lambda tracers: fn(*tracers), "f", leaves, Declarations(dims, constraints))
    verify(traced.function)
    return traced


def body(traced: TracedFunction) -> list[str]:
    """The text of a function without its lines, header and end."""
    return [line.strip() for line in print_function(traced.function, locs=False).splitlines()[1:-1]]


def guards(traced: TracedFunction) -> list[str]:
    return [guard.describe() for guard in traced.guards]


def text_of(error: type[Exception], fn: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The whole text of the error that a call raises, with N for the number of a line."""
    with pytest.raises(error) as caught:
        fn(*args, **kwargs)
    assert type(caught.value) is error
    return re.sub(r"\.py:\d+", ".py:N", str(caught.value))
