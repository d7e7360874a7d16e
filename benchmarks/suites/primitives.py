"""Sorting, running sums, the greatest elements, scatter-add and loops, beside NumPy and JAX.

Everything runs in one process with one thread each. Calls take turns, and each one's quickest counts, by the clock: a
process's time on the CPU lacks what JAX's own thread has just done.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.machine import describe_cpu, thread_environment
from benchmarks.options import words
from benchmarks.report import Report, Table

#: Steps of the loop.
STEPS = 10_000
#: Columns of the table, and what dyn is compared with.
WHO = ("dyn", "numpy", "jax")


@dataclass
class Case:
    """A row of the table: the same work done by each of some libraries."""

    name: str
    what: str
    calls: dict[str, Callable[[], object]]
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def round(self, turn: int) -> None:
        """Each call once more. Another one begins at each turn: it finds the arrays where others have not left them."""
        calls = list(self.calls.items())
        first = turn % len(calls)
        for who, call in calls[first:] + calls[:first]:
            start = time.perf_counter()
            call()
            self.seconds[who] = min(self.seconds.get(who, float("inf")), time.perf_counter() - start)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=10**6, help="elements (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=10, help="calls of each (default: %(default)s)")
    parser.add_argument("--only", default=",".join(CASES), help="rows, with commas between (default: %(default)s)")
    parser.add_argument("--skip-jax", action="store_true", help="leave JAX out")


def run(arguments: argparse.Namespace) -> Report:
    names = words(arguments.only)
    for name in names:
        if name not in CASES:
            raise ValueError(f"there is no row {name!r}; there are {', '.join(CASES)}.")
    if arguments.size < 1000 or arguments.repeats < 1:
        raise ValueError("--size must be at least 1000, and --repeats 1.")
    import dyn

    os.environ.update(thread_environment(1))  # read when JAX is imported
    load = os.getloadavg()[0]
    with dyn.config.override(num_threads=1):
        cases = [CASES[name](name, arguments.size, _jax(arguments.skip_jax)) for name in names]
        for turn in range(arguments.repeats + 1):  # the first compiles
            for case in cases:
                case.round(turn)
    return report(cases, arguments.size, load)


def _jax(skipped: bool) -> Any:
    """The ``jax`` module, or None."""
    if skipped:
        return None
    import jax

    return jax


# ---- the work --------------------------------------------------------------------------------------------------------


def sort(name: str, size: int, jax: Any) -> Case:
    import dyn.numpy as dnp

    x = _normal(size)
    return _unary(name, f"sort {size:,} float32", x, dnp.sort, np.sort, jax and jax.numpy.sort, jax)


def argsort(name: str, size: int, jax: Any) -> Case:
    """Stable, as dyn's and JAX's are."""
    import dyn.numpy as dnp

    def numpys(x: np.ndarray) -> np.ndarray:
        return np.argsort(x, kind="stable")

    return _unary(name, f"argsort {size:,} float32", _normal(size), dnp.argsort, numpys, jax and jax.numpy.argsort, jax)


def cumsum(name: str, size: int, jax: Any) -> Case:
    import dyn.numpy as dnp

    x = _normal(size)
    return _unary(name, f"cumsum of {size:,} float32", x, dnp.cumsum, np.cumsum, jax and jax.numpy.cumsum, jax)


def cumsum_columns(name: str, size: int, jax: Any) -> Case:
    import dyn.numpy as dnp

    x = _normal(size // 1000, 1000)
    own, numpys = (lambda x: dnp.cumsum(x, axis=0)), (lambda x: np.cumsum(x, axis=0))
    theirs = jax and (lambda x: jax.numpy.cumsum(x, axis=0))
    return _unary(name, f"cumsum of {x.shape[0]:,} rows of 1,000", x, own, numpys, theirs, jax)


def top_k(name: str, size: int, jax: Any) -> Case:
    """The 100 greatest; NumPy's are found by partition, and then sorted."""
    import dyn

    def numpys(x: np.ndarray) -> object:
        chosen = np.argpartition(x, x.size - 100)[x.size - 100 :]
        order = chosen[np.argsort(-x[chosen], kind="stable")]
        return x[order], order

    theirs = jax and (lambda x: jax.lax.top_k(x, 100))
    # By name, since the type checker knows the function's exact form, and this one serves any.
    own: Any = getattr(dyn.lax, "top_k", None)
    return _unary(
        name, f"the 100 greatest of {size:,}", _normal(size), own and (lambda x: own(x, 100)), numpys, theirs, jax
    )


