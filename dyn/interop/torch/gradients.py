"""Gradients of compiled functions, by PyTorch's own formulas.

A function that is traced under ``torch.enable_grad()`` leaves a graph of autograd's, as any run of it does. Pulling
cotangents through it once, on traced tensors, writes the second half of the derivative into the same program: what
``torch.no_grad()``, ``detach()``, ``torch.autograd.Function`` and checkpointing mean there is what they mean to
PyTorch. The half becomes a program of its own (:mod:`dyn.trace.halves`), which is given what the first one keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

import dyn.numpy as dnp
from dyn.errors import NotYetError
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.tensors import Origin, inverse, record_of
from dyn.interop.torch.tracing import Tracing
from dyn.source import user_loc
from dyn.trace.gradients import Leaves
from dyn.trace.halves import second_half
from dyn.trace.pytree import flatten
from dyn.trace.tracer import Tracer
from dyn.transforms import SecondHalf

#: Where a residual is: an argument or a captured tensor as it is, or a result of the program.
Source = tuple[Literal["argument", "captured", "result"], int]


@dataclass(frozen=True, slots=True)
class Differentiable:
    """A traced tensor whose memory is a result of the program, in ``order``, and that gets a cotangent."""

    tensor: Any
    order: Order | None


@dataclass(frozen=True, eq=False, slots=True)
class Derivative:
    """The second half of a program: the cotangents of ``inputs`` from those of ``results`` and the residuals."""

    half: SecondHalf
    residuals: tuple[Source, ...]
    results: tuple[int, ...]
    inputs: tuple[Origin, ...]

    def attached(
        self, results: Sequence[Any], arguments: Sequence[torch.Tensor], captured: Sequence[torch.Tensor]
    ) -> list[Any]:
        """The results of a call, of which those that depend on the inputs know it."""
        sources = {"argument": arguments, "captured": captured, "result": results}
        residuals = [sources[kind][number] for kind, number in self.residuals]
        inputs = [sources[kind][number] for kind, number in self.inputs]
        made = _Pull.apply(self, [results[number] for number in self.results], residuals, *inputs)
        attached = list(results)
        for number, result in zip(self.results, made, strict=True):
            attached[number] = result
        return attached

    def pull(self, residuals: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The cotangents of the inputs."""
        return self.half.program(tuple([tensor.detach() for tensor in residuals]), tuple(cotangents))


class _Pull(torch.autograd.Function):
    """The node of autograd's graph that a call of a compiled function is."""

    @staticmethod
    def forward(ctx: Any, derivative: Derivative, results: list[Any], residuals: list[Any], *inputs: Any) -> Any:
        ctx.derivative = derivative
        ctx.save_for_backward(*residuals)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        if torch.is_grad_enabled():
            raise NotYetError(
                "a second derivative (create_graph=True) of a function that dyn.interop.torch.jit compiled.",
                loc=user_loc(),
                remedy="call the function itself where second derivatives are needed.",
            )
        return None, None, None, *ctx.derivative.pull(ctx.saved_tensors, cotangents)


def differentiated(
    tracing: Tracing, name: str, arguments: Sequence[Any], outputs: dict[int, Differentiable], results: list[Tracer]
) -> Derivative | None:
    """The derivative of what was traced, whose residuals join ``results``; None where nothing depends on inputs.

    ``outputs`` has the tensors of the results that are differentiable, by the numbers of those.
    """
    if not outputs:
        return None
    origins: list[Origin] = [
        ("argument", number) for number, given in enumerate(arguments) if _is_leaf_input(given, number)
    ]
    leaves = [arguments[number] for _, number in origins]
    for number, (tensor, _) in enumerate(tracing.captured.values()):
        if tensor.requires_grad:
            origins.append(("captured", number))
            leaves.append(tensor)
    used: list[int] = []

    def run(*cotangents: Tracer) -> Any:
        given = [_cotangent(tracing, one, value) for one, value in zip(outputs.values(), cotangents, strict=True)]
        with tracing.active(), torch.autocast("cpu", enabled=False):
            tensors = [one.tensor for one in outputs.values()]
            pulled = torch.autograd.grad(tensors, leaves, given, allow_unused=True)
            used[:] = [number for number, one in enumerate(pulled) if one is not None]
            return [record_of(tracing.taken(one)).value for one in pulled if one is not None]

    values = tuple([results[number].value_in(tracing.trace) for number in outputs])
    given = Leaves(values, flatten([0] * len(values))[1], "results")
    kept, half = second_half(tracing.trace, run, name, given, "cotangent")
    if not used:
        return None
    sources = _sources(tracing, arguments, results, kept)
    return Derivative(SecondHalf(half), tuple(sources), tuple(outputs), tuple([origins[number] for number in used]))


def _is_leaf_input(given: Any, number: int) -> bool:
    """Whether argument ``number`` gets a cotangent. The same tensor passed again is the first one."""
    return given.requires_grad and record_of(given).storage.origin == ("argument", number)


def _cotangent(tracing: Tracing, one: Differentiable, value: Tracer) -> Any:
    """The traced cotangent of a tensor, from that of its memory."""
    logical = value if one.order is None else dnp.transpose(value, inverse(one.order))
    return tracing.maker.fresh(logical, one.tensor.dtype, one.tensor.device, one.order)


def _sources(tracing: Tracing, arguments: Sequence[Any], results: list[Tracer], kept: Sequence[Tracer]) -> list[Source]:
    """Where each residual is found after a call. What is neither given nor a result yet becomes one."""
    trace = tracing.trace
    found: dict[Any, Source] = {}
    for number, result in enumerate(results):
        found.setdefault(result.value_in(trace), ("result", number))
    given = [record_of(one).storage for one in (*arguments, *[made for _, made in tracing.captured.values()])]
    for storage in given:
        # What is written is kept as it was: the caller's tensor will have other elements by then.
        if storage.origin is not None and storage.outside is not None and not storage.version:
            found[storage.outside.value_in(trace)] = storage.origin
    sources: list[Source] = []
    for residual in kept:
        value = residual.value_in(trace)
        if value not in found:
            found[value] = ("result", len(results))
            results.append(residual)
        sources.append(found[value])
    return sources
