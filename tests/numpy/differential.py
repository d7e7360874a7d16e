"""One trace, many sizes: what a function computes under ``dyn.numpy`` and under NumPy, compared."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import dyn.numpy as dnp
from dyn import config, dtypes
from dyn.backends.reference import run_reference
from dyn.errors import DynError, ShapeError
from dyn.ir.core import buffers
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ir.verifier import verify
from dyn.passes.redundancy import eliminate_common_subexpressions, eliminate_dead_code
from dyn.passes.refine_shapes import refine_shapes
from dyn.passes.simplify import simplify
from dyn.trace.function import LeafSpec, TracedFunction, trace_function
from dyn.trace.pytree import flatten
from tests.canary import compile_traced, run_compiled

Array = np.ndarray[Any, Any]
#: ``f(xp, *arrays)``, where ``xp`` is ``numpy`` or ``dyn.numpy``.
Program = Callable[..., Any]

SIZES = (0, 1, 2, 7)
_NAMES = ("x", "y", "z", "u", "v", "w")


def rendered(error: DynError) -> str:
    """The message of an error in a test, with the line of the test replaced."""
    return re.sub(r"  at test_\w+\.py:\d+  .*", "  at <the line>", str(error))


def parse_spec(spec: str) -> tuple[str, tuple[int | str, ...]]:
    """``"float32 n 3"``: a dtype and axes, a name for one that is symbolic."""
    dtype, *axes = spec.split()
    return dtype, tuple(int(a) if a.isdigit() else a for a in axes)


def trace(program: Program, *specs: str, xp: Any = dnp) -> TracedFunction:
    """The program under ``dyn.numpy``, verified after the trace and after each pass, and parsed back."""
    leaves = [
        LeafSpec(name, dtypes.dtype(dtype), axes)
        for name, (dtype, axes) in zip(_NAMES, map(parse_spec, specs), strict=False)
    ]
    traced = trace_function(lambda tracers: program(xp, *tracers), "program", leaves)
    function = verify(traced.function)
    text = print_function(function)
    assert print_function(parse_function(text, buffers(function.ops))) == text
    for step in (refine_shapes, simplify, eliminate_common_subexpressions, eliminate_dead_code):
        function = verify(step(function), step.__name__)
    return traced


def assignments(specs: Sequence[str], sizes: Sequence[int] = SIZES) -> Iterator[dict[str, int]]:
    """Every way to give the symbolic axes of some specs sizes."""
    names = sorted({a for spec in specs for a in parse_spec(spec)[1] if isinstance(a, str)})
    for values in itertools.product(sizes, repeat=len(names)):
        yield dict(zip(names, values, strict=True))


def draw(spec: str, env: dict[str, int], seed: int) -> Array:
    """An array of a spec: small numbers of both signs, whole and not."""
    dtype, axes = parse_spec(spec)
    shape = tuple(a if isinstance(a, int) else env[a] for a in axes)
    rng = np.random.default_rng(seed)
    element = dtypes.dtype(dtype)
    if element.kind.name == "BOOL":
        return rng.random(shape) < 0.5
    if element.is_integer:
        return rng.integers(0 if element.kind.name == "UINT" else -5, 6, shape).astype(element.np)
    whole = rng.integers(-3, 4, shape)
    if element.kind.name == "COMPLEX":
        return (whole + rng.normal(0, 2, shape) + 1j * rng.normal(0, 2, shape)).astype(element.np)
    return np.where(rng.random(shape) < 0.3, whole, rng.normal(0, 2, shape)).astype(element.np)


def same(actual: Array, expected: Any, rtol: float) -> None:
    """Equal dtypes and shapes, and values as near as ``rtol``; wholes exactly."""
    wanted = np.asarray(expected)
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "bui":
        np.testing.assert_array_equal(actual, wanted)
    else:
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(actual.astype(wide), wanted.astype(wide), rtol=rtol, atol=rtol)


def compare(
    program: Program, *specs: str, sizes: Sequence[int] = SIZES, rtol: float = 1e-5, oracle: Program | None = None
) -> TracedFunction:
    """Trace once and compare with NumPy (or ``oracle``) at all combinations of sizes.

    Where NumPy raises for the shapes, the compiled function has to raise ShapeError.
    """
    with config.override(default_float="float64"):
        traced = trace(program, *specs)
    compiled = compiled_form(traced)
    for env in assignments(specs, sizes):
        arrays = [draw(spec, env, seed) for seed, spec in enumerate(specs)]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected, _ = flatten((oracle or program)(np, *arrays))
            except (ValueError, IndexError):
                for form in (run, *compiled):
                    with pytest.raises(ShapeError):
                        form(traced, arrays)
                continue
        for form in (run, *compiled):
            results = form(traced, arrays)
            assert len(results) == len(expected), env
            for actual, wanted in zip(results, expected, strict=True):
                same(actual, wanted, rtol)
    return traced


def compiled_form(traced: TracedFunction) -> list[Callable[[TracedFunction, Sequence[Array]], list[Array]]]:
    """The machine code of a trace."""
    program = compile_traced(traced, _captured(traced))
    return [lambda _, arrays: run_compiled(program, arrays)]


def run(traced: TracedFunction, arrays: Sequence[Array]) -> list[Array]:
    """The results of a traced function for NumPy arrays."""
    return run_reference(traced.function, [*arrays, *_captured(traced)])


def _captured(traced: TracedFunction) -> list[Array]:
    return [np.asarray(a).astype(np.asarray(a).dtype.newbyteorder("=")) for a in traced.captured]
