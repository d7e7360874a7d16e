"""Arithmetic of sizes at the edges of 64 bits: the evaluator, compiled guards, compiled checks and whole programs.

Exact, an error that names the expression where 64 bits are passed or there is no value, and no trap.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import integers
from dyn.backends.base import Effort, Source
from dyn.backends.x86 import X86Backend, host_target
from dyn.errors import ShapeError
from dyn.integers import INT64, sized
from dyn.lower.host import build_host
from dyn.lower.host_llvm.emit import emit_guards
from dyn.schedule.plan import lower_plan
from dyn.shapes import Dim, Reason, Relation, RelKind, evaluate
from dyn.stitch.plan import stitch
from tests.integers.edges import edges
from tests.integers.kernels import FUNCTIONS, I64
from tests.stitch.models import LOC, TARGET, Model

Array = np.ndarray[Any, Any]
EDGES = [*edges(I64), 2**62, -(2**62), 2**32, 2**31]


def _value(name: str, a: int, b: int) -> int | None:
    """The exact value; None where there is none or it passes 64 bits."""
    try:
        return sized(integers.SIZES[name](a, b))
    except (OverflowError, ZeroDivisionError):
        return None


def _broadcasts(name: str, a: int, b: int) -> bool:
    return name != "broadcast" or a == b or 1 in (a, b)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_evaluator(name: str) -> None:
    m = Model("f")
    x = m.param("x", "a", "b")
    dim = FUNCTIONS[name](*x.shape)
    for a in EDGES:
        for b in EDGES:
            env = {m.symbols["a"]: a, m.symbols["b"]: b}
            if (b == 0 and name in ("floordiv", "mod")) or not _broadcasts(name, a, b):
                with pytest.raises(ShapeError):
                    evaluate(dim, env)
            else:
                assert evaluate(dim, env) == integers.SIZES[name](a, b)


# ---- guards ----------------------------------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.c_void_p), ("strides", ctypes.c_void_p))  # fmt: skip


@lru_cache
def _guard(make: Callable[[Dim, Dim, Dim], Relation]) -> Callable[[int, int, int], bool]:
    """The native guard of a relation between three sizes, which may be any integers."""
    m = Model("f")
    x = m.param("x", "a", "b", "c")
    plan = stitch(m.function(m.op("negate", x)))
    a, b, c = x.shape
    program = build_host(plan, lower_plan(plan, TARGET), (make(a, b, c),))
    backend = X86Backend(host_target())
    source = Source(emit_guards(program, "guards"), ("guards",), Effort.QUICK)
    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(backend.load(backend.compile(source)).address("guards"))

    def holds(*sizes: int) -> bool:
        dims = (ctypes.c_int64 * 3)(*sizes)
        tensor = _Tensor(None, 0, 3, ctypes.addressof(dims), None)
        return bool(run(ctypes.addressof(tensor)))

    return holds


@pytest.mark.parametrize("name", FUNCTIONS)
def test_guards(name: str) -> None:
    """A guard holds where the exact values say so, and never where one is missing or passes 64 bits."""
    function = FUNCTIONS[name]
    holds = _guard(lambda a, b, c: Relation(RelKind.EQ, function(a, b), c, Reason("a test", LOC)))
    for a in EDGES:
        for b in EDGES:
            value = _value(name, a, b)
            if not _broadcasts(name, a, b):
                continue  # another relation is about that
            if value is None:
                assert not any(holds(a, b, INT64.wrap(c)) for c in (0, 1, -1, a, b, a * b, a + b, -a)), (a, b)
            else:
                assert holds(a, b, value), (a, b)
                assert not holds(a, b, INT64.wrap(value + 1)), (a, b)


@pytest.mark.parametrize(
    ("kind", "truth"),
    [
        (RelKind.EQ, lambda a, b: a == b),
        (RelKind.GE, lambda a, b: a >= b),
        (RelKind.NONZERO, lambda a, b: a != 0),
        (RelKind.DIVIDES, lambda a, b: b == 0 if a == 0 else b % a == 0),
        (RelKind.BROADCASTS, lambda a, b: a == b or 1 in (a, b)),
    ],
)
def test_relations(kind: RelKind, truth: Callable[[int, int], bool]) -> None:
    def relation(a: Dim, b: Dim, c: Dim) -> Relation:
        return Relation(kind, a, 0 if kind is RelKind.NONZERO else b, Reason("a test", LOC))

    holds = _guard(relation)
    for a in EDGES:
        for b in EDGES:
            assert holds(a, b, 0) == truth(a, b), (a, b)


# ---- programs --------------------------------------------------------------------------------------------------------


def _sized(size: int) -> Array:
    """An array of no elements with an axis of any size."""
    return np.empty((0, size), np.int8)


def _program(function: Callable[[Any, Any], Any]) -> Callable[[int, int], int]:
    """A program that gives a function of two sizes, which come as sizes of axes less a number that is closed over."""

    @dyn.jit
    def run(x: Any, y: Any, one: Any) -> Any:
        a, b = x.shape[1] * 2 - 2**63 + 1, y.shape[1] * 2 - 2**63 + 1
        return one * function(a, b)

    return lambda a, b: int(run(_sized(a), _sized(b), np.ones((), np.int64)))


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def _axes() -> Iterator[int]:
    """Sizes of axes whose double less 2^63 - 1 is at an edge; the double itself fits up to 2^62 - 1."""
    for edge in (-(2**63) + 1, -(2**63) + 3, -(2**62) + 1, -3, -1):
        yield (edge + 2**63 - 1) // 2


@pytest.mark.parametrize("name", _OPERATORS)
def test_programs(name: str) -> None:
    run = _program(_OPERATORS[name])
    for x in _axes():
        for y in _axes():
            a, b = (2 * size - 2**63 + 1 for size in (x, y))
            value = _value(name, a, b)
            if value is not None:
                assert run(x, y) == value, (a, b)
                continue
            with pytest.raises(ShapeError, match=r"64 bits|divides by zero") as caught:
                run(x, y)
            assert "test_sizes.py" in str(caught.value)


@dyn.jit
def _scaled(x: Any, y: Any) -> Any:
    return y * ((x.shape[1] * 2) // (y.shape[0] - 3))


def _message(*arguments: Array, function: Callable[..., Any] = _scaled) -> str:
    with pytest.raises(ShapeError) as caught:
        function(*arguments)
    assert caught.value.loc is not None
    return str(caught.value).replace(str(caught.value.loc), "test_sizes.py")


def test_a_quotient_of_what_passes_64_bits() -> None:
    """The product wraps to the least number, and that divided by -1 is a trap of the processor."""
    assert _scaled(_sized(4), np.ones(2, "f4")).tolist() == [-8, -8]
    assert _message(_sized(2**62), np.ones(2, "f4")) == (
        "2*x_1 is 9223372036854775808 in this call, a part of floordiv(2*x_1, y_0 - 3), and sizes have 64 bits.\n"
        "  x_1 is x.shape[1] = 4611686018427387904\n"
        "  y_0 is y.shape[0] = 2\n"
        "  at test_sizes.py  return y * ((x.shape[1] * 2) // (y.shape[0] - 3))\n"
        "  help: pass smaller arguments."
    )


def test_a_quotient_by_zero() -> None:
    for size in (5, 2**62):  # what is nonsense already is not looked at first
        assert _message(_sized(size), np.ones(3, "f4")) == (
            "y_0 - 3 != 0 is required, but y_0 - 3 is 0 (y_0 is 3): 2*x_1 is divided by y_0 - 3.\n"
            "  y_0 is y.shape[0] = 3\n"
            "  at test_sizes.py  return y * ((x.shape[1] * 2) // (y.shape[0] - 3))\n"
            "  help: pass arguments whose shapes satisfy it."
        )


def test_a_size_that_passes_64_bits() -> None:
    @dyn.jit
    def doubled(x: Any, y: Any) -> Any:
        return y * (x.shape[1] * 2)

    assert doubled(_sized(4), np.ones(1, "f4")).tolist() == [8]
    assert _message(_sized(2**62), np.ones(1, "f4"), function=doubled) == (
        "2*x_1 is 9223372036854775808 in this call, and sizes have 64 bits.\n"
        "  x_1 is x.shape[1] = 4611686018427387904\n"
        "  at test_sizes.py  return y * (x.shape[1] * 2)\n"
        "  help: pass smaller arguments."
    )


def test_a_number_that_no_size_is() -> None:
    """A divisor past 64 bits is written as 0, by which nothing may divide."""

    @dyn.jit
    def nothing(x: Any) -> Any:
        return x * (x.shape[0] // 2**64)

    assert _message(np.ones(3, "f4"), function=nothing).splitlines()[0] == (
        "18446744073709551616 is a part of floordiv(x_0, 18446744073709551616), and sizes have 64 bits."
    )


def test_a_branch_on_a_quotient_of_what_passes_64_bits() -> None:
    """Where the native guard cannot say, Python computes exactly."""

    @dyn.jit
    def branch(x: Any, y: Any, z: Any) -> Any:
        if (x.shape[0] * 2**62) // (y.shape[0] - z.shape[0]) > 3:
            return x + 1
        return x - 1

    sizes = [(3, 4, 2), (2, 3, 4), (3, 3, 4), (3, 4, 2), (2, 3, 4), (2, 6, 1)]
    for n, m, k in sizes:
        wanted = n * 2**62 // (m - k) > 3
        assert branch(np.zeros(n), np.zeros(m), np.zeros(k)).tolist() == [1.0 if wanted else -1.0] * n


def test_a_region_that_does_not_run_may_have_no_value() -> None:
    @dyn.jit
    def chosen(x: Any, y: Any, wanted: Any) -> Any:
        return dyn.lax.cond(wanted, lambda: y * ((x.shape[1] * 2) // (y.shape[0] - 3)), lambda: y)

    for size, rows in ((2**62, 2), (4, 3)):
        assert chosen(_sized(size), np.ones(rows, "f4"), np.array(False)).tolist() == [1.0] * rows


def test_sizes_of_arrays() -> None:
    @dyn.jit
    def wide(x: Any, y: Any) -> Any:
        return dnp.zeros(((x.shape[1] * 4) // (y.shape[0] - 3),))

    assert wide(_sized(4), np.ones(5, "f4")).shape == (8,)
    assert _message(_sized(2**62), np.ones(5, "f4"), function=wide).splitlines()[0] == (
        "4*x_1 is 18446744073709551616 in this call, a part of floordiv(4*x_1, y_0 - 3), and sizes have 64 bits."
    )
