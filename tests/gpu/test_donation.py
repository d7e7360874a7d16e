"""Donated arguments on devices: results take their memory where that is nobody else's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import DeviceError, DonatedError
from dyn.runtime import device_memory
from dyn.runtime.driver import context_of
from dyn.runtime.vendors import VENDORS
from tests.gpu.programs import Device, new_stream
from tests.gpu.test_arrays import StandIn


def step(x: Any, y: Any) -> Any:
    return x * 2 + y


def test_results_take_the_memory(device: Device) -> None:
    f = dyn.jit(step, donate_argnums=0, shapes="n m, n m")
    for shape in ((3, 4), (0, 4), (1, 1)):
        x, y = (dyn.device_put(np.full(shape, n, "f4"), device.name) for n in (1, 2))
        where = x._data.address  # pyright: ignore[reportAttributeAccessIssue]  # on a device
        before = device.gpu.counters()
        for _ in range(3):
            x = f(x, y)
            assert x._data.address == where
        spent = device.gpu.counters().since(before)
        assert (spent.allocations, spent.frees) == (0, 0)
        np.testing.assert_array_equal(x.to_numpy(), np.full(shape, 22, "f4"))
    assert f.cache_info().compiles == 1


def test_a_donated_array_is_used_up(device: Device) -> None:
    f = dyn.jit(step, donate_argnums=0, shapes="n, n")
    x, y = (dyn.device_put(np.ones(3, "f4"), device.name) for _ in range(2))
    f(x, y)
    with pytest.raises(DonatedError, match="it was x of step"):
        x.to_numpy()
    assert y.tolist() == [1, 1, 1]


def test_memory_that_others_have_stays(device: Device) -> None:
    f = dyn.jit(step, donate_argnums=0, shapes="n, n")
    x = dyn.device_put(np.ones(3, "f4"), device.name)
    np.testing.assert_array_equal(f(x, x).to_numpy(), [3, 3, 3])  # it is another argument, too
    x, y = (dyn.device_put(np.ones(3, "f4"), device.name) for _ in range(2))
    other = dyn.device_put(StandIn(x))  # another library's, as far as anybody knows
    shared = StandIn(y)
    there = dyn.device_put(shared, device.name)
    np.testing.assert_array_equal(f(x, there).to_numpy(), [3, 3, 3])
    assert (other.tolist(), y.tolist()) == ([1, 1, 1], [1, 1, 1])
    held = dyn.device_put(np.ones(3, "f4"), device.name)
    reads = dyn.jit(lambda y: held + y)
    np.testing.assert_array_equal(reads(y).to_numpy(), [2, 2, 2])
    np.testing.assert_array_equal(f(held, y).to_numpy(), [3, 3, 3])
    np.testing.assert_array_equal(reads(y).to_numpy(), [2, 2, 2])
    context = context_of(device.name)
    with new_stream(device) as stream:
        far = device_memory.put(context, np.ones(3, "f4"), stream)
        near = dyn.device_put(np.ones(3, "f4"), device.name)
        made = dyn.jit(step, donate_argnums=1, shapes="n, n")(near, far)  # on the stream of the first
        np.testing.assert_array_equal(made.to_numpy(), [3, 3, 3])
        np.testing.assert_array_equal(far.to_numpy(), [1, 1, 1])
        del far, near, made


def test_updates_in_place(device: Device) -> None:
    f = dyn.jit(lambda x, i, v: x.at[i].set(v), donate_argnums=0)
    x = dyn.device_put(np.zeros(1000, "f4"), device.name)
    for i in range(3):
        x = f(x, dyn.device_put(np.int32(i), device.name), dyn.device_put(np.float32(i + 1), device.name))
    assert x[:4].tolist() == [1, 2, 3, 0]


def test_a_failed_call_says_what_may_be_lost(cuda: Device) -> None:
    f = dyn.jit(step, donate_argnums=0, shapes="n, n")
    x, y = (dyn.device_put(np.ones(3, "f4"), "cuda") for _ in range(2))
    f(dyn.device_put(np.ones(3, "f4"), "cuda"), y)
    cuda.gpu.fail(701, 1, VENDORS["cuda"].names["launch"])
    with pytest.raises(DeviceError) as caught:
        f(x, y)
    assert caught.value.__notes__[-1] == "what the donated x held may be lost: results were written there."
    assert x.shape == (3,), "it is not used up"
    caught.value.__traceback__ = None


@pytest.mark.parametrize(("shape", "shapes"), [((5000,), "n, n, n, n"), ((1,), "1, 1, 1, 1"), ((), None)])
def test_moments_and_weights_are_updated_where_they_are(
    device: Device, shape: tuple[int, ...], shapes: str | None
) -> None:
    """A step of Adam allocates nothing: the weights are computed of new moments, which take the old ones' memory.

    Of one element, which one thread stores, too.
    """

    def moments(m: Any, v: Any, w: Any, g: Any) -> Any:
        m, v = 0.9 * m + g, 0.99 * v + g * g
        return m, v, w - m / dnp.sqrt(v)

    size = int(np.prod(shape))
    given = [np.linspace(1, 2, size, dtype="f4").reshape(shape) + np.float32(n) for n in range(4)]
    wanted = dyn.jit(moments)(*given)
    f = dyn.jit(moments, donate_argnums=(0, 1, 2), shapes=shapes)
    m, v, w, g = (dyn.device_put(a, device.name) for a in given)
    where = [x._data.address for x in (m, v, w)]  # pyright: ignore[reportAttributeAccessIssue]  # on a device
    before = device.gpu.counters()
    found = f(m, v, w, g)
    spent = device.gpu.counters().since(before)
    assert (spent.allocations, spent.launches) == (0, 1)
    assert [x._data.address for x in found] == where
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.to_numpy(), np.asarray(theirs), rtol=1e-6)


def test_a_loop_updates_numbers_where_they_are(device: Device) -> None:
    """What a step computes of a carried number is computed of the old one, though the new one takes its memory."""

    def steps(c: Any, k: Any, xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            c = c * k + x
            return c, dnp.tanh(c)

        return dyn.lax.scan(body, c, xs)

    c, k, xs = (np.array(v, "f4") for v in (0.5, 0.9, [-1.0, 2.0, 0.25]))
    wanted = dyn.jit(steps)(c, k, xs)
    found = dyn.jit(steps, device=device.name)(c, k, xs)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.to_numpy(), np.asarray(theirs), rtol=1e-6)


@pytest.mark.parametrize(
    ("declared", "shape", "gradient"),
    [
        ("(), (), (), ()", (), ()),
        ("(), (), (), k", (), (700,)),
        ("n, n, n, n k", (5,), (5, 40)),
        ("n, n, n, n k", (3,), (3, 5000)),
    ],
)
def test_results_that_one_thread_stores(
    device: Device, declared: str, shape: tuple[int, ...], gradient: tuple[int, ...]
) -> None:
    """Numbers, and sums of rows: weights are computed of new moments once, not again of what was just stored."""

    def moments(m: Any, v: Any, w: Any, g: Any) -> Any:
        g = dnp.sum(g, axis=-1) if gradient != shape else g
        m, v = 0.9 * m + g, 0.99 * v + g * g
        return m, v, w - m / dnp.sqrt(v)

    rng = np.random.default_rng(0)
    given = [np.asarray(rng.random(size, "f4")) + 1 for size in (shape, shape, shape, gradient)]
    wanted = dyn.jit(moments, device=device.name)(*given)
    f = dyn.jit(moments, donate_argnums=(0, 1, 2), shapes=declared)
    found = f(*[dyn.device_put(a, device.name) for a in given])
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), theirs.to_numpy())
