"""``freeze_argnums``: what is kept of which arrays, how many programs there are, and when nothing is frozen."""

from __future__ import annotations

import gc
import re
import threading
from typing import Any

import numpy as np
import pytest

from dyn.backends.families import host_target
from dyn.errors import ArgumentError
from dyn.specialize.kept_panels import PANELS

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import dyn  # noqa: E402
import dyn.interop.jax as djax  # noqa: E402
from dyn.interop.jax.frozen import _ALIASES, MOST_SETS, MOST_UNUSED  # noqa: E402

pytestmark = pytest.mark.skipif(host_target().vector_bytes < 32, reason="this processor reads matrices as they lie")


def model(params: Any, x: Any) -> Any:
    return jax.nn.gelu(x @ params["w"] + params["b"]) @ params["v"]


def parameters(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = {"w": (20, 48), "b": (48,), "v": (48, 33)}
    return {name: jnp.asarray(rng.standard_normal(shape), jnp.float32) for name, shape in shapes.items()}


def rows(count: int = 3) -> Any:
    return jnp.asarray(np.random.default_rng(count).standard_normal((count, 20)), jnp.float32)


def check(f: Any, params: Any, count: int = 3) -> None:
    np.testing.assert_allclose(f(params, rows(count)), model(params, rows(count)), rtol=1e-4, atol=1e-4)


def from_panels(compiled: Any) -> int:
    """How many products the programs of a compiled function read from panels."""
    lines = str(compiled.explain()).splitlines()
    return sum("from panels" in line for line in lines if line.strip().startswith("variant"))


def sets_of(compiled: Any) -> int:
    return int(re.search(r"(\d+) sets of frozen arguments", str(compiled.explain()))[1])  # pyright: ignore[reportOptionalSubscript]


def test_frozen_parameters_are_read_from_panels_by_one_program() -> None:
    params = parameters()
    f, plain = djax.jit(model, freeze_argnums=0), djax.jit(model)
    for count in (3, 1, 2, 17):
        check(f, params, count)
        check(plain, params, count)
    assert from_panels(f) == 2
    assert "2 arrays that never change, kept in panels" in str(f.explain())
    assert from_panels(plain) == 0
    info = f.cache_info()
    assert (info.compiles, info.hits, info.traces) == (1, 3, 1)
    check(f, params, 0)  # a size of its own to JAX
    assert f.cache_info().compiles == 2


@pytest.mark.parametrize("options", [{"freeze_argnums": (0,)}, {"freeze_argnums": -2}, {"freeze_argnames": "params"}])
def test_arguments_by_number_and_by_name(options: dict[str, Any]) -> None:
    params = parameters()
    f = djax.jit(**options)(model)
    check(f, params)
    np.testing.assert_allclose(f(params=params, x=rows()), model(params, rows()), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(f(params, x=rows()), model(params, rows()), rtol=1e-4, atol=1e-4)
    assert from_panels(f) == 6  # another tree of arguments is another program


def test_arrays_by_themselves_and_all_of_them() -> None:
    w, x = parameters()["w"], rows()
    f = djax.jit(lambda w, x: x @ w, freeze_argnums=0)
    for count in (3, 1, 9):
        np.testing.assert_allclose(f(w, rows(count)), rows(count) @ w, rtol=1e-4, atol=1e-4)
    assert f.cache_info().compiles == 1
    wide = jnp.ones((20, 5))
    np.testing.assert_allclose(f(wide, x), x @ wide, rtol=1e-4, atol=1e-4)
    every = djax.jit(lambda w, x: x @ w, freeze_argnums=(0, 1))
    for _ in range(2):
        np.testing.assert_allclose(every(w, x), x @ w, rtol=1e-4, atol=1e-4)
    nothing = djax.jit(lambda w, x: x * 2, freeze_argnums=0)
    np.testing.assert_allclose(nothing(w, x), x * 2)


def test_empty_trees_and_empty_arrays() -> None:
    f = djax.jit(lambda params, x: x @ params["w"] if params else x, freeze_argnums=0)
    for params in ({}, {"w": jnp.zeros((20, 0))}, {"w": jnp.zeros((20, 1))}):
        np.testing.assert_allclose(f(params, rows()), rows() @ params["w"] if params else rows())


def test_other_parameters_are_seen_and_share_the_code() -> None:
    f, sets = djax.jit(model, freeze_argnums=0), [parameters(seed) for seed in range(MOST_SETS)]
    for _ in range(2):
        for params in sets:
            check(f, params)
            check(f, params, 5)
    assert f.cache_info().compiles == 1
    assert f"{MOST_SETS} sets of frozen arguments have programs like this one, each with panels of its own" in str(
        f.explain()
    )
    assert from_panels(f) == 2


def test_one_leaf_in_a_dict_that_is_another_one_is_seen() -> None:
    f, params = djax.jit(model, freeze_argnums=0), parameters()
    check(f, params)
    params["w"] = params["w"] * 2
    check(f, params)
    params["b"] = params["b"] + 1
    check(f, params)
    assert f.cache_info().compiles == 1


def test_more_sets_than_are_kept_go_by_a_program_that_takes_them() -> None:
    f, sets = djax.jit(model, freeze_argnums=0), [parameters(seed) for seed in range(MOST_SETS + 3)]
    for _ in range(3):
        for number in range(len(sets)):
            check(f, sets[number])
            check(f, sets[number])
    assert f.cache_info().compiles == 2
    assert from_panels(f) == 2
    assert sets_of(f) == MOST_SETS
    sets = sets[1:]
    gc.collect()
    check(f, sets[-1])  # which has the place of the one that is gone
    assert from_panels(f) == 2
    assert sets_of(f) == MOST_SETS
    assert f.cache_info().compiles == 2


def test_parameters_that_are_new_at_each_call_are_passed() -> None:
    f = djax.jit(model, freeze_argnums=0)
    for seed in range(MOST_UNUSED + 4):
        check(f, parameters(seed))
    assert f.cache_info().compiles == 2
    assert f"frozen arguments that were new at each of {MOST_UNUSED} calls are passed" in str(f.explain())
    trained = parameters(100)
    for _ in range(3):
        check(f, trained)  # which the second call finds to be there still
    assert from_panels(f) == 2
    assert f.cache_info().compiles == 2


def test_parameters_that_are_gone_take_their_panels_with_them() -> None:
    gc.collect()
    panels, aliases = len(PANELS), len(_ALIASES)
    f, params = djax.jit(model, freeze_argnums=0), parameters()
    for count in (3, 0):  # two programs
        check(f, params, count)
    assert (len(PANELS), len(_ALIASES)) == (panels + 2, aliases + 3)
    before = f.cache_info()
    del params
    for _ in range(3):  # the first one finds functions, the next ones what these have held
        gc.collect()
    assert (len(PANELS), len(_ALIASES)) == (panels, aliases)
    assert f.cache_info() == before  # what was compiled was
    check(f, parameters())
    assert f.cache_info().compiles <= before.compiles + 1


def test_nothing_is_frozen_in_other_transformations() -> None:
    f, params = djax.jit(model, freeze_argnums=0), parameters()
    found = jax.grad(lambda p: f(p, rows()).sum())(params)
    wanted = jax.grad(lambda p: model(p, rows()).sum())(params)
    for name in params:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(jax.jit(f)(params, rows()), model(params, rows()), rtol=1e-4, atol=1e-4)
    many = jax.vmap(f, (None, 0))(params, rows(6).reshape(2, 3, 20))
    np.testing.assert_allclose(many.reshape(6, 33), model(params, rows(6)), rtol=1e-4, atol=1e-4)
    assert f.cache_info().compiles == 0
    check(f, params)
    assert from_panels(f) == 2


def test_a_training_step_beside_it() -> None:
    """Each step makes other parameters: the frozen function has those of now."""
    f, params = djax.jit(model, freeze_argnums=0), parameters()
    step = jax.jit(jax.grad(lambda p, x: (model(p, x) ** 2).mean()), donate_argnums=())
    for _ in range(MOST_UNUSED + 2):
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, step(params, rows()))
        check(f, params)
        check(f, params, 7)
    assert f.cache_info().compiles == 1


def test_parameters_that_jax_takes_for_its_results() -> None:
    """``jax.jit`` may write to the memory of what it is donated: never to that which a program here closes over."""
    f, params = djax.jit(model, freeze_argnums=0), parameters()
    check(f, params)
    take = jax.jit(lambda p: jax.tree.map(lambda one: one * 2, p), donate_argnums=0)
    others = take(params)
    check(f, others)
    if params["w"].is_deleted():
        with pytest.raises(RuntimeError, match="deleted"):
            f(params, rows())
    else:
        check(f, params)
    params["w"].delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(params, rows())
    check(f, others)


def test_arrays_of_others_are_passed() -> None:
    """NumPy's may change between calls, and so may ``dyn.Array``."""
    f, params = djax.jit(model, freeze_argnums=0), parameters()
    mixed: dict[str, Any] = {**params, "w": np.array(params["w"]), "b": dyn.asarray(np.array(params["b"]))}
    for _ in range(3):
        np.testing.assert_allclose(
            f(mixed, rows()), model({n: jnp.asarray(np.array(one)) for n, one in mixed.items()}, rows()),
            rtol=1e-4, atol=1e-4,
        )  # fmt: skip
        mixed["w"] *= 2
        mixed["b"] += 1
    assert from_panels(f) == 1
    assert f.cache_info().compiles == 1
    numbers = djax.jit(lambda scale, x: x * scale["s"], freeze_argnums=0)
    for scale in (2.0, 3.0, 4.0):
        np.testing.assert_allclose(numbers({"s": scale}, rows()), rows() * scale, rtol=1e-6)


def test_one_array_in_other_places_beside_arrays_of_others() -> None:
    f = djax.jit(lambda p, x: x @ p["a"] - x @ p["b"], freeze_argnums=0)
    own, other = parameters()["w"], np.ones((20, 48), np.float32)
    for params in ({"a": own, "b": other}, {"a": other, "b": own}, {"a": own, "b": own}) * 2:
        wanted = rows() @ jnp.asarray(params["a"]) - rows() @ jnp.asarray(params["b"])
        np.testing.assert_allclose(f(params, rows()), wanted, rtol=1e-4, atol=1e-4)
    assert f.cache_info().compiles == 3  # for each choice of what is passed


def test_keys_and_narrow_floats() -> None:
    def draw(params: Any, x: Any) -> Any:
        return x.astype(params["w"].dtype) @ params["w"] + jax.random.uniform(params["key"], (48,)).sum() * 0

    f = djax.jit(draw, freeze_argnums=0)
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
        params = {"w": parameters()["w"].astype(dtype), "key": jax.random.key(0)}
        for _ in range(2):
            made = np.asarray(f(params, rows()), np.float32)
            np.testing.assert_allclose(made, np.asarray(draw(params, rows()), np.float32), rtol=5e-2, atol=2e-1)


def test_sizes_in_containers_that_differ() -> None:
    """Other shapes of parameters are symbolic from then on, and the arrays themselves are closed over all the same."""
    f = djax.jit(lambda p, x: x @ p["w"], freeze_argnums=0)
    for columns in (48, 33, 64, 33):
        w = jnp.ones((20, columns)) * columns
        for _ in range(2):
            np.testing.assert_allclose(f({"w": w}, rows()), rows() @ w, rtol=1e-4, atol=1e-3)


def test_stages_take_all_arguments_and_prepare_freezes() -> None:
    f, params = djax.jit(model, freeze_argnums=0), parameters()
    f.prepare([(params, rows())])
    assert from_panels(f) == 2
    compiled = f.lower(params, rows()).compile()
    other = parameters(1)
    leaves = jax.tree.leaves((other, rows()))
    np.testing.assert_allclose(compiled(*leaves), model(other, rows()), rtol=1e-4, atol=1e-4)
    check(f, params)
    assert f.cache_info().compiles == 1


def test_threads_with_parameters_of_their_own() -> None:
    f, faults = djax.jit(model, freeze_argnums=0), list[BaseException]()

    def run(seed: int) -> None:
        try:
            for number in range(6):
                params = parameters(seed + 100 * number)
                for count in (3, 5):
                    check(f, params, count)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not faults


def test_what_cannot_be_both() -> None:
    with pytest.raises(ArgumentError) as caught:
        djax.jit(model, freeze_argnums=0, donate_argnames="params")
    assert "model(): the argument params is donated, and it is frozen." in str(caught.value)
    assert "help: donate what each call replaces, and freeze what it only reads." in str(caught.value)
    with pytest.raises(ArgumentError) as caught:
        djax.jit(model, freeze_argnames="params", static_argnums=0)
    assert "model(): the argument params is static, and it is frozen." in str(caught.value)
    assert "help: leave it out of freeze_argnums and freeze_argnames: it is no array." in str(caught.value)
    with pytest.raises(ArgumentError, match="freeze_argnums: model has no argument 2"):
        djax.jit(model, freeze_argnums=2)
    with pytest.raises(ArgumentError, match="freeze_argnames: model has no argument 'param'"):
        djax.jit(model, freeze_argnames="param")


def test_donated_arguments_beside_frozen_ones() -> None:
    f, params = djax.jit(model, freeze_argnums=0, donate_argnums=1), parameters()
    for count in (3, 4):
        x = jnp.array(rows(count))
        np.testing.assert_allclose(f(params, x), model(params, rows(count)), rtol=1e-4, atol=1e-4)
        assert x.is_deleted()
    assert from_panels(f) == 2
    assert not params["w"].is_deleted()
