"""Checks of what a program asks of its runtime and writes, and memory with red zones, for ``python_runtime``."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.backends.call_frames import CallFrame
from dyn.errors import DynError, OverrunError, RuntimeTableError, ShapeError
from dyn.fork_safety import lock
from dyn.frozen import record
from dyn.ir.core import Function, Value
from dyn.late_imports import import_whole
from dyn.lower.abi import TensorOffsets
from dyn.shapes.walk import evaluate

if TYPE_CHECKING:
    from dyn.lower.host import HostProgram
    from dyn.schedule.launch import Dispatch

Array = np.ndarray[Any, Any]

#: What the allocator promises of a block's address.
_ALIGNMENT = 64
#: Bytes on either side of a block that nobody may write, and what they are: NaN as floats, -1 as integers.
_ZONE, _BYTE = 256, 0xFF
_REMEDY = "this is a bug in dyn, or in a native function that the program calls: report it with the program."


@record(eq=False)
class CallSite:
    """A call by Python, and its program: the function and the host program, the arrays of its large constants, and the
    settings that choose a runtime table."""

    function: Function
    host: Callable[[], HostProgram]
    constants: Sequence[Array]
    frame: CallFrame
    threads: int
    wants: bool


class GuardedBlock:
    """Memory with red zones around it."""

    def __init__(self, size: int, what: str) -> None:
        self.size, self.what = size, what
        try:
            self._whole = np.full(size + 2 * _ZONE + _ALIGNMENT, _BYTE, np.uint8)
        except ValueError as error:  # more bytes than there are addresses
            raise MemoryError(f"no memory for {what} of {size} bytes") from error
        start = self._whole.__array_interface__["data"][0]
        self._first = -(start + _ZONE) % _ALIGNMENT + _ZONE
        self.address: int = start + self._first

    @property
    def is_whole(self) -> bool:
        """Whether nobody has written beside it."""
        before, after = self._whole[: self._first], self._whole[self._first + self.size :]
        return bool((before == _BYTE).all() and (after == _BYTE).all())

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array over the memory, which keeps it."""
        return self._whole[self._first : self._first + self.size].view(dtype).reshape(shape)


