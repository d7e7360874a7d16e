"""CPython and NumPy as the native entry meets them: addresses of their functions, and where their objects keep things.

Functions are those of the documented C interfaces. What the entry reads of objects itself, to save a call, is compared
with Python's own answers on real objects once; where anything differs there is no fast path, and calls take the slow
one.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np

from dyn.runtime.entry.layout import API, DENSE, OWNDATA, WRITEABLE, PyObjects

#: Functions of NumPy's C interface by their places in its table, which never change.
_NUMPY = {"PyArray_NewFromDescr": 94, "PyArray_Empty": 184, "PyArray_SetBaseObject": 282}
#: Objects that the entry knows: ``str_x`` is the name "x".
_OBJECTS: dict[str, Any] = {
    "PyArray_Type": np.ndarray, "PyUnicode_Type": str, "PyLong_Type": int, "PyFloat_Type": float,
    "PyComplex_Type": complex, "PyBool_Type": bool, "Py_None": None, "Py_True": True, "Py_False": False,
    **{name: sys.intern(name.removeprefix("str_")) for name in API if name.startswith("str_")},
}  # fmt: skip

#: What the entry's functions and variables are called that others give it.
_GIVEN = ("dyn_", "trace_variable", "config_variable")


@lru_cache(maxsize=1)
def fast_path() -> str | None:
    """The reason why calls cannot go through the native entry in this process, or None where they can."""
    if sys.implementation.name != "cpython":
        return f"the native entry is for CPython, and this is {sys.implementation.name}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "the native entry is for a CPython with a GIL, and this build has none"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "the native entry is for machines of 64 bits with the low byte first"
    missing = [name for name in API if not name.startswith(_GIVEN) and _address(name) is None]
    if missing:
        return f"this CPython and NumPy have no {', '.join(missing)}"
    return _misread()


def addresses(trace_variable: ContextVar[Any], config_variable: ContextVar[Any], pool: dict[str, int]) -> list[int]:
    """The entry's table of addresses, in the order of ``layout.API``. ``pool`` are the runtime's own functions.

    Call it only where ``fast_path()`` is None.
    """
    own = pool | {"trace_variable": id(trace_variable), "config_variable": id(config_variable)}
    found = [own[name] if name in own else _address(name) for name in API]
    return [address for address in found if address is not None]


def _address(name: str) -> int | None:
    """The address of a C function, or of an object such as a type."""
    if name in _OBJECTS:
        return id(_OBJECTS[name])
    if name in _NUMPY:
        table = _numpy_table()
        return None if table is None else table[_NUMPY[name]]
    function = getattr(ctypes.pythonapi, name, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


@lru_cache(maxsize=1)
def _numpy_table() -> Any:
    """NumPy's table of C functions."""
    try:
        from numpy._core import _multiarray_umath as core  # pyright: ignore[reportAttributeAccessIssue]  # compiled

        capsule = core._ARRAY_API
    except (ImportError, AttributeError):
        return None
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    address = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, None)
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p)) if address else None


@lru_cache(maxsize=1)
def has_dict_tags() -> bool:
    """Whether each change of a dict gives it a number that no dict has had (PEP 509), as CPython 3.11 does.

    It is looked for where it lies there, after changes of all kinds.
    """
    some = _Changing()
    names: dict[str, Any] = vars(some)
    other: dict[str, Any] = {"a": 1}

    def store() -> None:  # often enough for the interpreter to have a quick way
        some.a = object()

    changes: list[Callable[[], object]] = [
        lambda: setattr(some, "a", 3), lambda: setattr(some, "c", 3), lambda: delattr(some, "b"),
        lambda: names.update(a=4), lambda: names.setdefault("d", 1), lambda: names.pop("d"),
        lambda: names.__setitem__("a", 5), lambda: names.__ior__({"a": 6}), names.popitem, names.clear,
        *[store] * 64, lambda: other.update(b=2), *[store] * 2,
    ]  # fmt: skip
    seen: set[int] = {0}
    for count, change in enumerate(changes):
        before = _word(names, PyObjects.DICT_TAG), _word(other, PyObjects.DICT_TAG)
        seen.update(before)
        if len(seen) != 3 + count or before[0] == before[1]:
            return False
        change()
    return len({*seen, _word(names, PyObjects.DICT_TAG)}) == 3 + len(changes)


