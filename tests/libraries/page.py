"""The totals of the libraries' calls, as text and as a part of ``docs/libraries.md``."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.libraries.running import Result

PAGE = Path(__file__).resolve().parents[2] / "docs" / "libraries.md"
_BEGIN, _END = "<!-- libraries: begin -->", "<!-- libraries: end -->"
#: Names of distributions that are not those of their modules.
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "array_api_extra": "array-api-extra"}

#: What SciPy's table says of each function: that it runs on CPUs alone, and that JAX can trace it.
Abilities = Mapping[str, tuple[bool, bool]]


def general(reason: str) -> str:
    """A reason without the numbers and names that are those of one call."""
    made = reason.partition(" [")[0]
    made = re.sub(r"\{<module .*", "{…}", made)  # a set, in any order
    made = re.sub(r"dimension .*? \(.*?\), and it differs.*", "dimension that differs from call to call", made)
    made = re.sub(r"(\b\w+ \()?\b[a-z]+\d+\[[^\]]*\](?(1)\)|~?)", "an array", made)
    made = re.sub(r"'[\w.<>]+' is traced", "the function is traced", made)
    made = re.sub(r": [\w.]+ is the number.*", "", made)
    made = re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "…", made)
    made = re.sub(r"(other values|at n = \d+): .*", r"\1", made)
    return re.sub(r"\b\d+ programs", "several programs", made)


def _count(results: Iterable[Result], stage: str) -> tuple[int, int]:
    """How many of the results of a stage are right, of how many."""
    own = [result for result in results if result.stage == stage]
    return sum(result.kind == "passed" for result in own), len(own)


def share(results: Iterable[Result], stage: str) -> str:
    """How many of the results of a stage are right, and the percentage."""
    right, total = _count(results, stage)
    return f"{right} of {total} ({right / total:.1%})" if total else "–"


def traceable(results: Iterable[Result], abilities: Abilities) -> list[Result]:
    """The results of functions that SciPy's table says JAX can trace."""
    return [r for r in results if abilities.get(r.name.partition("[")[0], (False, False))[1]]


def grouped(results: Iterable[Result]) -> list[tuple[tuple[str, str, str], list[Result]]]:
    """What is not right by stage, kind and reason, the most frequent reasons first."""
    reasons: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        if result.kind != "passed":
            reasons.setdefault((result.stage, result.kind, general(result.reason)), []).append(result)
    return sorted(reasons.items(), key=lambda item: -len(item[1]))


def text(results: Sequence[Result], abilities: Abilities) -> str:
    """Percentages by library and module, then the reasons."""
    lines: list[str] = []
    for library in dict.fromkeys(result.library for result in results):
        own = [result for result in results if result.library == library]
        lines.append(f"{library}: eager {share(own, 'eager')}, jit {share(own, 'jit')}")
        if library == "scipy" and abilities:
            lines.append(
                f"    jit, of those that JAX can trace by SciPy's table: {share(traceable(own, abilities), 'jit')}"
            )
        for module in dict.fromkeys(result.module for result in own):
            part = [result for result in own if result.module == module]
            lines.append(f"    {module:32s} eager {share(part, 'eager'):22s} jit {share(part, 'jit')}")
    for (stage, kind, _), own in grouped(results):
        names = ", ".join([result.name for result in own])
        lines.append(f"{len(own):4d} {stage} {kind}: {own[0].reason}\n       {names}")
    missing = sorted(set(abilities) - {result.name.partition("[")[0] for result in results})
    if missing and any(result.library == "scipy" for result in results):
        lines.append(f"{len(missing)} functions of SciPy's table were not called: {', '.join(missing)}")
    return "\n".join(lines)


def _cell(results: Sequence[Result], stage: str) -> str:
    """How many of a module's results of a stage are right."""
    right, total = _count(results, stage)
    return f"{right} of {total}" if total else ""


def _rows(results: Sequence[Result], abilities: Abilities) -> Iterable[str]:
    """The table by library and module."""
    yield "| library | module | eager | in `dyn.jit` | in `dyn.jit`, of those that JAX can trace |"
    yield "|---|---|---:|---:|---:|"
    for library in dict.fromkeys(result.library for result in results):
        own = [result for result in results if result.library == library]
        version = importlib.metadata.version(_DISTRIBUTIONS.get(library, library))
        cells = [share(own, "eager"), share(own, "jit"), share(traceable(own, abilities), "jit")]
        yield f"| **{library}** {version} | all | {' | '.join(cells)} |"
        modules = list(dict.fromkeys(result.module for result in own))
        for module in modules if len(modules) > 1 else []:
            part = [result for result in own if result.module == module]
            cells = [_cell(part, "eager"), _cell(part, "jit"), _cell(traceable(part, abilities), "jit")]
            yield f"| | `{module}` | {' | '.join(cells)} |"


def plain(text: str) -> str:
    """A text of somebody else's as a cell of a Markdown table, whose signs mean nothing there."""
    return re.sub(
        r"__|[<*]", lambda found: "".join(f"\\{sign}" for sign in found[0]), text.replace("|", "/").replace("`", "")
    )


def _reasons(results: Sequence[Result], stage: str) -> Iterable[str]:
    """What is not right in a stage: how many, why, and the calls."""
    yield "| | why | calls |"
    yield "|---:|---|---|"
    for (_, kind, reason), own in grouped([result for result in results if result.stage == stage]):
        names = ", ".join([f"`{result.name}`" for result in own])
        why = reason if kind in ("refused", "failed") else f"{kind}: {reason}"
        yield f"| {len(own)} | {plain(why)} | {names} |"


def section(results: Sequence[Result], abilities: Abilities) -> str:
    """The part of the page that a run writes."""
    lines = [*_rows(results, abilities), "", "## Eager calls that are not right", "", *_reasons(results, "eager")]
    return "\n".join([*lines, "", "## Calls under `dyn.jit` that are not right", "", *_reasons(results, "jit")])


def write_page(results: Sequence[Result], abilities: Abilities) -> None:
    """Put the totals into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    made = f"{before}{_BEGIN}\n\n{section(results, abilities)}\n\n{_END}{after}"
    PAGE.write_text(made, encoding="utf-8")
