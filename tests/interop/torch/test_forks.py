"""Branches of Python on what only the running program knows: both ways are branches of one program."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn = torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.errors import NotYetError  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402

#: What is asked of has no elements, one, several, in each way.
VALUES = ((1.0, -2.0, 3.0), (-1.0, -2.0), (), (2.0,), (-2.0,), (0.5, 0.25), (3.0, 4.0, 5.0, -1.0))


def by_numel(x: Any) -> Any:
    y = x[x > 0]
    if y.numel() == 0:
        return torch.zeros(())
    return y.mean()


def by_shape(x: Any) -> Any:
    y = x[x > 0]
    return y.max() if y.shape[0] > 0 else torch.full((), -1.0)


def by_length(x: Any) -> Any:
    rows = (x > 0).nonzero()
    if not len(rows):
        return x.sum()
    return x[rows[:, 0]].prod()


def by_number(x: Any) -> Any:
    count = int((x > 0).sum())
    if count == 0:
        return x * 2
    elif count == 1:
        return x + 1
    return x - 1


def by_truth(x: Any) -> Any:
    if (x > 0).any() and not (x > 0).all():
        return x * 2
    return x * 3 if x.sum() > 1.5 else x * 4


def in_turn(x: Any) -> Any:
    y = x[x > 0]
    if y.numel():
        z = y[y > 1]
        if z.numel() > 1:
            return z.sum(), z
        return y.sum() * 10, y
    return x.sum(), y


def until(x: Any) -> Any:
    for _ in range(3):
        if x.sum() > 2:
            break
        x = x + 1
    return x


def rebound(x: Any) -> Any:
    y = x[x > 0]
    if y.numel() == 0:
        y = x
    return y.sum() * 2


FUNCTIONS: list[Callable[[Any], Any]] = [
    by_numel, by_shape, by_length, by_number, by_truth, in_turn, until, rebound,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_both_ways_are_one_program(function: Callable[[Any], Any], mode: Any) -> None:
    compiled = dyn_torch.jit(function, strict=True)
    with mode():
        for values in VALUES:
            x = torch.tensor(values)
            same(function(x), compiled(x))
    assert compiled.cache_info().compiles == 1
    nothing_fell_back(compiled)


@pytest.mark.parametrize("function", [by_numel, by_number, in_turn, until, rebound])
def test_gradients_come_through_both_ways(function: Callable[[Any], Any]) -> None:
    compiled = dyn_torch.jit(function, strict=True)
    for values in VALUES:
        gradients: list[Any] = []
        for one in (function, compiled):
            x = torch.tensor(values, requires_grad=True)
            result = one(x)
            result = result[0] if isinstance(result, tuple) else result
            # Where nothing depends on ``x`` eager PyTorch has no gradient, and the program has one of zeros.
            if result.requires_grad:
                result.square().sum().backward()
            gradients.append(torch.zeros_like(x) if x.grad is None else x.grad)
        same(*gradients)
    nothing_fell_back(compiled)


class Gate(nn.Module):
    """A module that writes to a buffer before the question and after one answer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.seen.add_(x.sum(0))
        hidden = self.linear(x)
        if (hidden > 0).any():
            self.seen.mul_(2)
            return hidden.relu().sum()
        return hidden.sum() * 0.1


def test_what_is_written_is_written_once() -> None:
    module = Gate()
    with torch.no_grad():
        module.linear.bias.fill_(-1)
    again = copy.deepcopy(module)
    compiled = dyn_torch.jit(again, strict=True)
    with torch.no_grad():
        for scale in (3.0, 0.0, 3.0, 0.1, 0.0):
            for rows in (2, 1, 0):
                x = scale * torch.randn(rows, 3)
                same(module(x), compiled(x))
                same(module.seen, again.seen)
    assert compiled.cache_info().compiles == 1
    nothing_fell_back(compiled)


def test_what_leads_to_a_question_is_computed_once() -> None:
    weight = torch.randn(4, 4)

    def function(x: Any) -> Any:
        hidden = torch.tanh(x @ weight)
        some = hidden[hidden > 0.5]
        if some.numel() == 0:
            return hidden.sum()
        return some.mean() + hidden.sum()

    compiled = dyn_torch.jit(function, strict=True)
    for rows in (3, 0, 1):
        x = torch.randn(rows, 4)
        same(function(x), compiled(x))
    text = compiled.trace(torch.ones(2, 4)).as_text()
    assert [text.count(f" {name}(") for name in ("dot_general", "tanh", "if")] == [1, 1, 1]


