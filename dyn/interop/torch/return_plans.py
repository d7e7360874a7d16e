"""Plans: how the results of a program become what a PyTorch function returns, and what it has written and changed."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from dyn.call import ABSENT
from dyn.errors import UnsupportedOpError
from dyn.frozen import record
from dyn.interop.torch.attributes import own_names
from dyn.interop.torch.gradients import BackwardProgram
from dyn.interop.torch.hidden_arguments import Hidden
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.objects import fill
from dyn.interop.torch.tensors import ViewCall, inverse
from dyn.source import user_loc


@record()
class ReturnedTensor:
    """A returned tensor: views, made by ``calls`` one of the other, of the memory of ``base``.

    ``base`` is the number of an argument, of a captured tensor or of a result; the axes of a result lie in memory in
    ``order``. Sizes among the calls' arguments are :class:`Number`. Where a call's sizes make it the view ``at_sizes``,
    it is that.
    """

    kind: Literal["argument", "captured", "result"]
    base: int
    order: Order | None = None
    calls: tuple[ViewCall, ...] = ()
    at_sizes: ViewAtSizes | None = None


@record()
class ViewAtSizes:
    """A view of ``source`` at sizes for which that is contiguous in ``memory_format``, and has a view of ``sizes``,
    where these are said; ``calls`` lead on from there. Otherwise there is none: PyTorch makes a copy."""

    source: ReturnedTensor | ViewAtSizes
    memory_format: torch.memory_format | None
    sizes: tuple[Any, ...] | None
    calls: tuple[ViewCall, ...]


@record()
class Number:
    """A returned size, or a float or bool computed of sizes: result ``number``, of a Python type."""

    number: int
    type: type


@record()
class ReturnedSize:
    """A returned ``torch.Size``."""

    sizes: tuple[int | Number, ...]


@record()
class Plain:
    """Anything else that is returned, as it was when the function was traced."""

    value: Any


@record()
class Container:
    """A container of the arguments, as the caller has it: a list, a dict or an object, by number."""

    number: int


@record()
class Tree:
    """A tree of PyTorch's with these leaves."""

    tree: TreeSpec
    leaves: tuple[Returned, ...]


@record()
class MadeObject:
    """An object that the function has made, of a class and attributes by name: object ``number`` of a call."""

    number: int
    kind: type
    attributes: Tree


@record()
class Again:
    """An object that stands elsewhere, too: :class:`MadeObject` ``number``."""

    number: int


@record()
class ReturnedEither:
    """A leaf that is ``yes`` or ``no`` by the truth value that is result ``truth``: an argument, say, or computed."""

    truth: int
    yes: Returned
    no: Returned


Returned = ReturnedTensor | Number | ReturnedSize | Plain | Container | MadeObject | Again | ReturnedEither


@record(eq=False)
class Either:
    """In a trace a leaf of what the function returns that is ``yes`` or ``no`` by ``truth``, a traced tensor."""

    truth: Any
    yes: Any
    no: Any


@record()
class Change:
    """A change that a function makes: all that container ``target`` of the arguments has, some attributes of an object
    from outside, of which those that are ABSENT are deleted, or a gradient."""

    target: int | weakref.ref[Any] | Hidden
    content: Tree


class _PlanExecution:
    """The objects of a plan's execution: a program's results, arguments and their containers, and the objects made."""

    def __init__(
        self, results: Sequence[Any], arguments: Sequence[torch.Tensor], containers: Callable[[], Sequence[Any]]
    ) -> None:
        self.results, self.arguments = results, arguments
        self._list = containers
        self._containers: Sequence[Any] | None = None
        self.made: dict[int, Any] = {}

    def container(self, number: int) -> Any:
        if self._containers is None:
            self._containers = self._list()
        return self._containers[number]


def _none() -> Sequence[Any]:
    return ()


@record()
class TensorWrite:
    """A tensor that is written, by its number among arguments or captured ones, and the result that it gets.

    ``is_recorded`` where autograd has recorded it: gradients flow through what was written.
    """

    kind: Literal["argument", "captured"]
    number: int
    result: int
    is_recorded: bool


class OverlapError(UnsupportedOpError):
    """A tensor that is written shares memory with another one. Nothing has been written."""


