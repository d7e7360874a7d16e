"""The distinct elements of an array, in order: sorted, counted where one differs from the one before, and packed."""

from __future__ import annotations

from typing import Any, NamedTuple

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.ir.core import Value
from dyn.numpy._axes import text_of
from dyn.numpy._broadcast import expand
from dyn.numpy._manipulation import view
from dyn.numpy._nonzero import pack, scattered
from dyn.numpy._operands import cast, constant, emit, emit_all, made, operand, shape_of, size_in
from dyn.numpy._public import Array, ArrayLike, Size, public
from dyn.numpy._take import take
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.measured import measure, once
from dyn.trace.tracer import Tracer

__all__ = ["unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAllResult(NamedTuple):
    """What :func:`unique_all` gives."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """What :func:`unique_counts` gives."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """What :func:`unique_inverse` gives."""

    values: Array
    inverse_indices: Array


class _Distinct:
    """The distinct elements of an array of n elements: everything that is known once it is sorted."""

    def __init__(self, what: str, x: Tracer, equal_nan: bool, size: Size | None) -> None:
        if x.element_type.kind is Kind.COMPLEX:
            raise UnsupportedOpError(
                f"{what} does not take {x.element_type.name}.", loc=user_loc(), remedy="take the parts of it."
            )
        self.x, trace = x, x._trace
        flat = view(x, (x._value.type.size,))
        self.numbers = made(trace, "iota", shape=shape_of(flat), dimension=0, dtype=dtypes.int64)
        self.sorted, self.order = emit_all("sort", flat, self.numbers, dimension=0, descending=False)
        self.first = cast(self._starts(equal_nan), dtypes.int64)
        self.given = size is not None
        self.count = emit("reduce", self.first, axes=(0,), combine="add", nonempty=False)
        key = ("unique", x._value, equal_nan)
        self.size = size_in(trace, size, what) if self.given else once(trace, key, self._measured)[1]

    def _starts(self, equal_nan: bool) -> Tracer:
        """Where the sorted elements differ from the one before."""
        before = take(self.sorted, emit("subtract", self.numbers, self._filled(1)), mode="clip")
        differs = emit("compare", self.sorted, before, direction="NE")
        if equal_nan and self.sorted.element_type.is_float:
            numbers = [emit("compare", v, v, direction="EQ") for v in (self.sorted, before)]
            differs = emit("and", differs, emit("or", *numbers))
        return emit("or", differs, emit("compare", self.numbers, self._filled(0), direction="EQ"))

    def _filled(self, value: int) -> Tracer:
        return expand(constant(self.x._trace, value, dtypes.int64), shape_of(self.numbers))

    def _measured(self) -> tuple[Value, Dim]:
        origin = f"the number of distinct elements of {text_of(self.x)}"
        dim = measure(self.x._trace, self.count._value, "unique", origin, self.x._value.type.size)
        return self.count._value, dim

    def values(self, fill_value: Any = None) -> Tracer:
        """The elements; where there are fewer than a given size, ``fill_value``, or the least."""
        found = pack(self.sorted, self.first, self.size)
        return self._filled_up(found, self.sorted, fill_value)

    def indices(self) -> Tracer:
        """Where each stands first among all elements."""
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
        """For each element of the array the number of the distinct one that it is."""
        rank = emit("cumulative", self.first, dimension=0, combine="add", reverse=False)
        number = emit("subtract", rank, self._filled(1))
        return view(scattered(self._filled(0), self.order, number, "replace"), shape_of(self.x))

    def counts(self) -> Tracer:
        """How often each occurs."""
        rank = emit("cumulative", self.first, dimension=0, combine="add", reverse=False)
        number = emit("subtract", rank, self._filled(1))
        zeros = expand(constant(self.x._trace, 0, dtypes.int64), (self.size,))
        return scattered(zeros, number, self._filled(1), "add")


# ---- NumPy's and the standard's faces --------------------------------------------------------------------------------


@public
def unique(
    x: ArrayLike, /, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, size: Size | None = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """The distinct elements in order; with them, as a tuple, what is asked for.

    Their shape is a dim of its own, ``unique``, at most the number of elements. ``return_index``: where each stands
    first; ``return_inverse``: for each element of ``x``, in its shape, the number of the distinct one that it is;
    ``return_counts``: how often each occurs; int64 all of them. NaNs are one element with ``equal_nan``. With ``size``
    there are that many: what is more is left out, and what is missing is ``fill_value``, or the least element. An
    ``axis`` is a NotYetError.
    """
    if axis is not None:
        raise NotYetError(
            "unique along an axis comes later.", loc=user_loc(), remedy="leave axis out: elements are compared."
        )
    found = _Distinct("unique", operand("unique", x, size), equal_nan, size)
    parts = [found.values(fill_value)]
    parts += [found.indices()] if return_index else []
    parts += [found.inverse()] if return_inverse else []
    parts += [found.counts()] if return_counts else []
    return parts[0] if len(parts) == 1 else tuple(parts)


def _standard(what: str, x: ArrayLike, size: Size | None) -> _Distinct:
    return _Distinct(what, operand(what, x, size), False, size)


@public
def unique_all(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> UniqueAllResult:
    """The distinct elements in order, where each stands first, the inverse and the counts; each NaN is one."""
    found = _standard("unique_all", x, size)
    return UniqueAllResult(found.values(fill_value), found.indices(), found.inverse(), found.counts())


@public
def unique_counts(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> UniqueCountsResult:
    """The distinct elements in order, and how often each occurs; each NaN is one."""
    found = _standard("unique_counts", x, size)
    return UniqueCountsResult(found.values(fill_value), found.counts())


@public
def unique_inverse(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> UniqueInverseResult:
    """The distinct elements in order, and for each element of ``x`` the number of the one that it is."""
    found = _standard("unique_inverse", x, size)
    return UniqueInverseResult(found.values(fill_value), found.inverse())


@public
def unique_values(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> Array:
    """The distinct elements in order; each NaN is one."""
    return _standard("unique_values", x, size).values(fill_value)
