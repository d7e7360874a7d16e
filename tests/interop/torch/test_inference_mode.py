"""``torch.inference_mode``: around calls of compiled functions, within them, and tensors that come from it."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402  # needs PyTorch
from dyn.errors import NotYetError  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402

SIZES = (2, 1, 5, 0)


class Views(torch.nn.Module):
    """A module that reads and writes views: of a parameter, of buffers, of what it computes and of its argument."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 1, 3))
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("rows", torch.zeros(2, 3))

    def forward(self, x: Any) -> Any:
        made = x @ self.weight.squeeze(1).t()
        self.calls.add_(1)
        self.rows[0].add_(x.sum(0))
        made[:, 0] = 3
        made[:1].view(-1).mul_(2)
        return made, made[1:], self.rows[1], x.view(-1)


def test_views_under_inference_mode() -> None:
    """One program, whose results are inference tensors where PyTorch's are."""
    torch.manual_seed(0)
    model = Views()
    again = copy.deepcopy(model)
    compiled = dyn_torch.jit(again, strict=True)
    for n in SIZES:
        for mode in (torch.inference_mode, torch.no_grad):
            x = torch.randn(n, 3)
            with mode():
                wanted, found = model(x), compiled(x)
            same(wanted, found)
            same([*model.buffers()], [*again.buffers()])
            assert [one.is_inference() for one in wanted] == [one.is_inference() for one in found]
    assert compiled.cache_info().compiles == 1


def test_functions_that_enter_inference_mode() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 4)

    @torch.inference_mode()
    def whole(x: Any) -> Any:
        return (x @ layer.weight[:2].t()).view(-1)

    def part(x: Any) -> Any:
        with torch.inference_mode():
            scale = (x @ layer.weight.view(4, 3).t()).sum(-1, keepdim=True)
            scale = torch.cat([scale * torch.tensor(2.0), torch.tensor([]).reshape(0, 1).detach_()])
            assert torch.is_inference_mode_enabled()
            assert not torch.is_grad_enabled()
        return x * scale.clone() + layer.bias[:3]

    for function in (whole, part):
        compiled = dyn_torch.jit(function, strict=True)
        for n in SIZES:
            x = torch.randn(n, 3)
            same(function(x), compiled(x))
            assert function(x).requires_grad == compiled(x).requires_grad
        assert compiled.cache_info().compiles == 1


def test_inference_tensors_as_arguments() -> None:
    """What is recorded of one, and what PyTorch refuses to keep, is as in PyTorch."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(3))
    with torch.inference_mode():
        x = torch.randn(2, 3)
    functions: list[Callable[[Any], Any]] = [lambda x: x + weight, lambda x: x * weight.detach(), lambda x: x.sum()]
    for function in functions:
        wanted, found = function(x), dyn_torch.jit(function, strict=True)(x)
        same(wanted.detach(), found.detach())
        assert wanted.requires_grad == found.requires_grad
        if wanted.requires_grad:
            gradients = [torch.autograd.grad(one.square().sum(), weight)[0] for one in (wanted, found)]
            same(*gradients)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        dyn_torch.jit(lambda x: x * weight, strict=True)(x)


def test_second_derivatives_of_inference_tensors() -> None:
    weight = torch.nn.Parameter(torch.randn(3))
    with torch.inference_mode():
        x = torch.randn(2, 3)
    made = dyn_torch.jit(lambda x: (x.sum() + weight).exp())(x)
    with pytest.raises(NotYetError, match="an argument is an inference tensor, to which nobody counts the writes"):
        torch.autograd.grad(made.sum(), weight, create_graph=True)


def test_torch_compile_under_inference_mode() -> None:
    torch.manual_seed(0)
    model = Views()
    again = copy.deepcopy(model)
    compiled = torch.compile(again, backend="dyn", dynamic=True, options={"strict": True})
    for n in (2, 5):
        x = torch.randn(n, 3)
        with torch.inference_mode():
            same(model(x), compiled(x))
        same([*model.buffers()], [*again.buffers()])


class Scaled(torch.nn.Module):
    """Floats that are attributes, of which Dynamo makes tensors whose items the graph asks for; one under a root."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = torch.nn.LayerNorm(4), torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.linear(self.norm(x)) * math.sqrt(2.0 / math.pi) + math.atan(x.shape[0] / 3)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_torch_compile_with_floats(mode: Callable[[], Any]) -> None:
    torch._dynamo.reset()
    model = Scaled()
    compiled = torch.compile(model, backend="dyn", dynamic=True, fullgraph=True)
    with mode():
        for n in (2, 5):
            x = torch.randn(n, 4)
            same(model(x).detach(), compiled(x).detach())
    nothing_fell_back(compiled)
    torch._dynamo.reset()


def test_composite_operations_are_taken_apart_as_without_the_mode() -> None:
    """They come to a trace whole in inference mode; what is computed, and in which dtype, is that of ``no_grad``."""
    weight = torch.nn.Parameter(torch.randn(3, 3))

    def function(x: Any) -> Any:
        product = torch.nn.functional.linear(x, weight)
        return product, torch.einsum("bij,jk->bik", x, weight), x[:, None].sum().item() * x, product.reshape(-1)

    for is_autocast in (False, True):
        texts: list[str] = []
        for mode in (torch.no_grad, torch.inference_mode):
            compiled = dyn_torch.jit(function)
            with mode(), torch.autocast("cpu", enabled=is_autocast):
                x = torch.randn(2, 3, 3)
                same(function(x), compiled(x))
            nothing_fell_back(compiled)
            texts.append(str(compiled.explain()).partition("  compiled\n")[0])
        assert texts[0] == texts[1]


FIRST_CALL = """
import torch
import dyn.interop.torch as dyn_torch

compiled = dyn_torch.jit(lambda x: x + 1)
with MODE:
    compiled(torch.zeros(2))
with torch.no_grad():
    for n in (3, 3, 3):
        compiled(torch.zeros(n, device="cpu"))
print(compiled._native_hits())
"""


@pytest.mark.parametrize("mode", ["torch.inference_mode()", "torch.device('meta')"])
def test_first_call_of_a_process(mode: str) -> None:
    """The native entry is found all the same, and makes the later calls."""
    source = FIRST_CALL.replace("MODE", mode).replace("torch.zeros(2)", "torch.zeros(2, device='cpu')")
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 2
