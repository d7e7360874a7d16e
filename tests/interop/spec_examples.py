"""Examples of the StableHLO specification, one of each operation, with inputs and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INF, NAN = float("inf"), float("nan")


@dataclass(frozen=True)
class Example:
    """A module whose ``main`` makes ``results`` of ``inputs``."""

    name: str
    text: str
    inputs: tuple[Any, ...]
    results: tuple[Any, ...]


def _of(
    name: str, types: str, inputs: tuple[Any, ...], results: tuple[Any, ...], attrs: str = "", regions: str = "",
    op: str = "",
) -> Example:  # fmt: skip
    """A module of one operation: ``types`` is its signature, ``tensor<2xi32>, … -> tensor<2xi32>``."""
    taken, _, given = types.partition(" -> ")
    operands = [t for t in taken.split(", ") if t]
    made = given.split(", ")
    params = ", ".join(f"%a{i}: {t}" for i, t in enumerate(operands))
    names = ", ".join(f"%a{i}" for i in range(len(operands)))
    numbered = ", ".join(f"%r#{i}" for i in range(len(made))) if len(made) > 1 else "%r"
    count = f":{len(made)}" if len(made) > 1 else ""
    signature = f"({', '.join(operands)}) -> ({given})"
    text = (
        f"func.func @main({params}) -> ({given}) {{\n"
        f'  %r{count} = "stablehlo.{op or name}"({names}) {regions} {{{attrs}}} : {signature}\n'
        f"  return {numbered} : {given}\n}}\n"
    )
    return Example(name, text, inputs, results)


def _unary(name: str, type: str, x: Any, result: Any, label: str = "") -> Example:
    return _of(label or name, f"{type} -> {type}", (x,), (result,), op=name)


def _binary(name: str, type: str, x: Any, y: Any, result: Any, label: str = "") -> Example:
    return _of(label or name, f"{type}, {type} -> {type}", (x, y), (result,), op=name)


def _body(element: str, op: str = "add") -> str:
    t = f"tensor<{element}>"
    return (
        f"({{\n^bb0(%x: {t}, %y: {t}):\n"
        f'%s = "stablehlo.{op}"(%x, %y) : ({t}, {t}) -> {t}\n"stablehlo.return"(%s) : ({t}) -> ()\n}})'
    )


def _sized(
    name: str, type: str, shape: str, result: str, inputs: tuple[Any, ...], made: Any, attrs: str = ""
) -> Example:
    """An example of an operation whose last operand is the shape of its result."""
    count = shape.count(",") + 1
    param, operand, taken = (f"%a: {type}", "%a, ", f"{type}, ") if type else ("", "", "")
    text = (
        f"func.func @main({param}) -> {result} {{\n  %n = stablehlo.constant dense<{shape}> : tensor<{count}xi64>\n"
        f'  %r = "stablehlo.{name}"({operand}%n) {{{attrs}}} : ({taken}tensor<{count}xi64>) -> {result}\n'
        f"  return %r : {result}\n}}\n"
    )
    return Example(name, text, inputs, (made,))


_I22, _F22, _D22 = "tensor<2x2xi32>", "tensor<2x2xf32>", "tensor<2x2xf64>"
_ONE_TO_FOUR, _FIVE_TO_EIGHT = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
_ROUNDED = [-0.8166, -0.2530, 0.2530, 0.8166, 2.0]
_TIES = [-2.5, 0.4, 0.5, 0.6, 2.5]
_ANGLES = [[0.0, 1.57079632], [3.14159265, 4.71238898]]
_NORM = [[[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [1.0, 2.0]]]
_NORMED = [[[0.0, 0.0], [2.0, 2.0]], [[2.0, 2.0], [0.0, 0.0]]]
_EPSILON = "epsilon = 0.0 : f32, feature_index = 2 : i64"
_CUBE = [
    [[1, 2], [3, 4], [5, 6], [7, 8]],
    [[9, 10], [11, 12], [13, 14], [15, 16]],
    [[17, 18], [19, 20], [21, 22], [23, 24]],
]
_T222 = "tensor<2x2x2xf32>"

ELEMENTWISE = (
    _unary("abs", "tensor<3xi32>", [-2, 0, 2], [2, 0, 2]),
    _binary("add", _I22, _ONE_TO_FOUR, _FIVE_TO_EIGHT, [[6, 8], [10, 12]]),
    _binary("and", _I22, _ONE_TO_FOUR, _FIVE_TO_EIGHT, [[1, 2], [3, 0]]),
    _binary("atan2", "tensor<3xf64>", [0.0, 1.0, -1.0], [0.0, 0.0, 0.0],
            [0.0, 1.5707963267948966, -1.5707963267948966]),
    _unary("cbrt", "tensor<4xf64>", [0.0, 1.0, 8.0, 27.0], [0.0, 1.0, 2.0, 3.0]),
    _unary("ceil", "tensor<5xf32>", _ROUNDED, [-0.0, -0.0, 1.0, 1.0, 2.0]),
    _of("clamp", "tensor<3xi32>, tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>",
        ([5, 10, 15], [3, 13, 23], [10, 15, 20]), ([5, 13, 20],)),
    _of("compare", "tensor<2xf32>, tensor<2xf32> -> tensor<2xi1>", ([1.0, 3.0], [1.1, 2.9]), ([True, False],),
        "comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>"),
    _of("complex", "tensor<2xf32>, tensor<2xf32> -> tensor<2xcomplex<f32>>", ([1.0, 3.0], [2.0, 4.0]),
        ([1 + 2j, 3 + 4j],)),
    _of("convert", "tensor<3xi32> -> tensor<3xcomplex<f32>>", ([1, 2, 3],), ([1 + 0j, 2 + 0j, 3 + 0j],)),
    _unary("cosine", _F22, _ANGLES, [[1.0, 0.0], [-1.0, 0.0]]),
    _unary("count_leading_zeros", "tensor<2x2xi64>", [[0, 1], [128, -1]], [[64, 63], [56, 0]]),
    _binary("divide", "tensor<4xf32>", [17.1, -17.1, 17.1, -17.1], [3.0, 3.0, -3.0, -3.0], [5.7, -5.7, -5.7, 5.7]),
    _binary("divide", "tensor<4xi32>", [17, -17, 17, -17], [3, 3, -3, -3], [5, -5, -5, 5], "divide of integers"),
    _unary("exponential", _D22, [[0.0, 1.0], [2.0, 3.0]],
           [[1.0, 2.7182818284590451], [7.3890560989306504, 20.085536923187668]]),
    _unary("exponential_minus_one", "tensor<2xf64>", [0.0, 1.0], [0.0, 1.7182818284590451]),
    _unary("floor", "tensor<5xf32>", _ROUNDED, [-1.0, -1.0, 0.0, 0.0, 2.0]),
    _of("imag", "tensor<2xcomplex<f32>> -> tensor<2xf32>", ([1 + 2j, 3 + 4j],), ([2.0, 4.0],)),
    _of("is_finite", "tensor<7xf64> -> tensor<7xi1>", ([-INF, INF, NAN, -10.0, -0.0, 0.0, 10.0],),
        ([False, False, False, True, True, True, True],)),
    _unary("log", _D22, [[1.0, 2.0], [3.0, 4.0]],
           [[0.0, 0.69314718055994529], [1.0986122886681098, 1.3862943611198906]]),
    _unary("log_plus_one", "tensor<5xf64>", [0.0, -0.999, 7.0, 6.38905621, 15.0],
           [0.0, -6.907755278982136, 2.0794415416798357, 2.0000000149667376, 2.772588722239781]),
    _unary("logistic", _D22, [[0.0, 1.0], [2.0, 3.0]],
           [[0.5, 0.7310585786300049], [0.8807970779778823, 0.9525741268224334]]),
    _binary("maximum", _I22, [[1, 2], [7, 8]], [[5, 6], [3, 4]], [[5, 6], [7, 8]]),
    _binary("minimum", _I22, [[1, 2], [7, 8]], [[5, 6], [3, 4]], [[1, 2], [3, 4]]),
    _binary("multiply", _I22, _ONE_TO_FOUR, _FIVE_TO_EIGHT, [[5, 12], [21, 32]]),
    _unary("negate", "tensor<2xi32>", [0, -2], [0, 2]),
    _unary("negate", "tensor<1xcomplex<f32>>", [2.5 + 0j], [complex(-2.5, -0.0)], "negate of complex numbers"),
    _unary("not", _I22, _ONE_TO_FOUR, [[-2, -3], [-4, -5]]),
    _unary("not", "tensor<2xi1>", [True, False], [False, True], "not of truth values"),
    _binary("or", _I22, _ONE_TO_FOUR, _FIVE_TO_EIGHT, [[5, 6], [7, 12]]),
    _binary("or", "tensor<2x2xi1>", [[False, False], [True, True]], [[False, True], [False, True]],
            [[False, True], [True, True]], "or of truth values"),
    _unary("popcnt", "tensor<4xi64>", [0, 1, 2, 127], [0, 1, 1, 7]),
    _binary("power", "tensor<6xf64>", [-2.0, -0.0, -36.0, 5.0, 3.0, 10000.0], [2.0, 2.0, 1.1, 2.0, -1.0, 10.0],
            [4.0, 0.0, NAN, 25.0, 0.3333333333333333, 1e40]),
    _of("real", "tensor<2xcomplex<f32>> -> tensor<2xf32>", ([1 + 2j, 3 + 4j],), ([1.0, 3.0],)),
    _of("reduce_precision", "tensor<6xf32> -> tensor<6xf32>", ([-INF, INF, NAN, 0.0, 1000.0, 1000000.0],),
        ([-INF, INF, NAN, 0.0, 1024.0, INF],), "exponent_bits = 5 : i32, mantissa_bits = 2 : i32"),
    _binary("remainder", "tensor<4xi64>", [17, -17, 17, -17], [3, 3, -3, -3], [2, -2, 2, -2]),
    _unary("round_nearest_afz", "tensor<5xf64>", _TIES, [-3.0, 0.0, 1.0, 1.0, 3.0]),
    _unary("round_nearest_even", "tensor<5xf64>", _TIES, [-2.0, 0.0, 0.0, 1.0, 2.0]),
    _unary("rsqrt", _F22, [[1.0, 4.0], [9.0, 25.0]], [[1.0, 0.5], [0.33333343, 0.2]]),
    _of("select", "tensor<2x2xi1>, tensor<2x2xi32>, tensor<2x2xi32> -> tensor<2x2xi32>",
        ([[False, True], [True, False]], _ONE_TO_FOUR, _FIVE_TO_EIGHT), ([[5, 2], [3, 8]],)),
    _binary("shift_left", "tensor<3xi64>", [-1, 0, 1], [1, 2, 3], [-2, 0, 8]),
    _binary("shift_right_arithmetic", "tensor<3xi64>", [-1, 0, 8], [1, 2, 3], [-1, 0, 1]),
    _binary("shift_right_logical", "tensor<3xi64>", [-1, 0, 8], [1, 2, 3], [9223372036854775807, 0, 1]),
    _unary("sign", "tensor<5xf64>", [NAN, -1.0, -0.0, 0.0, 1.0], [NAN, -1.0, -0.0, 0.0, 1.0]),
    _unary("sine", _F22, _ANGLES, [[0.0, 1.0], [0.0, -1.0]]),
    _unary("sqrt", _F22, [[0.0, 1.0], [4.0, 9.0]], [[0.0, 1.0], [2.0, 3.0]]),
    _binary("subtract", _F22, [[6, 8], [10, 12]], _FIVE_TO_EIGHT, [[1, 2], [3, 4]]),
    _unary("tan", "tensor<3xf64>", [0.0, 0.7853981633974483, -0.7853981633974483], [0.0, 1.0, -1.0]),
    _unary("tanh", "tensor<3xf32>", [-1.0, 0.0, 1.0], [-0.76159416, 0.0, 0.76159416]),
    _binary("xor", _I22, _ONE_TO_FOUR, _FIVE_TO_EIGHT, [[4, 4], [4, 12]]),
    _binary("xor", "tensor<2x2xi1>", [[False, False], [True, True]], [[False, True], [False, True]],
            [[False, True], [True, False]], "xor of truth values"),
)  # fmt: skip

SHAPES = (
    _of("bitcast_convert", "tensor<2xf32> -> tensor<2xi32>", ([0.0, 1.0],), ([0, 1065353216],)),
    _of("broadcast_in_dim", "tensor<1x3xi32> -> tensor<2x3x2xi32>", ([[1, 2, 3]],), ([[[1, 1], [2, 2], [3, 3]]] * 2,),
        "broadcast_dimensions = array<i64: 2, 1>"),
    _of("concatenate", "tensor<3x2xi64>, tensor<1x2xi64> -> tensor<4x2xi64>", ([[1, 2], [3, 4], [5, 6]], [[7, 8]]),
        ([[1, 2], [3, 4], [5, 6], [7, 8]],), "dimension = 0 : i64"),
    _of("constant", " -> tensor<2x2xf32>", (), ([[0.0, 1.0], [2.0, 3.0]],),
        "value = dense<[[0.0, 1.0], [2.0, 3.0]]> : tensor<2x2xf32>"),
    _of("dynamic_slice", "tensor<4x4xi32>, tensor<i64>, tensor<i64> -> tensor<2x2xi32>",
        ([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]], -1, 3), ([[1, 1], [1, 1]],),
        "slice_sizes = array<i64: 2, 2>"),
    _of("dynamic_update_slice", "tensor<4x4xi32>, tensor<2x2xi32>, tensor<i64>, tensor<i64> -> tensor<4x4xi32>",
        ([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]], [[1, 1], [1, 1]], -1, 3), ([[1] * 4] * 4,)),
    _of("gather", "tensor<3x4x2xi32>, tensor<2x3x2xi64> -> tensor<2x3x2x2xi32>",
        (_CUBE, [[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 2]]]),
        ([[[[1, 2], [3, 4]], [[3, 4], [5, 6]], [[13, 14], [15, 16]]],
          [[[9, 10], [11, 12]], [[11, 12], [13, 14]], [[17, 18], [19, 20]]]],),
        "dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], "
        "start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>, "
        "indices_are_sorted = false"),
    _of("get_dimension_size", "tensor<2x3xi64> -> tensor<i32>", ([[1, 2, 3], [4, 5, 6]],), (3,), "dimension = 1 : i64"),
    _of("iota", " -> tensor<4x5xi32>", (), ([[i] * 5 for i in range(4)],), "iota_dimension = 0 : i64"),
    _of("iota of columns", " -> tensor<4x5xi32>", (), ([[0, 1, 2, 3, 4]] * 4,), "iota_dimension = 1 : i64", op="iota"),
    _of("optimization_barrier", "tensor<f32>, tensor<f32> -> tensor<f32>, tensor<f32>", (0.0, 1.0), (0.0, 1.0)),
    _of("pad", "tensor<2x3xi32>, tensor<i32> -> tensor<5x9xi32>", ([[1, 2, 3], [4, 5, 6]], 0),
        ([[0, 1, 0, 0, 2, 0, 0, 3, 0], [0] * 9, [0, 4, 0, 0, 5, 0, 0, 6, 0], [0] * 9, [0] * 9],),
        "edge_padding_low = array<i64: 0, 1>, edge_padding_high = array<i64: 2, 1>, "
        "interior_padding = array<i64: 1, 2>"),
    _of("partition_id", " -> tensor<ui32>", (), (0,)),
    _of("replica_id", " -> tensor<ui32>", (), (0,)),
    _of("reshape", "tensor<2x3xi32> -> tensor<3x2xi32>", ([[1, 2, 3], [4, 5, 6]],), ([[1, 2], [3, 4], [5, 6]],)),
    _of("reverse", "tensor<3x2xi32> -> tensor<3x2xi32>", ([[1, 2], [3, 4], [5, 6]],), ([[2, 1], [4, 3], [6, 5]],),
        "dimensions = array<i64: 1>"),
    _of("slice", "tensor<3x4xi64> -> tensor<2x2xi64>", ([[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]],),
        ([[1, 1], [1, 1]],),
        "start_indices = array<i64: 1, 2>, limit_indices = array<i64: 3, 4>, strides = array<i64: 1, 1>"),
    _of("transpose", "tensor<2x3x2xi32> -> tensor<2x3x2xi32>",
        ([[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]],),
        ([[[1, 7], [3, 9], [5, 11]], [[2, 8], [4, 10], [6, 12]]],), "permutation = array<i64: 2, 1, 0>"),
    _sized("dynamic_broadcast_in_dim", "tensor<1x3xi64>", "[2, 3, 2]", "tensor<2x3x2xi64>", ([[1, 2, 3]],),
           [[[1, 1], [2, 2], [3, 3]]] * 2, "broadcast_dimensions = array<i64: 2, 1>"),
    _sized("dynamic_reshape", "tensor<2x3xi64>", "[3, 2]", "tensor<3x2xi64>", ([[1, 2, 3], [4, 5, 6]],),
           [[1, 2], [3, 4], [5, 6]]),
    _sized("dynamic_iota", "", "[4, 5]", "tensor<4x5xi64>", (), [[i] * 5 for i in range(4)],
           "iota_dimension = 0 : i64"),
)  # fmt: skip

_BRANCHES = """({
  %b = stablehlo.constant dense<0> : tensor<2xi64>
  "stablehlo.return"(%b, %b) : (tensor<2xi64>, tensor<2xi64>) -> ()
}, {
  %b = stablehlo.constant dense<1> : tensor<2xi64>
  "stablehlo.return"(%b, %b) : (tensor<2xi64>, tensor<2xi64>) -> ()
})"""
_TRUE_FALSE = """({
  %b = stablehlo.constant dense<10> : tensor<i32>
  "stablehlo.return"(%b) : (tensor<i32>) -> ()
}, {
  %b = stablehlo.constant dense<11> : tensor<i32>
  "stablehlo.return"(%b) : (tensor<i32>) -> ()
})"""
_COUNTED = """({
^bb0(%i: tensor<i64>, %s: tensor<i64>):
  %ten = stablehlo.constant dense<10> : tensor<i64>
  %c = "stablehlo.compare"(%i, %ten) {comparison_direction = #stablehlo<comparison_direction LT>}
    : (tensor<i64>, tensor<i64>) -> tensor<i1>
  "stablehlo.return"(%c) : (tensor<i1>) -> ()
}, {
^bb0(%i: tensor<i64>, %s: tensor<i64>):
  %one = stablehlo.constant dense<1> : tensor<i64>
  %t = "stablehlo.add"(%s, %one) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %n = "stablehlo.add"(%i, %one) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  "stablehlo.return"(%n, %t) : (tensor<i64>, tensor<i64>) -> ()
})"""
_GREATER = """({
^bb0(%a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>, %d: tensor<i64>):
  %p = "stablehlo.compare"(%a, %b) {comparison_direction = #stablehlo<comparison_direction GT>}
    : (tensor<i64>, tensor<i64>) -> tensor<i1>
  "stablehlo.return"(%p) : (tensor<i1>) -> ()
})"""
_SELECT_AND_ADD = """({
^bb0(%x: tensor<i32>, %y: tensor<i32>):
  %p = "stablehlo.compare"(%x, %y) {comparison_direction = #stablehlo<comparison_direction GE>}
    : (tensor<i32>, tensor<i32>) -> tensor<i1>
  "stablehlo.return"(%p) : (tensor<i1>) -> ()
}, {
^bb0(%x: tensor<i32>, %y: tensor<i32>):
  %s = "stablehlo.add"(%x, %y) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  "stablehlo.return"(%s) : (tensor<i32>) -> ()
})"""

STRUCTURED = (
    _of("batch_norm_grad",
        f"{_T222}, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, {_T222} -> {_T222}, tensor<2xf32>, tensor<2xf32>",
        (_NORM, [1.0, 1.0], [2.0, 3.0], [1.0, 1.0], [[[0.1, 0.1], [0.1, 0.1]]] * 2),
        ([[[0.0, 0.0], [0.0, 0.0]]] * 2, [0.0, 0.0], [0.4, 0.4]), _EPSILON),
    _of("batch_norm_inference", f"{_T222}, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32> -> {_T222}",
        (_NORM, [1.0, 1.0], [1.0, 1.0], [2.0, 3.0], [1.0, 1.0]), (_NORMED,), _EPSILON),
    _of("batch_norm_training", f"{_T222}, tensor<2xf32>, tensor<2xf32> -> {_T222}, tensor<2xf32>, tensor<2xf32>",
        (_NORM, [1.0, 1.0], [1.0, 1.0]), (_NORMED, [2.0, 3.0], [1.0, 1.0]), _EPSILON),
    _of("case", "tensor<i32> -> tensor<2xi64>, tensor<2xi64>", (-1,), ([1, 1], [1, 1]), regions=_BRANCHES),
    _of("cholesky", "tensor<3x3xf32> -> tensor<3x3xf32>",
        ([[1.0, 2.0, 3.0], [2.0, 20.0, 26.0], [3.0, 26.0, 70.0]],),
        ([[1.0, 0.0, 0.0], [2.0, 4.0, 0.0], [3.0, 5.0, 6.0]],), "lower = true"),
    _of("convolution", "tensor<1x4x4x1xi32>, tensor<3x3x1x1xi32> -> tensor<1x2x2x1xi32>",
        ([[[[1], [2], [5], [6]], [[3], [4], [7], [8]], [[10], [11], [14], [15]], [[12], [13], [16], [17]]]],
         [[[[1]], [[1]], [[1]]]] * 3),
        ([[[[10], [26]], [[46], [62]]]],),
        "window_strides = array<i64: 4, 4>, padding = dense<0> : tensor<2x2xi64>, lhs_dilation = array<i64: 2, 2>, "
        "rhs_dilation = array<i64: 1, 1>, window_reversal = array<i1: false, false>, "
        "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, "
        "batch_group_count = 1 : i64, "
        "precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"),
    _of("dot_general", "tensor<2x2x2xi32>, tensor<2x2x2xi32> -> tensor<2x2x2xi32>",
        ([_ONE_TO_FOUR, _FIVE_TO_EIGHT], [[[1, 0], [0, 1]]] * 2), ([_ONE_TO_FOUR, _FIVE_TO_EIGHT],),
        "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
        "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, "
        "precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"),
    _of("fft", "tensor<4xcomplex<f32>> -> tensor<4xcomplex<f32>>", ([1, 0, 0, 0],), ([1, 1, 1, 1],),
        "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4>"),
    _of("if", "tensor<i1> -> tensor<i32>", (True,), (10,), regions=_TRUE_FALSE),
    _of("map", "tensor<2x2xi64>, tensor<2x2xi64> -> tensor<2x2xi64>", ([[0, 1], [2, 3]], [[4, 5], [6, 7]]),
        ([[0, 5], [12, 21]],), "dimensions = array<i64: 0, 1>", _body("i64", "multiply")),
    _of("reduce", "tensor<1x6xi64>, tensor<i64> -> tensor<1xi64>", ([[0, 1, 2, 3, 4, 5]], 0), ([15],),
        "dimensions = array<i64: 1>", _body("i64")),
    _of("reduce_window", "tensor<3x2xi32>, tensor<i32> -> tensor<2x2xi32>", ([[1, 2], [3, 4], [5, 6]], 0),
        ([[0, 0], [3, 4]],),
        "window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 4, 1>, base_dilations = array<i64: 2, 1>, "
        "window_dilations = array<i64: 3, 1>, padding = dense<[[2, 1], [0, 0]]> : tensor<2x2xi64>", _body("i32")),
    _of("rng_bit_generator", "tensor<2xui64> -> tensor<2xui64>, tensor<2x2xui64>", ([1, 2],),
        ([1, 6], [[9236835810183407956, 16087790271692313299], [18212823393184779219, 2658481902456610144]]),
        "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>"),
    _of("scatter", "tensor<3x4x2xi32>, tensor<2x3x2xi64>, tensor<2x3x2x2xi32> -> tensor<3x4x2xi32>",
        (_CUBE, [[[0, 2], [1, 0], [2, 1]], [[0, 1], [1, 0], [2, 0]]], [[[[1, 1], [1, 1]]] * 3] * 2),
        ([[[1, 2], [5, 6], [8, 9], [8, 9]],
          [[10, 11], [12, 13], [14, 15], [16, 17]], [[18, 19], [20, 21], [21, 22], [23, 24]]],),
        "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>, indices_are_sorted = false, "
        "unique_indices = false", _body("i32")),
    _of("select_and_scatter", "tensor<4x2xi32>, tensor<2x2xi32>, tensor<i32> -> tensor<4x2xi32>",
        ([[1, 5], [2, 5], [3, 6], [4, 4]], [[5, 6], [7, 8]], 0), ([[0, 0], [0, 0], [5, 14], [7, 0]],),
        "window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>, "
        "padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>", _SELECT_AND_ADD),
    _of("sort", "tensor<2x3xi64>, tensor<2x3xi64> -> tensor<2x3xi64>, tensor<2x3xi64>",
        ([[1, 2, 3], [3, 2, 1]], [[3, 2, 1], [1, 2, 3]]), ([[3, 2, 3], [1, 2, 1]], [[1, 2, 1], [3, 2, 3]]),
        "dimension = 0 : i64, is_stable = true", _GREATER),
    _of("triangular_solve", "tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>",
        ([[1.0, 0.0, 0.0], [2.0, 4.0, 0.0], [3.0, 5.0, 6.0]], [[2.0, 0.0, 0.0], [4.0, 8.0, 0.0], [6.0, 10.0, 12.0]]),
        ([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]],),
        "left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>"),
    _of("while", "tensor<i64>, tensor<i64> -> tensor<i64>, tensor<i64>", (0, 0), (10, 10), regions=_COUNTED),
)  # fmt: skip

EXAMPLES = (*ELEMENTWISE, *SHAPES, *STRUCTURED)


@dataclass(frozen=True)
class Refused:
    """An operation that dyn has not, and what it says of it."""

    name: str
    text: str
    said: str


def _refused(name: str, types: str, said: str, attrs: str = "", regions: str = "") -> Refused:
    return Refused(name, _of(name, types, (), (), attrs, regions).text, said)


_GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
_TOKEN = "values of type !stablehlo.token are not supported."
_HANDLE = "channel_handle = #stablehlo.channel_handle<handle = 5, type = {}>, is_host_transfer = true"

REFUSED = (
    _refused("after_all", "!stablehlo.token, !stablehlo.token -> !stablehlo.token", _TOKEN),
    _refused("all_gather", "tensor<2x2xf32> -> tensor<2x4xf32>",
             "stablehlo.all_gather of (f32[2, 2]) has no meaning", f"all_gather_dim = 1 : i64, {_GROUPS}"),
    _refused("all_reduce", "tensor<4xf32> -> tensor<4xf32>", "stablehlo.all_reduce of (f32[4]) has no meaning",
             _GROUPS, _body("f32")),
    _refused("all_to_all", "tensor<2x4xf32> -> tensor<4x2xf32>", "stablehlo.all_to_all of (f32[2, 4]) has no meaning",
             f"split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, {_GROUPS}"),
    _refused("collective_broadcast", "tensor<1x2xi64> -> tensor<1x2xi64>",
             "stablehlo.collective_broadcast of (i64[1, 2]) has no meaning", _GROUPS),
    _refused("collective_permute", "tensor<2x2xf32> -> tensor<2x2xf32>",
             "stablehlo.collective_permute of (f32[2, 2]) has no meaning",
             "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>"),
    _refused("create_token", " -> !stablehlo.token", _TOKEN),
    _refused("infeed", "!stablehlo.token -> tensor<3x3x3xi32>, !stablehlo.token", _TOKEN, 'infeed_config = ""'),
    _refused("outfeed", "tensor<3x3x3xi32>, !stablehlo.token -> !stablehlo.token", _TOKEN, 'outfeed_config = ""'),
    _refused("recv", "!stablehlo.token -> tensor<3x4xi32>, !stablehlo.token", _TOKEN, _HANDLE.format(3)),
    _refused("reduce_scatter", "tensor<2x4xf32> -> tensor<2x2xf32>", "stablehlo.reduce_scatter of (f32[2, 4]) has no",
             f"scatter_dimension = 1 : i64, {_GROUPS}", _body("f32")),
    _refused("rng", "tensor<i32>, tensor<i32>, tensor<2xi64> -> tensor<3x3xi32>",
             "stablehlo.rng of (i32[], i32[], i64[2]) has no meaning",
             "rng_distribution = #stablehlo<rng_distribution UNIFORM>"),
    _refused("send", "tensor<3x4xi32>, !stablehlo.token -> !stablehlo.token", _TOKEN, _HANDLE.format(2)),
    Refused("get_tuple_element", """func.func @main(%t: tuple<tensor<2xf32>, tuple<tensor<i32>>>) -> tensor<2xf32> {
  %r = "stablehlo.get_tuple_element"(%t) {index = 0 : i32} : (tuple<tensor<2xf32>, tuple<tensor<i32>>>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}""", "values of type tuple<tensor<2xf32>, tuple<tensor<i32>>> are not supported."),
    Refused("tuple", """func.func @main(%x: tensor<2xf32>) -> tuple<tensor<2xf32>> {
  %r = "stablehlo.tuple"(%x) : (tensor<2xf32>) -> tuple<tensor<2xf32>>
  return %r : tuple<tensor<2xf32>>
}""", "values of type tuple<tensor<2xf32>> are not supported."),
    Refused("uniform_quantize", """func.func @main(%x: tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>> {
  %r = "stablehlo.uniform_quantize"(%x) : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return %r : tensor<2x!quant.uniform<i8:f32, 0.5>>
}""", "quantized types (!quant.uniform<i8:f32, 0.5>) are not supported."),
    Refused("sparse tensors", """#csr = #sparse_tensor.encoding<{map = (d0, d1) -> (d0 : dense, d1 : compressed)}>
func.func @main(%x: tensor<2x3xf32, #csr>) -> tensor<2x3xf32, #csr> {
  return %x : tensor<2x3xf32, #csr>
}""", "sparse tensors (#sparse_tensor.encoding<{map = (d0, d1) -> (d0 : dense, d1 : compressed)}>) are not supported."),
)  # fmt: skip
