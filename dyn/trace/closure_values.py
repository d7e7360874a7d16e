"""Values that a function of the user's has beside its arguments: in its closure, its defaults, as its ``self``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CellType, FunctionType, MethodType
from typing import Any

#: So many functions are looked at, those that a function closes over and those in them.
_MOST_FUNCTIONS = 64


def closure_values(function: Callable[..., Any]) -> Iterator[Any]:
    """The values that a function closes over, and functions in its closure do: cells, defaults, parts of ``partial``
    objects, the objects of bound methods, floats among the globals that are named. dyn's own functions give none: its
    front ends know what theirs read."""
    if str(getattr(function, "__module__", "")).partition(".")[0] == "dyn":
        return
    functions: list[Any] = [function]
    seen: set[int] = set()
    while functions and len(seen) < _MOST_FUNCTIONS:
        one = functions.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for value in list(_held(one)):
            if isinstance(value, FunctionType | MethodType | functools.partial) or _wrapped(value) is not None:
                functions.append(value)
            else:
                yield value


def _held(function: Any) -> Iterator[Any]:
    if isinstance(function, functools.partial):
        yield function.func
        yield from function.args
        yield from function.keywords.values()
    elif isinstance(function, MethodType):
        yield function.__func__
        yield function.__self__
    elif isinstance(function, FunctionType):
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()
        names = function.__globals__
        yield from [value for name in function.__code__.co_names if type(value := names.get(name)) is float]
        for cell in function.__closure__ or ():
            yield _content(cell)
    elif _wrapped(function) is None:  # an object that is called
        yield function
    if (inner := _wrapped(function)) is not None:
        yield inner


def _wrapped(function: Any) -> Any:
    """The function that another wraps: a derivative, a function with a rule, what ``functools.wraps`` has made."""
    return getattr(function, "__dict__", {}).get("__wrapped__")


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is not set yet
        return None
