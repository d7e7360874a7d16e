"""Random numbers in programs of PyTorch functions: seeds that a call takes, and a key for each operation that draws.

A program that draws has an argument for each generator that it draws from, PyTorch's own among them: a seed, which a
call takes from the generator, so that each call is another one, and calls repeat themselves once that is seeded. The
numbers are dyn's (:mod:`dyn.random`), which have the distributions of PyTorch's, and not its values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dyn import random
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.frontend.retrace import Retrace
from dyn.frozen import record
from dyn.source import user_loc
from dyn.trace.context import Trace, current_trace, outside_of_regions
from dyn.trace.patched_names import Replacement
from dyn.trace.tracer import Tracer


@record(eq=False)
class Seed:
    """A seed that each call takes from a generator: one that the function closes over, or that argument of a call."""

    generator: torch.Generator | int

    @property
    def key(self) -> Any:
        return "seed", self.generator if isinstance(self.generator, int) else identity(self.generator)

    def sample(self) -> torch.Tensor:
        """A tensor like those that calls are given."""
        return torch.zeros((), dtype=torch.int64)

    def get(self) -> Any:
        return None

    def set(self, value: Any) -> None:
        """The generator stays what it is: a trace finds out when the function comes to it (:class:`Keys`)."""


class Seeds:
    """The seeds that a call takes, one from each generator, of which it was given ``generators``.

    With ``restores`` they can be put back.
    """

    def __init__(self, generators: Sequence[torch.Generator], restores: bool) -> None:
        self._generators, self._restores = generators, restores
        self._drawn: dict[Any, torch.Tensor] = {}
        self._states: list[tuple[torch.Generator, torch.Tensor]] = []

    def of(self, seed: Seed) -> torch.Tensor:
        """The call's seed: int64 of shape ()."""
        made = self._drawn.get(seed.key)
        if made is None:
            generator = self._generators[seed.generator] if isinstance(seed.generator, int) else seed.generator
            if self._restores:
                self._states.append((generator, generator.get_state()))
            made = self._drawn[seed.key] = _drawn(generator)
        return made

    def restore(self) -> None:
        """Have the generators in the states that they were in."""
        for generator, state in self._states:
            generator.set_state(state)


def identity(generator: torch.Generator) -> Any:
    """Identity of a generator, whichever Python object stands for it: operations are given others than functions."""
    return generator.device.type, generator._cdata  # pyright: ignore[reportAttributeAccessIssue]  # as tensors have it


def _drawn(generator: torch.Generator) -> torch.Tensor:
    with torch.no_grad():
        return torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator)


@record()
class GeneratorNumber:
    """A generator among the arguments, by its number among those."""

    number: int

    @staticmethod
    def of(generator: torch.Generator, known: list[torch.Generator]) -> GeneratorNumber:
        """The number of a generator, which joins ``known`` where it is not one of these.

        Raises UnsupportedOpError for one of another device.
        """
        if generator.device.type != "cpu":
            raise UnsupportedOpError(
                f"a generator on {generator.device}.", loc=user_loc(), remedy="pass a torch.Generator() of the CPU."
            )
        found = next((number for number, one in enumerate(known) if identity(one) == identity(generator)), None)
        if found is None:
            known.append(generator)
        return GeneratorNumber(len(known) - 1 if found is None else found)


