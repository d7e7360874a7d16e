"""First calls, which compile, at bad moments: the end of the process, Ctrl-C, forks, no memory."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.call.ends import finished, run
from tests.rarely import rarely

# ---- the end of the process ------------------------------------------------------------------------------------------


def test_a_function_compiled_first_by_a_handler_at_exit() -> None:
    result = run("""
        f, expected = make(3)
        atexit.register(lambda: print(agrees(f, expected)))
        """)
    finished(result, "True\n")


def test_a_function_compiled_first_by_a_finalizer_at_exit() -> None:
    result = run("""
        class Held: pass
        held = Held()
        f, expected = make(3)
        weakref.finalize(held, lambda: print(agrees(f, expected)))
        """)
    finished(result, "True\n")


@pytest.mark.parametrize("place", ["globals()", "vars(sys.modules['builtins'])"], ids=["module", "builtins"])
@pytest.mark.parametrize("ready", [False, True], ids=["nothing_loaded", "compiler_loaded"])
def test_nothing_is_compiled_when_the_modules_are_gone(place: str, ready: bool) -> None:
    result = run(f"""
        class Late:
            def __init__(self):
                self.f, _ = make(3)
                self.error, self.x = dyn.errors.BackendUnavailableError, x
            def __del__(self):
                try:
                    self.f(self.x)
                except self.error as error:
                    print(error, error.__cause__, error.__suppress_context__ or error.__context__ is None)
        if {ready}:
            g, expected = make(4)
            assert agrees(g, expected)
        {place}["late"] = Late()
        """)
    finished(
        result,
        "nothing more can be compiled: the interpreter is ending, and has given up its modules.\n"
        "  help: make the first call earlier; functions registered with atexit still can. None True\n",
    )


def test_what_was_compiled_can_be_called_to_the_very_end() -> None:
    result = run("""
        class Late:
            def __init__(self):
                self.f, self.x = make(3)[0], x
                self.expected = [a.tobytes() for a in self.f(x)]
            def __del__(self):
                print([a.tobytes() for a in self.f(self.x)] == self.expected)
        vars(sys.modules["builtins"])["late"] = Late()
        """)
    finished(result, "True\n")


def test_threads_compile_after_the_main_thread_has_ended() -> None:
    result = run("""
        good = []
        def work(number):
            threading.main_thread().join()
            time.sleep(0.1)
            for turn in range(2):
                good.append(agrees(*make(10 * number + turn)))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads: thread.start()
        def last():
            print(good)
        atexit.register(last)
        """)
    finished(result, f"{[True] * 6}\n")


@pytest.mark.parametrize("after", [0.05, 0.3, 1.0, 2.0])
def test_daemon_threads_compile_while_the_process_ends(after: float) -> None:
    result = run(f"""
        def work(number):
            for turn in range(10_000):
                assert agrees(*make(1000 * number + turn))
        for number in range(4):
            threading.Thread(target=work, args=(number,), daemon=True).start()
        time.sleep({after})
        print("bye")
        """)
    finished(result, "bye\n")


def test_llvmlite_that_is_imported_as_the_process_ends_knows_of_the_end() -> None:
    """Its objects took a lock in their finalizers, which a daemon thread that was frozen in LLVM had for ever."""
    result = run("""
        def last():
            assert agrees(*make(3))
            from llvmlite.binding import common
            print(common._is_shutting_down())
        sys.modules["dyn.shutdown"].at_end(last)
        """)
    finished(result, "True\n")


def test_a_thread_that_dies_in_the_middle_of_a_first_call() -> None:
    """Others that wait for what it compiles go on, and so does the process."""
    result = run("""
        threading.excepthook = lambda args: print(args.exc_type.__name__)
        first = [True]
        begun = threading.Event()
        @dyn.jit
        def f(x):
            if first:
                first.clear()
                begun.set()
                time.sleep(0.2)
                raise SystemError("of the function's own")
            return dnp.exp(x) + 1
        dying = threading.Thread(target=f, args=(x,))
        good = []
        waiting = [threading.Thread(target=lambda: good.append(np.allclose(f(x), np.exp(x) + 1))) for _ in range(3)]
        dying.start()
        begun.wait()
        for thread in waiting: thread.start()
        for thread in [dying, *waiting]: thread.join()
        print(good, f.cache_info().compiles)
        """)
    finished(result, "SystemError\n[True, True, True] 1\n")


def test_a_first_trace_that_fails_is_the_end_while_the_runtime_is_compiled() -> None:
    result = run("""
        f = dyn.jit(lambda x: x + undefined)
        try:
            f(np.ones(3))
        except NameError:
            print("bye")
        """)
    finished(result, "bye\n")


def test_a_fork_while_the_runtime_is_compiled() -> None:
    """In a first trace, whose function forks: parent and child both get what was begun."""
    result = run("""
        pids = []
        def forks(x):
            pids.append(os.fork())
            return x + 1
        sums = dyn.jit(forks)(np.ones(3)).sum()
        if pids == [0]:
            os._exit(0 if sums == 6 else 1)
        print(sums, os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]))
        """)
    finished(result, "6.0 0\n")


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------

_INTERRUPT = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has jobs in the background ignore it
dropped = []  # Python drops what a signal's handler raises inside a weak reference's callback, and says so here
sys.unraisablehook = lambda args: dropped.append(args.exc_type)
rng = random.Random(5)

def interrupted(call, delay):
    "Whether the call was, and whether that was soon after the signal."
    sent = []
    def send():
        time.sleep(delay)
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)
    sender = threading.Thread(target=send)
    try:
        sender.start()
        call()
        sender.join()
        time.sleep(60 if not dropped else 0)  # it comes now, if not before
    except KeyboardInterrupt:
        sender.join()
        assert time.process_time() - sent[0] < 20  # whatever others do to the clock
    dropped.clear()

def join(threads):
    for thread in threads: thread.join(200)
    assert not any(thread.is_alive() for thread in threads)

def left():
    deadline = time.monotonic() + 60
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    return [thread.name for thread in threading.enumerate()], [
        name for _, _, names in os.walk(os.environ["DYN_CACHE_DIR"]) for name in names if name.endswith(".tmp")
    ]
"""


