"""Attributes of what is read: each is looked at, is known to change nothing, or is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dyn.errors import DynError, UnsupportedOpError
from dyn.interop.stablehlo import dump, load, mlir
from dyn.interop.stablehlo.attributes import Attributes
from dyn.interop.stablehlo.decode import decoders, is_known
from dyn.interop.stablehlo.dialects import RULES
from dyn.interop.stablehlo.hlo import HloModule, HloOp, HloRegion
from dyn.interop.stablehlo.load import function_of
from dyn.ir.opdef import REGISTRY
from tests.interop.programs import distinct, of_sample
from tests.interop.spec_examples import EXAMPLES

pytest.importorskip("jaxlib")

SCAN = """
func.func @main(%x: tensor<2x?xELEMENT>, %i: tensor<2xELEMENT>) -> (tensor<2x?xELEMENT>, tensor<2xELEMENT>) {
  %0:2 = "chlo.scan"(%x, %i) <{dimension = 1 : i64, is_reverse = true,
    operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: tensor<2xELEMENT>, %c: tensor<2xELEMENT>):
    %s = stablehlo.add %a, %c : tensor<2xELEMENT>
    stablehlo.return %s, %s : tensor<2xELEMENT>, tensor<2xELEMENT>
  }) : (tensor<2x?xELEMENT>, tensor<2xELEMENT>) -> (tensor<2x?xELEMENT>, tensor<2xELEMENT>)
  return %0#0, %0#1 : tensor<2x?xELEMENT>, tensor<2xELEMENT>
}"""


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("complex<f64>", np.complex128)])
def test_a_reversed_scan_begins_at_the_end(element: str, dtype: Any) -> None:
    function = load(SCAN.replace("ELEMENT", element))
    for size in (0, 1, 2, 5):
        x, start = np.arange(2 * size, dtype=dtype).reshape(2, size), np.array([10, 20], dtype)
        sums, last = function(x, start)
        wanted = start[:, None] + np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
        np.testing.assert_array_equal(sums, wanted)
        np.testing.assert_array_equal(last, wanted[:, 0] if size else start)
    assert function.cache_info().compiles == 1


# --- an attribute that nobody knows -----------------------------------------------------------------------------------

#: Operations of other dialects, and CHLO's that have no op.
OTHERS = """
func.func private @one(%x: tensor<?x4xf32>) -> tensor<?x4xf32> { return %x : tensor<?x4xf32> }
func.func @main(%x: tensor<?x4xf32>, %y: tensor<4xf32>) -> tensor<?x4xf32> {
  %c = arith.constant 1 : index
  %d = tensor.dim %x, %c : tensor<?x4xf32>
  %e = arith.addi %d, %c : index
  %f = arith.subi %e, %c : index
  %s = shape.shape_of %x : tensor<?x4xf32> -> tensor<2xindex>
  %t = shape.shape_of %y : tensor<4xf32> -> tensor<1xindex>
  %w = shape.cstr_broadcastable %s, %t : tensor<2xindex>, tensor<1xindex>
  %r = shape.assuming %w -> (tensor<?x4xf32>) {
    %1 = "chlo.broadcast_add"(%x, %y) {broadcast_dimensions = array<i64: 1>}
      : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    shape.assuming_yield %1 : tensor<?x4xf32>
  }
  %z = func.call @one(%r) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %z : tensor<?x4xf32>
}
"""
#: StableHLO's operations that no example and no op is written as.
RARE = """
func.func @main(%x: tensor<4x4xf32>, %z: tensor<f32>, %k: tensor<1x1x2xf32>, %i: tensor<2x1xi32>) {
  %1 = stablehlo.dot %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = stablehlo.broadcast %z, sizes = [2] : (tensor<f32>) -> tensor<2xf32>
  %n = stablehlo.constant dense<1> : tensor<2xi64>
  %3 = stablehlo.dynamic_pad %x, %z, %n, %n, %n
    : (tensor<4x4xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  %m = stablehlo.constant dense<[1, 4]> : tensor<2xi64>
  %4 = "stablehlo.dynamic_gather"(%x, %i, %m) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}
    : (tensor<4x4xf32>, tensor<2x1xi32>, tensor<2xi64>) -> tensor<2x4xf32>
  %v = stablehlo.reshape %x : (tensor<4x4xf32>) -> tensor<4x1x4xf32>
  %p = stablehlo.constant dense<1> : tensor<1x2xi64>
  %5 = "stablehlo.dynamic_conv"(%v, %k, %p) {dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>,
    feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<4x1x4xf32>, tensor<1x1x2xf32>, tensor<1x2xi64>) -> tensor<4x1x?xf32>
  return
}
"""
UNKNOWN = {"test.unknown": True}


def modules() -> Iterator[HloModule]:
    """Modules with every operation of StableHLO and CHLO that is read."""
    for text in (OTHERS, RARE, SCAN.replace("ELEMENT", "f32")):
        yield mlir.parse(text, is_known)
    for example in EXAMPLES:
        yield mlir.parse(example.text, is_known)
    for opdef in REGISTRY.values():
        for symbolic in (False, True):
            for sample in list(distinct([s for s in opdef.samples() if all(a.size for a in s.operands)]))[:2]:
                try:
                    text = dump(of_sample(opdef, sample, symbolic=symbolic))
                except DynError:  # what has no form in StableHLO
                    continue
                yield mlir.parse(text, is_known)


def places(region: HloRegion) -> Iterator[HloOp]:
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from places(inner)


def with_attribute(region: HloRegion, chosen: HloOp) -> HloRegion:
    ops: list[HloOp] = []
    for op in region.ops:
        attrs = {**op.attrs, **UNKNOWN} if op is chosen else op.attrs
        ops.append(replace(op, attrs=attrs, regions=tuple([with_attribute(r, chosen) for r in op.regions])))
    return replace(region, ops=tuple(ops))


def key_of(op: HloOp) -> str:
    if op.name == "stablehlo.custom_call":
        return f"custom_call.{op.attrs['call_target_name']}"
    return f"composite.{op.attrs['name']}" if op.name == "stablehlo.composite" else op.name


def trace(module: HloModule) -> None:
    params = module.functions["main"].body.params
    shapes = [tuple([d if isinstance(d, int) else 3 for d in p.shape]) for p in params]
    function_of(module).trace(*[np.zeros(s, p.dtype.np) for s, p in zip(shapes, params, strict=True)])


def refusals() -> dict[str, str]:
    """The errors for operations with an attribute that nobody knows, by the operation's name."""
    found: dict[str, str] = {}
    for module in modules():
        for name, function in module.functions.items():
            for op in places(function.body):
                if key_of(op) in found:
                    continue
                body = with_attribute(function.body, op)
                changed = replace(module, functions={**module.functions, name: replace(function, body=body)})
                try:
                    trace(changed)
                except UnsupportedOpError as error:
                    found[key_of(op)] = error.problem
                except DynError as error:
                    found.setdefault(f"{key_of(op)}: other", error.problem)
                else:
                    found[key_of(op)] = "it is traced"
    return found


