"""Copies of strided arrays in rows, in LLVM IR.

::

    void dyn_copy_dense(rt, ptr to, ptr from, i64 rank, ptr dims, ptr strides, i64 item, i64 unit)

``to`` becomes the array in row-major order; ``strides`` are those of ``from``, in bytes, and may be anything. With
``unit`` the bytes of each ``unit`` bytes are reversed. Nothing has to be aligned.

Axes of size 1 are left out and neighbours that step as one are joined. Of what is left a plane of two axes is copied at
a time: the last one, in which ``to`` is contiguous, and the one in which ``from`` steps least. Where ``from`` is
contiguous in the first of them the plane is transposed by squares in registers. Blocks of planes are what several
threads share.

They are a module of their own, which calls the pool of the runtime: few processes have such arrays, and the copies are
two thirds of what LLVM would have to do for the runtime.
"""

from __future__ import annotations

from dyn.lower.native import FunctionBuilder, Module

#: The most axes that NumPy and PyTorch have, and one more.
_AXES = 65
#: Rows and columns of a plane that are copied as one task: where columns lie apart, squares; else parts of rows.
_SQUARE, _ROWS, _WIDTH = 512, 64, 1 << 15
#: Elements of a row that are copied before the next row's, where neither array is read in order.
_STRIP = 16
#: Elements of a strip that are loaded before the first of them is stored.
_GROUP = 4
#: Bytes of a cache line: so much of what is read across is read at once. What is written is written in order, as many
#: rows side by side: a processor waits for a line that it writes to, and not for those that it reads.
_LINE = 64
#: Copies of fewer bytes take one thread; a thread takes at least _GRAIN bytes.
_PARALLEL, _GRAIN = 1 << 20, 1 << 18
#: Elements of a square, by their bytes.
_SQUARES = {1: 16, 2: 8, 4: 4, 8: 2}
_ITEMS, _UNITS = (1, 2, 4, 8, 16), (2, 4, 8)

# The words of a copy, in bytes: they are followed by dims, strides of ``from`` and strides of ``to``.
_TO, _FROM, _RANK, _ITEM, _UNIT, _BLOCKS, _ACROSS, _HEIGHT, _COLUMNS = 0, 8, 16, 24, 32, 40, 48, 56, 64
_DIMS = 72
_STRIDES = _DIMS + 8 * _AXES
_STEPS = _STRIDES + 8 * _AXES
_BYTES = _STEPS + 8 * _AXES

#: The parameters of a function that copies rows of a plane.
_PLANE = [
    ("ptr", "to"), ("ptr", "from"), ("i64", "rows"), ("i64", "length"), ("i64", "to_step"), ("i64", "row_stride"),
    ("i64", "stride"), ("i64", "item"),
]  # fmt: skip


#: Exported functions.
SYMBOLS = ("dyn_copy_dense",)


def copies_text() -> str:
    """The module's LLVM IR."""
    m = Module()
    m.declare("memcpy", "ptr", ["ptr", "ptr", "i64"])
    m.declare("dyn_parallel_for", "i32", ["ptr", "ptr", "ptr", "i64", "i64"])
    _rows(m)
    for item in _SQUARES:
        _squares(m, item)
    for item in _ITEMS:
        _elements(m, f"copy.elements{item}", f"i{8 * item}", swapped=False)
    for unit in _UNITS:
        m.declare(f"llvm.bswap.i{8 * unit}", f"i{8 * unit}", [f"i{8 * unit}"])
        _elements(m, f"copy.swapped{unit}", f"i{8 * unit}", swapped=True)
        _swapped_rows(m, unit)
    _part(m)
    _copy_dense(m)
    return m.text()


def _word(f: FunctionBuilder, base: str, axis: str, offset: int) -> str:
    return f.load("i64", f.at(f.at(base, offset), axis, "i64"))


