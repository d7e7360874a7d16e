"""Calls of libraries that take arrays of any namespace, with dyn's arrays: a command.

    python -m tests.libraries [--library scipy] [--only NAME] [--eager | --jit] [--write]

Each call runs with NumPy's arrays, with ``dyn.Array`` (in float64, and in float32), and in one function under
``dyn.jit`` for ten sizes of the first axis. It is right eagerly if its results are NumPy's, and ``dyn.Array`` where
NumPy's are arrays. It is right under ``jit`` if all ten results are, and one program served them. The command prints
percentages by library and the reasons of what is not right, the most frequent ones first. ``--results FILE`` keeps the
outcomes, and ``--write`` puts them into ``docs/libraries.md``. Libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tests.interop.outcomes import append
from tests.interop.processes import Lost, in_processes
from tests.libraries.page import Abilities, text, write_page
from tests.libraries.running import LIBRARIES, STAGES, Result, calls

#: Environment of the processes: one thread, nothing left on the disk, and code that is compiled quickly. NumPy's
#: default is float64; dyn's is float32 unless told, with which functions that make arrays have other results.
SETUP = {
    "SCIPY_ARRAY_API": "1", "DYN_CACHE_DIR": "0", "DYN_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "DYN_OPTIMIZE": "0",
    "DYN_DEFAULT_FLOAT": "float64",
}  # fmt: skip

Task = tuple[str, str, str]


def chosen(options: argparse.Namespace) -> Iterable[Task]:
    """The tasks that the options ask for."""
    for library in LIBRARIES:
        if options.library not in (None, library) or importlib.util.find_spec(library) is None:
            continue
        for key, call in calls(library).items():
            if options.only is not None and options.only not in key:
                continue
            for stage in STAGES:
                if (options.eager and stage != "eager") or (options.jit and stage != "jit"):
                    continue
                if stage == "eager" or not call.eager_only:
                    yield library, key, stage


def run_all(tasks: list[Task], options: argparse.Namespace) -> list[Result]:
    """Run the tasks in processes."""
    results: list[Result] = []
    last = time.monotonic()
    every = in_processes(
        "tests.libraries.running:run",
        tasks,
        workers=options.workers,
        limit=options.limit,
        setup=SETUP | {"DYN_DEFAULT_FLOAT": options.default_float},
    )
    for number, (task, answer) in enumerate(every, 1):
        library, key, stage = task
        if isinstance(answer, Lost):
            kind, reason, programs = ("failed" if answer.kind == "raised" else answer.kind), answer.reason, 0
        else:
            kind, reason, programs = answer
        seconds, last = round(time.monotonic() - last, 3), time.monotonic()
        results.append(Result(library, calls(library)[key].module, key, stage, kind, reason, programs, seconds))
        if options.results is not None:
            append(options.results, results[-1])
        if number % 50 == 0:
            print(f"{number} of {len(tasks)}", file=sys.stderr, flush=True)
    return results


def abilities() -> Abilities:
    """What SciPy's table says of its functions, read in a process of its own."""
    for _, answer in in_processes("tests.libraries.running:listed", ["scipy"], workers=1, limit=120.0, setup=SETUP):
        if isinstance(answer, Lost):
            raise RuntimeError(answer.reason)
        return answer
    return {}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--library", choices=list(LIBRARIES))
    made.add_argument("--only", help="calls that have this in their names")
    made.add_argument("--eager", action="store_true", help="eager calls alone")
    made.add_argument("--jit", action="store_true", help="calls under dyn.jit alone")
    made.add_argument("--workers", type=int, default=1)
    made.add_argument("--limit", type=float, default=120.0, help="seconds for a call")
    made.add_argument("--default-float", default=SETUP["DYN_DEFAULT_FLOAT"], help="dyn's default dtype")
    made.add_argument("--results", type=Path, help="a file to which the outcomes are added, one a line")
    made.add_argument("--write", action="store_true", help="write docs/libraries.md")
    return made


def main() -> int:
    """Run the calls; 0 if all are right."""
    options = parser().parse_args()
    whole = not (options.library or options.only or options.eager or options.jit)
    if options.write and not whole:
        parser().error("--write takes a run of all calls")
    results = run_all(list(chosen(options)), options)
    by_scipy = abilities() if whole or options.library == "scipy" else {}
    print(text(results, by_scipy))
    if options.write:
        write_page(results, by_scipy)
    return 0 if all(result.kind == "passed" for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
