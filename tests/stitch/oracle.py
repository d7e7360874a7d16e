"""What a random program computes, with a bound on how far another order of rounding may be from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.backends.reference import bind_symbols
from dyn.dtypes import DType
from dyn.errors import ShapeError
from dyn.ir.core import Function, Value
from dyn.ir.evaluate import RegionFunction
from dyn.shapes import Symbol, SymExpr, evaluate

Array = np.ndarray[Any, Any]
_EPS = {dtypes.float16: 2.0**-10, dtypes.bfloat16: 2.0**-7, dtypes.float32: 2.0**-22, dtypes.float64: 2.0**-51}


def evaluate_function(function: Function, arrays: Sequence[Array]) -> list[tuple[Array, float]]:
    """Each result and a bound on how far another order of rounding may be from it. ShapeError as a call would raise."""
    env = bind_symbols(function, arrays)
    for relation in function.facts.relations:
        if not relation.holds(env):
            raise ShapeError(relation.failure(env))
    values: dict[Value, tuple[Array, float]] = {p: (a, 0.0) for p, a in zip(function.params, arrays, strict=True)}
    for op in function.ops:
        attrs = {name: concrete(value, env) for name, value in op.attrs.items()}
        operands = [values[v] for v in op.operands]
        if op.regions:
            attrs["regions"] = tuple(RegionFunction(region, {}, env) for region in op.regions)
        found = op.opdef.reference(*(a for a, _ in operands), **attrs)
        for value, made in zip(op.results, found if len(op.results) > 1 else (found,), strict=True):
            result = np.asarray(made)
            assert result.shape == tuple(evaluate(d, env) for d in value.shape), op
            assert result.dtype == value.dtype.np, op
            values[value] = result, _error(op.opdef.name, value.dtype, operands, attrs, result)
    return [values[v] for v in function.results]


def concrete(value: Any, env: dict[Symbol, int]) -> Any:
    if isinstance(value, SymExpr):
        return evaluate(value, env)
    return tuple(concrete(v, env) for v in value) if isinstance(value, tuple) else value


def _most(array: Array) -> float:
    return float(np.max(np.abs(array.astype(np.float64)), initial=0.0))


def _error(name: str, dtype: DType, operands: list[tuple[Array, float]], attrs: dict[str, Any], result: Array) -> float:
    if not dtype.is_float:
        return 0.0
    errors = [e for _, e in operands]
    sizes = [_most(a) for a, _ in operands]
    if name in ("negate", "abs", "maximum", "minimum", "select", "copy", "reshape", "transpose", "slice",
                "broadcast_in_dim", "concatenate", "gather", "dynamic_slice",
                "dynamic_update_slice", "pad", "variadic_reduce"):  # fmt: skip
        return max(errors)
    rounding = _EPS[dtype] * max(_most(result), 1e-3)
    if name in ("constant", "iota", "dim_size"):
        return rounding
    if name == "reduce":
        if attrs["combine"] in ("maximum", "minimum"):
            return errors[0]
        count = max(operands[0][0].size / max(result.size, 1), 1)
        wide = _EPS[dtypes.float32 if dtype.bits == 16 else dtype]
        return count * errors[0] + count * sizes[0] * wide * min(count, 64) + rounding
    if name == "scatter":  # in one order, here and there: what differs are the operands
        count = operands[-1][0].size if attrs["combine"] == "add" else 1
        return errors[0] + count * (errors[-1] + rounding)
    if name == "dot_general":
        count = float(np.prod([operands[0][0].shape[a] for a in attrs["lhs_contracting"]]))
        wide = _EPS[dtypes.float32 if dtype.bits == 16 else dtype]
        part = errors[0] * sizes[1] + errors[1] * sizes[0] + errors[0] * errors[1]
        return count * (part + sizes[0] * sizes[1] * wide * min(count, 64)) + rounding
    if name == "multiply":
        return errors[0] * sizes[1] + errors[1] * sizes[0] + errors[0] * errors[1] + rounding
    if name in ("add", "subtract"):
        return errors[0] + errors[1] + rounding
    if name == "exponential":
        return 4 * errors[0] + 4 * rounding
    if name in ("sqrt", "cbrt"):  # steep at 0
        return max(errors[0] ** (1 / 3), errors[0]) + 4 * rounding if errors[0] else 4 * rounding
    return 2 * sum(errors) + 4 * rounding


def agree(actual: Array, expected: Array, error: float) -> bool:
    """Whether a compiled result is the reference's, up to the bound."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    if not dtypes.dtype(expected.dtype).is_float:
        return bool(np.array_equal(actual, expected))
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= 8 * error + 1e-9 * np.abs(b)
    unsure = not np.isfinite(error)
    return bool(np.all(near | (a == b) | (np.isnan(a) & np.isnan(b)) | unsure))
