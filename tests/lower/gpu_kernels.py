"""Kernels written by hand in the kernel IR, as lowering will make them, for the tests of the GPU emitter."""

from __future__ import annotations

import math
from dataclasses import replace

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ops.scalar import COMPARISONS, Scalar
from dyn.schedule.kernel import (
    Apply,
    Buffer,
    Carry,
    Const,
    Expr,
    Fold,
    Index,
    Kernel,
    Load,
    Loop,
    Ref,
    Role,
    Space,
    Stmt,
    Store,
    Update,
    scalar_fold,
)
from dyn.schedule.monoids import extreme_and_place, moments, sum_of_exponentials
from dyn.shapes import Dim, as_dim, dim_max, dim_min, floordiv, symbol

F32, I32, I64, BOOL = dtypes.float32, dtypes.int32, dtypes.int64, dtypes.bool_
STORED = tuple(d for d in dtypes.ALL if d.kind is not dtypes.Kind.COMPLEX and d not in dtypes.FLOAT8)
COMPUTED = tuple(d for d in STORED if not d.is_narrow)


def call(fn: Scalar, *args: Expr, to: DType | None = None) -> Apply:
    """``fn(*args)``, its dtype as ``check`` wants it."""
    is_bool = fn in COMPARISONS or fn is Scalar.IS_FINITE
    return Apply(fn, args, to if to is not None else BOOL if is_bool else args[-1].dtype)


def number(value: float, dtype: DType = F32) -> Const:
    return Const(dtype, value)


def lane(var: Dim, extent: Dim, *body: Stmt, folds: tuple[Fold, ...] = ()) -> Loop:
    return _loop(Role.LANE, var, extent, body, folds)


def serial(var: Dim, extent: Dim, *body: Stmt, folds: tuple[Fold, ...] = ()) -> Loop:
    return _loop(Role.SERIAL, var, extent, body, folds)


def grid(var: Dim, extent: Dim, *body: Stmt) -> Loop:
    return _loop(Role.GRID, var, extent, body, ())


def _loop(role: Role, var: Dim, extent: Dim, body: tuple[Stmt, ...], folds: tuple[Fold, ...]) -> Loop:
    assert not isinstance(var, int)
    sym = var.is_symbol
    assert sym is not None
    return Loop(role, sym, extent, body, folds)


def var(name: str) -> Dim:
    return as_dim(symbol(name))


def kernel(
    name: str, buffers: tuple[Buffer, ...], dims: tuple[Dim, ...], *body: Stmt, scratch: tuple[Buffer, ...] = ()
) -> Kernel:
    symbols = tuple(s for d in dims if not isinstance(d, int) and (s := d.is_symbol) is not None)
    return Kernel(name, buffers, symbols, scratch, body, note=f"{name}, by hand")


def softmax() -> Kernel:
    """``y[r, :] = softmax(x[r, :])``: the maximum; exp, kept on the chip, and its sum; the division."""
    rows, cols, r, i, j, k = map(var, ("rows", "cols", "r", "i", "j", "k"))
    x, y = Buffer("x", F32), Buffer("y", F32)
    kept = Buffer("e", F32, Space.SCRATCH, cols)
    top, total = Ref("top", F32), Ref("total", F32)
    exp = call(Scalar.EXP, call(Scalar.SUB, Load(x, r * cols + j), top))
    quotient = call(Scalar.DIV, Load(kept, k), total)
    return kernel(
        "softmax", (x, y), (rows, cols),
        grid(
            r, rows,
            lane(i, cols, folds=(scalar_fold(top, Scalar.MAX, number(-math.inf), Load(x, r * cols + i)),)),
            lane(j, cols, Store(kept, j, exp), folds=(scalar_fold(total, Scalar.ADD, number(0.0), exp),)),
            lane(k, cols, Store(y, r * cols + k, quotient)),
        ),
        scratch=(kept,),
    )  # fmt: skip


