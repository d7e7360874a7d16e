"""Attributes of StableHLO's operations while they are read: it is known which of them were, and which need not be.

Each attribute of an operation is read by the operation's rule, or is listed here as one that changes no element of a
result. Any other is refused: an attribute that nobody looks at may say that the operation is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Attributes(Mapping[str, Any]):
    """A mapping that records which of its entries were read; the mappings in it do so too."""

    __slots__ = ("_given", "_inner", "_read")

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._read: set[str] = set()
        self._inner: dict[str, Attributes] = {}

    def __getitem__(self, name: str) -> Any:
        value = self._given[name]
        self._read.add(name)
        if isinstance(value, Mapping):
            return self._inner.setdefault(name, Attributes(value))
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def whole(self) -> dict[str, Any]:
        """All entries as plain values, which are read by that: for who is handed everything."""
        made: dict[str, Any] = {}
        for name in self:
            value = self[name]
            made[name] = value.whole() if isinstance(value, Attributes) else value
        return made

    def unread(self) -> Iterator[tuple[str, Any]]:
        """The names and values of entries that were not read; ``backend_config.uplo`` is one of a mapping."""
        for name, value in self._given.items():
            if name not in self._read:
                yield name, value
            elif name in self._inner:
                yield from ((f"{name}.{inner}", value) for inner, value in self._inner[name].unread())


def whole(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """All of an operation's attributes as plain values."""
    return attrs.whole() if isinstance(attrs, Attributes) else dict(attrs)


#: Whether an attribute of some value changes nothing.
_Test = Callable[[Any], bool]


def _always(value: Any) -> bool:
    return True


def _empty(value: Any) -> bool:
    return value in ("", (), {})


def _all(*names: str) -> dict[str, _Test]:
    return dict.fromkeys(names, _always)


def _no_tolerance(value: Any) -> bool:
    """dyn has one form of each function, which is its most exact."""
    return "TOLERANCE" not in str(value)


#: Of any operation, function, argument and module: where arrays lie, in which memory and among which devices; what
#: compilers are asked to do; names, lines and measurements.
ANYWHERE: Mapping[str, _Test] = _all(
    "mhlo.frontend_attributes", "mhlo.sharding", "mhlo.layout_mode", "mhlo.memory_kind", "mhlo.original_value",
    "mhlo.metadata", "sdy.sharding", "sdy.sharding_per_value", "sdy.sharding_rule", "sdy.sharding_group_id",
    "sdy.propagation_barrier", "xla_shape", "jax.result_info", "_XlaSharding", "_XlaMustCompile", "device", "_class",
    "_output_shapes", "tf._output_shapes", "loc",
)  # fmt: skip

#: How many values of each kind an operation has, which MLIR's verifier compares with the values.
SEGMENTS = _all("operandSegmentSizes", "resultSegmentSizes", "operand_segment_sizes", "result_segment_sizes")
#: MLIR's verifier knows which operations have an accuracy: the functions of one element.
_OF_ANY_OP: Mapping[str, _Test] = {**SEGMENTS, "result_accuracy": _no_tolerance}

#: Promises of the producer: that indices are in order, or differ. What is computed without them is the same.
_PROMISES = _all("indices_are_sorted", "unique_indices")

#: At least so exact: dyn multiplies floats as they are, and adds the products in floats of 32 bits or more.
_PRECISION = _all("precision_config")

#: How a call is made; layouts and aliases say where the elements lie. Rules know which operands are shapes.
_CALL = {
    **_all(
        "api_version", "has_side_effect", "operand_layouts", "result_layouts", "output_operand_aliases",
        "indices_of_shape_operands",
    ),
    "backend_config": _empty, "mhlo.backend_config": _empty, "called_computations": _empty,
}  # fmt: skip

#: Which recall is enough, and how it is reached: all is found.
_APPROXIMATE = _all(*(
    f"{where}.{name}"
    for where in ("backend_config", "mhlo.backend_config")
    for name in (
        "recall_target", "aggregate_to_topk", "top_k", "reduction_input_size_override", "is_fallback", "log2_reduction"
    )
))  # fmt: skip

