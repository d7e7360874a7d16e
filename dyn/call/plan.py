"""Plans: the records from which the native entry reads the arguments of calls of one form."""

from __future__ import annotations

from enum import Enum
from typing import Any

from dyn.call.form import CallForm
from dyn.call.records import ObjectAddress, Row, Words, records
from dyn.runtime.entry.layout import EntryPlan, NodeRecord, StaticRecord
from dyn.trace.static_keys import same_static


def plan_record(form: CallForm) -> Words:
    """A plan without versions, for calls of a form."""
    plan = Words(EntryPlan.BYTES // 8)
    plan.put(EntryPlan.ARGUMENTS, form.arguments)
    plan.put(EntryPlan.KEYWORDS, len(form.keywords))
    plan.memory(EntryPlan.KEYWORD_NAMES, records([{0: ObjectAddress(name)} for name in form.keywords], 8))
    plan.object(EntryPlan.CONFIG, form.config)
    plan.object(EntryPlan.STATE, form.state)
    statics: list[Row] = [
        {
            StaticRecord.ARGUMENT: at,
            StaticRecord.OBJECT: ObjectAddress(value),
            StaticRecord.EQUAL: ObjectAddress(_comparable(value)),
        }
        for at, value in form.statics
    ]
    plan.memory(EntryPlan.STATICS, records(statics, StaticRecord.BYTES))
    plan.put(EntryPlan.STATIC_COUNT, len(statics))
    for number, leaf in form.wanted.items():
        if leaf.sizes is not None:
            form.nodes[form.places[number]][NodeRecord.SIZES] = records([{0: size} for size in leaf.sizes], 8)
    code = records(form.nodes, NodeRecord.BYTES)
    plan.memory(EntryPlan.CODE, code)
    plan.put(EntryPlan.LEAVES, form.leaves)
    plan.memory(EntryPlan.RECORDS, records([{0: code.address + at * NodeRecord.BYTES} for at in form.places], 8))
    plan.put(EntryPlan.FOREIGN, form.foreign)
    plan.put(EntryPlan.ROOM, form.room)
    plan.memory(EntryPlan.ITEM_SIZES, records([{0: size} for size in form.item_sizes], 8))
    return plan


class _Same:
    """Equal to what is the same static argument; for values whose own ``==`` leaves the comparison to the other."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return same_static(self.value, other)


def _comparable(value: Any) -> Any:
    """An object for the entry to compare a static argument with, by ``==``."""
    kind = type(value)
    exact = kind in (str, bytes, int, bool, type(None)) or isinstance(value, type | Enum)
    return value if exact else _Same(value)
