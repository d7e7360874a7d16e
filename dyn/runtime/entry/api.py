"""CPython's and NumPy's functions for the entry: called through a table of addresses, so that code is position-free.

The table is filled by ``dyn_entry_setup``, and again where arrays have to be copied first; the code may come from a
cache on disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.layout import API, PyObjects

_TABLE = f"[{len(API)} x ptr]"
#: ``PY_VECTORCALL_ARGUMENTS_OFFSET``, and one argument.
_ONE_ARGUMENT = 1 << 63 | 1


def declare_api(module: Module) -> str:
    """The table, and ``void dyn_entry_setup(const ptr*)``, which fills it. Returns the exported name."""
    table = module.variable("api", _TABLE)
    f = module.function("dyn_entry_setup", "void", [("ptr", "from")])
    for number in range(len(API)):
        f.store("ptr", f.load("ptr", "%from", 8 * number), table, 8 * number)
    f.ret()
    return f.name


def address(f: FunctionBuilder, name: str) -> str:
    """A function or an object of the process."""
    return f.load("ptr", "@api", 8 * API.index(name))


def call(f: FunctionBuilder, result: str, name: str, arguments: Sequence[tuple[str, str]]) -> str:
    """Call a function of the process."""
    return f.call(result, address(f, name), arguments)


def call_method(f: FunctionBuilder, object: str, name: str) -> str:
    """Call a method without arguments; ``name`` is that of an object of the table."""
    arguments = f.stack("[2 x ptr]")
    f.store("ptr", object, arguments, 8)
    given = [("ptr", address(f, name)), ("ptr", f.at(arguments, 8)), ("i64", str(_ONE_ARGUMENT)), ("ptr", "null")]
    return call(f, "ptr", "PyObject_VectorcallMethod", given)


def hold(f: FunctionBuilder, object: str) -> None:
    """Take one more reference of an object."""
    call(f, "void", "Py_IncRef", [("ptr", object)])


def drop(f: FunctionBuilder, object: str) -> None:
    """Give back a reference of an object; nothing for null."""
    call(f, "void", "Py_DecRef", [("ptr", object)])


def type_of(f: FunctionBuilder, object: str) -> str:
    return f.load("ptr", object, PyObjects.TYPE)


def is_type(f: FunctionBuilder, object: str, name: str) -> str:
    """Whether an object is of a type itself, and of no subclass."""
    return f.icmp("eq", type_of(f, object), address(f, name), "ptr")
