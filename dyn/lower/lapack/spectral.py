"""Eigenvalues and singular values: routines for ``dyn.lower.lapack.routines``.

Their iterations need not end, or come to anything, where a matrix has inf or NaN in it: LAPACK is not given those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from dyn.lower.lapack.call import LibraryCall, function
from dyn.lower.lapack.matrices import (
    clear_phases,
    fill_nan,
    is_finite,
    is_finite_triangle,
    turn,
    unit,
)


def _compute(call: LibraryCall, finite: str, compute: Callable[[], None]) -> str:
    """Run a routine where its matrix is finite; an i1 that says whether there is no answer."""
    f, failed = call.f, call.f.var("i1", "true")
    with f.if_(finite):
        compute()
        failed.set(call.failed())
    return failed.get()


def _answer(call: LibraryCall, failed: str, nan: Sequence[tuple[str, str, int]]) -> AbstractContextManager[None]:
    """NaN in so many numbers (where, how many, bytes each) where there is no answer; the block runs where there is."""
    f = call.f
    with f.if_(failed):
        for place, count, item in nan:
            fill_nan(call, place, count, item=item)
    return f.if_(f.binary("xor", failed, "true", "i1"))


# --- eigh -------------------------------------------------------------------------------------------------------------


def eigh(call: LibraryCall) -> None:
    f, attrs = call.f, call.op.attrs
    n, _ = call.matrix_sizes()
    call.require_fit(n)
    name = "heevd" if call.complex else "syevd"
    options = call.char("V" if attrs["vectors"] else "N"), call.char("L" if attrs["lower"] else "U"), call.int(n)
    leading, asked = call.leading(n), call.int("-1")
    first, real, integer = call.one(), call.one(), call.int("0")
    places = (first, asked, *((real, asked) if call.complex else ()), integer, asked)
    call.routine("lapack", name, *options, first, leading, first, *places, call.info)
    count = call.wanted(first)
    reals = call.wanted(real) if call.complex else "0"
    integers = call.most(f.cast("sext", f.load("i32", integer), "i32", "i64"), "1")
    given = call.int(count), call.int(reals), call.int(integers)
    matrix, work, real_work, integer_work = call.scratch(
        call.bytes(n, n), call.bytes(count), call.bytes(reals, item=call.real_item), call.bytes(integers, item=4)
    )
    rest = ((real_work, given[1]) if call.complex else ()) + (integer_work, given[2])
    with call.each() as (a, values, *vectors):
        turn(call, matrix, a, n, n)
        if call.complex:
            clear_phases(call, matrix, n)
        finite = is_finite_triangle(call, matrix, n, lower=attrs["lower"])

        def compute(values: str = values) -> None:
            call.routine("lapack", name, *options, matrix, leading, values, work, given[0], *rest, call.info)

        failed = _compute(call, finite, compute)
        nan = [(values, n, call.real_item), *((place, f.mul(n, n), call.item) for place in vectors)]
        with _answer(call, failed, nan):
            for place in vectors:
                turn(call, place, matrix, n, n)
    call.finish()


# --- svd --------------------------------------------------------------------------------------------------------------


def svd(call: LibraryCall) -> None:
    f, attrs = call.f, call.op.attrs
    m, n = call.matrix_sizes()
    call.require_fit(m, n)
    k = call.least(m, n)
    left, right = (m, n) if attrs["full_matrices"] else (k, k)
    if not attrs["vectors"]:
        left, right = "0", "0"
    option = call.char("N" if not attrs["vectors"] else "A" if attrs["full_matrices"] else "S")
    sizes, leading = (call.int(m), call.int(n)), (call.leading(m), call.leading(right))
    asked, first = call.int("-1"), call.one()
    reals = (first,) if call.complex else ()
    query = (first, first, leading[0], first, leading[1])
    call.routine(
        "lapack", "gesdd", option, *sizes, first, leading[0], *query, first, asked, *reals, call.int("0"), call.info
    )
    count = call.wanted(first)
    given = call.int(count)
    matrix, u, vh, work, integer_work, real_work = call.scratch(
        call.bytes(m, n),
        call.bytes(m, left),
        call.bytes(right, n),
        call.bytes(count),
        call.bytes(k, item=8 * 4),
        call.bytes(_reals(call, m, n, k), item=call.real_item),
    )
    places = (u, leading[0], vh, leading[1], work, given, *((real_work,) if call.complex else ()), integer_work)
    with call.each() as (a, *results):
        values = results[1] if attrs["vectors"] else results[0]
        turn(call, matrix, a, m, n)

        def compute(values: str = values) -> None:
            call.routine("lapack", "gesdd", option, *sizes, matrix, leading[0], values, *places, call.info)

        failed = _compute(call, is_finite(call, matrix, f.mul(m, n)), compute)
        nan = [(values, k, call.real_item)]
        if attrs["vectors"]:
            nan += [(results[0], f.mul(m, left), call.item), (results[2], f.mul(right, n), call.item)]
        with _answer(call, failed, nan):
            if attrs["full_matrices"] and attrs["vectors"]:
                with f.if_(f.icmp("eq", k, "0")):  # of nothing LAPACK makes nothing
                    unit(call, u, m)
                    unit(call, vh, n)
            if attrs["vectors"]:
                turn(call, results[0], u, left, m)
                turn(call, results[2], vh, n, right)
    call.finish()


def _reals(call: LibraryCall, m: str, n: str, k: str) -> str:
    """The real numbers that CGESDD and ZGESDD work with: their documentation's bound, for all ways they may go."""
    f = call.f
    if not call.complex:
        return "0"
    if not call.op.attrs["vectors"]:
        return f.mul(k, "7")
    squares, larger = f.mul(k, k), call.most(m, n)
    deep = f.mul(f.add(squares, k), "5")
    wide = f.add(f.mul(f.add(f.mul(larger, k), squares), "2"), k)
    return call.most(deep, wide)


