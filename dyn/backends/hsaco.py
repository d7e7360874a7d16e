"""Reads what an AMD code object says of its kernels, without any of AMD's tools.

A code object is an ELF file with a note (owner ``AMDGPU``, type 32) that holds MessagePack; its layout is given in
LLVM's "User Guide for AMDGPU Backend", "Code Object V3 and Above Metadata", and the encoding in the MessagePack
specification.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from dyn.errors import ArtifactError
from dyn.frozen import record

_PT_NOTE, _NT_AMDGPU_METADATA = 4, 32


@record()
class KernelMetadata:
    """Resources of a kernel: bytes of arguments, of static shared memory (LDS) a block and of stack a lane, and
    registers with how many of them were spilled."""

    name: str
    kernarg_bytes: int
    lds_bytes: int
    private_bytes: int
    vgprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    wavefront: int


def read_kernels(data: bytes) -> tuple[KernelMetadata, ...]:
    """The kernels of a code object. Raises ArtifactError for anything else."""
    try:
        root = _notes(data)
        return tuple([_kernel(entry) for entry in root["amdhsa.kernels"]])
    except (struct.error, IndexError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ArtifactError(f"these {len(data)} bytes are not an AMD code object ({error!r}).") from error


def _kernel(entry: dict[str, Any]) -> KernelMetadata:
    return KernelMetadata(
        entry[".name"], entry[".kernarg_segment_size"], entry[".group_segment_fixed_size"],
        entry[".private_segment_fixed_size"], entry[".vgpr_count"], entry[".sgpr_count"],
        entry[".vgpr_spill_count"], entry[".sgpr_spill_count"], entry[".wavefront_size"],
    )  # fmt: skip


def _notes(data: bytes) -> Any:
    """The metadata in the ELF file's note segments."""
    if data[:5] != b"\x7fELF\x02":
        raise ArtifactError("this is not a 64-bit ELF file; an AMD code object is one.")
    (table,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    for i in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, table + size * i)
        end = offset + length
        while kind == _PT_NOTE and offset + 12 <= end:
            owner, body, note = struct.unpack_from("<III", data, offset)
            start = offset + 12 + (owner + 3) // 4 * 4
            if note == _NT_AMDGPU_METADATA and data[offset + 12 : offset + 19] == b"AMDGPU\0":
                return _MessagePackReader(data[start : start + body]).value()
            offset = start + (body + 3) // 4 * 4
    raise ArtifactError("this ELF file has no AMDGPU metadata; hipcc --genco writes it.")


class _MessagePackReader:
    """MessagePack, as far as the metadata uses it: maps, arrays, strings, integers, booleans and nil."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self, length: int) -> str:
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def items(self, count: int) -> Iterator[Any]:
        for _ in range(count):
            yield self.value()

    def map(self, count: int) -> dict[Any, Any]:
        return {key: self.value() for key in self.items(count)}

    def value(self) -> Any:
        tag = self.number("B")
        if tag < 0x80:
            return tag
        if tag >= 0xE0:
            return tag - 0x100
        if tag < 0xA0:
            return self.map(tag & 15) if tag < 0x90 else list(self.items(tag & 15))
        if tag < 0xC0:
            return self.text(tag & 31)
        if 0xCC <= tag <= 0xD3:
            return self.number("BHIQbhiq"[tag - 0xCC])
        if 0xD9 <= tag <= 0xDB:
            return self.text(self.number("BHI"[tag - 0xD9]))
        if tag in (0xDC, 0xDD):
            return list(self.items(self.number("HI"[tag - 0xDC])))
        if tag in (0xDE, 0xDF):
            return self.map(self.number("HI"[tag - 0xDE]))
        return {0xC0: None, 0xC2: False, 0xC3: True}[tag]
