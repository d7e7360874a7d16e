"""Functions of dyn in JAX programs: alike with JAX's own under every transformation, one compile for all sizes."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, DynError, NotYetError, ShapeError, TraceError, UnsupportedOpError

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from dyn.interop.jax import call  # noqa: E402
from tests.interop.counting import counts  # noqa: E402

SIZES = (0, 1, 2, 7, 64, 1000)


def layer(np: Any) -> Any:
    """A function in dyn's NumPy, or in JAX's."""

    def f(x: Any, p: Any) -> Any:
        y = np.tanh(x @ p["w"] + p["b"])
        return {"y": y, "best": np.argmax(y, axis=-1), "all": (y * y).sum()}

    return f


def loss(f: Any) -> Any:
    def of_all(x: Any, p: Any) -> Any:
        made = f(x, p)
        return made["all"] + jnp.sum(jnp.sin(made["y"]))

    return of_all


def data(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((n, 4), np.float32), rng.standard_normal((4, 3), np.float32)
    return jnp.asarray(x), {"w": jnp.asarray(w), "b": jnp.arange(3.0)}


def close(actual: Any, wanted: Any) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(wanted)
    for a, w in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
        assert isinstance(a, jax.Array)
        assert (a.dtype, a.shape) == (w.dtype, w.shape)
        np.testing.assert_allclose(a, w, 2e-4, 1e-5)


OURS, THEIRS = call(layer(dnp)), layer(jnp)


TRANSFORMS = {
    "alone": lambda f: f,
    "jit": jax.jit,
    "grad": lambda f: jax.grad(loss(f), (0, 1)),
    "jit value_and_grad": lambda f: jax.jit(jax.value_and_grad(loss(f), (0, 1))),
    "jvp": lambda f: lambda x, p: jax.jvp(loss(f), (x, p), (x, p)),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(loss(f))),
    "vmap": lambda f: lambda x, p: jax.vmap(f, (0, None))(x[:, None], p),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_as_in_jax_with_one_compile_for_all_sizes(name: str) -> None:
    ours, theirs = TRANSFORMS[name](OURS), jax.jit(TRANSFORMS[name](THEIRS))
    close(ours(*data(2)), theirs(*data(2)))
    before = counts(OURS)
    for n in SIZES if name in ("alone", "jit value_and_grad") else (0, 1, 7):
        if n or name != "vmap":  # JAX has no vmap of no examples
            close(ours(*data(n)), theirs(*data(n)))
    assert counts(OURS) == before


SECOND = [jax.hessian, lambda f: jax.jacrev(jax.jacrev(f)), lambda f: jax.jacrev(jax.jacfwd(f))]


@pytest.mark.parametrize("second", SECOND)
def test_second_derivatives(second: Any) -> None:
    def curve(np: Any) -> Any:
        return lambda x, y: np.sin(x) * x * y

    x, y = jnp.arange(1.0, 4.0), jnp.ones(3)
    ours = call(curve(dnp))
    close(second(lambda x: ours(x, y).sum())(x), second(lambda x: curve(jnp)(x, y).sum())(x))


def test_transformations_in_each_other() -> None:
    def of(f: Any) -> Any:
        per_example = jax.vmap(jax.grad(lambda x, p: loss(f)(x[None], p), (0, 1)), (0, None))
        return jax.jit(per_example)

    for n in (1, 5):
        close(of(OURS)(*data(n)), of(THEIRS)(*data(n)))

    def scanned(np: Any) -> Any:
        step = call(lambda c, x: np.sin(c) * x) if np is dnp else lambda c, x: np.sin(c) * x
        return jax.jit(jax.grad(lambda c, xs: jax.lax.scan(lambda c, x: (step(c, x), c), c, xs)[0].sum()))

    xs = jnp.arange(12.0).reshape(4, 3)
    close(scanned(dnp)(xs[0], xs), scanned(jnp)(xs[0], xs))


def test_vmap_is_one_program_with_the_axes_where_they_are() -> None:
    outer = call(lambda a, b: a[:, None] - b)
    a, b = jnp.arange(6.0).reshape(2, 3), jnp.arange(4.0)
    made = jax.vmap(outer, (1, None), 2)(a, b)
    np.testing.assert_array_equal(made, np.stack([np.asarray(a)[:, i, None] - np.asarray(b) for i in range(3)], 2))
    twice = jax.vmap(jax.vmap(outer, (None, 0)), (0, None))(a, jnp.ones((5, 4)))
    assert twice.shape == (2, 5, 3, 4)
    assert counts(outer) == (4, 2)  # the function and one vmap were traced on the way, and not compiled


def test_linear_functions_are_transposed() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    (made,) = jax.linear_transpose(call(lambda x: dnp.cumsum(3 * x, axis=1)), x)(x)
    np.testing.assert_array_equal(made, 3 * np.cumsum(np.asarray(x)[:, ::-1], 1)[:, ::-1])
    result, push = jax.linearize(OURS, *data(2))
    close(push(*data(2))["y"], jax.linearize(THEIRS, *data(2))[1](*data(2))["y"])
    assert result["best"].dtype == jnp.int32


def test_python_branches_on_sizes() -> None:
    branching = call(lambda x: x * 2 if x.shape[0] > 3 else x * x)
    for f in (branching, jax.jit(branching)):
        assert [float(f(jnp.full(n, 3.0))[0]) for n in (2, 5, 3, 7)] == [9, 6, 9, 6]
    gradient = jax.jit(jax.grad(lambda x: jax.jit(branching)(x).sum()))
    assert [float(gradient(jnp.full(n, 3.0))[0]) for n in (2, 5, 3, 7)] == [6, 2, 6, 2]
    assert counts(branching) == (6, 6)


def test_trees_arguments_and_results() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        x: Any
        step: Any

    @dyn.jit(static_argnames="mode")
    def advance(state: State, *more: Any, mode: str = "up", scale: Any = 1) -> Any:
        sign = 1 if mode == "up" else -1
        return State(state.x + sign * scale * sum(more), state.step + 1), (None, [more[0]])

    run = jax.jit(call(advance), static_argnames="mode")
    state, (nothing, (same,)) = run(State(jnp.ones(3), 1), jnp.arange(3.0), 2.0, mode="down", scale=2)
    assert isinstance(state, State)
    assert nothing is None
    assert state.x.tolist() == [-3, -5, -7]
    assert (state.step, state.step.dtype) == (2, jnp.int32)
    assert same.tolist() == [0, 1, 2]
    leaves = {f"k{i}": jnp.full((i % 3,), float(i)) for i in range(200)}
    doubled = jax.jit(call(lambda tree: {k: 2 * v for k, v in tree.items()}))(leaves)
    close(doubled, {k: 2 * v for k, v in leaves.items()})


def test_numbers_dtypes_and_layouts() -> None:
    add = call(lambda a, b: a + b)
    assert add(jnp.ones(2, jnp.bfloat16), 2.0).dtype == jnp.bfloat16
    assert add(3, 2).dtype == jnp.int32
    assert add(np.ones(2), np.arange(2)).dtype == jnp.float32
    assert jax.jit(add)(True, jnp.ones((), bool)).dtype == jnp.bool_
    assert jax.jit(call(lambda: dnp.arange(3)))().dtype == jnp.int32
    x = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(
        jax.jit(lambda x: add(x.T, jnp.flip(x.T)))(x), np.asarray(x.T) + np.asarray(x.T)[::-1, ::-1]
    )
    z, ct = jnp.asarray([1 + 2j]), jnp.asarray([3 - 1j])
    for start in (z, 1 + 2j):
        square = call(lambda z: z * z * 1j)
        given = ct if start is z else ct[0]
        close(jax.vjp(square, start)[1](given), jax.vjp(lambda z: z * z * 1j, start)[1](given))


def test_special_values_and_that_nothing_is_shared() -> None:
    x = jnp.asarray([np.nan, np.inf, -np.inf, -0.0])
    same = call(lambda x: (x, x))
    for f in (same, jax.jit(same)):
        a, b = f(x)
        np.testing.assert_array_equal(a, x)
        assert np.signbit(np.asarray(a)[3])
        assert len({array.unsafe_buffer_pointer() for array in (x, a, b)}) == 3
    donated = jax.jit(call(lambda x: x + 1), donate_argnums=0)
    big = jnp.zeros(1 << 16)
    for _ in range(3):
        big = donated(big)
    assert float(big.sum()) == 3 << 16


def test_64_bits() -> None:
    wide = call(lambda x: (dnp.sum(x.astype(dnp.int64)), x.astype(dnp.float64) * 2))
    smooth = call(lambda x: dnp.exp(dnp.sin(x.astype(dnp.float64))).astype(dnp.float32))

    def theirs(x: Any) -> Any:
        return jnp.exp(jnp.sin(x))

    x = jnp.asarray([0.5, 2.0], jnp.float32)
    assert [r.dtype for r in jax.jit(wide)(x)] == [jnp.int32, jnp.float32]
    # What is kept for the derivative has 64 bits, which JAX cannot hold: it is computed again.
    close(jax.hessian(lambda x: smooth(x).sum())(x), jax.hessian(lambda x: theirs(x).sum())(x))
    close(jax.jvp(smooth, (x,), (x,)), jax.jvp(theirs, (x,), (x,)))
    with jax.enable_x64(True):
        assert [r.dtype for r in jax.jit(wide)(x)] == [jnp.int64, jnp.float64]
        assert [r.dtype for r in wide(x)] == [jnp.int64, jnp.float64]
        close(jax.grad(lambda x: smooth(x).sum())(x), jax.grad(lambda x: theirs(x).sum())(x))
    assert [r.dtype for r in wide(x)] == [jnp.int32, jnp.float32]


def test_derivatives_of_ones_own() -> None:
    @dyn.custom_vjp
    def bent(x: Any) -> Any:
        return dnp.sin(x)

    bent.defvjp(lambda x: (dnp.sin(x), x), lambda x, ct: (5 * x * ct,))
    ours, x = call(bent), jnp.arange(3.0)
    assert jax.jit(jax.grad(lambda x: ours(x).sum()))(x).tolist() == [0, 5, 10]
    with pytest.raises(UnsupportedOpError) as info:
        jax.jvp(ours, (x,), (x,))
    assert info.value.problem == (
        "bent has a derivative of its own that goes backward (dyn.custom_vjp), and forward it has none."
    )
    assert info.value.loc is not None
    assert info.value.loc.file == __file__


def test_sizes_that_depend_on_values() -> None:
    places = call(lambda x: dnp.nonzero(x)[0])
    assert places(jnp.asarray([0, 3, 0, 4])).tolist() == [1, 3]
    with pytest.raises(NotYetError) as info:
        jax.jit(places)(jnp.arange(3))
    assert info.value.problem == (
        "lambda: result[0] has the size count, which depends on values, and under jax.jit and its like sizes are known "
        "before values are."
    )
    assert (
        info.value.remedy
        == "make the call outside of JAX's transformations, or return an array of a size that is known."
    )


def test_the_function_is_traced_once_wherever_it_is_called_from() -> None:
    traces: list[int] = []

    def f(x: Any) -> Any:
        traces.append(1)
        return x * 2

    for n in (1, 2, 3):
        assert jax.jit(lambda x: call(f)(x).sum())(jnp.ones(n)) == 2 * n
    assert len(traces) == 1
    assert call(call(f)) is call(f)


def test_many_threads() -> None:
    run = jax.jit(call(lambda x: dnp.cumsum(x * 2, axis=0)))
    inputs = [jnp.arange(float(n)) for n in range(1, 9)]
    with ThreadPoolExecutor(4) as pool:
        for x, made in zip(inputs * 4, pool.map(run, inputs * 4), strict=True):
            np.testing.assert_allclose(made, np.cumsum(2 * np.asarray(x)))


def test_export_with_symbolic_sizes() -> None:
    b, k = jax.export.symbolic_shape("b, k")
    spec = jax.ShapeDtypeStruct((b, k), jnp.float32), jax.ShapeDtypeStruct((k, 3), jnp.float32)
    ours = call(lambda x, w: dnp.tanh(x @ w))
    assert jax.eval_shape(ours, *spec).shape == (b, 3)
    once = jax.export.deserialize(jax.export.export(jax.jit(ours))(*spec).serialize())
    for n in (1, 2, 5):
        x, p = data(n)
        close(once.call(x, p["w"]), jnp.tanh(x @ p["w"]))


def _refused(kind: type[DynError], run: Any, problem: str, remedy: str) -> None:
    with pytest.raises(kind) as info:
        run()
    assert (info.value.problem, info.value.remedy) == (problem, remedy)


def test_refusals() -> None:
    x = jnp.ones(3)
    not_a_function: Any = 3
    _refused(
        ArgumentError, lambda: call(not_a_function), "call takes a function, not a int.",
        "write call(f)(x), not call(f(x)).",
    )  # fmt: skip
    add = call(lambda a, b: a + b)
    for run in (add, jax.jit(add)):
        _refused(
            ShapeError, lambda run=run: run(x, jnp.ones(4)),
            "a_0 broadcasts with b_0 is required, but a_0 is 3 and b_0 is 4: a + b broadcasts axis 0.",
            "pass arguments whose shapes satisfy it.",
        )  # fmt: skip
    _refused(
        ArgumentError, lambda: add(x, "sum"), "<lambda>(): b is a str, which is not an array.",
        "pass an array or a number, or name the argument in call(f, static_argnames=...).",
    )  # fmt: skip
    _refused(
        UnsupportedOpError, lambda: add(jax.random.key(0), 1), "a JAX array of dtype key<fry>, which is not a number.",
        "pass jax.random.key_data(x), or draw the numbers before the call.",
    )  # fmt: skip
    _refused(
        UnsupportedOpError, lambda: jax.jit(lambda y: call(lambda x: x * y)(x))(x),
        "a JAX tracer: inside of jax.jit and its like there are no elements to compute with.",
        "call the function as dyn.interop.jax.call(f)(x), or outside of the JAX transformation.",
    )  # fmt: skip
    _refused(
        TraceError, lambda: call(lambda x: "a")(x), "<lambda> returns a str (result[0]), which is not an array.",
        "return arrays, numbers, or trees (tuples, lists, dicts) of them.",
    )  # fmt: skip