# --- eig --------------------------------------------------------------------------------------------------------------


def eig(call: LibraryCall) -> None:
    f, vectors = call.f, call.op.attrs["vectors"]
    n, _ = call.matrix_sizes()
    call.require_fit(n)
    options = call.char("N"), call.char("V" if vectors else "N"), call.int(n)
    leading, asked, first = call.leading(n), call.int("-1"), call.one()
    own = (first,) if call.complex else (first, first)
    sides = (first, leading, first, leading)
    reals = (first,) if call.complex else ()
    call.routine("lapack", "geev", *options, first, leading, *own, *sides, first, asked, *reals, call.info)
    count = call.wanted(first)
    given = call.int(count)
    square = call.bytes(n, n) if vectors else "0"
    matrix, columns, work, real_work = call.scratch(
        call.bytes(n, n), square, call.bytes(count), call.bytes(n, item=2 * call.real_item)
    )
    imaginary = f.at(real_work, call.bytes(n))  # of real matrices the parts of the values, apart
    pair = 2 * call.real_item
    with call.each() as (a, values, *results):
        turn(call, matrix, a, n, n)
        found = (values,) if call.complex else (real_work, imaginary)
        places = (*found, matrix, leading, columns, leading, work, given, *((real_work,) if call.complex else ()))

        def compute(places: tuple[str, ...] = places) -> None:
            call.routine("lapack", "geev", *options, matrix, leading, *places, call.info)

        failed = _compute(call, is_finite(call, matrix, f.mul(n, n)), compute)
        with _answer(call, failed, [(values, n, pair), *((place, f.mul(n, n), pair) for place in results)]):
            if not call.complex:
                _join(call, values, real_work, imaginary, n)
            for place in results:
                if call.complex:
                    turn(call, place, columns, n, n)
                else:
                    _pairs(call, place, columns, imaginary, n)
    call.finish()


def _join(call: LibraryCall, to: str, re: str, im: str, count: str) -> None:
    """Complex numbers of their parts."""
    f = call.f
    with f.count(count) as i:
        offset = f.mul(i, str(call.real_item))
        place = f.at(to, f.mul(i, str(2 * call.real_item)))
        f.store(call.real, f.load(call.real, re, offset), place)
        f.store(call.real, f.load(call.real, im, offset), place, call.real_item)


def _pairs(call: LibraryCall, to: str, columns: str, im: str, size: str) -> None:
    """Complex vectors, rows first, of GEEV's: those of a pair of values lie as the parts of the first of the two, one
    column after the other; the second's is its conjugate."""
    if (name := "pairs") not in call.parts:
        real, item = call.real, call.real_item
        f = function(call, name, [("ptr", "to"), ("ptr", "from"), ("ptr", "im"), ("i64", "size")])
        column = f.var("i64", "0")
        with f.loop() as loop:
            j = column.get()
            loop.break_unless(f.icmp("slt", j, "%size"))
            value = f.load(real, "%im", f.mul(j, str(item)))
            alone = f.value(f"fcmp oeq {real} {value}, 0.0")
            with f.count("%size") as i:
                re = f.load(real, "%from", f.mul(f.add(f.mul(j, "%size"), i), str(item)))
                place = f.at("%to", f.mul(f.add(f.mul(i, "%size"), j), str(2 * item)))
                f.store(real, re, place)
                branch = f.if_else(alone)
                with branch.then():
                    f.store(real, "0.0", place, item)
                with branch.otherwise():
                    other = f.load(real, "%from", f.mul(f.add(f.mul(f.add(j, "1"), "%size"), i), str(item)))
                    f.store(real, other, place, item)
                    f.store(real, re, place, 2 * item)
                    f.store(real, f.value(f"fneg {real} {other}"), place, 3 * item)
            column.set(f.add(j, f.select(alone, "1", "2")))
        f.ret()
    call.f.call("void", "@pairs", [("ptr", to), ("ptr", columns), ("ptr", im), ("i64", size)])
