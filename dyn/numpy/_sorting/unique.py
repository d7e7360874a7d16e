"""The distinct elements of an array, in order: sorted, counted where one differs from the one before, and packed."""

from __future__ import annotations

from typing import Any, NamedTuple

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import UnsupportedOpError
from dyn.ir.core import Value
from dyn.numpy._axes import one_axis, text_of
from dyn.numpy._broadcast import expand
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.nonzero import pack, scattered
from dyn.numpy._indexing.take import take
from dyn.numpy._manipulation import moveaxis, view
from dyn.numpy._operands import cast, constant, emit, emit_all, made, operand, shape_of, size_in, tracer
from dyn.numpy._public import Array, ArrayLike, Size, public
from dyn.numpy._reductions import fold
from dyn.numpy._sorting.search import never_empty
from dyn.shapes import Dim, product
from dyn.source import user_loc
from dyn.trace import control
from dyn.trace.data_dependent import dim_from_value, memoized_dim
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = ["unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAllResult(NamedTuple):
    """Results of :func:`unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """Results of :func:`unique_counts`."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """Results of :func:`unique_inverse`."""

    values: Array
    inverse_indices: Array


class _Distinct:
    """The distinct elements of an array of n elements: everything that is known once it is sorted."""

    _kind = "elements"

    def __init__(self, what: str, x: Tracer, equal_nan: bool, size: Size | None, *, places: bool = True) -> None:
        """``places``: whether it will be asked where elements stand, for which sorting takes an integer for each."""
        if x.element_type.kind is Kind.COMPLEX:
            raise UnsupportedOpError(
                f"{what} does not take {x.element_type.name}.", loc=user_loc(), remedy="take the parts of it."
            )
        self.x, trace = x, x._trace
        self.numbers = made(trace, "iota", shape=(self._most(),), dimension=0, dtype=dtypes.int64)
        self.sorted, self.order = self._ordered() if places else (self._sorted(), self.numbers)
        self.first = self._starts(equal_nan)
        self.given = size is not None
        self.count = emit("reduce", cast(self.first, dtypes.int64), axes=(0,), combine="add", nonempty=False)
        key = (type(self), x._value, equal_nan)
        self.size = size_in(trace, size, what) if self.given else memoized_dim(trace, key, self._measured)[1]

    def _most(self) -> Dim:
        """Upper bound of the number of distinct elements."""
        return self.x._value.type.size

    def _ordered(self) -> tuple[Tracer, Tracer]:
        """The elements in order, and their places in the array."""
        flat = view(self.x, (self._most(),))
        sorted, order = emit_all("sort", flat, self.numbers, dimension=0, descending=False)
        return sorted, order

    def _sorted(self) -> Tracer:
        """The elements in order."""
        return emit("sort", view(self.x, (self._most(),)), dimension=0, descending=False)

    def _differs(self, equal_nan: bool) -> Tracer:
        """Mark where ordered elements, or rows, differ from those one place before; the first may be marked or not."""
        rank = self.sorted.ndim
        before = emit(
            "pad", self.sorted, constant(self.x._trace, 0, self.sorted.element_type),
            edge_padding_low=(1, *(0,) * (rank - 1)), edge_padding_high=(-1, *(0,) * (rank - 1)),
            interior_padding=(0,) * rank,
        )  # fmt: skip
        differs = emit("compare", self.sorted, before, direction="NE")
        if equal_nan and self.sorted.element_type.is_float:
            numbers = [emit("compare", v, v, direction="EQ") for v in (self.sorted, before)]
            differs = emit("and", differs, emit("or", *numbers))
        return differs

    def _starts(self, equal_nan: bool) -> Tracer:
        """Mark where something new begins: elements that differ from the one before, and the first of all."""
        differs = self._differs(equal_nan)
        return emit("or", differs, emit("compare", self.numbers, self._filled(0), direction="EQ"))

    def _filled(self, value: int) -> Tracer:
        return expand(constant(self.x._trace, value, dtypes.int64), shape_of(self.numbers))

    def _measured(self) -> tuple[Value, Dim]:
        origin = f"the number of distinct {self._kind} of {text_of(self.x)}"
        dim = dim_from_value(self.x._trace, self.count._value, "unique", origin, self._most())
        return self.count._value, dim

    def values(self, fill_value: Any = None) -> Tracer:
        """The elements; where there are fewer than a given size, ``fill_value``, or the least."""
        found = pack(self.sorted, self.first, self.size)
        return self._filled_up(found, self.sorted, fill_value)

    def indices(self) -> Tracer:
        """The first place of each among all elements."""
        return self._filled_up(pack(self.order, self.first, self.size), self.order, None)

    def _filled_up(self, found: Tracer, sorted: Tracer, fill_value: Any) -> Tracer:
        """``found``, and behind it, where a given size is more than there is, the fill value or what stands first."""
        if not self.given:
            return found
        trace, shape = found._trace, shape_of(found)
        fill = take(sorted, 0) if fill_value is None else constant(trace, fill_value, found.element_type)
        places = made(trace, "iota", shape=shape, dimension=0, dtype=dtypes.int64)
        there = emit("compare", places, expand(self.count, shape), direction="LT")
        return emit("select", there, found, expand(fill, shape))

    def inverse(self) -> Tracer:
        """Number of the distinct element that each element of the array is."""
        rank = emit("cumulative", cast(self.first, dtypes.int64), dimension=0, combine="add", reverse=False)
        number = emit("subtract", rank, self._filled(1))
        return self._laid_out(scattered(self._filled(0), self.order, number, "replace"))

    def _laid_out(self, numbers: Tracer) -> Tracer:
        """A number for each element of the array in its shape."""
        return view(numbers, shape_of(self.x))

    def counts(self) -> Tracer:
        """Counts of the distinct elements: how far it is from where each begins to where the next one does."""
        trace, one = self.x._trace, constant(self.x._trace, 1, dtypes.int64)
        starts = pack(self.numbers, self.first, self.size + 1)
        here, after = (
            emit("slice", starts, start=(first,), limit=(self.size + first,), strides=(1,)) for first in (0, 1)
        )
        number = made(trace, "iota", shape=(self.size,), dimension=0, dtype=dtypes.int64)

        def before(count: Tracer) -> Tracer:
            return emit("compare", number, expand(count, (self.size,)), direction="LT")

        whole = expand(tracer(trace, wrap_dim(trace, self._most()), "unique"), (self.size,))
        ends = emit("select", before(emit("subtract", self.count, one)), after, whole)
        zeros = expand(constant(trace, 0, dtypes.int64), (self.size,))
        return emit("select", before(self.count), emit("subtract", ends, here), zeros)


class _DistinctRows(_Distinct):
    """The distinct rows of an array (n, m): ``sorted`` are its rows in lexicographic order."""

    _kind = "rows"

    def _most(self) -> Dim:
        return shape_of(self.x)[0]

    def _ordered(self) -> tuple[Tracer, Tracer]:
        """Rows in order: sorted by the last column first, and stably, so that the first column decides."""
        trace, columns = self.x._trace, shape_of(self.x)[1]

        def by_column(step: Any, order: Tracer) -> Tracer:
            column = emit("subtract", tracer(step._trace, wrap_dim(trace, columns - 1), "unique"), step)
            return emit_all("sort", getitem(self.x, (order, column)), order, dimension=0, descending=False)[1]

        order = control.fori_loop(trace, 0, wrap_dim(trace, columns), by_column, self.numbers)
        return take(self.x, order, axis=0), order

    def _differs(self, equal_nan: bool) -> Tracer:
        return fold(super()._differs(equal_nan), "or", (1,), False)

    def values(self, fill_value: Any = None) -> Tracer:
        """The rows; where there are fewer than a given size, rows of ``fill_value``, or the least."""
        places = pack(self.order, self.first, self.size)
        if fill_value is None:
            return take(self.x, self._filled_up(places, self.order, None), axis=0)
        return self._filled_up(take(never_empty(self.x, 0), places, axis=0), self.sorted, fill_value)

    def _laid_out(self, numbers: Tracer) -> Tracer:
        return numbers


def _distinct_rows(x: Tracer, axis: int, equal_nan: bool, size: Size | None) -> tuple[_DistinctRows, tuple[Dim, ...]]:
    """The slices of an axis, each as a row, and the shape of a row."""
    number = one_axis("unique", axis, x.ndim)
    rows: Tracer = moveaxis(x, number, 0)
    length, *rest = shape_of(rows)
    return _DistinctRows("unique", view(rows, (length, product(rest))), equal_nan, size), tuple(rest)


# ---- NumPy's and the standard's faces --------------------------------------------------------------------------------


@public
def unique(
    x: ArrayLike, /, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, size: Size | None = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """Distinct elements in order.

    How many there are is a dim of its own, ``unique``, at most the number of elements: the program goes on computing
    with it. With ``axis`` it takes one sort for each element of a row, the last column first.

    Args:
        x: array of any real dtype, of any shape.
        return_index: whether the place where each stands first is given too.
        return_inverse: whether for each element of ``x``, in its shape, the number of the distinct one is given too.
        return_counts: whether it is given too how often each occurs.
        axis: axis whose places are compared, in lexicographic order: the rows of a matrix along axis 0; the inverse is
            a vector then. None: elements are.
        equal_nan: whether NaNs are one element.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: value of what is missing, where ``size`` is more than there are; None: the least element.

    Returns:
        The elements, a vector of the dtype of ``x``, or with ``axis`` an array with another size there; a tuple of
        these and of arrays of int64 where more is asked for.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        ShapeError: if ``axis`` is not one of ``x``.

    Example:
        >>> dnp.unique(np.array([3, 1, 3]), return_counts=True)
        (array([1, 3]), array([1, 2]))
        >>> dyn.jit(lambda x: dnp.unique(x, size=4, fill_value=0))(np.array([3, 1, 3]))
        array([1, 3, 0, 0])
    """
    value = operand("unique", x, size)
    if axis is None:
        found = _Distinct("unique", value, equal_nan, size, places=return_index or return_inverse)
        parts = [found.values(fill_value)]
    else:
        found, rest = _distinct_rows(value, axis, equal_nan, size)
        rows = found.values(fill_value)
        parts = [moveaxis(view(rows, (shape_of(rows)[0], *rest)), 0, axis)]
    parts += [found.indices()] if return_index else []
    parts += [found.inverse()] if return_inverse else []
    parts += [found.counts()] if return_counts else []
    return parts[0] if len(parts) == 1 else tuple(parts)


def _standard(what: str, x: ArrayLike, size: Size | None, *, places: bool = True) -> _Distinct:
    return _Distinct(what, operand(what, x, size), False, size, places=places)


@public
def unique_all(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> UniqueAllResult:
    """Distinct elements in order, their first places, the inverse, and their counts; each NaN is an element of its own.

    Args:
        x: array of any real dtype, of any shape.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: value of what is missing, where ``size`` is more than there are; None: the least element.

    Returns:
        A named tuple: ``values`` of the dtype of ``x``; ``indices``, ``inverse_indices`` (in the shape of ``x``) and
        ``counts`` of int64.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.unique_all(np.array([3, 1, 3])).inverse_indices
        array([1, 0, 1])
    """
    found = _standard("unique_all", x, size)
    return UniqueAllResult(found.values(fill_value), found.indices(), found.inverse(), found.counts())


@public
def unique_counts(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> UniqueCountsResult:
    """Distinct elements in order and their counts; each NaN is an element of its own.

    Args:
        x: array of any real dtype, of any shape.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: value of what is missing, where ``size`` is more than there are; None: the least element.

    Returns:
        A named tuple: ``values`` of the dtype of ``x`` and ``counts`` of int64.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    found = _standard("unique_counts", x, size, places=False)
    return UniqueCountsResult(found.values(fill_value), found.counts())


@public
def unique_inverse(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> UniqueInverseResult:
    """Distinct elements in order, and which of them each element is; each NaN is an element of its own.

    Args:
        x: array of any real dtype, of any shape.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: value of what is missing, where ``size`` is more than there are; None: the least element.

    Returns:
        A named tuple: ``values`` of the dtype of ``x`` and ``inverse_indices`` of int64, in the shape of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    found = _standard("unique_inverse", x, size)
    return UniqueInverseResult(found.values(fill_value), found.inverse())


@public
def unique_values(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> Array:
    """Distinct elements in order; each NaN is an element of its own.

    Args:
        x: array of any real dtype, of any shape.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: value of what is missing, where ``size`` is more than there are; None: the least element.

    Returns:
        A vector of the dtype of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.unique_values(np.array([3, 1, 3]))
        array([1, 3])
    """
    return _standard("unique_values", x, size, places=False).values(fill_value)
