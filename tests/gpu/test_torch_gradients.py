"""Gradients of PyTorch's functions of tensors on ``cuda``, which autograd pulls on a thread for the device."""

from __future__ import annotations

import copy
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dyn import config
from dyn.errors import NotYetError
from dyn.interop.torch import FallbackWarning, jit
from dyn.runtime.driver import context_of
from tests.gpu.programs import Device, new_stream
from tests.gpu.torch_device import TorchDevice, torch_on

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),  # PyTorch's own, where it loads itself
    pytest.mark.filterwarnings("ignore:PyTorch was compiled without cuDNN:UserWarning"),  # the stand-in is
]
SIZES = (5, 1, 0, 33)


@pytest.fixture
def there(cuda: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[TorchDevice]:
    torch.manual_seed(0)
    with torch_on(context_of(cuda.name), cuda.gpu, monkeypatch) as found:
        yield found
        gc.collect()


def moved(there: TorchDevice, model: nn.Module) -> Any:
    """A copy of a module on the device."""
    model = copy.deepcopy(model)
    for module in model.modules():
        for name, own in list(module._parameters.items()):
            module._parameters[name] = None if own is None else nn.Parameter(there.to_device(own.detach()))
        for name, own in list(module._buffers.items()):
            module._buffers[name] = None if own is None else there.to_device(own)
        if isinstance(module, nn.RNNBase):
            module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]
    return model


def same(found: Any, wanted: Any) -> None:
    assert found.is_cuda
    torch.testing.assert_close(found.detach().cpu(), wanted.detach(), rtol=1e-3, atol=1e-4)


def check(
    there: TorchDevice, model: nn.Module, make: Callable[[int], torch.Tensor], sizes: Any = SIZES, **options: Any
) -> None:
    """A module's gradients, of its parameters and its argument, and its buffers: one program for all sizes."""
    own = moved(there, model)
    jitted = jit(own, strict=True, **options)
    for size in sizes:
        x = make(size)
        y = there.to_device(x).requires_grad_(x.is_floating_point())
        x.requires_grad_(x.is_floating_point())
        for one, argument in ((model, x), (own, y)):
            one.zero_grad()
            (jitted if one is own else one)(argument).square().sum().backward()
        found, wanted = ([one.grad for one in each.parameters()] for each in (own, model))
        for pair in zip((*found, *own.buffers()), (*wanted, *model.buffers()), strict=True):
            same(*pair)
        if x.requires_grad:
            same(y.grad, x.grad)
    assert jitted.cache_info().compiles == 1


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


@pytest.mark.parametrize("memory", ["default", "low"])
def test_an_mlp(there: TorchDevice, memory: Any) -> None:
    check(there, mlp(), lambda n: torch.randn(n, 7), memory=memory)


@pytest.mark.slow
def test_a_transformers_encoder(there: TorchDevice) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    check(there, nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), lambda n: torch.randn(n, n + 1, 8))


def test_a_convolution_and_statistics_of_batches(there: TorchDevice) -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2))
    check(there, model, lambda n: torch.randn(n + 1, 2, 6, 4), (3, 1))


def test_a_recurrent_layer(there: TorchDevice) -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.RNN(3, 4, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0]

    check(there, Last(), lambda n: torch.randn(n, 5, 3), (3, 1))


def test_steps_of_optimizers(there: TorchDevice) -> None:
    """Eager optimizers read the gradients, and write what the compiled function reads."""
    for kind in (torch.optim.SGD, torch.optim.Adam):
        model = mlp()
        own = moved(there, model)
        jitted: Any = jit(own, strict=True)
        pairs = [(one, kind(one.parameters(), lr=0.1)) for one in (model, own)]
        for size in SIZES:
            x = torch.randn(size, 7)
            for one, optimizer in pairs:
                optimizer.zero_grad()
                (jitted(there.to_device(x)) if one is own else one(x)).square().sum().backward()
                optimizer.step()
        for found, wanted in zip(own.parameters(), model.parameters(), strict=True):
            same(found, wanted)


