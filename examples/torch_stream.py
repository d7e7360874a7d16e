"""``make torch``: a BERT of Hugging Face in PyTorch, over shapes that never repeat, by dyn, by Inductor and as it is.

First inference, by ``dyn.interop.torch.jit``; then what dyn made of the model, in its own words; then some steps of
training, by ``torch.compile(model, backend="dyn")``. The model comes from a configuration, with random weights: nothing
is downloaded. Exits with 1 where results or losses differ, or where dyn compiled more than once for the texts.
"""

from __future__ import annotations

import argparse
import copy
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from rich import box
from rich.console import Console
from rich.table import Table
from torch._dynamo.utils import counters

from dyn.interop import torch as dyn_torch

#: Largest difference of results and of losses, relative to them where they are more than 1: sums in another order.
TOLERANCE = 1e-3
WORDS, POSITIONS = 2000, 256
Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Outcome:
    """What became of one way to run the model: programs, seconds, and how far it is from eager PyTorch."""

    name: str
    compiles: int
    first: float
    again: float
    difference: float


def main() -> int:
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    model = make_model(arguments.layers, arguments.hidden)
    batches = draw_batches(arguments.shapes, arguments.seed)
    names = ["PyTorch", "dyn", "Inductor"]
    console = Console(highlight=False)
    if arguments.skip_inductor or shutil.which("g++") is None:
        names.remove("Inductor")
        console.print("  [dim]without Inductor, which needs g++[/dim]")

    compiled = dyn_torch.jit(model)
    served = serve(names, model, compiled, batches, console)
    console.print(table("inference, compiles included and again", served, "second run, s"))
    console.print(explained(str(compiled.explain())))
    trained = train(names, model, batches[: arguments.steps], console)
    console.print(table("training, compiles included", trained, "last loss"))

    problems = [f"{o.name}: {o.difference:.1e} apart" for o in (*served, *trained) if not o.difference <= TOLERANCE]
    problems += [f"dyn: {o.compiles} compiles" for o in served if o.name == "dyn" and o.compiles != 1]
    for problem in problems:
        console.print(f"[red]error:[/red] {problem}")
    return 1 if problems else 0


def make_model(layers: int, hidden: int) -> Any:
    """BERT with its head for masked words. Dropout draws random numbers, which dyn does not compile yet."""
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 32,
        intermediate_size=4 * hidden, max_position_embeddings=POSITIONS, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config)


def draw_batches(count: int, seed: int) -> list[Batch]:
    """Texts with padding, no two batches of one shape: one to eight texts of up to 128 words."""
    generator = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    shapes: dict[tuple[int, int], None] = {}
    while len(shapes) < count:
        shapes[number(1, 8), number(2, 128)] = None
    batches: list[Batch] = []
    for batch, length in shapes:
        ids = torch.randint(0, WORDS, (batch, length), generator=generator)
        ends = torch.randint(1, length + 1, (batch, 1), generator=generator)
        batches.append({"input_ids": ids, "attention_mask": (torch.arange(length) < ends).to(torch.int64)})
    return batches


# ---- inference and training ------------------------------------------------------------------------------------------


def serve(names: Iterable[str], model: Any, compiled: Any, batches: list[Batch], console: Console) -> list[Outcome]:
    """Run the model on all batches, twice."""
    model.eval()
    with torch.no_grad():
        wanted = [model(**batch).logits for batch in batches]
    outcomes: list[Outcome] = []
    for name in names:
        run = {"PyTorch": model, "dyn": compiled, "Inductor": torch.compile(model, dynamic=True)}[name]
        before = graphs()
        with console.status(f"{name}: inference"), torch.no_grad():
            first, results = timed(lambda run=run: [run(**batch).logits for batch in batches])
            again, _ = timed(lambda run=run: [run(**batch).logits for batch in batches])
        compiles = compiled.cache_info().compiles if name == "dyn" else graphs() - before
        worst = max(apart(found, right) for found, right in zip(results, wanted, strict=True))
        outcomes.append(Outcome(name, compiles, first, again, worst))
    return outcomes