def softmax_of_neighbours(together: int) -> Kernel:
    """``softmax``, each lane with a few neighbours at a time."""
    rows, cols, r, chunk = map(var, ("rows", "cols", "r", "chunk"))
    x, y = Buffer("x", F32), Buffer("y", F32)
    kept = Buffer("e", F32, Space.SCRATCH, cols)

    def lanes(*body: Stmt, along: Dim, fold: tuple[Scalar, float, Expr] | None = None) -> tuple[Loop, Ref]:
        """Loops of lanes, and in each through neighbours ``along``; and what the fold of both comes to."""
        inner, outer = Ref("some", F32), Ref("all", F32)
        own = () if fold is None else (scalar_fold(inner, fold[0], number(fold[1]), fold[2]),)
        whole = () if fold is None else (scalar_fold(outer, fold[0], number(fold[1]), inner),)
        few = _loop(Role.UNROLL, along, dim_min(together, cols - chunk * together), body, own)
        return lane(chunk, floordiv(cols + together - 1, together), few, folds=whole), outer

    def at(neighbour: Dim) -> Dim:
        return chunk * together + neighbour

    i, j, k = map(var, ("i", "j", "k"))
    first, top = lanes(along=i, fold=(Scalar.MAX, -math.inf, Load(x, r * cols + at(i))))
    exp = call(Scalar.EXP, call(Scalar.SUB, Load(x, r * cols + at(j)), top))
    second, total = lanes(Store(kept, at(j), exp), along=j, fold=(Scalar.ADD, 0.0, exp))
    third, _ = lanes(Store(y, r * cols + at(k), call(Scalar.DIV, Load(kept, at(k)), total)), along=k)
    body = grid(r, rows, first, second, third)
    return kernel(f"softmax_of_{together}", (x, y), (rows, cols), body, scratch=(kept,))


def bias_gelu(kind: str) -> Kernel:
    """``y[r, c] = gelu(x[r, c] + bias[c])`` with ``kind`` "tanh" or "erf"."""
    rows, cols, r, c = map(var, ("rows", "cols", "r", "c"))
    x, bias, y = Buffer("x", F32), Buffer("bias", F32), Buffer("y", F32)
    a = call(Scalar.ADD, Load(x, r * cols + c), Load(bias, c))
    if kind == "tanh":
        cube = call(Scalar.MUL, call(Scalar.MUL, a, a), a)
        inner = call(Scalar.ADD, a, call(Scalar.MUL, number(0.044715), cube))
        inside = call(Scalar.TANH, call(Scalar.MUL, number(math.sqrt(2 / math.pi)), inner))
    else:
        inside = call(Scalar.ERF, call(Scalar.MUL, a, number(math.sqrt(0.5))))
    half = call(Scalar.MUL, number(0.5), a)
    result = call(Scalar.MUL, half, call(Scalar.ADD, number(1.0), inside))
    body = lane(c, cols, Store(y, r * cols + c, result))
    return kernel(f"bias_gelu_{kind}", (x, bias, y), (rows, cols), grid(r, rows, body))


def column_sum() -> Kernel:
    """``y[c] = sum over r of x[r, c]``: 32 columns a block, the rows in each thread."""
    rows, cols, tile, c, r = map(var, ("rows", "cols", "tile", "c", "r"))
    x, y, total = Buffer("x", F32), Buffer("y", F32), Ref("total", F32)
    column = tile * 32 + c
    down = serial(r, rows, folds=(scalar_fold(total, Scalar.ADD, number(0.0), Load(x, r * cols + column)),))
    body = lane(c, dim_min(32, cols - tile * 32), down, Store(y, column, total))
    return kernel("column_sum", (x, y), (rows, cols), grid(tile, floordiv(cols + 31, 32), body))


