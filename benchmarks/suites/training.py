"""A step of training a GPT: loss, gradients and Adam, beside PyTorch eager and JAX compiled for each shape.

Everything runs in one process with one thread each, on the same parameters. Steps take turns, and each one's quickest
counts, by the process's time on the CPU.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from benchmarks.machine import describe_cpu, thread_environment
from benchmarks.report import Report, Table
from examples import gpt, optimizers

RATE = 1e-3
WHO = ("dyn", "torch", "jax")
#: ``step(ids)``: a step on texts, which updates parameters that it keeps, and gives the loss.
Step = Callable[[np.ndarray], float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--shapes", default="1x32,4x32,2x128,8x128", help="batch x length (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="steps of each shape (default: %(default)s)")
    parser.add_argument("--peers", default="torch,jax", help="who to compare with (default: %(default)s)")


def run(arguments: argparse.Namespace) -> Report:
    shapes = [tuple(int(n) for n in text.split("x")) for text in arguments.shapes.split(",")]
    peers = [name for name in arguments.peers.split(",") if name]
    if any(name not in WHO[1:] for name in peers) or arguments.repeats < 1:
        raise ValueError("--peers are among torch, jax, and --repeats is at least 1.")
    config = gpt.GptConfig(arguments.layers, arguments.width, max(1, arguments.width // 64), 1000, 512)
    os.environ.update(thread_environment(1))  # read when the peers are imported
    import dyn

    load = os.getloadavg()[0]
    with dyn.config.override(num_threads=1):
        steps = {name: _MAKE[name](config, gpt.init_params(config)) for name in ("dyn", *peers)}
        measured = [measure(steps, config, shape, arguments.repeats) for shape in shapes]
    return report(config, shapes, measured, load)


def measure(steps: dict[str, Step], config: gpt.GptConfig, shape: Sequence[int], repeats: int) -> dict[str, float]:
    """Seconds of a step of each; ValueError where they don't agree on the loss."""
    batch, length = shape
    ids = np.random.default_rng([batch, length]).integers(0, config.vocabulary, (batch, length + 1))
    best = dict.fromkeys(steps, float("inf"))
    for number in range(repeats + 1):
        losses: dict[str, float] = {}
        for name, step in steps.items():
            start = time.process_time()
            losses[name] = step(ids)
            if number:  # the first may compile
                best[name] = min(best[name], time.process_time() - start)
        if max(losses.values()) - min(losses.values()) > 0.05:
            raise ValueError(f"the losses of {batch}x{length} are {losses}.")
    return best


# ---- a step of each --------------------------------------------------------------------------------------------------


def step_of(config: gpt.GptConfig, lib: Any) -> Callable[..., tuple[Any, Any, Any]]:
    adam = optimizers.adam(RATE, lib=lib)

    def step(params: Any, state: Any, ids: Any) -> tuple[Any, Any, Any]:
        value, gradients = lib.value_and_grad(gpt.loss)(params, ids, config, lib)
        updates, state = adam.update(gradients, state, params)
        return value, optimizers.apply_updates(params, updates), state

    return step


def dyn_step(config: gpt.GptConfig, params: Any) -> Step:
    import dyn

    state = optimizers.adam(RATE).init(params)
    shapes = [gpt.shapes_of(params), gpt.shapes_of(state), "b s"]
    return _kept(dyn.jit(step_of(config, dyn), donate_argnums=(0, 1), shapes=shapes), params, state)


def jax_step(config: gpt.GptConfig, params: Any) -> Step:
    import jax

    state = optimizers.adam(RATE, lib=jax).init(params)
    params, state = jax.tree.map(jax.numpy.array, (params, state))
    return _kept(jax.jit(step_of(config, jax), donate_argnums=(0, 1)), params, state)


def _kept(step: Callable[..., tuple[Any, Any, Any]], params: Any, state: Any) -> Step:
    def kept(ids: np.ndarray) -> float:
        nonlocal params, state
        value, params, state = step(params, state, ids)
        return float(value)

    return kept


def torch_step(config: gpt.GptConfig, params: Any) -> Step:
    import torch

    torch.set_num_threads(1)
    p: Any = optree.tree_map(lambda a: torch.tensor(a, requires_grad=True), params)
    optimizer = torch.optim.Adam(optree.tree_leaves(p), RATE, foreach=True)
    surprise = torch_loss(config, p)

    def step(ids: np.ndarray) -> float:
        loss = surprise(torch.from_numpy(ids))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def torch_loss(config: gpt.GptConfig, p: Any) -> Callable[[Any], Any]:
    """The loss of a GPT on tokens ``[b, s + 1]``, of PyTorch's tensors and by its fused attention and norms."""
    from torch.nn import functional as F

    def dense(p: Any, x: Any) -> Any:
        return x @ p["kernel"] + p["bias"]

    def norm(p: Any, x: Any) -> Any:
        return F.layer_norm(x, (config.width,), p["scale"], p["bias"], config.epsilon)

    def attend(layer: Any, x: Any) -> Any:
        b, s, _ = x.shape
        heads = [dense(layer[n], x).view(b, s, config.heads, -1).transpose(1, 2) for n in ("query", "key", "value")]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        return dense(layer["out"], mixed.transpose(1, 2).reshape(x.shape))

    def loss(tokens: Any) -> Any:
        x = F.embedding(tokens[:, :-1], p["tokens"]) + p["positions"][: tokens.shape[1] - 1]
        for layer in p["layers"]:
            x = x + attend(layer, norm(layer["norm1"], x))
            x = x + dense(layer["down"], F.gelu(dense(layer["up"], norm(layer["norm2"], x)), approximate="tanh"))
        logits = norm(p["norm"], x) @ p["tokens"].T
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return loss


_MAKE: dict[str, Callable[[gpt.GptConfig, Any], Step]] = {"dyn": dyn_step, "torch": torch_step, "jax": jax_step}


def report(
    config: gpt.GptConfig, shapes: Sequence[Sequence[int]], measured: list[dict[str, float]], load: float
) -> Report:
    who = [name for name in WHO if name in measured[0]]
    rows: list[tuple[str, ...]] = []
    for (batch, length), seconds in zip(shapes, measured, strict=True):
        cells = [f"{1000 * seconds[name]:.1f}" for name in who]
        ratios = [f"{seconds[name] / seconds['dyn']:.2f}×" for name in who[1:]]
        rows.append((f"{batch} × {length}", *cells, *ratios))
    header = ("batch × length", *who, *(f"{name} / dyn" for name in who[1:]))
    notes = (
        f"{describe_cpu()}; one thread; load {load:.1f} when it began; the losses agreed at every step.",
        f"{config.layers} layers, {config.width} wide, {config.vocabulary} tokens, float32. CPU time of the quickest "
        "step: dyn has one program for all shapes, JAX one for each; PyTorch is eager, with its fused attention, layer "
        "norm and Adam.",
    )
    data = {"steps": [{"shape": list(s), **m} for s, m in zip(shapes, measured, strict=True)]}
    return Report("Training a GPT", (Table("CPU milliseconds a step", header, tuple(rows)),), notes, data)
