"""Kernels that a call launches on a GPU, counted: by dyn, by PyTorch's operations, and by Inductor's fusion.

dyn's are those of its program for a device at given sizes, with all variants compiled; PyTorch's are counted on this
machine's processor, with its fused attention as one. No GPU is needed, and none is used.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

import dyn
from benchmarks.gpu.families import BANDS, CATEGORIES, DECODING, FAMILIES, NUMBERS, WORDS, Config, Family, weights
from benchmarks.gpu.launches import eager_operations, inductor_kernels, launched
from benchmarks.gpu.namespaces import DynOps, TorchOps
from benchmarks.report import Report, Table
from benchmarks.suites import training
from dyn.backends.families import parse_target
from dyn.backends.reference import bind_symbols
from dyn.compilation_record import CompilationRecord
from dyn.errors import DynError
from dyn.pipeline import optimize
from dyn.schedule.target import Target
from examples import gpt, optimizers

Array = np.ndarray[Any, Any]
#: Inputs of each family: a dtype and dims, of which ``d`` is the width. Of "decoding" those of a layer come after.
INPUTS = {
    "ASR": f"float32 b t {BANDS}",
    "seq2seq": "int32 b s, int32 b t",
    "TTS": "int32 b t",
    "BERT": "int32 b t, bool b t",
    "ad ranking": f"float32 n {NUMBERS}, int32 n {CATEGORIES}",
    "Transformer": "float32 b t d",
    "decoding": "int32 b 1",
}
KEPT = "float32 b p d, float32 b p d, float32 b m d, float32 b m d"


@dataclass(frozen=True)
class Counted:
    """A model as each counts it: dyn's function of trees of arrays, their dims, and calls of PyTorch's."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    structs: tuple[Any, ...]
    donated: tuple[int, ...] = ()
    #: Makes PyTorch's call; given what compiles its functions.
    peer: Callable[[Callable[..., Any]], Callable[[], object]] | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="cuda:sm_90a", help="what dyn compiles for (default: %(default)s)")
    parser.add_argument("--models", default=";".join(MODELS), help="with ; between (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=33)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="count PyTorch's as well")


def run(arguments: argparse.Namespace) -> Report:
    if min(arguments.layers, arguments.batch, arguments.length) < 1 or arguments.width % 64 or arguments.width < 64:
        raise ValueError("--layers, --batch and --length are at least 1, and --width is a multiple of 64.")
    try:
        target = parse_target(arguments.target)
    except DynError as error:
        raise ValueError(str(error)) from None
    names = arguments.models.split(";")
    if unknown := [name for name in names if name not in MODELS]:
        raise ValueError(f"there is no {unknown[0]!r}; there are {'; '.join(MODELS)}.")
    rows: list[tuple[str, ...]] = []
    data: dict[str, Any] = {}
    for name in names:
        model = MODELS[name](arguments)
        counts: dict[str, int | None] = dict.fromkeys(("dyn", "eager", "inductor"))
        counts["dyn"] = dyn_launches(model, target)
        if model.peer is not None and arguments.peers:
            counts["eager"], counts["inductor"] = torch_counts(model.peer)
        data[name] = counts
        cells = ["–" if n is None else str(n) for n in counts.values()]
        shares = [f"{counts['dyn'] / n:.2f}" if n else "–" for n in (counts["eager"], counts["inductor"])]
        rows.append((name, *cells, *shares))
    header = ("", "dyn", "eager", "Inductor", "dyn / eager", "dyn / Inductor")
    notes = (
        f"{arguments.layers} layers of {arguments.width} features, {arguments.batch} texts of {arguments.length} "
        f"tokens; dyn for {target}, counted from the program's launches and their conditions.",
        "eager: operations of PyTorch's that are no views, its fused attention, norms and losses as one each. "
        "Inductor: what its scheduler has after fusing for a processor, kernels and library calls.",
    )
    return Report("Kernels that a call launches", (Table("Counted, not run", header, tuple(rows)),), notes, data)


def _family(arguments: argparse.Namespace, *, name: str) -> Counted:
    family = DECODING if name == "decoding" else FAMILIES[name]
    heads, length = arguments.width // 64, arguments.length
    config = Config(arguments.layers, arguments.width, heads, 4 * length, arguments.batch)
    sizes = {
        "b": arguments.batch,
        "n": arguments.batch * length,
        "t": length,
        "s": length,
        "p": length,
        "m": length + 7,
    }
    words = INPUTS[name] + (", " + ", ".join([KEPT] * config.layers) if name == "decoding" else "")
    dims = [(dtype, *shape) for dtype, *shape in (each.split() for each in words.split(", "))]
    return _of_family(family, config, dims, sizes)


def _of_family(family: Family, config: Config, dims: Sequence[tuple[str, ...]], sizes: dict[str, int]) -> Counted:
    params, rng = weights(family, config, 0), np.random.default_rng(0)

    def size(dim: str) -> int:
        return int(dim) if dim.isdecimal() else config.width if dim == "d" else sizes[dim]

    inputs = [_drawn(rng, dtype, [size(d) for d in shape]) for dtype, *shape in dims]
    structs = [
        dyn.ShapeDtypeStruct(tuple(d if d in sizes else size(d) for d in shape), dtype) for dtype, *shape in dims
    ]

    def peer(compiled: Callable[..., Any]) -> Callable[[], object]:
        import torch

        there, arrays = optree.tree_map(torch.from_numpy, params), [torch.from_numpy(a) for a in inputs]
        model = compiled(functools.partial(family.run, TorchOps(torch), config, there))
        return torch.inference_mode()(lambda: model(*arrays))

    function = functools.partial(family.run, DynOps(), config)
    return Counted(function, (params, *inputs), (_structs(params), *structs), peer=peer)


def _drawn(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Array:
    if dtype == "bool":
        return np.ones(shape, bool)
    return rng.integers(0, WORDS, shape).astype(dtype) if dtype == "int32" else rng.standard_normal(shape, np.float32)


def _structs(values: Any) -> Any:
    return optree.tree_map(lambda x: dyn.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype), values)


def _gpt(arguments: argparse.Namespace) -> gpt.GptConfig:
    return gpt.GptConfig(arguments.layers, arguments.width, arguments.width // 64, WORDS, arguments.length + 1)


def _gradients(arguments: argparse.Namespace) -> Counted:
    config = _gpt(arguments)
    params: Any = gpt.init_params(config)
    ids = np.zeros((arguments.batch, arguments.length + 1), np.int64)

    def peer(compiled: Callable[..., Any]) -> Callable[[], object]:
        import torch

        there: Any = optree.tree_map(lambda a: torch.tensor(a, requires_grad=True), params)
        loss, tokens = compiled(training.torch_loss(config, there)), torch.from_numpy(ids)
        return lambda: loss(tokens).backward()

    function = dyn.value_and_grad(functools.partial(gpt.loss, config=config))
    return Counted(function, (params, ids), (_structs(params), _texts()), peer=peer)


def _step(arguments: argparse.Namespace, *, donated: tuple[int, ...]) -> Counted:
    config = _gpt(arguments)
    params = gpt.init_params(config)
    state = optimizers.adam(training.RATE).init(params)
    ids = np.zeros((arguments.batch, arguments.length + 1), np.int64)
    structs = (_structs(params), _structs(state), _texts())
    return Counted(training.step_of(config, dyn), (params, state, ids), structs, donated)


def _texts() -> dyn.ShapeDtypeStruct:
    return dyn.ShapeDtypeStruct(("b", "s"), "int64")


MODELS: dict[str, Callable[[argparse.Namespace], Counted]] = {
    **{name: functools.partial(_family, name=name) for name in (*FAMILIES, "decoding")},
    "GPT, loss and gradients": _gradients,
    "GPT, a step with Adam": functools.partial(_step, donated=()),
    "GPT, a step with Adam, donated": functools.partial(_step, donated=(0, 1)),
}


def dyn_launches(model: Counted, target: Target) -> int:
    """Launches of a call of the program for a device, at the sizes of the arguments."""
    jitted = dyn.jit(model.function, donate_argnums=model.donated)
    optimized = optimize(jitted.trace(*model.structs).traced, target, CompilationRecord())
    arrays = [np.asarray(leaf) for leaf in dyn.tree.leaves(model.arguments)]
    return len(launched(optimized.launches, bind_symbols(optimized.function, arrays)))


def torch_counts(peer: Callable[[Callable[..., Any]], Callable[[], object]]) -> tuple[int, int]:
    """Operations of eager PyTorch, and kernels of ``torch.compile(dynamic=True)``."""
    import torch

    return (
        eager_operations(peer(lambda f: f)),
        inductor_kernels(peer(functools.partial(torch.compile, dynamic=True))),
    )
