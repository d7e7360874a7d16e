"""How calls run: the device is found, arrays come and go, donated memory is taken, streams and threads do not mix."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp
from benchmarks.gpu_check.checks import Check, NotApplicableError, Options, compare, there
from dyn import nn
from dyn.errors import DonatedError, ShapeError
from dyn.runtime.device_memory import parse_device, put
from dyn.runtime.driver import Context, context_of

_THREADS, _CALLS = 8, 6
#: A stream that the default one does not wait for.
_NON_BLOCKING = 1


def device_checks() -> tuple[Check, ...]:
    """What there has to be before anything else can go well."""
    return (
        Check("the driver shows it", _shown),
        Check("arrays come and go", _come_and_go),
        Check("a kernel runs", _kernel),
    )


def checks() -> tuple[Check, ...]:
    """Donation, streams, threads, the native entry, errors."""
    return (
        Check("warm calls are native", _native),
        Check("donated memory is taken", _donated),
        Check("a donated array is used up", _used_up),
        Check("streams", _streams),
        Check("threads", _threads),
        Check("captured arrays", _captured),
        Check("a chain of calls", _chain),
        Check("memory goes back", _memory),
        Check("errors come before launches", _errors),
        Check("arrays of PyTorch by DLPack", _torch_arrays),
        Check("a profile", _profile),
    )


# ---- the device ------------------------------------------------------------------------------------------------------


def _context(options: Options) -> Context:
    parsed = parse_device(options.device)
    if parsed is None:
        raise NotApplicableError(f"{options.device} is no GPU")
    return context_of(*parsed)


def _shown(options: Options) -> Mapping[str, object]:
    context = _context(options)
    device, driver = context.device, context.driver
    return {
        "name": device.name, "arch": device.arch, "multiprocessors": device.multiprocessors,
        "memory, GiB": round(device.memory / 2**30, 1), "driver": f"{driver.vendor.title} {driver.version}",
        "devices": ", ".join(map(str, dyn.devices())),
    }  # fmt: skip


def _come_and_go(options: Options) -> None:
    for dtype in ("bool", "int8", "int64", "float16", "float32", "float64", "complex64"):
        for shape in ((), (0,), (3, 5), (70_000,)):
            array = (np.arange(np.prod(shape), dtype="f8").reshape(shape) % 7).astype(dtype)
            compare(there(options.device, array), array, (dtype, shape))
    large = np.random.default_rng(0).standard_normal(3_000_000)
    compare(there(options.device, large), large, large.shape)


def _kernel(options: Options) -> Mapping[str, object]:
    f = dyn.jit(lambda x: x * 2 + 1, device=options.device)
    for n in (5, 0, 1, 100_000):
        x = np.arange(n, dtype="f4")
        compare(f(x), x * 2 + 1, n)
    return {"compile seconds": round(f.cache_info().compile_seconds, 3)}


# ---- calls -----------------------------------------------------------------------------------------------------------


def _native(options: Options) -> Mapping[str, object]:
    f = dyn.jit(lambda x, k: dnp.tanh(x) * k)
    x = np.ones((3, 4), "f4")
    on_device = there(options.device, x)
    f(on_device, 2.0)
    before = f._native_hits()
    for rows in (0, 1, 2, 3):
        compare(f(there(options.device, x[:rows]), 3.0), np.tanh(x[:rows]) * np.float32(3), rows)
    hits = f._native_hits() - before
    if hits != 4:
        raise AssertionError(f"{hits} of 4 warm calls went through the native entry")
    return {"native calls": hits}


def _step(x: Any, y: Any) -> Any:
    return x * 2 + y


def _donated(options: Options) -> None:
    f = dyn.jit(_step, donate_argnums=0, shapes="n m, n m")
    for shape in ((3, 4), (0, 4), (300, 257)):
        x, y = (there(options.device, np.full(shape, n, "f4")) for n in (1, 2))
        where = x._data.address
        for _ in range(3):
            x = f(x, y)
            if x._data.address != where:
                raise AssertionError(f"at {shape} the result is not in the donated memory")
        compare(x, np.full(shape, 22, "f4"), shape)


def _used_up(options: Options) -> None:
    f = dyn.jit(_step, donate_argnums=0, shapes="n, n")
    x, y = (there(options.device, np.ones(3, "f4")) for _ in range(2))
    f(x, y)
    try:
        x.to_numpy()
    except DonatedError:
        pass
    else:
        raise AssertionError("a donated array could still be read")
    compare(f(y, y), np.full(3, 3, "f4"), "y twice")


@contextmanager
def _new_stream(context: Context) -> Iterator[int]:
    stream, driver = ctypes.c_void_p(), context.driver
    with context.current():
        driver.call("create_stream", ctypes.byref(stream), ctypes.c_uint(_NON_BLOCKING))
    try:
        yield stream.value or 0
    finally:
        gc.collect()
        context.synchronize(stream.value or 0)
        with context.current():
            driver.call("destroy_stream", stream)


def _streams(options: Options) -> None:
    """Each result is on its arguments' stream, and what comes from another one is waited for."""
    context = _context(options)
    f = dyn.jit(lambda x, y: dnp.cumsum(dnp.sort(x)) + y)
    host = np.random.default_rng(0).standard_normal(50_000, np.float32)
    wanted = np.cumsum(np.sort(host)) + host
    default = there(options.device, host)
    compare(f(default, default), wanted, "the default stream", 300)
    with _new_stream(context) as one, _new_stream(context) as other:
        arrays = {s: dyn.device_put(put(context, host, s), options.device) for s in (one, other)}
        for first, second in ((one, one), (other, other), (one, other), (other, one)):
            found: Any = f(arrays[first], arrays[second])
            if found._data.stream != first:
                raise AssertionError("a result is on another stream than its first argument")
            compare(found, wanted, "two streams", 300)
        compare(f(arrays[one], default), wanted, "one and the default stream", 300)
        del arrays, found


