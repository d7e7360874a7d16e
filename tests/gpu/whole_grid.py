"""``python -m tests.gpu.whole_grid``: all of the grid (``grid.py``), many programs in one, and what it finds.

``--device=cuda`` runs it on a GPU of this machine, with its vendor's compiler.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import pytest

import dyn
from dyn.backends.families import Placement, placement_of
from tests.gpu import grid
from tests.gpu.grid import SOFTWARE, Outcome, Subject

#: So many subjects are one program, and so many programs are run by a process.
_TOGETHER, _PROGRAMS = 32, 8

Part = list[int]


def batches(found: Sequence[Subject]) -> list[Part]:
    """Numbers of subjects in parts that are one program each."""
    together = [n for n, subject in enumerate(found) if not subject.alone]
    count = -(-len(together) // _TOGETHER)
    alone = [[n] for n, subject in enumerate(found) if subject.alone]
    return [*[together[k::count] for k in range(count)], *alone]


# ---- a process of its own --------------------------------------------------------------------------------------------


def work(kind: str, parts: Sequence[Part]) -> None:
    """Run parts until one fails, which may have lost the GPU; print a line of JSON for each."""
    known, gpu = grid.subjects(), None
    if kind in SOFTWARE:
        gpu = grid.install(kind, pytest.MonkeyPatch())  # until the process ends
    placement = placement_of(kind) if gpu is None else Placement(SOFTWARE[kind])
    for part in parts:
        try:
            with dyn.config.override(cache_dir="", variants="all", optimize=False):
                outcome = grid.run([known[n] for n in part], placement)
        except Exception:
            print(json.dumps({"error": traceback.format_exc(limit=-4)}), flush=True)
            return
        problems = [] if gpu is None else gpu.problems()
        wrong = [*outcome.wrong, *[f"{known[part[0]].name} and others: {line}" for line in problems]]
        print(json.dumps({"agree": outcome.agree, "wrong": wrong}), flush=True)


def ask(kind: str, parts: Sequence[Part]) -> tuple[list[Outcome], str]:
    """The outcomes of the first parts, and what ended the process before it had run all of them, if it did."""
    command = [sys.executable, "-m", "tests.gpu.whole_grid", "--work", kind]
    done = subprocess.run(command, input=json.dumps(parts), capture_output=True, text=True, check=False)
    found: list[Outcome] = []
    for line in done.stdout.splitlines():
        said = json.loads(line)
        if "error" in said:
            return found, said["error"]
        found.append(Outcome(said["agree"], tuple(said["wrong"])))
    return found, "" if len(found) == len(parts) else f"the process ended with {done.returncode}: {done.stderr[-500:]}"


# ---- all of them -----------------------------------------------------------------------------------------------------


def run_all(known: Sequence[Subject], kinds: Sequence[str], parts: Sequence[Part], jobs: int) -> Outcome:
    """Run all parts on all kinds, and print what does not agree. A part that fails is halved down to one program."""
    total, left = Outcome(), 0
    with ThreadPoolExecutor(jobs) as pool:
        running: dict[Future[tuple[list[Outcome], str]], tuple[str, list[Part]]] = {}

        def start(kind: str, some: list[Part]) -> None:
            if some:
                running[pool.submit(ask, kind, some)] = (kind, some)

        for first in range(0, len(parts), _PROGRAMS):
            for kind in kinds:
                start(kind, list(parts[first : first + _PROGRAMS]))
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                kind, some = running.pop(one)
                outcomes, error = one.result()
                if error:
                    failed = some[len(outcomes)]
                    if len(failed) == 1:
                        outcomes.append(Outcome(0, (f"{known[failed[0]].name}: {error}",)))
                    else:
                        start(kind, [failed[: len(failed) // 2]])
                        start(kind, [failed[len(failed) // 2 :]])
                    start(kind, some[len(outcomes) + (len(failed) > 1) :])
                for outcome in outcomes:
                    total += outcome
                    for line in outcome.wrong:
                        print(f"{kind}: {line}", flush=True)
                left = sum([len(some) for _, some in running.values()])
                print(f"{total.agree} calls agree, {left} programs are left", file=sys.stderr, flush=True)
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.whole_grid", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--targets", default=",".join(SOFTWARE), help="some of %(default)s, the software GPUs")
    parser.add_argument("--device", help="a GPU of this machine in place of those: cuda, rocm:1")
    parser.add_argument("--ops", default="", help="subjects whose names begin so")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work is not None:
        work(given.work, json.load(sys.stdin))
        return 0
    kinds: list[str] = given.targets.split(",")
    if given.device is not None:
        placement_of(given.device)  # or it says that there is none
        kinds = [given.device]
    known = grid.subjects()
    parts = batches(known)
    if given.ops:
        parts = [[n] for part in parts for n in part if known[n].name.startswith(given.ops)]
    total = run_all(known, kinds, parts, given.jobs)
    print(f"{len(known)} programs on {', '.join(kinds)}: {total.agree} calls agree, {len(total.wrong)} do not")
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