def _copy_dense(m: Module) -> None:
    params = [
        ("ptr", "rt"), ("ptr", "to"), ("ptr", "from"), ("i64", "rank"), ("ptr", "dims"), ("ptr", "strides"),
        ("i64", "item"), ("i64", "unit"),
    ]  # fmt: skip
    f = m.function("dyn_copy_dense", "void", params)
    copy = f.stack(f"[{_BYTES} x i8]", align=16)
    dims, strides, steps = f.at(copy, _DIMS), f.at(copy, _STRIDES), f.at(copy, _STEPS)
    rank = f.var("i64", "1")
    bytes = f.var("i64", "%item")
    f.store("i64", "1", dims)
    f.store("i64", "0", strides)
    with f.count("%rank") as axis:
        size, stride = f.load("i64", f.at("%dims", axis, "i64")), f.load("i64", f.at("%strides", axis, "i64"))
        with f.if_(f.icmp("eq", size, "0")):
            f.ret()
        bytes.set(f.mul(bytes.get(), size))
        with f.if_(f.icmp("ne", size, "1")):
            last = f.sub(rank.get(), "1")
            at, at_stride = f.at(dims, last, "i64"), f.at(strides, last, "i64")
            joined = f.icmp("eq", f.load("i64", at_stride), f.mul(size, stride))
            branch = f.if_else(joined)
            with branch.then():
                f.store("i64", f.mul(f.load("i64", at), size), at)
                f.store("i64", stride, at_stride)
            with branch.otherwise():
                f.store("i64", size, f.at(dims, rank.get(), "i64"))
                f.store("i64", stride, f.at(strides, rank.get(), "i64"))
                rank.set(f.add(rank.get(), "1"))
    with f.if_(f.icmp("eq", rank.get(), "1")):
        f.store("i64", "1", dims, 8)
        f.store("i64", "%item", strides, 8)
        rank.set("2")
    step = f.var("i64", "%item")
    with f.count(rank.get()) as number:
        axis = f.sub(f.sub(rank.get(), "1"), number)
        f.store("i64", step.get(), f.at(steps, axis, "i64"))
        step.set(f.mul(step.get(), f.load("i64", f.at(dims, axis, "i64"))))
    _choose_plane(f, copy, rank.get())
    first = f.sub(rank.get(), "2")
    last = f.add(first, "1")
    contiguous = f.icmp("eq", _word(f, copy, last, _STRIDES), "%item")
    columns = f.select(contiguous, f.binary("udiv", str(_WIDTH), "%item"), str(_SQUARE))
    rows = f.select(contiguous, str(_ROWS), str(_SQUARE))
    length = _word(f, copy, last, _DIMS)
    across = f.binary("udiv", f.add(length, f.sub(columns, "1")), columns)
    down = f.binary("udiv", f.add(_word(f, copy, first, _DIMS), f.sub(rows, "1")), rows)
    blocks = f.mul(across, down)
    tasks = f.var("i64", blocks)
    with f.count(first) as axis:
        tasks.set(f.mul(tasks.get(), _word(f, copy, axis, _DIMS)))
    for offset, type, value in (
        (_TO, "ptr", "%to"), (_FROM, "ptr", "%from"), (_RANK, "i64", rank.get()), (_ITEM, "i64", "%item"),
        (_UNIT, "i64", "%unit"), (_BLOCKS, "i64", blocks),
        (_ACROSS, "i64", across), (_HEIGHT, "i64", rows), (_COLUMNS, "i64", columns),
    ):  # fmt: skip
        f.store(type, value, copy, offset)
    with f.if_(f.icmp("slt", bytes.get(), str(_PARALLEL))):
        f.call("void", "@copy.part", [("ptr", copy), ("i64", "0"), ("i64", tasks.get()), ("i64", "0")])
        f.ret()
    each = f.add(f.binary("udiv", bytes.get(), tasks.get()), "1")
    grain = f.add(f.binary("udiv", str(_GRAIN), each), "1")
    arguments = [("ptr", "%rt"), ("ptr", "@copy.part"), ("ptr", copy), ("i64", tasks.get()), ("i64", grain)]
    f.call("i32", "@dyn_parallel_for", arguments)
    f.ret()


