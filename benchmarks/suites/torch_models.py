"""A BERT of Hugging Face over a stream of shapes: ``dyn.interop.torch.jit`` beside eager PyTorch and Inductor.

What is compiled, and what is captured of PyTorch before that, is told apart; and what a call of a tiny module costs.
"""

from __future__ import annotations

import argparse
import os
import statistics
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
from benchmarks.suites.dispatch import Case, measure, nanoseconds

#: Upper bounds of the classes of size, in tokens, that the report groups shapes by.
SIZES = (31, 128, 512, 2048)
#: Compiles are cold: nothing of an earlier process is found.
COLD = {"DYN_CACHE_DIR": "", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
#: The goals for transformers begin here: below, weights are read for few rows, and kernels of contractions decide.
ROWS = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stream_options(parser, shapes=20, hidden=256, peers="torch,torchcompile")
    parser.add_argument("--bursts", type=int, default=40, help="bursts of each call of a tiny module; 0: none")


def run(arguments: argparse.Namespace) -> Report:
    from examples.bert import BertConfig, draw_batch, draw_shapes

    check_stream_options(arguments)
    if arguments.bursts < 0:
        raise ValueError("--bursts must be at least 0.")
    if arguments.hidden < 64 or arguments.hidden % 64:
        raise ValueError("--hidden is a multiple of 64, the width of a head.")
    names = choose_peers("hfbert", arguments.peers)
    load = os.getloadavg()[0]
    os.environ.update(COLD)  # read when the peers are imported

    def draw(shape: Shape) -> dict[str, np.ndarray]:
        ids, mask = draw_batch(shape, arguments.seed, BertConfig())
        return {"ids": ids.astype(np.int64), "mask": mask.astype(np.int64)}

    shapes = draw_shapes(arguments.shapes, arguments.seed)
    program = Program("hfbert", model_config(arguments.layers, arguments.hidden), {}, shapes, draw)
    peers = serve(program, names, threads=arguments.threads, repeats=arguments.repeats)
    return report(peers, calls(arguments.bursts), arguments, load)


def model_config(layers: int, hidden: int) -> dict[str, Any]:
    """What BERT's configuration is given: heads of 64 features, as in all of its sizes."""
    return {
        "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": hidden // 64,
        "intermediate_size": 4 * hidden,
    }  # fmt: skip


# ---- calls of a tiny module ------------------------------------------------------------------------------------------


def calls(bursts: int) -> list[Case]:
    """A module of one and of eight small layers on a batch of one row: the way there is what is timed."""
    if not bursts:
        return []
    import torch

    from dyn.interop import torch as dyn_torch

    torch.set_num_threads(1)
    cases: list[Case] = []
    for count in (1, 8):
        torch.manual_seed(0)
        module = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(count)]).eval().requires_grad_(False)
        what = f"{count} {'layer' if count == 1 else 'layers'}, {2 * count} parameters"
        runs = {
            "dyn": dyn_torch.jit(module),
            "torch": module,
            "compile, dyn": torch.compile(module, backend="dyn", dynamic=True),
            "compile, inductor": torch.compile(module, dynamic=True),
        }
        cases += [Case(what, who, run, (torch.ones(2, 8),), settings=torch.no_grad) for who, run in runs.items()]
    measure(cases, bursts)
    return cases


# ---- the report ------------------------------------------------------------------------------------------------------


