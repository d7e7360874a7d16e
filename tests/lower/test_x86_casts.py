"""Every dtype to every dtype, in vectors and one at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.x86 import host_target, target_for
from dyn.dtypes import DType, Kind
from dyn.errors import NotYetError
from dyn.lower.x86.emit import emit_kernel
from dyn.ops.elementwise import convert_array
from dyn.ops.scalar import Scalar
from tests.lower.float8_inputs import dense
from tests.lower.test_x86_scalars import values
from tests.lower.x86_run import F32, Compiled, ap, compile_kernels, elementwise

REAL = tuple(d for d in dtypes.ALL if d.kind is not Kind.COMPLEX and d not in dtypes.FLOAT8)
HALVES = (dtypes.float16, dtypes.bfloat16)
#: What floats of 8 bits are converted from and to by way of float32.
NEAR = (dtypes.bool_, dtypes.int8, dtypes.uint64, dtypes.float16, dtypes.bfloat16)
CASES = [(a, b) for a in REAL for b in REAL]


def inputs(dtype: DType) -> np.ndarray:
    if dtype not in HALVES:
        x = values(dtype, 3)
        if dtype.is_float:
            edges = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5, 1)]
            near = np.array([*edges, *[-e for e in edges], 65504, 65519, 65520, 3.4e38, 2.0**-25], dtype.np)
            x[: len(near)] = near
        return x
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype.np)
    return every[::7].copy()


def expected_cast(x: np.ndarray, to: DType) -> np.ndarray:
    """Truncating, saturating, NaN to 0; integers wrap; floats round to nearest even, once."""
    with np.errstate(all="ignore"):
        if to is dtypes.bool_:
            return x.astype(np.float64) != 0 if x.dtype.kind not in "iu" else x != 0
        kind = "f" if x.dtype.name in ("float16", "bfloat16") else x.dtype.kind
        if to.is_integer and kind == "f":
            info = np.iinfo(to.np)
            out: list[int] = []
            for v in x.astype(np.float64).tolist():
                if v != v:
                    out.append(0)
                elif v in (np.inf, -np.inf):
                    out.append(info.max if v > 0 else info.min)
                else:
                    out.append(min(max(int(v), int(info.min)), int(info.max)))
            return np.array(out, to.np)
        if to is dtypes.bfloat16 and x.dtype == np.float64:
            return _bfloat16_once(x)
        if to in HALVES and x.dtype.kind in "iub":
            return x.astype(np.float32).astype(to.np)
        return x.astype(to.np)


def _bfloat16_once(x: np.ndarray) -> np.ndarray:
    """float64 to bfloat16 without rounding to float32 on the way: through float32 rounded to odd."""
    near = x.astype(np.float32)
    bits = near.view(np.uint32).copy()
    inexact = np.isfinite(x) & (near.astype(np.float64) != x)
    far = inexact & (np.abs(near.astype(np.float64)) > np.abs(x))
    bits[far] -= 1
    bits[inexact] |= 1
    return bits.view(np.float32).astype(dtypes.bfloat16.np)


@pytest.fixture(scope="module")
def compiled() -> dict[tuple[DType, DType, bool], Compiled]:
    keys = [(a, b, scalar) for a, b in CASES for scalar in (False, True)]
    kernels = [
        elementwise(f"{a.short}_{b.short}", lambda x, b=b: ap(Scalar.CAST, x, dtype=b), [a], b, scalar=scalar)
        for a, b, scalar in keys
    ]
    return dict(zip(keys, compile_kernels(kernels), strict=True))


@pytest.mark.parametrize("source", REAL, ids=lambda d: d.short)
def test_cast(source: DType, compiled: dict[tuple[DType, DType, bool], Compiled]) -> None:
    x = inputs(source)
    for to in REAL:
        expected = expected_cast(x, to)
        for scalar in (False, True):
            got = np.empty(len(x), to.np)
            compiled[source, to, scalar]([len(x)], [x, got])
            if to in HALVES:
                a, b = got.astype(np.float32), expected.astype(np.float32)
            else:
                a, b = got, expected
            same = (a == b) | ((a != a) & (b != b))
            bad = np.flatnonzero(~same)[:5]
            assert not bad.size, [(source.short, to.short, scalar, x[i], got[i], expected[i]) for i in bad]


def test_floats_of_8_bits() -> None:
    """Bit for bit as ml_dtypes has it; of float64 as XLA does, which rounds once."""
    pairs = [pair for d in dtypes.FLOAT8 for pair in ((d, F32), (F32, d), (dtypes.float64, d))]
    pairs += [pair for d in NEAR for pair in ((d, dtypes.float8_e4m3fn), (dtypes.float8_e5m2, d))]
    pairs += itertools.pairwise(dtypes.FLOAT8)
    keys = [(*pair, scalar) for pair in pairs for scalar in ((False, True) if F32 in pair else (False,))]
    kernels = [
        elementwise(f"{a.short}_{b.short}", lambda x, b=b: ap(Scalar.CAST, x, dtype=b), [a], b, scalar=scalar)
        for a, b, scalar in keys
    ]
    for (a, b, scalar), run in zip(keys, compile_kernels(kernels), strict=True):
        x = dense(a)
        got, expected = np.empty(len(x), b.np), convert_array(x, b)
        run([len(x)], [x, got])
        bad = np.flatnonzero(got.view(f"u{b.itemsize}") != expected.view(f"u{b.itemsize}"))[:5]
        assert not bad.size, [(a.short, b.short, scalar, x[i], got[i], expected[i]) for i in bad]


def test_powers_of_two_are_rounded_up_from_the_middle_of_the_least() -> None:
    """Of which 2**-127 is a subnormal float32."""
    least, after = np.array([2.0**-127, 2.0**-126], np.float32)
    middle = np.float32(1.5) * least
    x = np.array([least, np.nextafter(middle, least), middle, np.nextafter(middle, after), after], np.float32)
    kernel = elementwise("c", lambda x: ap(Scalar.CAST, x, dtype=dtypes.float8_e8m0fnu), [F32], dtypes.float8_e8m0fnu)
    (run,) = compile_kernels([kernel])
    got = np.empty(len(x), dtypes.float8_e8m0fnu.np)
    run([len(x)], [x, got])
    np.testing.assert_array_equal(got.view(np.uint8), [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(convert_array(x, dtypes.float8_e8m0fnu).view(np.uint8), [0, 0, 1, 1, 1])


def test_float16_without_the_instruction() -> None:
    pairs = [(dtypes.float16, F32), (F32, dtypes.float16), (dtypes.float64, dtypes.float16)]
    kernels = [elementwise("c", lambda x, b=b: ap(Scalar.CAST, x, dtype=b), [a], b) for a, b in pairs]
    for (a, b), run in zip(pairs, compile_kernels(kernels, target_for("x86-64")), strict=True):
        x = inputs(a)
        got = np.empty(len(x), b.np)
        run([len(x)], [x, got])
        np.testing.assert_array_equal(got, expected_cast(x, b))


def test_bitcasts() -> None:
    numbers = (*REAL, dtypes.float8_e4m3fn, dtypes.float8_e8m0fnu)
    pairs = [(a, b) for a in numbers for b in numbers if a.bits == b.bits and dtypes.bool_ not in (a, b)]
    keys = [(a, b, scalar) for a, b in pairs for scalar in (False, True)]
    kernels = [
        elementwise("c", lambda x, b=b: ap(Scalar.BITCAST, x, dtype=b), [a], b, scalar=scalar) for a, b, scalar in keys
    ]
    for (a, b, _), run in zip(keys, compile_kernels(kernels), strict=True):
        x = np.random.default_rng(1).integers(0, 256, 8000, np.uint8).view(a.np)
        got = np.empty(len(x), b.np)
        run([len(x)], [x, got])
        assert got.tobytes() == x.tobytes(), (a, b)


def test_complex_is_not_there_yet() -> None:
    kernel = elementwise("k", lambda x: x, [dtypes.complex64], dtypes.complex64)
    with pytest.raises(NotYetError) as error:
        emit_kernel(kernel, host_target())
    assert str(error.value) == (
        "kernel k: complex64 is not generated for x86 yet.\n  help: compute with the real and imaginary parts."
    )
