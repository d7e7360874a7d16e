"""Stacks of matrices as operands of linear algebra: their dtype, their shapes, and what is asked of them."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import ShapeError
from dyn.numpy._axes import text_of
from dyn.numpy._binary import add, multiply
from dyn.numpy._broadcast import expand, join_shapes, shown
from dyn.numpy._creation import diagonal_mask
from dyn.numpy._manipulation import matrix_transpose
from dyn.numpy._operands import cast, constant, emit, made, promote, shape_of, to_float
from dyn.numpy._public import ArrayLike
from dyn.numpy._unary import conj
from dyn.shapes import Dim, Reason, Relation, RelKind, dim_max, dim_min, format_dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer


class Stacks:
    """Operands in the dtype that LAPACK computes with: 16-bit floats as float32, integers as the default float."""

    def __init__(self, what: str, *values: ArrayLike) -> None:
        self.what = what
        given = promote(what, *values, choose=to_float)
        self.given = given[0].element_type
        self.dtype = self.given.wide
        self.arrays = [cast(x, self.dtype) for x in given]

    def back(self, x: Tracer) -> Tracer:
        """A result in the dtype of the operands; what is complex stays so."""
        return cast(x, self.given) if self.given.is_narrow and x.element_type is self.dtype else x


def one_stack(what: str, x: ArrayLike) -> tuple[Stacks, Tracer]:
    """A stack of matrices; ShapeError for fewer than two axes."""
    stacks = Stacks(what, x)
    (value,) = stacks.arrays
    require_matrix(what, value)
    return stacks, value


def one_square_stack(what: str, x: ArrayLike) -> tuple[Stacks, Tracer]:
    """A stack of square matrices: proved, or demanded of each call."""
    stacks, value = one_stack(what, x)
    require_square(what, value)
    return stacks, value


def require_matrix(what: str, x: Tracer) -> None:
    if x.ndim < 2:
        raise ShapeError(
            f"{what}: {text_of(x)} is no stack of matrices: it has {x.ndim} axes.",
            loc=user_loc(),
            remedy="pass an array of 2 axes or more, whose last two are the matrices.",
        )


def require_square(what: str, x: Tracer) -> None:
    require_matrix(what, x)
    m, n = shape_of(x)[-2:]
    require_equal(
        what, x._trace, m, n, f"{text_of(x)} has matrices that are not square", f"{what} takes square matrices"
    )


def require_equal(what: str, trace: Trace, a: Dim, b: Dim, problem: str, reason: str) -> None:
    """Demand equal sizes: ShapeError where they are known to differ, a check of each call where they are not known."""
    if trace.facts.eq(a, b).refuted:
        raise ShapeError(
            f"{what}: {problem}: the sizes are {format_dim(a)} and {format_dim(b)}.",
            loc=user_loc(),
            remedy="pass arrays whose sizes there are equal.",
        )
    trace.require(Relation(RelKind.EQ, a, b, Reason(reason, user_loc())))


def one_lead(what: str, x: Tracer, y: Tracer) -> tuple[Tracer, Tracer]:
    """Two stacks with the axes in front of the matrices broadcast together."""
    a, b = shape_of(x), shape_of(y)
    lead = join_shapes(shown(what, [x, y]), x._trace, [a[:-2], b[:-2]])
    return expand(x, (*lead, *a[-2:])), expand(y, (*lead, *b[-2:]))


def fewest(x: Tracer) -> Dim:
    """The lesser of the sizes of the matrices."""
    m, n = shape_of(x)[-2:]
    return x._trace.facts.simplify(dim_min(m, n))


def tolerance(x: Tracer, dtype: DType) -> Tracer:
    """``max(m, n) * eps``: below that, relative to the greatest singular value, one is taken for 0."""
    m, n = shape_of(x)[-2:]
    trace = x._trace
    size = made(trace, "dim_size", size=trace.facts.simplify(dim_max(m, n)), dtype=dtype)
    return emit("multiply", size, constant(trace, epsilon(dtype), dtype))


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number."""
    return 2.0**-23 if dtype is dtypes.float32 else 2.0**-52


def eye_of(x: Tracer) -> Tracer:
    """A unit matrix in the place of each square matrix."""
    shape = shape_of(x)
    return cast(diagonal_mask(x._trace, shape, 0, "EQ"), x.element_type)


def adjoint(x: Tracer) -> Tracer:
    """Transposed and conjugated."""
    return matrix_transpose(conj(x))


def symmetrized(x: Tracer) -> Tracer:
    """``(x + x^H) / 2``"""
    return multiply(add(x, adjoint(x)), 0.5)


def as_complex(x: Tracer, like: Tracer) -> Tracer:
    """``x`` in the dtype of ``like`` where that is complex."""
    return cast(x, like.element_type) if like.element_type.kind is Kind.COMPLEX else x
