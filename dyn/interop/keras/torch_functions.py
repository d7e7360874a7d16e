"""Functions of Keras's PyTorch backend as traces of dyn have them: branches, loops and seeds that Python would decide.

Keras writes ``if pred:``, a loop of Python's over time steps, and ``int(seed)``, where the program has a branch, a scan
and a value. Elsewhere the functions stay Keras's.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import torch
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.scan import scan
from torch.utils._pytree import tree_map

from dyn.interop.torch.composites import chosen, current_tracing
from dyn.interop.torch.regions import value_of
from dyn.interop.torch.tensors import is_traced

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True

Function = Callable[..., Any]

#: What stands for which function in a trace: it is given Keras's own first.
_IN_TRACES: dict[tuple[str, str], Function] = {}


def in_traces(*places: str) -> Callable[[Function], Function]:
    """Register a function in the place of Keras's, ``"module.name"`` below ``keras.src.backend``."""

    def register(function: Function) -> Function:
        for place in places:
            module, _, name = f"keras.src.backend.{place}".rpartition(".")
            _IN_TRACES[module, name] = function
        return function

    return register


@functools.cache
def install() -> None:
    """Have these functions in the traces of dyn, from now on."""
    for (module, name), function in _IN_TRACES.items():
        owner = importlib.import_module(module)
        before = getattr(owner, name)
        setattr(owner, name, functools.wraps(before)(chosen(functools.partial(function, before), before)))


# ---- branches --------------------------------------------------------------------------------------------------------


@in_traces("torch.core.cond")
def _cond(before: Function, pred: Any, true_fn: Function, false_fn: Function) -> Any:
    pred = pred.value if isinstance(pred, keras.Variable) else pred
    if not isinstance(pred, torch.Tensor) or pred.is_meta:  # layers find their shapes out so
        return before(pred, true_fn, false_fn)

    def branch(function: Function) -> Function:
        return lambda: tree_map(_as_tensor, function())

    return cond_op(pred, branch(true_fn), branch(false_fn), ())


def _as_tensor(leaf: Any) -> Any:
    """A variable or number as a tensor; anything else as it is."""
    return keras.ops.convert_to_tensor(leaf) if isinstance(leaf, keras.Variable | bool | int | float) else leaf


# ---- recurrent layers ------------------------------------------------------------------------------------------------


