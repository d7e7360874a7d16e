"""``jax.ensure_compile_time_eval`` in a function of symbolic sizes: what depends on a size is the program's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402

#: What is computed at once, of an array and its size.
COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "the size": lambda x, n: jnp.asarray(n),
    "a function of the size": lambda x, n: jnp.sqrt(n) + 1,
    "a range": lambda x, n: jnp.arange(n) * 2,
    "a mask": lambda x, n: jnp.tril(jnp.outer(x, x)),
    "an identity": lambda x, n: jnp.eye(n),
    "a symmetric matrix": lambda x, n: jnp.linalg.eigvalsh(jnp.eye(n) + jnp.diag(x)),
    "another jit": lambda x, n: jax.jit(lambda: jnp.arange(n) + 1)(),
    "a custom derivative": lambda x, n: jax.nn.relu(jnp.ones(n)),
    "a loop": lambda x, n: lax.fori_loop(0, 3, lambda i, total: total + n, 0),
    "a scan": lambda x, n: lax.scan(lambda total, one: (total + one, total), 0, jnp.arange(n)),
    "a branch": lambda x, n: lax.cond(jnp.asarray(True), lambda: jnp.arange(n), lambda: jnp.zeros(n, int)),
    "random numbers": lambda x, n: jax.random.normal(jax.random.key(1), (n,)),
    "a closed function": lambda x, n: jax.vmap(lambda i: i + n)(jnp.arange(n)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_depends_on_a_size_is_the_programs(name: str, quick_xla: None) -> None:
    def function(x: Any) -> Any:
        with jax.ensure_compile_time_eval():
            made = COMPUTED[name](x, x.shape[0])
        return made, x * 2

    run, plain = djax.jit(function), jax.jit(function)
    for n in (3, 1, 5, 8):
        x = np.linspace(0.5, 2.0, n, dtype=np.float32)
        for mine, own in zip(jax.tree.leaves(run(x)), jax.tree.leaves(plain(x)), strict=True):
            assert (mine.shape, mine.dtype, mine.weak_type) == (own.shape, own.dtype, own.weak_type)
            np.testing.assert_allclose(mine, own, 1e-5, 1e-6)
    assert run.cache_info().compiles == 1


def test_what_depends_on_no_size_is_computed_at_once() -> None:
    seen: list[bool] = []

    def function(x: Any) -> Any:
        with jax.ensure_compile_time_eval():
            table = jnp.arange(4) * 2
            seen.append(isinstance(table, jax.core.Tracer) or isinstance(jnp.ones(x.ndim), jax.core.Tracer))
            count = int(table.sum())
        return x * count

    run = djax.jit(function)
    for n in (3, 1, 5):
        np.testing.assert_array_equal(run(np.ones(n, np.float32)), np.full(n, 12, np.float32))
    assert (seen, run.cache_info().compiles) == ([False], 1)


def test_numbers_that_are_taken_at_once_have_a_program_each() -> None:
    def function(x: Any) -> Any:
        with jax.ensure_compile_time_eval():
            return x * int(jnp.arange(x.shape[0]).sum())

    run = djax.jit(function)
    for n in (3, 1, 5, 3):
        np.testing.assert_array_equal(run(np.ones(n, np.float32)), np.full(n, n * (n - 1) // 2, np.float32))
    assert run.cache_info().compiles == 3
