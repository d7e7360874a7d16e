"""JAX's callbacks in functions that dyn compiles once for every shape."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dyn.errors import ExternalError, UnsupportedOpError
from dyn.interop.jax import jit
from tests.interop.counting import counts

jax = pytest.importorskip("jax")
jnp = jax.numpy
lax = jax.lax
Array = Any


def ones(*shape: int) -> Array:
    return jnp.ones(shape, "float32")


def like(x: Array) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@pytest.mark.parametrize("ordered", [False, True])
def test_debugging(ordered: bool, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []

    def f(x: Array) -> Array:
        jax.debug.print("{x} of {}", x.shape[0], x=x, ordered=ordered)
        jax.debug.callback(seen.append, x * 2, ordered=ordered)

        def body(carry: Array, row: Array) -> Any:
            jax.debug.print("step {}", carry, ordered=ordered)
            return carry + row, None

        total, _ = lax.scan(body, 0.0, x)
        lax.cond(total > 2, lambda: jax.debug.print("large", ordered=ordered), lambda: None)
        return lax.fori_loop(0, 2, lambda i, s: (jax.debug.print("{}", i, ordered=ordered), s + 1)[1], total)

    mine = jit(f)
    for n in (2, 3, 5):
        assert mine(ones(n)) == n + 2
        steps = [f"step {i}.0" for i in range(n)]
        printed = [f"[{' '.join(['1.'] * n)}] of {n}", *steps, *(["large"] if n > 2 else []), "0", "1"]
        assert capsys.readouterr().out.splitlines() == printed
    assert [type(a) for a in seen] == [jax.Array] * 3 or all(isinstance(a, jax.Array) for a in seen)
    assert [a.tolist() for a in seen] == [[2] * n for n in (2, 3, 5)]
    assert counts(mine) == (1, 1)


def test_results() -> None:
    def f(x: Array) -> Any:
        pair = jax.pure_callback(
            lambda a: {"twice": np.stack([a, a], 1), "sum": np.float32(a.sum())},
            {"twice": jax.ShapeDtypeStruct((x.shape[0], 2), x.dtype), "sum": jax.ShapeDtypeStruct((), x.dtype)},
            x + 1,
        )
        size = jax.experimental.io_callback(lambda a: np.int32(a.size), jax.ShapeDtypeStruct((), jnp.int32), x)
        return pair, size

    mine = jit(f)
    for n in (1, 2, 7):
        theirs, made = f(ones(n)), mine(ones(n))
        assert jax.tree.structure(made) == jax.tree.structure(theirs)
        for a, b in zip(jax.tree.leaves(made), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
    assert counts(mine) == (1, 1)


def test_transformations_by_jax(capsys: pytest.CaptureFixture[str]) -> None:
    def looked_at(x: Array) -> Array:
        jax.debug.print("{}", x)
        return jnp.sum(x * x)

    np.testing.assert_array_equal(jit(jax.grad(looked_at))(ones(2)), [2, 2])
    assert capsys.readouterr().out == "[1. 1.]\n"
    for method in ("sequential", "expand_dims", "broadcast_all"):

        def one(row: Array, method: Any = method) -> Array:
            return jax.pure_callback(np.sin, like(row), row, vmap_method=method)

        made = jit(jax.vmap(one))(ones(4, 2))
        np.testing.assert_allclose(made, np.sin(np.ones((4, 2))), rtol=1e-6)


def test_programs_are_read_again_and_again() -> None:
    seen: list[float] = []

    def f(x: Array) -> Array:
        jax.debug.callback(lambda a: seen.append(float(a)), jnp.sum(x))
        return x

    mine = jit(f)
    mine(ones(2))
    mine(jnp.ones(3, jnp.int32))
    mine.lower(ones(4)).compile()(np.ones(4, np.float32))
    assert seen == [2, 3, 4]


def raising(a: Array) -> Array:
    raise ZeroDivisionError("by the callback")


def test_errors() -> None:
    with pytest.raises(ZeroDivisionError, match="by the callback"):
        jit(lambda x: jax.pure_callback(raising, like(x), x))(ones(3))
    wrong: dict[str, Callable[[Array], Any]] = {
        "result 0 is float32[2], and float32[3] was declared.": lambda a: a[:2],
        "result 0 is float64[3], and float32[3] was declared.": lambda a: np.ones(3),
    }
    for text, made in wrong.items():
        with pytest.raises(ExternalError) as caught:
            jit(lambda x, made=made: jax.pure_callback(made, like(x), x))(ones(3))
        lines = str(caught.value).splitlines()
        assert lines[0] == f"pure_callback of <lambda>: {text}"
        assert lines[1].startswith("  at test_jax_callbacks.py:")
        assert lines[2] == "  help: return what result_shape_dtypes declares, or declare what it returns."
    with pytest.raises(ExternalError, match="returned 2 arrays, and 1 were declared"):
        jit(lambda x: jax.pure_callback(lambda a: (a, a), like(x), x))(ones(3))
    with pytest.raises(UnsupportedOpError) as caught:
        jit(lambda x: jax.ffi.ffi_call("some_target", like(x))(x))(ones(3))
    lines = str(caught.value).splitlines()
    assert lines[0] == "the custom call 'some_target' of (f32[3]) has no meaning in this version."
    assert lines[2] == (
        "  help: give it one: dyn.interop.stablehlo.register_custom_call(name, impl), where impl may be a dyn.ffi_call."
    )


def test_modules_of_other_processes() -> None:
    from dyn.interop import stablehlo

    text = """
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      stablehlo.custom_call @dyn.external(%x) {backend_config = {number = 0 : i64}, api_version = 4 : i32,
        has_side_effect = true} : (tensor<3xf32>) -> () loc("model.py":7:0)
      return %x : tensor<3xf32>
    }
    """
    with pytest.raises(UnsupportedOpError) as caught:
        stablehlo.load(text)(np.ones(3, np.float32))
    assert str(caught.value) == (
        "the custom call 'dyn.external' of (f32[3]) calls a Python function that did not come with it.\n"
        "  at model.py:7\n"
        "  help: export the program without callbacks."
    )


def test_modules_call_only_what_they_brought() -> None:
    """Neither a loaded module nor one that a traced function calls reaches the callbacks of other programs."""
    from dyn.interop import stablehlo
    from dyn.interop.jax.traced_program import JaxProgram

    seen: list[Any] = []
    other = jit(lambda x: jax.pure_callback(lambda a: (seen.append(a), a)[1], like(x), x))
    other(ones(3))
    assert len(seen) == 1
    numbers = [f.number for p in gc.get_objects() if isinstance(p, JaxProgram) for f in p.imported]
    assert len(numbers) >= 1
    for number in [*range(4), *numbers]:
        text = _EXTERNAL.replace("NUMBER", str(number))
        with pytest.raises(UnsupportedOpError, match="calls a Python function that did not come with it"):
            stablehlo.load(text)(np.ones(3, np.float32))

    exported = jax.export.export(jax.jit(lambda x: x + 1))(like(ones(3)))
    hostile = replace(exported, mlir_module_serialized=_bytecode(_EXTERNAL.replace("NUMBER", str(numbers[-1]))))

    def calls_it(x: Array) -> Array:
        return hostile.call(jax.pure_callback(lambda a: a, like(x), x))

    with pytest.raises(UnsupportedOpError, match="calls a Python function that did not come with it"):
        jit(calls_it)(ones(3))
    assert len(seen) == 1


_EXTERNAL = """
module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %y = stablehlo.custom_call @dyn.external(%x) {backend_config = {number = NUMBER : i64}, api_version = 4 : i32}
      : (tensor<3xf32>) -> tensor<3xf32>
    return %y : tensor<3xf32>
  }
}
"""


def _bytecode(text: str) -> bytes:
    from dyn.interop.stablehlo.mlir.context import bindings
    from dyn.interop.stablehlo.mlir.forms import portable_artifact

    m = bindings()
    context = m.context()
    with context:
        return portable_artifact(m.ir.Module.parse(text, context), str(m.stablehlo.get_current_version()))


def test_a_native_function_for_a_target() -> None:
    import dyn
    from dyn.interop import stablehlo
    from tests.call.test_ffi_call import plus_one

    stablehlo.register_custom_call("test.plus_one", lambda x, *shapes, **_: dyn.ffi_call(plus_one, x)(x))
    mine = jit(lambda x: jax.ffi.ffi_call("test.plus_one", like(x))(x) * 2)
    np.testing.assert_array_equal(mine(ones(3)), [4, 4, 4])
