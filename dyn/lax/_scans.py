"""Scans with a function of one's own, and running sums, products and extremes, with JAX's names and argument orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dyn.dtypes import Kind
from dyn.errors import ArgumentError, ShapeError, TraceError, UnsupportedOpError
from dyn.ir.core import Value
from dyn.lax._operands import raw
from dyn.shapes import RelKind, SymExpr, dim_max
from dyn.source import user_loc
from dyn.trace import control
from dyn.trace.context import Trace
from dyn.trace.lift import is_liftable, lift, lift_leaves, settled_dtype
from dyn.trace.pytree import flatten, leaf_names, tree_text, unflatten
from dyn.trace.tracer import Tracer, active_trace
from dyn.tracebacks import without_own_frames
from dyn.transforms import Transformed

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


# --- any associative function -----------------------------------------------------------------------------------------


@without_own_frames
def associative_scan(fn: Function, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Scan along an axis: every element combined by a function with all before it.

    The program goes from element to element, n - 1 calls of ``fn`` in all, in the order of a loop: a tree of partial
    results, as JAX has it, would compute twice as much or more, and has nothing to give where the elements of one step
    are as many as a core can take.

    Args:
        fn: associative function of two trees of slices, whose axis has the size 1, that gives another of their shapes
            and dtypes.
        elems: tree of arrays with one size along the axis, which may be 0 and need not be known.
        reverse: whether it goes from the end: the first argument of ``fn`` is what follows the second, as in JAX.
        axis: axis to go along.

    Returns:
        A tree of arrays like ``elems``.

    Raises:
        ArgumentError: if there is no array, or ``fn`` is no function.
        ShapeError: if the axis is not there, or sizes differ, at the call at the latest.
        TraceError: if ``fn`` gives something of another form.

    Example:
        >>> lax.associative_scan(lambda a, b: a * b, np.array([1, 2, 3, 4]))
        array([ 1,  2,  6, 24])
    """
    if not callable(fn):
        raise ArgumentError(
            f"associative_scan takes a function, not a {type(fn).__name__}.",
            loc=user_loc(),
            remedy="write associative_scan(fn, elems).",
        )

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _scanned(trace, fn, args[0], bool(reverse), axis)

    return Transformed("associative_scan", fn, inside)(elems)


def _scanned(trace: Trace, fn: Function, elems: Any, reverse: bool, axis: int) -> Any:
    leaves, tree = flatten(elems)
    names = leaf_names(tree, "elems")
    values = lift_leaves(trace, leaves, names, "associative_scan")
    axes = [_axis_of("associative_scan", x, axis, name) for x, name in zip(values, names, strict=True)]
    if not values:
        raise ArgumentError(
            "associative_scan: there are no arrays to go along.", loc=user_loc(), remedy="pass a tree of arrays."
        )
    _check_lengths(trace, values, axes, names)
    rows = [_front(trace, x, a) for x, a in zip(values, axes, strict=True)]
    firsts, rests = zip(*(_parted(trace, x, reverse) for x in rows), strict=True)

    def step(carry: list[Tracer], x: list[Tracer]) -> Any:
        slices = _slices(x, axes)
        new, new_tree = flatten(fn(unflatten(tree, _slices(carry, axes)), unflatten(tree, slices)))
        if new_tree != tree:
            raise TraceError(
                f"the function of associative_scan gives {tree_text(new_tree)}, and takes {tree_text(tree)}.",
                loc=user_loc(),
                remedy="return a tree of the same structure.",
            )
        found = lift_leaves(slices[0]._trace, new, leaf_names(tree, "the result"), "associative_scan")
        dropped = _rows(slices, found, axes, names)
        return dropped, dropped

    start = [Tracer(trace, _row(trace, x)) for x in firsts]
    _, made = control.scan(trace, step, start, [Tracer(trace, x) for x in rests], None, reverse, "associative_scan")
    results: list[Tracer] = []
    for first, rest, x, a in zip(firsts, made, rows, axes, strict=True):
        whole = [rest._value, first] if reverse else [first, rest._value]
        joined = _cut(trace, trace.emit("concatenate", *whole, dimension=0), 0, x.shape[0])
        results.append(Tracer(trace, _back(trace, joined, a)))
    return unflatten(tree, results)


