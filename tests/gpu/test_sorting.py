"""Sorts in whole programs on the software GPU: the processor's results, with nothing copied to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from tests.gpu.programs import Device
from tests.rarely import rarely
from tests.schedule.test_gpu_sorting import bits

SIZES = (0, 1, 2, 31, 32, 33, 257, 4096, 5000, 70000)


def numbers(size: int) -> Any:
    """Floats: many equal ones, NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(size)
    odd = rng.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0], "f4"), size)
    return np.where(rng.random(size) < 0.3, odd, rng.standard_normal(size).astype("f4"))


def test_every_size_with_one_compile(device: Device) -> None:
    def f(x: Any, y: Any) -> Any:
        return dnp.sort(x), dnp.argsort(x, descending=True), lax.sort((y, x, y * 2), num_keys=2)

    on_device, here = dyn.jit(f, device=device.name), dyn.jit(f)
    for size in SIZES:
        x = numbers(size)
        y = (np.arange(size) * 7 % 11).astype("i4")
        there = [dyn.device_put(v, device.name) for v in (x, y)]
        with device.copying(0, 0):
            made = on_device(*there)
            made[0].block_until_ready()
        for one, other in zip(dyn.tree.leaves(made), dyn.tree.leaves(here(x, y)), strict=True):
            assert bits(one.to_numpy()) == bits(np.asarray(other)), size
    assert on_device.cache_info().compiles == 1
    assert "on the host" not in str(on_device.explain())


def test_greatest_elements(device: Device) -> None:
    def f(x: Any) -> Any:
        return lax.top_k(x, 5)

    on_device, here = dyn.jit(f, device=device.name), dyn.jit(f)
    for size in (5, 33, 257, 5000, 70000):
        x = numbers(2 * size).reshape(2, size)
        for one, other in zip(on_device(x), here(x), strict=True):
            assert bits(one.to_numpy()) == bits(np.asarray(other)), size


@pytest.mark.parametrize("device", [rarely("cuda"), "rocm"], indirect=True)
def test_inside_of_programs(device: Device) -> None:
    """Sizes that are measured, regions, batches, memory that is used again, and sorts that are alike."""
    x = numbers(90)
    device.check(lambda x: dnp.sort(dnp.nonzero(x > 0)[0] * -2), x)
    device.check(lambda x: lax.cond(dnp.nansum(x[:3]) > 0, dnp.sort, lambda x: dnp.sort(-x), x), x)
    device.check(lambda x: lax.fori_loop(0, 3, lambda _, x: dnp.sort(x)[::-1] * 2, x), x)
    device.check(dyn.vmap(dnp.sort), x.reshape(9, 10))
    device.check(lambda x: dnp.sort(dnp.argsort(dnp.sort(x * 2)) + dnp.argsort(x)), x)


def test_a_comparator_of_any_kind_runs_in_kernels(device: Device) -> None:
    """Sums are no keys: loops of kernels call it."""

    def f(x: Any, y: Any) -> Any:
        return lax.sort_by((x, y), lambda a, b, c, d: a + d < b + c)

    x, y = (np.arange(19.0) * k % 7 for k in (3, 5))
    device.check(f, x, y)
    told = dyn.jit(f, device=device.name)
    told(x, y)
    assert "on the host" not in str(told.explain())


def test_rows_of_more_elements_than_places_count(cuda: Device) -> None:
    text = dyn.jit(dnp.sort, device="cuda").lower(numbers(4)).as_text("host")
    assert "check 0: 4294967295 >= x_0" in text
