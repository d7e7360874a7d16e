"""Elementwise ops whose scalar code is a formula of the closed set's functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.core import Op
from dyn.ir.opdef import FROM_VJP, NOT_YET, ElementLoops, Get, NoGrad, OpDef, OpKind, Sample, ScalarBuilder, TypeRule
from dyn.ops.pointwise import quiet
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import Formula, elementwise_vjp, pointwise_batch
from dyn.shapes import Dim

BITS = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


@record()
class Num:
    """A scalar that formulas are written with. Python numbers take its dtype."""

    k: ScalarBuilder
    value: Any
    dtype: DType

    def f(self, fn: Scalar, *others: Num | float, dtype: DType | None = None) -> Num:
        """``fn`` of this and others."""
        result = self.dtype if dtype is None else dtype
        return Num(self.k, self.k.apply(fn, [self.value, *(self.like(x).value for x in others)], result), result)

    def like(self, x: Num | float) -> Num:
        """A Python number in this dtype."""
        return x if isinstance(x, Num) else Num(self.k, self.k.const(self.dtype, x), self.dtype)

    def __add__(self, x: Num | float) -> Num:
        return self.f(Scalar.ADD, x)

    def __sub__(self, x: Num | float) -> Num:
        return self.f(Scalar.SUB, x)

    def __mul__(self, x: Num | float) -> Num:
        return self.f(Scalar.MUL, x)

    def __truediv__(self, x: Num | float) -> Num:
        return self.f(Scalar.DIV, x)

    def __and__(self, x: Num | float) -> Num:
        return self.f(Scalar.AND, x)

    def __or__(self, x: Num | float) -> Num:
        return self.f(Scalar.OR, x)

    def __neg__(self) -> Num:
        return self.f(Scalar.NEG)

    def is_(self, comparison: Scalar, x: Num | float) -> Num:
        return self.f(comparison, x, dtype=dtypes.bool_)

    def where(self, x: Num, y: Num | float) -> Num:
        """``x`` where this is true, else ``y``."""
        return self.f(Scalar.SELECT, x, x.like(y), dtype=x.dtype)

    def to(self, dtype: DType) -> Num:
        return self if self.dtype is dtype else self.f(Scalar.CAST, dtype=dtype)

    def bits(self) -> Num:
        """The bits of a float, as a signed integer."""
        return self.f(Scalar.BITCAST, dtype=BITS[self.dtype.bits])

    def as_float(self, dtype: DType) -> Num:
        """The float of these bits."""
        return self.f(Scalar.BITCAST, dtype=dtype)

    def with_sign(self, other: Num) -> Num:
        """The size of this with the sign of another."""
        lowest = -(1 << (self.dtype.bits - 1))
        joined = (self.bits() & (-1 - lowest)) | (other.bits() & lowest)
        return joined.as_float(self.dtype)


def by_fma(x: Num, coefficients: Sequence[float]) -> Num:
    """A polynomial by Horner's rule in fused steps, the constant first."""
    total = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total.f(Scalar.FMA, x, c)
    return total


#: ``formula(x, …)`` of numbers of one dtype, with the op's attributes.
NumFormula = Callable[..., Num]


def at_least_float32(dtype: DType) -> DType:
    """Narrow floats are computed with in float32, and rounded once."""
    return dtype.wide


def double(dtype: DType) -> DType:
    """Floats of 32 bits are computed with in float64, narrower ones in float32."""
    return dtypes.float32 if dtype.is_narrow else dtypes.float64


def unchanged(dtype: DType) -> DType:
    """Computed with as they are: with their bits."""
    return dtype


def formula_op(
    name: str,
    formula: NumFormula,
    reference: Callable[..., Any],
    made: Callable[[], list[Sample]],
    types: TypeRule,
    *,
    grad: Formula | NoGrad | None,
    wide: Callable[[DType], DType] = at_least_float32,
    rounded: NumFormula | None = None,
    plain: Callable[..., Any] | None = None,
) -> OpDef:
    """The op that applies a formula to its operands' elements, in the dtype that ``wide`` makes of theirs.

    ``rounded`` is a shorter formula for float32 computed with in float64. ``grad`` is the formula of its cotangents, or
    why there is none; None where there is none yet. ``plain`` is a reference that wants its arrays as they are, in
    place of ``reference``.
    """

    def at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
        result = op.result.dtype
        dtype = op.operands[0].dtype
        given = [Num(k, get(i, index), dtype).to(wide(dtype)) for i in range(len(op.operands))]
        is_rounded = dtype is dtypes.float32 and wide(dtype) is dtypes.float64
        chosen = rounded if rounded is not None and is_rounded else formula
        return chosen(*given, **op.attrs).to(result).value

    if grad is None:
        vjp = jvp = NOT_YET
    elif isinstance(grad, NoGrad):
        vjp = jvp = grad
    else:
        vjp, jvp = elementwise_vjp(grad), FROM_VJP
    return OpDef(
        name, OpKind.POINTWISE, types=types, loops=ElementLoops(at),
        reference=quiet(reference) if plain is None else plain, samples=made,
        vjp=vjp, jvp=jvp, batch=pointwise_batch,
    )  # fmt: skip
