"""Packs of a loop on their way through shared memory, a slice in each iteration.

Threads go along the axis that an operand's loads are contiguous in. There are three ways:

* a plain load, contiguous and of the dtype that is packed, is copied as it lies, 16 bytes at a time, where the device
  has copies that go on by themselves: two slices are on their way while one is used;
* otherwise elements wait in registers while the slice before them is used; plain, contiguous loads are moved up to 16
  bytes at a time, anything else is computed for each element;
* where computing one is dear there are few copies of the code, whose results go to shared memory at once.

Where a pack is written in digits of an axis, as a convolution's image is, tables in shared memory have these digits:
each is a division, and needed for many elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dyn.frozen import record
from dyn.lower.gpu.memory import SHARED, aligned
from dyn.lower.gpu.scalars import c_type, memory_type
from dyn.ops.scalar import Scalar
from dyn.schedule.gpu.operands import lies_along_steps, plain_load
from dyn.schedule.gpu.slices import ACCESS
from dyn.schedule.kernel import Apply, Digits, Expr, Interval, Load, Loop, Pack
from dyn.schedule.kernel_walks import staged_packs, walk_exprs
from dyn.schedule.strided import own_digits
from dyn.shapes import Dim, Symbol, free_symbols, linear_in

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


def staged_loop(em: Emitter, loop: Loop) -> None:
    """A loop that heads with staged packs, in whose first rounds there is nothing to do but these.

    One barrier a round is enough: behind it every thread sees the slice that is used, and none reads any more the slice
    before, in whose place what this round asks for, or the next one uses, is stored.
    """
    heads = staged_packs(loop)
    packs = [StagedPack(em, pack, loop) for pack in heads]
    body = loop.body[len(heads) :]
    end, now, step = em.fresh("n"), em.fresh("j"), loop.step
    em.line(f"const long long {end} = {em.dim(loop.extent)};")
    for pack in packs:
        pack.reserve()
        pack.point()
    for table in [table for pack in packs for table in pack.tables]:
        table.fill("0", "0")
    copied, held = [pack for pack in packs if pack.copied], [pack for pack in packs if pack.in_registers]
    fetched = [pack for pack in packs if not pack.copied]
    tables = [table for pack in packs for table in pack.tables if table.moves]
    slots = max(pack.slots for pack in packs)
    ahead = slots - 1
    assert all(pack.slots == slots for pack in copied), "copies are waited for together"
    # Numbers of the slots that are asked for, that are used, and that are used next of what has two.
    last, stage, following = (em.fresh(name) for name in ("last", "stage", "next"))
    if copied:
        em.line(f"int {last} = 0, {stage} = {1 % slots};")
    if fetched:
        em.line(f"int {following} = {slots % 2};")
    with em.braces(f"for (long long {now} = -{ahead * step}; {now} < {end}; {now} += {step})"):
        if copied:
            em.line(f"dyn_await_copies<{ahead - 1}>();")
        em.line(em.dialect.barrier)
        if copied:
            with em.braces(f"if ({now} + {ahead * step} < {end})"):
                for pack in copied:
                    pack.copy(f"({now} + {ahead * step})", last)
            em.line("dyn_commit_copies();")
        if fetched:
            em.line(f"const bool more = {now} + {step} >= 0 && {now} + {step} < {end};")
        for pack in held:
            pack.declare()
        if fetched:
            with em.braces("if (more)"):
                for pack in fetched:
                    pack.fetch(f"({now} + {step})", following)
        with em.braces(f"if ({now} >= 0)"):
            em.symbols[loop.var] = now
            for pack in packs:
                em.staged[pack.key] = pack.pack, pack.slice(stage if pack.copied else f"1 - {following}")
            em.block_of(body)
            for pack in packs:
                del em.staged[pack.key]
        if held or tables:
            with em.braces("if (more)"):
                for pack in held:
                    pack.put(following)
                for table in tables:
                    table.fill(f"({now} + {2 * step})", f"1 - {following}")
        if copied:
            em.line(f"{last} = {stage}, {stage} = {stage} == {ahead} ? 0 : {stage} + 1;")
        if fetched:
            em.line(f"{following} = 1 - {following};")


@dataclass(eq=False)
class _Digested:
    """The digits of an axis's numbers in shared memory, for those that a slice has.

    Of the axis that a loop goes along (it ``moves``) there are two slices' digits, for those of the next one are made
    meanwhile.
    """

    em: Emitter
    digits: Digits
    axis: _SliceAxis
    moves: bool
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.em.fresh("q")

    def reserve(self) -> None:
        """Take shared memory for the tables."""
        em = self.em
        em.slots.append(f"long long* const {self.name} = (long long*)({SHARED} + {em.slot_bytes});")
        size = aligned(len(self.digits.parts) * self.axis.most * (2 if self.moves else 1) * 8)
        assert isinstance(size, int)
        em.slot_bytes += size

    def _base(self, half: str) -> str:
        return f"({half}) * {len(self.digits.parts) * self.axis.most} + " if self.moves else ""

    def fill(self, iteration: str, half: str) -> None:
        """Divide the numbers of an iteration's slice: into one half, where there are two."""
        em, parts, base = self.em, self.digits.parts, self._base(half)
        with em.braces(""):
            start, extent = self.axis.bounds(em, iteration)
            with em.braces(f"for (int e = {em.dialect.thread}; e < {self.axis.most}; e += {em.block})"):
                number, rest = em.fresh("i"), em.fresh("n")
                em.line(f"if (e >= {extent}) continue;")
                em.line(f"const long long {number} = {start} + e;")
                em.symbols[self.axis.var] = number
                em.line(f"long long {rest} = {em.dim(self.digits.value)};")
                for position, (_, size) in reversed(list(enumerate(parts))):
                    to = f"{self.name}[{base}{position * self.axis.most} + e]"
                    if position == 0:
                        em.line(f"{to} = {rest};")
                    else:
                        divisor = em.fresh("n")
                        em.line(f"const long long {divisor} = {em.dim(size)};")
                        em.line(f"{to} = dyn_mod({rest}, {divisor});")
                        em.line(f"{rest} = dyn_floordiv({rest}, {divisor});")

    def bind(self, place: str, half: str) -> None:
        """Read the digits of the number at a place."""
        em, base = self.em, self._base(half)
        for position, (symbol, _) in enumerate(self.digits.parts):
            name = em.symbols[symbol] = em.fresh("y")
            em.line(f"const long long {name} = {self.name}[{base}{position * self.axis.most} + {place}];")


