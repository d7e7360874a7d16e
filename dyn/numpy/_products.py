"""Products of vectors in space, and of every element of one array with another as a whole."""

from __future__ import annotations

from dyn.errors import ShapeError
from dyn.numpy._axes import one_axis, text_of
from dyn.numpy._binary import multiply, subtract
from dyn.numpy._indexing import getitem
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
    """The vectors at right angles to each two of three components; the other axes broadcast.

    Of vectors of two components, the third of which is 0, it is the third component alone, where both have two.
    ``axis`` stands for all three axes. Raises ShapeError for other numbers of components.
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
    """Every element of ``x`` times the whole of ``y``, put together to one array of the larger number of axes."""
    a, b = promote("kron", x, y)
    rank = max(a.ndim, b.ndim)
    left, right = (tuple([1] * (rank - v.ndim)) + shape_of(v) for v in (a, b))
    a = view(a, tuple(d for n in left for d in (n, 1)))
    b = view(b, tuple(d for n in right for d in (1, n)))
    return view(multiply(a, b), tuple(m * n for m, n in zip(left, right, strict=True)))
