"""Runs the tests of the front ends against other versions of what they read, each in an environment of its own.

``versions.py [--python PROGRAM] [--all] [NAME==VERSION[,NAME==VERSION …]] …``: without versions, those that are said
to work and that ``.venv`` has not. The first name says whose tests run; ``numpy`` is dyn alone, without front ends.
``--all`` runs all tests of a front end rather than those of its calls. What was installed stays in ``.versions``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".versions"
#: What all tests need.
NEEDS = ("hypothesis>=6.100", "pytest>=9", "pytest-xdist>=3.6")
#: The versions that are known to work, but for those that the extras take.
KNOWN = ("jax==0.9.2", "torch==2.14.1", "torch==2.15.0", "tensorflow-cpu==2.20.0,keras==3.14.1")


@dataclass(frozen=True)
class FrontEnd:
    """The tests of a front end, as paths or patterns of them, what these import besides, and dyn's own extras."""

    tests: tuple[str, ...]
    whole: tuple[str, ...]
    needs: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    #: Whether a test whose package is missing fails; otherwise it is skipped, and the table says so.
    strict: bool = True


FRONT_ENDS = {
    "numpy": FrontEnd(
        ("tests/api", "tests/numpy/test_[e-m]*.py"),
        ("tests/api", "tests/numpy", "tests/call", "tests/trace", "tests/specialize", "tests/runtime"),
        ("flatbuffers>=24",),
        extras=("jax", "linalg", "notebook"),
        strict=False,  # a few tests are of PyTorch's tensors
    ),
    "jax": FrontEnd(
        tuple(f"tests/interop/test_jax_{name}*.py" for name in ("call", "internals", "jit", "runs_dyn", "sizes")),
        ("tests/interop/test_*.py",),
        ("absl-py>=2", "flatbuffers>=24"),
    ),
    "torch": FrontEnd(
        tuple(
            f"tests/interop/torch/test_{name}.py"
            for name in (
                "backend", "calls", "dynamic_shapes", "fallback", "functions", "gradients", "higher_order", "modules",
                "optimizers", "own_values", "random", "side_effects", "sizes", "strides", "transformations", "wrapping",
            )
        ),
        ("tests/interop/torch",),
        ("expecttest>=0.3", "transformers==5.23.0"),
        extras=("linalg",),
    ),
    "tensorflow-cpu": FrontEnd(
        tuple(
            f"tests/interop/tf/test_tf_{name}.py"
            for name in (
                "bad_input", "front_end", "functions", "gradients", "graphs", "keras", "keras_building", "lists", "ops",
                "variables",
            )
        ),
        ("tests/interop/tf",),
        ("sybil>=9",),
        extras=("jax", "linalg"),  # Keras runs on both; on PyTorch too, which is as large as all else
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What a run of tests said: how many passed, and the names of the others, with reasons."""

    versions: str
    python: str
    passed: int
    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    seconds: float


class Failure(Exception):
    """Ends the run with a message for the person at the terminal."""


def say(text: str) -> None:
    print(f"[dyn] {text}", flush=True)


def front_end(versions: str) -> FrontEnd:
    """The front end that the first of some requirements is of."""
    name = versions.partition(",")[0].partition("==")[0]
    if name not in FRONT_ENDS:
        raise Failure(f"{versions} begins with no name that has tests: {', '.join(FRONT_ENDS)}.")
    return FRONT_ENDS[name]


def prepare(python: str, release: str, versions: str) -> Path:
    """The Python of an environment that has some versions, and what their tests need; made unless it is there."""
    folder = FOLDER / f"{release}-{versions.replace('==', '-').replace(',', '-')}"
    own = folder / "bin" / "python"
    stamp = folder / "dyn-installed"
    chosen = front_end(versions)
    own_extras = f"[{','.join(chosen.extras)}]" if chosen.extras else ""
    wanted = [*versions.split(","), *chosen.needs, *NEEDS]
    wanted += ["-e", f"{ROOT}{own_extras}"]
    if stamp.exists() and stamp.read_text(encoding="utf-8") == "\n".join(wanted):
        return own
    say(f"installing {' '.join(wanted[:-2])} for Python {release} (a minute or more, once)")
    shutil.rmtree(folder, ignore_errors=True)
    # Debian's Pythons have no ensurepip of their own: pip is put there by that of this process.
    steps: list[list[str | Path]] = [[python, "-m", "venv", "--without-pip", folder]]
    site = folder / "lib" / f"python{release}" / "site-packages"
    pip = ["pip", "install", "-qq", "--no-input", "--disable-pip-version-check"]
    steps.append([sys.executable, "-m", *pip, "--target", site, "pip"])
    steps.append([own, "-m", *pip, *wanted])
    for step in steps:
        if subprocess.run(step, cwd=ROOT, check=False).returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            raise Failure(f"{versions} cannot be installed for Python {release}; the message is above.")
    stamp.write_text("\n".join(wanted), encoding="utf-8")
    return own


def test_files(patterns: Iterable[str]) -> list[str]:
    return [str(path.relative_to(ROOT)) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def read_report(report: Path) -> tuple[int, list[str], list[str]]:
    """How many tests passed, and the others' names, of a report as JUnit's."""
    passed, failed, skipped = 0, list[str](), list[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        bad = [found for found in case if found.tag in ("failure", "error")]
        left = [found for found in case if found.tag == "skipped"]
        if bad:
            failed.append(f"{name}: {(bad[0].get('message') or '').partition(chr(10))[0][:200]}")
        elif left:
            skipped.append(f"{name}: {left[0].get('message')}")
        else:
            passed += 1
    return passed, failed, skipped


def run_tests(own: Path, release: str, versions: str, whole: bool, arguments: Sequence[str]) -> Run:
    """Run a front end's tests by an environment's Python."""
    chosen = front_end(versions)
    files = test_files(chosen.whole if whole else chosen.tests)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        settings = {**os.environ, "DYN_REQUIRE_TOOLCHAINS": str(int(chosen.strict)), "PYTHONPATH": str(ROOT)}
        command = [own, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments, *files]
        ended = subprocess.run(command, cwd=ROOT, env=settings, check=False)
        if not report.exists():
            raise Failure(f"pytest ended with {ended.returncode} and no report.")
        passed, failed, skipped = read_report(report)
    return Run(versions, release, passed, tuple(failed), tuple(skipped), time.monotonic() - start)


def table(runs: Sequence[Run]) -> str:
    """The runs as a table, and below it the tests that did not pass."""
    lines = ["| versions | Python | passed | failed | skipped | s |", "|---|---|--:|--:|--:|--:|"]
    for run in runs:
        counts = f"{run.passed:,} | {len(run.failed)} | {len(run.skipped)} | {run.seconds:.0f}"
        lines.append(f"| {run.versions.replace(',', ', ')} | {run.python} | {counts} |")
    for run in runs:
        for word, names in (("failed", run.failed), ("skipped", run.skipped)):
            lines += [f"{word} with {run.versions} and Python {run.python}: {name}" for name in names]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", nargs="*", default=KNOWN, help="NAME==VERSION, by commas those of one environment")
    parser.add_argument("--python", action="append", help="the Python that environments are made of; several times")
    parser.add_argument("--all", action="store_true", help="all tests of a front end")
    parser.add_argument("--pytest", action="append", default=[], help="an argument for pytest; several times")
    options = parser.parse_args(arguments)
    runs: list[Run] = []
    problems: list[str] = []
    for python in options.python or [sys.executable]:
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        release = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        for versions in options.versions:
            try:
                own = prepare(python, release, versions)
                runs.append(run_tests(own, release, versions, options.all, options.pytest))
            except Failure as failure:
                problems.append(str(failure))
    print(table(runs))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return int(bool(problems) or any(run.failed for run in runs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
