"""Every op and every class of groups, on every kind of software GPU, at sizes around lanes, warps and blocks: the grid.

``python -m tests.gpu.whole_grid`` runs all of it, ``test_grid.py`` a part. Each form of an op (dtypes, ranks,
attributes) is compiled once, over undecided shapes, and called with each set of axes that may vary together at each
size. What the op refuses of these is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.backends import families
from dyn.backends.base import GpuImage, Source
from dyn.backends.device_programs import DeviceProgram
from dyn.backends.families import Placement
from dyn.backends.gpu import GpuBackend
from dyn.backends.host_and_device import PlacedBackend
from dyn.backends.host_programs import LoadedProgram
from dyn.backends.reference import run_reference
from dyn.compilation_record import CompilationRecord
from dyn.dtypes import DType, Kind
from dyn.errors import DynError
from dyn.ir.core import Function
from dyn.ir.opdef import REGISTRY, OpDef, OpKind, Sample
from dyn.lower.gpu.dialect import gpu_target
from dyn.runtime import driver
from dyn.runtime.device_memory import DeviceArray
from dyn.schedule.target import Target
from dyn.shapes import Facts, RelKind, Symbol, free_symbols
from dyn.specialize.program import Program
from dyn.trace.function import TracedFunction
from tests.gpu import build
from tests.gpu.compilers import SoftwareCudaBackend
from tests.gpu.software import SoftwareGpu
from tests.lower.test_op_programs import TOLERANCE, forms
from tests.lower.test_x86_samples import _turned as turned
from tests.ops.test_ops import function_of
from tests.schedule import test_gpu_contractions, test_gpu_tables
from tests.schedule.gpu_cases import Case

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 2, 31, 32, 33, 257, 4096)
SOFTWARE = {
    "cuda32": gpu_target("cuda", "sm_90a"),
    "hip64": gpu_target("rocm", "gfx90a"),
    "hip32": gpu_target("rocm", "gfx1030"),
}
#: Results of a call are left out that are larger: the reference takes too long.
_LARGEST = 1 << 16
#: Ops of matrices, which would be singular if they were made larger by repetition.
_MATRICES = {
    "adjugate", "cholesky", "det", "eig", "eigh", "inverse", "lu", "pinv", "qr", "slogdet", "solve", "svd",
    "triangular_solve",
}  # fmt: skip


class Compiler(SoftwareCudaBackend):
    """g++ with the shim in place of either vendor's compiler."""

    @property
    def toolchain(self) -> str:
        return "software GPU, any vendor's"

    def compile_kernels(self, source: Source) -> GpuImage:
        return GpuImage(build.module(source.text, self.target.warp), "", {})


# ---- what is run -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Subject:
    """A function over undecided shapes, and how its arguments are made.

    ``make`` gives arguments by what is said of them, as ``x0.shape[1] = 33``. One that is ``alone`` declares its dims.
    Results may be ``tolerance`` times as far from the reference's as those of one operation.
    """

    name: str
    make: Callable[[], tuple[Function, Iterator[tuple[str, list[Array]]]]]
    tolerance: float
    alone: bool = False

    @cached_property
    def made(self) -> tuple[Function, list[tuple[str, list[Array], list[Array]]]]:
        """The function, and its calls with the reference's results."""
        function, calls = self.make()
        found: list[tuple[str, list[Array], list[Array]]] = []
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for said, arrays in calls:
                try:
                    wanted = run_reference(function, arrays)
                except (DynError, ValueError, IndexError, np.linalg.LinAlgError, ZeroDivisionError):
                    continue
                if max(array.size for array in (*wanted, *arrays)) <= _LARGEST:
                    found.append((said, arrays, wanted))
        return function, found


def subjects() -> list[Subject]:
    """Forms of all ops, and the cases of the classes of groups."""
    found: list[Subject] = []
    for name, opdef in sorted(REGISTRY.items()):
        for number, samples in enumerate(forms(opdef).values()):
            found.append(_of_op(f"{name} {number}", opdef, samples))
    for module in (test_gpu_tables, test_gpu_contractions):
        found += [_of_case(name, case) for name, case in module.CASES.items()]
    return found


