"""Copies of matrices into LAPACK's column order and back, and what clears and inspects them there.

Each function of this file puts a small function into a call's text, once, and calls it. Elements are moved as the
integers of their bits: of complex numbers a whole pair at a time.
"""

from __future__ import annotations

from dyn.lower.lapack.call import LibraryCall, function, steps

_BITS = {4: "i32", 8: "i64", 16: "i128"}
_NAN = {4: 0x7FC00000, 8: 0x7FF8000000000000}
_INF = {4: 0x7F800000, 8: 0x7FF0000000000000}
#: Rows and columns that are turned at a time: what they touch lies in the nearest cache.
_TILE = 32


def turn(call: LibraryCall, to: str, source: str, rows: str, columns: str) -> None:
    """``to[c, r] = source[r, c]``: from rows first to columns first, and back with the sizes exchanged."""
    bits, item = _BITS[call.item], call.item
    if (name := "turn") not in call.parts:
        f = function(call, name, [("ptr", "to"), ("ptr", "from"), ("i64", "rows"), ("i64", "columns")])
        with steps(f, "0", "%columns", _TILE) as first_column, steps(f, "0", "%rows", _TILE) as first_row:
            last_column, last_row = f.add(first_column, str(_TILE)), f.add(first_row, str(_TILE))
            last_column = f.select(f.icmp("slt", last_column, "%columns"), last_column, "%columns")
            last_row = f.select(f.icmp("slt", last_row, "%rows"), last_row, "%rows")
            with steps(f, first_column, last_column) as column, steps(f, first_row, last_row) as row:
                read = f.at("%from", f.mul(f.add(f.mul(row, "%columns"), column), str(item)))
                write = f.at("%to", f.mul(f.add(f.mul(column, "%rows"), row), str(item)))
                f.store(bits, f.load(bits, read), write)
        f.ret()
    _run(call, name, to, source, i64=(rows, columns))


def fill_nan(call: LibraryCall, to: str, count: str, *, item: int | None = None) -> None:
    """Numbers that are NaN, of a complex one the real part; reals where their size ``item`` is said."""
    size = call.item if item is None else item
    if (name := f"fill_nan{size}") not in call.parts:
        f = function(call, name, [("ptr", "to"), ("i64", "count")])
        with steps(f, "0", "%count") as i:
            f.store(_BITS[size], str(_NAN[call.real_item]), f.at("%to", f.mul(i, str(size))))
        f.ret()
    _run(call, name, to, i64=(count,))


def clear_triangle(call: LibraryCall, x: str, size: str, *, lower: bool, nan: str) -> None:
    """Zeros in a square matrix, rows first, but for one triangle; that is NaN if the i1 ``nan`` says so."""
    bits = _BITS[call.item]
    if (name := "clear_triangle") not in call.parts:
        f = function(call, name, [("ptr", "x"), ("i64", "size"), ("i1", "nan")])
        with f.count("%size") as row:
            start = f.at("%x", f.mul(f.mul(row, "%size"), str(call.item)))
            after = f.add(row, "1")
            with steps(f, *((after, "%size") if lower else ("0", row))) as column:
                f.store(bits, "0", f.at(start, f.mul(column, str(call.item))))
            with f.if_("%nan"), steps(f, *(("0", after) if lower else (row, "%size"))) as column:
                f.store(bits, str(_NAN[call.real_item]), f.at(start, f.mul(column, str(call.item))))
        f.ret()
    _run(call, name, x, i64=(size,), i1=nan)


def unit(call: LibraryCall, to: str, size: str) -> None:
    """The square matrix with ones on its diagonal."""
    if (name := "unit") not in call.parts:
        f = function(call, name, [("ptr", "to"), ("i64", "size")])
        with f.count(f.mul("%size", "%size")) as i:
            f.store(_BITS[call.item], "0", f.at("%to", f.mul(i, str(call.item))))
        with f.count("%size") as i:
            f.store(call.real, "1.0", f.at("%to", f.mul(f.mul(i, f.add("%size", "1")), str(call.item))))
        f.ret()
    _run(call, name, to, i64=(size,))


def upper(call: LibraryCall, to: str, source: str, rows: str, columns: str, leading: str) -> None:
    """The upper triangle of a matrix that lies columns first, ``leading`` elements apart, rows first; else zeros."""
    bits, item = _BITS[call.item], str(call.item)
    if (name := "upper") not in call.parts:
        sizes = [("i64", size) for size in ("rows", "columns", "leading")]
        f = function(call, name, [("ptr", "to"), ("ptr", "from"), *sizes])
        with f.count("%rows") as row, f.count("%columns") as column:
            write = f.at("%to", f.mul(f.add(f.mul(row, "%columns"), column), item))
            branch = f.if_else(f.icmp("sle", row, column))
            with branch.then():
                read = f.at("%from", f.mul(f.add(f.mul(column, "%leading"), row), item))
                f.store(bits, f.load(bits, read), write)
            with branch.otherwise():
                f.store(bits, "0", write)
        f.ret()
    _run(call, name, to, source, i64=(rows, columns, leading))


def clear_phases(call: LibraryCall, x: str, size: str) -> None:
    """The diagonal of a square complex matrix without its imaginary parts."""
    if (name := "clear_phases") not in call.parts:
        f = function(call, name, [("ptr", "x"), ("i64", "size")])
        with f.count("%size") as i:
            place = f.at("%x", f.mul(f.mul(i, f.add("%size", "1")), str(call.item)))
            f.store(call.real, "0.0", place, call.real_item)
        f.ret()
    _run(call, name, x, i64=(size,))


def is_finite(call: LibraryCall, x: str, count: str) -> str:
    """An i1: whether so many numbers have neither inf nor NaN among them.

    Iterations of LAPACK that are given such need not end.
    """
    bits = _BITS[call.real_item]
    if (name := "is_finite") not in call.parts:
        f = function(call, name, [("ptr", "x"), ("i64", "count")], "i1")
        bad = f.var("i1", "false")
        with f.count(f.mul("%count", str(call.item // call.real_item))) as i:
            number = f.load(bits, f.at("%x", f.mul(i, str(call.real_item))))
            high = f.icmp("eq", f.and_(number, str(_INF[call.real_item]), bits), str(_INF[call.real_item]), bits)
            bad.set(f.or_(bad.get(), high, "i1"))
        f.ret("i1", f.binary("xor", bad.get(), "true", "i1"))
    return _run(call, name, x, i64=(count,), result="i1")


def is_finite_triangle(call: LibraryCall, x: str, size: str, *, lower: bool) -> str:
    """An i1: whether one triangle of a square matrix that lies columns first is finite."""
    f, finite = call.f, call.f.var("i1", "true")
    with f.count(size) as column:
        start = f.add(f.mul(column, size), column if lower else "0")
        count = f.sub(size, column) if lower else f.add(column, "1")
        own = is_finite(call, f.at(x, f.mul(start, str(call.item))), count)
        finite.set(f.and_(finite.get(), own, "i1"))
    return finite.get()


def _run(
    call: LibraryCall, name: str, *pointers: str, i64: tuple[str, ...] = (), i1: str | None = None, result: str = "void"
) -> str:
    arguments = [("ptr", p) for p in pointers] + [("i64", n) for n in i64]
    return call.f.call(result, f"@{name}", [*arguments, *([] if i1 is None else [("i1", i1)])])
