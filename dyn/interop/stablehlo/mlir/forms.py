"""The forms of a module: text, bytecode, and portable artifacts of a version."""

from __future__ import annotations

import re
from typing import Any

from dyn.errors import ArtifactError
from dyn.interop.stablehlo.mlir.context import bindings
from dyn.interop.stablehlo.mlir.guard import check_text, checked, has_bytes
from dyn.interop.stablehlo.mlir.passes import legalize_chlo, operation_names
from dyn.interop.stablehlo.mlir.untrusted_modules import (
    MAGIC,
    READ,
    READ_NAMED,
    Diagnostics,
    bytecode_of,
    parsed_bytecode,
)

#: The producer of an artifact, at its start.
_VERSION = re.compile(rb"ML\xefR.StableHLO_v(\d{1,9})\.(\d{1,9})\.(\d{1,9})", re.DOTALL)


def text_of(module: Any, *, locations: bool = False) -> str:
    return str(module.operation.get_asm(enable_debug_info=locations))


def portable_artifact(module: Any, version: str) -> bytes:
    """VHLO bytecode of a version; CHLO is written out in StableHLO first, for it has no versions.

    ``module`` is left as it is. Raises ArtifactError for versions that cannot be written.
    """
    m, said = bindings(), Diagnostics()
    with module.context, m.ir.Location.unknown(), module.context.attach_diagnostic_handler(said.note):
        copy = m.ir.Module.parse(bytecode_of(module))
        if any(name.startswith("chlo.") for name in operation_names(copy)):
            legalize_chlo(copy)
        try:
            return m.stablehlo.serialize_portable_artifact(copy, version)
        except (ValueError, m.ir.MLIRError) as error:
            low, high = m.stablehlo.get_minimum_version(), m.stablehlo.get_current_version()
            raise ArtifactError(
                f"the program cannot be written for StableHLO {version}: {said.text(error)}.",
                remedy=f"use a version from {low} to {high} that has all of its operations.",
            ) from None


def version_of_weeks(weeks: int) -> str:
    """The newest version that consumers of so many weeks ago could read."""
    m = bindings()
    for least, requirement in ((12, "WEEK_12"), (4, "WEEK_4"), (0, "NONE")):
        if weeks >= least:
            chosen = getattr(m.stablehlo.StablehloCompatibilityRequirement, requirement)
            return str(m.stablehlo.get_version_from_compatibility_requirement(chosen))
    raise ArtifactError(f"version={weeks} is a negative number of weeks.")


def _check_version(data: bytes) -> None:
    """Refuse an artifact of a version that is to come: MLIR would read what it knows of such, and say less."""
    found = _VERSION.match(data)
    newest = str(bindings().stablehlo.get_current_version())
    if found is not None and tuple(map(int, found.groups())) > tuple(map(int, newest.split("."))):
        raise ArtifactError(
            f"this is an artifact of StableHLO {'.'.join(n.decode() for n in found.groups())}, and jaxlib here has "
            f"{newest}.",
            remedy="write it for an older version, or install a newer jaxlib.",
        )


def parsed(context: Any, source: str | bytes, *, trusted: bool) -> Any:
    """A module of MLIR; ``trusted``: without the guards against damaged and hostile ones."""
    if isinstance(source, bytes) and source.startswith(MAGIC):
        _check_version(source)
        return parsed_bytecode(context, source if trusted else checked(source))
    text = source if isinstance(source, str) else source.decode("utf-8", errors="strict")
    if not text.strip():
        raise ValueError("it is empty")
    if trusted:
        return bindings().ir.Module.parse(text, context)
    check_text(text)
    return parsed_bytecode(context, checked(text.encode(), READ_NAMED if has_bytes(text) else READ))
