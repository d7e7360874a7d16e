"""Order in memory of results that PyTorch computes element by element: the rule of its ``TensorIterator``.

The operands are asked in their order which of two axes is the outer one: the first that repeats its elements along
neither of them knows (``TensorIterator.cpp``, ``reorder_dimensions``). Sizes are symbols here. Which of two strides is
greater is the same for all sizes of 2 and more, and where a size is 1 nobody sees it; but an operand whose size of 1 is
repeated does not answer. Whether it is, is asked of the sizes, where it makes a difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor

from dyn.errors import ShapeError
from dyn.interop.sizes import conditions
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.sizes import as_dim
from dyn.interop.torch.sym_nodes import Environment
from dyn.interop.torch.tensors import record_of
from dyn.shapes import Dim, RelKind, Symbol, evaluate, free_symbols
from dyn.trace.context import Trace

#: What is asked of sizes here is asked by the operation that the user calls.
ASKS_FOR_OTHERS = True

#: So many ways in which sizes may be broadcast are looked at; where there are more, the sizes are asked for.
_MOST_WAYS = 81


def iteration_order(operands: Sequence[Any]) -> Order | None:
    """The order of axes of a result of these operands, of which those that are traced tensors count; None for rows."""
    tensors = [one for one in operands if isinstance(one, FakeTensor)]
    rank = max([tensor.ndim for tensor in tensors], default=0)
    records = [record_of(tensor) for tensor in tensors]
    if rank < 2 or all(one.order is None and one.is_dense for one in records):
        return None
    first = records[0]
    if all(one.is_dense and one.order == first.order and one.value.dims == first.value.dims for one in records):
        return first.order
    trace = _environment(tensors[0]).trace
    iterated = _Iterated(trace, tensors, rank)
    undecided = iterated.undecided()
    orders = {iterated.order(way) for way in iterated.ways(undecided)}
    if len(orders) > 1:
        orders = {iterated.order({axis: _whole_sizes(trace, sizes) for axis, sizes in undecided.items()})}
    return orders.pop()


def _whole_sizes(trace: Trace, sizes: Sequence[Dim]) -> frozenset[Dim]:
    """The sizes of an axis that are the whole one: all, where only the running program knows them."""
    is_known = all(free_symbols(size) <= trace.sizes.keys() for size in sizes)
    return decide_axis(trace, sizes) if is_known else frozenset(sizes)


def decide_axis(trace: Trace, sizes: Sequence[Dim]) -> frozenset[Dim]:
    """The sizes, of an axis that operands are broadcast along, that are the whole one: others are 1, and repeated.

    It is asked of this call's sizes.
    """
    whole: Dim = sizes[0]
    wholes = [whole]
    for size in sizes[1:]:
        # One that is 1 beside another is repeated also where the other is 1: no question whether they are equal.
        here, other = _here(trace, size), _here(trace, whole)
        if here == 1 and other not in (1, None) and conditions.decide(conditions.equal(size, 1), trace):
            continue
        if other == 1 and here not in (1, None) and conditions.decide(conditions.equal(whole, 1), trace):
            whole, wholes = size, [size]
            continue
        if conditions.decide(conditions.equal(size, whole), trace):
            wholes.append(size)
        elif conditions.decide(conditions.equal(whole, 1), trace):
            whole, wholes = size, [size]
        else:
            trace.demand(RelKind.EQ, size, 1, "operands are broadcast together")
    return frozenset(wholes)


def _here(trace: Trace, dim: Dim) -> int | None:
    """A size in this call; None where nobody knows."""
    try:
        return evaluate(dim, trace.program.sizes)
    except (KeyError, ShapeError):
        return None


def open_sizes(trace: Trace, sizes: Iterable[Dim]) -> list[Dim]:
    """The different sizes of an axis that operands are broadcast along, without those that are known to be 1."""
    found: list[Dim] = []
    for size in sizes:
        if conditions.known(conditions.equal(size, 1), trace) is True:
            continue
        if not any(conditions.known(conditions.equal(size, other), trace) is True for other in found):
            found.append(size)
    return found


def _environment(tensor: FakeTensor) -> Environment:
    made: Any = tensor.fake_mode.shape_env
    return made


class _Iterated:
    """Operands that are broadcast together, with sizes and strides for which none is 0 or 1 by chance."""

    def __init__(self, trace: Trace, tensors: Sequence[Any], rank: int) -> None:
        self.trace, self.rank = trace, rank
        #: Sizes and strides of each operand, by axes of the result; None for those that it has not.
        self.sizes = [_aligned(tensor.shape, rank) for tensor in tensors]
        strides = [_aligned(tensor.stride(), rank) for tensor in tensors]
        number = _numbers([dim for row in (*self.sizes, *strides) for dim in row if dim is not None])
        self._strides = [[None if dim is None else number(dim) for dim in row] for row in strides]
        self._number = number

    def undecided(self) -> dict[int, list[Dim]]:
        """The sizes on axes of which nobody knows yet which of them are repeated, by axis."""
        columns = [[row[axis] for row in self.sizes] for axis in range(self.rank)]
        found = [open_sizes(self.trace, [dim for dim in column if dim is not None]) for column in columns]
        return {axis: sizes for axis, sizes in enumerate(found) if len(sizes) > 1}

    def ways(self, undecided: dict[int, list[Dim]]) -> Iterable[dict[int, frozenset[Dim]]]:
        """For each axis that is undecided the sizes that may be the whole one, in all combinations."""
        choices = [
            [frozenset(chosen) for count in range(len(sizes), 0, -1) for chosen in itertools.combinations(sizes, count)]
            for sizes in undecided.values()
        ]
        combined = itertools.islice(itertools.product(*choices), _MOST_WAYS)
        return [dict(zip(undecided, chosen, strict=True)) for chosen in combined]

    def order(self, wholes: dict[int, frozenset[Dim]]) -> Order | None:
        """The order where these sizes are the whole ones of axes that are broadcast."""
        shape = [self._size(axis, wholes) for axis in range(self.rank)]
        strides = [
            [0 if self._is_repeated(row[axis], axis, shape, wholes) else own[axis] or 0 for axis in range(self.rank)]
            for row, own in zip(self.sizes, self._strides, strict=True)
        ]
        order = tuple(reversed(_innermost_first(shape, strides)))
        return None if order == tuple(range(self.rank)) else order

    def _size(self, axis: int, wholes: dict[int, frozenset[Dim]]) -> int:
        column = [row[axis] for row in self.sizes]
        given = wholes.get(axis) or frozenset(open_sizes(self.trace, [dim for dim in column if dim is not None]))
        return max([self._number(dim) for dim in given], default=1)

    def _is_repeated(
        self, size: Dim | None, axis: int, shape: Sequence[int], wholes: dict[int, frozenset[Dim]]
    ) -> bool:
        if size is None:
            return True
        if conditions.known(conditions.equal(size, 1), self.trace) is True:
            return shape[axis] != 1
        own = wholes.get(axis)
        if own is None or size in own:
            return False
        return not any(conditions.known(conditions.equal(size, one), self.trace) is True for one in own)


def _aligned(dims: Sequence[Any], rank: int) -> list[Dim | None]:
    return [*[None] * (rank - len(dims)), *map(as_dim, dims)]


def _numbers(dims: Sequence[Dim]) -> Callable[[Dim], int]:
    """A function from dims to numbers, of sizes that are great, and different where they may be."""
    symbols = sorted(frozenset[Symbol]().union(*map(free_symbols, dims)), key=str)
    different = {symbol: 1009 + 2 * i for i, symbol in enumerate(symbols)}
    equal = dict.fromkeys(symbols, 1009)
    try:
        for dim in dims:
            evaluate(dim, different)
    except ShapeError:  # sizes that go together: of a broadcast, or of a quotient
        return lambda dim: _evaluated(dim, equal)
    return lambda dim: evaluate(dim, different)


def _evaluated(dim: Dim, sizes: dict[Symbol, int]) -> int:
    try:
        return evaluate(dim, sizes)
    except ShapeError:
        return 1


def _innermost_first(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[int]:
    """Axes from the innermost to the outermost, by PyTorch's insertion sort, whose comparison may be undecided."""
    order = list(range(len(shape)))[::-1]
    for i in range(1, len(order)):
        moved = i
        for inner in range(i - 1, -1, -1):
            outcome = _compared(order[inner], order[moved], shape, strides)
            if outcome > 0:
                order[inner], order[moved] = order[moved], order[inner]
                moved = inner
            elif outcome < 0:
                break
    return order


def _compared(inner: int, outer: int, shape: Sequence[int], strides: Sequence[Sequence[int]]) -> int:
    """1 where two axes are to be exchanged, -1 where they stand right, and 0 where no operand can tell."""
    for own in strides:
        if own[inner] == 0 or own[outer] == 0:
            continue
        if own[inner] != own[outer]:
            return -1 if own[inner] < own[outer] else 1
        if shape[inner] > shape[outer]:
            return 1
    return 0
