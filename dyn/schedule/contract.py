"""CONTRACT groups as kernels: a contraction's axes brought to rows, columns and a reduced axis, and its epilogue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from dyn.ir.core import Value
from dyn.ir.opdef import OpKind
from dyn.ops.complex_parts import part_dtype
from dyn.ops.contract import free_axes
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import Axis, axis, collapse, flatten, fold_nest, index_of, nest, split
from dyn.schedule.elements import Elements, Index
from dyn.schedule.expressions import Rewriter, expr_dims, stmt_dims
from dyn.schedule.families import ContractVariant, Reach, contract_schedules
from dyn.schedule.kernel import Buffer, Digits, Expr, Fold, Load, Ref, Role, Stmt, TileContract
from dyn.schedule.launch import Condition, Launch, Variant, bind_kernel
from dyn.schedule.nests import permuted_stores
from dyn.schedule.target import Target
from dyn.shapes import free_symbols, linear_in, substitute
from dyn.stitch.groups import Group, Plan


def lower_contract(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a dot_general's group: a variant for each schedule that the target has for some row count."""
    return _DotLowering(plan, group, target).run()


@dataclass(frozen=True, slots=True)
class _Axes:
    """The loops of a contraction, and the index each gives to its operands and its result."""

    batch: list[Axis | None]
    rows: list[Axis | None]
    columns: list[Axis | None]
    reduced: list[Axis | None]


@dataclass(frozen=True, slots=True)
class Tiled:
    """A contraction in the form of a TileContract, before it is cut into tiles: both operands and the epilogue over a
    row, a column and a reduced axis, and the GRID loops around it."""

    row: Axis
    column: Axis
    reduced: Axis
    outer: list[Axis]
    lhs: Expr
    rhs: Expr
    stores: tuple[Stmt, ...]
    digits: tuple[Digits, ...] = ()


class TileLowering(ABC):
    """A contraction's group: its op, accumulators and epilogue, and tiles as the target's schedules have them."""

    def __init__(self, plan: Plan, group: Group, target: Target) -> None:
        self.plan, self.group, self.target = plan, group, target
        self.elements = Elements(plan, group)
        self.k = self.elements.k
        (self.op,) = (op for op in group.ops if op.opdef.kind is OpKind.CONTRACT)
        self.outputs = {v: Buffer("out", part_dtype(v.dtype)) for v in group.outputs}
        element = self.op.result.dtype
        self.wide = element.wide
        self.acc = Ref("acc", self.wide)

    @abstractmethod
    def run(self) -> Launch:
        """The launch."""

    def stores(self, accumulated: Expr, index: Index) -> tuple[Stmt, ...]:
        """The epilogue: every output at the index of an accumulated element."""
        result = self.k.cast(accumulated, self.op.result.dtype)
        self.elements.known[self.op.result] = lambda index: result
        outputs = self.group.outputs
        return tuple(s for v in outputs for s in permuted_stores(self.elements, self.outputs[v], v, index))

    def tiles(self, tiled: Tiled) -> Launch:
        """A variant for each schedule, chosen by the number of rows."""
        # What is packed by digits is packed once for many rows: a variant for a few of them would not pay.
        direct = not tiled.digits
        reach = Reach(
            lhs_reduced=self._contiguous(tiled.lhs, tiled.reduced, tiled.digits),
            rhs_columns=direct and self._contiguous(tiled.rhs, tiled.column, tiled.digits),
            rhs_reduced=direct and self._contiguous(tiled.rhs, tiled.reduced, tiled.digits),
        )
        schedules = contract_schedules(self.target, self.wide, reach, tiled.column.extent)
        variants: list[Variant] = []
        for schedule in schedules:
            condition = Condition(tiled.row.extent, schedule.min_rows, schedule.max_rows)
            decided = condition.decided(self.plan.function.facts)
            if decided is False:
                continue
            variants.append(self._variant(tiled, schedule, condition))
            if decided:
                break
        return self.launch(tuple(variants))

    def _contiguous(self, operand: Expr, along: Axis, digits: tuple[Digits, ...]) -> bool:
        """Whether an operand is read where it lies, with neighbours along an axis next to each other."""
        if not isinstance(operand, Load) or operand.bound or operand.mask is not None:
            return False
        parts = {part for d in digits for part, _ in d.parts}
        if not parts.isdisjoint(free_symbols(operand.index)):
            return False
        linear = linear_in(operand.index, along.var)
        return linear is not None and linear[0] == 1

    def _variant(self, tiled: Tiled, schedule: ContractVariant, condition: Condition) -> Variant:
        row_chunk, row_in, row_change = split(tiled.row, schedule.row_chunk)
        panel, column_in, column_change = split(tiled.column, schedule.col_panel)
        rewriter = Rewriter(lambda dim: substitute(dim, row_change | column_change))
        digits = tuple(Digits(rewriter.change(d.value), d.parts) for d in tiled.digits)
        contract = TileContract(
            row_in.var, column_in.var, tiled.reduced.var, row_in.extent, column_in.extent, tiled.reduced.extent,
            rewriter.expr(tiled.lhs), rewriter.expr(tiled.rhs), self.acc, rewriter.block(tiled.stores),
            schedule.tile, digits,
        )  # fmt: skip
        grid = [*tiled.outer, row_chunk, panel]
        body = nest(grid, [Role.GRID] * len(grid), (contract,))
        always = condition.decided(self.plan.function.facts)
        return bind_kernel(
            body, self.buffers(), (), name=self.group.name, condition=None if always else condition, note=schedule.note
        )

    def buffers(self) -> tuple[Buffer, ...]:
        return (*self.elements.inputs.values(), *self.outputs.values())

    def launch(self, variants: tuple[Variant, ...]) -> Launch:
        return Launch(self.group, (*self.elements.inputs, *self.outputs), variants)


