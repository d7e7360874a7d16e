"""What a frame is calling: the function that a call of native code goes to leaves no frame of its own."""

from __future__ import annotations

import dis
import inspect
from types import FrameType, ModuleType
from typing import Any

#: No function was found.
UNKNOWN_CALLEE: Any = object()
_LOADS = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_GLOBAL", "LOAD_NAME")


def callee(frame: FrameType) -> Any:
    """The function that a frame calls at its present instruction, where a name leads to it: ``f``, ``a.b.f``.

    UNKNOWN_CALLEE for what is computed on the way. Attributes that run code when they are read are not read.
    """
    before = [i for i in dis.get_instructions(frame.f_code) if i.offset <= frame.f_lasti]
    if not before or not before[-1].opname.startswith("CALL"):
        return UNKNOWN_CALLEE
    end = before.pop()
    wanted = 1 - dis.stack_effect(end.opcode, end.arg)
    while wanted > 0 and before:
        one = before.pop()
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs or one.is_jump_target:
            return UNKNOWN_CALLEE
        wanted -= dis.stack_effect(one.opcode, one.arg)
    start = before[-1].offset if before else -1
    found = UNKNOWN_CALLEE if wanted else _named(frame, start, end.offset)
    return found if callable(found) else UNKNOWN_CALLEE


def _named(frame: FrameType, start: int, end: int) -> Any:
    """What the names that are loaded first, behind ``start``, lead to, where that is still there in the end."""
    found: Any = UNKNOWN_CALLEE
    whole, depth, own = False, 0, 0
    for one in dis.get_instructions(frame.f_code):
        if not start < one.offset < end:
            continue
        depth += dis.stack_effect(one.opcode, one.arg)
        if whole:
            if depth < own:  # the names led to a function whose result is called
                return UNKNOWN_CALLEE
        elif one.opname in _LOADS and found is UNKNOWN_CALLEE:
            found = _variable(frame, str(one.argval))
        elif one.opname in ("LOAD_ATTR", "LOAD_METHOD") and found is not UNKNOWN_CALLEE:
            found = _attribute(found, str(one.argval))
        elif one.opname not in ("PUSH_NULL", "CACHE"):
            whole = True
            continue
        if not whole:
            own = depth
            if found is UNKNOWN_CALLEE and one.opname != "PUSH_NULL":
                break
    return found


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
