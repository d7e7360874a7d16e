"""The binary interface of host programs: the records that they read, and the names that their callers know.

``dyn.lower.host_llvm.emit`` says what a host program does with them. This file imports nothing that writes text, so
that a process which finds its programs compiled does without.
"""

from __future__ import annotations

#: Places of the functions in the runtime table, counted in pointers.
ALLOC, FREE, ALLOC_OUTPUT, LAUNCH, PARALLEL_FOR, LIBRARY, FAIL, THREADS, CALL, BEGIN, END = range(1, 12)
#: Words of a runtime table, its state first.
TABLE_WORDS = 12


#: The byte offset in ``ctx``, before its first entry, of the number of the loaded program (``LoadedProgram.number``).
PROGRAM_NUMBER = -8


class Tensor:
    """The byte offsets of an operand or a result. Before a call a caller may note in ``TAG`` how an operand lies."""

    DATA, TAG, RANK, DIMS, STRIDES, BYTES = 0, 8, 12, 16, 24, 32


#: What the symbols of native library calls begin with (``dyn.lower.library_calls``): of those that call LAPACK, and of
#: those that call nothing.
LIBRARY_SYMBOL, NATIVE_SYMBOL = "lib_", "own_"
