"""``docs/harnesses.md``: the totals of the runs over JAX's examples, as Markdown.

A run writes its own part of the page, between two comments that name it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.interop.outcomes import KINDS
from tests.interop.tolerances import BY_PRIMITIVE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "harnesses.md"
#: The totals that runs leave behind: their names, what they are runs of, and the files.
RUNS = {
    "static": ("with the sizes that they have", ROOT / "tests" / "interop" / "harnesses.json"),
    "symbolic": ("with symbolic sizes", ROOT / "tests" / "interop" / "symbolic_harnesses.json"),
}


def totals(made: Mapping[str, Any]) -> dict[str, int]:
    """How many of each kind."""
    return {kind: sum(counts.get(kind, 0) for counts in made["primitives"].values()) for kind in KINDS}


def sentence(made: Mapping[str, Any]) -> str:
    """The totals in words."""
    counts = totals(made)
    ran = sum(count for kind, count in counts.items() if kind != "not exported")
    rest = ", ".join(f"{counts[k]:,} {k}" for k in KINDS if k != "passed" and counts[k]) or "nothing else"
    return (
        f"{counts['passed']:,} of the {ran:,} that JAX {made['jax']} exports pass "
        f"({counts['passed'] / max(ran, 1):.2%}); {rest}."
    )


def section(made: Mapping[str, Any]) -> str:
    """A run's part of the page: its tables, and tolerances."""
    lines = [sentence(made), "", *tables(made)]
    lines += ["What is compared less strictly than JAX compares what it runs with itself:", ""]
    lines += ["| primitive | relative and absolute | why |", "|---|---|---|"]
    for group, own in sorted(BY_PRIMITIVE.items()):
        allowed = ", ".join(f"{dtype} {value:g}" for dtype, value in own.by_dtype.items())
        lines.append(f"| {group} | {allowed} | {own.why} |")
    return "\n".join(lines)


def tables(made: Mapping[str, Any]) -> Iterable[str]:
    """A row for each primitive, and what did not pass."""
    yield f"| primitive | {' | '.join(KINDS)} |"
    yield "|---|" + "---:|" * len(KINDS)
    for group, counts in made["primitives"].items():
        yield f"| {group} | {' | '.join(str(counts.get(k, '')) for k in KINDS)} |"
    yield ""
    if not made["others"]:
        return
    yield "| | primitive | what | why | for example |"
    yield "|---:|---|---|---|---|"
    for other in sorted(made["others"], key=lambda o: -o["count"]):
        why = other["reason"].replace("|", "\\|")
        yield f"| {other['count']} | {other['primitive']} | {other['kind']} | {why} | `{other['example']}` |"
    yield ""


def write_page(run: str, text: str) -> None:
    """Put a run's part into the page."""
    begin, end = f"<!-- {run}: begin -->", f"<!-- {run}: end -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def lines_for_coverage() -> list[str]:
    """The lines of ``docs/coverage.md`` on these runs: the totals, and what is known not to work."""
    made = ["## JAX's examples", ""]
    made.append(
        "JAX has examples of each of its primitives (`jax._src.internal_test_util.test_harnesses`). They are exported, "
        "read, run and compared with JAX at its own tolerances; [the tables](harnesses.md) are by primitive."
    )
    made.append("")
    for what, path in RUNS.values():
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            made.append(f"- **{what.capitalize()}**: {sentence(found)}")
            for why in dict.fromkeys(o["reason"] for o in found["others"] if o["kind"] == "gap"):
                count = sum(o["count"] for o in found["others"] if o["reason"] == why and o["kind"] == "gap")
                made.append(f"  - {count}: {why}")
    return [*made, ""]
