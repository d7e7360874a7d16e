"""Placement of the pool's workers on CPUs: off the CPU of the thread that publishes jobs, in LLVM IR.

A system that looks for caches rather than idle CPUs wakes a worker on the CPU of the thread that wakes it, where it
waits until that thread has done the work alone. So a worker keeps off the CPU of the latest publisher: before it sleeps
it takes that one out of its affinity, which otherwise is the process's.

That bounds the worker, and not the publisher, whom the system moves between two jobs, onto a worker's CPU too, which
the worker cannot leave then. So workers note where they run; a publisher that runs on another CPU than the one before
it sends those away that it finds on its own, asleep or not.
"""

from __future__ import annotations

from dyn.lower.native import FunctionBuilder, Module, Var
from dyn.runtime.limits import MOST_THREADS

#: The bytes of a set of CPUs.
_CPU_SET = 128
_SYS_GETTID = 186
_NOWHERE = "-1"
# Four bytes for each worker, by its number: its thread, or 0; the CPU on which it was seen last.
_THREADS, _SEEN = "@pool.threads_of_workers", "@pool.seen"


def add_placement(m: Module) -> None:
    """Put the functions of placement into a module."""
    for name in (_THREADS, _SEEN):
        m.variable(name[1:], f"[{MOST_THREADS} x i32]", align=64)
    for name, result, arguments in (
        ("sched_getcpu", "i32", []),
        ("sched_getaffinity", "i32", ["i32", "i64", "ptr"]),
        ("sched_setaffinity", "i32", ["i32", "i64", "ptr"]),
        ("getpid", "i32", []),
    ):
        m.declare(name, result, arguments)
    m.declare("syscall", "i64", ["i64"], varargs=True)
    _place(m)
    _disperse(m)


def forget(f: FunctionBuilder, worker: str) -> None:
    """A worker that is yet to start: its number may have been another one's, before a fork."""
    f.store_atomic("i32", "0", _entry(f, _THREADS, worker))


def register(f: FunctionBuilder, worker: str) -> None:
    """The running thread is this worker."""
    see(f, worker)
    thread = f.call("i64", "@syscall", [("i64", str(_SYS_GETTID))], signature="i64 (i64, ...)")
    f.store_atomic("i32", f.cast("trunc", thread, "i64", "i32"), _entry(f, _THREADS, worker))


def see(f: FunctionBuilder, worker: str) -> None:
    """Note where a worker runs."""
    f.store_atomic("i32", f.call("i32", "@sched_getcpu", []), _entry(f, _SEEN, worker), "monotonic")


def avoid(f: FunctionBuilder, cpu: str, avoided: Var, worker: str) -> None:
    """Keep the running worker off a CPU, and note where it is."""
    with f.if_(f.icmp("ne", cpu, avoided.get(), "i32")):
        f.call("void", "@pool.place", [("i32", "0"), ("i32", cpu)])
        avoided.set(cpu)
    see(f, worker)


def _entry(f: FunctionBuilder, table: str, worker: str) -> str:
    return f.at(table, worker, "i32")


def _place(m: Module) -> None:
    """Keep a thread, or this one (0), off a CPU, unless there is no other."""
    f = m.function("pool.place", "void", [("i32", "thread"), ("i32", "cpu")], exported=False)
    cpus = f.stack(f"[{_CPU_SET // 8} x i64]")
    process = f.call("i32", "@getpid", [])
    size = ("i64", str(_CPU_SET))
    got = f.call("i32", "@sched_getaffinity", [("i32", process), size, ("ptr", cpus)])
    cpu = f.cast("zext", "%cpu", "i32", "i64")
    with f.if_(f.or_(f.icmp("ne", got, "0", "i32"), f.icmp("uge", cpu, str(_CPU_SET * 8)), "i1")):
        f.ret()
    word = f.at(cpus, f.binary("lshr", cpu, "6"), "i64")
    others = f.binary("xor", f.binary("shl", "1", f.and_(cpu, "63")), "-1")
    f.store("i64", f.and_(f.load("i64", word), others), word)
    f.call("i32", "@sched_setaffinity", [("i32", "%thread"), size, ("ptr", cpus)])  # refuses a set of none
    f.ret()


def _disperse(m: Module) -> None:
    """Send workers away that were seen on a CPU. For who has claimed the pool."""
    f = m.function("pool.disperse", "void", [("i32", "cpu")], exported=False)
    with f.count(f.load_atomic("i64", "@pool.workers", "monotonic")) as before:
        worker = f.add(before, "1")
        seen, thread = _entry(f, _SEEN, worker), f.load_atomic("i32", _entry(f, _THREADS, worker))
        here = f.icmp("eq", f.load_atomic("i32", seen, "monotonic"), "%cpu", "i32")
        with f.if_(f.and_(here, f.icmp("ne", thread, "0", "i32"), "i1")):
            f.call("void", "@pool.place", [("i32", thread), ("i32", "%cpu")])
            f.store_atomic("i32", _NOWHERE, seen, "monotonic")
    f.ret()
