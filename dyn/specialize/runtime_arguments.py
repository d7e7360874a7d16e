"""Run-time arguments among those of dyn's own functions: arrays, sizes, and Python numbers.

The annotations of a function say which. Everything else is static: a part of the key of the program.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from dyn.hosts import host_of
from dyn.trace.literals import is_literal
from dyn.trace.pytree import flatten


def is_array(value: object) -> bool:
    """Whether a leaf is an array, rather than a number, a dtype or another part of the call."""
    if isinstance(value, np.ndarray | np.generic):
        return True
    return host_of(value) is not None


class CarriedSize:
    """A size among the arguments, which is a dim of the program: others need no other code."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def carrier(self) -> np.ndarray[Any, Any]:
        """An array without elements that has the size."""
        return np.empty((self.value, 0), np.uint8)


class CarriedNumber:
    """A Python number that is an argument of the program; an integer that fits lies between ``limits``."""

    __slots__ = ("limits", "value")

    def __init__(self, value: Any, limits: tuple[int, int] | None) -> None:
        self.value, self.limits = value, limits


def as_runtime_argument(size: Any) -> CarriedSize | None:
    """A size as an argument for :func:`call_traced`; None for a literal, and for what no array could have."""
    return CarriedSize(size) if type(size) is int and size >= 0 and not is_literal(size) else None


class _ParameterRole(Enum):
    """Role of a parameter of a function of dyn's, as its annotation says."""

    #: ``Size``: for all sizes there is one program.
    SIZE = "size"
    #: ``Shape``: one size or several, for all of which there is one program.
    SHAPE = "shape"
    #: ``ArrayLike``: a Python number may be an argument of the program.
    ARRAY = "array"
    #: Anything else: it decides what the program is.
    FIXED = "fixed"


@dataclass(frozen=True)
class _Roles:
    """The roles of a function's parameters."""

    positional: tuple[_ParameterRole, ...]
    more: _ParameterRole
    named: dict[str, _ParameterRole]

    def of(self, place: int | str) -> _ParameterRole:
        if isinstance(place, str):
            return self.named.get(place, _ParameterRole.FIXED)
        return self.positional[place] if place < len(self.positional) else self.more


#: The names in annotations, the first that is there counts.
_WORDS = (("Shape", _ParameterRole.SHAPE), ("Size", _ParameterRole.SIZE), ("ArrayLike", _ParameterRole.ARRAY))


@functools.cache
def _roles(fn: Callable[..., Any]) -> _Roles:
    positional: list[_ParameterRole] = []
    named: dict[str, _ParameterRole] = {}
    more = _ParameterRole.FIXED
    for parameter in inspect.signature(fn).parameters.values():
        words = set(re.findall(r"\w+", str(parameter.annotation)))
        role = next((role for word, role in _WORDS if word in words), _ParameterRole.FIXED)
        named[parameter.name] = role
        if parameter.kind is parameter.VAR_POSITIONAL:
            more = role
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(role)
    return _Roles(tuple(positional), more, named)


#: The wrappers of what is carried.
CARRIED = (CarriedSize, CarriedNumber)


def with_carried(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, literals: bool
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The call with the sizes and numbers that are arguments of its program in wrappers; None where there are none.

    With ``literals`` numbers that are written in the user's code are none of them.
    """
    roles = _roles(fn)
    changed: dict[int | str, Any] = {}
    given = (*enumerate(args), *kwargs.items())
    for place, value in given:
        role = roles.of(place)
        if role is _ParameterRole.SHAPE and isinstance(value, tuple | list):
            sizes = _carried_sizes(value)
            if sizes is not None:
                changed[place] = sizes
        elif role in (_ParameterRole.SIZE, _ParameterRole.SHAPE):
            if _is_size(value):
                changed[place] = CarriedSize(int(value))
        elif role is _ParameterRole.ARRAY and type(value) in (int, float, complex):
            if literals and is_literal(value, of_user=True):
                continue
            limits = _limits([met for at, met in given if roles.of(at) is role]) if type(value) is int else None
            if type(value) is not int or (limits is not None and limits[0] <= value <= limits[1]):
                changed[place] = CarriedNumber(value, limits)
    if not changed:
        return None
    new = tuple([changed.get(place, value) for place, value in enumerate(args)])
    return new, {name: changed.get(name, value) for name, value in kwargs.items()}


def _is_size(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < 2**63


def _carried_sizes(sizes: tuple[Any, ...] | list[Any]) -> Any:
    """A shape with its sizes in wrappers, but for what is below 0; None where something in it is no integer."""
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in sizes):
        return None
    wrapped = [CarriedSize(int(n)) if _is_size(n) else int(n) for n in sizes]
    return wrapped if type(sizes) is list else tuple(wrapped)


def _limits(met: Sequence[Any]) -> tuple[int, int] | None:
    """The least and the greatest integer that fits where it meets such arrays; None where that is left to the trace."""
    arrays = [leaf for leaf in flatten(list(met))[0] if is_array(leaf)]
    if not all(isinstance(getattr(array, "dtype", None), np.dtype) for array in arrays):
        return None
    limits = [np.iinfo(array.dtype) for array in arrays if array.dtype.kind in "iu"]
    return max([limit.min for limit in limits], default=-(2**63)), min([2**63 - 1, *(limit.max for limit in limits)])