@record(eq=False)
class _SliceAxis:
    """An axis of a pack: its interval in each iteration of a loop, of at most so many elements."""

    interval: Interval
    most: int
    loop: Symbol

    @property
    def var(self) -> Symbol:
        return self.interval.var

    def bounds(self, em: Emitter, iteration: str) -> tuple[str, str]:
        """Variables, or numbers, for the interval's start and extent in an iteration."""
        em.symbols[self.loop] = iteration
        names: list[str] = []
        for dim in (self.interval.start, self.interval.extent):
            names.append(str(dim) if isinstance(dim, int) else em.fresh("n"))
            if not isinstance(dim, int):
                em.line(f"const long long {names[-1]} = {em.dim(dim)};")
        start, extent = names
        return start, extent


class StagedPack:
    """A pack, and its slices in shared memory: the interval of one of its axes moves with the loop."""

    def __init__(self, em: Emitter, pack: Pack, loop: Loop) -> None:
        staged = pack.staged
        assert staged is not None
        self.em, self.pack, self.staged, self.loop = em, pack, staged, loop
        self.name = em.fresh("t")
        outer, inner = (
            _SliceAxis(interval, most, loop.var)
            for interval, most in ((pack.outer, staged.outer), (pack.inner, staged.inner))
        )
        self.outer = outer
        self.own, self.moving = (inner, outer) if loop.var in free_symbols(pack.outer.start) else (outer, inner)
        self.tables = [
            _Digested(em, found, axis, axis is self.moving)
            for axis in (self.own, self.moving)
            if (found := own_digits(pack.value, axis.var, pack.digits)) is not None
        ]
        #: Whether threads go along the axis that moves.
        self.along_moving = lies_along_steps(pack.value, self.own.var, self.moving.var, pack.digits)
        #: What is moved some elements at a time.
        self.load = plain_load(pack.value, self.own.var, self.moving.var, pack.digits)
        self.copied, self.slots = staged.copied, staged.slots
        #: Elements that a thread moves at a time.
        self.together = 1 if self.load is None else min(ACCESS // self.load.dtype.itemsize, _MOST_TOGETHER)
        self.in_registers = _is_cheap(pack.value) and not self.tables and not self.copied
        #: Elements that are computed at a time, where they do not wait in registers.
        self.at_once = 4 if _is_cheap(pack.value) else 1
        self.total = staged.outer * staged.inner // self.together
        self.rounds = -(-self.total // em.block)
        self.near = self.moving if self.along_moving else self.own
        self.across = self.near.most // self.together
        self.word = c_type(pack.buffer.dtype)
        #: Where the axis that does not move begins, and its extent.
        self._own_bounds = ("", "")

    @property
    def key(self) -> tuple[int, Dim]:
        """The buffer and the place that a load of the slice has."""
        return id(self.pack.buffer), self.pack.place

    def slice(self, slot: str) -> str:
        """The address of the slice in a slot."""
        return f"{self.name} + ({slot}) * {self.staged.slot}"

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
    def _whole(self) -> str:
        """The name of whether a slice lies inside the edges, and may be moved some elements at a time."""
        return f"whole_{self.name}"

    @property
    def _stride(self) -> str:
        """The name of the number of elements from a slice to the next one."""
        return f"d{self.name}"

    def reserve(self) -> None:
        """Name the place of the slices, and take shared memory for tables."""
        pack = self.pack
        self.em.line(
            f"{self.word}* const {self.name} = {self.em.buffers[id(pack.buffer)]} + {self.em.dim(pack.place)};"
        )
        self._own_bounds = self.own.bounds(self.em, "0")
        for table in self.tables:
            table.reserve()

    def point(self) -> None:
        """In front of all slices, a thread's place in one; of neighbours their addresses in the first one, and whether
        each access will be at a multiple of its size."""
        em, load = self.em, self.load
        thread = em.dialect.thread
        em.line(f"const int near_{self.name} = {thread} % {self.across} * {self.together};")
        em.line(f"const int far_{self.name} = {thread} / {self.across};")
        if load is None:
            return
        source = memory_type(load.dtype)
        steps, slices = linear_in(load.index, self.moving.var), linear_in(self.moving.interval.start, self.loop.var)
        assert steps is not None
        assert slices is not None
        em.line(f"const long long {self._stride} = {em.dim(steps[0] * slices[0] * self.loop.step)};")
        em.line(f"const {source}* {self._pointers}[{self.rounds}];")
        em.line(f"bool {self._aligned} = {self._stride} % {self.together} == 0;")
        with em.braces(""):
            bounds = self._bounds("0")
            with self._each_round():
                self._bind(bounds)
                em.line(f"{self._pointers}[w] = {em.buffers[id(load.buffer)]} + ({em.dim(load.index)});")
                size = self.together * load.dtype.itemsize
                em.line(f"{self._aligned} = {self._aligned} && (unsigned long long){self._pointers}[w] % {size} == 0;")

    def declare(self) -> None:
        """Registers for a thread's elements of a slice."""
        self.em.line(f"{self.word} {self._held}[{self.rounds * self.together}];")

    def copy(self, iteration: str, slot: str) -> None:
        """Have an iteration's slice copied; what lies beyond the edges is 0.

        Where not all of it is there, or accesses of 16 bytes have no address for it, elements are copied one by one.
        """
        em, n, size = self.em, self.together, self.pack.buffer.dtype.itemsize
        to, at = em.fresh("t"), f"{self._pointers}[w]"
        bounds = self._bounds(iteration)
        em.line(f"{self.word}* const {to} = {self.slice(slot)};")
        with em.braces(f"if ({self._aligned} && {self._inside(bounds)})"), self._each_round():
            em.line(f"dyn_copy_async<{n * size}>({to} + {self._place()}, {at}, {n * size});")
            em.line(f"{at} += {self._stride};")
        with em.braces("else"), self._each_round():
            left, there = em.fresh("n"), self._bind(bounds)
            em.line(f"const long long {left} = {there} ? {self._left(bounds)} : 0;")
            em.line("#pragma unroll")
            one = f"dyn_copy_async<{size}>({to} + {self._place()} + j, {at} + j, j < {left} ? {size} : 0);"
            em.line(f"for (int j = 0; j < {n}; ++j) {one}")
            em.line(f"{at} += {self._stride};")

    def fetch(self, iteration: str, half: str) -> None:
        """Compute an iteration's slice for a half of shared memory: into registers, or to its place at once. Its digits
        are those of the same half."""
        em, bounds = self.em, self._bounds(iteration)
        if self.load is not None:
            em.line(f"const bool {self._whole} = {self._aligned} && {self._inside(bounds)};")
        with self._each_round("" if self.in_registers else f" {self.at_once}"):
            if not self.in_registers:
                em.line(f"{self._address(half)}[0] = {self._element(bounds, half)};")
            elif self.load is not None:
                self._move(self.load, bounds)
            else:
                em.line(f"{self._held}[w] = {self._element(bounds, half)};")

    def put(self, half: str) -> None:
        """Store what is in registers to a half of shared memory."""
        em, n, place = self.em, self.together, self._address(half)
        apart = self.pack.stride if self.near is self.outer else 1
        with self._each_round():
            if apart > 1 or n == 1:
                em.line("#pragma unroll")
                em.line(f"for (int j = 0; j < {n}; ++j) {place}[j * {apart}] = {self._held}[w * {n} + j];")
                return
            pack, values = f"dyn_pack<{self.word}, {n}>", em.fresh("p")
            em.line(f"{pack} {values};")
            em.line("#pragma unroll")
            em.line(f"for (int j = 0; j < {n}; ++j) {values}.v[j] = {self._held}[w * {n} + j];")
            em.line(f"*({pack}*){place} = {values};")

    def _place(self) -> str:
        """The place of element ``o``, ``k`` of a slice."""
        outer, inner = ("k", "o") if self.outer is self.moving else ("o", "k")
        stride, every, pad = self.pack.stride, self.staged.every, self.staged.pad
        if pad == 0 or every == 1:
            return f"{outer} * {stride + pad} + {inner}"
        return f"{outer} * {stride} + {outer} / {every} * {pad} + {inner}"

    def _address(self, half: str) -> str:
        """The address of element ``o``, ``k`` of a slice."""
        return f"({self.slice(half)} + {self._place()})"

    @contextmanager
    def _each_round(self, unroll: str = "") -> Iterator[None]:
        """A loop over what a thread has of a slice: ``k`` and ``o`` are the places of the ``w``-th time along the axis
        that moves and along the other one."""
        em = self.em
        em.line(f"#pragma unroll{unroll}")
        with em.braces(f"for (int w = 0; w < {self.rounds}; ++w)"):
            if self.total % em.block:
                em.line(f"if (w * {em.block} + {em.dialect.thread} >= {self.total}) continue;")
            near, far = f"near_{self.name}", f"far_{self.name} + w * {em.block // self.across}"
            k, o = (near, far) if self.along_moving else (far, near)
            em.line(f"const int k = {k}, o = {o};")
            yield

    def _bounds(self, iteration: str) -> _Bounds:
        """Variables for where an iteration's slice begins, and how much of it there is: along one axis it is the same
        in all."""
        return _Bounds(*self._own_bounds, *self.moving.bounds(self.em, iteration))

    def _inside(self, bounds: _Bounds) -> str:
        """Whether all of a slice is there."""
        return f"{bounds.own_extent} >= {self.own.most} && {bounds.extent} >= {self.moving.most}"

    def _left(self, bounds: _Bounds) -> str:
        """The elements from this one on, along the axis that threads go along."""
        return f"{bounds.extent} - k" if self.along_moving else f"{bounds.own_extent} - o"

    def _bind(self, bounds: _Bounds) -> str:
        """Name the element's place on both axes; the condition under which there is one."""
        em = self.em
        own, moving = em.fresh("i"), em.fresh("i")
        em.symbols[self.own.var], em.symbols[self.moving.var] = own, moving
        em.line(f"const long long {own} = {bounds.own_start} + o, {moving} = {bounds.start} + k;")
        return f"o < {bounds.own_extent} && k < {bounds.extent}"

    def _element(self, bounds: _Bounds, half: str) -> str:
        """A variable that holds an element, computed; 0 beyond the edges."""
        em = self.em
        value = em.fresh("x")
        inside = self._bind(bounds)
        em.line(f"{self.word} {value} = 0;")
        with em.braces(f"if ({inside})"):
            for table in self.tables:
                table.bind("k" if table.moves else "o", half)
            em.line(f"{value} = {em.eval(self.pack.value)};")
        return value

    def _move(self, load: Load, bounds: _Bounds) -> None:
        """Load neighbours."""
        em, n, source = self.em, self.together, memory_type(load.dtype)
        values, left, at, inside = em.fresh("p"), em.fresh("n"), em.fresh("p"), self._bind(bounds)
        em.line(f"dyn_pack<{source}, {n}> {values} = {{}};")
        em.line(f"const {source}* const {at} = {self._pointers}[w];")
        em.line(f"{self._pointers}[w] += {self._stride};")
        em.line(f"if ({self._whole}) {values} = *(const dyn_pack<{source}, {n}>*){at};")
        with em.braces(f"else if ({inside})"):
            em.line(f"const long long {left} = {self._left(bounds)};")
            em.line(f"for (int j = 0; j < {n}; ++j) if (j < {left}) {values}.v[j] = {at}[j];")
        em.line("#pragma unroll")
        with em.braces(f"for (int j = 0; j < {n}; ++j)"):
            em.line(f"const {c_type(load.dtype)} value = {values}.v[j];")
            em.values[-1][id(load)] = "value"
            em.line(f"{self._held}[w * {n} + j] = {em.eval(self.pack.value)};")


@record()
class _Bounds:
    """Variables for the intervals of an iteration: of the axis that stays, and of the one that moves."""

    own_start: str
    own_extent: str
    start: str
    extent: str


def _is_cheap(expr: Expr) -> bool:
    """Return True if an element is computed in a few instructions."""
    nodes = list(walk_exprs((expr,)))
    functions = [node.fn for node in nodes if isinstance(node, Apply)]
    return len(nodes) <= _FEW_OPERATIONS and _CHEAP.issuperset(functions)
