"""From the results of a program to what a PyTorch function returns and what it has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

import dyn.numpy as dnp
from dyn.errors import UnsupportedOpError
from dyn.interop.torch.gradients import Derivative, Differentiable, differentiated
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.sizes import SYMBOLIC, ValueNode, as_dyn
from dyn.interop.torch.tensors import Record, Storage, ViewCall, inverse, record_of
from dyn.interop.torch.tracing import Tracing
from dyn.source import user_loc
from dyn.trace.pytree import register_node
from dyn.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Tensor:
    """A returned tensor: views, made by ``calls`` one of the other, of the memory of ``base``.

    ``base`` is the number of an argument, of a captured tensor or of a result; the axes of a result lie in memory in
    ``order``. Sizes among the calls' arguments are :class:`Number`.
    """

    kind: Literal["argument", "captured", "result"]
    base: int
    order: Order | None = None
    calls: tuple[ViewCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Number:
    """A returned size, or a float or bool computed of sizes: result ``number``, of a Python type."""

    number: int
    type: type


@dataclass(frozen=True, slots=True)
class Sizes:
    """A returned ``torch.Size``."""

    sizes: tuple[int | Number, ...]


@dataclass(frozen=True, slots=True)
class Plain:
    """Anything else that is returned, as it was when the function was traced."""

    value: Any


Returned = Tensor | Number | Sizes | Plain


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """What a function returns of a program's results, and what it writes: pairs of a tensor and a result's number.

    ``captured`` has the tensors that the function closes over; ``derivative`` is None where no result has a gradient.
    """

    tree: TreeSpec
    returned: tuple[Returned, ...]
    captured: tuple[torch.Tensor, ...]
    to_arguments: tuple[tuple[int, int], ...]
    to_captured: tuple[tuple[int, int], ...]
    derivative: Derivative | None

    def finish(self, results: Sequence[Any], arguments: Sequence[torch.Tensor]) -> Any:
        """What the function returns, once what it writes is written.

        Raises UnsupportedOpError where a tensor that is written shares memory with another: nothing is written then.
        """
        if self.to_arguments or self.to_captured:
            self._write(results, arguments)
        return tree_unflatten([self._made(one, results, arguments) for one in self.returned], self.tree)

    def _write(self, results: Sequence[Any], arguments: Sequence[torch.Tensor]) -> None:
        pairs = [(arguments[number], results[result]) for number, result in self.to_arguments]
        pairs += [(self.captured[number], results[result]) for number, result in self.to_captured]
        for target, _ in pairs:
            for other in (*arguments, *self.captured):
                if other is not target and _overlap(target, other):
                    raise UnsupportedOpError(
                        f"the function writes to {self._named(target, arguments)}, "
                        f"which shares memory with {self._named(other, arguments)}.",
                        loc=user_loc(),
                        remedy="pass a clone() of one of them.",
                    )
        with torch.no_grad():
            for target, value in pairs:
                target.copy_(value)

    def _named(self, tensor: torch.Tensor, arguments: Sequence[torch.Tensor]) -> str:
        number = next((number for number, other in enumerate(arguments) if other is tensor), None)
        what = "a tensor that it closes over" if number is None else f"tensor {number} of its arguments"
        return f"{what} (of shape {tuple(tensor.shape)})"

    def _made(self, one: Returned, results: Sequence[Any], arguments: Sequence[torch.Tensor]) -> Any:
        match one:
            case Tensor(kind, base, order, calls):
                sources = {"argument": arguments, "captured": self.captured, "result": results}
                made = sources[kind][base]
                if order is not None:
                    made = made.permute(inverse(order))
                for call in calls:
                    made = call.func(made, *_numbers(call.rest, results), **_numbers(call.named, results))
                    made = made if call.number is None else made[call.number]
                return made
            case Sizes(sizes):
                return torch.Size(_numbers(sizes, results))
            case Plain(value):
                return value
            case Number():
                return _numbers(one, results)


def _numbers(given: Any, results: Sequence[Any]) -> Any:
    """Arguments of an operation with results in the place of numbers."""
    if isinstance(given, Number):
        return given.type(results[given.number].item())
    if isinstance(given, list | tuple):
        return [_numbers(one, results) for one in given]
    if isinstance(given, dict):
        return {name: _numbers(one, results) for name, one in given.items()}
    return given


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors may share an element: by the first and last byte of each."""
    if not a.numel() or not b.numel():
        return False
    start, other = a.data_ptr(), b.data_ptr()
    return start < other + _span(b) and other < start + _span(a)


def _span(tensor: torch.Tensor) -> int:
    """The bytes from a tensor's first element to its last."""
    places = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (places + 1) * tensor.element_size()


