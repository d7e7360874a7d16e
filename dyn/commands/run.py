"""``python -m dyn run``: a StableHLO module or an ONNX model on arrays, from files or made up."""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.commands.inputs import FORMS, fitted, read_inputs
from dyn.commands.models import read_model, written
from dyn.errors import ArgumentError, NotYetError


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compiles a StableHLO module (text, MLIR bytecode or a portable artifact) or an ONNX model (.onnx), runs a "
        "function of it, and prints the results or writes them to a file."
    )
    parser.add_argument("model", help="the file, or - for standard input")
    parser.add_argument("--input", action="append", default=[], metavar="A", help=f"an argument, in order: {FORMS}")
    parser.add_argument("--output", metavar="FILE", help="write results to out.npz, or the only one to out.npy")
    parser.add_argument("--entry", default="main", metavar="NAME", help="the function to run (main)")
    parser.add_argument("--device", default="cpu", help="where it runs: cpu")
    parser.add_argument("--repeat", type=int, default=0, metavar="N", help="run N times more, and print times")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers in inputs that are made up (0)")


def main(chosen: argparse.Namespace) -> int:
    if chosen.device != "cpu":
        raise NotYetError(f"--device {chosen.device} comes later.", remedy="this version runs on cpu.")
    if chosen.repeat < 0 or chosen.seed < 0:
        raise ArgumentError("--repeat and --seed are not negative.")
    output: str | None = chosen.output
    if output is not None and not output.endswith((".npz", ".npy")):
        raise ArgumentError(
            f"--output {output} is neither .npz nor .npy.", remedy="give the file one of these endings."
        )
    inputs = read_inputs(chosen.input, chosen.seed)
    model = read_model(chosen.model, chosen.entry)
    arrays = fitted(model, inputs)
    start = time.perf_counter()
    results = _results(model.run(*arrays))
    first = time.perf_counter() - start
    if output is None:
        _print(results)
    else:
        written(output, _file(output, results))
    if chosen.repeat:
        print(_times(model.run, arrays, chosen.repeat, first))
    return 0


def _results(made: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(r) for r in (made if isinstance(made, tuple) else (made,))]


def _print(results: Sequence[np.ndarray[Any, Any]]) -> None:
    for number, array in enumerate(results):
        print(f"result{number}: {array.dtype.name}[{', '.join(map(str, array.shape))}]")
        print(np.array2string(array, max_line_width=100))


def _file(path: str, results: Sequence[np.ndarray[Any, Any]]) -> bytes:
    file = io.BytesIO()
    if path.endswith(".npz"):
        named: dict[str, Any] = {f"result{number}": array for number, array in enumerate(results)}
        np.savez(file, **named)
    elif len(results) == 1:
        np.save(file, results[0])
    else:
        raise ArgumentError(f"--output {path} has room for one array, and there are {len(results)} results.",
                            remedy="write an .npz file.")  # fmt: skip
    return file.getvalue()


def _times(run: Any, arrays: Sequence[Any], count: int, first: float) -> str:
    taken: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        run(*arrays)
        taken.append(time.perf_counter() - start)
    sys.stdout.flush()
    return (
        f"first call {1e3 * first:.1f} ms, with compiling; "
        f"then {count}: fastest {1e6 * min(taken):.1f} us, median {1e6 * statistics.median(taken):.1f} us"
    )