def _choose_plane(f: FunctionBuilder, copy: str, rank: str) -> None:
    """Bring the axis in which ``from`` steps least before the last one, unless it is the last one itself."""
    last, before = f.sub(rank, "1"), f.sub(rank, "2")
    least, chosen = f.var("i64", _size_of_step(f, copy, last)), f.var("i64", before)
    with f.count(last) as axis:
        stride = _size_of_step(f, copy, axis)
        less = f.icmp("slt", stride, least.get())
        less = f.and_(less, f.icmp("ne", _word(f, copy, axis, _DIMS), "1"), "i1")
        with f.if_(less):
            least.set(stride)
            chosen.set(axis)
    for offset in (_DIMS, _STRIDES, _STEPS):
        a, b = f.at(f.at(copy, offset), chosen.get(), "i64"), f.at(f.at(copy, offset), before, "i64")
        x, y = f.load("i64", a), f.load("i64", b)
        f.store("i64", y, a)
        f.store("i64", x, b)


def _size_of_step(f: FunctionBuilder, copy: str, axis: str) -> str:
    stride = _word(f, copy, axis, _STRIDES)
    return f.select(f.icmp("slt", stride, "0"), f.sub("0", stride), stride)


def _part(m: Module) -> None:
    params = [("ptr", "copy"), ("i64", "begin"), ("i64", "end"), ("i64", "worker")]
    f = m.function("copy.part", "void", params, exported=False)
    rank, item, unit = (f.load("i64", "%copy", offset) for offset in (_RANK, _ITEM, _UNIT))
    blocks, across = f.load("i64", "%copy", _BLOCKS), f.load("i64", "%copy", _ACROSS)
    last, first = f.sub(rank, "1"), f.sub(rank, "2")
    rows, row_stride, to_step = (_word(f, "%copy", first, offset) for offset in (_DIMS, _STRIDES, _STEPS))
    length, stride = _word(f, "%copy", last, _DIMS), _word(f, "%copy", last, _STRIDES)
    height, columns = f.load("i64", "%copy", _HEIGHT), f.load("i64", "%copy", _COLUMNS)
    with f.count(f.sub("%end", "%begin")) as number:
        task = f.add("%begin", number)
        rest = f.var("i64", f.binary("udiv", task, blocks))
        block = f.binary("urem", task, blocks)
        start = f.mul(f.binary("udiv", block, across), height)
        column = f.mul(f.binary("urem", block, across), columns)
        to = f.var("ptr", f.at(f.load("ptr", "%copy", _TO), f.add(f.mul(start, to_step), f.mul(column, item))))
        corner = f.add(f.mul(start, row_stride), f.mul(column, stride))
        source = f.var("ptr", f.at(f.load("ptr", "%copy", _FROM), corner))
        with f.count(first) as back:
            axis = f.sub(f.sub(first, "1"), back)
            size = _word(f, "%copy", axis, _DIMS)
            place = f.binary("urem", rest.get(), size)
            rest.set(f.binary("udiv", rest.get(), size))
            to.set(f.at(to.get(), f.mul(place, _word(f, "%copy", axis, _STEPS))))
            source.set(f.at(source.get(), f.mul(place, _word(f, "%copy", axis, _STRIDES))))
        left = f.sub(rows, start)
        count = f.select(f.icmp("slt", left, height), left, height)
        rest_across = f.sub(length, column)
        width = f.select(f.icmp("slt", rest_across, columns), rest_across, columns)
        values = (to.get(), source.get(), count, width, to_step, row_stride, stride, item)
        arguments = [(type, value) for (type, _), value in zip(_PLANE, values, strict=True)]
        done = f.var("i1", "false")
        contiguous = f.icmp("eq", stride, item)
        for width in _UNITS:
            with f.if_(f.icmp("eq", unit, str(width))):
                branch = f.if_else(contiguous)
                with branch.then():
                    f.call("void", f"@copy.swapped_rows{width}", arguments)
                with branch.otherwise():
                    f.call("void", f"@copy.swapped{width}", arguments)
                done.set("true")
        with f.if_(f.and_(f.icmp("eq", done.get(), "false", "i1"), contiguous, "i1")):
            f.call("void", "@copy.rows", arguments)
            done.set("true")
        for width in _ITEMS:
            this = f.and_(f.icmp("eq", done.get(), "false", "i1"), f.icmp("eq", item, str(width)), "i1")
            with f.if_(this):
                done.set("true")
                if width in _SQUARES:
                    branch = f.if_else(f.icmp("eq", row_stride, item))
                    with branch.then():
                        f.call("void", f"@copy.squares{width}", arguments)
                    with branch.otherwise():
                        f.call("void", f"@copy.elements{width}", arguments)
                else:
                    f.call("void", f"@copy.elements{width}", arguments)
    f.ret()


