"""Launches in parts take memory for the parts' results where they run, and nowhere else."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

import dyn
import dyn.numpy as dnp
from dyn.backends.families import parse_target
from dyn.compilation_record import CompilationRecord
from dyn.errors import ShapeError
from dyn.lower.host import HostProgram
from dyn.pipeline import optimize
from dyn.schedule.launch import Condition, walk_launches
from dyn.shapes import Symbol, evaluate, product

X86, CUDA = "x86:x86-64-v3", "cuda:sm_80"
Shape = tuple[str | int, ...]


def _host(function: Callable[..., Any], *shapes: Shape, target: str, dtypes: Sequence[str] = ()) -> HostProgram:
    dtypes = dtypes or ["float32"] * len(shapes)
    specs = [dyn.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    traced = dyn.jit(function).trace(*specs).traced
    return optimize(traced, parse_target(target), CompilationRecord(traced.function.name)).host


def _bytes(host: HostProgram, **sizes: int) -> int:
    return evaluate(host.arena, {symbol: sizes[symbol.name] for symbol in host.symbols})


def _matmul(x: Any, y: Any) -> Any:
    return x @ y


@pytest.mark.parametrize(
    ("target", "sizes", "bytes"),
    [
        # Many results: tiles keep all cores busy, and nothing is cut.
        (X86, {"m": 4096, "k": 4096, "n": 4096}, 0),
        (CUDA, {"m": 4096, "k": 4096, "n": 4096}, 0),
        (X86, {"m": 129, "k": 1 << 20, "n": 128}, 0),
        (CUDA, {"m": 513, "k": 1 << 20, "n": 512}, 0),
        # Few products.
        (X86, {"m": 64, "k": 8191, "n": 64}, 0),
        (CUDA, {"m": 64, "k": 2047, "n": 64}, 0),
        # Parts: a float for each of them and each result, in whole lines.
        (X86, {"m": 64, "k": 8192, "n": 64}, 4 * 64 * 64 * 2),
        (CUDA, {"m": 64, "k": 2048, "n": 64}, 4 * 64 * 64 * 2),
        (X86, {"m": 128, "k": 100_000, "n": 128}, 4 * 128 * 128 * 25),
        (CUDA, {"m": 512, "k": 100_000, "n": 512}, 4 * 512 * 512 * 98),
        (X86, {"m": 1, "k": 8193, "n": 1}, 64),
        (CUDA, {"m": 1, "k": 2049, "n": 1}, 64),
        # Nothing to compute.
        (X86, {"m": 0, "k": 100_000, "n": 128}, 0),
        (CUDA, {"m": 128, "k": 0, "n": 128}, 0),
    ],
)  # fmt: skip
def test_of_a_product(target: str, sizes: Mapping[str, int], bytes: int) -> None:
    assert _bytes(_host(_matmul, ("m", "k"), ("k", "n"), target=target), **sizes) == bytes


def test_what_is_cut_at_all_sizes_has_its_memory_without_a_condition() -> None:
    host = _host(_matmul, (8, 50_000), (50_000, 8), target=X86)
    assert host.arena == 4 * 8 * 8 * 13


def test_memory_analysis_tells_it() -> None:
    spec = dyn.ShapeDtypeStruct
    compiled = dyn.jit(_matmul).lower(spec(("m", "k"), "float32"), spec(("k", "n"), "float32")).compile()
    assert compiled.memory_analysis() == (
        "64*floordiv(m*n*floordiv(k + 4095, 4096)*max(0, min(1, min(-m*n + 16384, k - 8192) + 1)) + 15, 16)"
    )


_PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Shape, ...], Sequence[str]]] = {
    "matmul": (_matmul, (("m", "k"), ("k", "n")), ()),
    "batched": (_matmul, (("b", "m", "k"), ("b", "k", "n")), ()),
    "dot": (dnp.dot, (("n",), ("n",)), ()),
    "convolution": (
        dyn.nn.conv,
        (("b", "c", "h", "w"), ("o", "c", 3, 3)), (),
    ),
    "sum of rows": (lambda x: dnp.sum(x * 2, axis=-1), (("m", "n"),), ()),
    "sum of columns": (lambda x: dnp.sum(x * 2, axis=0), (("m", "n"),), ()),
    "sum": (lambda x, y: dnp.sum(x * y), (("m", "n"), ("a", "b")), ()),
    "softmax": (lambda x: dyn.nn.softmax(x, axis=-1), (("m", "n"),), ()),
    "softmax of columns": (lambda x: dyn.nn.softmax(x, axis=0), (("m", "n"),), ()),
    "variance": (dnp.var, (("m", "n"),), ()),
    "running sum": (lambda x: dnp.cumsum(x, axis=-1), (("m", "n"),), ()),
    "running sum of columns": (lambda x: dnp.cumsum(x, axis=0), (("m", "n"),), ()),
    "scatter": (lambda x, i, u: x.at[i].add(u), (("n",), ("k",), ("k",)), ("float32", "int32", "float32")),
    "scatter of rows": (
        lambda x, i, u: x.at[i].max(u), (("n", "m"), ("k",), ("k", "m")), ("float32", "int32", "float32")
    ),
    "sort": (lambda x: dnp.sort(x, axis=-1), (("m", "n"),), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", _PROGRAMS)
@pytest.mark.parametrize("target", [X86, CUDA])
def test_no_launch_that_does_not_run_has_memory(target: str, name: str) -> None:
    """Of every class of launches in parts, at sizes for which they run and for which they do not."""
    function, shapes, dtypes = _PROGRAMS[name]
    host = _host(function, *shapes, target=target, dtypes=dtypes)
    launches = [launch for launch in walk_launches(host.launches) if launch.variants]
    memory = dict.fromkeys(value for launch in launches for value in launch.temporaries if launch.when is not None)
    for sizes in _sizes(host):
        with contextlib.suppress(ShapeError):  # sizes that do not broadcast
            running = {value for launch in launches if _runs(launch.when, sizes) for value in launch.buffers}
            for value in memory:
                assert value in running or evaluate(product(value.shape), sizes) == 0, sizes


def _sizes(host: HostProgram) -> Iterator[dict[Symbol, int]]:
    """Sizes that the program is for: each symbol has one size, and all others another one."""
    arrays = [value.shape for value in (*host.function.params, *host.function.results)]
    for size, other in itertools.product((0, 1, 2, 33, 300, 5000, 70_000, 1 << 20), (1, 3, 1000)):
        for number in range(len(host.symbols)):
            sizes = {symbol: size if n == number else other for n, symbol in enumerate(host.symbols)}
            with contextlib.suppress(ShapeError):
                if all(evaluate(dim, sizes) >= 0 for shape in arrays for dim in shape):
                    yield sizes


def _runs(when: Condition | None, sizes: Mapping[Symbol, int]) -> bool:
    if when is None:
        return True
    value = evaluate(when.dim, sizes)
    return when.low <= value and (when.high is None or value <= when.high)
