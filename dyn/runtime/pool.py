"""The thread pool of the native runtime, in LLVM IR: one job at a time, shared by whoever is awake.

::

    i32  dyn_parallel_for(rt, fn, ctx, i64 n, i64 grain)    fn(ctx, begin, end, worker) over [0, n); always 0
    void dyn_pool_configure(i64 threads, i64 cpus, i64 spin_ns)
    void dyn_pool_after_fork()                              in a forked child, before anything else of the pool
    i64  dyn_pool_workers()                                 threads made so far

A job is a function over a range, cut into pieces. Each thread has a *share* of them: neighbours, so that from job to
job a thread works on the same part of arrays, which its own caches still hold. It takes pieces from the front of its
share, and then from the back of the others'.

The job's fields are written first, then the shares, then the job's number is published. A share is one word: the
number of its job, and which of its pieces nobody has taken. Who takes a piece replaces the word by a
compare-and-exchange, which fails if the share is another job's or has changed at all: so what was read of the job's
fields was that job's. ``done`` counts the pieces that are finished, and whoever published the job takes pieces like
everybody else, then waits for the pieces that others have *taken*: a worker that sleeps, or that the system does not
run, is never waited for.

Who finds the pool busy (another thread's job, or a job inside a job) does the whole work himself at once.

Workers look for a job for ``spin_ns``, at first without pause and then yielding to other threads, and go to sleep on
a futex. The number of sleepers is counted before the last look at the job's number, and read after that is published:
of the two at least one sees the other. Workers beyond the number of CPUs do not spin, for they would take the time of
those that work.

Workers keep off the CPU of the latest publisher (``dyn.runtime.placement``).

Workers block all signals, so that Python's handlers run in Python's threads; they compute with the floating-point modes
of the thread that published the job, so that results do not depend on who took a piece. They are never joined: they
hold nothing that the end of the process would have to wait for.
"""

from __future__ import annotations

from dyn.lower.abi import THREADS
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.limits import MOST_THREADS
from dyn.runtime.placement import add_placement, avoid, forget, register, see

#: A share's word: the number of its job, the first of its pieces that nobody has taken, and the end of those.
_POSITION_BITS = 12
_END_MASK = (1 << _POSITION_BITS) - 1
_NUMBER_SHIFT = 2 * _POSITION_BITS
_SHARE_BYTES = 64  # a line of the caches each
#: Pieces for each thread: more balance better, fewer cost less.
PIECES_PER_THREAD = 4
_STACK_BYTES = 1 << 20
#: How long a worker polls without giving way to other threads.
_EAGER_NS = 5000

# Fields of a job, in bytes.
_FN, _CTX, _COUNT, _PIECES, _WIDTH, _MODES, _CPU = 0, 8, 16, 24, 32, 40, 44
#: Of ``pool.done``: the counter, and whether the publisher sleeps until it is complete.
_DONE, _WAITING = 0, 8
#: Of ``pool.wake``: what workers sleep on, and how many do.
_WAKE, _SLEEPERS = 0, 8

_SYS_FUTEX, _FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 202, 128, 129
_CLOCK_MONOTONIC, _SIG_SETMASK = 1, 2
_SEQUENTIAL = "seq_cst"


