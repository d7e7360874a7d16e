"""``float(x)`` and ``int(x)`` of traced numbers in the code of the function and of modules.

Python has a number of its own made of whatever these are given, so that ``return float(loss)`` could not be traced.
While a function is traced, code that calls them by these names, and does nothing else with the names, calls functions
of this module in their place: a number that a program finds out stays symbolic, and all else is Python's. What that
code calls in turn, other than modules, calls Python's.
"""

from __future__ import annotations

import builtins
import dis
import functools
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from dyn.interop.torch.tensors import is_traced


def _item(value: Any) -> Any:
    """The number in a traced tensor, which has one element; any other value itself."""
    if not isinstance(value, torch.Tensor) or not is_traced(value):
        return value
    return (value.long() if value.dtype is torch.bool else value).item()


def _float(*args: Any) -> Any:
    """``float(x)``, of which a symbolic number stays one."""
    if len(args) == 1:
        value = _item(args[0])
        if isinstance(value, torch.SymInt | torch.SymFloat):
            return torch.sym_float(value)
        args = (value,)
    return float(*args)


def _int(*args: Any, **kwargs: Any) -> Any:
    """``int(x)``, of which a symbolic number stays one."""
    if len(args) == 1 and not kwargs:
        value = _item(args[0])
        if isinstance(value, torch.SymInt | torch.SymFloat):
            return torch.sym_int(value)
        args = (value,)
    return int(*args, **kwargs)


#: Python's name to that of its stand-in, which is a builtin as well: code finds it there, whatever its globals are.
_NAMES = {"float": "__dyn_float__", "int": "__dyn_int__"}
_CLASSES = {"float": float, "int": int}
builtins.__dict__.update({"__dyn_float__": _float, "__dyn_int__": _int})
#: The bit of ``LOAD_GLOBAL`` that says that the name is called, and the greatest argument of one byte.
_IS_CALLED, _MOST = 1, 255


def with_symbolic_numbers(function: Any) -> Any:
    """A function or method whose calls of ``float`` and ``int`` by name keep symbolic numbers; others as they are."""
    if isinstance(function, MethodType):
        inner = with_symbolic_numbers(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if not isinstance(function, FunctionType):
        return function
    known = function.__builtins__
    names = [name for name, kind in _CLASSES.items() if name not in function.__globals__ and known.get(name) is kind]
    code = _rewritten(function.__code__, tuple(names))
    if code is function.__code__:
        return function
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__dict__.update(function.__dict__)
    return made


@functools.lru_cache(maxsize=4096)
def _rewritten(code: CodeType, names: tuple[str, ...]) -> CodeType:
    """Code that calls the stand-ins of some names in their place, where it does nothing but call these."""
    if not {*names} & {*code.co_names}:
        return code
    loads: dict[str, list[dis.Instruction]] = {}
    for instruction in dis.get_instructions(code):
        if instruction.argval in names and instruction.opname.endswith(("_GLOBAL", "_NAME")):
            loads.setdefault(instruction.argval, []).append(instruction)
    text, own = bytearray(code.co_code), list(code.co_names)
    for name, found in loads.items():
        argument = len(own) << 1 | _IS_CALLED
        if argument > _MOST or not all(map(_is_short_call, found)):
            continue
        own.append(_NAMES[name])
        for instruction in found:
            text[instruction.offset + 1] = argument
    return code if len(own) == len(code.co_names) else code.replace(co_code=bytes(text), co_names=tuple(own))


def _is_short_call(load: dis.Instruction) -> bool:
    argument = load.arg
    return load.opname == "LOAD_GLOBAL" and argument is not None and argument <= _MOST and bool(argument & _IS_CALLED)
