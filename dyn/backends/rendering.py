"""Texts of kernels, each rendered once in a process: programs share kernels, as the graphs of one model do."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from dyn.backends.families import family_of
from dyn.fork_safety import lock
from dyn.frozen import record
from dyn.lower.shared_functions import Routine
from dyn.schedule.kernel import Kernel
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol

T = TypeVar("T")

#: So many are kept, those that were asked for last: texts of some ten megabytes.
_MOST = 1024


@record()
class Scratch:
    """The bytes of scratch that a launch of a kernel takes, over the dims of the kernel that was looked at first."""

    bytes: Dim
    dims: tuple[Symbol, ...]


@record()
class Rendering:
    """The text of a kernel, and of all that are equal to it."""

    text: str
    routines: tuple[Routine, ...]
    scratch: Scratch
    #: The threads that work on one GRID iteration.
    threads: int


class _RenderedKernels(Generic[T]):
    """A bounded cache of rendered kernels, by what their texts are of, for many threads."""

    def __init__(self) -> None:
        self._lock = lock()
        self._known: OrderedDict[tuple[str, str, Target], T] = OrderedDict()

    def get(self, key: tuple[str, str, Target], make: Callable[[], T]) -> T:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
        made = make()
        with self._lock:
            self._known[key] = made
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return made


_RENDERINGS: _RenderedKernels[Rendering] = _RenderedKernels()
_SCRATCH: _RenderedKernels[Scratch] = _RenderedKernels()


def rendering(kernel: Kernel, name: str, target: Target) -> Rendering:
    """The text of a kernel under its own name (``kernel_name``), which equal kernels have as well."""

    def make() -> Rendering:
        made = family_of(target).render(replace(kernel, name=name), target)
        return Rendering(made.text, made.routines, Scratch(made.scratch_bytes, kernel.dims), made.threads)

    return _RENDERINGS.get(_key(kernel, name, target), make)


def scratch(kernel: Kernel, name: str, target: Target) -> Scratch:
    """Scratch bytes and threads of a kernel, whose text may not be needed."""

    def make() -> Scratch:
        return Scratch(family_of(target).scratch(replace(kernel, name=name), target), kernel.dims)

    return _SCRATCH.get(_key(kernel, name, target), make)


def _key(kernel: Kernel, name: str, target: Target) -> tuple[str, str, Target]:
    return name, kernel.note if family_of(target).has_notes else "", target
