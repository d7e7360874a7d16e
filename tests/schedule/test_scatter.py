"""SCATTER groups: their kernels, the rules that those keep to, and what they compute at the edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.reference import run_reference
from dyn.errors import IRError
from dyn.ir.core import Function
from dyn.ops.indexing.scatter import scatter_attrs
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Buffer, Const, Kernel, Load, Ref, Space, Store, Update
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.shapes import as_dim, symbol
from dyn.stitch.groups import GroupKind
from dyn.trace.function import TracedFunction
from tests.canary import compile_traced, run_compiled
from tests.lower.x86_run import lane, serial
from tests.stitch.models import Model, optimized

ROWS: dict[str, Any] = {"scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1, "inserted_window_dims": (0,)}


def added_rows(combine: str = "add") -> Function:
    """The gradient of an embedding."""
    m = Model("added_rows")
    table, ids = m.param("table", "v", "c"), m.param("ids", "n", dtype=dtypes.int64)
    n, c = ids.shape[0], table.shape[1]
    rows = m.param("rows", n, c)
    return m.function(m.op("scatter", table, ids, rows, **scatter_attrs(combine, update_window_dims=(1,), **ROWS)))


def counted() -> Function:
    m = Model("counted")
    ids = m.param("ids", "n", dtype=dtypes.int32)
    zeros = m.stretch(m.number(0, dtypes.int32), m.param("bins", "v").shape[0])
    ones = m.stretch(m.number(1, dtypes.int32), ids.shape[0])
    return m.function(m.op("scatter", zeros, ids, ones, **scatter_attrs("add", update_window_dims=(), **ROWS)))


def each_its_own() -> Function:
    """Every column of the table has indices of its own."""
    m = Model("each_its_own")
    table = m.param("table", "v", "c")
    c = table.shape[1]
    ids = m.param("ids", "n", c, dtype=dtypes.int64)
    columns: dict[str, Any] = {
        **ROWS,
        "index_vector_dim": 2,
        "input_batching_dims": (1,),
        "scatter_indices_batching_dims": (1,),
    }
    rows = m.param("rows", ids.shape[0], c)
    return m.function(m.op("scatter", table, ids, rows, **scatter_attrs("replace", update_window_dims=(), **columns)))


def cache() -> Function:
    m = Model("cache")
    kept = m.param("kept", "b", "s", 64)
    new = m.param("new", kept.shape[0], 1, 64)
    at, zero = m.param("at", dtype=dtypes.int64), m.number(0, dtypes.int64)
    return m.function(m.op("dynamic_update_slice", kept, new, zero, at, zero))


PROGRAMS: dict[str, Callable[[], Function]] = {
    "rows": added_rows, "counted": counted, "each_its_own": each_its_own, "cache": cache
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels(name: str, golden: Callable[[str, str], None]) -> None:
    done = optimized(PROGRAMS[name]())
    assert [g.kind for g in done.plan.groups] == [GroupKind.SCATTER]
    lines = [
        (f"when {v.condition.describe()}\n" if v.condition is not None else "") + kernel_text(v.kernel)
        for launch in done.launches
        for v in launch.variants
    ]
    golden(f"scatter_{name}.txt", "\n".join(lines))


def _run(function: Function, *arrays: np.ndarray[Any, Any]) -> None:
    """Compiled code gives the reference's results to the bit."""
    traced = TracedFunction(function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
    results = run_compiled(compile_traced(traced, ()), arrays)
    for actual, wanted in zip(results, run_reference(function, arrays), strict=True):
        np.testing.assert_array_equal(actual, wanted, strict=True)


@pytest.mark.parametrize("columns", [1, 3, 64, 2048, 2049, 5000])
@pytest.mark.parametrize("combine", ["add", "replace", "maximum"])
def test_sums_are_rounded_in_the_order_of_the_updates(columns: int, combine: str) -> None:
    rng = np.random.default_rng(columns)
    rows = (rng.standard_normal((40, columns)) * 10.0 ** rng.integers(-8, 8, (40, 1))).astype(np.float32)
    ids = rng.integers(-3, 7, 40)
    _run(added_rows(combine), rng.standard_normal((5, columns)).astype(np.float32), ids, rows)


def test_places_far_outside_are_left_out() -> None:
    far = np.array([2**63 - 1, -(2**63), 2**62, -1, 5, 4], np.int64)
    _run(added_rows(), np.zeros((5, 7), np.float32), far, np.ones((6, 7), np.float32))
    _run(each_its_own(), np.zeros((5, 6), np.float32), np.stack([far, far]), np.ones((2, 6), np.float32))


def test_windows_longer_than_an_axis_leave_out_what_lies_outside() -> None:
    """What lay behind the end of a row went to the next one, or behind the array."""
    m = Model("long_windows")
    table, ids = m.param("table", "v", "c"), m.param("ids", "n", dtype=dtypes.int64)
    rows = m.param("rows", ids.shape[0], "w")
    function = m.function(m.op("scatter", table, ids, rows, **scatter_attrs("add", update_window_dims=(1,), **ROWS)))
    for columns, width in ((3, 7), (7, 3), (0, 2), (3, 3), (70, 300)):
        _run(function, np.zeros((5, columns), np.float32), np.array([4, 0, 4, 7]), np.ones((4, width), np.float32))


#: What -0.0 becomes with -0.0 and then 0.0, and with 0.0 and then -0.0; NaNs win everywhere.
SIGNS = {"add": (0.0, 0.0), "multiply": (0.0, 0.0), "maximum": (0.0, 0.0), "minimum": (-0.0, -0.0)}


@pytest.mark.parametrize("combine", SIGNS)
def test_nan_and_zeros_of_either_sign(combine: str) -> None:
    rows = np.array([[-0.0, 0.0, np.nan, 1.0], [0.0, -0.0, 1.0, np.nan]], np.float32)
    traced = TracedFunction(added_rows(combine), (), (), None)  # pyright: ignore[reportArgumentType]  # as in _run
    arrays = np.full((1, 4), -0.0, np.float32), np.zeros(2, np.int64), rows
    (actual,) = run_compiled(compile_traced(traced, ()), arrays)
    wanted = np.array([*SIGNS[combine], np.nan, np.nan], np.float32)
    np.testing.assert_array_equal(np.signbit(actual[0, :2]), np.signbit(wanted[:2]))
    np.testing.assert_array_equal(actual[0], wanted)


def test_views_and_uses_of_what_was_scattered() -> None:
    m = Model("views")
    table, ids = m.param("table", "v", "c"), m.param("ids", "n", dtype=dtypes.int64)
    rows = m.param("rows", ids.shape[0], table.shape[1])
    y = m.op("scatter", table, ids, rows, **scatter_attrs("add", update_window_dims=(1,), **ROWS))
    function = m.function(m.transpose(y, 1, 0), m.op("negate", y), m.reduce(y, 1, keep=False), y)
    for n in (0, 1, 7):
        table_, ids_ = np.ones((n, 3), np.float32), np.arange(5) % 4
        _run(function, table_, ids_, np.ones((5, 3), np.float32))


# ---- the rules of the kernel IR ------------------------------------------------------------------------------------


def _updating(change: Callable[[Update], Any], *, first: bool = True) -> Kernel:
    """``y[j] += 1`` where ``j < n``, for every j, after y was stored; with one thing changed."""
    n, i, j = symbol("n"), symbol("i"), symbol("j")
    y = Buffer("y", dtypes.float32)
    number = Const(dtypes.float32, 1.0)
    update = change(Update(y, as_dim(j), (), Scalar.ADD, number))
    stores = [lane(i, as_dim(n), Store(y, as_dim(i), number))] if first else []
    return Kernel("k", (y,), (n,), (), (*stores, serial(j, as_dim(n), update)))


def test_an_update_checks() -> None:
    check(_updating(lambda u: u))


BROKEN: dict[str, tuple[Callable[[Update], Any], str]] = {
    "value": (lambda u: replace(u, value=Const(dtypes.float64, 1.0)), "kernel k: a f64 updates y, a f32"),
    "combine": (lambda u: replace(u, combine=Scalar.SUB), "kernel k: y is updated with sub, which is no monoid"),
    "state": (
        lambda u: replace(u, state=Ref("old", dtypes.float32)),
        "kernel k: y is updated with old, which is no element of it, or with more",
    ),
    "mask": (
        lambda u: replace(u, mask=Const(dtypes.int32, 1)), "kernel k: an update of y has a mask of i32",
    ),
    "bound": (
        lambda u: replace(u, bound=((symbol("v"), Const(dtypes.int32, 1)),)),
        "kernel k: an update of y has an index that is not computed in i64",
    ),
    "scope": (
        lambda u: replace(u, index=as_dim(symbol("w"))), "kernel k: an update of y mentions w, which is not in scope"
    ),
    "scratch": (
        lambda u: replace(u, buffer=Buffer("s", dtypes.float32, Space.SCRATCH, 1)),
        "kernel k: s is updated, and is no global buffer that was stored before",
    ),
    "loaded": (
        lambda u: replace(u, value=Load(u.buffer, 0)), "kernel k: global buffer y is both loaded and stored"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_an_update_that_breaks_a_rule(name: str) -> None:
    change, text = BROKEN[name]
    with pytest.raises(IRError) as caught:
        check(_updating(change))
    assert str(caught.value) == text


def test_what_is_updated_was_stored() -> None:
    with pytest.raises(IRError) as caught:
        check(_updating(lambda u: u, first=False))
    assert str(caught.value) == "kernel k: y is updated, and is no global buffer that was stored before"
