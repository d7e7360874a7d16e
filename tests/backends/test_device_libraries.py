"""Device libraries that are made for architectures which a hipcc has none for, with a clang that only says things."""

from __future__ import annotations

from pathlib import Path

import pytest

from dyn.backends.device_libraries import (
    ClangInstallation,
    complete_libraries,
    find_installation,
    isa_version,
    known_architectures,
    lacks_library,
)

INSTALLATION = ClangInstallation("/opt/clang", "/opt/bitcode")


@pytest.mark.parametrize(
    ("arch", "version"),
    [
        ("gfx906", 9006), ("gfx90a", 9010), ("gfx942", 9402), ("gfx1030", 10300), ("gfx1100", 11000),
        ("gfx1201", 12001), ("gfx90a:sramecc+:xnack-", 9010), ("gfx11-generic", None), ("generic", None),
        ("gfx9", None),
    ],
)  # fmt: skip
def test_isa_version(arch: str, version: int | None) -> None:
    assert isa_version(arch) == version


def test_a_complaint() -> None:
    assert lacks_library("clang: error: cannot find ROCm device library for gfx1100; provide its path via …")
    assert not lacks_library("clang: error: cannot find ROCm device library; provide its path via '--rocm-path'")
    assert not lacks_library("clang: error: invalid target ID 'gfx9999'")


def test_where_clang_and_its_libraries_are() -> None:
    said = (
        "clang version 15\n"
        ' "/opt/llvm/clang" "-cc1" "-mlink-builtin-bitcode" "/opt/a b/hip.bc" "-mlink-builtin-bitcode" '
        '"/opt/a b/ocml.bc"\n'
        ' "/opt/llvm/lld" "-o" "dyn.hsaco"\n'
    )
    commands: list[list[str]] = []

    def run(command: list[str]) -> str | None:
        commands.append(command)
        return said

    assert find_installation(["hipcc", "x"], run) == ClangInstallation("/opt/llvm/clang", "/opt/a b")
    assert commands == [["hipcc", "x", "-###"]]
    assert find_installation(["hipcc"], lambda command: None) is None
    assert find_installation(["hipcc"], lambda command: "nothing of the kind") is None


def test_libraries_are_linked_to_and_one_is_made(tmp_path: Path) -> None:
    there, made = tmp_path / "there", tmp_path / "made"
    there.mkdir()
    made.mkdir()
    for name in ("ocml.bc", "ockl.bc", "oclc_isa_version_1030.bc", "notes.txt"):
        (there / name).write_text(name)

    def run(command: list[str]) -> str | None:
        text, result = Path(command[-3]), Path(command[-1])
        assert "constant i32 11000," in text.read_text()
        result.write_text("bitcode")
        return ""

    assert complete_libraries("gfx1100", ClangInstallation("clang", str(there)), made, run)
    found = {path.name: path.read_text() for path in made.glob("*.bc")}
    assert found == {
        "ocml.bc": "ocml.bc", "ockl.bc": "ockl.bc", "oclc_isa_version_1030.bc": "oclc_isa_version_1030.bc",
        "oclc_isa_version_1100.bc": "bitcode",
    }  # fmt: skip


def test_a_clang_that_fails_and_a_name_of_no_number(tmp_path: Path) -> None:
    assert not complete_libraries("gfx1100", INSTALLATION, tmp_path, lambda command: None)
    assert not complete_libraries("gfx11-generic", INSTALLATION, tmp_path, lambda command: "")


def test_known_architectures() -> None:
    said = "Available CPUs for this target:\n\n\tfiji\n\tgfx10-1-generic\n\tgfx1100\n\tgfx803\n\tgfx90a\n\tgfx906\n"
    assert known_architectures(INSTALLATION, lambda command: said) == ("gfx906", "gfx90a", "gfx1100")
    assert known_architectures(INSTALLATION, lambda command: None) == ()
