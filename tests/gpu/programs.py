"""Whole programs on the software GPU: which family's, and how they are compared."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import tree
from dyn.backends import families
from dyn.backends.base import ObjectBackend
from dyn.backends.gpu import GpuBackend
from dyn.backends.host_and_device import PlacedBackend
from dyn.runtime import driver
from dyn.runtime.device_memory import parse_device
from dyn.runtime.staging import staging
from dyn.runtime.vendors import VENDORS, Vendor
from dyn.schedule.target import Target
from tests.gpu.compilers import SoftwareCudaBackend
from tests.gpu.software import SoftwareGpu


class Compiler(SoftwareCudaBackend):
    """The stand-in for NVRTC, whose modules no cache takes for NVRTC's."""

    @property
    def toolchain(self) -> str:
        return "software GPU"


@dataclass(frozen=True)
class Device:
    """A GPU by the name that programs have for it: a software one, or with ``--device`` one of this machine's."""

    name: str
    software: SoftwareGpu | None

    @property
    def gpu(self) -> SoftwareGpu:
        """The software GPU; a test that asks for it, to count or to let something fail, ends here on a real one."""
        if self.software is None:
            pytest.skip("a real GPU counts nothing, and fails when it likes")
        return self.software

    @contextmanager
    def copying(self, into: int, out: int) -> Iterator[None]:
        """Assert that so many arrays are copied to the device and back; on a real one nobody counts."""
        if self.software is None:
            yield
            return
        before = self.software.counters()
        yield
        spent = self.software.counters().since(before)
        assert (spent.copies_in, spent.copies_out) == (into, out)

    def check(self, function: Callable[..., Any], *arguments: Any, rtol: float = 1e-5) -> Any:
        """Compare a function's results on the device with those on the processor; gives the former."""
        wanted = dyn.jit(function)(*arguments)
        found = dyn.jit(function, device=self.name)(*arguments)
        leaves = zip(tree.leaves(wanted), tree.leaves(found), strict=True)
        for one, other in leaves:
            assert other.device == self.name
            np.testing.assert_allclose(other.to_numpy(), np.asarray(one), rtol=rtol, atol=1e-6)
        return found


def on_device(name: str, gpu: SoftwareGpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A device for one test, which leaves no memory behind."""

    def backend(target: Target, ordinal: int) -> ObjectBackend:
        return PlacedBackend(GpuBackend(Compiler(target), ordinal), families.host_backend())

    known = families.FAMILIES["cuda"]
    monkeypatch.setattr(families, "FAMILIES", {**families.FAMILIES, "cuda": replace(known, backend=backend)})
    load = driver._load

    def library(vendor: Vendor, named: str | None) -> ctypes.CDLL:
        """The software GPU's, though this process may have the vendor's own."""
        return ctypes.CDLL(gpu.library._name) if vendor.family == gpu.family else load(vendor, named)

    monkeypatch.setattr(driver, "_load", library)
    driver.driver_of.cache_clear()
    yield Device(name, gpu)
    gc.collect()
    driver.context_of(name).synchronize(0)
    for context in driver.driver_of(name)._contexts.values():
        staging(context).release()
    driver.driver_of.cache_clear()


def on_real_device(name: str) -> Iterator[Device]:
    """A GPU of this machine, for one test."""
    yield Device(name, None)
    gc.collect()
    driver.context_of(*parse_device(name) or ("", 0)).synchronize(0)


def names(device: Device) -> Mapping[str, str]:
    """The vendor's names of the driver's functions, as ``gpu.calls`` takes them."""
    found = VENDORS[device.name.partition(":")[0]].names
    return {name: own.removesuffix("_v2") for name, own in found.items()}


@contextmanager
def new_stream(device: Device) -> Iterator[int]:
    """A stream that the default one does not wait for; its work is done at the end."""
    context, stream = driver.context_of(device.name), ctypes.c_void_p()
    create, destroy = {
        "cuda": ("cuStreamCreate", "cuStreamDestroy_v2"), "rocm": ("hipStreamCreateWithFlags", "hipStreamDestroy")
    }[device.gpu.family]  # fmt: skip
    with context.current():
        assert getattr(device.gpu.library, create)(ctypes.byref(stream), 1) == 0
    try:
        yield stream.value or 0
    finally:
        gc.collect()
        context.synchronize(stream.value or 0)
        with context.current():
            assert getattr(device.gpu.library, destroy)(stream) == 0
