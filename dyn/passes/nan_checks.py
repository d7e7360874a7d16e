"""Checks for the first NaN or infinity, where ``debug_nans`` or ``debug_infs`` is set: ``Function -> Function``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn import config, dtypes
from dyn.dtypes import Kind
from dyn.errors import NotFiniteError
from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Region
from dyn.ir.external import External, ExternalResult
from dyn.ir.opdef import OpKind
from dyn.ir.region_passes import in_regions
from dyn.passes.redundancy import eliminate_dead_code
from dyn.source import UNKNOWN

Array = np.ndarray[Any, Any]

#: What only moves elements, makes them of nothing, or has its ops checked one by one.
_UNCHECKED = (OpKind.VIEW, OpKind.GENERATE, OpKind.BARRIER, OpKind.DATA_DEPENDENT_SIZE, OpKind.CONTROL, OpKind.CALL)


def check_finite(function: Function) -> Function:
    """After each op that is needed, and may make a NaN or an infinity, a call that looks for the first of them.

    Needs calls written out. Leaves a function as it is unless one of the settings is on. Calls have effects, so that
    all of them are made, and in the order of the program.
    """
    settings = config.current()
    if not settings.checks_values:
        return function
    function = in_regions(eliminate_dead_code)(function)
    b = Builder(function.facts, UNKNOWN)
    _write(b, function.ops, settings)
    return function.with_ops(tuple(b.ops), facts=b.facts)


def _write(b: Builder, ops: Sequence[Op], settings: config.Config) -> None:
    for op in ops:
        if op.opdef.kind is OpKind.CONTROL:
            op = replace(op, regions=tuple([_region(b, region, settings) for region in op.regions]))
        b.append(op)
        results = [v for v in op.results if v.dtype.is_inexact]
        if results and op.opdef.kind not in _UNCHECKED:
            b.loc = op.loc
            operands = [v for v in op.operands if v.dtype.is_inexact]
            check = _Check(op, len(results), settings.debug_nans, settings.debug_infs)
            external = External(f"the check of {op.opdef.name}", op.loc, check, effects=True)
            b.op_all("custom_call", *results, *operands, target=external, dtypes=(), shapes=(), attributes=())


def _region(b: Builder, region: Region, settings: config.Config) -> Region:
    inner = b.inner()
    inner.adopt(region.demands)
    _write(inner, region.ops, settings)
    return replace(region, ops=tuple(inner.ops))


class _Check:
    """Raises where the results of an op have what none of its operands has."""

    def __init__(self, op: Op, results: int, nans: bool, infs: bool) -> None:
        self.op, self.results = op, results
        self.kinds = ("NaN",) * nans + ("infinity",) * infs

    def __call__(self, arrays: Sequence[Array], expected: Sequence[ExternalResult]) -> tuple[Array, ...]:
        results, operands = arrays[: self.results], arrays[self.results :]
        found = first_not_finite(results, operands, self.kinds)
        if found is not None:
            raise NotFiniteError(
                f"{self.op.opdef.name} made {found}.",
                loc=self.op.loc,
                notes=tuple([f"operand {number} is {typed(x)}{value_range(x)}" for number, x in enumerate(operands)]),
                remedy="look at what it is given, with dyn.debug.print in front of this line.",
            )
        return ()


_TESTS = {"NaN": np.isnan, "infinity": np.isinf}


def first_not_finite(results: Sequence[Array], operands: Sequence[Array], kinds: Sequence[str]) -> str | None:
    """Text of the first of ``kinds`` ("NaN", "infinity") that results of an op have and no operand has, or None.

    The arrays are of floats or complex numbers.
    """
    for kind in kinds:
        test = _TESTS[kind]
        # An infinity of what is not a number is no news either.
        if any(bool(np.any(test(dtypes.widened(x)) | np.isnan(dtypes.widened(x)))) for x in operands):
            continue
        for result in results:
            found = test(dtypes.widened(result))
            if found.any():
                place = tuple([int(i) for i in np.unravel_index(int(np.argmax(found)), found.shape)])
                where = f", the first at {list(place)}" if place else ""
                return (
                    f"the first {kind}: {int(found.sum())} of the {found.size} elements of its result, "
                    f"{typed(result)}{where}"
                )
    return None


def typed(x: Array) -> str:
    """An array's dtype and shape: ``float32[3, 7]``."""
    return f"{x.dtype}{list(x.shape)}"


def value_range(x: Array) -> str:
    """``, from -1.0 to 3.5``: the range of the elements, where they have one."""
    if x.size == 0 or dtypes.dtype(x.dtype).kind is Kind.COMPLEX:
        return ""
    wide = dtypes.widened(x)
    return f", from {wide.min()} to {wide.max()}"
