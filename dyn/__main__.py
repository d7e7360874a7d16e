"""The command line: ``python -m dyn doctor``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import dyn
from dyn.doctor import Diagnosis, State, examine

_COLOURS = {
    State.OK: "green", State.NOTE: "", State.MISSING: "dim", State.WARNING: "yellow", State.FAILED: "bold red",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the answer is the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m dyn", description="dyn compiles array programs once for every shape."
    )
    parser.add_argument("--version", action="version", version=f"dyn {dyn.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="")
    doctor = commands.add_parser(
        "doctor",
        help="what this machine can run, what is missing for the rest, and what to do about it",
        description="Reports versions, the processor, settings, backends and optional packages, and compiles and runs "
        "a small program. The exit status is 0 when dyn works on the processor, and 1 otherwise.",
    )
    doctor.add_argument("--plain", action="store_true", help="plain text, also where rich is installed")
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return 0
    diagnosis = examine()
    if chosen.plain or not _print_with_rich(diagnosis):
        print(diagnosis.text())
    return 0 if diagnosis.works else 1


def _print_with_rich(diagnosis: Diagnosis) -> bool:
    """Print in colour where rich is installed and somebody is looking."""
    if not sys.stdout.isatty():
        return False
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    console = Console(highlight=False)
    for section in diagnosis.sections:
        console.print(Text(section.title, style="bold"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for finding in section.findings:
            style = _COLOURS[finding.state]
            state = "" if finding.state is State.NOTE else finding.state.value
            told = Text(finding.text)
            if finding.remedy:
                told.append(f"\nhelp: {finding.remedy}", style="cyan")
            table.add_row(finding.label, Text(state, style=style), told)
        console.print(table)
        console.print()
    console.print(Text(diagnosis.verdict(), style="bold green" if diagnosis.works else "bold red"))
    return True


if __name__ == "__main__":
    sys.exit(main())
