"""Every function against ``jax.random``: integers, bits and uniform floats to the bit, others within a few units."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import random
from dyn.ir.opdef import NOT_YET, REGISTRY

pytestmark = pytest.mark.usefixtures("quick_xla")

Array = np.ndarray[Any, Any]
SEEDS = (0, 7, 2**32 - 1)
SHAPES = ((), (0,), (1,), (2,), (7,), (64,), (1000,), (3, 5), (2, 0, 4))
FEW = ((), (1000,))  # JAX compiles for each; that sizes do not matter is seen on uniform floats
FLOATS = ("float16", "bfloat16", "float32")
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


@pytest.fixture(scope="module")
def jr(require_module: Callable[[str], Any]) -> Any:
    return require_module("jax").random


@pytest.fixture(scope="module")
def exactly(require_module: Callable[[str], Any]) -> Callable[..., Any]:
    """A function of JAX as XLA compiles it for users, which ``quick_xla`` leaves out: sums fused with products."""
    jax = require_module("jax")
    options = {"xla_backend_optimization_level": 3}
    made = functools.cache(lambda f, statics: jax.jit(f, static_argnums=statics, compiler_options=options))
    return lambda f, key, shape, *rest: made(f, (1, 2) if rest else (1,))(key, shape, *rest)


def same(mine: Any, theirs: Any) -> None:
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_array_equal(mine, theirs)


def near(mine: Any, theirs: Any, ulps: int, of: float = 0.0) -> None:
    """Within units of the last place of ``of`` at least: next to 0 a difference of two logarithms has few bits."""
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    unit = np.spacing(np.maximum(np.abs(theirs), theirs.dtype.type(of)))
    error = np.abs(mine.astype(np.float64) - theirs.astype(np.float64)) / unit.astype(np.float64)
    assert np.all((mine == theirs) | (error <= ulps)), error.max()


def keys(jr: Any) -> list[Array]:
    return [np.asarray(jr.PRNGKey(seed)) for seed in SEEDS]


# ---- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_keys(jr: Any, seed: int) -> None:
    same(random.key(seed), jr.key_data(jr.key(seed)))
    same(random.PRNGKey(seed), jr.PRNGKey(seed))
    key = random.key(seed)
    for num in (0, 1, 2, 5, 64, (3, 2), ()):
        same(random.split(key, num), jr.split(jr.PRNGKey(seed), num))
    for data in (0, 1, 2**31, 2**32 - 1):
        same(random.fold_in(key, data), jr.fold_in(jr.PRNGKey(seed), data))
    same(random.fold_in(key, np.int32(-3)), jr.fold_in(jr.PRNGKey(seed), np.int32(-3)))


@pytest.mark.parametrize("seed", [np.int32(-5), np.uint32(7), np.int8(-1), np.uint8(255)], ids=repr)
def test_seeds_that_are_arrays(jr: Any, seed: Any) -> None:
    same(random.key(seed), jr.PRNGKey(seed))
    same(dyn.jit(random.key)(np.asarray(seed)), jr.PRNGKey(seed))


def test_seeds_of_64_bits() -> None:
    """As JAX has them with ``jax_enable_x64``."""
    for seed in (-1, -(2**63), 2**40 + 5, 2**64 - 1):
        words = [seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF]
        assert random.key(seed).tolist() == words
        if seed < 2**63:
            assert np.asarray(dyn.jit(random.key)(np.int64(seed))).tolist() == words
            assert np.asarray(dyn.jit(lambda x, seed=seed: random.key(seed) + x)(np.uint32(0))).tolist() == words


# ---- bits, uniform, integers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_and_uniform_floats(jr: Any, exactly: Any, shape: tuple[int, ...]) -> None:
    for key in keys(jr):
        for width in (8, 16, 32):
            same(random.bits(key, shape, f"uint{width}"), jr.bits(key, shape, f"uint{width}"))
        for dtype in FLOATS:
            for bounds in ((0.0, 1.0), (-2.3, 7.7)):
                same(random.uniform(key, shape, dtype, *bounds), exactly(jr.uniform, key, shape, dtype, *bounds))
        same(random.bernoulli(key, 0.3, shape), jr.bernoulli(key, 0.3, shape))
        same(random.bernoulli(key, 0.3, shape, mode="high"), jr.bernoulli(key, 0.3, shape, mode="high"))
        same(random.rademacher(key, shape), jr.rademacher(key, shape))


def test_64_bits(require_module: Callable[[str], Any]) -> None:
    jax = require_module("jax")
    key = random.key(3)
    with jax.enable_x64(True):
        for shape in FEW:
            same(random.bits(key, shape, "uint64"), jax.random.bits(key, shape, "uint64"))
            same(random.uniform(key, shape, "float64"), jax.random.uniform(key, shape, "float64"))
            for low, high in ((0, 10), (-(2**31), 2**31), (2**40, 2**40 + 10**9), (-(2**62), 2**62)):
                theirs = jax.random.randint(key, shape, low, high, "int64")
                same(random.randint(key, shape, low, high, "int64"), theirs)
            near(random.normal(key, shape, "float64"), jax.random.normal(key, shape, "float64"), 64)


def test_bounds_are_broadcast(jr: Any) -> None:
    key, low = random.key(1), np.arange(4, dtype=np.float32)
    same(random.uniform(key, (3, 4), "float32", low, low + 2), jr.uniform(key, (3, 4), "float32", low, low + 2))
    rows = np.array([[1], [5], [-3]], np.int32)
    same(random.randint(key, (3, 4), rows, rows + 100), jr.randint(key, (3, 4), rows, rows + 100))
    same(random.bernoulli(key, low / 4), jr.bernoulli(key, low / 4))


@pytest.mark.parametrize("dtype", INTS)
def test_integers(jr: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    least, most = int(info.min), int(info.max) + 1
    ends = [(least, most)] if info.bits < 32 else [(least, least + 2**16), (0, 2**30)]
    for key in keys(jr):
        for low, high in [(0, 10), (-5, 300), (5, 5), (9, 3), *ends]:
            for shape in ((), (0,), (64,)):
                same(random.randint(key, shape, low, high, dtype), jr.randint(key, shape, low, high, dtype))


def test_a_range_of_all_integers() -> None:
    """Beyond the greatest number the range is closed; all of it is as many numbers as there are bits."""
    key = random.key(5)
    _, lower = random.split(key)
    for dtype in ("int32", "uint32", "int64"):
        info = np.iinfo(dtype)
        drawn = random.randint(key, (500,), int(info.min), int(info.max) + 1, dtype)
        offset = random.bits(lower, (500,), f"uint{info.bits}")
        np.testing.assert_array_equal(drawn, (offset + np.array(info.min).astype(offset.dtype)).astype(dtype))
    same(np.unique(random.randint(key, (4000,), 254, 256, "uint8")), np.array([254, 255], np.uint8))


# ---- other distributions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_continuous_distributions(jr: Any, dtype: str) -> None:
    half = dtype != "float32"
    for key in keys(jr):
        for shape in FEW:
            near(random.normal(key, shape, dtype), jr.normal(key, shape, dtype), 1 if half else 4)
            for name in ("exponential", "laplace", "cauchy"):
                near(getattr(random, name)(key, shape, dtype), getattr(jr, name)(key, shape, dtype), 4, of=1e-3)
            if dtype != "float16":  # XLA's logarithms of float16 are coarser
                for name in ("gumbel", "logistic"):
                    near(getattr(random, name)(key, shape, dtype), getattr(jr, name)(key, shape, dtype), 4, of=1.0)
            theirs = jr.truncated_normal(key, -1.0, 2.0, shape, dtype)
            near(random.truncated_normal(key, -1.0, 2.0, shape, dtype), theirs, 8, of=1e-2)


def test_most_normal_numbers_are_the_same(jr: Any, exactly: Any) -> None:
    key = random.key(11)
    mine, theirs = random.normal(key, (100_000,)), np.asarray(exactly(jr.normal, key, (100_000,)))
    assert np.mean(mine == theirs) > 0.97


def test_other_continuous_distributions(jr: Any) -> None:
    for key in keys(jr):
        near(random.gumbel(key, (300,), mode="high"), jr.gumbel(key, (300,), mode="high"), 4, of=1.0)
        near(random.pareto(key, 2.0, (300,)), jr.pareto(key, 2.0, (300,)), 4)
        near(random.lognormal(key, 0.5, (300,)), jr.lognormal(key, 0.5, (300,)), 4)
        z = random.normal(key, (300,), "complex64")
        w = np.asarray(jr.normal(key, (300,), "complex64"))
        assert z.dtype == w.dtype
        np.testing.assert_allclose(z, w, rtol=1e-6, atol=1e-7)


def test_gamma(jr: Any) -> None:
    a = np.array([[0.1], [0.9], [1.0], [3.0], [50.0]], np.float32)
    for key in keys(jr):
        np.testing.assert_allclose(random.gamma(key, a, (5, 99)), jr.gamma(key, a, (5, 99)), rtol=1e-4)
        np.testing.assert_allclose(random.loggamma(key, a, (5, 99)), jr.loggamma(key, a, (5, 99)), rtol=1e-4, atol=1e-4)


def test_what_is_made_of_gamma(jr: Any) -> None:
    alpha = np.array([0.5, 2.0, 3.0], np.float32)
    for key in keys(jr):
        np.testing.assert_allclose(random.beta(key, 2.0, 0.5, (99,)), jr.beta(key, 2.0, 0.5, (99,)), rtol=1e-4)
        np.testing.assert_allclose(random.dirichlet(key, alpha, (7,)), jr.dirichlet(key, alpha, (7,)), rtol=1e-3)
        np.testing.assert_allclose(random.t(key, 3.0, (99,)), jr.t(key, 3.0, (99,)), rtol=1e-4, atol=1e-5)


def test_poisson(jr: Any) -> None:
    several = np.array([0.0, 0.3, 9.99, 10.0, 100.0, -1.0, np.nan], np.float32)
    for key in keys(jr):
        for rate in (0.0, 0.3, 3.0, 20.0):
            for shape in FEW:
                same(random.poisson(key, rate, shape), jr.poisson(key, rate, shape))
        same(random.poisson(key, several), jr.poisson(key, several))
    assert np.asarray(random.poisson(random.key(0), np.float32(np.inf))) == -1


# ---- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 7, 64, 1000, 1625, 1626, 5000])
def test_permutations(jr: Any, size: int) -> None:
    for key in keys(jr):
        same(random.permutation(key, size), jr.permutation(key, size))
    x = np.arange(size, dtype=np.float32)
    same(random.permutation(random.key(2), x), jr.permutation(random.key(2), x))


def test_permutations_of_arrays(jr: Any) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    key = random.key(3)
    for axis in (0, 1, -1):
        for independent in (False, True):
            same(random.permutation(key, x, axis, independent), jr.permutation(key, x, axis, independent))


def test_choices(jr: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    p = np.random.default_rng(0).random(50).astype(np.float32)
    p /= p.sum()
    for key in keys(jr):
        for shape in ((), (0,), (5,), (2, 3)):
            same(random.choice(key, 10, shape), jr.choice(key, 10, shape))
            same(random.choice(key, 10, shape, False), jr.choice(key, 10, shape, False))
            if shape != (0,):  # of nothing JAX leaves out the other axes
                same(random.choice(key, x, shape, axis=1), jr.choice(key, x, shape, axis=1))
            same(random.choice(key, 50, shape, True, p), jr.choice(key, 50, shape, True, p))
            same(random.choice(key, 50, shape, False, p), jr.choice(key, 50, shape, False, p))
        same(random.choice(key, x, (3,), False, axis=1), jr.choice(key, x, (3,), False, axis=1))
        assert random.choice(key, x, (0,), axis=1).shape == (3, 0)
        same(random.choice(key, x, (3,), False), jr.choice(key, x, (3,), False))


def test_categories(jr: Any) -> None:
    logits = np.random.default_rng(1).standard_normal((5, 9)).astype(np.float32)
    for key in keys(jr):
        same(random.categorical(key, logits), jr.categorical(key, logits))
        same(random.categorical(key, logits, 0), jr.categorical(key, logits, 0))
        same(random.categorical(key, logits, -1, (100, 5)), jr.categorical(key, logits, -1, (100, 5)))
        same(random.categorical(key, logits, -1, (4, 5), False), jr.categorical(key, logits, -1, (4, 5), False))
        same(random.categorical(key, logits, 1, None, mode="high"), jr.categorical(key, logits, 1, None, mode="high"))


# ---- transformations -------------------------------------------------------------------------------------------------

MAPPED: dict[str, Callable[[Any, Any], Any]] = {
    "split": lambda r, key: r.split(key, 3),
    "fold_in": lambda r, key: r.fold_in(key, 9),
    "bits": lambda r, key: r.bits(key, (3,)),
    "uniform": lambda r, key: r.uniform(key, (2, 3), "float32", -1.0, 3.0),
    "randint": lambda r, key: r.randint(key, (4,), 0, 9),
    "bernoulli": lambda r, key: r.bernoulli(key, 0.4, (5,)),
    "poisson": lambda r, key: r.poisson(key, 20.0, (3,)),
    "categorical": lambda r, key: r.categorical(key, np.zeros((3, 4), np.float32)),
    "nested": lambda r, key: r.uniform(r.split(key)[1], ()),
    "permutation": lambda r, key: r.permutation(key, 9),
    "choice": lambda r, key: r.choice(key, 9, (4,), False),
}
SORTED = ("permutation", "choice")


@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_over_keys(jr: Any, require_module: Callable[[str], Any], name: str, count: int) -> None:
    if name in SORTED and REGISTRY["sort"].batch is NOT_YET:
        pytest.skip("sort has no batch rule yet")
    several = np.asarray(jr.split(jr.PRNGKey(4), count))
    theirs = require_module("jax").vmap(lambda key: MAPPED[name](jr, key))(several)
    same(dyn.vmap(lambda key: MAPPED[name](random, key))(several), theirs)


def test_gradients_by_parameters(jr: Any, require_module: Callable[[str], Any]) -> None:
    jax = require_module("jax")
    key = random.key(2)

    def loss(r: Any, np_: Any) -> Callable[[Any], Any]:
        return lambda m: np_.sum(r.uniform(key, (5,), minval=m) ** 2 + r.truncated_normal(key, m, 2.0, (5,)) * m)

    mine = dyn.grad(loss(random, dyn.numpy))(np.float32(-0.5))
    np.testing.assert_allclose(mine, jax.jit(jax.grad(loss(jr, jax.numpy)))(np.float32(-0.5)), rtol=1e-5)
