"""The programs that are compared: ``<framework>_<program>.py`` defines ``Peer``, that program in that framework.

A file put here is a peer. Nothing is imported until it is asked for, so a peer's framework may be missing.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Protocol

import numpy as np


class Peer(Protocol):
    """A loaded program. It is made once in its process, and called from one thread.

    ``config`` has the fields of the program's configuration; ``params`` is its tree of float32 arrays, and the peer's
    own from here on; ``threads`` is how many threads it may compute with.
    """

    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None: ...

    def __call__(self, *arrays: np.ndarray) -> Any:
        """Run on NumPy arrays, and return when the result is there: a framework's own array, convertible to NumPy's."""
        ...

    def compiled(self) -> tuple[int, float]:
        """How many times it compiled, and the seconds that took, since it was made. Eager frameworks: ``(0, 0.0)``."""
        ...

    def versions(self) -> str:
        """What runs, for the report: ``torch 2.13.0, MKL 2024.2``."""
        ...

    # Peers of programs whose capture is told apart also have ``captured() -> float``: the seconds, of those that
    # ``compiled`` counts, in which the program's Python was run and not compiled.


def peer_names(program: str) -> list[str]:
    """The frameworks that have ``program``, dyn first."""
    names = [path.stem.removesuffix(f"_{program}") for path in Path(__file__).parent.glob(f"*_{program}.py")]
    return sorted(names, key=lambda name: (name != "dyn", name))


def peer_class(framework: str, program: str) -> type[Peer]:
    """``peer_class("torch", "bert")``; ImportError where the framework is missing."""
    return importlib.import_module(f"{__name__}.{framework}_{program}").Peer
