"""The op ``sort`` as native code (``dyn.lower.native_call``), for every row along an axis, on all threads.

Elements become integer keys in their order. Of one operand the keys alone are sorted: what is equal is alike, but for
zeros, whose signs are put back in the order in which they came. Of several operands words are sorted, a key of 32 bits
above its place: so what is equal keeps its order. Keys of 64 bits, and several ones, are sorted by their digits of 32
bits, the last one first.

A row that is longer than a block is sorted in blocks, whose results are merged: both by all threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dyn.ir.core import Op
from dyn.lower.abi import ALLOC, FREE, PARALLEL_FOR, TensorOffsets
from dyn.lower.native import FunctionBuilder, Var
from dyn.lower.native_call import DONE, NO_MEMORY, TOO_LONG, NativeCall
from dyn.lower.sorting.keys import PLACES, SORTED, KeyKind, LaneBuilder, element_of, key_of, word_of
from dyn.lower.sorting.networks import FEW_ROWS, MOST_ROWS, Networks

#: Elements that a thread is given at least.
_GRAIN = 16384

# What a call is about, and what a row of it, in bytes. A row begins with its call.
_RT, _N, _INNER, _PADDED, _STRIDE, _TENSORS, _FAILED, _CALL_WORDS = 0, 8, 16, 24, 32, 40, 48, 7
_CALL, _X, _KEYS, _OTHER, _ZERO, _RUN, _OUT, _FILL, _ORDER, _ROW_WORDS = 0, 8, 16, 24, 32, 40, 48, 56, 64, 9
_RANGE = (("ptr", "row"), ("i64", "begin"), ("i64", "end"), ("i64", "worker"))


class SortCall(NativeCall):
    """The text of one call in the making, for vectors of ``vector_bytes``."""

    def __init__(self, op: Op, symbol: str, vector_bytes: int) -> None:
        super().__init__(op, symbol)
        self.descending: bool = op.attrs["descending"]
        self.axis: int = op.attrs["dimension"]
        self.places = len(op.operands) > 1
        first = SORTED[op.operands[0].dtype.name]
        self.bits = 64 if self.places or first.bits == 64 else 32
        self.networks = Networks(self.module, f"i{self.bits}", vector_bytes)
        self.lanes, self.width = self.networks.lanes, vector_bytes
        #: Keys of the longest block.
        self.block = MOST_ROWS * self.lanes
        #: The operand and the digit that each pass sorts by.
        self.passes = [(0, 0)]
        if self.places:
            keys = range(op.attrs.get("num_keys", 1))
            digits = [
                (key, digit) for key in keys for digit in range(1, -1, -1) if digit == 0 or self._kind(key).bits == 64
            ]
            self.passes = digits[::-1]

    def _kind(self, operand: int) -> KeyKind:
        return SORTED[self.op.operands[operand].dtype.name]

    def _function(self, name: str, params: tuple[tuple[str, str], ...], result: str = "void") -> FunctionBuilder:
        attributes = self.networks.attributes
        return self.module.function(f"sort.{name}", result, params, exported=False, attributes=attributes)

    def write(self) -> None:
        """Write the call and all of its functions."""
        self._fit()
        self._blocks()
        self._pairs()
        self._keys()
        for number in range(len(self.passes)):
            self._fill(number)
        if self.places:
            self._order_row()
        else:
            self._value_row()
        self._rows()
        self._whole()

    # The call ---------------------------------------------------------------------------------------------------------

    def _whole(self) -> None:
        f, rank = self.f, len(self.values[0].shape)
        n = self.size(0, self.axis)
        outer = self.product(*[self.size(0, axis) for axis in range(self.axis)])
        inner = self.product(*[self.size(0, axis) for axis in range(self.axis + 1, rank)])
        rows = f.mul(outer, inner)
        nothing = f.or_(f.icmp("eq", rows, "0"), f.icmp("eq", n, "0"), "i1")
        f.ret_if(nothing, "i32", str(DONE))
        if self.places:
            f.ret_if(f.icmp("uge", n, str(PLACES)), "i32", str(TOO_LONG))
        many, rest = f.binary("udiv", n, str(self.block)), f.binary("urem", n, str(self.block))
        fit = f.call("i64", "@sort.fit", [("i64", rest)])
        padded = f.add(f.mul(many, str(self.block)), f.mul(fit, str(self.lanes)))
        # Keys twice, with a vector around each; and where there are several passes, the order twice.
        bytes = f.add(f.mul(padded, str(self.bits // 8 * 2)), str(3 * self.width))
        if len(self.passes) > 1:
            bytes = f.add(bytes, f.mul(n, "16"))
        call = f.stack(f"[{_CALL_WORDS} x i64]")
        for place, kind, value in (
            (_RT, "ptr", "%rt"), (_N, "i64", n), (_INNER, "i64", inner), (_PADDED, "i64", padded),
            (_STRIDE, "i64", bytes), (_TENSORS, "ptr", "%tensors"), (_FAILED, "i64", "0"),
        ):  # fmt: skip
            f.store(kind, value, call, place)
        few = f.add(f.binary("udiv", str(_GRAIN), n), "1")
        self._parallel(f, "%rt", "@sort.rows", call, rows, few)
        failed = f.icmp("ne", f.load("i64", call, _FAILED), "0")
        f.ret("i32", f.select(failed, str(NO_MEMORY), str(DONE), "i32"))

    def _parallel(self, f: FunctionBuilder, rt: str, function: str, record: str, count: str, grain: str) -> None:
        parallel = f.load("ptr", rt, 8 * PARALLEL_FOR)
        what = [("ptr", rt), ("ptr", function), ("ptr", record), ("i64", count), ("i64", grain)]
        f.call("i32", parallel, what)

    def _rows(self) -> None:
        """Rows of a call, with memory of their own."""
        f = self._function("rows", (("ptr", "call"), *_RANGE[1:]))
        rt, n, inner = f.load("ptr", "%call", _RT), f.load("i64", "%call", _N), f.load("i64", "%call", _INNER)
        scratch = f.call("ptr", f.load("ptr", rt, 8 * ALLOC), [("ptr", rt), ("i64", f.load("i64", "%call", _STRIDE))])
        with f.if_(f.is_null(scratch)):
            f.store_atomic("i64", "1", f.at("%call", _FAILED), "monotonic")
            f.ret()
        row = f.var("i64", "%begin")
        with f.loop() as loop:
            now = row.get()
            loop.break_unless(f.icmp("slt", now, "%end"))
            lead = f.mul(f.mul(f.binary("udiv", now, inner), inner), n)
            first = f.add(lead, f.binary("urem", now, inner))
            f.call("void", "@sort.row", [("ptr", "%call"), ("i64", first), ("ptr", scratch)])
            row.set(f.add(now, "1"))
        f.call("void", f.load("ptr", rt, 8 * FREE), [("ptr", rt), ("ptr", scratch), ("i64", "0")])
        f.ret()

    # Keys of a row ----------------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        """The number of vectors of the least block for so many keys."""
        f = self._function("fit", (("i64", "n"),), "i64")
        self.module.declare("llvm.ctlz.i64", "i64", ["i64", "i1"])
        f.ret_if(f.icmp("eq", "%n", "0"), "i64", "0")
        for rows in FEW_ROWS:
            f.ret_if(f.icmp("ule", "%n", str(rows * self.lanes)), "i64", str(rows))
        rows = f.binary("udiv", f.sub("%n", "1"), str(self.lanes))
        zeros = f.call("i64", "@llvm.ctlz.i64", [("i64", rows), ("i1", "false")])
        f.ret("i64", f.binary("shl", "1", f.sub("64", zeros)))

    def _blocks(self) -> None:
        """Blocks of a row: filled with keys, and sorted into the other memory."""
        f = self._function("blocks", _RANGE)
        call = f.load("ptr", "%row", _CALL)
        n, fill = f.load("i64", call, _N), f.load("ptr", "%row", _FILL)
        keys, other = f.load("ptr", "%row", _KEYS), f.load("ptr", "%row", _OTHER)
        with self.networks.each(f, "%begin", "%end") as number:
            first = f.mul(number, str(self.block))
            end = f.add(first, str(self.block))
            end = f.select(f.icmp("ult", end, n), end, n)
            count = f.sub(end, first)
            rows = f.call("i64", "@sort.fit", [("i64", count)])
            # What is no key comes last.
            many = LaneBuilder(f, self.lanes)
            most = many.constant((1 << (self.bits - 1)) - 1, self.bits)
            with self.networks.each(f, f.binary("udiv", count, str(self.lanes)), rows) as vector:
                many.store(most, self.bits, keys, f.add(first, f.mul(vector, str(self.lanes))))
            f.call("void", fill, [("ptr", "%row"), ("i64", first), ("i64", end)])
            here, there = (f.at(base, first, f"i{self.bits}") for base in (keys, other))
            f.call("void", "@keys.block", [("ptr", here), ("ptr", there), ("i64", rows)])
        f.ret()

    def _pairs(self) -> None:
        """Pairs of neighbouring runs of a row, merged."""
        f = self._function("pairs", _RANGE)
        padded, run = f.load("i64", f.load("ptr", "%row", _CALL), _PADDED), f.load("i64", "%row", _RUN)
        keys, other = f.load("ptr", "%row", _KEYS), f.load("ptr", "%row", _OTHER)
        with self.networks.each(f, "%begin", "%end") as pair:
            first = f.mul(f.mul(pair, run), "2")
            ends = [f.add(first, run), f.add(f.add(first, run), run)]
            middle, end = (f.select(f.icmp("ult", e, padded), e, padded) for e in ends)
            a, b, after = (f.at(keys, place, f"i{self.bits}") for place in (first, middle, end))
            to = f.at(other, first, f"i{self.bits}")
            f.call("void", "@keys.merge", [("ptr", p) for p in (a, b, b, after, to)])
        f.ret()

    def _keys(self) -> None:
        """Sort the keys of a row, which its function fills in; gives where they lie. The other memory is free then."""
        f = self._function("keys", _RANGE[:1], "ptr")
        call = f.load("ptr", "%row", _CALL)
        rt, n, padded = f.load("ptr", call, _RT), f.load("i64", call, _N), f.load("i64", call, _PADDED)
        # What there is to do beside a call of the pool is little for a block.
        with f.if_(f.icmp("ule", n, str(self.block))):
            f.call("void", "@sort.blocks", [("ptr", "%row"), ("i64", "0"), ("i64", "1"), ("i64", "0")])
            f.ret("ptr", f.load("ptr", "%row", _OTHER))
        blocks = f.add(f.binary("udiv", f.sub(n, "1"), str(self.block)), "1")
        self._parallel(f, rt, "@sort.blocks", "%row", blocks, "1")
        length = f.var("i64", str(self.block))
        with f.loop() as loop:
            now = length.get()
            keys, other = f.load("ptr", "%row", _KEYS), f.load("ptr", "%row", _OTHER)
            f.store("ptr", other, "%row", _KEYS)
            f.store("ptr", keys, "%row", _OTHER)
            with f.if_(f.icmp("uge", now, padded)):
                f.ret("ptr", other)
            f.store("i64", now, "%row", _RUN)
            both = f.mul(now, "2")
            pairs = f.add(f.binary("udiv", f.sub(padded, "1"), both), "1")
            self._parallel(f, rt, "@sort.pairs", "%row", pairs, "1")
            length.set(both)
        del loop
        f.unreachable()

    def _fill(self, number: int) -> None:
        """The keys of a pass for elements of a row: of the first one in the order in which they came."""
        operand, _ = self.passes[number]
        f = self._function(f"fill{number}", (("ptr", "row"), ("i64", "begin"), ("i64", "end")))
        bits = self._kind(operand).bits
        inner = f.load("i64", f.load("ptr", "%row", _CALL), _INNER)
        x, keys = f.load("ptr", "%row", _X), f.load("ptr", "%row", _KEYS)
        begin = f.var("i64", "%begin")
        found = f.var("i1", "false")
        if number == 0:
            with f.if_(f.icmp("eq", inner, "1")):
                with self._vectors(f, begin, "%end") as place:
                    many = LaneBuilder(f, self.lanes)
                    raw = many.load(bits, x, place)
                    if not self.places and self._kind(operand).infinity:
                        zeros = many.icmp("eq", raw, 1 << (bits - 1), bits)
                        mask = f.cast("bitcast", zeros, f"<{self.lanes} x i1>", f"i{self.lanes}")
                        found.set(f.or_(found.get(), f.icmp("ne", mask, "0", f"i{self.lanes}"), "i1"))
                    many.store(self._key(many, raw, number, place), self.bits, keys, place)
        one = LaneBuilder(f, 1)
        with self.networks.each(f, begin.get(), "%end") as place:
            source = one.load(64, f.load("ptr", "%row", _ORDER), place) if number else place
            raw = one.load(bits, x, f.mul(source, inner))
            if not self.places and self._kind(operand).infinity:
                found.set(f.or_(found.get(), one.icmp("eq", raw, 1 << (bits - 1), bits), "i1"))
            one.store(self._key(one, raw, number, place), self.bits, keys, place)
        if not self.places:
            with f.if_(found.get()):
                f.store_atomic("i64", "1", f.at("%row", _ZERO), "monotonic")
        f.ret()

    def _key(self, v: LaneBuilder, raw: str, number: int, place: str) -> str:
        """The key in a pass of elements, the first of them at ``place``."""
        operand, digit = self.passes[number]
        kind, descending = self._kind(operand), self.descending
        if self.places:
            return word_of(v, raw, kind, digit, place, descending=descending)
        return key_of(v, raw, kind, descending=descending, zeros=True)

    # Rows -------------------------------------------------------------------------------------------------------------

    def _row(self) -> tuple[FunctionBuilder, str, str, str]:
        """A function for a row, which begins at an element; its record, and its two memories for keys."""
        f = self._function("row", (("ptr", "call"), ("i64", "first"), ("ptr", "scratch")))
        row = f.stack(f"[{_ROW_WORDS} x i64]")
        keys = f.at("%scratch", self.width)
        after = f.add(f.mul(f.load("i64", "%call", _PADDED), str(self.bits // 8)), str(self.width))
        other = f.at(keys, after)
        f.store("ptr", "%call", row, _CALL)
        f.store("ptr", keys, row, _KEYS)
        f.store("ptr", other, row, _OTHER)
        return f, row, keys, other

    def _tensor(self, f: FunctionBuilder, number: int) -> str:
        """The address at which the row begins in a tensor."""
        dtype = self.values[number].dtype
        tensors = f.load("ptr", "%call", _TENSORS)
        return f.at(
            f.load("ptr", tensors, number * TensorOffsets.BYTES + TensorOffsets.DATA),
            f.mul("%first", str(dtype.itemsize)),
        )

    def _value_row(self) -> None:
        """Sort a row of one operand."""
        self._give()
        f, row, keys, other = self._row()
        kind, n = self._kind(0), f.load("i64", "%call", _N)
        f.store("ptr", self._tensor(f, 0), row, _X)
        f.store("ptr", self._tensor(f, 1), row, _OUT)
        f.store("i64", "0", row, _ZERO)
        f.store("ptr", "@sort.fill0", row, _FILL)
        made = f.call("ptr", "@sort.keys", [("ptr", row)])
        if kind.infinity:
            with f.if_(f.icmp("ne", f.load("i64", row, _ZERO), "0")):
                self._zeros(f, row, made, f.select(f.icmp("eq", made, keys, "ptr"), other, keys, "ptr"), n)
        f.store("ptr", made, row, _KEYS)
        self._over(f, "@sort.give", row, n)
        f.ret()

    def _over(self, f: FunctionBuilder, function: str, row: str, n: str) -> None:
        """Call a function for all elements of a row: at once for few."""
        branch = f.if_else(f.icmp("ule", n, str(_GRAIN)))
        with branch.then():
            f.call("void", function, [("ptr", row), ("i64", "0"), ("i64", n), ("i64", "0")])
        with branch.otherwise():
            self._parallel(f, f.load("ptr", "%call", _RT), function, row, n, str(_GRAIN))

    def _zeros(self, f: FunctionBuilder, row: str, made: str, spare: str, n: str) -> None:
        """Keys of zeros in the order in which they came: they are 0 and -1, one after the other."""
        kind, one, inner = self._kind(0), LaneBuilder(f, 1), f.load("i64", "%call", _INNER)
        x, count = f.load("ptr", row, _X), f.var("i64", "0")
        with self.networks.each(f, "0", n) as place:
            raw = one.load(kind.bits, x, f.mul(place, inner))
            size = one.op("and", raw, (1 << (kind.bits - 1)) - 1, kind.bits)
            with f.if_(f.icmp("eq", size, "0", f"i{kind.bits}")):
                one.store(self._key(one, raw, 0, place), self.bits, spare, count.get())
                count.set(f.add(count.get(), "1"))
        low, high = f.var("i64", "0"), f.var("i64", n)
        with f.loop() as loop:
            loop.break_unless(f.icmp("ult", low.get(), high.get()))
            middle = f.binary("lshr", f.add(low.get(), high.get()), "1")
            below = f.icmp("slt", one.load(self.bits, made, middle), "-1", f"i{self.bits}")
            low.set(f.select(below, f.add(middle, "1"), low.get()))
            high.set(f.select(below, high.get(), middle))
        with self.networks.each(f, "0", count.get()) as place:
            one.store(one.load(self.bits, spare, place), self.bits, made, f.add(low.get(), place))

    def _give(self) -> None:
        """Elements of the result, of sorted keys."""
        f, kind = self._function("give", _RANGE), self._kind(0)
        keys, out = f.load("ptr", "%row", _KEYS), f.load("ptr", "%row", _OUT)
        inner, begin = f.load("i64", f.load("ptr", "%row", _CALL), _INNER), f.var("i64", "%begin")
        with f.if_(f.icmp("eq", inner, "1")):
            with self._vectors(f, begin, "%end") as place:
                many = LaneBuilder(f, self.lanes)
                many.store(self._element(many, keys, place), kind.bits, out, place)
        one = LaneBuilder(f, 1)
        with self.networks.each(f, begin.get(), "%end") as place:
            one.store(self._element(one, keys, place), kind.bits, out, f.mul(place, inner))
        f.ret()

    def _element(self, v: LaneBuilder, keys: str, place: str) -> str:
        key = v.load(self.bits, keys, place)
        return element_of(v, key, self._kind(0), self.bits, descending=self.descending)

    def _order_row(self) -> None:
        """Find the order of a row, and bring all operands into it."""
        count = len(self.op.operands)
        self._places(first=True)
        if len(self.passes) > 1:
            self._places(first=False)
        dtypes = {value.dtype: value.dtype.itemsize for value in self.op.operands}
        for bits in sorted({8 * size for size in dtypes.values()}):
            self._take(bits)
        f, row, keys, other = self._row()
        n, before = f.load("i64", "%call", _N), self.networks.distance(f, keys, other)
        order = f.at(other, before)
        spare = f.at(order, f.mul(n, "8"))
        for number, (operand, _) in enumerate(self.passes):
            f.store("ptr", self._tensor(f, operand), row, _X)
            f.store("ptr", f"@sort.fill{number}", row, _FILL)
            f.store("ptr", keys, row, _KEYS)
            f.store("ptr", other, row, _OTHER)
            made = f.call("ptr", "@sort.keys", [("ptr", row)])
            f.store("ptr", made, row, _KEYS)
            to = made if len(self.passes) == 1 else spare if number else order
            f.store("ptr", to, row, _OUT)
            self._over(f, "@sort.again" if number else "@sort.places", row, n)
            if number:
                order, spare = spare, order
            f.store("ptr", to, row, _ORDER)
        for operand in range(count):
            f.store("ptr", self._tensor(f, operand), row, _X)
            f.store("ptr", self._tensor(f, count + operand), row, _OUT)
            self._over(f, f"@sort.take{8 * self.values[operand].dtype.itemsize}", row, n)
        f.ret()

    def _places(self, *, first: bool) -> None:
        """Places in sorted words; after the first pass they are places in an order."""
        f = self._function("places" if first else "again", _RANGE)
        keys, out = f.load("ptr", "%row", _KEYS), f.load("ptr", "%row", _OUT)
        begin = f.var("i64", "%begin")
        if first:
            with self._vectors(f, begin, "%end") as place:
                many = LaneBuilder(f, self.lanes)
                many.store(many.op("and", many.load(64, keys, place), PLACES, 64), 64, out, place)
        one = LaneBuilder(f, 1)
        with self.networks.each(f, begin.get(), "%end") as place:
            found = one.op("and", one.load(64, keys, place), PLACES, 64)
            if not first:
                found = one.load(64, f.load("ptr", "%row", _ORDER), found)
            one.store(found, 64, out, place)
        f.ret()

    def _take(self, bits: int) -> None:
        """Elements of an operand in the order found."""
        f = self._function(f"take{bits}", _RANGE)
        one = LaneBuilder(f, 1)
        x, out, order = f.load("ptr", "%row", _X), f.load("ptr", "%row", _OUT), f.load("ptr", "%row", _ORDER)
        inner = f.load("i64", f.load("ptr", "%row", _CALL), _INNER)
        with self.networks.each(f, "%begin", "%end") as place:
            found = one.load(bits, x, f.mul(one.load(64, order, place), inner))
            one.store(found, bits, out, f.mul(place, inner))
        f.ret()

    # Loops ------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _vectors(self, f: FunctionBuilder, place: Var, end: str) -> Iterator[str]:
        """Code for whole vectors from a place to an end, if there is one: the last one may begin in the one before."""
        begin = place.get()
        last = f.sub(end, str(self.lanes))
        with f.if_(f.icmp("sle", begin, last)), f.loop() as loop:
            now = place.get()
            loop.break_if(f.icmp("sge", now, end))
            yield f.select(f.icmp("slt", now, last), now, last)
            following = f.add(now, str(self.lanes))
            place.set(f.select(f.icmp("slt", following, end), following, end))