class Outputs:
    """The results of a program with the plan for them: a tree of dyn's, whose structure the plan is part of."""

    __slots__ = ("plan", "results")

    def __init__(self, plan: Plan, results: Sequence[Any]) -> None:
        self.plan, self.results = plan, results


register_node(Outputs, lambda node: (node.results, node.plan), lambda plan, results: Outputs(plan, list(results)))


class Collector:
    """Collects the results of a trace, each once, and makes the plan for them."""

    def __init__(self, tracing: Tracing, arguments: Sequence[FakeTensor]) -> None:
        self.tracing, self.arguments = tracing, arguments
        self.results: list[Tracer] = []
        self._numbers: dict[Any, int] = {}
        #: The tensors that autograd knows of among those that are results, by the numbers of these.
        self._differentiable: dict[int, Differentiable] = {}

    def collect(self, returned_tree: Any, name: str) -> Outputs:
        """The results and the plan for what the function of that name returned."""
        # PyTorch makes plain tuples of the Sizes in a tree.
        leaves, tree = tree_flatten(returned_tree, is_leaf=lambda value: isinstance(value, torch.Size))
        shared: dict[int, int] = {}
        for leaf in leaves:
            if isinstance(leaf, FakeTensor):
                storage = id(record_of(leaf).storage)
                shared[storage] = shared.get(storage, 0) + 1
        returned = [self._returned(leaf, shared) for leaf in leaves]
        derivative = differentiated(self.tracing, name, self.arguments, self._differentiable, self.results)
        captured = list(self.tracing.captured.values())
        plan = Plan(
            tree,
            tuple(returned),
            tuple([tensor for tensor, _ in captured]),
            self._written(self.arguments),
            self._written([made for _, made in captured]),
            derivative,
        )
        return Outputs(plan, self.results)

    def _written(self, given: Sequence[FakeTensor]) -> tuple[tuple[int, int], ...]:
        """The numbers of the tensors that are written, each with that of the result that it gets."""
        written = {
            record.storage.origin[1]: self._result(record.root.value)
            for record in map(record_of, given)
            if record.storage.version and record.storage.origin is not None
        }
        return tuple(written.items())

    def _result(self, value: Tracer, memory: int | None = None) -> int:
        key = value.value_in(self.tracing.trace), memory
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.results)
            self.results.append(value)
        return number

    def _returned(self, leaf: Any, shared: dict[int, int]) -> Returned:
        if isinstance(leaf, FakeTensor):
            return self._tensor(leaf, record_of(leaf), shared)
        if isinstance(leaf, torch.Size):
            return Sizes(tuple([self._number(size) for size in leaf]))
        return self._number(leaf) if isinstance(leaf, SYMBOLIC) else Plain(leaf)

    def _tensor(self, leaf: Any, record: Record, shared: dict[int, int]) -> Tensor:
        storage = record.storage
        if storage.origin is not None:
            return Tensor(*storage.origin, None, self._calls(record))
        if shared[id(storage)] > 1:
            whole = leaf if leaf._base is None else leaf._base
            number = self._memory(whole, storage.value, storage.order, storage)
            return Tensor("result", number, storage.order, self._calls(record))
        # It alone is returned of its memory: no more is computed than it needs.
        value, order = record.value, record.order
        memory = value if order is None else dnp.transpose(value, order)
        return Tensor("result", self._memory(leaf, memory, order, storage), order)

    def _memory(self, tensor: Any, value: Tracer, order: Order | None, storage: Storage) -> int:
        """The number of the result that is a tensor's memory. What has other memory is another result."""
        number = self._result(value, id(storage))
        if tensor.requires_grad:
            self._differentiable[number] = Differentiable(tensor, order)
        return number

    def _calls(self, record: Record) -> tuple[ViewCall, ...]:
        """The operations that lead from the memory of a tensor to it; the sizes that they take are results."""
        if record.parent is None or record.call is None:
            return ()
        call = record.call
        rest, named = self._arguments(call.rest), self._arguments(call.named)
        return (*self._calls(record.parent), ViewCall(call.func, rest, named, call.number))

    def _arguments(self, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return tuple([self._arguments(one) for one in given])
        if isinstance(given, dict):
            return {name: self._arguments(one) for name, one in given.items()}
        return self._number(given) if isinstance(given, SYMBOLIC) else given

    def _number(self, number: Any) -> Any:
        """A number, or what a symbolic one is read from."""
        known = number.node.constant if isinstance(number, SYMBOLIC) else number
        if known is not None:
            return known
        kind = int if isinstance(number, torch.SymInt) else float
        if isinstance(number, torch.SymBool):
            node = cast(Any, number.node)
            return Number(self._result(node.truth), bool) if isinstance(node, ValueNode) else node.guard_bool()
        return Number(self._result(dnp.asarray(as_dyn(self.tracing.trace, number))), kind)
