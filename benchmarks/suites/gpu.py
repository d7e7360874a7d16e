"""Programs on a GPU, timed by its driver's events: memory-bound ones, contractions, streams of shapes of six families.

``--device`` says which: "cuda", "cuda:1", "rocm". Programs and the shares that a model expects of them are those of
gpu_model. PyTorch runs beside dyn where it was built for the device: eagerly, and by torch.compile(dynamic=True).
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.gpu.device import MeasuredDevice
from benchmarks.gpu.families import FAMILIES, Config
from benchmarks.gpu.measured_programs import measure_program, sizes_of
from benchmarks.gpu.streams import Stream, measure_stream, peers_of
from benchmarks.machine import describe_cpu
from benchmarks.options import add_stream_options, check_stream_options
from benchmarks.report import Report, Table
from benchmarks.stream import plain
from benchmarks.suites.gpu_model import PROGRAMS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, rocm, … (default: %(default)s)")
    parser.add_argument("--elements", default="1e5,1e6,1e7,1e8", help="of memory-bound programs (default: %(default)s)")
    parser.add_argument("--squares", default="256,1024,4096", help="sizes of contractions (default: %(default)s)")
    parser.add_argument("--families", default=",".join(FAMILIES), help="streams to serve (default: %(default)s)")
    parser.add_argument("--heads", type=int, default=8, help="heads of the models (default: %(default)s)")
    parser.add_argument("--longest", type=int, default=256, help="the longest sequence (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="the largest batch of sequences (default: %(default)s)")
    add_stream_options(
        parser, shapes=20, layers=4, hidden=512, peers="torch,torchcompile", seeds="shapes, inputs and weights"
    )
    parser.add_argument("--calls", type=int, default=10, help="calls between two events (default: %(default)s)")


def run(arguments: argparse.Namespace) -> Report:
    check_stream_options(arguments)
    if arguments.calls < 1 or arguments.heads < 1 or arguments.hidden % arguments.heads:
        raise ValueError("--calls and --heads must be at least 1, and --hidden a multiple of --heads.")
    families = [name for name in arguments.families.split(",") if name]
    if unknown := [name for name in families if name not in FAMILIES]:
        raise ValueError(f"there is no family {unknown[0]!r}; there are {', '.join(FAMILIES)}.")
    elements = [int(float(word)) for word in arguments.elements.split(",") if word]
    squares = [int(word) for word in arguments.squares.split(",") if word]
    device, load = MeasuredDevice(arguments.device), os.getloadavg()[0]
    peers = peers_of(device, [name for name in arguments.peers.split(",") if name])
    copy = device.copy_bandwidth(4 * max([*elements, 1]), arguments.repeats)
    sizes = {name: sizes_of(program, elements, squares) for name, program in PROGRAMS.items()}
    data: dict[str, Any] = {"copy": copy, "programs": {}, "streams": {}}
    rows: dict[bool, list[tuple[str, ...]]] = {False: [], True: []}
    for name, program in PROGRAMS.items():
        for each in sizes[name]:
            row, found = measure_program(device, name, program, each, copy, arguments)
            rows["product" in name].append(row)
            data["programs"].setdefault(name, []).append({"sizes": each, **found})
    config = Config(arguments.layers, arguments.hidden, arguments.heads, arguments.longest, arguments.batch)
    streams: list[Stream] = []
    for name in families:
        stream = measure_stream(device, name, config, peers, arguments)
        streams.append(stream)
        data["streams"][name] = stream.as_data()
    return _report(device, copy, rows, streams, arguments, load, data)


def _report(
    device: MeasuredDevice, copy: float, rows: dict[bool, list[tuple[str, ...]]], streams: Sequence[Stream],
    arguments: argparse.Namespace, load: float, data: dict[str, Any],
) -> Report:  # fmt: skip
    header = ("", "launches", "µs", "GB/s", "of a copy", "difference")
    tables = [
        Table("Memory-bound programs, by the driver's events", header, tuple(rows[False])),
        Table("Contractions", (*header[:3], "GFLOP/s", "of the peak", header[5]), tuple(rows[True])),
    ]
    whos = ["dyn", *dict.fromkeys([who for stream in streams for who in stream.runs if who != "dyn"])]
    for title, cell in _STREAM_TABLES.items():
        lines = [(s.name, *[cell(s, who) if who in s.runs else "–" for who in whos]) for s in streams]
        tables.append(Table(title, ("", *whos), tuple(lines)))
    notes = [
        f"{device.describe()}; on {describe_cpu()}, load average at the start {load:.1f}.",
        f"A copy within the device's memory, of as much as the largest program reads, reads and writes "
        f"{copy / 1e9:,.0f} GB/s.",
        f"Times are of the quickest of {arguments.repeats} rounds of {arguments.calls} calls, between two events of "
        "the default stream. Contractions on ordinary cores; peaks are those of the model, where it knows the device.",
        f"Streams: {arguments.layers} layers of {arguments.hidden} features, float32; {arguments.shapes} shapes, batch "
        f"1–{arguments.batch}, length up to {arguments.longest}; differences are from this machine's processor.",
    ]
    for who in whos[1:]:
        ratios = [s.seconds(who) / s.seconds("dyn") for s in streams if who in s.runs]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        notes.append(f"dyn is {mean:.2f}× as quick as {who} in geometric mean (least {min(ratios):.2f}×).")
    if streams and len(whos) == 1:
        notes.append(f"Nobody runs beside dyn: PyTorch here was not built for {device.name}.")
    data |= {"device": device.describe(), "load": load, "arguments": plain(arguments)}
    return Report(f"gpu: programs on {device.name}", tuple(tables), tuple(notes), data)


_STREAM_TABLES: dict[str, Callable[[Stream, str], str]] = {
    "Streams of shapes: ms in all, warm": lambda stream, who: f"{1e3 * stream.seconds(who):.3g}",
    "Streams: seconds of the first touch of all shapes, compiles included": lambda s, who: f"{s.runs[who].first:.3g}",
    "Streams: kernels launched by a call": lambda s, who: str(s.runs[who].launches),
    "Streams: largest difference": lambda s, who: f"{s.runs[who].difference:.0e}",
}
