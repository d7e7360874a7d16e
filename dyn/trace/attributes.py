"""Attributes of plain Python objects that a traced function reads: its static ``self``, and what it closes over.

A program has the values in it that these attributes had, and the arrays among them as captured ones. While a function
is traced its reads are recorded, so that calls look at these attributes again, and at no others: one that has another
value by then is traced anew. What the function sets itself, while it is traced, is no condition.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from dyn.fork_safety import lock
from dyn.trace.closure_values import closure_values
from dyn.trace.held import ABSENT, Held, HeldBuffer, HeldDict, HeldList
from dyn.trace.patched_names import Replacement
from dyn.trace.static_keys import Static

_HEAP = 1 << 9
_LOCK = lock()
#: The classes whose attributes are being recorded, each with what does so and for how many traces.
_READERS: dict[type, tuple[Replacement[AttributeReads], int]] = {}


@lru_cache(maxsize=1024)
def is_plain(kind: type) -> bool:
    """Return True if objects of a class have their state in attributes by name, which are read as all objects' are, and
    no hash by it: classes that Python code declares without ``__slots__`` and ``__getattribute__``, dataclasses that
    can be changed among them."""
    layers = [one for one in kind.__mro__ if one is not object]
    is_python = all(one.__flags__ & _HEAP and not vars(one).get("__slots__") for one in layers)
    reads = next((vars(one)["__getattribute__"] for one in layers if "__getattribute__" in vars(one)), None)
    return (
        bool(layers)
        and is_python
        and kind.__hash__ in (object.__hash__, None)
        and (reads is None or isinstance(reads, _Reader))
        and not issubclass(kind, Enum | BaseException | type)
        and kind.__module__.partition(".")[0] not in ("dyn", "threading", "logging")
    )


def objects_read(function: Callable[..., Any], static: Iterable[Static]) -> list[Any]:
    """The objects whose attributes are conditions of a function's program: static arguments, and its closure's."""
    return [*[one.value for one in static], *closure_values(function)]


@dataclass(eq=False)
class _Watched:
    """An object, the dict of its attributes, what that had before, and the names that were read."""

    owner: Any
    names: dict[str, Any]
    before: dict[str, Any]
    read: set[str] = field(default_factory=set[str])


class AttributeReads:
    """Reads of the attributes of some objects, and of plain objects, dicts and lists that are attributes there.

    ``outer`` are those of a trace around, in which the function is called.
    """

    def __init__(self, objects: Iterable[Any], outer: AttributeReads | None = None) -> None:
        self._outer = outer
        self._objects = [one for one in objects if is_plain(type(one))]
        self._watched: dict[int, _Watched] = {}
        self._containers: dict[int, tuple[Any, Any, str]] = {}
        self._adopted: list[Held] = []
        self._open: contextlib.ExitStack | None = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record the reads of this thread."""
        with contextlib.ExitStack() as stack:
            self._open = stack
            for one in self._objects:
                self._watch(one)
            try:
                yield
            finally:
                self._open = None

    def adopt(self, held: Iterable[Held]) -> None:
        """Take over the conditions of a program that is called."""
        self._adopted += held

    def note_elements(self, array: Any) -> None:
        """Note that elements of an array of dyn's are read, which another one may have at the next call."""
        if self._outer is not None:
            self._outer.note_elements(array)
        if not any(isinstance(one, HeldBuffer) and one.array is array for one in self._adopted):
            self._adopted.append(HeldBuffer(array))

    def held(self) -> tuple[Held, ...]:
        """Conditions for what was read to be as it was."""
        found: list[Held] = []
        for one in self._watched.values():
            names = [n for n in sorted(one.read) if one.names.get(n, ABSENT) is one.before.get(n, ABSENT)]
            if names:
                entries = tuple([(name, one.before.get(name, ABSENT)) for name in names])
                found.append(HeldDict(one.names, entries, whole=False, title=f"{type(one.owner).__name__}."))
        for container, before, title in self._containers.values():
            if type(container) is list:
                found.append(HeldList(container, before, title))
            else:
                found.append(HeldDict(container, tuple(before.items()), whole=True, title=f"{title}."))
        unchanged = [one for one in found if one.is_current()]
        return (*unchanged, *self._adopted)

    def note(self, owner: Any, name: str, value: Any) -> None:
        """Note that an attribute is read, which has a value; ABSENT where there is none."""
        if self._outer is not None:
            self._outer.note(owner, name, value)
        watched = self._watched.get(id(owner))
        if watched is None or name in watched.read or (name.startswith("__") and name.endswith("__")):
            return
        own = watched.names.get(name, ABSENT)
        if own is not watched.before.get(name, ABSENT):
            return  # it is the function's own
        watched.read.add(name)
        if own is not ABSENT:
            self._reach(value, f"{type(owner).__name__}.{name}")

    def _reach(self, value: Any, title: str) -> None:
        """Watch what an attribute is, where that may change: a plain object, a dict by names, or a list."""
        kind = type(value)
        if is_plain(kind):
            self._watch(value)
        elif id(value) not in self._containers and (
            kind is list or (kind is dict and all(type(key) is str for key in value))
        ):
            before: Any = tuple(value) if kind is list else dict(value)
            self._containers[id(value)] = (value, before, title)
            for item in before if kind is list else before.values():
                self._reach(item, f"{title}[...]")
        elif kind is tuple:
            for item in value:
                self._reach(item, f"{title}[...]")

    def _watch(self, owner: Any) -> None:
        if id(owner) in self._watched or self._open is None:
            return
        names: dict[str, Any] = object.__getattribute__(owner, "__dict__")
        self._watched[id(owner)] = _Watched(owner, names, dict(names))
        self._open.enter_context(_recorded(type(owner), self))


class _Reader:
    """``__getattribute__`` of a class while reads of its objects are recorded."""

    def __init__(self, kind: type) -> None:
        self.replacement: Replacement[AttributeReads] = Replacement(kind, "__getattribute__", self)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, owner: Any, name: str) -> Any:
        recorder = self.replacement.current
        try:
            value = object.__getattribute__(owner, name)
        except AttributeError:
            if recorder is not None:
                recorder.note(owner, name, ABSENT)
            raise
        if recorder is not None:
            recorder.note(owner, name, value)
        return value


@contextlib.contextmanager
def _recorded(kind: type, recorder: AttributeReads) -> Iterator[None]:
    """Have a recorder be told of this thread's reads of a class's objects."""
    with _LOCK:
        replacement, count = _READERS.get(kind) or (_Reader(kind).replacement, 0)
        _READERS[kind] = replacement, count + 1
    try:
        with replacement.active(recorder):
            yield
    finally:
        with _LOCK:
            replacement, count = _READERS.pop(kind)
            if count > 1:
                _READERS[kind] = replacement, count - 1
