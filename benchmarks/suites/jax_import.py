"""Importing a module that JAX exported: a BERT encoder with symbolic batch and length.

Stages of ``dyn.interop.stablehlo.load``, and what jaxlib alone takes to parse the same bytes. Everything runs in one
process, and the quickest of several runs counts.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

from benchmarks.machine import describe_cpu
from benchmarks.report import Report, Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=int, default=12, help="layers of the encoder (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each stage (default: %(default)s)")


def run(arguments: argparse.Namespace) -> Report:
    if arguments.repeats < 1 or arguments.layers < 1:
        raise ValueError("--layers and --repeats must be at least 1.")
    load = os.getloadavg()[0]
    data, example = exported(arguments.layers)
    stages = _stages(data, example)
    best = dict.fromkeys(stages, float("inf"))
    for _ in range(arguments.repeats):
        for name, stage in stages.items():
            start = time.perf_counter()
            stage()
            best[name] = min(best[name], time.perf_counter() - start)
    notes = (
        f"{describe_cpu()}; load average at the start {load:.1f}; the quickest of {arguments.repeats} runs.",
        f"{arguments.layers}-layer BERT-base, parameters are arguments; {len(data):,} bytes of portable artifact.",
    )
    rows = tuple([(name, f"{1000 * seconds:.0f}") for name, seconds in best.items()])
    table = Table("Import", ("stage", "ms"), rows)
    return Report("jax_import: reading a module that JAX exported", (table,), notes, {"seconds": best})


def exported(layers: int) -> tuple[bytes, list[Any]]:
    """The encoder's module, and what to trace it with."""
    import dataclasses

    import jax

    import dyn
    from benchmarks.peers.jax_bert import Peer
    from examples.bert import BertConfig, init_params

    config = BertConfig(layers=layers)
    peer = Peer(dataclasses.asdict(config), init_params(config, 0), 1)
    b, s = jax.export.symbolic_shape("b, s", constraints=[f"s <= {config.positions}"])
    words = jax.ShapeDtypeStruct((b, s), "int32")
    structs = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), peer.params)
    data = jax.export.export(jax.jit(peer.encode))(structs, words, words).mlir_module_serialized
    leaves = [dyn.ShapeDtypeStruct(x.shape, dyn.dtypes.dtype(x.dtype)) for x in jax.tree.leaves(structs)]
    return data, [*leaves, *[dyn.ShapeDtypeStruct(("b", "s"), dyn.int32)] * 2]


def _stages(data: bytes, example: list[Any]) -> dict[str, Callable[[], object]]:
    from dyn.interop.stablehlo import load, mlir
    from dyn.interop.stablehlo.decode import is_known
    from dyn.interop.stablehlo.mlir.context import bindings
    from dyn.interop.stablehlo.mlir.forms import parsed

    def parse() -> None:
        m = bindings()
        context = m.context()
        with context, m.ir.Location.unknown():
            parsed(context, data, trusted=True)

    return {
        "jaxlib parses": parse,
        "records of it": lambda: mlir.parse(data, is_known, trusted=True),
        "load(trusted=True), traced": lambda: load(data, trusted=True).trace(*example),
        "load, traced": lambda: load(data).trace(*example),
    }
