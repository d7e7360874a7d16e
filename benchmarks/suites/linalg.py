"""Linear algebra of many small matrices and of single ones, beside NumPy and JAX.

Everything runs in one process. NumPy loads its LAPACK when it is imported, and so reads how many threads to use from
the environment of the command: ``OPENBLAS_NUM_THREADS=1 python -m benchmarks linalg``. Calls take turns, and each one's
quickest counts, by the clock.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.machine import describe_cpu, thread_environment
from benchmarks.options import words
from benchmarks.report import Report, Table
from benchmarks.suites.primitives import WHO, Case

#: What is computed, with the namespace of each library.
WORK: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda lib, x: lib.linalg.cholesky(x),
    "solve": lambda lib, x: lib.linalg.solve(x, x),
    "inv": lambda lib, x: lib.linalg.inv(x),
    "det": lambda lib, x: lib.linalg.det(x),
    "qr": lambda lib, x: lib.linalg.qr(x),
    "eigh": lambda lib, x: lib.linalg.eigh(x),
    "svd": lambda lib, x: lib.linalg.svd(x, full_matrices=False),
    "eig": lambda lib, x: lib.linalg.eig(x),
}
SHAPES = ((1000, 4, 4), (16, 16), (64, 64))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=20, help="calls of each (default: %(default)s)")
    parser.add_argument("--only", default=",".join(WORK), help="what, with commas between (default: %(default)s)")
    parser.add_argument("--skip-jax", action="store_true", help="leave JAX out")


def run(arguments: argparse.Namespace) -> Report:
    names = words(arguments.only)
    for name in names:
        if name not in WORK:
            raise ValueError(f"there is no {name!r}; there are {', '.join(WORK)}.")
    if arguments.repeats < 1:
        raise ValueError("--repeats must be at least 1.")
    import dyn

    os.environ.update(thread_environment(1))  # read when JAX is imported, and by SciPy's LAPACK
    load = os.getloadavg()[0]
    with dyn.config.override(num_threads=1):
        cases = [_case(name, shape, arguments.skip_jax) for name in names for shape in SHAPES]
        for turn in range(arguments.repeats + 1):  # the first compiles
            for case in cases:
                case.round(turn)
    return _report(cases, load)


def _case(name: str, shape: tuple[int, ...], skip_jax: bool) -> Case:
    import dyn
    import dyn.numpy as dnp

    work = WORK[name]
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    # Positive definite, with determinants that float32 has.
    x = x @ np.swapaxes(x, -1, -2) / shape[-1] + np.float32(0.5) * np.eye(shape[-1], dtype=np.float32)
    own = dyn.jit(lambda x: work(dnp, x))
    calls: dict[str, Callable[[], object]] = {"dyn": lambda: own(x), "numpy": lambda: work(np, x)}
    if not skip_jax:
        import jax

        theirs, moved = jax.jit(lambda x: work(jax.numpy, x)), jax.numpy.asarray(x)
        calls["jax"] = lambda: jax.block_until_ready(theirs(moved))
    return Case(f"{name}{shape}", f"{name} of {' × '.join(map(str, shape))}", calls)


def _report(cases: list[Case], load: float) -> Report:
    rows: list[tuple[str, ...]] = []
    for case in cases:
        best = min(case.seconds[who] for who in WHO[1:] if who in case.seconds)
        cells = (f"{1e6 * case.seconds[who]:.0f}" if who in case.seconds else "–" for who in WHO)
        rows.append((case.what, *cells, f"{case.seconds['dyn'] / best:.2f}×"))
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    notes = (f"{describe_cpu()}; float32; OPENBLAS_NUM_THREADS={threads}; load {load:.1f} when it began.",)
    table = Table("Microseconds", ("", *WHO, "dyn / best other"), tuple(rows))
    return Report("Linear algebra", (table,), notes, {"calls": {case.name: case.seconds for case in cases}})
