"""Kernels that apply every operation on integers, for the tests of the emitters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dyn import dtypes, integers
from dyn.dtypes import DType
from dyn.schedule.expressions import ExprBuilder
from dyn.schedule.kernel import Apply, Buffer, Expr, Index, Kernel, Load, Loop, Role, Store
from dyn.shapes import Dim, as_dim, broadcast, dim_max, dim_min, floordiv, mod, symbol
from tests.integers.edges import (
    FLOATS,
    INTEGERS,
    SCALARS,
    Array,
    assert_equal,
    converted,
    edges,
    float_edges,
    pairs,
    wanted,
)

I64 = dtypes.int64
#: Size functions by their names in ``dyn.integers``.
FUNCTIONS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "floordiv": floordiv,
    "mod": mod,
    "min": dim_min,
    "max": dim_max,
    "broadcast": broadcast,
}
#: Runs a kernel: its name, its buffers' arrays, its dims.
Run = Callable[[str, list[Array], list[int]], None]


def _kernel(name: str, role: Role, inputs: list[Buffer], outputs: list[Buffer], make: Callable[[Dim], list[Expr]]):
    """``outputs[k][i] = make(i)[k]``, in vectors where ``role`` is LANE."""
    n, i = symbol("n"), symbol("i")
    stores = tuple(Store(out, as_dim(i), value) for out, value in zip(outputs, make(as_dim(i)), strict=True))
    return Kernel(f"{name}_{role.name.lower()}", (*inputs, *outputs), (n,), (), (Loop(role, i, as_dim(n), stores),))


def ops(dtype: DType, role: Role) -> Kernel:
    """Every op of integers on two arrays."""
    a, b = Buffer("a", dtype), Buffer("b", dtype)
    outputs = [Buffer(name, dtype) for name in SCALARS.values()]
    return _kernel(
        f"ops_{dtype.short}", role, [a, b], outputs,
        lambda i: [Apply(fn, (Load(a, i), Load(b, i))[: fn.arity], dtype) for fn in SCALARS],
    )  # fmt: skip


def casts(source: DType, role: Role) -> Kernel:
    """An array as every integer dtype."""
    a = Buffer("a", source)
    outputs = [Buffer(to.name, to) for to in INTEGERS]
    k = ExprBuilder()
    return _kernel(f"casts_{source.short}", role, [a], outputs, lambda i: [k.cast(Load(a, i), to) for to in INTEGERS])


def computed(role: Role) -> Kernel:
    """Functions of indices that are elements themselves."""
    a, b = Buffer("a", I64), Buffer("b", I64)
    k = ExprBuilder()

    def make(i: Dim) -> list[Expr]:
        left, right = k.bind(k.load(a, i)), k.bind(k.load(b, i))
        return [k.index(I64, function(left, right)) for function in FUNCTIONS.values()]

    return _kernel("computed", role, [a, b], [Buffer(name, I64) for name in FUNCTIONS], make)


def uniform() -> Kernel:
    """Functions of two parameters."""
    p, q, i = symbol("p"), symbol("q"), symbol("i")
    outputs = [Buffer(name, I64) for name in FUNCTIONS]
    values = [Index(I64, function(as_dim(p), as_dim(q))) for function in FUNCTIONS.values()]
    stores = tuple(Store(out, as_dim(i), value) for out, value in zip(outputs, values, strict=True))
    return Kernel("uniform", tuple(outputs), (p, q), (), (Loop(Role.GRID, i, 1, stores),))


#: The vectors of indices that are tried: a parameter plus the lane's number, and the other parameter.
_SPAN = 37


def varying(left: bool) -> Kernel:
    """Functions of ``p + lane`` and ``q``, or of ``p`` and ``q + lane``: the lanes of a vector differ."""
    p, q, i = symbol("p"), symbol("q"), symbol("i")
    a, b = (as_dim(p) + as_dim(i), as_dim(q)) if left else (as_dim(p), as_dim(q) + as_dim(i))
    outputs = [Buffer(name, I64) for name in FUNCTIONS]
    stores = tuple(
        Store(out, as_dim(i), Index(I64, function(a, b)))
        for out, function in zip(outputs, FUNCTIONS.values(), strict=True)
    )
    name = "varying_dividend" if left else "varying_divisor"
    return Kernel(name, tuple(outputs), (p, q), (), (Loop(Role.LANE, i, _SPAN, stores),))


def every_kernel(roles: tuple[Role, ...]) -> list[Kernel]:
    per_role = [
        kernel
        for role in roles
        for kernel in (
            *(ops(dtype, role) for dtype in INTEGERS),
            *(casts(source, role) for source in (*FLOATS, *INTEGERS)),
            computed(role),
        )
    ]
    return [*per_role, uniform(), varying(True), varying(False)]


# ---- checks, for any machine -----------------------------------------------------------------------------------------


def check_ops(run: Run, dtype: DType, role: Role) -> None:
    a, b = pairs(dtype)
    outputs = [np.empty_like(a) for _ in SCALARS]
    run(f"ops_{dtype.short}_{role.name.lower()}", [a, b, *outputs], [len(a)])
    for (fn, name), got in zip(SCALARS.items(), outputs, strict=True):
        assert_equal(got, wanted(name, dtype, *(a, b)[: fn.arity]), *(a, b)[: fn.arity])


def check_casts(run: Run, source: DType, role: Role) -> None:
    a = float_edges(source) if source.is_float else np.array(edges(source), source.np)
    outputs = [np.empty(len(a), to.np) for to in INTEGERS]
    run(f"casts_{source.short}_{role.name.lower()}", [a, *outputs], [len(a)])
    for to, got in zip(INTEGERS, outputs, strict=True):
        assert_equal(got, converted(to, a), a)


def _indices(name: str, a: Array, b: Array) -> Array:
    values = [integers.INDICES[name](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return np.array([integers.INT64.wrap(v) for v in values])


def check_computed(run: Run, role: Role) -> None:
    a, b = pairs(I64)
    outputs = [np.empty_like(a) for _ in FUNCTIONS]
    run(f"computed_{role.name.lower()}", [a, b, *outputs], [len(a)])
    for name, got in zip(FUNCTIONS, outputs, strict=True):
        assert_equal(got, _indices(name, a, b), a, b)


def check_uniform(run: Run) -> None:
    a, b = pairs(I64)
    got = np.empty((len(FUNCTIONS), len(a)), np.int64)
    for number, (p, q) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        run("uniform", [got[k, number : number + 1] for k in range(len(FUNCTIONS))], [p, q])
    for row, name in zip(got, FUNCTIONS, strict=True):
        # Sums and products are not of sizes that were checked: what passes 64 bits is undefined.
        fits = np.array(
            [abs(integers.SIZES[name](x, y or 1)) < 2**63 for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        )
        fits |= name == "floordiv"
        assert_equal(row[fits], _indices(name, a, b)[fits], a[fits], b[fits])


def check_varying(run: Run) -> None:
    small = [v for v in edges(I64) if abs(v) < 2**25] + [2**51, -(2**51), 2**52 - 64]
    for left in (True, False):
        for p in small:
            for q in small:
                outputs = [np.empty(_SPAN, np.int64) for _ in FUNCTIONS]
                run("varying_dividend" if left else "varying_divisor", outputs, [p, q])
                lanes = np.arange(_SPAN)
                a, b = (p + lanes, np.full(_SPAN, q)) if left else (np.full(_SPAN, p), q + lanes)
                for name, got in zip(FUNCTIONS, outputs, strict=True):
                    fits = np.array([abs(x * y) < 2**63 for x, y in zip(a.tolist(), b.tolist(), strict=True)])
                    fits |= name != "multiply"
                    assert_equal(got[fits], _indices(name, a, b)[fits], a[fits], b[fits])
