"""What is done with a module as MLIR has it: its operations, and CHLO written out in StableHLO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dyn.errors import UnsupportedOpError
from dyn.interop.stablehlo.mlir.context import bindings
from dyn.interop.stablehlo.mlir.guarded import Diagnostics


def operations(module: Any) -> Iterator[Any]:
    """All operations of a module, those in regions included."""
    pending = [module.operation]
    while pending:
        op = pending.pop()
        yield op
        pending += [inner.operation for region in op.regions for block in region for inner in block]


def operation_names(module: Any) -> set[str]:
    """The names of all operations of a module."""
    return {op.name for op in operations(module)}


def legalize_chlo(module: Any) -> None:
    """Write CHLO out in StableHLO, in place."""
    m, said = bindings(), Diagnostics()
    pipeline = "builtin.module(func.func(chlo-legalize-to-stablehlo,shape-legalize-to-stablehlo),canonicalize)"
    with module.context.attach_diagnostic_handler(said.note):
        try:
            m.passmanager.PassManager.parse(pipeline).run(module.operation)
        except m.ir.MLIRError as error:
            raise UnsupportedOpError(f"CHLO operations that have no form in StableHLO: {said.text(error)}") from None
