"""Floats of 8 bits in programs: stored and moved as they are, computed with in float32, never promoted in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes, lax
from dyn.dtypes import DType, Special
from dyn.errors import DynError, UnsupportedOpError
from dyn.interop.stablehlo import dump, load
from dyn.ops.elementwise import convert_array

SIZES = (0, 1, 2, 7, 64, 1000)
E4M3, E5M2 = dtypes.float8_e4m3fn, dtypes.float8_e5m2


def codes(dtype: DType) -> np.ndarray[Any, Any]:
    return np.arange(256, dtype=np.uint8).view(dtype.np)


def numbers(dtype: DType, size: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(size).uniform(0.5, 3, size).astype(dtype.np)


def same(one: Any, other: np.ndarray[Any, Any]) -> None:
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(np.asarray(one).astype(np.float32), other.astype(np.float32))


@pytest.mark.parametrize("dtype", [E5M2, dtypes.float8_e4m3fnuz], ids=str)
def test_one_compile_at_every_size(dtype: DType) -> None:
    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        wide = x.astype("float32")
        return (
            x + y, x * 2, dnp.exp(x), dnp.maximum(x, y), dnp.where(x > y, x, y), dnp.sum(x[:40]), x[::-1],
            dnp.concatenate([x, y]), dnp.sort(x), (wide * wide).astype(dtype.np), dnp.cumsum(x[:40]),
        )  # fmt: skip

    for size in SIZES:
        x, y = numbers(dtype, size), numbers(dtype, size)[::-1].copy()
        a, b = x.astype(np.float32), y.astype(np.float32)
        with np.errstate(all="ignore"):
            total = np.float32(0) + np.sum(a[:40])
            wanted = (
                a + b, a * 2, np.exp(a), np.maximum(a, b), np.where(a > b, a, b), total, a[::-1],
                np.concatenate([a, b]), np.sort(a), a * a, np.cumsum(a[:40]),
            )  # fmt: skip
        for one, other in zip(f(x, y), wanted, strict=True):
            same(one, np.asarray(other).astype(dtype.np))
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("dtype", dtypes.FLOAT8, ids=str)
def test_all_codes_are_moved_as_they_are(dtype: DType) -> None:
    x = codes(dtype)

    def f(x: Any) -> Any:
        return (
            dnp.concatenate([x[::-1], x[100:140]]),
            dnp.concatenate([x, codes(dtype)]),
            lax.bitcast_convert_type(x, "u1"),
        )

    for program in (dyn.jit(f), load(dump(dyn.jit(f).lower(x)))):
        turned, twice, bits = (np.asarray(v) for v in program(x))
        assert turned.tobytes() == x[::-1].tobytes() + x[100:140].tobytes()
        assert twice.tobytes() == 2 * x.tobytes()
        assert bits.tobytes() == x.tobytes()
    assert np.asarray(dyn.asarray(x)).tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", dtypes.FLOAT8, ids=str)
def test_float64_is_rounded_once(dtype: DType) -> None:
    """As XLA does it; ml_dtypes goes by way of float32, and misses what is just off the middle of two numbers."""
    ordered = np.unique(codes(dtype).astype(np.float64))
    finite = ordered[np.isfinite(ordered)]
    middles = (finite[1:] + finite[:-1]) / 2
    off = np.concatenate([middles * (1 + 2.0**-40), middles * (1 - 2.0**-40)])
    nearest = finite[np.abs(off[:, None] - finite).argmin(axis=1)]
    found = np.asarray(dnp.astype(off, dtype.np)).astype(np.float64)
    np.testing.assert_array_equal(found, nearest)
    np.testing.assert_array_equal(found, convert_array(off, dtype).astype(np.float64))


@pytest.mark.parametrize("dtype", dtypes.FLOAT8, ids=str)
def test_signs_and_neighbours_of_all_codes(dtype: DType) -> None:
    x, y = np.repeat(codes(dtype), 256), np.tile(codes(dtype), 256)
    np.testing.assert_array_equal(dnp.signbit(codes(dtype)), np.signbit(codes(dtype)))
    same(dnp.nextafter(x, y), np.nextafter(x, y))
    with_signs = np.copysign(x, y)
    if dtype.floating.special is Special.NAN_AT_MINUS_ZERO:
        with_signs[x == 0] = 0  # ml_dtypes sets the bit of the sign, which makes it NaN
    same(dnp.copysign(x, y), with_signs)


def test_sums_of_products_are_float32s() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-2, 2, (5, 300)).astype(E4M3.np), rng.uniform(-2, 2, (300, 7)).astype(E5M2.np)
    wide = x.astype(np.float32) @ y.astype(np.float32)
    axes = (((1,), (0,)), ((), ()))
    np.testing.assert_allclose(
        lax.dot_general(x, y, axes, preferred_element_type=np.float32), wide, rtol=1e-5, atol=1e-4
    )
    own = y.astype(E4M3.np)
    product = x.astype(np.float32) @ own.astype(np.float32)
    found = np.asarray(dnp.matmul(x, own)).astype(np.float32)
    assert np.abs(found - product).max() <= np.abs(product).max() * 2**-4
    with np.errstate(over="ignore"):
        same(dnp.sum(np.full(500, 0.5, E4M3.np)), np.asarray(250.0).astype(E4M3.np))
    slope = dyn.grad(lambda x: dnp.sum((x * x).astype("float32")))(np.array([1.0, 1.5, -2.0], E4M3.np))
    same(slope, np.array([2.0, 3.0, -4.0], E4M3.np))


def message(call: Callable[[], Any], kind: type[DynError] = UnsupportedOpError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))


def test_promotion_is_that_of_jax() -> None:
    jax = pytest.importorskip("jax")
    names = ["bool", "int8", "uint64", "float16", "float32", "complex64", "float8_e5m2", "float8_e4m3fn", "bfloat16"]
    for dtype in dtypes.FLOAT8:
        for name in names:
            other = dtypes.dtype(name)
            try:
                wanted = jax.numpy.promote_types(dtype.np, other.np)
            except jax.dtypes.TypePromotionError:
                with pytest.raises(UnsupportedOpError, match="do not combine"):
                    dtypes.promote(dtype, other)
            else:
                assert dtypes.promote(dtype, other).np == wanted
    x = numbers(E4M3, 3)
    assert (dyn.asarray(x) + 1.5).dtype == (dyn.asarray(x) + 1).dtype == E4M3.np
    assert message(lambda: dnp.add(x, np.float32(1))) == (
        "float8_e4m3fn and float32 do not combine: floats of 8 bits are not promoted beside other floats.\n"
        "  help: convert one of them first, for example with .astype('float32')."
    )


def test_limits_and_names() -> None:
    assert dnp.finfo(dnp.float8_e5m2).max == 57344
    assert dnp.isdtype(dnp.float8_e4m3fn, "real floating")
    assert dnp.isdtype(dnp.float8_e5m2, ("complex floating", "numeric"))
    assert not dnp.isdtype(dnp.float8_e4m3fn, "integral")
    assert dyn.float8_e4m3fn is E4M3
    assert E4M3["n"].dtype is E4M3
    assert getattr(dyn, E4M3.short) is E4M3
    assert dtypes.dtype("f8") is dtypes.float64


@pytest.mark.parametrize("dtype", dtypes.FLOAT8, ids=str)
def test_torch_tensors(dtype: DType) -> None:
    torch: Any = pytest.importorskip("torch")
    x, f = codes(dtype), dyn.jit(lambda x: x[::-1])
    if not hasattr(torch, dtype.name):
        text = f"a result of dtype {dtype.name}, which torch {torch.__version__} does not have."
        made = dyn.jit(lambda x: dnp.astype(x, dtype.np))
        help_ = "  help: convert it with .astype before it is returned."
        assert message(lambda: made(torch.ones(3))) == f"{text}\n{help_}"
        return
    given = torch.from_numpy(x.view(np.uint8)).view(getattr(torch, dtype.name))
    result = f(given)
    assert result.dtype is given.dtype
    assert result.view(torch.uint8).numpy().tobytes() == x[::-1].tobytes()
    assert torch.equal(torch.from_dlpack(dyn.asarray(x)).view(torch.uint8), given.view(torch.uint8))
    back = dyn.numpy.from_dlpack(given)
    assert np.asarray(back).dtype == dtype.np
    assert np.asarray(back).tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", dtypes.FLOAT8, ids=str)
def test_jax_arrays(dtype: DType) -> None:
    jax = pytest.importorskip("jax")
    x = codes(dtype)
    result = dyn.jit(lambda x: x[::-1])(jax.numpy.asarray(x))
    assert isinstance(result, jax.Array)
    assert np.asarray(result).tobytes() == x[::-1].tobytes()
    assert np.asarray(jax.dlpack.from_dlpack(dyn.asarray(x))).tobytes() == x.tobytes()