def add_pool(m: Module) -> None:
    """Put the pool into a module."""
    line = "[8 x i64]"
    for name in ("number", "done", "wake", "job", "busy"):
        m.variable(f"pool.{name}", line, align=64)
    m.variable("pool.shares", f"[{MOST_THREADS * _SHARE_BYTES // 8} x i64]", align=64)
    m.variable("pool.workers", "i64")
    m.variable("pool.most", "i64", str(MOST_THREADS - 1))
    m.variable("pool.threads", "i64", "1")
    m.variable("pool.cpus", "i64", "1")
    m.variable("pool.spin", "i64")
    for name, result, arguments in (
        ("sched_yield", "i32", []),
        ("pthread_attr_init", "i32", ["ptr"]),
        ("pthread_attr_setstacksize", "i32", ["ptr", "i64"]),
        ("pthread_attr_setdetachstate", "i32", ["ptr", "i32"]),
        ("pthread_attr_destroy", "i32", ["ptr"]),
        ("pthread_create", "i32", ["ptr", "ptr", "ptr", "ptr"]),
        ("pthread_setname_np", "i32", ["i64", "ptr"]),
        ("pthread_sigmask", "i32", ["i32", "ptr", "ptr"]),
        ("llvm.x86.sse2.pause", "void", []),
        ("llvm.x86.sse.stmxcsr", "void", ["ptr"]),
        ("llvm.x86.sse.ldmxcsr", "void", ["ptr"]),
    ):
        m.declare(name, result, arguments)
    add_placement(m)
    _configure(m)
    define_now(m, "pool.now")
    _help(m)
    _sleep(m)
    _worker(m)
    _recruit(m)
    _publish(m)
    _finish(m)
    _parallel_for(m)


def begin_job(f: FunctionBuilder) -> str:
    """Claim the pool: an i1 that says whether it was free."""
    _, claimed = f.cas("i32", "@pool.busy", "0", "1")
    return claimed


def run_job(f: FunctionBuilder, fn: str, ctx: str, count: str, pieces: str, width: str) -> None:
    """Run a job with the claimed pool, and release it.

    ``pieces`` is at most ``count``, and PIECES_PER_THREAD a thread; the calling thread takes part as number 0, and
    workers of numbers below ``width``.
    """
    job = [("ptr", fn), ("ptr", ctx), ("i64", count), ("i64", pieces), ("i64", width)]
    number = f.call("i64", "@pool.publish", job)
    f.call("i64", "@pool.help", [("i64", "0"), ("i64", number)])
    f.call("void", "@pool.finish", [("i64", pieces)])


def threads_of(f: FunctionBuilder, table: str) -> str:
    """Number of threads that a call through a runtime table may use: its last word, or the process's if that is 0."""
    own = f.load("i64", table, 8 * THREADS)
    return f.select(f.icmp("eq", own, "0"), f.load_atomic("i64", "@pool.threads", "monotonic"), own)


def awake(f: FunctionBuilder) -> str:
    """An i1: whether a worker is awake, so that starting a job costs next to nothing."""
    workers = f.load_atomic("i64", "@pool.workers", "monotonic")
    sleeping = f.cast("zext", f.load_atomic("i32", f.at("@pool.wake", _SLEEPERS), "monotonic"), "i32", "i64")
    return f.icmp("sgt", workers, sleeping)


def _configure(m: Module) -> None:
    f = m.function("dyn_pool_configure", "void", [("i64", "threads"), ("i64", "cpus"), ("i64", "spin_ns")])
    for name, value in (("threads", "%threads"), ("cpus", "%cpus"), ("spin", "%spin_ns")):
        f.store_atomic("i64", value, f"@pool.{name}", "monotonic")
    f.ret()

    # The child has one thread, and none of the pool's. A job may have been running in another thread of the parent.
    f = m.function("dyn_pool_after_fork", "void", [])
    f.rmw("add", "i64", "@pool.number", "1", _SEQUENTIAL)
    f.store("i64", "0", "@pool.workers")
    f.store("i64", str(MOST_THREADS - 1), "@pool.most")
    for address in (f.at("@pool.wake", _SLEEPERS), f.at("@pool.done", _WAITING), "@pool.busy"):
        f.store_atomic("i32", "0", address)
    f.ret()

    f = m.function("dyn_pool_workers", "i64", [])
    f.ret("i64", f.load_atomic("i64", "@pool.workers", "monotonic"))


