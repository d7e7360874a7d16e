"""Without SciPy, which is an extra: programs run, and what SciPy alone computes says so."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: As if it were not installed: it is not found, and cannot be imported.
PREAMBLE = """
import sys
sys.modules["scipy"] = None
import numpy as np, dyn, dyn.numpy as dnp
a, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
"""


def run(program: str, folder: Path) -> str:
    """What a process without SciPy prints; it compiles all anew."""
    script = folder / "program.py"
    script.write_text(PREAMBLE + textwrap.dedent(program), encoding="utf-8")
    environment = {**os.environ, "DYN_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_linear_algebra_is_computed_by_numpy(tmp_path: Path) -> None:
    program = """
        f = dyn.jit(lambda x, y: dnp.linalg.solve(x, y))
        for n in (2, 0, 1, 5):
            x = np.eye(n) * 2 + np.ones((n, n))
            y = np.arange(float(n))
            np.testing.assert_allclose(f(x, y), np.linalg.solve(x, y), rtol=1e-12)
        print(f.cache_info().compiles)
        for name in "inv det cholesky eigvalsh svdvals pinv".split():
            want = getattr(np.linalg, name)(a)
            np.testing.assert_allclose(getattr(dnp.linalg, name)(a), want, rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(dnp.fft.fft(b), np.fft.fft(b))
        """
    assert run(program, tmp_path) == "1\n"


def test_special_functions_are_dyns_own_of_constants_too(tmp_path: Path) -> None:
    """A literal's is computed by the program, where with SciPy it is computed while that is compiled."""
    program = """
        import math
        f = dyn.jit(lambda x: x + dnp.special.erf(0.5) + dyn.lax.lgamma(np.float64(2.5)))
        for n in (0, 1, 7):
            x = np.zeros(n)
            np.testing.assert_allclose(f(x), x + math.erf(0.5) + math.lgamma(2.5), rtol=1e-6)
        print(f.cache_info().compiles, [k for k in sys.modules if k.startswith("scipy.")])
        """
    assert run(program, tmp_path) == "1 []\n"


@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("dyn.lax.linalg.lu(a)", "lu"),
        ("dyn.lax.linalg.triangular_solve(a, a)", "triangular_solve"),
        ("dnp.special.jv(b, b)", "special.jv"),
    ],
)
def test_what_scipy_alone_computes_says_so(call: str, function: str, tmp_path: Path) -> None:
    program = f"""
        try:
            {call}
        except dyn.errors.BackendUnavailableError as error:
            print(error)
        """
    part = {"special.jv": "special"}.get(function, "linalg")
    assert run(program, tmp_path) == (
        f"{function} is computed by SciPy, which cannot be imported: "
        f"No module named 'scipy.{part}'; 'scipy' is not a package.\n"
        f"  at program.py:8  {call}\n"
        "  help: pip install 'scipy>=1.13'\n"
    )


def test_a_program_raises_before_it_gives_anything_and_runs_once_scipy_is_there(tmp_path: Path) -> None:
    program = """
        f = dyn.jit(lambda x: dyn.lax.linalg.lu(x)[0] * 2)
        for _ in range(2):
            try:
                f(a)
            except dyn.errors.BackendUnavailableError as error:
                print(error.problem.partition(":")[0])
        del sys.modules["scipy"]
        print(f(a).tolist(), f.cache_info().compiles)
        """
    said = "lu is computed by SciPy, which cannot be imported\n"
    assert run(program, tmp_path) == f"{said}{said}[[8.0, 2.0], [0.5, 5.5]] 1\n"


def test_a_function_that_scipy_has_is_no_attribute(tmp_path: Path) -> None:
    assert run('print(hasattr(dnp.special, "jv"), hasattr(dnp.special, "erf"))', tmp_path) == "False True\n"


def test_reference_says_so(tmp_path: Path) -> None:
    program = """
        f = dyn.jit(lambda x: dnp.special.erf(x))
        try:
            f.reference(b)
        except dyn.errors.BackendUnavailableError as error:
            print(error.problem.partition(":")[0], "|", error.remedy)
        """
    said: Any = run(program, tmp_path)
    assert said == "erf is computed by SciPy, which cannot be imported | pip install 'scipy>=1.13'\n"


def test_what_is_not_installed_is_one_error(tmp_path: Path) -> None:
    """The error's text says that the import failed: there is no second traceback of it."""
    program = """
        def solve():
            return dyn.lax.linalg.triangular_solve(a, b[:, None], left_side=True)
        for call in (solve, lambda: dnp.special.jv(1.0, b)):
            try:
                call()
            except dyn.errors.BackendUnavailableError as error:
                print(error.__cause__, error.__suppress_context__, str(error).partition(" is computed by SciPy")[0])
        """
    assert run(program, tmp_path) == "None True triangular_solve\nNone True special.jv\n"
