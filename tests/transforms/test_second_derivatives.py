"""Transformations of transformations of functions of arrays, and where derivatives are easily NaN: as in JAX."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import UnsupportedOpError
from dyn.numpy._operands import emit
from tests.transforms.array_cases import CASES, Library, Mine, Theirs, floats

Array = Any


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def close(mine: Any, theirs: Any, tolerance: float = 1e-4) -> None:
    a, b = np.asarray(mine), np.asarray(theirs)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def libraries(jax: ModuleType) -> tuple[tuple[Any, Library], tuple[Any, Library]]:
    """Both transformers with what they transform."""
    return (dyn, Mine()), (jax, Theirs(jax))


# ---- Hessians, and products with them --------------------------------------------------------------------------------


def test_the_size_of_a_complex_number_has_a_second_derivative() -> None:
    """Its direction turns: the Hessian of |z|^2 is twice the unit matrix, not 1 in one direction alone."""

    def squares(parts: Array) -> Array:
        return dnp.sum(dnp.abs(parts[0] + 1j * parts[1]) ** 2)

    hessian = dyn.jit(dyn.hessian(squares))
    for size in (1, 3):
        found = hessian(floats(2, size, seed=size))
        np.testing.assert_allclose(found.reshape(2 * size, 2 * size), 2 * np.eye(2 * size), rtol=1e-5, atol=1e-5)
    slope = dyn.grad(squares)(np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(slope, np.zeros((2, 2)))


def test_hessians(jax: ModuleType) -> None:
    """Of a small network and of logsumexp, at every size with one program."""

    def network(lib: Library, w: Array, x: Array) -> Array:
        return lib.np.mean(lib.np.tanh(lib.np.tanh(x @ w) @ w.T) ** 2)

    def logsumexp(lib: Library, x: Array) -> Array:
        return lib.nn.logsumexp(x)

    mine = [dyn.jit(dyn.hessian(lambda *a, f=f: f(Mine(), *a))) for f in (network, logsumexp)]
    theirs = [jax.jit(jax.hessian(lambda *a, f=f: f(Theirs(jax), *a))) for f in (network, logsumexp)]
    for n in (1, 2, 7):
        for args, one, other in zip(((floats(3, 2), floats(n, 3)), (floats(n),)), mine, theirs, strict=True):
            close(one(*args), other(*args))
    assert [f.cache_info().compiles for f in mine] == [1, 1]


TWICE = (
    "by_numbers", "take_along_axis", "at_set", "at_add", "at_multiply", "at_max", "dynamic_slice", "pad", "sort",
    "cumsum", "cumprod", "prod", "conv", "conv_groups", "max_pool_overlaps", "avg_pool", "layer_norm", "cross_entropy",
    "attention",
)  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
def test_products_with_hessians(name: str, jax: ModuleType) -> None:
    """The tangent of the gradient: jvp of vjp."""
    case = CASES[name]

    def product(tools: Any, lib: Library, t: Array, x: Array, *rest: Array) -> Array:
        def loss(x: Array) -> Array:
            y = case.body(lib, x, *rest)
            return lib.np.sum(lib.np.sin(y) * y)

        return tools.jvp(tools.grad(loss), (x,), (t,))[1]

    (one, mine), (other, theirs) = libraries(jax)
    step = dyn.jit(lambda *args: product(one, mine, *args))
    for n in (2, 7):
        args = case.make(n)
        t = floats(*args[0].shape, seed=5)
        close(step(t, *args), jax.jit(lambda *a: product(other, theirs, *a))(t, *args), 2e-3)
    assert step.cache_info().compiles == 1


def test_they_nest_with_batches(jax: ModuleType) -> None:
    """vmap(grad(vmap(f))) and grad(vmap(grad(f))), through rows that are looked up and windows."""

    def inner(lib: Library, table: Array, i: Array) -> Array:
        row = table[i]
        return lib.np.sum(lib.np.cumsum(row) * lib.nn.softmax(row) + lib.np.sort(row) ** 2)

    def first(tools: Any, lib: Library, table: Array, ids: Array) -> Array:
        many = tools.vmap(lambda t, i: inner(lib, t, i), in_axes=(None, 0))
        return tools.vmap(tools.grad(lambda t, i: lib.np.sum(many(t, i))), in_axes=(0, 0))(table, ids)

    def second(tools: Any, lib: Library, table: Array, ids: Array) -> Array:
        each = tools.vmap(tools.grad(lambda t, i: inner(lib, t, i)), in_axes=(None, 0))
        return tools.grad(lambda t: lib.np.sum(lib.np.sin(each(t, ids))))(table)

    (one, mine), (other, theirs) = libraries(jax)
    for f, shape in ((first, (3,)), (second, ())):
        step = dyn.jit(lambda *a, f=f: f(one, mine, *a))
        for n in (1, 2, 7):
            table, ids = floats(*shape, n, 4), np.random.default_rng(0).integers(-n, n, (*shape, 5)).astype(np.int32)
            close(step(table, ids), jax.jit(lambda *a, f=f: f(other, theirs, *a))(table, ids), 1e-3)
        assert step.cache_info().compiles == 1


# ---- NaN, infinities, ties -------------------------------------------------------------------------------------------

INF = np.inf


def around_a_pole(lib: Library, x: Array) -> Array:
    inside = x > 0
    return lib.np.sum(lib.np.where(inside, lib.np.log(lib.np.where(inside, x, 1)), 0))


TRAPS = {
    "softmax_of_infinities": (lambda lib, x: lib.nn.softmax(x)[0], [-INF, 1.0, -INF]),
    "log_softmax_of_infinities": (lambda lib, x: lib.nn.log_softmax(x)[1], [-INF, 1.0, 2.0]),
    "logsumexp_of_infinities": (lambda lib, x: lib.nn.logsumexp(x), [-INF, 1.0, -INF]),
    "logsumexp_of_large": (lambda lib, x: lib.nn.logsumexp(x), [1e4, 1e4, -1e4]),
    "where_around_a_pole": (around_a_pole, [0.0, -1.0, 2.0]),
    "norm_of_nothing": (lambda lib, x: lib.np.sqrt(lib.np.sum(x * x)), [0.0, 0.0, 0.0]),
    "equal_greatest": (lambda lib, x: lib.np.max(x), [2.0, 2.0, 1.0]),
    "greatest_with_nan": (lambda lib, x: lib.np.max(x), [2.0, np.nan, 1.0]),
    "product_with_a_zero": (lambda lib, x: lib.np.prod(x), [0.0, 3.0, 4.0]),
    "product_with_zeros": (lambda lib, x: lib.np.prod(x), [0.0, 3.0, 0.0]),
    "running_product_with_a_zero": (lambda lib, x: lib.np.sum(lib.np.cumprod(x)), [2.0, 0.0, 4.0]),
    "running_product_with_zeros": (lambda lib, x: lib.np.sum(lib.np.cumprod(x)), [0.0, 0.0, 4.0]),
    "sorted_equals": (lambda lib, x: lib.np.sort(x)[1] * 3, [1.0, 1.0, 1.0]),
    "sorted_nan": (lambda lib, x: lib.np.sort(x)[0] * 3, [np.nan, 5.0, 1.0]),
    "pool_of_equals": (lambda lib, x: lib.np.sum(lib.nn.max_pool(x.reshape(1, 1, 3, 1), 1, 1) ** 2), [1.0, 1.0, 0.0]),
    "variance_of_equals": (lambda lib, x: lib.np.var(x), [1.0, 1.0, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_traps(name: str, jax: ModuleType) -> None:
    body, numbers = TRAPS[name]
    x = np.asarray(numbers, np.float32)
    mine = dyn.jit(dyn.grad(lambda x: body(Mine(), x)))(x)
    theirs = jax.grad(lambda x: body(Theirs(jax), x))(x)
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_ties_in_windows_go_to_the_first(jax: ModuleType) -> None:
    """As XLA's select_and_scatter does with the comparison that JAX gives it."""
    x = np.asarray([[1, 1, 0, 0], [1, 1, 2, 2], [3, 0, 2, 2]], np.float32)[None, :, :, None]
    mine = dyn.grad(lambda x: dnp.sum(Mine().nn.max_pool(x, 2, 1) ** 2))(x)
    close(mine, jax.grad(lambda x: jax.numpy.sum(Theirs(jax).nn.max_pool(x, 2, 1) ** 2))(x))


