"""``dyn.interop.jax.jit`` on the software GPU: where functions run, what they take, and what they give."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.errors import ArgumentError, DonatedError, ShapeError
from dyn.hosts.jax import JaxHost
from tests.gpu.programs import Device
from tests.gpu.test_arrays import StandIn
from tests.gpu.test_native_entry import hits, made_natively
from tests.rarely import rarely

jax: Any = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402
from tests.interop.counting import counts  # noqa: E402

pytestmark = pytest.mark.usefixtures("quick_xla")


def there(device: Device, *shape: int) -> dyn.Array:
    return dyn.device_put(np.arange(np.prod(shape), dtype="f4").reshape(shape) / 7, device.name)


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x, axis=-1)


@pytest.mark.parametrize("device", ["cuda", rarely("rocm")], indirect=True)
def test_one_program_for_all_shapes(device: Device) -> None:
    """Of ``dyn.Array`` on the device, which the native entry takes, of NumPy's, JAX's and what DLPack gives."""
    f = djax.jit(softmax, device=device.name)
    for shape in ((2, 3), (1, 1), (33, 2), (5, 257)):
        x = there(device, *shape)
        wanted = softmax(jnp.asarray(x.to_numpy()))
        for given in (x, StandIn(x), x.to_numpy(), jnp.asarray(x.to_numpy())):
            found = f(given)
            assert (type(found), found.device, found.dtype) == (dyn.Array, device.name, np.float32)
            np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-5, atol=1e-6)
        with device.copying(0, 0):
            made_natively(f, lambda x=x: f(x))
    assert counts(f) == (1, 1)
    # A program of its own: JAX has no symbol for 0.
    with pytest.raises(ValueError, match="zero-size array to reduction"):
        djax.jit(jnp.max, device=device.name)(there(device, 0))
    assert f(there(device, 0, 4)).shape == (0, 4)


def test_where_the_arguments_are(device: Device) -> None:
    """A function without a device runs there too, and on the processor: a program each."""
    f = djax.jit(lambda x, y: x * y + 1)
    x, here = there(device, 4), np.arange(4, dtype="f4")
    for _ in range(3):
        found = f(x, x)
        assert found.device == device.name
        np.testing.assert_allclose(found.to_numpy(), (here / 7) ** 2 + 1, rtol=1e-6)
        assert isinstance(f(here, here), jax.Array)
        np.testing.assert_allclose(f(x, 2.0).to_numpy(), here / 7 * 2 + 1, rtol=1e-6)  # numbers go along
    assert f.cache_info().compiles == 3
    ours = dyn.device_put(here)  # on the processor JAX's arrays are the results
    assert isinstance(f(ours, ours), jax.Array)
    assert f.cache_info().compiles == 3


@pytest.mark.parametrize("device", ["cuda", rarely("rocm")], indirect=True)
def test_trees_static_arguments_and_keywords(device: Device) -> None:
    def f(params: Any, x: Any, *, power: int = 2, scale: Any = 1.0) -> Any:
        return {"y": [x @ params["w"] + params["b"], (x**power).sum() * scale], "n": (params["b"], None)}

    run = djax.jit(f, static_argnames="power", device=device.name)
    params = {"w": there(device, 3, 5), "b": there(device, 5)}
    host = {name: array.to_numpy() for name, array in params.items()}
    for rows, power in ((2, 2), (7, 2), (2, 3)):
        x = there(device, rows, 3)
        found, wanted = run(params, x, power=power, scale=2.0), f(host, x.to_numpy(), power=power, scale=2.0)
        assert jax.tree.structure(found) == jax.tree.structure(wanted)
        for a, w in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert a.device == device.name
            np.testing.assert_allclose(a.to_numpy(), w, rtol=1e-5)
    assert run.cache_info().compiles == 2


def loss(params: Any, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return jnp.mean((hidden.sum(-1) - y) ** 2)


@pytest.mark.parametrize("device", ["cuda", rarely("rocm")], indirect=True)
def test_gradients_and_many_examples(device: Device) -> None:
    """Transformations of JAX's inside of the function; outside of it the plain function is called."""
    gradients = djax.jit(jax.value_and_grad(loss), device=device.name)
    each = djax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)), device=device.name)
    params = {"w": there(device, 3, 4), "b": there(device, 4)}
    host = {name: array.to_numpy() for name, array in params.items()}
    for rows in (4, 1, 9):
        x, y = there(device, rows, 3), there(device, rows)
        here = (host, x.to_numpy(), y.to_numpy())
        for found, wanted in (
            (gradients(params, x, y), jax.value_and_grad(loss)(*here)),
            (
                each(params, there(device, rows, 1, 3), there(device, rows, 1)),
                jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(host, here[1][:, None], here[2][:, None]),
            ),
        ):
            for a, w in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(a.to_numpy(), w, rtol=1e-4, atol=1e-5)
    assert (gradients.cache_info().compiles, each.cache_info().compiles) == (1, 1)
    inside = djax.jit(lambda x: x.sum(), device=device.name)
    np.testing.assert_allclose(jax.grad(inside)(jnp.ones(3)), np.ones(3))


