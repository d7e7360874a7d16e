"""A stream of shapes that never repeat, which peers serve side by side: first touch, steady time, memory, agreement.

Each peer runs in a process of its own, all on the same CPUs, and one measures at a time. Round 0 gives every peer every
shape for the first time, compiles included; the rounds after it do the same again, warm. Inside a round the peers take
turns at each shape, in an order that rotates, so that what disturbs the machine disturbs all alike.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import choose_cpus
from benchmarks.options import words
from benchmarks.peers import peer_names
from benchmarks.process import Worker
from benchmarks.report import Table
from benchmarks.tree import save_tree

Shape = tuple[int, int]


@dataclass
class Measured:
    """What one peer did with one shape."""

    first: float
    first_cpu: float
    compiles: int
    compile_seconds: float
    difference: float | None
    steady: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        return statistics.median(self.steady)


@dataclass
class PeerRun:
    """A peer, the shapes it gets, and what it did with them."""

    name: str
    shapes: list[Shape]
    versions: str = ""
    peak_memory: int = 0
    #: Seconds of its compiles in which the program's Python was run; None where the peer does not tell.
    capture_seconds: float | None = None
    measured: dict[Shape, Measured] = field(default_factory=dict[Shape, Measured])

    def steady(self, shapes: Iterable[Shape], *, best: bool = False) -> float:
        return sum(min(self.measured[s].steady) if best else self.measured[s].median for s in shapes)

    def cpu(self, shapes: Iterable[Shape]) -> float:
        """CPU seconds of the quickest runs: with one thread, what they would take on a machine that is at rest."""
        return sum(min(self.measured[s].cpu) for s in shapes)


@dataclass(frozen=True)
class Program:
    """What is served: a program of the peers, its parameters, and the requests, one for each shape."""

    name: str
    config: dict[str, Any]
    params: Any
    shapes: list[Shape]
    #: The arguments for a shape, by name, in order.
    draw: Callable[[Shape], dict[str, np.ndarray]]


def serve(
    program: Program,
    names: Sequence[str],
    *,
    threads: int,
    repeats: int,
    peer_shapes: int | None = None,
    calls: int = 1,
) -> list[PeerRun]:
    """Let the peers ``names`` serve a program, the first one all shapes, the others ``peer_shapes`` of them.

    A warm run is ``calls`` calls, and counts as their mean: more than one where a call takes microseconds.
    """
    cpus = choose_cpus(threads)
    fewer = choose_evenly(program.shapes, peer_shapes)
    peers = [PeerRun(name, fewer if place else program.shapes) for place, name in enumerate(names)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dyn-bench-")))
        save_tree(program.params, folder / "params.safetensors")
        for shape in program.shapes:
            np.savez(inputs_path(folder, shape), allow_pickle=False, **program.draw(shape))
        workers = {name: stack.enter_context(Worker(name, cpus)) for name in names}
        for peer in peers:
            answer = workers[peer.name].ask(
                "load", framework=peer.name, program=program.name, config=program.config,
                params=str(folder / "params.safetensors"), threads=threads,
            )  # fmt: skip
            peer.versions = answer["versions"]
        measure(peers, workers, program.shapes, repeats, calls, folder)
        for peer in peers:
            peer.peak_memory = workers[peer.name].ask("memory")["peak"]
            peer.capture_seconds = workers[peer.name].ask("capture")["seconds"]
    return peers


def choose_peers(program: str, text: str, *, skip_dyn: bool = False) -> list[str]:
    """The names of the peers to run, dyn first."""
    known = peer_names(program)
    names = words(text)
    for name in names:
        if name not in known:
            raise ValueError(f"there is no peer {name!r} for {program}; there are {', '.join(known)}.")
    chosen = [name for name in dict.fromkeys(["dyn", *names]) if not (skip_dyn and name == "dyn")]
    if not chosen:
        raise ValueError("--skip-dyn leaves nobody to run; name some --peers.")
    return chosen


def choose_evenly(shapes: list[Shape], count: int | None) -> list[Shape]:
    """``count`` of the shapes, spread evenly over their sizes, in their own order."""
    if count is None or count >= len(shapes):
        return shapes
    if count < 1:
        raise ValueError("--peer-shapes must be at least 1.")
    by_size = sorted(shapes, key=tokens)
    chosen = {by_size[(2 * i + 1) * len(shapes) // (2 * count)] for i in range(count)}
    return [shape for shape in shapes if shape in chosen]


def tokens(shape: Shape) -> int:
    return shape[0] * shape[1]


def inputs_path(folder: Path, shape: Shape) -> Path:
    return folder / f"{shape[0]}x{shape[1]}.npz"


def measure(
    peers: Sequence[PeerRun], workers: dict[str, Worker], shapes: Sequence[Shape], repeats: int, calls: int,
    folder: Path,
) -> None:  # fmt: skip
    """All rounds. The first also compares each result with that of the first peer."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    turns = itertools.cycle(range(len(peers)))
    for number in range(repeats + 1):
        # A bar for each round, so that a log, where bars don't move, gets its lines in time.
        with Progress(*columns, console=Console(stderr=True)) as progress:
            title = f"round {number} of {repeats}" if number else "first touch"
            for shape in progress.track(shapes, description=title):
                turn = next(turns)
                outputs: dict[str, Path] = {}
                for peer in [*peers[turn:], *peers[:turn]]:
                    if shape not in peer.shapes:
                        continue
                    output = None if number else str(folder / f"{peer.name}.npy")
                    answer = workers[peer.name].ask(
                        "run", inputs=str(inputs_path(folder, shape)), output=output, calls=calls if number else 1
                    )
                    record(peer, shape, answer)
                    if output is not None:
                        outputs[peer.name] = Path(output)
                compare(peers, shape, outputs)


