"""Sizes that are written as tensors of arithmetic, and read back as the same sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.dtypes import int64
from dyn.interop.stablehlo import dump, load
from dyn.ir.core import Op
from dyn.shapes import format_dim

pytest.importorskip("jaxlib")

EXPRESSIONS = {
    "sum": lambda b, s: 2 * b + s + 3,
    "product": lambda b, s: b * b * s,
    "difference": lambda b, s: b - s,
    "floordiv": lambda b, s: (b + 3) // 4,
    "floordiv by a size": lambda b, s: b // (s + 1),
    "mod": lambda b, s: b % 5,
    "negative floordiv": lambda b, s: -b // 3,
    "negative floordiv by a size": lambda b, s: (b - 2 * s) // (s + 1) + b,
    "negative mod by a size": lambda b, s: (b - 2 * s) % (s + 1) * 2,
    "negative mod": lambda b, s: (b - s) % 3,
    "nested": lambda b, s: (b * s + 7) // 2 % 3,
}  # fmt: skip


def sizes_in(ops: tuple[Op, ...]) -> list[str]:
    return [format_dim(op.attrs["size"]) for op in ops if op.opdef.name == "dim_size"]


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_sizes_come_back(name: str) -> None:
    fn = EXPRESSIONS[name]

    @dyn.jit(shapes="b s")
    def f(x: Any) -> Any:
        return dnp.asarray(fn(*x.shape)) * dnp.ones((), dtype=int64)

    traced = f.trace(np.ones((3, 4)))
    loaded = load(dump(traced))
    again = loaded.trace(np.ones((3, 4)))
    assert sizes_in(again.function.ops) == sizes_in(traced.function.ops)
    for shape in ((0, 0), (1, 1), (7, 2), (64, 1000)):
        assert loaded(np.ones(shape)) == f(np.ones(shape)) == fn(*shape)
    assert loaded.cache_info().compiles == 1


@pytest.mark.parametrize("bits", [32, 64])
def test_numbers_that_sizes_wrap_around_with(bits: int) -> None:
    """Arithmetic with the greatest integers is the program's: an expression would not wrap, nor fit into 64 bits."""
    most, type = (1 << (bits - 1)) - 1, f"tensor<i{bits}>"
    small = f"stablehlo.convert %n : (tensor<i32>) -> {type}" if bits == 64 else f"stablehlo.add %n, %none : {type}"
    loaded = load(f"""
      func.func @main(%x: tensor<?xf32>) -> ({type}, {type}, tensor<i1>) {{
        %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %none = stablehlo.constant dense<0> : {type}
        %size = {small}
        %most = stablehlo.constant dense<{most}> : {type}
        %sum = stablehlo.add %size, %most : {type}
        %product = stablehlo.multiply %size, %most : {type}
        %square = stablehlo.multiply %product, %most : {type}
        %wrapped = stablehlo.compare LT, %sum, %none, SIGNED : ({type}, {type}) -> tensor<i1>
        return %sum, %square, %wrapped : {type}, {type}, tensor<i1>
      }}""")
    for n in (0, 1, 5):
        made = [int(one) for one in loaded(np.zeros(n, "f4"))]
        wrapped = (n + most + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        assert made == [wrapped, n, wrapped < 0]  # the square of the greatest integer is 1
    assert loaded.cache_info().compiles == 1


def test_jax_s_divisions_come_back() -> None:
    """``jax.export`` writes divisions that round to 0, and corrects them: each is one dim to the reader."""
    jax = pytest.importorskip("jax")
    from jax import export

    fns = [
        lambda b, s: -b // 2, lambda b, s: -b % 3, lambda b, s: (b - 3 * s) // 2, lambda b, s: (b - 3 * s) % 4,
        lambda b, s: (b - s) // (s + 1), lambda b, s: -(-b // 4) + (1 - b) % 2, lambda b, s: 2 * b // s,
    ]  # fmt: skip
    with jax.enable_x64(True):
        x = jax.ShapeDtypeStruct(export.symbolic_shape("b, s"), np.float32)
        made = export.export(jax.jit(lambda x: [jax.numpy.asarray(fn(*x.shape)) for fn in fns]))(x)
    loaded = load(made.mlir_module_serialized)
    own = dyn.jit(lambda x: [dnp.asarray(fn(*x.shape)) for fn in fns], shapes="b s").trace(np.ones((3, 4)))
    assert sizes_in(loaded.trace(np.ones((3, 4), np.float32)).function.ops) == sizes_in(own.function.ops)
    for shape in ((1, 1), (7, 2), (2, 7), (64, 1000)):
        assert [int(y) for y in loaded(np.ones(shape, np.float32))] == [fn(*shape) for fn in fns]
    assert loaded.cache_info().compiles == 1


def test_undecided_broadcasts_come_back() -> None:
    @dyn.jit(shapes="n, m")
    def f(x: Any, y: Any) -> Any:
        return x + y

    loaded = load(dump(f.trace(np.ones(3), np.ones(3))))
    (result,) = loaded.trace(np.ones(3), np.ones(3)).function.results
    assert "broadcast" in format_dim(result.shape[0])
    for a, b in ((3, 3), (1, 4), (4, 1), (0, 1), (1, 1)):
        np.testing.assert_array_equal(loaded(np.ones(a), np.arange(float(b))), np.ones(a) + np.arange(float(b)))
    with pytest.raises(dyn.errors.ShapeError, match="broadcasts with"):
        loaded(np.ones(2), np.ones(3))


def test_declared_sizes_are_solved_for() -> None:
    @dyn.jit(shapes="2*k+1", dims=[dyn.Dim("k", min=1, max=40)])
    def f(x: Any) -> Any:
        return x[: x.shape[0] // 2]

    loaded = load(dump(f.trace(np.ones(5))))
    assert loaded(np.ones(7)).shape == (3,)
    with pytest.raises(dyn.errors.ShapeError):
        loaded(np.ones(6))
    with pytest.raises(dyn.errors.ShapeError):
        loaded(np.ones(1))
