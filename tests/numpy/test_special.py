"""Parts of floats, special functions, windows, bits, comparisons of whole arrays, functions along axes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.errors import ArgumentError, DynError, InvalidValueError, ShapeError, UnsupportedOpError
from tests.numpy.differential import compare

SIZES = (0, 1, 2, 7, 64)
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.75, 3.0, -1024.5, np.inf, -np.inf, np.nan, 1e-5, -6e-8, 65504.0,
]  # fmt: skip
WIDE = [1e-45, -1e-40, 1.1754942e-38, 3.4028235e38, 1e30, -1e-30]
WIDEST = [5e-324, -2.2e-308, 1.7976931348623157e308, -1e300, 2.2250738585072014e-308]


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def numbers(dtype: str) -> Any:
    more = {"float16": [], "float32": WIDE, "float64": [*WIDE, *WIDEST]}[dtype]
    return np.array(SPECIAL + more).astype(dtype)


def exactly(mine: Any, theirs: Any) -> None:
    mine = np.asarray(mine)
    assert mine.dtype == theirs.dtype
    np.testing.assert_array_equal(mine, theirs)
    if mine.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(mine) | np.isnan(mine), np.signbit(theirs) | np.isnan(theirs))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_parts_of_floats(dtype: str) -> None:
    x = numbers(dtype)
    with np.errstate(all="ignore"):
        for name in ("frexp", "modf"):
            for mine, theirs in zip(getattr(dnp, name)(x), getattr(np, name)(x), strict=True):
                exactly(mine, theirs)
        finite = x[x < np.finfo(dtype).max]  # above it there is no next one, and NumPy gives infinity
        # NumPy's float16 goes towards infinity on either side.
        away = np.nextafter(finite, np.copysign(np.array(np.inf, dtype), finite)) - finite
        exactly(
            dnp.spacing(finite), np.where(finite == 0, abs(away), away) if dtype == "float16" else np.spacing(finite)
        )
        for steps in (0, 1, -1, 3, -20, 40, -160, 1100, -1100, 2**40, -(2**62)):
            exactly(dnp.ldexp(x, np.int64(steps)), np.ldexp(x, np.int64(steps)))
        both = np.arange(-len(x) * 5, len(x) * 5, 10, dtype=np.int32)
        exactly(dnp.ldexp(x, both), np.ldexp(x, both))


def test_parts_at_every_size() -> None:
    compare(
        lambda xp, x: (*xp.frexp(x), *xp.modf(x), xp.ldexp(x, 3), xp.ldexp(3.0, xp.arange(4))), "float64 n", sizes=SIZES
    )
    compare(lambda xp, x: xp.modf(x), "int32 n")


# ---- special functions and windows -----------------------------------------------------------------------------------


def test_i0_and_sinc() -> None:
    from scipy import special

    x = np.concatenate([np.linspace(-60, 60, 4001), [0, -0.0, 8, -8, np.nan, 80, 700]])
    for dtype, bound in (("float32", 2e-6), ("float64", 2e-14)):
        own = x.astype(dtype)
        with np.errstate(over="ignore"):
            wanted = special.i0(own.astype(np.float64)).astype(dtype)
        np.testing.assert_allclose(dnp.i0(own), wanted, rtol=bound)
    compare(lambda xp, x: (xp.i0(x), xp.sinc(x)), "float64 n", sizes=SIZES)
    compare(lambda xp, x: xp.sinc(x), "int32 n")


def test_the_derivative_of_i0() -> None:
    from scipy import special

    x = np.linspace(-20, 20, 41)
    with config.override(default_float="float64"):
        found = dyn.grad(lambda x: dnp.sum(dnp.i0(x)))(x)
    np.testing.assert_allclose(found, special.i1(x), rtol=1e-9)


def test_windows() -> None:
    def program(xp: Any, x: Any) -> Any:
        n = x.shape[0]
        return (
            xp.bartlett(n), xp.blackman(n), xp.hamming(n), xp.hanning(n), xp.kaiser(n, 8.6), xp.kaiser(n, 0),
            xp.hanning(5), xp.bartlett(1), xp.blackman(0),
        )  # fmt: skip

    compare(program, "float64 n", sizes=SIZES)


# ---- bits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["big", "little"])
def test_packing(order: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return (
            xp.packbits(x, bitorder=order), xp.packbits(x, axis=0, bitorder=order), xp.packbits(y, axis=1),
            xp.unpackbits(y, bitorder=order), xp.unpackbits(y, axis=0, bitorder=order),
            xp.unpackbits(y, axis=1, count=5), xp.unpackbits(y, axis=1, count=-3), xp.unpackbits(y, axis=1, count=40),
            xp.unpackbits(y, count=0),
        )  # fmt: skip

    compare(program, "bool n 3", "uint8 n 2", sizes=(0, 1, 7, 64))
    compare(lambda xp, x: xp.packbits(x), "int32 n")


# ---- whole arrays ----------------------------------------------------------------------------------------------------


def test_equality_of_arrays() -> None:
    f = dyn.jit(lambda x, y: (dnp.array_equal(x, y), dnp.array_equal(x, y, equal_nan=True), dnp.array_equal(x, x[0])))
    a, b = np.arange(6.0).reshape(3, 2), np.full((3, 2), np.nan)
    for x, y in ((a, a), (a, a + 1), (a, a[:2]), (b, b), (a, np.zeros((3, 4))), (a[:0], b[:0]), (a[:, :0], a[:0])):
        wanted = np.array_equal(x, y), np.array_equal(x, y, equal_nan=True)
        assert tuple(bool(v) for v in f(x, y)[:2]) == wanted if len(x) else True
        assert bool(dnp.array_equal(x, y)) == wanted[0]
    assert not dnp.array_equal(a, a[0])
    assert dnp.array_equal([1, 2], np.array([1, 2]))
    # By value: no int32 is 2**40, which is an answer.
    for xp in (np, dnp):
        assert not xp.array_equal(np.int32(3), 2**40)
        assert not xp.array_equal(-1, np.array([255], np.uint8))
        assert not xp.array_equiv(np.array([3, 0], np.int32), 2**40)
        assert xp.array_equiv(np.array([], np.int32), 2**40)
        assert not xp.array_equal(np.uint64(2**63 + 1), 2**63)


def test_equivalence_of_arrays() -> None:
    x = np.array([[1.0, 2.0], [1.0, 2.0]])
    f = dyn.jit(dnp.array_equiv)
    for y in (x[0], x, x[:, :1], x[0] + 1, np.array(1.0)):
        assert bool(f(x, y)) == np.array_equiv(x, y)
    assert not dnp.array_equiv(np.ones((2, 3)), np.ones((2, 3, 4))[:, :, 0] * 2)


def test_nearness_and_kinds() -> None:
    def program(xp: Any, x: Any, z: Any) -> Any:
        return (
            xp.asarray(xp.allclose(x, x + 1e-9)), xp.asarray(xp.allclose(x, x + 1e-3)), xp.isreal(z),
            xp.iscomplex(z * 0 + 1), xp.isreal(x), xp.iscomplex(x), xp.around(x, 1),
        )  # fmt: skip

    compare(program, "float64 n", "complex128 n", sizes=SIZES)

    def kinds(x: Any, z: Any) -> Any:
        assert dnp.iscomplexobj(z)
        assert dnp.isrealobj(x)
        assert dnp.iscomplexobj(1j)
        assert not dnp.iscomplexobj([1, 2])
        assert dnp.isscalar(3)
        assert dnp.isscalar(x.shape[0])
        assert dnp.isscalar(x.sum())
        assert not dnp.isscalar(x)
        assert not dnp.iscomplexobj(x.shape[0])
        return x

    dyn.jit(kinds)(np.ones(3), np.ones(3, complex))


def test_complex_numbers_in_order() -> None:
    compare(lambda xp, x: xp.sort_complex(xp.floor(x.real) + x.imag * 1j), "complex128 n", sizes=SIZES)
    compare(lambda xp, x: xp.sort_complex(x), "float64 n 3")


# ---- functions along axes --------------------------------------------------------------------------------------------


def test_along_an_axis() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            *(xp.apply_along_axis(lambda v: xp.sum(v * v), axis, x) for axis in (0, 1, -1)),
            *(xp.apply_along_axis(lambda v, k: xp.cumsum(v) * k, axis, x, 3.0) for axis in (0, 1)),
            xp.apply_along_axis(lambda v: xp.stack([v[:2], v[1:3]]), 1, x),
            xp.apply_over_axes(xp.sum, x, [0, 2]),
        )  # fmt: skip

    compare(program, "float64 n 3 4", sizes=(1, 2, 7))
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_allclose(dnp.apply_along_axis(dnp.sort, 0, x), np.sort(x, 0))


def test_vectorize(jax: ModuleType) -> None:
    scaled = dnp.vectorize(lambda a, b: dnp.where(a > b, a - b, a + b))
    theirs = np.vectorize(lambda a, b: a - b if a > b else a + b)
    f = dyn.jit(scaled)
    for n, m in ((1, 3), (4, 2), (2, 1)):
        x, y = np.random.default_rng(n).standard_normal((n, m)), np.random.default_rng(m).standard_normal(m)
        np.testing.assert_allclose(f(x, y), theirs(x, y))
        np.testing.assert_allclose(scaled(x, y), theirs(x, y))
    assert f.cache_info().compiles == 1
    product = dnp.vectorize(dnp.matmul, signature="(n,m),(m)->(n)")
    a, b = np.random.default_rng(0).standard_normal((5, 1, 2, 3)), np.random.default_rng(1).standard_normal((4, 3))
    np.testing.assert_allclose(product(a, b), np.vectorize(np.matmul, signature="(n,m),(m)->(n)")(a, b))
    power = dnp.vectorize(lambda x, n, *, scale: x**n * scale, excluded={1})
    np.testing.assert_allclose(power(b, 3, scale=2.0), b**3 * 2)
    np.testing.assert_allclose(
        dyn.grad(lambda x: dnp.sum(dnp.vectorize(dnp.sin)(x)))(b.astype(np.float32)), np.cos(b), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (dnp.packbits, UnsupportedOpError, "packbits takes integers or booleans, not float32."),
        (dnp.unpackbits, UnsupportedOpError, "unpackbits takes uint8, not float32."),
        (lambda x: dnp.packbits(x > 0, bitorder="up"), InvalidValueError, "packbits: 'up' is no order."),
        (lambda x: dnp.ldexp(x, x), UnsupportedOpError, "ldexp takes integers for exponents, not float32."),
        (
            lambda x: dnp.vectorize(dnp.add, signature="n->n")(x, x),
            ArgumentError,
            "vectorize: 'n->n' is no signature.",
        ),
        (
            dnp.vectorize(dnp.add, signature="(n,m)->()"),
            ShapeError,
            "vectorize: x (n,) has 1 axes, and the signature gives it (n,m).",
        ),
        (
            dnp.vectorize(dnp.add, signature="(n),(n)->()"),
            ArgumentError,
            "vectorize: the signature '(n),(n)->()' has 2 arguments, and 1 are given.",
        ),
        (
            lambda x: dnp.apply_over_axes(lambda v, axis: v[None], x, 0),
            ShapeError,
            "apply_over_axes: the function gives an array with 2 axes of one with 1.",
        ),
    ],
)
def test_refusals(call: Any, kind: type[DynError], text: str) -> None:
    def f(x: Any) -> Any:
        return call(x)

    with pytest.raises(kind) as caught:
        dyn.jit(f, shapes=[("n",)])(np.ones(3, np.float32))
    assert caught.value.problem == text
    assert caught.value.remedy
    assert caught.value.loc is not None
