"""The native entry and JAX's arrays: a call by it and one through Python are told apart by nothing."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dyn
import dyn.interop.jax as djax
from tests.interop.counting import counts
from tests.threads import in_threads


def hits(f: Any) -> int:
    return 0 if f._table is None else f._table.hits


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        result = call(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
    leaves, tree = jax.tree.flatten(result)
    return tree, [_told(leaf) for leaf in leaves]


def _told(leaf: Any) -> Any:
    array = np.asarray(leaf)
    seen = (leaf.weak_type, leaf.committed, leaf.sharding) if isinstance(leaf, jax.Array) else ()
    return type(leaf), array.dtype.name, array.shape, array.tobytes(), *seen


def same(f: Any, *args: Any, fast: bool | None = None, plain: Any = None, **kwargs: Any) -> Any:
    """The outcome of a call, which is that of Python, and of ``jax.jit(plain)``."""
    for _ in range(2):
        outcome(f, *args, **kwargs)
    before = hits(f)
    found = outcome(f, *args, **kwargs)
    if fast is not None:
        assert hits(f) - before == fast
    assert found == outcome(f._call_slow, *args, **kwargs)
    if plain is not None:
        assert found == outcome(jax.jit(plain), *args, **kwargs)
    return found


NUMPY = ("bool", "uint8", "int8", "int16", "int32", "uint16", "uint32", "float16", "float32", "complex64")


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (0, 3), (4, 3)])
def test_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    def plain(x: Any) -> Any:
        return x, [x[None]]

    x = jnp.ones(shape, dtype)
    same(djax.jit(plain), x, fast=True, plain=plain)
    same(dyn.jit(lambda x: (x, [x])), x, fast=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2"])
def test_dtypes_that_buffers_do_not_have(dtype: str) -> None:
    same(djax.jit(lambda x: x), jnp.ones(3, dtype), fast=True, plain=lambda x: x)
    same(dyn.jit(lambda x: x), jnp.ones(3, dtype), fast=True)


def test_numbers_and_weak_types() -> None:
    def plain(x: Any, s: Any) -> Any:
        return x * s, s

    f = djax.jit(plain)
    for x in (jnp.ones(3), jnp.float32(2), jnp.asarray(2.0), jnp.ones(3, jnp.int32), jnp.asarray(2)):
        for s in (2, 2.5, True, 1j, jnp.asarray(3), jnp.asarray(3.0), jnp.int32(3), np.float32(1), np.ones(3, "f4")):
            same(f, x, s, plain=plain)
    same(f, jnp.ones(3), 2**40, fast=False)
    same(f, jnp.ones(3), 1e300, fast=False)
    for s in (3.4e38, 0.1, -0.0, float("nan"), float("inf")):
        same(f, jnp.ones(3), s, fast=True, plain=plain)


def test_numpy_arrays_however_they_lie() -> None:
    def plain(x: Any) -> Any:
        return x * 2

    f = djax.jit(plain)
    base = np.arange(24, dtype="f4").reshape(4, 6)
    for x in (base, base.T, base[::-1, ::2], np.asfortranarray(base), np.broadcast_to(np.float32(1), (3, 2))):
        same(f, x, fast=True, plain=plain)
    for x in (base.astype("f8"), base.astype("i8"), base.view(np.matrix), base[0, 0]):
        same(f, x, plain=plain)
    same(f, base.astype(">f4"))


def test_sizes_ranks_and_dtypes_that_change() -> None:
    def plain(x: Any, tree: Any) -> Any:
        return x + 1, tree["b"] * 2

    f = djax.jit(plain)
    tree = {"b": jnp.ones((2, 3)), "a": jnp.ones(4)}
    for n in (3, 1, 7, 0, 3, 0):
        same(f, jnp.ones(n), tree, plain=plain)
    for x in (jnp.ones((2, 2)), jnp.ones(3, "int32"), jnp.ones(())):
        same(f, x, tree, plain=plain)
    for b in (jnp.ones((3, 3)), jnp.ones((0, 3)), jnp.ones((2, 3), "int32")):
        same(f, jnp.ones(3), {"a": tree["a"], "b": b}, plain=plain)
        same(f, jnp.ones(3), {"b": b, "a": tree["a"]}, plain=plain)


def test_guards() -> None:
    def plain(x: Any, y: Any, z: Any) -> Any:
        half = x.reshape(2, -1) if x.shape[0] % 2 == 0 else x
        return half * 2, y + z if y.shape[0] >= 3 else y - z, jnp.ones(max(x.shape[0], y.shape[0]))

    f = djax.jit(plain)
    for n in (4, 5, 6, 8, 9, 2, 1):
        for m in (2, 3, 5):
            same(f, jnp.ones(n), jnp.ones(m), jnp.ones(m), plain=plain)
    same(f, jnp.ones(4), jnp.ones(3), jnp.ones(4), plain=plain)
    before = hits(f)
    f(jnp.ones(12), jnp.ones(4), jnp.ones(4))
    assert hits(f) == before + 1


def test_six_parameters() -> None:
    def plain(a: Any, b: Any, c: Any, d: Any, e: Any, g: Any) -> Any:
        return a + b * c - d * e + g

    f = djax.jit(plain)
    for n in (3, 1, 5):
        arrays = [jnp.arange(float(n)) + k for k in range(6)]
        same(f, *arrays, fast=True, plain=plain)
        same(f, *arrays[:5], jnp.ones(n + 1), plain=plain)
        same(f, *arrays[:5], jnp.ones(1), plain=plain)


def test_arguments_that_are_not_used() -> None:
    def plain(a: Any, b: Any, c: Any) -> Any:
        return {"c": c, "n": None}

    f = djax.jit(plain)
    a, b = jnp.ones(3), jnp.ones(4)
    same(f, a, b, jnp.ones((2, 2)), fast=True, plain=plain)
    same(f, jnp.ones((3, 3)), b, jnp.ones((5, 2)), plain=plain)
    a.delete()
    same(f, a, b, jnp.ones((2, 2)))


def test_a_deleted_array() -> None:
    f = djax.jit(lambda x: x + 1)
    x = jnp.ones(3)
    same(f, x, fast=True)
    x.delete()
    kind, text = same(f, x, fast=False)
    assert issubclass(kind, RuntimeError)
    assert "deleted" in text
    g = dyn.jit(lambda x: x + 1)
    same(g, jnp.ones(3), fast=True)
    same(g, x, fast=False)


def test_donated_arrays_are_deleted_every_time() -> None:
    f = djax.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(4):
        x = jnp.ones(3)
        assert f(x).tolist() == [2, 2, 2]
        assert x.is_deleted()


@pytest.mark.filterwarnings("ignore::dyn.RecompileWarning")
def test_static_arguments_and_keywords() -> None:
    def plain(x: Any, n: Any, *, y: Any = 1.0, k: str = "add") -> Any:
        return x * n + y if k == "add" else x * n - y

    f = djax.jit(plain, static_argnums=1, static_argnames="k")
    x = jnp.ones(3)
    for n in (2, 2.0, True):
        for keywords in ({}, {"y": x}, {"k": "sub", "y": x}, {"y": 2.5, "k": "add"}):
            wanted = _told(jax.jit(plain, static_argnums=1, static_argnames="k")(x, n, **keywords))
            assert [_told(f(x, n, **keywords)) for _ in range(3)] == [wanted] * 3


def test_settings_of_jax() -> None:
    def plain(x: Any) -> Any:
        return x * 2, jnp.arange(3.0)

    f = djax.jit(plain)
    x, n = jnp.ones(3), np.ones(3, "f4")
    for _ in range(3):
        same(f, x, fast=True, plain=plain)
        with jax.enable_x64(True):
            same(f, x, plain=plain)
            same(f, n, plain=plain)
            same(f, np.ones(3), plain=plain)
            same(f, 2.0, plain=plain)
        with jax.disable_jit():
            before = hits(f)
            assert f(x)[0].tolist() == [2, 2, 2]
            assert hits(f) == before
        same(f, np.ones(3), plain=plain)


def test_inside_of_transformations() -> None:
    f = djax.jit(lambda x: jnp.sin(x).sum())
    x = jnp.arange(4.0)
    f(x)
    f(x)
    np.testing.assert_array_equal(jax.grad(f)(x), jnp.cos(x))
    np.testing.assert_allclose(jax.vmap(f)(jnp.stack([x, x])), [f(x), f(x)], rtol=1e-6)
    before = hits(f)
    # A constant in the middle of a trace: JAX's own function is what has to be called.
    jax.jit(lambda y: y + f(jnp.ones(4)))(x)
    assert hits(f) == before
    g = dyn.jit(lambda x: x + 1)
    g(x)
    with pytest.raises(dyn.errors.DynError, match="JAX tracer"):
        jax.jit(g)(x)


def test_elements_that_are_still_being_computed() -> None:
    f, g = djax.jit(lambda x: x + 1), dyn.jit(lambda x: x + 1)
    slow = jax.jit(lambda x: jnp.round((x @ x @ x).sum(axis=0) / 1000))
    x = jnp.ones((300, 300))
    for _ in range(5):
        assert float(f(slow(x))[0]) == 27001
        assert float(g(slow(x))[7]) == 27001


def test_a_layout_that_is_not_row_major() -> None:
    from jax.experimental.layout import Format, Layout

    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    x = jax.device_put(jnp.arange(6.0).reshape(2, 3), Format(Layout((0, 1)), sharding))
    same(djax.jit(lambda x: x * 2), x)
    same(dyn.jit(lambda x: x * 2), x)


def test_other_kinds_of_leaves() -> None:
    f = djax.jit(lambda x: x)
    f(jnp.ones(3))
    for x in (
        jax.ShapeDtypeStruct((3,), "float32"),
        "text",
        None,
        dyn.asarray([1.0]),
        [jnp.ones(2)],
    ):
        same(f, x)
    key = jax.random.key(0)
    assert [jax.random.key_data(f(key)).tolist() for _ in range(3)] == [jax.random.key_data(key).tolist()] * 3


def test_clear_cache() -> None:
    f = djax.jit(lambda x: x + 1)
    x = jnp.ones(3)
    for _ in range(3):
        same(f, x, fast=True) if f._table is not None else f(x)
        f.clear_cache()
        assert counts(f) == (0, 0)
        f(x)
        assert counts(f) == (1, 1)


def test_references_and_memory() -> None:
    resource = pytest.importorskip("resource")
    f, g = djax.jit(lambda x, t: {"a": x + 1, "b": t["b"]}), dyn.jit(lambda x: x + 1)
    x, tree = jnp.ones(1000), {"b": jnp.ones(10)}
    for _ in range(300):
        f(x, tree)
        g(x)
    gc.collect()
    before = [sys.getrefcount(one) for one in (x, tree["b"], x.aval, None, True, False)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10_000):
        f(x, tree)
        g(x)
    gc.collect()
    after = [sys.getrefcount(one) for one in (x, tree["b"], x.aval, None, True, False)]
    assert after[:3] == before[:3]
    # The others are everybody's; 10,000 references too many or too few would show all the same.
    assert all(abs(a - b) < 1_000 for a, b in zip(after, before, strict=True)), (before, after)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 20_000


def test_threads_that_delete_what_others_read() -> None:
    f = djax.jit(lambda x: x * 2)
    f(jnp.ones(3))

    def work(number: int) -> None:
        for _ in range(40):
            x = jnp.full((200_000,), float(number))
            killer = threading.Thread(target=x.delete)
            killer.start()
            try:
                result = np.asarray(f(x))
            except RuntimeError:
                result = None
            killer.join()
            assert result is None or (result == 2 * number).all()

    in_threads(work, range(4))