def test_random_numbers_are_those_that_were_asked_about() -> None:
    def function(x: Any) -> Any:
        drawn = torch.rand(3) + x
        if drawn.sum() > 1.5:
            return drawn, drawn.sum(), torch.rand(2)
        return -drawn, drawn.sum(), torch.rand(2) + 1

    compiled = dyn_torch.jit(function, strict=True)
    ways: set[bool] = set()
    for _ in range(20):
        drawn, total, other = compiled(torch.zeros(()))
        way = bool(total > 1.5)
        ways.add(way)
        torch.testing.assert_close(drawn.sum(), total if way else -total)
        assert bool((other >= 1).all()) is not way
    assert ways == {True, False}
    assert compiled.cache_info().compiles == 1


def test_a_way_that_returns_an_argument_returns_the_callers_own() -> None:
    """So it is with what else only one way returns: other numbers, texts, arrays of another rank or dtype."""
    table = torch.arange(3.0)

    def function(x: Any) -> Any:
        y = x[x > 0]
        if y.numel() == 0:
            return x, "none", 0, table
        z = y[y > 1]
        if z.numel() == 0:
            return y, "small", 1.5, z > 0
        return z, None, True, z[:, None] * 2

    compiled = dyn_torch.jit(function, strict=True)
    for values in VALUES:
        x = torch.tensor(values)
        wanted, found = function(x), compiled(x)
        same(wanted, found)
        assert [one is x for one in found] == [one is x for one in wanted]
        assert (found[3] is table) is (wanted[3] is table)
    assert compiled.cache_info().compiles == 1
    nothing_fell_back(compiled)


def test_a_question_in_a_branch_of_torch_cond_is_pytorchs() -> None:
    def doubled(x: Any) -> Any:
        return x * 2 if (x > 1).any() else x * 3

    compiled = dyn_torch.jit(lambda x: torch.cond(x.sum() > 0, doubled, lambda x: x * 1, (x,)), strict=True)
    with pytest.raises(Exception, match=r"(?i)branch|data-dependent"):
        compiled(torch.ones(3))


KEPT: list[int] = []


def appending(x: Any) -> Any:
    KEPT.append(1)
    return x * 2 if (x > 0).any() else x


class Noting(nn.Module):
    def forward(self, x: Any) -> Any:
        self.last = x.shape[0]
        return x * 2 if (x > 0).any() else x


def raising(x: Any) -> Any:
    if (x > 0).any():
        raise ValueError("positive")
    return x


def endless(x: Any) -> Any:
    while x.sum() < 5:
        x = x + 1
    return x


def sharing(x: Any) -> Any:
    y = x * 2
    return (y, y[:1]) if (x > 0).any() else (x * 3, x * 4)


def other_trees(x: Any) -> Any:
    return [x * 2] if (x > 0).any() else (x * 2,)


_WAYS = "a branch by values that are known when the program runs: where it is "
REFUSED: list[tuple[Any, str]] = [
    (Noting(), _WAYS + "asked, something but tensors has been changed."),
    (raising, _WAYS + "answered, one way raises ValueError."),
    (endless, "more than 16 ways by questions of values that are known when the program runs."),
    (sharing, _WAYS + "answered, two results share memory."),
    (other_trees, _WAYS + "answered, one way returns another tree than the other."),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_ways_that_are_no_branches_are_pytorchs(number: int) -> None:
    """With a warning; with ``strict=True`` they are errors."""
    function, text = REFUSED[number]
    with pytest.raises(NotYetError) as error:
        dyn_torch.jit(function, strict=True)(-torch.ones(2))
    assert str(error.value).splitlines()[0] == text
    compiled = dyn_torch.jit(function)
    with pytest.warns(dyn_torch.FallbackWarning):
        same(function(-torch.ones(2)), compiled(-torch.ones(2)))
    if function is raising:
        with pytest.raises(ValueError, match="positive"):
            compiled(torch.ones(2))


def test_a_step_of_training_that_branches_is_pytorchs() -> None:
    module = nn.Linear(3, 1)
    again = copy.deepcopy(module)

    def step_of(one: Any) -> Callable[[Any], Any]:
        optimizer = torch.optim.SGD(one.parameters(), 0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = one(x).square().mean()
            loss.backward()
            if loss > 0.5:
                optimizer.step()
            return loss.detach()

        return step

    def steps() -> None:
        for scale in (2.0, 0.01, 3.0):
            x = scale * torch.randn(4, 3)
            same(theirs(x), ours(x))
            same(list(module.parameters()), list(again.parameters()))

    theirs, ours = step_of(module), dyn_torch.jit(step_of(again))
    with pytest.warns(dyn_torch.FallbackWarning):
        steps()