class _Changing:
    """An object whose attributes change."""

    def __init__(self) -> None:
        self.a: object = 1
        self.b: object = 2


# ---- where things lie ------------------------------------------------------------------------------------------------


def _word(object: Any, offset: int) -> int:
    return ctypes.c_int64.from_address(id(object) + offset).value


def _half(address: int, offset: int) -> int:
    return ctypes.c_int32.from_address(address + offset).value


def _misread() -> str | None:
    """The first thing that is not where the entry looks for it. Reads stay inside objects of at least that size."""
    if object.__basicsize__ != PyObjects.HEAD:
        return f"objects start with {object.__basicsize__} bytes and not {PyObjects.HEAD}"
    items: tuple[Any, ...] = (object(), "b", 3)
    count, others = _half(id(items), PyObjects.REFERENCES), [items, items]
    if _half(id(items), PyObjects.REFERENCES) != count + len(others):
        return "objects keep the count of their references elsewhere"
    listed: list[Any] = [items, 4]
    by_key = {"a": 1, "b": 2, "c": items}
    if [_word(x, PyObjects.SIZE) for x in (items, listed, by_key)] != [3, 2, 3]:
        return "tuples, lists and dicts keep their lengths elsewhere"
    if [_word(x, PyObjects.TYPE) for x in (items, listed)] != [id(tuple), id(list)]:
        return "objects keep their types elsewhere"
    if [_word(items, PyObjects.TUPLE_ITEMS + 8 * i) for i in range(3)] != [id(x) for x in items]:
        return "tuples keep their items elsewhere"
    if ctypes.c_int64.from_address(_word(listed, PyObjects.LIST_ITEMS) + 8).value != id(listed[1]):
        return "lists keep their items elsewhere"
    if ctypes.string_at(id(b"12345678") + PyObjects.BYTES, 8) != b"12345678":
        return "bytes keep their bytes elsewhere"
    if np.ndarray.__basicsize__ < PyObjects.ARRAY_FLAGS + 4:
        return "NumPy's arrays are smaller"
    arrays = [
        np.zeros((3, 5), "f4"), np.zeros((2, 3, 4), "i8")[:, ::2], np.zeros((), "c16"), np.zeros((4, 2), "i2").T,
        np.zeros(3, ">f8"), np.zeros((2, 0), "?"), np.frombuffer(b"123456789", "f4", 2, 1),
    ]  # fmt: skip
    return next((f"NumPy's arrays keep their {what} elsewhere" for a in arrays if (what := _misread_array(a))), None)


def _misread_array(array: np.ndarray[Any, Any]) -> str | None:
    at = id(array)
    if _word(array, PyObjects.ARRAY_BASE) != (0 if array.base is None else id(array.base)):
        return "bases"
    if _word(array, PyObjects.ARRAY_DATA) != array.__array_interface__["data"][0]:
        return "data"
    if _half(at, PyObjects.ARRAY_NDIM) != array.ndim:
        return "rank"
    if array.ndim and (ctypes.c_int64 * array.ndim).from_address(_word(array, PyObjects.ARRAY_DIMS))[:] != [
        *array.shape
    ]:
        return "sizes"
    if array.ndim and (ctypes.c_int64 * array.ndim).from_address(_word(array, PyObjects.ARRAY_STRIDES))[:] != [
        *array.strides
    ]:
        return "strides"
    descr = _word(array, PyObjects.ARRAY_DESCR)
    if descr != id(array.dtype):
        return "dtype"
    if ctypes.string_at(descr + PyObjects.DESCR_BYTEORDER, 1) != array.dtype.byteorder.encode():
        return "byte order"
    if _half(descr, PyObjects.DESCR_TYPE_NUMBER) != array.dtype.num:
        return "type number"
    dense = array.flags.c_contiguous and array.flags.aligned
    flags = _half(at, PyObjects.ARRAY_FLAGS)
    told = [flags & DENSE == DENSE, flags & OWNDATA != 0, flags & WRITEABLE != 0]
    if told != [dense, array.flags.owndata, array.flags.writeable]:
        return "flags"
    return None
