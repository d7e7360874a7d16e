"""Results of libraries' functions, as flat lists, and how two of them are compared."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

#: Relative tolerances, and absolute ones beside a part of the greatest element, by the dtype of the inputs.
TOLERANCES = {"float64": (1e-7, 1e-13), "float32": (1e-4, 1e-6)}


class Differs(Exception):
    """A result is not NumPy's."""


class TypeDiffers(Differs):
    """A result has another dtype or class than NumPy's."""


def leaves(result: Any) -> list[Any]:
    """The arrays, numbers and texts in a result, in a fixed order; of other objects, those in their attributes."""
    return list(_leaves(result, 0))


def _leaves(result: Any, depth: int) -> Iterator[Any]:
    """The leaves of a part of a result, which is so deep in it."""
    if result is None or isinstance(result, (str, bool, int, float, complex, np.generic, np.ndarray, enum.Enum)):
        yield result
    elif hasattr(result, "__array_namespace__") or hasattr(result, "__index__"):
        yield result  # an array of any library, or a size that is an object of its own
    elif isinstance(result, Mapping):
        for key in sorted(result, key=str):
            yield from _leaves(result[key], depth + 1)
    elif isinstance(result, (Sequence, set, frozenset)):
        for one in result:
            yield from _leaves(one, depth + 1)
    elif dataclasses.is_dataclass(result):
        for field in dataclasses.fields(result):
            yield from _leaves(getattr(result, field.name), depth + 1)
    elif isinstance(result, slice):
        yield from (result.start, result.stop, result.step)
    elif depth < 3 and hasattr(result, "__dict__") and not callable(result):
        for name in sorted(vars(result)):
            if not name.startswith("_"):
                yield from _leaves(vars(result)[name], depth + 1)


def is_array(value: Any) -> bool:
    """Return True if a leaf is an array, of NumPy or of another library."""
    return isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array_namespace__")


def compare(made: Sequence[Any], wanted: Sequence[Any], dtype: str) -> None:
    """Compare the values of a result with those of NumPy's arrays.

    Args:
        made: the leaves to look at.
        wanted: the leaves that NumPy's arrays came to.
        dtype: the dtype of the inputs, which decides the tolerance.

    Raises:
        Differs: the values are others.
    """
    if len(made) != len(wanted):
        raise Differs(f"{len(made)} results, where NumPy's are {len(wanted)}")
    for own, numpys in zip(made, wanted, strict=True):
        if isinstance(numpys, (np.ndarray, np.generic, int, float, complex)):
            _compare_values(own, numpys, dtype)
        elif own != numpys:
            raise Differs(f"{own!r}, where NumPy's is {numpys!r}"[:160])


def compare_types(made: Sequence[Any], wanted: Sequence[Any], kind: type, of: type) -> None:
    """Compare the dtypes of arrays in a result, and their class.

    Args:
        made: the leaves to look at.
        wanted: the leaves that the arrays of NumPy, or of array-api-strict, came to.
        kind: the class that a leaf must have where it is an ``of`` in ``wanted``.
        of: the class of the arrays that ``wanted`` came from.

    Raises:
        TypeDiffers: a dtype or a class is another.
    """
    for own, other in zip(made, wanted, strict=True):
        if not is_array(other) or isinstance(other, np.generic):
            continue
        if isinstance(other, of) and not isinstance(own, kind):
            raise TypeDiffers(f"the result is {type(own).__module__}.{type(own).__name__}, not {kind.__name__}")
        if _dtype(own) != _dtype(other):
            raise TypeDiffers(f"{_dtype(own)}, where NumPy's is {_dtype(other)}")


def _dtype(leaf: Any) -> str:
    """The name of a leaf's dtype, in any library."""
    return str(getattr(leaf, "dtype", type(leaf).__name__)).rpartition(".")[2]


def _compare_values(own: Any, numpys: Any, dtype: str) -> None:
    """Compare the shape and elements of one leaf."""
    if isinstance(own, str) or own is None:
        raise Differs(f"{own!r}, where NumPy's is an array")
    got, want = np.asarray(own), np.asarray(numpys)
    if got.shape != want.shape:
        raise Differs(f"the shape {got.shape}, where NumPy's is {want.shape}")
    if want.dtype.kind in "OUS":
        if not np.array_equal(got, want):
            raise Differs("other texts or objects")
        return
    relative, absolute = TOLERANCES[dtype]
    finite = np.abs(want[np.isfinite(want)]) if want.dtype.kind in "fc" else np.zeros(0)
    allowed = absolute + relative * float(finite.max(initial=0.0))
    if want.dtype.kind not in "fc":
        relative = allowed = 0.0
    close = np.isclose(got, want, rtol=relative, atol=allowed, equal_nan=True)
    if not close.all():
        where = np.argmin(close.reshape(-1))
        raise Differs(f"other values: {got.reshape(-1)[where]}, where NumPy's is {want.reshape(-1)[where]}"[:160])
