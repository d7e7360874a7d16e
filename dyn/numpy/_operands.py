"""Operands of operations: users' arguments as values of one dtype.

Python numbers and dimensions are weak: beside an array they take its dtype (NEP 50, https://numpy.org/neps/nep-0050).
They become constants of that dtype at once, so that no conversion stands in the program.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import UnsupportedOpError
from dyn.numpy._public import trace_of
from dyn.shapes import Dim, RelKind
from dyn.source import user_loc
from dyn.trace.context import Trace, installed_namespace
from dyn.trace.data_dependent import dim_from_value
from dyn.trace.dims import SymbolicDim
from dyn.trace.lift import WEAK_DTYPES, default_float, demand_fits, does_not_fit, fitting, is_liftable, lift
from dyn.trace.tracer import Tracer

#: Changes the common dtype of an operation's operands to the one it computes in.
Choose = Callable[[DType], DType]


def to_float(dtype: DType) -> DType:
    """Inexact dtypes as they are, others as the default float."""
    return dtype if dtype.is_inexact else default_float()


# ---- single operands -------------------------------------------------------------------------------------------------


def emit(name: str, *operands: Tracer, **attrs: Any) -> Tracer:
    """Append an op to the operands' trace."""
    trace = operands[0]._trace
    return Tracer(trace, trace.emit(name, *(x._value for x in operands), **attrs))


def emit_all(name: str, *operands: Tracer, **attrs: Any) -> tuple[Tracer, ...]:
    """Append an op of several results."""
    trace = operands[0]._trace
    return tuple(Tracer(trace, v) for v in trace.emit_all(name, *(x._value for x in operands), **attrs))


def made(trace: Trace, name: str, **attrs: Any) -> Tracer:
    """Append an op without operands."""
    return Tracer(trace, trace.emit(name, **attrs))


def shape_of(x: Tracer) -> tuple[Dim, ...]:
    """The dims of an array, without the face that users see."""
    return x._value.shape


class _Lists(threading.local):
    """The depth to which this thread is in calls of NumPy's functions, which take lists for arrays."""

    depth = 0


_LISTS = _Lists()


@contextlib.contextmanager
def taking_lists() -> Iterator[None]:
    """Have operations take lists of numbers and of arrays for arrays, as NumPy's functions do."""
    _LISTS.depth += 1
    try:
        yield
    finally:
        _LISTS.depth -= 1


def tracer(trace: Trace, value: Any, what: str) -> Tracer:
    """An operand as a tracer of ``trace``, in its own dtype."""
    if isinstance(value, Tracer):
        own = value.value_in(trace)
        return value if value._trace is trace else Tracer(trace, own)  # of a trace around this one
    if _LISTS.depth and isinstance(value, list | tuple):
        return tracer(trace, installed_namespace().asarray(value), what)
    if not is_liftable(value):
        kind = type(value).__name__
        remedy = "make it an array with dyn.numpy.asarray." if isinstance(value, list | tuple) else "pass an array."
        raise UnsupportedOpError(f"{what} does not take a {kind} for an array.", loc=user_loc(), remedy=remedy)
    return Tracer(trace, lift(trace, value))


def operand(what: str, value: Any, *others: Any) -> Tracer:
    """The first operand of a function that takes one array, in its own dtype."""
    return tracer(trace_of(value, *others), value, what)


def constant(trace: Trace, value: bool | int | float | complex, dtype: DType, *, weak: bool = False) -> Tracer:
    """A scalar of the program, whose value is dyn's own choice."""
    return Tracer(trace, trace.constant(_scalar(value, dtype), weak=weak))


def number(trace: Trace, value: bool | int | float | complex, dtype: DType, *, weak: bool = False) -> Tracer:
    """A number that a user gives as a scalar of the program."""
    return Tracer(trace, trace.number(value, _scalar(value, dtype), weak=weak))


def _scalar(value: bool | int | float | complex, dtype: DType) -> np.ndarray[Any, Any]:
    try:
        with np.errstate(all="ignore"):
            return np.array(value, dtype.np)
    except OverflowError:
        raise does_not_fit(value, dtype) from None


def like(x: Tracer, value: bool | int | float) -> Tracer:
    """A scalar of the dtype of ``x``, as weak as ``x``."""
    return constant(x._trace, value, x.element_type, weak=x.weak)


def cast(x: Tracer, dtype: DType, *, weak: bool = False) -> Tracer:
    """``x`` in another dtype; itself where it has it. A Python integer or a size has to be one of its numbers."""
    if x.element_type is dtype and x.weak == weak:
        return x
    if x.weak:
        demand_fits(x._trace, x._value, dtype)
    return emit("convert", x, dtype=dtype, **({"weak": True} if weak else {}))


# ---- several operands of one dtype -----------------------------------------------------------------------------------


def _is_weak(value: Any) -> bool:
    if isinstance(value, Tracer):
        return value.weak
    return isinstance(value, SymbolicDim) or type(value) in WEAK_DTYPES


def _kind(value: Any) -> Kind:
    if isinstance(value, Tracer):
        return value.element_type.kind
    return Kind.INT if isinstance(value, SymbolicDim) else WEAK_DTYPES[type(value)].kind


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Tracer) or value.ndim == 0


def _weak_dtype(kind: Kind, scalar: bool) -> DType:
    """The dtype of weak values among themselves: as precise as Python's while they are scalars."""
    default = default_float()
    if kind is Kind.FLOAT:
        return dtypes.float64 if scalar else default
    if kind is Kind.COMPLEX:
        return dtypes.complex128 if scalar or default is dtypes.float64 else dtypes.complex64
    return dtypes.bool_ if kind is Kind.BOOL else dtypes.int64


