"""What ``make`` installs, and what it says when it cannot. Nothing is installed here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import bootstrap

FIND_PYTHON = bootstrap.ROOT / "scripts" / "find-python.sh"

HELP = (
    '  help: on Debian 12 and Ubuntu 24.04, "apt-get install python3 python3-venv" gives one; for a Python that is\n'
    '        not on the PATH, say "make PYTHON=/path/to/python3.11 ..."\n'
)


# ---- find-python.sh --------------------------------------------------------------------------------------------------


def find_python(path: Path, **pythons: str) -> subprocess.CompletedProcess[str]:
    """Run the script where the PATH holds only made-up Pythons of the given versions."""
    for name, version in pythons.items():
        program = path / name.replace("_", ".")
        status = int(tuple(map(int, version.split("."))) < (3, 11))
        program.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit {status}\necho Python {version}\n', encoding="utf-8")
        program.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", FIND_PYTHON], env={"PATH": str(path)}, capture_output=True, text=True, check=False
    )


def test_find_python_takes_the_first_that_is_new_enough(tmp_path: Path) -> None:
    result = find_python(tmp_path, python3="3.9.2", python3_12="3.12.1")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{tmp_path}/python3.12\n", "")


def test_find_python_says_what_is_too_old(tmp_path: Path) -> None:
    result = find_python(tmp_path, python3="3.9.2")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: dyn needs Python 3.11 or later.\n  found:\n    python3 is Python 3.9.2\n{HELP}"
    )  # fmt: skip


def test_find_python_when_there_is_none(tmp_path: Path) -> None:
    result = find_python(tmp_path)
    assert (result.returncode, result.stderr) == (1, f"error: dyn needs Python 3.11 or later.\n{HELP}")


# ---- bootstrap.py: the system's packages -----------------------------------------------------------------------------


def test_apt_needs_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)
    assert bootstrap.apt_install(["g++", "hipcc"]) == (
        "this system has no apt-get; install what Debian calls g++ and hipcc by its own means."
    )


def test_apt_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "apt-get" else None)
    monkeypatch.setattr(bootstrap.os, "geteuid", lambda: 1000)
    assert bootstrap.apt_install(["hipcc"]) == (
        "it takes root: run `sudo apt-get install --no-install-recommends hipcc` and try again."
    )


def test_missing_tool_is_announced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bootstrap, "apt_install", lambda packages: f"no {packages}.")
    there, gone = (
        bootstrap.Tool("sh", "dash", "scripts"),
        bootstrap.Tool("no-such-tool", "nothing", "what is not there"),
    )
    bootstrap.prepare_tools((there,))
    assert capsys.readouterr().out == ""
    bootstrap.prepare_tools((there, gone))
    assert capsys.readouterr().out == (
        "[dyn] warning: no-such-tool is missing; the tests of what is not there cannot run.\n"
        "[dyn]   help: no ['nothing'].\n"
        "[dyn]   help: `make test DYN_REQUIRE_TOOLCHAINS=0` skips those tests rather than fail them.\n"
    )


# ---- bootstrap.py: what it says meanwhile ----------------------------------------------------------------------------


def test_a_command_says_what_it_is_at(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bootstrap, "SECONDS", 0.4)
    program = "import time; print('Collecting torch', flush=True); time.sleep(1.1); print('done')"
    result = bootstrap.run_visibly([sys.executable, "-c", program], "installing torch")
    assert (result.returncode, result.stdout) == (0, "Collecting torch\ndone")
    first, *beats = capsys.readouterr().out.splitlines()
    assert first == "[dyn] installing torch"
    assert len(beats) >= 2
    assert any(beat.endswith(" s: Collecting torch") for beat in beats)
    assert {beat.partition(" s")[2] for beat in beats} <= {"", ": Collecting torch", ": done"}


def test_a_command_that_says_nothing_has_its_work_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """pip's last line stays the same for minutes while it unpacks."""
    monkeypatch.setattr(bootstrap, "SECONDS", 0.4)
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    for name in ("numpy-2.4.6.dist-info", "numpy"):
        (tmp_path / "lib" / "python3.11" / "site-packages" / name).mkdir(parents=True)
    program = "import time; print('Installing numpy, torch', flush=True); time.sleep(1.1)"
    bootstrap.run_visibly([sys.executable, "-c", program], "installing", bootstrap.packages_so_far)
    beat = capsys.readouterr().out.splitlines()[-1]
    assert beat == "[dyn]   1 s: Installing numpy, torch; 1 packages so far"


def test_a_quick_command_says_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    program = "import sys; sys.stderr.write('no such package\\n'); sys.exit(3)"
    result = bootstrap.run_visibly([sys.executable, "-c", program], "installing it")
    assert (result.returncode, result.stdout) == (3, "no such package")
    assert capsys.readouterr().out == "[dyn] installing it\n"


def test_a_long_line_is_shortened() -> None:
    assert bootstrap._shortened("  Downloading   numpy ") == "Downloading numpy"
    assert bootstrap._shortened("x" * 91) == "x" * 89 + "…"


def test_silence_is_short() -> None:
    assert bootstrap.SECONDS <= 15


