"""The report of a run: as data, and as a page of Markdown, both written anew after each part."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.checks import Part
from benchmarks.gpu_check.outcomes import Outcome, State, failures, read_outcome
from benchmarks.report import Table


@dataclass
class Run:
    """What was found so far; ``outcomes`` by part, in the order in which the parts ran."""

    device: str
    machine: str
    versions: list[str]
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict[str, list[Outcome]])
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def counts(self, part: str) -> dict[State, int]:
        return {state: sum(one.state is state for one in self.outcomes[part]) for state in State}

    @property
    def failed(self) -> list[str]:
        """The checks that failed or found no time, as the command line names them."""
        return [f"{part}/{name}" for part, found in self.outcomes.items() for name in failures(found)]

    def as_data(self) -> dict[str, Any]:
        return {
            "device": self.device, "machine": self.machine, "versions": self.versions, "failed": self.failed,
            "parts": {
                name: {"seconds": self.seconds[name], "checks": [one.as_data() for one in found]}
                for name, found in self.outcomes.items()
            },
        }  # fmt: skip

    def write(self, folder: Path, parts: Mapping[str, Part]) -> None:
        """Write ``gpu-check.json`` and ``gpu-check.md``, each at once."""
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / "gpu-check.json", json.dumps(self.as_data(), indent=1, default=str) + "\n")
        _replace(folder / "gpu-check.md", self.markdown(parts))

    def markdown(self, parts: Mapping[str, Part]) -> str:
        header = ("part", *map(str, State), "seconds")
        rows = [
            (parts[name].title, *[str(n) for n in self.counts(name).values()], f"{self.seconds[name]:.1f}")
            for name in self.outcomes
        ]
        texts = [f"# What dyn does on {self.device}", self.machine, "\n".join(f"- {line}" for line in self.versions)]
        texts.append(Table("Parts", header, tuple(rows)).markdown())
        texts += self._messages(parts)
        for name, found in self.outcomes.items():
            told = [one for one in found if one.figures and (name == "device" or not parts[name].is_correctness)]
            texts += list(_tables(parts[name].title, told))
        return "\n\n".join(texts) + "\n"

    def _messages(self, parts: Mapping[str, Part]) -> Iterable[str]:
        for name, found in self.outcomes.items():
            for one in found:
                if one.state is State.FAILED:
                    yield f"## {name}/{one.check} failed\n\n```\n{one.message}\n```"
            others = [one for one in found if one.state in (State.NOT_APPLICABLE, State.NOT_RUN)]
            if others:
                lines = [f"- {one.check} ({one.state}): {one.message.splitlines()[0]}" for one in others]
                yield f"## {parts[name].title}: left out\n\n" + "\n".join(lines)


def _tables(title: str, outcomes: Sequence[Outcome]) -> Iterable[str]:
    """Figures of checks, a line each: those that have the same figures in one table."""
    by_header: dict[tuple[str, ...], list[Outcome]] = {}
    for one in outcomes:
        by_header.setdefault(tuple(one.figures), []).append(one)
    for header, alike in by_header.items():
        rows = tuple([(one.check, *[str(value) for value in one.figures.values()]) for one in alike])
        yield Table(title, ("", *header), rows).markdown()


def _replace(path: Path, text: str) -> None:
    own = path.with_suffix(f"{path.suffix}.new")
    own.write_text(text, "utf-8")
    os.replace(own, path)


def read_failures(path: Path) -> dict[str, list[str]]:
    """The checks that failed in an earlier run, by part; none where there is no such file, or it is none of ours."""
    try:
        data = json.loads(path.read_text("utf-8"))
        return {name: failures(list(map(read_outcome, part["checks"]))) for name, part in data["parts"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
