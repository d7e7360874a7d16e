"""A step of training a BERT of Hugging Face: ``torch.compile(backend="dyn")`` beside eager PyTorch and Inductor.

Loss, gradients and AdamW, on copies of one model, in one process with one thread. Steps take turns, and each one's
quickest counts, by the process's time on the CPU.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.machine import describe_cpu, thread_environment
from benchmarks.report import Report, Table
from benchmarks.stream import plain
from benchmarks.suites.torch_models import COLD, model_config

WHO = ("dyn", "torch", "inductor")
RATE = 1e-3
#: Sums in another order, and what some steps make of that.
TOLERANCE = 1e-2


@dataclasses.dataclass
class Steps:
    """The steps of one of them for one shape: seconds on the CPU of the first one, and of the quickest after it."""

    first: float = 0.0
    quickest: float = float("inf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=int, default=4, help="layers of the model (default: %(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="features; BERT-base has 768 (default: %(default)s)")
    parser.add_argument("--shapes", default="2x32,4x32,2x128,8x128", help="batch x length (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="steps of each shape (default: %(default)s)")
    parser.add_argument("--peers", default="torch,inductor", help="who to compare with (default: %(default)s)")


def run(arguments: argparse.Namespace) -> Report:
    shapes = [tuple(int(n) for n in text.split("x")) for text in arguments.shapes.split(",")]
    peers = [name for name in arguments.peers.split(",") if name]
    if any(name not in WHO[1:] for name in peers) or arguments.repeats < 1:
        raise ValueError("--peers are among torch, inductor, and --repeats is at least 1.")
    os.environ.update({**COLD, **thread_environment(1)})  # read when they are imported
    import torch
    import transformers

    import dyn

    torch.set_num_threads(1)
    config = transformers.BertConfig(
        **model_config(arguments.layers, arguments.hidden), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(config)
    load = os.getloadavg()[0]
    with dyn.config.override(num_threads=1):
        steps = {name: make_step(name, copy.deepcopy(model)) for name in ("dyn", *peers)}
        measured = [measure(steps, config.vocab_size, shape, arguments.repeats) for shape in shapes]
    return report(shapes, measured, arguments, load)


def make_step(name: str, model: Any) -> Callable[[Any], float]:
    """A step on the words ``(batch, length)``, which updates the model's parameters and gives the loss."""
    import torch

    backends = {"dyn": "dyn", "inductor": "inductor"}
    run = torch.compile(model, backend=backends[name], dynamic=True) if name in backends else model
    optimizer = torch.optim.AdamW(model.parameters(), RATE)

    def step(words: Any) -> float:
        loss = run(input_ids=words, attention_mask=torch.ones_like(words), labels=words).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def measure(
    steps: dict[str, Callable[[Any], float]], words: int, shape: Sequence[int], repeats: int
) -> dict[str, Steps]:
    """What steps of one shape take; ValueError where they don't agree on the loss."""
    import torch

    ids = torch.randint(0, words, tuple(shape), generator=torch.Generator().manual_seed(shape[0] * shape[1]))
    return measure_steps(steps, ids, repeats, f"{shape[0]}x{shape[1]}")


def measure_steps(steps: dict[str, Callable[[Any], float]], ids: Any, repeats: int, what: str) -> dict[str, Steps]:
    """What steps on one batch take, which take turns; ValueError where they don't agree on the loss."""
    found = {name: Steps() for name in steps}
    for number in range(repeats + 1):
        losses: dict[str, float] = {}
        for name, step in steps.items():
            start = _cpu_seconds()
            losses[name] = step(ids)
            spent = _cpu_seconds() - start
            if number:
                found[name].quickest = min(found[name].quickest, spent)
            else:  # may compile
                found[name].first = spent
        if max(losses.values()) - min(losses.values()) > TOLERANCE * max(losses.values()):
            raise ValueError(f"the losses of {what} are {losses}.")
    return found


def _cpu_seconds() -> float:
    """What this process and the compilers that it called have computed for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def report(
    shapes: Sequence[Sequence[int]], measured: list[dict[str, Steps]], arguments: argparse.Namespace, load: float
) -> Report:
    who = [name for name in WHO if name in measured[0]]
    rows: list[tuple[str, ...]] = []
    for (batch, length), steps in zip(shapes, measured, strict=True):
        cells = [f"{1000 * steps[name].quickest:.1f}" for name in who]
        ratios = [f"{steps[name].quickest / steps['dyn'].quickest:.2f}×" for name in who[1:]]
        rows.append((f"{batch} × {length}", *cells, *ratios))
    means = [
        statistics.geometric_mean([steps[name].quickest / steps["dyn"].quickest for steps in measured])
        for name in who[1:]
    ]
    rows.append(("geometric mean", *[""] * len(who), *(f"{mean:.2f}×" for mean in means)))
    firsts = tuple(
        (name, *(f"{steps[name].first:.2f}" for steps in measured), f"{sum(s[name].first for s in measured):.1f}")
        for name in who
    )
    sizes = tuple(f"{batch} × {length}" for batch, length in shapes)
    tables = (
        Table("CPU milliseconds a step", ("batch × length", *who, *(f"{name} / dyn" for name in who[1:])), tuple(rows)),
        Table("CPU seconds of the first step of each shape, compiles included", ("", *sizes, "all"), firsts),
    )
    notes = (
        f"{describe_cpu()}; one thread; load {load:.1f} when it began; the losses agreed at every step.",
        f"{arguments.layers}-layer BERT of transformers with its head for masked words, {arguments.hidden} features, "
        "float32, no dropout, AdamW of PyTorch. CPU time of the quickest step; of first steps that of called compilers "
        "is included, and nothing is found from earlier processes.",
    )
    data = {
        "arguments": plain(arguments), "load": load,
        "steps": [
            {"shape": list(shape), **{name: dataclasses.asdict(one) for name, one in steps.items()}}
            for shape, steps in zip(shapes, measured, strict=True)
        ],
    }  # fmt: skip
    return Report("torch_train: training a BERT of Hugging Face", tables, notes, data)