def define_now(m: Module, name: str) -> None:
    """Define a function of a module's own that gives nanoseconds of CLOCK_MONOTONIC."""
    m.declare("clock_gettime", "i32", ["i32", "ptr"])
    f = m.function(name, "i64", [], exported=False)
    time = f.stack("[2 x i64]")
    f.call("i32", "@clock_gettime", [("i32", str(_CLOCK_MONOTONIC)), ("ptr", time)])
    f.ret("i64", f.add(f.mul(f.load("i64", time), "1000000000"), f.load("i64", time, 8)))


def _futex(f: FunctionBuilder, word: str, operation: int, value: str) -> None:
    arguments = [("i64", str(_SYS_FUTEX)), ("ptr", word), ("i32", str(operation)), ("i32", value), ("ptr", "null")]
    f.call("i64", "@syscall", arguments, signature="i64 (i64, ...)")


def _field(f: FunctionBuilder, type: str, offset: int) -> str:
    return f.load_atomic(type, f.at("@pool.job", offset))


def _wanted(f: FunctionBuilder, number: str, seen: str, worker: str) -> str:
    """Whether a worker is to look for pieces of a job: one that it has not seen, and takes part in."""
    return f.and_(f.icmp("ne", number, seen), f.icmp("slt", worker, _field(f, "i64", _WIDTH)), "i1")


def _share(f: FunctionBuilder, thread: str) -> str:
    """The address of a thread's share."""
    return f.at("@pool.shares", f.mul(thread, str(_SHARE_BYTES)))


def _shares(f: FunctionBuilder, pieces: str, width: str) -> str:
    """Number of shares that a job's pieces are dealt to."""
    shares = f.select(f.icmp("slt", pieces, width), pieces, width)
    return f.select(f.icmp("slt", shares, str(MOST_THREADS)), shares, str(MOST_THREADS))


def _begin(f: FunctionBuilder, count: str, parts: str, part: str) -> str:
    """First element of a part of a range; the first parts are one longer where the range does not divide."""
    size, more = f.binary("udiv", count, parts), f.binary("urem", count, parts)
    return f.add(f.mul(part, size), f.select(f.icmp("slt", part, more), part, more))


def _help(m: Module) -> None:
    """Take pieces of the job of a number until there are none; gives how many."""
    f = m.function("pool.help", "i64", [("i64", "worker"), ("i64", "number")], exported=False)
    taken, turn = f.var("i64", "0"), f.var("i64", "0")
    modes = f.stack("i32", align=4)
    fn, ctx, count = _field(f, "ptr", _FN), _field(f, "ptr", _CTX), _field(f, "i64", _COUNT)
    pieces, width = _field(f, "i64", _PIECES), _field(f, "i64", _WIDTH)
    f.store("i32", _field(f, "i32", _MODES), modes)
    shares = _shares(f, pieces, width)
    with f.loop() as others:
        others.break_unless(f.icmp("slt", turn.get(), shares))
        owner = f.binary("urem", f.add("%worker", turn.get()), shares)
        own = f.icmp("eq", owner, "%worker")
        address = _share(f, owner)
        with f.loop() as loop:
            word = f.load_atomic("i64", address)
            loop.break_unless(f.icmp("eq", f.binary("lshr", word, str(_NUMBER_SHIFT)), _number_bits(f, "%number")))
            first = f.and_(f.binary("lshr", word, str(_POSITION_BITS)), str(_END_MASK))
            end = f.and_(word, str(_END_MASK))
            loop.break_unless(f.icmp("slt", first, end))
            rest = f.select(own, f.add(word, str(1 << _POSITION_BITS)), f.sub(word, "1"))
            _, mine = f.cas("i64", address, word, rest)
            with f.if_(mine):
                with f.if_(f.icmp("ne", "%worker", "0")):
                    f.call("void", "@llvm.x86.sse.ldmxcsr", [("ptr", modes)])
                piece = f.add(_begin(f, pieces, shares, owner), f.select(own, first, f.sub(end, "1")))
                begin, after = _begin(f, count, pieces, piece), _begin(f, count, pieces, f.add(piece, "1"))
                f.call("void", fn, [("ptr", ctx), ("i64", begin), ("i64", after), ("i64", "%worker")])
                before = f.rmw("add", "i32", "@pool.done", "1", _SEQUENTIAL)
                complete = f.icmp("eq", f.add(before, "1", "i32"), f.cast("trunc", pieces, "i64", "i32"), "i32")
                waiting = f.load_atomic("i32", f.at("@pool.done", _WAITING), _SEQUENTIAL)
                with f.if_(f.and_(complete, f.icmp("ne", waiting, "0", "i32"), "i1")):
                    _futex(f, "@pool.done", _FUTEX_WAKE_PRIVATE, "1")
                taken.set(f.add(taken.get(), "1"))
        turn.set(f.add(turn.get(), "1"))
    f.ret("i64", taken.get())


