"""Integers that are known while a graph is read, sizes among them: they wrap where TensorFlow's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
from dyn.errors import ShapeError
from tests.interop.tf.comparing import alike, check, tf

C = tf.constant


def test_constants_wrap() -> None:
    def f(x: Any) -> Any:
        return [
            x + C(2000000000) * C(2), C(2000000000) + C(2000000000), -C(-(2**31)), C(-(2**31)) - C(1),
            C(100, tf.int8) * C(2, tf.int8), C(200, tf.uint8) + C(100, tf.uint8), C(0, tf.uint32) - C(1, tf.uint32),
            C(2**62, tf.int64) * 4, tf.reduce_prod(C([100000, 100000])), tf.reduce_sum(C([2**31 - 1, 5])),
            tf.cast(C(300), tf.int8), tf.stack([C(2000000000) * C(2), tf.shape(x)[0]]),
        ]  # fmt: skip

    check(tf.function(f), [(tf.range(n),) for n in (2, 0, 5)])


@pytest.mark.parametrize(
    "function",
    [
        lambda n: n * C(2000000000) * C(2) % 1000, lambda n: tf.cast(n * 100, tf.int8) // 2,
        lambda n: tf.cast(n, tf.int16) * C(30000, tf.int16) > 0, lambda n: n * 1000003 % 1009,
        lambda n: -n * C(1 << 30),
        lambda n: tf.cast(-n, tf.uint32) // 7, lambda n: n * C(2**30) + C(2**30) > 0,
        lambda n: tf.maximum(n * C(2000000000), 7),
    ],
)  # fmt: skip
def test_sizes_times_numbers_wrap(function: Any) -> None:
    """Sizes that stay within their dtype and those that do not are told apart by a guard."""

    @tf.autograph.experimental.do_not_convert
    def f(x: Any) -> Any:
        return function(tf.shape(x)[0])

    compiled, graph = dtf.jit(f, strict=True), tf.function(f, reduce_retracing=True)
    for n in (1, 2, 3, 3000, 2, 1):
        alike(compiled(tf.zeros(n)), graph(tf.zeros(n)), what=str(n))
    assert compiled.cache_info().compiles <= 3


def test_parts_are_all_of_an_axis() -> None:
    x = tf.range(6.0)
    compiled = dtf.jit(lambda x: tf.split(x, 2), strict=True)
    alike(compiled(x), tf.split(x, 2))
    alike(compiled(x[:0]), tf.split(x[:0], 2))
    with pytest.raises(ShapeError, match=r"tf\.split cuts axis 0 into 2 parts of one size") as caught:
        compiled(x[:3])
    assert str(caught.value).startswith(
        "mod(x_0, 2) == 0 is required, but mod(x_0, 2) is 1 (x_0 is 3): tf.split cuts axis 0 into 2 "
    )
    for function, text in (
        (lambda x: tf.split(x, [1, 1]), "x_0 == 2 is required, but x_0 is 3"),
        (lambda x: tf.split(x, [4, -1]), "x_0 >= 4 is required, but x_0 is 3"),
        (lambda x: tf.unstack(x, 2), "x_0 == 2 is required, but x_0 is 3"),
        (lambda x: tf.split(tf.concat([tf.shape(x), [1, 2]], 0), 2), "a tensor of 3|is required|evenly|divis|parts"),
    ):
        with pytest.raises((ShapeError, ValueError), match=text):
            dtf.jit(tf.autograph.experimental.do_not_convert(function), strict=True)(x[:3])


def test_distinct_rows() -> None:
    raw = tf.raw_ops

    def f(x: Any, y: Any) -> Any:
        parts = [
            *[raw.UniqueV2(x=x, axis=axis) for axis in ([0], [1], [-1])],
            raw.UniqueWithCountsV2(x=x, axis=[0], out_idx=tf.int64), raw.UniqueV2(x=y, axis=C([], tf.int32)),
            tf.unique(y), tf.unique_with_counts(y, tf.int64), raw.UniqueV2(x=y, axis=[0]),
        ]  # fmt: skip
        return [one for part in parts for one in part]

    rows = [[[3, 1], [1, 2], [3, 1]], [[1, 1]], np.zeros((0, 2)), [[2, 1], [1, 2], [1, 2], [0, 5], [2, 1]]]
    values = [[1.0, np.nan, 1.0, np.nan, 0.0], [], [5.0], [-1.0, 2.0, -1.0]]
    check(tf.function(f), [(C(x, tf.int32), C(y, tf.float32)) for x, y in zip(rows, values, strict=True)])


def test_edges_are_compared_with_float64_as_it_is() -> None:
    x = C([0.99999999999, 1.0, 1.99999999, 2.0], tf.float64)

    def f(x: Any) -> Any:
        keras = tf.keras
        return keras.ops.digitize(x, [1.0, 2.0]), keras.ops.digitize(tf.cast(x * 9, tf.int64), [9.0, 18.0])

    check(f, [(x,), (x[:2],)])
    rows = C([[1.0, 2.0, 3.0]], tf.float64)
    check(lambda x: tf.sparse.segment_sqrt_n(x, [0, 0, 0], [0, 0, 0]), [(rows / 3,)], tolerance=1e-15)
