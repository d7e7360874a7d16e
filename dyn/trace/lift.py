"""Lifting: anything that may stand for an array, as a value of the program that is being traced."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import config, dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import ArgumentError, UnsupportedOpError
from dyn.integers import INT64, IntegerType
from dyn.ir.builder import literal
from dyn.ir.core import Op, Value
from dyn.ops.shape import dim_size
from dyn.shapes import Dim, Reason, Relation, RelKind, format_dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import SymbolicDim
from dyn.trace.tracer import Tracer

#: What a Python scalar is on its own; beside an array it takes the array's dtype.
WEAK_DTYPES: dict[type, DType] = {
    bool: dtypes.bool_,
    int: dtypes.int64,
    float: dtypes.float64,
    complex: dtypes.complex128,
}


class _ArrayHook:
    """The hook upward: how arrays of other libraries are read, which ``dyn/__init__`` installs once."""

    view: Callable[[Any], np.ndarray[Any, Any]] | None = None
    describe: Callable[[Any], tuple[np.dtype[Any], tuple[int, ...]] | None] | None = None


def install_view(
    view: Callable[[Any], np.ndarray[Any, Any]],
    describe: Callable[[Any], tuple[np.dtype[Any], tuple[int, ...]] | None],
) -> None:
    """Have arrays that are not NumPy's read by ``view``, which raises UnsupportedOpError for what it cannot read.

    ``describe`` gives the dtype and the shape of an array of dyn's, whose elements nobody needs for them, and None for
    any other.
    """
    _ArrayHook.view, _ArrayHook.describe = staticmethod(view), staticmethod(describe)


def weak_dtype(value: object) -> DType | None:
    """The dtype of a Python number, an IntEnum's among them; None for anything else. NumPy's numbers are not weak."""
    if isinstance(value, np.generic | np.ndarray) or not isinstance(value, int | float | complex):
        return None
    return next((dtype for kind, dtype in WEAK_DTYPES.items() if isinstance(value, kind)), None)


def dtype_of(value: Any) -> DType:
    """The dtype that a user means; an error at the user's line where there is none."""
    try:
        return dtypes.dtype(value)
    except UnsupportedOpError as error:
        raise UnsupportedOpError(error.problem, loc=user_loc(), remedy=error.remedy) from None


def default_float() -> DType:
    """The dtype of floats that meet no array."""
    return dtypes.dtype(config.current().default_float)


def settled_dtype(dtype: DType) -> DType:
    """Dtype of a weak value where nothing that it meets decides it."""
    default = default_float()
    if dtype.kind is Kind.FLOAT:
        return default
    if dtype.kind is Kind.COMPLEX and default is not dtypes.float64:
        return dtypes.complex64
    return dtype


def yields_to(value: Value, dtype: DType) -> bool:
    """Whether a weak value takes ``dtype`` beside an array of it."""
    return value.type.weak and dtypes.weak_promote(value.dtype.kind, dtype, default_float()) is dtype


def fitting(size: Dim, dtype: DType) -> tuple[Relation, ...]:
    """Demands on a size that becomes a number of an integer dtype: it fits, as NumPy demands of a Python integer."""
    if not dtype.is_integer:
        return ()
    numbers = IntegerType(dtype.bits, dtype.kind is Kind.INT)
    if isinstance(size, int):
        if not numbers.least <= size <= numbers.most:
            raise does_not_fit(size, dtype)
        return ()
    reason = Reason(f"the size {format_dim(size)} becomes a number of {dtype.name}", user_loc())
    high = Relation(RelKind.GE, numbers.most, size, reason)
    low = Relation(RelKind.GE, size, numbers.least, reason)
    return (*[high] * (numbers.most < INT64.most), *[low] * (numbers.least > INT64.least))


def fitting_of(op: Op | None, dtype: DType) -> tuple[Relation, ...]:
    """:func:`fitting` of the weak value that an op made, where that is a size or an integer."""
    if op is None or not op.result.type.weak or not op.result.dtype.is_integer:
        return ()
    if op.opdef is dim_size:
        return fitting(op.attrs["size"], dtype)
    number = literal(op)
    return () if number is None or number.element is None else fitting(int(number.element), dtype)


def demand_fits(trace: Trace, value: Value, dtype: DType) -> None:
    """Demand of a weak value which is a size or an integer that an integer dtype, in which it is put, has it."""
    trace.builder.adopt(fitting_of(trace.builder.producer(value), dtype))


def converted(trace: Trace, value: Value, dtype: DType) -> Value:
    """A weak value in the dtype of what it stands beside. A size or an integer has to be one of its numbers."""
    demand_fits(trace, value, dtype)
    return trace.emit("convert", value, dtype=dtype)


