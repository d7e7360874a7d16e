"""The picture's content: a box for each kernel, parameter and result, and who reads what. No geometry."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from dyn.explain.fold import KernelStep, Repetition, StepOutput, best_order
from dyn.explain.report import group_row, saved_bytes
from dyn.explain.words import COLUMNS
from dyn.frozen import record
from dyn.ir.builder import buffer_of
from dyn.ir.core import Function, Op, Value, attrs_key
from dyn.ir.opdef import OpKind
from dyn.pipeline import Optimized
from dyn.schedule.launch import Launch, by_group, general_launches
from dyn.shapes import format_dim

#: With more parameters than this, those that one kernel reads alone are rows of its box.
_MOST_PARAMETER_BOXES = 8


@record()
class BoxLine:
    """A line in a box: what is done, and its type. ``role`` is ``"op"``, ``"stored"``, ``"reads"`` or ``"more"``."""

    left: str
    right: str
    role: str = "op"


@record()
class Box:
    """A kernel, a parameter or a result. ``outputs`` are the types of the arrays that leave it."""

    kind: str
    title: str
    subtitle: str
    rows: tuple[BoxLine, ...]
    outputs: tuple[str, ...]
    tooltip: str


@record()
class Arrow:
    """Box ``head`` reads output ``output`` of box ``tail``, through views named in ``views``."""

    tail: int
    output: int
    head: int
    views: str = ""


@record()
class Layers:
    """Boxes that stand for ``count`` repetitions, and what each repetition hands to the next."""

    boxes: range
    count: int
    back: tuple[Arrow, ...]


@dataclass(eq=False)
class BoxGraph:
    """Boxes in an order in which every arrow but those of ``Layers.back`` goes from an earlier to a later one."""

    boxes: list[Box] = field(default_factory=list[Box])
    arrows: dict[Arrow, None] = field(default_factory=dict[Arrow, None])
    layers: list[Layers] = field(default_factory=list[Layers])


def make_graph(optimized: Optimized) -> BoxGraph:
    """The graph of a program, its repeated layers folded."""
    return _GraphBuilder(optimized).make()


class _GraphBuilder:
    def __init__(self, optimized: Optimized) -> None:
        self.function: Function = optimized.function
        self.plan = optimized.plan
        self.launches: Sequence[Launch] = by_group(tuple(general_launches(optimized.launches)))
        self.graph = BoxGraph()
        #: The box and output that hold each stored value.
        self.home: dict[Value, tuple[int, int]] = {}
        self.constants = frozenset([op.result for op in self.function.ops if buffer_of(op) is not None])
        self.rows = self._row_parameters() | self.constants
        self.folds = {fold.start: fold for fold in self._reorder()}

    def _made(self) -> dict[Value, StepOutput]:
        """The kernel that makes each stored value, in the order of ``launches``."""
        return {
            v: StepOutput(i, k) for i, launch in enumerate(self.launches) for k, v in enumerate(launch.group.outputs)
        }

    def make(self) -> BoxGraph:
        for param, info in zip(self.function.params, self.function.infos, strict=True):
            if param not in self.rows:
                box = Box("parameter", info.name, "", (), (param.type.text(),), f"parameter {info.name}")
                self.home[param] = self._box(box), 0
        number = 0
        while number < len(self.launches):
            fold = self.folds.get(number)
            self._kernels(range(number, number + (fold.period if fold else 1)))
            if fold is not None:
                self._fold(fold)
            number = fold.stop if fold else number + 1
        self._results()
        return self.graph

    def _box(self, box: Box) -> int:
        self.graph.boxes.append(box)
        return len(self.graph.boxes) - 1

    # Parameters -----------------------------------------------------------------------------------------------

    def _row_parameters(self) -> frozenset[Value]:
        """Parameters that are rows of their readers' boxes: captured arrays, and weights where there are many."""
        infos = zip(self.function.params, self.function.infos, strict=True)
        hidden = {param for param, info in infos if info.hidden}
        if len(self.function.params) - len(hidden) <= _MOST_PARAMETER_BOXES:
            return frozenset(hidden)
        readers = {p: sum(p in launch.buffers for launch in self.launches) for p in self.function.params}
        shown = {self._base(value) for value in self.function.results}
        few = {p for p, count in readers.items() if count <= 1 and p not in shown}
        return frozenset(hidden | few)

    def _base(self, value: Value) -> Value:
        """The stored value that a value is a view of."""
        while value not in self.plan.stored:
            value = self.plan.producers[value].operands[0]
        return value

    # Kernels --------------------------------------------------------------------------------------------------

    def _kernels(self, numbers: range) -> None:
        for number in numbers:
            launch = self.launches[number]
            box = self._box(self._kernel(launch))
            self._arrows(launch, box)
            for output, value in enumerate(launch.group.outputs):
                self.home[value] = box, output

    def _kernel(self, launch: Launch) -> Box:
        group, row = launch.group, group_row(launch)
        names = {p: info.name for p, info in zip(self.function.params, self.function.infos, strict=True)}
        names.update(dict.fromkeys(self.constants, "a constant"))
        reads = [v for v in launch.buffers if v in self.rows]
        rows = [BoxLine(f"reads {names[v]}", v.type.text(), "reads") for v in reads]
        stored = frozenset(group.outputs)
        for op in group.ops:
            for number, result in enumerate(op.results):
                role = "stored" if result in stored else "op"
                rows.append(BoxLine(_op_text(op) if number == 0 else "", result.type.text(), role))
        over = f" over {'axis' if len(row.reduced) == 1 else 'axes'} {', '.join(map(str, row.reduced))}"
        over += COLUMNS if row.columns else ""
        saved = f"saves {format_dim(saved_bytes(group))} bytes" if row.saved else ""
        tooltip = "\n".join([f"{row.kind} {row.name}", *row.lines, *[f"ends: {end}" for end in row.ends], saved])
        subtitle = f"{row.space}{over if row.reduced else ''}"
        outputs = tuple(v.type.text() for v in group.outputs)
        return Box(row.kind, group.name, subtitle, tuple(rows), outputs, tooltip.rstrip())

    def _arrows(self, launch: Launch, head: int) -> None:
        made = launch.group.members() | frozenset(launch.group.outputs)
        views = self._views(launch)
        for value in launch.buffers:
            if value not in self.rows and value not in made:
                tail, output = self.home[value]
                self.graph.arrows[Arrow(tail, output, head, views.get(value, ""))] = None

    def _views(self, launch: Launch) -> dict[Value, str]:
        """The views through which a kernel reads each stored value."""
        members = launch.group.members()
        found: dict[Value, str] = {}
        for op in launch.group.ops:
            for operand in op.operands:
                names: list[str] = []
                value = operand
                while value not in self.plan.stored and value not in members:
                    inner = self.plan.producers[value]
                    if inner.opdef.kind is not OpKind.VIEW:
                        break
                    names.append(inner.opdef.name)
                    value = inner.operands[0]
                if names and value in self.plan.stored:
                    found.setdefault(value, ", ".join(reversed(names)))
        return found

    # Layers ---------------------------------------------------------------------------------------------------

    def _reorder(self) -> list[Repetition]:
        """Take the kernels in the order in which most layers are found, and give those."""
        made = self._made()
        steps = [self._step(launch, made) for launch in self.launches]
        shown = frozenset(made[base].step for base in map(self._base, self.function.results) if base in made)
        order, folds = best_order(steps, shown)
        self.launches = [self.launches[number] for number in order]
        return folds

    def _step(self, launch: Launch, made: dict[Value, StepOutput]) -> KernelStep:
        outputs = frozenset(launch.group.outputs)
        label = (
            launch.group.kind, launch.group.space, launch.group.reduced,
            tuple((op.opdef.name, attrs_key(op.attrs)) for op in launch.group.ops),
            tuple(id(variant.kernel) for variant in launch.variants),
        )  # fmt: skip
        sources = [made.get(value) or self._given(value) for value in launch.buffers if value not in outputs]
        return KernelStep(label, tuple(sources))

    def _given(self, value: Value) -> Hashable:
        return ("weight", value.dtype, value.shape) if value in self.rows else ("parameter", value)

    def _fold(self, fold: Repetition) -> None:
        """Let the first repetition, which was just drawn, stand for all."""
        count = len(self.graph.boxes)
        boxes = range(count - fold.period, count)
        last = fold.stop - fold.period
        for place in range(fold.period):
            for output, value in enumerate(self.launches[last + place].group.outputs):
                self.home[value] = boxes[place], output
        back: dict[Arrow, None] = {}
        second = fold.start + fold.period
        made = self._made()
        for place in range(fold.period):
            for value in self.launches[second + place].buffers:
                step, output = made.get(value, (-1, 0))
                if fold.start <= step < second:
                    back[Arrow(boxes[step - fold.start], output, boxes[place])] = None
        self.graph.layers.append(Layers(boxes, fold.count, tuple(back)))

    # Results --------------------------------------------------------------------------------------------------

    def _results(self) -> None:
        names = self.function.result_names
        for number, value in enumerate(self.function.results):
            name = names[number] if number < len(names) else f"result {number}"
            tail, output = self.home[self._base(value)]
            box = self._box(Box("result", name, value.type.text(), (), (), f"result {name}"))
            self.graph.arrows[Arrow(tail, output, box)] = None


def _op_text(op: Op) -> str:
    """An op with the attributes that are words: ``reduce maximum``."""
    words = [value for _, value in sorted(op.attrs.items()) if isinstance(value, str)]
    return " ".join([op.opdef.name, *words])