def test_interrupts_in_the_middle_of_compiling(tmp_path: Path) -> None:
    """While other threads wait for the same program, or ask for it after; at thirty moments."""
    result = run(
        _INTERRUPT
        + """
start = time.monotonic()
assert agrees(*make(1000))
seconds = time.monotonic() - start
for trial in range(30):
    f, expected = make(trial)
    good = []
    threads = [threading.Thread(target=lambda: good.append(agrees(f, expected))) for _ in range(3)]
    if trial % 2: # they wait, or compile themselves
        for thread in threads: thread.start()
    interrupted(lambda: agrees(f, expected), rng.uniform(0, 0.5 * seconds))
    if not trial % 2:
        for thread in threads: thread.start()
    join(threads)
    assert good == [True] * 3, good
    assert agrees(f, expected)
    assert f.cache_info().compiles == 1
print(*left())
""",
        DYN_CACHE_DIR=str(tmp_path),
    )
    finished(result, "['MainThread'] []\n")


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4, 0.6, 0.8])
def test_an_interrupt_in_the_first_compilation_of_a_process(share: float, tmp_path: Path) -> None:
    """The compiler's modules, LLVM and the native runtime are being loaded then."""
    body = (
        _INTERRUPT
        + """
f, expected = make(1)
g, also = make(2)
start = time.monotonic()
if "SHARE" in os.environ:
    interrupted(lambda: agrees(f, expected), float(os.environ["SHARE"]))
    threads = [threading.Thread(target=agrees, args=(g, also))]
    for thread in threads: thread.start()
    join(threads)
good = agrees(f, expected)
seconds = time.monotonic() - start
print(good, agrees(g, also), *left(), seconds if "SHARE" not in os.environ else "")
"""
    )
    seconds = float(run(body, DYN_CACHE_DIR=str(tmp_path / "alone")).stdout.split()[-1])
    result = run(body, DYN_CACHE_DIR=str(tmp_path / "interrupted"), SHARE=str(share * seconds))
    finished(result, "True True ['MainThread'] [] \n")


