"""Special values of the array API standard: one compiled program at several ranks and sizes, and the reference."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from tests.array_api.special_values import ANY_INF, ANY_ZERO, BINARY, COMPLEX_NAMES, OF_PARTS, UNARY, complex_cases

Array = np.ndarray[Any, Any]
Results = dict[str, Array]

#: How often the operands stand side by side, so that elements are in vectors and in what is left over of them, and the
#: axes in front: a vector, a matrix, three axes.
LAYOUTS = ((1, ()), (5, ()), (3, (1,)), (2, (1, 1)))


def _bits(value: float) -> bytes:
    return struct.pack("d", value)


def operands_of(tables: dict[str, Any], arity: int) -> tuple[tuple[float, ...], ...]:
    """All operands of the tables, each once: a zero's sign counts."""
    found = {tuple(map(_bits, case[:arity])): tuple(case[:arity]) for cases in tables.values() for case in cases}
    return tuple(found.values())


@functools.cache
def compiled(kind: str) -> Callable[..., Any]:
    """All functions of a table in one program."""
    return dyn.jit(functools.partial(everything, kind))


def everything(kind: str, *operands: Any) -> dict[str, Any]:
    """All functions of a table of the operands."""
    names = {"unary": UNARY, "binary": BINARY, "complex": (*COMPLEX_NAMES, *OF_PARTS)}[kind]
    return {name: getattr(dnp, name)(*operands) for name in names}


def columns(kind: str, dtype: str) -> list[Array]:
    if kind == "complex":
        parts = np.array(complex_operands(), "f8")
        whole = np.empty(len(parts), "c16")
        whole.real, whole.imag = parts.T
        return [whole.astype(dtype)]
    table, arity = (UNARY, 1) if kind == "unary" else (BINARY, 2)
    return [np.array(column).astype(dtype) for column in zip(*operands_of(table, arity), strict=True)]


def complex_operands() -> tuple[tuple[float, ...], ...]:
    return operands_of({name: complex_cases(name) for name in COMPLEX_NAMES} | OF_PARTS, 2)


@functools.cache
def results(kind: str, dtype: str, layout: int, form: str) -> Results:
    """The results of each function for all operands: those of the last repetition."""
    times, lead = LAYOUTS[layout]
    given = [np.tile(column, times).reshape(*lead, -1) for column in columns(kind, dtype)]
    program = compiled(kind)
    with np.errstate(all="ignore"):
        if form == "eager":
            found = everything(kind, *map(dyn.asarray, given))
        else:
            found = program(*given) if form == "compiled" else program.reference(*given)  # pyright: ignore
    size = len(columns(kind, dtype)[0])
    return {name: np.asarray(y).reshape(times, size)[-1] for name, y in found.items()}


def check(actual: Any, wanted: Any, what: str) -> None:
    if wanted == ANY_ZERO:
        assert actual == 0, f"{what} is {actual}, not a zero"
    elif wanted == ANY_INF:
        assert math.isinf(actual), f"{what} is {actual}, not an infinity"
    elif isinstance(wanted, bool):
        assert bool(actual) is wanted, f"{what} is {actual}"
    elif math.isnan(wanted):
        assert math.isnan(actual), f"{what} is {actual}, not nan"
    else:
        near = actual == wanted if wanted == round(wanted, 0) or math.isinf(wanted) else math.isclose(
            actual, wanted, rel_tol=1e-5
        )  # fmt: skip
        assert near, f"{what} is {actual}, not {wanted}"
        assert math.copysign(1, actual) == math.copysign(1, wanted), f"{what} is {actual}, not {wanted}"


def check_real(name: str, kind: str, dtype: str, found: Array) -> None:
    table, arity = (UNARY, 1) if kind == "unary" else (BINARY, 2)
    places = {tuple(map(_bits, key)): place for place, key in enumerate(operands_of(table, arity))}
    for case in table[name]:
        operands, wanted = case[:-1], case[-1]
        if not isinstance(wanted, bool) and math.isfinite(wanted):
            wanted = float(np.asarray(wanted, dtype))
        value = found[places[tuple(map(_bits, operands))]]
        check(value.item(), wanted, f"{dtype} {name}{tuple(operands)}")


FORMS = [("compiled", layout) for layout in range(len(LAYOUTS))] + [("reference", 0), ("eager", 0)]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", UNARY)
def test_of_one_number(name: str, dtype: str) -> None:
    for form, layout in FORMS:
        check_real(name, "unary", dtype, results("unary", dtype, layout, form)[name])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", BINARY)
def test_of_two_numbers(name: str, dtype: str) -> None:
    for form, layout in FORMS:
        check_real(name, "binary", dtype, results("binary", dtype, layout, form)[name])


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("name", COMPLEX_NAMES)
def test_of_a_complex_number(name: str, dtype: str) -> None:
    places = {tuple(map(_bits, key)): place for place, key in enumerate(complex_operands())}
    wrong: list[str] = []
    for form, layout in (*FORMS[:2], FORMS[-1]):
        found = results("complex", dtype, layout, form)[name]
        for a, b, real, imag in complex_cases(name):
            value = found[places[_bits(a), _bits(b)]]
            try:
                check(value.real.item(), real, f"the real part of {dtype} {name}({a}, {b})")
                check(value.imag.item(), imag, f"the imaginary part of {dtype} {name}({a}, {b})")
            except AssertionError as error:
                wrong.append(str(error).splitlines()[0])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("name", OF_PARTS)
def test_real_functions_of_a_complex_number(name: str, dtype: str) -> None:
    places = {tuple(map(_bits, key)): place for place, key in enumerate(complex_operands())}
    for form, layout in (*FORMS[:2], FORMS[-1]):
        found = results("complex", dtype, layout, form)[name]
        for a, b, wanted in OF_PARTS[name]:
            value = found[places[_bits(a), _bits(b)]].item()
            exact = wanted if isinstance(wanted, bool) else float(np.asarray(wanted, found.dtype))
            check(value, exact, f"{dtype} {name}({a}, {b})")


def test_one_compile() -> None:
    """For each dtype and rank, whatever the sizes."""
    for kind, dtypes in (("unary", ("f4", "f8")), ("binary", ("f4", "f8"))):
        for dtype in dtypes:
            for layout in range(len(LAYOUTS)):
                results(kind, dtype, layout, "compiled")
        assert compiled(kind).cache_info().compiles == len(dtypes) * 3  # pyright: ignore
