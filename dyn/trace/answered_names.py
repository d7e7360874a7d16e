"""Python's ``len``, ``int``, ``float``, ``set``, ``type`` and ``isinstance`` of what is being traced.

Python demands a number of ``__len__`` and ``__int__``, so that an array cannot answer with a size that is a symbol. It
ends the trace (:func:`ask`), which is made again (:func:`answered`) with another ``len`` or ``int`` among the global
names of the code that asked: one that answers. The name is there for as long as somebody traces, and does as Python's
for everything else.

``len(x)`` is ``x.shape[0]``. What the others are front ends say (:data:`ANSWERS`).
Nothing of an object's is called by ``type(x) is int``: of types is asked where code that compares them has raised
(:func:`ask_of_types`).
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from dyn.trace.bytecode import callee, nested_codes
from dyn.trace.patched_names import Replacement, all_active

T = TypeVar("T")

#: The methods that ``len`` calls of the arrays that may have symbols for sizes.
METHODS: set[Any] = set()
#: What front ends answer to ``int(x)``, ``float(x)``, ``type(x)``, and to ``set(x)`` of a list: NotImplemented where
#: they have no answer.
ANSWERS: dict[str, list[Callable[[Any], Any]]] = {"int": [], "float": [], "set": [], "type": []}
#: The classes of numbers that answers are: instances of ``int`` and ``float`` to the code that has them.
NUMBERS: dict[str, list[type]] = {"int": [], "float": [], "set": [], "type": []}
#: What namespaces have in the place of a name, by their identities and the name, as long as somebody traces.
_REPLACED: WeakValueDictionary[tuple[int, str], Replacement[bool]] = WeakValueDictionary()
#: The names that modules have asked by while somebody else's function was traced. All traces answer them.
_ASKED: dict[tuple[int, str], Replacement[bool]] = {}


class _Answering(threading.local):
    """The depth to which this thread is in traces that can be made again."""

    depth = 0


_ANSWERING = _Answering()


class _NameAsked(BaseException):
    """Ends a trace that is to be made again. No code of the user's is to catch it."""

    def __init__(self, by: Replacement[bool]) -> None:
        super().__init__()
        self.by = by


def length(array: Any, /) -> Any:
    """``len(array)``, or the size itself where that is a symbol."""
    if getattr(type(array), "__len__", None) in METHODS and array.ndim:
        return array.shape[0]
    return builtins.len(array)


def is_instance(instance: Any, classes: Any, /) -> bool:
    """``isinstance(instance, classes)``, of the type that is answered for an instance too."""
    if builtins.isinstance(instance, classes):
        return True
    found = _answer("type", instance)
    return found is not NotImplemented and issubclass(found, classes)


def _answer(name: str, value: Any) -> Any:
    """The answer of a front end to a name called with a value; NotImplemented without one."""
    for answer in ANSWERS[name] if _ANSWERING.depth else ():
        found = answer(value)
        if found is not NotImplemented:
            return found
    return NotImplemented


class _NumberType(type):
    """The class of what stands for Python's classes, which are asked for as classes too: ``isinstance(x, int)``.

    Classes that a user derives from them meanwhile are like any others.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        own = _stood_for(cls)
        if own is None:
            return super().__call__(*args, **kwargs)
        if own is set and len(args) == 1 and not kwargs and _ANSWERING.depth:
            args = (list(args[0]),)  # what gives its elements once
        if len(args) == 1 and not kwargs and (found := _answer(own.__name__, args[0])) is not NotImplemented:
            return found
        return own(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        own = _stood_for(cls)
        if own is None:
            return super().__instancecheck__(instance)
        return isinstance(instance, (own, *NUMBERS[own.__name__]))

    def __subclasscheck__(cls, subclass: type) -> bool:
        own = _stood_for(cls)
        return super().__subclasscheck__(subclass) if own is None else issubclass(subclass, own)

    def __eq__(cls, other: object) -> bool:
        return other is cls or (other is not None and other is _stood_for(cls))

    def __hash__(cls) -> int:
        return super().__hash__() if (own := _stood_for(cls)) is None else hash(own)

    def __repr__(cls) -> str:
        return super().__repr__() if (own := _stood_for(cls)) is None else repr(own)


def is_stand_in(frame: FrameType) -> bool:
    """Return True if a frame is that of a call of what stands for one of Python's classes."""
    return frame.f_code is _NumberType.__call__.__code__


def _stood_for(cls: type) -> type | None:
    """Python's class that another one stands for; None for one that does not."""
    return vars(cls).get("stands_for")


class _Int(int, metaclass=_NumberType):
    """Python's ``int``, which answers for what is being traced."""

    stands_for = int
    dtype = np.dtype(int)  # as NumPy takes Python's


class _Float(float, metaclass=_NumberType):
    """Python's ``float``, which answers for what is being traced."""

    stands_for = float
    dtype = np.dtype(float)