def test_a_whole_step_is_one_program(there: TorchDevice) -> None:
    """Adam on GPUs computes on lists, with steps that are numbers of the processor's."""

    def step_of(model: Any) -> Any:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, foreach=True)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    model = nn.Sequential(nn.Linear(7, 4), nn.ReLU(), nn.Linear(4, 3))
    own = moved(there, model)
    eager, jitted = step_of(model), jit(step_of(own))
    for size in (5, *SIZES):
        x = torch.randn(size, 7)
        same(jitted(there.to_device(x)), eager(x))
    for found, wanted in zip(own.parameters(), model.parameters(), strict=True):
        same(found, wanted)
    assert jitted.cache_info().compiles == 1


def test_dropout_is_the_same_in_both_halves(there: TorchDevice) -> None:
    jitted = jit(lambda x: nn.functional.dropout(x * 3, 0.5), strict=True)
    x = there.to_device(torch.ones(1000)).requires_grad_()
    first, second = jitted(x), jitted(x)
    assert not torch.equal(first.cpu(), second.cpu())
    for result in (first, second):
        (found,) = torch.autograd.grad(result.sum(), x)
        same(found, result.cpu())


def wave(x: torch.Tensor) -> torch.Tensor:
    return (torch.sin(x) * x).sum()


def test_second_derivatives(there: TorchDevice) -> None:
    x = torch.randn(4)
    y = there.to_device(x).requires_grad_()
    wanted = torch.autograd.functional.hessian(wave, x).sum(0)
    with pytest.warns(FallbackWarning, match="a second derivative"):
        (first,) = torch.autograd.grad(jit(wave)(y), y, create_graph=True)
    same(torch.autograd.grad(first.sum(), y)[0], wanted)
    with pytest.raises(NotYetError, match="strict=True"):
        torch.autograd.grad(jit(wave, strict=True)(y), y, create_graph=True)

    def inside(x: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad(wave(x), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    same(jit(inside, strict=True)(y), wanted)
    first = None  # pyright: ignore[reportAssignmentType]  # the graph goes, and its memory


def test_transformations_inside(there: TorchDevice) -> None:
    x = torch.randn(3, 4)
    y = there.to_device(x)
    for function in (torch.func.grad(wave), torch.func.vmap(torch.func.grad(wave)), torch.func.jacrev(torch.cos)):
        same(jit(function, strict=True)(y), function(x))
    same(jit(lambda one: torch.func.jvp(wave, (one,), (one,))[1], strict=True)(y), torch.func.jvp(wave, (x,), (x,))[1])


def test_numbers_of_the_processors_get_theirs_there(there: TorchDevice) -> None:
    scale, weight = (torch.tensor(n, requires_grad=True) for n in (2.0, 3.0))
    jitted: Any = jit(lambda x, k: (x * scale * k).sum(), strict=True)
    y = there.to_device(torch.arange(4.0)).requires_grad_()
    jitted(y, weight).backward()
    assert (scale.grad, weight.grad) == (torch.tensor(18.0), torch.tensor(12.0))
    same(y.grad, torch.full((4,), 6.0))


def test_graphs_are_pytorchs(there: TorchDevice) -> None:
    """Some results, hooks, graphs that are freed, what nothing depends on, and writes to arguments."""
    seen: list[Any] = []
    y, unused = (there.to_device(torch.ones(4)).requires_grad_() for _ in range(2))
    jitted: Any = jit(lambda x, other: (x * 2, x.sum(), x.detach()), strict=True)
    several, total, detached = jitted(y, unused)
    assert not detached.requires_grad
    same(torch.autograd.grad(total, y, retain_graph=True)[0], torch.ones(4))
    given = [there.to_device(one) for one in (torch.ones(4), torch.tensor(3.0))]
    same(torch.autograd.grad([several, total], y, given)[0], torch.full((4,), 5.0))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(total, y)
    handle = y.register_hook(lambda cotangent: seen.append((cotangent.device.type, threading.get_ident())))
    jitted(y, unused)[1].backward()
    handle.remove()
    ((kind, thread),) = seen
    assert (kind, unused.grad) == ("cuda", None)
    assert thread != threading.get_ident(), "autograd's own, as on a real GPU"
    written = y * 1
    jit(lambda x, w: w.mul_(x + 1), strict=True)(y, written)
    y.grad = None
    written.sum().backward()
    same(y.grad, torch.full((4,), 3.0))
    del several, total, detached, given, written


def test_threads(there: TorchDevice) -> None:
    jitted = jit(lambda x, w: torch.tanh(x @ w).sum(), strict=True)
    bad: list[Any] = []

    def work(number: int) -> None:
        try:
            for _ in range(8):
                pair = torch.randn(number + 2, 5), torch.randn(5, 3)
                own = [there.to_device(one).requires_grad_() for one in pair]
                for one in pair:
                    one.requires_grad_()
                jitted(*own).backward()
                torch.tanh(pair[0] @ pair[1]).sum().backward()
                for found, wanted in zip(own, pair, strict=True):
                    same(found.grad, wanted.grad)
        except BaseException as error:
            bad.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad
    assert jitted.cache_info().compiles == 1


def test_streams(there: TorchDevice, cuda: Device) -> None:
    """Cotangents are pulled on the stream of the call, whichever is current then; autograd has the caller's wait."""
    w = torch.randn(7, 5, requires_grad=True)
    v = there.to_device(w.detach()).requires_grad_()
    jitted: Any = jit(lambda x: torch.tanh(x @ v).sum(), strict=True)
    there.context.synchronize(0)
    with new_stream(cuda) as stream:
        for rows in (3, 0, 1):
            x = torch.randn(rows, 7)
            w.grad = v.grad = None
            torch.tanh(x @ w).sum().backward()
            with there.on_stream(stream):
                loss = jitted(there.to_device(x))
                if rows:
                    loss.backward()
            if not rows:
                there.context.synchronize(stream)
                loss.backward()
            there.context.order(stream, 0)
            same(v.grad, w.grad)
            del loss
        v.grad = None


def test_autocast(there: TorchDevice) -> None:
    weight = there.to_device(torch.ones(8, 3)).requires_grad_()
    jitted = jit(lambda x: (x @ weight).float().sum(), strict=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = jitted(there.to_device(torch.full((4, 8), 1.001)))
    loss.backward()
    same(weight.grad, torch.full((8, 3), 4.0))
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def test_settings_of_the_caller(there: TorchDevice, tmp_path: Path) -> None:
    """The second half is compiled on autograd's thread, under the settings of who asks for it."""
    y = there.to_device(torch.ones(3)).requires_grad_()
    loss = jit(wave, strict=True)(y)
    with config.override(dump=str(tmp_path)):
        loss.backward()
    assert list(tmp_path.rglob("*")), "the text after each pass"


def test_torch_compile(there: TorchDevice) -> None:
    """Dynamo's graphs, of which one is for all sizes."""
    model = mlp()
    own = moved(there, model)
    compiled = torch.compile(own, backend="dyn", dynamic=True, options={"strict": True})
    for size in (5, 4, 1, 33):
        x = torch.randn(size, 7)
        for one in (model, own):
            one.zero_grad()
            (compiled(there.to_device(x)) if one is own else one(x)).square().sum().backward()
        for found, wanted in zip(own.parameters(), model.parameters(), strict=True):
            same(found.grad, wanted.grad)

    def stops(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return torch.special.airy_ai(x)

    with pytest.raises(NotYetError, match="airy_ai"):
        torch.compile(stops, backend="dyn", options={"strict": True})(there.to_device(torch.ones(3)))
    assert not torch.is_autocast_enabled("cuda")
    torch._dynamo.reset()
