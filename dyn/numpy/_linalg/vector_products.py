"""Products of vectors in space, and of every element of one array with another as a whole."""

from __future__ import annotations

from dyn.errors import ShapeError
from dyn.numpy._axes import one_axis, text_of
from dyn.numpy._binary import multiply, subtract
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._joining import stack
from dyn.numpy._manipulation import moveaxis, view
from dyn.numpy._operands import promote, shape_of
from dyn.numpy._public import Array, ArrayLike, public
from dyn.shapes import Reason, Relation, RelKind
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["cross", "kron"]


def _components(x: Tracer, axis: int) -> list[Tracer]:
    """The two or three components of vectors along an axis, which has three where its size is not known."""
    number = one_axis("cross", axis, x.ndim)
    size = shape_of(x)[number]
    if isinstance(size, int) and size not in (2, 3):
        raise ShapeError(
            f"cross: axis {number} of {text_of(x)} has {size} elements.",
            loc=user_loc(),
            remedy="vectors have 2 or 3 components.",
        )
    if not isinstance(size, int):
        x._trace.require(Relation(RelKind.EQ, size, 3, Reason(f"cross takes axis {number} for vectors", user_loc())))
    moved = moveaxis(x, number, 0)
    return [getitem(moved, i) for i in range(size if isinstance(size, int) else 3)]


@public
def cross(
    x: ArrayLike, y: ArrayLike, /, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """Vector product: the vectors at right angles to each two of three components.

    Args:
        x: array of any dtype whose vectors lie along ``axisa``, of 2 or 3 components, and of 3 where the size is
            symbolic.
        y: array of any dtype whose vectors lie along ``axisb``, likewise; the other axes broadcast.
        axisa: axis of the vectors of ``x``.
        axisb: axis of the vectors of ``y``.
        axisc: axis of the vectors of the result.
        axis: stands for all three where it is given.

    Returns:
        An array in the dtype that both promote to; of two components and two it has the third component alone.

    Raises:
        ShapeError: if there are other numbers of components, at the call at the latest, or axes do not broadcast.

    Example:
        >>> dnp.cross(np.array([1, 0, 0]), np.array([0, 1, 0]))
        array([0, 0, 1])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    first, second = promote("cross", x, y)
    a, b = _components(first, axisa), _components(second, axisb)

    def minor(i: int, j: int) -> Tracer:
        """``a[i] * b[j] - a[j] * b[i]``, where missing components are 0."""
        left = multiply(a[i], b[j]) if i < len(a) and j < len(b) else None
        right = multiply(a[j], b[i]) if j < len(a) and i < len(b) else None
        if left is None:
            assert right is not None, "one of the two vectors has three components"
            return multiply(right, -1)
        return left if right is None else subtract(left, right)

    if len(a) == len(b) == 2:
        return minor(0, 1)
    result = stack([minor(1, 2), minor(2, 0), minor(0, 1)], 0)
    return moveaxis(result, 0, one_axis("cross", axisc, result.ndim))


@public
def kron(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Kronecker product: every element of ``x`` times the whole of ``y``, put together to one array.

    Args:
        x: array of any dtype.
        y: array of any dtype.

    Returns:
        An array of the larger number of axes, each as long as those of both multiplied, in the dtype that both promote
        to.

    Example:
        >>> dnp.kron(np.array([1, 10]), np.array([1, 2, 3]))
        array([ 1,  2,  3, 10, 20, 30])
    """
    a, b = promote("kron", x, y)
    rank = max(a.ndim, b.ndim)
    left, right = (tuple([1] * (rank - v.ndim)) + shape_of(v) for v in (a, b))
    a = view(a, tuple(d for n in left for d in (n, 1)))
    b = view(b, tuple(d for n in right for d in (1, n)))
    return view(multiply(a, b), tuple(m * n for m, n in zip(left, right, strict=True)))
