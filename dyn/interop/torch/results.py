"""The results of a trace, collected: what a PyTorch function returns and writes, as a program's results and a plan."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import SUPPORTED_NODES, keystr, tree_flatten

import dyn.numpy as dnp
from dyn.errors import NotYetError
from dyn.frontend.outputs import Outputs
from dyn.interop.torch.attributes import is_plain, own_names
from dyn.interop.torch.gradients import Differentiable, Given, differentiated, is_spent
from dyn.interop.torch.hidden_arguments import ClosureGradient, Hidden, HiddenState
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.objects import SIMPLE, content, holds, leaf_paths
from dyn.interop.torch.return_plans import (
    Again,
    Change,
    Container,
    Either,
    MadeObject,
    Number,
    Plain,
    Returned,
    ReturnedEither,
    ReturnedSize,
    ReturnedTensor,
    ReturnPlan,
    TensorWrite,
    Tree,
    ViewAtSizes,
)
from dyn.interop.torch.sizes import SYMBOLIC, ValueNode, as_dyn
from dyn.interop.torch.subclasses import is_wrapper, parts_of
from dyn.interop.torch.tensors import Storage, TensorRecord, ViewCall, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import user_loc
from dyn.trace.joint_function import FirstHalf
from dyn.trace.split_linearization import Half
from dyn.trace.tracer import Tracer


class TorchOutputs(Outputs[ReturnPlan], FirstHalf):
    """The results of a program with the plan for them, whose derivative's residuals may be taken from another one."""

    __slots__ = ()

    @property
    def half(self) -> Half | None:
        derivative = self.plan.derivative
        return None if derivative is None or derivative.half is None else derivative.half.half

    def without_residuals(self) -> Any:
        derivative = self.plan.derivative
        return self.results if derivative is None else self.results[: derivative.first_residual]

    def with_half_of(self, other: Any) -> TorchOutputs | None:
        own, its = self.plan.derivative, other.plan.derivative
        if own is None or its is None or self.plan.writes != other.plan.writes:
            return None
        derivative = own.with_half_of(its)
        return None if derivative is None else TorchOutputs(replace(self.plan, derivative=derivative), other.results)


