"""PyTorch's functions on its tensors on ``cuda``: where they lie, on the current stream, parameters by reference."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from dyn.errors import UnsupportedOpError
from dyn.interop.torch import FallbackWarning, jit
from dyn.interop.torch.devices import common_device
from dyn.runtime.driver import context_of
from tests.gpu.programs import Device, names, new_stream
from tests.gpu.torch_device import TorchDevice, torch_on


@pytest.fixture
def there(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[TorchDevice]:
    with torch_on(context_of(device.name), device.gpu, monkeypatch) as found:
        yield found


def test_tensors_of_the_stand_in(there: TorchDevice) -> None:
    """The stand-in computes as PyTorch does."""
    x = torch.arange(6.0).reshape(2, 3)
    y = there.to_device(x)
    assert (y.device.type, y.is_cuda) == ("cuda", True)
    torch.testing.assert_close((y.T * 2 + 1).cpu(), x.T * 2 + 1)
    y[1:] = 7
    x[1:] = 7
    torch.testing.assert_close(y.cpu(), x)


def check(there: TorchDevice, function: Any, *arguments: torch.Tensor) -> Any:
    """A function's results on the GPU against PyTorch's on the processor; nothing but them is copied."""
    wanted = function(*arguments)
    given = [there.to_device(one) for one in arguments]
    jitted = jit(function, strict=True)
    jitted(*given)
    before = there.counters()
    found = jitted(*given)
    spent = there.counters().since(before)
    assert (spent.copies_in, spent.copies_out, spent.copies_within) == (0, 0, 0)
    assert found.is_cuda
    torch.testing.assert_close(found.cpu(), wanted)
    return jitted


def test_functions_run_where_their_tensors_are(there: TorchDevice) -> None:
    jitted = check(there, lambda x, y: torch.softmax(x @ y, -1) * 2, torch.randn(5, 7), torch.randn(7, 3))
    for rows in (0, 1, 33):
        x, y = torch.randn(rows, 7), torch.randn(7, 3)
        found = jitted(there.to_device(x), there.to_device(y))
        torch.testing.assert_close(found.cpu(), torch.softmax(x @ y, -1) * 2)
    assert jitted.cache_info().compiles == 1


def test_modules_and_their_parameters_by_reference(there: TorchDevice) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.GELU(), torch.nn.LayerNorm(5)).eval()
    x = torch.randn(4, 7)
    with torch.no_grad():
        wanted = model(x)
        for one in model:
            for name, parameter in list(one.named_parameters()):
                setattr(one, name, torch.nn.Parameter(there.to_device(parameter)))
        jitted, y = jit(model, strict=True), there.to_device(x)
        torch.testing.assert_close(jitted(y).cpu(), wanted)
        norm: Any = model[2]
        norm.bias += 1  # in place: the same memory
        torch.testing.assert_close(jitted(y).cpu(), wanted + 1)
        norm.weight = torch.nn.Parameter(there.to_device(torch.zeros(5)))  # another
        torch.testing.assert_close(jitted(y).cpu(), torch.ones(4, 5))


def test_functions_without_tensor_arguments(there: TorchDevice) -> None:
    weight = there.to_device(torch.arange(4.0))
    jitted = jit(lambda n: (weight * n).cumsum(0), strict=True)
    torch.testing.assert_close(jitted(3).cpu(), (torch.arange(4.0) * 3).cumsum(0))
    weight += 1
    torch.testing.assert_close(jitted(3).cpu(), (torch.arange(1.0, 5.0) * 3).cumsum(0))
    made = jit(lambda x: torch.zeros(x.shape, device="cuda") + 2, strict=True)(torch.ones(3))
    assert (made.is_cuda, made.cpu().tolist()) == (True, [2, 2, 2])


def test_layouts_views_and_writes(there: TorchDevice) -> None:
    x = torch.arange(12.0).reshape(3, 4)
    y = there.to_device(x)

    def change(z: torch.Tensor) -> torch.Tensor:
        z[0] = z[1] * 2
        return z.T[1:]

    for view in (lambda one: one, lambda one: one.T, lambda one: one[:, 1:], lambda one: one[1:]):
        found, wanted = jit(change, strict=True)(view(y)), change(view(x))
        assert found.data_ptr() >= y.data_ptr()
        torch.testing.assert_close(found.cpu(), wanted)
        torch.testing.assert_close(y.cpu(), x)
    held = y.T  # what does not lie in rows is copied at each call
    read = jit(lambda one: one + held, strict=True)
    for _ in range(3):
        y += 1
        torch.testing.assert_close(read(there.to_device(torch.ones(4, 1))).cpu(), y.cpu().T + 1)
    assert read.cache_info().compiles == 1


def test_numbers_of_the_processors_go_along(there: TorchDevice) -> None:
    x, scale = torch.randn(3), torch.tensor(3.0)
    y = there.to_device(x)
    jitted = jit(lambda one, k: one * k + scale, strict=True)
    torch.testing.assert_close(jitted(y, torch.tensor(2.0)).cpu(), x * 2 + 3)
    scale += 1
    torch.testing.assert_close(jitted(y, torch.tensor(5.0)).cpu(), x * 5 + 4)
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu"):
        jit(lambda one, other: one + other, strict=True)(y, x)


def test_what_is_returned_on_the_processor_is_pytorchs(there: TorchDevice) -> None:
    y = there.to_device(torch.ones(3))
    with pytest.warns(FallbackWarning, match="returns or leaves a tensor on cpu that it has computed on cuda:0"):
        assert jit(lambda one: (one * 2).cpu())(y).tolist() == [2, 2, 2]


def test_an_operation_that_eager_pytorch_runs(there: TorchDevice) -> None:
    x = torch.rand(3, 4)
    jitted, y = jit(lambda one: torch.special.airy_ai(one) * 2), there.to_device(x)
    with pytest.warns(FallbackWarning, match="1 operation"):
        found = jitted(y)
    torch.testing.assert_close(found.cpu(), torch.special.airy_ai(x) * 2)


def test_random_numbers_and_sizes_that_are_measured(there: TorchDevice) -> None:
    jitted = jit(lambda one: torch.nn.functional.dropout(one, 0.5), strict=True)
    y = there.to_device(torch.ones(1000))
    first, second = jitted(y).cpu(), jitted(y).cpu()
    assert set(first.tolist()) == {0.0, 2.0}
    assert not torch.equal(first, second)
    found = jit(lambda one: one[one > 0].sum() + one.nonzero().shape[0], strict=True)(y)
    assert float(found) == 2000


def test_the_callers_stream(there: TorchDevice, device: Device) -> None:
    """Parameters and arguments belong to PyTorch's current stream, whichever it is at a call."""
    weight = there.to_device(torch.arange(1000.0))
    jitted = jit(lambda one: (one + weight) * 2, strict=True)
    x = there.to_device(torch.ones(1000))
    jitted(x)
    there.context.synchronize(0)
    with new_stream(device) as stream, there.on_stream(stream):
        x = there.to_device(torch.full((1000,), 3.0))
        before = device.gpu.calls(names(device)["wait_event"])
        found = jitted(x)
        assert device.gpu.calls(names(device)["wait_event"]) == before
        torch.testing.assert_close(found.cpu(), (torch.arange(1000.0) + 3) * 2)
        plain = jit(lambda: weight * 2, strict=True)
        torch.testing.assert_close(plain().cpu(), torch.arange(1000.0) * 2)
        assert device.gpu.calls(names(device)["wait_event"]) == before
        del x, found
        gc.collect()


def test_autocast_of_the_devices_kind(there: TorchDevice) -> None:
    x, w = there.to_device(torch.randn(4, 8)), there.to_device(torch.randn(8, 3))
    jitted = jit(lambda a, b: a @ b, strict=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert jitted(x, w).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert jitted(x, w).dtype == torch.float32
    assert jitted.cache_info().compiles == 2


def test_tensors_on_two_devices(there: TorchDevice) -> None:
    x = torch.as_strided(there.to_device(torch.ones(3)), (3,), (1,))
    with pytest.raises(UnsupportedOpError, match="tensors on cuda:0 and on cuda:1"):
        common_device([x.device, torch.device("cuda:1")])
