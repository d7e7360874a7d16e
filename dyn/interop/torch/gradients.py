"""Gradients of compiled functions, by PyTorch's own formulas.

A function that is traced under ``torch.enable_grad()`` leaves a graph of autograd's, as any run of it does. Pulling
cotangents through it once, on traced tensors, writes the second half of the derivative into the same program: what
``torch.no_grad()``, ``detach()``, ``torch.autograd.Function`` and checkpointing mean there is what they mean to
PyTorch. The half becomes a program of its own (:mod:`dyn.trace.split_linearization`), which is given what the first one
keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import CheckpointFunction

import dyn.numpy as dnp
from dyn.backends.runtime import native_runtime
from dyn.frontend.outputs import Source, SplitProgram, picked
from dyn.frozen import record
from dyn.interop.torch.backward_writes import BackwardWrite, Writers, asked_for, writing
from dyn.interop.torch.devices import NO_AUTOCASTS, autocast, common_device
from dyn.interop.torch.hooks import is_users, left_out, reached_from
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.python_effects import refused
from dyn.interop.torch.regions import Needs, left_by, written_out
from dyn.interop.torch.second_derivatives import EagerCall
from dyn.interop.torch.tensors import Origin, Storage, inverse, record_of
from dyn.interop.torch.threads import in_callers_context, limited
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import anchored
from dyn.trace.gradients import Leaves
from dyn.trace.partition import Memory
from dyn.trace.pytree import list_tree
from dyn.trace.split_linearization import Half, second_half
from dyn.trace.tracer import Tracer
from dyn.transforms import SecondHalf


@record()
class Differentiable:
    """A traced tensor whose memory is a result of the program, in ``order``, and that gets a cotangent."""

    tensor: Any
    order: Order | None


@record(eq=False)
class BackwardProgram(SplitProgram):
    """The second half of a program, as PyTorch's autograd calls it.

    There is no ``half`` where PyTorch gives no input a cotangent, though results depend on them: ``norm(x, 0)``.

    ``sources`` has for each input which of ``results`` depend on it, by their place there: one of which none has a
    cotangent gets none, as in PyTorch, where an optimizer leaves it alone. Of inputs that have no sources the half
    gives no cotangents. After those it gives what it leaves in the tensors that it ``writes``, of which it is given the
    memory. Results of the program from ``first_residual`` on are residuals alone. ``places`` has the numbers of
    captured tensors among all captured arrays.
    """

    sources: tuple[frozenset[int], ...]
    memory: Memory
    first_residual: int
    places: tuple[int, ...]
    writes: tuple[BackwardWrite, ...] = ()

    def with_half_of(self, other: BackwardProgram) -> BackwardProgram | None:
        """This derivative by the half and the residuals of another one; None where inputs or results have other places
        there."""
        same = (self.results, self.inputs, self.memory, self.places, self.writes)
        if same != (other.results, other.inputs, other.memory, other.places, other.writes):
            return None
        return replace(self, half=other.half, residuals=other.residuals, first_residual=other.first_residual)

    def attached(
        self, results: Sequence[Any], arguments: Sequence[torch.Tensor], captured: Sequence[torch.Tensor],
        call: EagerCall,
    ) -> list[Any]:  # fmt: skip
        """The results of a call, of which those that depend on the inputs know it."""
        if self.memory == "low":  # what the first half has worked in is not left idle while the second one works
            native_runtime().trim()
        tables = {"argument": arguments, "captured": captured, "result": results}
        residuals, inputs = picked(self.residuals, tables), picked(self.inputs, tables)
        written = picked([one.origin for one in self.writes], tables)
        own = [results[number] for number in self.results]
        made = _CompiledCall.apply(self, call, own, residuals, written, *inputs)
        attached = list(results)
        for number, result in zip(self.results, made, strict=True):
            attached[number] = result
        return attached

    def pull(
        self, residuals: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor | None],
        written: Sequence[torch.Tensor], asked: frozenset[int],
    ) -> Sequence[torch.Tensor | None]:  # fmt: skip
        """The cotangents of the inputs, of which some are ``asked`` for. What the pass writes to ``written`` is then.

        A program is made for which results have a cotangent: zeros are no arrays.
        """
        given = {number for number, one in enumerate(cotangents) if one is not None}
        if self.half is None or not given:
            return [None] * len(self.inputs)
        happening = [one.happens(given, asked) for one in self.writes]
        program = self.half.program_without(frozenset(range(len(cotangents))) - given)
        memories = [write.memory(tensor) for write, tensor in zip(self.writes, written, strict=True)]
        own = [*[one for one in cotangents if one is not None], *memories]
        where = common_device([tensor.device for tensor in (*residuals, *own)])
        with limited():  # numbers of the processor's go along
            pulled = program(tuple([tensor.detach().to(where) for tensor in residuals]), tuple(own))
        if self.memory == "low":
            native_runtime().trim()
        left = pulled[len(pulled) - len(memories) :]
        for memory, new, happens in zip(memories, left, happening, strict=True):
            if happens:
                memory.copy_(new)
        values = iter(pulled)
        found = [next(values) if own else None for own in self.sources]
        if len(given) == len(cotangents):
            return found
        return [None if given.isdisjoint(own) else one for one, own in zip(found, self.sources, strict=True)]


class Given:
    """A traced argument: the ``tensor`` that the function gets, and the ``leaf`` that its gradient is asked of.

    They are one where it is a leaf for the caller, too: others may be written in place, and what is recorded then.
    """

    def __init__(self, tracing: TorchTracing, tensor: Any, is_leaf: bool) -> None:
        self.leaf = tensor
        self.tensor = tensor if is_leaf else _Inner.apply(tracing, tensor)
        self._history = self.tensor.grad_fn

    @property
    def is_recorded(self) -> bool:
        """Whether autograd has recorded a write to it."""
        return self.tensor.grad_fn is not self._history


class _Inner(torch.autograd.Function):
    """A traced tensor as one that is no leaf, of the same memory."""

    @staticmethod
    def forward(ctx: Any, tracing: TorchTracing, leaf: Any) -> Any:
        sizes, strides = leaf.shape, leaf.stride()
        return tracing.maker.made(record_of(leaf), sizes, strides, leaf.dtype, leaf.fake_device)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return None, *cotangents


class _CompiledCall(torch.autograd.Function):
    """The node of autograd's graph that a call of a compiled function is."""

    @staticmethod
    def forward(
        ctx: Any, derivative: BackwardProgram, call: EagerCall, results: list[Any], residuals: list[Any],
        written: list[Any], *inputs: Any,
    ) -> Any:  # fmt: skip
        ctx.derivative, ctx.call, ctx.written = derivative, call, written
        ctx.save_for_backward(*residuals)
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        if torch.is_grad_enabled():
            ctx.call.check()
            return *[None] * 5, *in_callers_context(ctx.call.pulled, cotangents)
        asked = asked_for(ctx) if ctx.written else frozenset[int]()
        pull = ctx.derivative.pull
        return *[None] * 5, *in_callers_context(pull, ctx.saved_tensors, cotangents, ctx.written, asked)


