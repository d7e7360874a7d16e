"""The benchmarks: each file here is one, by defining ``add_arguments(parser)`` and ``run(arguments) -> Report``."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Protocol, cast

from benchmarks.report import Report


class Suite(Protocol):
    """A benchmark. The first line of its docstring is its help."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> Report: ...


def suites() -> dict[str, Suite]:
    """All benchmarks, by name."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")
    return {name: cast(Suite, importlib.import_module(f"{__name__}.{name}")) for name in names}
