"""Operands of a contraction on their way through shared memory, a slice of the contracted axis at a time.

Threads go along the axis that an operand's loads are contiguous in. There are three ways:

* a plain load, contiguous and of the dtype that sums are in, is copied as it lies, 16 bytes at a time, where the device
  has copies that go on by themselves: two slices are on their way while one is multiplied;
* otherwise elements wait in registers while the slice before them is multiplied; plain, contiguous loads are moved up
  to 16 bytes at a time, anything else is computed for each element;
* where computing one is dear there are few copies of the code, whose results go to shared memory at once.

Where an operand is written in digits of an axis, as a convolution's image is, tables in shared memory have these
digits: each is a division, and needed for many elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dyn.dtypes import DType
from dyn.lower.gpu.scalars import c_type, cast, memory_type
from dyn.lower.gpu.slices import ACCESS, SliceLayout
from dyn.ops.scalar import Scalar
from dyn.schedule.gpu.contractions import ThreadBlocking
from dyn.schedule.kernel import Apply, Digits, Expr, Load
from dyn.schedule.kernel_walks import walk_exprs
from dyn.schedule.strided import own_digits
from dyn.shapes import Symbol, free_symbols, linear_in

if TYPE_CHECKING:
    from dyn.lower.gpu.emit import Emitter

#: The most elements that a thread moves at a time.
_MOST_TOGETHER = 8
#: Up to so many operations an element is computed in as many copies of the code as a thread has elements.
_FEW_OPERATIONS = 32
#: Functions that are few instructions.
_CHEAP = frozenset({
    Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.NEG, Scalar.ABS, Scalar.MAX, Scalar.MIN, Scalar.AND, Scalar.OR,
    Scalar.XOR, Scalar.NOT, Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE, Scalar.SELECT,
    Scalar.CAST, Scalar.FMA,
})  # fmt: skip


@dataclass(eq=False)
class Digested:
    """The digits of an axis's numbers in shared memory, for those that an operand has at a time.

    Of the contracted axis (``steps``) there are two slices' digits, for those of the next one are made meanwhile.
    """

    em: Emitter
    digits: Digits
    symbol: Symbol
    count: int
    extent: str
    steps: bool
    name: str = field(init=False)
    place: int = 0

    def __post_init__(self) -> None:
        self.name = self.em.fresh("q")

    def bytes(self) -> int:
        """Bytes of shared memory."""
        return len(self.digits.parts) * self.count * (2 if self.steps else 1) * 8

    def fill(self, first: str, half: str) -> None:
        """Divide ``count`` numbers from ``first``: into one half, where there are two."""
        em, parts = self.em, self.digits.parts
        base = f"({half}) * {len(parts) * self.count} + " if self.steps else ""
        thread = em.dialect.thread
        with em.braces(f"for (int e = {thread}; e < {self.count}; e += {em.block})"):
            number, rest = em.fresh("i"), em.fresh("n")
            em.line(f"const long long {number} = {first} + e;")
            em.line(f"if ({number} >= {self.extent}) continue;")
            em.symbols[self.symbol] = number
            em.line(f"long long {rest} = {em.dim(self.digits.value)};")
            for position, (_, extent) in reversed(list(enumerate(parts))):
                to = f"{self.name}[{base}{position * self.count} + e]"
                if position == 0:
                    em.line(f"{to} = {rest};")
                else:
                    size = em.fresh("n")
                    em.line(f"const long long {size} = {em.dim(extent)};")
                    em.line(f"{to} = dyn_mod({rest}, {size});")
                    em.line(f"{rest} = dyn_floordiv({rest}, {size});")

    def bind(self, place: str, half: str) -> None:
        """Read the digits of the number at a place."""
        em, parts = self.em, self.digits.parts
        base = f"({half}) * {len(parts) * self.count} + " if self.steps else ""
        for position, (symbol, _) in enumerate(parts):
            name = em.symbols[symbol] = em.fresh("y")
            em.line(f"const long long {name} = {self.name}[{base}{position * self.count} + {place}];")


class StagedOperand:
    """An operand, and its slices in shared memory.

    ``outer`` is its own axis, of which a block has ``most`` elements, ``side_by_side`` of them each thread, and this
    block as many as the variable ``extent`` says. A slice is ``depth`` steps of ``red``, of which there are as many in
    all as the variable ``steps`` says.
    """

    def __init__(
        self, em: Emitter, name: str, expr: Expr, outer: Symbol, red: Symbol, most: int, side_by_side: int,
        of: ThreadBlocking, extent: str, steps: str, dtype: DType, digits: tuple[Digits, ...],
    ) -> None:  # fmt: skip
        depth = of.depth
        self.em, self.name, self.expr, self.outer, self.red = em, name, expr, outer, red
        self.most, self.depth, self.extent, self.steps = most, depth, extent, steps
        self.word = sum_type(dtype)
        #: The variable that says whether a slice lies inside the edges, and may be moved some elements at a time.
        self.whole = f"whole_{name}"
        self.tables = [
            Digested(em, found, symbol, count, limit, symbol is red)
            for symbol, count, limit in ((outer, most, extent), (red, depth, steps))
            if (found := own_digits(expr, symbol, digits)) is not None
        ]
        #: Whether threads go along the contracted axis.
        self.along_red = _is_along(expr, outer, red, digits)
        #: What is moved some elements at a time.
        self.load = _plain_load(expr, outer, red, digits)
        #: Whether the device copies it by itself.
        self.copied = em.copies and can_be_copied(expr, outer, red, digits)
        #: Elements that a thread moves at a time.
        self.together = 1 if self.load is None else min(ACCESS // self.load.dtype.itemsize, _MOST_TOGETHER)
        self.layout = SliceLayout(most, depth, word_bytes(dtype), side_by_side, self.along_red and self.copied)
        #: How many slices are in shared memory at a time.
        self.stages = of.stages if self.copied else 2
        #: Where the slices are in the block's memory.
        self.place = 0
        self.in_registers = _is_cheap(expr) and not self.tables and not self.copied
        #: Elements that are computed at a time, where they do not wait in registers.
        self.at_once = 4 if _is_cheap(expr) else 1
        self.total = most * depth // self.together
        self.rounds = -(-self.total // em.block)
        self.across = (depth if self.along_red else most) // self.together

    @property
    def bytes(self) -> int:
        """Bytes of all slices."""
        return self.stages * self.layout.size * self.layout.word

    def slice(self, stage: str) -> str:
        """The address of the slice with a number."""
        return f"{self.name} + ({stage}) * {self.layout.size}"

    # --- code --------------------------------------------------------------------------------------------------

    @property
    def _held(self) -> str:
        """The name of a thread's elements."""
        return f"h{self.name}"

    @property
    def _pointers(self) -> str:
        """The name of the addresses from which a thread moves neighbours next."""
        return f"p{self.name}"

    @property
    def _aligned(self) -> str:
        """The name of whether these addresses are multiples of what is moved at a time, and stay so."""
        return f"aligned_{self.name}"

    @property
    def _stride(self) -> str:
        """The name of the number of elements from a slice to the next one."""
        return f"t{self.name}"

    def point(self) -> None:
        """In front of all slices, a thread's place in one; of neighbours their addresses in the first one, and whether
        each access will be at a multiple of its size."""
        em, load = self.em, self.load
        thread = em.dialect.thread
        em.line(f"const int near_{self.name} = {thread} % {self.across} * {self.together};")
        em.line(f"const int far_{self.name} = {thread} / {self.across};")
        if load is None:
            return
        source, linear = memory_type(load.dtype), linear_in(load.index, self.red)
        assert linear is not None
        em.line(f"const long long {self._stride} = {em.dim(linear[0] * self.depth)};")
        em.line(f"const {source}* {self._pointers}[{self.rounds}];")
        em.line(f"bool {self._aligned} = {self._stride} % {self.together} == 0;")
        with self._each_round():
            self._bind("0")
            em.line(f"{self._pointers}[w] = {em.buffers[id(load.buffer)]} + ({em.dim(load.index)});")
            size = self.together * load.dtype.itemsize
            em.line(f"{self._aligned} = {self._aligned} && (unsigned long long){self._pointers}[w] % {size} == 0;")

    def declare(self) -> None:
        """Registers for a thread's elements of a slice."""
        self.em.line(f"{self.word} {self._held}[{self.rounds * self.together}];")

    def copy(self, first: str, stage: str) -> None:
        """Have the slice that begins with step ``first`` copied; what lies beyond the edges is 0.

        Where not all of it is there, or accesses of 16 bytes have no address for it, elements are copied one by one.
        """
        em, n, size = self.em, self.together, self.layout.word
        slice_, at = em.fresh("t"), f"{self._pointers}[w]"
        to = f"{slice_} + {self.layout.place('o', 'k')}"
        em.line(f"{self.word}* const {slice_} = {self.slice(stage)};")
        inside = f"{self.extent} >= {self.most} && {self.steps} - {first} >= {self.depth}"
        with em.braces(f"if ({self._aligned} && {inside})"), self._each_round():
            em.line(f"dyn_copy_async<{n * size}>({to}, {at}, {n * size});")
            em.line(f"{at} += {self._stride};")
        with em.braces("else"), self._each_round():
            left, there = em.fresh("n"), self._bind(first)
            end, along = (self.steps, self.red) if self.along_red else (self.extent, self.outer)
            em.line(f"const long long {left} = {there} ? {end} - {em.symbols[along]} : 0;")
            em.line("#pragma unroll")
            one = f"dyn_copy_async<{size}>({to} + j, {at} + j, j < {left} ? {size} : 0);"
            em.line(f"for (int j = 0; j < {n}; ++j) {one}")
            em.line(f"{at} += {self._stride};")

    def fetch(self, first: str, half: str) -> None:
        """Compute the slice that begins with step ``first`` for a half of shared memory: into registers, or to its
        place at once. Its digits are those of the same half."""
        em = self.em
        if self.load is not None:
            inside = f"{self.extent} >= {self.most} && {self.steps} - {first} >= {self.depth}"
            em.line(f"const bool {self.whole} = {self._aligned} && {inside};")
        with self._each_round("" if self.in_registers else f" {self.at_once}"):
            if not self.in_registers:
                em.line(f"{self._place(half)}[0] = {self._element(first, half)};")
            elif self.load is not None:
                self._move(self.load, first)
            else:
                em.line(f"{self._held}[w] = {self._element(first, half)};")

    def put(self, half: str) -> None:
        """Store what is in registers to a half of shared memory."""
        em, n, place = self.em, self.together, self._place(half)
        with self._each_round():
            if self.along_red or n == 1:
                em.line("#pragma unroll")
                em.line(f"for (int j = 0; j < {n}; ++j) {place}[j * {self.layout.line}] = {self._held}[w * {n} + j];")
                return
            pack, values = f"dyn_pack<{self.word}, {n}>", em.fresh("p")
            em.line(f"{pack} {values};")
            em.line("#pragma unroll")
            em.line(f"for (int j = 0; j < {n}; ++j) {values}.v[j] = {self._held}[w * {n} + j];")
            em.line(f"*({pack}*){place} = {values};")

    def _place(self, half: str) -> str:
        """The address of an element of a slice."""
        return f"({self.slice(half)} + {self.layout.place('o', 'k')})"

    @contextmanager
    def _each_round(self, unroll: str = "") -> Iterator[None]:
        """A loop over what a thread has of a slice: step ``k``, element ``o`` are those of the ``w``-th time."""
        em = self.em
        em.line(f"#pragma unroll{unroll}")
        with em.braces(f"for (int w = 0; w < {self.rounds}; ++w)"):
            if self.total % em.block:
                em.line(f"if (w * {em.block} + {em.dialect.thread} >= {self.total}) continue;")
            near, far = f"near_{self.name}", f"far_{self.name} + w * {em.block // self.across}"
            k, o = (near, far) if self.along_red else (far, near)
            em.line(f"const int k = {k}, o = {o};")
            yield

    def _bind(self, first: str) -> str:
        """Name the element's place on both axes; the condition under which there is one."""
        em = self.em
        em.symbols[self.outer], em.symbols[self.red] = outer, red = em.fresh("i"), em.fresh("i")
        em.line(f"const long long {outer} = o, {red} = {first} + k;")
        return f"{outer} < {self.extent} && {red} < {self.steps}"

    def _element(self, first: str, half: str) -> str:
        """A variable that holds an element, computed; 0 beyond the edges."""
        em = self.em
        value = em.fresh("x")
        inside = self._bind(first)
        em.line(f"{self.word} {value} = 0;")
        with em.braces(f"if ({inside})"):
            for table in self.tables:
                table.bind("k" if table.steps else "o", half)
            em.line(f"{value} = ({self.word}){em.eval(self.expr)};")
        return value

    def _move(self, load: Load, first: str) -> None:
        """Load neighbours."""
        em, n, source = self.em, self.together, memory_type(load.dtype)
        values, left, at, inside = em.fresh("p"), em.fresh("n"), em.fresh("p"), self._bind(first)
        end, along = (self.steps, self.red) if self.along_red else (self.extent, self.outer)
        em.line(f"dyn_pack<{source}, {n}> {values} = {{}};")
        em.line(f"const {source}* const {at} = {self._pointers}[w];")
        em.line(f"{self._pointers}[w] += {self._stride};")
        em.line(f"if ({self.whole}) {values} = *(const dyn_pack<{source}, {n}>*){at};")
        with em.braces(f"else if ({inside})"):
            em.line(f"const long long {left} = {end} - {em.symbols[along]};")
            em.line(f"for (int j = 0; j < {n}; ++j) if (j < {left}) {values}.v[j] = {at}[j];")
        em.line("#pragma unroll")
        with em.braces(f"for (int j = 0; j < {n}; ++j)"):
            em.line(f"const {c_type(load.dtype)} value = {values}.v[j];")
            wide = cast(load.dtype, self.expr.dtype, ("value",))
            em.line(f"{self._held}[w * {n} + j] = ({self.word})({wide});")


