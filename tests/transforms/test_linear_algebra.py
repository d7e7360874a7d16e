"""Derivatives and batches of linear algebra, as JAX has them: one program for every size.

What depends on signs and phases that nothing determines is made into what does not, before it is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

Array = Any
#: ``f(xp, x)``, where ``xp`` is ``jax.numpy`` or ``dyn.numpy``: numbers of stacks of square matrices.
Body = Callable[[Any, Array], Any]


@pytest.fixture(scope="module")
def jax() -> Iterator[ModuleType]:
    module = pytest.importorskip("jax")
    with module.enable_x64(True):
        yield module


def adjoint(xp: Any, x: Array) -> Array:
    return xp.conj(xp.matrix_transpose(x))


def definite(xp: Any, x: Array) -> Array:
    return x @ adjoint(xp, x) + xp.eye(x.shape[-2], dtype=x.dtype)


def numbers(xp: Any, y: Array) -> Array:
    """A real number in which every part of every element counts, each differently."""
    weights = xp.cos(xp.reshape(xp.arange(y.size, dtype="float64"), y.shape))
    return xp.sum((xp.real(y) + 2 * xp.imag(y)) * weights) + xp.sum(xp.real(y) ** 2)


def _lu(xp: Any, x: Array) -> Array:
    return xp.linalg.solve(x + 5 * xp.eye(x.shape[-1], dtype=x.dtype), x[..., :1])


def _qr(xp: Any, x: Array) -> Array:
    q, r = xp.linalg.qr(x)
    return q * xp.sign(xp.real(xp.linalg.diagonal(r)))[..., None, :] + r * r


def _tall_qr(xp: Any, x: Array) -> Array:
    q, r = xp.linalg.qr(xp.concatenate([x, x @ x, x * x], axis=-2))
    return q @ adjoint(xp, q) @ xp.concatenate([x * x, x, x], axis=-2) + 0 * xp.sum(r)


def _eigh(xp: Any, x: Array) -> Array:
    w, v = xp.linalg.eigh(x + adjoint(xp, x))
    return v * xp.cos(w)[..., None, :] @ adjoint(xp, v)


def _svd(xp: Any, x: Array) -> Array:
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    return u * xp.tanh(s)[..., None, :] @ vh


def _wide_svd(xp: Any, x: Array) -> Array:
    u, s, vh = xp.linalg.svd(xp.concatenate([x, x @ x], axis=-1), full_matrices=False)
    return u * xp.tanh(s)[..., None, :] @ vh


def _tall_svd(xp: Any, x: Array) -> Array:
    return _wide_svd(xp, adjoint(xp, x))


BODIES: dict[str, Body] = {
    "cholesky": lambda xp, x: xp.linalg.cholesky(definite(xp, x)),
    "cholesky_upper": lambda xp, x: xp.linalg.cholesky(definite(xp, x), upper=True),
    "cond": lambda xp, x: xp.linalg.cond(x) / 10,
    "det": lambda xp, x: xp.linalg.det(x),
    "eigh": _eigh,
    "eigvals": lambda xp, x: xp.sum(xp.linalg.eigvals(x) ** 3, axis=-1),
    "eigvalsh": lambda xp, x: xp.linalg.eigvalsh(x + adjoint(xp, x)),
    "inv": lambda xp, x: xp.linalg.inv(x + 5 * xp.eye(x.shape[-1], dtype=x.dtype)),
    "matrix_power": lambda xp, x: xp.linalg.matrix_power(x, 3),
    "multi_dot": lambda xp, x: xp.linalg.matrix_transpose(x) @ x if x.ndim > 2 else xp.linalg.multi_dot([x, x, x]),
    "norm": lambda xp, x: (
        xp.linalg.norm(x) + xp.linalg.norm(x, 3, axis=-1)[..., 0] + xp.linalg.matrix_norm(x, ord="nuc")
    ),
    "pinv": lambda xp, x: xp.linalg.pinv(xp.concatenate([x, x @ x], axis=-1), rtol=1e-9),
    "qr": _qr,
    "slogdet": lambda xp, x: xp.linalg.slogdet(x)[0] + xp.linalg.slogdet(x)[1],
    "solve": _lu,
    "svd": _svd,
    "svdvals": lambda xp, x: xp.linalg.svd(x, compute_uv=False),
    "tall_qr": _tall_qr,
    "tall_svd": _tall_svd,
    "wide_svd": _wide_svd,
}
COMPLEX = ("cholesky", "det", "eigh", "eigvals", "inv", "slogdet", "solve", "svd", "tall_qr", "wide_svd")
#: Where JAX has a second derivative that is finite for matrices without structure, and so has dyn.
SECOND = ("cholesky", "det", "inv", "matrix_power", "slogdet", "solve", "eigvalsh", "svdvals")


def draw(size: int, dtype: str = "float64") -> Array:
    rng = np.random.default_rng(size)
    x = rng.standard_normal((size, size))
    return (x + 1j * rng.standard_normal((size, size))).astype(dtype) if dtype == "complex128" else x


def loss_of(name: str, xp: Any) -> Callable[[Array], Array]:
    return lambda x: numbers(xp, xp.asarray(BODIES[name](xp, x)))


@pytest.mark.parametrize("name", BODIES)
def test_gradients_and_batches(name: str, jax: ModuleType) -> None:
    """For sizes 1, 2 and 4 from one program; for several matrices at once, and for none."""
    mine = dyn.jit(dyn.value_and_grad(loss_of(name, dnp)))
    many = dyn.jit(dyn.vmap(dyn.grad(loss_of(name, dnp))))
    theirs = jax.jit(jax.value_and_grad(loss_of(name, jax.numpy)))
    for size in (4, 1, 2):
        x = draw(size)
        value, slope = mine(x)
        wanted, wanted_slope = theirs(x)
        np.testing.assert_allclose(value, wanted, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(slope, wanted_slope, rtol=1e-6, atol=1e-7)
        found = many(np.stack([x * 2, x]))
        np.testing.assert_allclose(found[1], wanted_slope, rtol=1e-6, atol=1e-7)
        assert many(np.zeros((0, size, size))).shape == (0, size, size)
    assert (mine.cache_info().compiles, many.cache_info().compiles) == (1, 1)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients(name: str, jax: ModuleType) -> None:
    """By the parts of complex matrices."""

    def by_parts(xp: Any) -> Callable[..., Array]:
        return lambda real, imag: loss_of(name, xp)(real + 1j * imag)

    mine = dyn.jit(dyn.grad(by_parts(dnp), argnums=(0, 1)))
    theirs = jax.jit(jax.grad(by_parts(jax.numpy), argnums=(0, 1)))
    for size in (3, 1):
        x = draw(size, "complex128")
        for found, wanted in zip(mine(x.real, x.imag), theirs(x.real, x.imag), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    assert mine.cache_info().compiles == 1


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str, jax: ModuleType) -> None:
    mine = dyn.jit(dyn.hessian(loss_of(name, dnp)))
    x = draw(3)
    np.testing.assert_allclose(mine(x), jax.jit(jax.hessian(loss_of(name, jax.numpy)))(x), rtol=1e-5, atol=1e-6)
    assert mine(draw(2)).shape == (2, 2, 2, 2)
    assert mine.cache_info().compiles == 1


@pytest.mark.parametrize("name", [name for name in BODIES if name not in ("cond", "norm")])
def test_gradients_by_no_elements(name: str) -> None:
    """Of size 0 and of no matrices, from the program of other sizes."""
    step = dyn.jit(dyn.grad(loss_of(name, dnp)))
    step(draw(2))
    assert step(np.zeros((0, 0))).shape == (0, 0)
    assert step.cache_info().compiles == 1


def test_determinants_of_singular_matrices_have_gradients(jax: ModuleType) -> None:
    """The adjugate, transposed: of rank n - 1 a matrix of rank 1, of less zeros."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 4))
    x[:, 3] = x[:, 0] + x[:, 1]
    lower = x.copy()
    lower[:, 2] = x[:, 0] - x[:, 1]
    mine = dyn.jit(dyn.grad(dnp.linalg.det))
    np.testing.assert_allclose(mine(x), jax.jit(jax.grad(jax.numpy.linalg.det))(x), atol=1e-10)
    np.testing.assert_allclose(mine(lower), np.zeros((4, 4)), atol=1e-10)
    np.testing.assert_array_equal(mine(np.zeros((1, 1))), [[1.0]])
    np.testing.assert_array_equal(mine(np.zeros((3, 3))), np.zeros((3, 3)))