def test_running_extremes_choose_the_last_of_equals() -> None:
    def running(combine: str, *, reverse: bool) -> Any:
        weights = np.asarray([1.0, 10, 100, 1000, 10000], np.float32)
        body = lambda x: emit("cumulative", dnp.asarray(x), dimension=0, combine=combine, reverse=reverse)  # noqa: E731
        return dyn.jit(dyn.grad(lambda x: dnp.sum(body(x) * weights)))

    x = np.asarray([2, 1, 2, 3, np.nan], np.float32)
    np.testing.assert_array_equal(running("maximum", reverse=False)(x), [11, 0, 100, 1000, 10000])
    np.testing.assert_array_equal(running("minimum", reverse=False)(x), [1, 1110, 0, 0, 10000])
    np.testing.assert_array_equal(running("maximum", reverse=True)(x[[0, 1, 2, 3, 1]]), [0, 0, 0, 1111, 10000])
    np.testing.assert_array_equal(running("minimum", reverse=True)(x[[0, 1, 2, 1, 3]]), [0, 11, 0, 1100, 10000])


def test_products_in_windows_have_no_derivative() -> None:
    def product(x: Array) -> Array:
        return dnp.sum(
            emit(
                "reduce_window", dnp.asarray(x), window=(2,), strides=(1,), padding=((0, 0),), base_dilations=(1,),
                window_dilations=(1,), combine="multiply",
            )
        )  # fmt: skip

    with pytest.raises(UnsupportedOpError) as caught:
        dyn.grad(product)(floats(4))
    text = str(caught.value)
    assert text.startswith(
        "reduce_window: windows with multiply have no derivative here; those with add, maximum and minimum have.\n"
    )
    assert "test_second_derivatives.py:" in text
    assert text.endswith("multiply shifted slices, or take the exponential of a window sum of logarithms.")


