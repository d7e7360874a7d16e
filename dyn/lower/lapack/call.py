"""A library call as native code, ``i32 symbol(rt, tensors, results)``, with all that its text is written with.

The tensors are those of a host program's library call (``dyn.lower.host_llvm.emit``): the op's operands and then its
results, dense; ``results`` is where the results begin. It returns one of the statuses below. LAPACK's functions are
referred to by name, as ``dyn_lapack_dpotrf``, and found when the code is loaded (``dyn.backends.lapack``): the same
object serves every process.

LAPACK counts in 32 bits, takes everything by address, and reads columns first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dyn.dtypes import DType, Kind
from dyn.ir.core import Op
from dyn.lower.abi import ALLOC, FREE, Tensor
from dyn.lower.native import Function, Module

#: What a call answers: that its results are there, that there was no memory to compute with, and that a size is one
#: that LAPACK cannot be told of.
DONE, NO_MEMORY, TOO_LONG = range(3)
_MOST = str(2**31 - 1)
_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


class LibraryCall:
    """The text of one call in the making. ``f`` is its function."""

    def __init__(self, op: Op, symbol: str) -> None:
        self.op = op
        self.module = Module()
        self.f = self.module.function(symbol, "i32", [("ptr", "rt"), ("ptr", "tensors"), ("ptr", "results")])
        self.dtype: DType = op.operands[0].dtype
        self.letter = _LETTERS[self.dtype.name]
        self.complex = self.dtype.kind is Kind.COMPLEX
        self.item = self.dtype.itemsize
        #: The type of a real number, and its bytes.
        self.real_item = self.item // 2 if self.complex else self.item
        self.real = "float" if self.real_item == 4 else "double"
        self._lead = len(op.operands[0].shape) - 2
        self._values = (*op.operands, *op.results)
        self._block: str | None = None
        #: The functions that the text has beside its own.
        self.parts: set[str] = set()
        self.info = self.f.stack("i32")

    # Sizes ------------------------------------------------------------------------------------------------------------

    def size(self, tensor: int, axis: int) -> str:
        """A size of a tensor, the operands and then the results, by its axis; negative ones count from the end."""
        dims = self.f.load("ptr", "%tensors", tensor * Tensor.BYTES + Tensor.DIMS)
        return self.f.load("i64", dims, 8 * (axis % len(self._values[tensor].shape)))

    def matrix_sizes(self, tensor: int = 0) -> tuple[str, str]:
        """Rows and columns."""
        return self.size(tensor, -2), self.size(tensor, -1)

    def least(self, a: str, b: str) -> str:
        return self.f.select(self.f.icmp("slt", a, b), a, b)

    def most(self, a: str, b: str) -> str:
        return self.f.select(self.f.icmp("sgt", a, b), a, b)

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

    def scratch(self, *bytes: str) -> list[str]:
        """Memory of so many bytes each, until :meth:`finish`; asked for once."""
        f, places, total = self.f, list[str](), "0"
        for size in bytes:
            places.append(total)
            total = f.add(total, f.and_(f.add(size, "63"), "-64"))
        alloc = f.load("ptr", "%rt", 8 * ALLOC)
        block = self._block = f.call("ptr", alloc, [("ptr", "%rt"), ("i64", total)])
        f.ret_if(f.is_null(block), "i32", str(NO_MEMORY))
        return [f.at(block, place) for place in places]

    def finish(self) -> None:
        """Give back memory, and return."""
        if self._block is not None:
            free = self.f.load("ptr", "%rt", 8 * FREE)
            self.f.call("void", free, [("ptr", "%rt"), ("ptr", self._block), ("i64", "0")])
        self.f.ret("i32", str(DONE))

    # Stacks of matrices -----------------------------------------------------------------------------------------------

    @contextmanager
    def each(self) -> Iterator[list[str]]:
        """Code for each matrix of the stack: gives where its part of each tensor lies."""
        f, count = self.f, "1"
        for axis in range(self._lead):
            count = f.mul(count, self.size(0, axis))
        bases: list[str] = []
        steps: list[str] = []
        for number, value in enumerate(self._values):
            sizes = [self.size(number, axis) for axis in range(self._lead, len(value.shape))]
            bases.append(f.load("ptr", "%tensors", number * Tensor.BYTES + Tensor.DATA))
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
def steps(f: Function, start: str, stop: str, by: int = 1) -> Iterator[str]:
    """``for i in range(start, stop, by)``; gives i."""
    i = f.var("i64", start)
    with f.loop() as loop:
        now = i.get()
        loop.break_unless(f.icmp("slt", now, stop))
        yield now
        i.set(f.add(now, str(by)))


def function(call: LibraryCall, name: str, params: Sequence[tuple[str, str]], result: str = "void") -> Function:
    """A function that the call's own text may call, ``@name``: made once."""
    call.parts.add(name)
    return call.module.function(name, result, params, exported=False)