class _DotLowering(TileLowering):
    """A dot_general: what does not merge into one row, column or reduced axis becomes a GRID loop."""

    def run(self) -> Launch:
        lhs, rhs, axes = self._operands()
        if not self._present(axes.rows) and not self._present(axes.columns):
            return self._dot(lhs, rhs, axes)
        stores = self.stores(self.acc, index_of([*axes.batch, *axes.rows, *axes.columns]))
        if not self._present(axes.columns):
            # A matrix times a vector: the vector is the row.
            lhs, rhs, axes = rhs, lhs, _Axes(axes.batch, axes.columns, axes.rows, axes.reduced)
        return self._tiles(lhs, rhs, stores, axes)

    def _operands(self) -> tuple[Expr, Expr, _Axes]:
        """Both operands' elements over fresh loop variables."""
        op = self.op
        left, right = op.operands
        lb, lc = op.attrs["lhs_batch"], op.attrs["lhs_contracting"]
        rb, rc = op.attrs["rhs_batch"], op.attrs["rhs_contracting"]
        lf, rf = free_axes(len(left.shape), lb, lc), free_axes(len(right.shape), rb, rc)
        axes = _Axes(
            self._loops("b", left, lb),
            self._loops("m", left, lf),
            self._loops("n", right, rf),
            self._loops("k", left, lc),
        )
        lhs = self.elements.at(left, _placed(left, (lb, axes.batch), (lf, axes.rows), (lc, axes.reduced)))
        rhs = self.elements.at(right, _placed(right, (rb, axes.batch), (rf, axes.columns), (rc, axes.reduced)))
        return self.k.cast(lhs, self.wide), self.k.cast(rhs, self.wide), axes

    def _loops(self, name: str, value: Value, which: Sequence[int]) -> list[Axis | None]:
        return [None if value.shape[a] == 1 else axis(f"{name}{a}", value.shape[a]) for a in which]

    def _present(self, axes: list[Axis | None]) -> list[Axis]:
        return [a for a in axes if a is not None]

    def _dot(self, lhs: Expr, rhs: Expr, axes: _Axes) -> Launch:
        """Vectors times vectors: a fold a batch."""
        value = self.k.apply(Scalar.MUL, [lhs, rhs], self.wide)
        reduced, change = collapse(self._present(axes.reduced) or [axis("k", 1)], expr_dims((value,)))
        value = Rewriter(lambda dim: substitute(dim, change)).expr(value)
        fold = Fold(self.acc, Scalar.ADD, self.k.const(self.wide, 0), value)
        done = fold_nest(reduced, Role.LANE, (), (fold,))
        batch = self._present(axes.batch)
        stores = self.stores(self.acc, index_of([*axes.batch, *axes.rows, *axes.columns]))
        body = nest(batch, [Role.GRID] * len(batch), (*done, *stores))
        return self.launch((bind_kernel(body, self.buffers(), (), name=self.group.name, note="dot"),))

    def _tiles(self, lhs: Expr, rhs: Expr, stores: tuple[Stmt, ...], axes: _Axes) -> Launch:
        """One row, column and reduced axis, the last two by division if need be."""
        inside = stmt_dims(stores)
        left, right = expr_dims((lhs,)), expr_dims((rhs,))
        reduced, change_k = collapse(self._present(axes.reduced), [*left, *right])
        if len(reduced) > 1:
            reduced, change = flatten(reduced)
            change_k = {s: substitute(d, change) for s, d in change_k.items()} | change
        rows, change_m = collapse(self._present(axes.rows), [*left, *inside])
        columns, change_n = collapse(self._present(axes.columns), [*right, *inside])
        change = change_k | change_m | change_n
        rewriter = Rewriter(lambda dim: substitute(dim, change))
        lhs, rhs, stores = rewriter.expr(lhs), rewriter.expr(rhs), rewriter.block(stores)
        row = rows[-1] if rows else axis("m", 1)
        column = columns[-1] if columns else axis("n", 1)
        red = reduced[-1] if reduced else axis("k", 1)
        outer = [*self._present(axes.batch), *rows[:-1], *columns[:-1]]
        return self.tiles(Tiled(row, column, red, outer, lhs, rhs, stores))


def _placed(value: Value, *parts: tuple[Sequence[int], list[Axis | None]]) -> Index:
    """An index of a value, from which loops go to which axes."""
    loops: list[Axis | None] = [None] * len(value.shape)
    for which, axes in parts:
        for position, a in zip(which, axes, strict=True):
            loops[position] = a
    return index_of(loops)
