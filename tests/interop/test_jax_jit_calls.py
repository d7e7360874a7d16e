"""``dyn.interop.jax.jit`` called as ``jax.jit`` is: arguments of every kind, types of results, memory, threads."""

from __future__ import annotations

import functools
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.errors import ArgumentError, NotYetError, ShapeError, TraceError
from tests.threads import in_threads

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402
from dyn.interop.jax.tracing import JaxTracing  # noqa: E402
from tests.interop.counting import counts  # noqa: E402

SIZES = (1, 2, 7, 64, 1000)


def same(actual: Any, wanted: Any, rtol: float = 1e-5) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(wanted)
    for a, w in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
        assert isinstance(a, jax.Array)
        assert (a.shape, a.dtype, a.aval.weak_type) == (w.shape, w.dtype, w.aval.weak_type)
        if not jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(a, w, rtol, 1e-5)


@pytest.mark.filterwarnings("ignore::dyn.RecompileWarning")
def test_types_of_results() -> None:
    def many(x: Any, s: Any) -> Any:
        return x * s, s * 2, 3.0, 1, True, x.sum(), jnp.full((2,), 1.5), None

    run, plain = djax.jit(many), jax.jit(many)
    calls: list[tuple[Any, Any]] = [
        (jnp.ones(3), 2.0), (jnp.ones(4), 2), (jnp.ones(4), True), (jnp.ones(4), 1j), (np.arange(3), 2.0),
        (np.arange(3, dtype="i2"), 2), (np.arange(3.0), 2.0), (np.float64(2), np.int8(3)),
        (jnp.ones(2, "bfloat16"), 2.0),
    ]  # fmt: skip
    for args in calls:
        same(run(*args), plain(*args))
    # A weak argument's result is weak, which is a type of its own.
    assert run(jnp.asarray(2.0), 1.0)[0].weak_type


def test_settings_are_part_of_the_key() -> None:
    run = djax.jit(lambda x: x * 2.0 + jnp.arange(3))
    assert run(np.ones(3)).dtype == np.float32
    with jax.enable_x64(True):
        assert run(np.ones(3)).dtype == np.float64
    assert run(np.ones(3)).dtype == np.float32
    assert run.cache_info().compiles == 2


def test_static_arguments_keywords_and_defaults() -> None:
    def f(x: Any, k: int = 2, *, scale: Any = 1.0, mode: str = "a") -> Any:
        return x * k * scale if mode == "a" else x - k

    choices: tuple[dict[str, Any], ...] = (
        {"static_argnums": 1, "static_argnames": "mode"},
        {"static_argnames": ("k", "mode")},
    )
    for options in choices:
        run, plain = djax.jit(f, **options), jax.jit(f, **options)
        x = jnp.arange(3.0)
        for args, kwargs in [((x,), {}), ((x, 3), {}), ((x,), {"k": 3}), ((x, 3), {"mode": "b"}), ((x,), {"scale": x})]:
            same(run(*args, **kwargs), plain(*args, **kwargs))
    last = djax.jit(lambda x, k: x * k, static_argnums=-1)
    assert last(jnp.ones(2), 2).tolist() == [2, 2]
    assert last(jnp.ones(2), 2.5).tolist() == [2.5, 2.5]


