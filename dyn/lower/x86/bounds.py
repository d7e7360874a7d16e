"""Error bounds of the functions: maximal errors in units in the last place of the result, over all arguments.

The tests hold the code to it, and ``docs/numerics.md`` shows it. What is not named is rounded correctly. float16 and
bfloat16 are computed in float32 and rounded once more: their results are within 1 unit of theirs.
"""

from __future__ import annotations

from dyn.dtypes import DType, float32, float64
from dyn.frozen import record
from dyn.ops.scalar import Scalar


@record()
class ErrorBound:
    """An error bound in units in the last place: on CPUs with fused multiply-add, and on those without."""

    fused: float
    separate: float


BOUNDS: dict[Scalar, dict[DType, ErrorBound]] = {
    Scalar.EXP: {float32: ErrorBound(1.0, 1.5), float64: ErrorBound(1.0, 1.5)},
    Scalar.EXPM1: {float32: ErrorBound(2.0, 2.0), float64: ErrorBound(2.0, 2.5)},
    Scalar.LOG: {float32: ErrorBound(1.0, 1.0), float64: ErrorBound(1.0, 1.0)},
    Scalar.LOG1P: {float32: ErrorBound(2.0, 2.0), float64: ErrorBound(2.0, 2.0)},
    Scalar.TANH: {float32: ErrorBound(5.0, 6.0), float64: ErrorBound(3.0, 3.5)},
    Scalar.LOGISTIC: {float32: ErrorBound(3.0, 3.0), float64: ErrorBound(3.0, 3.0)},
    Scalar.ERF: {float32: ErrorBound(6.0, 7.0), float64: ErrorBound(2.0, 3.0)},
    Scalar.RSQRT: {float32: ErrorBound(1.5, 1.5), float64: ErrorBound(1.5, 1.5)},
    Scalar.CBRT: {float32: ErrorBound(1.0, 1.0), float64: ErrorBound(1.0, 1.0)},
    Scalar.SIN: {float32: ErrorBound(1.0, 1.0), float64: ErrorBound(1.0, 1.0)},
    Scalar.COS: {float32: ErrorBound(1.0, 1.0), float64: ErrorBound(1.0, 1.0)},
    Scalar.TAN: {float32: ErrorBound(1.5, 1.5), float64: ErrorBound(2.5, 2.5)},
    Scalar.POW: {float32: ErrorBound(1.0, 1.0), float64: ErrorBound(1.0, 1.5)},
    Scalar.ATAN2: {float32: ErrorBound(3.0, 3.0), float64: ErrorBound(3.0, 3.0)},
}
