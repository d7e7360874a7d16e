"""Products and diagonals over the last axes, for ``dyn.numpy.linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.errors import InvalidValueError, ShapeError
from dyn.numpy._axes import one_axis, text_of
from dyn.numpy._binary import multiply, subtract
from dyn.numpy._broadcast import align
from dyn.numpy._creation import diagonal_mask
from dyn.numpy._diagonal import diagonal as any_diagonal
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._joining import stack
from dyn.numpy._linalg.products import matmul, outer_product
from dyn.numpy._linalg.stacks import require_equal, require_matrix
from dyn.numpy._manipulation import moveaxis, view
from dyn.numpy._operands import promote, shape_of
from dyn.numpy._public import Array, ArrayLike, DTypeLike, public
from dyn.numpy._reductions import sum
from dyn.shapes import Dim, Facts
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["cross", "diagonal", "multi_dot", "outer", "trace"]


@public
def cross(x: ArrayLike, y: ArrayLike, /, axis: int = -1) -> Array:
    """Vector product over an axis of 3 elements.

    Args:
        x: array of any dtype.
        y: array of any dtype, which broadcasts with ``x`` on the other axes.
        axis: axis of the vectors, of both.

    Returns:
        An array in the dtype that both promote to.

    Raises:
        ShapeError: if the axis has another size, or others do not broadcast, at the call at the latest.

    Example:
        >>> dnp.linalg.cross(np.array([1, 0, 0]), np.array([0, 1, 0]))
        array([0, 0, 1])
    """
    a, b = promote("cross", x, y)
    for value in (a, b):
        number = one_axis("cross", axis, value.ndim)
        problem = f"axis {number} of {text_of(value)} is to have 3 elements"
        require_equal("cross", value._trace, shape_of(value)[number], 3, problem, "cross takes vectors of 3 elements")
    a, b = align("cross", [a, b])
    number = one_axis("cross", axis, a.ndim)
    a, b = (moveaxis(v, number, -1) for v in (a, b))

    def component(i: int) -> Array:
        j, k = (i + 1) % 3, (i + 2) % 3
        left, right = (multiply(getitem(a, (..., p)), getitem(b, (..., q))) for p, q in ((j, k), (k, j)))
        return subtract(left, right)

    return stack([component(i) for i in range(3)], number)


@public
def outer(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Every element of a vector times every element of another one, in a matrix.

    Args:
        x: vector of any dtype.
        y: vector of any dtype.

    Returns:
        A matrix with a row for each element of ``x``, in the dtype that both promote to.

    Raises:
        ShapeError: if one is no vector: ``dyn.numpy.outer`` takes all elements of arrays of any rank.

    Example:
        >>> dnp.linalg.outer(np.array([1, 2]), np.array([3, 4]))
        array([[3, 4],
               [6, 8]])
    """
    a, b = promote("outer", x, y)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(
            f"outer: {text_of(a)} and {text_of(b)} are to be vectors.",
            loc=user_loc(),
            remedy="use dyn.numpy.outer, which takes all elements of arrays of any rank.",
        )
    return outer_product(a, b)


@public
def diagonal(x: ArrayLike, /, *, offset: Any = 0) -> Array:
    """Elements of a diagonal of the last two axes, along a new last axis.

    Args:
        x: array of any dtype, of two axes or more.
        offset: 0: the main diagonal; positive: one above it, negative: below; an int or a dimension.

    Returns:
        An array of the dtype of ``x``; an empty axis where the diagonal lies outside.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.

    Example:
        >>> dnp.linalg.diagonal(np.array([[1, 2], [3, 4]]))
        array([1, 4])
    """
    return any_diagonal(x, offset, -2, -1)


@public
def trace(x: ArrayLike, /, *, offset: Any = 0, dtype: DTypeLike = None) -> Array:
    """Sum of a diagonal of the last two axes.

    Args:
        x: array of any dtype, of two axes or more.
        offset: 0: the main diagonal; positive: one above it, negative: below; an int or a dimension.
        dtype: dtype to compute in and of the result; None: as for ``dyn.numpy.sum``.

    Returns:
        An array of the other axes.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.

    Example:
        >>> dnp.linalg.trace(np.array([[1, 2], [3, 4]]), offset=1)
        array(2)
    """
    (value,) = promote("trace", x)
    require_matrix("trace", value)
    return sum(value, (-2, -1), dtype, where=diagonal_mask(value._trace, shape_of(value), offset, "EQ"))


# ---- multi_dot -------------------------------------------------------------------------------------------------------


@public
def multi_dot(arrays: Sequence[ArrayLike], /) -> Array:
    """Product of two or more matrices, in the order that takes the fewest multiplications.

    Of orders whose costs cannot be compared for every shape the product goes from the left. The search is that of T. H.
    Cormen et al., "Introduction to Algorithms", 15.2, with costs that are formulas over the dims.

    Args:
        arrays: sequence of matrices; the first may be a row and the last a column, of one axis.

    Returns:
        A matrix, or what is left of it, in the dtype that all promote to.

    Raises:
        InvalidValueError: if there are fewer than two.
        ShapeError: if one is no matrix, or sizes do not fit, at the call at the latest.

    Example:
        >>> dnp.linalg.multi_dot([np.ones((2, 3)), np.ones((3, 4)), np.ones(4)])
        array([12., 12.])
    """
    if len(arrays) < 2:
        raise InvalidValueError(
            f"multi_dot takes 2 arrays or more, not {len(arrays)}.", loc=user_loc(), remedy="pass a longer list."
        )
    values = promote("multi_dot", *arrays)
    for place, value in enumerate(values):
        if value.ndim != 2 and (value.ndim != 1 or 0 < place < len(values) - 1):
            raise ShapeError(
                f"multi_dot: array {place}, {text_of(value)}, is to be a matrix.",
                loc=user_loc(),
                remedy="pass matrices; the first and the last may be vectors.",
            )
    row, column = values[0].ndim == 1, values[-1].ndim == 1
    if row:
        values[0] = view(values[0], (1, *shape_of(values[0])))
    if column:
        values[-1] = view(values[-1], (*shape_of(values[-1]), 1))
    sizes = [shape_of(v)[0] for v in values] + [shape_of(values[-1])[1]]
    result = _multiplied(values, _orders(values[0]._trace.facts, sizes), 0, len(values) - 1)
    m, n = shape_of(result)
    return view(result, (() if row else (m,)) + (() if column else (n,)))


def _orders(facts: Facts, sizes: list[Dim]) -> dict[tuple[int, int], int]:
    """The last cut of each chain of factors, by the costs of its two parts (T. H. Cormen et al., "Introduction to
    Algorithms", 15.2). A cut is another one's better only where that is known for every shape."""
    count = len(sizes) - 1
    costs: dict[tuple[int, int], Dim] = {(i, i): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            for cut in reversed(range(i, j)):
                cost = costs[i, cut] + costs[cut + 1, j] + sizes[i] * sizes[cut + 1] * sizes[j + 1]
                if (i, j) not in costs or (cost != costs[i, j] and facts.ge(costs[i, j], cost).proved):
                    costs[i, j], cuts[i, j] = cost, cut
    return cuts


def _multiplied(values: list[Tracer], cuts: dict[tuple[int, int], int], i: int, j: int) -> Tracer:
    if i == j:
        return values[i]
    cut = cuts[i, j]
    return matmul(_multiplied(values, cuts, i, cut), _multiplied(values, cuts, cut + 1, j))