def _rows(m: Module) -> None:
    """Rows that are contiguous in both."""
    f = m.function("copy.rows", "void", _PLANE, exported=False)
    bytes = f.mul("%length", "%item")
    with f.count("%rows") as row:
        to, source = f.at("%to", f.mul(row, "%to_step")), f.at("%from", f.mul(row, "%row_stride"))
        f.call("ptr", "@memcpy", [("ptr", to), ("ptr", source), ("i64", bytes)])
    f.ret()


def _swapped_rows(m: Module, unit: int) -> None:
    """Rows that are contiguous in both, the bytes of each number reversed."""
    f = m.function(f"copy.swapped_rows{unit}", "void", _PLANE, exported=False)
    type = f"i{8 * unit}"
    count = f.binary("udiv", f.mul("%length", "%item"), str(unit))
    with f.count("%rows") as row:
        to, source = f.at("%to", f.mul(row, "%to_step")), f.at("%from", f.mul(row, "%row_stride"))
        with f.count(count) as number:
            value = f.load(type, f.at(source, number, type), align=1)
            swapped = f.call(type, f"@llvm.bswap.{type}", [(type, value)])
            f.emit(f"store {type} {swapped}, ptr {f.at(to, number, type)}, align 1")
    f.ret()


def _elements(m: Module, name: str, type: str, *, swapped: bool) -> None:
    """Copy one element after the other; of complex numbers whose bytes are swapped each half by itself."""
    f = m.function(name, "void", _PLANE, exported=False)
    width = int(type[1:]) // 8
    units = f.binary("udiv", "%item", str(width)) if swapped else "1"
    start = f.var("i64", "0")
    with f.loop() as loop:
        begin = start.get()
        loop.break_unless(f.icmp("slt", begin, "%length"))
        left = f.sub("%length", begin)
        count = f.select(f.icmp("slt", left, str(_STRIP)), left, str(_STRIP))
        with f.count("%rows") as row:
            to = f.at(f.at("%to", f.mul(row, "%to_step")), f.mul(begin, "%item"))
            source = f.at(f.at("%from", f.mul(row, "%row_stride")), f.mul(begin, "%stride"))
            done = "0" if swapped else _groups(f, to, source, count, type)
            with f.count(f.sub(count, done)) as more, f.count(units) as unit:
                number = f.add(done, more)
                place = f.at(f.at(source, f.mul(number, "%stride")), f.mul(unit, str(width)))
                value = f.load(type, place, align=1)
                if swapped:
                    value = f.call(type, f"@llvm.bswap.{type}", [(type, value)])
                put = f.at(f.at(to, f.mul(number, "%item")), f.mul(unit, str(width)))
                f.emit(f"store {type} {value}, ptr {put}, align 1")
        start.set(f.add(begin, str(_STRIP)))
    f.ret()


