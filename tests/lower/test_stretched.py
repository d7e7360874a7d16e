"""Axes that an undecided broadcast may stretch: read as vectors of neighbours or as one element, whichever they are.

Everything runs between guard pages, so that one element of an array of one is read and nothing behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from dyn.lower.x86 import memory
from dyn.lower.x86.emit import emit_kernel
from dyn.schedule.plan import lower_plan
from tests.numpy.differential import compare
from tests.stitch.models import TARGET, Model, optimized

#: Around a vector, four of them, and a chunk of rows.
SIZES = (0, 1, 2, 16, 17, 130)
DTYPES = ["float32", "float64", "bool", "int8", "uint16", "int64", "float16", "complex64"]
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "vectors": (lambda xp, x, y: xp.where(x == y, x, y), ("n", "m")),
    "matrices": (lambda xp, x, y: xp.where(x == y, x, y), ("n m", "k l")),
    "a row": (lambda xp, x, y: xp.where(x == y, x, y), ("n m", "l")),
    "three": (lambda xp, x, y, z: xp.where(x == y, z, x), ("n", "m", "k")),
    "reduced along lanes": (lambda xp, x, y: xp.max(xp.where(x == y, x, y), axis=-1, initial=1), ("2 n", "2 m")),
    "reduced across lanes": (lambda xp, x, y: xp.max(xp.where(x == y, x, y), axis=0, initial=1), ("n k", "n l")),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_of_every_dtype(dtype: str) -> None:
    program, specs = PROGRAMS["vectors"]
    compare(program, *[f"{dtype} {spec}" for spec in specs], sizes=SIZES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_size_or_one(name: str) -> None:
    program, specs = PROGRAMS[name]
    compare(program, *[f"float32 {spec}" for spec in specs], sizes=SIZES if len(specs) < 3 else (0, 1, 17))


def test_masked_loads_read_nothing_that_is_masked() -> None:
    """A stretched axis behind a mask, as a pad has it, is gathered: where the mask is false nothing may be there."""

    def program(xp: Any, x: Any, y: Any) -> Any:
        return xp.pad(x + y, ((2, 1),))

    compare(program, "float32 n", "float32 m", sizes=SIZES)


def test_a_product_has_an_epilogue_that_may_be_stretched() -> None:
    compare(lambda xp, x, w, b: x @ w + b, "float32 3 k", "float32 k n", "float32 m", sizes=(1, 2, 17, 60), rtol=1e-4)


def test_nothing_is_gathered() -> None:
    """Both operands of a sum of matrices are loaded as vectors, by the one kernel for all sizes of a single row."""
    m = Model("add")
    x, y = m.param("x", "n"), m.param("y", "m")
    (launch,) = lower_plan(optimized(m.function(m.add(x, y))).plan, TARGET)
    (variant,) = launch.variants
    assert len(variant.kernel.factors) == 2
    assert "gather" not in emit_kernel(variant.kernel, TARGET).text


def test_little_stack_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is gathered: a thread may have 64 KiB of stack."""
    monkeypatch.setattr(memory, "MOST_STACK", 1024)
    m = Model("sum")
    total = m.param("x0", "n0")
    for number in range(1, 8):
        total = m.add(total, m.param(f"x{number}", f"n{number}"))
    (launch,) = lower_plan(optimized(m.function(total)).plan, TARGET)
    text = emit_kernel(launch.variants[0].kernel, TARGET).text
    assert 512 < 4 * sum(map(int, re.findall(r"= alloca \[(\d+) x float\]", text))) <= 1024
    assert "gather" in text
    compare(lambda xp, x, y, z: x + y * z, "float32 n", "float32 m", "float32 k", sizes=(1, 17))
