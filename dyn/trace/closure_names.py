"""Names of what a function closes over: ``weights``, ``self.layers[0].w``, by which errors call captured arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import islice
from types import FunctionType, MethodType, ModuleType
from typing import Any

from dyn.trace.attributes import is_plain
from dyn.trace.bytecode import nested_codes

#: Objects are not looked for deeper than that, nor among more, nor further in a container.
_DEEPEST, _MOST, _MOST_ITEMS = 6, 20_000, 1_000


def closure_names(function: Callable[..., Any] | None) -> dict[int, str]:
    """The expressions by which a function's code comes to the objects that it closes over, by their identities.

    Looked at are variables, and attributes of plain objects, dicts, lists and tuples; no code of the user's runs. dyn's
    own functions have none, for nobody wrote their names.
    """
    found: dict[int, str] = {}
    if str(getattr(function, "__module__", "")).partition(".")[0] == "dyn":
        return found
    level = list(variables(function))
    for _ in range(_DEEPEST):
        further: list[tuple[str, Any]] = []
        for name, value in level:
            if id(value) not in found:
                found[id(value)] = name
                with contextlib.suppress(RuntimeError):  # a thread, or a destructor, has changed a dict meanwhile
                    further += _parts(name, value)
            if len(found) > _MOST:
                return found
        level = further
    return found


def variables(function: Any) -> Iterator[tuple[str, Any]]:
    """The variables around a function, with their names; ``self`` of a method first."""
    if isinstance(function, MethodType):
        yield "self", function.__self__
        function = function.__func__
    if not isinstance(function, FunctionType):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    names = {name for code in nested_codes(function.__code__) for name in code.co_names}
    known = function.__globals__
    yield from [(name, known[name]) for name in sorted(names) if name in known]


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """The attributes or items of an object, with their names."""
    if isinstance(value, MethodType | FunctionType):
        return [(part if part != "self" else name.rpartition(".")[0] or name, own) for part, own in variables(value)]
    if type(value) is dict:
        items = list(islice(value.items(), _MOST_ITEMS))
        return [(f"{name}[{key!r}]", part) for key, part in items if type(key) in (str, int)]
    if type(value) in (list, tuple):
        return [(f"{name}[{number}]", part) for number, part in enumerate(value[:_MOST_ITEMS])]
    if isinstance(value, ModuleType) or not is_plain(type(value)):
        return []
    return [(f"{name}.{key}", part) for key, part in list(getattr(value, "__dict__", {}).items())]
