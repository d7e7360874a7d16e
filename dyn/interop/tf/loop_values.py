"""Values of which a loop carries something else: arrays that grow in it, and what only the sizes of are asked for.

How much room a value needs that grows is sometimes known by the loop's running alone. Then it runs twice: first with a
:class:`CountedList` or a :class:`CountedArray` in its place, of which it keeps the greatest size that there was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax
from dyn.trace.tracer import Tracer


@dataclass(frozen=True, eq=False, slots=True)
class CountedList:
    """A list of which only is kept how many elements it has, and how many it had at ``most``."""

    count: Any
    most: Any

    @staticmethod
    def of(count: Any) -> CountedList:
        return CountedList(count, count)

    def resized(self, count: Any) -> CountedList:
        """The list with another number of elements."""
        return CountedList(count, dnp.maximum(self.most, count))

    def written(self, place: Any) -> CountedList:
        """The list with an element at a place, which may be beyond its end."""
        return self.resized(dnp.maximum(self.count, place + np.int32(1)))

    def leaves(self) -> list[Tracer]:
        return [self.count, self.most]

    def with_leaves(self, leaves: Sequence[Tracer]) -> CountedList:
        return CountedList(*leaves)


@dataclass(frozen=True, eq=False, slots=True)
class PaddedArray:
    """An array in room for larger ones: its elements come first along the axes that grow, whose ``sizes`` these are."""

    room: Tracer
    sizes: Mapping[int, Any]

    @staticmethod
    def of(array: Tracer, rooms: Mapping[int, Any]) -> PaddedArray:
        """An array with so much room along these axes."""
        sizes = {axis: _number(array.shape[axis]) for axis in rooms}
        return PaddedArray(_padded(array, rooms), sizes)

    def array(self) -> Tracer:
        """The array, of sizes that are found out."""
        made = self.room
        for axis, size in self.sizes.items():
            dim = lax.as_dim(size, max=self.room.shape[axis], name="grown")
            made = lax.slice_in_dim(made, 0, dim, axis=axis)
        return made

    def with_array(self, array: Tracer) -> PaddedArray:
        """Another array in the same room."""
        return PaddedArray.of(array, {axis: self.room.shape[axis] for axis in self.sizes})

    def leaves(self) -> list[Tracer]:
        return [self.room, *self.sizes.values()]

    def with_leaves(self, leaves: Sequence[Tracer]) -> PaddedArray:
        return PaddedArray(leaves[0], dict(zip(self.sizes, leaves[1:], strict=True)))


@dataclass(frozen=True, eq=False, slots=True)
class CountedArray:
    """An array of which only the ``sizes`` along axes that grow are kept, and what they were at ``most``.

    ``like`` is an array of its other sizes, and of its dtype.
    """

    like: Tracer
    sizes: Mapping[int, Any]
    most: Mapping[int, Any]

    @staticmethod
    def of(array: Tracer, axes: Sequence[int]) -> CountedArray:
        sizes = {axis: _number(array.shape[axis]) for axis in axes}
        return CountedArray(array, sizes, sizes)

    def array(self) -> Tracer:
        """An array of these sizes, whose elements are none of the loop's, and no constants, which would fold."""
        shape = [
            lax.as_dim(self.sizes[axis], name="grown") if axis in self.sizes else size
            for axis, size in enumerate(self.like.shape)
        ]
        return dnp.broadcast_to(next(iter(self.sizes.values())).astype(self.like.dtype), shape)

    def with_array(self, array: Tracer) -> CountedArray:
        """The sizes of another array."""
        sizes = {axis: _number(array.shape[axis]) for axis in self.sizes}
        return replace(self, sizes=sizes, most={axis: dnp.maximum(self.most[axis], sizes[axis]) for axis in sizes})

    def leaves(self) -> list[Tracer]:
        return [*self.sizes.values(), *self.most.values()]

    def with_leaves(self, leaves: Sequence[Tracer]) -> CountedArray:
        count = len(self.sizes)
        sizes, most = (dict(zip(self.sizes, part, strict=True)) for part in (leaves[:count], leaves[count:]))
        return replace(self, sizes=sizes, most=most)


def _number(size: Any) -> Any:
    return dnp.asarray(size).astype("int64")


def _padded(array: Tracer, rooms: Mapping[int, Any]) -> Tracer:
    pads = [(0, rooms[axis] - size if axis in rooms else 0, 0) for axis, size in enumerate(array.shape)]
    return lax.pad(array, dnp.zeros((), dtype=array.dtype), pads)
