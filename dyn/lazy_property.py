"""Property that is computed when it is first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # used as a decorator, as functools.cached_property is
    """Property of a class without slots, whose value stays in the object.

    ``functools.cached_property`` of Python 3.11 and before holds one lock for all objects of a class while it computes:
    threads wait for each other's objects, and the child of a fork for a thread that there is not. Here nobody waits.
    Threads that ask at the same time may each compute the value, and all see that of the one that was last.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any]) -> lazy_property[T] | T:
        if instance is None:
            return self
        # Not a data descriptor: from here on the object's own attribute is found before this.
        value = vars(instance)[self._name] = self._function(instance)
        return value