#: By operations, where custom calls and composites are ``custom_call.<target>`` and ``composite.<name>``.
OF_OPS: Mapping[str, Mapping[str, _Test]] = {
    "stablehlo.gather": _PROMISES,
    "stablehlo.dynamic_gather": _PROMISES,
    "stablehlo.scatter": _PROMISES,
    "stablehlo.dot": _PRECISION,
    "stablehlo.dot_general": _PRECISION,
    "stablehlo.convolution": _PRECISION,
    "stablehlo.dynamic_conv": _PRECISION,
    "stablehlo.custom_call": _CALL,
    # The verifier holds it to be all axes in order.
    "stablehlo.map": _all("dimensions"),
    # Of sizes, which are integers that are compared as such; where data are compared it is read.
    "stablehlo.compare": _all("compare_type"),
    # A composite that dyn has an op for is the op, and not what it is decomposed into.
    "stablehlo.composite": _all("decomposition"),
    "sdy.sharding_constraint": _all("sharding"),
    "func.call": _all("no_inline", "arg_attrs", "res_attrs"),
    # The text of an error.
    "shape.broadcast": _all("error"),
    "shape.meet": _all("error"),
    "custom_call.ApproxTopK": _APPROXIMATE,
    "custom_call.stablehlo.dynamic_approx_top_k": _APPROXIMATE,
}  # fmt: skip

#: ``arith``: promises that numbers do not overflow, and that floats may be computed with as if they were real.
_ARITH = _all("overflowFlags", "fastmath", "isExact", "nonNeg")

#: Of functions, arguments, results, and of the module.
OF_FUNCTIONS: Mapping[str, _Test] = {
    **ANYWHERE,
    **_all(
        "sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs", "no_inline", "execution_thread",
        "xla.entry_computation", "tf_saved_model.exported_names", "tf.entry_function", "llvm.emit_c_interface",
    ),
}  # fmt: skip
OF_VALUES: Mapping[str, _Test] = {
    **ANYWHERE,
    **_all(
        "jax.arg_info", "jax.buffer_donor", "jax.const", "jax.global_constant", "jax.token", "jax.keep_unused",
        "dyn.dims", "tf.aliasing_output", "mhlo.is_same_data_across_replicas", "mhlo.parameter_replication",
        "tf.device", "tf_saved_model.index_path", "tf_saved_model.bound_input", "mhlo.donation", "sdy.memory_kind",
    ),
}  # fmt: skip
OF_MODULES: Mapping[str, _Test] = {
    **ANYWHERE,
    **_all(
        "sym_name", "sym_visibility", "mhlo.num_partitions", "mhlo.num_replicas", "jax.uses_shape_polymorphism",
        "mhlo.cross_program_prefetches", "mhlo.input_output_alias", "mhlo.is_dynamic",
        "mhlo.use_auto_spmd_partitioning",
        "mhlo.spmd_output_sharding", "mhlo.spmd_parameters_shardings", "mhlo.xla_entry_computation_parameter_layouts",
        "mhlo.xla_entry_computation_parameter_tiles", "mhlo.xla_entry_computation_result_layout",
        "mhlo.xla_entry_computation_result_tiles", "mhlo.is_single_shard", "tf.versions", "tf_saved_model.semantics",
        "mhlo.result_sharding", "vhlo.version", "torch.debug_module_name", "xla.sdy.meshes",
    ),
}  # fmt: skip


#: What CHLO's operations have that MLIR's pass reads when it writes them out in StableHLO.
WRITTEN_OUT = frozenset({
    "broadcast_dimensions", "compare_type", "comparison_direction", "value", "precision_config", "k",
    "ragged_dot_dimension_numbers", "dimension", "is_associative", "is_reverse", "scan_dim_size",
})  # fmt: skip


def without_effect(name: str, attribute: str, value: Any) -> bool:
    """Whether an attribute of the operation ``name`` changes no element of its results."""
    if name.startswith("arith."):
        rules: Mapping[str, _Test] = _ARITH
    else:
        rules = OF_OPS.get(name, {})
    test = rules.get(attribute) or ANYWHERE.get(attribute) or _OF_ANY_OP.get(attribute)
    return test is not None and test(value)
