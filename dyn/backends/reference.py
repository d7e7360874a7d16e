"""The oracle: a function's ops run one by one with NumPy, at the sizes of the actual arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.errors import ShapeError
from dyn.ir.core import Function, ParamInfo, Value
from dyn.ir.evaluate import check_relations, run_ops
from dyn.shapes import Dim, Symbol, SymExpr, evaluate, free_symbols, linear_in

Array = np.ndarray[Any, Any]


def run_reference(function: Function, arrays: Sequence[Array]) -> list[Array]:
    """The results of ``function`` for NumPy arguments, hidden parameters included, in fresh contiguous arrays.

    Raises ShapeError where the arguments break a declared dim or a recorded relation.
    """
    env = bind_symbols(function, arrays)
    relations = function.facts.relations
    check_relations(relations, env)
    values: dict[Value, Array] = dict(zip(function.params, arrays, strict=True))
    run_ops(function.ops, values, env, function.results, relations=relations)
    return [np.array(values[v], order="C") for v in function.results]


def bind_symbols(function: Function, arrays: Sequence[Array]) -> dict[Symbol, int]:
    """The size of every symbol that the parameters' shapes determine; ShapeError where two of them disagree."""
    env: dict[Symbol, int] = {}
    pending: list[tuple[ParamInfo, int, Dim, int]] = []
    for param, info, array in zip(function.params, function.infos, arrays, strict=True):
        dims = param.shape if info.dims is None else info.dims
        for axis, (dim, size) in enumerate(zip(dims, array.shape, strict=True)):
            symbol = dim.is_symbol if isinstance(dim, SymExpr) else None
            if symbol is not None and symbol not in env:
                env[symbol] = size
            else:
                pending.append((info, axis, dim, size))
    for info, axis, dim, size in pending:
        _solve(dim, size, env)
        actual = evaluate(dim, env)
        if actual != size:
            raise ShapeError(f"{info.name}.shape[{axis}] is {size}, and it must be {dim} = {actual}.")
    return env


def _solve(dim: Dim, size: int, env: dict[Symbol, int]) -> None:
    """Give the one unknown symbol of a linear dim its size."""
    unknown = [s for s in free_symbols(dim) if s not in env]
    if len(unknown) != 1:
        return
    linear = linear_in(dim, unknown[0])
    if linear is not None:
        factor, rest = evaluate(linear[0], env), evaluate(linear[1], env)
        if factor:
            env[unknown[0]] = (size - rest) // factor
