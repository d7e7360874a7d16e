"""JAX programs over streams of shapes: ``dyn.interop.jax.jit`` beside ``jax.jit``.

Two programs: a BERT encoder over batches of texts, and a small perceptron over batches of rows. Both frameworks get the
same function, and the same parameters as arguments.
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
SIZES = {"encoder": (64, 256, 512, 1024, 2048), "mlp": (16, 128, 512, 2048)}
#: Features, hidden widths and classes of the perceptron, and its largest batch.
WIDTHS, LARGEST = (64, 128, 128, 10), 2048


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--programs", default="encoder,mlp", help="what to serve (default: %(default)s)")
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

    def dense(rows: int, columns: int) -> dict[str, np.ndarray]:
        kernel = random.standard_normal((rows, columns), np.float32) / np.float32(rows**0.5)
        return {"kernel": kernel, "bias": np.zeros(columns, np.float32)}

    def draw(shape: Shape) -> dict[str, np.ndarray]:
        return {"x": np.random.default_rng([arguments.seed, *shape]).standard_normal((shape[0], WIDTHS[0]), np.float32)}

    params: dict[str, Any] = {"layers": [dense(a, b) for a, b in itertools.pairwise(WIDTHS)]}
    count = min(arguments.shapes, LARGEST)
    # As many small batches as large ones: sizes are drawn evenly by their logarithm.
    rows: dict[int, None] = {}
    while len(rows) < count:
        rows[int(LARGEST ** random.random())] = None
    return Program("jaxmlp", {}, params, [(n, 1) for n in rows], draw), 20


_MAKE = {"encoder": encoder, "mlp": mlp}


def report(runs: dict[str, list[PeerRun]], arguments: argparse.Namespace, load: float) -> Report:
    first = next(iter(runs.values()))
    notes = [
        f"{describe_cpu()}; {arguments.threads} {'thread' if arguments.threads == 1 else 'threads'}, pinned; "
        f"load average at the start {load:.1f}; {'; '.join(peer.versions for peer in first)}.",
        f"encoder: {arguments.layers}-layer BERT-base, batch 1–8, length 8–256; mlp: {'-'.join(map(str, WIDTHS))}, "
        f"batch 1–{LARGEST}; float32, {arguments.shapes} different shapes; seed {arguments.seed}.",
        "First touch: every shape once, traces and compiles included. Steady: the sum over the shapes of the median of "
        f"{arguments.repeats} warm runs; quickest: of the shortest; CPU: of the least time on the CPU.",
    ]
    tables: list[Table] = []
    for name, peers in runs.items():
        common, unit = common_shapes(peers), "rows" if name == "mlp" else "tokens"
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


def touch_ratio(peers: Sequence[PeerRun]) -> float:
    """How many times quicker than the second peer the first one is, compiles included."""
    ours, theirs = (sum(peer.measured[shape].first for shape in common_shapes(peers)) for peer in peers[:2])
    return theirs / ours
