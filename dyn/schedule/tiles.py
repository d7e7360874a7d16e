"""The loops of a contraction with a row, a column and a contracted axis, and their forms in tiles."""

from __future__ import annotations

from dyn.dtypes import DType
from dyn.ops.shape import is_stretch_factor
from dyn.schedule.axes import Axis, axis
from dyn.schedule.families import contract_schedules
from dyn.schedule.kernel import Expr, Load
from dyn.schedule.kernel_walks import walk_exprs
from dyn.schedule.launch import Condition
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Contraction, Nest
from dyn.schedule.panels import columns_of_panels, computed_in_panels, panels_in
from dyn.schedule.products import Product
from dyn.schedule.sizes import ContractVariant, Reach
from dyn.schedule.specialized_kernels import Schedule, SpecializedKernel
from dyn.schedule.strided import own_digits
from dyn.schedule.target import Target
from dyn.shapes import Symbol, dim_min, free_symbols, linear_in, product
from dyn.shapes.expr import content


def contraction_of(nest: Nest) -> Contraction:
    """The contraction of a nest's first stage."""
    found = nest.stages[0].contraction
    assert found is not None
    return found


class Sides:
    """The loops of a contraction with one row, one column and one contracted axis, the first two last among those
    shared.

    What does not fuse stays outside, or else (``flat``) becomes one axis by division: the places of an image are few
    along each of its axes.
    """

    def __init__(self, loops: Loops, *, flat: bool = False) -> None:
        self.loops = loops
        contraction, (first, *_) = contraction_of(loops.nest), loops.phases
        contracted = first.product
        assert contracted is not None
        rows, columns = contraction.rows, contraction.columns
        if not columns:
            # A matrix times a vector: the vector is the row.
            rows, columns = columns, rows
        rest = [a for a in loops.shared if a not in (*rows, *columns)]
        if flat:  # what both operands go along, which are groups, outermost
            both = contracted.symbols(contracted.lhs) & contracted.symbols(contracted.rhs)
            rest.sort(key=lambda a: a.var not in both)
        loops.reorder([*rest, *rows, *columns])
        if flat:
            sides = [[loops.flatten(rows)] if rows else []]
            loops.flatten(first.axes, first)
            sides.append([loops.flatten(columns)] if columns else [])
        else:
            reduced = loops.fuse(first.axes, first)
            loops.flatten(reduced, first)
            sides = [loops.fuse(rows), loops.fuse(columns)]
        (*outer_rows, self.row), (*outer_columns, self.column) = [
            own or [self._single(name)] for own, name in zip(sides, "mn", strict=True)
        ]
        loops.reorder([*rest, *outer_rows, *outer_columns, self.row, self.column])

    @property
    def reduced(self) -> Axis:
        """The contracted axis."""
        return self.loops.phases[0].axes[0]

    @property
    def dtype(self) -> DType:
        """The dtype of the sums."""
        return self.loops.phases[0].folds[0].refs[0].dtype

    def reads_panels(self) -> bool:
        """Whether what the right operand is, or is computed of, lies in panels."""
        operands = self.loops.operands(self.row, self.column)
        return any(columns_of_panels(one, self.column.var) for one in walk_exprs((operands.rhs,)))

    def _single(self, name: str) -> Axis:
        """A shared axis of one iteration."""
        self.loops.shared.append(axis(name, 1))
        return self.loops.shared[-1]


