"""Writes of a backward pass: of a hook, or of the backward of a ``torch.autograd.Function``, to buffers and arguments.

The second half of the derivative is given the memory of these tensors as it is when ``backward()`` is called, and gives
it as it leaves it: each backward pass writes it then. As in PyTorch a write happens where the node of autograd's graph
that makes it has a part in the pass, that is, where a result that leads there has a cotangent, and an input that it
leads to is asked for.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any

import torch

from dyn.errors import NotYetError
from dyn.frozen import record
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.regions import Needs
from dyn.interop.torch.tensors import Origin, Storage
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


@record()
class WritingNode:
    """A node of autograd's graph that writes: results that lead to it, and inputs that it leads to, by their places."""

    results: frozenset[int]
    inputs: frozenset[int]

    def takes_part(self, given: Set[int], asked: Set[int]) -> bool:
        """Return True if it runs where these results have cotangents, and these inputs are asked for."""
        return not self.results.isdisjoint(given) and not self.inputs.isdisjoint(asked)


@record()
class BackwardWrite:
    """A write to the tensor from ``origin``, whose axes lie in memory in ``order``, by some nodes."""

    origin: Origin
    order: Order | None
    nodes: tuple[WritingNode, ...]

    def happens(self, given: Set[int], asked: Set[int]) -> bool:
        """Return True if a pass writes. Raises NotYetError where some of the nodes have a part in it, and not all."""
        parts = {node.takes_part(given, asked) for node in self.nodes}
        if len(parts) > 1:
            raise NotYetError(
                "a backward pass of a part of a compiled function's results or inputs, where several hooks or backward "
                "functions write one tensor, and only some of them have a part in it.",
                loc=user_loc(),
                remedy="have each write a tensor of its own, or call the function itself.",
            )
        return parts == {True}

    def memory(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as it lies in memory."""
        plain = tensor.detach()
        return plain if self.order is None else plain.permute(self.order)


class Writers:
    """The nodes of autograd's graph that write each of some memories, found as cotangents are pulled."""

    def __init__(self, written: Sequence[Storage]) -> None:
        self._written = written
        self._versions: list[int] = []
        self._nodes: list[list[Any]] = [[] for _ in written]

    @contextlib.contextmanager
    def found_among(self, nodes: Iterable[Any]) -> Iterator[None]:
        """Find those of ``nodes``, while cotangents are pulled."""
        if not self._written:
            yield
            return
        self._versions = [storage.version for storage in self._written]
        handles = [node.register_hook(functools.partial(self._note, node)) for node in nodes]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _note(self, node: Any, *cotangents: Any) -> None:
        for number, storage in enumerate(self._written):
            if storage.version != self._versions[number]:
                self._versions[number] = storage.version
                self._nodes[number].append(node)

    def writes(self, reached: Sequence[set[Any]], leading: Any, edges: Sequence[Any]) -> tuple[BackwardWrite, ...]:
        """The writes: ``reached`` has the nodes that each result leads to, and ``leading`` those that a node leads to.

        ``edges`` are the nodes of the inputs.
        """
        found: list[BackwardWrite] = []
        for storage, nodes in zip(self._written, self._nodes, strict=True):
            assert storage.origin is not None, "the function's own memory is not written"
            found.append(BackwardWrite(storage.origin, storage.order, tuple([
                WritingNode(
                    frozenset([number for number, own in enumerate(reached) if node in own]),
                    frozenset([number for number, edge in enumerate(edges) if edge in leading(node)]),
                )
                for node in nodes
            ])))  # fmt: skip
        return tuple(found)

    @property
    def nodes(self) -> set[Any]:
        return {node for nodes in self._nodes for node in nodes}


@contextlib.contextmanager
def writing(tracing: TorchTracing, needs: Needs, memory: Sequence[Tracer]) -> Iterator[None]:
    """Pull cotangents in the region that is being traced, in which the memory that is written has these elements.

    Ends the region where it writes other memory, which it needs then. Raises NotYetError where that is the function's.
    """
    with tracing.scope() as scope:
        for storage, value in zip(needs.written, memory, strict=True):
            scope.note_write(storage)
            storage.put(value)
        yield
        written = [storage for storage in scope.written if storage not in needs.written]
        if any(storage.origin is None for storage in written):
            raise NotYetError(
                "a backward pass that writes to a tensor which the function itself has computed.",
                loc=user_loc(),
                remedy="write to a buffer, or to a clone() of it.",
            )
        if written:
            needs.again(written=written)


def asked_for(node: Any) -> frozenset[int]:
    """The inputs of a node, by their places, that the backward pass at hand needs cotangents of."""
    return frozenset([number for number, (edge, _) in enumerate(node.next_functions) if _is_asked_for(edge)])


def _is_asked_for(node: Any) -> bool:
    if node is None:
        return False
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:  # a leaf among the inputs of autograd.grad, of which PyTorch says so
        return True
