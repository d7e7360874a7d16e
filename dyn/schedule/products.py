"""Both operands of a contraction in the making: over which axes they are, their axes as one each, and the dtypes that
they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dyn.frozen import record
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import Axis, axis, collapse, onto
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Apply, Digits, Expr
from dyn.schedule.kernel_walks import expr_dims
from dyn.shapes import Dim, Symbol, as_dim, free_symbols, substitute


@record(eq=False)
class Product:
    """The elements that a contraction multiplies, in the dtype that it sums in; or ``as_they_lie``.

    Where the loops have one axis and an operand's memory has several, it may be written in ``digits`` of that axis.
    """

    lhs: Expr
    rhs: Expr
    digits: tuple[Digits, ...] = ()

    def rewritten(self, rewriter: Rewriter) -> Product:
        digits = tuple(Digits(rewriter.change(d.value), d.parts) for d in self.digits)
        return Product(rewriter.expr(self.lhs), rewriter.expr(self.rhs), digits)

    def as_they_lie(self) -> Product:
        """Elements of memory in place of what they are converted to, where that changes no number."""
        return replace(self, lhs=_unconverted(self.lhs), rhs=_unconverted(self.rhs))

    def swapped(self) -> Product:
        return Product(self.rhs, self.lhs, self.digits)

    def symbols(self, operand: Expr) -> frozenset[Symbol]:
        """The variables that an operand depends on, digits by the number that they are digits of."""
        found = {s for dim in expr_dims((operand,)) for s in free_symbols(dim)}
        for digits in self.digits:
            if not found.isdisjoint([part for part, _ in digits.parts]):
                found |= free_symbols(digits.value)
        return frozenset(found)

    def flattened(self, axes: Sequence[Axis], whole: Axis) -> Product:
        """Both operands over one axis in place of several: linear in it where one stride runs through all."""
        lhs, left = _flattened(self.lhs, axes, whole)
        rhs, right = _flattened(self.rhs, axes, whole)
        return Product(lhs, rhs, (*self.digits, *left, *right))


def _unconverted(operand: Expr) -> Expr:
    found = operand
    while isinstance(found, Apply) and found.fn is Scalar.CAST and found.dtype.holds(found.args[0].dtype):
        (found,) = found.args
    return found


def _flattened(operand: Expr, axes: Sequence[Axis], whole: Axis) -> tuple[Expr, tuple[Digits, ...]]:
    dims = expr_dims((operand,))
    left, merged = collapse(list(axes), dims)
    if len(left) == 1:
        return Rewriter(onto(whole, axes)).expr(operand), ()
    if all(a.var not in free_symbols(dim) for dim in dims for a in axes):
        return operand, ()
    # Fewer digits are fewer divisions and longer runs. They are this operand's own.
    parts = [axis(a.var.name, a.extent) for a in left]
    own: dict[Symbol, Dim] = {a.var: as_dim(part.var) for a, part in zip(left, parts, strict=True)}
    change = {s: substitute(d, own) for s, d in merged.items()} | own
    digits = Digits(as_dim(whole.var), tuple((a.var, a.extent) for a in parts))
    return Rewriter(lambda dim: substitute(dim, change)).expr(operand), (digits,)
