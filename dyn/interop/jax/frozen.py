"""Programs that close over arguments (``freeze_argnums``): one for each set of arrays, as long as these are there.

JAX's arrays do not change, so that one is known by its identity. A program holds arrays of the same memory, and not the
caller's: who lets go of parameters lets go of their panels.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dyn.fork_safety import lock
from dyn.frontend.compiled_function import CacheInfo
from dyn.interop.jax.internals import Internals

#: So many sets of arrays have programs at once. With others, a program takes them as arguments.
MOST_SETS = 4
#: So many programs in a row that made one call each say that arrays are new at each call: from then on those have a
#: program that two calls in a row come with.
MOST_UNUSED = 3

#: The places of arrays among the arguments, and the arrays' numbers.
_Key = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(eq=False, slots=True)
class _CallCount:
    """The number of calls that a function has made, which outlives it."""

    count: int = 0


class Closure:
    """A compiled function that closes over some arguments, and the places of those that it is passed."""

    def __init__(self, function: Any, passed: tuple[int, ...], arrays: Iterable[weakref.ref[Any]]) -> None:
        self.function, self.passed = function, passed
        self._arrays = tuple(arrays)
        self.calls = _CallCount()

    def is_of(self, arrays: Sequence[Any]) -> bool:
        """Return True if these are the arrays that it closes over."""
        return all(known() is one for known, one in zip(self._arrays, arrays, strict=True))


class FrozenArguments:
    """The programs of one function that close over arguments at some places. ``make`` gives a compiled function that
    closes over arrays, by their places."""

    def __init__(self, parts: Internals, places: Sequence[int], make: Callable[[Mapping[int, Any]], Any]) -> None:
        self._parts, self._places, self._make = parts, tuple(places), make
        self._lock = lock()
        self._known: dict[_Key, Closure] = {}
        #: Counts of those that are gone, and how many programs were compiled for each choice of what is passed.
        self._past = CacheInfo()
        self._past_compiles: dict[tuple[int, ...], int] = {}
        #: The calls of the latest one, and the arrays of the latest call that had none.
        self._latest: _CallCount | None = None
        self._refused: _Key | None = None
        self._unused = 0

    @property
    def function(self) -> Any:
        """One of the compiled functions, which are the same but for the arrays; None where there is none."""
        return next((one.function for one in tuple(self._known.values())), None)

    def counts_beside(self) -> CacheInfo:
        """Counts of all others, and of those that are gone. Those that are passed the same are one program, which is
        compiled once."""
        known, found, compiles = tuple(self._known.values()), self._past, dict(self._past_compiles)
        for number, one in enumerate(known):
            info = one.function.cache_info()
            compiles[one.passed] = max(compiles.get(one.passed, 0), info.compiles)
            found += info._replace(guards=0) if number else CacheInfo()
        own = known[0].function.cache_info().compiles if known else 0
        return found._replace(compiles=sum(compiles.values()) - own)

    def get(self, arguments: Sequence[Any]) -> Closure | None:
        """The one for the arguments of a call; None where a program is to take them all."""
        plain = self._parts.array
        places = [at for at in self._places if type(arguments[at]) is plain]
        arrays = [arguments[at] for at in places]
        if not arrays or any(one.is_deleted() for one in arrays):
            return None
        key = tuple(places), tuple(map(id, arrays))
        found = self._known.get(key)
        if found is None or not found.is_of(arrays):
            found = self._new(key, places, arrays, len(arguments))
        if found is not None:
            found.calls.count += 1
        return found

    def _new(self, key: _Key, places: Sequence[int], arrays: Sequence[Any], count: int) -> Closure | None:
        with self._lock:
            found = self._known.get(key)
            if found is not None and found.is_of(arrays):
                return found
            latest = self._latest
            if latest is not None:
                self._unused, self._latest = self._unused + 1 if latest.count < 2 else 0, None
            is_new_each_time = self._unused >= MOST_UNUSED and key != self._refused
            if len(self._known) >= MOST_SETS or is_new_each_time or not all(map(_lies_here, arrays)):
                self._refused = key
                return None
            made = self._known[key] = self._closure(key, places, arrays, count)
            self._latest = made.calls
            return made

    def _closure(self, key: _Key, places: Sequence[int], arrays: Sequence[Any], count: int) -> Closure:
        known = weakref.ref(self)

        def gone(array: Any) -> None:
            found = known()
            closure = None if found is None else found._known.pop(key, None)
            if found is not None and closure is not None:
                found._forget(closure)

        own = dict(zip(places, map(_alias_of, arrays), strict=True))
        function = self._make(own)
        passed = tuple([at for at in range(count) if at not in own])
        return Closure(function, passed, [weakref.ref(one, gone) for one in arrays])

    def _forget(self, closure: Closure) -> None:
        """Keep the counts of one that is gone."""
        info, passed = closure.function.cache_info(), closure.passed
        self._past += info._replace(guards=0)
        self._past_compiles[passed] = max(self._past_compiles.get(passed, 0), info.compiles)

    def notes(self) -> Sequence[str]:
        """Lines of ``explain`` about them."""
        sets, lines = len(self._known), list[str]()
        if sets > 1:
            lines.append(f"{sets} sets of frozen arguments have programs like this one, each with panels of its own")
        if self._unused >= MOST_UNUSED:
            lines.append(f"frozen arguments that were new at each of {MOST_UNUSED} calls are passed")
        return lines


#: The array of the same memory that programs hold in the place of each array that they close over, by its number.
_ALIASES: dict[int, tuple[weakref.ref[Any], Any]] = {}


def _alias_of(array: Any) -> Any:
    number = id(array)
    known = _ALIASES.get(number)
    if known is not None and known[0]() is array:
        return known[1]
    alias = array.addressable_data(0)
    if alias is not array:
        _ALIASES[number] = weakref.ref(array, lambda _: _ALIASES.pop(number, None)), alias
    return alias


def _lies_here(array: Any) -> bool:
    """Whether an array is one of this machine's memory, in one piece."""
    devices = array.devices()
    return len(devices) == 1 and next(iter(devices)).platform == "cpu"
