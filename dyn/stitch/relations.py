"""Relations of values to the axes of a group: which of them a value spans, and where along them an op reads it.

All of it is pure: it follows from shapes, views and what is known of sizes, whatever groups there are so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind
from dyn.ops.shape import stretch_factor
from dyn.shapes import Dim, Facts, SymExpr, as_dim, free_symbols
from dyn.stitch.access import Index, Views, own_index, view_index

Shape = tuple[Dim, ...]
#: The kinds of ops that read elements at places that relations tell: they may compute what they read.
AT_RELATED_PLACES = (OpKind.POINTWISE, OpKind.REDUCE)


@record()
class GroupAxes:
    """The axes of a group: their sizes, and those of them that it reduces."""

    space: Shape
    reduced: frozenset[int] = frozenset()

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are not reduced."""
        return tuple([axis for axis in range(len(self.space)) if axis not in self.reduced])

    @property
    def reduces_last(self) -> bool:
        """Whether the last axis is reduced."""
        return len(self.space) - 1 in self.reduced


def same_shape(facts: Facts, a: Shape, b: Shape) -> bool:
    """Whether two shapes are proved to be the same."""
    return len(a) == len(b) and all(facts.same(x, y) for x, y in zip(a, b, strict=True))


class Extent(Enum):
    """The axes of a group that a shape is proved to have."""

    #: All of them.
    FULL = auto()
    #: Those that are not reduced, with or without axes of size 1 in place of the others.
    KEPT = auto()
    OTHER = auto()


def extent(facts: Facts, shape: Shape, axes: GroupAxes) -> Extent:
    """The axes of a group that a shape has."""
    if same_shape(facts, shape, axes.space):
        return Extent.FULL
    if not axes.reduced:
        return Extent.OTHER
    ones = tuple([1 if axis in axes.reduced else size for axis, size in enumerate(axes.space)])
    alone = tuple([axes.space[axis] for axis in axes.kept])
    return Extent.KEPT if same_shape(facts, shape, alone) or same_shape(facts, shape, ones) else Extent.OTHER


def spans_reduced(facts: Facts, shape: Shape, axes: GroupAxes) -> bool:
    """Whether a shape of a group's rank has its reduced axes: that of a full value, if not of one that is a row."""
    return len(shape) == len(axes.space) and all(
        same_shape(facts, (shape[axis],), (axes.space[axis],)) for axis in axes.reduced
    )


# ---- reads -----------------------------------------------------------------------------------------------------------


@record()
class Place:
    """A place at which an axis of a value is read: the number of an axis of the reader's index.

    ``axis`` is None for any other place. An axis that is ``single`` has one element, wherever it is read. One that is
    ``stretched`` has one element, which is read everywhere, or is read at the index: an undecided broadcast.
    """

    axis: int | None
    single: bool = False
    stretched: bool = False


@record(eq=False)
class Reading:
    """An operand as a read of the value that it shows, through views: a place for each axis of that one."""

    base: Value
    places: tuple[Place, ...]


def reading(views: Views, operand: Value) -> Reading:
    """The value that an operand shows, and where its axes are read by an index of the operand."""
    own = own_index(len(operand.shape))
    base, at = views.chain(operand, own)
    if base is operand:
        return Reading(base, tuple([Place(axis, single=size == 1) for axis, size in enumerate(base.shape)]))
    return _reading(base, at, own)


def goes_along_all(read: Reading, shape: Shape) -> bool:
    """Return True if a read, by an index of a shape, goes along every axis that has more than one element."""
    used = {place.axis for place in read.places if not place.single}
    return all(size == 1 or axis in used for axis, size in enumerate(shape))


def reading_of_view(views: Views, op: Op) -> Reading:
    """The value that a VIEW op shows, and where its axes are read by an index of the op's result."""
    own = own_index(len(op.result.shape))
    return _reading(*views.chain(op.operands[0], view_index(op, own)), own)


def _reading(base: Value, at: Index, own: Index) -> Reading:
    numbers = {dim: number for number, dim in enumerate(own)}

    def place(size: Dim, read: Dim) -> Place:
        axis = numbers.get(read)
        if axis is None and isinstance(read, SymExpr):
            axes = [numbers[dim] for dim in map(as_dim, free_symbols(read)) if dim in numbers]
            if len(axes) == 1 and read == own[axes[0]] * stretch_factor(size):
                return Place(axes[0], single=size == 1, stretched=True)
        return Place(axis, single=size == 1)

    return Reading(base, tuple([place(size, read) for size, read in zip(base.shape, at, strict=True)]))


@record()
class Same:
    """Every element is read at its own place, by an index of all axes."""


@record()
class Kept:
    """Every element is read at its own place, by an index of some axes: those that are not reduced."""

    axes: tuple[int, ...]


@record()
class Spread:
    """Elements are read at their own places, but along axes that may be stretched, where one may be read by many."""

    axes: tuple[int, ...]


@record()
class Other:
    """Elements are read at other places than their own."""


Relation = Same | Kept | Spread | Other


def relation(read: Reading, index: Sequence[int], lies: Sequence[int], rank: int) -> Relation:
    """The relation of a read to the ``rank`` axes of a group.

    ``index`` are the group's axes that the reader's index has, in order, and ``lies`` those that the axes of the value
    lie along.
    """
    if len(read.places) != len(lies):
        return Other()
    stretched: list[int] = []
    for place, axis in zip(read.places, lies, strict=True):
        if place.single:
            continue
        if place.axis is None or index[place.axis] != axis:
            return Other()
        if place.stretched:
            stretched.append(axis)
    if stretched:
        return Spread(tuple(stretched))
    return Same() if len(lies) == rank else Kept(tuple(lies))


def permutes(facts: Facts, view: Value, read: Reading) -> bool:
    """Whether a view has each element of what it shows once, only in another order, or in the same."""
    axes = [None if place.single else place.axis for place in read.places]
    used = [axis for axis in axes if axis is not None]
    strange = any(place.stretched or (place.axis is None and not place.single) for place in read.places)
    if strange or len(used) != len(set(used)):
        return False
    if any(size != 1 for axis, size in enumerate(view.shape) if axis not in used):
        return False
    # A prefix has the same index.
    return same_shape(facts, read.base.shape, tuple([1 if axis is None else view.shape[axis] for axis in axes]))
