"""Passes that need nothing but the IR and the ops' own rules: ``Function -> Function`` each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Function, Op, Value, map_attr_dims
from dyn.ir.opdef import REGISTRY, OpKind
from dyn.ir.types import TensorType
from dyn.source import UNKNOWN

#: Constants of more elements are not computed at compile time: the code would grow with them.
FOLD_LIMIT = 64


def refine_shapes(function: Function) -> Function:
    """Every dim becomes its representative under the facts.

    Needs nothing. Leaves no two different dims in types and attributes that the facts prove equal by substitution, so
    that later passes may compare dims by identity. Parameters remember their own dims, which calls are checked against.
    """
    facts = function.facts
    values: dict[Value, Value] = {}

    def refined(value: Value) -> Value:
        found = values.get(value)
        if found is None:
            shape = facts.simplify_shape(value.shape)
            same = all(a is b for a, b in zip(shape, value.shape, strict=True))
            found = values[value] = value if same else Value(value.type.with_shape(shape), value.name)
        return found

    params = tuple(refined(v) for v in function.params)
    infos = tuple(
        info if new is old else replace(info, dims=old.shape if info.dims is None else info.dims)
        for info, new, old in zip(function.infos, params, function.params, strict=True)
    )
    ops: list[Op] = []
    for op in function.ops:
        attrs = map_attr_dims(op.attrs, facts.simplify)
        results = tuple(refined(v) for v in op.results)
        operands = tuple(refined(v) for v in op.operands)
        ops.append(replace(op, operands=operands, attrs=attrs, results=results))
    results = tuple(refined(v) for v in function.results)
    return replace(function, params=params, infos=infos, ops=tuple(ops), results=results)


def simplify(function: Function) -> Function:
    """Ops that their own rules can do without go; ops of small constants alone are computed.

    Needs refined shapes. Leaves equivalent values of equal types; dead code stays for ``eliminate_dead_code``.
    """
    builder = Builder(function.facts, function.ops[0].loc) if function.ops else None
    values: dict[Value, Value] = {v: v for v in function.params}
    constants: dict[Value, np.ndarray] = {}
    for old in function.ops:
        assert builder is not None
        operands = tuple(values[v] for v in old.operands)
        op = old if operands == old.operands else replace(old, operands=operands)
        builder.loc = op.loc
        folded = _fold(op, constants)
        if folded is not None:
            (value,) = builder.emit(REGISTRY["constant"], (), value=Dense(folded))
            results = (_retyped(builder, value, op.result.type),)
            constants[results[0]] = folded
        else:
            simpler = op.opdef.simplify(builder, op) if op.opdef.simplify is not None else None
            if simpler is None:
                builder.ops.append(op)
                if isinstance(op.attrs.get("value"), Dense):
                    constants[op.result] = op.attrs["value"].array
            results = op.results if simpler is None else simpler
        values.update(zip(old.results, results, strict=True))
    ops = tuple(builder.ops) if builder is not None else ()
    facts = builder.facts if builder is not None else function.facts
    return function.with_ops(ops, tuple(values[v] for v in function.results), facts)


def _retyped(builder: Builder, value: Value, type: TensorType) -> Value:
    """The constant just made, with the weak flag that it stands in for."""
    if not type.weak:
        return value
    op = builder.ops.pop()
    result = Value(type)
    builder.ops.append(replace(op, attrs={**op.attrs, "weak": True}, results=(result,)))
    return result


def _fold(op: Op, constants: dict[Value, np.ndarray]) -> np.ndarray | None:
    """The value of an op whose operands are small constants."""
    if not op.operands or op.regions or len(op.results) != 1:
        return None
    size = op.result.type.size
    if not isinstance(size, int) or size > FOLD_LIMIT or any(v not in constants for v in op.operands):
        return None
    if op.opdef.kind not in (OpKind.POINTWISE, OpKind.REDUCE, OpKind.VIEW):
        return None
    array = op.opdef.reference(*(constants[v] for v in op.operands), **op.attrs)
    return np.array(array, op.result.dtype.np, order="C")


def eliminate_common_subexpressions(function: Function) -> Function:
    """Of ops that compute the same from the same, the first stays.

    Needs refined shapes, so that equal attributes are equal. Leaves every value computed once.
    """
    values: dict[Value, Value] = {v: v for v in function.params}
    seen: dict[object, Op] = {}
    ops: list[Op] = []
    for old in function.ops:
        operands = tuple(values[v] for v in old.operands)
        op = old if operands == old.operands else replace(old, operands=operands)
        types = tuple(v.type for v in op.results)
        key = (op.opdef.name, operands, tuple(sorted(op.attrs.items(), key=lambda item: item[0])), types)
        first = seen.get(key) if not op.regions else None
        if first is None:
            seen[key] = first = op
            ops.append(op)
        values.update(zip(old.results, first.results, strict=True))
    return function.with_ops(tuple(ops), tuple(values[v] for v in function.results))


def eliminate_dead_code(function: Function) -> Function:
    """Ops whose results nobody reads go.

    Needs nothing. Checks that dead ops demanded stay in the facts: an error does not depend on what is used.
    """
    live = set(function.results)
    kept: list[Op] = []
    for op in reversed(function.ops):
        if any(v in live for v in op.results):
            kept.append(op)
            live.update(op.operands)
            for region in op.regions:
                live.update(v for inner in region.ops for v in inner.operands)
                live.update(region.results)
    return function.with_ops(tuple(reversed(kept)))


def own_results(function: Function) -> Function:
    """Every result becomes a value of its own: a copy where it is a parameter, a constant, a view of one, or twice.

    Needs nothing. Leaves results that are distinct, computed values, or views of distinct computed values, so that a
    result's memory can be what its producer writes to.
    """
    producers = function.producers()
    taken: set[Value] = set()
    builder = Builder(function.facts, function.ops[0].loc if function.ops else UNKNOWN)
    results: list[Value] = []
    for value in function.results:
        base = value
        while base in producers and producers[base].opdef.kind is OpKind.VIEW:
            base = producers[base].operands[0]
        computed = base in producers and producers[base].opdef.kind is not OpKind.GENERATE
        if computed and base not in taken:
            taken.add(base)
            results.append(value)
        else:
            builder.loc = producers[value].loc if value in producers else builder.loc
            results.append(builder.op("copy", value))
    return function.with_ops((*function.ops, *builder.ops), tuple(results), builder.facts)
