"""The process of one peer: it loads a program, keeps it, and measures a call when asked.

``python -m benchmarks.worker CPUS`` reads one JSON object a line from standard input and answers each with one line.
``process`` is the other side.

======  ======================================================  ====================================================
do      takes                                                   answers
======  ======================================================  ====================================================
load    framework, program, config, params (a path), threads    versions
run     inputs (a path of .npz), output (a path or null),       seconds, cpu_seconds, compiles, compile_seconds:
        calls                                                   means of the calls
memory                                                          peak, in bytes, since the program was loaded
capture                                                         seconds, of all compiles so far, for peers that tell
======  ======================================================  ====================================================

What goes wrong is answered too, as ``error``, with its traceback.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any


class Server:
    """What each ``do`` does."""

    def load(self, framework: str, program: str, config: dict[str, Any], params: str, threads: int) -> dict[str, Any]:
        from benchmarks.machine import reset_peak_memory
        from benchmarks.peers import peer_class
        from benchmarks.tree import load_tree

        self.peer = peer_class(framework, program)(config, load_tree(Path(params)), threads)
        gc.collect()
        reset_peak_memory()
        return {"versions": self.peer.versions()}

    def run(self, inputs: str, output: str | None, calls: int = 1) -> dict[str, Any]:
        import numpy as np

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
            np.save(output, np.asarray(result))
        return {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "compiles": compiles_now - compiles,
            "compile_seconds": compile_seconds_now - compile_seconds,
        }

    def capture(self) -> dict[str, Any]:
        captured = getattr(self.peer, "captured", None)
        return {"seconds": None if captured is None else captured()}

    def memory(self) -> dict[str, Any]:
        from benchmarks.machine import peak_memory

        return {"peak": peak_memory()}


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
            answer = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
