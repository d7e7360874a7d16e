"""Passes over a module of MLIR's: its operations, and CHLO written out in StableHLO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dyn.errors import UnsupportedOpError
from dyn.interop.stablehlo.mlir.context import bindings
from dyn.interop.stablehlo.mlir.untrusted_bytecode import Diagnostics


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
    with module.context.attach_diagnostic_handler(said.note), _set_aside(m.ir, module):
        try:
            m.passmanager.PassManager.parse(pipeline).run(module.operation)
        except m.ir.MLIRError as error:
            raise UnsupportedOpError(f"CHLO operations that have no form in StableHLO: {said.text(error)}") from None


#: Operations that the pass would write out wrongly, or not survive: scans, of which it does not look at ``is_reverse``.
_ASIDE = {"chlo.scan": "dyn.scan"}


@contextmanager
def _set_aside(ir: Any, module: Any) -> Iterator[None]:
    """Have some operations names meanwhile that no pass knows."""
    context = module.context
    before, context.allow_unregistered_dialects = context.allow_unregistered_dialects, True
    _rename(ir, module, _ASIDE)
    yield
    _rename(ir, module, {new: old for old, new in _ASIDE.items()})
    context.allow_unregistered_dialects = before


def _rename(ir: Any, module: Any, names: Mapping[str, str]) -> None:
    for op in list(operations(module)):
        if op.name not in names:
            continue
        attrs = {name: op.attributes[name] for name in op.attributes}
        made = ir.Operation.create(
            names[op.name], [v.type for v in op.results], list(op.operands), attrs, regions=len(op.regions),
            loc=op.location, ip=ir.InsertionPoint(op),
        )  # fmt: skip
        for old, new in zip(op.regions, made.operation.regions, strict=True):
            for block in list(old.blocks):
                block.append_to(new)
        for old, new in zip(op.results, made.operation.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
