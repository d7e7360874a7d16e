"""Bytecode that nobody vouches for, read and written again: MLIR's reader is not made for bytes that are hostile.

It may end its process, or never end, on bytes that no MLIR wrote. What comes out of here is what MLIR wrote of a valid
module. ``guard`` runs this file as a process of its own, so nothing here knows of dyn: ``jaxlib`` is all it needs.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

MAGIC = b"ML\xefR"
#: The first byte of an answer.
VALID, INVALID = b"\0", b"\1"


def open_context() -> Any:
    """A context with the dialects that programs are read with. Contexts are not shared between threads."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    context: Any = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    # Otherwise the bindings take diagnostics for themselves first, and one that is not UTF-8 ends the process.
    context.emit_error_diagnostics = True
    return context


class Diagnostics:
    """What MLIR says of a module, with lines and columns."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def note(self, diagnostic: Any) -> bool:
        """A handler of diagnostics. It never raises: that would be taken for one that wants none."""
        parts = [readable(lambda: str(diagnostic.location), "?"), readable(lambda: diagnostic.message, "?")]
        self.found.append(": ".join(parts))
        return True

    def text(self, error: Exception) -> str:
        return "; ".join(self.found) or readable(lambda: str(error).strip(), "") or "it cannot be parsed"


def readable(get: Callable[[], str], otherwise: str) -> str:
    """A text of the bindings, which raise where it is not UTF-8."""
    try:
        return get()
    except (RuntimeError, UnicodeError):
        return otherwise


def parsed_bytecode(context: Any, data: bytes) -> Any:
    """A module from bytecode or a portable artifact."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    if data[5:14] == b"StableHLO":
        return stablehlo.deserialize_portable_artifact(context, data)
    return ir.Module.parse(data, context)


def rewritten(data: bytes) -> bytes:
    """``VALID`` and the module's bytecode, or ``INVALID`` and what MLIR says of it."""
    from jaxlib.mlir import ir

    context, said = open_context(), Diagnostics()
    with context, ir.Location.unknown(), context.attach_diagnostic_handler(said.note):
        try:
            module = parsed_bytecode(context, data)
        except (ir.MLIRError, ValueError, RuntimeError) as error:
            return INVALID + said.text(error).encode(errors="replace")
        # Types and attributes that share their parts can be short here and endless as text: that is found out here.
        module.operation.get_asm(binary=True, large_elements_limit=16)
        out = io.BytesIO()
        module.operation.write_bytecode(out)
        return VALID + out.getvalue()


def _limit(seconds: int, memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has none; there is the time that guard waits
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """One module on stdin, after a line that says where modules of Python are, and the limits."""
    header = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = header["path"]
    _limit(header["seconds"], header["memory"])
    sys.stdout.buffer.write(rewritten(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
