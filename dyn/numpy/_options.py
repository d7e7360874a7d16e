"""Checks of options: what is said in Python numbers and names, and is known while tracing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dyn.errors import ArgumentError, InvalidValueError
from dyn.source import user_loc


def whole_number(what: str, name: str, value: Any, least: int | None = None) -> int:
    """An option that is an integer.

    Raises:
        ArgumentError: if it is none.
        InvalidValueError: if it is less than ``least``.
    """
    if not hasattr(type(value), "__index__"):
        raise ArgumentError(
            f"{what}: {name} is an int, not the {type(value).__name__} {value!r}.",
            loc=user_loc(),
            remedy="pass an int.",
        )
    number = int(value)
    if least is not None and number < least:
        raise InvalidValueError(f"{what}: {name} is {number}.", loc=user_loc(), remedy=f"use {least} or more.")
    return number


def one_of(what: str, name: str, value: Any, choices: Iterable[str]) -> None:
    """Check a name that is one of several; InvalidValueError where it is not."""
    names = list(choices)
    if value not in names:
        raise no_choice(what, name, value, names)


def no_choice(what: str, name: str, value: Any, choices: Sequence[str]) -> InvalidValueError:
    """The error for a name that is none of several."""
    *most, last = map(repr, choices)
    return InvalidValueError(
        f"{what}: {value!r} is no {name}.", loc=user_loc(), remedy=f"use {', '.join(most)} or {last}."
    )


def numbers_in(value: Any) -> list[float]:
    """The numbers of a Python number, or of lists of such; none where an array or a dimension is among them.

    What an array has in it is not known while tracing.
    """
    if isinstance(value, int | float):
        return [float(value)]
    if not isinstance(value, list | tuple):
        return []
    parts = [numbers_in(part) for part in value]
    return [number for part in parts for number in part] if all(parts) else []


def check_numbers(what: str, name: str, value: Any, accepted: Callable[[float], bool], remedy: str) -> None:
    """Check each number that is known while tracing; InvalidValueError for the first that is not accepted."""
    for number in numbers_in(value):
        if not accepted(number):
            raise InvalidValueError(f"{what}: {name} is {number:g}.", loc=user_loc(), remedy=remedy)


def check_rising(what: str, name: str, value: Any, *, either: bool = False) -> None:
    """Check that numbers in a list are in order, or with ``either`` in the opposite one; equal ones may follow."""
    numbers = numbers_in(value) if isinstance(value, list | tuple) else []
    pairs = list(itertools.pairwise(numbers))
    rising, falling = all(a <= b for a, b in pairs), all(a >= b for a, b in pairs)
    if not rising and not (either and falling):
        problem = "which is in no order" if either else "which does not rise"
        raise InvalidValueError(f"{what}: {name} is {value!r}, {problem}.", loc=user_loc(), remedy="sort it.")
