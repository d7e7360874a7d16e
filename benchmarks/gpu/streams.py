"""A stream of shapes of a model on a GPU: by dyn, and by PyTorch where it was built for the device."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import dyn
from benchmarks.gpu.device import MeasuredDevice
from benchmarks.gpu.families import FAMILIES, Config, Family, weights
from benchmarks.gpu.namespaces import DynOps, TorchOps
from dyn import tree

#: A model of a device: takes inputs of NumPy's there, and makes calls with what that gave.
Array = np.ndarray[Any, Any]


@dataclass
class StreamRun:
    """What one framework did with a stream: seconds of its first touch, of a call at each shape, kernels of a call."""

    first: float = 0.0
    launches: int = 0
    difference: float = 0.0
    compiles: int | None = None
    steady: list[float] = field(default_factory=list[float])


@dataclass(frozen=True)
class Stream:
    """A family of models, and what was measured of it, by framework."""

    name: str
    runs: dict[str, StreamRun]

    def seconds(self, who: str) -> float:
        """Time of all shapes, each once, warm."""
        return sum(self.runs[who].steady)

    def as_data(self) -> dict[str, Any]:
        return {who: dataclasses.asdict(run) for who, run in self.runs.items()}


class Peer:
    """A framework on a device: makes a model of a family, which takes what :meth:`put` gives."""

    def model(self, family: Family, config: Config, params: Any) -> Callable[..., Any]:
        raise NotImplementedError

    def put(self, array: Array) -> Any:
        raise NotImplementedError

    def read(self, result: Any) -> Array:
        raise NotImplementedError

    def launches(self, call: Callable[[], object]) -> int:
        raise NotImplementedError

    def compiles(self, model: Callable[..., Any]) -> int | None:
        """How many programs were compiled, where the framework tells."""
        return None


class DynPeer(Peer):
    def __init__(self, device: MeasuredDevice) -> None:
        self._device = device

    def model(self, family: Family, config: Config, params: Any) -> Callable[..., Any]:
        there = tree.map(self._device.put, params)
        return dyn.jit(functools.partial(family.run, DynOps(), config, there))

    def put(self, array: Array) -> Any:
        return self._device.put(array)

    def read(self, result: Any) -> Array:
        return result.to_numpy()

    def launches(self, call: Callable[[], object]) -> int:
        return self._device.launches(call)

    def compiles(self, model: Callable[..., Any]) -> int | None:
        jitted: Any = model
        return jitted.cache_info().compiles


class TorchPeer(Peer):
    """PyTorch, eagerly or with ``torch.compile(dynamic=True)``."""

    def __init__(self, torch: Any, device: MeasuredDevice, *, compiled: bool) -> None:
        self._torch, self._compiled = torch, compiled
        self._device = torch.device("cuda", device.context.ordinal)

    def model(self, family: Family, config: Config, params: Any) -> Callable[..., Any]:
        run = functools.partial(family.run, TorchOps(self._torch), config, tree.map(self.put, params))
        plain = self._torch.inference_mode()(run)
        return self._torch.compile(plain, dynamic=True) if self._compiled else plain

    def put(self, array: Array) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def read(self, result: Any) -> Array:
        return result.cpu().numpy()

    def launches(self, call: Callable[[], object]) -> int:
        profiler = self._torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            call()
            self._torch.cuda.synchronize(self._device)
        kind = self._torch.autograd.DeviceType.CUDA
        return sum(event.count for event in profile.key_averages() if event.device_type == kind)


def peers_of(device: MeasuredDevice, names: Sequence[str]) -> dict[str, Peer]:
    """Who runs on a device: dyn, and those of ``names`` that this PyTorch was built for."""
    for name in names:
        if name not in ("torch", "torchcompile"):
            raise ValueError(f"there is no peer {name!r} on GPUs; there are torch, torchcompile.")
    peers: dict[str, Peer] = {"dyn": DynPeer(device)}
    torch = None
    if names:
        try:
            torch: Any = importlib.import_module("torch")
        except ImportError:
            return peers
    if torch is None or not torch.cuda.is_available():
        return peers
    if ("cuda" if torch.version.hip is None else "rocm") != device.context.driver.vendor.family:
        return peers
    return peers | {name: TorchPeer(torch, device, compiled=name == "torchcompile") for name in names}


def measure_stream(
    device: MeasuredDevice, name: str, config: Config, peers: Mapping[str, Peer], arguments: argparse.Namespace
) -> Stream:
    """Let all serve the same shapes: the first touch of each, then warm calls in turns."""
    family, rng = FAMILIES[name], np.random.default_rng(arguments.seed)
    params = weights(family, config, arguments.seed)
    requests = [family.draw(rng, config) for _ in range(arguments.shapes)]
    reference = dyn.jit(functools.partial(family.run, DynOps(), config, tree.map(dyn.asarray, params)))
    wanted = np.asarray(reference(*requests[0]))
    runs = {who: StreamRun() for who in peers}
    models = {who: peer.model(family, config, params) for who, peer in peers.items()}
    for who, peer in peers.items():
        for number, request in enumerate(requests):
            inputs = [peer.put(array) for array in request]
            start = time.perf_counter()
            result = models[who](*inputs)
            device.context.synchronize(0)
            runs[who].first += time.perf_counter() - start
            if not number:
                runs[who].difference = float(np.abs(peer.read(result) - wanted).max(initial=0))
                runs[who].launches = peer.launches(lambda: models[who](*inputs))  # noqa: B023  # called at once
    for request in requests:
        for who, peer in peers.items():
            inputs = [peer.put(array) for array in request]
            models[who](*inputs)
            call = functools.partial(models[who], *inputs)
            runs[who].steady.append(max(device.seconds(call, arguments.calls, arguments.repeats), 1e-12))
    for who, peer in peers.items():
        runs[who].compiles = peer.compiles(models[who])
    return Stream(name, runs)
