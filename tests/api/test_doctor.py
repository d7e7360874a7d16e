"""``python -m dyn``: the report, on this machine and where things are missing or broken."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dyn
from dyn import __main__ as command
from dyn import doctor
from dyn.backends.x86 import X86Backend
from dyn.doctor import Diagnosis, Finding, Section, Severity, cache_finding, examine
from dyn.requirements import install_extra
from dyn.runtime.driver import NoDriverError


def findings(diagnosis: Diagnosis) -> dict[str, Finding]:
    return {finding.label: finding for section in diagnosis.sections for finding in section.findings}


def test_the_report_of_this_machine() -> None:
    diagnosis = examine()
    found = findings(diagnosis)
    assert diagnosis.works
    assert found["x86"].state is Severity.OK
    assert found["x + 1"].text.startswith("right for sizes 0, 1, 7, 1000, from 1 compile, in ")
    assert found["numpy"].text == np.__version__
    assert found["dyn"].text.startswith(dyn.__version__)
    text = diagnosis.text()
    assert text.startswith("Versions\n  dyn ")
    assert text.endswith("\n\ndyn works on this machine's processor.")


def test_findings_as_text() -> None:
    section = Section(
        "Things", (Finding("one", Severity.NOTE, "1"), Finding("three", Severity.MISSING, "no", "get it."))
    )
    assert Diagnosis((section, Section("More", ()))).text() == (
        "Things\n  one    1\n  three  missing: no\n         help: get it.\n\nMore\n\n"
        "dyn works on this machine's processor."
    )


# ---- what may be missing or broken -----------------------------------------------------------------------------------


def test_nothing_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(family: str) -> None:
        raise NoDriverError("NVIDIA's driver is not installed (libcuda.so.1 is not there)")

    monkeypatch.setattr(doctor, "driver_devices", no_driver)
    monkeypatch.setattr(doctor.CudaBackend, "unavailable", lambda self: "cuda-python is not installed (No module)")
    monkeypatch.setattr("shutil.which", lambda name: None)
    found = findings(examine())
    assert found["cuda compiler"] == Finding(
        "cuda compiler", Severity.MISSING, "cuda-python is not installed (No module)", install_extra("cuda")
    )
    assert found["cuda GPUs"] == Finding(
        "cuda GPUs", Severity.MISSING, "NVIDIA's driver is not installed (libcuda.so.1 is not there)",
        "install NVIDIA's driver; nvidia-smi then lists the GPUs.",
    )  # fmt: skip
    assert found["rocm compiler"] == Finding(
        "rocm compiler", Severity.MISSING, "hipcc is not on the PATH", "apt-get install --no-install-recommends hipcc"
    )
    assert examine().works


def test_architectures_of_hipcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.RocmBackend, "unavailable", lambda self: None)
    monkeypatch.setattr(doctor, "hipcc_architectures", lambda: ("gfx90a", "gfx1100"))
    assert doctor._hipcc() == Finding(
        "rocm compiler", Severity.OK, "hipcc; kernels can be compiled, without a GPU too, for gfx90a, gfx1100"
    )
    monkeypatch.setattr(doctor, "hipcc_architectures", tuple)
    assert doctor._hipcc() == Finding(
        "rocm compiler", Severity.WARNING, "hipcc is on the PATH, and does not say what it compiles for",
        "see what hipcc --version says.",
    )  # fmt: skip


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("optree", "scipy", "jax") else real(name))
    diagnosis = examine()
    found = findings(diagnosis)
    assert found["optree"] == Finding("optree", Severity.FAILED, "not installed", "pip install 'optree>=0.14'")
    assert found["scipy"] == Finding(
        "scipy",
        Severity.MISSING,
        "not installed: linear algebra, and SciPy's special functions",
        "pip install 'scipy>=1.13'",
    )
    assert found["jax"] == Finding(
        "jax", Severity.MISSING, "not installed: programs written in JAX", "pip install 'jax>=0.9.2,<0.11'"
    )
    assert not diagnosis.works
    assert diagnosis.text().endswith("\n\ndyn does not work here; see what failed.")


def test_no_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(X86Backend, "unavailable", lambda self: "llvmlite is not installed")
    diagnosis = examine()
    assert findings(diagnosis)["x86"] == Finding(
        "x86", Severity.FAILED, "llvmlite is not installed", "pip install 'llvmlite>=0.50,<0.51'"
    )
    assert not diagnosis.works


def test_a_wrong_result_and_an_exception_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.dyn, "jit", lambda function: lambda x: x)
    diagnosis = examine()
    wrong = findings(diagnosis)["x + 1"]
    assert (wrong.state, wrong.text) == (Severity.FAILED, "x + 1 is wrong for 1 elements")

    def refuse(function: object) -> None:
        raise RuntimeError("no\nluck")

    monkeypatch.setattr(doctor.dyn, "jit", refuse)
    broken = findings(examine())["self-test"]
    assert (broken.state, broken.text) == (Severity.FAILED, "RuntimeError: no luck")


def test_a_folder_for_compiled_code(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    assert cache_finding(made, 1, 3 << 19, 1 << 30) == Finding(
        "folder", Severity.OK, f"{made}: 1 entry, 1.5 of at most 1024 MiB"
    )
    assert list(made.iterdir()) == []
    later = tmp_path / "not" / "yet"
    assert cache_finding(later, 0, 0, 1 << 30).state is Severity.OK
    assert not later.exists()


def test_a_folder_for_compiled_code_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert cache_finding(file / "cache", 0, 0, 1 << 30) == Finding(
        "folder", Severity.WARNING,
        f"{file / 'cache'}: 0 entries, 0.0 of at most 1024 MiB; it cannot be written (Not a directory), so each "
        "process compiles anew",
        f"make {file} writable, or name another in DYN_CACHE_DIR.",
    )  # fmt: skip
    full = cache_finding(Path("/proc"), 2, 0, 1 << 30)
    assert full.state is Severity.WARNING
    assert "it cannot be written (" in full.text


def test_an_old_processor_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "cpu_device", lambda: dyn.Device("cpu", 0, "Old", "x86:nehalem", 2, 1 << 30, 128))
    found = findings(examine())["target"]
    assert (found.state, found.text) == (Severity.WARNING, "x86:nehalem, 128-bit vectors (SSE2)")
    assert found.remedy == "a processor with AVX2 runs most programs two to four times as fast."


def test_settings_that_were_changed_are_shown() -> None:
    with dyn.config.override(log="cache", default_float="float64"):
        found = findings(examine())
    assert found["DYN_LOG"].text == "'cache'"
    assert found["DYN_DEFAULT_FLOAT"].text == "'float64'"
    assert "DYN_TARGET_CPU" not in found


# ---- the command line ------------------------------------------------------------------------------------------------


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dyn", *arguments], capture_output=True, text=True, check=False,
        cwd=Path(dyn.__file__).parents[1], env={**os.environ, **environment},
    )  # fmt: skip


def test_help_and_version() -> None:
    for arguments in ([], ["--help"]):
        result = run(*arguments)
        assert (result.returncode, result.stderr) == (0, "")
        assert "usage: python -m dyn [-h] [--version]" in result.stdout
        assert "doctor" in result.stdout
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"dyn {dyn.__version__}\n")


def test_an_unknown_command_is_refused() -> None:
    result = run("nurse")
    assert result.returncode == 2
    assert "invalid choice: 'nurse'" in result.stderr


def test_doctor_in_a_pipe_is_plain_text() -> None:
    result = run("doctor")
    assert (result.returncode, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    assert "dyn works on this machine's processor." in result.stdout


def test_doctor_on_a_terminal() -> None:
    """In colour where rich is installed, in plain text where it is not."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dyn", "doctor"], stdout=end, stderr=end, cwd=Path(dyn.__file__).parents[1],
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(end)
    told = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        told += part
    os.close(terminal)
    assert process.wait() == 0
    assert b"dyn works on this machine's processor." in told


def test_the_exit_status_is_1_where_dyn_does_not_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Diagnosis((Section("Self-test", (Finding("x + 1", Severity.FAILED, "wrong", "report it."),)),))
    monkeypatch.setattr(command, "examine", lambda: broken)
    assert command.main(["doctor", "--plain"]) == 1
    assert capsys.readouterr().out == broken.text() + "\n"
