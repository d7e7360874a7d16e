"""Constants of programs: large ones lie in buffers, whatever reads them, and small ones are code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes, lax
from dyn.ir.core import BUFFER_FROM
from dyn.trace.context import current_trace
from dyn.trace.tracer import Tracer

Array = np.ndarray[Any, Any]


def literal(array: Array) -> Any:
    """An array that is part of the program, as front ends make one."""
    trace = current_trace()
    assert trace is not None
    return Tracer(trace, trace.constant(array))


def numbers(dtype: np.dtype[Any], size: int) -> Array:
    rng = np.random.default_rng(size)
    if dtype.kind == "c":
        return (rng.random(size) + 1j * rng.random(size)).astype(dtype)
    return rng.integers(0, 2, size).astype(dtype)


def constants_of(function: Any, *args: Any) -> list[int]:
    """The bytes of the large constants of a compiled function."""
    program = function.trace(*args).lower().compile().version.optimized
    return [dense.array.nbytes for dense in program.host.constants]


@pytest.mark.parametrize("size", [0, 1, BUFFER_FROM - 1, BUFFER_FROM, 1000])
def test_every_dtype(size: int) -> None:
    """Read in places, given as it is, and as a view of it."""
    arrays = [numbers(np.dtype(t.np), size) for t in dtypes.ALL]

    @dyn.jit
    def all_of_them(places: Any) -> Any:
        return [(dnp.take(literal(a), places), literal(a), dnp.reshape(literal(a), (1, size, 1)).T) for a in arrays]

    for count in (0, 1, 7) if size else (0,):
        places = np.arange(count) * 31 % max(size, 1)
        for array, (taken, whole, view) in zip(arrays, all_of_them(places), strict=True):
            for found, wanted in ((taken, array[places]), (whole, array), (view, array.reshape(1, size, 1).T)):
                assert found.dtype == wanted.dtype
                assert found.shape == wanted.shape
                assert found.tobytes() == wanted.tobytes()
            assert whole.flags.writeable
            assert not np.shares_memory(whole, array)
    assert all_of_them.cache_info().compiles == 1


RNG = np.random.default_rng(0)
C = RNG.random((10, 10)).astype("f4")
B = (C > 0.5).astype(bool)
Z = (C + 1j * C[::-1]).astype("c8")


def scanned(x: Array) -> tuple[Array, Array]:
    total, rows = C[0], list[Array]()
    for row in C:
        rows.append(total * row)
        total = total + row
    return total, np.stack(rows)


def times(x: Array, count: int) -> Array:
    for i in range(count):
        x = x @ C + C[i]
    return x


def updated(x: Array) -> Array:
    made = C.copy()
    made[0] = x[0]
    return made


#: Programs with a constant C, and what they are.
PLACES: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]] = {
    "arithmetic": (lambda x: literal(C) * x + literal(C).T, lambda x: C * x + C.T),
    "a reduction": (lambda x: dnp.sum(literal(C), axis=1) + x[0], lambda x: C.sum(1) + x[0]),
    "a matrix product": (lambda x: x @ literal(C), lambda x: x @ C),
    "a library": (lambda x: dnp.linalg.solve(literal(C), x), lambda x: np.linalg.solve(C, x)),
    "a sort": (lambda x: dnp.sort(literal(C), axis=0) + x, lambda x: np.sort(C, axis=0) + x),
    "a scatter": (lambda x: literal(C).at[0].set(x[0]), updated),
    "a mask": (lambda x: dnp.where(literal(B), x, 0), lambda x: np.where(B, x, 0)),
    "complex": (lambda x: dnp.abs(literal(Z) * x), lambda x: np.abs(Z * x)),
    "measured": (lambda x: literal(C)[literal(B)] + x[0, 0], lambda x: C[B] + x[0, 0]),
    "a loop": (lambda x: lax.fori_loop(0, 3, lambda i, v: v @ literal(C) + literal(C)[i], x), lambda x: times(x, 3)),
    "what a loop starts from": (
        lambda x: lax.fori_loop(0, 3, lambda i, v: v * 2 + x, literal(C)), lambda x: C * 8 + x * 7,
    ),
    "what a loop keeps": (
        lambda x: lax.fori_loop(0, 3, lambda i, v: (v[0], v[1] + v[0]), (literal(C), x)),
        lambda x: (C, x + C + C + C),
    ),
    "what a loop goes along": (
        lambda x: lax.scan(lambda s, r: (s + r, s * r), x[0] * 0 + literal(C)[0], literal(C)), scanned,
    ),
    "a choice": (
        lambda x: (
            lax.cond(x[0, 0] > 5, lambda: x + literal(C), lambda: x - literal(C * 2)),
            lax.cond(x[0, 0] <= 5, lambda: x + literal(C), lambda: x - literal(C * 2)),
        ),
        lambda x: (x - C * 2, x + C),
    ),
    "a gradient": (dyn.grad(lambda x: dnp.sum(dnp.sin(x * literal(C)))), lambda x: np.cos(x * C) * C),
    "examples": (dyn.vmap(lambda r: r @ literal(C)), lambda x: x @ C),
    "the same for each example": (dyn.vmap(lambda r: (literal(C), r)), lambda x: (np.broadcast_to(C, (10, 10, 10)), x)),
    "one number": (lambda x: x + literal(np.broadcast_to(np.float32(2), (10**6, 10**6)))[:10, :10], lambda x: x + 2),
    "a sum of one number": (lambda x: x + dnp.sum(literal(np.full(1000, 3, "f4"))), lambda x: x + 3000),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_where_a_constant_is_read(place: str) -> None:
    """What a call does to its results is not seen by the next."""
    program, numpy = PLACES[place]
    jitted = dyn.jit(program)
    for _ in range(2):
        x = RNG.random((10, 10)).astype("f4")
        wanted = numpy(x)
        for run in (jitted, jitted.reference):
            results = run(x)
            pairs = zip(results, wanted, strict=True) if isinstance(wanted, tuple) else [(results, wanted)]
            for result, expected in pairs:
                assert result.dtype == expected.dtype
                np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
                result[...] = 77


def test_one_buffer_for_equal_constants() -> None:
    """However often the program has it, in loops and branches too, and of whatever type its bytes are."""
    x = np.ones((10, 10), "f4")

    def twice(x: Any) -> Any:
        y = lax.fori_loop(0, 2, lambda i, v: v + literal(C.copy()), x + literal(C))
        return lax.cond(x[0, 0] > 0, lambda: y + literal(C.T), lambda: y), literal(C.view("i4"))

    assert constants_of(dyn.jit(twice), x) == [400, 400]
    assert constants_of(dyn.jit(lambda x: x + literal(C[:6])[:, :1].sum()), x) == []
    assert constants_of(dyn.jit(lambda x: x + literal(np.full((10, 10), 3, "f4"))), x) == []


def test_a_constant_is_no_code() -> None:
    """Programs that differ by their large constants alone have the same machine code."""
    x = np.ones((10, 10), "f4")
    texts: set[str] = set()
    for array in (C, C + 1, C[::-1]):
        jitted = dyn.jit(lambda x, array=array: x + literal(array), static_argnames="array")
        compiled = jitted.trace(x).lower().compile()
        texts.add(compiled.as_text("llvm"))
        np.testing.assert_array_equal(compiled(x), x + array)
    assert len(texts) == 1


def test_many_constants() -> None:
    arrays = [np.arange(70, dtype="f4") + i for i in range(300)]

    @dyn.jit
    def total(x: Any) -> Any:
        for array in arrays:
            x = x + literal(array)
        return x

    x = np.ones(70, "f4")
    wanted = x
    for array in arrays:
        wanted = wanted + array
    np.testing.assert_array_equal(total(x), wanted)
    assert constants_of(total, x) == [280] * 300


def test_what_is_told_of_them() -> None:
    jitted = dyn.jit(lambda x: x + literal(C))
    jitted(C)
    assert "    no intermediate arrays\n    1 large constant, of 400 bytes\n" in str(jitted.explain())
    page = jitted.explain()._repr_html_()
    assert "<p>1 large constant, of 400 bytes.</p>" in page
    assert "reads a constant" in page
    assert "\n  constant 0: 400 bytes\n" in jitted.trace(C).lower().as_text("host")


def test_a_large_constant_takes_its_own_memory() -> None:
    """And not that of its text, or of code."""
    array = np.arange(1_000_000, dtype="f4")
    jitted = dyn.jit(lambda x: x + literal(array))
    compiled = jitted.trace(array).lower().compile()
    assert len(compiled.as_text()) + len(compiled.as_text("kernel")) + len(compiled.as_text("llvm")) < 20_000
    np.testing.assert_array_equal(compiled(array), array + array)
