"""Windows of a gather or a scatter: StableHLO's dimension numbers for both, under one set of names.

A gather reads windows of an array, a scatter writes them; ``windows`` below is the gather's result or the scatter's
updates. Its axes are of two sorts: those that run inside of a window, and *batch* axes, which number the windows. Where
a window starts is said by the *start indices*, in one of two forms: one array with an axis of components
(``index_vector_dim``), or, with ``index_vector_dim`` equal to their rank, an array for each component.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.opdef import Attrs, ScalarBuilder, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.scalar import Scalar
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]
Index = tuple[Dim, ...]
_GREATEST = 2**63 - 1


@record()
class Windows:
    """The dimension numbers of one gather or scatter. ``rank`` is that of the array that the windows lie in."""

    rank: int
    #: Axes of ``windows`` that run inside of a window: ``offset_dims``, ``update_window_dims``.
    window_dims: tuple[int, ...]
    #: Axes of the array that a window has one element of and ``windows`` no axis for.
    dropped: tuple[int, ...]
    #: Axes of the array that go with batch axes, and the axes of the start indices that those are.
    batching: tuple[int, ...]
    start_batching: tuple[int, ...]
    #: The axis of the array that each component of a start index is a place on.
    start_map: tuple[int, ...]
    vector_dim: int
    #: Whether components below 0 count from the end of their axis, as Python's indices do. StableHLO's do not.
    wrap: bool

    @staticmethod
    def of_gather(attrs: Attrs, rank: int) -> Windows:
        return Windows(
            rank, attrs["offset_dims"], attrs["collapsed_slice_dims"], attrs["operand_batching_dims"],
            attrs["start_indices_batching_dims"], attrs["start_index_map"], attrs["index_vector_dim"],
            attrs.get("wrap", False),
        )  # fmt: skip

    @staticmethod
    def of_scatter(attrs: Attrs, rank: int) -> Windows:
        return Windows(
            rank, attrs["update_window_dims"], attrs["inserted_window_dims"], attrs["input_batching_dims"],
            attrs["scatter_indices_batching_dims"], attrs["scatter_dims_to_operand_dims"], attrs["index_vector_dim"],
            attrs.get("wrap", False),
        )  # fmt: skip

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the array that ``window_dims`` run along, in order."""
        return tuple(a for a in range(self.rank) if a not in self.dropped and a not in self.batching)

    def batch_axes(self, rank: int) -> tuple[int, ...]:
        """The axes of ``windows``, of that rank, that number the windows."""
        return tuple(a for a in range(rank) if a not in self.window_dims)

    def batch_shape(self, start: TensorType) -> tuple[Dim, ...]:
        """Number of windows along each batch axis."""
        return tuple(d for axis, d in enumerate(start.shape) if axis != self.vector_dim)

    def batch_position(self, axis: int) -> int:
        """Number of the batch axis that an axis of the start indices is."""
        return axis - (axis > self.vector_dim)

    # What must hold ---------------------------------------------------------------------------------------------

    def check(self, ctx: TypeContext, x: TensorType, starts: Sequence[TensorType]) -> None:
        """Refuse dimension numbers that do not go together, and start indices that are not integers of one shape."""
        if not starts:
            raise ctx.fail("there are no start indices")
        first = starts[0]
        for start in starts:
            if not start.dtype.is_integer:
                raise ctx.unsupported(
                    f"indices are {start.dtype.name}, not integers", "convert them with .astype('int32')"
                )
            if start.rank != first.rank:
                raise ctx.fail(f"start indices have ranks {first.rank} and {start.rank}")
            for axis, (a, b) in enumerate(zip(first.shape, start.shape, strict=True)):
                ctx.require(RelKind.EQ, a, b, f"start indices agree on axis {axis}")
        self._check_components(ctx, first, len(starts))
        rank = len(self.batch_shape(first)) + len(self.window_dims)
        for name, axes, limit in (
            ("window axes", self.window_dims, rank), ("dropped axes", self.dropped, x.rank),
            ("batching axes", self.batching, x.rank), ("batched axes", self.start_batching, first.rank),
            ("mapped axes", self.start_map, x.rank),
        ):  # fmt: skip
            if len(set(axes)) != len(axes) or any(not 0 <= a < limit for a in axes):
                raise ctx.fail(f"the {name} {axes} are not distinct axes of an array of rank {limit}")
        both = {*self.dropped} & {*self.batching} | {*self.start_map} & {*self.batching}
        if both:
            raise ctx.fail(f"axes {sorted(both)} are batching axes and dropped or mapped as well")
        if list(self.window_dims) != sorted(self.window_dims) or len(self.window_dims) != len(self.axes):
            raise ctx.fail(f"the window axes {self.window_dims} do not stand, in order, for axes {self.axes} of {x}")
        if len(self.batching) != len(self.start_batching) or self.vector_dim in self.start_batching:
            raise ctx.fail(f"the batching axes {self.batching} do not go with {self.start_batching} of {first}")
        for axis, start_axis in zip(self.batching, self.start_batching, strict=True):
            text = f"batching axis {axis} has an element for each start index"
            ctx.require(RelKind.EQ, x.shape[axis], first.shape[start_axis], text)

    def _check_components(self, ctx: TypeContext, first: TensorType, count: int) -> None:
        if not 0 <= self.vector_dim <= first.rank:
            raise ctx.fail(f"index_vector_dim {self.vector_dim} is not an axis of {first}")
        wanted = len(self.start_map)
        if self.vector_dim == first.rank:
            if count != wanted:
                raise ctx.fail(f"{count} start indices are given for {wanted} mapped axes")
        elif count != 1:
            raise ctx.fail(f"{count} start indices are given, and index_vector_dim says that one holds all components")
        else:
            ctx.require(RelKind.EQ, first.shape[self.vector_dim], wanted, "a start index has a component a mapped axis")

    # Scalar code ------------------------------------------------------------------------------------------------

    def start_place(self, start_rank: int, batch: Index, component: int) -> tuple[int, Index]:
        """Number of the start index array that has a component of the window at a batch index, and the place in it."""
        if self.vector_dim == start_rank:
            return component, batch
        return 0, (*batch[: self.vector_dim], component, *batch[self.vector_dim :])

    def counted(self, k: ScalarBuilder, value: Any, dtype: DType, size: Dim) -> Any:
        """A component as an int64 counted from the front of an axis of that size; it may lie outside."""
        value = as_int64(k, value, dtype)
        if not self.wrap or dtype.kind is dtypes.Kind.UINT:
            return value
        from_end = k.apply(Scalar.ADD, [value, k.index(dtypes.int64, size)], dtypes.int64)
        negative = k.apply(Scalar.LT, [value, k.const(dtypes.int64, 0)], dtypes.bool_)
        return k.apply(Scalar.SELECT, [negative, from_end, value], dtypes.int64)

    # NumPy ------------------------------------------------------------------------------------------------------

    def starts(self, arrays: Sequence[Array], shape: tuple[int, ...]) -> list[Array]:
        """Each component for every window, counted from the front of its axis; ``shape`` is the array's."""
        if self.vector_dim == arrays[0].ndim:
            parts = list(arrays)
        else:
            parts = [np.take(arrays[0], i, axis=self.vector_dim) for i in range(len(self.start_map))]
        counted: list[Array] = []
        for part, axis in zip(parts, self.start_map, strict=True):
            whole = np.asarray(np.minimum(part, _GREATEST) if part.dtype == np.uint64 else part).astype(np.int64)
            counted.append(np.where(whole < 0, whole + shape[axis], whole) if self.wrap else whole)
        return counted

    def places(self, starts: Sequence[Array], windows: tuple[int, ...]) -> tuple[Array, ...]:
        """Index in the array of each element of ``windows``, which has that shape: an index array an axis."""
        numbers = list(np.indices(windows, sparse=True))
        batch = self.batch_axes(len(windows))
        places: list[Array] = [np.zeros((1,) * len(windows), np.int64)] * self.rank
        for axis, dim in zip(self.axes, self.window_dims, strict=True):
            places[axis] = numbers[dim]
        for axis, start_axis in zip(self.batching, self.start_batching, strict=True):
            places[axis] = numbers[batch[self.batch_position(start_axis)]]
        for start, axis in zip(starts, self.start_map, strict=True):
            places[axis] = places[axis] + start.reshape(
                [1 if a in self.window_dims else n for a, n in enumerate(windows)]
            )
        return tuple(np.broadcast_to(place, windows) for place in places)


def as_int64(k: ScalarBuilder, value: Any, dtype: DType) -> Any:
    """An index of any integer dtype as an int64: what that does not have is outside of any axis, on the same side."""
    if dtype is dtypes.uint64:
        value = k.apply(Scalar.MIN, [value, k.const(dtype, _GREATEST)], dtype)
    return value if dtype is dtypes.int64 else k.apply(Scalar.CAST, [value], dtypes.int64)


def clamped(k: ScalarBuilder, value: Any, last: Dim) -> Any:
    """An int64 brought into [0, last], where there is such a place."""
    value = k.apply(Scalar.MIN, [value, k.index(dtypes.int64, last)], dtypes.int64)
    return k.apply(Scalar.MAX, [value, k.const(dtypes.int64, 0)], dtypes.int64)
