"""Modules that nobody vouches for, before MLIR reads them in this process (docs/decisions/0015).

Texts and bytecode are read in a process of its own (``untrusted_modules``), and so are CHLO's operations written out;
what is read here is what MLIR wrote there. That process stays for a while, so that the next module waits for no start.
A text is looked at first: MLIR's parser descends into brackets as deep as they go, and writes types out whole that
share parts over and over, and what is wrong is said better here.
"""

from __future__ import annotations

import re
import resource
import signal

import numpy as np

from dyn.backends.python_process import PythonServer
from dyn.errors import ArtifactError
from dyn.interop.stablehlo.mlir import untrusted_modules

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
_BYTE = re.compile(r"\\(?:00|[89A-Fa-f][0-9A-Fa-f])")
#: MLIR makes room for as many results as the number of one says.
_MANY_RESULTS = re.compile(r"%[\w$.-]+[#:]\d{6,}")
#: Of integers that have a million bits and more MLIR makes some at once.
_WIDE = re.compile(r"(?:[\d?]x|[^\w%@#!.$])([su]?i\d{6,})\b")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"([{<")] = 1
_STEPS[list(b")]}>")] = -1


_READER = PythonServer(untrusted_modules.__file__)


def begin() -> None:
    """Have the reader's process start, which somebody is about to ask."""
    _READER.begin()


def checked(data: bytes, task: str = untrusted_modules.READ_NAMED) -> bytes:
    """Bytecode of the module of a text or of bytecode, as MLIR wrote it in a process of its own.

    Raises ValueError with MLIR's diagnosis, ArtifactError that says how that process ended.
    """
    extra = len(data) >> 20
    memory = _MEMORY + 16 * len(data)
    try:
        made = _READER.ask({"task": task, "seconds": _SECONDS + extra, "memory": memory}, data)
    except (OSError, ValueError) as error:
        raise ArtifactError(
            f"modules are read in a process of its own first, which cannot be started: {error}",
            remedy="load(…, trusted=True) reads it in this process; do so where you know who wrote it.",
        ) from error
    if made.out[:1] == untrusted_modules.VALID and made.status == 0:
        return made.out[1:]
    if made.out[:1] == untrusted_modules.INVALID and made.status == 0:
        raise ValueError(made.out[1:].decode())
    how = _ending(made.status, made.err)
    space = _address_space()
    if space is not None and space < memory:
        raise ArtifactError(
            f"this module is not read: {how}, where processes have {space >> 20} MiB of address space (ulimit -v).",
            remedy=f"the least that is sure to do is {memory >> 20} MiB; with that much the bytes would be "
            "damaged, or made by something else than MLIR.",
        )
    raise ArtifactError(
        f"this is no StableHLO module: {how}", remedy="the bytes are damaged, or made by something else than MLIR."
    )


def _address_space() -> int | None:
    """The bytes of address space that a process may have; None where there is no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    return None if hard == resource.RLIM_INFINITY else hard


def _ending(status: int, said: bytes) -> str:
    if status == -signal.SIGXCPU:
        return f"MLIR's reader takes more than {_SECONDS} seconds"
    if status == -signal.SIGALRM:
        return "MLIR's reader does not end"
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
    many = _MANY_RESULTS.search(quiet)
    if many is not None:
        raise ArtifactError(f"this is no StableHLO module: no operation has as many results as {many[0]}.")
    wide = _WIDE.search(quiet)
    if wide is not None:
        raise ArtifactError(f"this is no StableHLO module: no integer is {wide[1]}.")
    _check_aliases(quiet)


def has_bytes(text: str) -> bool:
    """Tell whether a text writes bytes that are no ASCII, or 0, by their numbers; names may be strings too."""
    return _BYTE.search(text) is not None


def _check_aliases(text: str) -> None:
    """Refuse an alias (``#a = [#b, #b]``) that is too long with those it uses."""
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
