"""Six families of models whose inputs change their sizes, each written once, of operations that dyn and PyTorch have.

Speech recognition, sequence to sequence, speech synthesis, BERT, ranking of advertisements, a Transformer encoder: the
workloads of DISC's evaluation (https://arxiv.org/abs/2103.05288). Weights are random and scaled; nothing is trained.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

#: Frames have so many channels, sounds so many bands, requests so many numbers and so many categories.
BANDS, NUMBERS, CATEGORIES = 80, 13, 26
WORDS = 1000


class Ops(Protocol):
    """What the models are written with, beside operators, ``reshape`` and slices."""

    def relu(self, x: Any) -> Any: ...
    def gelu(self, x: Any) -> Any: ...
    def sigmoid(self, x: Any) -> Any: ...
    def tanh(self, x: Any) -> Any: ...
    def log_softmax(self, x: Any) -> Any: ...
    def norm(self, x: Any, weight: Any, bias: Any) -> Any: ...
    def embedding(self, ids: Any, table: Any) -> Any: ...
    def conv(self, x: Any, kernel: Any, stride: int = 1) -> Any:
        """A convolution along axis 1 of ``x[batch, time, channels]`` by ``kernel[window, channels, features]``, of an
        odd window, padded by half of it."""
        ...

    def attention(self, q: Any, k: Any, v: Any, heads: int, mask: Any = None, causal: bool = False) -> Any:
        """Attention of ``[batch, time, features]``, with a mask of the keys ``[batch, time]``."""
        ...

    def concat(self, arrays: list[Any]) -> Any:
        """Along axis 1."""
        ...

    def transposed(self, x: Any) -> Any:
        """The last two axes of three the other way round."""
        ...


@dataclass(frozen=True)
class Config:
    """Sizes of the models, and the largest of their inputs."""

    layers: int
    width: int
    heads: int
    longest: int
    largest_batch: int


@dataclass(frozen=True)
class Family:
    """A model: ``params(config, make)`` with arrays of ``make(*shape)``, ``run(ops, config, params, *inputs)``, and
    ``draw(rng, config)``, inputs of random sizes."""

    params: Callable[[Config, Callable[..., Any]], Any]
    run: Callable[..., Any]
    draw: Callable[[np.random.Generator, Config], tuple[np.ndarray[Any, Any], ...]]


def _block(c: Config, make: Callable[..., Any], *, cross: bool = False) -> dict[str, Any]:
    own = {name: make(c.width, c.width) for name in ("q", "k", "v", "o")}
    across = {f"x{name}": make(c.width, c.width) for name in ("q", "k", "v", "o")} if cross else {}
    norms = {f"{name}{n}": make(c.width) for n in range(3 if cross else 2) for name in ("scale", "shift")}
    wide = {"w1": make(c.width, 4 * c.width), "b1": make(4 * c.width), "w2": make(4 * c.width, c.width)}
    return {**own, **across, **norms, **wide, "b2": make(c.width)}


def _attend(o: Ops, c: Config, p: Any, x: Any, memory: Any, at: str, mask: Any, causal: bool) -> Any:
    q, k, v = x @ p[f"{at}q"], memory @ p[f"{at}k"], memory @ p[f"{at}v"]
    return o.attention(q, k, v, c.heads, mask, causal) @ p[f"{at}o"]


def _layer(o: Ops, c: Config, p: Any, x: Any, mask: Any = None, memory: Any = None, *, causal: bool = False) -> Any:
    x = o.norm(x + _attend(o, c, p, x, x, "", mask, causal), p["scale0"], p["shift0"])
    if memory is not None:
        x = o.norm(x + _attend(o, c, p, x, memory, "x", None, False), p["scale2"], p["shift2"])
    wide = o.gelu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
    return o.norm(x + wide, p["scale1"], p["shift1"])


def _batch(rng: np.random.Generator, most: int) -> int:
    """As many small numbers as large ones: drawn evenly by their logarithm."""
    return int(np.exp(rng.uniform(0, np.log(most + 0.999))))


def _sizes(rng: np.random.Generator, c: Config) -> tuple[int, int]:
    return _batch(rng, c.largest_batch), max(_batch(rng, c.longest), 2)


def _ids(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(0, WORDS, shape).astype(np.int32)


def _frames(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape, np.float32)


# ---- the families ----------------------------------------------------------------------------------------------------


def _asr(o: Ops, c: Config, p: Any, frames: Any) -> Any:
    x = o.relu(o.conv(o.relu(o.conv(frames, p["conv1"], 2)), p["conv2"], 2))
    for layer in p["layers"]:
        x = _layer(o, c, layer, x)
    return o.log_softmax(x @ p["head"])


def _asr_params(c: Config, make: Callable[..., Any]) -> Any:
    return {
        "conv1": make(3, BANDS, c.width), "conv2": make(3, c.width, c.width), "head": make(c.width, WORDS),
        "layers": [_block(c, make) for _ in range(c.layers)],
    }  # fmt: skip


def _seq2seq(o: Ops, c: Config, p: Any, source: Any, target: Any) -> Any:
    memory, x = o.embedding(source, p["table"]), o.embedding(target, p["table"])
    for layer in p["encoder"]:
        memory = _layer(o, c, layer, memory)
    for layer in p["decoder"]:
        x = _layer(o, c, layer, x, None, memory, causal=True)
    return o.log_softmax(x @ p["head"])


def _seq2seq_params(c: Config, make: Callable[..., Any]) -> Any:
    return {
        "table": make(WORDS, c.width), "head": make(c.width, WORDS),
        "encoder": [_block(c, make) for _ in range(c.layers)],
        "decoder": [_block(c, make, cross=True) for _ in range(c.layers)],
    }  # fmt: skip


def _tts(o: Ops, c: Config, p: Any, ids: Any) -> Any:
    x = o.embedding(ids, p["table"])
    for conv in p["convs"]:
        x = o.norm(o.relu(o.conv(x, conv["kernel"])) + x, conv["scale"], conv["shift"])
    for layer in p["layers"]:
        x = _layer(o, c, layer, x)
    frames = (x @ p["frames"]).reshape(x.shape[0], 4 * x.shape[1], BANDS)  # four frames a sound
    return frames + o.conv(o.tanh(o.conv(frames, p["post1"])), p["post2"])


def _tts_params(c: Config, make: Callable[..., Any]) -> Any:
    convs = [{"kernel": make(5, c.width, c.width), "scale": make(c.width), "shift": make(c.width)} for _ in range(2)]
    return {
        "table": make(WORDS, c.width), "convs": convs, "layers": [_block(c, make) for _ in range(c.layers)],
        "frames": make(c.width, 4 * BANDS), "post1": make(5, BANDS, c.width), "post2": make(5, c.width, BANDS),
    }  # fmt: skip


def _bert(o: Ops, c: Config, p: Any, ids: Any, mask: Any) -> Any:
    x = o.embedding(ids, p["table"]) + p["positions"][: ids.shape[1]]
    x = o.norm(x, p["scale"], p["shift"])
    for layer in p["layers"]:
        x = _layer(o, c, layer, x, mask)
    return o.tanh(x[:, 0] @ p["pool"])


def _bert_params(c: Config, make: Callable[..., Any]) -> Any:
    return {
        "table": make(WORDS, c.width), "positions": make(c.longest, c.width), "scale": make(c.width),
        "shift": make(c.width), "pool": make(c.width, c.width), "layers": [_block(c, make) for _ in range(c.layers)],
    }  # fmt: skip


def _draw_bert(rng: np.random.Generator, c: Config) -> tuple[np.ndarray[Any, Any], ...]:
    batch, length = _sizes(rng, c)
    lengths = rng.integers(1, length + 1, batch)
    return _ids(rng, batch, length), np.arange(length) < lengths[:, None]


def _ranking(o: Ops, c: Config, p: Any, numbers: Any, ids: Any) -> Any:
    dense = o.relu(o.relu(numbers @ p["in1"]) @ p["in2"])
    items = o.embedding(ids, p["table"])  # a row for each category
    features = o.concat([dense[:, None], items])
    pairs = (features @ o.transposed(features)).reshape(dense.shape[0], (CATEGORIES + 1) ** 2)
    x = o.concat([dense, pairs])
    for layer in p["top"]:
        x = o.relu(x @ layer["w"] + layer["b"])
    return o.sigmoid(x @ p["out"])


def _ranking_params(c: Config, make: Callable[..., Any]) -> Any:
    widths = [c.width + (CATEGORIES + 1) ** 2, *[4 * c.width] * c.layers]
    top = [{"w": make(a, b), "b": make(b)} for a, b in itertools.pairwise(widths)]
    return {
        "in1": make(NUMBERS, c.width), "in2": make(c.width, c.width), "table": make(WORDS, c.width), "top": top,
        "out": make(widths[-1], 1),
    }  # fmt: skip


def _draw_ranking(rng: np.random.Generator, c: Config) -> tuple[np.ndarray[Any, Any], ...]:
    batch = _batch(rng, c.largest_batch * c.longest)
    return _frames(rng, batch, NUMBERS), _ids(rng, batch, CATEGORIES)


def _transformer(o: Ops, c: Config, p: Any, x: Any) -> Any:
    for layer in p["layers"]:
        x = _layer(o, c, layer, x)
    return x


def _draw_asr(rng: np.random.Generator, c: Config) -> tuple[np.ndarray[Any, Any], ...]:
    batch, length = _sizes(rng, c)
    return (_frames(rng, batch, 4 * length, BANDS),)


def _draw_seq2seq(rng: np.random.Generator, c: Config) -> tuple[np.ndarray[Any, Any], ...]:
    batch, length = _sizes(rng, c)
    return _ids(rng, batch, length), _ids(rng, batch, max(length // 2, 1))


def _transformer_params(c: Config, make: Callable[..., Any]) -> Any:
    return {"layers": [_block(c, make) for _ in range(c.layers)]}


FAMILIES = {
    "ASR": Family(_asr_params, _asr, _draw_asr),
    "seq2seq": Family(_seq2seq_params, _seq2seq, _draw_seq2seq),
    "TTS": Family(_tts_params, _tts, lambda rng, c: (_ids(rng, *_sizes(rng, c)),)),
    "BERT": Family(_bert_params, _bert, _draw_bert),
    "ad ranking": Family(_ranking_params, _ranking, _draw_ranking),
    "Transformer": Family(_transformer_params, _transformer, lambda rng, c: (_frames(rng, *_sizes(rng, c), c.width),)),
}


# ---- a step of decoding ----------------------------------------------------------------------------------------------


def _decode(o: Ops, c: Config, p: Any, ids: Any, *kept: Any) -> Any:
    """Scores of the next token, and the grown keys and values: ``kept`` are those of the tokens so far and those of the
    encoder's memory, of each layer."""
    x, grown = o.embedding(ids, p["table"]), list[Any]()
    for number, layer in enumerate(p["decoder"]):
        keys, values, memory_keys, memory_values = kept[4 * number : 4 * number + 4]
        keys, values = o.concat([keys, x @ layer["k"]]), o.concat([values, x @ layer["v"]])
        grown += [keys, values]
        x = o.norm(
            x + o.attention(x @ layer["q"], keys, values, c.heads) @ layer["o"], layer["scale0"], layer["shift0"]
        )
        found = o.attention(x @ layer["xq"], memory_keys, memory_values, c.heads) @ layer["xo"]
        x = o.norm(x + found, layer["scale2"], layer["shift2"])
        wide = o.gelu(x @ layer["w1"] + layer["b1"]) @ layer["w2"] + layer["b2"]
        x = o.norm(x + wide, layer["scale1"], layer["shift1"])
    return (o.log_softmax(x @ p["head"]), *grown)


def _draw_decode(rng: np.random.Generator, c: Config) -> tuple[np.ndarray[Any, Any], ...]:
    batch, length = _sizes(rng, c)
    memory = max(_batch(rng, c.longest), 2)
    kept = [_frames(rng, batch, n, c.width) for _ in range(c.layers) for n in (length, length, memory, memory)]
    return _ids(rng, batch, 1), *kept


#: A step of the decoder of "seq2seq", one token each, with what it keeps of those before.
DECODING = Family(_seq2seq_params, _decode, _draw_decode)


def weights(family: Family, config: Config, seed: int) -> Any:
    """The parameters, as NumPy's arrays: matrices scaled by their rows, scales around 1."""
    rng = np.random.default_rng(seed)

    def make(*shape: int) -> np.ndarray[Any, Any]:
        drawn = rng.standard_normal(shape, np.float32)
        if len(shape) == 1:
            return 1 + drawn / np.float32(10)
        return drawn / np.float32(np.prod(shape[:-1]) ** 0.5 if len(shape) == 3 else shape[0] ** 0.5)

    return family.params(config, make)