class _Set(set[Any], metaclass=_NumberType):
    """Python's ``set``, which answers for what is being traced."""

    stands_for = set


class _Type(type, metaclass=_NumberType):
    """Python's ``type``, which answers for what is being traced."""

    stands_for = type


for _class in (_Int, _Float, _Set, _Type):
    _class.__name__ = _class.__qualname__ = _class.stands_for.__name__
    _class.__module__ = "builtins"
#: Who has kept one pickles Python's.
copyreg.pickle(_NumberType, lambda cls: (_pythons, (cls.__name__,)))


def _pythons(name: str) -> type:
    """Python's class of a name."""
    return getattr(builtins, name)


#: What is answered by, for each name.
_STAND_INS: dict[str, Any] = {
    "len": length, "int": _Int, "float": _Float, "set": _Set, "type": _Type, "isinstance": is_instance,
}  # fmt: skip


def ask(frame: FrameType | None, name: str = "len") -> None:
    """End the trace, where the code in a frame calls the function of that name and can be answered when it is traced
    again; nothing else is done."""
    if not _ANSWERING.depth or frame is None:  # as of an array that its trace has left behind
        return
    if name != "len" and name in frame.f_code.co_names and callee(frame) is not getattr(builtins, name):
        return
    _ask(frame, name)


def ask_of_types(error: BaseException) -> None:
    """End the trace, where ``error`` is one that code raised which asks whether something is an ``int``, and can be
    answered when it is traced again; nothing else is done."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None or not _ANSWERING.depth:
        return
    frame = step.tb_frame
    if "int" in frame.f_code.co_names and _raises(frame.f_code, step.tb_lasti):
        for name in ("type", "isinstance"):
            _ask(frame, name)


def _raises(code: CodeType, at: int) -> bool:
    """Return True if an instruction is a ``raise`` or an ``assert``."""
    return at >= 0 and dis.opname[code.co_code[at]] == "RAISE_VARARGS"


def _ask(frame: FrameType, name: str) -> None:
    if name not in frame.f_code.co_names or frame.f_builtins is not builtins.__dict__:
        return
    if not _is_pythons(frame.f_globals, name):
        return
    if isinstance(_STAND_INS[name], type) and not _only_called(frame.f_globals, name):
        return
    found = _replaced(frame.f_globals, name)
    if found.current is None:
        module = sys.modules.get(frame.f_globals.get("__name__", ""))
        if module is not None and vars(module) is frame.f_globals:
            _ASKED[id(frame.f_globals), name] = found
        raise _NameAsked(found)


def _only_called(names: dict[str, Any], name: str) -> bool:
    """Whether code with these global names does nothing with a class but call it, and ask of it what the class of what
    stands for it answers: neither ``type(x) is int`` nor classes that are derived from it."""
    for code in [code for value in list(names.values()) for code in _codes_of(value, names)]:
        steps = list(dis.get_instructions(code)) if name in code.co_names else []
        if any(one.argval == name and not _is_load_for_call(one) for one in steps) and any(
            one.opname == "LOAD_BUILD_CLASS" or (one.opname == "IS_OP" and before.opname != "LOAD_CONST")
            for before, one in itertools.pairwise(steps)
        ):
            return False
    return True


def _is_load_for_call(step: dis.Instruction) -> bool:
    """Return True if an instruction loads a global name that is called: with the place on the stack that calls have."""
    return step.opname == "LOAD_GLOBAL" and step.arg is not None and bool(step.arg & 1)


def _codes_of(value: Any, names: dict[str, Any]) -> Iterator[CodeType]:
    """The code of a function, or of the methods of a class, whose global names these are, and of what is in it."""
    for one in list(vars(value).values()) if isinstance(value, type) else [value]:
        function = getattr(one, "__func__", one)
        if isinstance(function, FunctionType) and function.__globals__ is names:
            yield from nested_codes(function.__code__)


def answered(trace: Callable[[], T], function: Any = None, modules: Iterable[ModuleType] = ()) -> T:
    """The result of ``trace``, which is made again for each module that asks. Answered from the start are lengths in
    ``modules``, and in that of ``function``, where it is given: the one that is traced."""
    known = [_replaced(vars(module), "len") for module in modules]
    own = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(own, FunctionType) and any("len" in code.co_names for code in nested_codes(own.__code__)):
        known += [_replaced(own.__globals__, "len")] if _is_pythons(own.__globals__, "len") else []
    asked: list[Replacement[bool]] = []
    while True:
        with all_active(dict.fromkeys([*known, *_ASKED.values(), *asked])):
            _ANSWERING.depth += 1
            try:
                return trace()
            except _NameAsked as name:
                asked.append(name.by)
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


def _is_pythons(names: dict[str, Any], name: str) -> bool:
    """Whether ``name`` is Python's among global names."""
    own = _STAND_INS[name]
    return names.get(name, own) is own
