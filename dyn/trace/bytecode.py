"""The expression that runs in a frame, by its bytecode: a call, an operator or an index; and the function called.

A call of native code leaves no frame of its own. What runs is read from the bytecode, for which no source is needed.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import Any

from dyn.frozen import record

#: No function was found.
UNKNOWN_CALLEE: Any = object()
_LOADS = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_GLOBAL",
          "LOAD_NAME")  # fmt: skip
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
#: A function takes two places on the stack before its arguments: itself, and what it is a method of, or nothing.
_PLACES = 2


@record()
class RunningExpression:
    """An expression that runs in a frame.

    ``what`` is ``call``, or an operator: ``*``, ``%``, ``[]`` for an index. ``names`` lead to what is called:
    ``np.random.randn``; of a method of what was computed there is its name alone, which then is not ``rooted``.
    """

    what: str
    names: tuple[str, ...] = ()
    rooted: bool = True


def running(frame: FrameType) -> RunningExpression | None:
    """The expression that runs in a frame; None where it is nothing that is known here."""
    before = _instructions(frame)
    if not before:
        return None
    end = before[-1]
    if end.opname.startswith("CALL"):
        return _call(before)
    if end.opname == "BINARY_OP" and end.argrepr in ("*", "%", "[]"):
        return RunningExpression(end.argrepr)
    return RunningExpression("[]") if end.opname in ("BINARY_SUBSCR", "BINARY_SLICE") else None


def callee(frame: FrameType) -> Any:
    """The function that a frame calls at its present instruction, where names lead to it: ``f``, ``a.b.f``.

    UNKNOWN_CALLEE for what is computed on the way. Attributes that run code when they are read are not read.
    """
    found = running(frame)
    if found is None or not found.names or not found.rooted:
        return UNKNOWN_CALLEE
    first, *rest = found.names
    function = _variable(frame, first)
    for name in rest:
        function = UNKNOWN_CALLEE if function is UNKNOWN_CALLEE else _attribute(function, name)
    return function if callable(function) else UNKNOWN_CALLEE


def is_stored_back(frame: FrameType) -> bool:
    """Whether what the present instruction of a frame computes becomes an item of something: ``x[1:] += y``."""
    return _is_stored_back(frame.f_code, frame.f_lasti)


@lru_cache(maxsize=1024)
def _is_stored_back(code: CodeType, at: int) -> bool:
    later = (
        one.opname for one in dis.get_instructions(code) if one.offset > at and one.opname not in ("CACHE", "SWAP")
    )
    return next(later, "") in ("STORE_SUBSCR", "STORE_SLICE")


def _instructions(frame: FrameType) -> list[dis.Instruction]:
    """The instructions up to the one that runs. Of a call in two parts, the first of which may make it, both."""
    found: list[dis.Instruction] = []
    for one in dis.get_instructions(frame.f_code):
        if one.offset > frame.f_lasti and not (found and found[-1].opname == "PRECALL"):
            break
        if one.opname != "CACHE":
            found.append(one)
    return found


def _call(before: Sequence[dis.Instruction]) -> RunningExpression:
    """The call that is the last instruction."""
    last = len(before) - 1
    start, wanted = last, 1 - dis.stack_effect(before[last].opcode, before[last].arg)
    while wanted > 0 and start > 0:
        start -= 1
        one = before[start]
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs or one.is_jump_target:
            return RunningExpression("call")
        wanted -= dis.stack_effect(one.opcode, one.arg)
    if wanted:
        return RunningExpression("call")
    depth, function = 0, list[dis.Instruction]()
    taken = last - (before[last - 1].opname == "PRECALL")  # which takes the arguments
    for number in range(start, taken):
        one = before[number]
        depth += dis.stack_effect(one.opcode, one.arg)
        if depth <= _PLACES:
            function = list(before[start : number + 1])
    return _named([one for one in function if one.opname != "PUSH_NULL"])


def _named(function: Sequence[dis.Instruction]) -> RunningExpression:
    """The call of what some instructions load."""
    if not function:
        return RunningExpression("call")
    if function[0].opname in _LOADS and all(one.opname in _ATTRIBUTES for one in function[1:]):
        return RunningExpression("call", tuple([str(one.argval) for one in function]))
    last = function[-1]
    names = (str(last.argval),) if last.opname in _ATTRIBUTES else ()
    return RunningExpression("call", names, rooted=False)


def _variable(frame: FrameType, name: str) -> Any:
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if name in names:
            return names[name]
    return UNKNOWN_CALLEE


def _attribute(of: Any, name: str) -> Any:
    if isinstance(of, ModuleType):
        return vars(of).get(name, UNKNOWN_CALLEE)
    found = inspect.getattr_static(of, name, UNKNOWN_CALLEE)
    return UNKNOWN_CALLEE if isinstance(found, property) else found


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Code, and the code of the functions, classes and comprehensions that are written in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from nested_codes(one)
