"""StableHLO's operations on complex numbers and single bits, and choices whose results have two sizes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError
from dyn.interop.stablehlo import dump, load

SIZES = (0, 1, 2, 5, 33)


def complexes(n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    made = rng.integers(-3, 4, (n, 2)).astype("f4")  # some real parts are equal, some numbers 0
    return made.view("c8")[:, 0]


def binary(name: str) -> Any:
    return load(
        f"""func.func @main(%x: tensor<?xcomplex<f32>>, %y: tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>> {{
          %0 = stablehlo.{name} %x, %y : tensor<?xcomplex<f32>>
          return %0 : tensor<?xcomplex<f32>>
        }}"""
    )


@pytest.mark.parametrize(("name", "reference"), [("maximum", "max"), ("minimum", "min"), ("atan2", "atan2")])
def test_complex_numbers_as_xla_has_them(name: str, reference: str) -> None:
    f = binary(name)
    for n in SIZES:
        x, y = complexes(n), complexes(n, 1)
        if name == "atan2":
            y = np.where(y == 0, np.complex64(1 + 1j), y)
        wanted = np.asarray(getattr(jax.lax, reference)(x, y))
        np.testing.assert_allclose(f(x, y), wanted, rtol=2e-5, atol=2e-6, equal_nan=True)
    assert f.cache_info().compiles == 1


def test_complex_cube_roots() -> None:
    f = load(
        """func.func @main(%x: tensor<?xcomplex<f64>>) -> tensor<?xcomplex<f64>> {
          %0 = stablehlo.cbrt %x : tensor<?xcomplex<f64>>
          return %0 : tensor<?xcomplex<f64>>
        }"""
    )
    for n in SIZES:
        x = complexes(n).astype("c16")
        np.testing.assert_allclose(f(x), x ** (1 / 3), rtol=1e-12, atol=1e-12)


def test_the_greatest_of_complex_numbers() -> None:
    f = load(
        """func.func @main(%x: tensor<?xcomplex<f32>>) -> tensor<complex<f32>> {
          %i = stablehlo.constant dense<(-9.0,0.0)> : tensor<complex<f32>>
          %0 = stablehlo.reduce(%x init: %i) applies stablehlo.maximum across dimensions = [0]
            : (tensor<?xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
          return %0 : tensor<complex<f32>>
        }"""
    )
    for n in SIZES:
        x = complexes(n)
        assert f(x) == max([-9 + 0j, *x.tolist()], key=lambda z: (z.real, z.imag))
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize(
    ("name", "dtype"), [("i8", "i1"), ("ui16", "u2"), ("i32", "i4"), ("f32", "f4"), ("ui64", "u8")]
)
def test_bits_are_numbers_lowest_first(name: str, dtype: str) -> None:
    width = np.dtype(dtype).itemsize
    bits = 8 * width
    cut = load(
        f"""func.func @main(%x: tensor<?x{name}>) -> tensor<?x{bits}xi1> {{
          %0 = stablehlo.bitcast_convert %x : (tensor<?x{name}>) -> tensor<?x{bits}xi1>
          return %0 : tensor<?x{bits}xi1>
        }}"""
    )
    joined = load(
        f"""func.func @main(%x: tensor<?x{bits}xi1>) -> tensor<?x{name}> {{
          %0 = stablehlo.bitcast_convert %x : (tensor<?x{bits}xi1>) -> tensor<?x{name}>
          return %0 : tensor<?x{name}>
        }}"""
    )
    for n in SIZES:
        x = np.random.default_rng(n).integers(0, 256, (n, width), np.uint8)
        wanted = np.unpackbits(x, axis=-1, bitorder="little").astype(bool)
        numbers = x.view(dtype).reshape(n)
        np.testing.assert_array_equal(cut(numbers), wanted)
        np.testing.assert_array_equal(np.asarray(joined(wanted)).view(np.uint8), numbers.view(np.uint8))
    assert cut.cache_info().compiles == joined.cache_info().compiles == 1


def test_complex_numbers_of_another_width() -> None:
    wide = load(
        """func.func @main(%x: tensor<?x2xcomplex<f32>>) -> tensor<?xcomplex<f64>> {
          %0 = stablehlo.bitcast_convert %x : (tensor<?x2xcomplex<f32>>) -> tensor<?xcomplex<f64>>
          return %0 : tensor<?xcomplex<f64>>
        }"""
    )
    narrow = load(
        """func.func @main(%x: tensor<?xcomplex<f64>>) -> tensor<?x2xcomplex<f32>> {
          %0 = stablehlo.bitcast_convert %x : (tensor<?xcomplex<f64>>) -> tensor<?x2xcomplex<f32>>
          return %0 : tensor<?x2xcomplex<f32>>
        }"""
    )
    for n in SIZES:
        x = complexes(n).astype("c16") / 3
        cut = x.view("c8").reshape(n, 2)
        np.testing.assert_array_equal(narrow(x), cut)
        np.testing.assert_array_equal(wide(cut), x)


# ---- choices ---------------------------------------------------------------------------------------------------------

IF = """func.func @main(%p: tensor<i1>, %x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %0 = "stablehlo.if"(%p) ({
    "stablehlo.return"(%x) : (tensor<?x2xf32>) -> ()
  }, {
    %c = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
    "stablehlo.return"(%c) : (tensor<?x2xf32>) -> ()
  }) : (tensor<i1>) -> tensor<?x2xf32>
  %1 = stablehlo.add %0, %0 : tensor<?x2xf32>
  return %1 : tensor<?x2xf32>
}"""
CASE = """func.func @main(%n: tensor<i32>, %x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "stablehlo.case"(%n) ({
    "stablehlo.return"(%x) : (tensor<?xf32>) -> ()
  }, {
    "stablehlo.return"(%y) : (tensor<?xf32>) -> ()
  }, {
    %c = stablehlo.constant dense<1.0> : tensor<2xf32>
    %d = stablehlo.convert %c : (tensor<2xf32>) -> tensor<?xf32>
    "stablehlo.return"(%d) : (tensor<?xf32>) -> ()
  }) : (tensor<i32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""


def test_branches_of_two_sizes() -> None:
    f = load(IF)
    for n in SIZES:
        x = np.arange(2 * n, dtype="f4").reshape(n, 2)
        np.testing.assert_array_equal(f(np.array(True), x), 2 * x)
        np.testing.assert_array_equal(f(np.array(False), x), np.concatenate([2 * x, 2 * x]))
    assert f.cache_info().compiles == 1
    again = load(dump(f.lower(np.array(True), np.ones((3, 2), "f4"))))
    np.testing.assert_array_equal(again(np.array(False), np.ones((1, 2), "f4")), np.full((2, 2), 2, "f4"))


def test_cases_of_several_sizes() -> None:
    f = load(CASE)
    for n in SIZES:
        x, y = np.arange(n, dtype="f4"), -np.arange(n + 1, dtype="f4")
        for number, wanted in ((0, x), (1, y), (2, np.ones(2, "f4")), (9, np.ones(2, "f4")), (-1, np.ones(2, "f4"))):
            np.testing.assert_array_equal(f(np.array(number, "i4"), x, y), wanted)
    assert f.cache_info().compiles == 1


def test_cond_of_two_lengths() -> None:
    """Sizes of one dim, or numbers, are two sizes; sizes of two dims have to be one, as in JAX."""
    twice = dyn.jit(lambda p, x: lax.cond(p, lambda: x, lambda: dnp.concatenate([x, x])) + 1)
    part = dyn.jit(lambda p, x: lax.cond(p, lambda: x[:2], lambda: x).sum())
    numbers = dyn.jit(lambda p: lax.cond(p, lambda: dnp.ones(2), lambda: dnp.zeros(3)))
    for n in SIZES:
        x = np.arange(n, dtype="f4")
        for flag in (True, False):
            np.testing.assert_array_equal(twice(flag, x), (x if flag else np.concatenate([x, x])) + 1)
            assert part(flag, x) == (x[:2] if flag else x).sum()
            assert numbers(flag).shape == ((2,) if flag else (3,))
    assert [f.cache_info().compiles for f in (twice, part, numbers)] == [1, 1, 1]
    either = dyn.jit(lambda p, x, y: lax.cond(p, lambda: x, lambda: y))
    assert either(True, np.ones(3), np.zeros(3)).shape == (3,)
    assert "measure" not in either.lower(True, np.ones(3), np.zeros(3)).as_text()
    with pytest.raises(ShapeError):
        either(False, np.ones(3), np.zeros(4))


def test_gradients_of_branches_of_two_lengths() -> None:
    def loss(x: Any, p: Any) -> Any:
        return (lax.cond(p, lambda: x, lambda: dnp.concatenate([x * 2, x])) ** 2).sum()

    f = dyn.jit(dyn.grad(loss))
    for n in SIZES:
        x = np.arange(n, dtype="f4")
        np.testing.assert_allclose(f(x, True), 2 * x)
        np.testing.assert_allclose(f(x, False), 10 * x)
