"""Whole programs on the software GPU: compiled, launched, with memory, transfers and faults, as on a real one."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError, BackendUnavailableError, DeviceError, ShapeError
from tests.gpu.programs import Device
from tests.stitch.test_nested import PROGRAMS as WITHIN_LOOPS
from tests.stitch.test_rows_and_columns import PROGRAMS as ROWS_AND_COLUMNS

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("f4")


def softmax(x: Any) -> Any:
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
    return e / dnp.sum(e, axis=-1, keepdims=True)


def test_one_compile_for_every_size(device: Device) -> None:
    f = dyn.jit(softmax, device=device.name)
    for shape in ((3, 7), (0, 5), (1, 1), (2, 31), (33, 33), (4, 257), (2, 4096)):
        x = floats(*shape)
        y = f(x)
        assert isinstance(y, dyn.Array)
        assert (y.device, y.shape, y.dtype) == (device.name, shape, np.float32)
        want = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
        np.testing.assert_allclose(y.to_numpy(), want / want.sum(-1, keepdims=True), rtol=1e-5)
    assert f.cache_info()[:2] == (1, 6)


def test_elementwise_reductions_and_trees(device: Device) -> None:
    def f(x: Any, y: Any, k: Any) -> Any:
        z = dnp.tanh(x * 2 + y) * k
        return {"z": z, "sums": (z.sum(), z.mean(0), z.max(1)), "t": z.T, "i": (z > 0).astype("i4").cumsum(1)}

    device.check(f, floats(37, 19), floats(19), 0.5)


@pytest.mark.parametrize("name", ROWS_AND_COLUMNS)
def test_rows_and_columns_in_one_pass(name: str, device: Device) -> None:
    """A block goes through a run of rows; rows that fit into shared memory, and rows that do not."""
    f = dyn.jit(ROWS_AND_COLUMNS[name], device=device.name, shapes="n d, d, d, n d")
    for n, d in [(5, 7), (1, 1), (300, 20), (3, 5000)]:
        arrays = floats(n, d), floats(d), floats(d), floats(n, d)
        made, wanted = (
            one if isinstance(one, tuple) else (one,) for one in (f(*arrays), ROWS_AND_COLUMNS[name](*arrays))
        )
        for a, b in zip(made, wanted, strict=True):
            np.testing.assert_allclose(a.to_numpy(), np.asarray(b), rtol=5e-5, atol=5e-5 * max(1, n**0.5))
    assert f.lower(*arrays).as_text("stitch").count("of columns")


@pytest.mark.parametrize("name", WITHIN_LOOPS)
def test_folds_within_loops(name: str, device: Device) -> None:
    device.check(WITHIN_LOOPS[name], floats(40, 3), floats(33, 3))


def test_products(device: Device) -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return dnp.tanh(x @ w + b)

    f = dyn.jit(layer, device=device.name)
    for rows in (5, 1, 0, 33):
        x, w, b = floats(rows, 19), floats(19, 40), floats(40)
        np.testing.assert_allclose(f(x, w, b).to_numpy(), np.tanh(x @ w + b), rtol=1e-4, atol=1e-5)
    assert f.cache_info().compiles == 1


def by_groups(x: Any, q: Any, s: Any) -> Any:
    return x @ (q.astype("float32") * dnp.repeat(s, 6, axis=0))


def by_groups_columns_first(x: Any, q: Any, s: Any) -> Any:
    n, k = q.shape
    return x @ (q.astype("float32").reshape(n, k // 6, 6) * s[:, :, None]).reshape(n, k).T


@pytest.mark.parametrize("form", [by_groups, by_groups_columns_first])
def test_products_of_weights_with_scales_by_groups(form: Any, device: Device) -> None:
    """Computed as they are staged, by tables of the steps' digits: one kernel, and no weight in memory."""
    first = form is by_groups_columns_first
    sizes = "n 6*j, n j" if first else "6*j n, j n"
    f = dyn.jit(form, device=device.name, shapes=f"m 6*j, {sizes}")
    for rows, groups, n in [(1, 7, 40), (9, 20, 33), (40, 3, 70), (0, 2, 5), (3, 0, 4)]:
        q, s = RANDOM.integers(-128, 128, (groups * 6, n)).astype("i1"), floats(groups, n)
        x, own = floats(rows, groups * 6), [np.ascontiguousarray(one.T) if first else one for one in (q, s)]
        want = x @ (q * np.repeat(s.astype("f8"), 6, axis=0))
        np.testing.assert_allclose(f(x, *own).to_numpy(), want, rtol=1e-4, atol=1e-2)
    (way,) = f.explain().as_dict()["ways"]
    (group,) = way["programs"][0]["groups"]
    assert group["prologue"] == ["convert", "multiply"]


