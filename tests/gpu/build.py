"""Builds the software GPU's drivers and its modules with g++."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tests.shim import unit

HERE = Path(__file__).resolve().parent
DRIVER, SHIM = HERE / "driver", HERE.parent / "shim"
SONAMES = {"cuda": "libcuda.so.1", "rocm": "libamdhip64.so.5"}
#: The program that is the GPU, beside the drivers.
SERVER = "gpu"
_COMPILE = ("-std=c++17", "-O0", "-g0", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
_LINK = ("-shared", "-pthread", "-Wl,-Bsymbolic", f"-Wl,--version-script={DRIVER / 'exports.map'}")


def drivers(families: Sequence[str] = ("cuda", "rocm")) -> Path:
    """The folder with the drivers of these families, under the names of the real ones."""
    read = [*sorted(DRIVER.iterdir()), SHIM / "abi.h"]

    def make(folder: Path) -> None:
        sources = {"core": ["core.cpp"]} | {f: [p.name for p in sorted(DRIVER.glob(f"{f}*.cpp"))] for f in families}
        commands = [
            [*_COMPILE, *_headers(part), "-c", str(DRIVER / name), "-o", str(folder / f"{name}.o")]
            for part, names in sources.items()
            for name in names
        ]
        commands.append([*_COMPILE, str(DRIVER / "server.cpp"), "-o", str(folder / SERVER), "-ldl"])
        unit.run_compiler(commands)
        for family in families:
            objects = [folder / f"{name}.o" for name in (*sources["core"], *sources[family])]
            linked = [*_LINK, f"-Wl,-soname,{SONAMES[family]}", *map(str, objects), "-o", str(folder / SONAMES[family])]
            unit.run_compiler([[*linked, "-ldl"]])
        for made in folder.glob("*.o"):
            made.unlink()

    return unit.kept([*(path.read_text("utf-8") for path in read), repr((_COMPILE, _LINK, families))], make)


def module(text: str, warp: int, *, races: bool = False) -> bytes:
    """What the GPU loads: kernels in CUDA C++ or HIP, for warps of so many lanes."""
    return unit.build([("kernels", text)], warp, races=races).read_bytes()


def _headers(family: str) -> list[str]:
    """Where the vendor's header is, whose types the driver's functions have."""
    if family == "core":
        return []
    if family == "rocm":
        return ["-D__HIP_PLATFORM_AMD__"]
    found = import_module("cuda.pathfinder").find_nvidia_header_directory("cudart")
    return [f"-I{found}"]