class _Spent(torch.autograd.Function):
    """The node of a result that the function has pulled cotangents through itself, and freed what that takes."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, result: torch.Tensor) -> Any:
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        raise RuntimeError(
            "Trying to backward through the graph a second time: the compiled function has called backward() already."
        )


def spent(result: torch.Tensor) -> torch.Tensor:
    """A result that requires a gradient, as in PyTorch, and whose graph is freed."""
    return _Spent.apply(torch.empty((), requires_grad=True), result)


def is_spent(tensor: torch.Tensor) -> bool:
    """Whether ``backward()`` has been called through a traced tensor, which has freed what a second one takes."""
    nodes, seen = [tensor.grad_fn], set[Any]()
    while nodes:
        node: Any = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        try:
            for name in dir(node):
                if name.startswith("_saved_") or name == "saved_tensors":
                    _ = getattr(node, name)
        except RuntimeError:
            return True
        nodes += [following for following, _ in node.next_functions]
    return False


def differentiated(
    tracing: TorchTracing,
    name: str,
    arguments: Sequence[Any],
    outputs: dict[int, Differentiable],
    results: list[Tracer],
) -> BackwardProgram | None:
    """The derivative of what was traced, whose residuals join ``results``; None where nothing depends on inputs.

    ``outputs`` has the tensors of the results that are differentiable, by the numbers of those.
    """
    if not outputs:
        return None
    origins: list[Origin] = [
        ("argument", number) for number, given in enumerate(arguments) if _is_leaf_input(given, number)
    ]
    leaves = [arguments[number] for _, number in origins]
    for tensor, made in (*tracing.stand_ins.values(), *tracing.captured.values()):
        if tensor.requires_grad:
            origin = record_of(made).storage.origin
            assert origin is not None, "it is from outside of the trace"
            origins.append(origin)
            leaves.append(tensor)
    values = tuple([results[number].value_in(tracing.trace) for number in outputs])
    tensors = [one.tensor for one in outputs.values()]
    reached = [_reached(tensor) for tensor in tensors]
    nodes = set[Any]().union(*reached)
    calls_back = tracing.calls_back or any(map(is_users, nodes))

    def write(needs: Needs) -> tuple[list[Tracer], Half, list[int], Writers, Needs]:
        used: list[int] = []
        writers = Writers(needs.written)

        def run(*given: Tracer) -> Any:
            pairs = zip(outputs.values(), given, strict=False)
            cotangents = [_cotangent(tracing, one, value) for one, value in pairs]
            with (
                refused() if calls_back else nullcontext(), tracing.active(), autocast(NO_AUTOCASTS), anchored(),
                writing(tracing, needs, given[len(outputs) :]), writers.found_among(nodes), left_out(leaves),
            ):  # fmt: skip
                pulled = _pulled(tensors, leaves, cotangents)
                used[:] = [number for number, one in enumerate(pulled) if one is not None]
                return [record_of(tracing.taken(one)).value for one in pulled if one is not None] + left_by(needs)

        memory = tuple([storage.value.value_in(tracing.trace) for storage in needs.written])
        given = Leaves((*values, *memory), list_tree(len(values) + len(memory)), "results")
        kept, half = second_half(tracing.trace, run, name, given, "cotangent", tracing.memory)
        return kept, half, used, writers, needs

    kept, half, used, writers, needs = written_out(tracing, write)
    own, places = len(results), _places(tracing)
    if not used and not needs.written:
        empty = BackwardProgram(None, (), tuple(outputs), tuple(origins), (), tracing.memory, own, places)
        return empty if origins else None
    residuals = _sources(tracing, arguments, results, kept, needs.written)
    ends = [get_gradient_edge(leaf).node for leaf in leaves]
    leading = {node: reached_from(node) for node in writers.nodes}
    numbers = [
        number
        for number, node in enumerate(ends)
        if number in used or any(node in own for own in leading.values())
    ]  # fmt: skip
    edges = [ends[number] for number in numbers]
    sources = [_sources_of(ends[number], reached) if number in used else frozenset[int]() for number in numbers]
    return BackwardProgram(
        SecondHalf(half), tuple(residuals), tuple(outputs), tuple([origins[number] for number in numbers]),
        tuple(sources), tracing.memory, own, places, writers.writes(reached, leading.__getitem__, edges),
    )  # fmt: skip


def _pulled(tensors: list[Any], leaves: list[Any], given: list[Any]) -> Sequence[Any]:
    """The cotangents of leaves; None for those that nothing depends on.

    Checkpoints with ``use_reentrant=True`` pull by themselves, and leave cotangents at the leaves: PyTorch has them do
    so in a ``backward()`` of all leaves only.
    """
    nodes = set[Any]().union(*map(_reached, tensors))
    if not any(getattr(node, "_forward_cls", None) is CheckpointFunction for node in nodes):
        return torch.autograd.grad(tensors, leaves, given, retain_graph=True, allow_unused=True)
    torch.autograd.backward(tensors, given, retain_graph=True)
    pulled = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return pulled


def _reached(tensor: Any) -> set[Any]:
    """The nodes of autograd's graph that a cotangent of a tensor comes to."""
    return reached_from(get_gradient_edge(tensor).node)


