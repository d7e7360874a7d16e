"""The binary interface of host programs: the records that they read, and the names that their callers know.

``dyn.lower.host_llvm.emit`` says what a host program does with them. This file imports nothing that writes text, so
that a process which finds its programs compiled does without.
"""

from __future__ import annotations

#: Places of the functions in the runtime table, counted in pointers.
ALLOC, FREE, ALLOC_OUTPUT, LAUNCH, PARALLEL_FOR, LIBRARY, FAIL, THREADS, CALL, BEGIN, END, WANT = range(1, 13)
#: Words of a runtime table, its state first.
TABLE_WORDS = 13


#: The byte offset in ``ctx``, before its first entry, of the number of the loaded program (``LoadedProgram.number``).
PROGRAM_NUMBER = -8


class Tensor:
    """The byte offsets of an operand or a result. Before a call a caller may note in ``TAG`` how an operand lies."""

    DATA, TAG, RANK, DIMS, STRIDES, BYTES = 0, 8, 12, 16, 24, 32


class KernelSlot:
    """The byte offsets in the slot of a deferred kernel, to which ``ctx`` points: its address, null until it is made,
    and whether a call has met its condition. Both are read and written by atomic operations alone."""

    KERNEL, WANTED = 0, 8
    WORDS = 2


#: What the symbols of native library calls begin with (``dyn.lower.library_calls``): of those that call LAPACK, and of
#: those that call nothing.
LIBRARY_SYMBOL, NATIVE_SYMBOL = "lib_", "own_"
