"""Work of computing an element: whether its functions are costly, or do nothing but widen it."""

from __future__ import annotations

from dyn.ir.core import Op
from dyn.ir.opdef import ElementLoops
from dyn.ops.scalar import Scalar
from dyn.shapes import Dim
from dyn.stitch.access import own_index

#: From so much work on (``Scalar.work``) a function takes longer than its result takes to be written and read, wherever
#: that lies.
HEAVY = 20


def is_heavy(op: Op) -> bool:
    """Whether a pointwise op computes one of the costly functions."""
    return any(function.work >= HEAVY for function in _functions(op))


def work(op: Op) -> int:
    """Work of a pointwise op, in units of ``Scalar.work``, beside loads, stores and simple operations, which take place
    at the same time."""
    return sum(function.work for function in _functions(op) if function.work > 1)


def is_widening(op: Op) -> bool:
    """Whether a pointwise op does nothing but convert elements to a type that is as wide or wider: they are read anew
    with fewer bytes than the result would be. Bits of 8-bit floats take some functions to convert."""
    source, result = op.operands[0].dtype, op.results[0].dtype
    cheap = source.bits <= 32 and not (source.is_float and source.bits <= 8)
    return cheap and source.bits <= result.bits and _functions(op) == {Scalar.CAST}


def _functions(op: Op) -> set[Scalar]:
    assert isinstance(op.opdef.loops, ElementLoops)
    probe = _Probe()
    op.opdef.loops.at(probe, op, own_index(len(op.result.shape)), lambda *request: None)
    return probe.functions


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

    def part(self, value: object, number: object) -> None: ...