def test_wrong_arguments() -> None:
    def f(x: Any, k: Any) -> Any:
        return x

    with pytest.raises(ArgumentError) as error:
        djax.jit(f)(jnp.ones(2), "text")
    assert str(error.value) == (
        "f(): k is a str, which is not an array.\n"
        "  help: pass an array or a number, or name the argument in static_argnames=."
    )
    wrong = {
        ">f4": "convert it with .astype('float32').",
        ">c8": "convert it with .astype('complex64').",
        "O": "convert it to a dtype of numbers.",
    }
    plain, ours = jax.jit(f), djax.jit(f)
    for dtype, remedy in wrong.items():
        for _ in range(2):
            array = np.ones(2).astype(dtype)
            with pytest.raises(TypeError):
                plain(jnp.ones(2), array)
            with pytest.raises(ArgumentError) as error:
                ours(jnp.ones(2), array)
            assert str(error.value) == (
                f"f(): k is a NumPy array of dtype {array.dtype}, which JAX does not have.\n  help: {remedy}"
            )
            ours(jnp.ones(2), np.ones(2, "f4"))  # the native entry knows that dtype now, and jax.jit takes both
    with pytest.raises(ArgumentError) as error:
        djax.jit(f, static_argnames="k")(jnp.ones(2), [])
    assert str(error.value) == (
        "f(): the static argument k is a list, which has no hash.\n"
        "  help: pass a tuple or another immutable value, or make the argument an array."
    )
    with pytest.raises(ArgumentError) as error:
        djax.jit(f, static_argnames="y")
    assert str(error.value) == "static_argnames: f has no argument 'y'.\n  help: it has x, k."
    with pytest.raises(ArgumentError) as error:
        djax.jit(f, shapes="a b")(jnp.ones(3), 1)
    assert str(error.value) == (
        "f(): x has 1 axis, and shapes= declares 'a b'.\n  help: pass an array of that rank, or change the declaration."
    )
    with pytest.raises(ShapeError) as shape:
        djax.jit(f, shapes="a, a")(jnp.ones(3), jnp.ones(4))
    assert str(shape.value) == (
        "f(): k.shape[0] is 4, and shapes= declares a, which is 3 here.\n"
        "  help: pass arrays whose shapes satisfy it, or change the declaration."
    )
    with pytest.raises(ShapeError) as shape:
        djax.jit(f, shapes="5")(jnp.ones(3), 1)
    assert str(shape.value) == (
        "f(): x.shape[0] is 3, and shapes= declares 5.\n"
        "  help: pass arrays whose shapes satisfy it, or change the declaration."
    )


def test_shapes_inside_of_containers() -> None:
    def loss(params: Any, batch: Any) -> Any:
        return jnp.mean((batch["x"] @ params["w"] - batch["y"]) ** 2)

    params = {"w": jnp.ones((3, 2))}
    run = djax.jit(loss, shapes={"batch": {"x": "b 3", "y": "b 2"}})
    other = djax.jit(loss)
    for n in SIZES:
        batch = {"x": jnp.ones((n, 3)), "y": jnp.ones((n, 2))}
        same(run(params, batch), loss(params, batch))
        same(other(params, batch), loss(params, batch))
    assert counts(run) == (1, 1)
    assert other.cache_info().compiles == 2  # the first size is a number, the second makes it a symbol
    every = djax.jit(lambda xs: [x * 2 for x in xs], shapes=["..."])
    assert [x.shape for x in every([jnp.ones(2), jnp.ones((3, 1))])] == [(2,), (3, 1)]
    every([jnp.ones(7), jnp.ones((1, 5))])
    assert counts(every) == (1, 1)
    pair = djax.jit(lambda t: t[0] + t[1], shapes=[("n 3", "n 3")])
    for n in SIZES:
        pair((jnp.ones((n, 3)), jnp.ones((n, 3))))
    assert counts(pair) == (1, 1)


def test_size_0_has_programs_of_its_own() -> None:
    run = djax.jit(lambda x: (x.sum(0), x * 2))
    for shape in [(3, 2), (0, 2), (0, 5), (4, 0), (0, 0), (7, 7)]:
        same(run(jnp.ones(shape)), (jnp.ones(shape).sum(0), jnp.ones(shape) * 2))
    assert counts(run) == (4, 4)  # none is 0, the first, the second, both


@jax.tree_util.register_dataclass
@dataclass
class Linear:
    """A module in the style of Equinox: a dataclass that is a tree."""

    w: Any
    b: Any

    @djax.jit
    def __call__(self, x: Any) -> Any:
        """A layer's value."""
        return x @ self.w + self.b


def test_modules_with_methods() -> None:
    layer = Linear(jnp.ones((3, 2)), jnp.arange(2.0))
    for n in SIZES:
        same(layer(jnp.ones((n, 3))), jnp.ones((n, 3)) @ layer.w + layer.b)
    assert Linear.__call__.__doc__ == "A layer's value."
    assert Linear.__call__.cache_info().compiles == 1

    class Plain:
        k = 3

        @functools.partial(djax.jit, static_argnums=0)
        def times(self, x: Any) -> Any:
            return x * self.k

    assert Plain().times(jnp.ones(2)).tolist() == [3, 3]


