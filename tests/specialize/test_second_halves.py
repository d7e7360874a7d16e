"""Derivatives in two programs that serve calls whose branches went another way, whatever each trace would have kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError
from dyn.trace.context import current_trace
from dyn.trace.gradients import linearize
from dyn.trace.joint_function import FirstHalf
from dyn.trace.pytree import register_node
from dyn.trace.split_linearization import Half, split_derivative
from dyn.transforms import SecondHalf
from tests.trace.test_runtime_partition import FEATURES, attention


class Recorded(FirstHalf):
    """Results beside residuals, as front ends have them."""

    def __init__(self, second: SecondHalf, results: Any, residuals: Sequence[Any]) -> None:
        self.second, self.results, self.residuals = second, results, residuals

    @property
    def half(self) -> Half:
        return self.second.half

    def without_residuals(self) -> Any:
        return self.results

    def with_half_of(self, other: Any) -> Recorded:
        return Recorded(other.second, self.results, other.residuals)


register_node(
    Recorded, lambda node: ((node.results, node.residuals), node.second), lambda second, made: Recorded(second, *made)
)


class Differentiated:
    """A function whose derivative by all arguments is a program of its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        def recorded(*args: Any) -> Recorded:
            trace = current_trace()
            assert trace is not None
            found = linearize(trace, function, args, tuple([f"args[{n}]" for n in range(len(args))]), "f")
            residuals, half = split_derivative(trace, found, forward=False)
            return Recorded(SecondHalf(half), found.result(), residuals)

        self.first, self.plain = dyn.jit(recorded), function
        #: The programs of second halves, as often as a call has used them.
        self.seconds: list[Any] = []
        #: How many arrays each call has kept.
        self.kept: list[int] = []

    def check(self, *shapes: tuple[int, ...]) -> None:
        """Call it, and compare its result and cotangents with those of :func:`dyn.vjp`."""
        args = [draw(*shape) for shape in shapes]
        made = self.first(*args)
        wanted, pull = dyn.vjp(self.plain, *args)
        cotangent = draw(*np.shape(wanted))
        program = made.second.program
        pulled = program(list(made.residuals), (cotangent,))
        np.testing.assert_allclose(np.asarray(made.results), np.asarray(wanted), rtol=1e-5)
        for one, other in zip(pulled, pull(cotangent), strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-5)
        self.seconds.append(program)
        self.kept.append(len(made.residuals))

    @property
    def programs(self) -> tuple[int, int]:
        """How many first and second halves were compiled."""
        seconds = {id(one): one.cache_info().compiles for one in self.seconds}
        return self.first.cache_info().compiles, sum(seconds.values())


def draw(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("f4") + 0.5


def weighted(x: Any, w: Any) -> Any:
    """Weights of all pairs: two vectors are kept rather than a matrix, but where both have one element."""
    a = dyn.stop_gradient(x @ w)
    b = dyn.stop_gradient(x @ (w + 1))
    if x.shape[0] == 1:
        a, b = a.reshape(1), b.reshape(1)
    return dnp.sin(a[:, None] * b[None, :]) @ x


def test_what_is_kept_is_that_of_the_earlier_program() -> None:
    f = Differentiated(weighted)
    for n in (5, 1, 3, 1, 7):
        f.check((n, 4), (4,))
    assert f.programs == (1, 1)
    assert len(set(f.kept)) == 1
    # Alone a call with one row keeps less.
    alone = Differentiated(weighted)
    alone.check((1, 4), (4,))
    assert alone.kept[0] < f.kept[0]


def test_another_derivative_is_another_program() -> None:
    """The results are the same, and the cotangents are not."""

    def f(x: Any) -> Any:
        return x * x if x.shape[0] > 1 else x * dyn.stop_gradient(x)

    made = Differentiated(f)
    for n in (3, 1, 2, 0, 1):
        made.check((n,))
    assert made.programs == (1, 2)  # what each half is given is the same


def test_other_results_are_another_program() -> None:
    made = Differentiated(lambda x: x * x if x.shape[0] > 1 else x * x * x)
    for n in (3, 1, 2, 0, 1):
        made.check((n,))
    assert made.programs == (2, 2)


def test_a_branch_that_only_the_second_half_is_about() -> None:
    """The cotangents of a sum over an axis of one element, and over some."""

    def f(x: Any, y: Any) -> Any:
        return x + y if y.shape[0] > 1 else x + dnp.broadcast_to(y, x.shape)

    made = Differentiated(f)
    for n, m in ((3, 3), (3, 1), (1, 1), (2, 2), (0, 0), (0, 1)):
        made.check((n,), (m,))
    with pytest.raises(ShapeError):
        made.check((3,), (2,))


def test_the_second_half_refuses_what_it_was_not_made_for() -> None:
    def f(x: Any, y: Any) -> Any:
        y = y.reshape(x.shape)
        if x.shape[0] > 1:
            a, b = dnp.sin(x), dnp.exp(y)
        else:
            b, a = dnp.exp(y), dnp.sin(x)
        return a * b

    made = Differentiated(f)
    for n in (3, 1, 2, 1):
        made.check((n,), (n,))
    assert made.programs == (1, 1)
    kept = made.first(draw(3), draw(3))
    with pytest.raises(ShapeError):
        kept.second.program(list(kept.residuals), (draw(2),))


def test_what_sizes_choose_stays_chosen() -> None:
    """Of short sequences weights are kept, of long ones what they are made of: two programs, by a guard."""

    made = Differentiated(attention)
    for n in (200, 9, 1, 300, 9):
        made.check((2, n, 8), (8, FEATURES), (8, FEATURES), (8, FEATURES))
    assert made.programs[0] == 2
