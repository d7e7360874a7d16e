"""Machine code for x86 at all edges of integers: in vectors and one at a time, on this machine and as on older ones."""

from __future__ import annotations

from functools import lru_cache

import pytest

from dyn.dtypes import DType
from dyn.schedule.kernel import Role
from dyn.schedule.target import Target
from tests.integers import kernels
from tests.integers.edges import FLOATS, INTEGERS, Array
from tests.integers.kernels import Run
from tests.lower.x86_run import compile_kernels, runnable

#: Vectors depend on what a machine has; one number at a time is the same on all.
CASES = [(runnable()[0], Role.GRID), *[(target, Role.LANE) for target in runnable()]]


@lru_cache
def _machine(target: Target, role: Role) -> Run:
    made = kernels.every_kernel((role,))
    found = dict(zip([kernel.name for kernel in made], compile_kernels(made, target), strict=True))

    def run(name: str, buffers: list[Array], dims: list[int]) -> None:
        found[name](dims, buffers)

    return run


@pytest.fixture(params=CASES, ids=lambda case: f"{case[1].name.lower()} of {case[0].vector_bytes} bytes")
def machine(request: pytest.FixtureRequest) -> tuple[Run, Role]:
    target, role = request.param
    return _machine(target, role), role


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_ops(machine: tuple[Run, Role], dtype: DType) -> None:
    run, role = machine
    kernels.check_ops(run, dtype, role)


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS], ids=str)
def test_conversions(machine: tuple[Run, Role], source: DType) -> None:
    run, role = machine
    kernels.check_casts(run, source, role)


def test_computed_indices(machine: tuple[Run, Role]) -> None:
    run, role = machine
    kernels.check_computed(run, role)


def test_indices(machine: tuple[Run, Role]) -> None:
    kernels.check_uniform(machine[0])


def test_vectors_of_indices(machine: tuple[Run, Role]) -> None:
    kernels.check_varying(machine[0])