def _number_bits(f: FunctionBuilder, number: str) -> str:
    """The bits of a job's number that a share's word has room for."""
    return f.and_(number, str((1 << (64 - _NUMBER_SHIFT)) - 1))


def _sleep(m: Module) -> None:
    """Sleep until a job is published, unless there is one already behind the one that was ``seen``."""
    f = m.function("pool.sleep", "void", [("i64", "worker"), ("i64", "seen")], exported=False)
    sleepers = f.at("@pool.wake", _SLEEPERS)
    ticket = f.load_atomic("i32", "@pool.wake")
    f.rmw("add", "i32", sleepers, "1", _SEQUENTIAL)
    wanted = _wanted(f, f.load_atomic("i64", "@pool.number", _SEQUENTIAL), "%seen", "%worker")
    with f.if_(f.icmp("eq", wanted, "false", "i1")):
        _futex(f, "@pool.wake", _FUTEX_WAIT_PRIVATE, ticket)
    f.rmw("sub", "i32", sleepers, "1", _SEQUENTIAL)
    f.ret()


def _worker(m: Module) -> None:
    """A worker's life."""
    f = m.function("pool.worker", "ptr", [("ptr", "argument")], exported=False)
    worker = f.cast("ptrtoint", "%argument", "ptr", "i64")
    avoided = f.var("i32", "-1")
    register(f, worker)
    avoid(f, _publisher(f), avoided, worker)
    since, polls = f.var("i64", f.call("i64", "@pool.now", [])), f.var("i64", "0")
    seen = f.var("i64", "0")
    with f.loop():
        number = f.load_atomic("i64", "@pool.number")
        branch = f.if_else(_wanted(f, number, seen.get(), worker))
        with branch.then():
            taken = f.call("i64", "@pool.help", [("i64", worker), ("i64", number)])
            seen.set(number)  # its pieces are all taken, and there will be no more
            with f.if_(f.icmp("ne", taken, "0")):
                since.set(f.call("i64", "@pool.now", []))
        with branch.otherwise():
            f.call("void", "@llvm.x86.sse2.pause", [])
            polls.set(f.add(polls.get(), "1"))
            with f.if_(f.icmp("eq", f.and_(polls.get(), "15"), "0")):
                see(f, worker)
                idle = f.sub(f.call("i64", "@pool.now", []), since.get())
                spare = f.icmp("slt", worker, f.load_atomic("i64", "@pool.cpus", "monotonic"))
                spin = f.select(spare, f.load_atomic("i64", "@pool.spin", "monotonic"), "0")
                deeper = f.if_else(f.icmp("sge", idle, spin))
                with deeper.then():
                    avoid(f, _publisher(f), avoided, worker)
                    f.call("void", "@pool.sleep", [("i64", worker), ("i64", seen.get())])
                    since.set(f.call("i64", "@pool.now", []))
                with deeper.otherwise(), f.if_(f.icmp("sgt", idle, str(_EAGER_NS))):
                    f.call("i32", "@sched_yield", [])
    f.unreachable()


