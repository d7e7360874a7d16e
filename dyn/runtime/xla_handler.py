"""FFI handler that XLA calls from its compiled programs: it runs a host program on XLA's own buffers.

``ptr dyn_xla_call(ptr frame)`` takes an ``XLA_FFI_CallFrame`` (``xla/ffi/api/c_api.h``, which is stable) with two
attributes: ``process``, a number that ``dyn_xla_process`` was told and that nobody can guess, and ``record``, the
address of a :class:`HandlerRecord`. An address is believed where the number is right: a program that another process
made, or somebody by hand, has another. Arguments are read and results written where XLA has them; no Python runs. It
gives null, or an error of XLA's.
"""

from __future__ import annotations

from dyn.lower.abi import ALLOC_OUTPUT, FAIL, TensorOffsets
from dyn.lower.native import FunctionBuilder, Module

SYMBOL = "dyn_xla_call"
#: ``void dyn_xla_process(i64 number)``, before the first call.
PROCESS_SYMBOL = "dyn_xla_process"
#: The version of the interface that this is written for.
_MAJOR, _MINOR = 0, 3
#: A call whose tensors need more bytes is not made so: they lie on the stack of one of XLA's threads.
MOST_BYTES = 1 << 16


class HandlerRecord:
    """A compiled program: words of 8 bytes. ``RANKS`` are those of the results, ``DIMS`` is their sum."""

    RUN, CONTEXT, RUNTIME, ARGUMENTS, CAPTURED, CAPTURED_COUNT = 0, 8, 16, 24, 32, 40
    RESULTS, RANKS, DIMS, MESSAGE = 48, 56, 64, 72
    WORDS = 10


class _FfiCallFrame:
    """``XLA_FFI_CallFrame``; ``ARGS``, ``RETS`` and ``ATTRS`` are the arrays of pointers in its parts."""

    EXTENSION, API, ARGS, RETS, ATTRS = 8, 16, 72, 112, 160
    #: How many attributes there are, and the array of their types.
    ATTR_COUNT, ATTR_TYPES = 136, 144


#: ``XLA_FFI_AttrType_SCALAR``, and ``XLA_FFI_DataType_S64``.
_SCALAR, _S64 = 3, 5
#: The codes of XLA's errors.
_INVALID_ARGUMENT, _INTERNAL = 3, 13


class _FfiBuffer:
    """``XLA_FFI_Buffer``"""

    DATA, RANK, DIMS = 24, 32, 40


def xla_call_text(runtime_words: int) -> str:
    """The module's LLVM IR; a runtime table has ``runtime_words`` words."""
    m = Module()
    _define_alloc_output(m)
    _define_fail(m)
    _define_process(m)
    f = m.function(SYMBOL, "ptr", [("ptr", "frame")])
    extension = f.load("ptr", "%frame", _FfiCallFrame.EXTENSION)
    with f.if_(f.icmp("ne", extension, "null", "ptr")):
        _tell_version(f, extension)
    refusal = m.string("dyn: this program names a program of dyn's that is not of this process")
    with f.if_(f.icmp("ne", f.load("i64", "%frame", _FfiCallFrame.ATTR_COUNT), "2")):
        _fail(f, refusal, _INVALID_ARGUMENT)
    with f.if_(f.icmp("ne", _attribute(f, 0, refusal), f.load("i64", "@dyn_xla_number"))):
        _fail(f, refusal, _INVALID_ARGUMENT)
    record = f.cast("inttoptr", _attribute(f, 1, refusal), "i64", "ptr")
    arguments, captured = (
        f.load("i64", record, HandlerRecord.ARGUMENTS),
        f.load("i64", record, HandlerRecord.CAPTURED_COUNT),
    )
    results, dims = f.load("i64", record, HandlerRecord.RESULTS), f.load("i64", record, HandlerRecord.DIMS)
    inputs = f.alloca(f.mul(f.add(arguments, captured), str(TensorOffsets.BYTES)))
    outputs = f.alloca(f.mul(results, str(TensorOffsets.BYTES)))
    sizes = f.alloca(f.mul(dims, "8"))
    runtime = f.stack(f"[{runtime_words} x ptr]")
    state = f.stack("ptr")
    _inputs(f, record, inputs, arguments, captured)
    _outputs(f, record, outputs, results, sizes)
    shared = f.load("ptr", record, HandlerRecord.RUNTIME)
    for word in range(runtime_words):
        f.store("ptr", f.load("ptr", shared, 8 * word), runtime, 8 * word)
    f.store("ptr", f.load("ptr", "%frame", _FfiCallFrame.RETS), state)
    f.store("ptr", state, runtime)
    f.store("ptr", "@xla_alloc_output", runtime, 8 * ALLOC_OUTPUT)
    f.store("ptr", "@xla_fail", runtime, 8 * FAIL)
    context = f.load("ptr", record, HandlerRecord.CONTEXT)
    given = [("ptr", runtime), ("ptr", context), ("ptr", inputs), ("ptr", outputs)]
    status = f.call("i32", f.load("ptr", record, HandlerRecord.RUN), given)
    f.ret_if(f.icmp("eq", status, "0", "i32"), "ptr", "null")
    _fail(f, f.load("ptr", record, HandlerRecord.MESSAGE), _INTERNAL)
    return m.text()


