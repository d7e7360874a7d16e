"""Gradients, tangents and batches of functions of arrays, as JAX has them: one program for every size."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from tests.transforms.array_cases import CASES, Case, Library, Mine, Theirs, floats

Array = Any
#: Where rounding is larger than it looks: long products, and sums of many squares.
LOOSE = {"cumprod": 1e-3, "conv": 1e-4, "conv_groups": 1e-4, "conv_strides": 1e-4, "attention": 1e-4}


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def close(mine: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    if isinstance(mine, tuple | list):
        for a, b in zip(mine, theirs, strict=True):
            close(a, b, tolerance)
        return
    a, b = np.asarray(mine), np.asarray(theirs)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def loss_of(case: Case, library: Library) -> Callable[..., Any]:
    """A number in which every element of the result counts, each a little differently."""

    def loss(*args: Array) -> Array:
        y = case.body(library, *args)
        return library.np.sum(y * y * 0.5 + y * 0.25)

    return loss


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, jax: ModuleType) -> None:
    case = CASES[name]
    by = tuple(range(case.smooth()))
    mine = dyn.jit(dyn.value_and_grad(loss_of(case, Mine()), argnums=by))
    theirs = jax.jit(jax.value_and_grad(loss_of(case, Theirs(jax)), argnums=by))
    for size in case.sizes:
        args = case.make(size)
        close(mine(*args), theirs(*args), LOOSE.get(name, 2e-5))
    assert mine.cache_info().compiles == 1


#: What reads an element of every array that it is given.
NEVER_EMPTY = {
    "by_numbers", "by_two", "dynamic_slice", "dynamic_update_slice", "max", "pad_edges", "take_along_axis",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in CASES if 0 not in CASES[name].sizes and name not in NEVER_EMPTY])
def test_gradients_by_no_elements(name: str) -> None:
    """What JAX does not take: from the program of other sizes, gradients of the arguments' shapes, and no NaN."""
    case = CASES[name]
    by = case.smooth()
    step = dyn.jit(dyn.grad(loss_of(case, Mine()), argnums=tuple(range(by))))
    step(*case.make(2))
    args = case.make(0)
    for gradient, x in zip(step(*args), args[:by], strict=True):
        assert np.shape(gradient) == x.shape
        assert np.isfinite(gradient).all()
    assert step.cache_info().compiles == 1


@pytest.mark.parametrize("name", CASES)
def test_tangents_are_the_transpose(name: str) -> None:
    """Forward and backward, by different rules, give one number; so does the tangent of the gradient, twice over."""
    case = CASES[name]
    by = case.smooth()

    def both(tangents: tuple[Array, ...], *args: Array) -> tuple[Array, Array]:
        fixed = args[by:]
        primals = tuple(dnp.asarray(x) for x in args[:by])
        loss = loss_of(case, Mine())
        _, forward = dyn.jvp(lambda *x: loss(*x, *fixed), primals, tangents)
        _, pull = dyn.vjp(lambda *x: loss(*x, *fixed), *primals)
        backward = sum(dnp.sum(ct * t) for ct, t in zip(pull(dnp.ones(())), tangents, strict=True))
        return forward, backward

    step = dyn.jit(both)
    for size in case.sizes:
        args = case.make(size)
        tangents = tuple(floats(*x.shape, seed=9) for x in args[:by])
        forward, backward = step(tangents, *args)
        np.testing.assert_allclose(forward, backward, rtol=2e-3, atol=2e-3)
    assert step.cache_info().compiles == 1


def stacked(x: Array, count: int, axis: int | None) -> Array:
    """Examples next to each other; floats differ, places are turned around."""
    if axis is None:
        return x
    many = [np.flip(x) if i % 2 and x.dtype != np.float32 and x.ndim else x for i in range(count)]
    if x.dtype == np.float32:
        many = [x * (1 - i / 7) + i / 11 for i in range(count)]
    return np.stack(many, axis).astype(x.dtype) if many else np.zeros((*x.shape[:axis], 0, *x.shape[axis:]), x.dtype)


FORMS = [
    (name, form)
    for name, case in CASES.items()
    for form in ("all", "last", "first")
    if form == "all" or len(case.make(2)) > 1
]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_batches(name: str, form: str, jax: ModuleType) -> None:
    """With an axis of examples for all arguments, all but the first, or the first alone, not in front where it can."""
    case = CASES[name]
    args = case.make(1)
    axes = tuple(
        None if (form == "last" and i == 0) or (form == "first" and i > 0) else min(x.ndim, 1) if form == "first" else 0
        for i, x in enumerate(args)
    )
    mine = dyn.jit(dyn.vmap(lambda *a: case.body(Mine(), *a), in_axes=axes))
    theirs = jax.jit(jax.vmap(lambda *a: case.body(Theirs(jax), *a), in_axes=axes))
    for size, count in zip((case.sizes[0], 2, 7), (2, 1, 3), strict=True):
        many = [stacked(x, count, axis) for x, axis in zip(case.make(size), axes, strict=True)]
        close(mine(*many), theirs(*many), LOOSE.get(name, 2e-5))
    empty = [stacked(x, 0, axis) for x, axis in zip(case.make(2), axes, strict=True)]
    assert np.shape(mine(*empty))[0] == 0
    assert mine.cache_info().compiles == 1


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_examples(name: str, jax: ModuleType) -> None:
    case = CASES[name]
    by = tuple(range(case.smooth()))
    mine = dyn.jit(dyn.vmap(dyn.grad(loss_of(case, Mine()), argnums=by)))
    theirs = jax.jit(jax.vmap(jax.grad(loss_of(case, Theirs(jax)), argnums=by)))
    for size, count in ((2, 3), (7, 2)):
        many = [stacked(x, count, 0) for x in case.make(size)]
        close(mine(*many), theirs(*many), 10 * LOOSE.get(name, 2e-5))
    assert mine.cache_info().compiles == 1
