"""Launches of one kernel over different arrays as one: what is joined, what is not, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import nn
from dyn.compilation_record import CompilationRecord
from dyn.errors import IRError
from dyn.lower.gpu.dialect import gpu_target
from dyn.pipeline import Optimized, optimize
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.launch import Launch
from dyn.schedule.target import Target
from dyn.stitch.groups import Group
from tests.lower.gpu_programs import TARGETS
from tests.schedule.gpu_cases import Case, Suite, at

CUDA = gpu_target("cuda", "sm_90a")
X86 = Target("x86", "x86-64-v3", vector_bytes=32, registers=16)


def optimized(function: Callable[..., Any], arguments: str, target: Target = CUDA, **options: Any) -> Optimized:
    structs = Case(function, arguments, ()).structs()
    return optimize(dyn.jit(function, **options).trace(*structs).traced, target, CompilationRecord())


def sets(launches: tuple[Launch, ...]) -> list[int]:
    """How many sets of buffers the launches of each group have."""
    found: dict[Group, set[int]] = {}
    for launch in launches:
        found.setdefault(launch.group, set()).update(variant.kernel.copies for variant in launch.variants)
    return [max(numbers, default=0) for numbers in found.values() if len(numbers) <= 1]


def heads(x: Any, q: Any, k: Any, v: Any) -> Any:
    return x @ q, x @ k, x @ v


HEADS = "float32 m 64, float32 64 48, float32 64 48, float32 64 48"
CASES = {
    "heads": Case(heads, HEADS, at("0; 1; 9; 40; 200")),
    "softmaxes": Case(
        lambda *arrays: tuple([nn.softmax(a, axis=-1) for a in arrays]), ", ".join(["float32 n m"] * 5),
        at("0 3; 3 0; 1 1; 3 33; 40 5; 2 2000"),
    ),
    "sums of columns": Case(
        lambda a, b: (dnp.sum(a, axis=0), dnp.sum(b, axis=0)), "float32 n m, float32 n m", at("0 3; 1 1; 300 5; 9 70")
    ),
    "updates": Case(
        lambda *arrays: tuple([dnp.roll(a, 1) * 2 for a in arrays]), ", ".join(["float32 n"] * 4), at("0; 1; 33; 5000")
    ),
}  # fmt: skip
SUITE = Suite(CASES)


@pytest.mark.parametrize("dialect", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_each_set_is_computed_as_alone(name: str, dialect: str, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    compiled = SUITE.programs(TARGETS[dialect])[name]
    assert max(sets(compiled.program.launches)) > 1
    SUITE.check(name, TARGETS[dialect])


def test_three_products_of_one_operand_are_one_launch() -> None:
    found = optimized(heads, HEADS)
    (launch,) = found.launches
    assert sets(found.launches) == [3]
    x, q, k, v = found.function.params
    assert launch.buffers == (
        x,
        q,
        launch.group.outputs[0],
        x,
        k,
        launch.group.outputs[1],
        x,
        v,
        launch.group.outputs[2],
    )
    assert launch.group.outputs == found.function.results
    assert " in 3 sets {" in kernel_text(launch.variants[-1].kernel)


def test_on_the_processor_nothing_is_joined() -> None:
    assert sets(optimized(heads, HEADS, X86).launches) == [1, 1, 1]


def test_up_to_four_are_one() -> None:
    function = lambda *arrays: tuple([dnp.cumulative_sum(a) for a in arrays])  # noqa: E731
    assert sets(optimized(function, ", ".join(["float32 n"] * 9)).launches) == [4, 4, 1]


def test_sizes_that_differ_stay_apart() -> None:
    assert sets(optimized(heads, "float32 m 64, float32 64 48, float32 64 k, float32 64 48").launches) == [2, 1]


def test_what_waits_for_another_one_stays_behind_it() -> None:
    """The second product reads the first one; the third one joins one of them."""

    def chain(x: Any, a: Any, b: Any, c: Any) -> Any:
        y = x @ a
        return y @ b, x @ c

    assert sets(optimized(chain, "float32 m 64, float32 64 64, float32 64 64, float32 64 64").launches) == [1, 2]


def test_sizes_that_are_found_out_stay_behind_what_finds_them() -> None:
    def picked(x: Any, y: Any) -> Any:
        return dnp.cumulative_sum(x), dnp.cumulative_sum(y[y > 0])

    found = optimized(picked, "float32 n, float32 n")
    assert max(sets(found.launches)) == 1


EXPONENTIALS = "float32 n, float32 n, float32 n"


def test_updates_in_donated_memory_are_joined() -> None:
    def step(a: Any, b: Any, c: Any) -> Any:
        return dnp.exp(a), dnp.exp(b), dnp.exp(c)

    found = optimized(step, EXPONENTIALS, donate_argnums=(0, 1, 2))
    assert len(found.host.reuses) == 3
    assert sets(found.launches) == [3]


def test_donated_memory_is_not_written_before_others_have_read_it() -> None:
    """What reads ``b`` stands between both exponentials: the second one stays behind it."""

    def step(a: Any, b: Any) -> Any:
        return dnp.exp(a), dnp.cumulative_sum(b[::-1]), dnp.exp(b)

    (first, *others, last) = optimized(step, "float32 n, float32 n", donate_argnums=(0, 1)).launches
    assert first.variants[-1].kernel.copies == last.variants[-1].kernel.copies == 1
    assert any(step.group is not first.group for step in others)
    assert max(sets(optimized(step, "float32 n, float32 n").launches)) == 2


def test_donated_memory_is_not_written_before_what_may_raise() -> None:
    def step(a: Any, b: Any) -> Any:
        first = dnp.exp(a)
        told = dyn.pure_callback(lambda x: x, dyn.ShapeDtypeStruct(a.shape, "float32"), a)
        return first, told, dnp.exp(b)

    free, donated = (optimized(step, "float32 n, float32 n", donate_argnums=d) for d in ((), (1,)))
    assert 2 in sets(free.launches)
    assert len(donated.host.reuses) == 1
    assert 2 not in sets(donated.launches)


def test_the_order_of_launches_finds_what_it_reads() -> None:
    """In a longer program, whichever launches were joined."""

    def block(x: Any, *weights: Any) -> Any:
        for q, k, v in zip(weights[::3], weights[1::3], weights[2::3], strict=True):
            scores = nn.softmax((x @ q) @ (x @ k).T, axis=-1)
            x = x + scores @ (x @ v)
        return x

    found = optimized(block, ", ".join(["float32 m 64", *["float32 64 64"] * 6]))
    assert sets(found.launches).count(2) == 2
    made = {*found.function.params}
    for launch in found.launches:
        own = set(launch.written())
        assert made.issuperset(value for value in launch.buffers if value not in own)
        made |= own
    assert made.issuperset(found.function.results)


def test_more_sets_than_buffers_are_refused() -> None:
    kernel = optimized(heads, HEADS).launches[0].variants[-1].kernel
    check(kernel)
    with pytest.raises(IRError, match="its buffers are not 2 sets of the same dtypes"):
        check(replace(kernel, copies=2))


def test_numbers_of_results() -> None:
    """The reference computes what a program with joined launches does: those are the device's alone."""
    f = dyn.jit(heads)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("f4") for shape in ((5, 64), (64, 48), (64, 48), (64, 48))]
    for found, wanted in zip(f(*arrays), f.reference(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
