"""Builds the software GPU's drivers and its modules with g++; what was built before, by any process, is taken again."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
DRIVER, SHIM = HERE / "driver", HERE.parent / "shim"
SONAMES = {"cuda": "libcuda.so.1", "rocm": "libamdhip64.so.5"}
#: The program that is the GPU, beside the drivers.
SERVER = "gpu"
_DRIVER = ("-std=c++17", "-O0", "-g0", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
_LINK = ("-shared", "-pthread", "-Wl,-Bsymbolic", f"-Wl,--version-script={DRIVER / 'exports.map'}")
_MODULE = (
    "-std=c++17", "-O1", "-g0", "-shared", "-fPIC", "-pthread", "-mf16c", "-ffp-contract=off", "-fno-strict-aliasing",
    "-fcf-protection=none", "-Wno-unknown-pragmas", f"-I{SHIM / 'include'}",
)  # fmt: skip
_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(')


class BuildError(Exception):
    """g++ refused a text; the message is what it said."""


def drivers(families: Sequence[str] = ("cuda", "rocm")) -> Path:
    """The folder with the drivers of these families, under the names of the real ones."""
    read = [*sorted(DRIVER.iterdir()), SHIM / "abi.h"]

    def make(folder: Path) -> None:
        sources = {"core": ["core.cpp"]} | {f: [p.name for p in sorted(DRIVER.glob(f"{f}*.cpp"))] for f in families}
        commands = [
            [*_DRIVER, *_headers(part), "-c", str(DRIVER / name), "-o", str(folder / f"{name}.o")]
            for part, names in sources.items()
            for name in names
        ]
        commands.append([*_DRIVER, str(DRIVER / "server.cpp"), "-o", str(folder / SERVER), "-ldl"])
        _compile(commands)
        for family in families:
            objects = [folder / f"{name}.o" for name in (*sources["core"], *sources[family])]
            linked = [*_LINK, f"-Wl,-soname,{SONAMES[family]}", *map(str, objects), "-o", str(folder / SONAMES[family])]
            _compile([[*linked, "-ldl"]])
        for made in folder.glob("*.o"):
            made.unlink()

    return _kept([*(path.read_bytes() for path in read), repr((_DRIVER, families)).encode()], make)


def module(text: str, warp: int) -> bytes:
    """What the GPU loads: kernels in CUDA C++ or HIP, for warps of so many lanes."""
    shim = [path.read_bytes() for path in sorted(SHIM.rglob("*.h"))]

    def make(folder: Path) -> None:
        unit, result = folder / "unit.cpp", folder / "module.so"
        exports = [f"SHIM_EXPORT({name})" for name in kernels(text)]
        unit.write_text("\n".join([f'#include "{SHIM / "shim.h"}"', '#line 1 "kernels"', text, *exports, ""]))
        _compile([[*_MODULE, f"-DSHIM_WARP={warp}", str(unit), "-o", str(result)]])
        unit.unlink()

    return (_kept([text.encode(), repr((warp, _MODULE)).encode(), *shim], make) / "module.so").read_bytes()


def kernels(text: str) -> list[str]:
    """The names of a text's kernels."""
    return _KERNEL.findall(text)


def _headers(family: str) -> list[str]:
    """Where the vendor's header is, whose types the driver's functions have."""
    if family == "core":
        return []
    if family == "rocm":
        return ["-D__HIP_PLATFORM_AMD__"]
    found = import_module("cuda.pathfinder").find_nvidia_header_directory("cudart")
    return [f"-I{found}"]


def _compile(commands: Sequence[Sequence[str]]) -> None:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["g++", *command], capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(run, commands):
            if done.returncode:
                raise BuildError(done.stderr)


def _kept(parts: Sequence[bytes], make: Callable[[Path], None]) -> Path:
    """The folder that ``make`` fills, once for equal parts. It stays when the tests end: the next run finds it."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    root = Path(tempfile.gettempdir()) / f"dyn-software-gpu-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    assert root.stat().st_uid == os.getuid(), f"{root} belongs to somebody else"
    kept = root / digest.hexdigest()[:32]
    if not kept.exists():
        made = Path(tempfile.mkdtemp(dir=root))
        try:
            make(made)
            made.rename(kept)
        except OSError:  # another process was quicker
            if not kept.exists():
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return kept
