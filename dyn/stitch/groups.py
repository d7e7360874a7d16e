"""Groups, the result of stitching: ops that become one kernel, and why each group ends where it ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from enum import Enum

from dyn.frozen import record
from dyn.ir.core import Function, Op, Value
from dyn.ir.opdef import OpKind
from dyn.shapes import Dim, Symbol
from dyn.source import Loc


class GroupKind(Enum):
    """The schedule family of a group."""

    #: One loop nest over one space.
    LOOP = "loop"
    #: Reductions over some axes of one space, joined with what surrounds them through registers and scratch.
    STITCH = "stitch"
    #: A fold of windows with its epilogue.
    WINDOW = "window"
    #: A contraction with its epilogue.
    CONTRACT = "contract"
    #: A scatter: a copy of its operand, with updates combined into it.
    SCATTER = "scatter"
    #: Many arrays one after the other.
    JOIN = "join"
    #: A running reduction.
    RUNNING = "running"
    #: A view, or a parameter, that must lie in memory of its own.
    COPY = "copy"
    #: A loop or a choice, which the host program runs.
    CONTROL = "control"
    #: An op that a library computes, called from the host program.
    LIBRARY = "library"
    #: A dim that the host program reads from memory.
    DATA_DEPENDENT_SIZE = "measure"
    #: Groups that several plans cut in ways of their own, of which the sizes of a call choose one.
    ALTERNATIVES = "alternatives"


@record()
class End:
    """Why a group does not go on to an op that reads its values, and the cost of the two being apart.

    ``arrays`` has the bytes of each array that is written, or read once more, and ``usual`` says what that and a launch
    cost at usual sizes: ``8*b*s bytes, about 1.2 µs at b=64, s=64``.
    """

    reader: str
    loc: Loc
    words: str
    arrays: tuple[Dim, ...]
    usual: str

    def __str__(self) -> str:
        return f"{self.reader} at {self.loc} stays outside: {self.words}; apart they take {self.usual}"


@record(eq=False)
class Group:
    """Ops that become one kernel.

    ``space`` is the iteration space: the shape of the full-size members (for a contraction, of its result).
    ``reduced`` are the axes of the space that reductions fold; a member either spans the space (*full*) or only the
    kept axes (a *row* value). ``outputs`` are the values that are stored; everything else stays on the chip.
    """

    name: str
    kind: GroupKind
    ops: tuple[Op, ...]
    space: tuple[Dim, ...]
    reduced: frozenset[int]
    outputs: tuple[Value, ...]
    #: Why the group does not go on: one for each consumer or producer that stayed outside.
    ends: tuple[End, ...] = ()
    #: The regions of a loop or a choice, cut into groups of their own.
    bodies: tuple[Plan, ...] = ()
    #: Those of the ops that compute operands of a contraction, and nothing else.
    prologue: tuple[Op, ...] = ()
    #: Ops of other groups whose results are not stored: this one computes again what it reads of them (``recompute``).
    recomputed: tuple[Op, ...] = ()
    #: Those of the ops that are computed for each element of the space, by loops of their own: reductions over axes
    #: that the space does not have, and what they fold.
    inner: tuple[Op, ...] = ()
    #: Those of the ops that reduce the other axes, the kept ones, and what is computed of their results alone: no
    #: views, and nothing that rows, or these reductions, read.
    columns: tuple[Op, ...] = ()

    @property
    def reductions(self) -> tuple[Op, ...]:
        """The ops that fold the ``reduced`` axes of the space."""
        others = (*self.inner, *self.columns)
        return tuple([op for op in self.ops if op.opdef.kind is OpKind.REDUCE and op not in others])

    @property
    def column_reductions(self) -> tuple[Op, ...]:
        """The ops that fold the other axes of the space."""
        return tuple([op for op in self.columns if op.opdef.kind is OpKind.REDUCE])

    def members(self) -> frozenset[Value]:
        """The values that the group computes."""
        return frozenset(result for op in self.ops for result in op.results)


def values_read(group: Group, producers: Mapping[Value, Op], stored: Collection[Value]) -> set[Value]:
    """The values that a group reads, and those that it computes of others, which are not stored, from these."""
    members = group.members()
    found, stack = set[Value](), [v for op in group.ops for v in op.reads()]
    while stack:
        value = stack.pop()
        if value in members or value in found:
            continue
        found.add(value)
        if value not in stored and value in producers:
            stack.extend(producers[value].reads())
    return found


@record(eq=False)
class Plan:
    """A function cut into groups, in an order of execution.

    ``stored`` are the values that lie in memory: parameters, large constants and the groups' outputs. Every other value
    outside a group is a *view*: its consumers compute its elements from stored ones.
    """

    function: Function
    groups: tuple[Group, ...]
    stored: frozenset[Value]
    #: The op that makes each value of the function.
    producers: Mapping[Value, Op]
    #: What has to be there before an op runs, beside its operands.
    waits: Mapping[Op, Sequence[Value]] = field(default_factory=dict[Op, Sequence[Value]])
    #: The sizes that were 1 in the first call and stretched: a hint, for which variants there are.
    ones: frozenset[Symbol] = frozenset()
    #: Whether conversions that are spread over larger arrays are computed where they are used (``conversions``).
    converts: bool = False

    def text(self) -> str:
        """The plan as people and golden files read it; ops are numbered as in the function's text."""
        numbers: dict[Value, str] = {}
        for value in self.function.params:
            numbers[value] = f"%{value.name or '?'}"
        for op in self.function.ops:
            for result in op.results:
                numbers[result] = f"%{len(numbers) - len(self.function.params)}"
        lines: list[str] = []
        for group in self.groups:
            space = ", ".join(str(d) for d in group.space)
            reduced = f" reduced {sorted(group.reduced)}" if group.reduced else ""
            lines.append(f"{group.kind.value} {group.name} [{space}]{reduced} {{")
            for op in (*group.recomputed, *group.ops):
                operands = ", ".join(numbers[v] for v in op.operands)
                mark = "  -> stored" if any(v in group.outputs for v in op.results[:1]) else ""
                mark += "  -> operand" if op in group.prologue else ""
                mark += "  computed again" if op in group.recomputed else ""
                mark += "  for each element" if op in group.inner else ""
                mark += "  of columns" if op in group.columns else ""
                names = ", ".join(numbers[v] for v in op.results)
                lines.append(f"  {f'{names} = ' if names else ''}{op.opdef.name}({operands}){mark}")
            for body in group.bodies:
                given = ", ".join(f"%{v.name or '?'}" for v in body.function.params)
                lines.append(f"  region({given}) {{")
                lines.extend(f"    {line}" for line in body.text().splitlines())
                lines.append("  }")
            lines.extend(f"  stored {numbers[v]}" for v in group.outputs if v not in group.members())
            lines.extend(f"  ends: {end}" for end in group.ends)
            lines.append("}")
        return "\n".join(lines) + "\n"
