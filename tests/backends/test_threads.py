"""Whole calls on several threads: processes that fork, end, run out of memory or have one CPU; sizes that change."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.backends.runtime import native_runtime
from dyn.errors import ArgumentError
from dyn.runtime.launch import THRESHOLDS

_ROOT = Path(__file__).parents[2]
_PRELUDE = """
import os, sys, threading, time
import numpy as np
import dyn, dyn.numpy as dnp
from dyn.backends.runtime import native_runtime

@dyn.jit
def f(x, w):
    return dyn.nn.softmax(dyn.nn.gelu(x @ w))

rng = np.random.default_rng(0)
x, w = rng.standard_normal((700, 96)).astype("f4"), rng.standard_normal((96, 333)).astype("f4")
expected = f(x, w)
agrees = lambda: f(x, w).tobytes() == expected.tobytes()
"""


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": "/usr/bin:/bin", "DYN_CACHE_DIR": os.environ.get("DYN_CACHE_DIR", "0"), **environment},
    )  # fmt: skip


def run(script: str, **environment: str) -> str:
    """What a script prints in a process of its own, which must end well."""
    result = _python(textwrap.dedent(_PRELUDE) + textwrap.dedent(script), **environment)
    assert result.returncode == 0, f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert not result.stderr
    return result.stdout


@pytest.fixture
def every_launch_is_split() -> Iterator[None]:
    native_runtime().split_from(awake=0, asleep=0, piece=1)
    yield
    native_runtime().split_from(*THRESHOLDS.values())


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


# --- many threads -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("every_launch_is_split")
def test_sixteen_threads_agree_with_one() -> None:
    script = """
    native_runtime().split_from(0, 0, 1)
    sizes = [0, 1, 2, 7, 64, 300]
    alone = {n: f(x[:n], w) for n in sizes}
    good = [0] * 16
    def work(number):
        with dyn.config.override(num_threads=1 + number % 5):
            for call in range(100):
                n = sizes[(number + call) % len(sizes)]
                good[number] += f(x[:n], w).tobytes() == alone[n].tobytes()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for t in threads: t.start()
    for t in threads: t.join()
    print(good == [100] * 16)
    """
    assert run(script) == "True\n"


def test_more_threads_than_cpus_do_not_collapse() -> None:
    """Eight threads on two CPUs take the processor's time that one takes, and not several times as much to wait."""

    @dyn.jit
    def f(x):
        return dyn.nn.softmax(x, axis=-1)

    x = floats(2000, 500)
    f(x)
    best = {1: float("inf"), 8: float("inf")}
    for _ in range(100):
        for threads in (1, 8):
            with dyn.config.override(num_threads=threads):
                start = time.process_time()
                f(x)
                best[threads] = min(best[threads], time.process_time() - start)
    assert best[8] < 4 * best[1], best


def test_a_cost_that_passes_the_integers_is_no_error() -> None:
    """A row of 2^60 elements costs more than 2^63; there is no row. Nor does what does not run need its scratch."""
    f = dyn.jit(lambda x: dyn.nn.softmax(x * 2, axis=-1))
    f(floats(3, 5))
    assert f(np.zeros((0, 1 << 60), "f4")).shape == (0, 1 << 60)


# --- processes --------------------------------------------------------------------------------------------------------


def test_one_thread_is_one_thread() -> None:
    script = "print(agrees(), native_runtime().workers())"
    assert run(script, DYN_NUM_THREADS="1") == "True 0\n"
    assert run("native_runtime().split_from(0, 0, 1); " + script, DYN_NUM_THREADS="3") == "True 2\n"


def test_one_cpu_is_one_thread() -> None:
    first = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    last = "native_runtime().split_from(0, 0, 1); print(agrees(), native_runtime().workers())"
    assert _python(first + _PRELUDE + last).stdout == "True 0\n"


@pytest.mark.parametrize("value", ["many", "-1", "1.5"])
def test_a_number_of_threads_that_is_none(value: str) -> None:
    error = _python("import dyn", DYN_NUM_THREADS=value).stderr.strip().splitlines()[-2:]
    assert error == [
        f"dyn.errors.ArgumentError: DYN_NUM_THREADS is {value!r}.",
        "  help: set it to a whole number, or not at all.",
    ]


def test_a_negative_number_of_threads() -> None:
    with pytest.raises(ArgumentError) as caught:
        dyn.config.Config(num_threads=-1)
    assert str(caught.value) == (
        "num_threads is -1, which is no number of threads.\n  help: give 1 or more, or 0 for one for each CPU."
    )


def test_fork_while_others_call() -> None:
    """The child has none of the pool's workers, and the pool may be taken by a thread that it does not have either."""
    script = """
    native_runtime().split_from(0, 0, 1)
    stop, bad = threading.Event(), []
    def work():
        with dyn.config.override(num_threads=3):
            while not stop.is_set():
                if not agrees(): bad.append("parent")
    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads: t.start()
    for _ in range(25):
        time.sleep(0.004)
        child = os.fork()
        if child == 0:
            with dyn.config.override(num_threads=3):
                good = native_runtime().workers() == 0 and all([agrees() for _ in range(5)])
                good &= native_runtime().workers() == 2
            os._exit(0 if good else 1)
        deadline = time.monotonic() + 60
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid: break
            if time.monotonic() > deadline:
                os.kill(child, 9); bad.append("a child hangs"); os.waitpid(child, 0); status = 0
                break
            time.sleep(0.001)
        if status: bad.append(f"child: {status}")
    stop.set()
    for t in threads: t.join()
    print(bad, agrees())
    """
    assert run(script) == "[] True\n"


