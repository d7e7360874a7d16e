"""Raw operations against ``jax.lax``'s of the same names: arguments, values and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError, UnsupportedOpError

Array = np.ndarray[Any, Any]
Require = Callable[[str], Any]
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (3, 5)).astype(np.float32)
Y = RNG.uniform(-2, 2, (3, 5)).astype(np.float32)
UNIT, ABOVE = (X / 2.5).astype(np.float32), np.abs(X) + np.float32(1.1)
N, J = RNG.integers(-9, 9, (3, 5)).astype(np.int32), RNG.integers(1, 9, (3, 5)).astype(np.int32)
P = X > 0
Z = (X + 1j * Y).astype(np.complex64)
ROWS = np.array([[2], [0], [7], [-1]], np.int32)
PAIRS = np.array([[0, 1], [2, 3], [9, 1]], np.int32)


def same(found: Any, wanted: Any) -> None:
    many = isinstance(wanted, tuple | list)
    pairs = zip(found, wanted, strict=True) if many else [(found, wanted)]
    for one, other in pairs:
        a, b = np.asarray(one), np.asarray(other)
        assert a.shape == b.shape
        # JAX without 64 bits has no int64 of its own; what is made of numbers alone may be wider here.
        assert a.dtype == b.dtype, (a.dtype, b.dtype)
        np.testing.assert_allclose(a, b, rtol=4e-6, atol=4e-6)


UNARY = {
    "abs": X, "acos": UNIT, "acosh": ABOVE, "asin": UNIT, "asinh": X, "atan": X, "atanh": UNIT, "bitwise_not": N,
    "cbrt": X, "ceil": X, "clz": J, "conj": Z, "cos": X, "cosh": X, "digamma": ABOVE, "erf": X, "erf_inv": UNIT,
    "erfc": X,
    "exp": X, "exp2": X, "expm1": X, "floor": X, "imag": Z, "is_finite": X, "lgamma": X, "log": ABOVE, "log1p": ABOVE,
    "logistic": X, "neg": X, "population_count": J, "real": Z, "reciprocal": ABOVE, "round": X, "rsqrt": ABOVE,
    "sign": X, "sin": X, "sinh": X, "sqrt": ABOVE, "square": X, "tan": X, "tanh": X,
}  # fmt: skip
BINARY = {
    "add": (X, Y), "atan2": (X, Y), "bitwise_and": (N, J), "bitwise_or": (N, J), "bitwise_xor": (N, J),
    "complex": (X, Y), "div": (N, J), "eq": (N, J), "ge": (X, Y), "gt": (X, Y), "le": (X, Y), "lt": (X, Y),
    "max": (X, Y),
    "min": (X, Y), "mul": (X, Y), "ne": (N, J), "nextafter": (X, Y), "pow": (ABOVE, Y), "rem": (N, J),
    "shift_left": (N, J), "shift_right_arithmetic": (N, J), "shift_right_logical": (N, J), "sub": (X, Y),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary(name: str, require_module: Require) -> None:
    same(getattr(lax, name)(UNARY[name]), getattr(require_module("jax").lax, name)(UNARY[name]))


@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary(name: str, require_module: Require) -> None:
    same(getattr(lax, name)(*BINARY[name]), getattr(require_module("jax").lax, name)(*BINARY[name]))


def gather_numbers(jax_lax: Any, own: bool) -> tuple[Any, Any]:
    module = lax if own else jax_lax
    rows = module.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    windows = module.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))
    return rows, windows


def scatter_numbers(jax_lax: Any, own: bool) -> Any:
    module = lax if own else jax_lax
    return module.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )


U = RNG.uniform(-2, 2, (4, 5)).astype(np.float32)
#: ``call(namespace, jax_lax)``: the same in both.
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "numbers": lambda m, j: (m.add(X, 1.0), m.mul(2.0, X), m.max(N, 3), m.select(P, X, Y), m.clamp(-1.0, X, 1.0)),
    "select_n": lambda m, j: (m.select_n(P, X, Y), m.select_n(J % 3, X, Y, X * 2)),
    "powers": lambda m, j: (m.integer_pow(X, 3), m.pow(X, 2), m.pow(ABOVE, 0.5)),
    "round": lambda m, j: m.round(np.array([0.5, 1.5, -2.5], np.float32), m.RoundingMethod.TO_NEAREST_EVEN),
    "dtypes": lambda m, j: (m.convert_element_type(X, np.int32), m.bitcast_convert_type(X, np.int32),
                            m.reduce_precision(X, 5, 3)),
    "bitcasts": lambda m, j: (m.bitcast_convert_type(X, np.uint8), m.bitcast_convert_type(X, np.float16),
                              m.bitcast_convert_type(X[:, :4].astype(np.int8), np.float32),
                              m.bitcast_convert_type(X[:0, :2].astype(np.float16), np.int32),
                              m.bitcast_convert_type(X > 0, np.bool_)),
    "broadcast": lambda m, j: (m.broadcast(X, (2, 1)), m.broadcast_in_dim(X, (3, 2, 5), (0, 2))),
    "reshape": lambda m, j: (m.reshape(X, (5, 3)), m.reshape(X, (15,), (1, 0)), m.collapse(X, 0), m.collapse(X, 0, 1)),
    "dims": lambda m, j: (m.expand_dims(X, (0, -1)), m.squeeze(X[None], (0,)), m.transpose(X, (1, 0)), m.rev(X, (1,))),
    "concatenate": lambda m, j: (m.concatenate([X, Y], 1), *m.split(X, (2, 0, 3), 1), m.tile(X, (2, 3))),
    "slice": lambda m, j: (m.slice(X, (1, 0), (3, 4)), m.slice(X, (0, 1), (3, 5), (2, 3))),
    "in_dim": lambda m, j: (m.slice_in_dim(X, 1, -1, 2, axis=1), m.slice_in_dim(X, None, None),
                            m.index_in_dim(X, -1, 1), m.index_in_dim(X, 2, 0, keepdims=False)),
    "pad": lambda m, j: (m.pad(X, 0.0, ((1, 2, 0), (-1, 1, 2))), m.pad(N, np.int32(7), ((0, 0, 1), (-2, -2, 0)))),
    "dynamic_slice": lambda m, j: (m.dynamic_slice(X, (1, 4), (2, 3)), m.dynamic_slice(X, (-1, -2), (1, 2)),
                                   m.dynamic_slice(X, (np.int32(-9), np.int32(9)), (2, 2))),
    "dynamic_in_dim": lambda m, j: (m.dynamic_slice_in_dim(X, 3, 2, axis=1), m.dynamic_index_in_dim(X, np.int32(-1)),
                                    m.dynamic_index_in_dim(X, 1, 1, keepdims=False)),
    "dynamic_update": lambda m, j: (m.dynamic_update_slice(X, X[:2, :2] * 9, (2, 1)),
                                    m.dynamic_update_slice_in_dim(X, X[:1], np.int32(1), 0),
                                    m.dynamic_update_index_in_dim(X, X[0] * 2, 2, 0)),
    "makers": lambda m, j: (m.iota(np.int32, 5), m.broadcasted_iota(np.float32, (2, 3), 1), m.full((2, 2), 3.5),
                            m.full_like(N, 2), m.full((2,), 1, np.int8)),
    "gather": lambda m, j: tuple(
        m.gather(X, ROWS, gather_numbers(j, m is lax)[0], (1, 5), mode=mode) for mode in ("clip", "fill", None)
    ),
    "gather windows": lambda m, j: (
        m.gather(X, PAIRS, gather_numbers(j, m is lax)[1], (2, 2), mode="fill", fill_value=-1),
        m.gather(N, PAIRS, gather_numbers(j, m is lax)[1], (1, 2)),
        m.gather(P, PAIRS, gather_numbers(j, m is lax)[1], (1, 2), mode=m.GatherScatterMode.FILL_OR_DROP),
    ),
    "scatter": lambda m, j: tuple(
        getattr(m, name)(X, ROWS, U, scatter_numbers(j, m is lax), mode=mode)
        for name in ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
        for mode in ("clip", None)
    ),
    "reductions": lambda m, j: (m.reduce_sum(X, (0,)), m.reduce_prod(X, (1,)), m.reduce_max(X, (0, 1)),
                                m.reduce_min(X, (0,)), m.reduce_and(P, (0,)), m.reduce_or(P, (1,)),
                                m.reduce_xor(N, (0,))),
    "extremes": lambda m, j: (m.argmax(X, 1, np.int32), m.argmin(X, 0, np.int32)),
    "running": lambda m, j: (m.cumsum(X), m.cumprod(X, axis=1), m.cummax(X, 1, reverse=True), m.cummin(X, 0)),
    "products": lambda m, j: (m.dot(X, Y.T), m.dot(X, Y[0]), m.dot_general(X, Y, (((1,), (1,)), ((), ()))),
                              m.dot_general(X, Y, (((1,), (1,)), ((0,), (0,)))),
                              m.batch_matmul(np.stack([X, Y]), np.stack([Y.T, X.T]))),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_in_jax(name: str, require_module: Require) -> None:
    jax_lax = require_module("jax").lax
    same(CASES[name](lax, jax_lax), CASES[name](jax_lax, jax_lax))


def test_narrow_products_are_added_up_in_what_is_asked_for() -> None:
    x = np.ones((1, 3000), np.float16)
    found = lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=np.float32)
    np.testing.assert_array_equal(found, np.array([[3000]], np.float32))


# --- random bits and windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"])
def test_random_bits_are_those_of_xla(algorithm: str, require_module: Require) -> None:
    jax_lax = require_module("jax").lax
    key = np.array([1, 2**32 - 1, 2**32 - 3, 4], np.uint32)
    chosen, theirs = getattr(lax.RandomAlgorithm, algorithm), getattr(jax_lax.RandomAlgorithm, algorithm)
    f = dyn.jit(lambda key, x: lax.rng_bit_generator(key, x.shape, algorithm=chosen))
    for shape in ((0, 3), (1, 1), (2, 3), (3, 2), (3, 5), (5, 3), (7, 7), (64, 2)):
        new, bits = f(key, np.zeros(shape))
        wanted_key, wanted = jax_lax.rng_bit_generator(key, shape, algorithm=theirs)
        np.testing.assert_array_equal(new, wanted_key)
        np.testing.assert_array_equal(bits, wanted)
    assert f.cache_info().compiles == 1
    for dtype in ("uint8", "uint16"):
        wanted = jax_lax.rng_bit_generator(key, (9,), dtype=np.dtype(dtype), algorithm=theirs)[1]
        np.testing.assert_array_equal(lax.rng_bit_generator(key, (9,), dtype, chosen)[1], wanted)


def test_a_state_of_three_words() -> None:
    """The counter has 128 bits, and a carry goes from one word to the other."""
    state = np.array([8589934593, 2**64 - 1, 7], np.uint64)
    fixed = dyn.jit(lambda s: lax.rng_bit_generator(s, (5,), algorithm=lax.RandomAlgorithm.RNG_PHILOX), shapes="3")
    new, bits = fixed(state)
    np.testing.assert_array_equal(new, [8589934593, 1, 8])
    np.testing.assert_array_equal(bits, [0xE2929704, 0xEFE0C3AA, 0x1583AD86, 0x160E62E1, 0x1AE95E95])


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_select_and_scatter_is_the_gradient_of_a_pool(padding: str) -> None:
    def pool(x: Any) -> Any:
        return lax.reduce_window(x, -np.inf, dnp.maximum, (2, 3), (2, 2), padding)

    @dyn.jit
    def both(x: Any, weights: Any) -> Any:
        given = dyn.vjp(pool, x)[1](weights)[0]
        own = lax.select_and_scatter(x, lambda a, b: a >= b, (2, 3), (2, 2), padding, weights, 0.0, lambda a, b: a + b)
        return given, own

    for shape in ((2, 3), (7, 8), (1, 1), (64, 33)):
        x = np.random.default_rng(1).permutation(shape[0] * shape[1]).reshape(shape).astype(np.float32)
        counts = [
            -(-n // 2) if padding == "SAME" else max((n - w) // 2 + 1, 0) for n, w in zip(shape, (2, 3), strict=True)
        ]
        given, own = both(x, np.random.default_rng(2).standard_normal(counts).astype(np.float32))
        np.testing.assert_allclose(own, given, rtol=1e-5, atol=1e-6)
    assert both.cache_info().compiles == 1


def test_select_and_scatter_for_examples() -> None:
    x = np.random.default_rng(3).standard_normal((3, 7)).astype(np.float32)
    weights, starts = np.arange(9, dtype=np.float32).reshape(3, 3), np.arange(3, dtype=np.float32)

    def one(x: Any, w: Any, s: Any) -> Any:
        return lax.select_and_scatter(x, lambda a, b: a < b, (2,), (2,), "VALID", w, s, lambda a, b: a * 2 + b)

    found = dyn.vmap(one)(x, weights, starts)
    for i in range(3):
        np.testing.assert_array_equal(np.asarray(found)[i], one(x[i], weights[i], starts[i]))


def test_batch_norm_and_its_gradient() -> None:
    x = np.random.default_rng(4).standard_normal((6, 4, 3)).astype(np.float64)
    scale, offset, ct = np.array([1.0, 2.0, 0.5]), np.array([0.0, -1.0, 3.0]), np.cos(x)
    made, mean, variance = lax.batch_norm_training(x, scale, offset, 1e-3, -1)
    np.testing.assert_allclose(mean, x.mean((0, 1)))
    np.testing.assert_allclose(variance, x.var((0, 1)))
    np.testing.assert_allclose(lax.batch_norm_inference(x, scale, offset, mean, variance, 1e-3, 2), made)
    wanted = dyn.vjp(lambda x, s, o: lax.batch_norm_training(x, s, o, 1e-3, 2)[0], x, scale, offset)[1](ct)
    found = lax.batch_norm_grad(x, scale, mean, variance, ct, 1e-3, 2)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    nothing = lax.batch_norm_training(np.zeros((0, 2)), scale[:2], offset[:2], 1e-3, 1)
    assert nothing[0].shape == (0, 2)
    assert np.isnan(nothing[1]).all()


# --- dims where StableHLO has dynamic forms -----------------------------------------------------------------------


def test_sizes_may_be_dims() -> None:
    """One program for what StableHLO has dynamic_pad, real_dynamic_slice, dynamic_iota, … for."""

    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        return (
            lax.pad(x, 0.0, ((m, n + 1, m),)), lax.pad(x, 1.0, ((n - m, 0, 0),)), lax.slice(x, (n // 3,), (n,)),
            lax.slice(x, (0,), (n,), (m + 1,)), lax.iota(np.int32, m * 2), lax.broadcast(x, (m,)), lax.tile(x, (m,)),
            lax.dynamic_slice(x, (2,), (n // 2,)), lax.reshape(lax.broadcast(x, (m,)), (n * m,)),
            lax.full((n, m), 2.0), lax.reduce_window(x, 0.0, dnp.add, (m + 1,), (1,), ((m, 0),)),
        )  # fmt: skip

    for n, m in ((0, 0), (1, 0), (1, 1), (2, 1), (7, 2), (64, 3), (1000, 2)):
        x = np.arange(1, n + 1, dtype=np.float32)
        low = n - m
        padded = np.zeros(m + max(n * (m + 1) - m, 0) + n + 1, np.float32)
        padded[m : m + max(n * (m + 1) - m, 0) : m + 1] = x
        cut = np.concatenate([np.ones(max(low, 0), np.float32), x[max(-low, 0) :]])
        sums = np.array([x[max(i - m, 0) : i + 1].sum() for i in range(n)], np.float32)
        start = min(2, n - n // 2)
        wanted = (
            padded, cut, x[n // 3 :], x[:: m + 1], np.arange(2 * m), np.tile(x, (m, 1)), np.tile(x, m),
            x[start : start + n // 2], np.tile(x, m), np.full((n, m), 2.0), sums,
        )  # fmt: skip
        for number, (one, other) in enumerate(zip(f(x, np.zeros(m)), wanted, strict=True)):
            np.testing.assert_allclose(one, other, rtol=1e-5, err_msg=f"{number} at {n}, {m}")
    assert f.cache_info().compiles == 1


# --- errors -------------------------------------------------------------------------------------------------------


def message(call: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))


def test_errors() -> None:
    assert message(lambda: lax.add(X, N), UnsupportedOpError) == (
        "add takes operands of one dtype, not float32 and int32.\n"
        "  help: convert one of them with .astype, or use dyn.numpy's function, which converts."
    )
    assert message(lambda: lax.add(N, 1.5), UnsupportedOpError) == (
        "add does not take a Python number of dtype float64 beside int32.\n"
        "  help: convert the array with .astype first."
    )
    assert message(lambda: lax.add(np.int8(1), 300), UnsupportedOpError) == (
        "the Python integer 300 does not fit in int8.\n"
        "  help: convert the array it meets to a wider dtype with .astype."
    )
    assert message(lambda: lax.transpose(X, (0, 0)), ShapeError) == (
        "transpose: the axes (0, 0) are not distinct.\n  help: name each once."
    )
    assert message(lambda: lax.pad(X, 0.0, ((1, 1, 0),)), ShapeError) == (
        "pad: 1 configurations are given for an array with 2 axes.\n  help: give (low, high, interior) for each axis."
    )
    assert message(lambda: lax.gather(X, ROWS, gather_numbers(lax, True)[0], (1, 5), mode="x"), UnsupportedOpError) == (
        'gather: \'x\' is no mode.\n  help: use "clip", "fill" or "promise_in_bounds".'
    )
    assert message(lambda: lax.dot(X[None], X), ShapeError) == (
        "dot takes vectors and matrices, not arrays with 3 and 2 axes.\n  help: use dot_general, or dyn.numpy.matmul."
    )