def test_an_attribute_that_nobody_knows_is_refused() -> None:
    found = refusals()
    known = {name for name in decoders() if name.startswith(("stablehlo.", "chlo."))}
    missing = known - found.keys() - {"stablehlo.custom_call", "stablehlo.composite"}
    assert missing == set()
    assert {*RULES} & found.keys() >= {"tensor.dim", "shape.shape_of", "shape.cstr_broadcastable", "chlo.broadcast_add"}
    text = "has the attribute test.unknown, which is not known here."
    odd = {name: said for name, said in found.items() if not said.endswith(text)}
    # A custom call of the user is handed every attribute.
    assert odd == {"custom_call.dyn.example": "it is traced"}


def test_the_line_is_told() -> None:
    text = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %r = stablehlo.reverse %x, dims = [0] {mine.only_half} : tensor<3xf32>
  return %r : tensor<3xf32>
}"""
    with pytest.raises(UnsupportedOpError) as error:
        load(text).trace(np.zeros(3, np.float32))
    assert str(error.value) == (
        "stablehlo.reverse of (f32[3]) has the attribute mine.only_half, which is not known here.\n"
        "  at -:3\n"
        "  help: leave it out where it changes no element of the results."
    )


REFUSED = {
    "module": ("module attributes {mine.a} { func.func @main() { return } }", "the module has the attribute mine.a"),
    "function": ("func.func @main() attributes {mine.a} { return }", "the function @main has the attribute mine.a"),
    "argument": (
        "func.func @main(%x: tensor<f32> {mine.a}) { return }", "argument 0 of @main has the attribute mine.a"
    ),
    "return": ("func.func @main() { return {mine.a} }", "func.return has the attribute mine.a"),
    "result": (
        "func.func @main(%x: tensor<f32>) -> (tensor<f32> {mine.a}) { return %x : tensor<f32> }",
        "result 0 of @main has the attribute mine.a",
    ),
    "CHLO that is written out": (
        "func.func @main(%x: tensor<f32>) -> tensor<f32> "
        "{ %r = chlo.square %x {mine.a} : tensor<f32> -> tensor<f32> return %r : tensor<f32> }",
        "chlo.square has the attribute mine.a",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_modules_and_functions(what: str) -> None:
    text, said = REFUSED[what]
    with pytest.raises(UnsupportedOpError) as error:
        load(text)
    assert error.value.problem == f"{said}, which is not known here."


def test_what_changes_nothing_is_passed_over() -> None:
    text = """
