"""Compiles generated GPU text with g++ and the shim header, and runs its kernels on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.lower.gpu.dialect import Dialect
from dyn.lower.gpu.emit import GpuKernelText
from tests.shim import unit


class ShimLaunch(ctypes.Structure):
    """A launch, as ``abi.h`` has it."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_size_t),
        ("seed", ctypes.c_uint64), ("args", ctypes.POINTER(ctypes.c_void_p)), ("error", ctypes.c_char_p),
        ("error_size", ctypes.c_size_t),
    )  # fmt: skip


class ShimError(Exception):
    """What a launch did wrong: a divergent barrier, shared memory overrun, a race."""


class ShimModule:
    """Kernels of one dialect in one translation unit, compiled once for warps of ``warp`` lanes."""

    def __init__(
        self, texts: Sequence[GpuKernelText], dialect: Dialect, warp: int = 32, *, races: bool = False
    ) -> None:
        self.dialect, self.warp = dialect, warp
        self.symbols = tuple([text.symbol for text in texts])
        self._path = unit.build([(text.symbol, text.text) for text in texts], warp, races=races)
        self._library = ctypes.CDLL(str(self._path))

    def run(
        self,
        symbol: str,
        arrays: Sequence[np.ndarray[Any, Any]],
        dims: Sequence[int],
        grid: int,
        block: int,
        shared_bytes: int,
        order_seed: int = 0,
    ) -> None:
        """Launch a kernel. ``arrays`` are its buffers, which it reads and writes in place; ``order_seed`` 0 resumes
        the threads in order, any other in an order drawn from it. Raises ShimError for what would hang or corrupt."""
        assert all(array.flags.c_contiguous for array in arrays)
        words = [array.ctypes.data for array in arrays] + [dim & (1 << 64) - 1 for dim in dims]
        values = (ctypes.c_uint64 * max(len(words), 1))(*words)
        args = (ctypes.c_void_p * len(values))(*[ctypes.addressof(values) + 8 * i for i in range(len(values))])
        error = ctypes.create_string_buffer(512)
        launch = ShimLaunch(
            (grid, 1, 1), (block, 1, 1), shared_bytes, order_seed, args, ctypes.cast(error, ctypes.c_char_p), len(error)
        )
        address = ctypes.c_size_t.in_dll(self._library, f"shim_kernel_{symbol}").value  # what it begins with
        ctypes.CFUNCTYPE(None, ctypes.POINTER(ShimLaunch))(address)(ctypes.byref(launch))
        if error.value:
            raise ShimError(f"{symbol}, {unit.with_lines(error.value.decode(), self._path)}")
