"""Common subexpressions and dead code eliminated, and ops put in the order of their uses."""

from __future__ import annotations

from dyn.ir.core import Function, Op, Value, attrs_key, with_operands
from dyn.ir.effects import has_own_effect, must_run


def eliminate_common_subexpressions(function: Function) -> Function:
    """Common subexpression elimination: of ops that compute the same from the same, the first stays.

    Needs refined shapes, so that equal attributes are equal. Leaves every value computed once; ops with effects, ops
    with regions, and those inside them, are left as they are.
    """
    values: dict[Value, Value] = {}
    seen: dict[object, Op] = {}
    ops: list[Op] = []
    for old in function.ops:
        op = with_operands(old, values)
        if op.regions or has_own_effect(op):
            ops.append(op)
            continue
        key = (op.opdef, op.operands, attrs_key(op.attrs), tuple([v.type for v in op.results]))
        first = seen.setdefault(key, op)
        if first is op:
            ops.append(op)
        else:
            values.update(zip(old.results, first.results, strict=True))
    return function.with_ops(tuple(ops), tuple([values.get(v, v) for v in function.results]))


def eliminate_dead_code(function: Function) -> Function:
    """Ops without effects whose results nobody reads go.

    Needs nothing. Checks that dead ops demanded stay in the facts: an error does not depend on what is used, and what
    checks are made of is measured. Only what the regions of a dead loop or choice demand is gone with them, for they
    don't run. Ops that can do without some of their results lose those that nobody reads (``OpDef.prune``).
    """
    live = set(function.results)
    kept: list[Op] = []
    for op in reversed(function.ops):
        if must_run(op) or any(v in live for v in op.results):
            if op.opdef.prune is not None and any(v in live for v in op.results):
                op = op.opdef.prune(op, live)
            kept.append(op)
            live.update(op.reads())
    return function.with_ops(tuple(reversed(kept)))


def order_by_use(function: Function) -> Function:
    """Put each op right before the first that reads it.

    Needs nothing. Ops that must run keep their order, with what they read before them; then come those that the results
    need, in the order of the results and of operands. So functions of the same ops have them in the same order, however
    they were written down. Other ops go.
    """
    made_by = {value: op for op in function.ops for value in op.results}
    ordered: dict[Op, None] = {}
    roots = [op for op in function.ops if must_run(op)]
    roots += [made_by[value] for value in function.results if value in made_by]
    for root in roots:
        waiting = [root]
        while waiting:
            op = waiting[-1]
            missing = [made for v in op.reads() if (made := made_by.get(v)) is not None and made not in ordered]
            if missing:
                waiting += reversed(missing)
            else:
                ordered[waiting.pop()] = None
    return function.with_ops(tuple(ordered))