def _publisher(f: FunctionBuilder) -> str:
    """The CPU of the latest publisher."""
    return _field(f, "i32", _CPU)


def _recruit(m: Module) -> None:
    """See that there are ``wanted`` workers, or as many as the system allows. For who has claimed the pool."""
    f = m.function("pool.recruit", "void", [("i64", "wanted")], exported=False)
    attributes, thread = f.stack("[8 x i64]"), f.stack("i64")
    every, before = f.stack("[16 x i64]"), f.stack("[16 x i64]")
    f.emit(f"store [16 x i64] [{', '.join(['i64 -1'] * 16)}], ptr {every}, align 8")
    f.call("i32", "@pthread_sigmask", [("i32", str(_SIG_SETMASK)), ("ptr", every), ("ptr", before)])
    f.call("i32", "@pthread_attr_init", [("ptr", attributes)])
    f.call("i32", "@pthread_attr_setstacksize", [("ptr", attributes), ("i64", str(_STACK_BYTES))])
    f.call("i32", "@pthread_attr_setdetachstate", [("ptr", attributes), ("i32", "1")])
    with f.loop() as loop:
        number = f.add(f.load("i64", "@pool.workers"), "1")
        loop.break_if(f.icmp("sgt", number, "%wanted"))
        forget(f, number)
        start = [("ptr", thread), ("ptr", attributes), ("ptr", "@pool.worker")]
        failed = f.call("i32", "@pthread_create", [*start, ("ptr", f.cast("inttoptr", number, "i64", "ptr"))])
        with f.if_(f.icmp("ne", failed, "0", "i32")):
            f.store("i64", f.sub(number, "1"), "@pool.most")  # do not try again at every job
            f.jump(loop.done)
        f.call("i32", "@pthread_setname_np", [("i64", f.load("i64", thread)), ("ptr", m.string("dyn worker"))])
        f.store_atomic("i64", number, "@pool.workers", "monotonic")
    f.call("i32", "@pthread_attr_destroy", [("ptr", attributes)])
    f.call("i32", "@pthread_sigmask", [("i32", str(_SIG_SETMASK)), ("ptr", before), ("ptr", "null")])
    f.ret()


def _publish(m: Module) -> None:
    """Write a job down, publish it, and wake workers for it; gives its number."""
    params = [("ptr", "fn"), ("ptr", "ctx"), ("i64", "count"), ("i64", "pieces"), ("i64", "width")]
    f = m.function("pool.publish", "i64", params, exported=False)
    cpu = f.call("i32", "@sched_getcpu", [])
    with f.if_(f.icmp("ne", cpu, _publisher(f), "i32")):
        f.call("void", "@pool.disperse", [("i32", cpu)])
        f.store_atomic("i32", cpu, f.at("@pool.job", _CPU))
    others, most = f.sub("%width", "1"), f.load("i64", "@pool.most")
    wanted = f.select(f.icmp("slt", others, most), others, most)
    with f.if_(f.icmp("slt", f.load("i64", "@pool.workers"), wanted)):
        f.call("void", "@pool.recruit", [("i64", wanted)])
    modes = f.stack("i32", align=4)
    f.call("void", "@llvm.x86.sse.stmxcsr", [("ptr", modes)])
    fields = [("ptr", "%fn", _FN), ("ptr", "%ctx", _CTX), ("i64", "%count", _COUNT), ("i64", "%pieces", _PIECES)]
    for type, value, offset in [*fields, ("i64", "%width", _WIDTH), ("i32", f.load("i32", modes), _MODES)]:
        f.store_atomic(type, value, f.at("@pool.job", offset))
    f.store_atomic("i32", "0", "@pool.done")
    f.store_atomic("i32", "0", f.at("@pool.done", _WAITING))
    number = f.add(f.load_atomic("i64", "@pool.number"), "1")
    fresh = f.binary("shl", number, str(_NUMBER_SHIFT))
    shares = _shares(f, "%pieces", "%width")
    with f.count(shares) as thread:
        size = f.sub(_begin(f, "%pieces", shares, f.add(thread, "1")), _begin(f, "%pieces", shares, thread))
        f.store_atomic("i64", f.or_(fresh, size), _share(f, thread))
    f.rmw("xchg", "i64", "@pool.number", number, _SEQUENTIAL)
    sleepers = f.load_atomic("i32", f.at("@pool.wake", _SLEEPERS), _SEQUENTIAL)
    with f.if_(f.icmp("ne", sleepers, "0", "i32")):
        f.rmw("add", "i32", "@pool.wake", "1", _SEQUENTIAL)
        # Where the job is not for all, the system cannot know whom to wake: those that are not meant sleep on.
        every = f.icmp("sle", f.load("i64", "@pool.workers"), others)
        helpers = f.sub("%pieces", "1")
        count = f.select(every, f.select(f.icmp("slt", helpers, others), helpers, others), str(MOST_THREADS))
        _futex(f, "@pool.wake", _FUTEX_WAKE_PRIVATE, f.cast("trunc", count, "i64", "i32"))
    f.ret("i64", number)