def train(names: Iterable[str], model: Any, batches: list[Batch], console: Console) -> list[Outcome]:
    """Steps of AdamW, one on each batch, from the same weights; :attr:`Outcome.again` is the last loss."""
    losses: dict[str, list[float]] = {}
    outcomes: list[Outcome] = []
    for name in names:
        own = copy.deepcopy(model).train()
        backends = {"dyn": "dyn", "Inductor": "inductor"}
        run = torch.compile(own, backend=backends[name], dynamic=True) if name in backends else own
        optimizer = torch.optim.AdamW(own.parameters(), 1e-3)
        before = graphs()

        def step(batch: Batch, run: Any = run, optimizer: Any = optimizer) -> float:
            labels = batch["input_ids"].where(batch["attention_mask"] == 1, -100)
            loss = run(**batch, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()

        with console.status(f"{name}: training"):
            seconds, losses[name] = timed(lambda step=step: [step(batch) for batch in batches])
        pairs = zip(losses[name], losses["PyTorch"], strict=True)
        worst = max(abs(found - right) / max(1.0, abs(right)) for found, right in pairs)
        outcomes.append(Outcome(name, graphs() - before, seconds, losses[name][-1], worst))
    return outcomes


def graphs() -> int:
    """How many graphs Dynamo has found so far."""
    return counters["stats"]["unique_graphs"]


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def apart(found: torch.Tensor, right: torch.Tensor) -> float:
    """The largest difference; infinite for other shapes, dtypes or strides, and where there is a NaN."""
    if (found.shape, found.dtype, found.stride()) != (right.shape, right.dtype, right.stride()):
        return math.inf
    worst = float(((found - right).abs() / right.abs().clamp(min=1)).max())
    return math.inf if math.isnan(worst) else worst


# ---- what it says ----------------------------------------------------------------------------------------------------


def table(title: str, outcomes: list[Outcome], last: str) -> Table:
    made = Table(title=title, title_style="bold", title_justify="left", box=box.SIMPLE)
    for column in ("", "compiles", "first run, s", last, "difference"):
        made.add_column(column, justify="right" if column else "left")
    for o in outcomes:
        style = None if o.difference <= TOLERANCE else "red"
        made.add_row(o.name, str(o.compiles), f"{o.first:.2f}", f"{o.again:.2f}", f"{o.difference:.1e}", style=style)
    return made


def explained(text: str, lines: int = 12) -> str:
    """The beginning of what ``explain()`` says, and which kernels it found."""
    whole = text.splitlines()
    kernels = [line.strip() for line in whole if line.startswith(("    contract ", "    stitch ", "    loop "))]
    told = "\n".join(f"  {line[:76]}" for line in whole[:lines])
    kinds = ", ".join(
        f"{sum(line.startswith(kind) for line in kernels)} {kind}" for kind in ("contract", "stitch", "loop")
    )
    return f"{told}\n  …\n  {len(kernels)} kernels: {kinds}\n"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torch", description=__doc__)
    parser.add_argument("--layers", type=positive, default=4, help="layers of the model (default: %(default)s)")
    parser.add_argument("--hidden", type=positive, default=128, help="features, 32 a head (default: %(default)s)")
    parser.add_argument(
        "--shapes", type=positive, default=20, help="batches, each of its own shape (default: %(default)s)"
    )
    parser.add_argument("--steps", type=positive, default=10, help="steps of training (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and texts (default: %(default)s)")
    parser.add_argument("--skip-inductor", action="store_true", help="leave Inductor out")
    arguments = parser.parse_args()
    if arguments.hidden % 32:
        parser.error(f"argument --hidden: {arguments.hidden} is not a multiple of 32")
    return arguments


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
