"""The array API standard's questions about the namespace itself, and its devices.

https://data-apis.org/array-api/2024.12/API_specification/inspection.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import ArgumentError
from dyn.late_imports import import_whole
from dyn.runtime.device_memory import parse_device
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
    """Raise ArgumentError for a device in a trace: its arrays are all where the program runs. None and the processor,
    which they say that they are on, stand for that."""
    if device is not None and parse_device(str(device)) is not None:
        raise ArgumentError(
            f"{what}: device={device!r} in a program, whose arrays are all where it runs.",
            loc=user_loc(),
            remedy="leave it out, and run the program there: by jit(device=…), or by arguments that are there.",
        )


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
        import_whole("dyn.backends.devices")
        from dyn.backends.devices import devices

        return list(map(str, devices()))

    def default_dtypes(self, *, device: object = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of what is made without one, by what it is."""
        _check_name(device)
        return {
            "real floating": default_float().np,
            "complex floating": settled_dtype(dtypes.complex128).np,
            "integral": dtypes.int64.np,
            "indexing": dtypes.int64.np,
        }

    def dtypes(self, *, device: object = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes by name, all of them or those of a kind, or of several."""
        _check_name(device)
        wanted = _kinds(kind)
        return {d.name: d.np for d in dtypes.ALL if d.kind in wanted and _in_standard(d)}


def _check_name(device: object) -> None:
    """Raise ArgumentError for the name of no device. The dtypes are those of all."""
    if device is not None:
        parse_device(str(device))


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
    """Inspection of the namespace, as the array API standard has it: capabilities, devices, dtypes.

    Returns:
        An object with the methods ``capabilities``, ``default_device``, ``default_dtypes``, ``devices`` and ``dtypes``.

    Example:
        >>> dnp.__array_namespace_info__().default_device()
        'cpu'
    """
    return _Info()
