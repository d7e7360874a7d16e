"""Calls of functions outside of the program, in a trace: operands as values, results of declared types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import ArgumentError
from dyn.ir.core import Value
from dyn.ir.external import External
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import unwrap_dim
from dyn.trace.lift import lift_leaves, settled_dtype
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, list_tree, unflatten
from dyn.trace.tracer import Tracer


@dataclass(frozen=True)
class DeclaredResults:
    """The results of a call as the user declares them: a tree of what has a shape, of sizes and dimensions, and a
    dtype. ``named`` is what the user calls each."""

    tree: TreeSpec
    shapes: tuple[tuple[Dim, ...], ...]
    dtypes: tuple[DType, ...]
    named: tuple[str, ...]


def declared_results(what: str, tree: Any) -> DeclaredResults:
    """The results that a user declares; ArgumentError for a leaf that has no shape, or one that is no shape."""
    leaves, spec = flatten(tree)
    names = leaf_names(spec, "result")
    shapes: list[tuple[Dim, ...]] = []
    kinds: list[DType] = []
    for leaf, name in zip(leaves, names, strict=True):
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise ArgumentError(
                f"{what}: the type of {name} is declared by a {type(leaf).__name__}, which has no shape and dtype.",
                loc=user_loc(),
                remedy='declare it with dyn.ShapeDtypeStruct((x.shape[0], 3), "float32").',
            )
        sizes: list[Dim] = []
        for size in leaf.shape:
            dim = unwrap_dim(size)
            if dim is None or (isinstance(dim, int) and dim < 0):
                raise ArgumentError(
                    f"{what}: {size!r}, in the shape of {name}, is no size.",
                    loc=user_loc(),
                    remedy="use numbers and dimensions, such as x.shape[0].",
                )
            sizes.append(dim)
        shapes.append(tuple(sizes))
        kinds.append(dtypes.dtype(leaf.dtype))
    return DeclaredResults(spec, tuple(shapes), tuple(kinds), tuple(names))


def declared_by(shapes: Sequence[Sequence[Dim]], kinds: Sequence[DType]) -> DeclaredResults:
    """Results in a row, of these shapes and dtypes."""
    names = tuple([f"result {number}" for number in range(len(shapes))])
    return DeclaredResults(list_tree(len(shapes)), tuple(map(tuple, shapes)), tuple(kinds), names)


def call_library(
    trace: Trace, external: External, operands: Sequence[Any], shapes: Sequence[Sequence[Dim]], kinds: Sequence[DType]
) -> list[Tracer]:
    """A call of a front end's own library in the midst of a program: its results, of these shapes and dtypes."""
    names = [f"operand {number}" for number in range(len(operands))]
    values = operand_values(trace, operands, names, external.name)
    return call_external(trace, external, values, declared_by(shapes, kinds))


def operand_values(trace: Trace, leaves: Sequence[Any], names: Sequence[str], what: str) -> list[Value]:
    """Arrays, numbers and dimensions as operands: none is weak, for what is outside has no say in its dtype."""
    values = lift_leaves(trace, leaves, names, what)
    return [trace.emit("convert", v, dtype=settled_dtype(v.dtype)) if v.type.weak else v for v in values]


def call_external(trace: Trace, external: External, values: Sequence[Value], declared: DeclaredResults) -> Any:
    """The call in the program, and its results as the tree that was declared."""
    made = trace.emit_all(
        "custom_call", *values, target=external, dtypes=declared.dtypes, shapes=declared.shapes, attributes=()
    )  # fmt: skip
    return unflatten(declared.tree, [Tracer(trace, v) for v in made])
