"""Lists of tensors, ``tf.TensorArray`` among them, as arrays with one axis more, or as rows of sizes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax
from dyn.dtypes import DType
from dyn.errors import UnsupportedOpError
from dyn.trace.tracer import Tracer

Row = Tracer | None

_NO_END = "a list that grows without a greatest length."
_SAY_END = "give tf.while_loop maximum_iterations."


@dataclass(frozen=True, eq=False, slots=True)
class TensorList:
    """Tensors of one shape: ``elements`` has them along its first axis; None as long as their shape is not known.

    ``capacity`` is how many there is room for, and ``shape`` what is known of one, with None for open sizes. A list
    that grows has ``count`` elements, which the program counts; of others all are there, zeros until they are set.
    What is known while the graph is read stays known in a list where each of its elements is this one ``item``: sizes
    that a loop keeps for its gradient.

    A list of open sizes that is written to at places that are known has ``rows`` in the place of ``elements``, each of
    a shape of its own; None are those that nothing is written to.
    """

    elements: Tracer | None
    capacity: Any
    shape: tuple[Any, ...] | None
    dtype: DType
    count: Tracer | None = None
    item: Any = None
    #: Whether there is room for whatever is written beyond its end.
    has_room: bool = False
    rows: tuple[Row, ...] | None = None

    def of(self, shape: Sequence[Any]) -> TensorList:
        """The list with zeros of this shape, where it had none yet."""
        if self.elements is not None:
            return self
        if self.rows is not None:
            return self.stacked()
        if self.capacity is None:
            raise UnsupportedOpError(_NO_END, remedy=_SAY_END)
        return replace(self, elements=dnp.zeros((self.capacity, *shape), dtype=self.dtype.np), item=None)

    def counted(self) -> TensorList:
        """The list as one of which the program counts the elements."""
        if self.count is not None:
            return self
        return replace(self, count=dnp.asarray(self.capacity).astype("int32"))

    def known(self) -> TensorList:
        """The list with zeros, where the shape of its elements is known."""
        if self.elements is not None or self.shape is None or any(size is None for size in self.shape):
            return self
        return self.of(self.shape)

    def filled(self) -> Tracer:
        """All elements; UnsupportedOpError where nobody has said their shape, or rows have other shapes."""
        found = (self.known() if self.rows is None else self.stacked()).elements
        if found is None:
            raise UnsupportedOpError("a list of tensors of an unknown shape that nothing is written to.")
        return found

    def stacked(self) -> TensorList:
        """The list as one array, of rows that are proved to have one shape."""
        if not self.is_even:
            raise UnsupportedOpError(
                "a list whose rows have sizes of their own, where it has to be one array.",
                remedy="write to it at places that are numbers, outside of loops, or pad its rows.",
            )
        return replace(self, elements=self.stack(), rows=None)

    @property
    def is_even(self) -> bool:
        """Whether all rows are proved to have one shape."""
        first, *rest = [row for row in self.rows or () if row is not None]
        facts = first._trace.facts
        return all(
            len(row.dims) == len(first.dims)
            and all(facts.eq(a, b).proved for a, b in zip(first.dims, row.dims, strict=True))
            for row in rest
        )

    def stack(self) -> Tracer:
        """The rows as one array: they have to be of one shape. Those that nothing is written to are zeros."""
        rows = self.rows or ()
        first = next(row for row in rows if row is not None)
        return dnp.stack([dnp.zeros_like(first) if row is None else row for row in rows])

    def concat(self) -> tuple[Tracer, list[Any]]:
        """The rows behind one another, and how long each is."""
        rows = [row for row in self.rows or () if row is not None]
        if len(rows) != len(self.rows or ()):
            raise UnsupportedOpError("the elements of a list, joined, to some of which nothing is written.")
        return dnp.concatenate(rows), [row.dims[0] for row in rows]

    def zeros(self) -> TensorList:
        """A list like this one, of zeros."""
        return self.with_leaves([dnp.zeros_like(leaf) for leaf in self._data()], self.count)

    def plus(self, other: TensorList) -> TensorList:
        """The sums of the elements of two lists."""
        if self.rows is not None and other.rows is not None:
            pairs = zip(self.rows, other.rows, strict=True)
            return replace(self, rows=tuple([b if a is None else a if b is None else dnp.add(a, b) for a, b in pairs]))
        if self._is_blank() or other._is_blank():
            return other if self._is_blank() else self
        return replace(self, elements=dnp.add(self.filled(), other.filled()), rows=None)

    def _is_blank(self) -> bool:
        return self.elements is None and self.rows is None

    def _data(self) -> list[Tracer]:
        """Its arrays, aside from how many elements there are."""
        rows = [row for row in self.rows or () if row is not None]
        return [*([] if self.elements is None else [self.elements]), *rows]

    def leaves(self) -> list[Tracer]:
        """Its arrays: those parts of a list that are data."""
        return [*self._data(), *([] if self.count is None else [self.count])]

    def with_leaves(self, leaves: Sequence[Tracer], count: Tracer | None = None) -> TensorList:
        """The list with other data, as :meth:`leaves` has them, or with a ``count`` that is given beside."""
        left = list(leaves)
        elements = None if self.elements is None else left.pop(0)
        rows = None if self.rows is None else tuple([None if row is None else left.pop(0) for row in self.rows])
        own = count if count is not None or self.count is None else left.pop(0)
        capacity = self.capacity if elements is None else elements.shape[0]
        return replace(self, elements=elements, rows=rows, count=own, capacity=capacity)

    def with_row(self, place: int, row: Tracer) -> TensorList:
        """A list of a known length with another row at a place."""
        rows = list(self.rows or (None,) * self.capacity)
        rows[place] = row
        return replace(self, rows=tuple(rows), item=None)


#: Shape and dtype of a part of a value that is data.
LeafType = tuple[tuple[Any, ...], Any]


def leaf_types(value: Any) -> list[LeafType]:
    """The types of the data in a list or an optional."""
    return [(tuple(leaf.shape), leaf.dtype) for leaf in value.leaves()]


@dataclass(frozen=True, eq=False, slots=True)
class NestedList:
    """A list that grows, of lists or of optionals: an array with one axis more for each part of these that is data.

    ``like`` is a value such as its elements are, whose data only says shapes; None as long as nothing is in it.
    ``columns`` are the arrays, of room for ``capacity`` elements, of which there are ``count``. There are none where an
    element like no other was added: a list in it may have been filled by then. The loop that does so is traced again.
    """

    capacity: Any
    count: Tracer
    like: Any = None
    columns: tuple[Tracer, ...] = ()

    @property
    def has_room(self) -> bool:
        """Return True if there is room for what is added to it."""
        return self.capacity is not None

    def of(self, like: Any, types: Sequence[LeafType]) -> NestedList:
        """The list with zeros for elements such as this one, whose data is of these types, where it had none yet."""
        if self.like is not None:
            return self
        if self.capacity is None:
            raise UnsupportedOpError(_NO_END, remedy=_SAY_END)
        columns = [dnp.zeros((self.capacity, *shape), dtype=dtype) for shape, dtype in types]
        return replace(self, like=like, columns=tuple(columns))

    def pushed(self, item: Any) -> NestedList:
        """The list with one element more, whose data is of the shapes that the others have."""
        made, leaves = self.of(item, leaf_types(item)), item.leaves()
        if len(leaves) != len(made.columns):
            return replace(self, like=item, columns=(), count=dnp.add(self.count, np.int32(1)))
        columns = [
            lax.dynamic_update_index_in_dim(column, leaf, self.count, 0)
            for column, leaf in zip(made.columns, leaves, strict=True)
        ]
        return replace(made, columns=tuple(columns), count=dnp.add(self.count, np.int32(1)))

    def popped(self) -> tuple[NestedList, Any]:
        """The list without its last element, and that."""
        if self.like is None:
            raise UnsupportedOpError("an element of a list of lists that nothing is written to.")
        if len(self.columns) != len(self.like.leaves()):
            raise UnsupportedOpError("a list of lists whose elements are made of different parts.")
        count = dnp.subtract(self.count, np.int32(1))
        leaves = [lax.dynamic_index_in_dim(column, count, 0, keepdims=False) for column in self.columns]
        return replace(self, count=count), self.like.with_leaves(leaves)

    def leaves(self) -> list[Tracer]:
        return [*self.columns, self.count]

    def with_leaves(self, leaves: Sequence[Tracer]) -> NestedList:
        return replace(self, columns=tuple(leaves[:-1]), count=leaves[-1])

    def zeros(self) -> NestedList:
        """A list like this one, of zeros."""
        return replace(self, columns=tuple(map(dnp.zeros_like, self.columns)))

    def plus(self, other: NestedList) -> NestedList:
        """The sums of the elements of two lists."""
        if self.like is None or other.like is None:
            return other if self.like is None else self
        return replace(self, columns=tuple(map(dnp.add, self.columns, other.columns)))


def is_empty(value: TensorList | NestedList) -> bool:
    """Whether a list that grows is known to have no elements yet."""
    if isinstance(value, NestedList):
        return value.like is None
    return value.count is not None and value.item is None and value.elements is None
