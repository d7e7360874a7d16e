"""``make train``: a GPT learns to write, a character at a time, from texts whose batch and length always change.

dyn compiles the step (loss, gradients of all parameters, Adam) once. JAX runs the same source twice for comparison:
with every text padded to the longest there may be, and compiled anew for each shape. The text is the reference manual
that comes with Python. Exits with 1 if dyn compiled more than once, if the loss did not fall, or if losses disagree.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pydoc_data import topics
from typing import Any

import gpt
import numpy as np
import optimizers
import optree
from gpt import GptConfig
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import dyn

#: Both ends are included. Texts have one token more than the length, since the last one is only predicted.
BATCHES, LENGTHS = (1, 8), (16, 160)
#: float32 sums in another order, drifting apart over some hundred steps.
TOLERANCE = 2e-2

Array = Any
#: ``step(params, state, ids)`` gives the loss, and the parameters and the state after it.
Step = Callable[[Any, Any, np.ndarray], tuple[Any, Any, Any]]


@dataclass(frozen=True)
class Run:
    """What a way of training took: seconds, of which some for compiling, and the loss of each step."""

    name: str
    losses: tuple[float, ...]
    compiles: int
    compile_seconds: float
    seconds: float
    tokens: int

    def loss(self, steps: int) -> float:
        """The mean loss of the last ten of the first ``steps`` steps."""
        return float(np.mean(self.losses[max(0, steps - 10) : steps]))


# ---- something to read -----------------------------------------------------------------------------------------------


def corpus() -> np.ndarray:
    """Python's reference manual in ASCII, a number below 128 for each character; others become ``?``."""
    text = "\n\n".join(topics.topics[name] for name in sorted(topics.topics))
    return np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int64)


def draw_batches(text: np.ndarray, steps: int, seed: int) -> list[np.ndarray]:
    """A batch ``[b, s + 1]`` for each step: pieces of the text, as many and as long as chance has it."""
    random = np.random.default_rng(seed)
    batches: list[np.ndarray] = []
    for _ in range(steps):
        batch = int(random.integers(BATCHES[0], BATCHES[1] + 1))
        length = int(random.integers(LENGTHS[0], LENGTHS[1] + 1))
        starts = random.integers(0, text.size - length, batch)
        batches.append(np.stack([text[start : start + length + 1] for start in starts]))
    return batches


# ---- three ways to train ---------------------------------------------------------------------------------------------


def make_step(config: GptConfig, rate: float, lib: Any) -> Callable[..., tuple[Any, Any, Any]]:
    """A step of training, not compiled, in dyn or in JAX."""
    adam = optimizers.adam(rate, lib=lib)

    def step(params: Any, state: Any, ids: Array, weights: Array | None = None) -> tuple[Any, Any, Any]:
        loss = functools.partial(gpt.loss, ids=ids, config=config, lib=lib, weights=weights)
        value, gradients = lib.value_and_grad(loss)(params)
        updates, state = adam.update(gradients, state, params)
        return value, optimizers.apply_updates(params, updates), state

    return step


def train(
    step: Step, batches: Sequence[np.ndarray], params: Any, state: Any, tick: Callable[[], object]
) -> list[float]:
    """The losses of some steps."""
    losses: list[float] = []
    for ids in batches:
        loss, params, state = step(params, state, ids)
        losses.append(float(loss))
        tick()
    return losses


def copied(tree: Any) -> Any:
    """The tree's arrays once more: what is trained is given away at every step."""
    return optree.tree_map(np.array, tree)


def train_dyn(
    config: GptConfig, rate: float, batches: Sequence[np.ndarray], params: Any, tick: Callable[[], object]
) -> Run:
    """With dyn: one program for all shapes, and parameters that are updated where they lie.

    ``params`` are those after the last step when this returns.
    """
    state = optimizers.adam(rate).init(params)
    step = dyn.jit(
        make_step(config, rate, dyn),
        donate_argnums=(0, 1),
        shapes=[gpt.shapes_of(params), gpt.shapes_of(state), "b s"],
    )
    start = time.perf_counter()
    with dyn.config.override(cache_dir=""):  # compiled for the first time, whatever was compiled before
        losses = train(step, batches, params, state, tick)
    seconds, info = time.perf_counter() - start, step.cache_info()
    return Run("dyn", tuple(losses), info.compiles, info.compile_seconds, seconds, count_tokens(batches))


