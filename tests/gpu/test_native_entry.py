"""Calls with arrays on GPUs by the native entry: which it makes, and which it leaves to Python."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dyn
import dyn.numpy as dnp
from dyn.errors import DeviceError, ShapeError
from dyn.interop.torch import jit as torch_jit
from dyn.runtime.device_memory import DeviceArray, DeviceBlock, put
from dyn.runtime.driver import context_of
from dyn.runtime.vendors import VENDORS
from tests.gpu.programs import Device, names, new_stream
from tests.gpu.torch_device import TorchDevice, torch_on


def hits(function: Any) -> int:
    """How many calls of a function the entry has made."""
    return function._native_hits()


def made_natively(function: Any, call: Callable[[], Any]) -> Any:
    """The result of a call, which the entry has to make."""
    before = hits(function)
    result = call()
    assert hits(function) == before + 1
    return result


def there(device: Device, *shape: int) -> dyn.Array:
    return dyn.device_put(np.arange(np.prod(shape), dtype="f4").reshape(shape), device.name)


def test_sizes(device: Device) -> None:
    @dyn.jit
    def softmax(x: Any) -> Any:
        e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True, initial=-1.0))
        return {"y": e / dnp.sum(e, axis=-1, keepdims=True), "n": [x[:0], dnp.sum(x)]}

    softmax(there(device, 2, 3))
    for shape in ((2, 3), (0, 3), (3, 0), (1, 1), (33, 2), (5, 257)):
        x = there(device, *shape)
        with device.copying(0, 0):
            found = made_natively(softmax, lambda x=x: softmax(x))
        wanted = softmax(x.to_numpy())
        assert [found["y"].shape, found["n"][0].shape, found["n"][1].shape] == [shape, (0, shape[1]), ()]
        assert {type(found["y"]), found["y"].device} == {dyn.Array, device.name}
        np.testing.assert_allclose(found["y"].to_numpy(), wanted["y"], rtol=1e-6)
        np.testing.assert_allclose(found["n"][1].to_numpy(), wanted["n"][1], rtol=1e-6)
    assert softmax.cache_info().compiles == 2  # one of them for NumPy's


def test_results_are_arguments_again(device: Device) -> None:
    """A chain of calls: each result is made by the entry, read by it, and ends."""
    step = dyn.jit(lambda x, y: (x + y, x))
    x, y = there(device, 3), there(device, 3)
    step(x, y)
    with device.copying(0, 0):
        for _ in range(50):
            x, y = made_natively(step, lambda x=x, y=y: step(x, y))
    numbers = [1.0, 1.0]
    for _ in range(50):
        numbers = [sum(numbers), numbers[0]]
    np.testing.assert_allclose(x.to_numpy(), np.arange(3) * numbers[0], rtol=1e-5)
    data: Any = x._data
    assert (type(data), type(data.owner), data.stream, data.is_sole()) == (DeviceArray, DeviceBlock, 0, True)


def test_eager_functions_and_captured_arrays(device: Device) -> None:
    x, scale = there(device, 4), there(device, 4)
    f = dyn.jit(lambda one: one * scale + dnp.arange(4, dtype="float32"))
    f(x)
    for _ in range(2):
        np.testing.assert_array_equal(made_natively(f, lambda: f(x)).to_numpy(), np.arange(4) ** 2 + np.arange(4))
        np.testing.assert_array_equal((x + x).to_numpy(), 2 * np.arange(4))
        np.testing.assert_array_equal((x * 2).to_numpy(), 2 * np.arange(4))


def test_calls_that_python_makes(device: Device) -> None:
    """Arrays that do not lie row by row, and NumPy's numbers, which have no memory."""
    add = dyn.jit(lambda x, y: x + y, device=device.name)
    x, wide = there(device, 3), np.arange(6, dtype="f4")
    for other in (wide[::2], wide[:3].astype(">f4"), np.float32(2), np.broadcast_to(np.float32(1), (3,))):
        for _ in range(2):
            before = hits(add)
            np.testing.assert_array_equal(add(x, other).to_numpy(), np.arange(3) + other)
            assert hits(add) == before
    with pytest.raises(ShapeError):
        add(x, there(device, 2))


def test_calls_on_other_streams(device: Device) -> None:
    add = dyn.jit(lambda x, y: x + y)
    context = context_of(device.name)

    def on(stream: int) -> dyn.Array:
        return dyn.device_put(put(context, np.arange(4, dtype="f4"), stream), device.name)

    with new_stream(device) as one, new_stream(device) as other:
        add(on(one), on(one))
        result: Any = made_natively(add, lambda: add(on(other), on(other)))
        assert result._data.stream == other
        np.testing.assert_array_equal(result.to_numpy(), 2 * np.arange(4))
        before = hits(add)
        mixed: Any = add(on(one), on(other))  # Python has the second stream wait
        assert (hits(add), mixed._data.stream) == (before, one)
        np.testing.assert_array_equal(mixed.to_numpy(), 2 * np.arange(4))
        held = there(device, 4)  # belongs to the default stream
        captures = dyn.jit(lambda x: x + held)
        for _ in range(2):
            np.testing.assert_array_equal(captures(on(one)).to_numpy(), 2 * np.arange(4))
        assert hits(captures) == 0
        del result, mixed