@pytest.mark.parametrize("device", [rarely("cuda"), "rocm"], indirect=True)
def test_loops_sorts_and_callbacks(device: Device) -> None:
    seen: list[tuple[int, ...]] = []

    def f(x: Any) -> Any:
        def host(value: Any) -> Any:
            seen.append(value.shape)
            return np.asarray(value) * 2

        doubled = jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), jnp.sort(x)[::-1])
        return jax.lax.fori_loop(0, 3, lambda i, s: s + i, doubled), jnp.linalg.norm(x), jnp.cumsum(x)

    run = djax.jit(f, device=device.name)
    for n in (4, 9):
        x = there(device, n)
        for a, w in zip(run(x), f(x.to_numpy()), strict=True):
            np.testing.assert_allclose(a.to_numpy(), w, rtol=1e-5)
    assert (4,) in seen


@pytest.mark.parametrize("device", [rarely("cuda"), "rocm"], indirect=True)
def test_random_keys(device: Device) -> None:
    """Keys are JAX's alone, and its numbers are the same everywhere."""

    def f(key: Any, x: Any) -> Any:
        key, now = jax.random.split(key)
        return key, x + jax.random.uniform(now, x.shape)

    run = djax.jit(f, device=device.name)
    for key in (jax.random.key(3), jax.random.PRNGKey(3)):
        (new, found), (wanted_key, wanted) = run(key, there(device, 5)), jax.jit(f)(key, np.arange(5, dtype="f4") / 7)
        np.testing.assert_array_equal(found.to_numpy(), wanted)
        again = run(new, there(device, 5))
        np.testing.assert_array_equal(again[1].to_numpy(), jax.jit(f)(wanted_key, np.arange(5, dtype="f4") / 7)[1])


def test_donation(device: Device) -> None:
    """Results take the memory of arrays of dyn's; what was donated is gone, wherever it was."""
    f = djax.jit(lambda x, y: x * 2 + y, donate_argnums=0, device=device.name, shapes="n, n")
    x, y = there(device, 5), there(device, 5)
    given = x
    where = x._data.address  # pyright: ignore[reportAttributeAccessIssue]  # on a device
    for _ in range(3):
        given = x
        x = f(given, y)
        assert x._data.address == where  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(DonatedError, match=r"it was x of <lambda>\(\)"):
            given.to_numpy()
    np.testing.assert_allclose(x.to_numpy(), np.arange(5) / 7 * 15, rtol=1e-6)
    with pytest.raises(DonatedError, match="it was x of"):
        f(given, y)
    other = jnp.ones(5)
    np.testing.assert_allclose(f(other, y).to_numpy(), np.arange(5) / 7 + 2, rtol=1e-6)
    assert other.is_deleted()
    kept, plain = np.ones(5, "f4"), there(device, 5)
    f(kept, y)  # NumPy's cannot be told
    f(StandIn(plain), y)  # and others' memory is theirs
    np.testing.assert_array_equal(kept, np.ones(5))
    np.testing.assert_allclose(plain.to_numpy(), np.arange(5) / 7, rtol=1e-6)


def test_donation_on_the_processor() -> None:
    f = djax.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(3):
        x = dyn.device_put(np.ones(3, "f4"))
        np.testing.assert_array_equal(f(x), np.full(3, 2))
        with pytest.raises(DonatedError, match=r"it was x of <lambda>\(\)"):
            x.to_numpy()


