"""``python -m dyn inspect``: what a StableHLO module is, what dyn makes of it, and what of it dyn cannot do."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dyn.commands.models import StablehloModel, contents_of, read_stablehlo
from dyn.commands.tables import Table, show
from dyn.errors import DynError, UnsupportedOpError
from dyn.explain.words import pluralized
from dyn.late_imports import import_whole

if TYPE_CHECKING:
    from dyn.explain.report import Report
    from dyn.interop.stablehlo.survey import Problem, Survey


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Tells what a StableHLO module is made of: its dims, operation by operation whether dyn has it, and, where it "
        "has them all, what is known and checked of the dims, the kernels, and memory as a formula. Nothing is run. "
        "The exit status is 0 where everything is supported, and 1 otherwise."
    )
    parser.add_argument("model", help="the file, or - for standard input")
    parser.add_argument("--entry", default="main", metavar="NAME", help="the function to look at (main)")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.add_argument("--plain", action="store_true", help="plain text, also where rich is installed")


def main(chosen: argparse.Namespace) -> int:
    try:
        model = read_stablehlo(chosen.model, chosen.entry)
    except UnsupportedOpError as error:
        return _unreadable(chosen, error)
    found = _inspected(model)
    if chosen.json:
        print(json.dumps(found.as_json(), indent=2))
    else:
        show(found.title(), found.tables(), found.text(), plain=chosen.plain)
    return 0 if found.supported else 1


def _unreadable(chosen: argparse.Namespace, error: UnsupportedOpError) -> int:
    """A module with types that dyn has not: all of them are told."""
    import_whole("dyn.interop.stablehlo.survey")
    from dyn.interop.stablehlo.survey import types_not_supported

    if chosen.model == "-":
        raise error
    try:
        problems = types_not_supported(contents_of(chosen.model))
    except ValueError:  # MLIR's: the reader is not given the dialects of all types
        raise error from None
    if not problems:
        raise error
    if chosen.json:
        print(json.dumps({"path": chosen.model, "supported": False, "problems": _plain(problems)}, indent=2))
    else:
        show(f"{chosen.model}: not supported", [_problem_table(problems)], "", plain=chosen.plain)
    return 1


@dataclass(frozen=True, eq=False, slots=True)
class _Inspected:
    """Everything that is told of a module."""

    model: StablehloModel
    survey: Survey
    #: What the passes made of it; None where it has operations that dyn has not.
    report: Report | None
    #: Distinct kernels.
    kernels: int
    results: tuple[str, ...]
    #: Why there is no report, though every operation is supported.
    error: DynError | None = None

    @property
    def supported(self) -> bool:
        return self.report is not None

    def title(self) -> str:
        results = f" -> ({', '.join(self.results)})" if self.report is not None else ""
        return f"{self.model.path}: {self.model.signature()}{results}"

    def problems(self) -> tuple[Problem, ...]:
        if self.survey.problems or self.error is None:
            return self.survey.problems
        import_whole("dyn.interop.stablehlo.survey")
        from dyn.interop.stablehlo.survey import Problem

        where = () if self.error.loc is None else (str(self.error.loc),)
        return (Problem("the module", self.error.problem, self.error.remedy, where),)

    def tables(self) -> list[Table]:
        bad = {problem.name for problem in self.problems()}
        total = pluralized(self.survey.total, "operation")
        rows = [(name, str(count), "no" if name in bad else "yes") for name, count in self.survey.operations]
        found = [Table(f"{total} of {pluralized(len(rows), 'kind')}", ("operation", "times", "supported"), tuple(rows))]
        if self.problems():
            found.append(_problem_table(self.problems()))
        if self.report is not None and self.report.dims:
            dims = [(row.name, row.origin, row.declared, row.same) for row in self.report.dims]
            found.append(Table("dims", ("dim", "is", "declared", "the same as"), tuple(dims)))
        return found

    def text(self) -> str:
        """The text of ``explain`` for a program but for its dims, which have a table, and compiling: there is none."""
        if self.report is None:
            return ""
        import_whole("dyn.explain.text")
        from dyn.explain.text import sections

        lines: list[str] = []
        for title, entries in sections(self.report)[1:-1]:
            lines.append(title if entries else f"{title}: none")
            lines += [f"  {entry}" for entry in entries]
        return "\n".join([*lines, pluralized(self.kernels, "distinct kernel")])

    def as_json(self) -> dict[str, Any]:
        model, report = self.model, self.report
        made: dict[str, Any] = {
            "path": model.path,
            "entry": model.entry,
            "supported": self.supported,
            "arguments": [
                {"name": name, "dtype": dtype.name, "shape": list(axes)}
                for name, dtype, axes in zip(model.names, model.dtypes, model.axes, strict=True)
            ],
            "operations": dict(self.survey.operations),
            "problems": _plain(self.problems()),
        }
        if report is None:
            return made
        kept = ("dims", "facts", "guards", "groups", "saved", "memory")
        told = {name: _plain(getattr(report, name)) for name in kept}
        return made | {"results": list(self.results), "kernels": self.kernels} | told


def _plain(value: Any) -> Any:
    """Records as JSON has them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        items: Sequence[Any] = value
        return [_plain(item) for item in items]
    return value if value is None or isinstance(value, str | int | float) else getattr(value, "value", str(value))


#: So many lines of the module are shown for a reason.
_MOST_LINES = 4


def _problem_table(problems: Sequence[Problem]) -> Table:
    rows: list[tuple[str, ...]] = []
    for problem in problems:
        lines = list(problem.lines)
        more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
        why = f"{problem.text} help: {problem.remedy}" if problem.remedy else problem.text
        rows.append((problem.name, str(problem.count), ", ".join(lines[:_MOST_LINES]) + more, why))
    return Table("not supported", ("operation", "times", "at", "why"), tuple(rows))


def _inspected(model: StablehloModel) -> _Inspected:
    import_whole("dyn.explain.report", "dyn.interop.stablehlo.survey", "dyn.pipeline", "dyn.shapes")
    from dyn.explain.report import make_report
    from dyn.interop.stablehlo.survey import survey
    from dyn.pipeline import render
    from dyn.shapes import format_dim

    seen = survey(model.module, model.function)
    if seen.problems:
        return _Inspected(model, seen, None, 0, ())
    try:
        lowered = model.run.lower(*model.structs())
    except DynError as error:
        return _Inspected(model, seen, None, 0, (), error)
    optimized = lowered.optimized
    results = [
        f"{v.dtype.short}[{', '.join([format_dim(d) for d in v.shape])}]" for v in lowered.stage.traced.function.results
    ]
    report = make_report(
        optimized, lowered.stage.traced, lowered.record, "", in_panels=lowered.program.bytes_in_panels
    )  # fmt: skip
    return _Inspected(model, seen, report, render(optimized).kernels, tuple(results))
