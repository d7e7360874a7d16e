"""Networks that sort blocks of integer keys, and merges of sorted runs, as LLVM IR in vectors.

A block is ``rows`` vectors of ``W`` lanes, which lie one after the other, a power of two of them. Read lane by lane,
key ``lane * rows + row``, it is sorted by comparators (the lesser key before, the greater one behind):

1. Lanes are sorted side by side: up to 16 rows by Batcher's odd-even merge sort (Knuth, "Sorting and
   Searching", 5.3.4), longer ones by bitonic merges.
2. Bitonic merges then join lane 0 with 1, 2 with 3, … and so on: only their first comparators go across lanes.
3. Rows are transposed, so that keys lie in memory as they are read.

Merges of sorted runs take a vector at a time: of the two runs the one whose next key is the lesser gives its next
vector, and a bitonic network of two vectors gives the lesser half of all keys in hand (Inoue et al., "AA-Sort", 2007).
No instruction branches on keys, but where one run lies before the other as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dyn.lower.native import FunctionBuilder, Module, Var

#: Rows of the blocks that are sorted in registers from beginning to end: longer ones take long to compile.
FEW_ROWS = (1, 4)
#: Rows of the groups of other blocks that are sorted in registers, of which only the least block has the first number.
_GROUPS = (8, 16)
GROUP = 16
#: Rows of the longest block: as many as leave room in the first level of the caches.
MOST_ROWS = 512
#: Comparators in a row, which then overlap.
_UNROLL = 4


class Networks:
    """Functions of a module that sort keys of ``key`` (``i32`` or ``i64``) in vectors of ``lanes``.

    ``keys.block(from, to, rows)`` sorts a block into other memory; what lies in the first is lost.
    ``keys.merge(a, a_end, b, b_end, to)`` merges two runs of whole vectors, and may read a vector around each.
    """

    def __init__(self, module: Module, key: str, vector_bytes: int) -> None:
        self.module, self.key = module, key
        self.item = 8 if key == "i64" else 4
        self.lanes = vector_bytes // self.item
        self.vector = f"<{self.lanes} x {key}>"
        self.shift = vector_bytes.bit_length() - 1
        bits = 8 * vector_bytes
        self.attributes = f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
        for name in ("smin", "smax"):
            module.declare(f"llvm.{name}.v{self.lanes}{key}", self.vector, [self.vector] * 2)
        for rows in FEW_ROWS:
            self._small(rows)
        self._groups()
        self._columns()
        for step in range(self.lanes.bit_length() - 1):
            self._across(step)
        self._transpose()
        self._block()
        self._merge()

    # Parts of functions -----------------------------------------------------------------------------------------------

    def function(self, name: str, params: Sequence[tuple[str, str]]) -> FunctionBuilder:
        return self.module.function(f"keys.{name}", "void", params, exported=False, attributes=self.attributes)

    def load(self, f: FunctionBuilder, base: str, row: str | int = 0) -> str:
        return f.value(f"load {self.vector}, ptr {f.at(base, row, self.vector)}, align {self.item}")

    def store(self, f: FunctionBuilder, value: str, base: str, row: str | int = 0) -> None:
        f.emit(f"store {self.vector} {value}, ptr {f.at(base, row, self.vector)}, align {self.item}")

    def comparator(self, f: FunctionBuilder, a: str, b: str) -> tuple[str, str]:
        """The lesser keys of two vectors, and the greater ones."""
        arguments = [(self.vector, a), (self.vector, b)]
        lesser, greater = (f"@llvm.{name}.v{self.lanes}{self.key}" for name in ("smin", "smax"))
        return f.call(self.vector, lesser, arguments), f.call(self.vector, greater, arguments)

    def across(self, f: FunctionBuilder, value: str, flip: int, bit: int, opposite: str | None = None) -> str:
        """Comparators between lanes ``l`` and ``l ^ flip``, of the same vector or of another one: the lesser key goes
        where ``bit`` is not set in ``l``."""
        other = value if opposite is None else opposite
        other = self.shuffled(f, other, other, [lane ^ flip for lane in range(self.lanes)])
        lesser, greater = self.comparator(f, value, other)
        mask = ", ".join(f"i1 {'false' if lane & bit else 'true'}" for lane in range(self.lanes))
        return f.value(f"select <{self.lanes} x i1> <{mask}>, {self.vector} {lesser}, {self.vector} {greater}")

    def shuffled(self, f: FunctionBuilder, a: str, b: str, places: Sequence[int]) -> str:
        mask = ", ".join(f"i32 {place}" for place in places)
        return f.value(f"shufflevector {self.vector} {a}, {self.vector} {b}, <{len(places)} x i32> <{mask}>")

    @contextmanager
    def each(self, f: FunctionBuilder, begin: str, end: str) -> Iterator[str]:
        """``for i in range(begin, end)``; gives i."""
        i = f.var("i64", begin)
        with f.loop() as loop:
            now = i.get()
            loop.break_unless(f.icmp("slt", now, end))
            yield now
            i.set(f.add(now, "1"))

    @contextmanager
    def steps(self, f: FunctionBuilder, stop: str, by: str) -> Iterator[str]:
        """``for i in range(0, stop, by)``, at least once; gives i."""
        i = f.var("i64", "0")
        with f.loop() as loop:
            now = i.get()
            yield now
            following = f.add(now, by)
            i.set(following)
            loop.break_unless(f.icmp("slt", following, stop))

    # Lanes side by side -----------------------------------------------------------------------------------------------

    def _groups(self) -> None:
        """``keys.sort16(at)`` sorts the lanes of 16 rows, ``keys.halve16(at)`` those that are bitonic."""
        for rows in _GROUPS:
            for name, comparators in (("sort", odd_even(rows)), ("halve", halving(rows))):
                f = self.function(f"{name}{rows}", [("ptr", "at")])
                values = [self.load(f, "%at", row) for row in range(rows)]
                self._apply(f, values, comparators)
                for row, value in enumerate(values):
                    self.store(f, value, "%at", row)
                f.ret()

    def _apply(self, f: FunctionBuilder, values: list[str], comparators: Sequence[tuple[int, int]]) -> None:
        for i, j in comparators:
            values[i], values[j] = self.comparator(f, values[i], values[j])

    def _small(self, rows: int) -> None:
        """``keys.small<rows>(at, to)`` sorts a block in registers."""
        f = self.function(f"small{rows}", [("ptr", "at"), ("ptr", "to")])
        values = [self.load(f, "%at", row) for row in range(rows)]
        self._apply(f, values, odd_even(rows))
        for step in range(self.lanes.bit_length() - 1):
            values = [self.joined(f, value, values[rows - 1 - row], step) for row, value in enumerate(values)]
            self._apply(f, values, halving(rows))
        for number, value in enumerate(self.turned(f, values)):
            self.store(f, value, "%to", number)
        f.ret()

    def _columns(self) -> None:
        """``keys.halves(at, rows, most)``: comparators ``most``, ``most / 2``, … rows apart, in lanes that are bitonic.

        ``keys.flip(at, rows, length)``: comparators between rows i and ``2 * length - 1 - i`` of each ``2 * length``.
        """
        f = self.function("halves", [("ptr", "at"), ("i64", "rows"), ("i64", "most")])
        apart = f.var("i64", "%most")
        with f.loop() as loop:
            distance = apart.get()
            loop.break_if(f.icmp("slt", distance, str(GROUP)))
            with self.steps(f, "%rows", f.binary("shl", distance, "1")) as first:
                with self.steps(f, distance, str(_UNROLL)) as step:
                    here = f.at("%at", f.add(first, step), self.vector)
                    there = f.at(here, distance, self.vector)
                    self._compare(f, here, there, range(_UNROLL))
            apart.set(f.binary("lshr", distance, "1"))
        with self.steps(f, "%rows", str(GROUP)) as row:
            f.call("void", f"@keys.halve{GROUP}", [("ptr", f.at("%at", row, self.vector))])
        f.ret()
        f = self.function("flip", [("ptr", "at"), ("i64", "rows"), ("i64", "length")])
        both = f.binary("shl", "%length", "1")
        with self.steps(f, "%rows", both) as first:
            with self.steps(f, "%length", str(_UNROLL)) as step:
                here = f.at("%at", f.add(first, step), self.vector)
                last = f.sub(f.add(first, both), f.add(step, str(_UNROLL)))
                self._compare(f, here, f.at("%at", last, self.vector), range(_UNROLL - 1, -1, -1))
        f.ret()

    def _compare(self, f: FunctionBuilder, here: str, there: str, rows: Sequence[int]) -> None:
        """Comparators between the first rows here, and so many there."""
        a, b = [self.load(f, here, row) for row in range(_UNROLL)], [self.load(f, there, row) for row in rows]
        made = [self.comparator(f, x, y) for x, y in zip(a, b, strict=True)]
        for row, (at, (lesser, greater)) in enumerate(zip(rows, made, strict=True)):
            self.store(f, lesser, here, row)
            self.store(f, greater, there, at)

    # Across lanes -----------------------------------------------------------------------------------------------------

    def _across(self, step: int) -> None:
        """``keys.join<step>(at, rows)``: comparators across lanes of a merge of ``2 ** step`` lanes with as many."""
        f = self.function(f"join{step}", [("ptr", "at"), ("i64", "rows")])
        with self.steps(f, f.binary("lshr", "%rows", "1"), "1") as row:
            here, there = f.at("%at", row, self.vector), f.at("%at", f.sub(f.sub("%rows", "1"), row), self.vector)
            a, b = self.load(f, here), self.load(f, there)
            for value, place in ((self.joined(f, a, b, step), here), (self.joined(f, b, a, step), there)):
                self.store(f, value, place)
        f.ret()

    def joined(self, f: FunctionBuilder, value: str, opposite: str, step: int) -> str:
        """A row after the comparators across lanes of a merge; ``opposite`` is the row as far from the other end."""
        value = self.across(f, value, (2 << step) - 1, 1 << step, opposite)
        for down in range(step - 1, -1, -1):
            value = self.across(f, value, 1 << down, 1 << down)
        return value

    def turned(self, f: FunctionBuilder, values: Sequence[str]) -> list[str]:
        """Vectors with the rows' keys in the order of columns."""
        half, w = len(values) // 2, self.lanes
        for _ in range(len(values).bit_length() - 1):
            # The place of a key in all these vectors, as a binary number, is rotated by a digit.
            made: list[str] = []
            for a, b in zip(values[:half], values[half:], strict=True):
                for start in (0, w // 2):
                    places = [p for lane in range(start, start + w // 2) for p in (lane, lane + w)]
                    made.append(self.shuffled(f, a, b, places))
            values = made
        return list(values)

    def _transpose(self) -> None:
        """``keys.turn16(at, to, rows)``: 16 rows of a block, as keys of memory in which lanes are ``rows`` apart."""
        for group in _GROUPS:
            f = self.function(f"turn{group}", [("ptr", "at"), ("ptr", "to"), ("i64", "rows")])
            for number, value in enumerate(self.turned(f, [self.load(f, "%at", row) for row in range(group)])):
                lane, row = divmod(number * self.lanes, group)
                place = str(number * self.lanes) if group < GROUP else f.add(f.mul("%rows", str(lane)), str(row))
                self.store(f, value, f.at("%to", place, self.key))
            f.ret()

    # Blocks and runs --------------------------------------------------------------------------------------------------

    def _block(self) -> None:
        f = self.function("block", [("ptr", "at"), ("ptr", "to"), ("i64", "rows")])
        joins = range(self.lanes.bit_length() - 1)
        for rows in FEW_ROWS:
            with f.if_(f.icmp("eq", "%rows", str(rows))):
                f.call("void", f"@keys.small{rows}", [("ptr", "%at"), ("ptr", "%to")])
                f.ret()
        least = _GROUPS[0]
        with f.if_(f.icmp("eq", "%rows", str(least))):
            f.call("void", f"@keys.sort{least}", [("ptr", "%at")])
            for step in joins:
                f.call("void", f"@keys.join{step}", [("ptr", "%at"), ("i64", "%rows")])
                f.call("void", f"@keys.halve{least}", [("ptr", "%at")])
            f.call("void", f"@keys.turn{least}", [("ptr", "%at"), ("ptr", "%to"), ("i64", "%rows")])
            f.ret()
        with self.steps(f, "%rows", str(GROUP)) as row:
            f.call("void", f"@keys.sort{GROUP}", [("ptr", f.at("%at", row, self.vector))])
        length = f.var("i64", str(GROUP))
        with f.loop() as loop:
            now = length.get()
            loop.break_unless(f.icmp("slt", now, "%rows"))
            f.call("void", "@keys.flip", [("ptr", "%at"), ("i64", "%rows"), ("i64", now)])
            half = f.binary("lshr", now, "1")
            f.call("void", "@keys.halves", [("ptr", "%at"), ("i64", "%rows"), ("i64", half)])
            length.set(f.binary("shl", now, "1"))
        half = f.binary("lshr", "%rows", "1")
        for step in joins:
            f.call("void", f"@keys.join{step}", [("ptr", "%at"), ("i64", "%rows")])
            f.call("void", "@keys.halves", [("ptr", "%at"), ("i64", "%rows"), ("i64", half)])
        with self.steps(f, "%rows", str(GROUP)) as row:
            here, there = f.at("%at", row, self.vector), f.at("%to", row, self.key)
            f.call("void", f"@keys.turn{GROUP}", [("ptr", here), ("ptr", there), ("i64", "%rows")])
        f.ret()

    def _merge(self) -> None:
        f = self.function("merge", [("ptr", name) for name in ("a", "a_end", "b", "b_end", "to")])
        apart = f.var("i1", "true")  # nothing behind comes before what is in front
        with f.if_(f.icmp("ne", "%b", "%b_end", "ptr")):
            last = f.load(self.key, "%a_end", -self.item)
            apart.set(f.icmp("sle", last, f.load(self.key, "%b"), self.key))
        with f.if_(apart.get()):
            self._copy(f, "%a", "%a_end", "%to")
            self._copy(f, "%b", "%b_end", f.at("%to", self.distance(f, "%a", "%a_end")))
            f.ret()
        # From both ends at once: two chains of instructions that do not wait for each other.
        count = f.binary(
            "lshr", f.add(self.distance(f, "%a", "%a_end"), self.distance(f, "%b", "%b_end")), str(self.shift)
        )
        front = _End(f, self, f.var("ptr", "%a"), f.var("ptr", "%b"), ("%a_end", "%b_end"), f.var("ptr", "%to"), 1)
        last = f.at("%to", f.sub(count, "1"), self.vector)
        back = _End(f, self, f.var("ptr", self._before(f, "%a_end")), f.var("ptr", self._before(f, "%b_end")),
                    (self._before(f, "%a"), self._before(f, "%b")), f.var("ptr", last), -1)  # fmt: skip
        for end in (front, back):
            end.begin()
        with self.each(f, "0", f.binary("lshr", count, "1")):
            front.step()
            back.step()
        with f.if_(f.icmp("ne", f.and_(count, "1"), "0")):
            front.step()
        f.ret()

    def distance(self, f: FunctionBuilder, a: str, b: str) -> str:
        return f.sub(*(f.cast("ptrtoint", place, "ptr", "i64") for place in (b, a)))

    def _before(self, f: FunctionBuilder, place: str) -> str:
        return f.at(place, -1, self.vector)

    def _copy(self, f: FunctionBuilder, source: str, end: str, to: str) -> None:
        self.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        bytes = self.distance(f, source, end)
        f.call("void", "@llvm.memcpy.p0.p0.i64", [("ptr", to), ("ptr", source), ("i64", bytes), ("i1", "false")])


class _End:
    """One end of a merge: of the vectors ``a`` and ``b`` that are next there, the one whose outermost key is further
    out is merged with what is carried, and the outer half goes ``to`` the result.

    ``ends`` are where there are no more; ``way`` is 1 at the front and -1 at the back.
    """

    def __init__(
        self, f: FunctionBuilder, keys: Networks, a: Var, b: Var, ends: tuple[str, str], to: Var, way: int
    ) -> None:
        self.f, self.keys, self.a, self.b, self.ends, self.to, self.way = f, keys, a, b, ends, to, way
        self.carried = f.var(keys.vector)

    def _take(self) -> str:
        """The next vector. The outermost key of what is not there may be read, and counts for nothing."""
        f, keys = self.f, self.keys
        x, y = self.a.get(), self.b.get()
        outer = 0 if self.way == 1 else (keys.lanes - 1) * keys.item
        how = "sle" if self.way == 1 else "sgt"
        first = f.icmp(how, f.load(keys.key, x, outer), f.load(keys.key, y, outer), keys.key)
        some, none = f.icmp("ne", x, self.ends[0], "ptr"), f.icmp("eq", y, self.ends[1], "ptr")
        first = f.or_(f.and_(first, some, "i1"), none, "i1")
        self.a.set(f.select(first, f.at(x, self.way, keys.vector), x, "ptr"))
        self.b.set(f.select(first, y, f.at(y, self.way, keys.vector), "ptr"))
        return keys.load(f, f.select(first, x, y, "ptr"))

    def begin(self) -> None:
        self.carried.set(self._take())

    def step(self) -> None:
        """Give out the outer half of what is carried and of the next vector."""
        f, keys = self.f, self.keys
        taken = self._take()
        halves = list(keys.comparator(f, self.carried.get(), keys.shuffled(f, taken, taken, range(keys.lanes)[::-1])))
        apart = keys.lanes // 2
        while apart:
            halves = [keys.across(f, half, apart, apart) for half in halves]
            apart //= 2
        outer, inner = halves[:: self.way]
        keys.store(f, outer, self.to.get())
        self.to.set(f.at(self.to.get(), self.way, keys.vector))
        self.carried.set(inner)


def odd_even(n: int) -> list[tuple[int, int]]:
    """The comparators of Batcher's odd-even merge sort, for a power of two."""
    found: list[tuple[int, int]] = []
    p = 1
    while p < n:
        k = p
        while k:
            for j in range(k % p, n - k, 2 * k):
                found += [(i + j, i + j + k) for i in range(k) if (i + j) // (2 * p) == (i + j + k) // (2 * p)]
            k //= 2
        p *= 2
    return found


def halving(n: int) -> list[tuple[int, int]]:
    """The comparators that sort a bitonic sequence, of a power of two."""
    found, apart = list[tuple[int, int]](), n // 2
    while apart:
        found += [(i, i + apart) for i in range(n) if not i & apart]
        apart //= 2
    return found
