"""Builds the software GPU's drivers and its modules with g++."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tests.shim import unit

HERE = Path(__file__).resolve().parent
DRIVER, SHIM = HERE / "driver", HERE.parent / "shim"
PRIVATE = "private.so"
SONAMES = {"cuda": "libcuda.so.1", "rocm": "libamdhip64.so.5"}
_COMPILE = ("-std=c++17", "-O0", "-g0", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
_LINK = ("-shared", "-pthread", "-Wl,-Bsymbolic", f"-Wl,--version-script={DRIVER / 'exports.map'}")


def driver(family: str) -> Path:
    """A family's driver, under the name of the real one; and beside it, as ``PRIVATE``, the same without a name.

    The loader takes any library that says it is ``libcuda.so.1`` for the one that a program asks for.
    """
    shared, names = _core(), [path.name for path in sorted(DRIVER.glob(f"{family}*.cpp"))]

    def make(folder: Path) -> None:
        objects = [folder / f"{name}.o" for name in names]
        _compile([[*_headers(family), "-c", name, "-o", str(o)] for name, o in zip(names, objects, strict=True)])
        linked, name = [*_LINK, *map(str, objects), str(shared / "core.o"), "-ldl"], SONAMES[family]
        named = [*linked, f"-Wl,-soname,{name}", "-o", str(folder / name)]
        unit.run_compiler([named, [*linked, "-o", str(folder / PRIVATE)]])

    return unit.kept([*_texts(), family, repr((_COMPILE, _LINK))], make) / SONAMES[family]


def server() -> Path:
    """The program that is a GPU."""
    return _core() / "gpu"


def _core() -> Path:
    """The folder with what drivers share."""

    def make(folder: Path) -> None:
        core = ["-c", "core.cpp", "-o", str(folder / "core.o")]
        _compile([core, ["server.cpp", "-o", str(folder / "gpu"), "-ldl"]])

    return unit.kept([*_texts(), repr(_COMPILE)], make)


def _texts() -> list[str]:
    return [path.read_text("utf-8") for path in (Path(__file__), *sorted(DRIVER.iterdir()), SHIM / "abi.h")]


def _compile(commands: Sequence[Sequence[str]]) -> None:
    """Compile texts of the driver's, by their names."""
    unit.run_compiler([[*_COMPILE, *(str(DRIVER / a) if a.endswith(".cpp") else a for a in c)] for c in commands])


def module(text: str, warp: int, *, races: bool = False) -> bytes:
    """What the GPU loads: kernels in CUDA C++ or HIP, for warps of so many lanes."""
    return unit.build([("kernels", text)], warp, races=races).read_bytes()


def _headers(family: str) -> list[str]:
    """Where the vendor's header is, whose types the driver's functions have."""
    if family == "rocm":
        return ["-D__HIP_PLATFORM_AMD__"]
    found = import_module("cuda.pathfinder").find_nvidia_header_directory("cudart")
    return [f"-I{found}"]