def test_launches_are_counted_and_memory_goes_back(device: Device) -> None:
    f = dyn.jit(lambda x: dnp.exp(x).sum(0) * 2, device=device.name)
    x = dyn.device_put(floats(300, 70), device.name)
    f(x)
    before = device.gpu.counters()
    for _ in range(3):
        f(x)
    spent = device.gpu.counters().since(before)
    assert spent.copies_in == spent.copies_out == 0
    assert spent.launches in (3, 6, 9, 12)
    assert spent.allocations == spent.frees


# ---- what the host program reads -------------------------------------------------------------------------------------


def test_loops_and_choices(device: Device) -> None:
    x = floats(5, 7)
    device.check(lambda x: lax.while_loop(lambda s: s[1] < 9, lambda s: (s[0] * 1.5, s[1] + 1), (x, 0))[0], x)
    device.check(lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), x)
    device.check(lambda x: lax.cond(dnp.sum(x) > 0, lambda x: x + 1, lambda x: x - 1, x), x)
    for i in range(3):
        device.check(lambda x, i: lax.switch(i, [lambda x: x, dnp.sin, lambda x: x * 3], x), x, np.int32(i))


def test_sizes_that_a_program_measures(device: Device) -> None:
    f = dyn.jit(lambda n: dnp.nonzero(n > 1)[0] * 2, device=device.name)
    before = device.gpu.counters()
    for n in (np.arange(40) % 3, np.zeros(7, "i8"), np.zeros(0, "i8"), np.full(100, 5)):
        np.testing.assert_array_equal(f(n).to_numpy(), np.nonzero(n > 1)[0] * 2)
    assert f.cache_info().compiles == 1
    assert device.gpu.counters().since(before).copies_out == 6, "a size each, and a result where there is any"
    device.check(dnp.unique, np.arange(40) % 7)


def test_the_host_program_says_where_things_are(cuda: Device) -> None:
    lowered = dyn.jit(lambda x: dnp.fft.fft(dnp.nonzero(x)[0] + 1.0), device="cuda").lower(floats(4))
    text = lowered.as_text("host")
    assert "  buffers in the memory of a device\n" in text
    assert ", fetched\n" in text
    assert " on the host\n" in text


# ---- on the host -----------------------------------------------------------------------------------------------------


def test_libraries_and_callbacks_run_on_the_host(device: Device) -> None:
    v = floats(33)
    device.check(lambda v: dnp.abs(dnp.fft.fft(v)), v)
    whole = floats(4, 4)
    device.check(dnp.linalg.cholesky, whole @ whole.T + np.eye(4, dtype="f4"))
    out = dyn.ShapeDtypeStruct((33,), "float32")
    device.check(lambda v: dyn.pure_callback(lambda a: a * 2, out, v + 1), v)
    told = dyn.jit(dnp.fft.fft, device=device.name)
    told(v)
    assert "a library call, on the host" in str(told.explain())


def test_a_callback_that_raises(cuda: Device) -> None:
    def fail(a: Any) -> Any:
        raise RuntimeError("not today")

    out = dyn.ShapeDtypeStruct((3,), "float32")
    f = dyn.jit(lambda v: dyn.pure_callback(fail, out, v) + 1, device="cuda")
    with pytest.raises(RuntimeError, match="not today"):
        f(floats(3))
    np.testing.assert_array_equal(dyn.jit(lambda v: v + 1, device="cuda")(np.ones(3)).to_numpy(), [2, 2, 2])


def test_large_constants_and_captured_arrays(cuda: Device) -> None:
    large = floats(5000)
    cuda.check(lambda x: x + dnp.asarray(large.tolist()), floats(5000))
    weight = np.ones(4, "f4")
    f = dyn.jit(lambda x: x * weight, device="cuda")
    assert f(np.ones(4, "f4")).tolist() == [1] * 4
    weight[:] = 3  # an array of NumPy's may change between calls
    assert f(np.ones(4, "f4")).tolist() == [3] * 4
    there = dyn.device_put(weight, "cuda")
    g = dyn.jit(lambda x: x * there)
    before = cuda.gpu.counters()
    assert g(there).tolist() == [9] * 4
    assert cuda.gpu.counters().since(before).copies_in == 0


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_checks_are_made_before_anything_is_launched(cuda: Device) -> None:
    f = dyn.jit(lambda x, y: x + y, device="cuda")
    before = cuda.gpu.counters()
    with pytest.raises(ShapeError, match="x_0 is 3 and y_0 is 4"):
        f(np.ones(3), np.ones(4))
    assert cuda.gpu.counters().since(before).launches == 0


