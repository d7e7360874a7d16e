"""The command line: ``python -m dyn doctor``, ``run``, ``inspect`` and ``convert``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches

import dyn
from dyn.commands import convert, inspection, run
from dyn.doctor import Diagnosis, Severity, examine
from dyn.errors import DynError

_COLOURS = {
    Severity.OK: "green", Severity.NOTE: "", Severity.MISSING: "dim", Severity.WARNING: "yellow",
    Severity.FAILED: "bold red",
}  # fmt: skip
#: What the shell says of a program that SIGPIPE or SIGINT ended.
_BROKEN_PIPE, _INTERRUPTED = 141, 130


_COMMANDS = ("doctor", "run", "inspect", "convert")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the answer is the exit status: 0, 1 for an error (on stderr) or a bad diagnosis, 2 for usage."""
    parser = _parser()
    given = sys.argv[1:] if arguments is None else list(arguments)
    near = get_close_matches(given[0], _COMMANDS, 1) if given and given[0] not in _COMMANDS else []
    if near:
        parser.error(f"there is no command {given[0]}: did you mean {near[0]}?")
    chosen = parser.parse_args(given)
    if chosen.command is None:
        parser.print_help()
        return 0
    try:
        status: int = chosen.main(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough. What is left in the buffer must not fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (DynError, MemoryError) as error:
        if chosen.debug:
            raise
        print(_told(chosen.command, error), file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
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
    doctor.set_defaults(main=_doctor)
    for name, command, help in (
        ("run", run, "run a StableHLO module or an ONNX model on arrays"),
        (
            "inspect",
            inspection,
            "dims, operations, kernels and memory of a StableHLO module, and what is not supported",
        ),
        (
            "convert",
            convert,
            "a StableHLO module or an ONNX model as StableHLO: text, bytecode or a portable artifact",
        ),
    ):
        one = commands.add_parser(name, help=help)
        command.add(one)
        one.set_defaults(main=command.main)
    for one in commands.choices.values():
        one.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _told(command: str, error: DynError | MemoryError) -> str:
    """An error on stderr: what is wrong on the first line, then where, then what to do about it."""
    return f"python -m dyn {command}: {str(error) or 'there is not enough memory.'}"


def _doctor(chosen: argparse.Namespace) -> int:
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
            state = "" if finding.state is Severity.NOTE else finding.state.value
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
