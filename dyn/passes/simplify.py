"""Algebraic simplification and constant folding: ``Function -> Function``.

The rules are the ops' own (``OpDef.simplify``); folding runs an op's NumPy reference on constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.errors import BackendUnavailableError
from dyn.ir.builder import Builder, literal
from dyn.ir.core import BUFFER_FROM, Dense, Function, Op, Value, attr_dims, uniform_element
from dyn.ir.opdef import REGISTRY, OpKind
from dyn.ir.types import TensorType
from dyn.passes.rewrite import Pattern, rewrite

#: Arrays of so many elements are not computed at compile time: they would take memory that the program need not have.
#: An array of one number has no limit, for it stays a number and a broadcast.
FOLD_LIMIT = BUFFER_FROM

Array = np.ndarray[Any, Any]

_FOLDED = (OpKind.POINTWISE, OpKind.REDUCE, OpKind.VIEW)


def simplify(function: Function) -> Function:
    """Ops that their own rules can do without go; ops of constants alone are computed.

    Needs refined shapes. Leaves equivalent values of equal types; dead code stays for ``eliminate_dead_code``. Ops
    inside regions are left as they are.
    """
    return rewrite(function, _PATTERNS)


def _own_rule(builder: Builder, op: Op) -> tuple[Value, ...] | None:
    """Simplify an op by the rule of its definition."""
    return op.opdef.simplify(builder, op) if op.opdef.simplify is not None else None


# --- folding ------------------------------------------------------------------------------------------------------


def _folded(builder: Builder, op: Op) -> tuple[Value, ...] | None:
    """The value of an op of constants, as a new constant; None where there is none, or ``op`` is as simple."""
    if not op.operands or op.regions or len(op.results) != 1 or op.opdef.kind not in _FOLDED:
        return None
    if op.opdef.kind is OpKind.VIEW and op.operands[0].type.rank == 0:
        return None  # a number and a broadcast: this is the form that the others are brought to
    array = _compute(builder, op)
    return None if array is None else (_constant(builder, array, op.result.type),)


def _known(builder: Builder, value: Value) -> Array | None:
    """A 0-d array where all elements are that number, whatever the dims; else the whole array, where it is known."""
    element = builder.uniform(value)
    if element is not None:
        return element
    op = builder.producer(value)
    dense = literal(op) if op is not None else None
    return None if dense is None or dense.has_buffer else dense.array


def _compute(builder: Builder, op: Op) -> Array | None:
    arrays: list[Array] = []
    for operand in op.operands:
        array = _known(builder, operand)
        if array is None:
            return None
        arrays.append(array)
    element = op.result.dtype.np
    if op.opdef.kind is OpKind.VIEW and arrays[0].ndim == 0 and len(arrays) == 1:
        return arrays[0]
    if any(True for _ in attr_dims(op.attrs)):
        return None
    if op.opdef.kind is not OpKind.POINTWISE or any(a.ndim for a in arrays):
        if any(not _small(v.type) for v in (*op.operands, op.result)):
            return None
        arrays = [
            np.broadcast_to(a, [n for n in v.shape if isinstance(n, int)])  # all are, of what is small
            for a, v in zip(arrays, op.operands, strict=True)
        ]
    try:
        with np.errstate(all="ignore"):
            array = np.array(op.opdef.reference(*arrays, **op.attrs), element, order="C")
    except BackendUnavailableError:  # the reference is SciPy's, and SciPy is not here: the program computes it
        return None
    one = uniform_element(array)
    return array if one is None else one


def _small(type: TensorType) -> bool:
    """Whether an array has few elements, of a shape that is known: that of no elements need not be."""
    return all(isinstance(d, int) for d in type.shape) and isinstance(type.size, int) and type.size < FOLD_LIMIT


def _constant(builder: Builder, array: Array, type: TensorType) -> Value:
    """A value of ``type`` with these elements: a number is broadcast to the shape."""
    weak: dict[str, Any] = {"weak": True} if type.weak else {}
    (value,) = builder.emit(REGISTRY["constant"], (), value=Dense(array), **weak)
    if array.ndim == type.rank:
        return value
    return builder.op("broadcast_in_dim", value, shape=type.shape, dims=())


_PATTERNS = (Pattern(None, _folded), Pattern(None, _own_rule))
