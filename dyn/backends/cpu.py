"""Fingerprint of this processor, asked of the processor itself.

LLVM derives a CPU's name and features from the ``cpuid`` instruction. The same answers, hashed, say whether two
machines are the same to LLVM, in microseconds and without loading it: a folder of compiled code may be shared by
machines of different kinds. /proc/cpuinfo would not do: an old kernel does not list what a new processor has.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from functools import lru_cache

from dyn.backends.elf import UnsupportedObject, map_code

#: void (u32 leaf, u32 subleaf, u32 answer[4]): push rbx; mov r8, rdx; mov eax, edi; mov ecx, esi; cpuid;
#: mov [r8], eax; mov [r8+4], ebx; mov [r8+8], ecx; mov [r8+12], edx; pop rbx; ret
_CPUID = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
#: u64 (void): xor ecx, ecx; xgetbv; shl rdx, 32; or rax, rdx; ret. Which registers the system saves.
_XGETBV = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")
_OSXSAVE = 1 << 27
#: The leaves that describe features (Intel's manual, volume 2A, CPUID; AMD's, volume 3, appendix E), where they exist.
_LEAVES = (
    (0x1, 0), (0x7, 0), (0x7, 1), (0x7, 2), (0xD, 1), (0x14, 0), (0x19, 0), (0x1D, 0), (0x1E, 0), (0x1E, 1), (0x21, 0),
    (0x24, 0), (0x29, 0), (0x80000001, 0), (0x80000007, 0), (0x80000008, 0), (0x8000000A, 0), (0x80000021, 0),
)  # fmt: skip


@lru_cache(maxsize=1)
def cpu_fingerprint() -> str | None:
    """Hex digits that are equal on processors with equal features; None where they cannot be asked for."""
    if os.uname().machine != "x86_64":
        return None
    try:
        code = map_code(_CPUID + _XGETBV)
    except (UnsupportedObject, MemoryError):
        return None
    answer = (ctypes.c_uint32 * 4)()
    ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(code)

    def cpuid(leaf: int, subleaf: int) -> tuple[int, ...]:
        ask(leaf, subleaf, ctypes.addressof(answer))
        return tuple(answer)

    vendor = cpuid(0, 0)
    most = {0: vendor[0], 0x80000000: cpuid(0x80000000, 0)[0]}
    answers = [vendor[1:]]
    for leaf, subleaf in _LEAVES:
        if leaf > most[leaf & 0x80000000]:
            continue
        found = cpuid(leaf, subleaf)
        if leaf == 1:
            # The upper bits of the second word number the core that answers.
            found = (found[0], found[1] & 0x0000FF00, *found[2:])
            if found[2] & _OSXSAVE:
                xgetbv = ctypes.CFUNCTYPE(ctypes.c_uint64)(code + len(_CPUID))
                answers.append((xgetbv(),))
        elif leaf == 0x80000008:
            found = (0, found[1], 0, 0)  # the others count cores and address bits
        answers.append(found)
    return hashlib.sha256(repr(answers).encode()).hexdigest()
