"""Floats rounded to the numbers that quantized integers stand for (``FakeQuant*``), and their derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.interop.converters import Data, rank_of
from dyn.interop.tf.converter_registry import converts


@dataclass(frozen=True, slots=True)
class _Range:
    """The numbers from ``low`` to ``high`` that integers stand for, ``scale`` apart, 0 among them.

    ``is_empty`` is where the range that was asked for is that from 0 to 0: all numbers are 0 then.
    """

    low: Any
    high: Any
    scale: Any
    is_empty: Any

    @staticmethod
    def of(low: Any, high: Any, num_bits: int, narrow_range: bool) -> _Range:
        """The range nearest to one that is asked for, moved so that an integer stands for 0."""
        least, most = np.float32(narrow_range), np.float32(2**num_bits - 1)
        scale = (high - low) / (most - least)
        zero = least - low / scale
        inside = dnp.clip(zero, least, most)
        # Halves are rounded away from 0, as C++ does it; there is nothing below 0.
        whole = dnp.floor(inside)
        zero = whole + (inside - whole >= np.float32(0.5)).astype("float32")
        return _Range((least - zero) * scale, (most - zero) * scale, scale, (low == 0) & (high == 0))

    def rounded(self, x: Data) -> Data:
        inverse = 1 / self.scale
        clamped = dnp.maximum(dnp.minimum(x, self.high), self.low)
        zero = dnp.floor(-self.low * inverse + np.float32(0.5))
        made = dnp.floor((clamped - self.low) * inverse - zero + np.float32(0.5)) * self.scale
        return dnp.where(self.is_empty, dnp.zeros_like(x), made)

    def derivative(self, cotangent: Data, x: Data) -> Data:
        is_inside = ((x >= self.low) & (x <= self.high)) | self.is_empty
        return dnp.where(is_inside, cotangent, dnp.zeros_like(cotangent))

    def of_ends(self, cotangent: Data, x: Data, axes: tuple[int, ...]) -> list[Data]:
        """Cotangents of the range's ends: of the elements beyond them."""
        beyond = [(x < self.low) & ~self.is_empty, (x > self.high) & ~self.is_empty]
        return [dnp.sum(dnp.where(one, cotangent, dnp.zeros_like(cotangent)), axis=axes) for one in beyond]


def _constant_range(low: float, high: float, num_bits: int, narrow_range: bool) -> _Range:
    return _Range.of(dnp.asarray(low, dtype="float32"), dnp.asarray(high, dtype="float32"), num_bits, narrow_range)


@converts("FakeQuantWithMinMaxArgs")
def fake_quant(
    x: Data, *, min: float = -6.0, max: float = 6.0, num_bits: int = 8, narrow_range: bool = False
) -> Any:  # TensorFlow's names
    return _constant_range(min, max, num_bits, narrow_range).rounded(x)


@converts("FakeQuantWithMinMaxArgsGradient")
def fake_quant_gradient(
    cotangent: Data, x: Data, *, min: float = -6.0, max: float = 6.0, num_bits: int = 8, narrow_range: bool = False
) -> Any:
    return _constant_range(min, max, num_bits, narrow_range).derivative(cotangent, x)


@converts("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_variables(x: Data, low: Data, high: Data, *, num_bits: int = 8, narrow_range: bool = False) -> Any:
    return _Range.of(low, high, num_bits, narrow_range).rounded(x)


@converts("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient")
def fake_quant_variables_gradient(
    cotangent: Data, x: Data, low: Data, high: Data, *, num_bits: int = 8, narrow_range: bool = False
) -> Any:
    numbers = _Range.of(low, high, num_bits, narrow_range)
    axes = tuple(range(rank_of(x) - rank_of(low)))
    return [numbers.derivative(cotangent, x), *numbers.of_ends(cotangent, x, axes)]
