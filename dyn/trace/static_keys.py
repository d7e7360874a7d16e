"""Static values as keys: what a function cannot tell apart has one program.

``==`` alone would give 2 the program of 2.0, -0.0 that of 0.0, ``range(0, 4, 2)`` that of ``range(0, 3, 2)`` and
``Decimal("1.00")`` that of ``Decimal("1.0")``, all of which a function can tell apart.
"""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum
from typing import Any

import numpy as np

from dyn.dtypes import DType
from dyn.frozen import record


@record(eq=False)
class Static:
    """A static value by its name, as part of a key: equal to another of that name that a function cannot tell from it.

    The value has a hash.
    """

    name: str
    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.name == other.name and same_static(self.value, other.value)

    def __hash__(self) -> int:
        # Each NaN has a hash of its own, and is equal to no other.
        value = self.value.hex() if type(self.value) is float else self.value
        return hash((self.name, _parts(value) if type(value) is slice else value))


def same_static(a: Any, b: Any) -> bool:
    """Whether two static values are of one type and equal, and so is what they are made of.

    Types of users are compared by their own ``==`` (dataclasses field by field); numbers, strings, containers and all
    types of Python's own by everything that they are made of.
    """
    kind: Any = type(a)
    if a is b:
        return True
    if kind is not type(b):
        return False
    if kind is int or kind is str or kind is bool or kind is bytes:
        return a == b
    if kind is float:
        return a.hex() == b.hex()  # NaN is NaN, and -0.0 is not 0.0
    if kind is complex:
        return same_static(a.real, b.real) and same_static(a.imag, b.imag)
    if kind is slice:
        return same_static(_parts(a), _parts(b))
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if kind.__eq__ is tuple.__eq__:
        return len(a) == len(b) and all(map(same_static, a, b))
    if not bool(a == b):
        return False
    if isinstance(a, frozenset):
        return {Static("", item) for item in a} == {Static("", item) for item in b}
    if dataclasses.is_dataclass(kind):
        return all(same_static(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(kind) if f.compare)
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names and not isinstance(a, type | Enum):
        return _same_copies(a, b)
    return True


def _parts(value: slice) -> tuple[Any, Any, Any]:
    return (value.start, value.stop, value.step)


def _same_copies(a: Any, b: Any) -> bool:
    """Whether equal objects of a type of Python's own would also be copied alike: ``range``, ``Decimal``, times."""
    try:
        (make, arguments, *state), (other_make, other_arguments, *other_state) = a.__reduce_ex__(4), b.__reduce_ex__(4)
    except Exception:  # what cannot be copied is a function, a lock or the like: equal if it says so
        return True
    return make is other_make and _same_tree((arguments, state), (other_arguments, other_state))


def _same_tree(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same_tree, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_tree(value, b[key]) for key, value in a.items())
    return same_static(a, b)


#: Types of values that keys may keep: they never change, and hold nothing but themselves.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), np.dtype, np.generic, DType, Enum)


def is_plain(value: Any) -> bool:
    """Whether a key may keep a value for good: it is no function, nothing of a user's class, and no container of such.

    dyn's own records and NumPy's and Python's types are plain.
    """
    kind = type(value)
    if isinstance(value, _PLAIN):
        return True
    if isinstance(value, type):
        return value.__module__.partition(".")[0] in ("builtins", "numpy", "dyn", "ml_dtypes")
    if kind is slice:
        return all(map(is_plain, _parts(value)))
    if kind is range:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(is_plain, value))
    own = kind.__module__.partition(".")[0] == "dyn" and kind.__hash__ is not None
    if own and isinstance(value, tuple):
        return all(map(is_plain, value))
    return (
        own
        and dataclasses.is_dataclass(kind)
        and all(is_plain(getattr(value, field.name)) for field in dataclasses.fields(kind))
    )
