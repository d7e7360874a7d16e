"""``python -m tests.adversary``: many programs in processes that may die, and questions to the solver.

Each is written into the file ``--state`` as it is done, so that a run which was ended goes on where it was. What is
found is printed, as programs that can be pasted, and at the end counted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.adversary.judging import CALLS, Finding, Report
from tests.adversary.programs import Program
from tests.adversary.questions import world
from tests.interop.processes import Lost, in_processes

#: A program takes a second; one that takes so many hangs.
_LIMIT = 600.0


class _Tally:
    """The reports so far, those of earlier runs included."""

    def __init__(self, state: Path | None) -> None:
        self._state = state
        self.done: set[int] = set()
        self.counts: Counter[str] = Counter()
        self.compiles = 0
        self.findings: list[Finding] = []
        if state is not None and state.exists():
            for line in state.read_text().splitlines():
                entry: Any = json.loads(line)
                findings = [Finding(**f) for f in entry["findings"]]
                self._count(Report(entry["seed"], Counter(entry["counts"]), entry["compiles"], findings))

    def _count(self, report: Report) -> None:
        assert report.seed is not None
        self.done.add(report.seed)
        self.counts += report.counts
        self.compiles += report.compiles
        self.findings += report.findings

    def add(self, report: Report) -> None:
        self._count(report)
        for finding in report.findings:
            print(finding.text(), flush=True)
        if self._state is not None:
            entry = vars(report) | {"findings": [vars(f) for f in report.findings]}
            self._state.parent.mkdir(parents=True, exist_ok=True)
            with self._state.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def text(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.counts.most_common())
        return (
            f"{len(self.done)} programs, {sum(self.counts.values())} calls ({kinds}), {self.compiles} compilations, "
            f"{len(self.findings)} findings"
        )


def run(seeds: range, calls: int, workers: int, state: Path | None, work: str = "work") -> list[Finding]:
    """Judge the programs of the seeds that ``state`` does not have yet; all findings, those in ``state`` too.

    Where it has them all, those that follow are judged. ``work`` is the function of ``judging`` that draws and judges.
    """
    tally, start = _Tally(state), time.monotonic()
    while seeds and tally.done.issuperset(seeds):
        seeds = range(seeds[-1] + 1, seeds[-1] + 1 + len(seeds))
    with tempfile.TemporaryDirectory() as folder:
        tasks = [(seed, calls, folder) for seed in seeds if seed not in tally.done]
        setup = {"DYN_CACHE_DIR": "0", "OMP_NUM_THREADS": "1"}
        answers = in_processes(f"tests.adversary.judging:{work}", tasks, workers=workers, limit=_LIMIT, setup=setup)
        for number, (task, answer) in enumerate(answers, 1):
            tally.add(_lost(task, answer) if isinstance(answer, Lost) else answer)
            if number % 100 == 0:
                print(f"after {time.monotonic() - start:.0f} s: {tally.text()}", flush=True)
    print(tally.text())
    return tally.findings


def _lost(task: tuple[int, int, str], lost: Lost) -> Report:
    """A process that died or hung, and the call that it was at."""
    seed, _, folder = task
    path = Path(folder) / f"{seed}.json"
    at: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    program, calls = at.get("program", Program((), ()).as_data()), at.get("calls", [])
    return Report(seed, Counter([lost.kind]), 0, [Finding(seed, program, calls, f"{lost.kind}: {lost.reason}")])


def ask(worlds: int) -> int:
    """Put questions to the solver; how many worlds had a false answer."""
    counts: Counter[str] = Counter()
    false = 0
    for seed in range(worlds):
        wrong, drawn = world(seed)
        counts += drawn
        false += bool(wrong)
        for one in wrong[:1]:
            print(f"world {one.seed}: {one.what}", flush=True)
    kinds = ", ".join(f"{kind} {count}" for kind, count in counts.most_common())
    print(f"{worlds} worlds, {sum(counts.values())} draws ({kinds}), {false} with a false answer")
    return false


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.adversary", description=__doc__)
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--worlds", type=int, default=3600, help="some 290 draws for the solver each")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--branching", type=int, default=5000, help="small programs of branches")
    parser.add_argument("--state", type=Path, help="a file of the seeds that are done, read and appended to")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.programs)
    false = ask(options.worlds)
    found = run(seeds, options.calls, options.workers, options.state)
    if options.branching:
        state = options.state and options.state.with_suffix(f".branching{options.state.suffix}")
        seeds = range(options.first, options.first + options.branching)
        found += run(seeds, options.calls, options.workers, state, "work_branching")
    raise SystemExit(1 if found or false else 0)


if __name__ == "__main__":
    main()