def sum_type(dtype: DType) -> str:
    """The C++ type of accumulators, and of operands in shared memory: integers wrap through an unsigned one, of which
    narrow ones are the low bits."""
    if dtype.is_float:
        return c_type(dtype)
    return "unsigned long long" if dtype.bits == 64 else "unsigned int"


def word_bytes(dtype: DType) -> int:
    """Bytes of an accumulator."""
    return max(dtype.itemsize, 4)


def _contiguous(expr: Expr, along: Symbol) -> bool:
    """Whether some load reads neighbours for neighbouring values of a symbol."""
    loads = [node for node in walk_exprs((expr,)) if isinstance(node, Load)]
    strides = [linear_in(load.index, along) for load in loads]
    return any(linear is not None and linear[0] == 1 for linear in strides)


def _is_along(expr: Expr, outer: Symbol, red: Symbol, digits: tuple[Digits, ...]) -> bool:
    """Whether neighbours along the contracted axis lie next to each other, and those along the operand's own do not."""

    def fastest(symbol: Symbol) -> Symbol:
        found = own_digits(expr, symbol, digits)
        return symbol if found is None else found.parts[-1][0]

    return not _contiguous(expr, fastest(outer)) and _contiguous(expr, fastest(red))


def can_be_copied(expr: Expr, outer: Symbol, red: Symbol, digits: tuple[Digits, ...]) -> bool:
    """Whether an operand goes to shared memory as it lies, in words of the dtype that sums are computed in."""
    load = _plain_load(expr, outer, red, digits)
    return load is expr and expr.dtype.itemsize == word_bytes(expr.dtype)


def _plain_load(expr: Expr, outer: Symbol, red: Symbol, digits: tuple[Digits, ...]) -> Load | None:
    """The load that an operand is, where it lies in memory in the order of one of its axes, and steps are equally far
    apart from one another; converted, perhaps."""
    if any(own_digits(expr, symbol, digits) is not None for symbol in (outer, red)):
        return None
    along = red if _is_along(expr, outer, red, digits) else outer
    load = expr.args[0] if isinstance(expr, Apply) and expr.fn is Scalar.CAST else expr
    if not isinstance(load, Load) or load.bound or load.mask is not None:
        return None
    linear, steps = linear_in(load.index, along), linear_in(load.index, red)
    if linear is None or linear[0] != 1 or steps is None or outer in free_symbols(steps[0]):
        return None
    return load


def _is_cheap(expr: Expr) -> bool:
    """Whether an element is computed in a few instructions."""
    nodes = list(walk_exprs((expr,)))
    functions = [node.fn for node in nodes if isinstance(node, Apply)]
    return len(nodes) <= _FEW_OPERATIONS and _CHEAP.issuperset(functions)
