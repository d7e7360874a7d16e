"""Products of matrices and vectors. All become ``dot_general``; sizes that are contracted have to be equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.errors import ShapeError
from dyn.numpy._axes import distinct_axes, one_axis, text_of
from dyn.numpy._binary import multiply
from dyn.numpy._broadcast import align, expand, join_shapes, shown
from dyn.numpy._manipulation import moveaxis, view
from dyn.numpy._operands import cast, emit, promote, shape_of
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._reductions import fold
from dyn.numpy._unary import conj
from dyn.shapes import Dim, Reason, Relation, RelKind, format_dim, product
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["dot", "inner", "matmul", "outer", "tensordot", "vdot", "vecdot"]

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
    """Matrix product ``x @ y``.

    The last two axes are matrices; axes before them broadcast, symbolic ones too. Sums of nothing are 0.

    Args:
        x: array of any dtype, of one axis or more; a vector is a row.
        y: array of any dtype, of one axis or more; a vector is a column. The axis of a vector is dropped from the
            result.

    Returns:
        An array in the dtype that both promote to; of booleans whether any product is true.

    Raises:
        ShapeError: if one has no axes, or inner sizes differ: at once where that is proved, otherwise when called.

    Example:
        >>> dnp.matmul(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
        array([3, 7])
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
    """Sum of products over the last axis of ``x`` and the last but one of ``y``.

    Args:
        x: array of any dtype.
        y: array of any dtype; of a vector its only axis.

    Returns:
        An array with the other axes of ``x``, then those of ``y``, in the dtype that both promote to; of an array
        without axes the product.

    Raises:
        ShapeError: if the two sizes differ: at once where that is proved, otherwise when called.

    Example:
        >>> dnp.dot(np.array([1, 2]), np.array([3, 4]))
        array(11)
    """
    a, b = promote("dot", x, y)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    inner_b = max(b.ndim - 2, 0)
    check_contracted("dot", a, b, [(a.ndim - 1, inner_b)])
    return contract(a, b, ((), ()), ((a.ndim - 1,), (inner_b,)))


@public
def tensordot(x: ArrayLike, y: ArrayLike, /, axes: int | Sequence[Any] = 2) -> Array:
    """Sum of products over several axes of two arrays.

    Args:
        x: array of any dtype.
        y: array of any dtype.
        axes: int: so many last axes of ``x`` and first ones of ``y``; or two lists of axes, which go together one by
            one.

    Returns:
        An array with the other axes of ``x``, then those of ``y``, in the dtype that both promote to.

    Raises:
        ShapeError: if the sizes differ: at once where that is proved, otherwise when called; if there are not as many
            axes.

    Example:
        >>> dnp.tensordot(np.ones((2, 3, 4)), np.ones((3, 4, 5)), 2).shape
        (2, 5)
    """
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
    """Every element of one array times every element of another, in a matrix.

    Args:
        x: array of any dtype, which is flattened.
        y: array of any dtype, which is flattened.

    Returns:
        A matrix with a row for each element of ``x``, in the dtype that both promote to.

    Example:
        >>> dnp.outer(np.array([1, 2]), np.array([3, 4]))
        array([[3, 4],
               [6, 8]])
    """
    a, b = (view(v, (product(shape_of(v)),)) for v in promote("outer", x, y))
    return outer_product(a, b)


@public
def inner(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Sum of products over the last axes of two arrays.

    Args:
        x: array of any dtype.
        y: array of any dtype.

    Returns:
        An array with the other axes of ``x``, then those of ``y``, in the dtype that both promote to; of an array
        without axes the product.

    Raises:
        ShapeError: if the two sizes differ: at once where that is proved, otherwise when called.

    Example:
        >>> dnp.inner(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
        array([3, 7])
    """
    a, b = promote("inner", x, y)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    return tensordot(a, b, ((a.ndim - 1,), (b.ndim - 1,)))


@public
def vecdot(x: ArrayLike, y: ArrayLike, /, axis: int = -1) -> Array:
    """Sum of products over one axis of arrays that broadcast together on the others.

    Args:
        x: array of any dtype, of one axis or more; complex numbers are conjugated.
        y: array of any dtype, of one axis or more.
        axis: the axis, of both.

    Returns:
        An array of the shape that the other axes broadcast to, in the dtype that both promote to.

    Raises:
        ShapeError: if one has no axes, the sizes differ, or others do not broadcast, at the call at the latest.

    Example:
        >>> dnp.vecdot(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
        array([3, 7])
    """
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
    """Sum of products of all elements of two arrays, of which the first is conjugated.

    Args:
        x: array of any dtype, which is flattened.
        y: array of any dtype, with as many elements.

    Returns:
        An array without axes, in the dtype that both promote to.

    Raises:
        ShapeError: if the numbers of elements differ: at once where that is proved, otherwise when called.

    Example:
        >>> dnp.vdot(np.array([1j, 2]), np.array([1j, 2]))
        array(5.+0.j)
    """
    a, b = (view(v, (product(shape_of(v)),)) for v in promote("vdot", x, y))
    check_contracted("vdot", a, b, [(0, 0)])
    return contract(conj(a), b, ((), ()), ((0,), (0,)))
