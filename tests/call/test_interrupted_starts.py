"""First calls that are interrupted anywhere: by Ctrl-C, by signals whose handlers call dyn, and by forks.

Each scenario is a process that has imported dyn and called nothing. It forks for each point of the first call at which
something comes, so that each is a first call. The points are counted, not timed: they are imports, which audit
hooks see.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.rarely import rarely

HEAD = """
import faulthandler, os, signal, sys, threading
import numpy as np, numpy.testing, dyn, dyn.numpy as dnp

POINTS = {points}
x = np.arange(12, dtype="f4").reshape(3, 4)

def softmax(x):
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
    return e / dnp.sum(e, axis=-1, keepdims=True)

right = np.exp(x - x.max(-1, keepdims=True))
right /= right.sum(-1, keepdims=True)

def check(made):
    np.testing.assert_allclose(made, right, 1e-5)

counted = [0]
events = [None, None]  # the number of an import, and what happens there

def hook(event, args):
    if event == "import" and events[1] is not None and threading.current_thread() is threading.main_thread():
        counted[0] += 1
        if counted[0] == events[0]:
            events[1]()

sys.addaudithook(hook)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it
faulthandler.register(signal.SIGALRM, chain=True)

def in_child(work, *args):
    "What work() did in a fork: 0 where all was right; what hangs is said to have."
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(600)  # what hangs says where, and ends
            work(*args)
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def count():
    "The number of imports of a first call."
    read, write = os.pipe()
    def work():
        events[:] = [-1, lambda: None]
        check(dyn.jit(softmax)(x))
        os.write(write, str(counted[0]).encode())
    assert in_child(work) == 0
    return int(os.read(read, 100))

def at_points(work):
    count()  # fills the cache, where there is one
    total = count()
    assert total > 20, total
    points = sorted({{1 + (total - 1) * n // (POINTS - 1) for n in range(POINTS)}})
    failed = [point for point in points if in_child(work, point) != 0]
    print("points", points, "failed", failed)
"""

CTRL_C = """
def work(point):
    f = dyn.jit(softmax)
    came = False
    try:
        events[:] = [point, lambda: signal.raise_signal(signal.SIGINT)]
        f(x)
    except KeyboardInterrupt:
        events[1] = None
        came = True
        check(f(x))  # while the error, and with it what was interrupted, lives
    check(f(x))
    check(dyn.jit(softmax)(x))
    # A thread that loads the native runtime meanwhile may import what the main thread then need not.
    assert came or counted[0] < point

at_points(work)
"""

LOCKS = """
# The same where Python's imports have just taken a lock: left there, other threads would wait for it for ever.

def work(point):
    f = dyn.jit(softmax)
    taken = [0]

    def trace(frame, event, arg):
        if event == "call":
            code = frame.f_code
            return trace if code.co_name == "acquire" and "importlib._bootstrap" in code.co_filename else None
        if event == "return":
            taken[0] += 1
            if taken[0] == point:
                signal.raise_signal(signal.SIGINT)
        return trace

    try:
        sys.settrace(trace)
        f(x)
    except KeyboardInterrupt:
        sys.settrace(None)
        check(f(x))
    sys.settrace(None)
    check(dyn.jit(lambda y: softmax(y) + 1)(x) - 1)

at_points(work)
"""

HANDLER = """
def work(point):
    f, g, made = dyn.jit(softmax), dyn.jit(softmax), []
    signal.signal(signal.SIGUSR1, lambda *_: made.append(g(x)))
    events[:] = [point, lambda: signal.raise_signal(signal.SIGUSR1)]
    check(f(x))
    assert len(made) == 1 or counted[0] < point
    for one in made:
        check(one)

at_points(work)
"""

FORK = """
def grandchild():
    check(dyn.jit(softmax)(x))
    check(dyn.jit(lambda y: softmax(y) + 1)(x) - 1)

def work(point):
    started, errors = threading.Event(), []
    statuses = []

    def other():
        try:
            check(dyn.jit(softmax)(x))
        except BaseException as error:
            errors.append(error)

    def hook_fork(event, args):
        # In the thread that makes the first call, at one of its imports: the other thread forks now.
        if event == "import" and threading.current_thread() is thread:
            counted[0] += 1
            if counted[0] == point:
                started.set()

    thread = threading.Thread(target=other)
    sys.addaudithook(hook_fork)
    thread.start()
    started.wait(60)
    assert in_child(grandchild) == 0
    thread.join()
    assert not errors, errors

at_points(work)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not there")
@pytest.mark.parametrize(
    ("scenario", "cache"),
    [(CTRL_C, "cold"), (CTRL_C, "warm"), (LOCKS, "cold"), (HANDLER, "cold"), (FORK, "cold")],
    ids=["ctrl_c", "ctrl_c, cached", "locks", "handler", "fork"],
)
@pytest.mark.parametrize("points", [3, rarely(5)])  # of the call, at each of which something comes
def test_first_calls(points: int, scenario: str, cache: str, tmp_path: object) -> None:
    source = textwrap.dedent(HEAD).format(points=points) + textwrap.dedent(scenario)
    env = {**os.environ, "DYN_CACHE_DIR": "0" if cache == "cold" else str(tmp_path), "DYN_OPTIMIZE": "0"}
    made = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False, env=env, timeout=1500
    )
    assert made.returncode == 0, made.stderr[-3000:]
    assert made.stdout.strip().endswith("failed []"), made.stdout + made.stderr[-3000:]
