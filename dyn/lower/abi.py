"""The binary interface of host programs: the records that they read, and the names that their callers know.

``dyn.lower.host_llvm.emit`` says what a host program does with them. This file imports nothing that writes text, so
that a process which finds its programs compiled does without.
"""

from __future__ import annotations

from dyn.frozen import record


@record()
class TableFunction:
    """A function of the runtime table: its parameters and result, by LLVM's types, what it does, and who runs it.

    ``failure`` is what it answers where it cannot do it: of ``begin`` its first parameter, and empty of what returns
    nothing. ``caller`` is a thread in the call, or a piece of a job too, which may run on any thread.
    """

    name: str
    result: str
    params: tuple[tuple[str, str], ...]
    failure: str
    does: str
    caller: str = "the calling thread"

    def signature(self) -> str:
        """The function as C would declare it."""
        words = {"ptr": "void*", "i64": "int64_t", "i32": "int32_t", "void": "void"}
        return f"{words[self.result]} {self.name}({', '.join(f'{words[type]} {name}' for type, name in self.params)})"


def _function(name: str, result: str, params: str, failure: str, does: str, caller: str = "") -> TableFunction:
    typed = [param.split() for param in params.split(", ")]
    return TableFunction(
        name, result, (("ptr", "rt"), *[(type, name) for type, name in typed]), failure, does,
        caller or "the calling thread",
    )  # fmt: skip


_ANY_THREAD = "any thread that runs a part of the call"

#: The words of a runtime table after its state: functions, and between them, as None, the number of threads that a
#: launch may use, 0 for as many as the process has.
RUNTIME_TABLE: tuple[TableFunction | None, ...] = (
    _function(
        "alloc", "ptr", "i64 bytes", "null",
        "Memory for a segment of the arena or a routine's workspace: aligned to 64 bytes, not cleared.", _ANY_THREAD,
    ),
    _function(
        "free", "void", "ptr block, i64 bytes", "",
        "Gives back what `alloc` gave, once; `bytes` is its size, or 0 where the caller does not know it.", _ANY_THREAD,
    ),
    _function(
        "alloc_output", "ptr", "i32 number, ptr tensor", "null",
        "Memory for a result, whose dims are in the tensor. It is the caller's, also where the call fails "
        "later. Not asked for a result that "
        "takes a donated argument's memory.",
    ),
    _function(
        "launch", "i32",
        "ptr kernel, i64 grid, ptr dims, ptr buffers, i64 scratch_bytes, i64 cost, i64 pieces, i64 dispatch", "1",
        "Runs `kernel(dims, buffers, scratch, begin, end)` over pieces of [0, grid), on several threads "
        "perhaps, each with scratch of its own and `pieces` of the range at most (0: as many as balance the work); "
        "returns when all have run. 1: there was no memory for scratch, and nothing has run.",
    ),
    _function(
        "parallel_for", "i32", "ptr fn, ptr ctx, i64 n, i64 grain", "1",
        "Runs `fn(ctx, begin, end, worker)` over pieces of [0, n) of about `grain` or more, and returns when "
        "all have run. Of two pieces that "
        "run at once `worker` differs.",
    ),
    _function(
        "library", "i32", "ptr number, ptr tensors, ptr values, i64 dispatch", "1",
        "Has Python compute an op from its operands into its results, which follow one another in `tensors`.",
    ),
    _function(
        "fail", "void", "i32 site, i32 count, ptr values", "",
        "Is told, once, why the call is about to return 1: the check that failed, and the values of the "
        "program's symbols.",
    ),
    None,
    _function(
        "call", "i32", "ptr function, ptr context, ptr in, ptr out, i64 dispatch", "1",
        "Calls `function(context, in, out)`, a function outside of the program, and gives its answer; 0 is good.",
    ),
    _function(
        "begin", "ptr", "ptr ctx, ptr values, i64 count", "%rt",
        "Null, or asked at the beginning of a call for the table to use instead of this one, and told where "
        "its symbols' values are going to be.",
    ),
    _function(
        "end", "void", "i32 status", "", "Gives back a table that `begin` gave, with what the call returns.",
    ),
    _function(
        "want", "void", "ptr slot", "", "Is told that the call could use a deferred kernel, and waits for nobody.",
    ),
    _function(
        "fetch", "i32", "ptr into, ptr from, i64 bytes", "1",
        "On devices: a number from the device's memory, once what computes it is done; or what the driver says.",
    ),
    _function(
        "stage", "i32", "ptr function, ptr context, ptr tensors, i64 inputs, i64 outputs", "1",
        "On devices: `call` with copies of the tensors in this machine's memory.",
    ),
)  # fmt: skip
#: Words of a runtime table, its state first.
TABLE_WORDS = 1 + len(RUNTIME_TABLE)
#: The places of its words, counted in pointers.
(
    ALLOC, FREE, ALLOC_OUTPUT, LAUNCH, PARALLEL_FOR, LIBRARY, FAIL, THREADS, CALL, BEGIN, END, WANT, FETCH, STAGE,
) = range(1, TABLE_WORDS)  # fmt: skip


#: The byte offset in ``ctx``, before its first entry, of the number of the loaded program (``LoadedProgram.number``).
PROGRAM_NUMBER = -8


class TensorOffsets:
    """The byte offsets of an operand or a result. Before a call a caller may note in ``TAG`` how an operand lies."""

    DATA, TAG, RANK, DIMS, STRIDES, BYTES = 0, 8, 12, 16, 24, 32


class KernelSlot:
    """The byte offsets in the slot of a deferred kernel, to which ``ctx`` points: its address, null until it is made,
    and whether a call has met its condition. Both are read and written by atomic operations alone."""

    KERNEL, WANTED = 0, 8
    WORDS = 2


class DeviceState:
    """The byte offsets in the state of a device's runtime table, which belongs to one call: functions of Python that
    the runtime asks, the call's stream, functions of the device's driver, what the driver has answered that was not 0,
    in the dispatch of that number, and the number by which recordings know the device."""

    ASK_OUTPUT, ASK_LIBRARY, ASK_STAGE, STREAM, LAUNCH, ALLOC, FREE, TO_HOST, SYNCHRONIZE = range(0, 72, 8)
    CREATE_EVENT, RECORD_EVENT, DESTROY_EVENT, ERROR, DISPATCH, DEVICE = range(72, 120, 8)
    WORDS = 15
    #: In ``DISPATCH`` where copying the call's arguments there has failed: ``ERROR`` is ``dyn_staging_copy``'s answer.
    STAGING = -2


class DeviceKernel:
    """The byte offsets in the record of a device's kernel, to which ``ctx`` points: the driver's handle, the threads
    of a block, how many buffers and dims it takes, and the most blocks of a launch."""

    FUNCTION, THREADS, BUFFERS, DIMS, BLOCKS = range(0, 40, 8)
    WORDS = 5


#: What the symbols of native library calls begin with (``dyn.lower.library_calls``): of those that call LAPACK, and of
#: those that call nothing.
LIBRARY_SYMBOL, NATIVE_SYMBOL = "lib_", "own_"
