"""What derivatives keep where the bytes of two partitions are formulas that cross: the sizes of the call choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.interop.torch import dynamo  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

nn = torch.nn
WIDTH, FEATURES = 8, 64


class Attention(nn.Module):
    """Attention by distances, written out, whose queries and keys are not learned.

    Its weights are functions of one element of these. So a derivative keeps the weights, which grow with the square of
    the length, or queries and keys, which are 64 wide.
    """

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, width) for width in (FEATURES, FEATURES, WIDTH))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            q, k = self.q(x), self.k(x)
            weights = torch.exp(-sum((q[:, :, None, c] - k[:, None, :, c]) ** 2 for c in range(FEATURES)))
        return weights @ self.v(x)


def made() -> Any:
    torch.manual_seed(0)
    return Attention()


def gradients(run: Callable[[Any], Any], module: Any, x: Any) -> tuple[list[Any], list[Any]]:
    """The shapes of what a call keeps, and its gradients."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    result = run(x)
    kept = [tuple(one.shape) for one in getattr(result.grad_fn, "saved_tensors", ())]
    result.square().sum().backward()
    return kept, [x.grad, module.v.weight.grad.clone(), module.v.bias.grad.clone()]


COMPILERS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda module: dyn_torch.jit(module, strict=True),
    "low": lambda module: dyn_torch.jit(module, strict=True, memory="low"),
    "backend": lambda module: torch.compile(module, backend="dyn", dynamic=True, options={"strict": True}),
}


@pytest.mark.parametrize("how", COMPILERS)
def test_the_less_is_kept_at_every_length(how: str) -> None:
    module = made()
    run = COMPILERS[how](module)
    for length in (200, 9, 300, 2, 7, 1, 0, 102):
        x = torch.randn(2, length, WIDTH)
        kept, found = gradients(run, module, x)
        same(gradients(module, module, x)[1], found, 1e-4)
        if length > 1:  # where axes are told from each other
            assert ((2, length, length) in kept) is (length <= 102)  # a fifth less than 128
    text = str(run.explain()) if how != "backend" else str(dyn_torch.explain(run))
    if how == "jit":
        assert run.cache_info().compiles == 2
        assert "the derivative keeps float32[x_0, x_1, x_1] rather than 2 of float32[" in text


def test_a_training_step_is_one_program_at_every_length() -> None:
    """It has both halves, and keeps nothing between calls."""
    module = made()
    optimizer = torch.optim.SGD(module.v.parameters(), 0.0)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = module(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    run = dyn_torch.jit(step, strict=True)
    for length in (200, 9, 1):
        x = torch.randn(2, length, WIDTH)
        module.zero_grad()
        run(x)
        found = module.v.weight.grad.clone()
        step(x)
        same(module.v.weight.grad, found, 1e-4)
    assert run.cache_info().compiles == 1


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # Dynamo reads it
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "dyn"])
@pytest.mark.parametrize("wants_gradients", [False, True])
def test_a_jitted_function_in_one_that_dynamo_compiles(backend: str, wants_gradients: bool) -> None:
    """It is called as it is, at its first call as at later ones."""
    inner = dyn_torch.jit(lambda x: x.sin().sum(-1), strict=True)
    torch._dynamo.reset()
    outer = torch.compile(lambda x: inner(x * 2) + 1, backend=backend, dynamic=True)
    for rows in (3, 5, 1):
        x = torch.ones(rows, 4, requires_grad=wants_gradients)
        made = outer(x)
        same((x * 2).sin().sum(-1) + 1, made)
        if wants_gradients:
            made.sum().backward()
            same(2 * (x.detach() * 2).cos(), x.grad)
    assert inner.cache_info().compiles == 1


def test_gradients_that_results_retain_are_pytorchs() -> None:
    def f(x: Any) -> Any:
        a = x.sin()
        a.retain_grad()
        return a * 2, a

    compiled = dyn_torch.jit(f)
    with pytest.warns(dyn_torch.FallbackWarning, match="a tensor of which it retains the gradient"):
        y, a = compiled(torch.ones(3, requires_grad=True))
    y.sum().backward()
    same(torch.full((3,), 2.0), a.grad)


def test_what_is_seen_through_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo is told of dyn's files once, and of functions of dyn's in PyTorch's places whenever there are more."""
    from torch._dynamo import trace_rules

    def later() -> None: ...

    dynamo.pass_by_own()
    monkeypatch.setattr(dynamo, "SEEN_THROUGH", [*dynamo.SEEN_THROUGH, later])
    known: dict[Any, Any] = trace_rules.get_torch_obj_rule_map()
    try:
        dynamo.pass_by_own_if_looked_at()
        assert later in known
    finally:
        known.pop(later, None)
