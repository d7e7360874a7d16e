"""Reader of untrusted bytecode, in a process of its own: MLIR's reader is not made for hostile bytes.

It may end its process, or never end, on bytes that no MLIR wrote. What comes out of here is what MLIR wrote of a valid
module. ``guard`` runs this file as a process of its own, so nothing here knows of dyn: ``jaxlib`` is all it needs.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from typing import Any

MAGIC = b"ML\xefR"
#: A place in the text that is parsed.
_PLACE = re.compile(r'loc\("-":([1-9]\d*):(\d+)\)')
#: Names of locations in a text, and bytes in names that are none of ASCII.
_LOCATED = re.compile(rb'loc\("((?:[^"\\]|\\.)*)"')
_ATTRIBUTE = re.compile(rb'[{,] ?"((?:[^"\\]|\\.)*)" ?[=,}]')
_LOCATIONS = re.compile(rb"^#loc[^\n]*", re.MULTILINE)
_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(rb"\\([0-9A-F]{2})")
#: The first byte of an answer.
VALID, INVALID = b"\0", b"\1"


def open_context() -> Any:
    """A context with the dialects that programs are read with. Contexts are not shared between threads.

    The dialects are those of the native modules: to import the classes of their operations takes longer than to read.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _sdy, _stablehlo

    context: Any = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (_stablehlo, _chlo, _sdy):
        dialect.register_dialect(context)
    # Otherwise the bindings take diagnostics for themselves first, and one that is not UTF-8 ends the process.
    context.emit_error_diagnostics = True
    return context


class Diagnostics:
    """MLIR's messages about a module, with lines and columns."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def note(self, diagnostic: Any) -> bool:
        """A handler of diagnostics. It never raises: that would be taken for one that wants none."""
        place = readable(lambda: str(diagnostic.location), "?")
        own = _PLACE.fullmatch(place)
        where = place if own is None else f"line {own[1]}, column {own[2]}"
        self.found.append(f"{where}: {readable(lambda: diagnostic.message, '?')}")
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
    from jaxlib.mlir._mlir_libs import _stablehlo

    if data[5:14] == b"StableHLO":
        return _stablehlo.deserialize_portable_artifact(context, data)
    return ir.Module.parse(data, context)


def is_readable(module: Any) -> bool:
    """Tell whether the names in a module are text: the bindings end the process where they are asked for another.

    Types and attributes that share their parts can be short in bytecode and endless as text: that is found out here.
    """
    text: bytes = module.operation.get_asm(binary=True, large_elements_limit=16, enable_debug_info=True)
    names: list[bytes] = [*_LOCATED.findall(text), *_ATTRIBUTE.findall(text)]
    names += [name for line in _LOCATIONS.findall(text) for name in _STRING.findall(line)]
    try:
        text.decode()
        return not any("\0" in _ESCAPED.sub(_byte, name).decode() for name in names if b"\\" in name)
    except UnicodeDecodeError:
        return False


def _byte(escaped: re.Match[bytes]) -> bytes:
    return bytes([int(escaped[1], 16)])


def rewritten(data: bytes) -> bytes:
    """``VALID`` and the module's bytecode, or ``INVALID`` and what MLIR says of it."""
    from jaxlib.mlir import ir

    context, said = open_context(), Diagnostics()
    with context, ir.Location.unknown(), context.attach_diagnostic_handler(said.note):
        try:
            module = parsed_bytecode(context, data)
        except (ir.MLIRError, ValueError, RuntimeError) as error:
            return INVALID + said.text(error).encode(errors="replace")
        if not is_readable(module):
            return INVALID + b"it has names that are no text"
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
    # The bindings work without NumPy, which is half of what it takes to import them, and nothing here is an array.
    sys.modules["numpy"] = None  # pyright: ignore[reportArgumentType]
    _limit(header["seconds"], header["memory"])
    sys.stdout.buffer.write(rewritten(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
