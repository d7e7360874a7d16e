"""Arguments of calls on GPUs by the native entry that are not there yet, and those that a call uses up."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.errors import ArgumentError, DeviceError, DonatedError, ShapeError
from dyn.runtime import device_memory
from dyn.runtime.driver import context_of
from dyn.runtime.staging import MOST_BYTES, MOST_PENDING, RING_BYTES, staging
from dyn.runtime.vendors import VENDORS
from tests.gpu.programs import Device, names, new_stream
from tests.gpu.test_arrays import StandIn
from tests.gpu.test_native_entry import hits, made_natively, there


def ones(device: Device, *shape: int) -> dyn.Array:
    return dyn.device_put(np.ones(shape, "f4"), device.name)


# ---- copies ----------------------------------------------------------------------------------------------------------


def test_numbers(device: Device) -> None:
    """Of each of Python's types, new ones at each call; what does not fit is Python's to refuse."""
    f = dyn.jit(lambda x, k: (x * k, dnp.asarray(k)))
    x = there(device, 3)
    for values in ((2, -3, 0), (1.5, 1e30, -0.0), (True, False), (1 + 2j, 3j)):
        f(x, values[0])
        for value in values:
            with device.copying(1, 0):
                made, number = made_natively(f, lambda value=value: f(x, value))
            np.testing.assert_array_equal(made.to_numpy(), np.arange(3, dtype="f4") * np.asarray(value, made.dtype))
            assert number.to_numpy() == value
    g = dyn.jit(lambda x, k: x * k)
    for _ in range(2):
        g(x, 3)
    with pytest.raises(ArgumentError, match="k = 1180591620717411303424 does not fit in int64"):
        g(x, 2**70)


def test_numbers_outside_of_jit(device: Device) -> None:
    x = there(device, 3)
    for n in range(40):  # the first of them are literals of programs
        k = n * 0.5
        np.testing.assert_array_equal((x * k).to_numpy(), np.arange(3, dtype="f4") * k)
        np.testing.assert_array_equal(dnp.zeros((n, 2), device=device.name).to_numpy(), np.zeros((n, 2)))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (7, 5), (MOST_BYTES // 4,), (MOST_BYTES // 4 + 1,)])
def test_numpys_arrays(device: Device, shape: tuple[int, ...]) -> None:
    """They may be written to when the call returns, whether they go through pinned memory or not."""
    f = dyn.jit(lambda x, y: x * 2 + y, device=device.name)
    x, y = np.ones(shape, "f4"), np.ones(shape, "f4")
    f(x, y)
    found: list[Any] = []
    for n in range(3):
        x[...], y[...] = n, n + 1
        found.append(made_natively(f, lambda: f(x, y)))
    x[...] = -1
    for n, made in enumerate(found):
        assert (made.device, type(made)) == (device.name, dyn.Array)
        np.testing.assert_array_equal(made.to_numpy(), np.full(shape, 3 * n + 1, "f4"))


def test_arguments_of_every_kind_at_once(device: Device) -> None:
    """In trees, in one copy where they are few bytes; more than a ring holds are several."""

    @dyn.jit(device=device.name)
    def f(tree: Any, there: Any, scale: float) -> Any:
        return there * scale + sum(dnp.sum(one.astype("float32")) for one in (*tree["a"], tree["b"]))

    x = there(device, 3)
    for sizes, copies in (((3, 1, 0), 1), ((200_000, 100_000, 5), 2), ((RING_BYTES // 4, 9, 300_000), 3)):
        first, second, third = sizes
        tree = {"a": [np.ones(first, "f4"), np.ones(second, "i8")], "b": np.full(third, 2, "u1")}
        f(tree, x, 1.0)
        with device.copying(copies if copies == 1 else 4, 0):
            made = made_natively(f, lambda tree=tree: f(tree, x, 0.5))
        np.testing.assert_allclose(made.to_numpy(), np.arange(3) * 0.5 + first + second + 2 * third, rtol=1e-6)
    assert f.cache_info().compiles == 1


def test_more_calls_than_may_be_pending(device: Device) -> None:
    """Nobody waits for the device, whose queue is long, before the ring has gone round."""
    f = dyn.jit(lambda x, k: x + k, device=device.name)
    f(np.zeros(4, "f4"), 1.0)
    waits = [names(device)[name] for name in ("synchronize", "wait_for_event")]
    before = [device.gpu.calls(name) for name in waits]
    found = [made_natively(f, lambda n=n: f(np.full(4, n, "f4"), 0.5)) for n in range(200)]
    assert [device.gpu.calls(name) for name in waits] == before
    found += [f(np.full(4, n, "f4"), 0.5) for n in range(200, MOST_PENDING + 300)]
    for n, made in enumerate(found):
        np.testing.assert_array_equal(made.to_numpy(), np.full(4, n + 0.5, "f4"))


def test_without_pinned_memory_the_call_waits(device: Device) -> None:
    f = dyn.jit(lambda x: x + 1, device=device.name)
    x = np.ones(5, "f4")
    f(x)
    staging(context_of(device.name)).release()
    device.gpu.fail(2, 1, names(device)["pinned"])
    before = device.gpu.calls(names(device)["synchronize"])
    made = made_natively(f, lambda: f(x))
    assert device.gpu.calls(names(device)["synchronize"]) == before + 1
    np.testing.assert_array_equal(made.to_numpy(), np.full(5, 2, "f4"))


@pytest.mark.parametrize("name", ["alloc", "pinned", "create_event", "record_event", "to_device", "synchronize"])
@pytest.mark.parametrize("status", [2, 701])
def test_failures_are_pythons(cuda: Device, name: str, status: int) -> None:
    """The driver's answers to what copies arguments, by the same errors as calls by Python."""
    x = np.ones(MOST_BYTES + 1 if name == "synchronize" else 5, "u1")
    told: list[str] = []
    for natively in (True, False):
        with config.override(fast_call=natively):
            f = dyn.jit(lambda x: x + 1, device="cuda")
            f(x)
            f(x)
            assert bool(hits(f)) == natively
            staging(context_of("cuda")).release()
            cuda.gpu.fail(status, 1, VENDORS["cuda"].names[name])
            if (name, status) == ("pinned", 2):
                np.testing.assert_array_equal(f(x).to_numpy(), x + 1)
                continue
            with pytest.raises(MemoryError if status == 2 else DeviceError) as caught:
                f(x)
            told.append(str(caught.value))
            caught.value.__traceback__ = None
            np.testing.assert_array_equal(f(x).to_numpy(), x + 1)
    assert len(set(told)) <= 1, told


