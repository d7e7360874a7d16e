"""``x += y`` and its like: the operator's result, of the shape and dtype of ``x``, as the array API standard has it."""

from __future__ import annotations

from typing import Any

from dyn.errors import ShapeError, UnsupportedOpError
from dyn.numpy._axes import text_of
from dyn.numpy._binary import add, floor_divide, multiply, power, remainder, subtract, true_divide
from dyn.numpy._bits import left_shift, right_shift
from dyn.numpy._linalg.products import matmul
from dyn.numpy._logic import bitwise_and, bitwise_or, bitwise_xor
from dyn.numpy._manipulation import broadcast_to
from dyn.numpy._operands import operand, shape_of
from dyn.shapes import Reason, Relation, RelKind, format_shape
from dyn.source import user_loc
from dyn.trace.dims import SymbolicDim, wrap_dim
from dyn.trace.lift import WEAK_DTYPES
from dyn.trace.tracer import Tracer

_FUNCTIONS = {
    "add": (add, "+="), "subtract": (subtract, "-="), "multiply": (multiply, "*="), "true_divide": (true_divide, "/="),
    "floor_divide": (floor_divide, "//="), "remainder": (remainder, "%="), "power": (power, "**="),
    "matmul": (matmul, "@="), "bitwise_and": (bitwise_and, "&="), "bitwise_or": (bitwise_or, "|="),
    "bitwise_xor": (bitwise_xor, "^="), "left_shift": (left_shift, "<<="), "right_shift": (right_shift, ">>="),
}  # fmt: skip


def in_place(name: str, x: Tracer, other: Any) -> Tracer:
    """The value of ``x`` after the operator ``name`` with ``other``. Its shape and dtype stay.

    Raises UnsupportedOpError where the result has another dtype, ShapeError where it has another shape.
    """
    function, sign = _FUNCTIONS[name]
    what = f"{x._value.name or 'x'} {sign} y"
    if type(other) not in WEAK_DTYPES and not isinstance(other, SymbolicDim):
        other = operand(what, other, x)
        if other.ndim > x.ndim and name != "matmul":
            _wrong_shape(what, x, f"y has {other.ndim} axes")
        if other.ndim and name != "matmul":
            other = broadcast_to(other, tuple(wrap_dim(x._trace, d) for d in shape_of(x)))
    result: Tracer = function(x, other)
    if result.element_type is not x.element_type:
        raise UnsupportedOpError(
            f"{what}: the result is {result.element_type.name}, and {text_of(x)} stays {x.element_type.name}.",
            loc=user_loc(),
            remedy=f"write x = x {sign[:-1]} y, or convert y with .astype.",
        )
    if name == "matmul":
        if result.ndim != x.ndim:
            _wrong_shape(what, x, f"the product is {format_shape(shape_of(result))}")
        for axis, (size, wanted) in enumerate(zip(shape_of(result), shape_of(x), strict=True)):
            reason = Reason(f"{what} keeps axis {axis} of {format_shape(shape_of(x))}", user_loc())
            x._trace.require(Relation(RelKind.EQ, size, wanted, reason))
    return result


def _wrong_shape(what: str, x: Tracer, problem: str) -> None:
    raise ShapeError(
        f"{what}: {text_of(x)} keeps its shape, and {problem}.",
        loc=user_loc(),
        remedy=f"write x = x {what.split()[1][:-1]} y, which may have another shape.",
    )
