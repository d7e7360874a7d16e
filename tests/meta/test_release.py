"""What ``make release`` refuses, and what it says is left to do. Nothing is built or installed here."""

from __future__ import annotations

import io
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from scripts import release
from scripts.bootstrap import Failure

CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2027-01-15

### Added

- A thing.

## [0.1.0] - 2026-11-30

- Another.
"""


# ---- the sources -----------------------------------------------------------------------------------------------------


def sources(folder: Path, project: str, package: str) -> Path:
    (folder / "dyn").mkdir()
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{project}"\n', encoding="utf-8")
    (folder / "dyn" / "__init__.py").write_text(f'import os\n__version__ = "{package}"\n', encoding="utf-8")
    return folder


def test_the_version_stands_in_two_places(tmp_path: Path) -> None:
    assert release.version_of_tree(sources(tmp_path, "0.2.0", "0.2.0")) == "0.2.0"


def test_two_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        release.version_of_tree(sources(tmp_path, "0.2.0", "0.1.0"))
    assert str(caught.value) == (
        "pyproject.toml says version 0.2.0, and dyn/__init__.py 0.1.0.\n  help: make them one."
    )


def test_this_tree_can_be_released() -> None:
    text = (release.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert list(release.faults_of_changelog(text, release.version_of_tree(release.ROOT))) == []


def test_the_changelog_stays_short() -> None:
    """A version is a page: what it was in full stands elsewhere."""
    text = (release.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert {section.partition("\n")[0]: section.count("\n") for section in sections if section.count("\n") > 120} == {}


@pytest.mark.parametrize(
    ("text", "version", "faults"),
    [
        (CHANGELOG, "0.2.0", []),
        (CHANGELOG, "0.3.0.dev0", []),
        (CHANGELOG, "0.3.0", ["CHANGELOG.md has no section [0.3.0]"]),
        (CHANGELOG, "0.1.0", ["CHANGELOG.md has [0.2.0] above [0.1.0]"]),
        (
            CHANGELOG.replace(" - 2027-01-15", ""),
            "0.2.0",
            ["CHANGELOG.md: the heading of [0.2.0] has no date (`## [0.2.0] - 2026-11-30`)"],
        ),
        (CHANGELOG.replace("- A thing.", ""), "0.2.0", ["CHANGELOG.md says nothing in the section [0.2.0]"]),
        (
            CHANGELOG.replace("## [Unreleased]\n", ""),
            "0.3.0.dev0",
            ["CHANGELOG.md does not begin with a section [Unreleased]"],
        ),
    ],
)
def test_faults_of_a_changelog(text: str, version: str, faults: list[str]) -> None:
    assert list(release.faults_of_changelog(text, version)) == faults


def test_pages_that_an_upload_makes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("dyn is not on PyPI yet. Until then …", encoding="utf-8")
    (tmp_path / "b.md").write_text("Install it.", encoding="utf-8")
    monkeypatch.setattr(release, "INSTALL_PAGES", ("a.md", "b.md"))
    assert list(release.faults_of_pages(tmp_path, "0.2.0.dev0")) == []
    assert list(release.faults_of_pages(tmp_path, "0.2.0")) == [
        "a.md says `dyn is not on PyPI yet`, which is wrong when 0.2.0 is uploaded"
    ]


# ---- the long description --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hook(require_module: Callable[[str], ModuleType]) -> ModuleType:
    require_module("hatchling")
    spec = spec_from_file_location("hatch_build", release.ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_to_files_become_their_texts(hook: ModuleType) -> None:
    text = (
        "[a page](docs/a.md), [the web](https://example.org/x.md), [below](#some-words)\n\n"
        "![A chart](docs/images/a.svg)\n\n## Some words\n\n```python\nx[0](y)\n```\n[`code`](dyn/a.py#f)."
    )
    assert hook.without_links_to_files(text) == (
        "a page, [the web](https://example.org/x.md), [below](#some-words)\n\n"
        "## Some words\n\n```python\nx[0](y)\n```\n`code`."
    )


def test_the_readme_is_whole_on_an_index(hook: ModuleType) -> None:
    text = (release.ROOT / "README.md").read_text(encoding="utf-8")
    assert release.relative_links(text) != []  # the repository's readers have them
    assert release.relative_links(hook.without_links_to_files(text)) == []


def test_relative_links_are_found() -> None:
    text = "[a](docs/a.md) ![b](b.png) [c](https://example.org) [d](#d) [e](mailto:x@example.org)\n```\n[f](g)\n```\n"
    assert release.relative_links(text) == ["docs/a.md", "b.png"]


# ---- the files -------------------------------------------------------------------------------------------------------


def wheel(folder: Path, description: str, names: dict[str, bytes]) -> Path:
    path = folder / "dynhlo-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("dynhlo-0.2.0.dist-info/METADATA", f"Name: dynhlo\nVersion: 0.2.0\n\n{description}")
        for name, content in names.items():
            archive.writestr(name, content)
    return path


def test_a_wheel_that_is_right(tmp_path: Path) -> None:
    path = wheel(tmp_path, "# dyn\n[a](https://example.org)\n", {"dyn/__init__.py": b""})
    assert list(release.faults_of_distribution(path)) == []


def test_faults_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "MOST_BYTES", 700)
    noise = bytes(range(256)) * 2
    path = wheel(tmp_path, "[a](docs/a.md)", {"dyn/ops/a.py": noise, "dyn/ops/b.py": noise, "tests/test_a.py": b""})
    sizes = dict(release.files_of(path))
    parts = (
        f"dyn/ops {sizes['dyn/ops/a.py'] + sizes['dyn/ops/b.py']}, "
        f"dynhlo-0.2.0.dist-info/METADATA {sizes['dynhlo-0.2.0.dist-info/METADATA']}, tests/test_a.py 2"
    )
    assert list(release.faults_of_distribution(path)) == [
        f"{path.name} has tests/test_a.py, which is none of the package's",
        f"{path.name} has {path.stat().st_size:,} bytes, more than 700: {parts}",
        "the long description links to docs/a.md, which a package index does not have",
    ]


def test_faults_of_an_sdist(tmp_path: Path) -> None:
    path = tmp_path / "dynhlo-0.2.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("dynhlo-0.2.0/dyn/__init__.py", "dynhlo-0.2.0/dyn/__pycache__/a.pyc"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert list(release.faults_of_distribution(path)) == [
        "dynhlo-0.2.0.tar.gz has dyn/__pycache__/a.pyc, which is none of the package's"
    ]


# ---- the Pythons, and the end ----------------------------------------------------------------------------------------


def test_pythons_of_the_path_and_of_pyenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, versions = tmp_path / "bin", tmp_path / "versions"
    programs = {path / "python3.11": 0, path / "python3.12": 1}  # 3.12 is pyenv's stand-in that runs nothing
    programs |= {versions / f"3.12.{patch}" / "bin" / "python": 0 for patch in (9, 10)}
    for program, status in programs.items():
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert release.pythons() == [str(path / "python3.11"), str(versions / "3.12.10" / "bin" / "python")]
    assert capsys.readouterr().out == "".join(
        f"[dyn] warning: no Python {version} is here, or it cannot make environments; it is not tried.\n"
        for version in ("3.13", "3.14")
    )


def test_what_is_left_to_do() -> None:
    names = ["dynhlo-0.2.0-py3-none-any.whl", "dynhlo-0.2.0.tar.gz"]
    assert release.next_steps("0.2.0", names) == (
        "What is left is done by hand:\n"
        "  1. git tag --annotate v0.2.0 --message 'dyn 0.2.0' && git push origin v0.2.0\n"
        "  2. twine upload dist/dynhlo-0.2.0-py3-none-any.whl dist/dynhlo-0.2.0.tar.gz\n"
        "     (who uploads first has the name dynhlo; nobody had it on 2026-11-30)\n"
        "  3. set the version to 0.3.0.dev0 in pyproject.toml and dyn/__init__.py, and commit."
    )
    assert release.next_steps("0.2.0.dev0", names) == (
        "0.2.0.dev0 is a version in development, which nobody uploads. To release 0.2.0:\n"
        '  1. set version = "0.2.0" in pyproject.toml and dyn/__init__.py;\n'
        "  2. call the changelog's section [Unreleased] `[0.2.0] - ` and the day, under an empty [Unreleased];\n"
        "  3. commit, and run `make release` and `make test` again."
    )


def test_a_changelog_without_the_version_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sources(tmp_path, "0.9.0", "0.9.0")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    monkeypatch.setattr(release, "INSTALL_PAGES", ())
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert release.main([sys.executable]) == 1
    assert capsys.readouterr().err == "error: CHANGELOG.md has no section [0.9.0]\n"