@in_traces("rnn", "torch.rnn.rnn")
def _rnn(
    before: Function, step_function: Function, inputs: Any, initial_states: Any, go_backwards: bool = False,
    mask: Any = None, constants: Any = None, unroll: bool = False, input_length: Any = None, time_major: bool = False,
    zero_output_for_mask: bool = False, return_all_outputs: bool = True,
) -> Any:  # fmt: skip
    """Steps of a cell along time, as a scan. Where ``mask`` is False, states and output stay what they were."""
    tree = keras.tree
    first = tree.flatten(inputs)[0]
    length = first.shape[0 if time_major else 1]
    if unroll or first.is_meta or not (input_length is None or input_length is length or input_length == length):
        return before(
            step_function, inputs, initial_states, go_backwards=go_backwards, mask=mask, constants=constants,
            unroll=unroll, input_length=input_length, time_major=time_major, zero_output_for_mask=zero_output_for_mask,
            return_all_outputs=return_all_outputs,
        )  # fmt: skip

    def along_time(tensor: Any) -> Any:
        rows = tensor if time_major else tensor.transpose(0, 1)
        return torch.flip(rows, [0]) if go_backwards else rows

    more = tuple(constants or ())

    def run(row: Sequence[Any], states: Any) -> tuple[Any, Any]:
        return step_function(tree.pack_sequence_as(inputs, list(row)), tuple(states) + more)

    rows = [along_time(one) for one in tree.flatten(inputs)]
    kept = None if mask is None else along_time(mask.bool())
    # Keras runs the first step once before the others, too: cells make their dropout masks there, which all steps use.
    output, _ = run([one[0] for one in rows], initial_states)
    blank = [torch.zeros_like(one) for one in tree.flatten(output)]
    starts = tree.flatten(initial_states)
    count = len(starts)

    def step(carry: Sequence[Any], given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        states, outputs = list(carry[:count]), list(carry[count:])
        made, new_states = run(given[: len(rows)], tree.pack_sequence_as(initial_states, states))
        new, made = tree.flatten(new_states), tree.flatten(made)
        if kept is not None:
            others = blank if zero_output_for_mask else outputs
            new = [_where(given[-1], *pair) for pair in zip(new, states, strict=True)]
            made = [_where(given[-1], *pair) for pair in zip(made, others, strict=True)]
        return [*new, *made], [*made] if return_all_outputs else []

    last, all_outputs = scan(step, [*starts, *blank], rows if kept is None else [*rows, kept])
    last_output = last[count:]
    outputs = all_outputs if return_all_outputs else [one[None] for one in last_output]
    outputs = [one if time_major else one.transpose(0, 1) for one in outputs]
    states = tree.pack_sequence_as(initial_states, last[:count])
    return tree.pack_sequence_as(output, last_output), tree.pack_sequence_as(output, outputs), tuple(states)


def _where(kept: Any, new: Any, old: Any) -> Any:
    """``new`` where the mask of a step, of its first axes, holds, and ``old`` elsewhere."""
    return torch.where(kept.reshape([*kept.shape, *[1] * (new.ndim - kept.ndim)]), new, old)


@in_traces("torch.rnn._fallback_lstm")
def _lstm(
    before: Function, inputs: Any, initial_state_h: Any, initial_state_c: Any, kernel: Any, recurrent_kernel: Any,
    bias: Any, activation: Function, recurrent_activation: Function, return_sequences: bool, batch_first: bool,
) -> Any:  # fmt: skip
    rows = torch.matmul(inputs.transpose(0, 1) if batch_first else inputs, kernel)
    rows = rows if bias is None else rows + bias

    def step(carry: Sequence[Any], row: Any) -> tuple[list[Any], list[Any]]:
        hidden, cell = carry
        into, forget, new, out = torch.chunk(row[0] + torch.matmul(hidden, recurrent_kernel), 4, dim=1)
        cell = recurrent_activation(forget) * cell + recurrent_activation(into) * activation(new)
        hidden = recurrent_activation(out) * activation(cell)
        return [hidden, cell], [hidden] if return_sequences else []

    (hidden, cell), outputs = scan(step, [initial_state_h, initial_state_c], [rows])
    return hidden, _of_sequence(hidden, outputs, batch_first), [hidden, cell]


@in_traces("torch.rnn._fallback_gru")
def _gru(
    before: Function, inputs: Any, initial_state: Any, kernel: Any, recurrent_kernel: Any, bias: Any,
    activation: Function, recurrent_activation: Function, return_sequences: bool,
) -> Any:  # fmt: skip
    rows = torch.matmul(inputs.transpose(0, 1), kernel)
    rows = rows if bias is None else rows + bias[0]

    def step(carry: Sequence[Any], row: Any) -> tuple[list[Any], list[Any]]:
        hidden = carry[0]
        recurrent = torch.matmul(hidden, recurrent_kernel)
        recurrent = recurrent if bias is None else recurrent + bias[1]
        (x_update, x_reset, x_new), (update, reset, new) = (
            torch.chunk(row[0], 3, dim=1),
            torch.chunk(recurrent, 3, dim=1),
        )
        update = recurrent_activation(x_update + update)
        new = activation(x_new + recurrent_activation(x_reset + reset) * new)
        hidden = update * hidden + (1.0 - update) * new
        return [hidden], [hidden] if return_sequences else []

    (hidden,), outputs = scan(step, [initial_state], [rows])
    return hidden, _of_sequence(hidden, outputs, True), [hidden]


def _of_sequence(last: Any, outputs: Sequence[Any], batch_first: bool) -> Any:
    """The outputs of all steps, of which there may be the last one alone."""
    if not outputs:
        return last.unsqueeze(1 if batch_first else 0)
    return outputs[0].transpose(0, 1) if batch_first else outputs[0]


# ---- numbers ---------------------------------------------------------------------------------------------------------


@in_traces("torch.core.scatter")
def _scatter(before: Function, indices: Any, values: Any, shape: Sequence[Any]) -> Any:
    """Values added up where ``indices`` say, of which Keras takes one after the other."""
    indices, values = keras.ops.convert_to_tensor(indices), keras.ops.convert_to_tensor(values)
    count = indices.shape[-1]
    blank = torch.zeros(tuple(shape), dtype=values.dtype, device=values.device)
    places = indices.reshape(-1, count).to(torch.int64).unbind(1)
    return blank.index_put(places, values.reshape(-1, *shape[count:]), accumulate=True)


@in_traces("torch.random.torch_seed_generator")
def _seed_generator(before: Function, seed: Any) -> Any:
    """A generator for one draw, whose seed the program computes of a variable, and counts."""
    own = importlib.import_module("keras.src.backend.torch.random")
    if own.get_device() == "meta":
        return before(seed)
    first, second = own.draw_seed(seed)
    tracing = current_tracing()
    return tracing.keys.made(value_of(tracing, (first + second).to(torch.int64) & 0xFFFFFFFF))


@in_traces("torch.core.convert_to_numpy")
def _convert_to_numpy(before: Function, x: Any) -> Any:
    """A traced tensor stays one: arithmetic with it is the same, and NumPy's functions refuse it."""
    return x if isinstance(x, torch.Tensor) and is_traced(x) else before(x)