def _finish(m: Module) -> None:
    """Wait for the pieces that others have taken, spinning at first, and release the pool."""
    f = m.function("pool.finish", "void", [("i64", "pieces")], exported=False)
    pieces = f.cast("trunc", "%pieces", "i64", "i32")
    polls, since = f.var("i64", "0"), f.var("i64", "0")
    with f.loop() as loop:
        done = f.load_atomic("i32", "@pool.done", _SEQUENTIAL)
        loop.break_if(f.icmp("eq", done, pieces, "i32"))
        f.call("void", "@llvm.x86.sse2.pause", [])
        polls.set(f.add(polls.get(), "1"))
        with f.if_(f.icmp("eq", f.and_(polls.get(), "15"), "0")):
            now = f.call("i64", "@pool.now", [])
            with f.if_(f.icmp("eq", since.get(), "0")):
                since.set(now)
            idle = f.sub(now, since.get())
            deeper = f.if_else(f.icmp("sge", idle, f.load_atomic("i64", "@pool.spin", "monotonic")))
            with deeper.then():
                # Who finishes the last piece looks at this after counting it; the futex compares with what was seen.
                f.store_atomic("i32", "1", f.at("@pool.done", _WAITING), _SEQUENTIAL)
                _futex(f, "@pool.done", _FUTEX_WAIT_PRIVATE, done)
            with deeper.otherwise(), f.if_(f.icmp("sgt", idle, str(_EAGER_NS))):
                f.call("i32", "@sched_yield", [])
    f.store_atomic("i32", "0", "@pool.busy")
    f.ret()


def _parallel_for(m: Module) -> None:
    params = [("ptr", "rt"), ("ptr", "fn"), ("ptr", "ctx"), ("i64", "n"), ("i64", "grain")]
    f = m.function("dyn_parallel_for", "i32", params)
    with f.if_(f.icmp("sle", "%n", "0")):
        f.ret("i32", "0")
    threads = threads_of(f, "%rt")
    grain = f.select(f.icmp("sgt", "%grain", "1"), "%grain", "1")
    grains = f.add(f.binary("udiv", f.sub("%n", "1"), grain), "1")
    most = f.mul(threads, str(PIECES_PER_THREAD))
    pieces = f.select(f.icmp("slt", grains, most), grains, most)
    several = f.and_(f.icmp("sgt", pieces, "1"), f.icmp("sgt", threads, "1"), "i1")
    with f.if_(several), f.if_(begin_job(f)):
        run_job(f, "%fn", "%ctx", "%n", pieces, threads)
        f.ret("i32", "0")
    f.call("void", "%fn", [("ptr", "%ctx"), ("i64", "0"), ("i64", "%n"), ("i64", "0")])
    f.ret("i32", "0")
