"""The allocator of the native runtime: blocks that calls take and give back, in LLVM IR.

::

    ptr  dyn_block_alloc(i64 bytes)   64-byte aligned memory, not cleared; null where there is none
    void dyn_block_free(ptr)          a block, from any thread; null is nothing
    void dyn_block_trim()             returns everything idle to the system
    i64  dyn_block_idle()             bytes of mapped blocks that wait to be taken again
    void dyn_block_limit(i64 bytes)   how many may wait

Arenas, scratch and outputs come and go with every call, and touching fresh pages costs more than most kernels do: so
blocks are kept for the next call. Sizes fall into four classes a power of two; a class keeps up to 16 idle blocks, one
of large blocks 256, each in a slot of its own. Taking a block is an exchange with null, giving one back a
compare-and-swap: there are no locks, so nothing waits, a fork in the middle of it loses a block at most, and no ABA
problem can arise.

What is kept is bounded. Small blocks (below 256 KiB) are the C library's; all slots filled with them are 22 MiB. Large
ones are mapped from the system, and unmapped when they were not taken again for a while: each block carries the time at
which it was given back, counted in large allocations, and old ones are returned now and then, and whenever the system
has to be asked for more. A while is longer the more large blocks there are: a call that takes as many, as a training
step that gives each weight a new array, comes to each of them once. All idle ones together are at most half as much
again as was lately in use at once. So memory follows the sizes of the recent calls rather than growing with every new
one.

A block's header is the 64 bytes before it: its capacity, where its memory begins, the length of the mapping (0 if it is
the C library's), its class and the time it became idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dyn.lower.native import FunctionBuilder, Module

#: The classes: 256 bytes, header included, then four a power of two up to 2^47.
_FIRST_BITS = 8
_LAST_BITS = 47
_CLASSES = (_LAST_BITS - _FIRST_BITS) * 4 + 1
_SLOTS, _LARGE_SLOTS = 16, 256
#: How many classes above its own a request looks through: blocks of up to twice its size.
_REACH = 4
_HEADER = 64
#: Blocks from this size on are mapped; a multiple of the page in every class.
_LARGE_BITS = 18
_FIRST_LARGE = (_LARGE_BITS - _FIRST_BITS) * 4
#: Blocks from this size on start at a huge page, and ask for them.
_HUGE = 4 << 20
_HUGE_PAGE = 2 << 20
#: After how many large allocations, and one more for each large block that there is, an idle block is old: when there
#: is too much, when more is asked of the system, and at the look that is taken after every _PERIOD of them.
_TOO_MUCH_OLD, _MORE_OLD, _EVER_OLD = 4, 16, 64
_PERIOD = 32
#: Idle memory that is always allowed.
_LEAST_IDLE = 32 << 20

_CAPACITY, _BASE, _LENGTH, _CLASS, _STAMP = 0, 8, 16, 24, 32
_PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, _MADV_HUGEPAGE = 3, 0x22, 14


def add_blocks(m: Module) -> None:
    """Put the allocator into a module."""
    slots = _CLASSES * _SLOTS + (_CLASSES - _FIRST_LARGE) * (_LARGE_SLOTS - _SLOTS)
    m.variable("blocks.slots", f"[{slots} x ptr]", align=64)
    # Of each class of large blocks, how many slots may be taken: where none is, none is looked at.
    m.variable("blocks.kept", f"[{_CLASSES} x i64]", align=64)
    m.variable("blocks.mapped", "i64", align=64)
    m.variable("blocks.idle", "i64", align=64)
    m.variable("blocks.used", "i64", align=64)
    m.variable("blocks.most_used", "i64")
    m.variable("blocks.clock", "i64", align=64)
    m.variable("blocks.limit", "i64", str(256 << 20))
    for name, result, arguments in (
        ("aligned_alloc", "ptr", ["i64", "i64"]),
        ("free", "void", ["ptr"]),
        ("mmap", "ptr", ["ptr", "i64", "i32", "i32", "i32", "i64"]),
        ("munmap", "i32", ["ptr", "i64"]),
        ("madvise", "i32", ["ptr", "i64", "i32"]),
        ("llvm.ctlz.i64", "i64", ["i64", "i1"]),
    ):
        m.declare(name, result, arguments)
    _map(m)
    _release(m)
    _put(m)
    _sweep(m)
    _make(m)
    _tick(m)
    _alloc(m)
    _free(m)


def _map(m: Module) -> None:
    """Memory from the system: huge blocks start at a huge page, for which more is mapped and the ends returned."""
    f = m.function("blocks.map", "ptr", [("i64", "bytes")], exported=False)
    huge = f.icmp("sge", "%bytes", str(_HUGE))
    wanted = f.add("%bytes", f.select(huge, str(_HUGE_PAGE), "0"))
    flags = [("i32", str(_PROT_READ_WRITE)), ("i32", str(_MAP_PRIVATE_ANONYMOUS)), ("i32", "-1"), ("i64", "0")]
    raw = f.call("ptr", "@mmap", [("ptr", "null"), ("i64", wanted), *flags])
    start = f.cast("ptrtoint", raw, "ptr", "i64")
    with f.if_(f.icmp("eq", start, "-1")):
        f.ret("ptr", "null")
    with f.if_(huge):
        rest = f.and_(f.sub("0", start), str(_HUGE_PAGE - 1))
        base = f.at(raw, rest)
        with f.if_(f.icmp("ne", rest, "0")):
            f.call("i32", "@munmap", [("ptr", raw), ("i64", rest)])
        with f.if_(f.icmp("ne", rest, str(_HUGE_PAGE))):
            f.call("i32", "@munmap", [("ptr", f.at(base, "%bytes")), ("i64", f.sub(str(_HUGE_PAGE), rest))])
        f.call("i32", "@madvise", [("ptr", base), ("i64", "%bytes"), ("i32", str(_MADV_HUGEPAGE))])
        f.ret("ptr", base)
    f.ret("ptr", raw)


def _release(m: Module) -> None:
    """Return a block that nobody holds and no slot has."""
    f = m.function("blocks.release", "void", [("ptr", "block")], exported=False)
    base, length = _field(f, "%block", "ptr", _BASE), _field(f, "%block", "i64", _LENGTH)
    with f.if_(f.icmp("ne", length, "0")):
        f.rmw("sub", "i64", "@blocks.mapped", "1", "monotonic")
        f.call("i32", "@munmap", [("ptr", base), ("i64", length)])
        f.ret()
    f.call("void", "@free", [("ptr", base)])
    f.ret()


def _put(m: Module) -> None:
    """Put a block into a free slot of its class: whether there was one, and not too much is idle."""
    f = m.function("blocks.put", "i1", [("ptr", "block")], exported=False)
    length = _field(f, "%block", "i64", _LENGTH)
    idle = f.add(f.rmw("add", "i64", "@blocks.idle", length), length)
    most = f.load_atomic("i64", "@blocks.most_used", "monotonic")
    allowed = _larger(f, f.add(most, f.binary("ashr", most, "1")), str(_LEAST_IDLE))
    limit = f.load_atomic("i64", "@blocks.limit", "monotonic")
    with f.if_(f.and_(f.icmp("sle", idle, allowed), f.icmp("sle", idle, limit), "i1")):
        number = _field(f, "%block", "i64", _CLASS)
        large = f.icmp("sge", number, str(_FIRST_LARGE))
        kept = f.at("@blocks.kept", number, "i64")
        with f.if_(large):
            f.rmw("add", "i64", kept, "1", "monotonic")
        with _slots(f, number) as slot:
            with f.if_(f.is_null(f.load_atomic("ptr", slot, "monotonic"))):
                _, done = f.cas("ptr", slot, "null", "%block")
                with f.if_(done):
                    f.ret("i1", "true")
        with f.if_(large):
            f.rmw("sub", "i64", kept, "1", "monotonic")
    f.rmw("sub", "i64", "@blocks.idle", length)
    f.ret("i1", "false")


def _sweep(m: Module) -> None:
    """Release the idle blocks, from a class on, that are older than an age.

    A block is taken out before its header is looked at: while it is in a slot another thread may take and unmap it.
    """
    f = m.function("blocks.sweep", "void", [("i64", "first"), ("i64", "age")], exported=False)
    now = f.load_atomic("i64", "@blocks.clock", "monotonic")
    age = f.add("%age", f.load_atomic("i64", "@blocks.mapped", "monotonic"))
    with f.count(f.sub(str(_CLASSES), "%first")) as i, _idle_blocks(f, f.add("%first", i)) as block:
        with f.if_(f.icmp("ne", block, "null", "ptr")):
            f.rmw("sub", "i64", "@blocks.idle", _field(f, block, "i64", _LENGTH))
            old = f.icmp("sgt", f.sub(now, _field(f, block, "i64", _STAMP)), age)
            kept = f.var("i1", "false")
            with f.if_(f.icmp("eq", old, "false", "i1")):
                kept.set(f.call("i1", "@blocks.put", [("ptr", block)]))
            with f.if_(f.icmp("eq", kept.get(), "false", "i1")):
                f.call("void", "@blocks.release", [("ptr", block)])
    f.ret()

    f = m.function("dyn_block_trim", "void", [])
    f.call("void", "@blocks.sweep", [("i64", "0"), ("i64", str(-(1 << 62)))])
    f.ret()

    f = m.function("dyn_block_idle", "i64", [])
    f.ret("i64", f.load_atomic("i64", "@blocks.idle", "monotonic"))

    f = m.function("dyn_block_limit", "void", [("i64", "bytes")])
    f.store_atomic("i64", "%bytes", "@blocks.limit", "monotonic")
    f.ret()


def _make(m: Module) -> None:
    """A new block of a class; ``bytes`` are the class's, header included."""
    f = m.function("blocks.make", "ptr", [("i64", "class"), ("i64", "bytes")], exported=False)
    large = f.icmp("sge", "%bytes", str(1 << _LARGE_BITS))
    with f.if_(large):
        f.call("void", "@blocks.sweep", [("i64", str(_FIRST_LARGE)), ("i64", str(_MORE_OLD))])
    tries, base = f.var("i64", "2"), f.var("ptr")
    with f.loop() as loop:
        branch = f.if_else(large)
        with branch.then():
            base.set(f.call("ptr", "@blocks.map", [("i64", "%bytes")]))
        with branch.otherwise():
            base.set(f.call("ptr", "@aligned_alloc", [("i64", str(_HEADER)), ("i64", "%bytes")]))
        loop.break_unless(f.is_null(base.get()))
        tries.set(f.sub(tries.get(), "1"))
        with f.if_(f.icmp("eq", tries.get(), "0")):
            f.ret("ptr", "null")
        f.call("void", "@dyn_block_trim", [])  # what is idle may be what is missing
    with f.if_(large):
        f.rmw("add", "i64", "@blocks.mapped", "1", "monotonic")
    block = f.at(base.get(), _HEADER)
    for type, value, offset in (
        ("i64", f.sub("%bytes", str(_HEADER)), _CAPACITY),
        ("ptr", base.get(), _BASE),
        ("i64", f.select(large, "%bytes", "0"), _LENGTH),
        ("i64", "%class", _CLASS),
        ("i64", "0", _STAMP),
    ):
        f.store(type, value, block, offset - _HEADER)
    f.ret("ptr", block)


