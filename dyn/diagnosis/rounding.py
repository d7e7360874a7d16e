"""Effects of rounding on results: how far a call's reference moves where each of its operations rounds in another way.

A sum whose terms cancel, or the inverse of a matrix that nearly has none, is decided by rounding alone, which differs
with every order of adding. How far it goes is found out by stochastic arithmetic (D. S. Parker, *Monte Carlo
Arithmetic*, 1997): the reference runs again a few times, each result of an operation is moved by a random part of what
rounding explains there, and how far the last results move is what it explains of these. Operations that only move
elements, and integers in floats, are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from dyn import dtypes
from dyn.diagnosis.cases import Case
from dyn.diagnosis.differences import tolerance_of
from dyn.diagnosis.stepping import Steps, combine_of
from dyn.ir.core import Op, Value
from dyn.ir.evaluate import region_function, run_op
from dyn.ir.opdef import OpKind
from dyn.ops.scalar import Scalar
from dyn.shapes import Symbol

Array = np.ndarray[Any, Any]
#: The results of an op for some operands.
Compute = Callable[[Sequence[Array]], Sequence[Array]]
#: Runs of the reference with other rounding: a decision that is left to it goes another way in each with a
#: probability of a half.
_RUNS = 12


def rounding_of_results(case: Case) -> list[Array]:
    """For each result of a call, and each element, how far it moves where operations round in another way.

    That is infinite where a decision on a number, as a comparison makes, may go another way.
    """
    with np.errstate(all="ignore"):
        wanted = case.reference()
        return _movements(wanted, lambda seed: Steps(case, _OtherRounding(seed)).run(_unwatched))


def rounding_of_op(op: Op, operands: Sequence[Array], compute: Compute) -> list[Array] | None:
    """Movements of the results of one op in that way, by its reference ``compute``; None where these are rounded once,
    by elements: no sums, and nothing that depends on all of its operands at once."""
    if combine_of(op) is Scalar.ADD:
        return [_explained(size) * np.abs(dtypes.widened(size)) for size in compute(_sizes(operands))]
    if not op.opdef.is_backward_stable:
        return None
    wanted = compute(operands)
    moved = _movements(wanted, lambda seed: compute(_moved_wholes(operands, np.random.default_rng(seed))))
    # Of a matrix whose result moves by a quarter of the largest element nothing is known: it may have none.
    lead = max(operands[0].ndim - 2, 0)
    return [
        np.where(4 * _largest(by, lead) >= _largest(np.abs(dtypes.widened(x)), lead), np.where(by > 0, np.inf, by), by)
        for by, x in zip(moved, wanted, strict=True)
    ]


def _largest(x: Array, lead: int) -> Array:
    """The largest element of each example, of which there are as many as the first ``lead`` axes say."""
    return x.max(axis=tuple(range(lead, x.ndim)), keepdims=True, initial=0)


def _movements(wanted: Sequence[Array], run: Callable[[int], Sequence[Array] | None]) -> list[Array]:
    """The largest distances of the results of a few runs from those that are wanted."""
    found = [np.zeros(x.shape) for x in wanted]
    for seed in range(_RUNS):
        try:
            made = run(seed)
        except Exception:  # a size or an element that is asked for depends on rounding, as in a Cholesky factor
            continue
        for number, (one, other) in enumerate(zip(made or (), wanted, strict=False)):
            found[number] = np.maximum(found[number], _distance(one, other))
    return found


def _distance(one: Array, other: Array) -> Any:
    if one.shape != other.shape:
        return np.inf
    if not _is_inexact(other):
        return np.where(one == other, 0.0, np.inf)
    a, b = dtypes.widened(one), dtypes.widened(other)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    gap = np.abs(a - b).astype(np.float64)
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


class _OtherRounding:
    """Ops by their references, whose results are moved by about a rounding."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(
        self, op: Op, operands: Sequence[Array], env: Mapping[Symbol, int], outer: Mapping[Value, Array]
    ) -> Sequence[Array]:
        """The results of an op."""
        regions = [region_function(region, outer, env) for region in op.regions]

        def compute(given: Sequence[Array]) -> Sequence[Array]:
            return run_op(op, given, env, regions)[0]

        if op.opdef.is_backward_stable:
            return compute(_moved_wholes(operands, self._rng))
        results = compute(operands)
        combine = combine_of(op)
        if combine is Scalar.ADD:
            sizes = compute(_sizes(operands))
        elif combine is Scalar.MUL or op.opdef.kind is OpKind.POINTWISE:
            sizes = [_rounded_size(x, operands) for x in results]
        else:
            return results
        return [_moved(x, _inexact_size(x, size), self._rng) for x, size in zip(results, sizes, strict=True)]


def _sizes(operands: Sequence[Array]) -> list[Array]:
    return [np.abs(x).astype(x.dtype) if _is_inexact(x) else x for x in operands]


def _rounded_size(x: Array, operands: Sequence[Array]) -> Array:
    """The sizes of a result's elements; 0 of those that are elements of an operand, but for their signs."""
    size = np.abs(x)
    for operand in operands:
        if operand.dtype == x.dtype and (operand.shape == x.shape or operand.ndim == 0):
            size = np.where(size == np.abs(operand), np.zeros((), size.dtype), size)
    return size


def _inexact_size(x: Array, size: Array) -> Array:
    """The sizes of what was computed; 0 of elements that are integers, where floats have all of these."""
    if not _is_inexact(x):
        return size
    wide = dtypes.widened(x)
    has_all = np.abs(dtypes.widened(size)) * float(ml_dtypes.finfo(x.dtype).eps) < 1
    is_exact = (wide == np.round(wide)) & has_all
    return np.where(is_exact, np.zeros((), size.dtype), size)


def _moved(x: Array, size: Array, rng: np.random.Generator) -> Array:
    """An array whose elements are moved by at most what rounding explains of their sizes, in each part of complex
    numbers."""
    if not _is_inexact(x):
        return x
    wide = dtypes.widened(x)
    most = _explained(x) * np.abs(dtypes.widened(size))
    moved = wide + most * rng.uniform(-1, 1, x.shape)
    if x.dtype.kind == "c":
        moved = moved + 1j * most * rng.uniform(-1, 1, x.shape)
    return np.where(np.isfinite(moved), moved, wide).astype(x.dtype)


def _moved_wholes(operands: Sequence[Array], rng: np.random.Generator) -> list[Array]:
    """Operands whose elements are moved by at most what rounding explains of the largest one."""
    return [
        _moved(x, np.full(x.shape, np.abs(x).max(initial=0), np.abs(x).dtype), rng) if _is_inexact(x) else x
        for x in operands
    ]


def _explained(x: Array) -> float:
    return tolerance_of(dtypes.dtype(x.dtype))


def _is_inexact(x: Array) -> bool:
    return dtypes.dtype(x.dtype).is_inexact


def _unwatched(op: Op, operands: Sequence[Array], outer: Mapping[Value, Array], results: Sequence[Array]) -> None:
    """Look at nothing."""
