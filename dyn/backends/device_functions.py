"""Functions of GPUs' runtime tables, and of the rings through which arrays go there, compiled once a process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from dyn.backends.base import Effort, Source
from dyn.backends.families import host_backend
from dyn.backends.programs import build_own
from dyn.fork_safety import lock
from dyn.runtime.loading import load_modules

_lock = lock()


def _device_source() -> Source:
    load_modules("dyn.runtime.device")  # a process that finds the object does without
    from dyn.runtime.device import SYMBOLS, device_text

    return Source(device_text(), SYMBOLS, Effort.PROMOTE)


_SYMBOLS = (
    "dyn_device_launch", "dyn_device_alloc", "dyn_device_free", "dyn_device_output", "dyn_device_fetch",
    "dyn_device_stage", "dyn_staging_copy",
)  # fmt: skip


def device_functions() -> Mapping[str, int]:
    """The functions of ``dyn.runtime.device`` and ``dyn.runtime.staging``, by symbol."""
    with _lock:
        return _loaded_functions()


@lru_cache(maxsize=1)
def _loaded_functions() -> Mapping[str, int]:
    backend = host_backend()
    code = backend.load(build_own(backend, "device", _device_source).binary)
    return {symbol: code.address(symbol) for symbol in _SYMBOLS}


def staging_copier() -> int:
    """The address of ``dyn_staging_copy``."""
    return device_functions()["dyn_staging_copy"]
