"""The totals of runs over PyTorch's samples: a file of them, and the table in ``docs/torch.md``."""

from __future__ import annotations

import collections
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tests.interop.outcomes import Outcome
from tests.interop.torch.opinfo_samples import FALLBACK, KINDS, PASSED, REFUSED_BY_PYTORCH, core_operators, operators

SUMMARY = Path(__file__).parent / "opinfo.json"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "torch.md"
BEGIN, END = "<!-- op_db: begin -->", "<!-- op_db: end -->"


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts by dtype and stage; the operators that are core ATen, and how many of them pass; what did not pass."""
    runs: dict[str, collections.Counter[str]] = {}
    others: dict[tuple[str, str], list[Outcome]] = {}
    by_operator: dict[str, set[str]] = {}
    operators_of: dict[str, set[str]] = {}
    for one in outcomes:
        _, dtype, stage, _ = one.name.rsplit("/", 3)
        operators_of.setdefault(f"{dtype}, {stage}", set()).add(one.group)
        runs.setdefault(f"{dtype}, {stage}", collections.Counter())[one.kind] += 1
        if one.kind not in (PASSED, REFUSED_BY_PYTORCH):
            others.setdefault((one.kind, _why(one)), []).append(one)
        if (dtype, stage) == ("float32", "forward"):
            by_operator.setdefault(one.group, set()).add(one.kind)
    core = {n: kinds for n, kinds in by_operator.items() if operators()[n].aten_name in core_operators()}
    return {
        "torch": torch.__version__.partition("+")[0],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "runs": {run: {kind: counts[kind] for kind in KINDS if counts[kind]} for run, counts in runs.items()},
        "operators of runs": {run: len(names) for run, names in operators_of.items()},
        "operators": _operators(by_operator),
        "core": _operators(core),
        "others": [
            {
                "kind": kind, "what": what, "count": len(them), "operators": sorted({one.group for one in them}),
                "example": min(one.name for one in them), "reason": min((o.name, o.reason) for o in them)[1],
            }
            for (kind, what), them in sorted(others.items())
        ],
    }  # fmt: skip


def _why(one: Outcome) -> str:
    """What outcomes are counted together: those that lack one converter; otherwise those of one operator."""
    return one.reason if one.kind == "no converter" else one.group


def _operators(kinds: Mapping[str, set[str]]) -> dict[str, int]:
    """How many operators there are, how many have no sample that falls back, and how many pass."""
    return {
        "all": len(kinds),
        "without fallback": sum(not k & {*FALLBACK, "failed"} for k in kinds.values()),
        "passed": sum(k <= {PASSED, REFUSED_BY_PYTORCH} for k in kinds.values()),
    }


def text(made: Mapping[str, Any]) -> str:
    """The totals for a terminal."""
    lines = [f"{run:22s}" + "".join(f"  {kind} {count}" for kind, count in counts.items())
             for run, counts in made["runs"].items()]  # fmt: skip
    lines += [sentence(made)]
    for one in sorted(made["others"], key=lambda one: (KINDS.index(one["kind"]), -one["count"])):
        names = "" if one["operators"] == [one["what"]] else f" ({len(one['operators'])}: {one['operators'][0]})"
        reason = "" if one["reason"] == one["what"] else f": {one['reason'][:140]}"
        lines.append(f"{one['count']:5d} {one['kind']:12s} {one['what']}{names}{reason}   {one['example']}")
    return "\n".join(lines)


def sentence(made: Mapping[str, Any]) -> str:
    """The operators of float32 in words."""
    every, core = made["operators"], made["core"]
    return (
        f"Of {every['all']} operators {every['without fallback']} run all of their float32 samples on dyn, and "
        f"{every['passed']} pass; of the {core['all']} that are core ATen {core['without fallback']} "
        f"({core['without fallback'] / max(core['all'], 1):.1%}), and {core['passed']} pass."
    )


def section(made: Mapping[str, Any]) -> Iterable[str]:
    """The part of the page: a table of counts, and what did not pass."""
    yield f"Run on {made['date']} with PyTorch {made['torch']}. {sentence(made)}"
    yield ""
    kinds = [kind for kind in KINDS if any(kind in counts for counts in made["runs"].values())]
    yield f"| samples | operators | {' | '.join(kinds)} |"
    yield "|---|---:|" + "---:|" * len(kinds)
    for run, counts in made["runs"].items():
        cells = [f"{counts[k]:,}" if k in counts else "" for k in kinds]
        yield f"| {run} | {made['operators of runs'][run]} | {' | '.join(cells)} |"
    yield ""
    wrong = [one for one in made["others"] if one["kind"] not in FALLBACK]
    if wrong:
        yield "| | operator | what | why | for example |"
        yield "|---:|---|---|---|---|"
        for one in sorted(wrong, key=lambda one: (KINDS.index(one["kind"]), -one["count"])):
            why = one["reason"].replace("|", "\\|")
            yield f"| {one['count']} | {one['what']} | {one['kind']} | {why} | `{one['example']}` |"
        yield ""
    missing = sorted([one for one in made["others"] if one["kind"] == "no converter"], key=lambda one: -one["count"])
    if missing:
        yield "Without a converter, with the samples that need one: " + ", ".join([
            f"`{one['what'].removeprefix('aten.')}` {one['count']}" for one in missing
        ]) + "."  # fmt: skip


def write(made: Mapping[str, Any]) -> None:
    """Put the totals into the file and the page."""
    others = ",\n  ".join([json.dumps(one, ensure_ascii=False) for one in made["others"]])
    rest = ",\n ".join([f"{json.dumps(k)}: {json.dumps(value)}" for k, value in made.items() if k != "others"])
    SUMMARY.write_text(f'{{\n {rest},\n "others": [\n  {others}\n ]\n}}\n', encoding="utf-8")
    before, _, after = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = after.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{chr(10).join(section(made))}\n\n{END}{after}", encoding="utf-8")
