"""Targets: the machines that code is generated for.

A :class:`Target` is plain data, so that code can be generated for a machine that is not here: lowering reads it, a
backend compiles for it, and it is part of every cache key.
"""

from __future__ import annotations

from functools import lru_cache

from dyn.frozen import record

#: The features that x86 vectors of so many bytes are taken to have, where a target names none.
_IMPLIED = {
    64: frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx2", "fma", "f16c"}),
    32: frozenset({"avx2", "fma", "f16c"}),
}


@record()
class Target:
    """A family of machines and one member of it.

    ``family`` is ``"x86"``, ``"cuda"``, ``"rocm"`` or ``"reference"``. ``arch`` is the toolchain's name of the member:
    an LLVM CPU (``"znver4"``, ``"x86-64-v3"``), ``"sm_90a"``, ``"gfx90a"``. ``vector_bytes`` is the width of an x86
    vector register (16, 32 or 64), ``registers`` their number, ``warp`` the lanes of a GPU's warp or wavefront. A
    ``batch_invariant`` one adds up products in an order that does not depend on how many rows there are.
    """

    family: str
    arch: str
    features: str = ""
    vector_bytes: int = 0
    registers: int = 0
    warp: int = 0
    batch_invariant: bool = False

    def lanes(self, itemsize: int) -> int:
        """Number of elements of ``itemsize`` bytes in a vector register."""
        return max(self.vector_bytes // itemsize, 1)

    @property
    def avx512(self) -> bool:
        """Whether there are 512-bit vectors with the instructions for all elements, and masks in registers."""
        return self.vector_bytes == 64 and all(self.has(name) for name in _IMPLIED[64])

    def has(self, feature: str) -> bool:
        """Whether an x86 processor has a feature, by LLVM's name of it: ``"avx512vnni"``."""
        if not self.features:
            return feature in _IMPLIED.get(self.vector_bytes, ())
        return feature in _named(self.features)

    def __str__(self) -> str:
        return f"{self.family}:{self.arch}"


@lru_cache(maxsize=64)
def _named(features: str) -> frozenset[str]:
    return frozenset([feature[1:] for feature in features.split(",") if feature.startswith("+")])
