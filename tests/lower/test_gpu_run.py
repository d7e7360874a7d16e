"""Generated CUDA and HIP text, run on the CPU by the shim, against NumPy: both dialects, warps of 32 and 64 lanes, with
the threads resumed in order and in random orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dyn import dtypes
from dyn.dtypes import DType
from dyn.lower.gpu.dialect import dialect_of, gpu_target
from dyn.lower.gpu.emit import GpuKernelText, emit_kernel
from dyn.ops import bits, elementwise
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Kernel
from dyn.schedule.kernel_verifier import check
from dyn.shapes import evaluate
from tests.lower import gpu_kernels
from tests.lower.float8_inputs import dense
from tests.shim.run import ShimModule

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 2, 7, 31, 32, 33, 64, 1000)
VARIANTS = {"cuda": ("cuda", "sm_90a"), "hip32": ("rocm", "gfx1030"), "hip64": ("rocm", "gfx90a")}


@dataclass(frozen=True)
class Machine:
    """All test kernels for one target, compiled together, or those of loops if races are looked for."""

    module: ShimModule
    kernels: dict[str, tuple[Kernel, GpuKernelText]]

    def run(self, name: str, arrays: list[Array], dims: list[int], grid: int = 3, seed: int = 0) -> None:
        kernel, text = self.kernels[name]
        shared = evaluate(text.scratch_bytes, dict(zip(kernel.dims, dims, strict=True)))
        self.module.run(text.symbol, arrays, dims, grid, text.threads, shared, seed)


@lru_cache
def machine_for(variant: str, *, races: bool = False) -> Machine:
    target = gpu_target(*VARIANTS[variant])
    made = gpu_kernels.kernels_of_loops() if races else gpu_kernels.all_kernels()
    kernels = {k.name: (k, emit_kernel(k, target)) for k in made}
    for kernel, _ in kernels.values():
        check(kernel)
    module = ShimModule([text for _, text in kernels.values()], dialect_of(target), target.warp, races=races)
    return Machine(module, kernels)


@pytest.fixture(params=VARIANTS)
def machine(request: pytest.FixtureRequest, require_tool: Callable[..., str]) -> Machine:
    require_tool("g++")
    return machine_for(request.param)


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 3).astype(dtype)


def every_order(machine: Machine, name: str, inputs: list[Array], outputs: list[Array], dims: list[int]) -> None:
    """Fill ``outputs``, and see that neither the order of the threads nor the size of the grid changes a bit."""
    machine.run(name, inputs + outputs, dims)
    for seed, grid in ((1, 1), (2, 9)):
        again = [np.full_like(y, 77) for y in outputs]
        machine.run(name, inputs + again, dims, grid, seed)
        assert [y.tobytes() for y in again] == [y.tobytes() for y in outputs]


# ---- the two groups of the first compiler --------------------------------------------------------------------------


@pytest.mark.parametrize("cols", SIZES)
@pytest.mark.parametrize("name", ["softmax", "softmax_of_4", "softmax_of_3"])
def test_softmax(machine: Machine, cols: int, name: str) -> None:
    for rows in (0, 1, 5):
        x, y = floats(rows, cols), np.empty((rows, cols), np.float32)
        every_order(machine, name, [x], [y], [rows, cols])
        e = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf).astype(np.float64))
        np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("cols", SIZES)
@pytest.mark.parametrize("kind", ["tanh", "erf"])
def test_bias_gelu(machine: Machine, kind: str, cols: int) -> None:
    from scipy.special import erf

    for rows in (0, 1, 11):
        x, bias, y = floats(rows, cols), floats(cols), np.empty((rows, cols), np.float32)
        every_order(machine, f"bias_gelu_{kind}", [x, bias], [y], [rows, cols])
        a = (x + bias).astype(np.float64)
        inside = np.tanh((2 / np.pi) ** 0.5 * (a + 0.044715 * a**3)) if kind == "tanh" else erf(a * 0.5**0.5)
        np.testing.assert_allclose(y, 0.5 * a * (1 + inside), rtol=2e-5, atol=2e-6)


def test_softmax_of_specials(machine: Machine) -> None:
    x = floats(3, 40)
    x[0, 3], x[1, 39], x[2, :] = np.nan, -np.inf, -np.inf
    y = np.empty_like(x)
    machine.run("softmax", [x, y], [3, 40])
    assert np.isnan(y[0]).all()
    assert y[1, 39] == 0
    assert np.isfinite(y[1]).all()
    assert np.isnan(y[2]).all()


# ---- other shapes of kernels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_column_sum(machine: Machine, n: int) -> None:
    for rows in (0, 1, 50):
        x, y = floats(rows, n), np.empty(n, np.float32)
        every_order(machine, "column_sum", [x], [y], [rows, n])
        expected = np.zeros(n, np.float32)
        for row in x:  # the same order of additions: the same bits
            expected += row
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("n", SIZES)
def test_teams(machine: Machine, n: int) -> None:
    for rows in (0, 1, 5, 41):
        x, y, z = floats(rows, n).round(), np.empty((rows, n), np.float32), np.empty(rows, np.float32)
        every_order(machine, "teams", [x], [y, z], [rows, n])
        np.testing.assert_array_equal(z, x.sum(axis=1))
        np.testing.assert_array_equal(y, x[:, ::-1] - z[:, None])


@pytest.mark.parametrize("n", SIZES)
def test_updates(machine: Machine, n: int) -> None:
    for m in (0, 1, 50):
        x, y = floats(n), np.empty(n, np.float32)
        index = np.random.default_rng(m).integers(0, 2 * n + 1, m)
        every_order(machine, "counted", [x, index], [y], [n, m])
        expected = x.copy()
        for place in index[index < n]:
            expected[place] += 1
        expected[:3] *= 2
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("n", SIZES)
def test_what_is_carried_changes_places(machine: Machine, n: int) -> None:
    for rows in (0, 1, 50):
        x, y, z = floats(rows, n), np.empty(n, np.float32), np.empty(n, np.float32)
        every_order(machine, "exchanged", [x], [y, z], [rows, n])
        first, second = np.zeros(n, np.float32), np.ones(n, np.float32)
        for row in x:
            first, second = second + row, first
        np.testing.assert_array_equal(y, first)
        np.testing.assert_array_equal(z, second)


@pytest.mark.parametrize("n", SIZES)
def test_copies_of_the_code(machine: Machine, n: int) -> None:
    for m in (0, 1, 5):
        x, y = floats(m, n), np.empty((n, m), np.float32)
        every_order(machine, "transposed", [x], [y], [n, m])
        np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("n", SIZES)
def test_gather(machine: Machine, n: int) -> None:
    table = floats(6, n)
    index = np.array([0, 5, -3, 99, 2, 2, 4], np.int32)
    y = np.empty((7, n), np.float32)
    every_order(machine, "gather", [table, index], [y], [7, n, 6])
    np.testing.assert_array_equal(y, table[np.clip(index, 0, 5)])


@pytest.mark.parametrize("n", SIZES)
def test_rows_of_different_lengths(machine: Machine, n: int) -> None:
    rng = np.random.default_rng(n)
    for lengths in ([], [0], [1], [3, 0, 70, 1, 33, 0, 0, 129, 2]):
        offsets = np.cumsum([0, *lengths])
        ids, table = rng.integers(0, 6, offsets[-1]).astype(np.int32), np.rint(floats(6, n))
        x = np.rint(floats(offsets[-1]))
        y, s = np.empty((len(lengths), n), np.float32), np.empty(len(lengths), np.float32)
        every_order(machine, "ragged", [offsets, ids, table], [y], [len(lengths), n])
        every_order(machine, "ragged_sums", [offsets, x], [s], [len(lengths)])
        runs = list(pairwise(offsets))
        np.testing.assert_array_equal(y, np.reshape([table[ids[a:b]].sum(0) for a, b in runs], y.shape))
        np.testing.assert_array_equal(s, np.array([x[a:b].sum() for a, b in runs], np.float32))


def test_a_ragged_row_a_lane(machine: Machine) -> None:
    for rows in SIZES:
        offsets = np.cumsum([0, *np.random.default_rng(rows).integers(0, 7, rows)])
        x, y, z = floats(offsets[-1]), np.empty(rows, np.float32), np.empty(rows, np.float32)
        every_order(machine, "ragged_lanes", [offsets, x], [y, z], [rows])
        for row, (begin, end) in enumerate(pairwise(offsets)):
            last = np.float32(1)
            for element in x[begin:end]:
                last = element - last
            assert y[row] == x[begin:end].max(initial=-np.inf)
            assert z[row] == last


@pytest.mark.parametrize("n", SIZES)
def test_masked_concat(machine: Machine, n: int) -> None:
    for m in (0, 1, 40):
        a, b, y = floats(n), floats(m), np.empty(n + m, np.float32)
        every_order(machine, "concat", [a, b], [y], [n, m])
        np.testing.assert_array_equal(y, np.concatenate([a, b]))


@pytest.mark.parametrize("n", SIZES)
def test_scratch_and_its_barriers(machine: Machine, n: int) -> None:
    for times in (0, 1, 3):
        x, y = floats(4, n), np.empty((4, n), np.float32)
        every_order(machine, "turn", [x], [y], [4, n, times])
        turned = x
        for _ in range(times):
            turned = turned[:, ::-1] + np.float32(1)
        np.testing.assert_array_equal(y, turned[:, ::-1])


@pytest.mark.parametrize("n", SIZES)
def test_uniform_scratch(machine: Machine, n: int) -> None:
    x, y = floats(4, n), np.empty((4, n), np.float32)
    every_order(machine, "norms", [x], [y], [4, n, 3])
    total = x.sum(axis=1, dtype=np.float64, keepdims=True)
    np.testing.assert_allclose(y, np.zeros((1, n)) + 4 * total + (total + 1) * (2 + 4 + 8), rtol=1e-5, atol=1e-4)


_NUMPY_FOLDS: dict[Scalar, Any] = {
    Scalar.ADD: np.add, Scalar.MUL: np.multiply, Scalar.MAX: np.maximum, Scalar.MIN: np.minimum,
    Scalar.AND: np.bitwise_and, Scalar.OR: np.bitwise_or,
}  # fmt: skip


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("special", [0.0, -0.0, np.nan])
def test_reductions(machine: Machine, n: int, special: float) -> None:
    rng = np.random.default_rng(n)
    inputs: list[Array] = []
    for k, (combine, dtype, _) in enumerate(gpu_kernels.FOLDS):
        if dtype.is_float:  # near 1 for products; no positive number in sight of a maximum of zeros
            x = 1 + rng.standard_normal(n) / 50 if combine is not Scalar.MAX else -np.abs(rng.standard_normal(n))
            x[k * n // 17 : k * n // 17 + 1] = special if combine in (Scalar.MAX, Scalar.MIN) else 1.0
        elif dtype is dtypes.bool_:
            x = rng.random(n) < (0.001 if combine is Scalar.OR else 0.999)
        else:
            info = np.iinfo(dtype.np)
            x = rng.integers(info.min, info.max, n, dtype=dtype.np, endpoint=True)
        inputs.append(x.astype(dtype.np))
    outputs = [np.empty(1, dtype.np) for _, dtype, _ in gpu_kernels.FOLDS]
    every_order(machine, "reductions", inputs, outputs, [n])
    for x, y, (combine, dtype, init) in zip(inputs, outputs, gpu_kernels.FOLDS, strict=True):
        with np.errstate(all="ignore"):
            expected = _NUMPY_FOLDS[combine].reduce(x, dtype=x.dtype, initial=np.asarray(init, x.dtype))
        np.testing.assert_allclose(y[0], expected, rtol=1e-5 if dtype.is_float else 0, err_msg=f"{combine} {dtype}")
        if combine is Scalar.MAX and n and dtype.is_float and special == 0:
            assert np.signbit(y[0]) == np.signbit(special)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("special", [np.nan, -np.inf, 3])
def test_states_of_several_values(machine: Machine, n: int, special: float) -> None:
    x = floats(n).round()
    x[n // 3 :: 40] = special
    place = np.iinfo(np.int64).max
    outputs = [np.empty(64, np.int64 if k == 1 else np.float32) for k in range(7)]
    every_order(machine, "tuples", [x], outputs, [n])
    assert all((y.view(f"i{y.itemsize}") == y.view(f"i{y.itemsize}")[0]).all() for y in outputs)
    top, at, count, mean, squares, high, total = [y[0] for y in outputs]
    np.testing.assert_array_equal([top, high], [x.max(initial=-np.inf)] * 2)
    assert (at, count) == (x.argmax() if n else place, n)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        centre = wide.mean() if n else 0.0
        if np.isfinite(wide).all():
            np.testing.assert_allclose(mean, centre, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(squares, ((wide - centre) ** 2).sum(), rtol=1e-4)
        else:
            assert np.isnan([mean, squares]).all() or n == 1
        base = top if np.isfinite(top) or np.isnan(top) else 0.0
        np.testing.assert_allclose(total, np.exp(wide - base).sum(), rtol=1e-5)


# ---- every scalar function, every cast -----------------------------------------------------------------------------

_REFERENCES = {
    Scalar.NEG: "negative", Scalar.ABS: "abs_", Scalar.SIGN: "sign", Scalar.EXP: "exponential",
    Scalar.EXPM1: "exponential_minus_one", Scalar.LOG: "log", Scalar.LOG1P: "log_plus_one", Scalar.TANH: "tanh",
    Scalar.LOGISTIC: "logistic", Scalar.ERF: "erf", Scalar.SQRT: "sqrt", Scalar.RSQRT: "rsqrt", Scalar.CBRT: "cbrt",
    Scalar.SIN: "sine", Scalar.COS: "cosine", Scalar.FLOOR: "floor", Scalar.CEIL: "ceil",
    Scalar.ROUND_EVEN: "round_nearest_even", Scalar.IS_FINITE: "is_finite", Scalar.NOT: "not_", Scalar.ADD: "add",
    Scalar.SUB: "subtract", Scalar.MUL: "multiply", Scalar.DIV: "divide", Scalar.REM: "remainder",
    Scalar.POW: "power", Scalar.MAX: "maximum", Scalar.MIN: "minimum", Scalar.AND: "and_", Scalar.OR: "or_",
    Scalar.FMA: "fused_multiply_add", Scalar.XOR: "xor", Scalar.TAN: "tan", Scalar.ATAN2: "atan2",
    Scalar.ROUND_AFZ: "round_nearest_afz",
}  # fmt: skip
_BITS = {
    Scalar.SHL: "shift_left", Scalar.SHRA: "shift_right_arithmetic", Scalar.SHRL: "shift_right_logical",
    Scalar.POPCNT: "popcnt", Scalar.CLZ: "count_leading_zeros",
}  # fmt: skip
_COMPARE: dict[Scalar, Any] = {
    Scalar.EQ: np.equal, Scalar.NE: np.not_equal, Scalar.LT: np.less, Scalar.LE: np.less_equal,
    Scalar.GT: np.greater, Scalar.GE: np.greater_equal,
}  # fmt: skip


def expected_scalar(fn: Scalar, p: Array, a: Array, b: Array) -> Array:
    if fn is Scalar.SELECT:
        return np.where(p, a, b)
    if fn in _COMPARE:
        return _COMPARE[fn](a, b)
    if fn is Scalar.SIGN and a.dtype == np.bool_:
        return a
    name = _BITS.get(fn)
    found = getattr(elementwise, _REFERENCES[fn]) if name is None else getattr(bits, name)
    return found.reference(*(a, b, a)[: fn.arity])


def sample_pairs(dtype: DType) -> tuple[Array, Array]:
    """All pairs of some interesting numbers."""
    rng = np.random.default_rng(0)
    if dtype is dtypes.bool_:
        values = np.array([False, True])
    elif dtype.is_float:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-8, 90.0, -90.0, 1e30, -1e30, np.inf, -np.inf, np.nan, 3.0]
        values = np.concatenate([special, rng.standard_normal(20) * 4]).astype(dtype.np)
    else:
        info = np.iinfo(dtype.np)
        edges = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 3]
        edges += [-1, -2, -5, -7] if info.min < 0 else []
        values = np.concatenate([np.array(edges, dtype.np), rng.integers(info.min, info.max, 20, dtype=dtype.np)])
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.ravel().copy(), b.ravel().copy()


@pytest.mark.parametrize("dtype", gpu_kernels.COMPUTED, ids=str)
def test_scalars(machine: Machine, dtype: DType) -> None:
    kernel, fns = gpu_kernels.scalars(dtype)
    a, b = sample_pairs(dtype)
    p = np.arange(len(a)) % 3 == 0
    outputs = [np.empty(len(a), buffer.dtype.np) for buffer in kernel.buffers[3:]]
    machine.run(kernel.name, [p, a, b, *outputs], [len(a)], seed=1)
    for fn, y in zip(fns, outputs, strict=True):
        with np.errstate(all="ignore"):
            expected = expected_scalar(fn, p, a, b)
        assert y.dtype == expected.dtype
        rtol, atol = (2e-6 if dtype.bits == 32 else 1e-14, 1e-37) if dtype.is_float else (0, 0)
        np.testing.assert_allclose(y, expected, rtol, atol, err_msg=f"{fn} {dtype}")


def test_any_byte_but_0_is_true(machine: Machine) -> None:
    """What another library calls a bool may be any byte: results are of 0 and 1, and so is what is computed from it."""
    a, b = (m.ravel().copy() for m in np.meshgrid(*[np.array([0, 1, 2, 255], np.uint8)] * 2, indexing="ij"))
    kernel, _ = gpu_kernels.scalars(dtypes.bool_)
    made: list[list[Array]] = []
    for inputs in ([a, b, b], [a != 0, b != 0, b != 0]):
        outputs = [np.empty(len(a), buffer.dtype.np) for buffer in kernel.buffers[3:]]
        machine.run(kernel.name, [x.view(np.bool_) for x in inputs] + outputs, [len(a)])
        made.append(outputs)
    assert all(x.tobytes() == y.tobytes() for x, y in zip(*made, strict=True))


def test_maximum_of_zeros_and_nans(machine: Machine) -> None:
    a = np.array([0.0, -0.0, np.nan, 1.0], np.float32)
    a, b = (m.ravel().copy() for m in np.meshgrid(a, a, indexing="ij"))
    kernel, fns = gpu_kernels.scalars(dtypes.float32)
    outputs = [np.empty(16, buffer.dtype.np) for buffer in kernel.buffers[3:]]
    machine.run(kernel.name, [np.ones(16, np.bool_), a, b, *outputs], [16])
    top, least = outputs[fns.index(Scalar.MAX)], outputs[fns.index(Scalar.MIN)]
    unordered = np.isnan(a) | np.isnan(b)
    assert (np.isnan(top) == unordered).all()
    assert (np.isnan(least) == unordered).all()
    zeros = (a == 0) & (b == 0)
    assert (np.signbit(top[zeros]) == (np.signbit(a) & np.signbit(b))[zeros]).all()
    assert (np.signbit(least[zeros]) == (np.signbit(a) | np.signbit(b))[zeros]).all()


@pytest.mark.parametrize("source", gpu_kernels.STORED, ids=str)
def test_casts(machine: Machine, source: DType) -> None:
    x = np.unique(sample_pairs(source.wide)[0])
    if source.is_float:
        ties = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-40, 1 + 2**-11, 65519.0, 65520.0, 6e-8, 3e-8, 1e-45, 255.9]
        edges = [127.5, 128.0, -128.9, -129.0, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64, 1.5e19, -0.9]
        x = np.concatenate([x, np.array(ties + edges, x.dtype)])
    with np.errstate(all="ignore"):
        x = x.astype(source.np)
    for half in (0, 1):
        kernel = machine.kernels[f"casts_{source.short}_{half}"][0]
        outputs = [np.empty(len(x), buffer.dtype.np) for buffer in kernel.buffers[1:]]
        machine.run(kernel.name, [x, *outputs], [len(x)])
        for to, y in zip(gpu_kernels.halves(gpu_kernels.STORED)[half], outputs, strict=False):
            with np.errstate(all="ignore"):
                expected = elementwise.convert_array(x, to)
            if y.dtype == ml_dtypes.bfloat16:
                y, expected = y.astype(np.float32), expected.astype(np.float32)
            np.testing.assert_array_equal(y, expected, err_msg=f"{source} to {to}")
        assert (outputs[-1] == np.ones(len(x), source.np)).all()


@pytest.mark.parametrize("dtype", dtypes.FLOAT8, ids=str)
def test_floats_of_8_bits(machine: Machine, dtype: DType) -> None:
    """Bit for bit, from float32 and float64 and to float32."""
    x, z, codes = dense(dtypes.float32), dense(dtypes.float64), dense(dtype)
    n = max(len(x), len(z))
    sources = [np.resize(array, n) for array in (x, z, codes)]
    kernel = machine.kernels[f"float8_{dtype.short}"][0]
    outputs = [np.empty(n, buffer.dtype.np) for buffer in kernel.buffers[3:]]
    machine.run(kernel.name, [*sources, *outputs], [n])
    for y, source in zip(outputs, sources, strict=True):
        expected = elementwise.convert_array(source, dtypes.dtype(y.dtype))
        bits = f"u{y.dtype.itemsize}"
        bad = np.flatnonzero(y.view(bits) != expected.view(bits))[:5]
        assert not bad.size, [(source[i], y[i], expected[i]) for i in bad]


@pytest.mark.parametrize("source", [d for d in gpu_kernels.STORED if d is not dtypes.bool_], ids=str)
def test_bitcasts(machine: Machine, source: DType) -> None:
    x = np.random.default_rng(1).integers(0, 256, 4000, np.uint8).view(source.np)
    kernel = machine.kernels[f"bitcasts_{source.short}"][0]
    outputs = [np.empty(len(x), buffer.dtype.np) for buffer in kernel.buffers[1:]]
    machine.run(kernel.name, [x, *outputs], [len(x)])
    assert all(y.tobytes() == x.tobytes() for y in outputs)
