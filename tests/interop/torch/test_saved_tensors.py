"""Hooks of saved tensors around the first call of a compiled function: what a trace saves is none of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402  # needs PyTorch
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402


def checkpointed(function: Callable[[Any], Any], x: Any) -> Any:
    return torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)


def saved_on_cpu(function: Callable[[Any], Any], x: Any) -> Any:
    with torch.autograd.graph.save_on_cpu():
        return function(x)


@pytest.mark.parametrize("is_jit", [True, False])
@pytest.mark.parametrize("call", [checkpointed, saved_on_cpu])
def test_first_calls_under_hooks(call: Callable[..., Any], is_jit: bool) -> None:
    layer = torch.nn.Linear(4, 4)

    def function(x: Any) -> Any:
        return torch.sin(layer(x)).exp() * x

    torch._dynamo.reset()
    compiled = dyn_torch.jit(function) if is_jit else torch.compile(function, backend="dyn", dynamic=True)
    for n in (3, 5):
        x = torch.randn(n, 4, requires_grad=True)
        leaves = [x, *layer.parameters()]
        wanted = torch.autograd.grad(function(x).sum(), leaves)
        found = torch.autograd.grad(call(compiled, x).sum(), leaves)
        torch.testing.assert_close(found, wanted)
    nothing_fell_back(compiled)


def test_the_callers_hooks_see_what_a_call_keeps() -> None:
    """They are in place again once the trace ends, and pack what the compiled call saves."""
    packed: list[Any] = []
    compiled = dyn_torch.jit(lambda x: x.sin())
    x = torch.randn(3, requires_grad=True)
    for number in (1, 2):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            compiled(x).sum().backward()
        assert len(packed) == number
        assert all(type(one) is torch.Tensor or one is x for one in packed)
