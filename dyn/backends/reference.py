"""The oracle: a function's ops run one by one with NumPy, at the sizes of the actual arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.ir.binding import bind_function
from dyn.ir.core import Function, Value
from dyn.ir.evaluate import check_relations, run_ops
from dyn.shapes import Symbol

Array = np.ndarray[Any, Any]


def run_reference(function: Function, arrays: Sequence[Array]) -> list[Array]:
    """The results of ``function`` for NumPy arguments, hidden parameters included, in fresh contiguous arrays.

    Raises ShapeError where the arguments break a declared dim or a recorded relation.
    """
    env = bind_symbols(function, arrays)
    relations = function.facts.relations
    check_relations(relations, env)
    native = [np.asarray(array, array.dtype.newbyteorder("=")) for array in arrays]
    values: dict[Value, Array] = dict(zip(function.params, native, strict=True))
    run_ops(function.ops, values, env, function.results, relations=relations)
    return [np.array(values[v], order="C") for v in function.results]


def bind_symbols(function: Function, arrays: Sequence[Array]) -> dict[Symbol, int]:
    """The size of every symbol that the parameters' shapes determine; ShapeError where two of them disagree."""
    names = [info.name for info in function.infos]
    return bind_function(function).check([array.shape for array in arrays], names)
