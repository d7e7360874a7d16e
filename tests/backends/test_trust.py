"""Folders of compiled code that other users may write to: who can write there could run code here."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dyn.backends import trust
from dyn.backends.cache import CacheFolder
from dyn.backends.trust import refusal
from dyn.doctor import Finding, Severity, cache_finding

ROOT = Path(__file__).resolve().parents[2]
SOMEBODY = 65531

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system knows no owners of files")
as_root = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() != 0, reason="only root can give a file to somebody else"
)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.INFO, "dyn.cache"):
        yield lambda: [record.getMessage() for record in caplog.records if record.name == "dyn.cache"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``tmp_path/a/b``, where an entry was written."""
    place = tmp_path / "a" / "b"
    CacheFolder(str(place), 1 << 20).write("key", b"code")
    return place


def entry(folder: Path) -> bytes | None:
    return CacheFolder(str(folder), 1 << 20).read("key")


# ---- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_is_made_for_its_owner_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        CacheFolder(str(tmp_path / "a" / "b" / "c"), 1 << 20).write("key", b"code")
    finally:
        os.umask(old)
    for made in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / made).stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a/b/c/key.bin").stat().st_mode) == 0o600
    assert entry(tmp_path / "a" / "b" / "c") == b"code"


@pytest.mark.parametrize(("mode", "who"), [(0o770, "its group"), (0o707, "every user"), (0o1777, "every user")])
@pytest.mark.parametrize("where", ["a/b", "a"])
def test_a_folder_that_others_may_write_to(
    mode: int, who: str, where: str, folder: Path, tmp_path: Path, log: Any
) -> None:
    place = tmp_path / where
    place.chmod(mode)
    store = CacheFolder(str(folder), 1 << 20)
    if mode & stat.S_ISVTX and place != folder:  # there nobody puts another folder in the place of ours
        assert store.read("key") == b"code"
        return
    assert store.read("key") is None
    store.write("other", b"code")
    assert store.entries() == []
    store.clear()
    assert sorted(path.name for path in folder.glob("*.bin")) == ["key.bin"]
    assert log() == [
        f"{place} may be written to by {who} (mode {mode:o}): code from {folder} is not run, and none is kept there. "
        f"Help: chmod go-w {place}, or name another folder in DYN_CACHE_DIR."
    ]
    place.chmod(0o755)
    assert store.read("key") == b"code"  # it is looked at again


@as_root
@pytest.mark.parametrize("where", ["a/b", "a"])
def test_a_folder_of_somebody_else(where: str, folder: Path, tmp_path: Path, log: Any) -> None:
    place = tmp_path / where
    os.chown(place, SOMEBODY, SOMEBODY)
    assert entry(folder) is None
    assert log() == [
        f"{place} belongs to the user {SOMEBODY}, who is neither root nor the user 0 that runs: code from {folder} is "
        "not run, and none is kept there. Help: name a folder of your own in DYN_CACHE_DIR."
    ]


@as_root
def test_another_user_trusts_himself_and_root(folder: Path, tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import os, sys
        from dyn.backends.trust import refusal
        os.setgid(65531); os.setuid(65531)
        print([None if (found := refusal(path)) is None else found.problem for path in sys.argv[1:]])
        """
    )
    for place in (folder, *folder.parents):
        if place == Path(tempfile.gettempdir()):
            break
        place.chmod(0o755)
    own = tmp_path / "own"
    own.mkdir()
    os.chown(own, SOMEBODY, SOMEBODY)
    found = subprocess.run(
        [sys.executable, "-c", script, str(folder), str(own)], capture_output=True, text=True, cwd=ROOT, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert found.stdout == "[None, None]\n", found.stderr


# ---- links -----------------------------------------------------------------------------------------------------------


def test_a_link_is_as_good_as_what_it_leads_to(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "absolute").symlink_to(folder)
    (tmp_path / "links" / "relative").symlink_to("../a/./b")
    (tmp_path / "links" / "through").symlink_to("relative/../b")
    (tmp_path / "links" / "round").symlink_to("round")
    for name in ("absolute", "relative", "through"):
        assert entry(tmp_path / "links" / name) == b"code"
    (tmp_path / "a").chmod(0o777)
    for name in ("absolute", "relative", "through"):
        assert entry(tmp_path / "links" / name) is None
    found = refusal(str(tmp_path / "links" / "round"))
    assert found is not None
    assert found.problem == f"{tmp_path / 'links' / 'round'} has too many symbolic links"


def test_a_link_that_others_can_turn(folder: Path, tmp_path: Path) -> None:
    """What it leads to is sound, and somebody may have it lead elsewhere."""
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link"
    link.symlink_to(folder)
    (tmp_path / "links").chmod(0o777)
    assert entry(link) is None
    (tmp_path / "links").chmod(0o1777)
    assert entry(link) == b"code"


@as_root
def test_a_link_of_somebody_else_in_a_sticky_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir(0o777)
    (tmp_path / "links").chmod(0o1777)
    link = tmp_path / "links" / "link"
    link.symlink_to(folder)
    os.chown(link, SOMEBODY, SOMEBODY, follow_symlinks=False)
    found = refusal(str(link))
    assert found is not None
    assert found.problem == f"{link} belongs to the user {SOMEBODY}, who is neither root nor the user 0 that runs"


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["mode", pytest.param("owner", marks=as_root)])
def test_a_file_that_others_may_have_written(how: str, folder: Path, log: Any) -> None:
    path = folder / "key.bin"
    if how == "mode":
        path.chmod(0o622)
    else:
        os.chown(path, SOMEBODY, SOMEBODY)
    store = CacheFolder(str(folder), 1 << 20)
    assert store.read("key") is None
    assert store.read("key") is None
    assert path.exists()
    assert log() == [
        f"{path} belongs to another user, or may be written to by others: it is not used. Remove it, or name a folder "
        "of your own in DYN_CACHE_DIR."
    ]
    store.write("key", b"new")
    assert store.read("key") == b"new"


# ---- around it -------------------------------------------------------------------------------------------------------


def test_programs_run_without_the_folder(tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o777)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DYN_CACHE_DIR": str(place), "DYN_LOG": "cache"}
    script = "import numpy as np, dyn; print(dyn.jit(lambda x: x + 1)(np.arange(3, dtype=np.float32)))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=ROOT, check=True
    )
    assert found.stdout == "[1. 2. 3.]\n"
    assert found.stderr.splitlines()[0] == (
        f"dyn.cache: {place} may be written to by every user (mode 777): code from {place / 'v1'} is not run, and none "
        f"is kept there. Help: chmod go-w {place}, or name another folder in DYN_CACHE_DIR."
    )
    assert list(place.iterdir()) == []


def test_the_doctor_says_so(folder: Path) -> None:
    folder.chmod(0o775)
    assert cache_finding(folder, 0, 0, 1 << 30) == Finding(
        "folder", Severity.WARNING,
        f"{folder}: 0 entries, 0.0 of at most 1024 MiB; {folder} may be written to by its group (mode 775), so no code "
        "from it is run, and each process compiles anew",
        f"chmod go-w {folder}, or name another folder in DYN_CACHE_DIR.",
    )  # fmt: skip


def test_where_there_are_no_owners_nothing_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o777)
    monkeypatch.delattr(trust.os, "geteuid")
    assert entry(folder) == b"code"


def test_what_is_not_there_yet_and_what_is_no_folder(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "not" / "yet")) is None
    (tmp_path / "file").touch()
    assert refusal(str(tmp_path / "file" / "under")) is None