def _is_leaf_input(given: Any, number: int) -> bool:
    """Whether argument ``number`` gets a cotangent. The same tensor passed again is the first one."""
    return given.requires_grad and record_of(given).storage.origin == ("argument", number)


def _cotangent(tracing: TorchTracing, one: Differentiable, value: Tracer) -> Any:
    """The traced cotangent of a tensor, from that of its memory."""
    logical = value if one.order is None else dnp.transpose(value, inverse(one.order))
    return tracing.maker.fresh(logical, one.tensor.dtype, one.tensor.device, one.order)


def _sources_of(end: Any, reached: Sequence[set[Any]]) -> frozenset[int]:
    """The results that lead to an input: all of them where only a backward pass within the backward pass comes to it,
    as that of a reentrant checkpoint does."""
    found = frozenset([at for at, own in enumerate(reached) if end in own])
    return found or frozenset(range(len(reached)))


def _places(tracing: TorchTracing) -> tuple[int, ...]:
    """The numbers of captured tensors among the arrays that the program captures."""
    numbers = {id(value): number for number, (value, _, _) in enumerate(tracing.trace.hidden)}
    storages = [record_of(made).storage for _, made in tracing.captured.values()]
    return tuple([numbers[id(one.outside.value_in(tracing.trace))] for one in storages if one.outside is not None])


def _sources(
    tracing: TorchTracing, arguments: Sequence[Any], results: list[Tracer], kept: Sequence[Tracer],
    written: Sequence[Storage],
) -> list[Source]:  # fmt: skip
    """The source of each residual after a call. What is neither given nor a result yet becomes one.

    What is written, now or by a backward pass, is kept as it was: the caller's tensor will have other elements.
    """
    trace = tracing.trace
    found: dict[Any, Source] = {}
    for number, result in enumerate(results):
        found.setdefault(result.value_in(trace), ("result", number))
    given = [record_of(one).storage for one in (*arguments, *[made for _, made in tracing.captured.values()])]
    for storage in given:
        if (
            storage.origin is not None
            and storage.outside is not None
            and not storage.version
            and storage not in written
        ):
            found[storage.outside.value_in(trace)] = storage.origin
    sources: list[Source] = []
    for residual in kept:
        value = residual.value_in(trace)
        if value not in found:
            found[value] = ("result", len(results))
            results.append(residual)
        sources.append(found[value])
    return sources
