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
    """

    elements: Tracer | None
    capacity: Any
    shape: tuple[Any, ...] | None
    dtype: DType
    count: Tracer | None = None

    def of(self, shape: Sequence[Any]) -> TensorList:
        """The list with zeros of this shape, where it had none yet."""
        if self.elements is not None:
            return self
        if self.capacity is None:
            raise UnsupportedOpError(
                "a list that grows without a greatest length.", remedy="give tf.while_loop maximum_iterations."
            )
        return replace(self, elements=dnp.zeros((self.capacity, *shape), dtype=self.dtype.np))

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

    def leaves(self) -> list[Tracer]:
        """What of it is data."""
        return [*([] if self.elements is None else [self.elements]), *([] if self.count is None else [self.count])]

    def with_leaves(self, leaves: Sequence[Tracer]) -> TensorList:
        """The list with other data, as :meth:`leaves` has them."""
        left = list(leaves)
        elements = None if self.elements is None else left.pop(0)
        return replace(self, elements=elements, count=None if self.count is None else left.pop(0))