class Collector:
    """Collects the results of a trace, each once, and makes the plan for them."""

    def __init__(self, tracing: TorchTracing, arguments: Sequence[Given]) -> None:
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
    ) -> TorchOutputs:  # fmt: skip
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
        self._count_sources((returned, *[new for _, new in contents]))
        result = self._tree(returned, f"{name}() returns", returned)
        changes = [
            Change(target, self._tree(one, f"{name}() changes {_described(target)}", one)) for target, one in contents
        ]
        writes = [self._write(one.tensor, one.is_recorded) for one in self.arguments]
        writes += [self._write(made, False) for _, made in self.tracing.captured.values()]
        spent: list[int] = []
        if any(isinstance(one, ClosureGradient) for one in hidden.hidden):  # it may have called backward()
            spent += [number for number, one in self._differentiable.items() if is_spent(one.tensor)]
        for number in spent:
            del self._differentiable[number]
        leaves = [one.leaf for one in self.arguments]
        derivative = differentiated(self.tracing, name, leaves, self._differentiable, self.results)
        captured = tuple([tensor for tensor, _ in self.tracing.captured.values()])
        written = {(one.kind, one.number): one for one in writes if one is not None}
        plan = ReturnPlan(
            result, tuple(changes), captured, tuple(written.values()), derivative, tuple(spent), hidden.count
        )
        return TorchOutputs(plan, self.results)

    @staticmethod
    def _content(container: Any) -> Any:
        """Contents of a changed container, as :func:`fill` takes them."""
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
            if isinstance(leaf, Either):
                self._count((leaf.yes, leaf.no))
            elif isinstance(leaf, FakeTensor):
                storage = id(record_of(leaf).storage)
                self._shared[storage] = self._shared.get(storage, 0) + 1
            elif self._is_made(leaf) and id(leaf) not in self._objects:
                self._objects[id(leaf)] = leaf
                self._count(dict(own_names(leaf)))

    def _count_sources(self, trees: Any) -> None:
        """Count memories that are returned, and that other returned tensors are views of at some sizes."""
        for leaf in tree_flatten(trees, is_leaf=self._is_leaf)[0]:
            view = record_of(leaf).storage.maybe_of if isinstance(leaf, FakeTensor) else None
            while view is not None:
                storage = view.source.storage
                if id(storage) in self._shared:
                    self._shared[id(storage)] += 1
                view = storage.maybe_of

    def _is_made(self, leaf: Any) -> bool:
        """Whether a leaf is an object that has to be made at each call: it has tensors of the trace."""
        if type(leaf) in SIMPLE or id(leaf) in self._containers or isinstance(leaf, torch.Tensor | Either):
            return False
        return is_plain(type(leaf)) and (id(leaf) in self._objects or holds(leaf, self._is_own))

    def _is_own(self, value: Any) -> bool:
        return self.tracing.is_own(value) or id(value) in self._containers

    def _tree(self, tree: Any, where: str, root: Any) -> Tree:
        leaves, spec = tree_flatten(tree, is_leaf=self._is_leaf)
        return Tree(spec, tuple([self._returned(leaf, where, root) for leaf in leaves]))

    def _write(self, tensor: FakeTensor, is_recorded: bool) -> TensorWrite | None:
        """The write to a tensor from outside; None where there is none."""
        record = record_of(tensor).root
        storage = record.storage
        if not storage.version or storage.origin is None:
            return None
        number = self._result(record.value, id(storage) if is_recorded else None)
        if is_recorded:
            self._differentiable[number] = Differentiable(tensor, None)
        return TensorWrite(*storage.origin, number, is_recorded)

    def _result(self, value: Tracer, memory: int | None = None) -> int:
        key = value.value_in(self.tracing.trace), memory
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.results)
            self.results.append(value)
        return number

    def _returned(self, leaf: Any, where: str, root: Any) -> Returned:
        if isinstance(leaf, FakeTensor):
            if leaf.retains_grad:  # other results are not computed of it: the gradients of a call are one step
                raise NotYetError(
                    f"{where} a tensor of which it retains the gradient.",
                    loc=user_loc(),
                    remedy="compute from it outside, or ask for the gradient by torch.autograd.grad.",
                )
            return self._tensor(leaf, record_of(leaf))
        if isinstance(leaf, Either):
            truth = self._result(record_of(leaf.truth).value)
            ways = [self._returned(one, where, root) for one in (leaf.yes, leaf.no)]
            return ReturnedEither(truth, *ways)
        number = self._containers.get(id(leaf))
        if number is not None:
            return Container(number)
        if isinstance(leaf, torch.Size):
            return ReturnedSize(tuple([self._number(size) for size in leaf]))
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
            return MadeObject(number, type(leaf), self._tree(dict(own_names(leaf)), where, root))
        if holds(leaf, self._is_own):
            paths = [path for path, one in zip(leaf_paths(root), tree_flatten(root)[0], strict=True) if one is leaf]
            at = f"[...]{keystr(paths[0])}" if paths else "part of it"
            raise NotYetError(
                f"{where} an object that holds tensors and is no tree: {at} is a {type(leaf).__name__}.",
                loc=user_loc(),
                remedy="register its class by torch.utils._pytree.register_pytree_node, or return the tensors.",
            )
        return Plain(leaf)

    def _tensor(self, leaf: Any, record: TensorRecord) -> ReturnedTensor:
        storage = record.storage
        if storage.origin is not None:
            return ReturnedTensor(*storage.origin, None, self._calls(record))
        if self._shared[id(storage)] > 1:
            whole = leaf if leaf._base is None else leaf._base
            number = self._memory(whole, storage.value, storage.order, storage)
            return ReturnedTensor("result", number, storage.order, self._calls(record), self._at_sizes(record))
        if leaf.fake_device != self.tracing.device:
            raise NotYetError(
                f"{self.name}() returns or leaves a tensor on {leaf.fake_device} that it has computed on "
                f"{self.tracing.device}.",
                loc=user_loc(),
                remedy=f"return it on {self.tracing.device}, and call .to({str(leaf.fake_device)!r}) of that.",
            )
        # It alone is returned of its memory: no more is computed than it needs.
        value, order = record.value, record.order
        memory = value if order is None else dnp.transpose(value, order)
        number = self._memory(leaf, memory, order, storage)
        return ReturnedTensor("result", number, order, (), self._at_sizes(record))

    def _at_sizes(self, record: TensorRecord) -> ViewAtSizes | None:
        """The view that a copy is at some sizes, of a memory that the caller sees; None where it never is."""
        view = record.storage.maybe_of
        if view is None:
            return None
        storage = view.source.storage
        source: ReturnedTensor | ViewAtSizes | None
        if storage.origin is not None:
            source = ReturnedTensor(*storage.origin, None, self._calls(view.source))
        elif id(storage) in self._shared:
            number = self._result(storage.value, id(storage))
            source = ReturnedTensor("result", number, storage.order, self._calls(view.source))
        else:
            source = self._at_sizes(view.source)
        if source is None:
            return None
        sizes = None if view.sizes is None else self._arguments(view.sizes)
        return ViewAtSizes(source, view.memory_format, sizes, self._calls(record))

    def _memory(self, tensor: Any, value: Tracer, order: Order | None, storage: Storage) -> int:
        """The number of the result that is a tensor's memory. What has other memory is another result."""
        number = self._result(value, id(storage))
        if tensor.requires_grad:
            self._differentiable[number] = Differentiable(tensor, order)
        return number

    def _calls(self, record: TensorRecord) -> tuple[ViewCall, ...]:
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


def _is_leaf_beside(containers: Mapping[int, int], value: Any) -> bool:
    # PyTorch makes plain tuples of the Sizes in a tree.
    return isinstance(value, torch.Size) or id(value) in containers
