"""What ops that sort need of a target that has kernels for it: which elements are compared and how, and what the
results are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.ir.opdef import LibraryRoutine
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import ExprBuilder
from dyn.schedule.kernel import Expr
from dyn.schedule.merging import Before
from dyn.shapes import Dim


@record(eq=False)
class Ordering:
    """Rows of operands along an axis, to be sorted by the ``keys`` among them.

    ``results`` say what each result has of a sorted element: the key with a number, its place in the row before, or
    the element of an operand there. The first ``limit`` elements of a sorted row are wanted.
    """

    axis: int
    limit: Dim
    keys: tuple[Value, ...]
    before: Before
    results: tuple[int | Value | None, ...]

    @property
    def needs_places(self) -> bool:
        """Whether it counts where an element was, beside its keys."""
        return not all(isinstance(result, int) for result in self.results)


def ordering_of(op: Op) -> Ordering | None:
    """How an op sorts; None of any other."""
    loops = op.opdef.loops
    make = ORDERINGS.get(loops.routine or "") if isinstance(loops, LibraryRoutine) else None
    return None if make is None else make(op)


def _sort(op: Op) -> Ordering:
    count, axis = op.attrs.get("num_keys", 1), op.attrs["dimension"]
    operands = op.operands
    keys = tuple(dict.fromkeys(operands[:count]))
    less = _greater if op.attrs["descending"] else _less

    def before(k: ExprBuilder, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
        found: Expr | None = None
        for x, y in reversed(list(zip(a, b, strict=True))):
            first = less(k, x, y)
            if found is not None:
                later = k.apply(Scalar.NOT, [less(k, y, x)], dtypes.bool_)
                first = k.apply(Scalar.OR, [first, k.both(later, found)], dtypes.bool_)
            found = first
        assert found is not None
        return found

    results = tuple([keys.index(x) if x in keys else x for x in operands])
    return Ordering(axis, operands[0].shape[axis], keys, before, results)


def _less(k: ExprBuilder, a: Expr, b: Expr) -> Expr:
    """Whether a number is less than another one; NaN is more than any."""
    if a.dtype is dtypes.bool_:
        a, b = k.cast(a, dtypes.int32), k.cast(b, dtypes.int32)
    less = k.apply(Scalar.LT, [a, b], dtypes.bool_)
    if not a.dtype.is_float:
        return less
    nan, number = k.apply(Scalar.NE, [b, b], dtypes.bool_), k.apply(Scalar.EQ, [a, a], dtypes.bool_)
    return k.apply(Scalar.OR, [less, k.both(nan, number)], dtypes.bool_)


def _greater(k: ExprBuilder, a: Expr, b: Expr) -> Expr:
    return _less(k, b, a)


def _top_k(op: Op) -> Ordering:
    def before(k: ExprBuilder, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
        return k.apply(Scalar.LT, [_total_order(k, b[0]), _total_order(k, a[0])], dtypes.bool_)

    return Ordering(op.attrs["dimension"], op.attrs["k"], op.operands, before, (0, None))


def _total_order(k: ExprBuilder, x: Expr) -> Expr:
    """An integer in the place of an element; of a float in IEEE 754's totalOrder.

    The bits of a float that is not negative are in its order as a signed integer; of a negative one in the other.
    """
    if x.dtype.kind is Kind.BOOL:
        return k.cast(x, dtypes.int32)
    if not x.dtype.is_float:
        return x
    if x.dtype.bits == 8:  # not all formats of 8 bits have their NaNs beyond the other numbers
        x = k.cast(x, dtypes.float32)
    of: DType = {16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}[x.dtype.bits]
    pattern = k.apply(Scalar.BITCAST, [x], of)
    sign = k.apply(Scalar.SHRA, [pattern, k.const(of, of.bits - 1)], of)
    flips = k.apply(Scalar.AND, [sign, k.const(of, (1 << (of.bits - 1)) - 1)], of)
    return k.apply(Scalar.XOR, [pattern, flips], of)


#: By ``LibraryRoutine.routine``.
ORDERINGS: dict[str, Callable[[Op], Ordering]] = {"sort": _sort, "top_k": _top_k}
