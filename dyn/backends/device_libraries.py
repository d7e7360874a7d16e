"""Device libraries of AMD's compilers: makes the part of them that is missing for an architecture.

clang links kernels with bitcode files that lie in one folder (``ocml.bc``, ``ockl.bc``, …). One of them,
``oclc_isa_version_1100.bc``, holds nothing but the number of the architecture. Where clang generates code for an
architecture and the libraries beside it are older, that file alone is missing: Debian's hipcc 5.2 has none for gfx11,
nor for gfx942. (LLVM's ``AMDGPUUsage`` tells how names are made of numbers; ``doc/OCML.md`` of AMD's device libraries
tells of the constant.)

Nothing here starts a program by itself: ``run`` is how ``dyn.backends.rocm`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from dyn.frozen import record

#: Runs a command, and gives what it wrote to both its outputs; None where it failed.
Run = Callable[[list[str]], str | None]

#: clang's complaint, in all versions since 12.
_MISSING = re.compile(r"cannot find ROCm device library for gfx")
#: An architecture for which every hipcc has all its libraries.
EVERYWHERE = "gfx906"


@record()
class ClangInstallation:
    """The clang that hipcc starts, and the folder of the device libraries that it links kernels with."""

    clang: str
    libraries: str


def lacks_library(said: str) -> bool:
    """Whether clang complains that it has no device library for the architecture, which it knows."""
    return _MISSING.search(said) is not None


def find_installation(command: list[str], run: Run) -> ClangInstallation | None:
    """The clang behind a command line of hipcc that compiles for ``EVERYWHERE``; None where it does not tell.

    With ``-###`` clang prints the commands that it would run, a line each, with every word in quotation marks.
    """
    for line in (run([*command, "-###"]) or "").splitlines():
        words = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
        folders = [str(Path(word).parent) for word in words if Path(word).name == "ocml.bc"]
        if "-cc1" in words and folders:
            return ClangInstallation(words[0], folders[0])
    return None


def isa_version(arch: str) -> int | None:
    """The number that stands for an architecture in its library, 9010 of ``gfx90a``; None for a name of none.

    The last two digits of a name are hexadecimal: the minor version and the stepping.
    """
    match = re.fullmatch(r"gfx(\d+)([0-9a-f])([0-9a-f])(:\w+[+-])*", arch)
    if match is None:
        return None
    return 1000 * int(match[1]) + 100 * int(match[2], 16) + int(match[3], 16)


def complete_libraries(arch: str, installation: ClangInstallation, folder: Path, run: Run) -> bool:
    """Fill an empty folder with links to the device libraries and with the one that an architecture lacks.

    False where that cannot be made.
    """
    version = isa_version(arch)
    if version is None:
        return False
    for library in Path(installation.libraries).glob("*.bc"):
        (folder / library.name).symlink_to(library.resolve())
    name = f"oclc_isa_version_{arch.partition(':')[0].removeprefix('gfx')}"
    text, made = folder / f"{name}.ll", folder / f"{name}.bc"
    text.write_text(
        "@__oclc_ISA_version = linkonce_odr protected local_unnamed_addr addrspace(4) constant i32 "
        f"{version}, align 4\n",
        encoding="ascii",
    )
    # The module has no target of its own: clang gives it the one that is asked for, and warns of that.
    options = ("-x", "ir", "-c", "-emit-llvm", "-nogpulib", "-Wno-override-module", "--target=amdgcn-amd-amdhsa")
    return run([installation.clang, *options, str(text), "-o", str(made)]) is not None and made.exists()


def known_architectures(installation: ClangInstallation, run: Run) -> tuple[str, ...]:
    """The architectures that clang generates code for, from gfx900 on, in the order of their numbers."""
    said = run([installation.clang, "--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"]) or ""
    names = {name: version for name in re.findall(r"\bgfx\w+\b(?!-)", said) if (version := isa_version(name))}
    return tuple(sorted([name for name, version in names.items() if version >= 9000], key=names.__getitem__))