def record(peer: PeerRun, shape: Shape, answer: dict[str, Any]) -> None:
    known = peer.measured.get(shape)
    if known is None:
        peer.measured[shape] = Measured(
            answer["seconds"], answer["cpu_seconds"], answer["compiles"], answer["compile_seconds"], None
        )
    else:
        known.steady.append(answer["seconds"])
        known.cpu.append(answer["cpu_seconds"])


def compare(peers: Sequence[PeerRun], shape: Shape, outputs: dict[str, Path]) -> None:
    first = peers[0]
    if first.name not in outputs:
        return
    wanted = np.load(outputs[first.name])
    for peer in peers[1:]:
        if peer.name in outputs:
            peer.measured[shape].difference = float(np.abs(np.load(outputs[peer.name]) - wanted).max(initial=0.0))


# ---- the report ------------------------------------------------------------------------------------------------------


def common_shapes(peers: Sequence[PeerRun]) -> list[Shape]:
    """The shapes that every peer ran."""
    return [shape for shape in peers[0].shapes if all(shape in peer.measured for peer in peers)]


def totals_table(
    peers: Sequence[PeerRun], common: Sequence[Shape], title: str = "In all", unit: str = "tokens"
) -> Table:
    reference = peers[0]
    count = sum(map(tokens, common))

    def row(label: str, cell: Callable[[PeerRun], str]) -> tuple[str, ...]:
        return (label, *[cell(peer) for peer in peers])

    def runs(peer: PeerRun) -> list[Measured]:
        return [peer.measured[shape] for shape in common]

    def difference(peer: PeerRun) -> str:
        found = [run.difference for run in runs(peer) if run.difference is not None]
        return f"{max(found):.1e}" if found else "–"

    def ratio(peer: PeerRun, *, best: bool) -> str:
        own, its = peer.steady(common, best=best), reference.steady(common, best=best)
        return "–" if peer is reference else f"{own / its:.2f}×"

    rows = [
        row("first touch, s", lambda peer: f"{sum(run.first for run in runs(peer)):.3g}"),
        row("compiles", lambda peer: str(sum(run.compiles for run in runs(peer)))),
        row("compiling, s", lambda peer: f"{sum(run.compile_seconds for run in runs(peer)):.3g}"),
        row("steady, s", lambda peer: f"{peer.steady(common):.3g}"),
        row(f"steady, {unit}/s", lambda peer: f"{count / peer.steady(common):,.0f}"),
        row("quickest, s", lambda peer: f"{peer.steady(common, best=True):.3g}"),
        row("quickest, CPU s", lambda peer: f"{peer.cpu(common):.3g}"),
        row("peak memory, MiB", lambda peer: f"{peer.peak_memory / 2**20:,.0f}"),
        row(f"largest difference from {reference.name}", difference),
    ]
    if len(peers) > 1:
        rows.append(row(f"{reference.name} is quicker, steady", lambda peer: ratio(peer, best=False)))
        rows.append(row(f"{reference.name} is quicker, quickest", lambda peer: ratio(peer, best=True)))
    return Table(title, ("", *[peer.name for peer in peers]), tuple(rows))


def sizes_table(peers: Sequence[PeerRun], common: Sequence[Shape], sizes: Sequence[int], unit: str = "tokens") -> Table:
    """Calls by classes of size; ``sizes`` are the upper bounds of the classes."""
    reference = peers[0]
    header = [unit, "shapes", *[f"{peer.name}, ms" for peer in peers]]
    header += [f"{peer.name} / {reference.name}" for peer in peers[1:]]
    rows: list[tuple[str, ...]] = []
    for low, high in itertools.pairwise((0, *sizes)):
        members = [shape for shape in common if low < tokens(shape) <= high]
        if not members:
            continue
        times = [peer.steady(members) for peer in peers]
        row = [f"{low + 1}–{high}", str(len(members))]
        row += [f"{1000 * time / len(members):.1f}" for time in times]
        row += [f"{time / times[0]:.2f}×" for time in times[1:]]
        rows.append(tuple(row))
    return Table("Mean steady time of a call, by its size", tuple(header), tuple(rows))


def busy_notes(peers: Sequence[PeerRun]) -> list[str]:
    """A warning where peers of one thread each had to wait for the CPU while they were measured."""
    shares: list[str] = []
    for peer in peers:
        cpu = sum(sum(run.cpu) for run in peer.measured.values())
        wall = sum(sum(run.steady) for run in peer.measured.values())
        if cpu < 0.95 * wall:
            shares.append(f"{peer.name} {cpu / wall:.0%}")
    if not shares:
        return []
    return [
        f"The machine was busy: while they were measured, peers computed for only a part of the time "
        f"({', '.join(shares)}). Trust the quickest runs more than the medians."
    ]


def plain(arguments: argparse.Namespace) -> dict[str, Any]:
    """A command line's arguments, for a report's data."""
    return {key: str(value) if isinstance(value, Path) else value for key, value in vars(arguments).items()}


def as_data(peer: PeerRun) -> dict[str, Any]:
    runs = [{"shape": shape, **dataclasses.asdict(run)} for shape, run in peer.measured.items()]
    return {
        "name": peer.name, "versions": peer.versions, "peak_memory": peer.peak_memory,
        "capture_seconds": peer.capture_seconds, "runs": runs,
    }  # fmt: skip
