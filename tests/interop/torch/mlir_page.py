"""The totals of runs over torch-mlir's cases: the table in ``docs/torch.md``, and a text for a terminal."""

from __future__ import annotations

import collections
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from tests.interop.torch.mlir_cases import (
    FALLBACK,
    KINDS,
    PASSED,
    PROGRAMS,
    REFUSED_BY_PYTORCH,
    WRONG,
    CaseOutcome,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "torch.md"
BEGIN, END = "<!-- torch-mlir: begin -->", "<!-- torch-mlir: end -->"


def sentence(outcomes: Sequence[CaseOutcome]) -> str:
    """The totals in words."""
    run = [one for one in outcomes if one.kind != REFUSED_BY_PYTORCH]
    whole = [one for one in run if one.kind in (PASSED, PROGRAMS)]
    wrong = [one for one in run if one.kind in WRONG]
    return (
        f"Of {len(outcomes):,} cases PyTorch {torch.__version__.partition('+')[0]} runs {len(run):,}; "
        f"{len(whole):,} of them ({len(whole) / max(len(run), 1):.1%}) are dyn's whole, with PyTorch's results, "
        f"{sum(one.kind == PASSED for one in whole):,} by one program; "
        f"of {len(wrong)} the results differ."
    )


def reasons(outcomes: Sequence[CaseOutcome]) -> list[tuple[str, list[str]]]:
    """Why cases fall back, the most frequent reason first, with the names of the cases."""
    found: dict[str, list[str]] = {}
    for one in outcomes:
        for operation, reason in one.fallbacks if one.kind == FALLBACK else ():
            text = reason if operation in ("calls", *reason.split()[:1]) else f"{operation}: {reason}"
            names = found.setdefault(text, [])
            if one.name not in names:
                names.append(one.name)
    return sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))


def text(outcomes: Sequence[CaseOutcome]) -> str:
    """The totals for a terminal."""
    counts = collections.Counter([one.kind for one in outcomes])
    lines = [sentence(outcomes), "  ".join([f"{kind} {counts[kind]}" for kind in KINDS if counts[kind]])]
    lines += [f"{len(names):5d} {reason[:160]}   {', '.join(names[:4])}" for reason, names in reasons(outcomes)]
    for kind in KINDS:
        if kind not in (PASSED, FALLBACK):
            lines += [f"{kind:12s} {one.name}: {one.reason[:200]}" for one in outcomes if one.kind == kind]
    return "\n".join(lines)


def section(outcomes: Sequence[CaseOutcome]) -> Iterable[str]:
    """The part of the page: counts, and reasons of fallbacks."""
    counts = collections.Counter([one.kind for one in outcomes])
    yield f"Run on {time.strftime('%Y-%m-%d', time.gmtime())}. {sentence(outcomes)}"
    yield ""
    kinds = [kind for kind in KINDS if counts[kind]]
    yield f"| {' | '.join(kinds)} |"
    yield "|" + "---:|" * len(kinds)
    yield f"| {' | '.join([f'{counts[kind]:,}' for kind in kinds])} |"
    yield ""
    others = [one for one in outcomes if one.kind in (*WRONG, "failed", "crashed", "hung")]
    if others:
        yield "| case | what | why |"
        yield "|---|---|---|"
        for one in others:
            yield f"| `{one.name}` | {one.kind} | {one.reason.replace('|', chr(92) + '|')[:200]} |"
        yield ""
    found = reasons(outcomes)
    if found:
        yield "| cases | fall back, since | for example |"
        yield "|---:|---|---|"
        for reason, names in found:
            yield f"| {len(names)} | {reason.replace('|', chr(92) + '|')[:200]} | `{names[0]}` |"


def write(outcomes: Sequence[CaseOutcome]) -> None:
    """Put the totals into the page."""
    before, _, after = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = after.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{chr(10).join(section(outcomes))}\n\n{END}{after}", encoding="utf-8")