def test_eigenvectors(jax: ModuleType) -> None:
    """JAX has no derivative of them; what does not depend on their phases is compared with differences."""

    def f(x: Array) -> Array:
        w, v = dnp.linalg.eig(x)
        sizes = dnp.abs(v) ** 2
        projector = v * (1 / (1 + w))[None, :] @ dnp.linalg.inv(v)
        return dnp.sum(sizes * dnp.real(w * w)[None, :]) + numbers(dnp, projector)

    value, slope = dyn.jit(f), dyn.jit(dyn.grad(f))
    for size in (1, 3, 4):
        x = draw(size) + 3 * np.eye(size)
        found, direction, h = slope(x), draw(size + 10)[:size, :size], 1e-6
        difference = (value(x + h * direction) - value(x - h * direction)) / (2 * h)
        np.testing.assert_allclose(np.sum(found * direction), difference, rtol=1e-5)


def test_equal_values_give_no_derivative_of_vectors() -> None:
    """Infinite or NaN, as in JAX; the values themselves have one."""
    values = dyn.jit(dyn.grad(lambda x: dnp.sum(dnp.linalg.eigvalsh(x) ** 2)))
    np.testing.assert_allclose(values(np.eye(3)), 2 * np.eye(3), atol=1e-12)
    vectors = dyn.jit(dyn.grad(lambda x: dnp.sum(dnp.linalg.eigh(x)[1] ** 3)))
    assert not np.isfinite(vectors(np.eye(3))).all()


def test_complete_factors_have_none() -> None:
    from dyn.errors import UnsupportedOpError

    x = draw(4)[:, :2]
    with pytest.raises(UnsupportedOpError) as caught:
        dyn.grad(lambda x: dnp.sum(dnp.linalg.qr(x, mode="complete")[0]))(x)
    assert caught.value.problem == (
        "qr: the complete factors of matrices that may have more rows than columns have no derivative, for the columns "
        "that complete Q are not determined."
    )
    with pytest.raises(UnsupportedOpError) as full:
        dyn.grad(lambda x: dnp.sum(dnp.linalg.svd(x)[0]))(x)
    assert full.value.problem == (
        "svd: the full factors of matrices that may not be square have no derivative, for the vectors that complete "
        "them are not determined."
    )
    # The singular values have one all the same.
    slope = dyn.grad(lambda x: dnp.sum(dnp.linalg.svd(x, compute_uv=False)))(x)
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose(slope, u @ vh, atol=1e-10)


def test_only_what_is_read_is_computed() -> None:
    """Vectors that nobody reads are not asked for."""
    lowered = dyn.jit(lambda x: dnp.linalg.eigh(x)[0] + dnp.linalg.svd(x)[1] + dnp.real(dnp.linalg.eig(x)[0]))
    lowered(draw(3))
    assert "vectors = true" not in str(lowered.lower(draw(3)).as_text()).lower()
