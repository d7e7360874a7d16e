"""What functions of users take outside of jit, where they are traced at each call, beside JAX without jit.

Each pair of calls takes turns in one process; the least time that the process computed for counts, of dyn's call and of
JAX's, so that what else the machine does is left out of both.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.machine import describe_cpu
from benchmarks.report import Report, Table

Call = Callable[[], object]


@dataclass
class Pair:
    """One row of the table: dyn's call and, where JAX is there, JAX's."""

    what: str
    dyn: Call
    jax: Call | None
    seconds: tuple[float, float] = (float("inf"), float("inf"))

    def run(self) -> None:
        """Make both calls, and keep their times if they are the best."""
        ours, theirs = self.seconds
        self.seconds = min(ours, _seconds(self.dyn)), theirs if self.jax is None else min(theirs, _seconds(self.jax))


def _seconds(call: Call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=40, help="calls of each function (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=12, help="layers of the MLP (default: %(default)s)")
    parser.add_argument("--skip-peers", action="store_true", help="leave JAX out")


def run(arguments: argparse.Namespace) -> Report:
    if arguments.repeats < 1 or arguments.layers < 1:
        raise ValueError("--repeats and --layers must be at least 1.")
    pairs = [_pair(*case) for case in cases(arguments.layers, with_jax=not arguments.skip_peers)]
    for pair in pairs:
        for _ in range(2):  # compiles
            pair.dyn()
            if pair.jax is not None:
                pair.jax()
        for _ in range(arguments.repeats):
            pair.run()
    return report(pairs)


#: What it is; the call, given the transformations, the namespace and ``array``; of dyn, and of JAX where it is there.
Case = tuple[str, Callable[[Any, Any, Callable[[Any], Any]], Call], tuple[Any, Any] | None]


def cases(layers: int, *, with_jax: bool) -> list[Case]:
    """The calls: each is a function that is written anew each time, as in a notebook."""
    theirs: tuple[Any, Any] | None = None
    if with_jax:
        import jax

        theirs = jax, jax.numpy
    rng = np.random.default_rng(0)
    params = [(rng.standard_normal((64, 64)).astype("f4"), np.zeros(64, "f4")) for _ in range(layers)]
    rows = rng.standard_normal((32, 64)).astype("f4")
    vector, square = rows[0, :8].copy(), rows[:8, :8].copy()

    def network(lib: Any, xp: Any, array: Callable[[Any], Any]) -> Call:
        own = [(array(w), array(b)) for w, b in params]
        x = array(rows)

        def loss(params: Any, x: Any, y: Any) -> Any:
            for w, b in params:
                x = xp.tanh(x @ w + b)
            return ((x - y) ** 2).mean()

        return lambda: lib.grad(loss)(own, x, x)

    def gradient(lib: Any, xp: Any, array: Callable[[Any], Any]) -> Call:
        w = array(vector)
        return lambda: lib.grad(lambda w: (w * w).sum())(w)

    def examples(lib: Any, xp: Any, array: Callable[[Any], Any]) -> Call:
        x = array(square)
        return lambda: lib.vmap(lambda row: xp.tanh(row) * 2 + row.sum())(x)

    def forward(lib: Any, xp: Any, array: Callable[[Any], Any]) -> Call:
        w = array(vector)
        return lambda: lib.jvp(lambda w: xp.sin(w) * w, (w,), (w,))

    def backward(lib: Any, xp: Any, array: Callable[[Any], Any]) -> Call:
        w = array(vector)

        def call() -> Any:
            result, pull = lib.vjp(lambda w: xp.sin(w) * w, w)
            return pull(result)

        return call

    def loop(lib: Any, xp: Any, array: Callable[[Any], Any]) -> Call:
        x, start = array(square), array(vector)
        return lambda: lib.lax.scan(lambda c, row: (xp.tanh(c + row), c * 2), start, x)

    return [
        (f"gradient of an MLP of {layers} layers", network, theirs),
        ("grad(lambda w: (w * w).sum())", gradient, theirs),
        ("vmap of three operations", examples, theirs),
        ("jvp of two operations", forward, theirs),
        ("vjp of two operations, and its pull", backward, theirs),
        ("scan of three operations", loop, theirs),
    ]


def _pair(what: str, make: Callable[[Any, Any, Callable[[Any], Any]], Call], theirs: tuple[Any, Any] | None) -> Pair:
    import dyn
    import dyn.numpy as dnp

    return Pair(what, make(dyn, dnp, lambda array: array), None if theirs is None else make(*theirs, theirs[1].asarray))


def report(pairs: list[Pair]) -> Report:
    rows: list[tuple[str, ...]] = []
    for pair in pairs:
        ours, theirs = pair.seconds
        beside = ("", "") if pair.jax is None else (f"{theirs * 1e3:.2f}", f"{ours / theirs:.2f}")
        rows.append((pair.what, f"{ours * 1e3:.2f}", *beside))
    notes = (
        f"{describe_cpu()}; load {os.getloadavg()[0]:.1f} at the end.",
        "Milliseconds that the process computed for, the least of all calls; JAX is not jitted.",
    )
    data = {"calls": [{"call": pair.what, "seconds": pair.seconds[0], "jax": pair.seconds[1]} for pair in pairs]}
    return Report(
        "Retracing", (Table("A call outside of jit, ms", ("call", "dyn", "JAX", "ratio"), tuple(rows)),), notes, data
    )