class CallChecks:
    """The memory of one call, and what was found wrong with it."""

    def __init__(self, site: CallSite) -> None:
        self.site, self.frame = site, site.frame
        #: The blocks that compiled code has, by their addresses, those of results, and addresses that were given back.
        self.blocks: dict[int, GuardedBlock] = {}
        self.results: list[GuardedBlock] = []
        self.freed: set[int] = set()
        #: What was found wrong first.
        self.problem: BaseException | None = None
        #: Where the values of the program's symbols are, and how many there are.
        self.values: tuple[int, int] = (0, 0)
        self._lock = lock()
        self._dispatches: tuple[Dispatch, ...] | None = None

    def failed(self, error: BaseException) -> None:
        """Keep the first error for the end of the call: it must not pass through native frames."""
        with self._lock:
            if self.problem is None:
                self.problem = error

    def take(self, bytes: int, what: str) -> int:
        """The address of a new block. MemoryError where there is no memory."""
        if bytes < 0:
            raise self.broken(f"{what} of {bytes} bytes")
        block = GuardedBlock(bytes, what)
        self.blocks[block.address] = block
        self.freed.discard(block.address)
        return block.address

    def give_back(self, address: int, bytes: int) -> None:
        """Take a block back; ``bytes`` is what its holder says it has, or 0."""
        known = self.blocks.pop(address, None)
        if known is None:
            how = "was freed twice" if address in self.freed else "was freed, and never allocated"
            raise self.broken(f"the block at {address:#x} {how}")
        if bytes not in (0, known.size):
            raise self.broken(f"a block of {known.size} bytes was freed as one of {bytes}")
        self._check_zone(known, "before it was freed")
        self.freed.add(address)

    def result(self, number: int) -> int:
        """The address of the memory of a new result, whose dims the program has written; 0 where there is none."""
        if not 0 <= number < len(self.frame.dtypes):
            raise self.broken(f"there is no result {number}")
        if self.frame.outputs[number] is not None:
            raise self.broken(f"memory was asked twice for result {number}")
        shape, dtype = self.frame.shape(number), self.frame.dtypes[number]
        if any(size < 0 for size in shape):
            raise self.broken(f"result {number} has the shape {shape}")
        try:
            block = GuardedBlock(dtype.itemsize * math.prod(shape), f"result {number}")
        except MemoryError as error:
            self.frame.error = error
            return 0
        self.results.append(block)
        self.frame.outputs[number] = block.array(shape, dtype)
        return block.address

    def finish(self, *, interrupted: bool) -> None:
        """Raise what was found wrong, or RuntimeTableError for blocks that were not given back."""
        self.check_zones("after the call")
        if self.problem is not None:
            raise self.problem
        if interrupted:
            raise KeyboardInterrupt  # a signal's handler raised as Python was asked, and ctypes has dropped it
        if self.blocks:
            sizes = ", ".join(str(block.size) for block in self.blocks.values())
            raise self.broken(f"{len(self.blocks)} blocks were not freed when the call ended, of {sizes} bytes")

    def launch_of(self, number: int) -> Dispatch:
        """A launch or a call of the program, by its number."""
        if self._dispatches is None:
            import_whole("dyn.schedule.launch")
            from dyn.schedule.launch import dispatches  # a process that calls natively does without

            self._dispatches = dispatches(self.site.host().launches)
        if not 0 <= number < len(self._dispatches):
            raise self.broken(f"there is no launch {number}")
        return self._dispatches[number]

    def describe(self, dispatch: int) -> str:
        """A launch or a call, for people."""
        found = self.launch_of(dispatch)
        if found.launch.call is not None:
            return f"the call {dispatch}, {found.launch.call.opdef.name}"
        note = "" if found.variant is None else f" ({found.variant.note})"
        return f"launch {dispatch}, {found.launch.group.name}{note}"

    def check_tensors(self, dispatch: int, tensors: int) -> None:
        """Check the tensors of a call, operands and then results."""
        buffers = self.launch_of(dispatch).launch.buffers
        step = TensorOffsets.BYTES // 8
        words = (ctypes.c_int64 * (step * len(buffers))).from_address(tensors)
        self.check_buffers(self.describe(dispatch), buffers, words[::step])

    def check_buffers(self, what: str, buffers: Sequence[Value], addresses: Sequence[int]) -> None:
        """Check that each buffer lies, whole and aligned, in memory that the program was given."""
        host = self.site.host()
        address, count = self.values
        known = (ctypes.c_int64 * count).from_address(address) if count else ()
        sizes = dict(zip(host.symbols, known, strict=False))
        regions = list(self._regions())
        for value, start in zip(buffers, addresses, strict=True):
            try:
                nbytes = evaluate(value.type.nbytes, sizes)
            except (KeyError, ShapeError):  # of a loop's own sizes
                nbytes = 1
            if nbytes <= 0:
                continue
            if start % value.dtype.np.alignment:
                raise self.broken(f"{what}: {value.type} lies at {start:#x}, which is not aligned")
            if not any(first <= start and start + nbytes <= end for first, end in regions):
                raise self.broken(f"{what}: the {nbytes} bytes of {value.type} at {start:#x} lie in no array")

    def _regions(self) -> Iterator[tuple[int, int]]:
        """The memory of the call: arguments, results, constants and blocks, as first and last + 1 addresses."""
        for number, param in enumerate(self.site.function.params):
            first, shape = self.frame.tensor(number)
            yield first, first + param.dtype.np.itemsize * math.prod(shape)
        for array in self.site.constants:
            first = array.__array_interface__["data"][0]
            yield first, first + array.nbytes
        for block in (*self.blocks.values(), *self.results):
            yield block.address, block.address + block.size

    def check_zones(self, when: str) -> None:
        """Note an OverrunError where bytes beside a block or a result have been written."""
        for block in (*self.blocks.values(), *self.results):
            self._check_zone(block, when)

    def _check_zone(self, block: GuardedBlock, when: str) -> None:
        if not block.is_whole:
            self.failed(
                OverrunError(
                    f"{self.site.function.name}: bytes beside {block.what} of {block.size} bytes were written {when}.",
                    remedy=_REMEDY,
                )
            )

    def broken(self, problem: str) -> DynError:
        """The error of a program that has asked for what it may not."""
        return RuntimeTableError(f"{self.site.function.name}: {problem}.", remedy=_REMEDY)
