"""``return float(loss)`` and ``return {"steps": int(count), …}`` of traced tensors.

Python has a number of its own made of whatever ``float`` and ``int`` are given, so that a trace could not go on. Where
the function that is compiled does nothing with the number but return it, a copy of the function runs that calls
functions of this module in their place: the number is a result of the program then, and no code of Python's sees it.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
from collections.abc import Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch.nn.modules.module import _has_any_global_hook as has_global_hooks

from dyn.interop.sizes import conditions
from dyn.interop.torch.float_sizes import FloatNode
from dyn.interop.torch.sizes import IntNode
from dyn.interop.torch.tensors import is_traced

#: The dtypes whose numbers Python's class has without rounding, and so without an error.
_INTEGERS = frozenset({torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def _item(value: Any, *, floats: bool) -> Any:
    """The number in a traced tensor without axes, or such a number; None for any other value, sizes among them, and
    without ``floats`` for these."""
    node = getattr(value, "node", None)
    if isinstance(value, torch.SymInt) and isinstance(node, IntNode):
        return value if conditions.is_measured(node.dim, node.trace) else None
    if isinstance(value, torch.SymFloat) and isinstance(node, FloatNode):
        return value if floats and node.in_this_call() is None else None
    if not isinstance(value, torch.Tensor) or not is_traced(value) or value.ndim:
        return None
    if value.dtype not in _INTEGERS and not (floats and value.dtype in _FLOATS):
        return None
    return (value.long() if value.dtype is torch.bool else value).item()


def _float(*args: Any) -> Any:
    """``float(x)``, of a traced tensor a number of the program."""
    item = _item(args[0], floats=True) if len(args) == 1 else None
    return float(*args) if item is None else torch.sym_float(item)


def _int(*args: Any, **kwargs: Any) -> Any:
    """``int(x)``, of a traced tensor of integers a number of the program."""
    item = _item(args[0], floats=False) if len(args) == 1 and not kwargs else None
    return int(*args, **kwargs) if item is None else item


#: Python's classes, with the names of their stand-ins. These are builtins as well: code finds them there, whatever its
#: globals are.
_STAND_INS = {float: "__dyn_float__", int: "__dyn_int__"}
builtins.__dict__.update({"__dyn_float__": _float, "__dyn_int__": _int})
#: The same by the classes' names.
_BY_NAME = {kind.__name__: name for kind, name in _STAND_INS.items()}
#: The bit of ``LOAD_GLOBAL`` that says that the name is called, and the greatest argument of one byte.
_IS_CALLED, _MOST = 1, 255
#: What instructions between the call and the return take from the stack, and put there. In 3.11 ``LOAD_METHOD`` is one
#: of its own; from 3.12 on the lowest bit of ``LOAD_ATTR`` says that it is that.
_EFFECTS = {
    "CACHE": (0, 0), "NOP": (0, 0), "PRECALL": (0, 0), "KW_NAMES": (0, 0), "PUSH_NULL": (0, 1), "LOAD_FAST": (0, 1),
    "LOAD_CONST": (0, 1), "LOAD_DEREF": (0, 1), "LOAD_METHOD": (1, 2), "UNARY_NEGATIVE": (1, 1), "BINARY_OP": (2, 1),
    "BINARY_SUBSCR": (2, 1), "COMPARE_OP": (2, 1),
}  # fmt: skip
_BUILDS = {"BUILD_TUPLE": (1, 0), "BUILD_LIST": (1, 0), "BUILD_MAP": (2, 0), "BUILD_CONST_KEY_MAP": (1, 1)}


def with_symbolic_numbers(function: Any) -> Any:
    """A function or method, or that of a module without hooks, whose results ``float(x)`` and ``int(x)`` are the
    program's; others as they are."""
    if isinstance(function, torch.nn.Module):
        if type(function).__call__ is not torch.nn.Module.__call__ or _has_hooks(function):
            return function
        forward = function.forward
        made = with_symbolic_numbers(forward)
        return function if made is forward else made
    if isinstance(function, MethodType):
        inner = with_symbolic_numbers(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if not isinstance(function, FunctionType) or function.__builtins__ is not builtins.__dict__:
        return function
    own = [kind.__name__ for kind in _STAND_INS if builtins.__dict__.get(kind.__name__) is kind]
    names = tuple([name for name in own if name not in function.__globals__])
    code = _rewritten(function.__code__, function.__code__.co_filename, names)
    if code is None:
        return function
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(made, function)


def _has_hooks(module: torch.nn.Module) -> bool:
    own = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(own) or bool(has_global_hooks())


@functools.lru_cache(maxsize=4096)
def _rewritten(code: CodeType, file: str, names: tuple[str, ...]) -> CodeType | None:
    """Code that calls the stand-ins of some names where it returns the result; None where it never does.

    ``file`` is the code's, which equal codes need not share.
    """
    if not {*names} & {*code.co_names} or code.co_exceptiontable:  # an error would be caught, or a context left
        return None
    instructions = list(dis.get_instructions(code))
    text, own = bytearray(code.co_code), list(code.co_names)
    for place, load in enumerate(instructions):
        if load.opname != "LOAD_GLOBAL" or load.argval not in names or not _is_returned(instructions, place):
            continue
        name = _BY_NAME[load.argval]
        if name not in own:
            own.append(name)
        argument = own.index(name) << 1 | _IS_CALLED
        if load.arg is None or not load.arg & _IS_CALLED or max(argument, load.arg) > _MOST:
            return None
        text[load.offset + 1] = argument
    return None if len(own) == len(code.co_names) else code.replace(co_code=bytes(text), co_names=tuple(own))


def _is_returned(instructions: Sequence[dis.Instruction], place: int) -> bool:
    """Return True if the name that is loaded is called, and the result returned, in a tuple, list or dict perhaps."""
    height, result = 2, None  # of the stack, above what was there before; and the place of the result on it
    for one in instructions[place + 1 :]:
        if one.opname == "RETURN_VALUE":
            return result is not None and result == height - 1
        effect = _effect(one)
        if effect is None:
            return False
        left = height - effect[0]
        if result is None and left < height and left < 2:
            if one.opname != "CALL" or left != 0:
                return False
            result = 0
        elif result is not None and left <= result:
            if one.opname not in _BUILDS:
                return False
            result = left
        height = left + effect[1]
    return False


def _effect(one: dis.Instruction) -> tuple[int, int] | None:
    """The numbers of values that an instruction pops from the stack and pushes; None for an unknown instruction."""
    argument = one.arg or 0
    if one.opname == "LOAD_GLOBAL":
        return 0, 1 + (argument & 1)
    if one.opname == "LOAD_ATTR":
        return 1, 1 + (argument & 1 if sys.version_info >= (3, 12) else 0)
    if one.opname == "CALL":
        return argument + 2, 1
    if one.opname in _BUILDS:
        each, more = _BUILDS[one.opname]
        return each * argument + more, 1
    return _EFFECTS.get(one.opname)
