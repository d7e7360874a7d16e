"""Kernels compiled to quick code give the bits that those compiled quickly give: most tests run the latter.

All bits but those of NaN: of two operands that are NaN, whose sign and payload a sum has is the instruction's choice.
"""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import numpy as np
import pytest

import dyn
from tests.models import random_programs
from tests.models.random_programs import REFUSALS, Program, make_program
from tests.models.random_regions import control, transformed


def _bits(array: np.ndarray[Any, Any]) -> bytes:
    """The bytes of an array in which each NaN is the same one."""
    if array.dtype.kind == "c":
        return _bits(np.stack([array.real, array.imag]))
    if array.dtype.kind in "fV":  # V: bfloat16 and float8
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.tobytes()


def _called(program: Program, function: Any, sizes: dict[str, int], *, optimize: bool) -> list[bytes] | str:
    with dyn.config.override(optimize=optimize):
        try:
            return [_bits(np.asarray(result)) for result in function(*program.data(sizes))]
        except REFUSALS as error:
            return str(error)


def check(program: Program) -> int:
    """How many calls gave results."""
    function, seen = program.jitted(), 0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sizes in program.calls:
            quickly, quick = (_called(program, function, sizes, optimize=o) for o in (False, True))
            assert quickly == quick, f"{program!r} at {sizes}"
            seen += not isinstance(quick, str)
    return seen


@pytest.mark.parametrize("first", [0, 1000, 2000])
def test_both_levels_agree_on_random_programs(first: int) -> None:
    assert sum(check(make_program(Random(seed), most=6)) for seed in range(first, first + 8)) > 20


def test_both_levels_agree_on_loops_and_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_programs, "FAMILIES", ((control,), (transformed,)))
    assert sum(check(make_program(Random(seed), most=2)) for seed in range(8)) > 20


def test_the_level_is_a_part_of_what_code_is_found_by() -> None:
    function = dyn.jit(lambda x: x * 3)
    for optimize in (True, False, True):
        with dyn.config.override(optimize=optimize):
            assert function(np.ones(2)).tolist() == [3, 3]
    assert function.cache_info().compiles == 2
    efforts = [{s.effort.value for s in version.record.sources} for version in function.programs]
    assert efforts == [{"kernel", "quick"}, {"quick"}]
