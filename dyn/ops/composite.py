"""A function with a name of its own, and what it is made of (https://openxla.org/stablehlo/spec#composite)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Value
from dyn.ir.evaluate import RegionFunction
from dyn.ir.inline_regions import build_region
from dyn.ir.opdef import Inline, OpDef, OpKind, Sample
from dyn.ir.types import TensorType
from dyn.ops.call_rules import call_types, through_batch, through_jvp, through_vjp
from dyn.shapes import Facts
from dyn.source import UNKNOWN

Array = np.ndarray[Any, Any]


def _computed(*arrays: Array, regions: tuple[RegionFunction, ...], **attrs: Any) -> tuple[Array, ...]:
    return regions[0](*arrays)


def _samples() -> list[Sample]:
    def build(b: Builder, p: tuple[Value, ...]) -> tuple[Value, ...]:
        x, y = p
        return b.op("multiply", b.op("sine", x), y), b.op("add", x, y)

    calls: list[Sample] = []
    for shape in ((0,), (1,), (7,), (2, 3)):
        x = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
        type = TensorType(dtypes.float64, shape)
        region = build_region(Builder(Facts.EMPTY, UNKNOWN), (type, type), build)
        attrs = {"name": "my.function", "version": 1, "attributes": (("axis", 0),)}
        calls.append(Sample((x, x + 2), attrs, (region,)))
    return calls


#: The results of its region, which is known elsewhere by ``name``, ``version`` and ``attributes``: pairs of names and
#: values. Transformations and passes see the region's ops.
composite = OpDef(
    "composite",
    OpKind.CALL,
    types=call_types,
    loops=Inline.BEFORE_PASSES,
    reference=_computed,
    samples=_samples,
    vjp=through_vjp, jvp=through_jvp, batch=through_batch,
    transparent=True,
)  # fmt: skip