def exchanged() -> Kernel:
    """``a, b = b + x[r, c], a`` for each row, from 0 and 1: what is carried changes places."""
    rows, cols, tile, c, r = map(var, ("rows", "cols", "tile", "c", "r"))
    x, y, z = Buffer("x", F32), Buffer("y", F32), Buffer("z", F32)
    a, b, first, second = (Ref(name, F32) for name in ("a", "b", "first", "second"))
    column = tile * 32 + c
    own = call(Scalar.ADD, b, Load(x, r * cols + column))
    carries = (Carry(first, a, number(0.0), own), Carry(second, b, number(1.0), a))
    down = replace(serial(r, rows), carries=carries)
    body = lane(c, dim_min(32, cols - tile * 32), down, Store(y, column, first), Store(z, column, second))
    return kernel("exchanged", (x, y, z), (rows, cols), grid(tile, floordiv(cols + 31, 32), body))


def transposed() -> Kernel:
    """``y[i, j] = x[j, i]``, four rows of ``y`` in copies of the code."""
    n, m, s, i, j = map(var, ("n", "m", "s", "i", "j"))
    x, y = Buffer("x", F32), Buffer("y", F32)
    row = s * 4 + i
    copies = _loop(Role.UNROLL, i, dim_min(4, n - s * 4), (Store(y, row * m + j, Load(x, j * n + row)),), ())
    return kernel("transposed", (x, y), (n, m), serial(s, floordiv(n + 3, 4), lane(j, m, copies)))


def gather() -> Kernel:
    """``y[r, :] = table[clamp(index[r]), :]`` for a table of at least one row."""
    rows, cols, entries, r, c = map(var, ("rows", "cols", "entries", "r", "c"))
    table, index, y = Buffer("table", F32), Buffer("index", I32), Buffer("y", F32)
    row = call(Scalar.MAX, call(Scalar.CAST, Load(index, r), to=I64), number(0, I64))
    row = call(Scalar.MIN, row, Index(I64, entries - 1))
    at = symbol("at")
    value = Load(table, as_dim(at) * cols + c, bound=((at, row),))
    body = lane(c, cols, Store(y, r * cols + c, value))
    return kernel("gather", (table, index, y), (rows, cols, entries), grid(r, rows, body))


def ragged() -> Kernel:
    """Sums over bags of a table's rows, from ``offsets[r]`` to ``offsets[r + 1]``: lanes along the rows."""
    rows, cols, r, c, e = map(var, ("rows", "cols", "r", "c", "e"))
    offsets, ids, table, y = (Buffer(n, d) for n, d in zip("oity", (I64, I32, F32, F32), strict=True))
    begin, end, row = (symbol(name) for name in ("begin", "end", "row"))
    bound = ((begin, Load(offsets, r)), (end, Load(offsets, r + 1)))
    row_of = call(Scalar.CAST, Load(ids, as_dim(begin) + e, bound[:1]), to=I64)
    acc, element = Ref("acc", F32), Load(table, as_dim(row) * cols + c, ((row, row_of),))
    bag = serial(
        e, dim_max(0, as_dim(end) - as_dim(begin)), folds=(scalar_fold(acc, Scalar.ADD, number(0.0), element),)
    )
    body = lane(c, cols, replace(bag, bound=bound), Store(y, r * cols + c, acc))
    return kernel("ragged", (offsets, ids, table, y), (rows, cols), grid(r, rows, body))


def ragged_sums() -> Kernel:
    """Sums over rows of different lengths: lanes along each."""
    rows, r, k = map(var, ("rows", "r", "k"))
    offsets, x, y = Buffer("o", I64), Buffer("x", F32), Buffer("y", F32)
    begin, end, total = symbol("begin"), symbol("end"), Ref("total", F32)
    bound = ((begin, Load(offsets, r)), (end, Load(offsets, r + 1)))
    fold = scalar_fold(total, Scalar.ADD, number(0.0), Load(x, as_dim(begin) + k, bound[:1]))
    along = replace(lane(k, dim_max(0, as_dim(end) - as_dim(begin)), folds=(fold,)), bound=bound)
    return kernel("ragged_sums", (offsets, x, y), (rows,), grid(r, rows, along, Store(y, r, total)))


