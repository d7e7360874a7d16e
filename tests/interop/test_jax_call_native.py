"""dyn's machine code called by XLA itself: on XLA's buffers, without Python, and when it is left to Python."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dyn.numpy as dnp
from dyn import lax

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from dyn.backends.xla_call import PROCESS  # noqa: E402
from dyn.interop.jax import call  # noqa: E402
from tests.interop.counting import counts  # noqa: E402


def is_native(function: Any, *args: Any) -> bool:
    text = jax.jit(function).lower(*args).as_text()
    assert ("@dyn_program" in text) != ("callback" in text)
    return "@dyn_program" in text


def test_many_results_of_every_rank_and_dtype() -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)

    def f(x: Any, k: Any, z: Any) -> Any:
        y = x @ weights
        return y, y.sum(), y > 1, y.astype(dnp.bfloat16), z * 2, k + 1, y[None, :, None]

    ours = call(f)
    for n in (0, 1, 2, 7, 64, 1000):
        x, k, z = jnp.ones((n, 2)) / 4, jnp.arange(n), jnp.full(3, 1 + 2j)
        assert is_native(ours, x, k, z)
        made = jax.jit(ours)(x, k, z)
        y = np.ones((n, 2), np.float32) / 4 @ weights
        wanted = y, y.sum(), y > 1, y.astype(jnp.bfloat16), np.full(3, 2 + 4j), np.arange(n) + 1, y[None, :, None]
        for a, w in zip(made, wanted, strict=True):
            assert a.shape == np.shape(w)
            np.testing.assert_allclose(np.asarray(a, complex), np.asarray(w, complex), 1e-5)
    assert counts(ours) == (1, 1)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"process": np.int64(1), "record": np.int64(0xDEAD0)},
        {"process": np.int64(PROCESS)},
        {"process": np.float64(0), "record": np.int64(0xDEAD0)},
        {"process": np.arange(3), "record": np.int64(0xDEAD0)},
        {"process": "a text", "record": np.int64(0xDEAD0)},
        {"process": np.int64(PROCESS), "record": np.float64(0)},
        {"process": np.int64(PROCESS), "record": "a text"},
    ],
)
def test_programs_that_name_programs_of_others_are_refused(attributes: dict[str, Any]) -> None:
    """No address is followed that this process did not write."""
    x = jnp.ones(3)
    assert is_native(call(lambda x: x + 1), x)  # the handler is there
    stranger = jax.jit(
        lambda x: jax.ffi.ffi_call("dyn_program", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, **attributes)
    )
    refused = "dyn: this program names a program of dyn's that is not of this process"
    with pytest.raises(jax.errors.JaxRuntimeError, match=refused):
        stranger(x).block_until_ready()


def test_captured_arrays_are_read_anew() -> None:
    weights = np.ones(3, np.float32)
    run = jax.jit(call(lambda x: x * weights))
    assert run(jnp.ones(3)).tolist() == [1, 1, 1]
    weights[:] = 2
    assert run(jnp.ones(3)).tolist() == [2, 2, 2]


def test_inside_of_a_larger_program() -> None:
    sine = call(lambda x: dnp.sin(x.T) + 1)

    def of(f: Any) -> Any:
        def step(c: Any, _: Any) -> tuple[Any, Any]:
            return f(c * 2.0), c.sum()

        return jax.jit(lambda x: jax.lax.scan(step, jnp.flip(x, 0).T, None, length=5))

    x = jnp.arange(9.0).reshape(3, 3)
    for a, w in zip(of(sine)(x), of(lambda x: jnp.sin(x.T) + 1)(x), strict=True):
        np.testing.assert_allclose(a, w, 1e-5)


def test_from_many_threads_at_once() -> None:
    run = jax.jit(call(lambda x: dnp.cumsum(x, axis=0) @ x.T))
    inputs = [jnp.asarray(np.random.default_rng(n).standard_normal((n + 1, 8), np.float32)) for n in range(6)]
    with ThreadPoolExecutor(4) as pool:
        for x, made in zip(inputs * 10, pool.map(run, inputs * 10), strict=True):
            own = np.asarray(x)
            np.testing.assert_allclose(made, np.cumsum(own, 0) @ own.T, 1e-4, 1e-4)


def test_what_python_has_a_part_in_is_left_to_it() -> None:
    x = jnp.ones((3, 3))
    assert is_native(call(lambda x: x + 1), x)
    # The number of the ones is measured inside: what fails then depends on values.
    counted = call(lambda x: dnp.nonzero(dnp.ravel(x))[0].sum())
    assert not is_native(counted, x)
    assert int(jax.jit(counted)(x)) == 36
    # In one branch two sizes have to agree: the error says so.
    chosen = call(lambda x, y: lax.cond(x.sum() > 0, lambda: (x @ y).sum() * 2, lambda: x.sum() * 2))
    assert not is_native(chosen, x, jnp.ones((3, 2)))


def test_no_memory_is_an_error_and_not_a_crash() -> None:
    def f(x: Any) -> Any:
        cube = x[:, None, None] * x[:, None] * x
        return dnp.cumsum(dnp.cumsum(cube, axis=0), axis=1)[0, 0]

    run = jax.jit(call(f))
    assert run(jnp.ones(3)).tolist() == [1, 1, 1]
    with pytest.raises(jax.errors.JaxRuntimeError, match="dyn: f failed, as there is no memory for it"):
        run(jnp.ones(50_000)).block_until_ready()
    assert run(jnp.ones(2)).tolist() == [1, 1]
