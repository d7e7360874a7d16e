"""PyTorch's own samples of its operators, run on dyn: a command, for there are tens of thousands of them.

``python -m tests.interop.torch.opinfo`` runs each float32 sample of each operator of ``op_db`` by PyTorch and by
``dyn.interop.torch.jit`` and compares, an operator's samples by one jitted function; their gradients where PyTorch has
them; a tenth of the operators by ``torch.compile(backend="dyn")`` too; and some samples of each in other dtypes. It
prints a table by dtypes, and the reasons of what did not pass, the most frequent ones first. ``--only NAME`` takes
operators of that name (with commas between several), ``--shard 1/4`` the second of four parts, ``--dtype`` and
``--stage`` those of one kind alone.

Outcomes are kept in ``--results FILE``: the next run takes only what has not passed, so that a run that was ended goes
on where it was. ``--fresh`` runs all again, and ``--report`` nothing. ``--write`` puts the totals into ``opinfo.json``
beside this file and into ``docs/torch.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.interop.outcomes import Outcome, append, read_outcomes
from tests.interop.processes import Lost, in_processes
from tests.interop.torch.opinfo_page import summary, text, write
from tests.interop.torch.opinfo_samples import (
    DTYPES,
    PASSED,
    REFUSED_BY_PYTORCH,
    STAGES,
    compiled,
    is_for_dynamo,
    operators,
    outcome,
    samples,
)

RESULTS = Path(__file__).resolve().parents[3] / ".hypothesis" / "opinfo.jsonl"
#: Environment of the processes: passes are verified, and nothing is left on the disk.
SETUP = {"DYN_VERIFY": "1", "DYN_CACHE_DIR": "0", "DYN_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
#: Samples of one operator that a process runs one after another, and those of dtypes beside float32.
_MOST, _OF_OTHER_DTYPES = 64, 3

#: The operator, dtype, stage, and the numbers of the samples.
Task = tuple[str, str, str, tuple[int, ...]]


def run(task: Task) -> list[Outcome]:
    """The outcomes of some samples of an operator, by one compiled function."""
    name, dtype, stage, numbers = task
    function = compiled(name, stage)
    made: list[Outcome] = []
    for number in numbers:
        start = time.monotonic()
        kind, reason = outcome(name, dtype, number, function, stage)
        made.append(Outcome(name, key(name, dtype, stage, number), kind, reason, round(time.monotonic() - start, 3)))
    return made


def key(name: str, dtype: str, stage: str, number: int) -> str:
    """The name of an outcome."""
    return f"{name}/{dtype}/{stage}/{number}"


def chosen(options: argparse.Namespace) -> list[tuple[str, str, str, list[int]]]:
    """Operators, dtypes, stages, and the numbers of the samples."""
    part, _, parts = options.shard.partition("/")
    only = set(options.only.split(",")) if options.only else None
    named = [n for n, info in operators().items() if only is None or n in only or info.name in only]
    made: list[tuple[str, str, str, list[int]]] = []
    for name in named[int(part) :: int(parts)]:
        for dtype in [options.dtype] if options.dtype else DTYPES:
            for stage in [options.stage] if options.stage else STAGES:
                if (stage != "forward" and dtype != "float32") or (stage == "dynamo" and not is_for_dynamo(name)):
                    continue
                numbers = list(range(len(samples(name, dtype, stage))))
                most = options.most if dtype == "float32" else min(options.most, _OF_OTHER_DTYPES)
                made.append((name, dtype, stage, numbers[:: max(1, -(-len(numbers) // most))]))
    return made


def tasks(wanted: Iterable[tuple[str, str, str, list[int]]], known: dict[str, Outcome]) -> Iterable[Task]:
    """Work for processes: the samples that have not passed."""
    for name, dtype, stage, numbers in wanted:
        left = [n for n in numbers if not _is_done(known.get(key(name, dtype, stage, n)))]
        for start in range(0, len(left), _MOST):
            yield name, dtype, stage, tuple(left[start : start + _MOST])


def _is_done(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.kind in (PASSED, REFUSED_BY_PYTORCH)


def run_all(todo: Sequence[Task], options: argparse.Namespace, known: dict[str, Outcome]) -> None:
    """Run the tasks into ``known``; the samples of one that was lost are run again, each in a task of its own."""
    lost: list[Task] = []
    started, work = time.monotonic(), "tests.interop.torch.opinfo:run"
    every = in_processes(work, todo, workers=options.workers, limit=options.limit, setup=SETUP)
    for number, (task, answer) in enumerate(every, 1):
        if isinstance(answer, Lost) and len(task[3]) > 1:
            lost += [(*task[:3], (one,)) for one in task[3]]
            continue
        for one in [_lost(task, answer)] if isinstance(answer, Lost) else answer:
            known[one.name] = one
            append(options.results, one)
        if sys.stderr.isatty() or number % 50 == 0:
            spent = time.monotonic() - started
            print(f"\r{number} of {len(todo)} in {spent:.0f} s", end="", file=sys.stderr, flush=True)
    if lost:
        run_all(lost, options, known)


def _lost(task: Task, answer: Lost) -> Outcome:
    name, dtype, stage, (number,) = task
    kind = "failed" if answer.kind == "raised" else answer.kind
    return Outcome(name, key(name, dtype, stage, number), kind, answer.reason)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", help="operators, with commas between them")
    made.add_argument("--shard", default="0/1", help="a part of the operators: its number, from 0, and how many")
    made.add_argument("--dtype", choices=DTYPES)
    made.add_argument("--stage", choices=STAGES)
    made.add_argument("--most", type=int, default=1 << 30, help="samples of an operator, far from each other")
    made.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    made.add_argument("--limit", type=float, default=180.0, help=f"seconds for {_MOST} samples of an operator")
    made.add_argument("--results", type=Path, default=RESULTS, help="the file of outcomes, one a line")
    made.add_argument("--fresh", action="store_true", help="run again what has passed")
    made.add_argument("--write", action="store_true", help="write the totals")
    made.add_argument("--report", action="store_true", help="run nothing: the totals of all outcomes in the file")
    return made


def main() -> int:
    options = parser().parse_args()
    known: dict[str, Outcome] = {o.name: o for o in read_outcomes(options.results)}
    if options.report:
        outcomes = list(known.values())
    else:
        wanted = chosen(options)
        run_all(list(tasks(wanted, {} if options.fresh else known)), options, known)
        outcomes = [known[key(name, dtype, stage, n)] for name, dtype, stage, numbers in wanted for n in numbers]
    made = summary(outcomes)
    print(text(made))
    if options.write:
        write(made)
    return 1 if any(o.kind not in (PASSED, REFUSED_BY_PYTORCH) for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
