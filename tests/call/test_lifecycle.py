"""Ends in the middle of calls: interpreter shutdown, fork, threads that die. Each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

_HEAD = """
import os, sys, threading, time
import numpy as np
import dyn, dyn.numpy as dnp

f = dyn.jit(lambda x: dnp.exp(dnp.sin(x) + x) @ x)
large = np.full((700, 700), 0.001, "f4")
small = np.ones((2, 2), "f4")
expected = float(f(large)[0, 0])
f(small)
assert f._table.hits == 1
f(large)
"""


def run(body: str, *, timeout: int = 120) -> subprocess.CompletedProcess[str]:
    code = _HEAD + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, check=False)


def finished(result: subprocess.CompletedProcess[str], output: str) -> None:
    assert (result.returncode, result.stdout, result.stderr) == (0, output, "")


@pytest.mark.parametrize("size", ["large", "small"])
def test_shutdown_while_daemon_threads_call(size: str) -> None:
    result = run(f"""
        def work():
            while True:
                f({size})
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        print("bye")
        """)
    finished(result, "bye\n")


@pytest.mark.parametrize(
    "call", ["f(small.astype('>f4'))", "dnp.sum(small)", "g(small)"], ids=["swapped", "eager", "library"]
)
def test_shutdown_while_daemon_threads_call_through_python(call: str) -> None:
    """C++ that walks trees of arguments must not be what a dying interpreter unwinds: it would abort."""
    result = run(f"""
        g = dyn.jit(lambda x: dnp.sort(x, axis=0) + 1)
        def work():
            while True:
                {call}
        {call}
        for _ in range(8):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2)
        print("bye")
        """)
    finished(result, "bye\n")


def test_what_runs_at_exit_may_call_and_wait_for_a_thread_that_calls() -> None:
    result = run("""
        import atexit, dyn.shutdown
        dyn.shutdown._CALLS_WAIT = 0.2
        swapped = small.astype('>f4')
        def work():
            while not stop.is_set():
                time.sleep(0.01)
            done.append(f(swapped).tolist() == f(small).tolist())
        def last():
            stop.set()
            thread.join()
            print(done, f(swapped).tolist() == f(small).tolist())
        atexit.unregister(dyn.shutdown._end)
        atexit.register(last)
        atexit.register(dyn.shutdown._end)  # which then runs first, as if dyn had been imported last
        stop, done, thread = threading.Event(), [], threading.Thread(target=work, daemon=True)
        thread.start()
        """)
    finished(result, "[True] True\n")


def test_interrupts_in_the_middle_of_calls() -> None:
    """A call is whole or raises KeyboardInterrupt, also where a library is called in the middle of it."""
    result = run("""
        import signal
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        sys.unraisablehook = lambda args: None  # ctypes tells it what it drops
        large = np.random.default_rng(0).random((600, 600), "f4")
        for g in (dyn.jit(lambda x: dnp.exp(dnp.sin(x))), dyn.jit(lambda x: dnp.sort(dnp.exp(dnp.sin(x)), axis=0))):
            swapped = large.astype(">f4")
            expected = g(swapped)
            seen = set()
            for number in range(200):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 + 5e-5 * (number % 100))
                    found = g(swapped)
                    seen.add("whole" if np.array_equal(found, expected) else "wrong")
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except BaseException as error:
                    seen.add(type(error).__name__)
                    signal.setitimer(signal.ITIMER_REAL, 0)
            again = np.array_equal(g(swapped), expected)
            print("KeyboardInterrupt" in seen, seen - {"whole", "KeyboardInterrupt"}, again)
        """)
    finished(result, "True set() True\n" * 2)


def test_shutdown_waits_for_threads_that_are_no_daemons() -> None:
    result = run("""
        def work():
            time.sleep(0.2)
            print(abs(float(f(large)[0, 0]) - expected) < 1e-6)
        threading.Thread(target=work).start()
        """)
    finished(result, "True\n")


def test_results_that_live_until_the_very_end() -> None:
    result = run("""
        import atexit, gc
        class Late:
            def __init__(self, array): self.array = array
            def __del__(self): print("gone", self.array.nbytes)
        sys.modules["builtins"].late = Late(f(large))  # dropped after all modules
        keep = f(large)
        atexit.register(lambda: print(float(f(large)[0, 0]) == expected))
        """)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("True\n")


def test_an_exception_in_the_main_thread_while_others_call() -> None:
    result = run("""
        def work():
            while True:
                f(large)
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2)
        raise SystemExit(3)
        """)
    assert (result.returncode, result.stderr) == (3, "")


def test_fork_while_other_threads_call() -> None:
    """The child has the thread that forked alone; what the others held is lost, and nobody waits for it."""
    result = run("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork() with threads, which is what is tested
        stop = threading.Event()
        def work():
            while not stop.is_set():
                f(large)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        codes = []
        for number in range(6):
            time.sleep(0.03)
            child = os.fork()
            if child == 0:
                good = all(float(f(large)[0, 0]) == expected for _ in range(3))
                good = good and dyn.jit(lambda x: x * number)(small).sum() == 4 * number
                os._exit(0 if good else 7)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        for thread in threads:
            thread.join()
        print(codes, float(f(large)[0, 0]) == expected)
        """)
    finished(result, "[0, 0, 0, 0, 0, 0] True\n")


def test_a_thread_that_dies() -> None:
    result = run("""
        threading.excepthook = lambda args: print(args.exc_type.__name__)
        def work():
            f(large)
            f(np.ones((2, 3, 4), "f4")[:, :0])
            raise KeyError
        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        print(float(f(large)[0, 0]) == expected)
        """)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("True\n")
    assert len(result.stdout.splitlines()) == 4


def test_asynchronous_exceptions_arrive_between_calls() -> None:
    result = run("""
        import ctypes
        seen = []
        def work():
            try:
                while True:
                    f(large)
            except KeyboardInterrupt:
                seen.append(float(f(large)[0, 0]) == expected)
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.1)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt))
        thread.join(30)
        print(seen)
        """)
    finished(result, "[True]\n")


def test_many_calls_from_threads_that_come_and_go() -> None:
    """Resident memory stays where it is."""
    result = run("""
        import gc
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096
        medium = np.ones((64, 64), "f4")
        def work(count):
            for _ in range(count):
                f(medium)
        for _ in range(50):
            thread = threading.Thread(target=work, args=(200,)); thread.start(); thread.join()
        gc.collect()
        before = resident()
        work(100_000)
        for _ in range(200):
            thread = threading.Thread(target=work, args=(20,)); thread.start(); thread.join()
        gc.collect()
        grown = resident() - before
        print(grown < 4 << 20 or grown)
        """)
    finished(result, "True\n")