def test_the_drivers_answers(device: Device) -> None:
    """What the driver refuses is told, by the call that met it; the next one goes well."""
    f = dyn.jit(lambda x: dnp.sum(x, axis=0) + 1)
    x = there(device, 3, 4)
    f(x)
    own = names(device)
    device.gpu.fail(2, 1, own["alloc"])
    with pytest.raises(MemoryError) as memory:
        f(x)
    assert "(2)" in memory.value.__notes__[-1]
    device.gpu.fail(701, 1, own["launch"])
    with pytest.raises(DeviceError, match="701"):
        f(x)
    before = hits(f)
    device.gpu.fail(999, 1, own["get_current"])  # before anything was done: Python makes the call
    np.testing.assert_array_equal(f(x).to_numpy(), [13, 16, 19, 22])
    assert hits(f) == before
    np.testing.assert_array_equal(made_natively(f, lambda: f(x)).to_numpy(), [13, 16, 19, 22])


def test_functions_of_the_processor_inside(device: Device) -> None:
    """A factorisation is staged, its failure is told, and calls of threads do not meet."""
    f = dyn.jit(lambda x: dnp.linalg.cholesky(x @ x.T + dnp.eye(3)) + 1)
    x = there(device, 3, 3)
    wanted = np.linalg.cholesky(x.to_numpy() @ x.to_numpy().T + np.eye(3)) + 1
    f(x)
    for _ in range(3):
        np.testing.assert_allclose(made_natively(f, lambda: f(x)).to_numpy(), wanted, rtol=1e-5)
    for name in ("to_host", "to_device"):
        device.gpu.fail(701, 1, VENDORS[device.name].names[name])
        with pytest.raises(DeviceError, match="701"):
            f(x)
    np.testing.assert_allclose(f(x).to_numpy(), wanted, rtol=1e-5)


def test_threads(device: Device) -> None:
    f = dyn.jit(lambda x, y: dnp.sum(x * y, axis=-1))
    f(there(device, 2, 3), there(device, 2, 3))
    wrong: list[Any] = []

    def work(number: int) -> None:
        x = there(device, number + 1, 33)
        wanted = (x.to_numpy() ** 2).sum(-1)
        found = [f(x, x) for _ in range(20)]
        if not all(np.allclose(one.to_numpy(), wanted, rtol=1e-5) for one in found):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert hits(f) == 160
    assert f.cache_info().compiles == 1


def test_the_current_device_stays(cuda: Device) -> None:
    """A thread's current device is what it was, and each device has programs of its own."""
    f = dyn.jit(lambda x: x + 1)
    first, second = (dyn.device_put(np.arange(3.0), name) for name in ("cuda", "cuda:1"))
    contexts = [context_of("cuda", number) for number in (0, 1)]
    for x in (first, second, first, second):
        f(x)
    for context in contexts:
        with context.current():
            for x in (first, second):
                _is_next(made_natively(f, lambda x=x: f(x)), x.device)
            current = ctypes.c_uint64()
            context.driver.call("get_current", ctypes.byref(current))
            assert current.value == context.handle
    del first, second, x
    gc.collect()
    for context in contexts:
        context.synchronize(0)


def _is_next(y: dyn.Array, device: str) -> None:
    assert y.device == device
    np.testing.assert_array_equal(y.to_numpy(), np.arange(3) + 1)


def test_tensors_of_pytorchs(cuda: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the stream that is PyTorch's current one. (The stand-in's tensors are on NVIDIA's devices by DLPack.)"""
    with torch_on(context_of(cuda.name), cuda.gpu, monkeypatch) as gpu:
        _check_tensors(cuda, gpu)
        gc.collect()


def _check_tensors(cuda: Device, gpu: TorchDevice) -> None:
    weight = gpu.to_device(torch.ones(3))
    f = torch_jit(lambda x: x * 2 + weight, strict=True)
    plain = torch.arange(6.0).reshape(2, 3)
    x = gpu.to_device(plain)
    for _ in range(2):
        f(x)
    found = made_natively(f, lambda: f(x))
    torch.testing.assert_close(found.cpu(), plain * 2 + 1)
    weight += 1
    torch.testing.assert_close(f(x).cpu(), plain * 2 + 2)
    turned = x.T.contiguous().T  # PyTorch copies it
    torch.testing.assert_close(f(turned).cpu(), plain * 2 + 2)
    with new_stream(cuda) as stream, gpu.on_stream(stream):
        for rows in (0, 1, 2):
            y = torch.ones(rows, 3)
            result = made_natively(f, lambda y=y: f(gpu.to_device(y)))
            torch.testing.assert_close(result.cpu(), y * 4)
            del result
    with torch.autocast("cuda", dtype=torch.bfloat16):  # another program
        before = hits(f)
        f(x)
        assert hits(f) == before


def test_a_forked_child_is_told(device: Device) -> None:
    f = dyn.jit(lambda x: x + 1)
    x = there(device, 3)
    f(x)
    made_natively(f, lambda: f(x))
    assert device.gpu
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            f(x)
            os.write(write, b"no error")
        except DeviceError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as told:
        assert b"was initialised before this process was forked" in told.read()
    np.testing.assert_array_equal(made_natively(f, lambda: f(x)).to_numpy(), [1, 2, 3])