def _of_op(name: str, opdef: OpDef, samples: Sequence[Sample]) -> Subject:
    def make() -> tuple[Function, Iterator[tuple[str, list[Array]]]]:
        function, sizes = function_of(opdef, samples[0])
        return function, _calls(function, samples, sizes)

    return Subject(name, make, 1 if opdef.kind is OpKind.POINTWISE else 8)


def _calls(
    function: Function, samples: Sequence[Sample], sizes: dict[Symbol, int]
) -> Iterator[tuple[str, list[Array]]]:
    """The samples as they are; then the largest with axes that must be equal at each size."""
    for number, sample in enumerate(samples):
        yield f"sample {number}", list(sample.operands)
    if _MATRICES & {op.opdef.name for op in function.ops}:
        return
    largest = max(samples, key=lambda sample: sum([a.size for a in sample.operands]))
    for axes in _equal_axes(function, sizes):
        for size in SIZES:
            arrays = [_resized(a, [x for n, x in axes if n == i], size) for i, a in enumerate(largest.operands)]
            yield f"x{axes[0][0]}.shape[{axes[0][1]}] = {size}", arrays


def _equal_axes(function: Function, sizes: dict[Symbol, int]) -> list[list[tuple[int, int]]]:
    """Axes of parameters, ``(number, axis)``, in sets that must be of one size."""
    axes = {
        sym: (n, a) for n, p in enumerate(function.params) for a, d in enumerate(p.shape) for sym in free_symbols(d)
    }
    group = {sym: {sym} for sym in sizes}
    for relation in function.facts.relations:
        if relation.kind is RelKind.EQ:
            symbols = [s for d in (relation.lhs, relation.rhs) if not isinstance(d, int) and (s := d.is_symbol)]
            if len(symbols) == 2 and all(s in group for s in symbols):
                joined = group[symbols[0]] | group[symbols[1]]
                group.update(dict.fromkeys(joined, joined))
    distinct = {id(one): one for one in group.values()}.values()
    return [sorted(axes[s] for s in one) for one in distinct]


def _resized(array: Array, axes: Sequence[int], size: int) -> Array:
    """An array of which some axes have another size: its elements over and over."""
    for axis in axes:
        if array.shape[axis]:
            array = np.take(array, np.arange(size) % array.shape[axis], axis)
        else:
            array = np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
    return np.array(array, order="C")


def _of_case(name: str, case: Case) -> Subject:
    def make() -> tuple[Function, Iterator[tuple[str, list[Array]]]]:
        function = dyn.jit(case.function).trace(*case.structs()).traced.function

        def calls() -> Iterator[tuple[str, list[Array]]]:
            for sizes in case.sizes[:2]:
                yield f"{sizes}", case.arrays(sizes)
            rank = len(case.sizes[0])
            for axis in range(rank):
                for size in SIZES:
                    sizes = tuple([size if other == axis else 3 for other in range(rank)])
                    yield f"{sizes}", case.arrays(sizes)

        return function, calls()

    return Subject(name, make, 64, alone=True)


# ---- running it ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What was found: how many calls agree, and a line of each that does not."""

    agree: int = 0
    wrong: tuple[str, ...] = ()

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(self.agree + other.agree, self.wrong + other.wrong)


def merged(functions: Sequence[Function]) -> Function:
    """One function of all parameters, with all results; none of them declares its dims."""
    facts = Facts.EMPTY
    for function in functions:
        assert not function.facts.declarations
        facts = facts.within(function.facts.relations)
    return replace(
        functions[0],
        params=tuple([p for f in functions for p in f.params]),
        ops=tuple([op for f in functions for op in f.ops]),
        results=tuple([r for f in functions for r in f.results]),
        infos=tuple([replace(i, name=f"{i.name}_{n}") for n, f in enumerate(functions) for i in f.infos]),
        facts=facts,
    )


