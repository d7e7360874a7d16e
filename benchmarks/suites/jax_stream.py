"""JAX programs over streams of shapes: ``dyn.interop.jax.jit`` beside ``jax.jit``.

Five programs: a BERT encoder over batches of texts, a small perceptron over batches of rows, a step of decoding behind
a cache that grows, an LSTM over sequences, and a recommender. Both frameworks get the same function, and the same
parameters as arguments.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.machine import describe_cpu
from benchmarks.options import add_stream_options, check_stream_options
from benchmarks.report import Report, Table
from benchmarks.stream import (
    PeerRun,
    Program,
    Shape,
    as_data,
    busy_notes,
    choose_peers,
    common_shapes,
    plain,
    serve,
    sizes_table,
    tokens,
    totals_table,
)  # fmt: skip

#: Upper bounds of the classes of size that the report groups shapes by.
SIZES = {
    "encoder": (64, 256, 512, 1024, 2048), "mlp": (16, 128, 512, 2048), "decoding": (64, 512, 2048, 8192),
    "lstm": (64, 256, 1024, 4096), "recommender": (16, 128, 512, 2048),
}  # fmt: skip
#: What the sizes count.
UNITS = {"encoder": "tokens", "mlp": "rows", "decoding": "positions", "lstm": "steps", "recommender": "rows"}
#: Largest batch and length of a stream whose batches and lengths are drawn evenly by their logarithms.
LARGEST_OF = {"decoding": (8, 1000), "lstm": (32, 128), "recommender": (2048, 1)}
#: Features, hidden widths and classes of the perceptron, and its largest batch.
WIDTHS, LARGEST = (64, 128, 128, 10), 2048


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--programs", default=",".join(SIZES), help="what to serve (default: %(default)s)")
    add_stream_options(parser, seeds="shapes, inputs and weights")


def run(arguments: argparse.Namespace) -> Report:
    check_stream_options(arguments)
    programs = [name for name in arguments.programs.split(",") if name]
    if unknown := [name for name in programs if name not in _MAKE]:
        raise ValueError(f"there is no program {unknown[0]!r}; there are {', '.join(_MAKE)}.")
    load = os.getloadavg()[0]
    runs = {name: _serve(name, arguments) for name in programs}
    return report(runs, arguments, load)


def _serve(name: str, arguments: argparse.Namespace) -> list[PeerRun]:
    program, calls = _MAKE[name](arguments)
    names = choose_peers(program.name, "jax")
    return serve(program, names, threads=arguments.threads, repeats=arguments.repeats, calls=calls)


def encoder(arguments: argparse.Namespace) -> tuple[Program, int]:
    from examples.bert import BertConfig, draw_batch, draw_shapes, init_params

    config = BertConfig(layers=arguments.layers)

    def draw(shape: Shape) -> dict[str, np.ndarray]:
        ids, mask = draw_batch(shape, arguments.seed, config)
        return {"ids": ids.astype(np.int32), "mask": mask.astype(np.int32)}

    shapes = draw_shapes(arguments.shapes, arguments.seed)
    params = init_params(config, arguments.seed)
    return Program("jaxbert", dataclasses.asdict(config), params, shapes, draw), 1


def mlp(arguments: argparse.Namespace) -> tuple[Program, int]:
    random = np.random.default_rng(arguments.seed)

    def draw(shape: Shape) -> dict[str, np.ndarray]:
        return {"x": np.random.default_rng([arguments.seed, *shape]).standard_normal((shape[0], WIDTHS[0]), np.float32)}

    params = {"layers": _dense(random, *WIDTHS)}
    count = min(arguments.shapes, LARGEST)
    # As many small batches as large ones: sizes are drawn evenly by their logarithm.
    rows: dict[int, None] = {}
    while len(rows) < count:
        rows[int(LARGEST ** random.random())] = None
    return Program("jaxmlp", {}, params, [(n, 1) for n in rows], draw), 20


def _dense(random: np.random.Generator, *widths: int) -> list[dict[str, np.ndarray]]:
    return [
        {
            "kernel": random.standard_normal((rows, columns), np.float32) / np.float32(rows**0.5),
            "bias": np.zeros(columns, np.float32),
        }
        for rows, columns in itertools.pairwise(widths)
    ]


def _drawn_shapes(name: str, arguments: argparse.Namespace) -> list[Shape]:
    """Different batches and lengths, drawn evenly by their logarithms."""
    random, (batch, length) = np.random.default_rng(arguments.seed), LARGEST_OF[name]
    shapes: dict[Shape, None] = {}
    while len(shapes) < min(arguments.shapes, batch * length):
        shapes[int((batch + 1) ** random.random()), int((length + 1) ** random.random())] = None
    return list(shapes)


def decoding(arguments: argparse.Namespace) -> tuple[Program, int]:
    random, layers, heads, width, vocabulary = np.random.default_rng(arguments.seed), arguments.layers, 12, 64, 50257
    features = heads * width

    def norm() -> dict[str, np.ndarray]:
        return {"scale": np.ones(features, np.float32), "bias": np.zeros(features, np.float32)}

    def layer() -> dict[str, Any]:
        (qkv,), (out,) = _dense(random, features, 3 * features), _dense(random, features, features)
        up, down = _dense(random, features, 4 * features, features)
        return {"norm1": norm(), "qkv": qkv, "out": out, "norm2": norm(), "up": up, "down": down}

    params = {
        "tokens": random.standard_normal((vocabulary, features), np.float32) * np.float32(0.02),
        "positions": random.standard_normal((1024, features), np.float32) * np.float32(0.02),
        "layers": [layer() for _ in range(layers)],
        "norm": norm(),
    }

    def draw(shape: Shape) -> dict[str, np.ndarray]:
        own, (batch, position) = np.random.default_rng([arguments.seed, *shape]), shape
        keys, values = own.standard_normal((2, layers, batch, heads, position, width), np.float32)
        return {"tokens": own.integers(0, vocabulary, batch).astype(np.int32), "keys": keys, "values": values}

    return Program("jaxgpt", {}, params, _drawn_shapes("decoding", arguments), draw), 1


def lstm(arguments: argparse.Namespace) -> tuple[Program, int]:
    random, features, width = np.random.default_rng(arguments.seed), 256, 512
    (taken,), (hidden,) = _dense(random, features, 4 * width), _dense(random, width, 4 * width)
    params = {"input": taken["kernel"], "hidden": hidden["kernel"], "bias": taken["bias"]}

    def draw(shape: Shape) -> dict[str, np.ndarray]:
        batch, length = shape
        own = np.random.default_rng([arguments.seed, *shape])
        return {"xs": own.standard_normal((length, batch, features), np.float32)}

    return Program("jaxlstm", {}, params, _drawn_shapes("lstm", arguments), draw), 1


def recommender(arguments: argparse.Namespace) -> tuple[Program, int]:
    random, tables, rows, width, numbers = np.random.default_rng(arguments.seed), 26, 10_000, 64, 13
    pairs = (tables + 1) * tables // 2
    params = {
        "tables": [random.standard_normal((rows, width), np.float32) for _ in range(tables)],
        "bottom": _dense(random, numbers, 512, 256, width),
        "top": _dense(random, width + pairs, 512, 256, 1),
    }

    def draw(shape: Shape) -> dict[str, np.ndarray]:
        own, batch = np.random.default_rng([arguments.seed, *shape]), shape[0]
        ids = own.integers(0, rows, (batch, tables)).astype(np.int32)
        return {"numbers": own.standard_normal((batch, numbers), np.float32), "ids": ids}

    return Program("jaxdlrm", {}, params, _drawn_shapes("recommender", arguments), draw), 5


_MAKE = {"encoder": encoder, "mlp": mlp, "decoding": decoding, "lstm": lstm, "recommender": recommender}


def report(runs: dict[str, list[PeerRun]], arguments: argparse.Namespace, load: float) -> Report:
    first = next(iter(runs.values()))
    notes = [
        f"{describe_cpu()}; {arguments.threads} {'thread' if arguments.threads == 1 else 'threads'}, pinned; "
        f"load average at the start {load:.1f}; {'; '.join(peer.versions for peer in first)}.",
        f"encoder: {arguments.layers}-layer BERT-base, batch 1–8, length 8–256; mlp: {'-'.join(map(str, WIDTHS))}, "
        f"batch 1–{LARGEST}; decoding: {arguments.layers} layers of GPT-2, {_reach('decoding')}; "
        f"lstm: 256 features, 512 wide, {_reach('lstm')}; recommender: 26 tables of 10,000 × 64, "
        f"{_reach('recommender')}; float32, {arguments.shapes} different shapes; seed {arguments.seed}.",
        "First touch: every shape once, traces and compiles included. Steady: the sum over the shapes of the median of "
        f"{arguments.repeats} warm runs; quickest: of the shortest; CPU: of the least time on the CPU.",
    ]
    tables: list[Table] = []
    for name, peers in runs.items():
        common, unit = common_shapes(peers), UNITS[name]
        tables += [totals_table(peers, common, name, unit), sizes_table(peers, common, SIZES[name], unit)]
        notes.append(
            f"{name}: {touch_ratio(peers):.1f}× JAX's first touch; {sum(map(tokens, common)):,} {unit} in all."
        )
        if arguments.threads == 1:
            notes += busy_notes(peers)
    data = {
        "machine": describe_cpu(), "load": load, "arguments": plain(arguments),
        "programs": {name: [as_data(peer) for peer in peers] for name, peers in runs.items()},
    }  # fmt: skip
    return Report("jax_stream: JAX programs over streams of shapes", tuple(tables), tuple(notes), data)


def _reach(name: str) -> str:
    batch, length = LARGEST_OF[name]
    return f"batch 1–{batch}, length 1–{length}"


def touch_ratio(peers: Sequence[PeerRun]) -> float:
    """How many times quicker than the second peer the first one is, compiles included."""
    ours, theirs = (sum(peer.measured[shape].first for shape in common_shapes(peers)) for peer in peers[:2])
    return theirs / ours
