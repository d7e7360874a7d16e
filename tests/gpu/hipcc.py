"""Stands for hipcc: gives a module of the software GPU, with the note in which a code object describes its kernels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.gpu import build
from tests.shim import unit


def main(arguments: list[str]) -> int:
    """As ``hipcc … --offload-arch=ARCH TEXT -o RESULT``."""
    result = Path(arguments[arguments.index("-o") + 1])
    (source,) = [a for a in arguments if a.endswith(".cpp")]
    (arch,) = [a.partition("=")[2] for a in arguments if a.startswith("--offload-arch=")]
    warp = 64 if arch.startswith("gfx9") else 32
    text = Path(source).read_text(encoding="utf-8")
    kernels = [_kernel(name, warp) for name in unit.kernels(text)]
    note = _note(_pack({"amdhsa.kernels": kernels, "amdhsa.target": f"amdgcn-amd-amdhsa--{arch}"}))
    try:
        result.write_bytes(build.module(f"{text}\n{note}", warp))
    except unit.BuildError as error:
        print(str(error).replace("kernels:", f"{source}:"), file=sys.stderr)
        return 1
    return 0


def _kernel(name: str, warp: int) -> dict[str, Any]:
    return {
        ".name": name, ".kernarg_segment_size": 64, ".group_segment_fixed_size": 0, ".private_segment_fixed_size": 0,
        ".vgpr_count": 32, ".sgpr_count": 16, ".vgpr_spill_count": 0, ".sgpr_spill_count": 0, ".wavefront_size": warp,
    }  # fmt: skip


def _note(body: bytes) -> str:
    """C++ text that puts a note of AMD's into the object file."""
    data = ", ".join(map(str, body + bytes(-len(body) % 4)))
    return (
        f'asm(".pushsection .note.amdgpu, \\"a\\", @note\\n.balign 4\\n.long 7, {len(body)}, 32\\n'
        f'.byte 65, 77, 68, 71, 80, 85, 0, 0\\n.byte {data}\\n.popsection\\n");'
    )


def _pack(value: Any) -> bytes:
    """MessagePack of what such a note holds."""
    if isinstance(value, dict):
        parts = [_pack(part) for item in value.items() for part in item]
        return b"\xde" + len(value).to_bytes(2, "big") + b"".join(parts)
    if isinstance(value, list):
        return b"\xdc" + len(value).to_bytes(2, "big") + b"".join(map(_pack, value))
    if isinstance(value, str):
        return b"\xda" + len(value.encode()).to_bytes(2, "big") + value.encode()
    return b"\xce" + int(value).to_bytes(4, "big")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
