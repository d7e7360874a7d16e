"""Outcomes of examples: files, tables, and what is known not to work, with reasons."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one example, and why.

    ``kind`` is ``passed``; ``refused``: dyn says that it has not that; ``failed``: another error, or other results;
    ``crashed`` or ``hung``; or ``not exported``: JAX itself does not export it.
    """

    group: str
    name: str
    kind: str
    reason: str = ""
    seconds: float = 0.0


KINDS = ("passed", "gap", "refused", "failed", "crashed", "hung", "not exported")

#: Refusals that are known, by a pattern of their reasons, and why they are: in a table they are ``gap``.
KNOWN: tuple[tuple[str, str], ...] = ()


def judged(outcome: Outcome) -> tuple[str, str]:
    """An outcome's kind and reason, where a refusal that is known is a ``gap``."""
    if outcome.kind == "refused":
        for pattern, why in KNOWN:
            if re.search(pattern, outcome.reason):
                return "gap", why
    return outcome.kind, outcome.reason


def append(path: Path, outcome: DataclassInstance) -> None:
    """Write one more line of a file of outcomes; of two lines about an example the later one counts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def read_outcomes(path: Path) -> list[Outcome]:
    """The outcomes in a file; none, if there is no such file."""
    return read_records(path, Outcome)


def read_records(path: Path, of: Callable[..., Record]) -> list[Record]:
    """The records of a class in a file of outcomes; none, if there is no such file."""
    if not path.exists():
        return []
    return [of(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line]


def table(outcomes: Sequence[Outcome]) -> str:
    """Counts by primitive, then the reasons."""
    kinds = [judged(o) for o in outcomes]
    groups = sorted({o.group for o in outcomes})
    lines = [f"{'primitive':32s}" + "".join(f"{k:>14s}" for k in KINDS)]
    for group in [*groups, "all"]:
        counts = collections.Counter(k for o, (k, _) in zip(outcomes, kinds, strict=True) if group in (o.group, "all"))
        lines.append(f"{group:32s}" + "".join(f"{counts[k] or '':>14}" for k in KINDS))
    lines.append(f"{100 * share(k for k, _ in kinds):.2f} % of what JAX exports pass")
    by_reason: dict[tuple[str, str, str], list[str]] = {}
    for outcome, (kind, reason) in zip(outcomes, kinds, strict=True):
        if kind != "passed":
            by_reason.setdefault((outcome.group, kind, reason), []).append(outcome.name)
    for (group, kind, reason), names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(names):5d} {group} {kind}: {reason}   ({names[0]})")
    return "\n".join(lines)


def share(kinds: Iterable[str]) -> float:
    """The part of those that JAX exports that passed."""
    counts = collections.Counter(kinds)
    asked = sum(count for kind, count in counts.items() if kind != "not exported")
    return counts["passed"] / asked if asked else 1.0


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts by primitive, and every reason of what did not pass, with how many there are and one of them."""
    import jax

    counts: dict[str, collections.Counter[str]] = {}
    others: dict[tuple[str, str, str], list[str]] = {}
    for outcome in outcomes:
        kind, reason = judged(outcome)
        counts.setdefault(outcome.group, collections.Counter())[kind] += 1
        if kind != "passed":
            others.setdefault((kind, outcome.group, reason), []).append(outcome.name)
    return {
        "jax": jax.__version__,
        "primitives": {group: {k: counts[group][k] for k in KINDS if counts[group][k]} for group in sorted(counts)},
        "others": [
            {"kind": kind, "primitive": group, "reason": reason, "count": len(names), "example": min(names)}
            for (kind, group, reason), names in sorted(others.items())
        ],
    }


def write_summary(path: Path, made: dict[str, Any]) -> None:
    """As text that is the same for the same outcomes, a line for each primitive and reason."""
    lines = ["{", f' "jax": {json.dumps(made["jax"])},', ' "primitives": {']
    lines.append(",\n".join([f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in made["primitives"].items()]))
    lines += [" },", ' "others": [']
    lines.append(",\n".join(["  " + json.dumps(o, ensure_ascii=False) for o in made["others"]]))
    path.write_text("\n".join([*lines, " ]", "}", ""]), encoding="utf-8")
