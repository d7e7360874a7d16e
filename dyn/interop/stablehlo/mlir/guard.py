"""Modules that nobody vouches for, before MLIR reads them in this process (docs/decisions/0014).

Bytecode is read in a process of its own (``guarded``). Texts are read here: MLIR's parser refuses what is wrong in
them, but it descends into brackets as deep as they go, and writes types out whole that share parts over and over.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

import numpy as np

from dyn.errors import ArtifactError
from dyn.interop.stablehlo.mlir import guarded

#: Brackets in each other. Regions may be 100 deep, which is two brackets each.
DEEPEST = 256
#: Characters of a type or an attribute with all of its aliases written out.
LONGEST = 1_000_000
_SECONDS = 20
_MEMORY = 8 << 30

_QUIET = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[<>]=')
_ALIAS = re.compile(r"([#!][\w.$-]+)\s*=(?!=)")
_USE = re.compile(r"[#!][\w.$-]+")
_CODE = re.compile(r"\n\s*(?:module|func|\"|[%@}])")
_MINUS = re.compile(rf"(?:-\s*){{{DEEPEST}}}")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"([{<")] = 1
_STEPS[list(b")]}>")] = -1


def checked_bytecode(data: bytes) -> bytes:
    """Bytecode of the same module, as MLIR wrote it again in a process of its own.

    Raises ArtifactError with MLIR's diagnosis, or saying how that process ended.
    """
    extra = len(data) >> 20
    header = {"path": sys.path, "seconds": _SECONDS + extra, "memory": _MEMORY + 16 * len(data)}
    command = [sys.executable, "-I", guarded.__file__]
    try:
        made = subprocess.run(
            command, input=json.dumps(header).encode() + b"\n" + data, capture_output=True, check=False,
            timeout=10 * (_SECONDS + extra),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _crashed("MLIR's reader does not end") from None
    except (OSError, ValueError) as error:
        raise ArtifactError(
            f"bytecode is read in a process of its own first, which cannot be started: {error}",
            remedy="load(…, trusted=True) reads it in this process; do so where you know who wrote it.",
        ) from error
    if made.stdout[:1] == guarded.VALID and made.returncode == 0:
        return made.stdout[1:]
    if made.stdout[:1] == guarded.INVALID and made.returncode == 0:
        raise ArtifactError(f"this is no StableHLO module: {made.stdout[1:].decode()}")
    raise _crashed(_ending(made.returncode, made.stderr))


def _crashed(how: str) -> ArtifactError:
    return ArtifactError(
        f"this is no StableHLO module: {how}", remedy="the bytes are damaged, or made by something else than MLIR."
    )


def _ending(status: int, said: bytes) -> str:
    if status < 0 and -status == getattr(signal, "SIGXCPU", 0):
        return f"MLIR's reader takes more than {_SECONDS} seconds"
    last = said.decode(errors="replace").strip().splitlines()[-1:]
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return f"MLIR's reader ended with {how}" + "".join(f" ({line[:200]})" for line in last)


def check_text(text: str) -> None:
    """Raises ArtifactError for a text that MLIR's parser would have no end of."""
    quiet = _QUIET.sub("", text)
    steps = _STEPS[np.frombuffer(quiet.encode(errors="replace"), np.uint8)]
    depth = np.cumsum(steps, dtype=np.int32)
    if len(depth) and depth.max() > DEEPEST:
        raise ArtifactError(f"this is no StableHLO module: its brackets are more than {DEEPEST} deep.")
    if _MINUS.search(quiet) is not None:
        raise ArtifactError(f"this is no StableHLO module: more than {DEEPEST} signs follow each other.")
    _check_aliases(quiet)


def _check_aliases(text: str) -> None:
    """That no alias (``#a = [#b, #b]``) is endless with those it uses."""
    found = list(_ALIAS.finditer(text))
    ends = [alias.start() for alias in found[1:]] + [len(text)]
    lengths: dict[str, int] = {}
    for alias, end in zip(found, ends, strict=False):
        body = _CODE.split(text[alias.end() : end], 1)[0]
        lengths[alias[1]] = len(body) + sum(lengths.get(use, 0) for use in _USE.findall(body))
        if lengths[alias[1]] > LONGEST:
            raise ArtifactError(
                f"this is no StableHLO module: {alias[1]} has more than {LONGEST} characters with the aliases in it."
            )
