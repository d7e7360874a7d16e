"""Element types, and how they combine.

A :class:`DType` is a small frozen record; there is one instance a type. Indexing one writes an annotation:
``x: dyn.f32["b", "s", 768]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np

from dyn.errors import UnsupportedOpError


class Kind(Enum):
    """Kind of a dtype's numbers, in promotion order."""

    __hash__ = object.__hash__  # that of Enum is written in Python

    BOOL = 0
    UINT = 1
    INT = 2
    FLOAT = 3
    COMPLEX = 4


class Special(Enum):
    """Special values of a float format: infinities, NaNs, signed zeros."""

    #: Infinities and NaNs, with the greatest exponent, as in IEEE 754.
    IEEE = "inf and nan"
    #: One NaN of either sign, all ones; no infinity.
    NAN = "nan"
    #: One NaN, in the place of -0; no infinity.
    NAN_AT_MINUS_ZERO = "nan for -0"
    #: One NaN, all ones; no infinity, zero or sign: powers of two alone.
    POWERS = "powers of two"


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """Layout of a float's bits: sign, exponent, fraction; ``bias`` is the exponent that is stored for 1."""

    exponent: int
    fraction: int
    bias: int
    special: Special = Special.IEEE

    @property
    def digits(self) -> int:
        """Bits of the significand, the hidden one included."""
        return self.fraction + 1

    @property
    def least(self) -> int:
        """The exponent of the least number over 0."""
        return -self.bias if self.special is Special.POWERS else 1 - self.bias - self.fraction

    @property
    def most(self) -> int:
        """The exponent of the greatest number."""
        reserved = self.special is Special.IEEE or (self.fraction == 0)
        return (1 << self.exponent) - 1 - reserved - self.bias

    @property
    def greatest(self) -> int:
        """The bits of the greatest number."""
        if self.special is Special.IEEE:
            return (((1 << self.exponent) - 1) << self.fraction) - 1
        every = (1 << (self.exponent + self.fraction)) - 1
        return every if self.special is Special.NAN_AT_MINUS_ZERO else every - 1

    @property
    def signed_zero(self) -> bool:
        return self.special in (Special.IEEE, Special.NAN)

    @property
    def has_zero(self) -> bool:
        return self.special is not Special.POWERS

    def holds(self, other: FloatFormat) -> bool:
        """Whether every number of another format is one of this, zeros and infinities included."""
        if self == other:
            return True
        if not self.has_zero or (other.special is Special.IEEE and self.special is not Special.IEEE):
            return False
        zeros = self.signed_zero or not other.signed_zero
        return zeros and self.digits >= other.digits and self.least <= other.least and self.most >= other.most


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """A dtype with a declared shape, as written in an annotation: ``dyn.f32["b", "s", 768]``."""

    dtype: DType
    shape: tuple[str | int, ...]

    def __or__(self, other: None) -> ArraySpec:
        """``dyn.f32["n"] | None``: an argument that may be left out. None has no shape to declare."""
        return self if other is None else NotImplemented

    __ror__ = __or__


