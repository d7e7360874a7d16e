"""Calls with gradients, whose conditions the native entry looks at: what changes between them is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

nn = torch.nn


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.scale = nn.Linear(3, 4), nn.Linear(4, 2), 2.0

    def forward(self, x: Any) -> Any:
        return self.second(nn.functional.dropout(torch.tanh(self.first(x)), 0.5, self.training)) * self.scale


def replace_part(module: Any) -> None:
    module.second = nn.Linear(4, 2)


def replace_memory(module: Any) -> None:
    module.first.weight.data = torch.randn(4, 3)


def resize_in_place(module: Any) -> None:
    module.first.weight.data = torch.randn(3, 4).t()


def add_backward_hook(module: Any) -> None:
    module.first.register_full_backward_hook(
        lambda module, given, result: (given[0] * 3,) if given[0] is not None else None
    )


def add_hook(module: Any) -> None:
    module.first.register_forward_hook(lambda module, args, result: result * 3)


CHANGES: dict[str, Callable[[Any], object]] = {
    "attribute": lambda module: setattr(module, "scale", 3.0),
    "equal attribute": lambda module: setattr(module, "scale", float("2.0")),
    "parameter": lambda module: setattr(module.first, "weight", nn.Parameter(torch.randn(4, 3))),
    "part": replace_part,
    "memory": replace_memory,
    "strides": resize_in_place,
    "written": lambda module: module.first.weight.data.mul_(2),
    "frozen": lambda module: module.first.weight.requires_grad_(False),
    "all frozen": lambda module: module.requires_grad_(False),
    "hook": add_hook,
    "backward hook": add_backward_hook,
    "dtype": lambda module: module.double(),
}


def both(run: Callable[..., Any], module: Any) -> list[Any]:
    """Result and gradients."""
    module.zero_grad()
    x = torch.linspace(-1, 1, 6, dtype=module.first.weight.dtype).reshape(2, 3).requires_grad_()
    result = run(x)
    result.sum().backward()
    return [result.detach(), x.grad, *[one.grad for one in module.parameters()]]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_after_several_calls(change: str) -> None:
    torch.manual_seed(0)
    module = Scaled().eval()
    compiled = dyn_torch.jit(module, strict=True)
    for _ in range(4):
        same(both(compiled, module), both(module, module), 1e-5)
    programs = compiled.programs
    assert programs[0].is_known_to_be_current()
    CHANGES[change](module)
    for _ in range(4):
        same(both(compiled, module), both(module, module), 1e-5)


def test_training_and_gradient_modes() -> None:
    module = Scaled()
    compiled = dyn_torch.jit(module, strict=True)
    x = torch.ones(64, 3)
    for _ in range(3):
        assert not torch.equal(compiled(x), compiled(x))  # it drops
        module.eval()
        same(both(compiled, module), both(module, module), 1e-5)
        with torch.no_grad():
            same(compiled(x), module(x), 1e-5)
        assert torch.is_grad_enabled()
        module.train()


def test_attributes_that_change_at_each_call_are_not_watched_forever() -> None:
    module = Scaled().eval()
    compiled = dyn_torch.jit(module, strict=True)
    for _ in range(12):
        module.scale = float("2.0")  # another object
        same(both(compiled, module), both(module, module), 1e-5)
    assert compiled.cache_info().compiles == 1


def test_programs_that_are_forgotten_count() -> None:
    module = torch.nn.Linear(2, 2)
    compiled = dyn_torch.jit(module, strict=True)
    for n in range(3):
        for rows in (1, 3, 4):
            compiled(torch.ones(rows, 2))
        module.weight = torch.nn.Parameter(torch.full((2, 2), float(n)))
    info = compiled.cache_info()
    assert (info.compiles, info.hits + info.compiles) == (3, 9)