class JaxStep:
    """JAX's step, compiled for each shape that it meets; counts that. ``fit`` makes its last arguments of a batch."""

    def __init__(self, step: Callable[..., Any], fit: Callable[[np.ndarray], tuple[np.ndarray, ...]]) -> None:
        import jax

        self._jitted = jax.jit(step, donate_argnums=(0, 1))
        self._fit = fit
        self._programs: dict[Any, Any] = {}
        self.compile_seconds = 0.0

    @property
    def compiles(self) -> int:
        return len(self._programs)

    def __call__(self, params: Any, state: Any, ids: np.ndarray) -> tuple[Any, Any, Any]:
        arguments = (params, state, *self._fit(ids.astype(np.int32)))
        program = self._programs.get(arguments[2].shape)
        if program is None:
            start = time.perf_counter()
            program = self._programs[arguments[2].shape] = self._jitted.lower(*arguments).compile()
            self.compile_seconds += time.perf_counter() - start
        return program(*arguments)


def pad(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A batch of the largest size, and what counts of it."""
    batch, length = BATCHES[1], LENGTHS[1]
    rows, columns = ids.shape
    padded = np.zeros((batch, length + 1), ids.dtype)
    padded[:rows, :columns] = ids
    weights = np.zeros((batch, length), np.float32)
    weights[:rows, : columns - 1] = 1
    return padded, weights


def train_jax(
    name: str, fit: Callable[[np.ndarray], tuple[np.ndarray, ...]], config: GptConfig, rate: float,
    batches: Sequence[np.ndarray], params: Any, tick: Callable[[], object],
) -> Run:  # fmt: skip
    """With JAX, on the same source."""
    import jax

    state = optimizers.adam(rate, lib=jax).init(params)
    params, state = jax.tree.map(jax.numpy.array, (params, state))
    step = JaxStep(make_step(config, rate, jax), fit)
    start = time.perf_counter()
    losses = train(step, batches, params, state, tick)
    seconds = time.perf_counter() - start
    return Run(name, tuple(losses), step.compiles, step.compile_seconds, seconds, count_tokens(batches))


def count_tokens(batches: Sequence[np.ndarray]) -> int:
    """Tokens that were predicted, padding apart."""
    return sum(ids.shape[0] * (ids.shape[1] - 1) for ids in batches)


# ---- what was learnt -------------------------------------------------------------------------------------------------


def write(params: Any, config: GptConfig, start: str, count: int, seed: int) -> str:
    """``start`` and what the model has it go on with: each character drawn by its probability, sharpened a little."""
    likely = dyn.jit(lambda ids: dyn.nn.softmax(gpt.logits(params, ids, config)[0, -1] / 0.8))
    random = np.random.default_rng(seed)
    ids = list(start.encode("ascii"))
    for _ in range(count):
        chances = likely(np.array([ids[-config.positions :]])).astype(np.float64)
        ids.append(int(random.choice(chances.size, p=chances / chances.sum())))
    return bytes(ids).decode("ascii")


def problems(runs: Sequence[Run]) -> list[str]:
    found: list[str] = []
    ours, *others = runs
    if ours.compiles != 1:
        found.append(f"the step was compiled {ours.compiles} times, not once; step.explain() says why.")
    steps = len(ours.losses)
    if not ours.loss(steps) < 0.9 * ours.losses[0]:  # NaN is a problem too
        found.append(f"the loss did not fall: from {ours.losses[0]:.3f} to {ours.loss(steps):.3f}.")
    for run in others:
        steps = len(run.losses)
        if not abs(run.loss(steps) - ours.loss(steps)) <= TOLERANCE:
            found.append(
                f"after {steps} steps the loss is {ours.loss(steps):.3f}, and {run.loss(steps):.3f} with {run.name}."
            )
    return found


def show(runs: Sequence[Run], config: GptConfig, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True)
    table.add_column("", no_wrap=True)
    for name in ("steps", "compiles", "compile s", "steady s", "total s", "tokens/s", "loss"):
        table.add_column(name, justify="right")
    for run in runs:
        steady = run.seconds - run.compile_seconds
        table.add_row(
            run.name, f"{len(run.losses)}", f"{run.compiles}", f"{run.compile_seconds:.1f}", f"{steady:.1f}",
            f"{run.seconds:.1f}", f"{run.tokens / run.seconds:,.0f}", f"{run.loss(len(run.losses)):.3f}",
            style="bold" if run is runs[0] else "",
        )  # fmt: skip
    ours = runs[0]
    console.print(f"\n  [bold]GPT[/bold], {config.layers} layers, {config.width} wide, {config.heads} heads;", end=" ")
    console.print(f"batches of {BATCHES[0]}–{BATCHES[1]} texts of {LENGTHS[0]}–{LENGTHS[1]} characters")
    console.print(table)
    marks = [steps for steps in (1, 50, 100, 200, 400, 800) if steps < len(ours.losses)] + [len(ours.losses)]
    falling = ", ".join(f"{ours.loss(steps):.2f} after {steps}" for steps in marks)
    console.print(f"  dyn's loss: {falling}\n")


# ---- the program -----------------------------------------------------------------------------------------------------


def main() -> int:
    arguments = parse_arguments()
    console = Console(highlight=False)
    config = GptConfig(arguments.layers, arguments.width, arguments.heads, positions=LENGTHS[1])
    first = gpt.init_params(config, arguments.seed)
    batches = draw_batches(corpus(), arguments.steps, arguments.seed)
    few = batches[: arguments.recompiled_steps]
    trained = copied(first)
    with_jax = arguments.jax and importlib.util.find_spec("jax") is not None
    with Progress(console=console, transient=True) as progress:

        def ticks(name: str, steps: int) -> Callable[[], object]:
            task = progress.add_task(name, total=steps)
            return lambda: progress.advance(task)

        rate = arguments.rate
        runs = [train_dyn(config, rate, batches, trained, ticks("dyn", len(batches)))]
        if with_jax:
            name = "JAX, padded"
            runs.append(train_jax(name, pad, config, rate, batches, first, ticks(name, len(batches))))
        if with_jax and few:
            name = "JAX, recompiled"
            runs.append(train_jax(name, lambda ids: (ids,), config, rate, few, first, ticks(name, len(few))))
    show(runs, config, console)
    if arguments.sample:
        console.print("  it writes:\n")
        text = write(trained, config, "The ", arguments.sample, arguments.seed)
        console.print("\n".join("    " + line for line in text.splitlines()) + "\n", markup=False)
    found = problems(runs)
    for problem in found:
        console.print(f"[red]error:[/red] {problem}")
    return 1 if found else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0].split(": ", 1)[1])
    parser.add_argument("--layers", type=positive, default=4)
    parser.add_argument("--width", type=positive, default=128)
    parser.add_argument("--heads", type=positive, default=4)
    parser.add_argument("--steps", type=positive, default=400, help="steps of training (default: %(default)s)")
    parser.add_argument(
        "--recompiled-steps", type=int, default=20, help="of them, with a compile by JAX each (default: %(default)s)"
    )
    parser.add_argument("--rate", type=float, default=2e-3, help="the learning rate (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=240, help="characters to write afterwards (default: %(default)s)")
    parser.add_argument("--no-jax", dest="jax", action="store_false", help="dyn alone")
    parser.add_argument("--quick", action="store_true", help="a smaller model, and 30 steps")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.layers, arguments.width, arguments.steps, arguments.recompiled_steps = 2, 64, 30, 1
    if arguments.width % arguments.heads:
        parser.error(f"--width: {arguments.width} is no multiple of the {arguments.heads} heads")
    return arguments


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
