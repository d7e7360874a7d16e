"""Values, attributes, functions and the builder."""

from __future__ import annotations

import numpy as np
import pytest

from dyn import dtypes
from dyn.errors import IRError, NotYetError, ShapeError, UnsupportedOpError
from dyn.ir.core import Dense, attr_dims, attrs_key, map_attr_dims, with_operands
from dyn.ir.opdef import NOT_YET, READS_NOTHING, REGISTRY, OpDef, OpKind
from dyn.ir.types import TensorType, same_type
from dyn.shapes import Facts, RelKind, as_dim, symbol
from tests.ir.programs import Program, registered

N, M = symbol("n", "x.shape[0]"), symbol("m", "y.shape[0]")
n, m = as_dim(N), as_dim(M)


# ---- attributes ------------------------------------------------------------------------------------------------------


def test_dense_is_a_copy_that_never_changes() -> None:
    array = np.array([1.0, 2.0])
    dense = Dense(array)
    array[0] = 5.0
    assert dense.array.tolist() == [1.0, 2.0]
    assert array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        dense.array[0] = 3.0
    assert Dense(np.array([1, 2], ">i2")).array.dtype == np.dtype("=i2")
    assert repr(Dense(np.array(1))) == "Dense(array(1))"


def test_dense_equality_is_that_of_bytes() -> None:
    def dense(value: object, dtype: object = np.float32) -> Dense:
        return Dense(np.array(value, np.dtype(dtype)))  # pyright: ignore[reportArgumentType, reportCallIssue]

    assert dense(0.0) != dense(-0.0)
    assert dense(np.nan) == dense(np.nan)
    assert hash(dense(np.nan)) == hash(dense(np.nan))
    assert dense(1.0) != dense(1.0, np.float64)
    assert dense([1.0]) != dense(1.0)
    assert dense(1, np.int16) != dense(np.array(1, np.int16).view(dtypes.bfloat16.np), dtypes.bfloat16.np)
    assert dense([], np.int8) != dense(np.zeros((0, 1)), np.int8)
    assert dense(0.0) != 0.0


def test_what_attributes_are_compared_by() -> None:
    different = [0.0, -0.0, float("inf"), 0, False, "0", (0,), (0.0,), n, m, n + 1, dtypes.float32, "f32"]
    keys = [attrs_key({"a": value}) for value in different]
    assert len(set(keys)) == len(different)
    assert attrs_key({"a": float("nan")}) == attrs_key({"a": float("nan")})
    assert attrs_key({"a": 1, "b": (n, 2)}) == attrs_key({"b": (n, 2), "a": 1})
    assert attrs_key({"a": Dense(np.array(0.0))}) != attrs_key({"a": Dense(np.array(-0.0))})


def test_dims_in_attributes() -> None:
    attrs = {"a": n, "b": (1, m, (n + 1, "n")), "c": "n"}
    assert list(attr_dims(attrs)) == [n, m, n + 1]
    assert map_attr_dims(attrs, lambda d: d * 2) == {"a": 2 * n, "b": (1, 2 * m, (2 * n + 2, "n")), "c": "n"}


# ---- types -----------------------------------------------------------------------------------------------------------


def test_types() -> None:
    type = TensorType(dtypes.float32, (n, 3))
    assert (type.rank, type.size, type.nbytes, str(type)) == (2, 3 * n, 12 * n, "f32[n, 3]")
    assert str(TensorType(dtypes.bool_, (), weak=True)) == "i1[]~"
    assert type.with_dtype(dtypes.int8).with_shape((m,)) == TensorType(dtypes.int8, (m,))
    assert same_type(type, TensorType(dtypes.float32, (n, 3)), Facts.EMPTY)
    assert not same_type(type, TensorType(dtypes.float32, (m, 3)), Facts.EMPTY)
    assert not same_type(type, TensorType(dtypes.float32, (n, 3), weak=True), Facts.EMPTY)


# ---- functions -------------------------------------------------------------------------------------------------------