def _axis_of(what: str, x: Value, axis: int, name: str) -> int:
    if not -x.type.rank <= axis < x.type.rank:
        raise ShapeError(
            f"{what}: {name}, an array with {x.type.rank} axes, has no axis {axis}.",
            loc=user_loc(),
            remedy="name an axis that every array has.",
        )
    return axis % x.type.rank


def _check_lengths(trace: Trace, values: Sequence[Value], axes: Sequence[int], names: Sequence[str]) -> None:
    length = values[0].shape[axes[0]]
    for x, axis, name in zip(values[1:], axes[1:], names[1:], strict=True):
        text = f"associative_scan goes along {name}.shape[{axis}] together with {names[0]}.shape[{axes[0]}]"
        trace.demand(RelKind.EQ, length, x.shape[axis], text)


def _front(trace: Trace, x: Value, axis: int) -> Value:
    order = (axis, *(a for a in range(x.type.rank) if a != axis))
    return trace.emit("transpose", x, permutation=order) if axis else x


def _back(trace: Trace, x: Value, axis: int) -> Value:
    order = (*range(1, axis + 1), 0, *range(axis + 1, x.type.rank))
    return trace.emit("transpose", x, permutation=order) if axis else x


def _cut(trace: Trace, x: Value, start: Any, limit: Any) -> Value:
    """Rows of an array; ``start`` and ``limit`` lie inside."""
    starts, limits = (start, *(0 for _ in x.shape[1:])), (limit, *x.shape[1:])
    return trace.emit("slice", x, start=starts, limit=limits, strides=(1,) * x.type.rank)


def _parted(trace: Trace, x: Value, reverse: bool) -> tuple[Value, Value]:
    """The row that a scan starts with, and the others. Of no rows the first is zeros, which are cut off at the end."""
    length = x.shape[0]
    more = trace.facts.simplify(dim_max(1 - length, 0))
    if isinstance(more, SymExpr) or more:
        zero = trace.constant(x.dtype.np.type(0).reshape(()))
        none = (0,) * x.type.rank
        high = (more, *none[1:])
        x = trace.emit("pad", x, zero, edge_padding_low=none, edge_padding_high=high, interior_padding=none)
    rows = trace.facts.simplify(dim_max(length, 1))
    if reverse:
        return _cut(trace, x, rows - 1, rows), _cut(trace, x, 0, rows - 1)
    return _cut(trace, x, 0, 1), _cut(trace, x, 1, rows)


def _row(trace: Trace, x: Value) -> Value:
    return trace.emit("reshape", x, shape=x.shape[1:])


def _slices(rows: Sequence[Tracer], axes: Sequence[int]) -> list[Tracer]:
    """Rows with the axis that was taken out of them, of size 1, where it was."""
    made: list[Tracer] = []
    for row, axis in zip(rows, axes, strict=True):
        shape = row._value.shape
        value = row._trace.emit("reshape", row._value, shape=(*shape[:axis], 1, *shape[axis:]))
        made.append(Tracer(row._trace, value))
    return made


def _rows(slices: Sequence[Tracer], found: Sequence[Value], axes: Sequence[int], names: Sequence[str]) -> list[Tracer]:
    """Results of the function for slices, without the axis; that the rest is what it was is checked by the loop."""
    made: list[Tracer] = []
    for x, value, axis, name in zip(slices, found, axes, names, strict=True):
        trace, shape = x._trace, value.shape
        if len(shape) != x.ndim or not trace.facts.eq(shape[axis], 1).proved:
            raise TraceError(
                f"the function of associative_scan gives {value.type} for {name}, and takes {x._value.type}.",
                loc=user_loc(),
                remedy="return arrays of the shapes of the arguments.",
            )
        made.append(Tracer(trace, trace.emit("reshape", value, shape=(*shape[:axis], *shape[axis + 1 :]))))
    return made