def _tick(m: Module) -> None:
    """A large allocation: let time pass, and now and then return what is old."""
    f = m.function("blocks.tick", "void", [], exported=False)
    time = f.rmw("add", "i64", "@blocks.clock", "1", "monotonic")
    with f.if_(f.icmp("eq", f.and_(time, str(_PERIOD - 1)), str(_PERIOD - 1))):
        most = f.load_atomic("i64", "@blocks.most_used", "monotonic")
        less = f.sub(most, f.binary("ashr", most, "3"))
        used = f.load_atomic("i64", "@blocks.used", "monotonic")
        f.store_atomic("i64", _larger(f, used, less), "@blocks.most_used", "monotonic")
        f.call("void", "@blocks.sweep", [("i64", str(_FIRST_LARGE)), ("i64", str(_EVER_OLD))])
    f.ret()


def _alloc(m: Module) -> None:
    f = m.function("dyn_block_alloc", "ptr", [("i64", "bytes")])
    f.ret("ptr", f.call("ptr", "@blocks.alloc", [("i64", "%bytes"), ("i1", "true")]))

    # Scratch is taken and given back by every launch of a call: it is not what time is counted in.
    f = m.function("blocks.alloc", "ptr", [("i64", "bytes"), ("i1", "ticks")], exported=False)
    with f.if_(f.icmp("ugt", "%bytes", str((1 << _LAST_BITS) - _HEADER))):  # negative ones as well
        f.ret("ptr", "null")
    # Of the size less 1 the leading bit and the two after it make the class.
    least = f.icmp("ult", "%bytes", str((1 << _FIRST_BITS) - _HEADER))
    last = f.select(least, str((1 << _FIRST_BITS) - 1), f.add("%bytes", str(_HEADER - 1)))
    bits = f.sub("63", f.call("i64", "@llvm.ctlz.i64", [("i64", last), ("i1", "true")]))
    shift = f.sub(bits, "2")
    quarter = f.binary("lshr", last, shift)
    number = f.add(f.mul(f.sub(bits, str(_FIRST_BITS)), "4"), f.sub(quarter, "3"))
    size = f.binary("shl", f.add(quarter, "1"), shift)
    with f.if_(f.and_("%ticks", f.icmp("sge", size, str(1 << _LARGE_BITS)), "i1")):
        f.call("void", "@blocks.tick", [])
    more = f.sub(str(_CLASSES), number)
    with (
        f.count(f.select(f.icmp("sgt", more, str(_REACH)), str(_REACH), more)) as i,
        _idle_blocks(f, f.add(number, i)) as block,
    ):
        with f.if_(f.icmp("ne", block, "null", "ptr")):
            f.rmw("sub", "i64", "@blocks.idle", _field(f, block, "i64", _LENGTH))
            _count_used(f, block)
            f.ret("ptr", block)
    block = f.call("ptr", "@blocks.make", [("i64", number), ("i64", size)])
    with f.if_(f.icmp("ne", block, "null", "ptr")):
        _count_used(f, block)
    f.ret("ptr", block)