module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
func.func @main(%x: tensor<3xf32> {mhlo.sharding = "{replicated}"}) -> (tensor<3xf32> {jax.result_info = "r"}) {
  %r = stablehlo.reverse %x, dims = [0] {mhlo.frontend_attributes = {a = "b"}} : tensor<3xf32>
  return %r : tensor<3xf32>
}
}"""
    np.testing.assert_array_equal(load(text)(np.arange(3, dtype=np.float32)), [2, 1, 0])


# --- values of attributes ---------------------------------------------------------------------------------------------

ALGORITHM = (
    "algorithm = #stablehlo.dot_algorithm<lhs_precision_type = f64, rhs_precision_type = f64, accumulation_type = {}, "
    "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, "
    "allow_imprecise_accumulation = false>"
)
VALUES = {
    "sums in 64 bits": (
        '%r = "stablehlo.dot_general"(%x, %x) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = '
        "[0], rhs_contracting_dimensions = [0]>, " + ALGORITHM.format("f64") + "} : (tensor<3xf64>, tensor<3xf64>) "
        "-> tensor<f32>",
        ("f64", "tensor<f32>"),
        "stablehlo.dot_general of (f64[3], f64[3]) has the algorithm #stablehlo.dot_algorithm<lhs_precision_type = "
        "f64, rhs_precision_type = f64, accumulation_type = f64, lhs_component_count = 1, rhs_component_count = 1, "
        "num_primitive_operations = 1, allow_imprecise_accumulation = false>.",
    ),
    "a tolerance": (
        '%r = "stablehlo.exponential"(%x) {result_accuracy = #stablehlo.result_accuracy<ulps = 1, mode = '
        "#stablehlo.result_accuracy_mode<TOLERANCE>>} : (tensor<3xf32>) -> tensor<3xf32>",
        ("f32", "tensor<3xf32>"),
        "stablehlo.exponential of (f32[3]) has the attribute result_accuracy, which is not known here.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", VALUES)
def test_values_that_ask_for_more_than_there_is(what: str) -> None:
    line, (element, result), said = VALUES[what]
    text = f"func.func @main(%x: tensor<3x{element}>) -> {result} {{ {line} return %r : {result} }}"
    with pytest.raises(UnsupportedOpError) as error:
        load(text).trace(np.ones(3, {"f32": "f4", "f64": "f8"}[element]))
    assert error.value.problem == said


def test_replicas_are_told_apart_by_none() -> None:
    text = (
        "module @m attributes {mhlo.num_replicas = 2 : i32} { func.func @main() -> tensor<ui32> "
        "{ %r = stablehlo.replica_id : tensor<ui32> return %r : tensor<ui32> } }"
    )
    with pytest.raises(UnsupportedOpError) as error:
        load(text).trace()
    assert error.value.problem == "stablehlo.replica_id of () tells 2 processes apart (mhlo.num_replicas)."


def test_attributes_know_what_was_read() -> None:
    attrs = Attributes({"a": 1, "b": {"c": 2, "d": {"e": 3}}, "f": 4})
    assert attrs["a"] == 1
    assert attrs["b"]["c"] == 2
    assert attrs.get("g") is None
    assert [name for name, _ in attrs.unread()] == ["b.d", "f"]
    assert attrs.whole() == {"a": 1, "b": {"c": 2, "d": {"e": 3}}, "f": 4}
    assert list(attrs.unread()) == []
