"""Launches of kernels by the native runtime: on one thread or several, with scratch for each.

::

    i32 dyn_launch(rt, kernel, i64 grid, ptr dims, ptr buffers, i64 scratch_bytes, i64 cost, i64 pieces, i64 dispatch)

runs ``kernel(dims, buffers, scratch, begin, end)`` over the range [0, grid). ``cost`` says what one iteration costs, in
the unit of ``dyn.schedule.cost``: about 1/32 ns. Whether and into how many pieces the range is cut depends on that and
on whether a worker is awake, never the results: iterations are independent. A thread has ``pieces`` of them at most, or
where that is 0 as many as balance the work. It gives 0, or 1 where there is no memory
for scratch; then no iteration has run. ``dispatch``, the number of the launch in its program, is for who records
launches.

The thresholds are some multiple of what a job costs besides its work: 0.15 µs when a worker is awake, and 5 to 10 µs
when all have to be woken. ``dyn_launch_configure(i64 awake, i64 asleep, i64 piece_work)`` sets others.
"""

from __future__ import annotations

from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.pool import PIECES_PER_THREAD, awake, begin_job, run_job, threads_of

#: The work below which a launch runs on one thread, where a worker is awake and where all sleep: 2 µs and 25 µs. And
#: the least work of a piece: half a µs.
THRESHOLDS = {"awake": 2_000 * 32, "asleep": 25_000 * 32, "piece_work": 500 * 32}
_MOST = str(2**63 - 1)

# What the pieces of a launch are given, in bytes.
_KERNEL, _DIMS, _BUFFERS, _SCRATCH, _STRIDE = 0, 8, 16, 24, 32


def add_launch(m: Module) -> None:
    """Put ``dyn_launch`` into a module that has the pool and the allocator."""
    m.declare("llvm.smul.with.overflow.i64", "{ i64, i1 }", ["i64", "i64"])
    f = m.function("dyn_launch_configure", "void", [("i64", name) for name in THRESHOLDS])
    for name, units in THRESHOLDS.items():
        f.store_atomic("i64", f"%{name}", m.variable(f"launch.{name}", "i64", str(units)), "monotonic")
    f.ret()
    _piece(m)
    _parallel(m)
    _launch(m)


def _piece(m: Module) -> None:
    """A piece of a launch, as the pool calls it."""
    params = [("ptr", "ctx"), ("i64", "begin"), ("i64", "end"), ("i64", "worker")]
    f = m.function("launch.piece", "void", params, exported=False)
    scratch = f.at(f.load("ptr", "%ctx", _SCRATCH), f.mul("%worker", f.load("i64", "%ctx", _STRIDE)))
    kernel, dims, buffers = (f.load("ptr", "%ctx", offset) for offset in (_KERNEL, _DIMS, _BUFFERS))
    f.call("void", kernel, [("ptr", dims), ("ptr", buffers), ("ptr", scratch), ("i64", "%begin"), ("i64", "%end")])
    f.ret()