def _count_used(f: FunctionBuilder, block: str) -> None:
    """A block is in use from now on."""
    length = _field(f, block, "i64", _LENGTH)
    with f.if_(f.icmp("ne", length, "0")):
        used = f.add(f.rmw("add", "i64", "@blocks.used", length, "monotonic"), length)
        with f.if_(f.icmp("sgt", used, f.load_atomic("i64", "@blocks.most_used", "monotonic"))):
            f.store_atomic("i64", used, "@blocks.most_used", "monotonic")


def _free(m: Module) -> None:
    f = m.function("dyn_block_free", "void", [("ptr", "block")])
    with f.if_(f.is_null("%block")):
        f.ret()
    f.store("i64", f.load_atomic("i64", "@blocks.clock", "monotonic"), "%block", _STAMP - _HEADER)
    length = _field(f, "%block", "i64", _LENGTH)
    f.rmw("sub", "i64", "@blocks.used", length, "monotonic")
    with f.if_(f.call("i1", "@blocks.put", [("ptr", "%block")])):
        f.ret()
    with f.if_(f.icmp("ne", length, "0")):
        f.call("void", "@blocks.sweep", [("i64", str(_FIRST_LARGE)), ("i64", str(_TOO_MUCH_OLD))])
        with f.if_(f.call("i1", "@blocks.put", [("ptr", "%block")])):
            f.ret()
    f.call("void", "@blocks.release", [("ptr", "%block")])
    f.ret()


