"""The custom calls that JAX emits, with what they compute: a table of their names.

Those that an op is written as (``stablehlo.dynamic_top_k``, ``dyn.lu``, …) are in its codec.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dyn.interop.stablehlo.hlo import DecodeRule, HloOp
from dyn.interop.stablehlo.lapack import LAPACK, config
from dyn.ir.core import Dense, Value
from dyn.ir.external import External, PythonFunction
from dyn.ops.threefry import NAMES, cipher
from dyn.source import Loc

# --- where arrays are -------------------------------------------------------------------------------------------------


def _same(d: Any, op: HloOp) -> Sequence[Value]:
    """On one device an array is its own shard."""
    x = d.value(op.operands[0])
    wanted = op.results[0].shape
    if any(n is not None and isinstance(own, int) and n != own for n, own in zip(wanted, x.shape, strict=True)):
        d.fail(f"divides an array among devices, into parts of {wanted}", "export the program for one device.")
    return [x]


def _nothing(d: Any, op: HloOp) -> Sequence[Value]:
    """Arrays are kept alive for what somebody else sees of them."""
    return []


def _empty(d: Any, op: HloOp) -> Sequence[Value]:
    """Memory that nobody has written to: zeros."""
    made: list[Value] = []
    for result in op.results:
        if None in result.shape:
            d.fail("makes an array of a shape that is not known", "sizes have to follow from the arguments' shapes.")
        zero = d.b.op("constant", value=Dense(np.zeros((), result.dtype.np)))
        made.append(d.b.op("broadcast_in_dim", zero, shape=result.shape, dims=()))
    return made


# --- random bits ------------------------------------------------------------------------------------------------------


def _threefry(d: Any, op: HloOp) -> Sequence[Value]:
    """Two words of a key and two of a counter for each element; two words of bits."""
    words = [d.value(v) for v in op.operands[:4]]

    def number(value: int) -> Value:
        one = d.b.op("constant", value=Dense(np.array(value, np.uint32)))
        return d.b.op("broadcast_in_dim", one, shape=words[0].shape, dims=())

    made = cipher(lambda f, a, b: d.b.op(NAMES[f], a, b), number, (words[0], words[1]), (words[2], words[3]))
    return list(made)


# --- the greatest, nearly ---------------------------------------------------------------------------------------------


def _approx_top_k(d: Any, op: HloOp) -> Sequence[Value]:
    """The first in order along an axis, exactly: arrays, a start for each, and perhaps how many as a size."""
    given = config(op)
    symbols = op.attrs["called_computations"]
    count = len(op.results)
    arrays = [d.value(v) for v in op.operands[:count]]
    axis = int(given["reduction_dim"])
    wanted = op.results[0].shape[axis]
    if len(op.operands) > 2 * count and wanted is None:
        (wanted,) = d.dims(op.operands[2 * count])
    if wanted is None:
        d.fail("gives a number of elements that is not known", "sizes have to follow from the arguments' shapes.")
    before = d.scalar_region(d.callee(symbols[0]))
    ordered = d.b.op_all("sort_by", *arrays, regions=(before,), dimension=axis, is_stable=True)
    rank = len(arrays[0].shape)
    limit = tuple([wanted if a == axis else n for a, n in enumerate(arrays[0].shape)])
    return [d.b.op("slice", x, start=(0,) * rank, limit=limit, strides=(1,) * rank) for x in ordered]


# --- Python functions that a module brings ----------------------------------------------------------------------------

#: The custom call of a Python function that its module was read with, by its number.
EXTERNAL = "dyn.external"


class Imported:
    """A Python function that a module calls by ``number``, if it is read with this (``function_of(imported=…)``).

    ``function`` makes it, given the line that the call stands in. Nobody can guess the number: a module that somebody
    else made, and that the traced function calls, does not have it.
    """

    def __init__(self, name: str, function: Callable[[Loc], PythonFunction], effects: bool) -> None:
        self.name, self.function, self.effects = name, function, effects
        self.number = secrets.randbits(62)


def _external(d: Any, op: HloOp) -> Sequence[Value]:
    """A call of a Python function. The shapes of results with sizes that are computed are further operands."""
    imported: Imported | None = d.imported.get(config(op)["number"])
    if imported is None:
        raise d.fail("calls a Python function that did not come with it", "export the program without callbacks.")
    places = op.attrs.get("indices_of_shape_operands", ())
    given = [d.value(v) for i, v in enumerate(op.operands) if i not in places]
    shapes = [d.dims(op.operands[i]) for i in places] or [v.shape for v in op.results]
    external = External(imported.name, d.b.loc, imported.function(d.b.loc), imported.effects)
    return d.b.op_all(
        "custom_call", *given, target=external, dtypes=tuple([v.dtype for v in op.results]), shapes=tuple(shapes),
        attributes=(),
    )  # fmt: skip


#: By their names.
CUSTOM_CALLS: Mapping[str, DecodeRule] = {
    **LAPACK,
    "Sharding": _same,
    "SPMDFullToShardShape": _same,
    "SPMDShardToFullShape": _same,
    "annotate_device_placement": _same,
    "AllocateBuffer": _empty,
    "dce_sink": _nothing,
    "cu_threefry2x32_ffi": _threefry,
    "hip_threefry2x32_ffi": _threefry,
    EXTERNAL: _external,
    "ApproxTopK": _approx_top_k,
    "stablehlo.dynamic_approx_top_k": _approx_top_k,
}
