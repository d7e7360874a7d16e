"""JAX's own tests, of a checkout of github.com/jax-ml/jax at the version that is installed, by ``dyn.interop.jax.jit``.

    python -m tests.interop.jax_own_tests --checkout PATH [--cases 4] [--write] [FILE…]

JAX's tests compare a function with itself under ``jax.jit``, by a method that all of them call. Here that method
compares with the function under dyn's ``jit``, as JAX's does: two calls, and one with other numbers. ``--cases`` is how
many of a test's combinations of types and shapes are tried, of which JAX chooses 10. ``--write`` puts the totals into
``docs/harnesses.md``. Each file of tests has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import unittest
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.interop.harness_page import write_page

#: The files whose tests compare so.
FILES = (
    "lax_test", "lax_control_flow_test", "lax_numpy_test", "lax_numpy_operators_test", "lax_numpy_reducers_test",
    "lax_numpy_indexing_test", "lax_numpy_einsum_test", "lax_numpy_setops_test", "lax_numpy_ufuncs_test",
    "lax_scipy_test", "lax_scipy_special_functions_test", "linalg_test", "fft_test", "scipy_fft_test",
    "scipy_signal_test", "scipy_stats_test", "scipy_interpolate_test", "scipy_spatial_test", "polynomial_test",
    "random_lax_test", "dtypes_test",
)  # fmt: skip
KINDS = ("passed", "refused", "differs", "failed")


def run_file(name: str) -> dict[str, Any]:
    """Run the tests of a file, on the path, and count what their comparisons come to."""
    from jax._src import test_util

    import dyn
    from dyn.errors import NotYetError, UnsupportedOpError

    counts: Counter[str] = Counter()
    told: list[str] = []

    def compare(
        self: Any, fun: Callable[..., Any], args_maker: Callable[[], Sequence[Any]], *, check_dtypes: bool = True,
        tol: Any = None, rtol: Any = None, atol: Any = None, check_cache_misses: bool = True,
    ) -> None:  # fmt: skip
        args = args_maker()
        wanted = fun(*args)
        compiled = dyn.interop.jax.jit(fun)
        kind, error = "passed", None
        try:
            made = [compiled(*args), compiled(*args)]
            others = args_maker()
            pairs = [(one, wanted) for one in made] + [(compiled(*others), fun(*others))]
        except (NotYetError, UnsupportedOpError) as caught:
            kind, error, pairs = "refused", caught, []
        except Exception as caught:
            kind, error, pairs = "failed", caught, []
        for own, jaxs in pairs:
            try:
                self.assertAllClose(own, jaxs, check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol)
            except AssertionError as caught:
                kind, error = "differs", caught
                break
        counts[kind] += 1
        if error is not None:
            first = (str(error).strip().splitlines() or [""])[0]
            told.append(f"{kind}: {self.id()}: {type(error).__name__}: {first[:200]}")

    test_util.JaxTestCase._CompileAndCheck = compare  # pyright: ignore[reportAttributeAccessIssue]
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    result = unittest.TextTestRunner(stream=open(os.devnull, "w"), verbosity=0).run(suite)  # noqa: SIM115
    return {"counts": counts, "told": told, "tests": result.testsRun}


def run(checkout: Path, names: Sequence[str], cases: int) -> dict[str, Any]:
    """The outcomes of files of tests, each in a process of its own."""
    made: dict[str, Any] = {}
    root = Path(__file__).resolve().parents[2]
    for name in names:
        env = {
            **os.environ, "PYTHONPATH": f"{root}:{checkout / 'tests'}", "JAX_NUM_GENERATED_CASES": str(cases),
            "JAX_ENABLE_CHECKS": "0", "JAX_PLATFORMS": "cpu",
        }  # fmt: skip
        command = [sys.executable, "-m", "tests.interop.jax_own_tests", "--one", name]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"counts"')]
        if not lines:
            print(done.stderr[-2000:], file=sys.stderr)
            made[name] = {"counts": {"failed": 1}, "told": [f"failed: {name}: the process ended by {done.returncode}"]}
        else:
            made[name] = json.loads(lines[-1])
        counts = made[name]["counts"]
        print(name, ", ".join([f"{counts[kind]} {kind}" for kind in KINDS if counts.get(kind)]), flush=True)
        for line in made[name]["told"]:
            print("  " + line, flush=True)
    return made


def page(made: Mapping[str, Any], jax: str, cases: int) -> str:
    """The totals as Markdown."""
    totals = Counter[str]()
    for one in made.values():
        totals.update(one["counts"])
    ran = sum(totals.values())
    rest = ", ".join([f"{totals[kind]:,} {kind}" for kind in KINDS[1:] if totals[kind]]) or "nothing else"
    rows = [
        f"| `{name}` | {' | '.join([str(one['counts'].get(kind) or '') for kind in KINDS])} |"
        for name, one in made.items()
    ]
    return "\n".join([
        f"Of {ran:,} comparisons in JAX {jax}'s own tests ({cases} cases a test) {totals['passed']:,} pass "
        f"({totals['passed'] / max(ran, 1):.2%}); {rest}.",
        "", "| file | passed | refused | differs | failed |", "|---|---:|---:|---:|---:|", *rows,
    ])  # fmt: skip


def main() -> None:
    """Run files of tests; the last line of ``--one`` is its outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--cases", type=int, default=4)
    parser.add_argument("--one")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("files", nargs="*", default=FILES)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_file(options.one)))
        return
    import jax

    made = run(options.checkout, options.files, options.cases)
    text = page(made, jax.__version__, options.cases)
    print(text)
    if options.write:
        write_page("own tests", text)


if __name__ == "__main__":
    main()
