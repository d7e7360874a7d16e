"""The binary interface of host programs: the records that they read, and the names that their callers know.

``dyn.lower.host_llvm.emit`` says what a host program does with them. This file imports nothing that writes text, so
that a process which finds its programs compiled does without.
"""

from __future__ import annotations

#: Places of the functions in the runtime table, counted in pointers.
ALLOC, FREE, ALLOC_OUTPUT, LAUNCH, PARALLEL_FOR, LIBRARY, FAIL, THREADS, CALL, BEGIN, END, WANT = range(1, 13)
#: Those that only programs call whose buffers are in a device's memory.
FETCH, STAGE = 13, 14
#: Words of a runtime table, its state first.
TABLE_WORDS = 15


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


class DeviceKernel:
    """The byte offsets in the record of a device's kernel, to which ``ctx`` points: the driver's handle, the threads
    of a block, how many buffers and dims it takes, and the most blocks of a launch."""

    FUNCTION, THREADS, BUFFERS, DIMS, BLOCKS = range(0, 40, 8)
    WORDS = 5


#: What the symbols of native library calls begin with (``dyn.lower.library_calls``): of those that call LAPACK, and of
#: those that call nothing.
LIBRARY_SYMBOL, NATIVE_SYMBOL = "lib_", "own_"
