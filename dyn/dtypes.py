"""Element types, and how they combine.

A :class:`DType` is a small frozen record; there is one instance a type. Indexing one writes an annotation:
``x: dyn.f32["b", "s", 768]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np

from dyn.errors import UnsupportedOpError


class Kind(Enum):
    """What sort of number a dtype holds, in promotion order."""

    BOOL = 0
    UINT = 1
    INT = 2
    FLOAT = 3
    COMPLEX = 4


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """A dtype with a declared shape, as written in an annotation: ``dyn.f32["b", "s", 768]``."""

    dtype: DType
    shape: tuple[str | int, ...]

    def __or__(self, other: None) -> ArraySpec:
        """``dyn.f32["n"] | None``: an argument that may be left out. None has no shape to declare."""
        return self if other is None else NotImplemented

    __ror__ = __or__


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type: its NumPy name, the short name used in IR text, its kind and its width in bits."""

    name: str
    short: str
    kind: Kind
    bits: int
    np: np.dtype[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's. What has this attribute NumPy takes for a dtype: ``np.zeros(3, dyn.f32)``, ``x.astype(dyn.f32)``."""
        return self.np

    @property
    def itemsize(self) -> int:
        """Bytes an element takes in memory."""
        return self.np.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_inexact(self) -> bool:
        return self.kind in (Kind.FLOAT, Kind.COMPLEX)

    def __getitem__(self, shape: str | int | tuple[str | int, ...]) -> ArraySpec:
        return ArraySpec(self, shape if isinstance(shape, tuple) else (shape,))

    def __str__(self) -> str:
        return self.short

    def __repr__(self) -> str:
        return f"dyn.{self.name}"


bool_ = DType("bool", "i1", Kind.BOOL, 8, np.dtype(np.bool_))
int8 = DType("int8", "i8", Kind.INT, 8, np.dtype(np.int8))
int16 = DType("int16", "i16", Kind.INT, 16, np.dtype(np.int16))
int32 = DType("int32", "i32", Kind.INT, 32, np.dtype(np.int32))
int64 = DType("int64", "i64", Kind.INT, 64, np.dtype(np.int64))
uint8 = DType("uint8", "u8", Kind.UINT, 8, np.dtype(np.uint8))
uint16 = DType("uint16", "u16", Kind.UINT, 16, np.dtype(np.uint16))
uint32 = DType("uint32", "u32", Kind.UINT, 32, np.dtype(np.uint32))
uint64 = DType("uint64", "u64", Kind.UINT, 64, np.dtype(np.uint64))
float16 = DType("float16", "f16", Kind.FLOAT, 16, np.dtype(np.float16))
bfloat16 = DType("bfloat16", "bf16", Kind.FLOAT, 16, np.dtype(ml_dtypes.bfloat16))
float32 = DType("float32", "f32", Kind.FLOAT, 32, np.dtype(np.float32))
float64 = DType("float64", "f64", Kind.FLOAT, 64, np.dtype(np.float64))
complex64 = DType("complex64", "c64", Kind.COMPLEX, 64, np.dtype(np.complex64))
complex128 = DType("complex128", "c128", Kind.COMPLEX, 128, np.dtype(np.complex128))

ALL = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
_BY_SHORT = {d.short: d for d in ALL}
#: Short names, but for ``i1``, ``i8`` and ``u8``: to NumPy these are int8, int64 and uint64, counted in bytes.
_BY_NAME = {d.name: d for d in ALL} | {s: d for s, d in _BY_SHORT.items() if s not in ("i1", "i8", "u8")}
_BY_NUMPY = {d.np: d for d in ALL}


def dtype(value: object) -> DType:
    """The :class:`DType` that a name, a NumPy dtype or scalar type, a Python type or a ``DType`` stands for.

    Codes mean what they mean to NumPy: ``"i8"`` is int64.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    try:
        found = _BY_NUMPY.get(np.dtype(value).newbyteorder("="))  # pyright: ignore[reportArgumentType, reportCallIssue]
    except TypeError:
        found = None
    if found is None:
        raise UnsupportedOpError(
            f"{value!r} is not a dtype that dyn has.",
            remedy="use one of " + ", ".join(d.name for d in ALL) + ".",
        )
    return found


def from_short(name: str) -> DType:
    """The dtype of a short or full name in IR text, where ``i8`` is int8."""
    return _BY_SHORT.get(name) or dtype(name)


def promote(a: DType, b: DType) -> DType:
    """The dtype that two arrays combine to, as in NumPy 2."""
    if a is b:
        return a
    try:
        return dtype(np.promote_types(a.np, b.np))
    except TypeError:  # NumPy has no word on bfloat16 beside float16 and wide integers
        other = b if a is bfloat16 else a
        return float32 if other is float16 else dtype(np.promote_types(np.float16, other.np))


def weak_promote(weak: Kind, other: DType, default_float: DType) -> DType:
    """The dtype that a Python scalar of kind ``weak`` takes beside an array of dtype ``other`` (NEP 50)."""
    if weak is Kind.COMPLEX and other.kind is not Kind.COMPLEX:
        return complex128 if promote(other, float32) is float64 else complex64
    if weak is Kind.FLOAT and not other.is_inexact:
        return default_float
    if weak is Kind.INT and other.kind is Kind.BOOL:
        return int64
    return other
