"""LOOP, COPY and STITCH groups as kernels.

A stitched group computes in *passes* over its reduced axes. A reduction of something that needs no other reduction of
the group is folded in pass 0, one that needs a pass-0 result in pass 1, and so on; a full-size value is computed in the
first pass that has all it needs. In a later pass it is computed again when that is cheap, or was kept in scratch.
For softmax: pass 0 folds the maximum; pass 1 computes exp(x - max), keeps it and folds the sum; pass 2 divides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dyn import dtypes
from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind, Reduction
from dyn.lower.elements import Elements, Index
from dyn.lower.expressions import Rewriter, stmt_dims
from dyn.lower.kernel import Buffer, Expr, Fold, Load, Loop, Ref, Role, Space, Stmt, Store
from dyn.lower.launch import Launch, bind_kernel
from dyn.lower.nest import Axis, axis, collapse, fold_nest, index_of, linearize, nest, split
from dyn.lower.schedule import loop_schedule
from dyn.lower.target import Target
from dyn.ops.reduce import identity
from dyn.ops.scalar import Scalar
from dyn.shapes import Dim, Symbol, product, substitute
from dyn.stitch.access import Views, as_index, axis_symbols
from dyn.stitch.groups import Group, Plan

_HALVES = (dtypes.float16, dtypes.bfloat16)
#: Functions that cost tens of instructions: worth keeping a result for.
_HEAVY = frozenset(
    {Scalar.EXP, Scalar.EXPM1, Scalar.LOG, Scalar.LOG1P, Scalar.TANH, Scalar.LOGISTIC, Scalar.ERF, Scalar.POW,
     Scalar.SIN, Scalar.COS, Scalar.CBRT}
)  # fmt: skip
#: From this weight on, what an element costs to compute again outweighs a store and a load of scratch.
_KEEP = 3


def lower_loops(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a group without a contraction."""
    return _LoopLowering(plan, group, target).run()


@dataclass
class _Pass:
    """What one sweep over the reduced axes does."""

    reduces: list[Op] = field(default_factory=list[Op])
    stored: list[Value] = field(default_factory=list[Value])
    kept: list[Value] = field(default_factory=list[Value])


