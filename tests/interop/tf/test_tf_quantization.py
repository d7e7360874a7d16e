"""Numbers rounded as quantized integers are, with gradients by them and by the ends of their range."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.tf.comparing import check, tf
from tests.interop.tf.operations import floats

quantization = tf.quantization
#: Without a range all is 0; a range that 0 is not in is moved.
ENDS = [(-1.0, 2.0), (-0.3, 0.5), (0.0, 0.0), (0.2, 1.3), (-2.0, -0.7)]
SIZES = (5, 0, 1, 64, 3)


def calls() -> list[tuple[Any, ...]]:
    return [
        (floats(n, 3, seed=n, low=-3, high=3), *map(tf.constant, (low, high, [low, -0.3, 0.0], [high, 0.9, 0.0])))
        for n, (low, high) in zip(SIZES, ENDS, strict=True)
    ]


@pytest.mark.parametrize(("num_bits", "narrow_range"), [(8, False), (4, True), (2, False), (16, False)])
def test_ranges_that_are_constants(num_bits: int, narrow_range: bool) -> None:
    def f(x: Any) -> Any:
        ends = [(-6.0, 6.0), (-1.0, 1.0), (0.1, 2.0), (-3.0, -0.5), (-0.3, 0.77)]
        return [quantization.fake_quant_with_min_max_args(x, *pair, num_bits, narrow_range) for pair in ends]

    check(f, [(x,) for x, *_ in calls()], tolerance=1e-7)


@pytest.mark.parametrize(("num_bits", "narrow_range"), [(8, False), (4, True), (16, False)])
def test_ranges_that_are_computed_and_gradients(num_bits: int, narrow_range: bool) -> None:
    @tf.function
    def f(x: Any, low: Any, high: Any, lows: Any, highs: Any) -> Any:
        sources = [x, low, high, lows, highs]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            made = [
                quantization.fake_quant_with_min_max_vars(x, low, high, num_bits, narrow_range),
                quantization.fake_quant_with_min_max_vars_per_channel(x, lows, highs, num_bits, narrow_range),
                quantization.fake_quant_with_min_max_args(x, -0.7, 0.5, num_bits, narrow_range),
            ]
            loss = tf.add_n([tf.reduce_sum(tf.cos(tf.range(3.0) + tf.stop_gradient(one)) * one) for one in made])
        return made, tape.gradient(loss, sources)

    check(f, calls())
