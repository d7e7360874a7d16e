"""Error bounds of functions: maximal errors in units in the last place of the result, over all arguments.

They stand in the rows of the table of functions (``dyn.lower.x86.scalars``); what has none is rounded correctly. The
tests hold the code to them, and ``docs/numerics.md`` shows them. float16 and bfloat16 are computed in float32 and
rounded once more: their results are within 1 unit of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from dyn.dtypes import DType, float32, float64
from dyn.frozen import record


@record()
class ErrorBound:
    """An error bound in units in the last place: on CPUs with fused multiply-add, and on those without."""

    fused: float
    separate: float


def bounds(single: tuple[float, float], double: tuple[float, float]) -> Mapping[DType, ErrorBound]:
    """The bounds of a function by dtype: fused and separate, of float32 and of float64."""
    return {float32: ErrorBound(*single), float64: ErrorBound(*double)}
