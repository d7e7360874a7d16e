"""XLA's results where the specification of StableHLO is silent, or says something else.

A module that ``dyn.interop.stablehlo.load`` reads means what the specification says. A JAX function means what JAX
computes, which is what XLA does: these rules read its operations instead. ``docs/jax.md`` has the list for people, and
``tests/interop/test_jax_xla.py`` compares each with JAX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.interop.stablehlo.codecs.folds import window_rules
from dyn.interop.stablehlo.decode import decoders
from dyn.interop.stablehlo.hlo import DecodeRule, HloOp
from dyn.ir.core import Dense, Value
from dyn.ops.linalg.matrices import Matrices
from dyn.ops.reduce import identity
from dyn.shapes import Dim

_GREATEST = 2**63 - 1


# --- windows that lie partly outside ----------------------------------------------------------------------------------


def _scatter(d: Any, op: HloOp) -> Sequence[Value]:
    """An update whose window is not whole inside of the array is dropped; the specification drops its outer elements.

    The window of such an update is moved beyond the end, where no element of it is inside.
    """
    numbers, count = op.attrs["scatter_dimension_numbers"], len(op.operands) // 2
    x, updates = d.value(op.operands[0]), d.value(op.operands[-1])
    outer = {*numbers.axes("inserted_window_dims"), *numbers.axes("input_batching_dims")}
    inner = [axis for axis in range(len(x.shape)) if axis not in outer]
    windows: dict[int, Dim] = dict.fromkeys(outer, 1)
    windows |= {a: updates.shape[u] for a, u in zip(inner, numbers.axes("update_window_dims"), strict=True)}
    axes = numbers.axes("scatter_dims_to_operand_dims")
    if all(windows[axis] == 1 for axis in axes):
        return decoders()[op.name](d, op)
    indices = _as_int64(d, d.value(op.operands[count]))
    along = numbers.fields.get("index_vector_dim", 0)
    last = _components(d, indices, along, [x.shape[a] - windows[a] for a in axes])
    beyond = _components(d, indices, along, [x.shape[a] for a in axes])
    m = Matrices(d.b)
    inside = d.b.op("and", m.cmp(indices, "GE", m.fill(indices, 0)), m.cmp(indices, "LE", last))
    moved = d.stand_in(d.b.op("select", inside, indices, beyond))
    return decoders()[op.name](d, replace(op, operands=(*op.operands[:count], moved, *op.operands[count + 1 :])))


def _as_int64(d: Any, indices: Value) -> Value:
    """Indices as int64; those that it does not have are beyond any axis."""
    if indices.dtype is dtypes.uint64:
        m = Matrices(d.b)
        indices = d.b.op("minimum", indices, m.fill(indices, _GREATEST))
    return indices if indices.dtype is dtypes.int64 else d.b.op("convert", indices, dtype=dtypes.int64)


def _components(d: Any, indices: Value, along: int, dims: Sequence[Dim]) -> Value:
    """An array as large as ``indices``, whose component ``i`` is ``dims[i]`` everywhere."""
    parts = [d.b.op("reshape", _number(d, dim), shape=(1,)) for dim in dims]
    vector = parts[0] if len(parts) == 1 else d.b.op("concatenate", *parts, dimension=0)
    if along == len(indices.shape):
        return d.b.op("broadcast_in_dim", d.b.op("reshape", vector, shape=()), shape=indices.shape, dims=())
    return d.b.op("broadcast_in_dim", vector, shape=indices.shape, dims=(along,))


def _number(d: Any, dim: Dim) -> Value:
    if isinstance(dim, int):
        return d.b.op("constant", value=Dense(np.array(dim, np.int64)))
    return d.b.op("convert", d.b.op("dim_size", size=dim, dtype=dtypes.int64), dtype=dtypes.int64)


#: Instead of the codecs' rules. A window of ``reduce_window`` has the elements that are there, and the initial value
#: once; for the specification its padding is made of initial values.
XLA: Mapping[str, DecodeRule] = {
    "stablehlo.scatter": _scatter,
    **window_rules(identity, holes=False),
}
