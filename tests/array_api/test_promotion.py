"""The array API standard's promotion: its tables for two arrays, and Python scalars beside an array."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

_INTS, _UINTS = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
_FLOATS, _COMPLEX = ("float32", "float64"), ("complex64", "complex128")
DTYPES = ("bool", *_INTS, *_UINTS, *_FLOATS, *_COMPLEX)


def _table() -> dict[tuple[str, str], str]:
    """The standard's tables. What it leaves open (integers with floats, uint64 with signed ones) is not in them."""
    table: dict[tuple[str, str], str] = {("bool", "bool"): "bool"}
    for family in (_INTS, _UINTS, _FLOATS, _COMPLEX):
        for a, b in itertools.product(range(len(family)), repeat=2):
            table[family[a], family[b]] = family[max(a, b)]
    for a, signed in enumerate(_INTS):
        for b, unsigned in enumerate(_UINTS[:3]):
            table[signed, unsigned] = table[unsigned, signed] = _INTS[max(a, b + 1)]
    for a, real in enumerate(_FLOATS):
        for b, number in enumerate(_COMPLEX):
            table[real, number] = table[number, real] = _COMPLEX[max(a, b)]
    return table


TABLE = _table()


def test_the_tables() -> None:
    for (a, b), wanted in TABLE.items():
        assert dnp.result_type(np.dtype(a), np.dtype(b)) == wanted, (a, b)
        assert dnp.result_type(dnp.zeros(0, dtype=a), np.dtype(b)) == wanted, (a, b)
        assert dnp.can_cast(np.dtype(a), np.dtype(wanted))
        assert dnp.can_cast(dnp.zeros(0, dtype=b), np.dtype(wanted))
    assert not dnp.can_cast(dnp.float64, dnp.float32)
    assert not dnp.can_cast(dnp.int8, dnp.uint8)


def test_three_at_once() -> None:
    assert dnp.result_type(dnp.int8, dnp.uint8, dnp.int32) == np.int32
    assert dnp.result_type(dnp.zeros((), dtype="f4"), dnp.float64, dnp.complex64) == np.complex128


def _allowed(name: str, dtype: str) -> bool:
    kind = np.dtype(dtype).kind
    if name in ("add", "multiply", "subtract"):
        return kind in "iufc"
    if name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        return kind in "biu"
    if name in ("maximum", "minimum", "remainder", "floor_divide"):
        return kind in "iuf"
    if name in ("bitwise_left_shift", "bitwise_right_shift"):
        return kind in "iu"
    return kind in "fc" if name == "divide" else kind in "f"


_SAME = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "floor_divide", "bitwise_and",
         "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "atan2", "hypot", "copysign",
         "logaddexp", "nextafter")  # fmt: skip
_COMPARE = ("equal", "not_equal")


def test_of_two_arrays() -> None:
    """Every function, every pair of dtypes: one program that is traced, not run."""
    for (a, b), wanted in TABLE.items():
        names = [name for name in _SAME if _allowed(name, wanted)]

        def program(x: Any, y: Any, names: list[str] = names) -> Any:
            return [getattr(dnp, name)(x, y) for name in (*names, *_COMPARE)]

        traced = dyn.jit(program).trace(dyn.ShapeDtypeStruct(("n",), a), dyn.ShapeDtypeStruct(("n",), b))
        found = [str(value.type.dtype.name) for value in traced.function.results]
        assert found == [wanted] * len(names) + ["bool"] * 2, (a, b, names)


#: A Python scalar takes the dtype of the array that it is beside, where that has its kind.
_SCALARS = [(True, "bool"), *((3, d) for d in (*_INTS, *_UINTS)), *((s, d) for s in (3, 2.5) for d in _FLOATS),
            *((s, d) for s in (3, 2.5, 1j) for d in _COMPLEX)]  # fmt: skip


@pytest.mark.parametrize(("scalar", "dtype"), _SCALARS)
def test_beside_a_scalar(scalar: Any, dtype: str) -> None:
    functions = [name for name in _SAME if _allowed(name, dtype) and "shift" not in name]

    def program(x: Any) -> Any:
        return [getattr(dnp, name)(*order) for name in functions for order in ((x, scalar), (scalar, x))]

    traced = dyn.jit(program).trace(dyn.ShapeDtypeStruct(("n",), dtype))
    assert {value.type.dtype.name for value in traced.function.results} == {dtype}
    assert dnp.result_type(np.dtype(dtype), scalar) == dtype
    assert dnp.where(dnp.asarray([True, False]), dnp.zeros(2, dtype=dtype), scalar).dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype: str) -> None:
    """Sums and products of integers are of the default integer's width at least, floats keep their dtype."""
    kind = np.dtype(dtype).kind

    def program(x: Any) -> Any:
        wide = [dnp.sum(x), dnp.prod(x), dnp.cumulative_sum(x), dnp.cumulative_prod(x)]
        kept = [dnp.max(x), dnp.min(x), dnp.mean(x), dnp.sort(x)] if kind == "f" else []
        return wide, kept, [dnp.count_nonzero(x)], [dnp.all(x), dnp.any(x)]

    traced = dyn.jit(program).trace(dyn.ShapeDtypeStruct((("n", 1)[kind == "z"],), dtype))
    names = [value.type.dtype.name for value in traced.function.results]
    wide = {"b": "int64", "i": "int64", "u": "uint64"}.get(kind, dtype)
    assert names == [wide] * 4 + [dtype] * (4 * (kind == "f")) + ["int64"] + ["bool"] * 2