def check_integers(given: Any, dtype: DType) -> None:
    """Raise UnsupportedOpError where a number, or one in a list, is a Python integer that an integer dtype lacks."""
    if dtype.is_integer:
        try:
            np.array(given, dtype.np)
        except OverflowError:
            least, most = np.min(given), np.max(given)
            raise does_not_fit(most if most > np.iinfo(dtype.np).max else least, dtype) from None


def does_not_fit(number: object, dtype: DType) -> UnsupportedOpError:
    """The error for a Python integer that a dtype does not have."""
    return UnsupportedOpError(
        f"the Python integer {number} does not fit in {dtype.name}.",
        loc=user_loc(),
        remedy="convert the array it meets to a wider dtype with .astype.",
    )


def is_liftable(value: object) -> bool:
    """Whether ``lift`` takes it."""
    if isinstance(value, type):
        return False
    return isinstance(value, Tracer | SymbolicDim | bool | int | float | complex | np.ndarray | np.generic) or (
        hasattr(value, "__array__") or hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")
    )


def as_numpy(value: Any) -> np.ndarray[Any, Any]:
    """An array-like as a NumPy array, of a dtype that dyn has; without a copy where that is possible.

    Its bytes may be in another order than this machine's: a copy in this one would not see what is written to it.

    Raises UnsupportedOpError for dtypes that have no place in a program, and for masked arrays.
    """
    if type(value) is np.ndarray and value.dtype.kind in "biufc":
        return value
    if isinstance(value, np.ndarray):
        array: np.ndarray[Any, Any] = value
    elif _ArrayHook.view is None or isinstance(value, np.generic):
        array = np.asarray(value)
    else:
        array = np.asarray(_ArrayHook.view(value))
    # numpy.ma takes 10 ms to import, and nobody has a masked array who has not imported it.
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(array, masked.MaskedArray):
        raise UnsupportedOpError(
            "a masked array has no place in a compiled program: its mask would be lost.",
            loc=user_loc(),
            remedy="use array.filled(value), and pass the mask as an array of its own.",
        )
    held = next((v for v in array.flat if isinstance(v, Tracer | SymbolicDim)), None) if array.dtype == object else None
    if held is not None:
        what = f"the dimension {held!r}" if isinstance(held, SymbolicDim) else f"an array that is traced ({held!r})"
        raise UnsupportedOpError(
            f"NumPy has made an array of Python objects of {what}.",
            loc=user_loc(),
            remedy="make it with dyn.numpy: asarray([...]), full(shape, value) or stack([...]).",
        )
    if array.dtype.kind in "OSUMmV" and not dtypes.is_known(array.dtype):
        raise UnsupportedOpError(
            f"an array of dtype {array.dtype} has no place in a compiled program.",
            loc=user_loc(),
            remedy="convert it to a numeric dtype first, for example array.astype('float32').",
        )
    return array


def lift_leaves(trace: Trace, leaves: Sequence[Any], names: Sequence[str], function: str) -> list[Value]:
    """The leaves of a tree of arrays and numbers as values; ArgumentError, with its name, for anything else."""
    for number, leaf in enumerate(leaves):
        if not is_liftable(leaf):
            raise ArgumentError(
                f"{function}: {names[number]} is a {type(leaf).__name__}, which is not an array.",
                loc=user_loc(),
                remedy="pass arrays or numbers there, and close over everything else.",
            )
    return [lift(trace, leaf) for leaf in leaves]


def lift(trace: Trace, value: Any) -> Value:
    """``value`` as a value of ``trace``.

    Python scalars are weakly typed constants, NumPy scalars constants, dims weakly typed scalars; arrays become hidden
    parameters, which are read anew at each call. Where the trace abstracts closures, numbers become such as well.
    """
    if isinstance(value, Tracer):
        return value.value_in(trace)
    if isinstance(value, SymbolicDim):
        return value.value().value_in(trace)
    weak = weak_dtype(value)
    if weak is not None:
        if weak is dtypes.int64 and not -(2**63) <= value < 2**63:
            raise UnsupportedOpError(
                f"the Python integer {value} does not fit in int64.",
                loc=user_loc(),
                remedy="use a float, or a NumPy uint64.",
            )
        return trace.number(value, np.array(value, weak.np), weak=True)
    if isinstance(value, np.generic):
        return trace.number(value, np.array(as_numpy(value)))
    described = None if _ArrayHook.describe is None else _ArrayHook.describe(value)
    if described is not None:
        return trace.captured(value, dtypes.dtype(described[0]), described[1])
    array = as_numpy(value)
    return trace.captured(value, dtypes.dtype(array.dtype), tuple([int(n) for n in array.shape]))
