"""Ops with regions among others: what passes do around them and with them."""

from __future__ import annotations

from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp
from dyn import dtypes, lax
from dyn.ir.builder import Builder
from dyn.ir.core import Function, ParamInfo, Value
from dyn.ir.opdef import REGISTRY
from dyn.ir.printer import print_function
from dyn.ir.types import TensorType
from dyn.ir.verifier import verify
from dyn.ops.regions import scalar_region
from dyn.passes.simplify import simplify
from dyn.shapes import Facts, as_dim, symbol
from dyn.source import Loc


def halved(a: Any, b: Any) -> Any:
    return a * 0.5 + b


def test_several_results_beside_transposes_that_cancel() -> None:
    """Found by this test: turning a region failed on any op of several results beside it."""

    def program(x: Any, i: Any) -> Any:
        turned = dnp.transpose(dnp.exp(dnp.transpose(x) * 2))
        order = dnp.argsort(i)
        pair = lax.reduce((x, x * 2), (0.0, 1.0), lambda a, b: (a[0] - b[0], a[1] * b[0]), (0,))
        return turned, order, pair

    x, i = np.random.default_rng(0).random((3, 4)), np.array([3.0, 1.0, 2.0])
    turned, order, (first, second) = dyn.jit(program)(x, i)
    np.testing.assert_allclose(turned, np.exp(x * 2))
    np.testing.assert_array_equal(order, [1, 2, 0])
    np.testing.assert_allclose(first, -x.sum(0))
    np.testing.assert_allclose(second, x.prod(0))


def test_a_fold_of_what_is_transposed() -> None:
    f = dyn.jit(lambda x: lax.reduce(dnp.transpose(dnp.exp(x)), 1.0, halved, (0,)))
    for shape in ((0, 3), (3, 0), (1, 1), (7, 5)):
        x = np.random.default_rng(0).random(shape)
        wanted = np.ones(shape[0])
        for column in np.exp(x).T:
            wanted = wanted * 0.5 + column
        np.testing.assert_allclose(f(x), wanted)
    assert f.cache_info().compiles == 1


def test_a_result_that_nobody_reads() -> None:
    def program(x: Any) -> Any:
        first, _ = lax.reduce((x, x), (1.0, 1.0), lambda a, b: (halved(a[0], b[1]), halved(a[1], b[0])), (1,))
        return dnp.tanh(first)

    x = np.random.default_rng(0).random((4, 9)).astype("f4")
    wanted = np.ones(4, "f4")
    for column in x.T:
        wanted = wanted * np.float32(0.5) + column
    np.testing.assert_allclose(dyn.jit(program)(x), np.tanh(wanted), rtol=1e-6)


def test_results_feed_further_folds() -> None:
    def program(x: Any) -> Any:
        rows = lax.reduce(x, 1.0, halved, (1,))
        centred = x - rows[:, None]
        return lax.reduce(centred, 0.0, halved, (0,)), lax.reduce(rows, 0.0, halved, (0,))

    f = dyn.jit(program)
    for shape in ((1, 1), (2, 3), (9, 33)):
        x = np.random.default_rng(0).random(shape)
        rows = np.ones(shape[0])
        for column in x.T:
            rows = rows * 0.5 + column
        columns, total = np.zeros(shape[1]), 0.0
        for row, value in zip(x - rows[:, None], rows, strict=True):
            columns, total = columns * 0.5 + row, total * 0.5 + value
        np.testing.assert_allclose(f(x)[0], columns)
        np.testing.assert_allclose(f(x)[1], total)
    assert f.cache_info().compiles == 1


def test_a_map_becomes_its_ops_on_whole_arrays() -> None:
    f32 = dtypes.float32

    def body(b: Any, x: Value, y: Value) -> Value:
        return b.op("add", b.op("multiply", x, y), b.op("dim_size", size=n, dtype=f32))

    n = as_dim(symbol("n", "x.shape[0]"))
    params = [Value(TensorType(f32, (n,)), name) for name in ("x", "y")]
    builder = Builder(Facts.EMPTY, Loc("model.py", 3))
    results = builder.emit(REGISTRY["map"], params, (scalar_region((f32, f32), body),))
    infos = tuple(ParamInfo(v.name) for v in params)
    function = Function("f", tuple(params), tuple(builder.ops), results, builder.facts, infos)
    text = print_function(verify(simplify(verify(function))), locs=False)
    assert text.splitlines()[2:] == [
        "  %0 = multiply(%x, %y) : f32[n]",
        "  %1 = dim_size() {dtype = #f32, size = n} : f32[]~",
        "  %2 = broadcast_in_dim(%1) {dims = [], shape = [n]} : f32[n]~",
        "  %3 = add(%0, %2) : f32[n]",
        "  return %3",
        "}",
    ]
