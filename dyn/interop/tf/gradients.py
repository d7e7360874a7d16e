"""Calls that a ``tf.GradientTape`` records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def recorded(program: Any, tensors: Sequence[Any]) -> Any:
    """The result of a call."""
    return program(tensors)