def scatter_add(name: str, size: int, jax: Any) -> Case:
    places = np.random.default_rng(1).integers(0, size, size)
    return _scatter(name, f"add {size:,} numbers at random", np.zeros(size, np.float32), places, _normal(size), jax)


def scatter_add_rows(name: str, size: int, jax: Any) -> Case:
    """An embedding's gradient."""
    count = size // 64
    places = np.random.default_rng(1).integers(0, 1000, count)
    what = f"add {count:,} rows of 64 to 1,000"
    return _scatter(name, what, np.zeros((1000, 64), np.float32), places, _normal(count, 64), jax)


def scan(name: str, size: int, jax: Any) -> Case:
    """A loop whose body is next to nothing."""
    import dyn

    def loop(lib: Any) -> Callable[[Any], Any]:
        return lambda x: lib.lax.fori_loop(0, STEPS, lambda i, x: x * np.float32(0.5) + np.float32(1), x)

    def numpys(x: np.ndarray) -> np.ndarray:
        for _ in range(STEPS):
            x = x * np.float32(0.5) + np.float32(1)
        return x

    what = f"a loop of {STEPS:,} steps over 8 float32"
    return _unary(name, what, np.zeros(8, np.float32), loop(dyn), numpys, jax and loop(jax), jax)


CASES: dict[str, Callable[[str, int, Any], Case]] = {
    "sort": sort, "argsort": argsort, "cumsum": cumsum, "cumsum_columns": cumsum_columns, "top_k": top_k,
    "scatter_add": scatter_add, "scatter_add_rows": scatter_add_rows, "scan": scan,
}  # fmt: skip


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _unary(name: str, what: str, x: np.ndarray, own: Any, numpys: Any, theirs: Any, jax: Any) -> Case:
    """A function of an array, as each library has it; None where it has none."""
    return _case(name, what, (x,), own, numpys, theirs, jax)


def _case(name: str, what: str, arrays: tuple[np.ndarray, ...], own: Any, numpys: Any, theirs: Any, jax: Any) -> Case:
    import dyn

    calls: dict[str, Callable[[], object]] = {}
    if own is not None:
        jitted = dyn.jit(own)
        calls["dyn"] = lambda: jitted(*arrays)
    calls["numpy"] = lambda: numpys(*arrays)
    if theirs is not None:
        compiled, moved = jax.jit(theirs), [jax.numpy.asarray(a) for a in arrays]
        calls["jax"] = lambda: jax.block_until_ready(compiled(*moved))
    return Case(name, what, calls)


def _scatter(name: str, what: str, x: np.ndarray, places: np.ndarray, updates: np.ndarray, jax: Any) -> Case:
    from dyn.numpy._indexing.getitem import scatter_update

    def numpys(x: np.ndarray, places: np.ndarray, updates: np.ndarray) -> np.ndarray:
        made = x.copy()
        np.add.at(made, places, updates)
        return made

    def own(x: Any, places: Any, updates: Any) -> Any:
        return scatter_update(x, (places,), updates, "add")

    theirs = jax and (lambda x, places, updates: x.at[places].add(updates))
    return _case(name, what, (x, places, updates), own, numpys, theirs, jax)


# ---- reporting -------------------------------------------------------------------------------------------------------


def report(cases: list[Case], size: int, load: float) -> Report:
    rows: list[tuple[str, ...]] = []
    for case in cases:
        others = [case.seconds[who] for who in WHO[1:] if who in case.seconds]
        own = case.seconds.get("dyn")
        ratio = "–" if own is None else f"{own / min(others):.2f}×"
        cells = (f"{1000 * case.seconds[who]:.2f}" if who in case.seconds else "–" for who in WHO)
        rows.append((case.what, *cells, ratio))
    notes = (
        f"{describe_cpu()}; one thread; load {load:.1f} when it began.",
        "The quickest call of each, results allocated anew. The last column: goals are 1.5× NumPy for sort, 1.2× "
        f"for others; a step of the loop may take 1 µs, which is {STEPS / 1000:.0f} ms in all.",
    )
    table = Table("Milliseconds", ("", *WHO, "dyn / best other"), tuple(rows))
    return Report("Primitives", (table,), notes, {"calls": {case.name: case.seconds for case in cases}})
