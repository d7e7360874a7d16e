"""Lists of tensors, ``tf.TensorArray`` among them, as arrays with one axis more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dyn.numpy as dnp
from dyn.dtypes import DType
from dyn.errors import UnsupportedOpError
from dyn.trace.tracer import Tracer


@dataclass(frozen=True, eq=False, slots=True)
class TensorList:
    """Tensors of one shape: ``elements`` has them along its first axis; None as long as their shape is not known.

    ``capacity`` is how many there is room for, and ``shape`` what is known of one, with None for open sizes. A list
    that grows has ``count`` elements, which the program counts; of others all are there, zeros until they are set.
    What is known while the graph is read stays known in a list where each of its elements is this one ``item``: sizes
    that a loop keeps for its gradient.
    """

    elements: Tracer | None
    capacity: Any
    shape: tuple[Any, ...] | None
    dtype: DType
    count: Tracer | None = None
    item: Any = None
    #: Whether there is room for whatever is written beyond its end.
    has_room: bool = False

    def of(self, shape: Sequence[Any]) -> TensorList:
        """The list with zeros of this shape, where it had none yet."""
        if self.elements is not None:
            return self
        if self.capacity is None:
            raise UnsupportedOpError(
                "a list that grows without a greatest length.", remedy="give tf.while_loop maximum_iterations."
            )
        return replace(self, elements=dnp.zeros((self.capacity, *shape), dtype=self.dtype.np), item=None)

    def known(self) -> TensorList:
        """The list with zeros, where the shape of its elements is known."""
        if self.elements is not None or self.shape is None or any(size is None for size in self.shape):
            return self
        return self.of(self.shape)

    def filled(self) -> Tracer:
        """All elements; UnsupportedOpError where nobody has said their shape."""
        found = self.known().elements
        if found is None:
            raise UnsupportedOpError("a list of tensors of an unknown shape that nothing is written to.")
        return found

    def zeros(self) -> TensorList:
        """A list like this one, of zeros."""
        return self if self.elements is None else replace(self, elements=dnp.zeros_like(self.elements))

    def plus(self, other: TensorList) -> TensorList:
        """The sums of the elements of two lists."""
        if self.elements is None or other.elements is None:
            return self if other.elements is None else other
        return replace(self, elements=dnp.add(self.elements, other.elements))

    def leaves(self) -> list[Tracer]:
        """Its arrays: those parts of a list that are data."""
        return [*([] if self.elements is None else [self.elements]), *([] if self.count is None else [self.count])]

    def with_leaves(self, leaves: Sequence[Tracer]) -> TensorList:
        """The list with other data, as :meth:`leaves` has them."""
        left = list(leaves)
        elements = None if self.elements is None else left.pop(0)
        return replace(self, elements=elements, count=None if self.count is None else left.pop(0))


def is_empty(value: Any) -> bool:
    """Whether a list that grows is known to have no elements yet."""
    return value.count is not None and value.item is None and value.elements is None
