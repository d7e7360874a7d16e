"""Quantised weights with scales by groups, in JAX programs: one kernel, whatever the sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dyn.interop.jax import jit

G = 16


def reshaped(x: Any, q: Any, s: Any, z: Any) -> Any:
    k, n = q.shape
    return x @ ((q.astype(jnp.float32).reshape(k // G, G, n) - z[:, None, :]) * s[:, None, :]).reshape(k, n)


def by_scales(x: Any, q: Any, s: Any, z: Any) -> Any:
    """The number of groups is that of the scales."""
    (k, n), (groups, _) = q.shape, s.shape
    return x @ ((q.astype(jnp.float32).reshape(groups, k // groups, n) - z[:, None]) * s[:, None]).reshape(k, n)


def repeated(x: Any, q: Any, s: Any, z: Any) -> Any:
    return x @ ((q.astype(jnp.float32) - jnp.repeat(z, G, axis=0)) * jnp.repeat(s, G, axis=0))


def columns_first(x: Any, q: Any, s: Any, z: Any) -> Any:
    n, k = q.shape
    return x @ ((q.astype(jnp.float32).reshape(n, k // G, G) - z[:, :, None]) * s[:, :, None]).reshape(n, k).T


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("f", [reshaped, by_scales, repeated, columns_first])
def test_one_kernel(f: Callable[..., Any], *, captured: bool) -> None:
    rng = np.random.default_rng(0)
    compiled: Any = None
    for groups, n in [(6, 80)] if captured else [(6, 80), (3, 33), (1, 7)]:
        q, s, z = rng.integers(-128, 128, (groups * G, n)), rng.random((groups, n)), rng.integers(-5, 6, (groups, n))
        matrix = (q - np.repeat(z, G, 0)) * np.repeat(s, G, 0)
        own = [(one.T if f is columns_first else one) for one in (q, s, z)]
        weights = [jnp.asarray(one, kind) for one, kind in zip(own, (jnp.int8, jnp.float32, jnp.float32), strict=True)]
        if captured:
            compiled = jit(lambda x, weights=weights: f(x, *weights))
        elif compiled is None:
            compiled = jit(f)
        for rows in (1, 8, 9, 70):
            x = rng.standard_normal((rows, groups * G)).astype(np.float32)
            got = compiled(jnp.asarray(x)) if captured else compiled(jnp.asarray(x), *weights)
            np.testing.assert_allclose(np.asarray(got), x @ matrix, rtol=1e-4, atol=1e-2)
    (way,) = compiled.explain().as_dict()["ways"]
    (program,) = way["programs"]
    (group,) = program["groups"]
    assert {"convert", "subtract", "multiply"} <= set(group["prologue"])
