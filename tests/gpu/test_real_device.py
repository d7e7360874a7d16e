"""``pytest --device=…``, as ``make test-gpu`` runs it: on a GPU that the process finds by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.gpu import compilers
from tests.gpu.software import environment

ROOT = Path(__file__).resolve().parents[2]


def pytest_run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def test_no_such_device() -> None:
    done = pytest_run("tests/gpu", "--device=cuda:99")
    assert done.returncode == 4
    assert "ERROR: there is nothing to test on cuda:99: " in done.stderr
    assert "passed" not in done.stdout


def test_programs_run_there(require_tool: Callable[..., str], tmp_path: Path) -> None:
    """The software GPU in the place of a real one: tests that count what it does say that they cannot."""
    require_tool("g++")
    require_tool("hipcc")
    compilers.install_hipcc(tmp_path)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    tests = "test_products or test_put_and_read or test_launches_are_counted or test_large_constants"
    done = pytest_run(
        "tests/gpu", "-rA", "-m", "not bench", "-k", tests, "--device=rocm", **path, **environment("rocm", devices=1)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED tests/gpu/test_programs.py::test_products[rocm]" in done.stdout
    assert "PASSED tests/gpu/test_arrays.py::test_put_and_read[rocm]" in done.stdout
    assert "a real GPU counts nothing" in done.stdout
    assert "rocm is the device" in done.stdout