def _larger(f: FunctionBuilder, a: str, b: str) -> str:
    return f.select(f.icmp("sgt", a, b), a, b)


@contextmanager
def _slots(f: FunctionBuilder, number: str) -> Iterator[str]:
    """A loop over the slots of a class."""
    beyond = f.sub(number, str(_FIRST_LARGE))
    large = f.icmp("sge", beyond, "0")
    first = f.add(f.mul(number, str(_SLOTS)), f.mul(f.select(large, beyond, "0"), str(_LARGE_SLOTS - _SLOTS)))
    with f.count(f.select(large, str(_LARGE_SLOTS), str(_SLOTS))) as i:
        yield f.at("@blocks.slots", f.add(first, i), "ptr")


@contextmanager
def _idle_blocks(f: FunctionBuilder, number: str) -> Iterator[str]:
    """A loop that takes the blocks of a class out of their slots; null where one is empty.

    Looking first keeps the cache line shared.
    """
    large = f.icmp("sge", number, str(_FIRST_LARGE))
    kept = f.at("@blocks.kept", number, "i64")
    none = f.icmp("sle", f.load_atomic("i64", kept, "monotonic"), "0")
    with f.if_(f.icmp("eq", f.and_(large, none, "i1"), "false", "i1")), _slots(f, number) as slot:
        found = f.var("ptr", f.load_atomic("ptr", slot, "monotonic"))
        with f.if_(f.icmp("ne", found.get(), "null", "ptr")):
            found.set(f.rmw("xchg", "ptr", slot, "null"))
            with f.if_(f.and_(large, f.icmp("ne", found.get(), "null", "ptr"), "i1")):
                f.rmw("sub", "i64", kept, "1", "monotonic")
        yield found.get()


def _field(f: FunctionBuilder, block: str, type: str, offset: int) -> str:
    return f.load(type, block, offset - _HEADER)
