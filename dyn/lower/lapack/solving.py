"""Factors of matrices, systems of equations and determinants: routines for ``dyn.lower.lapack.routines``."""

from __future__ import annotations

from dyn.lower.lapack.call import LibraryCall
from dyn.lower.lapack.determinants import ScaledProduct
from dyn.lower.lapack.matrices import clear_triangle, fill_nan, turn, unit, upper


def cholesky(call: LibraryCall) -> None:
    """Cholesky factor, in place, not transposed: what has L below its diagonal, rows first, has L^T above it, columns
    first."""
    lower = call.op.attrs["lower"]
    n, _ = call.matrix_sizes()
    call.require_fit(n)
    option, size, leading = call.char("U" if lower else "L"), call.int(n), call.leading(n)
    with call.each() as (a, result):
        call.copy(result, a, call.bytes(n, n))
        call.routine("lapack", "potrf", option, size, result, leading, call.info)
        clear_triangle(call, result, n, lower=lower, nan=call.failed())
    call.finish()


def triangular_solve(call: LibraryCall) -> None:
    """Solution of triangular systems, in place: of ``X op(A) = B`` BLAS, columns first, sees ``op(A)^T X^T = B^T``."""
    attrs = call.op.attrs
    m, n = call.matrix_sizes(1)
    call.require_fit(m, n)
    options = (
        call.char("R" if attrs["left_side"] else "L"),
        call.char("U" if attrs["lower"] else "L"),
        call.char({"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}[attrs["transpose_a"]]),
        call.char("U" if attrs["unit_diagonal"] else "N"),
    )
    sizes = call.int(n), call.int(m), call.one()
    leading = call.leading(m if attrs["left_side"] else n), call.leading(n)
    with call.each() as (a, b, result):
        call.copy(result, b, call.bytes(m, n))
        call.routine("blas", "trsm", *options, *sizes, a, leading[0], result, leading[1])
    call.finish()


def lu(call: LibraryCall) -> None:
    m, n = call.matrix_sizes()
    call.require_fit(m, n)
    f, k = call.f, call.least(m, n)
    sizes = call.int(m), call.int(n)
    leading = call.leading(m)
    (factors,) = call.scratch(call.bytes(m, n))
    with call.each() as (a, result, pivots, order):
        turn(call, factors, a, m, n)
        call.routine("lapack", "getrf", *sizes, factors, leading, pivots, call.info)
        turn(call, result, factors, n, m)
        with f.count(m) as i:
            f.store("i32", f.cast("trunc", i, "i64", "i32"), f.at(order, f.mul(i, "4")))
        with f.count(k) as i:  # row i was exchanged with that one, one after the other
            place = f.at(pivots, f.mul(i, "4"))
            pivot = f.sub(f.load("i32", place), "1", "i32")
            f.store("i32", pivot, place)
            here = f.at(order, f.mul(i, "4"))
            there = f.at(order, f.mul(f.cast("sext", pivot, "i32", "i64"), "4"))
            first, second = f.load("i32", here), f.load("i32", there)
            f.store("i32", second, here)
            f.store("i32", first, there)
    call.finish()


def qr(call: LibraryCall) -> None:
    m, n = call.matrix_sizes()
    call.require_fit(m, n)
    k, columns = call.least(m, n), call.size(1, -1)
    rows, leading = call.int(m), call.leading(m)
    factor_sizes, form_sizes = (rows, call.int(n)), (rows, call.int(columns), call.int(k))
    form = "ungqr" if call.complex else "orgqr"
    asked, first = call.int("-1"), call.one()
    call.routine("lapack", "geqrf", *factor_sizes, first, leading, first, first, asked, call.info)
    for_factors = call.wanted(first)
    call.routine("lapack", form, *form_sizes, first, leading, first, first, asked, call.info)
    count = call.most(for_factors, call.wanted(first))
    given = call.int(count)
    parts = call.bytes(m, call.most(n, columns)), call.bytes(k), call.bytes(count)
    factors, scales, work = call.scratch(*parts)
    with call.each() as (a, q, r):
        turn(call, factors, a, m, n)
        call.routine("lapack", "geqrf", *factor_sizes, factors, leading, scales, work, given, call.info)
        upper(call, r, factors, columns, n, m)
        call.routine("lapack", form, *form_sizes, factors, leading, scales, work, given, call.info)
        turn(call, q, factors, columns, m)
    call.finish()


def solve(call: LibraryCall) -> None:
    f = call.f
    n, count = call.matrix_sizes(1)
    call.require_fit(n, count)
    sizes, leading = (call.int(n), call.int(count)), call.leading(n)
    factors, solution, pivots = call.scratch(call.bytes(n, n), call.bytes(n, count), call.bytes(n, item=4))
    with call.each() as (a, b, result):
        turn(call, factors, a, n, n)
        turn(call, solution, b, n, count)
        call.routine("lapack", "gesv", *sizes, factors, leading, pivots, solution, leading, call.info)
        turn(call, result, solution, count, n)
        with f.if_(call.failed()):
            fill_nan(call, result, f.mul(n, count))
    call.finish()


def inverse(call: LibraryCall) -> None:
    f = call.f
    n, _ = call.matrix_sizes()
    call.require_fit(n)
    size, leading = call.int(n), call.leading(n)
    factors, solution, pivots = call.scratch(call.bytes(n, n), call.bytes(n, n), call.bytes(n, item=4))
    with call.each() as (a, result):
        turn(call, factors, a, n, n)
        unit(call, solution, n)
        call.routine("lapack", "gesv", size, size, factors, leading, pivots, solution, leading, call.info)
        turn(call, result, solution, n, n)
        with f.if_(call.failed()):
            fill_nan(call, result, f.mul(n, n))
    call.finish()


def det(call: LibraryCall) -> None:
    _each_determinant(call, logarithm=False)


def slogdet(call: LibraryCall) -> None:
    _each_determinant(call, logarithm=True)


def _each_determinant(call: LibraryCall, *, logarithm: bool) -> None:
    """The product of U's diagonal, with a sign for every exchange of rows."""
    n, _ = call.matrix_sizes()
    call.require_fit(n)
    f, size, leading = call.f, call.int(n), call.leading(n)
    factors, pivots = call.scratch(call.bytes(n, n), call.bytes(n, item=4))
    with call.each() as (a, *results):
        turn(call, factors, a, n, n)
        call.routine("lapack", "getrf", size, size, factors, leading, pivots, call.info)
        product = ScaledProduct(call)
        with f.count(n) as i:
            product.multiply(f.at(factors, f.mul(f.mul(i, f.add(n, "1")), str(call.item))))
            pivot = f.load("i32", f.at(pivots, f.mul(i, "4")))
            own = f.cast("trunc", f.add(i, "1"), "i64", "i32")
            product.negate_if(f.icmp("ne", pivot, own, "i32"))
        if logarithm:
            product.store_logarithm(*results)
        else:
            product.store(results[0])
    call.finish()
