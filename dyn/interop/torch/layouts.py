"""Layouts: how the elements of a tensor lie in memory, apart from its sizes.

A program is traced for a layout of each argument, and not for strides: of all tensors that lie in rows, or with
channels last, or in rows that something stands between, one program is made. What PyTorch asks of strides (is this
dense? can it be viewed so?) has one answer for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from dyn.errors import ShapeError
from dyn.frozen import record
from dyn.shapes import Dim, Symbol, dim_max, evaluate, free_symbols

#: The axes of a tensor by their strides, greatest first: ``(0, 2, 3, 1)`` is channels last.
Order = tuple[int, ...]

#: How an axis follows on those of lesser stride: at once, after a gap, or not at all, each of its elements the same.
Link = Literal["joined", "gap", "repeated"]


@record()
class TensorLayout:
    """The order of a tensor's axes in memory (None for rows), and how each is linked to the next one.

    ``links`` is by axis; None where all are joined, and the elements lie one after the other.
    """

    order: Order | None = None
    links: tuple[Link, ...] | None = None

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie one after the other."""
        return self.links is None

    def describe(self) -> str:
        """``rows``, ``rows with gaps``, ``its axes in the order 0, 2, 1``, in words."""
        text = "rows" if self.order is None else f"its axes in the order {', '.join(map(str, self.order))}"
        links = [] if self.links is None else self.links
        told = [word for link, word in (("gap", "with gaps"), ("repeated", "with elements repeated")) if link in links]
        return " ".join([text, *told])

    def strides(self, dims: Sequence[Dim]) -> list[Dim]:
        """Strides, in elements, of a tensor of this layout. Gaps are one element wide, for want of knowing better."""
        strides: list[Dim] = [0] * len(dims)
        stride: Dim = 1
        for axis in reversed(self.order or range(len(dims))):
            link = "joined" if self.links is None else self.links[axis]
            if link == "repeated":
                continue
            if link == "gap":
                stride = stride + 1
            strides[axis] = stride
            stride = stride * dim_max(dims[axis], 1)
        return strides


def order_of(dims: Sequence[Dim], strides: Sequence[Dim]) -> Order | None:
    """The order in which elements of these strides lie one after the other; rows where they do not.

    Sizes of 0 count as 1 in strides that PyTorch makes, and as 0 in products that users write.
    """
    left, order = list(range(len(dims))), list[int]()
    stride: Dim = 1
    written: Dim = 1
    while left:
        axis = next((axis for axis in reversed(left) if strides[axis] in (stride, written)), None)
        if axis is None:
            return None
        left.remove(axis)
        order.insert(0, axis)
        stride, written = stride * dim_max(dims[axis], 1), written * dims[axis]
    return None if order == list(range(len(dims))) else tuple(order)


def order_by_size(strides: Sequence[Dim]) -> Order | None:
    """The order of axes by their strides, for sizes of which none is 0 or 1; rows where sizes do not go together."""
    symbols = sorted(frozenset[Symbol]().union(*map(free_symbols, strides)), key=str)
    try:
        numbers = [evaluate(stride, {symbol: 1009 + 2 * i for i, symbol in enumerate(symbols)}) for stride in strides]
    except ShapeError:
        return None
    order = tuple(sorted(range(len(numbers)), key=lambda axis: -numbers[axis]))
    return None if order == tuple(range(len(order))) else order


ROWS = TensorLayout()
_CHANNELS_LAST = {
    4: (torch.channels_last, TensorLayout((0, 2, 3, 1))),
    5: (torch.channels_last_3d, TensorLayout((0, 2, 3, 4, 1))),
}


def layout_of(tensor: torch.Tensor) -> TensorLayout:
    """The layout of a tensor. An axis of size 1 may have any stride: it counts as joined, and rows are preferred."""
    if tensor.is_contiguous():
        return ROWS
    named = _CHANNELS_LAST.get(tensor.ndim)
    if named is not None and tensor.is_contiguous(memory_format=named[0]):
        return named[1]
    sizes, strides = tensor.shape, tensor.stride()
    # Repeated axes stay where they are, as where PyTorch orders the axes of a result.
    ranked = iter(sorted([axis for axis, stride in enumerate(strides) if stride], key=lambda axis: -strides[axis]))
    axes = [next(ranked) if stride else axis for axis, stride in enumerate(strides)]
    links: list[Any] = ["joined"] * len(axes)
    expected = 1
    for axis in reversed(axes):
        if sizes[axis] == 1:
            continue
        if strides[axis] == 0:
            links[axis] = "repeated"
            continue
        if strides[axis] != expected:
            links[axis] = "gap"
        expected = strides[axis] * sizes[axis]
    order = None if axes == list(range(len(axes))) else tuple(axes)
    return TensorLayout(order, None if links.count("joined") == len(links) else tuple(links))