def ragged_lanes() -> Kernel:
    """Sums over rows of different lengths, a row a lane; what is carried is the product of one and the next."""
    rows, r, e = map(var, ("rows", "r", "e"))
    offsets, x, y, z = (Buffer(n, d) for n, d in zip("oxyz", (I64, F32, F32, F32), strict=True))
    begin, end = symbol("begin"), symbol("end")
    bound = ((begin, Load(offsets, r)), (end, Load(offsets, r + 1)))
    element = Load(x, as_dim(begin) + e, bound[:1])
    acc, last, state = Ref("acc", F32), Ref("last", F32), Ref("state", F32)
    carry = Carry(last, state, number(1.0), call(Scalar.SUB, element, state))
    loop = serial(
        e, dim_max(0, as_dim(end) - as_dim(begin)), folds=(scalar_fold(acc, Scalar.MAX, number(-math.inf), element),)
    )
    loops = (replace(loop, bound=bound), replace(loop, bound=bound, folds=(), carries=(carry,)))
    return kernel(
        "ragged_lanes", (offsets, x, y, z), (rows,), lane(r, rows, *loops, Store(y, r, acc), Store(z, r, last))
    )


def concat() -> Kernel:
    """``y = concatenate(a[n], b[m])``: neither is read out of its bounds."""
    n, m, i = map(var, ("n", "m", "i"))
    a, b, y = Buffer("a", F32), Buffer("b", F32), Buffer("y", F32)
    first = call(Scalar.LT, Index(I64, i), Index(I64, n))
    rest = Load(b, i - n, mask=call(Scalar.NOT, first), other=number(0.0))
    return kernel("concat", (a, b, y), (n, m), lane(i, n + m, Store(y, i, Load(a, i, mask=first, other=rest))))


def turn() -> Kernel:
    """``y[r] = turned(turned(x[r]) + 1)…``, ``times`` times over, through two scratch rows; every barrier matters."""
    rows, cols, times, r, i, t, j, k, m = map(var, ("rows", "cols", "times", "r", "i", "t", "j", "k", "m"))
    x, y = Buffer("x", F32), Buffer("y", F32)
    a, b = Buffer("a", F32, Space.SCRATCH, cols), Buffer("b", F32, Space.SCRATCH, cols)
    return kernel(
        "turn", (x, y), (rows, cols, times),
        grid(
            r, rows,
            lane(i, cols, Store(a, i, Load(x, r * cols + i))),
            serial(
                t, times,
                lane(j, cols, Store(b, j, Load(a, cols - 1 - j))),
                lane(k, cols, Store(a, k, call(Scalar.ADD, Load(b, k), number(1.0)))),
            ),
            lane(m, cols, Store(y, r * cols + m, Load(a, cols - 1 - m))),
        ),
        scratch=(a, b),
    )  # fmt: skip


def teams(*, sums: bool = True) -> Kernel:
    """``y[r, :]`` is ``x[r, ::-1]`` less the row's sum, and ``z[r]`` that sum: five rows a block, a team each.

    Without ``sums``, 0 in their place: then there are no shuffles, at which the lanes of a warp wait too.
    """
    rows, cols, c, t, i, j, k = map(var, ("rows", "cols", "c", "t", "i", "j", "k"))
    x, y, z = Buffer("x", F32), Buffer("y", F32), Buffer("z", F32)
    kept, total = Buffer("kept", F32, Space.SCRATCH, 5 * cols), Ref("total", F32)
    row, own = (c * 5 + t) * cols, t * cols
    result = total if sums else number(0.0)
    reversed_ = call(Scalar.SUB, Load(kept, own + cols - 1 - k), result)
    fold = lane(i, cols, folds=(scalar_fold(total, Scalar.ADD, number(0.0), Load(x, row + i)),))
    team = _loop(Role.TEAM, t, dim_min(5, rows - c * 5), (
        *((fold,) if sums else ()),
        lane(j, cols, Store(kept, own + j, Load(x, row + j))),
        lane(k, cols, Store(y, row + k, reversed_)),
        Store(z, c * 5 + t, result),
    ), ())  # fmt: skip
    body = grid(c, floordiv(rows + 4, 5), replace(team, width=8))
    return kernel("teams", (x, y, z), (rows, cols), body, scratch=(kept,))


