"""Operators of ``dyn.Array``, which are functions of the namespace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dyn.array.changes import become, refuse_in_trace
from dyn.errors import ArgumentError
from dyn.source import user_loc
from dyn.trace.context import installed_namespace
from dyn.tracebacks import hide_own_frames

#: Sequences that == and != take, which Python would answer by identity.
_SEQUENCES, _COMPARED = (list, tuple), ("equal", "not_equal")
#: Types of operands that need no further look.
_OPERANDS = frozenset({np.ndarray, int, float, complex, bool})


def binary(name: str) -> Callable[[Any, Any], Any]:
    """An operator that is a function of the namespace."""
    compares = name in _COMPARED

    def method(self: Any, other: Any) -> Any:
        if compares and type(other) in _SEQUENCES:
            other = installed_namespace().asarray(other)
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
    outside, it is an error."""

    def method(self: Any, other: Any) -> Any:
        if not _is_operand(self, other):
            return NotImplemented
        refuse_in_trace(f"x {sign}= y", self, other)
        while True:
            before = self._data  # held here, so that a change by another thread is one of other memory
            result = getattr(installed_namespace(), name)(self, other)
            if result.shape != self.shape or not np.can_cast(result.dtype, self.dtype, "same_kind"):
                break
            own = result if result.dtype == self.dtype else result.astype(self.dtype)
            if become(self, own, sys._getframe(1), before):
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
