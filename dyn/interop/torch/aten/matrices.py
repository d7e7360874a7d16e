"""Products of matrices."""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn.interop.torch.aten.tables import converts
from dyn.trace.tracer import Tracer


@converts("mm.default", "bmm.default", "mv.default", "dot.default")
def matmul(a: Tracer, b: Tracer) -> Tracer:
    return dnp.matmul(a, b)


def _times(factor: Any, value: Tracer) -> Tracer:
    return value if isinstance(factor, int) and factor == 1 else value * dnp.asarray(factor, dtype=value.dtype)


@converts("addmm.default", "baddbmm.default", "addmv.default")
def addmm(c: Tracer, a: Tracer, b: Tracer, beta: Any = 1, alpha: Any = 1) -> Tracer:
    product = _times(alpha, dnp.matmul(a, b))
    # PyTorch does not read what it multiplies with 0: NaN there is no NaN of the result.
    return product if isinstance(beta, int) and beta == 0 else dnp.add(_times(beta, c), product)


@converts("linear.default")
def linear(x: Tracer, weight: Tracer, bias: Tracer | None = None) -> Tracer:
    product = dnp.matmul(x, dnp.transpose(weight))
    return product if bias is None else product + bias
