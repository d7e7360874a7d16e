"""Programs that others made: by JAX, with symbolic sizes, and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArtifactError, ShapeError, UnsupportedOpError
from dyn.interop.stablehlo import dump, load, register_custom_call

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402


def exported_by_jax(fn: Any, *shapes: str, dtype: Any = np.float32) -> Any:
    scope = export.SymbolicScope()
    args = [jax.ShapeDtypeStruct(export.symbolic_shape(s, scope=scope), dtype) for s in shapes]
    return export.export(jax.jit(fn))(*args)


def attention(x: Any, w: Any) -> Any:
    q = x @ w
    scores = jax.nn.softmax(q @ jnp.swapaxes(q, -1, -2) / 8.0)
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    return (jnp.where(mask, scores, 0.0) @ q).reshape(-1, w.shape[1]), jnp.cumsum(x, axis=1)


def shapes_of(x: Any, y: Any) -> Any:
    b, s = x.shape
    return (
        x.reshape(b * s)[:: 2],
        jnp.concatenate([x, x], 1).reshape(2 * b, -1),
        x[: (b + 1) // 2, 1:],
        jnp.pad(x, ((1, 0), (0, 2))),
        jnp.take(y, jnp.arange(b) % 4, axis=0),
        lax.dynamic_slice(x, (jnp.argmax(x[0]), 0), (b - 1, s)),
        jnp.broadcast_to(x[:, None], (b, 3, s)),
        lax.fori_loop(0, b, lambda i, c: c + x[i].sum() * s, jnp.float32(0)),
        jnp.arange(s) * b,
    )  # fmt: skip


CASES = {
    "attention": (
        attention, ("b, s, 16", "16, n"), [((2, 3, 16), (16, 8)), ((1, 1, 16), (16, 1)), ((5, 64, 16), (16, 7))],
    ),
    "shapes": (shapes_of, ("b, s", "s, b"), [((3, 4), (4, 3)), ((1, 1), (1, 1)), ((7, 64), (64, 7))]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_jax_exports_runs_at_every_shape(case: str) -> None:
    fn, shapes, calls = CASES[case]
    loaded = load(exported_by_jax(fn, *shapes).mlir_module_serialized)
    rng = np.random.default_rng(0)
    for sizes in calls:
        args = [rng.standard_normal(s, np.float32) for s in sizes]
        for actual, wanted in zip(loaded(*args), jax.jit(fn)(*args), strict=True):
            assert actual.dtype == wanted.dtype
            np.testing.assert_allclose(actual, wanted, 2e-5, 1e-5)
    assert loaded.cache_info().compiles == 1


def test_sizes_have_their_names_again() -> None:
    loaded = load(exported_by_jax(shapes_of, "b, s", "s, b").mlir_module())
    function = loaded.trace(np.ones((3, 4), np.float32), np.ones((4, 3), np.float32)).function
    texts = [", ".join(map(str, v.shape)) for v in function.results]
    assert texts == [
        "floordiv(b*s + 1, 2)", "2*b, s", "floordiv(b + 1, 2), s - 1", "b + 1, s + 2", "b, b", "b - 1, s", "b, 3, s",
        "", "s",
    ]  # fmt: skip


def test_what_jax_asserts_is_checked() -> None:
    loaded = load(exported_by_jax(lambda x, y: x + y.sum(), "b, s", "2*b, s").mlir_module_serialized)
    assert loaded(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)).shape == (2, 3)
    with pytest.raises(ShapeError, match="Found inconsistency between dimension size"):
        loaded(np.ones((2, 3), np.float32), np.ones((5, 3), np.float32))
    with pytest.raises(ShapeError, match="Expected value >= 1 for dimension variable"):
        loaded(np.ones((0, 3), np.float32), np.ones((0, 3), np.float32))


def test_what_jax_was_told_of_sizes_is_checked() -> None:
    m = export.symbolic_shape("m", constraints=["m >= 4"])
    loaded = load(export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct(m, np.float32)).mlir_module_serialized)
    with pytest.raises(ShapeError) as refused:
        loaded(np.ones(3, np.float32))
    assert str(refused.value) == (
        "m - 4 >= 0 is required, but m - 4 is -1 (m is 3): Input shapes do not match the symbolic shape constraint "
        "m >= 4. Expected 'm - 4' to be greater or equal to 0.\n"
        "  m is arg0.shape[0] = 3\n"
        "  help: pass arguments whose shapes satisfy it."
    )


def test_loaded_functions_are_traced_differentiated_and_batched() -> None:
    loaded = load(exported_by_jax(lambda x: jnp.tanh(x) * x.shape[0], "b, s").mlir_module())

    def loss(x: Any) -> Any:
        return dnp.sum(loaded(x) ** 2)

    x = np.random.default_rng(0).standard_normal((3, 5), np.float32)
    np.testing.assert_allclose(dyn.jit(dyn.grad(loss))(x), jax.grad(lambda x: jnp.sum((jnp.tanh(x) * 3) ** 2))(x), 1e-5)
    np.testing.assert_allclose(dyn.vmap(loaded)(np.stack([x, x]))[1], np.tanh(x) * 3, 1e-6)


def test_the_greatest_elements() -> None:
    def greatest(x: Any) -> Any:
        return lax.top_k(x, 8)

    x = np.array([np.inf, np.nan, -np.nan, -np.inf, 3, 0.0, -0.0, 3], np.float32)
    loaded = load(export.export(jax.jit(greatest))(x).mlir_module_serialized)
    for actual, wanted in zip(loaded(x), greatest(x), strict=True):
        np.testing.assert_array_equal(actual, wanted)
        assert np.signbit(actual).tolist() == np.signbit(wanted).tolist()


# --- modules by hand --------------------------------------------------------------------------------------------------

PRETTY = """module @by_hand {
  func.func public @main(%x: tensor<?xf32>, %n: tensor<4xi32>) -> (tensor<?xf32>, tensor<i32>) {
    %0 = call @twice(%x) : (tensor<?xf32>) -> tensor<?xf32>
    %1 = call @twice(%0) : (tensor<?xf32>) -> tensor<?xf32>
    %c = stablehlo.constant dense<5> : tensor<i32>
    %2 = stablehlo.reduce(%n init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
    return %1, %2 : tensor<?xf32>, tensor<i32>
  }
  func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.add %x, %x : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
"""  # noqa: E501  # as MLIR prints it

GENERIC = """"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2xbf16>) -> tensor<2xbf16>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2xbf16>):
    %0 = "stablehlo.constant"() <{value = dense<[1.5, 0x7FC0]> : tensor<2xbf16>}> : () -> tensor<2xbf16>
    %1 = "stablehlo.multiply"(%arg0, %0) : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xbf16>
    "func.return"(%1) : (tensor<2xbf16>) -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_calls_and_folds_that_start_elsewhere() -> None:
    loaded = load(PRETTY)
    for n in (0, 1, 7):
        x, total = loaded(np.ones(n, np.float32), np.arange(4, dtype=np.int32))
        assert (x.tolist(), int(total)) == ([4.0] * n, 11)
    only = load(PRETTY, name="twice")
    assert only(np.ones(3, np.float32)).tolist() == [2.0] * 3


def test_the_generic_form_and_numbers_that_numpy_lacks() -> None:
    made = load(GENERIC)(np.array([2.0, 1.0], dyn.bfloat16.np))
    assert float(made[0]) == 3.0
    assert np.isnan(float(made[1]))


def test_complex_constants() -> None:
    text = (
        "func.func @main() -> tensor<2xcomplex<f32>> {\n"
        "%0 = stablehlo.constant dense<[(1.0, 2.0), (-0.0, 0x7F800000)]> : tensor<2xcomplex<f32>>\n"
        "return %0 : tensor<2xcomplex<f32>>\n}"
    )
    made = load(text)()
    assert made[0] == 1 + 2j
    assert np.signbit(made[1].real)
    assert np.isinf(made[1].imag)


@pytest.mark.parametrize("form", ["text", "bytes", "hexadecimal"])
def test_large_constants(form: str) -> None:
    """They come in, and go out again, with all of their elements."""
    array = np.arange(100_000, dtype=np.float32)
    items = ", ".join(f"{i}.0" for i in range(array.size))
    body = f'"0x{array.tobytes().hex()}"' if form == "hexadecimal" else f"[{items}]"
    type = f"tensor<{array.size}xf32>"
    source: Any = (
        f"func.func @main(%x: {type}) -> {type} {{\n"
        f"%0 = stablehlo.constant dense<{body}> : {type}\n"
        f"%1 = stablehlo.add %x, %0 : {type}\n"
        f"return %1 : {type}\n}}"
    )
    if form == "bytes":
        source = dump(load(source).trace(array))
    loaded = load(source)
    np.testing.assert_array_equal(loaded(array), 2 * array)
    assert len(dump(loaded.trace(array))) > array.nbytes
    assert len(loaded.trace(array).as_text()) < 1000


def test_one_number_as_a_large_constant() -> None:
    """It is not written out, here or there: of these elements there are 10**12."""
    text = (
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%0 = stablehlo.constant dense<2.5> : tensor<1000000x1000000xf32>\n"
        "%1 = stablehlo.slice %0 [7:8, 0:4] : (tensor<1000000x1000000xf32>) -> tensor<1x4xf32>\n"
        "%2 = stablehlo.reshape %1 : (tensor<1x4xf32>) -> tensor<4xf32>\n"
        "%3 = stablehlo.add %x, %2 : tensor<4xf32>\n"
        "return %3 : tensor<4xf32>\n}"
    )
    x = np.arange(4, dtype=np.float32)
    loaded = load(text)
    again = load(dump(loaded.trace(x)))
    for function in (loaded, again):
        np.testing.assert_array_equal(function(x), x + 2.5)
    assert len(dump(again.trace(x))) < 2000


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(PRETTY)
    for source in (path, str(path)):
        assert load(source)(np.ones(1, np.float32), np.zeros(4, np.int32))[0].tolist() == [4.0]
    data = dump(load(PRETTY).trace(np.ones(1, np.float32), np.zeros(4, np.int32)), version="1.0.0")
    assert isinstance(data, bytes)
    path.write_text(
        "func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n"
        "%0 = stablehlo.custom_call @mystery(%arg0) : (tensor<2xf32>) -> tensor<2xf32>\n"
        "return %0 : tensor<2xf32>\n}"
    )
    with pytest.raises(UnsupportedOpError, match=r"\n  at model.mlir:2  %0 = stablehlo.custom_call @mystery"):
        load(path)(np.ones(2, np.float32))
    path.write_bytes(data)
    assert load(path)(np.ones(2, np.float32), np.zeros(4, np.int32))[0].tolist() == [4.0, 4.0]


# --- custom calls -----------------------------------------------------------------------------------------------------

CUSTOM = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.custom_call @scaled(%x) {factor = 3.0 : f32} : (tensor<?xf32>) -> tensor<?xf32> loc("model.py":7:3)
  return %0 : tensor<?xf32>
}"""


def test_custom_calls_are_what_was_registered() -> None:
    loaded = load(CUSTOM)
    with pytest.raises(UnsupportedOpError) as refused:
        loaded.trace(np.ones(2, np.float32))
    assert str(refused.value) == (
        "the custom call 'scaled' of (f32[arg0_0]) has no meaning in this version.\n"
        "  at model.py:7\n"
        "  help: give it one: dyn.interop.stablehlo.register_custom_call(name, impl), where impl may be a "
        "dyn.ffi_call."
    )
    register_custom_call("scaled", lambda x, factor: x * factor)
    assert loaded(np.ones(2, np.float32)).tolist() == [3.0, 3.0]


# --- what is no program -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "it is empty"),
        ("module {", "expected operation name"),
        ("func.func @main(%x: tensor<2xi8>) -> tensor<3xi8> { return %x : tensor<2xi8> }", "type of return operand 0"),
        (b"ML\xefR", ""),
        (b"ML\xefR\rStableHLO_v1.0.0\x00\xff\xff\xff", ""),
        (b"\xff\xfe\x00", ""),
    ],
)  # fmt: skip
def test_what_is_no_module(source: str | bytes, said: str) -> None:
    with pytest.raises(ArtifactError, match=f"(?s)this is no StableHLO module: .*{said}"):
        load(source)


def test_no_such_function() -> None:
    with pytest.raises(ArtifactError) as error:
        load(PRETTY, name="thrice")
    assert str(error.value) == (
        "the module has no function @thrice; it has @main, @twice.\n  help: name one of them: load(source, name=…)."
    )


def test_types_that_are_not_there() -> None:
    for name in ("i4", "ui2", "f4E2M1FN"):
        text = f"func.func @main(%x: tensor<2x{name}>) -> tensor<2x{name}> {{ return %x : tensor<2x{name}> }}"
        said = rf"elements of type {name} \(tensor<2x{name}>\) are not supported"
        with pytest.raises(UnsupportedOpError, match=said):
            load(text)


# --- assertions that are no relations between sizes -------------------------------------------------------------------

ASSERTING = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {{
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %3 = stablehlo.constant dense<3> : tensor<i32>
  %5 = stablehlo.constant dense<5> : tensor<i32>
  {}
  stablehlo.custom_call @shape_assertion(%t, %n) {{api_version = 2 : i32, has_side_effect = true,
    error_message = "the length is 3 or 5, but found {{0}}."}} : (tensor<i1>, tensor<i32>) -> ()
  %r = stablehlo.add %x, %x : tensor<?xf32>
  return %r : tensor<?xf32>
}}"""
ASSERTIONS = {
    "one of two": (
        """%a = stablehlo.compare EQ, %n, %3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %b = stablehlo.compare EQ, %n, %5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %t = stablehlo.or %a, %b : tensor<i1>""",
        (3, 5), (0, 4),
    ),
    "one and not the other": (
        """%a = stablehlo.compare GE, %n, %3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %b = stablehlo.compare GE, %n, %5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %t = stablehlo.xor %a, %b : tensor<i1>""",
        (3, 4), (0, 5),
    ),
    "about data": (
        """%z = stablehlo.constant dense<3.5> : tensor<f32>
        %o = stablehlo.constant dense<0.0> : tensor<f32>
        %s = stablehlo.reduce(%x init: %o) applies stablehlo.add across dimensions = [0]
          : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
        %t = stablehlo.compare GT, %s, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>""",
        (4, 5), (0, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ASSERTIONS)
def test_an_assertion_that_is_no_relation_is_checked(what: str) -> None:
    body, good, bad = ASSERTIONS[what]
    function = load(ASSERTING.format(body))
    for size in good:
        np.testing.assert_array_equal(function(np.ones(size, np.float32)), np.full(size, 2, np.float32))
    for size in bad:
        with pytest.raises(ShapeError) as error:
            function(np.ones(size, np.float32))
        line = len(ASSERTING.format(body).split("stablehlo.custom_call")[0].splitlines())
        assert str(error.value) == (
            "holds == 1 is required, but holds is 0: the length is 3 or 5.\n"
            "  holds is whether what the imported program asserts holds, as 0 or 1 = 0\n"
            f"  at -:{line}\n"
            "  help: pass arguments whose shapes satisfy it."
        )
    assert function.cache_info().compiles == 1