def test_symbols_users_and_producers() -> None:
    program = Program()
    x, y = program.param(dtypes.float32, m), program.param(dtypes.float32, n)
    doubled = program.op("add", x, x)
    size = program.op("dim_size", size=n * m, dtype=dtypes.int64)
    function = program.function(doubled, size)
    assert function.symbols() == (M, N)
    assert {value.name: [op.opdef.name for op in users] for value, users in function.users().items() if value.name} == {
        "x0": ["add"],
        "x1": [],
    }
    assert function.producers() == {doubled: function.ops[0], size: function.ops[1]}
    assert function.ops[0].result is doubled
    assert repr(function.ops[0]) == "add(%x0: f32[m], %x0: f32[m])"
    assert with_operands(function.ops[0], {y: x}) is function.ops[0]
    assert with_operands(function.ops[0], {x: y}).operands == (y, y)


# ---- op definitions --------------------------------------------------------------------------------------------------


def test_an_op_is_defined_once() -> None:
    with registered("mine", lambda ctx, operands, attrs: operands) as mine:
        with pytest.raises(IRError) as error, registered("mine", mine.types):
            pass
        assert str(error.value) == "op mine is defined twice"
        with pytest.raises(NotYetError) as not_yet:
            mine.rule("vjp")
        assert str(not_yet.value) == (
            "mine has no derivative backward yet.\n"
            "  help: give the function around it a derivative of its own, with dyn.custom_vjp or dyn.custom_jvp."
        )
    assert "mine" not in REGISTRY
    made = OpDef("mine", OpKind.OPAQUE, mine.types, None, np.add, list, READS_NOTHING, NOT_YET, NOT_YET)
    del REGISTRY["mine"]
    assert made.rule("vjp") is READS_NOTHING


# ---- the builder -----------------------------------------------------------------------------------------------------


def test_demands_become_facts_once() -> None:
    program = Program()
    x, y = program.param(dtypes.float32, n), program.param(dtypes.float32, m)
    program.op("add", x, y)
    program.op("multiply", x, y)
    program.op("add", x, x)
    assert [r.describe() for r in program.builder.facts.relations] == ["n == m"]
    (relation,) = program.builder.facts.relations
    assert str(relation.reason) == "operands of an elementwise op agree on axis 0 (model.py:3)"
    assert relation.kind is RelKind.EQ


def test_demands_that_cannot_hold() -> None:
    program = Program()
    x, y = program.param(dtypes.float32, n, 3), program.param(dtypes.float32, n, 4)
    with pytest.raises(ShapeError) as error:
        program.op("add", x, y)
    assert str(error.value) == (
        "3 == 4 cannot hold.\n"
        "  needed: operands of an elementwise op agree on axis 1\n"
        "  at model.py:3\n"
        "  help: make the sizes agree, or change the declaration that fixes them."
    )
    assert program.builder.ops == []
    assert program.builder.facts.relations == ()


def test_operands_that_an_op_does_not_take() -> None:
    program = Program()
    x, y = program.param(dtypes.float32, n), program.param(dtypes.int32, n)
    with pytest.raises(ShapeError) as error:
        program.op("add", x, y)
    assert str(error.value) == "add: operands have dtypes float32 and int32\n  at model.py:3"
    with pytest.raises(UnsupportedOpError) as unknown:
        program.op("ad", x, y)
    assert str(unknown.value) == "there is no op named 'ad'.\n  at model.py:3"


def test_what_rules_may_look_at() -> None:
    program = Program()
    x = program.param(dtypes.float32, n)
    two = program.constant(2.0)
    twos = program.op("broadcast_in_dim", two, shape=(n, 1), dims=())
    flat = program.op("reshape", twos, shape=(n,))
    mixed = program.constant([1.0, 2.0])
    alike = program.constant([-0.0, -0.0])
    confused = program.constant([0.0, -0.0])
    nothing = program.constant(np.zeros(0))
    total = program.op("add", x, flat)
    b = program.builder
    assert [None if u is None else u.item() for u in map(b.uniform, (two, twos, flat, alike))] == [2.0, 2.0, 2.0, -0.0]
    assert [b.uniform(v) for v in (x, mixed, confused, nothing, total)] == [None] * 5
    assert b.producer(x) is None
    assert b.producer(total) is b.ops[-1]
    assert b.producer(total, REGISTRY["add"]) is b.ops[-1]
    assert b.producer(total, REGISTRY["negate"]) is None
