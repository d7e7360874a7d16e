"""A GPT (Radford et al. 2019): embeddings, causal attention and perceptrons with norms before them, tied output.

A function of its parameters, in names that dyn and JAX share. ``lib`` says which of them computes, so that the two can
be compared on one source::

    loss = gpt.loss(params, ids, config)               # dyn
    loss = gpt.loss(params, ids, config, lib=jax)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

import dyn

Array = Any
Params = dict[str, Any]


@dataclass(frozen=True)
class GptConfig:
    """The sizes of a GPT."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    vocabulary: int = 128
    positions: int = 256
    epsilon: float = 1e-5


def logits(params: Params, ids: Array, config: GptConfig, lib: Any = dyn) -> Array:
    """What may follow each token: ``ids`` are integers ``[b, s]``, the result is ``[b, s, vocabulary]``."""
    # As arrays of the library, since NumPy's own, closed over, cannot be indexed by what is being traced.
    tokens, positions = lib.numpy.asarray(params["tokens"]), lib.numpy.asarray(params["positions"])
    x = tokens[ids] + positions[: ids.shape[1]]
    for layer in params["layers"]:
        x = x + attend(layer, norm(layer["norm1"], x, config, lib), config, lib)
        hidden = lib.nn.gelu(dense(layer["up"], norm(layer["norm2"], x, config, lib)))
        x = x + dense(layer["down"], hidden)
    return norm(params["norm"], x, config, lib) @ tokens.T


def attend(layer: Params, x: Array, config: GptConfig, lib: Any) -> Array:
    b, s, width = x.shape
    query, key, value = (
        dense(layer[name], x).reshape(b, s, config.heads, width // config.heads) for name in ("query", "key", "value")
    )
    mixed = lib.nn.dot_product_attention(query, key, value, is_causal=True)
    return dense(layer["out"], mixed.reshape(b, s, width))


def dense(p: Params, x: Array) -> Array:
    return x @ p["kernel"] + p["bias"]


def norm(p: Params, x: Array, config: GptConfig, lib: Any) -> Array:
    return lib.nn.standardize(x, axis=-1, epsilon=config.epsilon) * p["scale"] + p["bias"]


def loss(params: Params, ids: Array, config: GptConfig, lib: Any = dyn, weights: Array | None = None) -> Array:
    """The mean surprise, in nats, of each token after the first: ``ids`` is ``[b, s + 1]``.

    ``weights`` ``[b, s]`` are 0 where a text is padded; without them all tokens count.
    """
    likely = lib.nn.log_softmax(logits(params, ids[:, :-1], config, lib), axis=-1)
    surprise = -lib.numpy.take_along_axis(likely, ids[:, 1:, None], axis=-1)[:, :, 0]
    if weights is None:
        return lib.numpy.mean(surprise)
    return lib.numpy.sum(surprise * weights) / lib.numpy.sum(weights)


def init_params(config: GptConfig, seed: int = 0) -> Params:
    """Random parameters in float32: normal, so that what a matrix makes of its input varies as much as that.

    Biases are 0, and scales 1.
    """
    random = np.random.default_rng(seed)

    def make(name: str, *shape: int) -> np.ndarray:
        if name in ("bias", "scale"):
            return np.full(shape, name == "scale", np.float32)
        deviation = shape[0] ** -0.5 if name == "kernel" else 0.1
        return random.standard_normal(shape, np.float32) * np.float32(deviation)

    return make_params(config, make)


def make_params(config: GptConfig, make: Callable[..., Array]) -> Params:
    """The tree of parameters, of what ``make(name, *shape)`` gives for each."""
    width = config.width

    def linear(inputs: int, outputs: int) -> Params:
        return {"kernel": make("kernel", inputs, outputs), "bias": make("bias", outputs)}

    def scale() -> Params:
        return {"scale": make("scale", width), "bias": make("bias", width)}

    def layer() -> Params:
        square = {name: linear(width, width) for name in ("query", "key", "value", "out")}
        wide = {"up": linear(width, 4 * width), "down": linear(4 * width, width)}
        return {**square, **wide, "norm1": scale(), "norm2": scale()}

    return {
        "tokens": make("tokens", config.vocabulary, width),
        "positions": make("positions", config.positions, width),
        "layers": [layer() for _ in range(config.layers)],
        "norm": scale(),
    }


def shapes_of(tree: Any) -> Any:
    """What ``dyn.jit(shapes=...)`` takes to keep the sizes of a tree of arrays as they are: ``"128 512"`` a leaf."""
    return optree.tree_map(lambda leaf: " ".join(map(str, leaf.shape)) if leaf.shape else "()", tree)