# ---- bootstrap.py: what pip installs ---------------------------------------------------------------------------------


class Pip:
    """A checkout with a virtual environment, and a pip that only counts."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.status = 0
        self.extras: list[str] = []
        (root / ".venv").mkdir()
        (root / ".venv" / "pyvenv.cfg").write_text("version = 3.11.2\n", encoding="utf-8")
        self.write("numpy>=2", line_length=120)
        monkeypatch.setattr(bootstrap, "ROOT", root)
        monkeypatch.setattr(bootstrap, "VENV", root / ".venv")
        self.commands: list[list[str]] = []
        monkeypatch.setattr(bootstrap, "STAMP", root / ".venv" / "stamp")
        monkeypatch.setattr(bootstrap.subprocess, "run", self.run)
        monkeypatch.setattr(bootstrap, "run_visibly", self.run_visibly)

    def write(self, dependency: str, line_length: int) -> None:
        text = (
            f'[build-system]\nrequires = []\n[project]\nname = "dynhlo"\ndependencies = ["{dependency}"]\n'
            f"[tool.ruff]\nline-length = {line_length}\n"
        )
        (self.root / "pyproject.toml").write_text(text, encoding="utf-8")

    def run(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        self.extras.append(command[-1])
        return subprocess.CompletedProcess(command, self.status)

    def run_visibly(
        self, command: list[str], task: str, progress: Callable[[list[str]], str]
    ) -> subprocess.CompletedProcess[str]:
        assert task.startswith("installing ")
        assert progress(["Collecting numpy"]).startswith(": Collecting numpy; ")
        self.run(command)
        return subprocess.CompletedProcess(command, self.status, "Collecting numpy\nERROR: no network\n")


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    return Pip(tmp_path, monkeypatch)


def test_pip_runs_once(pip: Pip) -> None:
    test, demo, bench = (bootstrap.JOBS[name] for name in ("test", "demo", "bench"))
    bootstrap.install(demo)
    bootstrap.install(demo)
    assert pip.extras == [".[demo]"]
    bootstrap.install(test)
    bootstrap.install(demo)
    bootstrap.install(test)
    assert pip.extras == [".[demo]", ".[test,linalg,demo,notebook,cuda,jax,torch,transformers,tensorflow,onnx]"]
    pip.write("numpy>=2", line_length=100)  # a setting of a tool is no reason
    bootstrap.install(test)
    assert pip.extras[2:] == []
    pip.write("numpy>=2.1", line_length=100)
    bootstrap.install(bench)
    bootstrap.install(test)
    assert pip.extras[2:] == [".[bench]", ".[test,linalg,demo,notebook,cuda,jax,torch,transformers,tensorflow,onnx]"]


def test_demo_needs_nothing_that_test_does_not_install() -> None:
    assert set(bootstrap.JOBS["demo"].extras) < set(bootstrap.JOBS["test"].extras)


def test_failed_pip_leaves_no_stamp(pip: Pip) -> None:
    pip.status = 1
    with pytest.raises(bootstrap.Failure) as caught:
        bootstrap.install(bootstrap.JOBS["demo"])
    assert str(caught.value) == (
        "pip could not install what is needed. Its last words:\n    Collecting numpy\n    ERROR: no network\n"
        "  help: the first run needs a network (or a local package index that pip knows of); later runs do not."
    )
    assert not bootstrap.STAMP.exists()
    pip.status = 0
    bootstrap.install(bootstrap.JOBS["demo"])
    assert bootstrap.installed_extras() == {"demo"}


@pytest.mark.parametrize(
    ("origin", "gone"),
    [
        ('{"url": "file:///checkout", "dir_info": {"editable": true}}', True),
        ('{"url": "file:///checkout", "dir_info": {}}', False),
        ('{"url": "https://example.org/dyn.whl", "archive_info": {}}', False),
    ],
)
def test_a_checkout_under_its_former_name_is_uninstalled(pip: Pip, origin: str, gone: bool) -> None:
    record = (
        pip.root / ".venv" / "lib" / "python3.11" / "site-packages" / "dyn-0.1.0.dev0.dist-info" / "direct_url.json"
    )
    record.parent.mkdir(parents=True)
    record.write_text(origin, encoding="utf-8")
    bootstrap.install(bootstrap.JOBS["demo"])
    uninstalled = [command[3] for command in pip.commands] == ["uninstall", "install"]
    assert uninstalled == gone
    assert pip.extras[-1] == ".[demo]"
    assert not gone or pip.extras[0] == "dyn"


def test_spoilt_stamp_is_no_stamp(pip: Pip) -> None:
    bootstrap.STAMP.write_text("{", encoding="utf-8")
    assert bootstrap.installed_extras() == set()


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert bootstrap.main(["fly"]) == 2
    assert (
        capsys.readouterr().err
        == "usage: bootstrap.py demo | train | torch | tensorflow | test | libraries | docs | bench\n"
    )


def test_find_python_finds_the_one_that_runs_this() -> None:
    result = subprocess.run(
        ["/bin/sh", FIND_PYTHON], env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.stdout.strip() == sys.executable