def test_200_leaves_and_an_optimizer() -> None:
    params = {f"layer{i}": {"w": jnp.eye(3) / 10, "b": jnp.zeros(3)} for i in range(100)}

    def forward(params: Any, x: Any) -> Any:
        for layer in params.values():
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return x

    def step(params: Any, momentum: Any, x: Any) -> Any:
        gradients = jax.grad(lambda p: jnp.mean(forward(p, x) ** 2))(params)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum

    few = dict(list(params.items())[:3])
    run = djax.jit(step)
    state: Any = (few, jax.tree.map(jnp.zeros_like, few))
    wanted = state
    for n in (1, 7, 64):
        x = jnp.ones((n, 3))
        state, wanted = run(*state, x), step(*wanted, x)
        same(state, wanted, 1e-4)
    assert run.cache_info().compiles == 1
    many = djax.jit(lambda p, x: x * sum([leaf.sum() for leaf in jax.tree.leaves(p)]))
    for n in (1, 7, 64):
        same(many(params, jnp.ones(n)), jnp.ones(n) * sum([leaf.sum() for leaf in jax.tree.leaves(params)]), 1e-4)
    assert counts(many) == (1, 1)


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return x * 2


clipped.defvjp(lambda x: (x * 2, x), lambda x, g: (jnp.clip(g, -1, 1) * x,))


@pytest.mark.parametrize(
    "function",
    [
        jax.grad(lambda x: jnp.sum(clipped(x) ** 2)),
        lambda x: jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, x),
        lambda x: jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        lambda x: jax.lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0.0),
        jax.vmap(lambda y: jnp.sin(y) * 2),
        lambda x: jnp.pad(x, ((0, -x.shape[0] % 8),)),
        lambda x: x * x.shape[0] / 3 + jnp.arange(x.shape[0]),
    ],
    ids=["custom_vjp", "scan", "while", "fori", "vmap", "pad", "size"],
)
def test_one_compile_for_all_sizes(function: Any) -> None:
    run = djax.jit(function)
    for n in SIZES:
        x = jnp.asarray(np.random.default_rng(n).standard_normal(n, np.float32))
        same(run(x), jax.jit(function)(x), 1e-4)
    assert counts(run) == (1, 1)


def test_random_keys() -> None:
    def noise(key: Any, x: Any) -> Any:
        key, used = jax.random.split(key)
        return key, jax.random.normal(used, x.shape) + x

    old, new = djax.jit(noise, shapes="2"), djax.jit(noise)
    for n in (1, 2, 7):
        x = jnp.ones(n)
        same(old(jax.random.PRNGKey(0), x), noise(jax.random.PRNGKey(0), x))
        actual, wanted = new(jax.random.key(0), x), noise(jax.random.key(0), x)
        same(actual, wanted)
        assert (jax.random.key_data(actual[0]) == jax.random.key_data(wanted[0])).all()
    assert (counts(old), counts(new)) == ((1, 1), (1, 1))


def test_under_transformations_of_jax() -> None:
    run = djax.jit(lambda x: jnp.sum(x**3))
    x = jnp.arange(3.0)
    same(jax.grad(run)(x), 3 * x**2)
    same(jax.vmap(run)(jnp.ones((4, 3))), jnp.array([3.0] * 4))
    same(jax.jit(lambda x: run(x) + run(jnp.ones(3)))(x), run(x) + 3)
    with jax.disable_jit():
        same(run(x), jnp.sum(x**3))
    # Over arrays that another trace has.
    same(jax.jit(lambda y: djax.jit(lambda x: x + y)(jnp.ones(3)))(x), 1 + x)


def test_memory_is_shared_both_ways() -> None:
    seen: list[int] = []
    run = djax.jit(lambda x: x + 1)
    x = jnp.ones((512, 512))
    run(x)  # calls after the first go through the native entry, whose results start at multiples of 64 bytes
    program = run.programs[0]
    inner = program.run

    def spy(*arrays: Any) -> Any:
        result = inner(*arrays)
        seen.extend([arrays[0].__array_interface__["data"][0], result.__array_interface__["data"][0]])
        return result

    spy.version_of = inner.version_of  # pyright: ignore[reportFunctionMemberAccess]  # functions take attributes
    program.run = spy
    try:
        result = run._call_slow(x)
    finally:
        program.run = inner
    assert seen == [x.unsafe_buffer_pointer(), result.unsafe_buffer_pointer()]
    other = run(x * 5)  # by the native entry
    assert other.unsafe_buffer_pointer() % 64 == 0
    assert other.unsafe_buffer_pointer() != result.unsafe_buffer_pointer()
    assert float(result[0, 0]) == 2  # nobody has written to it
    del x
    assert float(result.sum()) == 2 * 512 * 512


