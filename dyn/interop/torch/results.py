"""From the results of a program to what a PyTorch function returns and what it has written."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import SUPPORTED_NODES, TreeSpec, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten

import dyn.numpy as dnp
from dyn.call import ABSENT
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.interop.torch.attributes import is_plain, own_names
from dyn.interop.torch.gradients import Derivative, Differentiable, Given, differentiated, is_spent
from dyn.interop.torch.hidden import Gradient, Hidden, HiddenState
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.objects import SIMPLE, content, fill, holds
from dyn.interop.torch.sizes import SYMBOLIC, ValueNode, as_dyn
from dyn.interop.torch.subclasses import is_wrapper, parts_of
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


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the arguments, as the caller has it: a list, a dict or an object, by number."""

    number: int


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of PyTorch's with these leaves."""

    tree: TreeSpec
    leaves: tuple[Returned, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """An object that the function has made, of a class and attributes by name: object ``number`` of a call."""

    number: int
    kind: type
    attributes: Tree


@dataclass(frozen=True, slots=True)
class Again:
    """An object that stands elsewhere, too: :class:`Made` ``number``."""

    number: int


Returned = Tensor | Number | Sizes | Plain | Container | Made | Again


@dataclass(frozen=True, slots=True)
class Change:
    """What a function changes: all that container ``target`` of the arguments has, some attributes of an object from
    outside, of which those that are ABSENT are deleted, or a gradient."""

    target: int | weakref.ref[Any] | Hidden
    content: Tree


class _Call:
    """What a plan is carried out with: a program's results, arguments and their containers, and the objects made."""

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


@dataclass(frozen=True, slots=True)
class Write:
    """A tensor that is written, by its number among arguments or captured ones, and the result that it gets.

    ``is_recorded`` where autograd has recorded it: gradients flow through what was written.
    """

    kind: Literal["argument", "captured"]
    number: int
    result: int
    is_recorded: bool


class OverlapError(UnsupportedOpError):
    """A tensor that is written shares memory with another one. Nothing has been written."""


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """What a function returns of a program's results, and what it writes.

    ``captured`` has the tensors that the function closes over; ``derivative`` is None where no result has a gradient;
    ``changes`` are those of lists, dicts, attributes and gradients. Of ``spent`` results the function has called
    ``backward()`` itself. The last ``hidden`` arguments are gradients and numbers that it finds by itself.
    """

    result: Tree
    changes: tuple[Change, ...]
    captured: tuple[torch.Tensor, ...]
    writes: tuple[Write, ...]
    derivative: Derivative | None
    spent: tuple[int, ...]
    hidden: int

    def finish(
        self, results: Sequence[Any], arguments: Sequence[torch.Tensor],
        containers: Callable[[], Sequence[Any]] = _none,
    ) -> Any:  # fmt: skip
        """What the function returns, once what it writes is written, and what it changes of ``containers``, the
        arguments' own, is changed.

        Raises OverlapError where a tensor that is written shares memory with another: nothing is written then.
        """
        if self.writes:
            self._write(results, arguments)
        call = _Call(results, arguments, containers)
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
    def _change(change: Change, new: Any, call: _Call) -> None:
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

    def _tree(self, tree: Tree, call: _Call) -> Any:
        return tree_unflatten([self._made(one, call) for one in tree.leaves], tree.tree)

    @property
    def has_objects(self) -> bool:
        """Whether anything but tensors, numbers and what was there before is returned or changed."""
        return bool(self.changes) or any(isinstance(one, Container | Made | Again) for one in self.result.leaves)

    def memories(self, returned: Any, numbers: Sequence[int]) -> list[torch.Tensor]:
        """Results of these numbers, from what the function as it is returned: tensors that have all of a memory.

        It must not return objects.
        """
        leaves = tree_flatten(returned, is_leaf=_is_size)[0]
        found: dict[int, torch.Tensor] = {}
        for one, leaf in zip(self.result.leaves, leaves, strict=True):
            if isinstance(one, Tensor) and one.kind == "result":
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

    def _made(self, one: Returned, call: _Call) -> Any:
        results = call.results
        match one:
            case Tensor(kind, base, order, calls):
                sources = {"argument": call.arguments, "captured": self.captured, "result": results}
                made = sources[kind][base]
                if order is not None:
                    made = made.permute(inverse(order))
                for view in calls:
                    made = view.func(made, *_numbers(view.rest, results), **_numbers(view.named, results))
                    made = made if view.number is None else made[view.number]
                return made
            case Sizes(sizes):
                return torch.Size(_numbers(sizes, results))
            case Plain(value):
                return value
            case Number():
                return _numbers(one, results)
            case Container(number):
                return call.container(number)
            case Again(number):
                return call.made[number]
            case Made(number, kind, attributes):
                made = call.made[number] = object.__new__(kind)
                own_names(made).update(self._tree(attributes, call))
                return made


def _leaves(tree: Tree) -> Iterator[Returned]:
    """The leaves of a tree, and those of the objects in it."""
    for leaf in tree.leaves:
        yield leaf
        if isinstance(leaf, Made):
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


def _is_leaf_beside(containers: Mapping[int, int], value: Any) -> bool:
    # PyTorch makes plain tuples of the Sizes in a tree.
    return isinstance(value, torch.Size) or id(value) in containers


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


class Outputs:
    """The results of a program with the plan for them: a tree of dyn's, whose structure the plan is part of."""

    __slots__ = ("plan", "results")

    def __init__(self, plan: Plan, results: Sequence[Any]) -> None:
        self.plan, self.results = plan, results


register_node(Outputs, lambda node: (node.results, node.plan), lambda plan, results: Outputs(plan, list(results)))


class Collector:
    """Collects the results of a trace, each once, and makes the plan for them."""

    def __init__(self, tracing: Tracing, arguments: Sequence[Given]) -> None:
        self.tracing, self.arguments = tracing, arguments
        self.results: list[Tracer] = []
        self._numbers: dict[Any, int] = {}
        #: The tensors that autograd knows of among those that are results, by the numbers of these.
        self._differentiable: dict[int, Differentiable] = {}
        self.name = ""
        #: The numbers of the arguments' containers, and how often each memory is returned, by identity.
        self._containers: dict[int, int] = {}
        self._shared: dict[int, int] = {}
        #: The objects that are made at each call, and their numbers.
        self._objects: dict[int, Any] = {}
        self._numbered: dict[int, int] = {}

    def collect(
        self, returned: Any, name: str, containers: Sequence[Any] = (), changed: Sequence[int] = (),
        outside: Sequence[tuple[Any, dict[str, Any]]] = (), hidden: HiddenState | None = None,
    ) -> Outputs:  # fmt: skip
        """The results and the plan for what the function of that name returned, and for what it ``changed``: of
        ``containers``, those of its arguments, these numbers, attributes of objects ``outside``, and gradients, which
        with the rest of ``hidden`` state are its last arguments."""
        hidden = HiddenState() if hidden is None else hidden
        self.name = name
        self._containers = {id(one): number for number, one in enumerate(containers)}
        contents: list[tuple[int | weakref.ref[Any] | Hidden, Any]] = [
            (number, self._content(containers[number])) for number in changed
        ]
        contents += [(weakref.ref(owner), names) for owner, names in outside]
        contents += hidden.left
        for tree in (returned, *[new for _, new in contents]):
            self._count(tree)
        result = self._tree(returned, f"{name}() returns", returned)
        changes = [
            Change(target, self._tree(one, f"{name}() changes {_described(target)}", one)) for target, one in contents
        ]
        writes = [self._write(one.tensor, one.is_recorded) for one in self.arguments]
        writes += [self._write(made, False) for _, made in self.tracing.captured.values()]
        spent: list[int] = []
        if any(isinstance(one, Gradient) for one in hidden.hidden):  # it may have called backward()
            spent += [number for number, one in self._differentiable.items() if is_spent(one.tensor)]
        for number in spent:
            del self._differentiable[number]
        leaves = [one.leaf for one in self.arguments]
        derivative = differentiated(self.tracing, name, leaves, self._differentiable, self.results)
        captured = tuple([tensor for tensor, _ in self.tracing.captured.values()])
        written = {(one.kind, one.number): one for one in writes if one is not None}
        plan = Plan(result, tuple(changes), captured, tuple(written.values()), derivative, tuple(spent), hidden.count)
        return Outputs(plan, self.results)

    @staticmethod
    def _content(container: Any) -> Any:
        """What a changed container has, as :func:`fill` takes it."""
        kind = type(container)
        if kind in SUPPORTED_NODES and kind is not list and not isinstance(container, dict):
            return dict(own_names(container))
        if (
            isinstance(container, dict)
            and kind in SUPPORTED_NODES
            and kind.__module__ not in ("builtins", "collections")
        ):
            raise NotYetError(
                f"a change of an argument of type {kind.__name__}.", loc=user_loc(), remedy="return what is new of it."
            )
        return content(container)

    @property
    def _is_leaf(self) -> Callable[[Any], bool]:
        """Whether something is a leaf: PyTorch's walk of trees is a cycle of references, and must not hold tensors."""
        return functools.partial(_is_leaf_beside, self._containers)

    def _count(self, tree: Any) -> None:
        """Count the tensors that share memory."""
        for leaf in tree_flatten(tree, is_leaf=self._is_leaf)[0]:
            if isinstance(leaf, FakeTensor):
                storage = id(record_of(leaf).storage)
                self._shared[storage] = self._shared.get(storage, 0) + 1
            elif self._is_made(leaf) and id(leaf) not in self._objects:
                self._objects[id(leaf)] = leaf
                self._count(dict(own_names(leaf)))

    def _is_made(self, leaf: Any) -> bool:
        """Whether a leaf is an object that has to be made at each call: it has tensors of the trace."""
        if type(leaf) in SIMPLE or id(leaf) in self._containers or isinstance(leaf, torch.Tensor):
            return False
        return is_plain(type(leaf)) and (id(leaf) in self._objects or holds(leaf, self._is_own))

    def _is_own(self, value: Any) -> bool:
        return self.tracing.is_own(value) or id(value) in self._containers

    def _tree(self, tree: Any, where: str, root: Any) -> Tree:
        leaves, spec = tree_flatten(tree, is_leaf=self._is_leaf)
        return Tree(spec, tuple([self._returned(leaf, where, root) for leaf in leaves]))

    def _write(self, tensor: FakeTensor, is_recorded: bool) -> Write | None:
        """How a tensor from outside is written; None where it is not."""
        record = record_of(tensor).root
        storage = record.storage
        if not storage.version or storage.origin is None:
            return None
        number = self._result(record.value, id(storage) if is_recorded else None)
        if is_recorded:
            self._differentiable[number] = Differentiable(tensor, None)
        return Write(*storage.origin, number, is_recorded)

    def _result(self, value: Tracer, memory: int | None = None) -> int:
        key = value.value_in(self.tracing.trace), memory
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.results)
            self.results.append(value)
        return number

    def _returned(self, leaf: Any, where: str, root: Any) -> Returned:
        if isinstance(leaf, FakeTensor):
            return self._tensor(leaf, record_of(leaf))
        number = self._containers.get(id(leaf))
        if number is not None:
            return Container(number)
        if isinstance(leaf, torch.Size):
            return Sizes(tuple([self._number(size) for size in leaf]))
        if isinstance(leaf, SYMBOLIC):
            return self._number(leaf)
        if isinstance(leaf, torch.Tensor) and is_wrapper(leaf) and any(map(self.tracing.is_own, parts_of(leaf))):
            raise NotYetError(
                f"{where} a tensor of the class {type(leaf).__name__}.",
                loc=user_loc(),
                remedy="return the tensors inside of it.",
            )
        if type(leaf) in SIMPLE or isinstance(leaf, torch.Tensor):
            return Plain(leaf)
        if id(leaf) in self._numbered:
            return Again(self._numbered[id(leaf)])
        if self._is_made(leaf):
            number = self._numbered[id(leaf)] = len(self._numbered)
            return Made(number, type(leaf), self._tree(dict(own_names(leaf)), where, root))
        if holds(leaf, self._is_own):
            paths = [path for path, one in tree_flatten_with_path(root)[0] if one is leaf]
            at = f"[...]{keystr(paths[0])}" if paths else "part of it"
            raise NotYetError(
                f"{where} an object that holds tensors and is no tree: {at} is a {type(leaf).__name__}.",
                loc=user_loc(),
                remedy="register its class by torch.utils._pytree.register_pytree_node, or return the tensors.",
            )
        return Plain(leaf)

    def _tensor(self, leaf: Any, record: Record) -> Tensor:
        storage = record.storage
        if storage.origin is not None:
            return Tensor(*storage.origin, None, self._calls(record))
        if self._shared[id(storage)] > 1:
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


def _described(target: int | weakref.ref[Any] | Hidden) -> str:
    if isinstance(target, Hidden):
        return "a gradient, to"
    return "an argument, to" if isinstance(target, int) else f"attributes of {type(target()).__name__}, to"
