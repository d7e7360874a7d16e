"""Programs for GPUs by cases, all of a suite in one translation unit a dialect: run by the shim and compared with the
reference, with the same bits for any grid and order of threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import dyn
from dyn import dtypes
from dyn.backends.base import KernelReport, LaunchShape, Source
from dyn.backends.families import family_of
from dyn.backends.gpu import reports
from dyn.backends.reference import run_reference
from dyn.dtypes import DType, Kind
from dyn.lower.gpu.dialect import dialect_of, gpu_target
from dyn.schedule.target import Target
from tests.lower.gpu_programs import TARGETS, Compiled, compile_function, run
from tests.shim.run import ShimModule

Array = np.ndarray[Any, Any]
#: Around a few lanes, warps, tiles and blocks.
EDGES = (0, 1, 2, 31, 33, 65, 257)


@dataclass(frozen=True)
class Case:
    """A program, its arguments (a dtype and dims each), and the sizes of their dims that it is run at."""

    function: Callable[..., Any]
    arguments: str
    sizes: tuple[tuple[int, ...], ...]

    def structs(self) -> list[dyn.ShapeDtypeStruct]:
        made: list[dyn.ShapeDtypeStruct] = []
        for argument in self.arguments.split(", "):
            dtype, *dims = argument.split()
            made.append(dyn.ShapeDtypeStruct(tuple([int(d) if d.isdigit() else d for d in dims]), dtype))
        return made

    def arrays(self, sizes: Sequence[int]) -> list[Array]:
        rng, names, free = np.random.default_rng(sum(sizes)), dict[str, int](), iter(sizes)
        arrays: list[Array] = []
        for argument in self.arguments.split(", "):
            dtype, *dims = argument.split()
            for d in dims:
                if d not in names:
                    names[d] = int(d) if d.isdigit() else next(free)
            shape = [names[d] for d in dims]
            arrays.append(_drawn(rng, shape, dtypes.dtype(dtype)))
        return arrays


def _drawn(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> Array:
    """Small numbers of a dtype."""
    values = rng.standard_normal(shape)
    if dtype.kind is Kind.COMPLEX:
        values = values + 1j * rng.standard_normal(shape)
    elif not dtype.is_float:
        values = rng.integers(-9 if dtype.kind is Kind.INT else 0, 10 if dtype.is_integer else 2, shape)
    return np.asarray(values).astype(dtype.np)


def at(text: str) -> tuple[tuple[int, ...], ...]:
    """Sizes: ``at("1 1; 3 31")``."""
    return tuple(tuple(map(int, sizes.split())) for sizes in text.split(";"))


def edges(more: str = "") -> tuple[tuple[int, ...], ...]:
    """Vectors around the edges."""
    return (*[(n,) for n in EDGES], *at(more or "1023; 2049"))


def both(more: str = "65 33") -> tuple[tuple[int, ...], ...]:
    """Matrices of few rows around the edges, and more."""
    return (*[(n, m) for n in (0, 1, 3) for m in EDGES], (33, 31), *at(more))


class Suite:
    """Cases by name, compiled together for each target, once."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        self.cases = cases
        self.programs = cache(self._programs)
        self.machine = cache(self._machine)

    def _programs(self, target: Target) -> dict[str, Compiled]:
        """The compiled programs, whose kernels have names of their own."""
        compiled: dict[str, Compiled] = {}
        for number, (name, case) in enumerate(self.cases.items()):
            function = dyn.jit(case.function).trace(*case.structs()).traced.function
            compiled[name] = compile_function(function, target, f"k{number}")
        return compiled

    def _machine(self, target: Target, *, races: bool = False) -> ShimModule:
        """All programs in one translation unit; with ``races`` each access of shared memory is watched."""
        texts = [text for each in self.programs(target).values() for text in each.kernels()]
        return ShimModule(texts, dialect_of(target), target.warp, races=races)

    def source(self, target: Target) -> Source:
        """The kernels of all programs."""
        texts = [text for each in self.programs(target).values() for text in each.kernels()]
        return Source("\n".join(t.text for t in texts), tuple(t.symbol for t in texts))

    def reports(self, target: Target) -> dict[str, KernelReport]:
        """What the compiler says of each kernel, compiled as those of programs for a device are."""
        texts = [text for each in self.programs(target).values() for text in each.kernels()]
        sources = [Source(t.text, (t.symbol,), launch=LaunchShape(t.threads, 0, 0)) for t in texts]
        built = family_of(target).backend(target, 0).build_all(sources)
        return {t.symbol: reports(one.binary)[t.symbol] for t, one in zip(texts, built, strict=True)}

    def check(self, name: str, target: Target, *, races: bool = False) -> None:
        """Compare a program with the reference at all of its sizes, and with itself in other grids and orders, and by
        the kernels of a first call."""
        module, case, compiled = self.machine(target, races=races), self.cases[name], self.programs(target)[name]
        for sizes in case.sizes:
            arrays = case.arrays(sizes)
            expected = run_reference(compiled.program.function, arrays)
            results = run(module, compiled, arrays)
            for result, value in zip(results, expected, strict=True):
                assert result is not None
                tolerance = 2e-2 if result.dtype.itemsize == 2 else 2e-5
                wide = np.complex128 if result.dtype.kind == "c" else np.float64
                a, b = (np.asarray(v).astype(wide) for v in (result, value))
                most = tolerance * (1 + np.abs(b[np.isfinite(b)]).max(initial=0))
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=most, err_msg=f"{name} at {sizes}")
            for grid, seed, deferred in ((1, 2, True), (7, 3, False)):
                again = run(module, compiled, arrays, grid, seed, deferred=deferred)
                assert all(
                    a is not None and b is not None and a.tobytes() == b.tobytes()
                    for a, b in zip(results, again, strict=True)
                ), f"{name} at {sizes} has other bits in {grid} blocks{'' if deferred else ' of a first call'}"


__all__ = ["TARGETS", "Case", "Suite", "at", "both", "edges", "gpu_target"]