def counted() -> Kernel:
    """``y = x``, and then ``y[index[u]] += 1`` for each ``u`` in turn, and ``y[c] = 2 * y[c]`` for the first three."""
    n, m, c, u, d, at = map(var, ("n", "m", "c", "u", "d", "at"))
    x, index, y, old = Buffer("x", F32), Buffer("index", I64), Buffer("y", F32), Ref("old", F32)
    place = at.is_symbol if not isinstance(at, int) else None
    assert place is not None
    inside = call(Scalar.LT, Load(index, u), Index(I64, n))
    one = Update(y, at, ((place, Load(index, u)),), Scalar.ADD, number(1.0), inside)
    double = Update(y, d, (), None, call(Scalar.ADD, old, old), None, old)
    loops = lane(c, n, Store(y, c, Load(x, c))), serial(u, m, one), lane(d, dim_min(n, 3), double)
    return kernel("counted", (x, index, y), (n, m), *loops)


def norms() -> Kernel:
    """Uniform scratch, stored by one thread: ``s = (t, t + 1)`` for the sum ``t`` of a row; ``times`` times over,
    ``s[1]`` is doubled and ``s[0] + s[1]`` added to what ends up, with ``t``, in all of ``y[r, :]``."""
    rows, cols, times, r, i, j, k = map(var, ("rows", "cols", "times", "r", "i", "j", "k"))
    x, y = Buffer("x", F32), Buffer("y", F32)
    s = Buffer("s", F32, Space.SCRATCH, 2)
    total, again = Ref("total", F32), Ref("again", F32)
    both = call(Scalar.ADD, Load(s, 0), Load(s, 1))
    return kernel(
        "norms", (x, y), (rows, cols, times),
        grid(
            r, rows,
            lane(i, cols, folds=(scalar_fold(total, Scalar.ADD, number(0.0), Load(x, r * cols + i)),)),
            Store(s, 0, total),
            Store(s, 1, call(Scalar.ADD, total, number(1.0))),
            serial(j, times, Store(s, 1, call(Scalar.MUL, Load(s, 1), number(2.0))),
                   folds=(scalar_fold(again, Scalar.ADD, number(0.0), both),)),
            lane(k, cols, Store(y, r * cols + k, call(Scalar.ADD, again, total))),
        ),
        scratch=(s,),
    )  # fmt: skip


#: The folds of ``reductions``: what combines, the dtype, the identity.
FOLDS: tuple[tuple[Scalar, DType, float], ...] = (
    (Scalar.ADD, F32, 0.0), (Scalar.MUL, F32, 1.0), (Scalar.MAX, F32, -math.inf), (Scalar.MIN, F32, math.inf),
    (Scalar.ADD, dtypes.float64, 0.0), (Scalar.MAX, dtypes.float64, -math.inf),
    (Scalar.ADD, I64, 0), (Scalar.MIN, I64, 2**63 - 1), (Scalar.MAX, dtypes.uint64, 0), (Scalar.MUL, I32, 1),
    (Scalar.MAX, dtypes.int8, -128), (Scalar.ADD, dtypes.uint8, 0), (Scalar.MIN, dtypes.int16, 2**15 - 1),
    (Scalar.OR, I32, 0), (Scalar.AND, dtypes.uint16, 2**16 - 1), (Scalar.AND, BOOL, True), (Scalar.OR, BOOL, False),
)  # fmt: skip


