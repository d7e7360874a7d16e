"""The process that times memory-bound programs with one number of threads.

``python -m benchmarks.memory.measuring OPTIONS`` (a JSON object, :class:`Options`) prints a JSON object a line: the
rows as they are measured (:class:`Row`). Who starts it sets the CPUs and the environment, which libraries read when
they are loaded; ``measure`` does so.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.machine import choose_cpus, thread_environment, wait_for_rest
from benchmarks.memory.program import SIZES, Program, same
from benchmarks.memory.programs import programs
from benchmarks.process import ROOT, WorkerError
from benchmarks.suites.dispatch import Case

#: Who can be timed beside dyn.
PEERS = ("jax", "torch", "numpy", "torchcompile")
#: A call is not timed for much longer.
_MOST_SECONDS = 2.0
#: The most calls before a burst, and how long no more is begun after.
_WARM_CALLS, _WARM_SECONDS = 3, 0.02
#: dyn with every dim declared as its integer.
DECLARED = "declared"


@dataclass(frozen=True)
class Options:
    """What is timed: names of programs and sizes, peers, how many bursts of what length, and by which clock.

    That is the wall's, or the CPU time of the process, which others on the machine disturb less, and which tells
    nothing of two threads.
    """

    programs: list[str]
    sizes: list[str]
    threads: int
    peers: list[str]
    rounds: int
    burst_ms: float
    cpu_time: bool = False


@dataclass
class Row:
    """A program at a size: seconds of a call by who makes it, the bytes of arguments and results, and what failed."""

    program: str
    size: str
    threads: int
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    nbytes: int = 0
    failed: dict[str, str] = field(default_factory=dict[str, str])


def measure(options: Options) -> Iterator[Row]:
    """The rows, from a process of their own, as they come. Raises WorkerError where it ends badly."""
    cpus = choose_cpus(options.threads)
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.memory.measuring", json.dumps(asdict(options))],
        stdout=subprocess.PIPE, cwd=ROOT, env=os.environ | thread_environment(options.threads), text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),  # noqa: PLW1509  # nothing has started threads here
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            yield Row(**json.loads(line))
    if process.returncode:
        raise WorkerError(f"the process of {options.threads} threads ended with {process.returncode}.")


def run(options: Options) -> Iterator[Row]:
    """Time the programs in this process."""
    import torch

    import dyn

    torch.set_num_threads(options.threads)
    known = programs()
    with dyn.config.override(num_threads=options.threads), torch.inference_mode():
        for name in options.programs:
            for size in options.sizes:
                yield _row(known[name], size, options)


def _row(program: Program, size: str, options: Options) -> Row:
    row = Row(program.name, size, options.threads)
    arrays = program.make(np.random.default_rng(0), *SIZES[size])
    expected = program.numpy(*arrays)
    parts = expected if isinstance(expected, tuple | list) else (expected,)
    row.nbytes = sum(np.asarray(array).nbytes for array in (*arrays, *parts))
    cases: list[Case] = []
    for who, prepare in _ways(program, arrays, options.peers).items():
        try:
            case, result = prepare()
        except Exception as error:
            row.failed[who] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            continue
        if not _right(program, arrays, result, expected):
            row.failed[who] = "the result is wrong"
        else:
            cases.append(case)
    _time(cases, options)
    row.seconds = {case.who: case.seconds for case in cases}
    return row


def _time(cases: list[Case], options: Options) -> None:
    """Bursts in turn, in each round another order, so that within a few rounds each has come behind each other.

    Threads of the one before are waited for: OpenMP's look for work for milliseconds after a burst of PyTorch's, on the
    CPU that the next one's threads need.
    """
    counts: list[int] = []
    for case in cases:
        case.clock = time.process_time if options.cpu_time else time.perf_counter
        case.burst(1)
        case.burst(2)
        counts.append(max(1, int(options.burst_ms * 1e-3 / case.seconds)))
    # The least of a few is enough of what takes long.
    rounds = [
        min(options.rounds, max(2, int(_MOST_SECONDS / (case.seconds * counts[at])))) for at, case in enumerate(cases)
    ]
    steps = [step for step in range(1, len(cases) + 1) if math.gcd(step, len(cases)) == 1]
    for turn in range(options.rounds):
        for number in range(len(cases)):
            at = (turn + number * steps[turn % len(steps)]) % len(cases)
            if turn < rounds[at]:
                if options.threads > 1:
                    wait_for_rest()
                _warm_up(cases[at])
                cases[at].burst(counts[at])


def _warm_up(case: Case) -> None:
    """A few calls before a burst that count for nothing: a burst of large arrays is one or two calls, and it takes
    three until the caches and the pages of results are as the calls themselves leave them."""
    start = time.perf_counter()
    for _ in range(_WARM_CALLS):
        case.function(*case.arguments)
        if time.perf_counter() - start > _WARM_SECONDS:
            return


def _right(program: Program, arrays: tuple[Any, ...], result: Any, expected: Any) -> bool:
    if not program.own_numbers:
        return same(result, expected, program.tolerance)
    # Dropout: what is kept is the argument over the probability, and as much is kept as was asked for.
    got, x = np.asarray(result), np.asarray(arrays[0])
    kept = got != 0
    return same(got[kept], x[kept] / 0.9, program.tolerance) and abs(kept.mean() - 0.9) < 0.03


def _ways(program: Program, arrays: tuple[Any, ...], peers: list[str]) -> dict[str, Callable[[], tuple[Case, Any]]]:
    """For each who calls, what makes its case and its first result."""

    def plain(who: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Case, Any]:
        return Case(program.name, who, function, arguments), function(*arguments)

    def dyns(who: str, shapes: str | None) -> tuple[Case, Any]:
        import dyn

        return plain(who, dyn.jit(program.dyn, shapes=shapes), arrays)

    def jaxs() -> tuple[Case, Any]:
        import jax

        compiled = jax.jit(program.jax)
        moved = tuple(jax.numpy.asarray(array) for array in arrays)
        return plain("jax", lambda *x: jax.block_until_ready(compiled(*x)), moved)

    def torchs(who: str, wrap: Callable[[Any], Any]) -> tuple[Case, Any]:
        import torch

        return plain(who, wrap(program.torch), tuple(torch.from_numpy(array) for array in arrays))

    def compiled(function: Any) -> Any:
        import torch

        return torch.compile(function, dynamic=False)

    declared = ", ".join(" ".join(map(str, array.shape)) for array in arrays)
    ways: dict[str, Callable[[], tuple[Case, Any]]] = {
        "dyn": lambda: dyns("dyn", None),
        DECLARED: lambda: dyns(DECLARED, declared),
        "jax": jaxs,
        "torch": lambda: torchs("torch", lambda function: function),
        "torchcompile": lambda: torchs("torchcompile", compiled),
        "numpy": lambda: plain("numpy", program.numpy, arrays),
    }
    return {who: way for who, way in ways.items() if who in ("dyn", DECLARED) or who in peers}


def main() -> None:
    options = Options(**json.loads(sys.argv[1]))
    out = os.fdopen(os.dup(1), "w")  # libraries may print
    with contextlib.redirect_stdout(sys.stderr):
        start = time.perf_counter()
        for row in run(options):
            print(json.dumps(asdict(row)), file=out, flush=True)
            times = " ".join(f"{who} {1e6 * seconds:.1f}" for who, seconds in row.seconds.items())
            bad = " ".join(f"{who}: {why}" for who, why in row.failed.items())
            print(f"{time.perf_counter() - start:6.0f} s  {row.program} {row.size}: {times} {bad}", file=sys.stderr)


if __name__ == "__main__":
    main()