def common_dtype(values: Sequence[Any]) -> tuple[DType, bool]:
    """The dtype that tracers, Python numbers and dimensions combine to, and whether it is weak."""
    strong = [value.element_type for value in values if not _is_weak(value)]
    weak = [_kind(value) for value in values if _is_weak(value)]
    return combine(strong, weak, scalar=all(_is_scalar(v) for v in values))


def combine(strong: Sequence[DType], weak: Sequence[Kind], *, scalar: bool = True) -> tuple[DType, bool]:
    """The dtype of strong dtypes and weak kinds together, and whether it is weak."""
    kind = max(weak, key=lambda kind: kind.value, default=None)
    if not strong:
        assert kind is not None
        return _weak_dtype(kind, scalar), True
    try:
        dtype = functools.reduce(dtypes.promote, strong)
        return (dtype if kind is None else dtypes.weak_promote(kind, dtype, default_float())), False
    except UnsupportedOpError as error:
        raise UnsupportedOpError(error.problem, loc=user_loc(), remedy=error.remedy) from None


def promote(what: str, *values: Any, choose: Choose | None = None) -> list[Tracer]:
    """Operands of one dtype: the common one, after ``choose``. Their shapes stay as they are."""
    trace = trace_of(*values)
    items = [v if type(v) in WEAK_DTYPES or isinstance(v, SymbolicDim) else tracer(trace, v, what) for v in values]
    dtype, weak = common_dtype(items)
    if choose is not None:
        chosen = choose(dtype)
        if weak and chosen is not dtype:
            chosen = _weak_dtype(chosen.kind, all(_is_scalar(v) for v in items))
        dtype = chosen
    return [_in_dtype(trace, item, dtype, weak) for item in items]


def _in_dtype(trace: Trace, item: Any, dtype: DType, weak: bool) -> Tracer:
    if isinstance(item, Tracer):
        return cast(item, dtype, weak=weak and item.weak)
    if isinstance(item, SymbolicDim):
        _check_home(trace, item)
        if dtype.kind is Kind.BOOL:
            return cast(made(trace, "dim_size", size=item.dim, dtype=dtypes.int64), dtype)
        trace.builder.adopt(fitting(item.dim, dtype))
        return made(trace, "dim_size", size=item.dim, dtype=dtype)
    return number(trace, item, dtype, weak=weak)


def in_int64(x: Tracer) -> Tracer:
    """Integers in int64; those of uint64 that it has not as its greatest, which is beyond every size and place."""
    if x.element_type is dtypes.uint64:
        most, shape = constant(x._trace, 2**63 - 1, dtypes.uint64), shape_of(x)
        x = emit("minimum", x, emit("broadcast_in_dim", most, shape=shape, dims=()) if shape else most)
    return cast(x, dtypes.int64)


def size_from_value(count: Tracer, name: str, origin: str, limit: Dim | None = None) -> Dim:
    """A traced integer scalar as a dim (``dyn.trace.data_dependent``)."""
    return dim_from_value(count._trace, count._value, name, origin, limit)


def vector_of(trace: Trace, numbers: Sequence[Any]) -> Tracer:
    """Ints, dims and traced integers as a vector of int64; numbers alone are part of the program."""
    rows: list[Tracer] = []
    for number in numbers:
        if isinstance(number, Tracer):
            each = in_int64(tracer(trace, number, "a list of numbers"))
        else:
            dim = number.dim if isinstance(number, SymbolicDim) else number
            each = made(trace, "dim_size", size=dim, dtype=dtypes.int64)
        rows.append(emit("reshape", each, shape=(1,)))
    return rows[0] if len(rows) == 1 else emit("concatenate", *rows, dimension=0)


def demand_none(flags: Tracer, name: str, origin: str, text: str) -> None:
    """Demand that no flag of a vector is true, which the program finds out while it runs.

    ``origin`` says what their number, the dim ``name``, is; ``text`` why it is 0.
    """
    numbers = cast(flags, dtypes.int64)
    dim = size_from_value(emit("reduce", numbers, axes=(0,), combine="add", nonempty=False), name, origin)
    flags._trace.demand(RelKind.EQ, dim, 0, text)


def _check_home(trace: Trace, dim: SymbolicDim) -> None:
    if not trace.alive or not dim.trace.encloses(trace):
        dim.value().value_in(trace)  # raises, with both places


def offset_in(trace: Trace, offset: Any, what: str) -> Dim:
    """A distance that a user gives, as a size is; a traced one may be negative too."""
    if not isinstance(offset, Tracer) or offset.ndim or not offset.element_type.is_integer:
        return size_in(trace, offset, what)
    value = in_int64(tracer(trace, offset, what))
    none, least = (constant(trace, n, dtypes.int64) for n in (0, -(2**63 - 1)))
    after = size_from_value(emit("maximum", value, none), "after", f"how far {what} goes on")
    turned = emit("negate", emit("maximum", value, least))
    before = size_from_value(emit("maximum", turned, none), "before", f"how far {what} goes back")
    return after - before


def size_in(trace: Trace, size: Any, what: str) -> Dim:
    """A size that a user gives: an int, a dimension of ``trace``, what has ``__index__``, or a traced integer.

    A traced one is a dim that is measured when the program runs.
    """
    if isinstance(size, SymbolicDim):
        _check_home(trace, size)
        return size.known_here()
    if isinstance(size, Tracer) and size.ndim == 0 and size.element_type.is_integer:
        return size_from_value(size, "size", f"a size that {what} is given")
    index = None if isinstance(size, bool) else getattr(type(size), "__index__", None)
    if index is None:
        raise UnsupportedOpError(
            f"{what} does not take the {type(size).__name__} {size!r} for a size.",
            loc=user_loc(),
            remedy="use an int, or a dimension such as x.shape[0].",
        )
    return int(index(size))
