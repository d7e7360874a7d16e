"""StableHLO's scatter into several arrays: read, written, run at all sizes, differentiated where bodies are apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.interop.stablehlo import dump, load

pytest.importorskip("jaxlib.mlir")

MODULE = """func.func @main(%x: tensor<?xf32>, %n: tensor<?xi32>, %i: tensor<?x1xi64>, %y: tensor<?xf32>,
    %m: tensor<?xi32>) -> (tensor<?xf32>, tensor<?xi32>) {{
  %0:2 = "stablehlo.scatter"(%x, %n, %i, %y, %m) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
{body}
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>}} : (tensor<?xf32>, tensor<?xi32>, tensor<?x1xi64>, tensor<?xf32>, tensor<?xi32>)
      -> (tensor<?xf32>, tensor<?xi32>)
  return %0#0, %0#1 : tensor<?xf32>, tensor<?xi32>
}}
"""
GREATEST = """    %p = stablehlo.compare GT, %c, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %e = stablehlo.select %p, %c, %a : tensor<i1>, tensor<f32>
    %f = stablehlo.select %p, %d, %b : tensor<i1>, tensor<i32>
    stablehlo.return %e, %f : tensor<f32>, tensor<i32>"""
APART = """    %e = stablehlo.add %a, %c : tensor<f32>
    stablehlo.return %e, %d : tensor<f32>, tensor<i32>"""


def arguments(size: int, count: int) -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(size)
    x, y = (rng.integers(-4, 4, n).astype(np.float32) for n in (size, count))
    places = rng.integers(-1, size + 1, (count, 1))
    return x, np.zeros(size, np.int32), places, y, np.arange(1, count + 1, dtype=np.int32)


def test_a_greatest_value_beside_where_it_came_from() -> None:
    loaded = load(MODULE.format(body=GREATEST))
    again = load(dump(loaded.lower(*arguments(3, 4))))
    for program in (loaded, again):
        for size, count in ((0, 3), (1, 0), (1, 5), (2, 1), (7, 64), (64, 7), (1000, 1000)):
            x, n, places, y, m = arguments(size, count)
            best, at = program(x, n, places, y, m)
            wanted, wanted_at = x.copy(), n.copy()
            for place, value, number in zip(places[:, 0], y, m, strict=True):
                if 0 <= place < size and value > wanted[place]:
                    wanted[place], wanted_at[place] = value, number
            np.testing.assert_array_equal(best, wanted)
            np.testing.assert_array_equal(at, wanted_at)
        assert program.cache_info().compiles == 1


def test_bodies_that_are_apart_are_scatters_with_derivatives() -> None:
    loaded = load(MODULE.format(body=APART))
    x, n, places, y, m = arguments(5, 9)
    total, last = loaded(x, n, places, y, m)
    inside = (places[:, 0] >= 0) & (places[:, 0] < 5)
    wanted = x.copy()
    np.add.at(wanted, places[inside, 0], y[inside])
    np.testing.assert_array_equal(total, wanted)
    assert last.tolist() == [max([k + 1 for k in np.flatnonzero(places[:, 0] == i)], default=0) for i in range(5)]
    weights = np.arange(5, dtype=np.float32)
    slope = dyn.grad(lambda y: dnp.sum(loaded(x, n, places, y, m)[0] * weights))(y)
    np.testing.assert_array_equal(slope, np.where(inside, weights[np.clip(places[:, 0], 0, 4)], 0))