def test_multiprocessing_by_fork() -> None:
    script = """
    import multiprocessing
    native_runtime().split_from(0, 0, 1)
    agrees()
    def work(number):
        return agrees()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(all(pool.map(work, range(30))), agrees())
    """
    assert run(script, DYN_NUM_THREADS="2") == "True True\n"


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "os._exit(0)"])
def test_the_process_ends_while_daemons_call(end: str) -> None:
    """The program alone: optree, which walks the arguments of ``f``, is C++ that a dying interpreter may abort."""
    script = f"""
    native_runtime().split_from(0, 0, 1)
    (program,) = [v.loaded for v in f.programs]
    def work():
        with dyn.config.override(num_threads=3):
            while True: program([x, w])
    for _ in range(4): threading.Thread(target=work, daemon=True).start()
    time.sleep(0.3)
    print("done", flush=True)
    {end}
    """
    assert run(script) == "done\n"


def test_a_thread_that_ends_leaves_the_pool_to_the_others() -> None:
    script = """
    native_runtime().split_from(0, 0, 1)
    good = []
    def work():
        with dyn.config.override(num_threads=4):
            good.append(agrees())
        raise SystemExit
    for _ in range(40):
        t = threading.Thread(target=work); t.start(); t.join()
    print(good == [True] * 40, agrees(), native_runtime().workers())
    """
    assert run(script, DYN_NUM_THREADS="4") == "True True 3\n"


# --- memory -----------------------------------------------------------------------------------------------------------

_LIMITED = """
import resource
def limited(call, extra):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + extra, resource.RLIM_INFINITY))
    try:
        call()
        print("no error")
    except MemoryError as error:
        print(f"MemoryError: {error}")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
MIB = 1 << 20
"""

_SHORT = {
    "output": (
        "g = dyn.jit(lambda a: a + 1); a = np.zeros(32 * MIB, 'f4')",
        "MemoryError: Unable to allocate 128. MiB for an array with shape (33554432,) and data type float32",
    ),
    "arena": (
        "g = dyn.jit(lambda a: dnp.tanh(a[:, None] @ a[None, :]) @ a); a = np.zeros(8192, 'f4')",
        "MemoryError: lambda: no memory for 268500992 bytes of intermediate arrays (arguments: a (8192,))",
    ),
    "scratch": (
        "def g(a):\n    e = dnp.exp(a.astype('f4'))\n"
        "    return dnp.sum(dnp.abs(e - dnp.mean(e, -1, keepdims=True)), -1)\n"
        "j = dyn.jit(g); g = lambda a: j(a.reshape(8, -1)); a = np.zeros(8 * 32 * MIB, 'i1')",
        "MemoryError: g: no memory for the scratch of its kernels (arguments: a (8, 33554432))",
    ),
}


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("what", _SHORT)
def test_no_memory_is_an_error_and_the_process_goes_on(what: str, threads: str) -> None:
    """With 64 MiB left, whatever needs more fails; afterwards the same call succeeds."""
    setup, message = _SHORT[what]
    script = f"""
{_LIMITED}
{setup}
small = g(a[:64])
limited(lambda: g(a), 64 * MIB)
limited(lambda: g(a[:64]), 64 * MIB)
print(g(a[:64]).tobytes() == small.tobytes(), agrees(), np.shape(g(a)) is not None)
"""
    assert run(script, DYN_NUM_THREADS=threads) == f"{message}\nno error\nTrue True True\n"


def test_no_memory_for_workers_is_no_error() -> None:
    """Where the system has no room for a worker's stack, the caller does the work."""
    script = f"""
{_LIMITED}
from dyn.backends.runtime_tables import _RUNTIME
big = np.zeros((700, 96), 'f4')
with dyn.config.override(num_threads=64):
    _RUNTIME.address(64)
    native_runtime().split_from(0, 0, 1)
    limited(lambda: f(big, w), 6 * MIB)
    print(native_runtime().workers() < 63, agrees())
"""
    assert run(script, DYN_NUM_THREADS="1") == "no error\nTrue True\n"


def test_memory_is_steady_over_sizes_that_change() -> None:
    """Arenas from 1 to 64 MiB, each size once: what is kept follows the sizes of the day."""
    script = """
    g = dyn.jit(lambda a: dnp.sum(dnp.tanh(a[:, None] @ a[None, :]), axis=0))
    def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
    sizes = np.random.default_rng(0).permutation(np.linspace(512, 4096, 120).astype(int))
    g(np.zeros(4096, "f4"))
    peaks = []
    for round in range(3):
        peak = 0
        for n in sizes + round:  # a new size each time
            g(np.ones(n, "f4"))
            peak = max(peak, resident())
        peaks.append(peak)
    busy = native_runtime().idle_bytes() >> 20
    for _ in range(100): g(np.ones(600, "f4"))
    idle = native_runtime().idle_bytes() >> 20
    print(peaks[2] <= peaks[0] + 32, busy <= 3 * 64, idle <= 16, peaks, busy, idle)
    """
    assert run(script).startswith("True True True")
