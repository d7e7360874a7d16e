"""Frozen records that programs have by the thousand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(*, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """A dataclass with slots that nobody changes: that is for the type checker to see to.

    Python has a frozen dataclass set each field by a call, so that one takes four times as long to make: a seventh of
    a trace was that.
    """

    def made(cls: type[T]) -> type[T]:
        options: dict[str, Any] = {"eq": True, "unsafe_hash": True} if eq else {"eq": False}
        return dataclasses.dataclass(slots=True, **options)(cls)

    return made
