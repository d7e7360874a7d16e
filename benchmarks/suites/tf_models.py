"""A Transformer of Keras's over a stream of shapes: ``dyn.interop.tf.jit`` beside tf.function, without and with XLA.

Then steps of ``fit``, and what a call of a tiny function costs outside of a graph.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.machine import describe_cpu, thread_environment
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
from benchmarks.suites.torch_train import Steps, measure_steps

#: Upper bounds of the classes of size, in tokens, that the report groups shapes by.
SIZES = (31, 128, 512, 2048)
#: Compiles are cold: nothing of an earlier process is found.
COLD = {"DYN_CACHE_DIR": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
WORDS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stream_options(parser, threads=2, shapes=20, layers=4, hidden=256, peers="tffunction,tfxla")
    parser.add_argument("--steps", default="4x32,8x64,2x128", help="batch x length of steps of fit; empty: none")
    parser.add_argument("--bursts", type=int, default=40, help="bursts of each call of a tiny function; 0: none")


def run(arguments: argparse.Namespace) -> Report:
    from examples.bert import draw_shapes

    check_stream_options(arguments)
    if arguments.bursts < 0:
        raise ValueError("--bursts must be at least 0.")
    names = choose_peers("kerastext", arguments.peers)
    load = os.getloadavg()[0]
    os.environ.update(COLD)  # read when the peers are imported

    def draw(shape: Shape) -> dict[str, np.ndarray]:
        rng = np.random.default_rng((arguments.seed, *shape))
        return {"ids": rng.integers(0, WORDS, shape).astype(np.int32)}

    shapes = draw_shapes(arguments.shapes, arguments.seed)
    config = {"layers": arguments.layers, "hidden": arguments.hidden, "words": WORDS}
    peers = serve(
        Program("kerastext", config, {}, shapes, draw), names, threads=arguments.threads, repeats=arguments.repeats
    )
    os.environ.update(thread_environment(1))  # what follows is in this process
    pairs = [text.split("x") for text in arguments.steps.split(",") if text]
    sizes: list[Shape] = [(int(batch), int(length)) for batch, length in pairs]
    return report(peers, training(config, sizes, arguments.repeats), calls(arguments.bursts), arguments, load)


# ---- steps of fit, and calls of a tiny function ----------------------------------------------------------------------


def tensorflow() -> Any:
    tf = importlib.import_module("tensorflow")
    if not tf.executing_eagerly():
        raise ValueError("the benchmark is of TensorFlow 2.")
    return tf


def training(config: dict[str, Any], sizes: Sequence[Shape], repeats: int) -> dict[Shape, dict[str, Steps]]:
    """Steps of ``fit`` of one model, by dyn and by Keras itself, which take turns."""
    if not sizes:
        return {}
    import dyn
    from dyn.interop import keras as dyn_keras
    from examples.tensorflow_stream import encoder

    tf = tensorflow()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)

    def made(compiles: bool) -> Callable[[Any], float]:
        model = encoder(**config)
        model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        if compiles:
            dyn_keras.compile(model)
        return lambda ids: float(model.train_on_batch(ids, ids[:, 0] % 10))

    steps = {"dyn": made(True), "keras": made(False)}
    rng = np.random.default_rng(0)
    with dyn.config.override(num_threads=1):
        return {
            shape: measure_steps(steps, rng.integers(0, WORDS, shape).astype(np.int32), repeats, f"{shape}")
            for shape in sizes
        }


def calls(bursts: int) -> list[Case]:
    """A function of one operation, and a model of one layer, on a batch of one row: the way there is what is timed."""
    if not bursts:
        return []
    from dyn.interop import tf as dyn_tf

    tf = tensorflow()
    layer = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(8)])
    x = tf.ones((2, 8))
    cases: list[Case] = []
    for what, function in (("x + 1", lambda x: x + 1), ("one layer, 2 variables", layer)):
        runs = {"dyn": dyn_tf.jit(function), "tf.function": tf.function(function), "eager": function}
        cases += [Case(what, who, run, (x,)) for who, run in runs.items()]
    measure(cases, bursts)
    return cases


# ---- the report ------------------------------------------------------------------------------------------------------


def report(
    peers: Sequence[PeerRun], steps: dict[Shape, dict[str, Steps]], cases: Sequence[Case],
    arguments: argparse.Namespace, load: float,
) -> Report:  # fmt: skip
    common = common_shapes(peers)
    notes = [
        f"{describe_cpu()}; {arguments.threads} {'thread' if arguments.threads == 1 else 'threads'}, pinned; "
        f"load average at the start {load:.1f}; {'; '.join(peer.versions for peer in peers)}.",
        f"{arguments.layers}-layer Transformer encoder of Keras's layers, {arguments.hidden} features, float32, random "
        f"weights; {len(common)} different shapes, {sum(map(tokens, common)):,} tokens; seed {arguments.seed}.",
        "First touch: every shape once, compiles included, without caches of earlier processes.",
        *ratios(peers),
    ]
    if arguments.threads == 1:
        notes += busy_notes(peers)
    tables = [totals_table(peers, common), sizes_table(peers, common, SIZES)]
    if steps:
        tables.append(steps_table(steps))
        notes.append("Steps of fit: train_on_batch, one thread, CPU time of the quickest; the losses agreed.")
    if cases:
        tables.append(calls_table(cases))
        notes.append("Calls: the quickest of short bursts, the loop around them included.")
    data = {
        "machine": describe_cpu(), "load": load, "arguments": plain(arguments), "peers": [as_data(p) for p in peers],
        "calls": [{"call": case.what, "who": case.who, "seconds": case.seconds} for case in cases],
        "steps": [
            {"shape": shape, "who": who, "first": one.first, "quickest": one.quickest}
            for shape, found in steps.items() for who, one in found.items()
        ],
    }  # fmt: skip
    title = f"tf_models: {arguments.layers}-layer Transformer of Keras over {len(common)} shapes"
    return Report(title, tuple(tables), tuple(notes), data)


def ratios(peers: Sequence[PeerRun]) -> list[str]:
    """How many times quicker than each peer the first one is, and its share of their first touches."""
    own, shapes = peers[0], common_shapes(peers)
    notes: list[str] = []
    for peer in peers[1:]:
        by_wall = [peer.measured[s].median / own.measured[s].median for s in shapes]
        by_cpu = [min(peer.measured[s].cpu) / min(own.measured[s].cpu) for s in shapes]
        touch = [sum(one.measured[s].first for s in shapes) for one in (own, peer)]
        touch_cpu = [sum(one.measured[s].first_cpu for s in shapes) for one in (own, peer)]
        notes.append(
            f"{own.name} is {statistics.geometric_mean(by_wall):.2f}× as quick as {peer.name} (geometric mean of the "
            f"medians; least {min(by_wall):.2f}×), by the least CPU time {statistics.geometric_mean(by_cpu):.2f}× "
            f"(least {min(by_cpu):.2f}×). Its first touch takes {touch[0] / touch[1]:.2f} of {peer.name}'s, of the CPU "
            f"{touch_cpu[0] / touch_cpu[1]:.2f}."
        )
    return notes


def steps_table(steps: dict[Shape, dict[str, Steps]]) -> Table:
    rows: list[tuple[str, ...]] = []
    for (batch, length), found in steps.items():
        own, other = found["dyn"], found["keras"]
        numbers = [1000 * own.quickest, 1000 * other.quickest]
        firsts = f"{own.first:.1f}", f"{other.first:.1f}"
        rows.append((f"{batch} × {length}", *(f"{n:.1f}" for n in numbers), f"{numbers[1] / numbers[0]:.2f}×", *firsts))
    header = ("batch × length", "dyn", "keras", "keras / dyn", "first of dyn, s", "first of keras, s")
    return Table("CPU milliseconds a step of fit", header, tuple(rows))


def calls_table(cases: Sequence[Case]) -> Table:
    who = list(dict.fromkeys(case.who for case in cases))
    rows: list[tuple[str, ...]] = []
    for what in dict.fromkeys(case.what for case in cases):
        found = {case.who: case.seconds for case in cases if case.what == what}
        rows.append((what, *(nanoseconds(found.get(name)) for name in who)))
    return Table("A call, ns", ("", *who), tuple(rows))