class _Stream:
    """The keys of one generator: how many there have been, and those that can be had again.

    One that is ``made`` in the trace nobody else has: its seed is a value of the program.
    """

    def __init__(self, generator: torch.Generator, seed: Tracer, made: bool = False) -> None:
        self.generator, self.seed, self.is_made = generator, seed, made
        self.root: Any = None
        self.count = 0
        self.keys: dict[int, Any] = {}
        #: The generator's states after so many keys, in which nobody else puts it; none where nobody watches.
        self._states: list[torch.Tensor] = []

    @property
    def is_own(self) -> bool:
        """Whether it is PyTorch's own generator, whose methods are replaced."""
        return identity(self.generator) == identity(torch.default_generator)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Have the generator in states by which it is seen what the function does to it, beside drawing."""
        before = self.generator.get_state()
        self.generator.seed()
        self._states.append(self.generator.get_state())
        try:
            yield
            self._find()
        finally:
            self.generator.set_state(before)
            self._states.clear()

    def _find(self) -> None:
        """Go to where the generator is. Raises NotYetError where that is none of the states that it has had."""
        with _disable_current_modes():
            now = self.generator.get_state()
            found = next((count for count, state in enumerate(self._states) if torch.equal(state, now)), None)
        if found is None:
            raise seeded()
        self.count = found

    def go_to(self, count: int) -> None:
        """Go back to where there were so many keys."""
        self.count = count
        if self._states:
            self.generator.set_state(self._states[count])

    def advance(self) -> None:
        """Count a key."""
        if self.is_own or self.is_made:
            self.count += 1
            return
        self._find()
        self.count += 1
        del self._states[self.count :]
        with _disable_current_modes():
            _drawn(self.generator)
            self._states.append(self.generator.get_state())


class GeneratorError(NotYetError):
    """A generator that no program draws from as the function does: nor may an operation that eager PyTorch runs."""


def seeded() -> GeneratorError:
    """The error for a function that seeds a generator, or has it in another state than it was in."""
    return GeneratorError(
        "a random generator that the function itself makes, seeds or sets.",
        loc=user_loc(),
        remedy="make and seed it outside of the function.",
    )


#: What of a position is about PyTorch's own generator once the function has seeded it.
_SEEDED = ("seed", "since")


class Keys:
    """The keys of a trace, one for each operation that draws, in their order for each generator.

    Where a function sets a generator's state to what it was, as checkpoints do before they compute again, operations
    have the keys again that they had. ``lacking`` makes what ends the trace where there is no seed for a generator.
    """

    def __init__(self, trace: Trace, lacking: Callable[[Callable[[Any], None]], Retrace]) -> None:
        self.trace, self._lacking = trace, lacking
        self._streams: dict[Any, _Stream] = {}
        #: The states of PyTorch's own generator that the function was given, by identity, each with the position then.
        self._states: dict[int, tuple[torch.Tensor, dict[Any, int]]] = {}
        #: What the function has seeded PyTorch's own generator with, and how many keys there have been since.
        self._seed: int | None = None
        self._since = 0
        #: The regions that may draw: each with the number of its step, where it is the body of a loop.
        self._steps: list[tuple[Trace, Any]] = []

    def add(self, generator: torch.Generator, seed: Tracer) -> None:
        """Have keys for a generator, made from a seed."""
        self._streams[identity(generator)] = _Stream(generator, seed)

    def made(self, seed: Tracer) -> torch.Generator:
        """A generator that is the function's own, and begins at ``seed``, an integer that the program computes."""
        generator = torch.Generator()
        self._streams[identity(generator)] = _Stream(generator, seed, made=True)
        return generator

    @contextlib.contextmanager
    def drawing_in(self, region: Trace, step: Any = None) -> Iterator[None]:
        """Let a region have keys; as the body of a loop, one for each ``step``, an integer that no other step has."""
        self._steps.append((region, step))
        try:
            yield
        finally:
            self._steps.pop()

    def new(self, generator: torch.Generator | None = None) -> Any:
        """A key that no other operation has, of PyTorch's own generator or another one.

        Raises Retrace in a trace without a seed for it.
        """
        generator = torch.default_generator if generator is None else generator
        if self._seed is not None and identity(generator) == identity(torch.default_generator):
            self._check_place()
            self._since += 1
            return self._folded(random.key(self._seed), self._since)
        stream = self._streams.get(identity(generator))
        if stream is None:
            if any(not (one.is_own or one.is_made or one.count) for one in self._streams.values()):
                raise seeded()  # the trace before has come to another one here
            raise self._lacking(lambda attempt: attempt.give_seed(generator))
        stream.advance()
        made = None if self._steps else stream.keys.get(stream.count)
        if made is not None:
            return made
        self._check_place()
        if stream.root is None:  # the seed of one that is made is of the region that makes it
            with contextlib.nullcontext() if stream.is_made else outside_of_regions(self.trace):
                stream.root = random.key(stream.seed)
        key = self._folded(stream.root, stream.count)
        if not self._steps:
            stream.keys[stream.count] = key
        return key

    def _check_place(self) -> None:
        """Raise NotYetError in a region that may not draw."""
        here = current_trace()
        if here is not (self._steps[-1][0] if self._steps else self.trace):
            raise NotYetError(
                "random numbers in the body of a branch or loop.",
                loc=user_loc(),
                remedy="draw them before it, and pass them in.",
            )

    def _folded(self, root: Any, count: int) -> Any:
        """A key of its own for this place, and for each step of the loops that it is in."""
        key = random.fold_in(root, count)
        for _, step in self._steps:
            key = key if step is None else random.fold_in(key, step)
        return key

    def state(self, state: torch.Tensor) -> torch.Tensor:
        """The ``state`` of PyTorch's own generator, which stands for the keys until now."""
        self._states[id(state)] = state, self.position
        return state

    def restore(self, state: torch.Tensor) -> None:
        """Go back to a state of these keys. Raises NotYetError for one of another time."""
        known = self._states.get(id(state))
        if known is None:
            raise seeded()
        own = identity(torch.default_generator)
        self.go_to({name: count for name, count in known[1].items() if name in (own, *_SEEDED)})

    def seed(self, seed: int) -> None:
        """Have keys of PyTorch's own generator follow from a number, until the function goes back to a state."""
        self._seed, self._since = seed % 2**63, 0

    @property
    def position(self) -> dict[Any, int]:
        """The number of keys so far, of each generator."""
        seeded = zip(_SEEDED, (-1 if self._seed is None else self._seed, self._since), strict=True)
        return {name: stream.count for name, stream in self._streams.items()} | dict(seeded)

    def go_to(self, position: Mapping[Any, int]) -> None:
        """Go back to a position, from which operations have the same keys again."""
        for name, count in position.items():
            if name == _SEEDED[0]:
                self._seed = None if count < 0 else count
            elif name == _SEEDED[1]:
                self._since = count
            else:
                self._streams[name].go_to(count)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Have what this thread does to generators be about these keys."""
        with _GENERATOR.active(self):
            yield

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Have the generators watched, but for PyTorch's own. Raises NotYetError where the function seeds one."""
        with contextlib.ExitStack() as stack:
            for stream in self._streams.values():
                if not stream.is_own:
                    stack.enter_context(stream.watched())
            yield
            if self._seed is not None:  # and no call would leave it so
                raise seeded()


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
        if keys is None:
            self._own.set_state(state)
        else:
            keys.restore(state)

    def manual_seed(self, seed: int) -> torch.Generator:
        keys = _GENERATOR.current
        if keys is None:
            return self._own.manual_seed(seed)
        keys.seed(seed)
        return self._own

    def seed(self) -> int:
        if _GENERATOR.current is not None:
            raise seeded()
        return self._own.seed()


#: What functions of ``torch.random`` find by the name; ``torch.default_generator`` stays as it is.
_GENERATOR: Replacement[Keys] = Replacement(torch.random, "default_generator", _Generator(torch.default_generator))
