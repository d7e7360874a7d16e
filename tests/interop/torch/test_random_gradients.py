"""Training steps of functions that draw, of recurrent nets and of data-dependent sizes by ``dyn.interop.torch.jit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn
from torch.utils.checkpoint import checkpoint  # noqa: E402

import dyn.interop.torch as dyn_torch  # noqa: E402


def test_what_dropout_dropped_gets_no_gradient() -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda x: F.dropout(x, 0.5),
        lambda x: F.dropout(x * 3, 0.5) / 3,
        lambda x: F.dropout1d(x[None], 0.5)[0],
    ]
    for function in functions:
        compiled = dyn_torch.jit(function)
        for count in (40, 50, 1, 0):
            x = torch.ones(count, 10, requires_grad=True)
            made = compiled(x)
            made.sum().backward()
            torch.testing.assert_close(x.grad, made.detach())
        assert compiled.cache_info().compiles == 1


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_a_checkpoint_drops_again_what_it_dropped(is_reentrant: bool) -> None:
    def f(x: Any, w: Any) -> Any:
        def body(v: Any) -> Any:
            return F.dropout(torch.tanh(v * w), 0.5)

        return F.dropout(checkpoint(body, F.dropout(x * w, 0.5), use_reentrant=is_reentrant), 0.5)

    compiled = dyn_torch.jit(f, strict=True)
    for count in (40, 50, 0):
        x, w = torch.randn(count, 10, requires_grad=True), torch.ones((), requires_grad=True)
        made = compiled(x, w)
        made.sum().backward()
        kept = made.detach() != 0
        wanted = torch.where(kept, 8 * (1 - torch.tanh(2 * x.detach()) ** 2), 0.0)
        torch.testing.assert_close(x.grad, wanted, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(w.grad, 2 * (x.detach() * wanted).sum(), rtol=1e-3, atol=1e-3)
    before = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(before)
    assert torch.equal(first, torch.rand(3))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_training_of_recurrent_nets(kind: str) -> None:
    module = getattr(nn, kind)(4, 5, num_layers=2, bidirectional=True)
    compiled = dyn_torch.jit(module)
    for shape in ((3, 2), (1, 1), (6, 3)):
        x = torch.randn(*shape, 4)
        found: list[Any] = []
        for run in (module, compiled):
            module.zero_grad()
            given = x.clone().requires_grad_()
            (run(given)[0] ** 2).sum().backward()
            found.append([given.grad, *[weight.grad for weight in module.parameters()]])
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)
    assert compiled.cache_info().compiles == 1


def test_gradients_through_masks() -> None:
    def f(x: Any) -> Any:
        return (x[x > 0] ** 2).sum() + x[(x < -1).nonzero()[:, 0]].sum() + x.masked_select(x < 0).exp().sum()

    compiled = dyn_torch.jit(f)
    for count in (9, 1, 0, 20):
        x = torch.randn(count)
        found: list[Any] = []
        for run in (f, compiled):
            given = x.clone().requires_grad_()
            run(given).backward()
            found.append(given.grad)
        torch.testing.assert_close(found[1], found[0])