class _LoopLowering:
    def __init__(self, plan: Plan, group: Group, target: Target) -> None:
        self.plan = plan
        self.group = group
        self.target = target
        self.elements = Elements(plan, group)
        self.k = self.elements.k
        self.outputs = {v: Buffer("out", v.dtype) for v in group.outputs}
        self.scratch: dict[Value, Buffer] = {}
        self.level = self._levels()
        self.space = group.space
        self.reduced = sorted(group.reduced)
        self.kept_axes = [a for a in range(len(self.space)) if a not in group.reduced]
        self.axes: list[Axis | None] = [None] * len(self.space)
        for a in self.kept_axes:
            self.axes[a] = None if self.space[a] == 1 else axis(f"i{a}", self.space[a])

    # Levels and passes ----------------------------------------------------------------------------------------

    def _levels(self) -> dict[Value, int]:
        """The first pass in which each member is known: for a reduction's result, the one after its own."""
        levels: dict[Value, int] = {}
        views = Views(self.elements.producers, lambda v: v in self.elements.members)
        for op in self.group.ops:
            level = 0
            for operand in op.operands:
                level = max(level, levels.get(views.base(operand), 0))
            levels[op.result] = level + (op.opdef.kind is OpKind.REDUCE)
        return levels

    def is_full(self, value: Value) -> bool:
        """Whether a member spans the whole space, not just its kept axes."""
        if not self.reduced:
            return True
        op = self.elements.members[value]
        if op.opdef.kind is OpKind.REDUCE or len(value.shape) != len(self.space):
            return False
        return all(value.shape[a] == self.space[a] for a in self.reduced) or op.opdef.kind is OpKind.VIEW

    def passes(self) -> list[_Pass]:
        count = max(self.level.values(), default=0) + 1
        passes = [_Pass() for _ in range(count)]
        for op in self.group.ops:
            if op.opdef.kind is OpKind.REDUCE:
                passes[self.level[op.result] - 1].reduces.append(op)
        for value in self.group.outputs:
            if self.is_full(value):
                passes[self.level[value]].stored.append(value)
        return passes

    def _needed(self, targets: list[Value]) -> dict[Value, list[Op]]:
        """The full-size members that some values are computed from in one pass, each with the ops that ask for it."""
        views = Views(self.elements.producers, lambda v: v in self.elements.members)
        needed: dict[Value, list[Op]] = {v: [] for v in targets}
        stack = list(targets)
        while stack:
            op = self.elements.members[stack.pop()]
            for operand in op.operands:
                base = views.base(operand)
                if base in self.elements.members and self.is_full(base):
                    if base not in needed:
                        needed[base] = []
                        stack.append(base)
                    needed[base].append(op)
        return needed

    def _choose_kept(self, passes: list[_Pass]) -> None:
        """Decide what a pass keeps in scratch for later ones."""
        views = Views(self.elements.producers, lambda v: v in self.elements.members)
        weight: dict[Value, int] = {}
        for op in self.group.ops:
            own = 0
            for operand in dict.fromkeys(views.base(v) for v in op.operands):
                own += weight.get(operand, 1 if operand.shape else 0)
            if op.opdef.kind is OpKind.INDEXED:
                own += 2
            weight[op.result] = own + (4 if self._is_heavy(op) else 0)
        for number, sweep in enumerate(passes):
            targets = [v for v in sweep.stored]
            targets += [b for op in sweep.reduces for b in [views.base(op.operands[0])] if b in self.elements.members]
            targets = [v for v in targets if self.is_full(v)]
            for value, askers in self._needed(targets).items():
                early = self.level[value] < number
                frontier = any(self.level[op.result] >= number for op in askers) or value in targets
                if early and frontier and weight[value] >= _KEEP and value not in self.scratch:
                    size = product(self.space[a] for a in self.reduced)
                    self.scratch[value] = Buffer("row", value.dtype, Space.SCRATCH, size)
                    passes[self.level[value]].kept.append(value)

    def _is_heavy(self, op: Op) -> bool:
        if op.opdef.kind is not OpKind.POINTWISE:
            return False
        probe = _Probe()
        op.opdef.loops.at(probe, op, as_index(axis_symbols(op.result.shape)), lambda i, index, *rest: op.operands[i])
        return bool(probe.functions & _HEAVY)

    # Code -----------------------------------------------------------------------------------------------------

    def run(self) -> Launch:
        if not self.reduced:
            body = self._loop()
        elif self.reduced[-1] == len(self.space) - 1:
            body = self._rows()
        else:
            body = self._columns()
        inputs = self.elements.inputs
        buffers = (*inputs.values(), *self.outputs.values())
        used = tuple(self.scratch.values())
        variant = bind_kernel(
            body, buffers, used, name=self.group.name, note=f"{self.group.kind.value} {self.group.name}"
        )
        return Launch(self.group, (*inputs, *self.outputs), (variant,))

    def _store(self, value: Value, index: Index) -> Store:
        return permuted_store(self.elements, self.outputs[value], value, index)

    def _loop(self) -> tuple[Stmt, ...]:
        index = index_of(self.axes)
        self.elements.warm(self.group.ops, index)
        body: tuple[Stmt, ...] = tuple(self._store(v, index) for v in self.group.outputs)
        axes, change = collapse([a for a in self.axes if a is not None], stmt_dims(body))
        body = _substituted(body, change)
        if not axes:
            return body
        if len(axes) == 1:
            outer, inner, change = split(axes[0], loop_schedule(self.target).elements)
            return nest([outer, inner], [Role.GRID, Role.LANE], _substituted(body, change))
        return nest(axes, [Role.GRID] * (len(axes) - 1) + [Role.LANE], body)

    def _rows(self) -> tuple[Stmt, ...]:
        """The last axis is reduced: a GRID iteration a row, lanes along it."""
        passes = self.passes()
        self._choose_kept(passes)
        body = [stmt for sweep in passes for stmt in self._sweep(sweep, Role.LANE)]
        body += self._row_stores()
        grid, change = collapse([a for a in self.axes if a is not None], stmt_dims(tuple(body)))
        return nest(grid, [Role.GRID] * len(grid), _substituted(tuple(body), change))

    def _columns(self) -> tuple[Stmt, ...]:
        """The last axis is kept: lanes along it, each sweeping the reduced axes."""
        last = self.axes[-1] or axis("i", 1)
        body: list[Stmt] = []
        for sweep in self.passes():
            body += self._sweep(sweep, Role.SERIAL)
        body += self._row_stores()
        outer, inner, change = split(last, loop_schedule(self.target).columns)
        stmts = _substituted(tuple(body), change)
        grid = [a for a in self.axes[:-1] if a is not None]
        return nest([*grid, outer, inner], [Role.GRID] * (len(grid) + 1) + [Role.LANE], stmts)

    def _sweep(self, sweep: _Pass, inner: Role) -> list[Stmt]:
        """One pass over the reduced axes."""
        if not (sweep.reduces or sweep.stored or sweep.kept):
            return []
        own: dict[int, Axis | None] = {}
        for a in self.reduced:
            own[a] = None if self.space[a] == 1 else axis(f"r{a}", self.space[a])
        loops = [own.get(a, self.axes[a]) for a in range(len(self.space))]
        index = index_of(loops)
        place = linearize(tuple(index[a] for a in self.reduced), tuple(self.space[a] for a in self.reduced))
        stmts: list[Stmt] = [Store(self.scratch[v], place, self.elements.at(v, index)) for v in sweep.kept]
        stmts += [self._store(v, index) for v in sweep.stored]
        folds: list[Fold] = []
        for op in sweep.reduces:
            folds.append(self._fold(op, index))
        for value in sweep.kept:
            self.elements.known[value] = self._from_scratch(self.scratch[value])
        dims = stmt_dims((*stmts, Loop(inner, axis("x", 1).var, 1, (), tuple(folds))))
        axes, change = collapse([a for a in own.values() if a is not None] or [axis("r", 1)], dims)
        rewriter = _substituter(change)
        body = rewriter.block(tuple(stmts))
        folded = tuple(Fold(f.ref, f.combine, f.init, rewriter.expr(f.value)) for f in folds)
        done, outer = fold_nest(axes, inner, body, folded)
        for op, fold in zip(sweep.reduces, outer, strict=True):
            result = self.k.cast(fold.ref, op.result.dtype)
            self.elements.known[op.result] = _constantly(result)
        return list(done)

    def _fold(self, op: Op, index: Index) -> Fold:
        value = self.elements.at(op.operands[0], index)
        wide = dtypes.float32 if value.dtype in _HALVES else value.dtype
        loops = op.opdef.loops
        assert isinstance(loops, Reduction)
        init = self.k.const(wide, identity(op.attrs["combine"], wide))
        return Fold(Ref("acc", wide), loops.combine(op.attrs), init, self.k.cast(value, wide))

    def _from_scratch(self, buffer: Buffer) -> Callable[[Index], Expr]:
        def read(index: Index) -> Expr:
            shape = tuple(self.space[a] for a in self.reduced)
            return Load(buffer, linearize(tuple(index[a] for a in self.reduced), shape))

        return read

    def _row_stores(self) -> list[Stmt]:
        """Row values that are outputs, once all passes are done."""
        stores: list[Stmt] = []
        for value in self.group.outputs:
            if self.is_full(value):
                continue
            kept = index_of([self.axes[a] for a in self.kept_axes])
            if len(value.shape) != len(kept):
                kept = index_of([self.axes[a] if a in self.kept_axes else None for a in range(len(self.space))])
            stores.append(Store(self.outputs[value], linearize(kept, value.shape), self.elements.at(value, kept)))
        return stores


