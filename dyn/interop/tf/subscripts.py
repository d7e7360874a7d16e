"""Subscripts as ``StridedSlice`` writes them: three vectors and five masks of bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Subscript:
    """One part of a subscript: ``...`` or a new axis, an index, or a slice of which None is an open end."""

    kind: str
    start: Any = None
    stop: Any = None
    step: Any = None


@dataclass(frozen=True, slots=True)
class Subscripts:
    """A subscript, ``x[1:, ..., tf.newaxis]``."""

    parts: tuple[Subscript, ...]

    @staticmethod
    def of(begin: Sequence[Any], end: Sequence[Any], strides: Sequence[Any], masks: Sequence[int]) -> Subscripts:
        """The subscript of the operation's vectors, and masks for open begins, open ends, ``...``, new axes and
        indices."""
        parts: list[Subscript] = []
        for number, (start, stop, step) in enumerate(zip(begin, end, strides, strict=True)):
            is_open, is_endless, is_ellipsis, is_new, is_index = [bool(mask >> number & 1) for mask in masks]
            if is_ellipsis:
                parts.append(Subscript("ellipsis"))
            elif is_new:
                parts.append(Subscript("new"))
            elif is_index:
                parts.append(Subscript("index", start))
            else:
                parts.append(Subscript("slice", None if is_open else start, None if is_endless else stop, step))
        return Subscripts(tuple(parts))

    def as_index(self) -> tuple[Any, ...]:
        """The index that NumPy takes."""
        made: list[Any] = []
        for part in self.parts:
            match part.kind:
                case "ellipsis":
                    made.append(Ellipsis)
                case "new":
                    made.append(None)
                case "index":
                    made.append(part.start)
                case _:
                    made.append(slice(part.start, part.stop, part.step))
        return tuple(made)

    def whole(self, rank: int) -> list[Subscript]:
        """A part for each axis of an array of ``rank``, and for each new axis."""
        axes = sum(part.kind in ("index", "slice") for part in self.parts)
        every = [Subscript("slice", None, None, 1)] * (rank - axes)
        parts = list(self.parts)
        if not any(part.kind == "ellipsis" for part in parts):
            parts.append(Subscript("ellipsis"))
        place = next(number for number, part in enumerate(parts) if part.kind == "ellipsis")
        return [*parts[:place], *every, *parts[place + 1 :]]
