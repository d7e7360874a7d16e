"""Scatters of one update a row into equal numbers are choices at each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Function, ParamInfo, Value
from dyn.ir.types import TensorType
from dyn.ir.verifier import verify
from dyn.ops.indexing.scatter import scatter_attrs
from dyn.passes.redundancy import eliminate_dead_code
from dyn.passes.simplify import simplify
from dyn.shapes import Facts
from tests.ir.programs import LOC, assert_same_bits, run_reference

Array = np.ndarray[Any, Any]
SHAPE = (4, 5, 3)


def _program(axis: int, start: Any, dtype: DType, index: DType, **attrs: Any) -> Function:
    """A scatter along an axis of an array of equal numbers, with an index for each of its rows."""
    builder = Builder(Facts.EMPTY, LOC)
    others = tuple(a for a in range(3) if a != axis)
    rows = tuple(1 if a == axis else size for a, size in enumerate(SHAPE))
    places, updates = Value(TensorType(index, rows)), Value(TensorType(dtype, rows))
    number = builder.op("constant", value=Dense(np.asarray(start, dtype.np)))
    x = builder.op("broadcast_in_dim", number, shape=SHAPE, dims=())
    numbers = scatter_attrs(
        update_window_dims=(), scatter_dims_to_operand_dims=(axis,), index_vector_dim=3, inserted_window_dims=(axis,),
        input_batching_dims=others, scatter_indices_batching_dims=others, **attrs,
    )  # fmt: skip
    result = builder.op("scatter", x, places, updates, **numbers)
    infos = (ParamInfo("places"), ParamInfo("updates"))
    return verify(Function("f", (places, updates), tuple(builder.ops), (result,), builder.facts, infos))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("index", [dtypes.int8, dtypes.int64, dtypes.uint8, dtypes.uint64], ids=str)
@pytest.mark.parametrize("combine", ["add", "replace", "maximum", "multiply"])
def test_the_same_bits(axis: int, wrap: bool, index: DType, combine: str) -> None:
    """Places inside, outside and counted from the end; -0.0, NaN and sums that are rounded."""
    rng = np.random.default_rng(axis)
    rows = tuple(1 if a == axis else size for a, size in enumerate(SHAPE))
    places = rng.integers(-9, 9, rows).astype(index.np)
    for dtype in (dtypes.float32, dtypes.float16, dtypes.int32):
        updates = rng.standard_normal(rows).astype(dtype.np)
        if dtype.is_float:
            updates.flat[:3] = [-0.0, np.nan, np.inf]
        before = _program(axis, 0.1 if dtype.is_float else 2, dtype, index, combine=combine, wrap=wrap)
        after = verify(eliminate_dead_code(simplify(before)))
        assert not any(op.opdef.name == "scatter" for op in after.ops)
        with np.errstate(all="ignore"):
            found, wanted = (run_reference(one, (places, updates)) for one in (after, before))
        assert_same_bits(found, wanted)


def test_what_stays_a_scatter() -> None:
    """What is put into an array, or several times into a row."""
    x, places = np.zeros((3, 4), "f4"), np.array([[1], [3], [0]])

    def put(x: Any, places: Any) -> Any:
        return dyn.vjp(lambda t: dnp.take_along_axis(t, places, axis=1), x)[1](dnp.ones(places.shape, "float32"))[0]

    one, two = dyn.jit(put, shapes="n m, n 1"), dyn.jit(put, shapes="n m, n 2")
    twice = np.concatenate([places, places], axis=1)
    assert "= scatter(" not in one.lower(x, places).as_text("dhlo")
    assert "= scatter(" in two.lower(x, twice).as_text("dhlo")
    np.testing.assert_array_equal(np.asarray(one(x, places)), np.eye(4, dtype="f4")[places[:, 0]])
    np.testing.assert_array_equal(np.asarray(two(x, twice)), 2 * np.eye(4, dtype="f4")[places[:, 0]])


def test_a_cross_entropy_and_its_gradient_are_a_kernel_each() -> None:
    def loss(x: Any, labels: Any) -> Any:
        return -dnp.mean(dnp.take_along_axis(dyn.nn.log_softmax(x), labels[:, None], axis=-1))

    x, labels = np.random.default_rng(0).standard_normal((40, 30)).astype("f4"), np.arange(40) % 30
    gradient = dyn.jit(dyn.grad(loss))
    e = np.exp(x - x.max(1, keepdims=True))
    wanted = (e / e.sum(1, keepdims=True) - np.eye(30)[labels]) / 40
    np.testing.assert_allclose(np.asarray(gradient(x, labels)), wanted, rtol=1e-4, atol=1e-7)
    with dyn.profile() as profile:
        gradient(x, labels)
    (launch,) = profile.events().launches
    assert launch.nbytes == 2 * x.nbytes + labels.nbytes
