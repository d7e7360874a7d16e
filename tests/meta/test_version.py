"""Which dyn a process runs: the digest of the compiler's sources, and whether it may speak for others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dyn import version
from tests.meta.test_layers import LEFT_TO_RIGHT, PACKAGE, ROOMS

OLD = version._IMPORTED - 10 * version._MARGIN


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of dyn's sources, which looks as if this process ran it."""
    folder = tmp_path / "dyn"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(version, "_folder", lambda: str(folder))
    # The copy's files are new: this process is made to be younger.
    monkeypatch.setattr(version, "_IMPORTED", time.time_ns() + 2 * version._MARGIN)
    return folder


def digest() -> str | None:
    return version.code_version.__wrapped__()


def test_it_is_the_text_that_counts(sources: Path) -> None:
    before = digest()
    assert before is not None
    assert before == version.code_version.__wrapped__() == version.code_version()
    file = sources / "lower" / "x86" / "emit.py"
    text = file.read_bytes()
    times = file.stat()
    # Of the same size, and with the same times.
    file.write_bytes(text[:-2] + b" \n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digest() not in (before, None)
    file.write_bytes(text)
    assert digest() == before


def test_files_that_come_and_go_count(sources: Path) -> None:
    found = [digest()]
    (sources / "stitch" / "new.py").write_text("")
    found.append(digest())
    (sources / "stitch" / "new.py").rename(sources / "stitch" / "newer.py")
    found.append(digest())
    (sources / "stitch" / "newer.py").rename(sources / "ops" / "newer.py")
    found.append(digest())
    (sources / "room").mkdir()
    (sources / "room" / "new.py").write_text("")
    found.append(digest())
    assert len({*found, None}) == len(found) + 1


def test_what_lies_above_the_compiler_does_not_count(sources: Path) -> None:
    before = digest()
    for name in ("numpy/_unary.py", "api.py", "explain/new.py"):
        (sources / name).write_text("# edited\n")
    (sources / "lower" / "notes.txt").write_text("no source")
    assert digest() == before


def test_nothing_that_generates_code_is_left_out() -> None:
    """A room is left out only if none that counts may import it."""
    left_out = {name.removesuffix(".py") for name in version._ABOVE} - {"__pycache__"}
    assert left_out <= ROOMS.keys()
    order = next(row for row in LEFT_TO_RIGHT if "pipeline" in row)
    for room in left_out:
        assert ROOMS[room] > ROOMS["pipeline"] or order.index(room) > order.index("pipeline"), room


def test_no_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "dyn.zip" / "dyn"):
        monkeypatch.setattr(version, "_folder", lambda folder=folder: str(folder))
        assert digest() is None


def test_a_process_whose_sources_have_changed_does_not_speak_for_others(sources: Path) -> None:
    assert version.is_unchanged()
    file = sources / "schedule" / "plan.py"
    later = version._IMPORTED + 1
    os.utime(file, ns=(later, later))
    assert not version.is_unchanged()
    os.utime(file, ns=(OLD, OLD))
    assert version.is_unchanged()


def test_a_file_that_comes_with_an_old_time_is_seen(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "_IMPORTED", time.time_ns() - 10 * version._MARGIN)
    for path in sources.rglob("*.py"):
        os.utime(path, ns=(OLD, OLD))
    assert not version.is_unchanged()  # by the time of change, which is now


def test_the_time_is_noted_before_anything_else_of_dyn_is_imported() -> None:
    code = "import sys, dyn; print(*[name for name in sys.modules if name.startswith('dyn.')][:2])"
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "dyn.version"
