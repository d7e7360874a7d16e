"""Products of matrices and vectors. All become ``dot_general``; sizes that are contracted have to be equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.errors import ShapeError
from dyn.numpy._axes import distinct_axes, one_axis, text_of
from dyn.numpy._binary import multiply
from dyn.numpy._broadcast import align, expand, join_shapes, shown
from dyn.numpy._creation import diagonal_mask
from dyn.numpy._manipulation import moveaxis, view
from dyn.numpy._operands import cast, emit, promote, shape_of
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._reductions import fold, sum
from dyn.numpy._unary import conj
from dyn.shapes import Dim, Reason, Relation, RelKind, format_dim, product
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["dot", "inner", "matmul", "outer", "tensordot", "trace", "vdot", "vecdot"]

Numbers = tuple[int, ...]


def contract(x: Tracer, y: Tracer, batch: tuple[Numbers, Numbers], contracting: tuple[Numbers, Numbers]) -> Tracer:
    """``dot_general`` of operands of one dtype; of booleans whether any product is true."""
    element = x.element_type
    if element is dtypes.bool_:
        x, y = cast(x, dtypes.int32), cast(y, dtypes.int32)
    result = emit(
        "dot_general",
        x,
        y,
        lhs_batch=batch[0],
        rhs_batch=batch[1],
        lhs_contracting=contracting[0],
        rhs_contracting=contracting[1],
    )
    return cast(result, element)


def check_contracted(what: str, x: Tracer, y: Tracer, axes: Sequence[tuple[int, int]]) -> None:
    """Refuse operands whose contracted sizes are proved to differ."""
    for a, b in axes:
        m, n = shape_of(x)[a], shape_of(y)[b]
        if x._trace.facts.eq(m, n).refuted:
            raise ShapeError(
                f"{shown(what, [x, y])}: {text_of(x)} and {text_of(y)} do not fit: axis {a} of the left has "
                f"{format_dim(m)} elements, and axis {b} of the right has {format_dim(n)}.",
                loc=user_loc(),
                remedy="the two sizes have to be equal; transpose or reshape one of the arrays.",
            )


# ---- matmul ----------------------------------------------------------------------------------------------------------


@public
def matmul(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The matrix product ``x @ y``.

    The last two axes are matrices; axes before them broadcast. A 1-d ``x`` is a row and a 1-d ``y`` a column, whose
    axis is dropped from the result. Raises ShapeError for 0-d operands and for inner sizes that differ.
    """
    a, b = promote("matmul", x, y)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(
            f"{shown('matmul', [a, b])}: matmul takes arrays with axes, and one is 0-d.",
            loc=user_loc(),
            remedy="use multiply.",
        )
    inner_b = max(b.ndim - 2, 0)
    check_contracted("matmul", a, b, [(a.ndim - 1, inner_b)])
    lead_a, lead_b = shape_of(a)[:-2], shape_of(b)[:-2]
    if b.ndim <= 2 or (all(d == 1 for d in lead_b) and len(lead_b) <= len(lead_a)):
        # One right matrix for all: the rows of the left are one long axis to whoever computes it.
        right = b if b.ndim <= 2 else view(b, shape_of(b)[-2:])
        return contract(a, right, ((), ()), ((a.ndim - 1,), (0,)))
    return _batched(a, b, lead_a, lead_b)


def _batched(a: Tracer, b: Tracer, lead_a: tuple[Dim, ...], lead_b: tuple[Dim, ...]) -> Tracer:
    lead = join_shapes(shown("matmul", [a, b]), a._trace, [lead_a, lead_b])
    rank = len(lead)
    vector = a.ndim == 1
    if vector:
        a = view(a, (1, *shape_of(a)))
    a, b = expand(a, (*lead, *shape_of(a)[-2:])), expand(b, (*lead, *shape_of(b)[-2:]))
    axes = tuple(range(rank))
    result = contract(a, b, (axes, axes), ((rank + 1,), (rank,)))
    return view(result, (*lead, shape_of(result)[-1])) if vector else result


