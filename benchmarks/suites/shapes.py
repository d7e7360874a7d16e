"""The solver of shapes: what questions cost, the facts of a deep model, and what grows with a program.

Each question is asked of a fresh snapshot, so that nothing is remembered, and once more of the same one. Times are CPU
times of this process, the least of several runs. With ``--tests`` the questions that tests ask are timed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.machine import describe_cpu
from benchmarks.options import words
from benchmarks.questions import asked_by, quantile
from benchmarks.report import Report, Table
from dyn.shapes import (
    Answer,
    Dim,
    Facts,
    Reason,
    Relation,
    RelKind,
    as_dim,
    broadcast,
    dim_max,
    dim_min,
    floordiv,
    numel_relation,
    symbol,
)

Question = tuple[str, Callable[[Facts], Answer]]
_REASON = Reason("a benchmark says so")
_B, _H, _K, _M, _N, _S = (symbol(name) for name in "bhkmns")
b, h, k, m, n, s = map(as_dim, (_B, _H, _K, _M, _N, _S))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=int, default=100, help="layers of the model (default: %(default)s)")
    parser.add_argument(
        "--repeats", type=int, default=5, help="runs, of which the quickest counts (default: %(default)s)"
    )
    parser.add_argument("--slices", default="10,20,40", help="slices of a sum (default: %(default)s)")
    parser.add_argument("--levels", default="250,500,1000", help="levels of a size (default: %(default)s)")
    parser.add_argument(
        "--tests", default="", help="tests whose questions are timed, with commas between (default: none)"
    )


def run(arguments: argparse.Namespace) -> Report:
    if arguments.repeats < 1 or arguments.layers < 1:
        raise ValueError("--repeats and --layers must be at least 1.")
    tests = words(arguments.tests)
    asked = _asked(tests) if tests else ()
    grown = [
        (name, count, build(count))
        for name, counts, build in (
            ("a sum of shifted slices, traced", arguments.slices, _slices),
            ("a size of levels that share their parts, traced", arguments.levels, _levels),
        )
        for count in [int(text) for text in counts.split(",") if text.strip()]
    ]
    questions = [(name, *_time_question(ask, arguments.repeats)) for name, ask in _questions()]
    layers = [
        (name, min(build(arguments.layers) for _ in range(arguments.repeats)) / arguments.layers)
        for name, build in (
            ("an encoder layer: 6 relations, 3 reshapes", _encoder),
            ("a convolution and a pool: windows, halving", _convolutions),
            ("traced: linear, gelu, residual, layer norm", _traced),
        )
    ]
    return Report(
        "Questions about shapes",
        (
            Table(
                "µs a question",
                ("question", "first", "again", "verdict"),
                tuple(
                    [
                        (name, f"{1e6 * cold:.0f}", f"{1e6 * warm:.1f}", verdict)
                        for name, cold, warm, verdict in questions
                    ]
                ),
            ),
            Table(
                f"ms a layer, {arguments.layers} layers",
                ("layer", "ms"),
                tuple([(name, f"{1e3 * seconds:.2f}") for name, seconds in layers]),
            ),
            Table(
                "ms in all",
                ("program", "of", "ms", "ms each"),
                tuple(
                    [
                        (name, str(count), f"{1e3 * seconds:.0f}", f"{1e3 * seconds / count:.2f}")
                        for name, count, seconds in grown
                    ]
                ),
            ),
            *asked,
        ),
        (describe_cpu(), "CPU times of one thread. The traced layer's time includes NumPy's protocols and the IR."),
        {
            "questions": {name: {"first": cold, "again": warm} for name, cold, warm, _ in questions},
            "layers": dict(layers),
            "grown": [{"program": name, "count": count, "seconds": seconds} for name, count, seconds in grown],
        },
    )


def _asked(tests: list[str]) -> tuple[Table]:
    """The quantiles of the questions that tests ask."""
    with tempfile.TemporaryDirectory(prefix="dyn-bench-") as folder:
        times = asked_by(tests, Path(folder) / "questions.json")
    times["all"] = [seconds for each in times.values() for seconds in each]
    rows = [
        (
            name,
            str(len(seconds)),
            *(f"{1e3 * quantile(seconds, share):.3f}" for share in (0.5, 0.9, 0.99, 0.999)),
            f"{1e3 * max(seconds):.1f}",
        )
        for name, seconds in sorted(times.items())
        if seconds
    ]
    header = ("question", "asked", "half", "90%", "99%", "99.9%", "most")
    return (Table(f"ms a question of {', '.join(tests)}", header, tuple(rows)),)


def _slices(count: int) -> float:
    import numpy as np

    import dyn

    def program(x):  # pyright: ignore[reportMissingParameterType]
        return sum([x[i : x.shape[0] - count + i] for i in range(count)], 0)

    return _timed(lambda: dyn.jit(program).trace(np.zeros(4 * count, "f4")))


def _levels(count: int) -> float:
    import numpy as np

    import dyn
    import dyn.numpy as dnp

    def program(x, y):  # pyright: ignore[reportMissingParameterType]
        size, least = x.shape[0], y.shape[0]
        for _ in range(count):
            size = np.maximum(size // 2, least) + np.minimum(size // 3, least)
        return dnp.zeros((size,))

    return _timed(lambda: dyn.jit(program).trace(np.zeros(5, "f4"), np.zeros(3, "f4")))


def _known() -> Facts:
    """A few declarations and relations, as a program has them."""
    facts = Facts.EMPTY.declare(_S, min=1, max=512, multiple_of=8, reason=_REASON)
    for relation in ((RelKind.GE, h, k), (RelKind.GE, k, m), (RelKind.EQ, n, 64 * b), (RelKind.BROADCASTS, h, m)):
        facts = facts.assume(Relation(*relation, _REASON))
    return facts


def _questions() -> list[Question]:
    sliced = dim_max(0, dim_min(k, h) - dim_min(m, h))
    return [
        ("b*s + 1 == s*b + 1", lambda f: f.eq(b * s + 1, s * b + 1)),
        ("n == 64*b, solved", lambda f: f.eq(n, 64 * b)),
        ("b == s, unknown", lambda f: f.eq(b, s)),
        ("s == 513, refuted by its range", lambda f: f.eq(s, 513)),
        ("s % 4 == 0, declared", lambda f: f.divides(4, s)),
        ("h >= m, two inequalities", lambda f: f.ge(h, m)),
        ("b*h >= b*m, scaled", lambda f: f.ge(b * h, b * m)),
        ("h >= s, unknown", lambda f: f.ge(h, s)),
        ("a window fits", lambda f: f.ge(floordiv(h - k, s) + 1, 1)),
        ("a slice is no longer", lambda f: f.ge(h, sliced)),
        ("x[1:] and x[:-1]", lambda f: f.eq(h - dim_min(1, h), dim_max(h - 1, 0))),
        ("padded to a multiple", lambda f: f.ge(8 * ((h + 7) // 8), h)),
        ("two halves", lambda f: f.eq(h // 2 + (h + 1) // 2, h)),
        ("(b, s, 768) as (b*s, 12, 64)", lambda f: f.same_numel((b, s, 768), (b * s, 12, 64))),
        ("(b, s) as (h, k), unknown", lambda f: f.same_numel((b, s), (h, k))),
        ("h broadcasts with m, known", lambda f: f.broadcasts(broadcast(h, m), m)),
        ("h broadcasts with k, unknown", lambda f: f.broadcasts(h, k)),
    ]


def _time_question(ask: Callable[[Facts], Answer], repeats: int) -> tuple[float, float, str]:
    first: list[float] = []
    again: list[float] = []
    answer: Answer | None = None
    for _ in range(repeats):
        facts = _known()
        for times in (first, again):
            start = time.thread_time()
            answer = ask(facts)
            times.append(time.thread_time() - start)
    assert answer is not None
    return min(first), min(again), answer.verdict.value


def _timed(build: Callable[[], object]) -> float:
    start = time.thread_time()
    build()
    return time.thread_time() - start


def _given(facts: Facts, *relations: tuple[RelKind, Dim, Dim]) -> Facts:
    for relation in relations:
        facts = facts.assume(Relation(*relation, _REASON))
    return facts


def _encoder(layers: int) -> float:
    def build() -> None:
        facts = Facts.EMPTY
        for _ in range(layers):
            rows, cols, keys = (as_dim(symbol(name)) for name in ("rows", "cols", "keys"))
            facts = _given(
                facts,
                (RelKind.EQ, rows, b * s),
                (RelKind.EQ, cols, n),
                (RelKind.GE, keys, s),
                (RelKind.BROADCASTS, keys, n),
            )
            for left, right in (
                ((rows, cols), (b, s, n)),
                ((b, s, 768), (rows, 12, 64)),
                ((b, 12, s, 64), (rows, 768)),
            ):
                facts = facts.assume(numel_relation(left, right, _REASON))
            facts.simplify_shape((rows * cols, keys + rows, broadcast(keys, n)))

    return _timed(build)


def _convolutions(layers: int) -> float:
    def build() -> None:
        facts, size = Facts.EMPTY.declare(_H, min=1, reason=_REASON), h
        for _ in range(layers):
            size = facts.simplify((size + 2 - 3) // 1 + 1)
            facts.ge(size, 1)
            pooled = (size + 2 - 3) // 2 + 1
            facts = _given(facts, (RelKind.GE, size, 1), (RelKind.GE, pooled, 1))
            upsampled = as_dim(symbol("up"))
            facts = _given(facts, (RelKind.EQ, upsampled, 2 * pooled), (RelKind.GE, upsampled, size))
            facts.eq(dim_min(upsampled, size), size)

    return _timed(build)


def _traced(layers: int) -> float:
    import numpy as np

    import dyn
    import dyn.numpy as dnp

    def model(x, w, bias):  # pyright: ignore[reportMissingParameterType]
        for _ in range(layers):
            y = x @ w + bias
            y = 0.5 * y * (1 + dnp.tanh(y)) + x
            x = (y - dnp.mean(y, axis=-1, keepdims=True)) / dnp.sqrt(dnp.var(y, axis=-1, keepdims=True) + 1e-5)
        return x

    arguments = [np.zeros((3, 5, 8), "f4"), np.zeros((8, 8), "f4"), np.zeros(8, "f4")]
    return _timed(lambda: dyn.jit(model).trace(*arguments))