def test_donated_arrays_are_given_back() -> None:
    run = djax.jit(lambda p, x: {"w": p["w"] - x}, donate_argnums=0)
    params = {"w": jnp.ones(3)}
    x = jnp.ones(3)
    result = run(params, x)
    assert params["w"].is_deleted()
    assert not x.is_deleted()
    assert result["w"].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="deleted"):
        run(params, x)
    by_name = djax.jit(lambda p: p + 1, donate_argnames="p")
    assert by_name(np.ones(2)).tolist() == [2, 2]


def test_threads_and_recursion() -> None:
    run = djax.jit(lambda x: jnp.tanh(x) * 2)
    results = in_threads(run, [jnp.ones(n) for n in range(1, 9)])
    assert [r.shape for r in results] == [(n,) for n in range(1, 9)]
    # No lock is held while JAX traces: each thread may, and the first program is everybody's.
    assert run.cache_info().compiles == 1
    assert 1 <= run.cache_info().traces <= 8

    @djax.jit
    def halved(x: Any, k: Any) -> Any:
        return run(x) / k

    assert halved(jnp.zeros(3), 2.0).tolist() == [0, 0, 0]


def test_calls_of_other_forms() -> None:
    assert djax.jit(lambda: jnp.ones(3))().tolist() == [1, 1, 1]
    assert djax.jit(lambda x: None)(jnp.ones(2)) is None
    captured = jnp.arange(12.0).reshape(3, 4)
    same(
        djax.jit(lambda x: {"a": [x @ captured, x]})(jnp.ones((2, 3))),
        {"a": [jnp.ones((2, 3)) @ captured, jnp.ones((2, 3))]},
    )
    several = djax.jit(lambda x, *a, **kw: x + sum(a) + sum(kw.values()))
    assert several(jnp.ones(2), 1.0, 2.0, z=3.0).tolist() == [7, 7]
    # Derivatives of integers have no elements.
    nothing = djax.jit(jax.grad(lambda x: 0.0 * x.sum().astype(float), allow_int=True))
    assert [nothing(jnp.arange(n)).shape for n in (3, 5)] == [(3,), (5,)]
    keys = djax.jit(jax.vmap(jax.random.uniform))
    for n in (3, 5):
        same(
            keys(jax.random.split(jax.random.key(0), n)),
            jax.vmap(jax.random.uniform)(jax.random.split(jax.random.key(0), n)),
        )
    assert (counts(nothing), counts(keys)) == ((1, 1), (1, 1))
    with pytest.raises(ArgumentError) as error:
        keys(jax.ShapeDtypeStruct((3,), jax.random.key(0).dtype))
    assert str(error.value) == (
        "uniform() was called with a ShapeDtypeStruct, which has no elements.\n"
        "  help: pass arrays, or use .trace(...) and .eval_shape(...)."
    )


def test_stages() -> None:
    def f(x: Any, p: Any) -> Any:
        return x * p["w"]

    run = djax.jit(f, shapes="n 3")
    struct = jax.ShapeDtypeStruct((5, 3), jnp.float32)
    traced = run.trace(struct, {"w": jnp.ones(3)})
    assert traced.as_text().startswith('func @f(%x: f32[n, 3] "x", %p_w: f32[3] "p_w")')
    assert "multiply" in run.lower(struct, {"w": jnp.ones(3)}).as_text("dhlo")
    assert run.eval_shape(struct, {"w": jnp.ones(3)}).shape == (5, 3)
    run(jnp.ones((2, 3)), {"w": jnp.ones(3)})
    assert counts(run) == (1, 1)
    run.clear_cache()
    assert counts(run) == (0, 0)
    assert repr(run) == "dyn.interop.jax.jit(f)"


