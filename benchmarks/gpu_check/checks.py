"""Checks, parts of them, and how results are held to the reference's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import dyn
from dyn import dtypes, tree
from dyn.dtypes import Kind

#: What a check gives beside that it passed: numbers and texts for the report.
Figures = Mapping[str, object]
Array = np.ndarray[Any, Any]
#: How far results may be from the reference's, as a share of the largest element.
_TOLERANCE = {"float64": 1e-11, "complex128": 1e-11, "bfloat16": 3e-2, "float16": 4e-3}
_OF_FLOAT32 = 2e-5


class NotApplicableError(Exception):
    """The check says nothing on this machine; the message says why."""


@dataclass(frozen=True)
class Options:
    """What all checks are told: the device's name, the programs beside dyn, and whether figures are only tried out."""

    device: str
    peers: tuple[str, ...] = ("torch", "torchcompile")
    small: bool = False


@dataclass(frozen=True)
class Check:
    """One thing that is looked at: it raises what is wrong, or gives figures."""

    name: str
    run: Callable[[Options], Figures | None]


@dataclass(frozen=True)
class Part:
    """Checks that belong together, and the seconds that they may take. ``is_correctness``: no times are measured."""

    name: str
    title: str
    seconds: float
    checks: tuple[Check, ...]
    is_correctness: bool = True


def there(device: str, value: Any) -> Any:
    """A tree of arrays, on the device."""
    return tree.map(lambda x: dyn.device_put(np.asarray(x), device), value)


def compare(found: Any, wanted: Any, where: object, tolerance: float = 1.0) -> None:
    """Raise an AssertionError unless results on a device are the reference's, up to rounding."""
    for number, (one, other) in enumerate(zip(tree.leaves(found), tree.leaves(wanted), strict=True)):
        actual, value = (x.to_numpy() if isinstance(x, dyn.Array) else np.asarray(x) for x in (one, other))
        problem = _difference(actual, value, tolerance)
        if problem:
            raise AssertionError(f"result {number} at {where}: {problem}")


def _difference(actual: Array, wanted: Array, scale: float) -> str:
    """A difference in words; empty where there is none that counts."""
    if (actual.dtype, actual.shape) != (wanted.dtype, wanted.shape):
        return f"{actual.dtype}{list(actual.shape)}, and not {wanted.dtype}{list(wanted.shape)}"
    dtype = dtypes.dtype(wanted.dtype)
    if dtype.kind in (Kind.BOOL, Kind.INT, Kind.UINT):
        wrong = actual != wanted
        far = 0.0
    else:
        wide = np.complex128 if dtype.kind is Kind.COMPLEX else np.float64
        a, b = actual.astype(wide), wanted.astype(wide)
        far = scale * _TOLERANCE.get(dtype.name, _OF_FLOAT32)
        most = far * np.abs(b[np.isfinite(b)]).max(initial=1.0)
        wrong = ~np.isclose(a, b, rtol=far, atol=most, equal_nan=True)
    if not wrong.any():
        return ""
    place = tuple([int(n) for n in np.argwhere(wrong)[0]])
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} elements differ by more than {far:.0e}; "
        f"the first, at {list(place)}, is {actual[place]}, and not {wanted[place]}"
    )
