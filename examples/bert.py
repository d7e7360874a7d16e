"""BERT (Devlin et al. 2018, https://arxiv.org/abs/1810.04805) in plain dyn.numpy and dyn.nn.

The model is a function of its parameters, a nested dict of NumPy arrays. Where a jitted function closes over them they
have fixed shapes, and only the batch and the length of the text are symbolic::

    params = init_params(BERT_BASE, seed=0)

    @dyn.jit(shapes="b s, b s")
    def model(ids, mask):
        return encode(params, ids, mask)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import nn

Array = Any
Params = dict[str, Any]
#: ``make(name, shape)``: the array of a parameter that Hugging Face calls ``name``.
Make = Callable[[str, tuple[int, ...]], np.ndarray]


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT encoder."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    intermediate: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    token_types: int = 2
    epsilon: float = 1e-12

    @property
    def head_width(self) -> int:
        return self.width // self.heads


BERT_BASE = BertConfig()
#: Small enough for tests.
BERT_SMALL = BertConfig(layers=2, width=48, heads=3, intermediate=112, vocabulary=100, positions=64)


# ---- the model -------------------------------------------------------------------------------------------------------


def encode(
    params: Params, ids: Array, mask: Array, token_types: Array | None = None, *, config: BertConfig = BERT_BASE
) -> Array:
    """What the last layer says of each token: ``[b, s, width]``.

    ``ids`` and ``token_types`` are integers ``[b, s]``; without the latter all tokens are of type 0. ``mask``
    ``[b, s]`` is 1 where a text has a token and 0 where it is padded.
    """
    x = embed(params["embeddings"], ids, token_types, config)
    # Added to the scores of all heads and all queries.
    bias = dnp.where(mask[:, None, None, :] != 0, 0.0, -1e9)
    for layer in params["layers"]:
        x = norm(layer["attention_norm"], x + attend(layer, x, bias, config), config)
        x = norm(layer["output_norm"], x + feed_forward(layer, x), config)
    return x


def pool(params: Params, hidden: Array) -> Array:
    """A summary ``[b, width]`` of each text, from its first token."""
    return dnp.tanh(dense(params["pooler"], hidden[:, 0]))


def embed(p: Params, ids: Array, token_types: Array | None, config: BertConfig) -> Array:
    length = ids.shape[1]
    words = nn.embedding(ids, p["word"])
    positions = dnp.asarray(p["position"])[:length]
    types = p["token_type"][0] if token_types is None else nn.embedding(token_types, p["token_type"])
    return norm(p["norm"], words + positions + types, config)


def attend(layer: Params, x: Array, bias: Array, config: BertConfig) -> Array:
    b, s, width = x.shape

    def heads(name: str) -> Array:
        return dense(layer[name], x).reshape(b, s, config.heads, config.head_width).transpose(0, 2, 1, 3)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 1, 3, 2) * config.head_width**-0.5 + bias
    mixed = nn.softmax(scores, axis=-1) @ value
    return dense(layer["attention_output"], mixed.transpose(0, 2, 1, 3).reshape(b, s, width))


def feed_forward(layer: Params, x: Array) -> Array:
    return dense(layer["output"], nn.gelu(dense(layer["intermediate"], x), approximate=False))


def dense(p: Params, x: Array) -> Array:
    return nn.linear(x, p["kernel"], p["bias"])


def norm(p: Params, x: Array, config: BertConfig) -> Array:
    return nn.layer_norm(x, p["scale"], p["bias"], epsilon=config.epsilon)


# ---- its parameters --------------------------------------------------------------------------------------------------


def init_params(config: BertConfig = BERT_BASE, seed: int = 0) -> Params:
    """Random parameters in float32, as BERT's training starts: normal, truncated at two deviations of 0.02."""
    random = np.random.default_rng(seed)

    def make(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name.endswith("bias"):
            return np.zeros(shape, np.float32)
        if name.endswith("LayerNorm.weight"):
            return np.ones(shape, np.float32)
        return _truncated_normal(random, shape) * np.float32(0.02)

    return _build(config, make)


def load_params(path: str | Path, config: BertConfig = BERT_BASE) -> Params:
    """The parameters in a safetensors file with Hugging Face's names, in float32.

    A file with more layers than ``config`` gives its first ones. Raises ValueError when a tensor is missing or does not
    have the shape that ``config`` says, or when this is no such file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        file = safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise ValueError(f"{path} is no safetensors file: {error}.") from None
    names = set(file.keys())

    def make(name: str, shape: tuple[int, ...]) -> np.ndarray:
        found = next((spelling for spelling in _spellings(name) if spelling in names), None)
        if found is None:
            raise ValueError(f"{path} has no tensor {name!r}: no BERT, or one of fewer than {config.layers} layers.")
        array = np.asarray(file.get_tensor(found), np.float32)
        if array.shape != shape:
            raise ValueError(f"{found!r} in {path} has the shape {array.shape}, where {config} needs {shape}.")
        return array

    with file:
        return _build(config, make)


def _spellings(name: str) -> Iterator[str]:
    """``name`` as files of several ages spell it: with and without the model's prefix, and TensorFlow's norms."""
    for prefix in ("bert.", ""):
        yield prefix + name
        if "LayerNorm" in name:
            yield prefix + name.replace("weight", "gamma").replace("bias", "beta")


def _truncated_normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    values = random.standard_normal(shape, np.float32)
    while (outside := np.abs(values) > 2).any():
        values[outside] = random.standard_normal(np.count_nonzero(outside), np.float32)
    return values


def _build(config: BertConfig, make: Make) -> Params:
    """The tree of parameters, each made once, under the name that Hugging Face gives it (less the prefix)."""
    width = config.width

    def dense_params(name: str, inputs: int, outputs: int) -> Params:
        # Files keep [outputs, inputs]; x @ kernel reads [inputs, outputs].
        kernel = make(f"{name}.weight", (outputs, inputs)).T
        return {"kernel": np.ascontiguousarray(kernel), "bias": make(f"{name}.bias", (outputs,))}

    def norm_params(name: str) -> Params:
        return {"scale": make(f"{name}.weight", (width,)), "bias": make(f"{name}.bias", (width,))}

    def layer_params(name: str) -> Params:
        return {
            "query": dense_params(f"{name}.attention.self.query", width, width),
            "key": dense_params(f"{name}.attention.self.key", width, width),
            "value": dense_params(f"{name}.attention.self.value", width, width),
            "attention_output": dense_params(f"{name}.attention.output.dense", width, width),
            "attention_norm": norm_params(f"{name}.attention.output.LayerNorm"),
            "intermediate": dense_params(f"{name}.intermediate.dense", width, config.intermediate),
            "output": dense_params(f"{name}.output.dense", config.intermediate, width),
            "output_norm": norm_params(f"{name}.output.LayerNorm"),
        }

    return {
        "embeddings": {
            "word": make("embeddings.word_embeddings.weight", (config.vocabulary, width)),
            "position": make("embeddings.position_embeddings.weight", (config.positions, width)),
            "token_type": make("embeddings.token_type_embeddings.weight", (config.token_types, width)),
            "norm": norm_params("embeddings.LayerNorm"),
        },
        "layers": [layer_params(f"encoder.layer.{i}") for i in range(config.layers)],
        "pooler": dense_params("pooler.dense", width, width),
    }


# ---- something to read -----------------------------------------------------------------------------------------------


def draw_shapes(
    count: int, seed: int = 0, *, batches: tuple[int, int] = (1, 8), lengths: tuple[int, int] = (8, 256)
) -> list[tuple[int, int]]:
    """``count`` different (batch, length) in an order drawn from a seed; both ends of both ranges are included."""
    grid = [(b, s) for b in range(batches[0], batches[1] + 1) for s in range(lengths[0], lengths[1] + 1)]
    if count > len(grid):
        raise ValueError(f"there are only {len(grid)} different shapes, not {count}.")
    return [grid[i] for i in np.random.default_rng(seed).choice(len(grid), count, replace=False)]


def draw_batch(shape: tuple[int, int], seed: int = 0, config: BertConfig = BERT_BASE) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and mask ``[b, s]``, int64, of texts of random lengths; the first fills its row."""
    batch, length = shape
    random = np.random.default_rng([seed, batch, length])
    ids = random.integers(0, config.vocabulary, shape, np.int64)
    lengths = random.integers((length + 1) // 2, length + 1, batch)
    lengths[:1] = length
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    return ids * mask, mask
