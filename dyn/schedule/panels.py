"""Right operands that lie in panels (``dyn.ops.panels``), seen by their indices."""

from __future__ import annotations

import itertools

from dyn.dtypes import DType
from dyn.schedule.axes import confined, quotient_by
from dyn.schedule.kernel import Expr, Load
from dyn.schedule.kernel_walks import walk_exprs
from dyn.shapes import Dim, Symbol, as_dim, linear_in, substitute, symbol


def panels_in(operand: Expr, column: Symbol, red: Symbol, width: int | None = None) -> tuple[int, int] | None:
    """The columns of a panel and the rows of a step of a right operand that lies in panels, over variables of its
    columns and rows; else None. With a ``width`` the column is one of a single panel."""
    if not isinstance(operand, Load) or operand.bound or operand.mask is not None:
        return None
    index = operand.index
    atoms = () if isinstance(index, int) else index.atoms
    widths = {size for atom in atoms if (size := quotient_by(atom, column)) is not None} if width is None else {width}
    groups = {size for atom in atoms if (size := quotient_by(atom, red)) is not None}
    for columns, group in itertools.product(widths, groups or {1}):
        step, part = symbol("step", "a step of rows"), symbol("part", "a row of a step")
        inside = confined(index, column, columns)
        row = as_dim(step) * group + (as_dim(part) if group > 1 else 0)
        rest: Dim | None = confined(substitute(inside, {red: row}), part, group)
        for var, distance in ((column, group), (step, columns * group), *([(part, 1)] if group > 1 else [])):
            linear = None if rest is None else linear_in(rest, var)
            rest = linear[1] if linear is not None and linear[0] == distance else None
        if rest is not None:
            return columns, group
    return None


def computed_in_panels(operand: Expr, column: Symbol, red: Symbol | None) -> tuple[int, DType] | None:
    """The columns of the panels that what a right operand is computed from lies in, beside loads of neighbours along
    the columns, or of the same element for all; and the narrowest dtype there. None where it is no such operand.

    Without ``red`` its rows are written in digits, of which places in a panel are any function.
    """
    if isinstance(operand, Load):
        return None
    width, found = 0, list[DType]()
    for load in [e for e in walk_exprs((operand,)) if isinstance(e, Load)]:
        if red is None:
            columns = columns_of_panels(load, column)
            panels = (columns, 1) if columns else None
        else:
            panels = panels_in(load, column, red)
        if panels is None:
            linear = linear_in(load.index, column)
            if load.bound or linear is None or linear[0] not in (0, 1):
                return None
        elif panels[1] != 1 or width not in (0, panels[0]):
            return None
        else:
            width = panels[0]
            found.append(load.dtype)
    return (width, min(found, key=lambda dtype: dtype.itemsize)) if width else None


def columns_of_panels(operand: Expr, column: Symbol) -> int:
    """The columns of a panel of a right operand whose rows are found by division, or another way; else 0."""
    if not isinstance(operand, Load) or operand.bound or isinstance(operand.index, int):
        return 0
    for width in {size for atom in operand.index.atoms if (size := quotient_by(atom, column)) is not None}:
        linear = linear_in(confined(operand.index, column, width), column)
        if linear is not None and linear[0] == 1:
            return width
    return 0