def _parallel(m: Module) -> None:
    """Try to run a launch on several threads; gives whether it has run."""
    params = [("ptr", "kernel"), ("i64", "grid"), ("ptr", "dims"), ("ptr", "buffers"), ("i64", "bytes")]
    params += [("i64", "work"), ("i64", "threads"), ("i64", "own")]
    f = m.function("launch.parallel", "i1", params, exported=False)
    with f.if_(f.icmp("eq", begin_job(f), "false", "i1")):
        f.ret("i1", "false")
    pieces = f.binary("sdiv", "%work", f.load_atomic("i64", "@launch.piece_work", "monotonic"))
    pieces = f.select(f.icmp("sgt", pieces, "1"), pieces, "1")
    own = f.select(f.icmp("sgt", "%own", "0"), "%own", str(PIECES_PER_THREAD))
    pieces = _least(f, pieces, f.mul("%threads", own))
    pieces = _least(f, pieces, "%grid")
    stride = f.and_(f.add("%bytes", "63"), "-64")
    scratch = f.var("ptr", "null")
    width = f.var("i64", "%threads")
    with f.if_(f.icmp("sgt", "%bytes", "0")):
        width.set(_least(f, "%threads", pieces))
        scratch.set(f.call("ptr", "@blocks.alloc", [("i64", f.mul(stride, width.get())), ("i1", "false")]))
        with f.if_(f.is_null(scratch.get())):
            f.store_atomic("i32", "0", "@pool.busy")
            f.ret("i1", "false")
    ctx = f.stack("[5 x i64]")
    for type, value, offset in (
        ("ptr", "%kernel", _KERNEL),
        ("ptr", "%dims", _DIMS),
        ("ptr", "%buffers", _BUFFERS),
        ("ptr", scratch.get(), _SCRATCH),
        ("i64", stride, _STRIDE),
    ):
        f.store(type, value, ctx, offset)
    run_job(f, "@launch.piece", ctx, "%grid", pieces, width.get())
    f.call("void", "@dyn_block_free", [("ptr", scratch.get())])
    f.ret("i1", "true")


def _launch(m: Module) -> None:
    params = [("ptr", "rt"), ("ptr", "kernel"), ("i64", "grid"), ("ptr", "dims"), ("ptr", "buffers")]
    params += [("i64", "bytes"), ("i64", "cost"), ("i64", "pieces"), ("i64", "dispatch")]
    f = m.function("dyn_launch", "i32", params)
    with f.if_(f.icmp("sle", "%grid", "0")):
        f.ret("i32", "0")
    threads = threads_of(f, "%rt")
    with f.if_(f.and_(f.icmp("sgt", threads, "1"), f.icmp("sgt", "%grid", "1"), "i1")):
        product = f.call("{ i64, i1 }", "@llvm.smul.with.overflow.i64", [("i64", "%grid"), ("i64", "%cost")])
        large = f.value(f"extractvalue {{ i64, i1 }} {product}, 1")
        work = f.select(large, _MOST, f.value(f"extractvalue {{ i64, i1 }} {product}, 0"))
        hot, cold = (f.load_atomic("i64", f"@launch.{name}", "monotonic") for name in ("awake", "asleep"))
        with f.if_(f.icmp("sge", work, f.select(awake(f), hot, cold))):
            same = [("ptr", "%kernel"), ("i64", "%grid"), ("ptr", "%dims"), ("ptr", "%buffers"), ("i64", "%bytes")]
            ran = f.call("i1", "@launch.parallel", [*same, ("i64", work), ("i64", threads), ("i64", "%pieces")])
            with f.if_(ran):
                f.ret("i32", "0")
    scratch = f.var("ptr", "null")
    with f.if_(f.icmp("sgt", "%bytes", "0")):
        scratch.set(f.call("ptr", "@blocks.alloc", [("i64", "%bytes"), ("i1", "false")]))
        with f.if_(f.is_null(scratch.get())):
            f.ret("i32", "1")
    whole = [("ptr", scratch.get()), ("i64", "0"), ("i64", "%grid")]
    f.call("void", "%kernel", [("ptr", "%dims"), ("ptr", "%buffers"), *whole])
    f.call("void", "@dyn_block_free", [("ptr", scratch.get())])
    f.ret("i32", "0")


def _least(f: FunctionBuilder, a: str, b: str) -> str:
    return f.select(f.icmp("slt", a, b), a, b)


def add_arena(m: Module) -> None:
    """The runtime table's ``alloc`` and ``free``, for arenas."""
    f = m.function("dyn_alloc", "ptr", [("ptr", "rt"), ("i64", "bytes")])
    f.ret("ptr", f.call("ptr", "@dyn_block_alloc", [("i64", "%bytes")]))
    f = m.function("dyn_free", "void", [("ptr", "rt"), ("ptr", "block"), ("i64", "bytes")])
    f.call("void", "@dyn_block_free", [("ptr", "%block")])
    f.ret()