def test_checks_and_functions_of_the_processors(device: Device) -> None:
    """A check that fails is worded by Python, before anything is used up; a factorisation has copies of its own."""
    f = donating(lambda x, y: x * 2 + y, device=device.name)
    x, y = ones(device, 3), np.ones(3, "f4")
    x = f(f(x, y), y)
    before = hits(f)
    with pytest.raises(ShapeError, match="y"):
        f(x, np.ones(2, "f4"))
    np.testing.assert_array_equal(made_natively(f, lambda: f(x, y)).to_numpy(), [15, 15, 15])
    assert hits(f) == before + 1
    g = dyn.jit(lambda x, k: dnp.linalg.cholesky(x @ x.T + dnp.eye(3)) * k, device=device.name)
    plain = np.arange(9, dtype="f4").reshape(3, 3)
    g(plain, 1.0)
    found = made_natively(g, lambda: g(plain, 2.0))
    np.testing.assert_allclose(found.to_numpy(), np.linalg.cholesky(plain @ plain.T + np.eye(3)) * 2, rtol=1e-4)


def test_streams_of_calls_without_arrays_there(device: Device) -> None:
    """The captured arrays' stream, or the default one."""
    f = dyn.jit(lambda k: dnp.arange(4, dtype="float32") * k, device=device.name)
    f(1.0)
    made: Any = made_natively(f, lambda: f(3.0))
    assert made._data.stream == 0
    np.testing.assert_array_equal(made.to_numpy(), np.arange(4) * 3)
    with new_stream(device) as stream:
        held = dyn.device_put(device_memory.put(context_of(device.name), np.arange(4, dtype="f4"), stream), device.name)
        captures = dyn.jit(lambda x: held + x, device=device.name)
        for n in (1, 2):
            made = captures(np.full(4, n, "f4"))
            assert made._data.stream == stream
            np.testing.assert_array_equal(made.to_numpy(), np.arange(4) + n)
        assert hits(captures) == 1
        captures = held = made = None
        gc.collect()


def test_arrays_are_copied_for_jit_of_a_device_alone(device: Device) -> None:
    """One without elements is in no place; the next call of the form has some."""
    f = dyn.jit(lambda x, y: (x + 1, y + 1))
    x = there(device, 3)
    for _ in range(2):
        f(x, np.zeros(0, "f4"))
    with pytest.raises(ArgumentError, match="in this machine's memory"):
        f(x, np.zeros(2, "f4"))