# ---- zeros among factors ---------------------------------------------------------------------------------------------


def pairs_left(x: np.ndarray) -> np.ndarray:
    """The second derivatives of a product: the product of all but two factors, and 0 on the diagonal."""
    n = len(x)
    return np.array([[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)]).reshape(
        n, n
    )


ZEROS = ([], [0.0], [0.0, 0.0], [2.0, 0.0, 3.0], [0.0, 2.0, 0.0, 5.0], [1.5, 0.0, 0.0, 0.0, 2.0], [1.0, 2.0, 3.0])


def test_products_with_zeros_have_second_derivatives() -> None:
    whole = dyn.jit(dyn.hessian(dnp.prod))
    running = dyn.jit(dyn.hessian(lambda x, w: dnp.sum(dnp.cumprod(x) * w)))
    mixed = dyn.jit(dyn.jacfwd(dyn.grad(lambda x, w: dnp.sum(dnp.cumprod(x[::-1])[::-1] * w))))
    for numbers in ZEROS:
        x = np.array(numbers)
        w = np.arange(1.0, len(x) + 1)
        np.testing.assert_allclose(whole(x), pairs_left(x), rtol=1e-12, atol=1e-12)
        n = len(x)
        wanted, backward = np.zeros((n, n)), np.zeros((n, n))
        for k in range(n):
            wanted[: k + 1, : k + 1] += w[k] * pairs_left(x[: k + 1])
            backward[k:, k:] += w[k] * pairs_left(x[k:])
        np.testing.assert_allclose(running(x, w), wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(mixed(x, w), backward, rtol=1e-12, atol=1e-12)
    assert [f.cache_info().compiles for f in (whole, running, mixed)] == [1, 1, 1]


def test_third_derivatives_of_a_product_with_zeros() -> None:
    third = dyn.jit(dyn.jacfwd(dyn.hessian(dnp.prod)))
    made = np.asarray(third(np.array([0.0, 2.0, 0.0, 0.0])))
    wanted = np.zeros((4, 4, 4))
    for place in ((0, 2, 3), (0, 3, 2), (2, 0, 3), (2, 3, 0), (3, 0, 2), (3, 2, 0)):
        wanted[place] = 2
    np.testing.assert_allclose(made, wanted, rtol=1e-12, atol=1e-12)
