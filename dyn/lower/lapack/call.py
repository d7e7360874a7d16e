"""Calls of LAPACK and BLAS as native code (``dyn.lower.native_call``), for every matrix of a stack.

LAPACK's functions are referred to by name, as ``dyn_lapack_dpotrf``, and found when the code is loaded
(``dyn.backends.lapack``): the same object serves every process.

LAPACK counts in 32 bits, takes everything by address, and reads columns first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dyn.dtypes import DType, Kind
from dyn.ir.core import Op
from dyn.lower.native import FunctionBuilder
from dyn.lower.native_call import TOO_LONG, NativeCall

_MOST = str(2**31 - 1)
_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


class LibraryCall(NativeCall):
    """The text of one call of LAPACK in the making."""

    def __init__(self, op: Op, symbol: str) -> None:
        super().__init__(op, symbol)
        self.dtype: DType = op.operands[0].dtype
        self.letter = _LETTERS[self.dtype.name]
        self.complex = self.dtype.kind is Kind.COMPLEX
        self.item = self.dtype.itemsize
        #: The type of a real number, and its bytes.
        self.real_item = self.item // 2 if self.complex else self.item
        self.real = "float" if self.real_item == 4 else "double"
        self._lead = len(op.operands[0].shape) - 2
        #: The functions that the text has beside its own.
        self.parts: set[str] = set()
        self.info = self.f.stack("i32")

    # Sizes ------------------------------------------------------------------------------------------------------------

    def matrix_sizes(self, tensor: int = 0) -> tuple[str, str]:
        """Rows and columns."""
        return self.size(tensor, -2), self.size(tensor, -1)

    def bytes(self, *sizes: str, item: int | None = None) -> str:
        """Bytes of so many elements: numbers of the dtype, unless their size is said."""
        total = str(self.item if item is None else item)
        for size in sizes:
            total = self.f.mul(total, size)
        return total

    def require_fit(self, *sizes: str) -> None:
        """Give up where a size is more than LAPACK can be told."""
        for size in sizes:
            self.f.ret_if(self.f.icmp("sgt", size, _MOST), "i32", str(TOO_LONG))

    # Arguments --------------------------------------------------------------------------------------------------------

    def int(self, value: str) -> str:
        """Pointer to an integer for LAPACK."""
        place = self.f.stack("i32")
        self.f.store("i32", self.f.cast("trunc", value, "i64", "i32"), place)
        return place

    def leading(self, rows: str) -> str:
        """Pointer to the leading dimension of a matrix for LAPACK: never 0."""
        return self.int(self.most(rows, "1"))

    def char(self, letter: str) -> str:
        """Pointer to an option, a letter, for LAPACK."""
        return self.module.string(letter)

    def one(self) -> str:
        """Pointer to the number 1 for BLAS."""
        place = self.f.stack("[16 x i8]", align=16)
        parts = ["1.0", "0.0"] if self.complex else ["1.0"]
        for number, part in enumerate(parts):
            self.f.store(self.real, part, place, number * self.real_item)
        return place

    def routine(self, library: str, name: str, *arguments: str) -> None:
        """Call a function of LAPACK or BLAS; ``name`` is without the letter of the dtype."""
        own = self.module.declare(f"dyn_{library}_{self.letter}{name}", "void", ["ptr"] * len(arguments))
        self.f.call("void", own, [("ptr", argument) for argument in arguments])

    def failed(self) -> str:
        """Whether LAPACK has no answer, an i1."""
        return self.f.icmp("ne", self.f.load("i32", self.info), "0", "i32")

    # Memory -----------------------------------------------------------------------------------------------------------

    def wanted(self, place: str) -> str:
        """Size of LAPACK's workspace in numbers, which it left in the first of them when it was asked."""
        f = self.f
        found = f.load(self.real, place)
        asked = f.cast("fptosi", found, self.real, "i64")
        # A float32 rounds such a number, maybe down.
        asked = self.most(f.add(asked, f.binary("ashr", asked, "22")), "1")
        self.require_fit(asked)
        return asked

    # Stacks of matrices -----------------------------------------------------------------------------------------------

    @contextmanager
    def each(self) -> Iterator[list[str]]:
        """Code for each matrix of the stack: gives where its part of each tensor lies."""
        f, count = self.f, "1"
        for axis in range(self._lead):
            count = f.mul(count, self.size(0, axis))
        bases: list[str] = []
        steps: list[str] = []
        for number, value in enumerate(self.values):
            sizes = [self.size(number, axis) for axis in range(self._lead, len(value.shape))]
            bases.append(self.data(number))
            steps.append(self.bytes(*sizes, item=value.dtype.itemsize))
        with f.count(count) as place:
            yield [f.at(base, f.mul(place, step)) for base, step in zip(bases, steps, strict=True)]

    def copy(self, to: str, source: str, bytes: str) -> None:
        self.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        arguments = [("ptr", to), ("ptr", source), ("i64", bytes), ("i1", "false")]
        self.f.call("void", "@llvm.memcpy.p0.p0.i64", arguments)

    def number(self, real: str) -> str:
        """A double in the type of a real number."""
        return real if self.real == "double" else self.f.cast("fptrunc", real, "double", "float")

    def wide(self, real: str) -> str:
        """A real number as a double."""
        return real if self.real == "double" else self.f.cast("fpext", real, "float", "double")


@contextmanager
def steps(f: FunctionBuilder, start: str, stop: str, by: int = 1) -> Iterator[str]:
    """``for i in range(start, stop, by)``; gives i."""
    i = f.var("i64", start)
    with f.loop() as loop:
        now = i.get()
        loop.break_unless(f.icmp("slt", now, stop))
        yield now
        i.set(f.add(now, str(by)))


def function(call: LibraryCall, name: str, params: Sequence[tuple[str, str]], result: str = "void") -> FunctionBuilder:
    """A function that the call's own text may call, ``@name``: made once."""
    call.parts.add(name)
    return call.module.function(name, result, params, exported=False)