def reductions() -> Kernel:
    """Every kind of fold over a vector, all in one loop: ``y_k[0] = fold_k(x_k)``."""
    n, i = var("n"), var("i")
    inputs = tuple([Buffer(f"x{k}", dtype) for k, (_, dtype, _) in enumerate(FOLDS)])
    outputs = tuple([Buffer(f"y{k}", dtype) for k, (_, dtype, _) in enumerate(FOLDS)])
    refs = tuple([Ref(f"r{k}", dtype) for k, (_, dtype, _) in enumerate(FOLDS)])
    folds = [
        scalar_fold(ref, combine, Const(dtype, init), Load(x, i))
        for ref, x, (combine, dtype, init) in zip(refs, inputs, FOLDS, strict=True)
    ]
    stores = [Store(y, 0, ref) for y, ref in zip(outputs, refs, strict=True)]
    return kernel("reductions", (*inputs, *outputs), (n,), lane(i, n, folds=tuple(folds)), *stores)


def tuples() -> Kernel:
    """Folds with states of several values, in one loop: a maximum and its place, moments, a sum of exponentials.

    Every thread stores what it has come to: all have the same.
    """
    n, i, t = var("n"), var("i"), var("t")
    x = Buffer("x", F32)
    element, one, zero = Load(x, i), number(1.0), number(0.0)
    makers = (
        (extreme_and_place("maximum", F32, I64, nan_wins=True), (element, Index(I64, i))),
        (moments(F32), (one, element, zero)),
        (sum_of_exponentials(F32), (element, one)),
    )
    folds = [Fold(tuple(Ref("r", v.dtype) for v in values), monoid, values) for monoid, values in makers]
    refs = [ref for fold in folds for ref in fold.refs]
    outputs = tuple([Buffer(f"y{k}", ref.dtype) for k, ref in enumerate(refs)])
    stores = [Store(y, t, ref) for y, ref in zip(outputs, refs, strict=True)]
    return kernel("tuples", (x, *outputs), (n,), lane(i, n, folds=tuple(folds)), lane(t, 64, *stores))


def defined(fn: Scalar, dtype: DType) -> bool:
    """Whether a scalar function means anything on a dtype."""
    if fn in (Scalar.CAST, Scalar.BITCAST):
        return False  # casts() has them all
    if fn in _FLOATS_ONLY:
        return dtype.is_float
    if fn in _INTEGERS_ONLY:
        return dtype.is_integer
    if fn in (Scalar.NOT, Scalar.AND, Scalar.OR, Scalar.XOR):
        return not dtype.is_float
    return dtype is not BOOL or fn not in (Scalar.NEG, Scalar.ABS, Scalar.SUB, Scalar.DIV, Scalar.REM, Scalar.POW)


_FLOATS_ONLY = frozenset((
    Scalar.EXP, Scalar.EXPM1, Scalar.LOG, Scalar.LOG1P, Scalar.TANH, Scalar.LOGISTIC, Scalar.ERF, Scalar.SQRT,
    Scalar.RSQRT, Scalar.CBRT, Scalar.SIN, Scalar.COS, Scalar.TAN, Scalar.ATAN2, Scalar.FLOOR, Scalar.CEIL,
    Scalar.ROUND_EVEN, Scalar.ROUND_AFZ, Scalar.FMA,
))  # fmt: skip
_INTEGERS_ONLY = frozenset((Scalar.SHL, Scalar.SHRA, Scalar.SHRL, Scalar.POPCNT, Scalar.CLZ))