def test_arrays_of_other_libraries(device: Device) -> None:
    """Tensors of the processor's, which this build of PyTorch has no GPUs for: results are dyn's."""
    f = dyn.jit(lambda x: x * 2, device=device.name)
    x = torch.arange(6.0).reshape(2, 3)
    f(x)
    made = made_natively(f, lambda: f(x + 1))
    assert (type(made), made.device) == (dyn.Array, device.name)
    np.testing.assert_array_equal(made.to_numpy(), (x + 1).numpy() * 2)


# ---- donation --------------------------------------------------------------------------------------------------------


def step(x: Any, y: Any) -> Any:
    return x * 2 + y[::-1]


def donating(f: Callable[..., Any] = step, **options: Any) -> Any:
    return dyn.jit(f, donate_argnums=0, shapes="n, n", **options)


def test_results_lie_where_donated_arguments_did(device: Device) -> None:
    f = donating(lambda x, y: x * 2 + y)
    f(ones(device, 2), ones(device, 2))
    for size in (3, 1, 0, 1000):
        x, y, wanted = ones(device, size), ones(device, size), np.ones(size)
        place = x._data.address  # pyright: ignore[reportAttributeAccessIssue]  # on a device
        before = device.gpu.counters()
        for _ in range(20):
            x = made_natively(f, lambda x=x, y=y: f(x, y))
            wanted = wanted * 2 + 1
            assert x._data.address == place  # pyright: ignore[reportAttributeAccessIssue]
        spent = device.gpu.counters().since(before)
        assert (spent.allocations, spent.frees) == (0, 0)
        np.testing.assert_array_equal(x.to_numpy(), wanted.astype("f4"))


def test_training_steps(device: Device) -> None:
    """Parameters in a tree, a batch of NumPy's and a number: nothing but the batch's block is allocated."""

    def train(params: Any, batch: Any, rate: Any) -> Any:
        return {name: value - rate * dnp.sum(batch) for name, value in params.items()}

    f = dyn.jit(train, donate_argnums=0, device=device.name)
    params: Any = {name: ones(device, 8) for name in "abc"}
    plain = {name: np.ones(8, "f4") for name in "abc"}
    params = f(params, np.ones(4, "f4"), 0.5)
    plain = train(plain, np.ones(4, "f4"), np.float32(0.5))
    before = device.gpu.counters()
    for n in range(10):
        given = params
        batch = np.full(n, 0.25, "f4")
        params = made_natively(f, lambda batch=batch, given=given: f(given, batch, 0.1))
        plain = train(plain, batch, np.float32(0.1))
        with pytest.raises(DonatedError, match=r"it was params\[.a.\] of train"):
            given["a"].to_numpy()
    spent = device.gpu.counters().since(before)
    assert spent.bytes == 0
    for name, value in params.items():
        np.testing.assert_allclose(value.to_numpy(), plain[name], rtol=1e-5)


@pytest.mark.parametrize("natively", [True, False])
def test_memory_that_others_have(device: Device, natively: bool) -> None:
    """It stays, and the result has memory of its own."""
    wanted = np.arange(1000, dtype="f4") * 2 + np.arange(1000, dtype="f4")[::-1]
    with config.override(fast_call=natively):
        f = donating()
        f(there(device, 1000), there(device, 1000))

        def check(x: dyn.Array, y: dyn.Array) -> None:
            place, before = x._data.address, hits(f)  # pyright: ignore[reportAttributeAccessIssue]  # on a device
            made: Any = f(x, y)
            np.testing.assert_array_equal(made.to_numpy(), wanted)
            assert (made._data.address != place, hits(f) - before) == (True, int(natively))
            with pytest.raises(DonatedError, match="it was x of step"):
                x.to_numpy()

        x, y = there(device, 1000), there(device, 1000)
        check(x, x)  # it is another argument, too
        x = there(device, 1000)
        exported = dyn.device_put(StandIn(x))
        check(x, y)
        x = there(device, 1000)
        view = dyn.device_put(x._data.reshape((10, 100)), device.name)  # pyright: ignore[reportAttributeAccessIssue]
        check(x, y)
        x = there(device, 1000)
        reads = dyn.jit(lambda: x + 0, device=device.name)
        captured = reads()
        check(x, y)
        captured = reads()
        for one in (exported, view, captured, y):
            np.testing.assert_array_equal(one.to_numpy().ravel(), np.arange(1000))