# ---- the others ------------------------------------------------------------------------------------------------------


@public
def dot(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The sum of products over the last axis of ``x`` and the last but one of ``y``; of 0-d arrays the product."""
    a, b = promote("dot", x, y)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    inner_b = max(b.ndim - 2, 0)
    check_contracted("dot", a, b, [(a.ndim - 1, inner_b)])
    return contract(a, b, ((), ()), ((a.ndim - 1,), (inner_b,)))


@public
def tensordot(x: ArrayLike, y: ArrayLike, /, axes: int | Sequence[Any] = 2) -> Array:
    """The sum of products over the last ``axes`` axes of ``x`` and the first of ``y``, or over two lists of axes."""
    a, b = promote("tensordot", x, y)
    if isinstance(axes, int):
        if axes > min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: {text_of(a)} and {text_of(b)} do not both have {axes} axes.",
                loc=user_loc(),
                remedy="sum over fewer axes.",
            )
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        given = [ax if isinstance(ax, tuple | list) else (ax,) for ax in axes]
        left, right = distinct_axes("tensordot", given[0], a.ndim), distinct_axes("tensordot", given[1], b.ndim)
        if len(left) != len(right):
            raise ShapeError(
                f"tensordot: {len(left)} axes of the left are to go with {len(right)} of the right.",
                loc=user_loc(),
                remedy="name as many axes of the one as of the other.",
            )
    check_contracted("tensordot", a, b, list(zip(left, right, strict=True)))
    if not left:
        return outer_product(a, b)
    return contract(a, b, ((), ()), (tuple(left), tuple(right)))


def outer_product(a: Tracer, b: Tracer) -> Tracer:
    """Every element of ``a`` times every element of ``b``: the axes of ``a``, then those of ``b``."""
    return multiply(view(a, (*shape_of(a), *(1,) * b.ndim)), b)


@public
def outer(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Every element of ``x`` times every element of ``y``, in a matrix."""
    a, b = (view(v, (product(shape_of(v)),)) for v in promote("outer", x, y))
    return outer_product(a, b)


@public
def inner(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The sum of products over the last axes."""
    a, b = promote("inner", x, y)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    return tensordot(a, b, ((a.ndim - 1,), (b.ndim - 1,)))


@public
def vecdot(x: ArrayLike, y: ArrayLike, /, axis: int = -1) -> Array:
    """The sum of products over one axis of arrays that broadcast together on the others; ``x`` is conjugated."""
    a, b = promote("vecdot", x, y)
    a = moveaxis(conj(a), one_axis("vecdot", axis, a.ndim), -1)
    b = moveaxis(b, one_axis("vecdot", axis, b.ndim), -1)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("vecdot takes arrays with axes, and one is 0-d.", loc=user_loc(), remedy="use multiply.")
    check_contracted("vecdot", a, b, [(a.ndim - 1, b.ndim - 1)])
    reason = Reason(f"{shown('vecdot', [a, b])} multiplies and sums the two axes", user_loc())
    a._trace.require(Relation(RelKind.EQ, shape_of(a)[-1], shape_of(b)[-1], reason))
    product_of = multiply(*align("vecdot", [a, b]))
    return fold(product_of, "or" if product_of.element_type is dtypes.bool_ else "add", (product_of.ndim - 1,), False)


@public
def vdot(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The sum of products of all elements of two arrays, of which the first is conjugated."""
    a, b = (view(v, (product(shape_of(v)),)) for v in promote("vdot", x, y))
    check_contracted("vdot", a, b, [(0, 0)])
    return contract(conj(a), b, ((), ()), ((0,), (0,)))


@public
def trace(x: ArrayLike, /) -> Array:
    """The sum of the diagonal of the last two axes."""
    (value,) = promote("trace", x)
    return sum(value, (-2, -1), where=diagonal_mask(value._trace, shape_of(value), 0, "EQ"))