def scalars(dtype: DType) -> tuple[Kernel, tuple[Scalar, ...]]:
    """``y_fn[i] = fn(a[i], b[i])`` for every function that is defined on a dtype, and those in order."""
    fns = tuple([fn for fn in Scalar if defined(fn, dtype)])
    n, i = var("n"), var("i")
    p, a, b = Buffer("p", BOOL), Buffer("a", dtype), Buffer("b", dtype)
    args = (Load(a, i), Load(b, i))
    outputs: list[Buffer] = []
    stores: list[Stmt] = []
    for fn in fns:
        value = call(
            fn, *((Load(p, i),) if fn is Scalar.SELECT else ()), *args[: min(fn.arity, 2)], *args[: fn is Scalar.FMA]
        )
        outputs.append(Buffer(fn.text, value.dtype))
        stores.append(Store(outputs[-1], i, value))
    return kernel(f"scalars_{dtype.short}", (p, a, b, *outputs), (n,), lane(i, n, *stores)), fns


def halves(dtypes: tuple[DType, ...]) -> tuple[tuple[DType, ...], tuple[DType, ...]]:
    """The first and the last ones: a thread has no registers for the places of all results at once."""
    return dtypes[: len(dtypes) // 2], dtypes[len(dtypes) // 2 :]


def casts(source: DType, half: int) -> Kernel:
    """``y_to[i] = cast(x[i])`` for one half of the dtypes, and then a constant of the source's."""
    n, i = var("n"), var("i")
    x, same = Buffer("x", source), Buffer("same", source)
    outputs = tuple([Buffer(f"y_{to.short}", to) for to in halves(STORED)[half]])
    element = Load(x, i)
    stores = [Store(y, i, call(Scalar.CAST, element, to=y.dtype)) for y in outputs]
    return kernel(
        f"casts_{source.short}_{half}", (x, *outputs, same), (n,), lane(i, n, *stores, Store(same, i, Const(source, 1)))
    )


def float8(dtype: DType) -> Kernel:
    """``cast(x[i])`` and ``cast(z[i])`` to a float of 8 bits, and its codes ``c[i]`` as float32."""
    n, i = var("n"), var("i")
    sources = (Buffer("x", F32), Buffer("z", dtypes.float64), Buffer("c", dtype))
    outputs = tuple([Buffer(f"y_{s.name}", F32 if s.dtype is dtype else dtype) for s in sources])
    stores = [Store(y, i, call(Scalar.CAST, Load(x, i), to=y.dtype)) for x, y in zip(sources, outputs, strict=True)]
    return kernel(f"float8_{dtype.short}", (*sources, *outputs), (n,), lane(i, n, *stores))


def same_width(dtype: DType) -> tuple[DType, ...]:
    """The numbers that have as many bits."""
    return tuple([to for to in STORED if to.bits == dtype.bits and to is not BOOL])


def bitcasts(source: DType) -> Kernel:
    """``y_to[i] = bitcast(x[i])`` for every dtype of that width."""
    n, i = var("n"), var("i")
    x = Buffer("x", source)
    outputs = tuple([Buffer(f"y_{to.short}", to) for to in same_width(source)])
    stores = [Store(y, i, call(Scalar.BITCAST, Load(x, i), to=y.dtype)) for y in outputs]
    return kernel(f"bitcasts_{source.short}", (x, *outputs), (n,), lane(i, n, *stores))


def kernels_of_loops() -> tuple[Kernel, ...]:
    """Those with more in them than functions of elements."""
    return (
        softmax(), softmax_of_neighbours(4), softmax_of_neighbours(3),
        bias_gelu("tanh"), bias_gelu("erf"), column_sum(), exchanged(), transposed(), gather(), ragged(),
        ragged_sums(), ragged_lanes(), concat(),
        turn(), norms(), teams(), counted(), reductions(), tuples(),
    )  # fmt: skip


def all_kernels() -> tuple[Kernel, ...]:
    """Everything above."""
    return (
        *kernels_of_loops(), *[float8(d) for d in dtypes.FLOAT8],
        *[scalars(d)[0] for d in COMPUTED], *[casts(d, half) for d in STORED for half in (0, 1)],
        *[bitcasts(d) for d in STORED if d is not BOOL],
    )  # fmt: skip