def _fail(f: FunctionBuilder, message: str, code: int) -> None:
    """Return ``XLA_FFI_Error_Create_Args``: its size, no extension, the message, and the code."""
    error = f.stack("[4 x i64]")
    f.store("i64", "32", error)
    f.store("ptr", "null", error, 8)
    f.store("ptr", message, error, 16)
    f.store("i64", str(code), error, 24)
    create = f.load("ptr", f.load("ptr", "%frame", _FfiCallFrame.API), 48)
    f.ret("ptr", f.call("ptr", create, [("ptr", error)]))


def _define_process(m: Module) -> None:
    m.variable("dyn_xla_number", "i64")
    f = m.function(PROCESS_SYMBOL, "void", [("i64", "number")])
    f.store("i64", "%number", "@dyn_xla_number")
    f.ret()


def _tell_version(f: FunctionBuilder, extension: str) -> None:
    """XLA asks, when it registers a handler, which version it is for: an extension of type 1 of the frame."""
    kind = f.load("i32", extension, 8)
    with f.if_(f.icmp("eq", kind, "1", "i32")):
        metadata = f.load("ptr", extension, 24)
        f.store("i32", str(_MAJOR), metadata, 24)
        f.store("i32", str(_MINOR), metadata, 28)
        f.store("i32", "0", metadata, 32)
        f.store("i64", "0", metadata, 40)
        f.ret("ptr", "null")


def _attribute(f: FunctionBuilder, number: int, refusal: str) -> str:
    """An attribute's value: that of an ``XLA_FFI_Scalar`` of type int64, and no other."""
    kind = f.load("i32", f.load("ptr", "%frame", _FfiCallFrame.ATTR_TYPES), 4 * number)
    with f.if_(f.icmp("ne", kind, str(_SCALAR), "i32")):
        _fail(f, refusal, _INVALID_ARGUMENT)
    scalar = f.load("ptr", f.load("ptr", "%frame", _FfiCallFrame.ATTRS), 8 * number)
    with f.if_(f.icmp("ne", f.load("i32", scalar), str(_S64), "i32")):
        _fail(f, refusal, _INVALID_ARGUMENT)
    return f.load("i64", f.load("ptr", scalar, 8))


def _inputs(f: FunctionBuilder, record: str, inputs: str, arguments: str, captured: str) -> None:
    """The tensors of the arguments, whose dims XLA has, and those of captured arrays after them."""
    buffers = f.load("ptr", "%frame", _FfiCallFrame.ARGS)
    with f.count(arguments) as number:
        buffer = f.load("ptr", f.at(buffers, number, "ptr"))
        tensor = f.at(inputs, f.mul(number, str(TensorOffsets.BYTES)))
        f.store("ptr", f.load("ptr", buffer, _FfiBuffer.DATA), tensor, TensorOffsets.DATA)
        f.store(
            "i64", "0", tensor, TensorOffsets.RANK - 4
        )  # with the word before it, which says whose memory may be taken
        rank = f.cast("trunc", f.load("i64", buffer, _FfiBuffer.RANK), "i64", "i32")
        f.store("i32", rank, tensor, TensorOffsets.RANK)
        f.store("ptr", f.load("ptr", buffer, _FfiBuffer.DIMS), tensor, TensorOffsets.DIMS)
        f.store("ptr", "null", tensor, TensorOffsets.STRIDES)
    start = f.at(inputs, f.mul(arguments, str(TensorOffsets.BYTES)))
    source = f.load("ptr", record, HandlerRecord.CAPTURED)
    with f.count(f.mul(captured, str(TensorOffsets.BYTES // 8))) as word:
        f.store("i64", f.load("i64", f.at(source, word, "i64")), f.at(start, word, "i64"))


def _outputs(f: FunctionBuilder, record: str, outputs: str, results: str, sizes: str) -> None:
    """Tensors for the results, whose dims the host program will write."""
    at = f.var("ptr", sizes)
    ranks = f.load("ptr", record, HandlerRecord.RANKS)
    with f.count(results) as number:
        tensor = f.at(outputs, f.mul(number, str(TensorOffsets.BYTES)))
        rank = f.load("i64", f.at(ranks, number, "i64"))
        f.store("ptr", "null", tensor, TensorOffsets.DATA)
        f.store("i64", "0", tensor, TensorOffsets.RANK - 4)
        f.store("i32", f.cast("trunc", rank, "i64", "i32"), tensor, TensorOffsets.RANK)
        f.store("ptr", at.get(), tensor, TensorOffsets.DIMS)
        f.store("ptr", "null", tensor, TensorOffsets.STRIDES)
        at.set(f.at(at.get(), rank, "i64"))


def _define_alloc_output(m: Module) -> None:
    """A result's memory is XLA's. It has none for a result without elements, which null would say is a failure."""
    f = m.function("xla_alloc_output", "ptr", [("ptr", "rt"), ("i32", "number"), ("ptr", "tensor")], exported=False)
    buffers = f.load("ptr", f.load("ptr", "%rt"))
    number = f.cast("sext", "%number", "i32", "i64")
    data = f.load("ptr", f.load("ptr", f.at(buffers, number, "ptr")), _FfiBuffer.DATA)
    f.ret("ptr", f.select(f.is_null(data), "%tensor", data, "ptr"))


def _define_fail(m: Module) -> None:
    """Ignore the site of a failure: sizes were checked when the program was traced, and what is left is memory."""
    params = [("ptr", "rt"), ("i32", "site"), ("i32", "count"), ("ptr", "values")]
    m.function("xla_fail", "void", params, exported=False).ret()
