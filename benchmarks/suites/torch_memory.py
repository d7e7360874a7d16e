"""Peak memory of training a BERT of Hugging Face: dyn with and without ``memory="low"`` beside eager PyTorch.

Each runs in a process of its own: what a step takes at its peak above what the process has between steps, idle memory
given back.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from typing import Any

from benchmarks.machine import describe_cpu, peak_memory, reset_peak_memory, thread_environment
from benchmarks.process import ROOT, WorkerError
from benchmarks.report import Report, Table
from benchmarks.stream import plain
from benchmarks.suites.torch_models import model_config

#: What is measured, by what it is called: eager PyTorch, with its checkpoints of layers, and dyn's two settings.
WHO = ("eager", "eager, checkpoints", "dyn", "dyn, low")
WARM, STEPS = 2, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", default="2,4,12", help="layers of the models (default: %(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="features; BERT-base has 768 (default: %(default)s)")
    parser.add_argument("--shape", default="8x128", help="batch x length (default: %(default)s)")
    parser.add_argument("--words", type=int, default=2000, help="words of the models; BERT has 30522")


def run(arguments: argparse.Namespace) -> Report:
    load = os.getloadavg()[0]
    found: list[tuple[int, dict[str, dict[str, float]]]] = []
    for layers in map(int, arguments.layers.split(",")):
        own = {who: _measured(who, layers, arguments) for who in WHO}
        losses = [one["loss"] for one in own.values()]
        if max(losses) - min(losses) > 1e-2 * max(losses):
            raise ValueError(f"the losses of {layers} layers are {losses}.")
        found.append((layers, own))
    return report(found, arguments, load)


def report(found: list[tuple[int, dict[str, dict[str, float]]]], arguments: argparse.Namespace, load: float) -> Report:
    rows: list[tuple[str, ...]] = []
    seconds: list[tuple[str, ...]] = []
    for layers, own in found:
        peaks = {who: one["peak"] / 2**20 for who, one in own.items()}
        ratios = [f"{peaks[who] / peaks['eager']:.2f}×" for who in WHO[1:]]
        rows.append((str(layers), *(f"{peaks[who]:.0f}" for who in WHO), *ratios))
        seconds.append((str(layers), *(f"{1000 * own[who]['cpu']:.0f}" for who in WHO)))
    ratio_names = [f"{who} / eager" for who in WHO[1:]]
    tables = (
        Table("MiB at the peak of a step", ("layers", *WHO, *ratio_names), tuple(rows)),
        Table("CPU milliseconds of the quickest step", ("layers", *WHO), tuple(seconds)),
    )
    notes = (
        f"{describe_cpu()}; one thread; load {load:.1f} when it began; the losses agreed.",
        f"BERT of transformers with its head for {arguments.words} masked words, {arguments.hidden} features, batch × "
        f"length {arguments.shape.replace('x', ' × ')}, float32, no dropout, AdamW of PyTorch; "
        "dyn.interop.torch.jit of the model. Gradients are set to None between steps; each runs in a process of its "
        "own, and the peak is that of its resident memory above what it has before a step.",
    )
    data = {"arguments": plain(arguments), "load": load, "found": [{"layers": n, **own} for n, own in found]}
    return Report("torch_memory: peak memory of training a BERT of Hugging Face", tables, notes, data)


def _measured(who: str, layers: int, arguments: argparse.Namespace) -> dict[str, float]:
    request = {"who": who, "layers": layers, "hidden": arguments.hidden, "shape": arguments.shape}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.suites.torch_memory", json.dumps(request | {"words": arguments.words})],
        cwd=ROOT, env=os.environ | thread_environment(1), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise WorkerError(f"{who} of {layers} layers:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


# ---- in a process of its own -----------------------------------------------------------------------------------------


def _steps(who: str, layers: int, hidden: int, shape: str, words: int) -> dict[str, float]:
    import torch
    import transformers

    import dyn
    from dyn.interop import torch as dyn_torch

    torch.set_num_threads(1)
    batch, length = map(int, shape.split("x"))
    config = transformers.BertConfig(
        **model_config(layers, hidden), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, vocab_size=words
    )
    torch.manual_seed(0)
    model: Any = transformers.BertForMaskedLM(config).train()
    run = model
    if who == "eager, checkpoints":
        model.gradient_checkpointing_enable()
    elif who != "eager":
        run = dyn_torch.jit(model, memory="low" if who == "dyn, low" else "default", strict=True)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    ids = torch.randint(0, words, (batch, length))
    mask = torch.ones_like(ids)

    def step() -> float:
        loss = run(input_ids=ids, attention_mask=mask, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    with dyn.config.override(num_threads=1):
        for _ in range(WARM):
            step()
        optimizer.zero_grad()
        _settle(who)
        reset_peak_memory()
        before, quickest, loss = peak_memory(), float("inf"), 0.0
        for _ in range(STEPS):
            start = time.process_time()
            loss = step()
            quickest = min(quickest, time.process_time() - start)
    return {"peak": peak_memory() - before, "cpu": quickest, "loss": loss}


def _settle(who: str) -> None:
    """Give idle memory back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    if who.startswith("dyn"):
        from dyn.backends.runtime import native_runtime

        native_runtime().trim()


if __name__ == "__main__":
    print(json.dumps(_steps(**json.loads(sys.argv[1]))))