def test_memory_that_another_call_reads(device: Device) -> None:
    """A call of another thread holds what it reads, until it has launched what does."""
    f = donating()
    f(there(device, 5), there(device, 5))
    x, y = there(device, 5), there(device, 5)
    held: Any = x._data
    made: Any = made_natively(f, lambda: f(x, y))
    assert made._data.address != held.address
    np.testing.assert_array_equal(held.to_numpy(), np.arange(5))
    del held, made


def test_donated_arrays_on_another_stream(device: Device) -> None:
    f = donating()
    context = context_of(device.name)
    f(ones(device, 3), ones(device, 3))
    with new_stream(device) as stream:
        for _ in range(2):  # both there: the call is on it
            x, y = (dyn.device_put(device_memory.put(context, np.ones(3, "f4"), stream), device.name) for _ in range(2))
            place = x._data.address  # pyright: ignore[reportAttributeAccessIssue]
            made: Any = made_natively(f, lambda x=x, y=y: f(x, y))
            assert (made._data.stream, made._data.address) == (stream, place)
            np.testing.assert_array_equal(made.to_numpy(), [3, 3, 3])
            del x, y, made
        far = dyn.device_put(device_memory.put(context, np.ones(3, "f4"), stream), device.name)
        before = hits(f)
        np.testing.assert_array_equal(f(ones(device, 3), far).to_numpy(), [3, 3, 3])
        assert hits(f) == before, "Python orders streams"
        del far


def test_donated_arrays_of_the_processors(device: Device) -> None:
    """They are used up, as they are in Python's calls, and NumPy's, which cannot be told, are not."""
    f = donating(device=device.name)
    y = ones(device, 3)
    for _ in range(3):
        x = dyn.device_put(np.ones(3, "f4"))
        np.testing.assert_array_equal(f(x, y).to_numpy(), [3, 3, 3])
        with pytest.raises(DonatedError):
            x.to_numpy()
    plain = np.ones(3, "f4")
    for _ in range(3):
        np.testing.assert_array_equal(f(plain, y).to_numpy(), [3, 3, 3])
    np.testing.assert_array_equal(plain, [1, 1, 1])
    assert hits(f) == 4


@pytest.mark.parametrize("name", ["launch", "alloc", "get_current"])
def test_failures_leave_the_arguments(cuda: Device, name: str) -> None:
    """What was donated is not used up; where results may have been written there it is said, as by Python."""
    told: list[Any] = []
    for natively in (True, False):
        with config.override(fast_call=natively):
            f = dyn.jit(lambda x, y, k: x * k + y, donate_argnums=0, shapes="n, n, ()")
            x, y = ones(cuda, 3), ones(cuda, 3)
            x = f(x, y, 1.0)
            x = f(x, y, 1.0)
            assert bool(hits(f)) == natively
            cuda.gpu.fail(701, 1, VENDORS["cuda"].names[name])
            if name == "get_current" and natively:  # before anything was done: Python makes the call
                x = f(x, y, 1.0)
                np.testing.assert_array_equal(x.to_numpy(), [4, 4, 4])
                continue
            with pytest.raises(DeviceError) as caught:
                f(x, y, 1.0)
            told.append((str(caught.value), getattr(caught.value, "__notes__", [])))
            caught.value.__traceback__ = None
            assert x.shape == (3,)
            x = f(x, y, 1.0)
            assert x.to_numpy().shape == (3,)
            del x, y
    assert len({str(one) for one in told}) == 1, told


def test_threads(device: Device) -> None:
    """Eight threads, each with state that it donates, arrays of NumPy's and numbers, through one ring."""
    f = dyn.jit(lambda x, y, k: x * k + dnp.sum(y), donate_argnums=0, device=device.name)
    f(ones(device, 3), np.ones(3, "f4"), 1.0)
    bad: list[Any] = []

    def work(number: int) -> None:
        x, wanted = ones(device, 50 + number), np.ones(50 + number, "f4")
        for n in range(30):
            y = np.full(1 + 3000 * (n % 3) * number, number, "f4")
            x = f(x, y, 0.5)
            wanted = wanted * np.float32(0.5) + np.float32(y.size * number)
            y[:] = 1e9
        if not np.allclose(x.to_numpy(), wanted, rtol=1e-4):
            bad.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad
    assert hits(f) >= 240
