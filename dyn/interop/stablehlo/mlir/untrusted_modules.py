"""Reader of untrusted modules, in a process of its own: MLIR is not made for hostile ones.

Its readers, its verifiers and its passes may end their process, or never end, on what no MLIR wrote. What comes out of
here is what MLIR wrote of a valid module. ``guard`` runs this file as a process of its own, which answers one request
after the other, each in a fork of itself that nobody misses. So nothing here knows of dyn: ``jaxlib`` is all it needs.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import re
import resource
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
#: What is asked for: a module that is read, one whose names must be text, one that has its CHLO written out.
READ, READ_NAMED, LEGALIZE = "read", "read named", "legalize"
#: Seconds without a request after which the process ends.
IDLE = 20.0


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


def rewritten(data: bytes, task: str = READ_NAMED) -> bytes:
    """``VALID`` and the module's bytecode, or ``INVALID`` and what MLIR says of it."""
    from jaxlib.mlir import ir

    context, said = open_context(), Diagnostics()
    context.enable_multithreading(False)  # threads would need address space, and there is nothing to gain
    with context, ir.Location.unknown(), context.attach_diagnostic_handler(said.note):
        try:
            module = parsed_bytecode(context, data) if data.startswith(MAGIC) else ir.Module.parse(data, context)
            if task == LEGALIZE:
                legalize(module)
        except (ir.MLIRError, ValueError, RuntimeError) as error:
            return INVALID + said.text(error).encode(errors="replace")
        if task == READ_NAMED and not is_readable(module):
            return INVALID + b"it has names that are no text"
        return VALID + bytecode_of(module)


def bytecode_of(module: Any) -> bytes:
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


# --- CHLO, written out in StableHLO -----------------------------------------------------------------------------------

_LEGALIZE = "builtin.module(func.func(chlo-legalize-to-stablehlo,shape-legalize-to-stablehlo),canonicalize)"
#: Operations that the pass would write out wrongly, or not survive: scans, of which it does not look at ``is_reverse``.
_ASIDE = {"chlo.scan": "dyn.scan"}


def operations(module: Any) -> Iterator[Any]:
    """All operations of a module, those in regions included."""
    pending = [module.operation]
    while pending:
        op = pending.pop()
        yield op
        pending += [inner.operation for region in op.regions for block in region for inner in block]


def legalize(module: Any) -> None:
    """Write CHLO out in StableHLO, in place. Raises what the bindings raise where it has no form there."""
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir._mlir_libs import _stablehlo

    _stablehlo.register_stablehlo_passes()
    with _set_aside(ir, module):
        passmanager.PassManager.parse(_LEGALIZE).run(module.operation)


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


# --- the process ------------------------------------------------------------------------------------------------------


def _limit(seconds: int, memory: int) -> None:
    """Bound the process's time and address space, by less where it has less."""
    for which, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(which)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(10 * seconds)  # for what waits without taking time


def _answered(request: Mapping[str, Any], data: bytes) -> tuple[int, bytes, bytes]:
    """The end of a fork that reads a module: its exit status or minus a signal, and what it wrote into both pipes."""
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(out_end, 1)
            os.dup2(err_end, 2)
            _limit(request["seconds"], request["memory"])
            answer = rewritten(data, request["task"])
            with os.fdopen(1, "wb", closefd=False) as pipe:
                pipe.write(answer)
            status = 0
        except BaseException as error:
            with suppress(BaseException):
                os.write(2, f"{type(error).__name__}: {error}".encode(errors="replace"))
        finally:
            os._exit(status)
    os.close(out_end)
    os.close(err_end)
    read: dict[int, list[bytes]] = {out: [], err: []}
    pending = [out, err]
    while pending:
        for pipe in select.select(pending, [], [])[0]:
            part = os.read(pipe, 1 << 20)
            read[pipe].append(part)
            if not part:
                os.close(pipe)
                pending.remove(pipe)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), b"".join(read[out]), b"".join(read[err])


def _read(source: io.FileIO, count: int) -> bytes:
    data = bytearray(count)
    done = 0
    while done < count:
        part = source.readinto(memoryview(data)[done:])
        if not part:
            raise EOFError
        done += part
    return bytes(data)


def main() -> None:
    """Answer requests: each a line with a record and the number of bytes that follow, until there are no more.

    The first line says where modules of Python are.
    """
    # Without a buffer, in which a request would lie unseen while select waits for one.
    source, sink = io.FileIO(0, closefd=False), sys.stdout.buffer
    sys.path[:] = json.loads(source.readline())["path"]
    # The bindings work without NumPy, which is half of what it takes to import them, and nothing here is an array.
    sys.modules["numpy"] = None  # pyright: ignore[reportArgumentType]
    with suppress(ImportError):  # a fork says so
        for name in (
            "ir",
            "passmanager",
            *[f"_mlir_libs.{n}" for n in ("_chlo", "_jax_mlir_ext", "_sdy", "_stablehlo")],
        ):
            importlib.import_module(f"jaxlib.mlir.{name}")
    gc.freeze()
    while select.select([source], [], [], IDLE)[0]:
        line = source.readline()
        if not line:
            break
        request = json.loads(line)
        status, out, err = _answered(request, _read(source, request["bytes"]))
        err = err[-2000:]
        sink.write(json.dumps({"status": status, "out": len(out), "err": len(err)}).encode() + b"\n" + out + err)
        sink.flush()


if __name__ == "__main__":
    main()