def test_errors_name_the_argument(cuda: Device) -> None:
    def add(x: Any, tree: Any) -> Any:
        return x + tree["y"]

    f, x, far = djax.jit(add), there(cuda, 3), dyn.device_put(np.ones(3, "f4"), "cuda:1")
    with pytest.raises(ArgumentError) as caught:
        f(x, {"y": far})
    assert str(caught.value) == (
        "add(): x is on cuda, and tree['y'] is on cuda:1.\n"
        "  help: put it there with dyn.device_put(tree['y'], \"cuda\")."
    )
    for here in (np.ones(3, "f4"), jnp.ones(3), dyn.device_put(np.ones(3, "f4"))):
        with pytest.raises(ArgumentError) as caught:
            f(x, {"y": here})
        assert str(caught.value) == (
            "add(): x is on cuda, and tree['y'] is in this machine's memory.\n"
            '  help: put it there with dyn.device_put(tree[\'y\'], "cuda"), or use jit(device="cuda"), which does.'
        )
    for device, place in (("cuda", "cuda:1"), ("cpu", "cuda")):
        with pytest.raises(ArgumentError) as caught:
            djax.jit(add, device=device)(far if place == "cuda:1" else x, {"y": 1.0})
        assert str(caught.value) == (
            f"add() runs on {device}, and x is on {place}.\n"
            f'  help: put it there with dyn.device_put(x, "{device}"), or use jit(device="{place}").'
        )
    with pytest.raises(ArgumentError) as caught:
        f(dyn.device_put(np.ones(3), "cuda"), {"y": x})
    assert str(caught.value) == (
        "add(): x is an array of float64 on cuda, and JAX has float32 unless jax_enable_x64 is set.\n"
        "  help: convert it with .astype('float32'), or set jax_enable_x64."
    )
    with jax.enable_x64(True):
        assert f(dyn.device_put(np.ones(3), "cuda"), {"y": x}).dtype == np.float64
    with pytest.raises(ArgumentError, match="there is no device 'abacus'"):
        djax.jit(add, device="abacus")
    with pytest.raises((ShapeError, TypeError)):
        f(x, {"y": there(cuda, 2)})
    second = djax.jit(add, device="cuda:1")(far, {"y": far})
    assert (second.device, second.tolist()) == ("cuda:1", [2, 2, 2])


class GpuArray(jax.Array):
    """An array of a JAX that was built for GPUs, as far as can be seen from outside: it is read by DLPack."""

    def __init__(self, array: dyn.Array, weak: bool = False) -> None:
        self.array, self._weak = array, weak
        self._deleted = False

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def devices(self) -> Any:
        return {GPU}

    @property
    def aval(self) -> Any:
        return jax.core.ShapedArray(self.array.shape, self.array.dtype, weak_type=self._weak)

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)
    ndim = property(lambda self: self.array.ndim)

    def is_deleted(self) -> bool:
        return self._deleted

    def delete(self) -> None:
        self._deleted = True


class GPU:
    """A device of such a JAX."""

    platform = "gpu"


GpuArray.__abstractmethods__ = frozenset()


def test_arrays_of_a_jax_that_has_the_device(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read where they lie; results are JAX's."""
    made: list[Any] = []

    def from_dlpack(array: Any) -> Any:
        made.append(array.shape)
        return GpuArray(dyn.device_put(StandIn(array), device.name))

    monkeypatch.setattr(JaxHost, "has_device", lambda self, context: True)
    monkeypatch.setattr(jax.dlpack, "from_dlpack", from_dlpack)
    monkeypatch.setitem(importlib.import_module("jax._src.core").pytype_aval_mappings, GpuArray, lambda one: one.aval)
    f = djax.jit(lambda x, y: [x * 2 + y], donate_argnames="y", shapes="n, n")
    x, y = there(device, 4), there(device, 4)
    f(GpuArray(x), GpuArray(y))
    made.clear()
    given = GpuArray(x), GpuArray(y)
    with device.copying(0, 0):
        found = f(*given)
    assert [type(one) for one in found] == [GpuArray]
    assert (given[0].is_deleted(), given[1].is_deleted(), len(made)) == (False, True, 1)
    np.testing.assert_allclose(found[0].array.to_numpy(), np.arange(4) * 3 / 7, rtol=1e-6)
    np.testing.assert_allclose(y.to_numpy(), np.arange(4) / 7, rtol=1e-6)


def test_stages(device: Device) -> None:
    f = djax.jit(softmax, device=device.name)
    f.prepare([jax.ShapeDtypeStruct((2, 3), np.float32)])
    before = counts(f)
    found = f(there(device, 2, 3))
    assert counts(f) == before
    compiled = f.lower(there(device, 5, 4)).compile()
    np.testing.assert_allclose(compiled(there(device, 2, 3)).to_numpy(), found.to_numpy(), rtol=1e-6)
    assert "softmax" in str(f.explain())


@pytest.mark.parametrize("device", [rarely("cuda"), "rocm"], indirect=True)
def test_threads(device: Device) -> None:
    f = djax.jit(lambda x, y: (x * y).sum(-1), device=device.name)
    f(there(device, 2, 3), there(device, 2, 3))
    before, wrong = hits(f), list[int]()

    def work(number: int) -> None:
        x = there(device, number + 1, 33)
        wanted = (x.to_numpy() ** 2).sum(-1)
        if not all(np.allclose(f(x, x).to_numpy(), wanted, rtol=1e-5) for _ in range(10)):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert f.cache_info().compiles == 1
    assert hits(f) > before
