"""A fresh software GPU of each kind, for the tests of the software GPU itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tests.gpu import kernels
from tests.gpu.calls import Calls
from tests.gpu.software import SoftwareGpu

Array = np.ndarray[Any, Any]
KINDS = {"cuda": ("cuda", 0x90), "hip32": ("rocm", 0x1030), "hip64": ("rocm", 0x90A)}
N = 100


class Machine(Calls):
    """A driver, and the kernels of ``kernels.py`` on its device 0."""

    def __init__(self, kind: str, **options: int) -> None:
        family, arch = KINDS[kind]
        super().__init__(SoftwareGpu.private(family, arch=arch, **options))
        self.warp = kernels.WARPS[kind]
        self.kernel: Callable[[str], int] = cache(lambda name: self.function(kernels.image(self.warp), name))

    def given(self, array: Array) -> int:
        """Memory with a copy of an array."""
        address = self.alloc(array.nbytes)
        self.copy_in(address, array)
        return address

    def floats(self, address: int, stream: int | None = None) -> Array:
        """What N floats are now."""
        array = np.zeros(N, np.float32)
        self.copy_out(array, address, stream)
        return array
