"""``len(x)`` of an array whose first size is a symbol.

Python demands a number of ``__len__``, so that an array cannot answer with a size. It ends the trace (:func:`ask`),
which is made again (:func:`answered`) with another ``len`` in the module whose code asked: one that gives
``x.shape[0]``. The name is there for as long as somebody traces, and is as it was for all that are no such arrays.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

from dyn.trace.patched_names import Replacement, all_active

T = TypeVar("T")

#: The methods that ``len`` calls of the arrays that may have symbols for sizes.
METHODS: set[Any] = set()
#: What modules have in the place of ``len``, by the identities of their namespaces.
_REPLACED: dict[int, Replacement[bool]] = {}
#: The modules that have asked while somebody else's function was traced. All traces answer them.
_ASKED: dict[int, Replacement[bool]] = {}


class _Answering(threading.local):
    """How many traces that can be made again this thread is in."""

    depth = 0


_ANSWERING = _Answering()


class _LengthAsked(BaseException):
    """Ends a trace that is to be made again. No code of the user's is to catch it."""


def length(array: Any, /) -> Any:
    """``len(array)``, or the size itself where that is a symbol."""
    if getattr(type(array), "__len__", None) in METHODS and array.ndim:
        return array.shape[0]
    return builtins.len(array)


def ask(frame: FrameType | None) -> None:
    """End the trace, where code that calls ``len`` can be answered when it is traced again; nothing else is done."""
    if not _ANSWERING.depth or frame is None:  # as of an array that its trace has left behind
        return
    if "len" not in frame.f_code.co_names or frame.f_builtins is not builtins.__dict__:
        return
    module = _module_of(frame.f_globals)
    if module is None:
        return
    found = _replaced(module)
    if found.current is None:
        _ASKED[id(frame.f_globals)] = found
        raise _LengthAsked


def answered(trace: Callable[[], T], function: Any = None, modules: Iterable[ModuleType] = ()) -> T:
    """The result of ``trace``, which is made again for each module that asks for a length. Answered from the start are
    ``modules``, and that of ``function``, where it is given: the one that is traced."""
    known = [_replaced(module) for module in modules]
    own = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(own, FunctionType) and any("len" in code.co_names for code in _codes(own.__code__)):
        module = _module_of(own.__globals__)
        known += [] if module is None else [_replaced(module)]
    while True:
        with all_active(dict.fromkeys([*known, *_ASKED.values()])):
            _ANSWERING.depth += 1
            try:
                return trace()
            except _LengthAsked:
                continue
            finally:
                _ANSWERING.depth -= 1


def _replaced(module: ModuleType) -> Replacement[bool]:
    return _REPLACED.setdefault(id(vars(module)), Replacement(module, "len", length))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _module_of(names: dict[str, Any]) -> ModuleType | None:
    """The module with these names, where ``len`` is Python's in it."""
    module = sys.modules.get(names.get("__name__", ""))
    if module is None or vars(module) is not names or names.get("len", length) is not length:
        return None
    return module
