"""Frozen records that programs have by the thousand, and modules by the hundred."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(*, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """A dataclass with slots that nobody changes: that is for the type checker to see to.

    Python has a frozen dataclass set each field by a call, so that one takes four times as long to make: a seventh of
    a trace was that. And the class itself takes half a millisecond, most of it Python compiling its methods, which came
    to a third of what ``import dyn`` takes: here ``__eq__`` and ``__hash__`` are compiled when they are first called,
    and ``__repr__`` is one function for all.
    """

    def made(cls: type[T]) -> type[T]:
        own = vars(cls)
        cls = dataclasses.dataclass(slots=True, eq=False, repr=False)(cls)
        setattr(cls, _MARK, True)
        if "__repr__" not in own:
            setattr(cls, "__repr__", _repr)  # noqa: B010  # a class of any type
        if eq and "__eq__" not in own:
            cls.__eq__ = _later(cls, "__eq__", _EQ)
        if eq and own.get("__hash__") is None:  # None where the class has an __eq__ of its own
            cls.__hash__ = _later(cls, "__hash__", _HASH)
        return cls

    return made


def is_record(kind: type[Any]) -> bool:
    """Whether a class is a record itself: what derives from one need not be."""
    return _MARK in vars(kind)


#: The attribute that marks records.
_MARK = "__dyn_record__"


@reprlib.recursive_repr("...")
def _repr(self: Any) -> str:
    parts = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(parts)})"


_EQ = """
def __eq__(self, other):
    if other.__class__ is self.__class__:
        return {self} == {other}
    return NotImplemented
"""
_HASH = """
def __hash__(self):
    return hash({self})
"""


def _later(cls: Any, name: str, text: str) -> Callable[..., Any]:
    """A method of a dataclass that is compiled and put in its place by the first call. Calls at once do it twice."""

    def first(self: Any, *others: Any) -> Any:
        fields = [f.name for f in dataclasses.fields(cls) if (f.compare if f.hash is None or text is _EQ else f.hash)]
        tuples = {one: f"({''.join([f'{one}.{field},' for field in fields])})" for one in ("self", "other")}
        found: dict[str, Any] = {}
        exec(text.format(**tuples), {}, found)  # as dataclasses does: fields are identifiers
        method = found[name]
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
        return method(self, *others)

    first.__name__, first.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return first
