"""Targets: the machines that code is generated for.

A :class:`Target` is plain data, so that code can be generated for a machine that is not here: lowering reads it, a
backend compiles for it, and it is part of every cache key.
"""

from __future__ import annotations

from dyn.frozen import record


@record()
class Target:
    """A family of machines and one member of it.

    ``family`` is ``"x86"``, ``"cuda"``, ``"rocm"`` or ``"reference"``. ``arch`` is the toolchain's name of the member:
    an LLVM CPU (``"znver4"``, ``"x86-64-v3"``), ``"sm_90a"``, ``"gfx90a"``. ``vector_bytes`` is the width of an x86
    vector register (16, 32 or 64), ``registers`` their number, ``warp`` the lanes of a GPU's warp or wavefront.
    """

    family: str
    arch: str
    features: str = ""
    vector_bytes: int = 0
    registers: int = 0
    warp: int = 0

    def lanes(self, itemsize: int) -> int:
        """Number of elements of ``itemsize`` bytes in a vector register."""
        return max(self.vector_bytes // itemsize, 1)

    def __str__(self) -> str:
        return f"{self.family}:{self.arch}"