def _groups(f: FunctionBuilder, to: str, source: str, count: str, type: str) -> str:
    """Copy elements of a strip in groups, whose loads do not wait for each other; gives how many that are."""
    width = int(type[1:]) // 8
    groups = f.binary("udiv", count, str(_GROUP))
    with f.count(groups) as group:
        at = f.at(source, f.mul(f.mul(group, str(_GROUP)), "%stride"))
        first = f.at(to, f.mul(group, str(_GROUP * width)))
        values: list[str] = []
        for _ in range(_GROUP):
            values.append(f.load(type, at, align=1))
            at = f.at(at, "%stride")
        for number, value in enumerate(values):
            f.emit(f"store {type} {value}, ptr {f.at(first, number * width)}, align 1")
    return f.mul(groups, str(_GROUP))


def _squares(m: Module, item: int) -> None:
    """Transpose by squares in registers; what is left over at the edges goes one by one."""
    f = m.function(f"copy.squares{item}", "void", _PLANE, exported=False)
    n = _SQUARES[item]
    type, vector = f"i{8 * item}", f"<{n} x i{8 * item}>"
    rows, length = (f.and_(whole, str(-n)) for whole in ("%rows", "%length"))

    def one(row: str, place: str) -> None:
        source = f.at(f.at("%from", f.mul(row, str(item))), f.mul(place, "%stride"))
        to = f.at(f.at("%to", f.mul(row, "%to_step")), f.mul(place, str(item)))
        f.emit(f"store {type} {f.load(type, source, align=1)}, ptr {to}, align 1")

    def square(row: str, place: str) -> None:
        corner = f.at(f.at("%from", f.mul(row, str(item))), f.mul(place, "%stride"))
        values = [f.load(vector, f.at(corner, f.mul(str(i), "%stride")), align=1) for i in range(n)]
        corner = f.at(f.at("%to", f.mul(row, "%to_step")), f.mul(place, str(item)))
        for i, value in enumerate(_transposed(f, values, vector)):
            f.emit(f"store {vector} {value}, ptr {f.at(corner, f.mul(str(i), '%to_step'))}, align 1")

    def columns(row: str, squares: int) -> None:
        """All elements of as many rows as so many squares have."""
        with f.count(f.binary("udiv", length, str(n))) as number:
            place = f.mul(number, str(n))
            for down in range(squares):
                square(f.add(row, str(n * down)), place)
        with f.count(str(n * squares)) as i, f.count(f.sub("%length", length)) as more:
            one(f.add(row, i), f.add(length, more))

    together = _LINE // (n * item)
    whole = f.binary("udiv", rows, str(n * together))
    with f.count(whole) as number:
        columns(f.mul(number, str(n * together)), together)
    done = f.mul(whole, str(n * together))
    with f.count(f.binary("udiv", f.sub(rows, done), str(n))) as number:
        columns(f.add(done, f.mul(number, str(n))), 1)
    with f.count(f.sub("%rows", rows)) as more, f.count("%length") as place:
        one(f.add(rows, more), place)
    f.ret()


def _transposed(f: FunctionBuilder, values: list[str], vector: str) -> list[str]:
    """The columns of a square of rows: a perfect shuffle of its halves for each bit of its size."""
    n = len(values)
    low, high = ([half + side for half in range(start, start + n // 2) for side in (0, n)] for start in (0, n // 2))
    for _ in range(n.bit_length() - 1):
        pairs = [(values[i], values[i + n // 2]) for i in range(n // 2)]
        values = [_shuffled(f, a, b, mask, vector) for a, b in pairs for mask in (low, high)]
    return values


def _shuffled(f: FunctionBuilder, a: str, b: str, mask: list[int], vector: str) -> str:
    picks = ", ".join(f"i32 {pick}" for pick in mask)
    return f.value(f"shufflevector {vector} {a}, {vector} {b}, <{len(mask)} x i32> <{picks}>")
