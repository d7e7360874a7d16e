"""BERT over a stream of shapes that never repeat: first touch, steady time, memory, agreement."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from benchmarks.machine import describe_cpu
from benchmarks.options import add_stream_options, check_stream_options
from benchmarks.peers import peer_names
from benchmarks.report import Report
from benchmarks.stream import (
    PeerRun,
    Program,
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

#: Upper bounds of the classes of size, in tokens, that the report groups shapes by.
SIZES = (64, 256, 512, 1024, 2048)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    known = [name for name in peer_names("bert") if name != "dyn"]
    add_stream_options(parser, peers=",".join(known), seeds="shapes, tokens and weights")
    parser.add_argument("--skip-dyn", action="store_true", help="run the peers alone")
    parser.add_argument(
        "--peer-shapes", type=int, metavar="N",
        help="give the peers only N of the shapes, of all sizes; ratios are then over those alone",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> Report:
    from examples.bert import BertConfig, draw_batch, draw_shapes, init_params

    check_stream_options(arguments)
    names = choose_peers("bert", arguments.peers, skip_dyn=arguments.skip_dyn)
    config = BertConfig(layers=arguments.layers)

    def draw(shape: tuple[int, int]) -> dict[str, np.ndarray]:
        ids, mask = draw_batch(shape, arguments.seed, config)
        return {"ids": ids, "mask": mask}

    shapes = draw_shapes(arguments.shapes, arguments.seed)
    program = Program("bert", dataclasses.asdict(config), init_params(config, arguments.seed), shapes, draw)
    load = os.getloadavg()[0]
    peers = serve(
        program, names, threads=arguments.threads, repeats=arguments.repeats, peer_shapes=arguments.peer_shapes
    )
    return report(peers, arguments, load)


def report(peers: Sequence[PeerRun], arguments: argparse.Namespace, load: float) -> Report:
    machine = describe_cpu()
    common = common_shapes(peers)
    notes = [
        f"{machine}; {arguments.threads} {'thread' if arguments.threads == 1 else 'threads'}, pinned; "
        f"load average at the start {load:.1f}; {'; '.join(peer.versions for peer in peers)}.",
        f"{arguments.layers}-layer BERT-base, float32; {len(peers[0].shapes)} different shapes, batch 1–8, length "
        f"8–256, {sum(map(tokens, common)):,} tokens; seed {arguments.seed}.",
        f"First touch: every shape once, compiles included. Steady: the sum over the shapes of the median of "
        f"{arguments.repeats} warm runs; quickest: of the shortest; CPU: of the least time on the CPU."
        " Peak memory: while serving, weights included.",
    ]
    if len(common) < len(peers[0].shapes):
        notes.append(f"Times and ratios are over the {len(common)} shapes that every peer ran, chosen evenly by size.")
    if arguments.threads == 1:
        notes += busy_notes(peers)
    return Report(
        title=f"shape_stream: {arguments.layers}-layer BERT over {len(peers[0].shapes)} shapes",
        tables=(totals_table(peers, common), sizes_table(peers, common, SIZES)),
        notes=tuple(notes),
        data={"machine": machine, "load": load, "arguments": plain(arguments), "peers": [as_data(p) for p in peers]},
    )