def tile_forms(sides: Sides, target: Target) -> list[SpecializedKernel]:
    """A form for each tile that the target has for some number of rows; the last one is right for any."""
    loops, operands = sides.loops, sides.loops.operands(sides.row, sides.column)
    # What is packed by digits is packed once for many rows. A form for a few of them pays where these digits are of the
    # steps of a right operand that is computed: it is multiplied in runs of the last one.
    direct, red = not operands.digits, sides.reduced.var
    runs = direct or _has_runs(operands, red)
    panels = computed_in_panels(operands.rhs, sides.column.var, red if direct else None) if runs else None
    reach = Reach(
        operands.lhs.dtype,
        operands.rhs.dtype,
        lhs_reduced=_contiguous(operands, operands.lhs, sides.reduced, sides.row),
        rhs_columns=direct and _contiguous(operands, operands.rhs, sides.column, sides.reduced),
        rhs_computed=(_computed_along(operands, sides.column) if panels is None else panels[1]) if runs else None,
        computed_panels=0 if panels is None else panels[0],
        rhs_panels=panels_in(operands.rhs, sides.column.var, sides.reduced.var) if direct else None,
        panel_columns=0 if direct else columns_of_panels(operands.rhs, sides.column.var),
        reduced_factor=content(sides.reduced.extent),
        whole=direct,
        rhs_reduced=direct and _contiguous(operands, operands.rhs, sides.reduced, sides.column),
    )
    facts, forms = loops.nest.plan.function.facts, list[SpecializedKernel]()
    for variant in contract_schedules(target, sides.dtype, reach, sides.row.extent, sides.column.extent):
        condition = Condition(sides.row.extent, variant.min_rows, variant.max_rows)
        if variant.max_cols is not None:
            # Scores of attention have as many columns as rows: few of either are few rows.
            same = sides.row.extent == sides.column.extent and variant.min_rows > variant.max_cols
            if same or not direct or condition.decided(facts) is False:
                continue
            condition = Condition(sides.column.extent, 0, variant.max_cols)
        elif variant.max_results is not None:
            results = product(a.extent for a in loops.shared)
            condition = Condition(dim_min(sides.row.extent - variant.min_rows, variant.max_results - results), 0, None)
        decided = condition.decided(facts)
        if decided is not False:
            schedule = in_tiles(variant, sides.row, sides.column)
            forms.append(
                SpecializedKernel(variant.note, condition, loops.fork, schedule, same_order=variant.adds_alike)
            )
        if decided:
            break
    return forms


def in_tiles(variant: ContractVariant, row: Axis, column: Axis) -> Schedule:
    """A GRID iteration as many rows and columns as the variant wants, in its tiles."""

    def schedule(loops: Loops) -> None:
        chunk, rows = loops.split(row, variant.row_chunk)
        panel, columns = loops.split(column, variant.col_panel)
        loops.reorder([*loops.shared[:-4], chunk, panel, rows, columns])
        if variant.in_panel:
            loops.confine(columns, variant.col_panel)
        if variant.merges_chunks and panel.extent != 1:
            columns = loops.merge_chunks(panel, columns, column, variant.col_panel)
        loops.tensorise(rows, columns, variant.tile)

    return schedule


def _has_runs(operands: Product, red: Symbol) -> bool:
    """Whether the steps of a right operand are all that is written in digits."""
    own = [own_digits(operands.lhs, symbol, operands.digits) for symbol in operands.symbols(operands.lhs)]
    return not any(own) and all(red in free_symbols(digits.value) for digits in operands.digits)


def _contiguous(operands: Product, operand: Expr, along: Axis, other: Axis) -> bool:
    """Whether an operand is read where it lies, with neighbours along an axis next to each other, and those along its
    other one in equal distances."""
    if not isinstance(operand, Load) or operand.bound or operand.mask is not None:
        return False
    parts = {part for d in operands.digits for part, _ in d.parts}
    if not parts.isdisjoint(free_symbols(operand.index)):
        return False
    linear = linear_in(operand.index, along.var)
    return linear is not None and linear[0] == 1 and linear_in(linear[1], other.var) is not None


def _computed_along(operands: Product, column: Axis) -> DType | None:
    """The narrowest dtype that the right operand is computed from, where all of its loads are of neighbours along the
    columns, or of the same element for all of them, or of either along an axis that may be stretched."""
    found: list[DType] = []
    if isinstance(operands.rhs, Load):
        return None
    for load in [e for e in walk_exprs((operands.rhs,)) if isinstance(e, Load)]:
        linear = linear_in(load.index, column.var)
        if load.bound or linear is None or not (linear[0] in (0, 1) or is_stretch_factor(linear[0])):
            return None
        found += [load.dtype] if linear[0] != 0 else []
    return min(found, key=lambda dtype: dtype.itemsize, default=None)
