"""Random numbers in programs of PyTorch functions: one seed for each call, and a key for each operation that draws.

A program that draws has one more argument, the seed, which a call takes from PyTorch's generator
(``torch.default_generator``): ``torch.manual_seed`` makes calls repeat themselves, and each call is another one. The
numbers are dyn's (:mod:`dyn.random`), which have the distributions of PyTorch's, and not its values.
"""

from __future__ import annotations

from typing import Any

import torch

from dyn import random
from dyn.errors import NotYetError
from dyn.source import user_loc
from dyn.trace.context import Trace, current_trace
from dyn.trace.tracer import Tracer


class SeedNeeded(BaseException):
    """Ends a trace that comes to random numbers and was given no seed. Nobody but the caller of the trace is to see it,
    and so it is no ``Exception``."""


def new_seed() -> torch.Tensor:
    """A seed for one call, drawn from PyTorch's generator: int64 of shape ()."""
    with torch.no_grad():
        return torch.empty((), dtype=torch.int64, device="cpu").random_()


class Keys:
    """The keys of a trace, one for each operation that draws, in their order. ``seed`` is None where there is none."""

    def __init__(self, trace: Trace, seed: Tracer | None) -> None:
        self.trace, self.seed = trace, seed
        #: Whether an operation asked for a key.
        self.asked = False
        self._root: Any = None
        self._count = 0

    def new(self) -> Any:
        """A key that no other operation has. Raises SeedNeeded in a trace without a seed."""
        self.asked = True
        if self.seed is None:
            raise SeedNeeded
        if current_trace() is not self.trace:
            raise NotYetError(
                "random numbers in the body of a branch or loop.",
                loc=user_loc(),
                remedy="draw them before it, and pass them in.",
            )
        if self._root is None:
            self._root = random.key(self.seed)
        self._count += 1
        return random.fold_in(self._root, self._count)
