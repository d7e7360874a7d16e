"""Builds CUDA and HIP text with g++ and the shim header; what was built before, by any process, is taken again."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
_FLAGS = (
    "-std=c++17", "-O1", "-fPIC", "-pthread", "-mf16c", "-ffp-contract=off", "-fno-strict-aliasing",
    "-fcf-protection=none", "-Wno-unknown-pragmas", f"-I{HERE / 'include'}",
)  # fmt: skip
#: Loads and stores call functions of ``races.h``; places in the text are known by line.
_RACES = ("-DSHIM_RACES", "-fsanitize=thread", "-g1")
_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(')


class BuildError(Exception):
    """g++ refused a text; the message is what it said."""


def build(texts: Iterable[tuple[str, str]], warp: int, *, races: bool = False) -> Path:
    """The shared object of some texts, each under the name that messages give it, for warps of so many lanes.

    The symbol ``shim_kernel_NAME`` is a kernel's ``ShimKernel`` (``abi.h``). With ``races``, launches fail that race.
    """
    flags = (*_FLAGS, *(_RACES if races else ("-g0",)), f"-DSHIM_WARP={warp}")
    same = [repr(flags), *[path.read_text("utf-8") for path in (Path(__file__), *sorted(HERE.rglob("*.h")))]]
    unit: list[str] = []
    for name, text in texts:  # lines in messages are those of a text
        unit += [f'#line 1 "{name}"', text, *[f"SHIM_EXPORT({kernel})" for kernel in kernels(text)]]

    def make(folder: Path) -> None:
        source, compiled, result = folder / "unit.cpp", folder / "unit.o", folder / "module.so"
        include = f'#include "{_precompiled(flags, same)}"'
        source.write_text("\n".join([include, *unit, ""]), encoding="utf-8")
        run_compiler([[*flags, "-c", str(source), "-o", str(compiled)]])
        run_compiler([["-shared", "-pthread", str(compiled), "-o", str(result)]])  # not with the sanitizer's library
        compiled.unlink()

    return kept(["\n".join(unit), *same], make) / "module.so"


def _precompiled(flags: Sequence[str], texts: Sequence[str]) -> Path:
    """A header to include for the shim's, of which g++ finds what it made of it before: reading it takes longer than
    some ten kernels do."""

    def make(folder: Path) -> None:
        header = folder / "shim.h"
        header.write_text(f'#include "{HERE / "shim.h"}"\n', encoding="utf-8")
        run_compiler([[*flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"]])

    return kept(["a header", *texts], make) / "shim.h"


def kernels(text: str) -> list[str]:
    """The names of a text's kernels."""
    return _KERNEL.findall(text)


def with_lines(message: str, library: Path) -> str:
    """A message in which places of the library, ``+0x1234``, are lines of the text."""

    def line(found: re.Match[str]) -> str:
        command = ["addr2line", "-e", str(library), found.group(1)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return "line " + done.stdout.strip().rpartition(":")[2].partition(" ")[0]

    return re.sub(r"\+(0x[0-9a-f]+)", line, message)


def run_compiler(commands: Sequence[Sequence[str]]) -> None:
    """Run g++ with some lists of arguments, two at a time. Raises BuildError."""

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["g++", *command], capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(run, commands):
            if done.returncode:
                raise BuildError(done.stderr)


def kept(parts: Iterable[str], make: Callable[[Path], None]) -> Path:
    """The folder that ``make`` fills, once for equal parts. It stays when the tests end: the next run finds it."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode()).digest())
    root = Path(tempfile.gettempdir()) / f"dyn-software-gpu-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    assert root.stat().st_uid == os.getuid(), f"{root} belongs to somebody else"
    found = root / digest.hexdigest()[:32]
    if not found.exists():
        made = Path(tempfile.mkdtemp(dir=root))
        try:
            make(made)
            made.rename(found)
        except OSError:  # another process was quicker
            if not found.exists():
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return found
