"""Workers keep off the CPU of the thread that publishes jobs, also when the system moves that thread."""

from __future__ import annotations

import os

import pytest

from dyn.backends.runtime import usable_cpus
from tests.backends.test_threads import run


@pytest.mark.skipif(usable_cpus() < 2, reason="there is one CPU")
def test_workers_leave_the_cpu_that_a_publisher_comes_to() -> None:
    """The worker may run on one CPU alone, and the publisher comes to that one: it finds the worker gone."""
    one, other = sorted(os.sched_getaffinity(0))[:2]
    script = f"""
    import ctypes
    from dyn.backends.runtime_tables import _RUNTIME
    from tests.threads import system_threads

    os.sched_setaffinity(0, {{{one}, {other}}})
    task = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
    call = native_runtime().function("dyn_parallel_for", ctypes.c_int32, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)

    def workers():
        return [os.sched_getaffinity(worker) for worker in system_threads("dyn worker")]

    seen = []

    @task
    def look(*_):
        if threading.get_native_id() == publisher:
            seen.append(workers())

    def publish(cpu):
        os.sched_setaffinity(publisher, {{cpu}})
        call(_RUNTIME.address(2), ctypes.cast(look, ctypes.c_void_p), None, 4, 1)

    def work():
        global publisher
        publisher = threading.get_native_id()
        for _ in range(2):
            for cpu in ({one}, {other}):
                publish(cpu)
                time.sleep(0.2)  # the worker sleeps
                seen.clear()
                publish({one} + {other} - cpu)
                assert seen and all(masks == [{{cpu}}] for masks in seen), (cpu, seen)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    print(native_runtime().workers())
    """
    assert run(script, DYN_NUM_THREADS="2") == "1\n"
