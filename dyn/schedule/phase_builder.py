"""Makes phases of a nest's stages: the code of each, with what the stages in front of it have computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace

from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.ir.opdef import ReductionLoops
from dyn.ops.complex_parts import part_dtype
from dyn.ops.scalar import Scalar
from dyn.schedule.accumulation import start_of
from dyn.schedule.axes import Axis, axis, fold_nest, linearize
from dyn.schedule.elements import ElementReader, Index, constantly
from dyn.schedule.kernel import Buffer, Carry, Expr, Fold, Ref, Role, Space, Stmt, Store, scalar_fold
from dyn.schedule.nest import Nest, Reduction, Stage
from dyn.schedule.phases import Phase
from dyn.schedule.products import Product
from dyn.shapes import Dim, Symbol, as_dim, product, substitute

#: A temporary, and the place in it of the element at an index.
Memory = tuple[Value, Callable[[Index], Dim]]


@record(eq=False)
class Folded:
    """A reduction whose state an earlier launch has left in temporaries: ``place`` is where this iteration's is."""

    reduction: Reduction
    state: tuple[Value, ...]
    place: Dim


class PhaseBuilder:
    """Phases of one kernel, the memory that they read and write, and what they keep in scratch."""

    def __init__(
        self, nest: Nest, elements: ElementReader, equal: Mapping[Symbol, Dim], loaded: Mapping[Value, Memory],
        folded: Sequence[Folded],
    ) -> None:  # fmt: skip
        self.nest, self.elements, self._equal = nest, elements, equal
        for value, (memory, place) in loaded.items():
            elements.known[value] = self._from_memory(value, memory, place)
        for each in folded:
            for number, value in enumerate(each.reduction.results):
                elements.known[value] = self._from_state(each, number)
        elements.folded = self._folded_inside
        #: The loops that compute elements of the phase at hand, in order.
        self._inside: list[Stmt] = []
        self.outputs: dict[Value, Buffer] = {}
        self.scratch: dict[Value, Buffer] = {}

    def fork(self) -> PhaseBuilder:
        """A builder that goes on by itself from here."""
        other = copy(self)
        other.outputs, other.scratch = dict(self.outputs), dict(self.scratch)
        return other

    def phase(self, stage: Stage, kept: Sequence[Value] = ()) -> Phase:
        """A stage's code, with values of the group's space that it keeps in scratch for those after it."""
        elements, known, k = self.elements, self.elements.known, self.elements.k
        carries: list[Carry] = []
        for scan in stage.scans:
            element, state = scan.element(elements), Ref("state", scan.start.dtype)
            value = k.apply(scan.combine, [state, element], state.dtype)
            first = k.const(state.dtype, scan.start.value) if scan.first is None else scan.first(elements)
            carry = Carry(Ref("last", state.dtype), state, first, value)
            known[scan.result] = constantly(k.cast(value, scan.result.dtype))
            if scan.last is not None:
                known[scan.last] = constantly(carry.ref)
            carries.append(carry)
        body: list[Stmt] = []
        for value in kept:
            self.scratch[value] = Buffer("row", value.dtype, Space.SCRATCH, product(a.extent for a in stage.axes))
            body.append(Store(self.scratch[value], self._place(stage.index), elements.at(value, stage.index)))
        body += [
            s for write in stage.writes for s in write.statements(elements, self._written(write.output, write.whole))
        ]
        contracted, operands = self._contracted(stage)
        folds = (*contracted, *[reduction.fold(elements) for reduction in stage.reductions])
        for ordered in stage.ordered:
            made = ordered.carries(elements)
            known.update((v, constantly(carry.ref)) for v, carry in zip(ordered.results, made, strict=True))
            carries += made
        known.update((value, self._from_scratch(self.scratch[value])) for value in kept)
        for reduction, fold in zip(stage.reductions, folds[len(contracted) :], strict=True):
            finished = reduction.finish(elements, fold.refs)
            known.update((v, constantly(e)) for v, e in zip(reduction.results, finished, strict=True))
        if self._inside:
            body, self._inside = [*self._inside, *body], []
            elements.forget()
        axes = [self.sized(a, stage.lengths.get(a.var)) for a in stage.axes]
        scan = stage.scans[0] if len(stage.scans) == 1 and not stage.ordered else None
        phase = Phase(axes, tuple(body), folds, tuple(carries), scan=scan, product=operands)
        if phase.folds_floats():
            phase.order = self.nest.order
        return phase

    def _folded_inside(self, op: Op, index: Index) -> Expr:
        """An element of a reduction, folded one by one by a loop in front of what reads it."""
        elements, loops = self.elements, op.opdef.loops
        assert isinstance(loops, ReductionLoops)
        shape = op.operands[0].shape
        axes = {a: axis(f"k{a}", substitute(shape[a], self._equal)) for a in op.attrs["axes"]}
        kept = iter(index)
        at = tuple([as_dim(axes[a].var) if a in axes else next(kept) for a in range(len(shape))])
        around, self._inside = self._inside, []
        start = start_of(op)
        value = elements.k.cast(elements.at(op.operands[0], at), start.dtype)
        fold = scalar_fold(Ref("each", start.dtype), loops.combine(op.attrs), start, value)
        body, self._inside = tuple(self._inside), around
        self._inside += fold_nest(list(axes.values()), Role.SERIAL, body, (fold,))
        return elements.k.cast(fold.refs[0], op.result.dtype)

    def sized(self, a: Axis, length: Callable[[ElementReader], Dim] | None = None) -> Axis:
        """An axis, with sizes by those that they are equal to, or as long as its ``length`` is computed to be."""
        if length is None:
            return replace(a, extent=substitute(a.extent, self._equal))
        extent = length(self.elements)
        return replace(a, extent=extent, bound=self.elements.k.bindings(extent))

    def _contracted(self, stage: Stage) -> tuple[tuple[Fold, ...], Product | None]:
        """The sum of products of a stage that contracts, and its operands."""
        contraction, k = stage.contraction, self.elements.k
        if contraction is None:
            return (), None
        lhs, rhs = contraction.operands(self.elements)
        wide = lhs.dtype
        acc = Ref("acc", wide)
        self.elements.known[contraction.result] = constantly(k.cast(acc, contraction.result.dtype))
        fold = scalar_fold(acc, Scalar.ADD, k.const(wide, 0), k.apply(Scalar.MUL, [lhs, rhs], wide))
        return (fold,), Product(lhs, rhs)

    def _place(self, index: Index) -> Dim:
        """Place in scratch of what is kept at an index of the group's space: those along the reduced axes are there."""
        reduced, space = sorted(self.nest.group.reduced), self.nest.group.space
        return linearize(tuple(index[a] for a in reduced), tuple(space[a] for a in reduced))

    def _written(self, value: Value, whole: Dim) -> Buffer:
        """The buffer of an output of the group, or of memory that it hands on to a later launch."""
        if value not in self.nest.group.outputs:
            return self.elements.temporary(value)
        return self.outputs.setdefault(value, Buffer("out", part_dtype(value.dtype), size=whole))

    def _from_memory(self, value: Value, memory: Value, place: Callable[[Index], Dim]) -> Callable[[Index], Expr]:
        k = self.elements.k
        return lambda index: k.cast(k.load(self.elements.temporary(memory), place(index)), value.dtype)

    def _from_state(self, folded: Folded, number: int) -> Callable[[Index], Expr]:
        def result(index: Index) -> Expr:
            elements, place = self.elements, folded.place
            state = tuple(elements.k.load(elements.temporary(value), place) for value in folded.state)
            return folded.reduction.finish(elements, state)[number]

        return result

    def _from_scratch(self, buffer: Buffer) -> Callable[[Index], Expr]:
        return lambda index: self.elements.k.load(buffer, self._place(index))

    def buffers(self) -> dict[Value, Buffer]:
        """The memory that the kernel reads and writes."""
        outputs = {v: self.outputs[v] for v in self.nest.group.outputs if v in self.outputs}
        return {**self.elements.inputs, **self.elements.temporaries, **outputs}