# --- running sums and extremes ----------------------------------------------------------------------------------------


def _operand(what: str, operand: Any, axis: int) -> tuple[Trace, Value, int]:
    trace = active_trace(operand)
    assert trace is not None, "only reached through `raw`"
    if not is_liftable(operand):
        raise UnsupportedOpError(
            f"{what} does not take a {type(operand).__name__} for an array.",
            loc=user_loc(),
            remedy="make it an array with dyn.numpy.asarray.",
        )
    value = lift(trace, operand)
    if value.type.weak:
        value = trace.emit("convert", value, dtype=settled_dtype(value.dtype))
    return trace, value, _axis_of(what, value, axis, "the operand")


def _running(what: str, combine: str, operand: Any, axis: int, reverse: bool) -> Tracer:
    trace, value, number = _operand(what, operand, axis)
    made = trace.emit("cumulative", value, dimension=number, combine=combine, reverse=bool(reverse))
    return Tracer(trace, made)


@raw
def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running sum along an axis.

    Args:
        operand: array of any dtype but bool.
        axis: axis to go along; its size may be symbolic.
        reverse: whether each element is summed with those after it.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if ``axis`` is not one of ``operand``.
        UnsupportedOpError: if ``operand`` has another dtype.

    Example:
        >>> lax.cumsum(np.array([1, 2, 3]), reverse=True)
        array([6, 5, 3])
    """
    return _running("cumsum", "add", operand, axis, reverse)


@raw
def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running product along an axis.

    Args:
        operand: array of any dtype but bool.
        axis: axis to go along; its size may be symbolic.
        reverse: whether each element is multiplied with those after it.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if ``axis`` is not one of ``operand``.
        UnsupportedOpError: if ``operand`` has another dtype.

    Example:
        >>> lax.cumprod(np.array([1, 2, 3]))
        array([1, 2, 6])
    """
    return _running("cumprod", "multiply", operand, axis, reverse)


@raw
def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running maximum along an axis; NaN from the first NaN on.

    Args:
        operand: array of any real dtype.
        axis: axis to go along; its size may be symbolic.
        reverse: whether each element is compared with those after it.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if ``axis`` is not one of ``operand``.
        UnsupportedOpError: if ``operand`` has another dtype.

    Example:
        >>> lax.cummax(np.array([1, 3, 2]))
        array([1, 3, 3])
    """
    return _running("cummax", "maximum", operand, axis, reverse)


@raw
def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running minimum along an axis; NaN from the first NaN on.

    Args:
        operand: array of any real dtype.
        axis: axis to go along; its size may be symbolic.
        reverse: whether each element is compared with those after it.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if ``axis`` is not one of ``operand``.
        UnsupportedOpError: if ``operand`` has another dtype.

    Example:
        >>> lax.cummin(np.array([3, 1, 2]))
        array([3, 1, 1])
    """
    return _running("cummin", "minimum", operand, axis, reverse)


@raw
def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """``log(cumsum(exp(x)))`` along an axis, without overflow in between.

    Args:
        operand: array of any float dtype.
        axis: axis to go along; its size may be symbolic.
        reverse: whether it goes from the end.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if ``axis`` is not one of ``operand``.
        UnsupportedOpError: if ``operand`` has another dtype.

    Example:
        >>> lax.cumlogsumexp(np.array([0.0, 0.0]))
        array([0.        , 0.69314718])
    """
    trace, value, number = _operand("cumlogsumexp", operand, axis)
    if value.dtype.kind is not Kind.FLOAT:
        raise UnsupportedOpError(
            f"cumlogsumexp takes floats, not {value.dtype.name}.",
            loc=user_loc(),
            remedy="convert the array with .astype('float32').",
        )
    return _scanned(trace, _log_of_sum, Tracer(trace, value), bool(reverse), number)


def _log_of_sum(x: Tracer, y: Tracer) -> Tracer:
    """``log(exp(x) + exp(y))``, whose derivatives are stated."""
    return x._trace.namespace.logaddexp(x, y)
