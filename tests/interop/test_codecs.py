"""Codecs beyond an op's samples: other producers' forms, symbolic attributes, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.lax as dlax
import dyn.numpy as dnp
from dyn.backends.reference import run_reference
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.interop.stablehlo import dump, load
from dyn.interop.stablehlo.codecs.elementwise import SPECIAL
from dyn.ir.opdef import REGISTRY
from dyn.ops.sorting.comparators import keys_of
from tests.interop.programs import distinct, of_sample, retraced

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402

from dyn.interop.jax import exported  # noqa: E402  # needs JAX

SIZES = (0, 1, 2, 7, 64)


def loaded_from_jax(fn: Any, *args: Any) -> Any:
    with jax.enable_x64(True):
        return load(export.export(jax.jit(fn))(*args).mlir_module_serialized)


def names_in(function: Any) -> list[str]:
    return [op.opdef.name for op in function.ops]


# --- sorts ------------------------------------------------------------------------------------------------------------


SORTS: dict[str, Callable[..., Any]] = {
    "one array": lambda x, i: (jnp.sort(x), i),
    "downward": lambda x, i: (jnp.sort(x, descending=True), i),
    "two keys": lambda x, i: lax.sort((x, i, -i), num_keys=2),
    "places": lambda x, i: (jnp.argsort(x), i),
    "integers first": lambda x, i: lax.sort((i, x), dimension=0, num_keys=1, is_stable=False),
}


@pytest.mark.parametrize("name", SORTS)
def test_sorts_of_jax_are_sorts_by_keys(name: str) -> None:
    x = np.array([2.0, np.nan, -0.0, 2.0, 0.0, -np.inf, -np.nan, np.inf, -1.0], np.float32)
    i = np.array([3, 1, 3, 2, 1, 0, 0, 2, 1], np.int32)
    loaded = loaded_from_jax(SORTS[name], x, i)
    sorts = [op for op in loaded.trace(x, i).function.ops if op.opdef.name == "sort_by"]
    assert [keys_of(op.regions[0]) is not None for op in sorts] == [True]
    wanted = SORTS[name](x, i)
    actual = loaded(x, i)
    for own, other in zip(actual, wanted, strict=True):
        np.testing.assert_array_equal(own, np.asarray(other).astype(own.dtype))


def test_sorts_of_dyn_come_back_as_keys() -> None:
    for sample in distinct(REGISTRY["sort"].samples()):
        again = retraced(load(dump(of_sample(REGISTRY["sort"], sample, symbolic=True))), sample, symbolic=True)
        (op,) = (op for op in again.function.ops if op.opdef.name == "sort_by")
        keys = keys_of(op.regions[0])
        assert keys is not None
        assert len(keys) == sample.attrs.get("num_keys", 1)


COMPARATOR = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xi32>) -> (tensor<?xf32>, tensor<?xi32>) {
  %0:2 = "stablehlo.sort"(%x, %y) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>):
    %c = stablehlo.convert %p : (tensor<i32>) -> tensor<f32>
    %d = stablehlo.convert %q : (tensor<i32>) -> tensor<f32>
    %e = stablehlo.add %a, %d : tensor<f32>
    %f = stablehlo.add %b, %c : tensor<f32>
    %g = stablehlo.compare LT, %e, %f : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %g : tensor<i1>
  }) : (tensor<?xf32>, tensor<?xi32>) -> (tensor<?xf32>, tensor<?xi32>)
  return %0#0, %0#1 : tensor<?xf32>, tensor<?xi32>
}"""


def test_a_comparator_that_is_no_key() -> None:
    """By ``x - y``, written so that no side is of one element alone; the axis is left out, and is the last."""
    loaded = load(COMPARATOR)
    for n in SIZES:
        rng = np.random.default_rng(n)
        x, y = rng.integers(-9, 9, n).astype(np.float32), rng.integers(-9, 9, n).astype(np.int32)
        order = np.argsort(x - y, kind="stable")
        made = loaded(x, y)
        np.testing.assert_array_equal(made[0] - made[1], (x - y)[order])
    assert loaded.cache_info().compiles == 1


# --- CHLO -------------------------------------------------------------------------------------------------------------

CHLO = [*sorted(n for n in SPECIAL if SPECIAL[n].form.startswith("chlo.")), "trigamma", "top_k"]


@pytest.mark.parametrize("name", CHLO)
def test_versions_have_chlo_written_out(name: str) -> None:
    for sample in list(distinct(REGISTRY[name].samples()))[:4]:
        traced = of_sample(REGISTRY[name], sample, symbolic=name != "top_k")
        again = retraced(load(dump(traced, version="1.9.0")), sample, symbolic=name != "top_k")
        actual, wanted = (run_reference(f.function, sample.operands) for f in (again, traced))
        for x, y in zip(actual, wanted, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x.astype(complex), y.astype(complex), 1e-2, 1e-5, err_msg=f"{sample}")


