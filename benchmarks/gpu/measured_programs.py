"""Programs of the GPU model, measured: at which sizes, and what a call takes between the driver's events."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import dyn
from benchmarks.gpu.device import MeasuredDevice
from benchmarks.suites.gpu_model import Program
from dyn import dtypes
from dyn.dtypes import DType

#: Columns of the memory-bound programs that have two axes.
COLUMNS = 1024


def sizes_of(program: Program, elements: Sequence[int], squares: Sequence[int]) -> list[dict[str, int]]:
    """The sizes at which a program is measured: of the first argument, or of updates, so many elements; or squares."""
    names = {name for argument in program.arguments.split(", ") for name in argument.split()[1:]}
    if "k" in names:
        few = next(iter(program.sizes))["m"] == 1
        return [{"m": 1 if few else n, "k": n, "n": n} for n in squares]
    if "v" in names:  # places, and a hundred updates for each, or three rows
        row = {"m": 64} if "m" in names else {}
        counts = [max(n // 64, 1) if row else n for n in elements]
        return [{"v": max(n // (3 if row else 100), 1), **row, "n": n} for n in counts]
    if "m" in names:
        return [{"n": max(n // COLUMNS, 1), "m": min(n, COLUMNS)} for n in elements]
    return [{"n": n} for n in elements]


def measure_program(
    device: MeasuredDevice, name: str, program: Program, sizes: dict[str, int], copy: float,
    arguments: argparse.Namespace,
) -> tuple[tuple[str, ...], dict[str, Any]]:  # fmt: skip
    """A line of a table, and its numbers."""
    rng = np.random.default_rng(arguments.seed)
    words = [argument.split() for argument in program.arguments.split(", ")]
    dtype = dtypes.dtype(words[0][0])
    host = [_drawn(rng, dtypes.dtype(of), [sizes[d] for d in dims], sizes.get("v", 9)) for of, *dims in words]
    function = dyn.jit(program.function, shapes=", ".join([" ".join(dims) for _, *dims in words]))
    there = [device.put(array) for array in host]
    result = function(*there)
    small = sum(array.size for array in host) <= 10**6
    difference = _difference(result, dyn.jit(program.function)(*host)) if small else None
    launches = device.launches(lambda: function(*there))
    seconds = max(device.seconds(lambda: function(*there), arguments.calls, arguments.repeats), 1e-12)
    nbytes = sum(array.nbytes for array in (*host, result))
    flops = 2 * math.prod(sizes.values()) if "k" in sizes else 0
    found = {"seconds": seconds, "launches": launches, "bytes": nbytes, "flops": flops, "difference": difference}
    label = f"{name}, {' × '.join(map(str, sizes.values()))}"
    error = "–" if difference is None else f"{difference:.0e}"
    if "product" not in name:
        rate = nbytes / seconds
        return (label, str(launches), f"{1e6 * seconds:,.1f}", f"{rate / 1e9:,.0f}", f"{rate / copy:.2f}", error), found
    model = device.model
    peak = 0.0 if model is None or dtype.itemsize < 4 else 2 * model.multiply_adds(dtype)
    share = f"{flops / seconds / peak:.2f}" if peak else "–"
    return (label, str(launches), f"{1e6 * seconds:,.1f}", f"{flops / seconds / 1e9:,.0f}", share, error), found


def _drawn(rng: np.random.Generator, dtype: DType, shape: Sequence[int], places: int) -> np.ndarray[Any, Any]:
    """Random elements; of integers places."""
    if dtype.is_integer:
        return rng.integers(0, places, shape).astype(dtype.np)
    return rng.standard_normal(shape, np.float32).astype(dtype.np)


def _difference(found: Any, wanted: Any) -> float:
    """The largest difference, relative to the largest element."""
    here, there = np.asarray(wanted).astype("f8"), found.to_numpy().astype("f8")
    return float(np.abs(there - here).max(initial=0) / max(np.abs(here).max(initial=0), 1e-30))
