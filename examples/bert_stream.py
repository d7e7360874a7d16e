"""``make demo``: BERT over a stream of shapes that never repeat, served from one compile.

Draws different (batch, length) from a seed, runs the model on each, and says what that took; compares some of the
results with dyn's NumPy reference; saves a plot of latency against tokens. Exits with 1 if the model was compiled more
than once or a result is off.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bert import BertConfig, Params, draw_batch, draw_shapes, encode, init_params, load_params
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import dyn

#: Upper bounds of the classes of size, in tokens, that latencies are shown for.
SIZES = (64, 256, 512, 1024, 2048)
#: float32 sums of 768 and 3072 terms, in another order, in each of 12 layers.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Call:
    """One call of the model that did not compile."""

    shape: tuple[int, int]
    seconds: float

    @property
    def tokens(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True)
class Outcome:
    """What the stream showed."""

    calls: tuple[Call, ...]
    compiles: int
    compile_seconds: float
    peak_bytes: int
    compared: int
    difference: float

    @property
    def tokens(self) -> int:
        return sum(call.tokens for call in self.calls)

    @property
    def seconds(self) -> float:
        return sum(call.seconds for call in self.calls)

    def problems(self) -> list[str]:
        found: list[str] = []
        if self.compiles != 1:
            found.append(f"the model was compiled {self.compiles} times, not once; model.explain() says why.")
        if not self.difference <= TOLERANCE:  # NaN is a problem too
            found.append(f"a result differs from the reference by {self.difference:.1e}, more than {TOLERANCE:.0e}.")
        return found


def main() -> int:
    arguments = parse_arguments()
    console = Console(highlight=False)
    config = BertConfig(layers=arguments.layers)
    try:
        shapes = draw_shapes(arguments.shapes, arguments.seed)
        with console.status("preparing the weights"):
            params = prepare_params(arguments.weights, config, arguments.seed)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    outcome = serve(build(params, config), config, shapes, arguments, console)
    show(outcome, config, console)
    if arguments.plot is not None:
        plot(outcome, config, arguments.plot)
        console.print(f"  latency against tokens: [bold]{arguments.plot}[/bold]\n")
    for problem in outcome.problems():
        console.print(f"[red]error:[/red] {problem}")
    return 1 if outcome.problems() else 0


def prepare_params(path: Path | None, config: BertConfig, seed: int) -> Params:
    return init_params(config, seed) if path is None else load_params(path, config)


def build(params: Params, config: BertConfig) -> Any:
    """The model, compiled for every batch and length when it is first called."""

    @dyn.jit(shapes="b s, b s", constraints=f"s <= {config.positions}")
    def model(ids: Any, mask: Any) -> Any:
        return encode(params, ids, mask, config=config)

    return model


def serve(
    model: Any, config: BertConfig, shapes: Sequence[tuple[int, int]], arguments: argparse.Namespace, console: Console
) -> Outcome:
    """Run the model on every shape, then compare some results with the reference."""
    calls: list[Call] = []
    results = dict.fromkeys(spread(shapes, arguments.check))
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("compiling", total=len(shapes))
        model(*draw_batch(shapes[0], arguments.seed, config))
        for shape in shapes:
            progress.update(task, description=f"batch {shape[0]}, length {shape[1]:3}")
            result, seconds = timed(model, draw_batch(shape, arguments.seed, config))
            calls.append(Call(shape, seconds))
            if shape in results:
                results[shape] = result
            progress.advance(task)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

        difference = 0.0
        for shape, result in progress.track(results.items(), description="comparing with NumPy"):
            error = np.abs(result - model.reference(*draw_batch(shape, arguments.seed, config))).max()
            difference = float(np.maximum(difference, error))  # keeps NaN
    info = model.cache_info()
    return Outcome(tuple(calls), info.compiles, info.compile_seconds, peak, len(results), difference)


def timed(model: Any, batch: tuple[np.ndarray, np.ndarray]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = model(*batch)
    return result, time.perf_counter() - start


def spread(shapes: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """``count`` of the shapes, from all sizes."""
    by_size = sorted(shapes, key=lambda shape: shape[0] * shape[1])
    count = min(count, len(by_size))
    return [by_size[(2 * i + 1) * len(by_size) // (2 * count)] for i in range(count)]


# ---- what it says ----------------------------------------------------------------------------------------------------


def show(outcome: Outcome, config: BertConfig, console: Console) -> None:
    facts = Table(box=None, show_header=False, padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("compiles", f"[bold]{outcome.compiles}[/bold] in {outcome.compile_seconds:.2f} s")
    facts.add_row("served", f"{len(outcome.calls)} shapes, {outcome.tokens:,} tokens in {outcome.seconds:.1f} s")
    facts.add_row("tokens a second", f"[bold]{outcome.tokens / outcome.seconds:,.0f}[/bold]")
    facts.add_row("peak memory", f"{outcome.peak_bytes / 2**20:,.0f} MiB")
    facts.add_row("largest difference", f"{outcome.difference:.1e} from the reference, on {outcome.compared} shapes")

    sizes = Table(box=box.SIMPLE_HEAD, padding=(0, 2))
    for name in ("tokens", "shapes", "p50, ms", "p95, ms", "tokens a second"):
        sizes.add_column(name, justify="right")
    for low, high in itertools.pairwise((0, *SIZES)):
        members = [call for call in outcome.calls if low < call.tokens <= high]
        if members:
            middle, late = np.percentile([1000 * call.seconds for call in members], [50, 95])
            rate = sum(call.tokens for call in members) / sum(call.seconds for call in members)
            sizes.add_row(f"{low + 1} – {high}", f"{len(members)}", f"{middle:.1f}", f"{late:.1f}", f"{rate:,.0f}")

    console.print(f"\n  [bold]BERT[/bold], {config.layers} layers, {config.width} wide, {config.heads} heads\n")
    console.print(facts)
    console.print(sizes)


def plot(outcome: Outcome, config: BertConfig, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    tokens = np.array([call.tokens for call in outcome.calls])
    latency = np.array([1000 * call.seconds for call in outcome.calls])
    batches = np.array([call.shape[0] for call in outcome.calls])
    figure, axes = pyplot.subplots(figsize=(7, 4.6), layout="constrained")
    points = axes.scatter(
        tokens, latency, c=batches, cmap=pyplot.get_cmap("viridis_r", 8), vmin=0.5, vmax=8.5,
        s=26, linewidths=0.4, edgecolors="white", zorder=3,
    )  # fmt: skip
    ends = np.array([tokens.min(), tokens.max()])
    rate = outcome.tokens / outcome.seconds
    axes.plot(ends, 1000 * ends / rate, color="0.6", linewidth=1, linestyle="--", zorder=2)
    middle = float(np.sqrt(ends.prod()))
    axes.annotate(
        f"{rate:,.0f} tokens a second", (middle, 1000 * middle / rate), xytext=(14, -12),
        textcoords="offset points", va="top", color="0.4", fontsize=9,
    )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="tokens in the call (batch × length)", ylabel="latency, ms")
    for axis, values in ((axes.xaxis, tokens), (axes.yaxis, latency)):
        axis.set_major_locator(FixedLocator(round_numbers(values)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.grid(color="0.92", zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    compiles = "one compile" if outcome.compiles == 1 else f"{outcome.compiles} compiles"
    axes.set_title(f"BERT, {config.layers} layers: {len(outcome.calls)} shapes, {compiles}", loc="left", fontsize=11)
    bar = figure.colorbar(points, ax=axes, label="batch", ticks=range(1, 9), shrink=0.8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    figure.savefig(path, dpi=160)
    pyplot.close(figure)


def round_numbers(values: np.ndarray) -> list[float]:
    """1, 2 and 5 times the powers of ten that ``values`` lie among."""
    low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
    return [digit * 10.0**power for power in np.arange(low, high + 1) for digit in (1, 2, 5)]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serves BERT over shapes that never repeat, from one compile.")
    parser.add_argument("--layers", type=positive, default=12, help="layers of the model (default: %(default)s)")
    parser.add_argument("--shapes", type=positive, default=100, help="number of shapes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of shapes, tokens and weights (default: %(default)s)")
    parser.add_argument("--check", type=positive, default=5, help="results to compare (default: %(default)s)")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="a safetensors file with Hugging Face's names")
    parser.add_argument("--plot", type=Path, default=Path("bert_stream.png"), help="the plot (default: %(default)s)")
    return parser.parse_args()


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
