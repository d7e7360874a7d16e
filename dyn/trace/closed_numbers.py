"""Floats that a function closes over, as hidden parameters: another closure with other floats has the same code.

A trace makes constants of them. Once it has ended, those that only enter arithmetic become parameters: as operands of
elementwise operations whose form does not depend on the number. Exponents stay what they are, and so do numbers that
simplification looks for, and those in a branch or the body of a loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn.ir.builder import literal
from dyn.ir.core import Function, Op, ParamInfo, Value, with_operands
from dyn.ir.opdef import OpKind
from dyn.ops.elementwise import power
from dyn.trace.closure_values import closure_values


def closed_floats(function: Callable[..., Any]) -> dict[int, object]:
    """The floats that a function closes over, by identity (``dyn.trace.closure_values``)."""
    values = closure_values(function)
    return {id(value): value for value in values if type(value) is float or isinstance(value, np.floating)}


def with_hidden_numbers(function: Function, constants: Sequence[Value]) -> tuple[Function, tuple[np.generic, ...]]:
    """A function with those of its constants as hidden parameters that only enter arithmetic; and their numbers."""
    made = {value: op for op in function.ops if (value := op.results[0] if op.results else None) in set(constants)}
    uses = _uses(function)
    params: dict[tuple[Any, ...], Value] = {}
    numbers: list[np.generic] = []
    given: dict[Value, Value] = {}
    for value in constants:
        op = made.get(value)
        number = None if op is None else literal(op)
        element = None if number is None else number.element
        if element is None or not _is_arithmetic(element) or not _enters_arithmetic(value, uses):
            continue
        key = (value.type, element.tobytes())
        if key not in params:
            params[key] = Value(value.type, f"number{len(params)}")
            numbers.append(element.dtype.type(element))
        given[value] = params[key]
    if not given:
        return function, ()
    ops = tuple([with_operands(op, given) for op in function.ops if not given.keys() & {*op.results}])
    infos = tuple([ParamInfo(param.name or "number", hidden=True) for param in params.values()])
    whole = replace(function, params=(*function.params, *params.values()), infos=(*function.infos, *infos), ops=ops)
    return whole, tuple(numbers)


def _is_arithmetic(element: Any) -> bool:
    """Return True if programs are not quicker with a number than with any other.

    They may be with 0 and 1, which rules of simplification know, and with powers of two, by which a quotient is a
    product.
    """
    if np.iscomplexobj(element):
        return False
    number = float(element)
    return math.isfinite(number) and abs(math.frexp(number)[0]) not in (0.0, 0.5)


def _uses(function: Function) -> dict[Value, list[Op | None]]:
    """The operations that read each value, None where it is a result or is read in a region."""
    uses: dict[Value, list[Op | None]] = {}
    for op in function.ops:
        for value in op.operands:
            uses.setdefault(value, []).append(op)
        for region in op.regions:
            for value in region.reads():
                uses.setdefault(value, []).append(None)
    for value in function.results:
        uses.setdefault(value, []).append(None)
    return uses


def _enters_arithmetic(value: Value, uses: dict[Value, list[Op | None]]) -> bool:
    """Return True if all that is made of a number are other forms of it, and operands of elementwise operations."""
    for op in uses.get(value, []):
        if op is None or op.opdef.kind not in (OpKind.POINTWISE, OpKind.VIEW):
            return False
        if op.opdef is power and op.operands[1] is value:
            return False
        if len(op.operands) == 1 and not all(_enters_arithmetic(result, uses) for result in op.results):
            return False
    return True
