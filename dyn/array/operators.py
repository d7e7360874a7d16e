"""Operators of ``dyn.Array``, which are functions of the namespace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dyn.array.changes import become
from dyn.errors import ArgumentError
from dyn.source import user_loc
from dyn.trace.context import installed_namespace
from dyn.trace.tracer import Tracer
from dyn.tracebacks import hide_own_frames

#: Types of operands that need no further look.
_OPERANDS = frozenset({np.ndarray, int, float, complex, bool})


def binary(name: str) -> Callable[[Any, Any], Any]:
    """An operator that is a function of the namespace."""

    def method(self: Any, other: Any) -> Any:
        try:
            return getattr(installed_namespace(), name)(self, other) if _is_operand(self, other) else NotImplemented
        except Exception as error:
            hide_own_frames(error)
            raise

    return method


def reflected(name: str) -> Callable[[Any, Any], Any]:
    """An operator whose right operand is the array."""

    def method(self: Any, other: Any) -> Any:
        try:
            return getattr(installed_namespace(), name)(other, self) if _is_operand(self, other) else NotImplemented
        except Exception as error:
            hide_own_frames(error)
            raise

    return method


def in_place(name: str, sign: str) -> Callable[[Any, Any], Any]:
    """``x += y``, which changes the array x: its shape and dtype stay, as NumPy's do. In a trace, which changes nothing
    outside, the name x stands for the result."""

    def method(self: Any, other: Any) -> Any:
        if not _is_operand(self, other):
            return NotImplemented
        result = getattr(installed_namespace(), name)(self, other)
        if isinstance(result, Tracer):
            if (result.dtype, result.ndim) == (self.dtype, self.ndim):
                return result
        elif result.shape == self.shape and np.can_cast(result.dtype, self.dtype, "same_kind"):
            own = result if result.dtype == self.dtype else result.astype(self.dtype)
            become(self, own, sys._getframe(1))
            return self
        raise ArgumentError(
            f"x {sign}= y: the result is {result.dtype.name}{list(result.shape)}, and x stays "
            f"{self.dtype.name}{list(self.shape)}.",
            loc=user_loc(),
            remedy=f"write x = x {sign} y.",
        )

    return method


def unary(name: str) -> Callable[[Any], Any]:
    """An operator of one array."""

    def method(self: Any) -> Any:
        return getattr(installed_namespace(), name)(self)

    return method


def _is_operand(array: object, value: object) -> bool:
    """Whether operators take ``value`` beside an array."""
    kind = type(value)
    return kind is type(array) or kind in _OPERANDS or installed_namespace().is_operand(value)
