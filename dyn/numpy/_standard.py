"""The array API standard's questions about the namespace itself, and its devices.

https://data-apis.org/array-api/2024.12/API_specification/inspection.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import ArgumentError
from dyn.source import user_loc
from dyn.trace.lift import default_float, settled_dtype

__all__ = ["__array_api_version__", "__array_namespace_info__", "check_device", "check_version"]

__array_api_version__ = "2024.12"

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
_KINDS: dict[str, tuple[Kind, ...]] = {
    "bool": (Kind.BOOL,), "signed integer": (Kind.INT,), "unsigned integer": (Kind.UINT,),
    "integral": (Kind.INT, Kind.UINT), "real floating": (Kind.FLOAT,), "complex floating": (Kind.COMPLEX,),
    "numeric": (Kind.INT, Kind.UINT, Kind.FLOAT, Kind.COMPLEX),
}  # fmt: skip


def check_version(api_version: str | None) -> None:
    """Raise ArgumentError for a version of the standard that ``dyn.numpy`` does not follow."""
    if api_version is not None and api_version not in _VERSIONS:
        raise ArgumentError(
            f"dyn.numpy follows the array API standard {__array_api_version__}, not {api_version!r}.",
            loc=user_loc(),
            remedy="ask for one of " + ", ".join(_VERSIONS) + ".",
        )


def check_device(what: str, device: object) -> None:
    """Raise ArgumentError for a device that arrays cannot be on: all are on the CPU. None is that of the others."""
    if device is not None and str(device) not in ("cpu", "cpu:0"):
        raise ArgumentError(f"{what}: there is no device {device!r}.", loc=user_loc(), remedy='use "cpu".')


class _Info:
    """The result of ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """The optional parts of the standard that are there."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The device of arrays for which nothing else is said."""
        return "cpu"

    def devices(self) -> list[str]:
        """The devices that ``device=`` takes."""
        return ["cpu"]

    def default_dtypes(self, *, device: object = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of what is made without one, by what it is."""
        check_device("default_dtypes", device)
        return {
            "real floating": default_float().np,
            "complex floating": settled_dtype(dtypes.complex128).np,
            "integral": dtypes.int64.np,
            "indexing": dtypes.int64.np,
        }

    def dtypes(self, *, device: object = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes by name, all of them or those of a kind, or of several."""
        check_device("dtypes", device)
        wanted = _kinds(kind)
        return {d.name: d.np for d in dtypes.ALL if d.kind in wanted and _in_standard(d)}


def _kinds(kind: str | tuple[str, ...] | None) -> set[Kind]:
    if kind is None:
        return set(Kind)
    names = kind if isinstance(kind, tuple) else (kind,)
    for name in names:
        if name not in _KINDS:
            raise ArgumentError(
                f"dtypes: {name!r} is no kind of dtype.",
                loc=user_loc(),
                remedy="use one of " + ", ".join(map(repr, _KINDS)) + ".",
            )
    return {kind for name in names for kind in _KINDS[name]}


def _in_standard(dtype: DType) -> bool:
    return not dtype.is_narrow


def __array_namespace_info__() -> _Info:
    """The standard's inspection of a namespace: capabilities, devices, dtypes."""
    return _Info()
