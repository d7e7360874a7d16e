"""The passes that bring functions which compute the same by the same ops to the same form, in order."""

from __future__ import annotations

from collections.abc import Callable

from dyn.ir.core import Function
from dyn.ir.region_passes import in_regions
from dyn.passes.propagate_transposes import propagate_transposes
from dyn.passes.redundancy import eliminate_common_subexpressions
from dyn.passes.refine_shapes import refine_shapes
from dyn.passes.simplify import simplify

#: Function -> Function, each leaving IR that the verifier accepts. Needs calls that are written out. Leaves dead code.
NORMAL_FORM: tuple[Callable[[Function], Function], ...] = (
    refine_shapes,
    in_regions(simplify),
    in_regions(eliminate_common_subexpressions),
    in_regions(propagate_transposes),
)
