"""From the results of a program to what a PyTorch function returns and what it has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

import dyn.numpy as dnp
from dyn.interop.torch.sizes import as_dyn
from dyn.interop.torch.tensors import Order, Record, record_of
from dyn.interop.torch.tracing import Tracing
from dyn.trace.pytree import register_node
from dyn.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Whole:
    """A returned tensor that has memory of its own: result ``number``, whose axes lie in memory in ``order``."""

    number: int
    order: Order | None


@dataclass(frozen=True, slots=True)
class Alias:
    """A returned tensor in the memory of argument or result ``base``.

    ``geometry`` has its sizes, strides and offset, each a number or the number of a result, as ``(number,)``; None for
    the base itself.
    """

    base: int
    is_argument: bool
    geometry: tuple[tuple[Any, ...], tuple[Any, ...], Any] | None


@dataclass(frozen=True, slots=True)
class Size:
    """A returned size: result ``number``."""

    number: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """A returned ``torch.Size``: numbers, and numbers of results as ``(number,)``."""

    sizes: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plain:
    """Anything else that is returned, as it was when the function was traced."""

    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """What becomes of the results of a program: what is returned, and what is written to arguments and closed-over
    tensors, each with the number of the result."""

    tree: TreeSpec
    returned: tuple[Whole | Alias | Size | Sizes | Plain, ...]
    to_arguments: tuple[tuple[int, int], ...]
    to_captured: tuple[tuple[torch.Tensor, int], ...]

    def finish(self, results: Sequence[Any], arguments: Sequence[torch.Tensor]) -> Any:
        """What the function returns, once what it writes is written."""
        with torch.no_grad():
            for number, result in self.to_arguments:
                arguments[number].copy_(results[result])
            for tensor, result in self.to_captured:
                tensor.copy_(results[result])
        return tree_unflatten([_made(one, results, arguments) for one in self.returned], self.tree)


class Outputs:
    """The results of a program with the plan for them: a tree of dyn's, whose structure the plan is part of."""

    __slots__ = ("plan", "results")

    def __init__(self, plan: Plan, results: Sequence[Any]) -> None:
        self.plan, self.results = plan, results


register_node(Outputs, lambda node: (node.results, node.plan), lambda plan, results: Outputs(plan, list(results)))


def _made(one: Whole | Alias | Size | Sizes | Plain, results: Sequence[Any], arguments: Sequence[torch.Tensor]) -> Any:
    match one:
        case Whole(number, order):
            result = results[number]
            return result if order is None else result.permute(_inverse(order))
        case Alias(base, is_argument, geometry):
            whole = arguments[base] if is_argument else results[base]
            if geometry is None:
                return whole
            sizes, strides, offset = geometry
            given = [_number(n, results) for n in (*sizes, *strides, offset)]
            rank = len(sizes)
            own = whole.storage_offset() if is_argument else 0
            return whole.as_strided(given[:rank], given[rank:-1], given[-1] + own)
        case Size(number):
            return int(results[number])
        case Sizes(sizes):
            return torch.Size([_number(size, results) for size in sizes])
        case Plain(value):
            return value


def _number(given: Any, results: Sequence[Any]) -> int:
    return int(results[given[0]]) if isinstance(given, tuple) else given


def _inverse(order: Order) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=lambda axis: order[axis]))


class Collector:
    """Collects the results of a trace, each once, and makes the plan for them."""

    def __init__(self, tracing: Tracing, arguments: Sequence[FakeTensor]) -> None:
        self.tracing, self.arguments = tracing, arguments
        self.results: list[Tracer] = []
        self._numbers: dict[Any, int] = {}

    def collect(self, returned_tree: Any) -> Outputs:
        """The results and the plan for what the function returned."""
        # PyTorch makes plain tuples of the Sizes in a tree.
        leaves, tree = tree_flatten(returned_tree, is_leaf=lambda value: isinstance(value, torch.Size))
        shared: dict[int, int] = {}
        for leaf in leaves:
            if isinstance(leaf, FakeTensor):
                storage = id(record_of(leaf).storage)
                shared[storage] = shared.get(storage, 0) + 1
        returned = [self._returned(leaf, shared) for leaf in leaves]
        to_arguments = [
            (number, self._result(record_of(argument).storage.value))
            for number, argument in enumerate(self.arguments)
            if record_of(argument).storage.version
        ]
        to_captured = [
            (tensor, self._result(record_of(made).storage.value))
            for tensor, made in self.tracing.captured.values()
            if record_of(made).storage.version
        ]
        plan = Plan(tree, tuple(returned), tuple(to_arguments), tuple(to_captured))
        return Outputs(plan, self.results)

    def _result(self, value: Tracer) -> int:
        key = value.value_in(self.tracing.trace)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.results)
            self.results.append(value)
        return number

    def _returned(self, leaf: Any, shared: dict[int, int]) -> Whole | Alias | Size | Sizes | Plain:
        if isinstance(leaf, FakeTensor):
            record = record_of(leaf)
            if record.storage.given is not None:
                return Alias(record.storage.given, True, self._geometry(leaf, record))
            if shared[id(record.storage)] > 1:
                base = self._result(record.storage.value)
                return Alias(base, False, self._geometry(leaf, record))
            order = record.order
            value = record.value
            return Whole(self._result(value if order is None else dnp.transpose(value, order)), order)
        if isinstance(leaf, torch.SymInt):
            return Size(self._result(dnp.asarray(as_dyn(self.tracing.trace, leaf))))
        if isinstance(leaf, torch.Size):
            return Sizes(tuple([self._size(size) for size in leaf]))
        return Plain(leaf)

    def _geometry(self, leaf: FakeTensor, record: Record) -> tuple[tuple[Any, ...], tuple[Any, ...], Any] | None:
        if record.parent is None:
            return None
        numbers = [self._size(n) for n in (*leaf.shape, *leaf.stride(), leaf.storage_offset())]
        return tuple(numbers[: leaf.ndim]), tuple(numbers[leaf.ndim : -1]), numbers[-1]

    def _size(self, size: Any) -> Any:
        if isinstance(size, int):
            return size
        return (self._result(dnp.asarray(as_dyn(self.tracing.trace, size))),)
