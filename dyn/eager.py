"""Calls outside of a trace: the function is compiled for its arrays and run. A second such call finds the program."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from dyn.api import Jitted, jit
from dyn.array import OWN, from_numpy
from dyn.errors import DynError
from dyn.forking import lock
from dyn.hosts import host_of
from dyn.trace.lift import weak_dtype
from dyn.trace.pytree import TreeSpec, flatten, unflatten

#: So many programs are remembered, the latest used.
MOST_PROGRAMS = 1024


class _Programs:
    """Jitted functions by what they were made of."""

    def __init__(self) -> None:
        self._lock = lock()
        self._known: OrderedDict[Any, Jitted] = OrderedDict()

    def find(self, key: Any) -> Jitted | None:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def keep(self, key: Any, program: Jitted) -> None:
        with self._lock:
            self._known[key] = program
            if len(self._known) > MOST_PROGRAMS:
                self._known.popitem(last=False)


_PROGRAMS = _Programs()


def call_eagerly(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, numbers: bool = False
) -> Any:
    """``fn(*args, **kwargs)``, compiled: arrays become arguments, everything else is part of the program.

    The results are of the arrays' kind, ``dyn.Array`` where there are none. With ``numbers`` Python numbers are
    arguments too, so that another one needs no program of its own.
    """
    leaves, tree = flatten((args, kwargs))
    result = _result(fn, leaves, tree, numbers)
    return result if numbers or any(is_array(leaf) for leaf in leaves) else from_numpy(OWN, result)


def _result(fn: Callable[..., Any], leaves: list[Any], tree: TreeSpec, numbers: bool) -> Any:
    places = [
        place for place, leaf in enumerate(leaves) if is_array(leaf) or (numbers and weak_dtype(leaf) is not None)
    ]
    arrays = [leaves[place] for place in places]
    parts = list(leaves)
    for place in places:
        parts[place] = None
    try:
        key = (fn, tree, numbers, tuple([None if part is None else _part(part) for part in parts]))
        known = _PROGRAMS.find(key)
    except TypeError:  # a part without a hash
        return _program(fn, parts, places, tree)(*arrays)
    if known is not None:
        try:
            return known(*arrays)
        except DynError:
            # The error tells of the line that the program was first made for: let a new one tell of this line.
            return _program(fn, parts, places, tree)(*arrays)
    program = _program(fn, parts, places, tree)
    result = program(*arrays)
    _PROGRAMS.keep(key, program)
    return result


def _program(fn: Callable[..., Any], parts: list[Any], places: list[int], tree: TreeSpec) -> Jitted:
    # A program that is kept must not keep the arrays that it was made for: they are not among the parts.
    def program(*arrays: Any) -> Any:
        filled = list(parts)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        inner_args, inner_kwargs = unflatten(tree, filled)
        return fn(*inner_args, **inner_kwargs)

    program.__name__ = fn.__name__
    return jit(program)


def _part(leaf: Any) -> Any:
    """A leaf as part of a key: its type counts, the sign of a zero too, and a slice is its three parts."""
    if isinstance(leaf, slice):
        return (slice, _part(leaf.start), _part(leaf.stop), _part(leaf.step))
    if isinstance(leaf, float):
        return (type(leaf), leaf.hex())
    if isinstance(leaf, complex):
        return (type(leaf), leaf.real.hex(), leaf.imag.hex())
    hash(leaf)
    return (type(leaf), leaf)


def is_array(value: object) -> bool:
    """Whether a leaf is an array, rather than a number, a dtype or another part of the call."""
    if isinstance(value, np.ndarray | np.generic):
        return True
    return host_of(value) is not None
