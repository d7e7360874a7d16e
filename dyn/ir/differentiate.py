"""Derivatives of programs: each op by its own rule (``OpDef.vjp``, ``OpDef.jvp``).

Backward, cotangents go through the ops from the last to the first, and are added up where a value is read more than
once (A. Griewank and A. Walther, "Evaluating Derivatives", 2008, chapter 3.2). Forward, tangents go with the values.
A zero is no value at all, so what does not depend on what is differentiated costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dyn.errors import DynError
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Op, Value
from dyn.ir.effects import has_effect
from dyn.ir.opdef import FROM_VJP, NoGrad, OpKind
from dyn.ir.types import TensorType

Tangent = Value | None


def zeros(b: Builder, type: TensorType) -> Value:
    """Zeros of a type."""
    zero = b.op("constant", value=Dense(type.dtype.np.type(0)))
    return b.op("broadcast_in_dim", zero, shape=type.shape, dims=()) if type.shape else zero


def dependent(ops: Sequence[Op], wanted: Iterable[Value]) -> set[Value]:
    """The values through which the results of ``ops`` can change smoothly with ``wanted``, those included."""
    found = {v for v in wanted if v.dtype.is_inexact}
    for op in ops:
        if isinstance(op.opdef.vjp, NoGrad) or not any(v in found for v in op.reads()):
            continue
        found.update(v for v in op.results if v.dtype.is_inexact)
    return found


def gathered(b: Builder, values: Sequence[Value], cotangents: Sequence[Tangent]) -> dict[Value, Value]:
    """The cotangents of values of which some may stand there twice, added up; those of what is discrete are dropped."""
    found: dict[Value, Value] = {}
    for value, ct in zip(values, cotangents, strict=True):
        if ct is not None and value.dtype.is_inexact:
            found[value] = ct if value not in found else b.op("add", found[value], ct)
    return found


def pull_back(
    b: Builder, ops: Sequence[Op], cotangents: Mapping[Value, Value], wanted: Sequence[Value]
) -> list[Tangent]:
    """The cotangents of ``wanted``, None for a zero, from those of what ``ops`` make; the ops are in the program."""
    active = dependent(ops, wanted)
    found: dict[Value, Value] = {v: ct for v, ct in cotangents.items() if v in active}
    for op in reversed(ops):
        if not any(v in found for v in op.results):
            continue
        cts = tuple([found.pop(v, None) for v in op.results])
        b.loc = op.loc
        rule = op.opdef.rule("vjp", op.loc)
        given = rule(b, op, cts)
        for operand, ct in zip(op.operands, given, strict=True):
            if ct is None or operand not in active:
                continue
            if isinstance(ct, DynError):
                raise ct
            known = found.get(operand)
            found[operand] = ct if known is None else b.op("add", known, ct)
    return [found.get(v) for v in wanted]


def leading_to(ops: Sequence[Op], results: Iterable[Value]) -> tuple[Op, ...]:
    """The ops that results depend on, those with effects, and those that measure dims, which types read."""
    needed = set(results)
    found: list[Op] = []
    for op in reversed(ops):
        if op.opdef.kind is OpKind.DATA_DEPENDENT_SIZE or has_effect(op) or any(v in needed for v in op.results):
            found.append(op)
            needed.update(op.reads())
    return tuple(reversed(found))


def push_forward(b: Builder, ops: Sequence[Op], tangents: dict[Value, Value]) -> None:
    """Write out the tangents of ``ops``, which are in the program. ``tangents`` grows by those that are not zero."""
    for op in ops:
        given = tuple([tangents.get(v) for v in op.operands])
        if all(t is None for t in given):
            continue
        b.loc = op.loc
        for result, tangent in zip(op.results, _tangents(b, op, given), strict=True):
            if tangent is not None and result.dtype.is_inexact:
                tangents[result] = tangent


def _tangents(b: Builder, op: Op, given: tuple[Tangent, ...]) -> Sequence[Tangent]:
    rule = op.opdef.rule("jvp", op.loc)
    if isinstance(rule, NoGrad):
        return (None,) * len(op.results)
    if rule is not FROM_VJP:
        return rule(b, op, given)
    vjp = op.opdef.rule("vjp", op.loc)
    whole: Tangent = None
    for number, tangent in enumerate(given):
        if tangent is None:
            continue
        part = vjp(b, op, (tangent,))[number]
        if part is not None:
            whole = part if whole is None else b.op("add", whole, part)
    return (whole,)
