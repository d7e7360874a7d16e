"""Sizes that are declared as likely choose the variants that are compiled with a first call, and change no result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import dyn
import dyn.interop.torch
from dyn import config
from dyn.api import Jitted
from dyn.backends.deferred import DeferredState, finish
from dyn.backends.x86 import host_target
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.lower.chosen_variants import MOST_COMBINATIONS, likely_variants
from dyn.schedule.launch import walk_launches
from dyn.specialize.shared_code import CODES
from dyn.specialize.version import Version

Array = np.ndarray[Any, Any]
#: Variants for few rows and for few columns, by the bytes of the processor's vectors.
FEW_ROWS, FEW_COLUMNS = {
    32: ("streamed 4x256, at most 4 rows", "packed 6x8, at most 8 columns"),
    64: ("streamed 8x128, at most 8 rows", "packed 8x16, at most 16 columns"),
}[host_target().vector_bytes]


@pytest.fixture(autouse=True)
def in_background() -> Iterator[None]:
    """Nothing is found that other tests have compiled, and variants are compiled as users have them."""
    CODES.clear()
    with config.override(variants="background"):
        yield
    assert finish()


def _array(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype("f4")


def _matmul(**likely: Sequence[int]) -> Jitted:
    dims = [dyn.Dim(name, likely=tuple(sizes)) for name, sizes in likely.items()]

    @dyn.jit(shapes="n k, k m", dims=dims)
    def matmul(x: Any, w: Any) -> Any:
        return x @ w

    return matmul


def _compiled(version: Version | Any) -> list[str]:
    """The notes of the deferred variants that are compiled."""
    optimized, states = version.program.optimized, version.program.deferred_states()
    names = optimized.names
    variants = [v for launch in walk_launches(optimized.launches) for v in launch.variants if v.deferred]
    return [v.note for v in variants if states[names[v.kernel]] is DeferredState.MADE]


def _only(f: Jitted) -> Version:
    (version,) = f.programs
    return version


def test_variants_for_likely_sizes_are_compiled_with_a_first_call_of_other_sizes() -> None:
    x, w = _array(300, 64), _array(64, 64)
    plain, few, both = _matmul(), _matmul(n=(1, 4)), _matmul(n=(200, 2), m=(100, 5))
    results = [f(x, w) for f in (plain, few, both)]
    assert _compiled(_only(plain)) == []
    assert _compiled(_only(few)) == [FEW_ROWS]
    assert _compiled(_only(both)) == [FEW_ROWS, FEW_COLUMNS]
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


def test_a_first_call_has_its_own_variants_beside_them() -> None:
    f = _matmul(n=(2,))
    f(_array(300, 64), _array(64, 3))
    assert _compiled(_only(f)) == [FEW_ROWS, FEW_COLUMNS]


def test_a_call_of_a_likely_size_runs_its_variant_at_once() -> None:
    f = _matmul(n=(4,))
    x, w = _array(300, 64), _array(64, 64)
    f(x, w)
    with dyn.profile() as profile:
        y = f(x[:4], w)
    assert [launch.kernel.variant for launch in profile.events().launches] == [FEW_ROWS]
    np.testing.assert_allclose(y, x[:4] @ w, rtol=1e-4, atol=1e-5)
    # Other sizes are right, and get theirs in the background, as without.
    np.testing.assert_allclose(f(x[:9], w[:, :3]), x[:9] @ w[:, :3], rtol=1e-4, atol=1e-5)
    assert finish()
    assert _compiled(_only(f)) == [FEW_ROWS, FEW_COLUMNS]


def test_sizes_that_follow_from_a_likely_one_are_known() -> None:
    f = dyn.jit(
        lambda x, w: x @ w, shapes="n k, k m", dims=[dyn.Dim("n", likely=(4,))], constraints="m == 2*n",
    )  # fmt: skip
    f(_array(300, 64), _array(64, 600))
    assert _compiled(_only(f)) == [FEW_ROWS]
    by_columns = dyn.jit(
        lambda x, w: x @ w, shapes="n k, k m", dims=[dyn.Dim("k", likely=(8,))], constraints="m == k",
    )  # fmt: skip
    by_columns(_array(300, 64), _array(64, 64))
    assert _compiled(_only(by_columns)) == [FEW_COLUMNS]


def test_sizes_that_never_come_together_choose_nothing() -> None:
    f = dyn.jit(
        lambda x, w: x @ w, shapes="n k, k m",
        dims=[dyn.Dim("n", likely=(4,)), dyn.Dim("m", likely=(9,))], constraints="m == 100*n",
    )  # fmt: skip
    f(_array(3, 64), _array(64, 300))
    assert _compiled(_only(f)) == [FEW_ROWS]  # the call's own
    CODES.clear()
    g = dyn.jit(f.__wrapped__, shapes="n k, k m", dims=[dyn.Dim("n", likely=(4,)), dyn.Dim("m", likely=(9,))],
                constraints="m == 100*n")  # fmt: skip
    g(_array(30, 64), _array(64, 3000))
    assert _compiled(_only(g)) == []


def test_what_is_compiled_without_a_call_has_them_where_they_settle_it() -> None:
    spec = dyn.ShapeDtypeStruct
    compiled = _matmul(n=(4,)).lower(spec(("n", "k"), "float32"), spec(("k", "m"), "float32")).compile()
    assert _compiled(compiled) == [FEW_ROWS]
    undecided = _matmul(n=(100,)).lower(spec(("n", "k"), "float32"), spec(("k", "m"), "float32")).compile()
    assert _compiled(undecided) == []


def test_prepare_has_them_too() -> None:
    f = _matmul(n=(4,))
    f.prepare([(dyn.ShapeDtypeStruct((300, 64), "float32"), dyn.ShapeDtypeStruct((64, 6), "float32"))])
    assert _compiled(_only(f)) == [FEW_ROWS, FEW_COLUMNS]


def test_no_deferred_variant_is_compiled_where_none_is_to_be() -> None:
    with config.override(variants="none"):
        f = _matmul(n=(4,))
        f(_array(300, 64), _array(64, 64))
        assert _compiled(_only(f)) == []


@pytest.mark.parametrize("deep", [1, 2])
def test_functions_that_are_called_in_a_trace_hand_theirs_on(deep: int) -> None:
    f: Any = _matmul(n=(4,))
    for _ in range(deep):
        f = dyn.jit(lambda x, w, f=f: f(x, w) + 1)
    f(_array(300, 64), _array(64, 64))
    assert _compiled(_only(f)) == [FEW_ROWS]


def test_a_callees_sizes_are_solved_for_the_callers_dims() -> None:
    inner = dyn.jit(lambda x, w: x @ w, shapes="n k, k m", dims=[dyn.Dim("n", likely=(5, 8))])
    f = dyn.jit(lambda x, w: inner(x.reshape(-1, 4), w), shapes="a, k m")
    traced = f.trace(_array(1200), _array(4, 64))
    facts = traced.traced.function.facts
    assert [(d.symbol.name, d.likely) for d in facts.declarations] == []  # a floor division is no multiple
    doubled = dyn.jit(lambda x, w: inner(dyn.numpy.concatenate([x, x]), w))
    facts = doubled.trace(_array(150, 64), _array(64, 64)).traced.function.facts
    assert [(d.symbol.name, d.likely) for d in facts.declarations] == [("x_0", (4,))]


def test_a_callers_own_hints_come_first_and_its_range_holds() -> None:
    inner = _matmul(n=(2, 4, 500))
    f = dyn.jit(lambda x, w: inner(x, w) + 1, shapes="s k, k m", dims=[dyn.Dim("s", max=400, likely=(7, 4))])
    facts = f.trace(_array(150, 64), _array(64, 64)).traced.function.facts
    assert [(d.symbol.name, d.likely, d.max) for d in facts.declarations] == [("s", (7, 4, 2), 400)]


def test_hints_of_a_callee_are_written_and_read() -> None:
    inner = _matmul(n=(4,))
    function = dyn.jit(lambda x, w: inner(x, w) + 1).trace(_array(150, 64), _array(64, 64)).traced.function
    text = print_function(function)
    assert 'likely 4 "functions that are called say what is likely"' in text
    assert print_function(parse_function(text)) == text


def test_torch_has_them() -> None:
    dims = {"x": {0: dyn.Dim("n", likely=(4,))}, "w": None}
    f = dyn.interop.torch.jit(lambda x, w: x @ w, dynamic_shapes=dims)
    x, w = torch.ones(300, 64), torch.ones(64, 64)
    assert torch.equal(f(x, w), x @ w)
    (program,) = f.programs
    (version,) = program.jitted.programs
    assert _compiled(version) == [FEW_ROWS]


def test_combinations_of_many_sizes_are_bounded_and_have_each_of_them() -> None:
    sizes = tuple(range(1, 20))
    lowered = _matmul(n=sizes, m=(300, *sizes)).lower(_array(300, 64), _array(64, 64))
    with config.override(variants="background"):
        found = {v.note for v in likely_variants(lowered.optimized.host, None) if v.deferred}
    assert found == {FEW_ROWS, FEW_COLUMNS}
    assert len(sizes) < MOST_COMBINATIONS
