"""Recurrent layers (LSTM, GRU, RNN) as loops over a symbolic length: one program for all lengths.

A layer in one direction is one function of dyn's, with the derivative that ``dyn.vjp`` finds; how layers and directions
are put together is said in PyTorch's own operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import dyn.numpy as dnp
from dyn import lax, nn
from dyn.errors import NotYetError
from dyn.frozen import record
from dyn.interop.torch.composites import composite, current_tracing, refuse_second_derivatives
from dyn.shapes import RelKind
from dyn.source import user_loc
from dyn.trace.context import current_trace
from dyn.trace.tracer import Tracer
from dyn.transforms import vjp

#: What is carried from step to step: ``h``, or ``(h, c)`` of an LSTM.
State = tuple[Any, ...]


# ---- one step ----------------------------------------------------------------------------------------------------
# From what a step's input gives, the state, and what the state gives, to the next state. Weights of several gates stand
# one after the other, in the order of the formulas in the documentation of torch.nn.


def _lstm(of_input: Any, of_state: Any, state: State) -> State:
    i, f, g, o = dnp.split(of_input + of_state, 4, axis=-1)
    c = nn.sigmoid(f) * state[1] + nn.sigmoid(i) * dnp.tanh(g)
    return nn.sigmoid(o) * dnp.tanh(c), c


def _gru(of_input: Any, of_state: Any, state: State) -> State:
    (r, z, n), (r_, z_, n_) = (dnp.split(x, 3, axis=-1) for x in (of_input, of_state))
    new = dnp.tanh(n + nn.sigmoid(r + r_) * n_)
    return (new + nn.sigmoid(z + z_) * (state[0] - new),)


def _tanh(of_input: Any, of_state: Any, state: State) -> State:
    return (dnp.tanh(of_input + of_state),)


def _relu(of_input: Any, of_state: Any, state: State) -> State:
    return (nn.relu(of_input + of_state),)


# ---- one layer in one direction ------------------------------------------------------------------------------------


@record()
class Layer:
    """A layer in one direction: which arrays there are of its weights, and where it goes."""

    step: Callable[[Any, Any, State], State]
    states: int
    has_biases: bool
    is_reversed: bool

    def __call__(self, x: Tracer, *rest: Tracer) -> tuple[Tracer, ...]:
        """The outputs, ``(length, batch, features)``, and the last state, of inputs, the first state and weights."""
        start, (weight, recurrent, *others) = rest[: self.states], rest[self.states :]
        biases, projection = (others[:2], others[2:]) if self.has_biases else (others[:0], others)
        trace = current_trace()
        assert trace is not None, "layers are written in a trace"
        trace.demand(RelKind.GE, x.dims[0], 1, "a recurrent layer has inputs of at least one step")
        of_inputs = x @ dnp.transpose(weight)
        if self.has_biases:
            of_inputs = of_inputs + biases[0]

        def step(state: State, of_input: Any) -> tuple[State, Any]:
            of_state = state[0] @ dnp.transpose(recurrent)
            if self.has_biases:
                of_state = of_state + biases[1]
            h, *rest = self.step(of_input, of_state, state)
            if projection:
                h = h.astype(projection[0].dtype) @ dnp.transpose(projection[0])
            return (h, *rest), h

        last, outputs = lax.scan(step, tuple(start), of_inputs, reverse=self.is_reversed)
        return outputs, *last


class _LayerCall(torch.autograd.Function):
    """A layer as an operation of PyTorch's autograd."""

    @staticmethod
    def forward(ctx: Any, layer: Layer, *tensors: Any) -> Any:
        values = current_tracing().values(tensors)
        if any(ctx.needs_input_grad):
            made, ctx.pullback = vjp(layer, *values)
        else:
            made = layer(*values)
        ctx.devices = [tensor.device for tensor in tensors]
        return _tensors(made, ctx.devices[:1] * len(made))

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        refuse_second_derivatives("a recurrent layer")
        found = _tensors(ctx.pullback(tuple(current_tracing().values(cotangents))), ctx.devices)
        wanted = ctx.needs_input_grad[1:]
        return None, *[one if asked else None for one, asked in zip(found, wanted, strict=True)]


def _tensors(values: Sequence[Tracer], devices: Sequence[torch.device]) -> tuple[Any, ...]:
    tracing = current_tracing()
    return tuple([tracing.fresh(value, device) for value, device in zip(values, devices, strict=True)])


# ---- layers ----------------------------------------------------------------------------------------------------------


def _layers(
    step: Callable[..., State], x: Any, starts: Sequence[Any], params: Sequence[Any], has_biases: bool, count: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """The outputs of the last layer, and the last states of all layers and directions."""
    x = x.transpose(0, 1) if batch_first else x
    directions = 2 if bidirectional else 1
    each = len(params) // (count * directions)
    lasts: list[Sequence[Any]] = []
    for layer in range(count):
        outputs: list[Any] = []
        for direction in range(directions):
            number = layer * directions + direction
            run = Layer(step, len(starts), has_biases, direction == 1)
            weights = params[number * each : (number + 1) * each]
            output, *last = _LayerCall.apply(run, x, *[start[number] for start in starts], *weights)
            outputs.append(output)
            lasts.append(last)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if layer < count - 1:
            x = torch.dropout(x, dropout, train)
    ends = [torch.stack(list(column)) for column in zip(*lasts, strict=True)]
    return (x.transpose(0, 1) if batch_first else x), *ends


def _autocast(x: Any, starts: Sequence[Any], params: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
    """The operands as autocast has them computed with, where it is on: all in its dtype, but those of 64 bits."""
    if not torch.is_autocast_enabled(x.device.type):
        return x, [*starts], [*params]
    dtype = torch.get_autocast_dtype(x.device.type)
    first, *cast = [
        one.to(dtype) if one.is_floating_point() and one.dtype is not torch.float64 else one
        for one in (x, *starts, *params)
    ]
    return first, cast[: len(starts)], cast[len(starts) :]


@composite("lstm.input")
def lstm(
    x: Any, starts: Sequence[Any], params: Sequence[Any], has_biases: bool, count: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    each = len(params) // (count * (2 if bidirectional else 1))
    is_projected = each > (4 if has_biases else 2)
    x, cast, params = _autocast(x, starts, params)
    starts = [cast[0], starts[1]] if is_projected else cast  # PyTorch's own loop, not oneDNN's, keeps the cell as it is
    return _layers(_lstm, x, starts, params, has_biases, count, dropout, train, bidirectional, batch_first)


@composite("gru.input")
def gru(x: Any, start: Any, *rest: Any) -> tuple[Any, ...]:
    """Autocast makes the gates in its dtype, and keeps the state in that which it has: here all is in the latter."""
    return _layers(_gru, x, [start], *rest)


@composite("rnn_tanh.input")
def rnn_tanh(x: Any, start: Any, params: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
    return _layers(_tanh, *_autocast(x, [start], params), *rest)


@composite("rnn_relu.input")
def rnn_relu(x: Any, start: Any, params: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
    return _layers(_relu, *_autocast(x, [start], params), *rest)


@composite("lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data")
def packed(*args: Any) -> Any:
    raise NotYetError(
        "a recurrent layer of a PackedSequence.",
        loc=user_loc(),
        remedy="pass the padded tensor, and take each sequence's outputs from it.",
    )
