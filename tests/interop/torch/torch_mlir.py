"""torch-mlir's end-to-end cases on dyn: a command, for there are near two thousand, and a checkout has them.

``python -m tests.interop.torch.torch_mlir --checkout PATH`` runs each case of its ``torch_mlir_e2e_test``
by PyTorch and by ``dyn.interop.torch.jit``, and compares: trees, dtypes, shapes and strides exactly, elements within
torch-mlir's relative tolerance; at the case's own sizes, and at two others where annotations leave some open. Of
torch-mlir itself nothing is built or imported. It prints counts, and the reasons of what did not pass.

Outcomes are kept in ``--results FILE``, one a line: the next run takes only cases that have none there, so that a run
that was ended goes on where it was. ``--again`` runs those again that have not passed, ``--fresh`` all. ``--only NAME``
takes cases by their names (with commas between several), ``--shard 1/4`` the second of four parts; ``--report`` runs
nothing. ``--write`` puts the totals into ``docs/torch.md``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.interop.outcomes import append, read_records
from tests.interop.processes import Lost, in_processes
from tests.interop.torch.mlir_cases import (
    FOLDER,
    PACKAGE,
    PASSED,
    PROGRAMS,
    REFUSED_BY_PYTORCH,
    CaseOutcome,
    cases,
    outcome,
    suite_of,
)
from tests.interop.torch.mlir_page import text, write

RESULTS = Path(__file__).resolve().parents[3] / ".hypothesis" / "torch-mlir.jsonl"
#: Environment of the processes: passes are verified, code compiles quickly, and nothing is left on the disk.
SETUP = {
    "DYN_VERIFY": "1", "DYN_OPTIMIZE": "0", "DYN_CACHE_DIR": "0", "DYN_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
}  # fmt: skip

#: The checkout, and the name of the case.
Task = tuple[str, str]


def run(task: Task) -> CaseOutcome:
    """The outcome of a case."""
    checkout, name = task
    case = cases(checkout)[name]
    start = time.monotonic()
    return replace(outcome(case), seconds=round(time.monotonic() - start, 3))


def run_all(todo: Sequence[Task], options: argparse.Namespace, known: dict[str, CaseOutcome]) -> None:
    """Run the cases into ``known`` and the file."""
    started, work = time.monotonic(), "tests.interop.torch.torch_mlir:run"
    every = in_processes(work, todo, workers=options.workers, limit=options.limit, setup=SETUP)
    for number, (task, answer) in enumerate(every, 1):
        if isinstance(answer, Lost):
            kind = "failed" if answer.kind == "raised" else answer.kind
            answer = CaseOutcome(suite_of(cases(task[0])[task[1]]), task[1], kind, answer.reason)
        known[answer.name] = answer
        append(options.results, answer)
        if sys.stderr.isatty() or number % 50 == 0:
            spent = time.monotonic() - started
            print(f"\r{number} of {len(todo)} in {spent:.0f} s", end="", file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--checkout", type=Path, required=True, help="a folder with torch-mlir's sources")
    made.add_argument("--only", help="cases, with commas between them")
    made.add_argument("--shard", default="0/1", help="a part of the cases: its number, from 0, and how many")
    made.add_argument("--workers", type=int, default=1)
    made.add_argument("--limit", type=float, default=300.0, help="seconds for a case")
    made.add_argument("--results", type=Path, default=RESULTS, help="the file of outcomes, one a line")
    made.add_argument("--again", action="store_true", help="run again what has not passed")
    made.add_argument("--fresh", action="store_true", help="run all again")
    made.add_argument("--write", action="store_true", help="write the totals")
    made.add_argument("--report", action="store_true", help="run nothing: the totals of all outcomes in the file")
    return made


def main() -> int:
    options = parser().parse_args()
    if not (options.checkout / FOLDER / PACKAGE).is_dir():
        print(f"{options.checkout} has no {FOLDER}/{PACKAGE}: name a checkout of llvm/torch-mlir.", file=sys.stderr)
        return 2
    checkout = str(options.checkout.resolve())
    known = {one.name: one for one in read_records(options.results, CaseOutcome)}
    every = cases(checkout)
    if not options.report:
        part, _, parts = options.shard.partition("/")
        only = set(options.only.split(",")) if options.only else None
        named = [name for name in every if only is None or name in only][int(part) :: int(parts)]
        keeps = () if options.fresh or only else {PASSED, PROGRAMS, REFUSED_BY_PYTORCH} if options.again else None
        todo = [name for name in named if name not in known or (keeps is not None and known[name].kind not in keeps)]
        run_all([(checkout, name) for name in todo], options, known)
    outcomes = [known[name] for name in every if name in known]
    print(text(outcomes))
    if options.write:
        write(outcomes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
