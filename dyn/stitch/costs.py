"""Costs of computing an element again."""

from __future__ import annotations

from dyn.ir.core import Op
from dyn.ir.opdef import ElementLoops
from dyn.ops.scalar import Scalar
from dyn.shapes import Dim
from dyn.stitch.access import as_index, axis_symbols

#: Functions that cost tens of instructions: worth keeping a result for.
_HEAVY = frozenset(
    {Scalar.EXP, Scalar.EXPM1, Scalar.LOG, Scalar.LOG1P, Scalar.TANH, Scalar.LOGISTIC, Scalar.ERF, Scalar.POW,
     Scalar.SIN, Scalar.COS, Scalar.TAN, Scalar.ATAN2, Scalar.CBRT}
)  # fmt: skip


def is_heavy(op: Op) -> bool:
    """Whether a pointwise op computes one of the costly functions."""
    assert isinstance(op.opdef.loops, ElementLoops)
    probe = _Probe()
    op.opdef.loops.at(probe, op, as_index(axis_symbols(op.result.shape)), lambda *request: None)
    return bool(probe.functions & _HEAVY)


class _Probe:
    """A ScalarBuilder that only remembers which functions a rule applies."""

    def __init__(self) -> None:
        self.functions: set[Scalar] = set()

    def apply(self, fn: Scalar, args: object, dtype: object) -> None:
        self.functions.add(fn)

    def const(self, dtype: object, value: object) -> None: ...

    def index(self, dtype: object, expr: object) -> None: ...

    def bind(self, value: object) -> Dim:
        return 0

    def pair(self, real: object, imag: object, dtype: object) -> None: ...

    def parts(self, value: object) -> tuple[None, None]:
        return None, None