def compiled(function: Function, placement: Placement) -> LoadedProgram | DeviceProgram:
    """A function's program for a GPU."""
    traced = TracedFunction(function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
    return Program(traced, placement, CompilationRecord()).load(())


def run(found: Sequence[Subject], placement: Placement) -> Outcome:
    """Compile some subjects as one program, and compare all of their calls. Raises what compiling or a call raises."""
    made = [subject.made for subject in found]
    program = compiled(merged([function for function, _ in made]) if len(made) > 1 else made[0][0], placement)
    total = Outcome()
    for turn in range(max(len(calls) for _, calls in made)):
        chosen = [calls[turn % len(calls)] for _, calls in made]
        results = iter(program([array for _, arrays, _ in chosen for array in arrays]))
        for subject, (function, calls), (said, _, wanted) in zip(found, made, chosen, strict=True):
            own = [_read(next(results)) for _ in wanted]
            if (
                subject.name.startswith("eig") and len(wanted) > 1 and wanted[1].size
            ):  # each library chooses the length and the direction
                own[1] = turned(own[1], wanted[1])
            if turn >= len(calls):
                continue
            problems = [
                problem
                for number, (actual, value) in enumerate(zip(own, wanted, strict=True))
                if (problem := disagreement(actual, value, function.results[number].dtype, subject.tolerance))
            ]
            line = f"{subject.name}, {said}: {'; '.join(problems)}"
            total += Outcome(0, (line,)) if problems else Outcome(1)
    return total


def _read(result: Array | DeviceArray) -> Array:
    assert isinstance(result, DeviceArray)
    return result.to_numpy()


def disagreement(actual: Array, wanted: Array, dtype: DType, scale: float) -> str:
    """How a result differs from the reference's; empty where it does not."""
    if (actual.dtype, actual.shape) != (wanted.dtype, wanted.shape):
        return f"{actual.dtype} {actual.shape} and not {wanted.dtype} {wanted.shape}"
    if dtype.kind in (Kind.BOOL, Kind.INT, Kind.UINT):
        different = int(np.count_nonzero(actual != wanted))
        return f"{different} of {wanted.size} elements differ" if different else ""
    wide = np.complex128 if dtype.kind is Kind.COMPLEX else np.float64
    a, b = actual.astype(wide), wanted.astype(wide)
    tolerance = TOLERANCE[dtype.name] * scale
    most = tolerance * np.abs(b[np.isfinite(b)]).max(initial=0.25) if scale > 1 else tolerance / 4
    near = np.isclose(a, b, rtol=tolerance, atol=most, equal_nan=True)
    if near.all():
        return ""
    (place,) = np.argwhere(~near)[:1]
    return f"{np.count_nonzero(~near)} of {b.size} elements differ, {a[tuple(place)]} for {b[tuple(place)]}"


def install(kind: str, patch: pytest.MonkeyPatch) -> SoftwareGpu:
    """Have programs for a kind of GPU compiled by g++, and run by the software GPU."""
    family, gpu = SOFTWARE[kind].family, _gpu(kind)
    gpu.set(hidden=0, seed=1)

    def backend(target: Target, ordinal: int) -> PlacedBackend:
        return PlacedBackend(GpuBackend(Compiler(target), ordinal), families.host_backend())

    known = families.FAMILIES[family]
    patch.setattr(families, "FAMILIES", {**families.FAMILIES, family: replace(known, backend=backend)})
    patch.setattr(driver, "_load", lambda vendor, named: gpu.library)  # not the vendor's own
    driver.driver_of.cache_clear()
    return gpu


@cache
def _gpu(kind: str) -> SoftwareGpu:
    """A driver that shows GPUs of a kind. The process has one of each family that is found by its name."""
    own = {"hip32": 0x1030}.get(kind)
    family = SOFTWARE[kind].family
    return SoftwareGpu.shared(family) if own is None else SoftwareGpu.private(family, arch=own)
