"""Programs with sizes that nobody wrote down, as producers other than JAX have them: ``?``, bounds, arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dyn.errors import ShapeError, UnsupportedOpError
from dyn.interop.stablehlo import load
from dyn.shapes import format_dim

pytest.importorskip("jaxlib")


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def main(params: str, result: str, *lines: str) -> Any:
    """A module of one function that returns ``%r``."""
    return load("\n".join([f"func.func @main({params}) -> {result} {{", *lines, f"return %r : {result}", "}"]))


def shape_of(loaded: Any, *args: Any) -> list[str]:
    """The dims of the result of a program."""
    (result,) = loaded.trace(*args).function.results
    return [format_dim(d) for d in result.shape]


def facts_of(loaded: Any, *args: Any) -> list[str]:
    return loaded.trace(*args).function.facts.describe()


def refusal(loaded: Any, *args: Any) -> str:
    with pytest.raises(ShapeError) as refused:
        loaded(*args)
    return str(refused.value)


# --- sizes that are "?" -----------------------------------------------------------------------------------------------


def test_operands_of_one_operation_are_of_one_size() -> None:
    f = main("%a: tensor<?xf32>, %b: tensor<?xf32>", "tensor<?xf32>", "%r = stablehlo.add %a, %b : tensor<?xf32>")
    assert facts_of(f, ones(3), ones(3)) == [
        "arg0_0 == arg1_0: operands of an elementwise op agree on axis 0 (-:2)"
    ]  # fmt: skip
    for n in (0, 1, 2, 7, 64, 1000):
        assert f(ones(n), ones(n)).shape == (n,)
    assert f.cache_info().compiles == 1
    assert refusal(f, ones(3), ones(4)) == (
        "arg0_0 == arg1_0 is required, but arg0_0 is 3 and arg1_0 is 4: "
        "operands of an elementwise op agree on axis 0.\n"
        "  arg0_0 is arg0.shape[0] = 3\n"
        "  arg1_0 is arg1.shape[0] = 4\n"
        "  at -:2\n"
        "  help: pass arguments whose shapes satisfy it."
    )


def test_a_result_of_a_number_of_elements_is_held_to_it() -> None:
    line = "%r = stablehlo.add %a, %b : (tensor<?xf32>, tensor<?xf32>) -> tensor<4xf32>"
    f = main("%a: tensor<?xf32>, %b: tensor<?xf32>", "tensor<4xf32>", line)
    assert f(ones(4), ones(4)).shape == (4,)
    assert refusal(f, ones(3), ones(3)) == (
        "arg0_0 == 4 is required, but arg0_0 is 3: stablehlo.add gives 4 elements along axis 0.\n"
        "  arg0_0 is arg0.shape[0] = 3\n"
        "  at -:2\n"
        "  help: pass arguments whose shapes satisfy it."
    )


SPREAD = (
    "%0 = shape.shape_of %s : tensor<?x?xf32> -> tensor<2xindex>",
    '%r = "stablehlo.dynamic_broadcast_in_dim"(%a, %0) {{broadcast_dimensions = array<i64: 1>{}}}'
    " : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x?xf32>",
)


def spread(said: str) -> Any:
    known = f", {said} = array<i64: 0>" if said else ""
    params = "%a: tensor<?xf32>, %s: tensor<?x?xf32>"
    return main(params, "tensor<?x?xf32>", SPREAD[0], SPREAD[1].format(known))


def test_whether_an_axis_expands_may_be_known_when_the_program_runs() -> None:
    f = spread("")
    for n, shape in ((3, (2, 3)), (1, (2, 3)), (1, (2, 0)), (0, (4, 0)), (1, (0, 1))):
        np.testing.assert_array_equal(
            f(np.arange(float(n), dtype=np.float32), ones(*shape)), np.broadcast_to(np.arange(n), shape)
        )
    assert f.cache_info().compiles == 1
    assert refusal(f, ones(2), ones(2, 3)) == (
        "arg0_0 broadcasts with arg1_1 is required, but arg0_0 is 2 and arg1_1 is 3: "
        "axis 0 is broadcast to axis 1.\n"
        "  arg0_0 is arg0.shape[0] = 2\n"
        "  arg1_1 is arg1.shape[1] = 3\n"
        "  at -:3\n"
        "  help: pass arguments whose shapes satisfy it."
    )
    assert "broadcast(arg0_0, arg1_1) == arg1_1 is required" in refusal(f, ones(2), ones(2, 1))


def test_an_axis_that_does_not_expand() -> None:
    f = spread("known_nonexpanding_dimensions")
    assert facts_of(f, ones(3), ones(2, 3)) == [
        "arg0_0 == arg1_1: stablehlo.dynamic_broadcast_in_dim does not expand axis 0 (-:3)"
    ]  # fmt: skip
    assert "arg0_0 == arg1_1 is required, but arg0_0 is 1 and arg1_1 is 3" in refusal(f, ones(1), ones(2, 3))


def test_an_axis_that_expands() -> None:
    f = spread("known_expanding_dimensions")
    assert f(ones(1), ones(2, 3)).shape == (2, 3)
    assert "arg0_0 == 1 is required, but arg0_0 is 3" in refusal(f, ones(3), ones(2, 3))


# --- bounds -----------------------------------------------------------------------------------------------------------

BOUNDED = "tensor<?x4xf32, #stablehlo.bounds<8, ?>>"


def test_bounds_are_facts() -> None:
    f = main(f"%a: {BOUNDED}", BOUNDED, f"%r = stablehlo.add %a, %a : {BOUNDED}")
    for n in (0, 1, 8):
        assert f(ones(n, 4)).shape == (n, 4)
    assert shape_of(f, ones(3, 4)) == ["arg0_0", "4"]
    (fact,) = f.trace(ones(3, 4)).function.facts.relations
    assert fact.describe() == "8 >= arg0_0"
    assert refusal(f, ones(9, 4)).startswith(
        "8 >= arg0_0 is required, but arg0_0 is 9: the imported program takes arg0 with axis 0 of at most 8.\n"
        "  arg0_0 is arg0.shape[0] = 9\n"
        "  at test_dynamic_programs.py:"
    )


def test_what_a_result_is_bounded_by_is_demanded() -> None:
    line = f"%r = stablehlo.concatenate %a, %a, dim = 0 : (tensor<?x4xf32>, tensor<?x4xf32>) -> {BOUNDED}"
    f = main("%a: tensor<?x4xf32>", BOUNDED, line)
    assert facts_of(f, ones(2, 4)) == [
        "8 >= 2*arg0_0: stablehlo.concatenate gives at most 8 elements along axis 0 (-:2)"
    ]
    assert f(ones(4, 4)).shape == (8, 4)
    assert "8 >= 2*arg0_0 is required, but 2*arg0_0 is 10 (arg0_0 is 5)" in refusal(f, ones(5, 4))


def test_a_size_that_is_set_is_measured() -> None:
    bounded = "tensor<?xf32, #stablehlo.bounds<8>>"
    f = main(
        f"%a: {bounded}, %n: tensor<i32>", "tensor<i32>",
        f"%0 = stablehlo.set_dimension_size %a, %n, dim = 0 : ({bounded}, tensor<i32>) -> {bounded}",
        "%z = stablehlo.constant dense<0.0> : tensor<f32>",
        "%1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0]"
        f" : ({bounded}, tensor<f32>) -> tensor<f32>",
        "%2 = stablehlo.convert %1 : (tensor<f32>) -> tensor<i32>",
        f"%3 = stablehlo.get_dimension_size %0, dim = 0 : ({bounded}) -> tensor<i32>",
        "%4 = stablehlo.constant dense<10> : tensor<i32>",
        "%5 = stablehlo.multiply %3, %4 : tensor<i32>",
        "%r = stablehlo.add %2, %5 : tensor<i32>",
    )  # fmt: skip
    for n in (0, 1, 6):
        assert f(ones(6), np.int32(n)) == 11 * n
    assert f.cache_info().compiles == 1
    assert refusal(f, ones(6), np.int32(7)) == (
        "arg0_0 >= size is required, but arg0_0 is 6 and size is 7: "
        "stablehlo.set_dimension_size of axis 0 keeps that many of its elements.\n"
        "  arg0_0 is arg0.shape[0] = 6\n"
        "  size is a size that stablehlo.set_dimension_size is given = 7\n"
        "  at -:2\n"
        "  help: pass arguments whose shapes satisfy it."
    )


def test_other_encodings_are_refused() -> None:
    with pytest.raises(UnsupportedOpError) as refused:
        main(
            '%a: tensor<2xf32, "dense">', 'tensor<2xf32, "dense">', '%r = stablehlo.negate %a : tensor<2xf32, "dense">'
        )
    assert str(refused.value) == 'tensors with "dense" (tensor<2xf32, "dense">) are not supported.\n  at -:1'


# --- sizes from data --------------------------------------------------------------------------------------------------


def test_a_size_that_is_data_is_measured() -> None:
    f = main(
        "%n: tensor<i32>, %x: tensor<?xi32>", "tensor<?x?xi32>",
        "%d = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi32>) -> tensor<i32>",
        "%0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>",
        "%1 = stablehlo.reshape %d : (tensor<i32>) -> tensor<1xi32>",
        "%2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>",
        "%r = stablehlo.dynamic_iota %2, dim = 0 : (tensor<2xi32>) -> tensor<?x?xi32>",
    )  # fmt: skip
    x = np.zeros(3, np.int32)
    assert shape_of(f, np.int32(4), x) == ["size", "arg1_0"]
    for n in (0, 1, 5):
        np.testing.assert_array_equal(f(np.int32(n), x), np.indices((n, 3))[0])
    assert f.cache_info().compiles == 1
    assert refusal(f, np.int32(-1), x).startswith(
        "size >= 0 is required, but size is -1: a size that stablehlo.dynamic_iota is given is not negative.\n"
    )


def test_a_slice_up_to_what_data_say() -> None:
    f = main(
        "%x: tensor<?xf32>, %n: tensor<1xi32>", "tensor<?xf32>",
        "%0 = stablehlo.constant dense<1> : tensor<1xi32>",
        "%r = stablehlo.real_dynamic_slice %x, %0, %n, %0"
        " : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>",
    )  # fmt: skip
    x = np.arange(6, dtype=np.float32)
    for n in (1, 2, 6):
        np.testing.assert_array_equal(f(x, np.array([n], np.int32)), x[1:n])


# --- shape, tensor, arith ---------------------------------------------------------------------------------------------

X = "%x: tensor<?x4xf32>"
TO_INDEX = ": (tensor<?x4xf32>, tensor<1xindex>) -> tensor<?xf32>"
FLATTENED = f"%r = stablehlo.dynamic_reshape %x, %n {TO_INDEX}"
SIZES = {
    "num_elements": (
        ("%0 = shape.shape_of %x : tensor<?x4xf32> -> tensor<2xindex>",
         "%1 = shape.num_elements %0 : tensor<2xindex> -> index",
         "%n = tensor.from_elements %1 : tensor<1xindex>", FLATTENED), "4*arg0_0"),
    "extents": (
        ("%0 = shape.shape_of %x : tensor<?x4xf32> -> !shape.shape",
         "%c = shape.const_size 0", "%1 = shape.get_extent %0, %c : !shape.shape, !shape.size -> !shape.size",
         "%2 = shape.size_to_index %1 : !shape.size", "%four = arith.constant 4 : index",
         "%3 = arith.muli %2, %four : index", "%n = tensor.from_elements %3 : tensor<1xindex>", FLATTENED), "4*arg0_0"),
    "arith": (
        ("%c0 = arith.constant 0 : index", "%d = tensor.dim %x, %c0 : tensor<?x4xf32>",
         "%i = arith.index_cast %d : index to i32", "%c4 = arith.constant 4 : i32", "%m = arith.muli %i, %c4 : i32",
         "%c3 = arith.constant 3 : i32", "%a = arith.addi %m, %c3 : i32", "%b = arith.divsi %a, %c4 : i32",
         "%e = arith.muli %b, %c4 : i32", "%v = tensor.from_elements %e : tensor<1xi32>",
         "%r = stablehlo.dynamic_reshape %x, %v : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>"), "4*arg0_0"),
    "floordiv": (
        ("%c0 = arith.constant 0 : index", "%d = tensor.dim %x, %c0 : tensor<?x4xf32>",
         "%c2 = arith.constant 2 : index", "%h = arith.floordivsi %d, %c2 : index",
         "%u = arith.ceildivsi %d, %c2 : index", "%s = arith.addi %h, %u : index",
         "%m = arith.remsi %d, %c2 : index", "%k = arith.maxsi %s, %m : index", "%c4 = arith.constant 4 : index",
         "%p = arith.muli %d, %c4 : index", "%eq = arith.cmpi sge, %d, %c0 : index",
         "%q = arith.select %eq, %p, %k : index",
         "%n = tensor.from_elements %q : tensor<1xindex>", FLATTENED), "4*arg0_0"),
    "splat and extract": (
        ("%c0 = arith.constant 0 : index", "%d = shape.dim %x, %c0 : tensor<?x4xf32>, index -> index",
         "%v = tensor.splat %d : tensor<2xindex>", "%e = tensor.extract %v[%c0] : tensor<2xindex>",
         "%c4 = shape.const_shape [4] : tensor<1xindex>", "%g = tensor.extract %c4[%c0] : tensor<1xindex>",
         "%m = arith.muli %e, %g : index", "%n = tensor.from_elements %m : tensor<1xindex>", FLATTENED), "4*arg0_0"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SIZES))
def test_sizes_of_other_dialects(name: str) -> None:
    lines, wanted = SIZES[name]
    f = main(X, "tensor<?xf32>", *lines)
    assert shape_of(f, ones(3, 4)) == [wanted]
    for n in (0, 1, 7):
        assert f(ones(n, 4)).shape == (4 * n,)
    assert f.cache_info().compiles == 1


def test_arithmetic_on_data() -> None:
    f = main(
        "%x: tensor<3xi32>", "tensor<2xi32>",
        "%c1 = arith.constant 1 : index", "%c2 = arith.constant 2 : index",
        "%a = tensor.extract %x[%c1] : tensor<3xi32>", "%b = tensor.extract %x[%c2] : tensor<3xi32>",
        "%m = arith.muli %a, %b : i32", "%l = arith.cmpi slt, %a, %b : i32", "%s = arith.select %l, %a, %b : i32",
        "%r = tensor.from_elements %m, %s : tensor<2xi32>",
    )  # fmt: skip
    assert f(np.array([1, -5, 3], np.int32)).tolist() == [-15, -5]
    unsigned = main(
        "%x: tensor<1xi32>", "tensor<1xi1>", "%c0 = arith.constant 0 : index",
        "%a = tensor.extract %x[%c0] : tensor<1xi32>", "%l = arith.cmpi ult, %a, %a : i32",
        "%r = tensor.from_elements %l : tensor<1xi1>",
    )  # fmt: skip
    with pytest.raises(UnsupportedOpError) as refused:
        unsigned(np.ones(1, np.int32))
    assert str(refused.value) == (
        "arith.cmpi of (i32[], i32[]) compares data as numbers without a sign.\n"
        "  at -:4\n"
        "  help: compare what has an unsigned type."
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "%d = tensor.dim %x, %five : tensor<?x4xf32>",
            "tensor.dim of (f32[arg0_0, 4], i64[]) asks for the size of axis 5.",
        ),
        ("%w = shape.const_witness false", "shape.const_witness of () says that a constraint never holds."),
        (
            "%d = tensor.dim %x, %n : tensor<?x4xf32>",
            "tensor.dim of (f32[arg0_0, 4], i64[]) asks for the size of an axis that is not known.",
        ),
    ],
)
def test_what_makes_no_sense(line: str, said: str) -> None:
    f = main("%x: tensor<?x4xf32>, %n: index", "tensor<?x4xf32>", "%five = arith.constant 5 : index", line,
             "%r = stablehlo.negate %x : tensor<?x4xf32>")  # fmt: skip
    with pytest.raises(UnsupportedOpError) as refused:
        f(ones(2, 4), np.int64(0))
    assert str(refused.value) == f"{said}\n  at -:3"


def test_casts_refine_sizes() -> None:
    f = main("%x: tensor<?x4xf32>", "tensor<3x4xf32>", "%r = tensor.cast %x : tensor<?x4xf32> to tensor<3x4xf32>")
    assert facts_of(f, ones(3, 4)) == ["arg0_0 == 3: tensor.cast gives 3 elements along axis 0 (-:2)"]
    assert "arg0_0 == 3 is required, but arg0_0 is 2" in refusal(f, ones(2, 4))


def test_constraints_are_facts() -> None:
    f = main(
        "%a: tensor<?xf32>, %b: tensor<?xf32>", "tensor<?xf32>",
        "%0 = shape.shape_of %a : tensor<?xf32> -> tensor<1xindex>",
        "%1 = shape.shape_of %b : tensor<?xf32> -> tensor<1xindex>",
        "%w0 = shape.cstr_broadcastable %0, %1 : tensor<1xindex>, tensor<1xindex>",
        "%w1 = shape.cstr_eq %0, %1 : tensor<1xindex>, tensor<1xindex>",
        "%w = shape.assuming_all %w0, %w1",
        "%r = shape.assuming %w -> (tensor<?xf32>) {",
        "%2 = stablehlo.add %a, %b : tensor<?xf32>",
        "shape.assuming_yield %2 : tensor<?xf32>",
        "}",
    )  # fmt: skip
    assert facts_of(f, ones(3), ones(3)) == [
        "arg0_0 broadcasts with arg1_0: shape.cstr_broadcastable takes shapes that broadcast (-:4)",
        "arg0_0 == arg1_0: shape.cstr_eq takes shapes that are equal (-:5)",
    ]
    assert f(ones(3), ones(3)).tolist() == [2.0] * 3


def test_a_required_truth_is_a_fact() -> None:
    f = main(
        "%a: tensor<?xf32>, %b: tensor<?xf32>", "tensor<?xf32>",
        "%0 = shape.shape_of %a : tensor<?xf32> -> tensor<1xindex>",
        "%1 = shape.shape_of %b : tensor<?xf32> -> tensor<1xindex>",
        "%2 = shape.is_broadcastable %0, %1 : tensor<1xindex>, tensor<1xindex>",
        '%w = shape.cstr_require %2, "they broadcast"',
        "%3 = shape.broadcast %0, %1 : tensor<1xindex>, tensor<1xindex> -> tensor<1xindex>",
        "%r = stablehlo.dynamic_broadcast_in_dim %a, %3, dims = [0]"
        " : (tensor<?xf32>, tensor<1xindex>) -> tensor<?xf32>",
    )  # fmt: skip
    assert facts_of(f, ones(3), ones(3)) == ["arg0_0 broadcasts with arg1_0: they broadcast (-:5)"]
    assert shape_of(f, ones(3), ones(3)) == ["broadcast(arg0_0, arg1_0)"]
    assert f(ones(1), ones(4)).shape == (4,)


def test_broadcasting_chlo() -> None:
    f = main(
        "%p: tensor<i1>, %a: tensor<?x?xf32>, %b: tensor<?xf32>", "tensor<?x?xf32>",
        "%0 = chlo.broadcast_add %a, %b : (tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?xf32>",
        '%1 = "chlo.constant_like"(%a) {value = 2.0 : f32} : (tensor<?x?xf32>) -> tensor<?x?xf32>',
        "%r = chlo.broadcast_select %p, %0, %1 : (tensor<i1>, tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>",
    )  # fmt: skip
    assert shape_of(f, np.True_, ones(2, 3), ones(3)) == ["arg1_0", "broadcast(arg1_1, arg2_0)"]
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(f(np.True_, a, b), a + b)
    np.testing.assert_array_equal(f(np.False_, a, b[1:2]), np.full((2, 3), 2.0))
    np.testing.assert_array_equal(f(np.True_, a[:, :0], b[:1]), np.ones((2, 0)))
    assert f.cache_info().compiles == 1
    assert refusal(f, np.True_, ones(2, 3), ones(2)) == (
        "arg1_1 broadcasts with arg2_0 is required, but arg1_1 is 3 and arg2_0 is 2: "
        "chlo.broadcast_add takes shapes that broadcast.\n"
        "  arg1_1 is arg1.shape[1] = 3\n"
        "  arg2_0 is arg2.shape[0] = 2\n"
        "  at -:2\n"
        "  help: pass arguments whose shapes satisfy it."
    )


def test_dialects_that_are_not_read() -> None:
    with pytest.raises(UnsupportedOpError) as refused:
        main("%x: tensor<?xf32>", "tensor<?xf32>", '%r = "linalg.copy"(%x) : (tensor<?xf32>) -> tensor<?xf32>')
    assert str(refused.value) == (
        "linalg.copy is an operation of the dialect 'linalg', which is not read.\n"
        "  at -:2\n"
        "  help: lower the program to StableHLO; chlo, shape, tensor and arith are read beside it."
    )
    with pytest.raises(UnsupportedOpError) as unknown:
        main("%x: tensor<?xf32>", "tensor<?xf32>", "%r = math.exp %x : tensor<?xf32>")(ones(2))
    assert str(unknown.value) == "math.exp of (f32[arg0_0]) has no meaning in this version.\n  at -:2"
