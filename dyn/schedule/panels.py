"""Right operands that lie in panels (``dyn.ops.panels``), seen by their indices."""

from __future__ import annotations

import itertools

from dyn.schedule.axes import confined, quotient_by
from dyn.schedule.kernel import Expr, Load
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
