"""The shared simplifications keep every bit: conversions by way of every dtype, and neutral elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.ir.core import Function
from dyn.ir.verifier import verify
from dyn.ops.elementwise import convert_array
from dyn.ops.identities import holds
from dyn.passes.redundancy import eliminate_dead_code
from dyn.passes.simplify import simplify
from dyn.shapes import as_dim, symbol
from tests.ir.programs import Array, Program, assert_same_bits, results_of

REAL = [d for d in dtypes.ALL if d.kind is not Kind.COMPLEX]
N = as_dim(symbol("n", "x.shape[0]"))


def values(element: DType) -> Array:
    """The smallest, the largest, those around powers of two, and the odd ones."""
    if element.kind is Kind.BOOL:
        return np.array([False, True])
    if element.is_integer:
        info = np.iinfo(element.np)
        near = [2**k + d for k in range(64) for d in (-1, 0, 1)]
        return np.array([v for v in (*near, *(-v for v in near)) if info.min <= v <= info.max], element.np)
    if element.bits == 8:
        return np.arange(256, dtype=np.uint8).view(element.np)
    near = [2.0**k * (1 + d) for k in (*range(-26, 26), 31, 63, 100) for d in (0, 2**-9, 2**-11, 2**-24, 0.5)]
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.1, 1e-40, 3.4e38, 65504.0]
    with np.errstate(all="ignore"):
        return np.array([*near, *(-v for v in near), *odd]).astype(element.np)


def simplified(function: Function) -> Function:
    return verify(eliminate_dead_code(simplify(function)))


@pytest.mark.parametrize("narrow", REAL, ids=str)
def test_what_holds_what(narrow: DType) -> None:
    x = values(narrow)
    for wide in REAL:
        back = convert_array(convert_array(x, wide), narrow)
        same = np.array_equal(x.astype(np.float64), back.astype(np.float64), equal_nan=True)
        if narrow.is_integer:
            same = same and np.array_equal(x, back)
        if holds(wide, narrow):
            assert same, (narrow, wide)
        elif not (narrow.is_integer and wide.is_integer):  # integers of one size come back, and mean something else
            assert not same, (narrow, wide)


@pytest.mark.parametrize("source", REAL, ids=str)
def test_conversions(source: DType) -> None:
    shorter = 0
    x = values(source)
    for middle, to in itertools.product(REAL, REAL):
        program = Program()
        p = program.param(source, N)
        result = program.op("convert", program.op("convert", p, dtype=middle), dtype=to)
        function = program.function(result)
        after = simplified(function)
        shorter += len(after.ops) < len(function.ops)
        assert_same_bits(results_of(after, [x]), results_of(function, [x]))
    assert shorter >= 2 * len(REAL) - 1


NEUTRAL = [("add", 0, -0.0), ("subtract", 0, 0.0), ("multiply", 1, 1.0), ("divide", 1, 1.0), ("and", -1, None),
           ("or", 0, None), ("xor", 0, None)]  # fmt: skip


@pytest.mark.parametrize(("name", "ints", "floats"), NEUTRAL)
@pytest.mark.parametrize("element", [d for d in REAL if d.kind is not Kind.BOOL], ids=str)
@pytest.mark.parametrize("left", [False, True])
def test_neutral_elements(name: str, ints: int, floats: float | None, element: DType, left: bool) -> None:
    number = floats if element.is_float else ints
    if number is None or (number == 0 and element is dtypes.float8_e8m0fnu):  # which has no zero
        return
    program = Program()
    p = program.param(element, N)
    e = program.op(
        "broadcast_in_dim", program.constant(np.array(number).astype(element.np), element), shape=(N,), dims=()
    )
    function = program.function(program.op(name, *((e, p) if left else (p, e))))
    after = simplified(function)
    assert (len(after.ops) == 0) is (not left or name not in ("subtract", "divide"))
    x = values(element)
    assert_same_bits(results_of(after, [x]), results_of(function, [x]))


def test_what_is_no_number_is_not_neutral() -> None:
    """0 is NaN there."""
    program, element = Program(), dtypes.float8_e8m0fnu
    p = program.param(element, N)
    zero = program.constant(np.array(-0.0).astype(element.np), element)
    e = program.op("broadcast_in_dim", zero, shape=(N,), dims=())
    function = program.function(program.op("add", p, e))
    assert len(simplified(function).ops) == len(function.ops)


@pytest.mark.parametrize(
    ("name", "number"), [("add", 0.0), ("subtract", -0.0), ("multiply", 0.0), ("multiply", -1.0), ("maximum", -np.inf)]
)
def test_elements_that_are_not_neutral(name: str, number: float) -> None:
    program = Program()
    p = program.param(dtypes.float32, N)
    e = program.op("broadcast_in_dim", program.constant(number), shape=(N,), dims=())
    function = program.function(program.op(name, p, e))
    assert len(simplified(function).ops) == len(function.ops)