UNARY: dict[str, Callable[..., Any]] = {
    "asin": lax.asin, "acos": lax.acos, "sinh": lax.sinh, "cosh": lax.cosh, "asinh": lax.asinh, "acosh": lax.acosh,
    "atanh": lax.atanh,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_composites_of_jax_are_functions_of_real_numbers(name: str) -> None:
    fn = UNARY[name]
    real = np.array([0.25, 0.5, -0.75, 0.0], np.float32) + np.float32(name == "acosh") * 2
    loaded = loaded_from_jax(fn, real)
    assert name in names_in(loaded.trace(real).function)
    np.testing.assert_allclose(loaded(real), fn(real), 1e-5, 1e-6)
    whole = (real + 0.5j).astype(np.complex64)
    np.testing.assert_allclose(loaded_from_jax(fn, whole)(whole), fn(whole), 1e-4, 1e-5)


@pytest.mark.parametrize("name", ["sinh", "asin", "atanh"])
def test_chlo_of_complex_numbers_is_written_out(name: str) -> None:
    def module(element: str) -> str:
        type = f"tensor<?x{element}>"
        return f"func.func @main(%x: {type}) -> {type} {{ %0 = chlo.{name} %x : {type} -> {type} return %0 : {type} }}"

    real = np.array([0.25, 0.5, -0.75, 0.0], np.float32)
    loaded = load(module("f32"))
    assert names_in(loaded.trace(real).function) == [name]
    whole = (real + 0.5j).astype(np.complex64)
    np.testing.assert_allclose(load(module("complex<f32>"))(whole), UNARY[name](whole), 1e-4, 1e-5)


# --- what JAX writes --------------------------------------------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((2, 8, 8)).astype(np.float32)
PROGRAMS: dict[str, Callable[..., Any]] = {
    "max pool": jax.grad(
        lambda y: jnp.sum(lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID") ** 2)
    ),
    "reduce precision": lambda x: lax.reduce_precision(x, 5, 2),
    "fft": jnp.fft.rfft2,
    "inverse fft": lambda x: jnp.fft.irfft(jnp.fft.fft(x), n=9),
    "barrier": lambda x: lax.optimization_barrier((x, x + 1)),
    "greatest": lambda x: lax.top_k(x, 3),
    "barrier of sizes": lambda x: x.reshape(lax.optimization_barrier(x).shape[0], -1),
    "composite": lambda x: lax.composite(lambda y, k: jnp.tanh(y) * k, "my.scaled_tanh")(x, k=3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_jax(name: str) -> None:
    with jax.enable_x64(True):
        wanted = jax.tree.leaves(jax.jit(PROGRAMS[name])(X))
    made = loaded_from_jax(PROGRAMS[name], X)(X)
    for own, other in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
        assert own.dtype == other.dtype
        np.testing.assert_allclose(own, other, 1e-4, 1e-4)


BY_HAND = """func.func @main(%a: tensor<?x2x2xf64>, %b: tensor<?x2x1xf64>) -> (tensor<?x2x2xf64>, tensor<?x2x1xf64>) {
  %0 = stablehlo.cholesky %a, lower = true : tensor<?x2x2xf64>
  %1 = "stablehlo.triangular_solve"(%0, %b) {left_side = true, lower = true, unit_diagonal = false,
    transpose_a = #stablehlo<transpose TRANSPOSE>} : (tensor<?x2x2xf64>, tensor<?x2x1xf64>) -> tensor<?x2x1xf64>
  return %0, %1 : tensor<?x2x2xf64>, tensor<?x2x1xf64>
}"""


def test_factors_of_matrices() -> None:
    loaded = load(BY_HAND)
    for n in (0, 1, 7):
        a = np.tile(np.array([[4.0, 2.0], [2.0, 5.0]]), (n, 1, 1))
        factor, x = loaded(a, np.ones((n, 2, 1)))
        np.testing.assert_allclose(factor, np.tile(np.array([[2.0, 0.0], [1.0, 2.0]]), (n, 1, 1)))
        np.testing.assert_allclose(x, np.tile(np.array([[0.25], [0.5]]), (n, 1, 1)))
    assert loaded.cache_info().compiles == 1


@pytest.mark.parametrize("algorithm", ["RNG_THREE_FRY", "RNG_PHILOX", "RNG_DEFAULT"])
def test_random_bits_are_those_of_jax(algorithm: str) -> None:
    chosen = getattr(lax.RandomAlgorithm, algorithm)
    state = np.array([2**33 + 1, 7], np.uint64)

    def bits(s: Any) -> Any:
        return lax.rng_bit_generator(s, (3, 5), algorithm=chosen)

    with jax.enable_x64(True):
        wanted = bits(state)
    for own, other in zip(loaded_from_jax(bits, state)(state), wanted, strict=True):
        np.testing.assert_array_equal(own, other)


# --- symbolic attributes ----------------------------------------------------------------------------------------------


def greatest_half(x: Any) -> Any:
    return dlax.top_k(x, x.shape[-1] // 2)


def test_a_symbolic_number_of_greatest_elements() -> None:
    f = dyn.jit(greatest_half, shapes="b n")
    traced = f.trace(np.ones((2, 5), np.float32))
    assert "stablehlo.dynamic_top_k" in str(dump(traced))
    loaded, once = load(dump(traced)), exported(traced)
    for b, n in ((1, 1), (2, 7), (3, 64)):
        x = np.random.default_rng(n).standard_normal((b, n)).astype(np.float32)
        for run in (loaded, once.call):
            for own, other in zip(run(x), f(x), strict=True):
                np.testing.assert_array_equal(own, other)
    assert loaded.cache_info().compiles == 1


def test_random_bits_of_a_symbolic_shape() -> None:
    @dyn.jit(shapes="2, n m")
    def f(state: Any, x: Any) -> Any:
        return dlax.rng_bit_generator(state, x.shape)

    state = np.array([7, 9], np.uint64)
    traced = f.trace(state, np.ones((2, 3)))
    loaded, once = load(dump(traced)), exported(traced)
    for shape in ((0, 3), (1, 1), (7, 64)):
        for own, other in zip(loaded(state, np.ones(shape)), f(state, np.ones(shape)), strict=True):
            np.testing.assert_array_equal(own, other)
    with jax.enable_x64(True):
        for own, other in zip(once.call(state, np.ones((7, 4))), f(state, np.ones((7, 4))), strict=True):
            np.testing.assert_array_equal(own, other)


# --- calls ------------------------------------------------------------------------------------------------------------


def test_custom_calls_of_symbolic_sizes() -> None:
    def pairs(x: Any, factor: float) -> Any:
        return np.repeat(x, 2) * factor, np.asarray(x.size, np.int64)

    dlax.register_custom_call("tests.pairs", pairs)

    @dyn.jit(shapes="n")
    def f(x: Any) -> Any:
        n = x.shape[0]
        types = (dyn.ShapeDtypeStruct((2 * n,), "float64"), dyn.ShapeDtypeStruct((), "int64"))
        return dlax.custom_call("tests.pairs", types, x, factor=3.0)

    traced = f.trace(np.ones(3))
    text = str(dump(traced))
    assert "indices_of_shape_operands = dense<[1, 2]>" in text
    loaded = load(text)
    assert [str(v.type) for v in loaded.trace(np.ones(3)).function.results] == ["f64[2*n]", "i64[]"]
    for n in SIZES:
        made = loaded(np.arange(float(n)))
        np.testing.assert_array_equal(made[0], np.repeat(np.arange(float(n)), 2) * 3)
        assert int(made[1]) == n
    assert loaded.cache_info().compiles == 1


UNKNOWN_SIZES = """func.func @main(%x: tensor<2xf64>) -> tensor<?xf64> {
  %0 = stablehlo.custom_call @dyn.example(%x) : (tensor<2xf64>) -> tensor<?xf64> loc("model.py":7:3)
  return %0 : tensor<?xf64>
}"""


def test_custom_calls_of_sizes_that_nothing_says() -> None:
    REGISTRY["custom_call"].samples()  # registers dyn.example
    with pytest.raises(UnsupportedOpError) as refused:
        load(UNKNOWN_SIZES).trace(np.ones(2))
    assert str(refused.value) == (
        "the custom call 'dyn.example' of (f64[2]) has results whose sizes are not known.\n"
        "  at model.py:7\n"
        "  help: sizes have to follow from the arguments' shapes."
    )


def test_composites_keep_their_names() -> None:
    @dyn.jit(shapes="b s")
    def f(x: Any) -> Any:
        return dlax.composite(lambda y, axis: y - dnp.mean(y, axis=axis, keepdims=True), "my.centred", 2)(x, axis=1)

    x = np.random.default_rng(0).standard_normal((3, 4))
    text = str(dump(f.trace(x)))
    assert 'stablehlo.composite "my.centred"' in text.replace("()", ""), text
    assert "version = 2" in text
    loaded = load(text)
    (op,) = (op for op in loaded.trace(x).function.ops if op.opdef.name == "composite")
    assert dict(op.attrs) == {"name": "my.centred", "version": 2, "attributes": (("axis", 1),)}
    with jax.enable_x64(True):
        np.testing.assert_allclose(exported(f.trace(x)).call(x), f(x), 1e-12)
    for shape in ((0, 3), (1, 1), (7, 64)):
        x = np.random.default_rng(1).standard_normal(shape)
        np.testing.assert_allclose(loaded(x), f(x), 1e-12)
    assert loaded.cache_info().compiles == 1


def test_a_composite_of_sizes_from_around_it_is_written_out() -> None:
    @dyn.jit(shapes="b s")
    def f(x: Any) -> Any:
        n = x.shape[0]
        return dlax.composite(lambda y: y * dnp.asarray(n), "my.sized")(x[0])

    x = np.ones((3, 4))
    text = str(dump(f.trace(x)))
    assert "stablehlo.composite" not in text
    np.testing.assert_array_equal(load(text)(x), np.full(4, 3.0))


RECURSIVE = """module {
  func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.composite "my.own" %x {decomposition = @main} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}"""


def test_a_composite_of_itself_is_refused() -> None:
    with pytest.raises(UnsupportedOpError) as refused:
        load(RECURSIVE).trace(np.float32(1))
    assert "a composite is made of itself, or regions are 100 deep." in str(refused.value)


def test_derivatives_of_ones_own_are_not_written() -> None:
    @dyn.custom_vjp
    def f(x: Any) -> Any:
        return dnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 2,))
    x = np.linspace(0, 1, 5)
    plain, slope = dyn.jit(f, shapes="n"), dyn.jit(dyn.grad(lambda x: dnp.sum(f(x))), shapes="n")
    for g in (plain, slope):
        loaded = load(dump(g.trace(x)))
        for n in SIZES:
            np.testing.assert_allclose(loaded(np.ones(n)), g(np.ones(n)), 1e-12)


def test_second_passes_stay_behind_their_barriers() -> None:
    f = dyn.jit(dyn.grad(lambda x: dnp.sum(dyn.checkpoint(lambda y: dnp.sin(dnp.sin(y)))(x))), shapes="n")
    text = str(dump(f.trace(np.ones(3))))
    assert text.count("stablehlo.optimization_barrier") == 1
    loaded = load(text)
    assert str(dump(loaded.trace(np.ones(3)))).count("stablehlo.optimization_barrier") == 1
    for n in SIZES:
        np.testing.assert_allclose(loaded(np.ones(n)), f(np.ones(n)), 1e-12)


# --- transforms of symbolic lengths -----------------------------------------------------------------------------------


def test_transforms_of_symbolic_lengths_have_no_form_for_xla() -> None:
    with pytest.raises(NotYetError) as refused:
        exported(dyn.jit(dnp.fft.rfft, shapes="b n").trace(np.ones((2, 3))))
    first, _, remedy = str(refused.value).splitlines()
    assert f"{first}\n{remedy}" == (
        "a Fourier transform of a symbolic length (n) has no form that XLA can refine.\n"
        "  help: make the sizes of the axes that it is along numbers with shapes=."
    )


#: Transforms of all kinds, and of several lengths, of real numbers.
TRANSFORMS: dict[str, Callable[..., Any]] = {
    "FFT": dnp.fft.fft,
    "IFFT": lambda x: dnp.fft.ifft(x + 1j),
    "RFFT": dnp.fft.rfft2,
    "IRFFT": lambda x: dnp.fft.irfft(x + 1j, n=2 * x.shape[1] + 1),
    "of three axes": lambda x: dnp.fft.fftn(x[None], axes=(0, 1, 2)),
    "gradient": dyn.grad(lambda x: (abs(dnp.fft.rfft(x)) ** 2).sum()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_symbolic_lengths_come_back(name: str) -> None:
    fn = dyn.jit(TRANSFORMS[name], shapes="b n")
    text = dump(fn.trace(np.ones((2, 3))))
    loaded = load(text)
    for b, n in ((1, 1), (2, 2), (3, 7), (4, 8), (1, 12), (2, 33)):
        x = np.random.default_rng(n).standard_normal((b, n))
        np.testing.assert_array_equal(loaded(x), fn(x))
    assert [op for op in names_in(loaded.trace(np.ones((2, 3))).function) if op == "fft"] != []
    assert (fn.cache_info().compiles, loaded.cache_info().compiles) == (1, 1)


def test_a_transform_whose_kind_is_not_said() -> None:
    module = """func.func @main(%x: tensor<?xcomplex<f32>>, %n: tensor<1xi64>) -> tensor<?xcomplex<f32>> {
      %0 = stablehlo.custom_call @dyn.fft(%x, %n) : (tensor<?xcomplex<f32>>, tensor<1xi64>) -> tensor<?xcomplex<f32>>
      return %0 : tensor<?xcomplex<f32>> }"""
    with pytest.raises(UnsupportedOpError, match=r"dyn\.fft.* is not as it should be: KeyError: 'fft_type'"):
        load(module)(np.ones(4, np.complex64), np.array([4]))
