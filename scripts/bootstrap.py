"""Prepares this checkout for one of make's jobs: ``bootstrap.py demo | train | torch | … | test | docs | bench``.

Makes ``.venv``, installs dyn in editable form with the extras that the job needs, and the system's tools that its tests
call. A stamp in ``.venv`` records what was installed, so that a second run starts no pip, no apt and no network.
Only the standard library is used. ``make clean`` undoes everything but the system's packages.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
#: One version of each package of which the extras take several.
CONSTRAINTS = ROOT / "scripts" / "constraints.txt"
STAMP = VENV / ".dyn-installed"
#: For how long a step says nothing, at most.
SECONDS = 15.0
#: The name that this distribution had: an editable installation of it would lie beside that of today's.
FORMER = "dyn"


@dataclass(frozen=True)
class Tool:
    """A program that tests call: its name, the Debian package that has it, and what is not tested without it."""

    name: str
    package: str
    purpose: str


@dataclass(frozen=True)
class Job:
    """What a job of the Makefile installs."""

    what: str
    extras: tuple[str, ...]
    tools: tuple[Tool, ...] = ()


JOBS = {
    "demo": Job("the demo's packages (under a minute, once)", ("demo",)),
    "train": Job("the demo's packages, and JAX to compare with (a minute or two, once)", ("demo", "jax")),
    "torch": Job(
        "the demo's packages, PyTorch and its models (two minutes, once)",
        ("demo", "torch", "transformers"),
    ),
    "tensorflow": Job("the demo's packages, and TensorFlow (a minute, once)", ("demo", "tensorflow")),
    "test": Job(
        "the test tools, with JAX, PyTorch and its models, and TensorFlow (three minutes, once)",
        ("test", "linalg", "demo", "notebook", "cuda", "jax", "torch", "transformers", "tensorflow", "onnx"),
        (
            Tool("g++", "g++", "running GPU kernels on the CPU"),
            Tool("hipcc", "hipcc", "compiling kernels for AMD GPUs"),
        ),
    ),
    "libraries": Job("the libraries that are called with arrays of dyn (a minute, once)", ("libraries",)),
    "docs": Job(
        "what builds the documentation and what its notebooks run (three minutes, once)",
        ("docs", "test", "linalg", "demo", "notebook", "cuda", "jax", "torch", "transformers", "tensorflow", "onnx"),
        (
            Tool("g++", "g++", "PyTorch's Inductor in a notebook"),
            Tool("dot", "graphviz", "diagrams"),
        ),
    ),
    "bench": Job("the peers to compare with, PyTorch and JAX among them (minutes, once)", ("bench",)),
}


class Failure(Exception):
    """Ends the run with a message for the person at the terminal."""


def say(text: str) -> None:
    print(f"[dyn] {text}", flush=True)


def runs(*command: str | Path) -> bool:
    """Whether a command can be started and exits with 0. Its output is dropped."""
    try:
        return (
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
        )
    except OSError:
        return False


def last_line(lines: Sequence[str]) -> str:
    """The end of a command's output so far, as it stands behind the time."""
    return f": {_shortened(lines[-1])}" if lines else ""


def run_visibly(
    command: Sequence[str | Path], task: str, progress: Callable[[Sequence[str]], str] = last_line
) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout, and say what it is at: a line at the start, and one each ``SECONDS``.

    These lines have the time since the start, and what ``progress`` makes of the lines that the command has put out.
    The result's ``stdout`` is all of them.
    """
    say(task)
    start = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        [*map(str, command)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:  # fmt: skip
        reader = threading.Thread(target=_read_lines, args=(process.stdout, lines), daemon=True)
        reader.start()
        while True:
            try:
                status = process.wait(SECONDS)
                break
            except subprocess.TimeoutExpired:
                say(f"  {time.monotonic() - start:.0f} s{progress(lines)}")
        reader.join()
    return subprocess.CompletedProcess(command, status, "\n".join(lines))


def _read_lines(stream: Iterable[str], lines: list[str]) -> None:
    lines.extend(line.rstrip() for line in stream if line.strip())


def _shortened(line: str) -> str:
    """A line of output as it fits into one of a terminal."""
    plain = " ".join(line.split())
    return plain if len(plain) <= 90 else f"{plain[:89]}…"


def last_words(output: str) -> str:
    """The end of a command's output, set in under a message."""
    return "\n".join(f"    {line}" for line in output.strip().splitlines()[-6:])


# ---- the system's packages -------------------------------------------------------------------------------------------