def _threads(options: Options) -> None:
    f = dyn.jit(lambda x: nn.softmax(x, axis=-1), device=options.device)
    x = np.random.default_rng(0).standard_normal((_CALLS, 500), np.float32)
    wanted: Any = f(x).to_numpy()
    _in_threads(lambda number: [compare(f(x[r:]), wanted[r:], r) for r in range(number % 3, _CALLS)])
    if f.cache_info().compiles != 1:
        raise AssertionError("threads compiled it again")
    first = dyn.jit(lambda x: dnp.exp(x) + 1, device=options.device)
    _in_threads(lambda number: compare(first(x[:1]), np.exp(x[:1]) + 1, number))


def _in_threads(work: Callable[[int], object]) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _captured(options: Options) -> None:
    weight = np.ones(4, "f4")
    f = dyn.jit(lambda x: x * weight, device=options.device)
    compare(f(np.ones(4, "f4")), np.ones(4, "f4"), "ones")
    weight[:] = 3  # an array of NumPy's may change between calls
    compare(f(np.ones(4, "f4")), np.full(4, 3, "f4"), "threes")
    held = there(options.device, weight)
    compare(dyn.jit(lambda x: x * held)(held), np.full(4, 9, "f4"), "held")


def _chain(options: Options) -> None:
    """Many calls of which each takes the last one's result: nothing runs before what it reads."""
    f = dyn.jit(lambda x, w: dnp.tanh(x @ w))
    x, w = (np.random.default_rng(n).standard_normal((64, 64), np.float32) / 8 for n in range(2))
    found, here, weights = there(options.device, x), x, there(options.device, w)
    for _ in range(50):
        found, here = f(found, weights), np.tanh(here @ w)
    compare(found, here, "the end", 20)


def _memory(options: Options) -> Mapping[str, object]:
    """Results of a thousand calls do not add up: 4 GiB would, were their memory kept."""
    f = dyn.jit(lambda x: x + 1)
    x = there(options.device, np.zeros(1 << (10 if options.small else 20), "f4"))
    calls = 100 if options.small else 1000
    for _ in range(calls):
        x = f(x)
    compare(x[:2], np.full(2, calls, "f4"), "the end")
    return {"calls": calls}


def _errors(options: Options) -> None:
    f = dyn.jit(lambda x, y: x + y, device=options.device)
    try:
        f(np.ones(3), np.ones(4))
    except ShapeError:
        pass
    else:
        raise AssertionError("sizes that do not broadcast were added")
    compare(f(np.ones(3), np.ones(3)), np.full(3, 2.0), "afterwards")


def _torch_arrays(options: Options) -> None:
    torch = torch_with_gpu(options)
    f = dyn.jit(lambda x, y: x @ y + 1)
    x = torch.randn(33, 20, device="cuda", dtype=torch.float32)
    y = torch.randn(20, 7, device="cuda", dtype=torch.float32)
    wanted = (x.double() @ y.double() + 1).float().cpu().numpy()
    a, b = (dyn.device_put(t, options.device) for t in (x, y))
    found = f(a, b)
    compare(found, wanted, "dyn's array", 10)
    back = torch.from_dlpack(found)
    if back.device.type != "cuda":
        raise AssertionError(f"PyTorch reads the result on {back.device}")
    compare(back.cpu().numpy(), wanted, "PyTorch's tensor", 10)
    with torch.cuda.stream(torch.cuda.Stream()):
        z = torch.ones(1000, 1000, device="cuda").cumsum(0) / 1000
        compare(dyn.jit(lambda z: z * 2)(dyn.device_put(z, options.device)), (z * 2).cpu().numpy(), "another stream")


def torch_with_gpu(options: Options) -> Any:
    """PyTorch, where it is there and was built for the device."""
    if options.device.partition(":")[0] != "cuda":
        raise NotApplicableError(f"{options.device} is not CUDA")
    try:
        import torch
    except ImportError as error:
        raise NotApplicableError(f"there is no PyTorch ({error})") from None
    if not torch.cuda.is_available():
        raise NotApplicableError(f"PyTorch {torch.__version__} here has no CUDA device")
    return torch


def _profile(options: Options) -> Mapping[str, object]:
    f = dyn.jit(lambda x: dnp.sum(nn.softmax(x, axis=-1), axis=0), device=options.device)
    x = there(options.device, np.ones((300, 300), "f4"))
    f(x)
    with dyn.profile() as profile:
        f(x).block_until_ready()
    events = profile.events()
    on_host = {made.thread for made in events.calls}
    launches = [launch for launch in events.launches if launch.thread not in on_host]
    if not launches:
        raise AssertionError("a profile has no launches on the device")
    return {"launches": len(launches)}
