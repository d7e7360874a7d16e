"""Random numbers in programs of PyTorch functions: one seed for each call, and a key for each operation that draws.

A program that draws has one more argument, the seed, which a call takes from PyTorch's generator
(``torch.default_generator``): ``torch.manual_seed`` makes calls repeat themselves, and each call is another one. The
numbers are dyn's (:mod:`dyn.random`), which have the distributions of PyTorch's, and not its values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dyn import random
from dyn.errors import NotYetError
from dyn.interop.torch.replacing import Replacement
from dyn.source import user_loc
from dyn.trace.context import Trace, current_trace, outside_of_regions
from dyn.trace.tracer import Tracer


class SeedNeeded(BaseException):
    """Ends a trace that comes to random numbers and was given no seed. Nobody but the caller of the trace is to see it,
    and so it is no ``Exception``."""


def new_seed() -> torch.Tensor:
    """A seed for one call, drawn from PyTorch's generator: int64 of shape ()."""
    with torch.no_grad():
        return torch.empty((), dtype=torch.int64, device="cpu").random_()


class Keys:
    """The keys of a trace, one for each operation that draws, in their order. ``seed`` is None where there is none.

    Their state is how many there have been: where a function sets PyTorch's state to what it was, as checkpoints do
    before they compute again, operations have the keys again that they had.
    """

    def __init__(self, trace: Trace, seed: Tracer | None) -> None:
        self.trace, self.seed = trace, seed
        #: Whether an operation asked for a key.
        self.asked = False
        self._root: Any = None
        #: How many keys there were.
        self.count = 0
        self._made: dict[int, Any] = {}
        #: The states that the function was given, by identity, each with the number of keys until then.
        self._states: dict[int, tuple[torch.Tensor, int]] = {}
        #: The regions that may draw: each with the number of its step, where it is the body of a loop.
        self._steps: list[tuple[Trace, Any]] = []

    @contextlib.contextmanager
    def drawing_in(self, region: Trace, step: Any = None) -> Iterator[None]:
        """Let a region have keys; as the body of a loop, one for each ``step``, an integer that no other step has."""
        self._steps.append((region, step))
        try:
            yield
        finally:
            self._steps.pop()

    def new(self) -> Any:
        """A key that no other operation has. Raises SeedNeeded in a trace without a seed."""
        self.asked = True
        if self.seed is None:
            raise SeedNeeded
        self.count += 1
        made = None if self._steps else self._made.get(self.count)
        if made is not None:
            return made
        here = current_trace()
        if here is not (self._steps[-1][0] if self._steps else self.trace):
            raise NotYetError(
                "random numbers in the body of a branch or loop.",
                loc=user_loc(),
                remedy="draw them before it, and pass them in.",
            )
        if self._root is None:
            with outside_of_regions(self.trace):
                self._root = random.key(self.seed)
        key = random.fold_in(self._root, self.count)
        for _, step in self._steps:
            key = key if step is None else random.fold_in(key, step)
        if not self._steps:
            self._made[self.count] = key
        return key

    def state(self, state: torch.Tensor) -> torch.Tensor:
        """PyTorch's ``state``, which stands for the keys until now."""
        self._states[id(state)] = state, self.count
        return state

    def restore(self, state: torch.Tensor) -> bool:
        """Go back to a state of these keys; False for one of another time."""
        known = self._states.get(id(state))
        if known is not None:
            self.count = known[1]
        return known is not None

    def active(self) -> contextlib.AbstractContextManager[None]:
        """Have ``torch.get_rng_state`` and ``torch.set_rng_state`` of this thread be about these keys."""
        return _GENERATOR.active(self)


class _Generator:
    """PyTorch's own generator, whose state is that of the keys for a thread that traces."""

    def __init__(self, own: torch.Generator) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def get_state(self) -> torch.Tensor:
        with _disable_current_modes():
            state = self._own.get_state()
        keys = _GENERATOR.current
        return state if keys is None else keys.state(state)

    def set_state(self, state: torch.Tensor) -> None:
        keys = _GENERATOR.current
        if keys is None or not keys.restore(state):
            self._own.set_state(state)


#: What functions of ``torch.random`` find by the name; ``torch.default_generator`` stays as it is.
_GENERATOR: Replacement[Keys] = Replacement(torch.random, "default_generator", _Generator(torch.default_generator))
