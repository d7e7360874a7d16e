"""Python's ``len``, ``int`` and ``float`` of what is being traced.

Python demands a number of ``__len__`` and ``__int__``, so that an array cannot answer with a size that is a symbol. It
ends the trace (:func:`ask`), which is made again (:func:`answered`) with another ``len`` or ``int`` among the global
names of the code that asked: one that answers. The name is there for as long as somebody traces, and does as Python's
for everything else.

``len(x)`` is ``x.shape[0]``. What ``int(x)`` and ``float(x)`` are front ends say (:data:`ANSWERS`).
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import numpy as np

from dyn.trace.bytecode import callee
from dyn.trace.patched_names import Replacement, all_active

T = TypeVar("T")

#: The methods that ``len`` calls of the arrays that may have symbols for sizes.
METHODS: set[Any] = set()
#: What front ends answer to ``int(x)`` and ``float(x)``: NotImplemented where they have no answer.
ANSWERS: dict[str, list[Callable[[Any], Any]]] = {"int": [], "float": []}
#: The classes of numbers that answers are: instances of ``int`` and ``float`` to the code that has them.
NUMBERS: dict[str, list[type]] = {"int": [], "float": []}
#: What modules have in the place of a name, by the identities of their namespaces and the name.
_REPLACED: dict[tuple[int, str], Replacement[bool]] = {}
#: The names that modules have asked by while somebody else's function was traced. All traces answer them.
_ASKED: dict[tuple[int, str], Replacement[bool]] = {}


class _Answering(threading.local):
    """How many traces that can be made again this thread is in."""

    depth = 0


_ANSWERING = _Answering()


class _NameAsked(BaseException):
    """Ends a trace that is to be made again. No code of the user's is to catch it."""


def length(array: Any, /) -> Any:
    """``len(array)``, or the size itself where that is a symbol."""
    if getattr(type(array), "__len__", None) in METHODS and array.ndim:
        return array.shape[0]
    return builtins.len(array)


class _NumberType(type):
    """The class of what stands for ``int`` and ``float``, which are asked for classes too: ``isinstance(x, int)``."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        own = cls.__mro__[1]
        if len(args) == 1 and not kwargs and _ANSWERING.depth:
            for answer in ANSWERS[own.__name__]:
                found = answer(args[0])
                if found is not NotImplemented:
                    return found
        return own(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        own = cls.__mro__[1]
        return isinstance(instance, (own, *NUMBERS[own.__name__]))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.__mro__[1]

    def __hash__(cls) -> int:
        return hash(cls.__mro__[1])

    def __repr__(cls) -> str:
        return repr(cls.__mro__[1])


class _Int(int, metaclass=_NumberType):
    """Python's ``int``, which answers for what is being traced."""

    dtype = np.dtype(int)  # as NumPy takes Python's


class _Float(float, metaclass=_NumberType):
    """Python's ``float``, which answers for what is being traced."""

    dtype = np.dtype(float)


#: What is answered by, for each name.
_STAND_INS: dict[str, Any] = {"len": length, "int": _Int, "float": _Float}


def ask(frame: FrameType | None, name: str = "len") -> None:
    """End the trace, where the code in a frame calls the function of that name and can be answered when it is traced
    again; nothing else is done."""
    if not _ANSWERING.depth or frame is None:  # as of an array that its trace has left behind
        return
    if name not in frame.f_code.co_names or frame.f_builtins is not builtins.__dict__:
        return
    if name != "len" and callee(frame) is not getattr(builtins, name):
        return
    if not _is_pythons(frame.f_globals, name):
        return
    found = _replaced(frame.f_globals, name)
    if found.current is None:
        _ASKED[id(frame.f_globals), name] = found
        raise _NameAsked


def answered(trace: Callable[[], T], function: Any = None, modules: Iterable[ModuleType] = ()) -> T:
    """The result of ``trace``, which is made again for each module that asks. Answered from the start are lengths in
    ``modules``, and in that of ``function``, where it is given: the one that is traced."""
    known = [_replaced(vars(module), "len") for module in modules]
    own = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(own, FunctionType) and any("len" in code.co_names for code in _codes(own.__code__)):
        known += [_replaced(own.__globals__, "len")] if _is_pythons(own.__globals__, "len") else []
    while True:
        with all_active(dict.fromkeys([*known, *_ASKED.values()])):
            _ANSWERING.depth += 1
            try:
                return trace()
            except _NameAsked:
                continue
            finally:
                _ANSWERING.depth -= 1


class _Globals:
    """The global names of code as attributes: a module's, or those of ``exec``."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__ = names


def _replaced(names: dict[str, Any], name: str) -> Replacement[bool]:
    found = _REPLACED.get((id(names), name))
    if found is None:
        found = _REPLACED.setdefault((id(names), name), Replacement(_Globals(names), name, _STAND_INS[name]))
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _is_pythons(names: dict[str, Any], name: str) -> bool:
    """Whether ``name`` is Python's among global names."""
    own = _STAND_INS[name]
    return names.get(name, own) is own