def _useless_for_symbols(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[int]:
    """Have dyn compile no module with symbolic sizes, as one with an operation that it has not."""
    from dyn.interop.jax import traced_program

    function_of, tried = traced_program.function_of, list[int]()

    def refusing(module: Any, **options: Any) -> Any:
        run = function_of(module, **options)
        if all(isinstance(n, int) for value in module.functions["main"].body.params for n in value.shape):
            return run

        def bad(*arrays: Any) -> Any:
            tried.append(1)
            time.sleep(0.05)
            raise error

        return dyn.jit(bad)

    monkeypatch.setattr(traced_program, "function_of", refusing)
    return tried


@pytest.mark.parametrize("error", [NotYetError("symbols."), TraceError("symbols.")], ids=lambda one: type(one).__name__)
def test_what_is_not_compiled_for_symbols_is_for_sizes(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    tried = _useless_for_symbols(monkeypatch, error)
    run = djax.jit(lambda x: x * 2 + 1)
    for n in (3, 5, 3):
        np.testing.assert_array_equal(run(jnp.ones(n)), np.full(n, 3.0))
    assert (run.cache_info().compiles, len(run.programs), len(tried)) == (2, 2, 1)  # what the first has learnt
    other = djax.jit(lambda x: x * 3)
    other.prepare([jnp.ones(4)])
    assert other(jnp.ones(4)).tolist() == [3] * 4
    assert other.cache_info().compiles == 1


def test_threads_whose_sizes_need_programs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    _useless_for_symbols(monkeypatch, TraceError("symbols."))
    run, found, barrier = djax.jit(lambda x: x + 1), dict[int, Any](), threading.Barrier(4)

    def call(n: int) -> None:
        barrier.wait()
        try:
            found[n] = run(jnp.ones(n)).tolist()
        except Exception as error:
            found[n] = error

    threads = [threading.Thread(target=call, args=(n,)) for n in (3, 4, 5, 6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == {n: [2.0] * n for n in (3, 4, 5, 6)}
    assert run.cache_info().compiles == 4


def test_a_warning_that_is_an_error_leaves_donated_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    run = djax.jit(lambda x, n: x * n, static_argnums=1, donate_argnums=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(7):
            run(jnp.ones(3), n)
        x = jnp.ones(3)
        with pytest.raises(dyn.RecompileWarning):
            run(x, 7)
    assert not x.is_deleted()


def test_dyns_own_structs_stand_for_arrays() -> None:
    run = djax.jit(lambda x: x + 1)
    run.prepare([dyn.ShapeDtypeStruct((3,), "float32")])
    assert run(jnp.ones(5)).tolist() == [2] * 5
    assert run.cache_info().compiles == 1


def _product(x: Any, y: Any) -> Any:
    return x @ y


A, B = np.ones((2, 3), "f4"), np.ones((4, 5), "f4")
FAILING: dict[str, Callable[[], Any]] = {
    "a call": lambda: djax.jit(_product)(A, B),
    "another call": lambda: _known()(A, B),
    "a stage": lambda: djax.jit(_product).trace(A, B),
    "shapes of results": lambda: djax.jit(_product).eval_shape(A, B),
    "a derivative inside": lambda: djax.jit(jax.grad(lambda x: _product(x, x).sum()))(A),
    "a derivative of it": lambda: jax.grad(lambda x: djax.jit(_product)(x, x).sum())(A),
    "a loop": lambda: djax.jit(lambda x: jax.lax.map(lambda row: _product(row, x[:1]), x))(A),
    "a function of dyn's": lambda: djax.call(_product)(A, B),
    "a compiled stage": lambda: djax.jit(_product).lower(A, A.T).compile()(A, B),
}


def _known() -> Any:
    run = djax.jit(_product)
    run(A, A.T)
    return run


@pytest.mark.parametrize("name", FAILING)
def test_tracebacks_end_in_the_users_code(name: str) -> None:
    """Frames of dyn's are left out of JAX's errors too, whether a trace has put dyn's functions into JAX or not."""
    for _ in range(2):
        with pytest.raises((TypeError, ShapeError)) as caught:
            FAILING[name]()
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert {frame.filename for frame in frames} == {__file__}
        if isinstance(caught.value, TypeError):
            problem = "dot_general requires contracting dimensions to have the same shape, got (3,) and "
            assert str(caught.value).startswith(problem)
            assert frames[-1].line == "return x @ y"
        djax.jit(jnp.negative)(A)


def test_faults_of_dyns_that_jax_raises_keep_their_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JaxTracing, "run", functools.partial(jnp.matmul, jnp.ones(3)))
    with pytest.raises(TypeError) as caught:
        djax.jit(_product)(A, A.T)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert any(file.endswith("dyn/interop/jax/jit.py") for file in files)
