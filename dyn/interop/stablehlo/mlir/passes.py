"""Passes over a module of MLIR's: CHLO written out in StableHLO."""

from __future__ import annotations

from typing import Any

from dyn.errors import UnsupportedOpError
from dyn.interop.stablehlo.mlir.context import bindings
from dyn.interop.stablehlo.mlir.guard import checked
from dyn.interop.stablehlo.mlir.untrusted_modules import (
    LEGALIZE,
    Diagnostics,
    bytecode_of,
    legalize,
    operations,
    parsed_bytecode,
)


def operation_names(module: Any) -> set[str]:
    """The names of all operations of a module."""
    return {op.name for op in operations(module)}


def legalize_chlo(module: Any, *, trusted: bool = True) -> Any:
    """The module with CHLO written out in StableHLO; it is changed in place if it is ``trusted``.

    Raises UnsupportedOpError for operations that have no form there.
    """
    if not trusted:
        try:
            return parsed_bytecode(module.context, checked(bytecode_of(module), LEGALIZE))
        except ValueError as error:
            raise _without_form(str(error)) from None
    m, said = bindings(), Diagnostics()
    with module.context.attach_diagnostic_handler(said.note):
        try:
            legalize(module)
        except m.ir.MLIRError as error:
            raise _without_form(said.text(error)) from None
    return module


def _without_form(said: str) -> UnsupportedOpError:
    return UnsupportedOpError(f"CHLO operations that have no form in StableHLO: {said}")