_DLPACK_KINDS = {Kind.BOOL: 6, Kind.UINT: 1, Kind.INT: 0, Kind.FLOAT: 2, Kind.COMPLEX: 5}
#: Codes of floats that IEEE 754 does not have.
_DLPACK_CODES = {
    "bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """Element type of arrays: ``dyn.float32`` and others. ``dyn.float32["b", "s"]`` is an annotation of an argument.

    Attributes:
        name: NumPy's name.
        short: name in IR text, such as ``f32``.
        kind: bool, int, uint, float or complex.
        bits: width.
        np: NumPy's dtype.
        format: layout of a float.
    """

    name: str
    short: str
    kind: Kind
    bits: int
    np: np.dtype[Any]
    #: Of floats, their bits.
    format: FloatFormat | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype. NumPy takes what has this attribute for a dtype, as in ``np.zeros(3, dyn.f32)``."""
        return self.np

    @property
    def itemsize(self) -> int:
        """Bytes an element takes in memory."""
        return self.np.itemsize

    @property
    def is_float(self) -> bool:
        """True for float dtypes, narrow ones too."""
        return self.kind is Kind.FLOAT

    @property
    def is_narrow(self) -> bool:
        """True for a float of storage, which is converted, moved, and computed with in float32."""
        return self.kind is Kind.FLOAT and self.bits < 32

    @property
    def wide(self) -> DType:
        """Dtype of arithmetic, float32 for narrower floats, which it holds exactly; the dtype itself for others."""
        return float32 if self.is_narrow else self

    @property
    def accumulator(self) -> DType:
        """Dtype of long sums and products, which is float64 for narrower floats and the dtype itself for others."""
        return float64 if self.kind is Kind.FLOAT and self.bits < 64 else self

    @property
    def floating(self) -> FloatFormat:
        """The format of a float."""
        assert self.format is not None, f"{self.name} is no float"
        return self.format

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integer dtypes."""
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_inexact(self) -> bool:
        """True for float and complex dtypes."""
        return self.kind in (Kind.FLOAT, Kind.COMPLEX)

    def holds(self, other: DType) -> bool:
        """True if every number of another dtype is one of this, so that converting it changes nothing.

        Args:
            other: another dtype.

        Returns:
            A bool; False for truth values and complex numbers, unless both are one dtype.
        """
        if self is other:
            return True
        if other.kind is Kind.BOOL or self.kind is Kind.BOOL or Kind.COMPLEX in (self.kind, other.kind):
            return False
        if self.is_float and other.is_float:
            return self.floating.holds(other.floating)
        if other.is_float or (self.kind is Kind.UINT and other.kind is Kind.INT):
            return False
        digits = other.bits - (other.kind is Kind.INT)
        if self.is_float:
            return self.floating.digits >= digits and self.floating.most >= digits
        return self.bits - (self.kind is Kind.INT) >= digits

    @property
    def dlpack_code(self) -> int:
        """DLPack's ``DLDataTypeCode`` (https://dmlc.github.io/dlpack/latest/c_api.html)."""
        return _DLPACK_CODES.get(self.name, _DLPACK_KINDS[self.kind])

    @property
    def dlpack(self) -> int:
        """DLPack's ``DLDataType`` as an integer, made of its code, its bits, and one lane."""
        return self.dlpack_code | self.bits << 8 | 1 << 16

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


def _float(
    name: str, short: str, scalar: type[Any], exponent: int, fraction: int, bias: int, special: Special = Special.IEEE
) -> DType:
    numpy = np.dtype(scalar)
    return DType(name, short, Kind.FLOAT, 8 * numpy.itemsize, numpy, FloatFormat(exponent, fraction, bias, special))


float8_e3m4 = _float("float8_e3m4", "f8e3m4", ml_dtypes.float8_e3m4, 3, 4, 3)
float8_e4m3 = _float("float8_e4m3", "f8e4m3", ml_dtypes.float8_e4m3, 4, 3, 7)
float8_e4m3b11fnuz = _float(
    "float8_e4m3b11fnuz", "f8e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, 4, 3, 11, Special.NAN_AT_MINUS_ZERO
)
float8_e4m3fn = _float("float8_e4m3fn", "f8e4m3fn", ml_dtypes.float8_e4m3fn, 4, 3, 7, Special.NAN)
float8_e4m3fnuz = _float("float8_e4m3fnuz", "f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 4, 3, 8, Special.NAN_AT_MINUS_ZERO)
float8_e5m2 = _float("float8_e5m2", "f8e5m2", ml_dtypes.float8_e5m2, 5, 2, 15)
float8_e5m2fnuz = _float(
    "float8_e5m2fnuz", "f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 5, 2, 16, Special.NAN_AT_MINUS_ZERO
)
float8_e8m0fnu = _float("float8_e8m0fnu", "f8e8m0fnu", ml_dtypes.float8_e8m0fnu, 8, 0, 127, Special.POWERS)
float16 = _float("float16", "f16", np.float16, 5, 10, 15)
bfloat16 = _float("bfloat16", "bf16", ml_dtypes.bfloat16, 8, 7, 127)
float32 = _float("float32", "f32", np.float32, 8, 23, 127)
float64 = _float("float64", "f64", np.float64, 11, 52, 1023)
complex64 = DType("complex64", "c64", Kind.COMPLEX, 64, np.dtype(np.complex64))
complex128 = DType("complex128", "c128", Kind.COMPLEX, 128, np.dtype(np.complex128))

#: Floats of 8 bits (https://arxiv.org/abs/2209.05433, https://arxiv.org/abs/2206.02915, OCP's OFP8 and MX formats).
FLOAT8 = (
    float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz,
    float8_e8m0fnu,
)  # fmt: skip
ALL = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128, *FLOAT8,
)  # fmt: skip
_BY_SHORT = {d.short: d for d in ALL}
#: Short names, but for ``i1``, ``i8`` and ``u8``: to NumPy these are int8, int64 and uint64, counted in bytes.
_BY_NAME = {d.name: d for d in ALL} | {s: d for s, d in _BY_SHORT.items() if s not in ("i1", "i8", "u8")}
_BY_NUMPY = {d.np: d for d in ALL}


_BY_DLPACK = {d.dlpack: d for d in ALL}


def dtype(value: object) -> DType:
    """Element type that a name, a NumPy dtype or scalar type, a Python type or a :class:`DType` stands for.

    Args:
        value: any of these. Codes mean what they mean to NumPy: ``"i8"`` is int64.

    Returns:
        The :class:`DType`.

    Raises:
        UnsupportedOpError: if dyn has no such dtype.

    Example:
        >>> dyn.dtype("bfloat16").bits
        16
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, np.dtype) and value in _BY_NUMPY:  # in this machine's byte order
        return _BY_NUMPY[value]
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    try:
        found = _BY_NUMPY.get(np.dtype(value).newbyteorder("="))  # pyright: ignore[reportArgumentType, reportCallIssue]
    except TypeError:
        found = None
    if found is None:
        near = get_close_matches(value, _BY_NAME, 1) if isinstance(value, str) else []
        meant = f"did you mean {near[0]!r}? There are " if near else "use one of "
        raise UnsupportedOpError(
            f"{value!r} is not a dtype that dyn has.", remedy=meant + ", ".join(d.name for d in ALL) + "."
        )
    return found


def widened(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array in the dtype that it is computed with in: of narrow floats a copy in float32, others themselves."""
    return x.astype(dtype(x.dtype).wide.np, copy=False)


#: The unsigned integers, by their bits.
UNSIGNED = {one.bits: one for one in (uint8, uint16, uint32, uint64)}


def from_dlpack(number: int) -> DType:
    """The dtype that DLPack's ``DLDataType`` is, as :attr:`DType.dlpack` has it. KeyError for others."""
    return _BY_DLPACK[number]


def is_known(numpy: np.dtype[Any]) -> bool:
    """Whether it is the NumPy dtype of one of these, in either byte order."""
    return numpy.newbyteorder("=") in _BY_NUMPY


def from_short(name: str) -> DType:
    """The dtype of a short or full name in IR text, where ``i8`` is int8."""
    return _BY_SHORT.get(name) or dtype(name)


def promote(a: DType, b: DType) -> DType:
    """The dtype that two arrays combine to, as in NumPy 2.

    Floats of 8 bits meet integers and booleans alone, as in JAX: UnsupportedOpError beside other floats and complex
    numbers.
    """
    if a is b:
        return a
    if a in FLOAT8 or b in FLOAT8:
        small, other = (a, b) if a in FLOAT8 else (b, a)
        if other.is_inexact:
            raise UnsupportedOpError(
                f"{a.name} and {b.name} do not combine: floats of 8 bits are not promoted beside other floats.",
                remedy="convert one of them first, for example with .astype('float32').",
            )
        return small
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
