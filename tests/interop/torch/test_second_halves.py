"""Gradients of functions whose branches on sizes come to the same: both programs of a derivative serve both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch


class Compared:
    """A function of PyTorch's and the compiled one, whose results and gradients are compared at each call."""

    def __init__(self, function: Callable[..., Any], captured: tuple[Any, ...] = ()) -> None:
        self.function, self.captured = function, captured
        self.compiled = dyn_torch.jit(function, strict=True)
        self.seconds: dict[int, Any] = {}

    def check(self, *shapes: tuple[int, ...]) -> None:
        outcomes: list[Any] = []
        for run in (self.function, self.compiled):
            torch.manual_seed(len(shapes))
            args = [torch.randn(shape, requires_grad=True) for shape in shapes]
            given = [arg.clone() for arg in args]
            for one in self.captured:
                one.grad = None
            made = run(*given)
            made.square().sum().backward()
            grads = [one.grad for one in (*args, *self.captured)]
            outcomes.append([made.detach(), [one.detach() for one in given], grads])
        wanted, found = outcomes
        same(wanted, found, 1e-4, in_strides=False)
        half: Any = self.compiled(*[torch.randn(shape, requires_grad=True).clone() for shape in shapes]).grad_fn
        while not hasattr(half, "derivative"):
            half = half.next_functions[0][0]
        program = half.derivative.half.program
        self.seconds[id(program)] = program

    @property
    def programs(self) -> tuple[int, int]:
        """How many first and second halves were compiled."""
        return self.compiled.cache_info().compiles, sum([one.cache_info().compiles for one in self.seconds.values()])


def test_a_causal_mask_is_of_no_effect_on_one_word() -> None:
    def attention(x: Any) -> Any:
        scores = x @ x.transpose(-1, -2)
        if x.shape[1] > 1:
            n = x.shape[1]
            scores = scores.masked_fill(torch.arange(n)[:, None] < torch.arange(n)[None, :], -torch.inf)
        return scores.softmax(-1) @ x

    made = Compared(attention)
    for shape in ((2, 5, 4), (1, 1, 4), (3, 1, 4), (1, 7, 4), (0, 1, 4), (2, 2, 4)):
        made.check(shape)
    assert made.programs == (1, 1)


def test_captured_tensors_change_places() -> None:
    a, b = (torch.randn(3, requires_grad=True) for _ in range(2))

    def f(x: Any) -> Any:
        return torch.sin(x[:, None] * a) * b if x.shape[0] > 1 else torch.sin(x[:, None] * b) * a

    made = Compared(f, (a, b))
    for n in (4, 1, 2, 0, 1):
        made.check((n,))
    assert made.programs == (1, 1)


def test_one_captured_tensor_is_constant() -> None:
    a, b = torch.randn(3, requires_grad=True), torch.randn(3)

    def f(x: Any) -> Any:
        return torch.sin(x[:, None] * a) * b if x.shape[0] > 1 else torch.sin(x[:, None] * b) * a

    made = Compared(f, (a,))
    for n in (4, 1, 2, 0, 1):
        made.check((n,))
    assert made.programs[1] == 2


def test_an_argument_that_one_way_writes() -> None:
    def f(x: Any, y: Any) -> Any:
        made = torch.sin(x) + y
        if x.shape[0] <= 1:
            y.mul_(2)
        return made

    made = Compared(f)
    for n in (4, 1, 2, 0, 1):
        made.check((n,), (n,))


def test_a_gradient_that_one_way_stops() -> None:
    def f(x: Any, y: Any) -> Any:
        return torch.sin(x) * y if x.shape[0] > 1 else torch.sin(x) * y.detach()

    made = Compared(f)
    for n in (4, 1, 2, 0, 1):
        made.check((n,), (n,))
    assert made.programs[1] == 2


def test_results_that_lie_in_memory_another_way() -> None:
    def f(x: Any) -> Any:
        y = torch.exp(x)
        return y.t().contiguous().t() if x.shape[0] > 1 else y

    made = Compared(f)
    for shape in ((4, 3), (1, 3), (1, 1), (4, 1), (0, 3), (1, 0)):
        made.check(shape)


def test_the_first_call_has_one_row() -> None:
    def f(x: Any) -> Any:
        return torch.sin(x) * (x.sum(0) if x.shape[0] > 1 else x.sum(dim=0))

    made = Compared(f)
    for n in (1, 4, 1, 0, 3):
        made.check((n, 3))
    assert made.programs == (1, 1)
