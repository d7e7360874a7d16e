"""Fixtures that let tests run on the software GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.gpu import compilers
from tests.gpu.machines import KINDS, Machine
from tests.gpu.programs import Device, on_device, on_real_device
from tests.gpu.software import SoftwareGpu


@pytest.fixture
def software_cuda(
    require_tool: Callable[..., str], require_module: Callable[[str], ModuleType]
) -> Iterator[SoftwareGpu]:
    """NVIDIA's driver with a software GPU, for this test; fails the test for misuse that it finds."""
    require_tool("g++")
    require_module("cuda.bindings.driver")
    yield from _watched("cuda")


@pytest.fixture
def software_rocm(
    require_tool: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SoftwareGpu]:
    """AMD's runtime with a software GPU, and a ``hipcc`` that compiles for it, for this test."""
    require_tool("g++")
    require_tool("hipcc")  # its headers
    compilers.install_hipcc(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    yield from _watched("rocm")


@pytest.fixture(params=KINDS)
def new_machine(
    request: pytest.FixtureRequest, require_tool: Callable[..., str], require_module: Callable[[str], ModuleType]
) -> Iterator[Callable[..., Machine]]:
    """Makes fresh drivers of a kind, with options, that nobody else finds."""
    require_tool("g++")
    if request.param == "cuda":  # the vendors' headers
        require_module("cuda.pathfinder")
    else:
        require_tool("hipcc")
    made: list[Machine] = []

    def make(**options: int) -> Machine:
        made.append(Machine(request.param, **options))
        return made[-1]

    yield make
    for machine in made:
        machine.gpu.close()


@pytest.fixture
def machine(new_machine: Callable[..., Machine]) -> Machine:
    return new_machine()


def _watched(family: str) -> Iterator[SoftwareGpu]:
    gpu = SoftwareGpu.shared(family)
    gpu.set(hidden=0, eager=0, hollow=0, seed=1)
    gpu.problems()
    before = gpu.counters()
    yield gpu
    gpu.fail(0, 0)
    problems, leaked = gpu.problems(), gpu.counters().since(before).live_allocations
    gpu.set(hidden=1)
    assert not problems, "\n".join(problems)
    assert leaked <= 0, f"{leaked} allocations are left:\n" + "\n".join(gpu.leaks()[-leaked:])


def _device(family: str, request: pytest.FixtureRequest) -> Iterator[Device]:
    """The software GPU of a family, or the real one that the tests are run on if it is of that family."""
    real = str(request.config.getoption("--device"))
    if not real:
        gpu: SoftwareGpu = request.getfixturevalue(f"software_{family}")
        yield from on_device(family, gpu, request.getfixturevalue("monkeypatch"))
    elif real.partition(":")[0] == family:
        yield from on_real_device(real)
    else:
        pytest.skip(f"{real} is the device")


@pytest.fixture(params=["cuda", "rocm"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A GPU of each family, on which whole programs run."""
    yield from _device(request.param, request)


@pytest.fixture
def cuda(request: pytest.FixtureRequest) -> Iterator[Device]:
    """NVIDIA's GPU, on which whole programs run."""
    yield from _device("cuda", request)
