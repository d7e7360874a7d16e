"""``device=`` of functions that make arrays, and arrays on two devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, InvalidValueError
from tests.gpu.programs import Device
from tests.gpu.test_arrays import StandIn


def test_arrays_are_made_there(device: Device) -> None:
    name = device.name
    before = device.gpu.counters()
    made = [
        (dnp.zeros((2, 3), device=name), np.zeros((2, 3), "f4")),
        (dnp.ones(3, dtype="i4", device=name), np.ones(3, "i4")),
        (dnp.empty(0, device=name), np.zeros(0, "f4")),
        (dnp.full((1, 2), 7.5, device=name), np.full((1, 2), 7.5, "f4")),
        (dnp.arange(5, device=name), np.arange(5)),
        (dnp.linspace(0, 1, 5, device=name), np.linspace(0, 1, 5, dtype="f4")),
        (dnp.eye(3, device=name), np.eye(3, dtype="f4")),
    ]
    assert device.gpu.counters().since(before).copies_out == 0
    for found, wanted in made:
        assert (found.device, found.dtype) == (name, wanted.dtype)
        np.testing.assert_allclose(found.to_numpy(), wanted)
    again = device.gpu.counters()
    assert dnp.zeros((4, 1), device=name).tolist() == [[0], [0], [0], [0]]
    assert device.gpu.counters().since(again).modules == 0, "one program for all sizes"
    assert dnp.zeros(2).device == dnp.zeros(2, device="cpu").device == "cpu"


def test_arrays_like_others(device: Device) -> None:
    name, x = device.name, np.ones((2, 3), "f4")
    there = dyn.device_put(x, name)
    assert (dnp.zeros_like(there).device, dnp.full_like(there, 3).to_numpy().sum()) == (name, 18)
    for found in (
        dnp.ones_like(x, device=name),
        dnp.ones_like(there, device=name),
        dnp.astype(there, "f4", device=name),
    ):
        assert found.device == name
        np.testing.assert_array_equal(found.to_numpy(), x)
    back = dnp.zeros_like(there, device="cpu")
    assert (type(back), back.device) == (dyn.Array, "cpu")


def test_asarray(device: Device) -> None:
    name, x = device.name, np.arange(3, dtype="f4")
    there = dnp.asarray(x, device=name)
    x[:] = 7
    assert (there.device, there.tolist()) == (name, [0, 1, 2])
    assert dnp.asarray(there) is there
    assert dnp.asarray(there, device=name) is there
    assert dnp.asarray([1, 2], device=name).tolist() == [1, 2]
    assert dnp.asarray(there, "i8").device == name
    back = dnp.asarray(there, device="cpu")
    assert (back.device, back.tolist()) == ("cpu", [0, 1, 2])
    with pytest.raises(InvalidValueError, match="copy is False"):
        dnp.asarray(x, device=name, copy=False)
    before = device.gpu.counters()
    copy, same = dnp.from_dlpack(StandIn(there)), dnp.from_dlpack(StandIn(there), copy=False)
    spent = device.gpu.counters().since(before)
    assert (spent.copies_in, spent.copies_out, spent.copies_within) == (0, 0, 1)
    assert (copy.device, same.device) == (name, name)
    np.testing.assert_array_equal(copy.to_numpy(), same.to_numpy())
    assert dnp.asarray(there, copy=True).tolist() == [0, 1, 2]
    assert dnp.__array_namespace_info__().devices() == [str(one) for one in dyn.devices()]


def test_bad_devices(cuda: Device) -> None:
    with pytest.raises(ArgumentError, match="there is no device 'abacus'"):
        dnp.zeros(3, device="abacus")
    f: Any = dyn.jit(lambda x: x + dnp.zeros(3, device="cuda"), device="cuda")
    with pytest.raises(ArgumentError, match="whose arrays are all where it runs"):
        f(np.ones(3, "f4"))
    there = dyn.device_put(np.ones(3, "f4"), "cuda")
    with pytest.raises(ArgumentError, match=r"add\(\): x is on cuda, and y is in this machine's memory"):
        dnp.add(there, dnp.ones(3))
    other = dyn.device_put(np.ones(3, "f4"), "cuda:1")
    for wrong in (lambda: there + other, lambda: dnp.concat([there, other]), lambda: dyn.jit(dnp.add)(there, other)):
        with pytest.raises(ArgumentError, match=r"\(\): .* is on cuda, and .* is on cuda:1\."):
            wrong()


def test_arrays_of_libraries_without_the_device(device: Device) -> None:
    """PyTorch and JAX, which were built for the processor alone here, have no arrays where the results are."""
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    f = dyn.jit(lambda x: x + 1, device=device.name)
    for given in (torch.ones(3), jnp.ones(3)):
        found = f(given)
        assert (type(found), found.device, found.tolist()) == (dyn.Array, device.name, [2, 2, 2])
