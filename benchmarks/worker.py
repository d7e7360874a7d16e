"""The process of one peer: it loads a program, keeps it, and measures a call when asked.

``python -m benchmarks.worker CPUS`` reads one JSON object a line from standard input and answers each with one line.
``process`` is the other side.

======  ======================================================  ====================================================
do      takes                                                   answers
======  ======================================================  ====================================================
load    framework, program, config, params (a path), threads    versions
run     inputs (a path of .npz, or null for no arguments),      seconds, cpu_seconds, compiles, compile_seconds:
        output (a path or null), calls                          means of the calls
settle                                                          nothing: all weights were called with, until nothing
                                                                was compiled behind the calls
burst   seconds                                                 seconds and cpu_seconds of a call, the means of as
                                                                many as fit; no thread is left at work
memory                                                          peak, in bytes, since the program was loaded
capture                                                         seconds, of all compiles so far, for peers that tell
======  ======================================================  ====================================================

``settle`` and ``burst`` are for peers of one product of matrices (``benchmarks/products/rotation.py``). What goes wrong
is answered too, as ``error``, with its traceback, and with ``missing`` where a package is.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: How often, and for how long each time, a peer is waited for that compiles behind its calls.
_SETTLING_ROUNDS, _SETTLING_SECONDS = 3, 3.0
#: How long threads that look for work after a burst are waited for: those of OpenMP do for milliseconds.
_RESTING_SECONDS = 0.05
#: The most calls before a burst: it takes three until caches and the pages of results are as calls leave them.
_WARM_CALLS = 3


class Server:
    """What each ``do`` does."""

    peer: Any

    def load(self, framework: str, program: str, config: dict[str, Any], params: str, threads: int) -> dict[str, Any]:
        from benchmarks.machine import reset_peak_memory
        from benchmarks.peers import peer_class
        from benchmarks.tree import load_tree

        self.peer = peer_class(framework, program)(config, load_tree(Path(params)), threads)
        gc.collect()
        reset_peak_memory()
        return {"versions": self.peer.versions()}

    def run(self, inputs: str | None, output: str | None, calls: int = 1) -> dict[str, Any]:
        import numpy as np

        arrays: list[np.ndarray] = []
        if inputs is not None:
            with np.load(inputs) as file:
                arrays = [file[name] for name in file.files]
        compiles, compile_seconds = self.peer.compiled()
        cpu, start = _cpu_seconds(), time.perf_counter()
        for _ in range(calls - 1):
            self.peer(*arrays)
        result = self.peer(*arrays)
        seconds, cpu_seconds = (time.perf_counter() - start) / calls, (_cpu_seconds() - cpu) / calls
        compiles_now, compile_seconds_now = self.peer.compiled()
        if output is not None:
            np.save(output, getattr(self.peer, "to_numpy", np.asarray)(result))
        return {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "compiles": compiles_now - compiles,
            "compile_seconds": compile_seconds_now - compile_seconds,
        }

    def settle(self) -> dict[str, Any]:
        from benchmarks.machine import wait_for_rest

        # A variant is compiled behind the calls once one could use it, and so may another be, which then could.
        for _ in range(_SETTLING_ROUNDS):
            for _ in range(len(self.peer)):
                self.peer()
            wait_for_rest(_SETTLING_SECONDS)
        return {}

    def burst(self, seconds: float) -> dict[str, Any]:
        from benchmarks.machine import wait_for_rest

        count = _repeats(seconds, self.peer)
        computed, start = time.process_time(), time.perf_counter()
        for _ in range(count):
            self.peer()
        mean, cpu_mean = (time.perf_counter() - start) / count, (time.process_time() - computed) / count
        wait_for_rest(_RESTING_SECONDS)
        return {"seconds": mean, "cpu_seconds": cpu_mean}

    def capture(self) -> dict[str, Any]:
        captured = getattr(self.peer, "captured", None)
        return {"seconds": None if captured is None else captured()}

    def memory(self) -> dict[str, Any]:
        from benchmarks.machine import peak_memory

        return {"peak": peak_memory()}


def _repeats(seconds: float, call: Callable[[], object]) -> int:
    """How many calls take so long, found by a few that count for nothing."""
    start, done, passed = time.perf_counter(), 0, 0.0
    while done == 0 or (done < _WARM_CALLS and passed < seconds):
        call()
        done, passed = done + 1, time.perf_counter() - start
    return max(1, int(seconds * done / passed))


def _cpu_seconds() -> float:
    """What this process and the compilers that it called have computed for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def main() -> None:
    # Before any library counts the CPUs, and so decides on a number of threads.
    os.sched_setaffinity(0, {int(cpu) for cpu in sys.argv[1].split(",")})
    # The answers keep the real standard output to themselves; what libraries print goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = Server()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(server, request.pop("do"))(**request)
        except Exception as error:
            answer = {
                "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc(),
                "missing": isinstance(error, ModuleNotFoundError),
            }  # fmt: skip
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
