"""Scatters in whole programs on the software GPU: the bits of updates one after the other, in arrays of their own, in
donated ones, and in those that loops carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.backends.deferred import finish
from tests.gpu.programs import Device
from tests.rarely import rarely
from tests.schedule.test_gpu_sorting import bits

#: Of the array and of the updates: each form with sizes at its edges.
SMALL = ((0, 1500), (1, 1500), (5, 0), (5, 2), (300, 1025), (9, 5000), (3000, 20000))
SIZES = (*SMALL, (70000, 0), (70000, 1), (70000, 33), (70000, 257))


def drawn(n: int, k: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(n + k)
    updates = (rng.standard_normal(k) * 10.0 ** rng.integers(-6, 6, k)).astype("f4")
    return rng.standard_normal(n).astype("f4"), rng.integers(-n - 2, n + 2, k), updates


def in_order(x: Any, places: Any, updates: Any) -> Any:
    """Updates added one after the other."""
    made = x.copy()
    places = np.where(places < 0, places + len(x), places)
    inside = (places >= 0) & (places < len(x))
    np.add.at(made, places[inside], updates[inside])
    return made


def test_every_size_with_one_compile(device: Device) -> None:
    f = dyn.jit(lambda x, i, u: x.at[i].add(u), device=device.name)
    for n, k in SIZES:
        arrays = drawn(n, k)
        there = [dyn.device_put(v, device.name) for v in arrays]
        with device.copying(0, 0):
            made = f(*there)
            made.block_until_ready()
        assert bits(made.to_numpy()) == bits(in_order(*arrays)), (n, k)
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("how", ["add", "set"])
def test_a_donated_array_is_updated(device: Device, how: str) -> None:
    """Its memory becomes the result's, and the copy is left out."""

    def step(x: Any, i: Any, u: Any) -> Any:
        return getattr(x.at[i], how)(u)

    f = dyn.jit(step, donate_argnums=0, shapes="n, k, k", device=device.name)
    for n, k in SIZES:
        x, places, updates = drawn(n, k)
        wanted = np.asarray(dyn.jit(step)(x, places, updates))
        there = dyn.device_put(x, device.name)
        where = there._data.address  # pyright: ignore[reportAttributeAccessIssue]  # on a device
        made = f(there, places, updates)
        assert bits(made.to_numpy()) == bits(wanted), (n, k)
        assert made._data.address == where or n == 0
    text = f.lower(*drawn(5, 2)).as_text("host")
    (copied,) = [line for line in text.splitlines() if "copied, in place" in line]
    assert copied.endswith("grid 0")


@pytest.mark.parametrize("device", ["cuda", rarely("rocm")], indirect=True)
def test_inside_of_programs(device: Device) -> None:
    """Loops that carry the array, branches, batches, gradients, sizes that are measured, and updates that read it."""
    x, places, updates = drawn(300, 1500)
    device.check(lambda x, i, u: lax.fori_loop(0, 3, lambda n, x: x.at[i + n].add(u) * 0.5, x), x, places, updates)
    device.check(lambda x, i, u: lax.fori_loop(0, 3, lambda n, x: x.at[i + n].set(u), x), x, places, updates)
    device.check(lambda x, i, u: lax.cond(x[0] > 0, lambda: x.at[i].add(u), lambda: x.at[i].max(u)), x, places, updates)
    device.check(dyn.vmap(lambda x, i: x.at[i].add(x[0]), in_axes=(None, 0)), x, places.reshape(3, 500))
    device.check(dyn.grad(lambda x, i: dnp.sum(x[i] ** 2)), x, places)
    device.check(lambda x, i: x.at[dnp.nonzero(x > 0)[0]].add(x[i][0]), x, places)
    device.check(lambda x, i: x.at[i].add(x[i[::-1]]) + x.at[i].set(x[i]), x, places)


def test_a_table_of_embeddings_learns(device: Device) -> None:
    """Twice with something changed in between, and by code that is made while others run."""
    rng = np.random.default_rng(0)

    def step(table: Any, ids: Any) -> Any:
        return table - 0.1 * dyn.grad(lambda t: dnp.sum(t[ids] ** 2))(table)

    table = rng.standard_normal((700, 100)).astype("f4")
    on_device, here = dyn.jit(step, device=device.name), dyn.jit(step)
    for count in (300, 1, 1500):
        ids = rng.integers(0, 700, count)
        made, wanted = on_device(table, ids), here(table, ids)
        np.testing.assert_array_equal(made.to_numpy(), np.asarray(wanted))
        table = np.asarray(wanted)


def test_until_several_launches_are_made_one_does_the_same(device: Device) -> None:
    with dyn.config.override(variants="background"):
        f = dyn.jit(lambda x, i, u: x.at[i].add(u), device=device.name)
        arrays = drawn(9, 5000)
        first = f(*arrays).to_numpy()
        finish()
        assert bits(first) == bits(f(*arrays).to_numpy()) == bits(in_order(*arrays))
