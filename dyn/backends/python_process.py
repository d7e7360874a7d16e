"""A file of Python as a process of its own: what may crash there does not crash here."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """End of a process: its exit status, or minus the signal's number; None where it did not end in time."""

    status: int | None
    out: bytes = b""
    err: bytes = b""


def run_python(path: str, data: bytes, seconds: float) -> Ended:
    """Run a file in a new interpreter, with ``data`` as its input. Raises OSError where none can be started.

    The interpreter looks for no packages: the file is told where they are.
    """
    try:
        made = subprocess.run(
            [sys.executable, "-I", "-S", path], input=data, capture_output=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return Ended(None)
    return Ended(made.returncode, made.stdout, made.stderr)