# ---- forks -----------------------------------------------------------------------------------------------------------

_QUIET = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of fork() with threads, which is what is tested
"""


@pytest.mark.parametrize("warm", [False, rarely(True)], ids=["nothing_loaded", "warm"])
def test_forks_while_sixteen_threads_compile(warm: bool) -> None:
    """Each child calls what was compiled and compiles what was not; the parent goes on."""
    result = run(
        _QUIET
        + f"""
known, expected = make(-1)
if {warm}:
    agrees(known, expected)
stop, bad, codes = threading.Event(), [], []
def work(number):
    turn = 0
    while not stop.is_set():
        if not agrees(*make(1000 * number + turn)):
            bad.append(number)
        turn += 1
threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 17)]
for thread in threads: thread.start()
for trial in range(6):
    time.sleep(0.03 * (trial % 7))
    child = os.fork()
    if child == 0:
        signal.alarm(200)
        os._exit(0 if agrees(known, expected) and agrees(*make(-2 - trial)) else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
for thread in threads: thread.join()
print(codes, bad)
""",
        timeout=600,
    )
    finished(result, f"{[0] * 6} []\n")


def test_a_pool_of_forked_processes_compiles() -> None:
    result = run(
        _QUIET
        + """
import multiprocessing
known, expected = make(-1)
agrees(known, expected)
stop = threading.Event()
def work():
    turn = 0
    while not stop.is_set():
        agrees(*make(1000 + turn))
        turn += 1
def task(number):
    return agrees(known, expected) and agrees(*make(number))
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
with multiprocessing.get_context("fork").Pool(3) as pool:
    good = pool.map(task, range(9))
stop.set()
for thread in threads: thread.join()
print(good)
"""
    )
    finished(result, f"{[True] * 9}\n")


def test_a_function_that_forks_while_it_is_traced() -> None:
    """The thread that forks holds locks of ours itself: the child goes on with them."""
    result = run("""
        @dyn.jit
        def f(x):
            children.append(os.fork())
            return dnp.exp(x) * 2
        children = []
        good = np.allclose(f(x), np.exp(x) * 2) and agrees(*make(3))
        if children == [0]:
            os._exit(0 if good else 1)
        print(good, os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
        """)
    finished(result, "True 0\n")


# ---- no memory -------------------------------------------------------------------------------------------------------

_LIMITED = """
import resource
def limited(call, mib):
    "What becomes of a call while there is little address space more than is used now."
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + int(mib * 2**20), resource.RLIM_INFINITY))
    try:
        return call()
    except MemoryError as error:
        return str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_a_first_compilation_without_memory_is_an_error_and_the_process_goes_on() -> None:
    """From nothing to what LLVM's library takes, and all modules of the compiler in between."""
    result = run(
        _LIMITED
        + """
for mib in (0, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 100, 150, 180):
    f, expected = make(mib + 1)
    print(repr(limited(lambda: agrees(f, expected), mib)))
f, expected = make(7)
print(limited(lambda: agrees(f, expected), 400), agrees(*make(8)))
"""
    )
    assert (result.returncode, result.stderr) == (0, "")
    *errors, last = result.stdout.splitlines()
    assert last == "True True"
    assert set(errors[4:12]) == {"'no memory to load the compiler: it takes up to 32 MiB of address space'"}
    assert set(errors[-5:]) == {"'no memory to load LLVM: it takes up to 192 MiB of address space'"}
    assert all(isinstance(ast.literal_eval(line), str) for line in errors)


def test_a_compilation_without_memory_is_an_error_and_the_process_goes_on() -> None:
    result = run(
        _LIMITED
        + """
assert agrees(*make(0))
seen = []
for mib in (0, 0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 20, 100, 200):
    f, expected = make(mib + 1)
    found = limited(lambda: agrees(f, expected), mib)
    seen.append(found if found is True else found.partition(" k_")[0])
    assert agrees(f, expected)
print(seen[4:8], seen[-1])
"""
    )
    finished(result, f"{['no memory to compile'] * 4} True\n")
