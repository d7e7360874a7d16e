"""Conversions of parameters, computed where they are used: for targets on which a launch costs more than they do."""

from __future__ import annotations

from dataclasses import replace

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind
from dyn.stitch.groups import Group, GroupKind, Plan
from dyn.stitch.inline import is_local
from dyn.stitch.relations import AT_RELATED_PLACES
from dyn.stitch.scalar_work import is_widening


def convert_where_used(plan: Plan) -> Plan:
    """The plan without groups that do nothing but convert parameters that are spread over larger arrays, such as a
    weight in bfloat16 of a norm that computes in float32: each reader converts what it reads."""
    users = plan.function.users()
    gone = {
        group
        for group in plan.groups
        if group.kind is GroupKind.LOOP and all(_is_spread(op, plan, users) for op in group.ops)
    }
    groups = tuple([_with_bodies(group) for group in plan.groups if group not in gone])
    stored = plan.stored - {result for group in gone for op in group.ops for result in op.results}
    return replace(plan, groups=groups, stored=stored, converts=True)


def _with_bodies(group: Group) -> Group:
    if not group.bodies:
        return group
    return replace(group, bodies=tuple([convert_where_used(body) for body in group.bodies]))


def _is_spread(op: Op, plan: Plan, users: dict[Value, list[Op]]) -> bool:
    """Whether an op converts a parameter, and loops over larger arrays alone read the result."""
    if op.opdef.kind is not OpKind.POINTWISE or len(op.operands) != 1 or not is_widening(op) or op in plan.waits:
        return False
    base, results = op.operands[0], plan.function.results
    while base in plan.producers and base not in plan.stored and plan.producers[base].opdef.kind is OpKind.VIEW:
        base = plan.producers[base].operands[0]
    if base not in plan.function.params or any(op.result in values for values in (results, *plan.waits.values())):
        return False
    spread = users[op.result]
    if not all(user.opdef.kind is OpKind.VIEW and user.result.type.size != op.result.type.size for user in spread):
        return False
    stack = [op.result]
    while stack:
        for user in users[stack.pop()]:
            if user.opdef.kind is OpKind.VIEW:
                if (
                    user.result in results
                    or user.result in plan.stored
                    or (user.opdef.keeps_order and not is_local(user))
                ):
                    return False
                stack.append(user.result)
            elif user.opdef.kind not in AT_RELATED_PLACES:
                return False
    return True
