"""The software GPU as tests see it: a driver that is loaded where programs look for the real one.

``SoftwareGpu.shared("cuda")`` is what product code and ``cuda.bindings`` find in this process, for as long as it lives;
``SoftwareGpu.private("cuda")`` is a driver of its own, called through ``.library`` alone.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import tempfile
from dataclasses import dataclass, fields

from tests.gpu import build


@dataclass(frozen=True, slots=True)
class Counters:
    """What a driver has done so far, and what there is now (``live_…``); ``bytes`` are those allocated now."""

    launches: int
    allocations: int
    frees: int
    bytes: int
    peak_bytes: int
    copies_in: int
    copies_out: int
    copies_within: int
    copied_bytes: int
    memsets: int
    host_functions: int
    synchronizations: int
    modules: int
    live_allocations: int
    live_streams: int
    live_events: int
    live_modules: int
    problems: int

    def since(self, before: Counters) -> Counters:
        """How much more than ``before``."""
        return Counters(*[getattr(self, f.name) - getattr(before, f.name) for f in fields(self)])


class SoftwareGpu:
    """A driver of some software GPUs.

    Options, for ``set``: ``devices`` and ``arch`` (0x90 for sm_90, 0x90a for gfx90a) before the driver is initialised;
    ``memory`` of a device in bytes; ``seed`` of all that is random, 0 for none; ``milliseconds`` that a launch may take
    ``eager``: operations run when they are queued, not when somebody waits; ``depth`` of a queue, before its older half
    runs; ``hollow``: launches are counted and not run; ``hidden``: who initialises the driver finds no device.
    """

    def __init__(self, family: str, library: ctypes.CDLL) -> None:
        self.family, self.library = family, library
        library.software_gpu_program(str(build.server()).encode())
        library.software_gpu_calls.restype = ctypes.c_uint64
        library.software_gpu_problems.restype = library.software_gpu_leaks.restype = ctypes.c_size_t

    @classmethod
    def shared(cls, family: str) -> SoftwareGpu:
        """The one driver of the process, of two devices, built and loaded by the first call."""
        return _shared(family)

    @classmethod
    def private(cls, family: str, **options: int) -> SoftwareGpu:
        """A new driver, with nothing in it, that nobody else finds."""
        with tempfile.TemporaryDirectory() as folder:  # another file is another library to the loader
            copy = shutil.copy2(build.driver(family).with_name(build.PRIVATE), folder)
            gpu = cls(family, ctypes.CDLL(copy, ctypes.RTLD_LOCAL))
        gpu.set(**options)
        return gpu

    def close(self) -> None:
        """End a private driver's GPUs."""
        self.library.software_gpu_stop()

    def set(self, **options: int) -> None:
        for name, value in options.items():
            if not self.library.software_gpu_set(name.encode(), ctypes.c_uint64(value)):
                raise ValueError(f"a software GPU has no option {name}")

    def counters(self) -> Counters:
        values = (ctypes.c_uint64 * len(fields(Counters)))()
        self.library.software_gpu_counters(values)
        return Counters(*values)

    def calls(self, name: str = "") -> int:
        """How often a function of the driver was called; any, without a name."""
        return self.library.software_gpu_calls(name.encode())

    def fail(self, status: int, nth: int = 1, name: str = "") -> None:
        """Let the ``nth`` call from now, of all or of a function's, answer ``status``; ``nth=0`` takes it back."""
        self.library.software_gpu_fail(name.encode(), ctypes.c_uint64(nth), ctypes.c_int(status))

    def problems(self) -> list[str]:
        """The misuse that was found since this was last asked."""
        return self._lines(self.library.software_gpu_problems)

    def leaks(self) -> list[str]:
        """What is allocated now."""
        return self._lines(self.library.software_gpu_leaks)

    def _lines(self, function: object) -> list[str]:
        assert callable(function)
        buffer = ctypes.create_string_buffer(1 << 20)
        function(buffer, ctypes.c_size_t(len(buffer)))
        return buffer.value.decode(errors="replace").splitlines()


def environment(family: str, **options: int) -> dict[str, str]:
    """What another process needs in its environment to find the driver, and how that is set."""
    return {
        "LD_LIBRARY_PATH": str(build.driver(family).parent),
        "SOFTWARE_GPU_PROGRAM": str(build.server()),
        "SOFTWARE_GPU_OPTIONS": ",".join([f"{name}={value}" for name, value in options.items()]),
    }


@functools.cache
def _shared(family: str) -> SoftwareGpu:
    gpu = SoftwareGpu(family, ctypes.CDLL(str(build.driver(family)), ctypes.RTLD_GLOBAL))
    gpu.set(devices=2)
    return gpu
