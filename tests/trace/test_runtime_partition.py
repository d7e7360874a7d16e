"""Partitions of a derivative whose bytes are formulas that cross: attention by distances, written out.

Its weights, a matrix for each example, are functions of one element of queries and keys. Of short sequences they take
less than these do, of long ones more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.shapes import Dim, as_dim, symbol
from dyn.trace.context import Trace, current_trace
from dyn.trace.runtime_partition import Partition, Sizes, _without_common_factor, bytes_of, least_of
from tests.trace.test_partition import residuals
from tests.trace.tracing import guards, leaf, trace

#: Features of queries and keys. A matrix of weights is half of them for sequences of as many elements.
FEATURES = 64


def weights(q: Any, k: Any) -> Any:
    total = 0
    for c in range(FEATURES):
        total = total - (q[:, :, None, c] - k[:, None, :, c]) ** 2
    return dnp.exp(total)


def attention(x: Any, to_q: Any, to_k: Any, to_v: Any) -> Any:
    q, k = dyn.stop_gradient(x @ to_q), dyn.stop_gradient(x @ to_k)
    return weights(q, k) @ (x @ to_v)


def arguments(length: int, batch: int = 2) -> list[Any]:
    draw = np.random.default_rng(length).standard_normal
    return [draw((batch, length, 8), dtype="f4"), *[0.05 * draw((8, FEATURES), dtype="f4") for _ in range(3)]]


@pytest.mark.parametrize("lengths", [(200, 9, 1, 0, 300), (9, 200, 7)])
def test_the_less_is_kept_at_every_length(lengths: tuple[int, ...]) -> None:
    gradient = dyn.jit(dyn.grad(lambda *given: dnp.sum(attention(*given)), argnums=(0, 3)))
    for length in lengths:
        given = arguments(length)
        result, pull = dyn.vjp(attention, *given)
        shapes = [residual.shape for residual in residuals(pull)]
        weights_kept = shapes.count((2, length, length))
        columns_kept = shapes.count((2, length, 1)) if length != 1 else 0
        # Weights; or the columns of queries and of keys, whose rows are axes in other places. How many columns there
        # are beside those is a dim.
        assert (weights_kept, columns_kept) == ((0, FEATURES) if length >= 200 else (1, 0))
        made, wanted = pull(np.ones_like(result)), gradient(*given)
        for one, other in zip((made[0], made[3]), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    # One program has both halves, and keeps nothing between calls.
    assert gradient.cache_info().compiles == 1


def test_common_factors_are_divided_out() -> None:
    x, y = (as_dim(symbol(name, name)) for name in "xy")
    assert _without_common_factor(8 * x * y * y, 12 * x * y) == (2 * y, 3)
    assert _without_common_factor(8 * x * y + 4, 12 * x) == (2 * x * y + 1, 3 * x)
    assert _without_common_factor(0, 4 * x) == (0, 1)
    assert _without_common_factor(0, 0) == (0, 0)


def chosen(sizes: tuple[int, ...] | None, *shapes: Any) -> tuple[int, list[str]]:
    """The number of the shape that is kept, of several that would do, and the guards. A shape is one of sizes b, s."""
    found: list[int] = []

    def function(x: Any) -> Any:
        here = current_trace()
        assert here is not None
        known = [dim.dim for dim in x.shape]
        values = [Value(TensorType(dtypes.float32, shape(*known))) for shape in shapes]
        (kept,) = least_of(here, _least(here, values), values).kept
        found.append(values.index(kept))
        return x

    traced = trace(function, leaf("x", None, None, sizes=sizes))
    return found[0], guards(traced)


def _least(here: Trace, values: list[Value]) -> Any:
    def partition(size: Sizes) -> Partition:
        kept = [min(values, key=size)]
        return Partition({}, kept, bytes_of(here, kept))

    return partition


def square(b: Dim, s: Dim) -> tuple[Dim, ...]:
    return b, s, s


def wide(b: Dim, s: Dim) -> tuple[Dim, ...]:
    return b, s, 1000


@pytest.mark.parametrize(
    ("sizes", "kept", "guard"),
    [
        ((3, 5000), 1, "x_1 >= 800"), ((3, 800), 1, "x_1 >= 800"),  # where a fifth is not saved
        ((3, 799), 0, "799 >= x_1"), ((3, 1), 0, "799 >= x_1"), ((0, 0), 0, "799 >= x_1"),
        ((2**40, 2**50), 1, "x_1 >= 800"),  # whose bytes pass 64 bits
    ],
)  # fmt: skip
def test_the_sizes_of_the_call_choose(sizes: tuple[int, ...], kept: int, guard: str) -> None:
    assert chosen(sizes, square, wide) == (kept, [guard])


def test_without_sizes_it_is_what_large_ones_keep() -> None:
    assert chosen(None, square, wide) == (1, [])


@pytest.mark.parametrize("sizes", [(3, 5), (3, 5000), (0, 1)])
def test_what_is_less_everywhere_leaves_no_guard(sizes: tuple[int, ...]) -> None:
    assert chosen(sizes, lambda b, s: (b, s, 7), lambda b, s: (b, s, 6)) == (1, [])
    assert chosen(sizes, lambda b, s: (b, s, s), lambda b, s: (b, s)) == (1, [])


def test_what_is_a_little_less_leaves_no_guard() -> None:
    assert chosen((3, 5), lambda b, s: (b, s, 70), lambda b, s: (b, s + 64)) == (1, [])
    assert chosen((3, 5), lambda b, s: (s, 64), lambda b, s: (s + 10, 60)) == (1, [])


def test_one_guard_of_several_crossings() -> None:
    """The one where most is saved."""
    found, made = chosen((3, 5), lambda b, s: (b, s, s, 2), wide, lambda b, s: (b, b, s))
    assert (found, len(made)) == (2, 1)