def report(peers: Sequence[PeerRun], cases: list[Case], arguments: argparse.Namespace, load: float) -> Report:
    common = common_shapes(peers)
    notes = [
        f"{describe_cpu()}; {arguments.threads} {'thread' if arguments.threads == 1 else 'threads'}, pinned; "
        f"load average at the start {load:.1f}; {'; '.join(peer.versions for peer in peers)}.",
        f"{arguments.layers}-layer BERT of transformers, {arguments.hidden} features, float32, random weights; "
        f"{len(common)} different shapes, batch 1–8, length 8–256, {sum(map(tokens, common)):,} tokens; seed "
        f"{arguments.seed}.",
        "First touch: every shape once, compiles included, without caches of earlier processes. Capture: the model's "
        "Python, run on tensors without elements by PyTorch (of Inductor the part of Dynamo and AOTAutograd). dyn's "
        "converters, and the questions about sizes that PyTorch asks them, are compiling, and so is what is built at "
        "the end of a first call; the parts are by samples of the time on the CPU.",
        f"Steady: the sum over the shapes of the median of {arguments.repeats} warm runs; quickest: of the shortest; "
        "CPU: of the least time on the CPU, that of called compilers included.",
        *ratios(peers),
    ]
    if arguments.threads == 1:
        notes += busy_notes(peers)
    tables = [totals_table(peers, common), touch_table(peers, common), sizes_table(peers, common, SIZES)]
    if cases:
        tables.append(calls_table(cases))
        notes.append("Calls: the quickest of short bursts, the loop around them and torch.no_grad() excluded.")
    data = {
        "machine": describe_cpu(), "load": load, "arguments": plain(arguments), "peers": [as_data(p) for p in peers],
        "calls": [{"call": case.what, "who": case.who, "seconds": case.seconds} for case in cases],
    }  # fmt: skip
    title = f"torch_models: {arguments.layers}-layer BERT of Hugging Face over {len(common)} shapes"
    return Report(title, tuple(tables), tuple(notes), data)


def touch_table(peers: Sequence[PeerRun], common: Sequence[Shape]) -> Table:
    """Where the first touch of all shapes goes."""
    rows: list[tuple[str, ...]] = []
    for peer in peers:
        first = sum(peer.measured[shape].first for shape in common)
        cpu = sum(peer.measured[shape].first_cpu for shape in common)
        compiling = sum(peer.measured[shape].compile_seconds for shape in common)
        captured = peer.capture_seconds or 0.0
        ratio, by_cpu = [
            sum(getattr(peers[0].measured[shape], field) for shape in common) / own
            for field, own in (("first", first), ("first_cpu", cpu))
        ]
        parts = (first, captured, compiling - captured, first - compiling, cpu)
        rows.append((peer.name, *(f"{part:.2f}" for part in parts), f"{ratio:.2f}×", f"{by_cpu:.2f}×"))
    ours = peers[0].name
    header = (
        "", "first touch, s", "capture, s", "compile, s", "running, s", "CPU, s", f"{ours} takes",
        f"{ours}, of the CPU",
    )  # fmt: skip
    return Table("First touch, and its parts", header, tuple(rows))


def ratios(peers: Sequence[PeerRun]) -> list[str]:
    """How many times quicker than each peer the first one is: geometric means over the shapes of enough rows."""
    reference = peers[0]
    shapes = [shape for shape in common_shapes(peers) if tokens(shape) >= ROWS]
    notes: list[str] = []
    for peer in peers[1:] if shapes else ():
        by_wall = [peer.measured[s].median / reference.measured[s].median for s in shapes]
        by_cpu = [min(peer.measured[s].cpu) / min(reference.measured[s].cpu) for s in shapes]
        notes.append(
            f"From {ROWS} rows on {reference.name} is {statistics.geometric_mean(by_wall):.2f}× as quick as "
            f"{peer.name} (geometric mean of the medians; least {min(by_wall):.2f}×), by the least CPU time "
            f"{statistics.geometric_mean(by_cpu):.2f}× (least {min(by_cpu):.2f}×)."
        )
    return notes


def calls_table(cases: list[Case]) -> Table:
    who = list(dict.fromkeys(case.who for case in cases))
    rows: list[tuple[str, ...]] = []
    for what in dict.fromkeys(case.what for case in cases):
        found = {case.who: case.seconds for case in cases if case.what == what}
        rows.append((what, *(nanoseconds(found.get(name)) for name in who)))
    return Table("A call of a tiny module, ns", ("", *who), tuple(rows))