def apt_install(packages: list[str]) -> str:
    """Install Debian packages. The answer is ``""``, or why it was not possible and what to do."""
    by_hand = f"apt-get install --no-install-recommends {' '.join(packages)}"
    if shutil.which("apt-get") is None:
        return f"this system has no apt-get; install what Debian calls {' and '.join(packages)} by its own means."
    if os.geteuid() == 0:
        prefix: list[str] = []
    elif shutil.which("sudo") is not None and runs("sudo", "-n", "true"):
        prefix = ["sudo", "-n"]
    else:
        return f"it takes root: run `sudo {by_hand}` and try again."
    options = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    update = run_visibly([*prefix, *options, "update"], "updating apt's lists")
    install = [*prefix, *options, "install", "-y", "--no-install-recommends", *packages]
    result = run_visibly(install, f"installing {' and '.join(packages)} with apt (about a minute, once)")
    if result.returncode == 0:  # a failed update matters only if the installation then fails too
        return ""
    tail = last_words(f"{update.stdout}\n{result.stdout}")
    return f"apt-get failed; with a network, `{by_hand}` as root shows why. Its last words:\n{tail}"


def prepare_tools(tools: tuple[Tool, ...]) -> None:
    """Install the tools that are missing; the tests that need one that stays missing will fail and say so."""
    missing = [tool for tool in tools if shutil.which(tool.name) is None]
    if not missing:
        return
    problem = apt_install([tool.package for tool in missing])
    if problem:
        for tool in missing:
            say(f"warning: {tool.name} is missing; the tests of {tool.purpose} cannot run.")
        say(f"  help: {problem}")
        say("  help: `make test DYN_REQUIRE_TOOLCHAINS=0` skips those tests rather than fail them.")


# ---- the virtual environment -----------------------------------------------------------------------------------------


def prepare_venv() -> None:
    """Make ``.venv``, unless there is one that works."""
    if runs(PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"):
        if runs(PYTHON, "-m", "pip", "--version") or runs(PYTHON, "-m", "ensurepip"):
            return
        raise Failure(".venv has no pip.\n  help: `make clean` removes it; the next `make` makes one with pip.")
    if VENV.exists():
        say("replacing .venv: its Python does not run, or is older than 3.11")
    if importlib.util.find_spec("ensurepip") is None:  # Debian ships it apart from python3
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        problem = apt_install([package])
        if problem:
            raise Failure(f"{sys.executable} cannot make a virtual environment: no ensurepip.\n  help: {problem}")
    command = [sys.executable, "-m", "venv", "--clear", VENV]
    result = run_visibly(command, f"making .venv with Python {sys.version.split()[0]}")
    if result.returncode != 0:
        raise Failure(f"`{sys.executable} -m venv .venv` failed:\n{result.stdout.rstrip()}")


def fingerprint() -> str:
    """A hash of what decides, for given extras, what ``pip install`` would do."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    python = (VENV / "pyvenv.cfg").read_text(encoding="utf-8")
    constraints = CONSTRAINTS.read_text(encoding="utf-8")
    parts = [pyproject["build-system"], pyproject["project"], constraints, python, str(ROOT)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def installed_extras() -> set[str]:
    """The extras that the stamp says are installed, by the dependencies as they are today."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    return set(stamp["extras"]) if stamp["fingerprint"] == fingerprint() else set()


def packages_so_far(lines: Sequence[str]) -> str:
    """pip's last line, and how many packages are in ``.venv``: unpacking takes longest, and pip says nothing then."""
    count = sum(1 for _ in VENV.glob("lib/python*/site-packages/*.dist-info"))
    return f"{last_line(lines)}; {count} packages so far"


def remove_former() -> None:
    """Uninstall this checkout as it was called before; what else has the name is left alone."""
    for record in VENV.glob(f"lib/python*/site-packages/{FORMER}-*.dist-info/direct_url.json"):
        origin = json.loads(record.read_text(encoding="utf-8"))
        if origin.get("dir_info", {}).get("editable"):  # a checkout's, and no package that somebody wanted
            say(f"uninstalling {FORMER}, as this distribution was called")
            command = [PYTHON, "-m", "pip", "uninstall", "-qq", "-y", "--disable-pip-version-check", FORMER]
            if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
                raise Failure(f"pip could not uninstall {FORMER}.\n  help: `make clean` removes .venv.")
            return


def install(job: Job) -> None:
    """Install dyn with a job's extras into ``.venv``, unless the stamp says that this was done."""
    present = installed_extras()
    if present.issuperset(job.extras):
        return
    start = time.monotonic()
    remove_former()
    # Its lines say what is being downloaded or installed. A progress bar would be no line.
    command = [PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["-c", str(CONSTRAINTS), "-e", f".[{','.join(job.extras)}]"]
    result = run_visibly(command, f"installing {job.what}", packages_so_far)
    if result.returncode != 0:
        raise Failure(
            f"pip could not install what is needed. Its last words:\n{last_words(result.stdout)}\n"
            "  help: the first run needs a network (or a local package index that pip knows of); later runs do not."
        )
    stamp = {"fingerprint": fingerprint(), "extras": sorted(present.union(job.extras))}
    STAMP.write_text(json.dumps(stamp), encoding="utf-8")
    say(f"installed in {time.monotonic() - start:.0f} s")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in JOBS:
        print(f"usage: bootstrap.py {' | '.join(JOBS)}", file=sys.stderr)
        return 2
    job = JOBS[arguments[0]]
    try:
        prepare_venv()
        install(job)
        prepare_tools(job.tools)
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
