"""The process that times memory-bound programs with one number of threads.

``python -m benchmarks.memory.measuring OPTIONS`` (a JSON object, :class:`Options`) prints a JSON object a line: the
rows as they are measured (:class:`Row`). Who starts it sets the CPUs and the environment, which libraries read when
they are loaded; ``measure`` does so.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.machine import choose_cpus, thread_environment, wait_for_rest
from benchmarks.memory.program import SIZES, Function, Program, TorchGradient, same
from benchmarks.memory.structure import structure
from benchmarks.process import ROOT, WorkerError
from benchmarks.suites.dispatch import Case
from benchmarks.tree import map_leaves

#: Who can be timed beside dyn: ``torchcompile`` compiles for each size apart, ``inductor`` with ``dynamic=True``.
PEERS = ("jax", "torch", "numpy", "torchcompile", "inductor")
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
    nothing of two threads. ``table`` is the module whose ``programs()`` are meant. ``declared`` times dyn with every
    dim declared as well; ``median`` has the median burst count, not the quickest; ``structure`` looks at programs.
    """

    programs: list[str]
    sizes: list[str]
    threads: int
    peers: list[str]
    rounds: int
    burst_ms: float
    cpu_time: bool = False
    table: str = "benchmarks.memory.programs"
    declared: bool = True
    median: bool = False
    structure: bool = False


@dataclass
class Row:
    """A program at a size: seconds of a call by who makes it, the bytes of arguments and results, what failed, and what
    a call of dyn's launches, as a dict."""

    program: str
    size: str
    threads: int
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    nbytes: int = 0
    failed: dict[str, str] = field(default_factory=dict[str, str])
    structure: dict[str, int] | None = None


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
    known: dict[str, Program] = importlib.import_module(options.table).programs()
    with dyn.config.override(num_threads=options.threads):
        for name in options.programs:
            # Tensors of inference mode have no gradients.
            with torch.inference_mode(not isinstance(known[name].torch, TorchGradient)):
                yield from _rows(known[name], options)


def _rows(program: Program, options: Options) -> Iterator[Row]:
    ways = _ways(program, options)
    for size in options.sizes:
        yield _row(program, ways, size, options)


def _row(program: Program, ways: dict[str, Way], size: str, options: Options) -> Row:
    row = Row(program.name, size, options.threads)
    arrays = program.make(np.random.default_rng(0), *SIZES[size])
    expected = program.numpy(*arrays)
    row.nbytes = _nbytes(arrays) + _nbytes(expected)
    cases: list[Case] = []
    for who, prepare in ways.items():
        try:
            case, result = prepare(arrays)
        except Exception as error:
            row.failed[who] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            continue
        if not _right(program, arrays, result, expected):
            row.failed[who] = "the result is wrong"
        else:
            cases.append(case)
    _time(cases, options)
    row.seconds = {case.who: statistics.median(case.bursts) if options.median else case.seconds for case in cases}
    if options.structure:
        found = [structure(case.function, case.arguments) for case in cases if case.who == "dyn"]
        row.structure = asdict(found[0]) if found else None
    return row


def _nbytes(tree: Any) -> int:
    """Bytes of an array, or of a tuple or list of such."""
    if isinstance(tree, tuple | list):
        return sum(map(_nbytes, tree))
    return np.asarray(tree).nbytes


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
        case.bursts.clear()
    # The least of a few is enough of what takes long; a median is of all.
    few = [max(2, int(_MOST_SECONDS / (case.seconds * counts[at]))) for at, case in enumerate(cases)]
    rounds = [options.rounds if options.median else min(options.rounds, most) for most in few]
    if options.median:
        wait_for_rest(_MOST_SECONDS)  # what dyn compiles in the background
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


#: Makes a case of arguments, and calls it for the first time.
Way = Callable[[tuple[Any, ...]], tuple[Case, Any]]


def _ways(program: Program, options: Options) -> dict[str, Way]:
    """For each who calls, what makes cases. Functions are compiled for all sizes, as far as each library does that."""

    def plain(who: str, function: Function, arguments: Sequence[Any]) -> tuple[Case, Any]:
        return Case(program.name, who, function, tuple(arguments)), function(*arguments)

    def dyns() -> Way:
        import dyn

        function = dyn.jit(program.dyn)
        return lambda arrays: plain("dyn", function, arrays)

    def declared() -> Way:
        import dyn

        def way(arrays: tuple[Any, ...]) -> tuple[Case, Any]:
            shapes = ", ".join(" ".join(map(str, array.shape)) for array in arrays)
            return plain(DECLARED, dyn.jit(program.dyn, shapes=shapes), arrays)

        return way

    def jaxs() -> Way:
        import jax

        compiled = jax.jit(program.jax)

        def way(arrays: tuple[Any, ...]) -> tuple[Case, Any]:
            moved = map_leaves(lambda _, array: jax.numpy.asarray(array), list(arrays))
            return plain("jax", lambda *x: jax.block_until_ready(compiled(*x)), moved)

        return way

    def torchs(who: str, form: Function) -> Way:
        import torch

        def way(arrays: tuple[Any, ...]) -> tuple[Case, Any]:
            return plain(who, form, map_leaves(lambda _, array: torch.from_numpy(array), list(arrays)))

        return way

    makers: dict[str, Callable[[], Way]] = {
        "dyn": dyns,
        DECLARED: declared,
        "jax": jaxs,
        "torch": lambda: torchs("torch", program.torch),
        "torchcompile": lambda: torchs("torchcompile", _compiled(program, dynamic=False)),
        "inductor": lambda: torchs("inductor", _compiled(program, dynamic=True)),
        "numpy": lambda: lambda arrays: plain("numpy", program.numpy, arrays),
    }
    asked = {"dyn", *options.peers, *([DECLARED] if options.declared else [])} - set(program.without)
    return {who: maker() for who, maker in makers.items() if who in asked}


def _compiled(program: Program, *, dynamic: bool) -> Function:
    """PyTorch's form, compiled by PyTorch."""
    import torch

    def compile_form(form: Function) -> Function:
        return torch.compile(form, dynamic=dynamic)

    torch._dynamo.reset()  # or programs that share code would share its limit of compilations
    form = program.torch if program.for_inductor is None else program.for_inductor
    return form.compiled(compile_form) if isinstance(form, TorchGradient) else compile_form(form)


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