@record(eq=False)
class ReturnPlan:
    """The way from a program's results to what a function returns and writes.

    ``captured`` has the tensors that the function closes over; ``derivative`` is None where no result has a gradient;
    ``changes`` are those of lists, dicts, attributes and gradients. Of ``spent`` results the function has called
    ``backward()`` itself. The last ``hidden`` arguments are gradients and numbers that it finds by itself.
    """

    result: Tree
    changes: tuple[Change, ...]
    captured: tuple[torch.Tensor, ...]
    writes: tuple[TensorWrite, ...]
    derivative: BackwardProgram | None
    spent: tuple[int, ...]
    hidden: int

    def finish(
        self, results: Sequence[Any], arguments: Sequence[torch.Tensor],
        containers: Callable[[], Sequence[Any]] = _none,
    ) -> Any:  # fmt: skip
        """The function's result, once what it writes is written, and what it changes of ``containers``, the
        arguments' own, is changed.

        Raises OverlapError where a tensor that is written shares memory with another: nothing is written then.
        """
        if self.writes:
            self._write(results, arguments)
        call = _PlanExecution(results, arguments, containers)
        returned = self._tree(self.result, call)
        contents = [self._tree(change.content, call) for change in self.changes]
        for change, new in zip(self.changes, contents, strict=True):
            self._change(change, new, call)
        return returned

    @property
    def is_of_results(self) -> bool:
        """Whether what is returned follows from results alone, and nothing is changed."""
        return not self.changes and not any(isinstance(one, Container) for one in _leaves(self.result))

    @staticmethod
    def _change(change: Change, new: Any, call: _PlanExecution) -> None:
        if isinstance(change.target, int):
            fill(call.container(change.target), new)
            return
        if isinstance(change.target, Hidden):
            change.target.set(new)
            return
        target = change.target()
        if target is not None:
            own = own_names(target)
            for name, value in new.items():
                if value is ABSENT:
                    own.pop(name, None)
                else:
                    own[name] = value

    def _tree(self, tree: Tree, call: _PlanExecution) -> Any:
        return tree_unflatten([self._made(one, call) for one in tree.leaves], tree.tree)

    @property
    def has_objects(self) -> bool:
        """Whether anything but tensors, numbers and what was there before is returned or changed."""
        return bool(self.changes) or any(isinstance(one, Container | MadeObject | Again) for one in self.result.leaves)

    def memories(self, returned: Any, numbers: Sequence[int]) -> list[torch.Tensor]:
        """Results of these numbers, from what the function as it is returned: tensors that have all of a memory.

        It must not return objects.
        """
        leaves = tree_flatten(returned, is_leaf=_is_size)[0]
        found: dict[int, torch.Tensor] = {}
        for one, leaf in zip(self.result.leaves, leaves, strict=True):
            if isinstance(one, ReturnedTensor) and one.kind == "result":
                whole = leaf._base if one.calls and leaf._base is not None else leaf
                found.setdefault(one.base, whole if one.order is None else whole.permute(one.order))
        return [found[number] for number in numbers]

    def _write(self, results: Sequence[Any], arguments: Sequence[torch.Tensor]) -> None:
        sources = {"argument": arguments, "captured": self.captured}
        targets = [sources[write.kind][write.number] for write in self.writes]
        # One that is an argument twice is one in the trace, too; one that is also captured is not.
        given = {id(tensor): tensor for tensor in arguments}
        shared = _shared(targets, [*given.values(), *self.captured])
        if shared is not None:
            target, other = shared
            raise OverlapError(
                f"the function writes to {self._named(target, arguments)}, "
                + (
                    "which it also closes over."
                    if other is target
                    else f"which shares memory with {self._named(other, arguments)}."
                ),
                loc=user_loc(),
                remedy="pass a clone() of one of them.",
            )
        for target, write in zip(targets, self.writes, strict=True):
            with contextlib.nullcontext() if write.is_recorded else torch.no_grad():
                target.copy_(results[write.result])

    def _named(self, tensor: torch.Tensor, arguments: Sequence[torch.Tensor]) -> str:
        number = next((number for number, other in enumerate(arguments) if other is tensor), None)
        if number is None:
            what = "a tensor that it closes over"
        elif number < len(arguments) - self.hidden:
            what = f"tensor {number} of its arguments"
        else:
            what = "a gradient of a tensor that it closes over"
        return f"{what} (of shape {tuple(tensor.shape)})"

    def _view(self, view: ViewAtSizes, call: _PlanExecution) -> torch.Tensor | None:
        """The view that a result is at the sizes of a call; None where PyTorch makes a copy."""
        source = view.source
        made = self._made(source, call) if isinstance(source, ReturnedTensor) else self._view(source, call)
        if made is None:
            return None
        if view.memory_format is not None and not made.is_contiguous(memory_format=view.memory_format):
            return None
        if view.sizes is not None:
            try:
                made = made.view(_numbers(view.sizes, call.results))
            except RuntimeError:
                return None
        return _viewed(made, view.calls, call.results)

    def _made(self, one: Returned, call: _PlanExecution) -> Any:
        results = call.results
        match one:
            case ReturnedTensor(kind, base, order, calls):
                view = None if one.at_sizes is None else self._view(one.at_sizes, call)
                if view is not None:
                    return view
                sources = {"argument": call.arguments, "captured": self.captured, "result": results}
                made = sources[kind][base]
                return _viewed(made if order is None else made.permute(inverse(order)), calls, results)
            case ReturnedSize(sizes):
                return torch.Size(_numbers(sizes, results))
            case Plain(value):
                return value
            case ReturnedEither(truth, yes, no):
                return self._made(yes if results[truth].item() else no, call)
            case Number():
                return _numbers(one, results)
            case Container(number):
                return call.container(number)
            case Again(number):
                return call.made[number]
            case MadeObject(number, kind, attributes):
                made = call.made[number] = object.__new__(kind)
                own_names(made).update(self._tree(attributes, call))
                return made