def permuted_store(elements: Elements, buffer: Buffer, value: Value, index: Index) -> Store:
    """Store a full-size member, or a view that permutes one, at an index of the group's space."""
    op = elements.members[value]
    if op.opdef.kind is not OpKind.VIEW or elements.group.ops == (op,):
        return Store(buffer, linearize(index, value.shape), elements.at(value, index))
    symbols = axis_symbols(value.shape)
    views = Views(elements.producers, lambda v: v in elements.members and v is not value)
    base, at = views.chain(value, as_index(symbols))
    places = {dim: index[position] for position, dim in enumerate(at)}
    own = tuple(places.get(variable, 0) for variable in as_index(symbols))
    return Store(buffer, linearize(own, value.shape), elements.at(base, index))


class _Probe:
    """A ScalarBuilder that only remembers which functions a rule applies."""

    def __init__(self) -> None:
        self.functions: set[Scalar] = set()

    def apply(self, fn: Scalar, args: object, dtype: object) -> None:
        self.functions.add(fn)

    def const(self, *args: object) -> None: ...

    def index(self, *args: object) -> None: ...

    def bind(self, value: object) -> Dim:
        return 0


def _constantly(expr: Expr) -> Callable[[Index], Expr]:
    return lambda index: expr


def _substituter(change: dict[Symbol, Dim]) -> Rewriter:
    return Rewriter((lambda dim: substitute(dim, change)) if change else (lambda dim: dim))


def _substituted(body: tuple[Stmt, ...], change: dict[Symbol, Dim]) -> tuple[Stmt, ...]:
    return _substituter(change).block(body) if change else body