@pytest.mark.parametrize("nth", range(1, 4))
def test_out_of_memory(device: Device, nth: int) -> None:
    f = dyn.jit(lambda x: dnp.sort(dnp.exp(x)) + 1, device=device.name)
    x = dyn.device_put(floats(40), device.name)
    f(x)
    alloc = {"cuda": "cuMemAllocAsync", "rocm": "hipMallocAsync"}[device.name]
    device.gpu.fail(2, nth, alloc)
    if nth <= 2:  # an arena and a result
        with pytest.raises(MemoryError) as caught:
            f(x)
        assert "no memory for" in str(caught.value)
    device.gpu.fail(0, 0)
    assert f(x[:3]).shape == (3,)


def test_a_launch_that_fails(device: Device) -> None:
    f = dyn.jit(lambda x: dnp.exp(x).sum() * 2, device=device.name)
    x = dyn.device_put(floats(40), device.name)
    f(x)
    name, answer = {
        "cuda": ("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"),
        "rocm": ("hipModuleLaunchKernel", "hipErrorLaunchOutOfResources (701)"),
    }[device.name]
    device.gpu.fail(701, 1, name)
    with pytest.raises(DeviceError) as caught:
        f(x)
    assert f"<lambda>: {device.name} did not launch " in str(caught.value).replace("lambda:", "<lambda>:")
    assert f"its driver answers {answer}." in str(caught.value)
    assert "test_programs.py" in str(caught.value)
    np.testing.assert_allclose(float(f(x)), 2 * np.exp(x.to_numpy()).sum(), rtol=1e-5)


def test_devices_that_are_not_there(cuda: Device) -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        dyn.device_put(np.ones(3), "cuda:7")
    assert str(caught.value).startswith("there is no device cuda:7: the driver shows cuda:0")
    with pytest.raises(ArgumentError) as wrong:
        dyn.jit(lambda x: x, device="abacus")
    assert str(wrong.value).startswith('there is no device \'abacus\'.\n  help: use one of "cpu", "cuda", ')


def test_arrays_in_two_places(cuda: Device) -> None:
    there, here = dyn.device_put(np.ones(3), "cuda"), np.ones(3)
    calls = [
        (lambda: dyn.jit(lambda x, y: x + y)(there, here), "<lambda>", "x", "y"),
        (lambda: there + here, "add", "x", "y"),
    ]
    for call, name, first, second in calls:
        with pytest.raises(ArgumentError) as caught:
            call()
        assert str(caught.value) == (
            f"{name}(): {first} is on cuda, and {second} is in this machine's memory.\n"
            f'  help: put it there with dyn.device_put({second}, "cuda"), or use jit(device="cuda"), which does.'
        )
    other = dyn.device_put(np.ones(3), "cuda:1")
    for name, call in (("<lambda>", lambda: dyn.jit(lambda x, y: x + y)(there, other)), ("add", lambda: there + other)):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert str(caught.value) == (
            f'{name}(): x is on cuda, and y is on cuda:1.\n  help: put it there with dyn.device_put(y, "cuda").'
        )
    with pytest.raises(ArgumentError) as caught:
        dyn.jit(lambda x: x + 1, device="cpu")(there)
    assert str(caught.value) == (
        "<lambda>() runs on cpu, and x is on cuda.\n"
        '  help: put it there with dyn.device_put(x, "cpu"), or use jit(device="cuda").'
    )
    with pytest.raises(ArgumentError, match=r"lambda\(\) runs on cpu, and closes over an array on cuda"):
        dyn.jit(lambda x: x + there)(here)


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_many_threads_call_one_function(cuda: Device) -> None:
    f = dyn.jit(softmax, device="cuda")
    x = floats(8, 50)
    wanted = f(x).to_numpy()
    wrong: list[int] = []

    def work(number: int) -> None:
        for rows in range(number % 3, 8):
            if not np.array_equal(f(x[rows:]).to_numpy(), wanted[rows:]):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert f.cache_info().compiles == 1