def _viewed(made: torch.Tensor, calls: Sequence[ViewCall], results: Sequence[Any]) -> torch.Tensor:
    """The view of a tensor that operations lead to, one after the other."""
    for view in calls:
        made = view.func(made, *_numbers(view.rest, results), **_numbers(view.named, results))
        made = made if view.number is None else made[view.number]
    return made


def _leaves(tree: Tree) -> Iterator[Returned]:
    """The leaves of a tree, and those of the objects in it."""
    for leaf in tree.leaves:
        yield leaf
        if isinstance(leaf, MadeObject):
            yield from _leaves(leaf.attributes)


def _numbers(given: Any, results: Sequence[Any]) -> Any:
    """Arguments of an operation with results in the place of numbers."""
    if isinstance(given, Number):
        return given.type(results[given.number].item())
    if isinstance(given, list | tuple):
        return [_numbers(one, results) for one in given]
    if isinstance(given, dict):
        return {name: _numbers(one, results) for name, one in given.items()}
    return given


def _is_size(value: Any) -> bool:
    return isinstance(value, torch.Size)


def _shared(
    written: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """A tensor of several that is written and another with which it may share an element; None where there is none.

    Known by the first and last byte of each, in the order of memory.
    """
    targets = {id(tensor) for tensor in written}
    spans = sorted([
        (tensor.data_ptr(), tensor.data_ptr() + _bytes(tensor), number, tensor)
        for number, tensor in enumerate(tensors)
        if tensor.numel()
    ])  # fmt: skip
    #: Those that reach farthest, of all and of the written ones.
    farthest: tuple[int, torch.Tensor] | None = None
    farthest_written: tuple[int, torch.Tensor] | None = None
    for start, end, _, tensor in spans:
        is_written = id(tensor) in targets
        before = farthest if is_written else farthest_written
        if before is not None and start < before[0]:
            return (before[1], tensor) if id(before[1]) in targets else (tensor, before[1])
        if farthest is None or end > farthest[0]:
            farthest = end, tensor
        if is_written and (farthest_written is None or end > farthest_written[0]):
            farthest_written = end, tensor
    return None


def _bytes(tensor: torch.Tensor) -> int:
    """The bytes from a tensor's first element to its last."""
    if tensor.is_contiguous():
        return tensor.numel() * tensor.element_size()
    places = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (places + 1) * tensor.element_size()
