"""``dyn.profile()``: what is recorded of calls, launches and compilations, by counts and structure."""

from __future__ import annotations

import ctypes
import gzip
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.backends import recording
from dyn.backends.runtime import native_runtime
from dyn.errors import DynError, ShapeError
from dyn.profiling.averages import HOST
from dyn.profiling.events import LaunchEvent
from dyn.profiling.session import Profile
from dyn.runtime.launch import THRESHOLDS
from dyn.runtime.recorder import Chunk, Thread
from tests.threads import in_threads


@pytest.fixture
def every_launch_is_split() -> Iterator[None]:
    native_runtime().split_from(awake=0, asleep=0, piece=1)
    with config.override(num_threads=4):
        yield
    native_runtime().split_from(*THRESHOLDS.values())


def head(x: Any) -> Any:
    """Unlike the programs of other tests, which would find this one's code compiled."""
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
    return e / (dnp.sum(e, axis=-1, keepdims=True) + 17)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


# ---- launches and calls ----------------------------------------------------------------------------------------------


def test_a_launch_is_told_with_its_kernel_sizes_and_bytes() -> None:
    f = dyn.jit(head)
    x, y = floats(6, 10), floats(3, 700)
    f(x)
    with dyn.profile() as prof:
        f(x)
        f(y)
    events = prof.events()
    assert [(call.function, call.dims, call.failed) for call in events.calls] == [
        ("head", {"x_0": 6, "x_1": 10}, False),
        ("head", {"x_0": 3, "x_1": 700}, False),
    ]
    assert [launch.call for launch in events.launches] == [call.number for call in events.calls]
    first, second = events.launches
    explained = str(f.explain())
    for launch, array in ((first, x), (second, y)):
        assert launch.function == "head"
        assert launch.kernel.group == "stitch"
        assert launch.kernel.title in explained
        assert f"variant {launch.kernel.variant}" in explained
        assert launch.kernel.lines[0].startswith("test_profile.py:")
        assert launch.space == array.shape
        assert launch.nbytes == 2 * array.nbytes
        assert launch.thread == threading.get_native_id()
    for launch in events.launches:
        covers(launch)


def covers(launch: LaunchEvent) -> None:
    """The pieces of a launch cut its grid, and lie within its time."""
    assert launch.grid is not None
    pieces = sorted(launch.pieces, key=lambda piece: piece.begin)
    assert [piece.begin for piece in pieces] == [0, *[piece.end for piece in pieces[:-1]]]
    assert pieces[-1].end == launch.grid
    assert all(launch.start_ns <= piece.start_ns <= piece.end_ns <= launch.end_ns for piece in pieces)
    assert 0 <= launch.wait_ns <= launch.duration_ns


def test_what_was_compiled_before_is_seen_and_nothing_is_compiled_for_a_profile() -> None:
    f = dyn.jit(head)
    x = floats(4, 5)
    expected = f(x)
    compiled = f.cache_info().compiles
    with dyn.profile() as prof:
        assert f(x).tobytes() == expected.tobytes()
    assert f(x).tobytes() == expected.tobytes()
    assert f.cache_info().compiles == compiled
    assert len(prof.events().calls) == 1
    assert prof.events().compiles == ()


def test_calls_by_python_are_seen_as_those_by_the_native_entry() -> None:
    f = dyn.jit(head)
    version = f.trace(floats(2, 3)).lower().compile()
    with dyn.profile() as prof:
        version(floats(2, 3))
        version(floats(4, 3))
    assert [launch.space for launch in prof.events().launches] == [(2, 3), (4, 3)]


@pytest.mark.usefixtures("every_launch_is_split")
def test_threads_share_a_launch() -> None:
    f = dyn.jit(lambda x: dnp.tanh(x) * 2)
    x = floats(512, 1024)
    f(x)
    with dyn.profile() as prof:
        for _ in range(200):
            f(x)
    launches = prof.events().launches
    assert len(launches) == 200
    for launch in launches:
        covers(launch)
        assert len(launch.pieces) > 1
        assert 1 <= launch.threads <= 4
    names = prof.events().threads
    workers = {piece.thread for launch in launches for piece in launch.pieces} - {threading.get_native_id()}
    assert {names[worker] for worker in workers} <= {"dyn worker"}


@pytest.mark.usefixtures("every_launch_is_split")
def test_many_threads_call_at_once() -> None:
    f, g = dyn.jit(head), dyn.jit(lambda x: head(x) @ x.T)
    x, y = floats(40, 64), floats(7, 31)
    f(x)
    g(y)

    def work(number: int) -> int:
        for _ in range(50):
            f(x)
            g(y)
        return threading.get_native_id()

    with dyn.profile() as prof:
        callers = in_threads(work, range(8))
    events = prof.events()
    assert events.dropped == 0
    assert len(events.calls) == 8 * 50 * 2
    assert {call.thread for call in events.calls} == set(callers)
    calls = {call.number: call for call in events.calls}
    assert len(calls) == len(events.calls)
    for launch in events.launches:
        covers(launch)
        call = calls[launch.call]
        assert (call.function, call.thread) == (launch.function, launch.thread)
        assert call.start_ns <= launch.start_ns <= launch.end_ns <= call.end_ns
    for call in events.calls:
        assert 0 <= call.host_ns <= call.duration_ns


def test_calls_inside_of_calls() -> None:
    inner = dyn.jit(head)
    inner(floats(3, 4))

    def ask(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(inner(x))

    outer = dyn.jit(lambda x: dyn.pure_callback(ask, dyn.ShapeDtypeStruct(x.shape, "float32"), x + 1) * 2)
    x = floats(3, 4)
    outer(x)
    with dyn.profile() as prof:
        outer(x)
    events = prof.events()
    around, within = events.calls
    assert (around.function, within.function) == ("lambda", "head")
    assert around.start_ns < within.start_ns <= within.end_ns < around.end_ns
    assert [launch.kernel.variant for launch in events.launches if launch.call == around.number] == [
        "loop add", "a function outside", "loop multiply",
    ]  # fmt: skip
    assert [launch.kernel.group for launch in events.launches if launch.call == within.number] == ["stitch"]
    outside = events.launches[1]
    assert (outside.grid, outside.pieces) == (None, ())


def test_library_calls() -> None:
    with dyn.profile() as prof:
        dyn.jit(lambda x: dnp.linalg.cholesky(x) + 1)(np.eye(5, dtype="f4"))
        dyn.jit(lambda x: dnp.sort(x) + 1)(floats(6))
    notes = [launch.kernel.variant for launch in prof.events().launches if launch.kernel.group == "library"]
    assert notes == ["a library call"] * len(notes)
    assert notes


def test_loops_and_branches_launch_what_they_run() -> None:
    f = dyn.jit(lambda x: dyn.lax.fori_loop(0, 7, lambda i, c: c * 2 + x, x))
    f(floats(3))
    with dyn.profile() as prof:
        f(floats(5))
    launches = prof.events().launches
    assert len([launch for launch in launches if launch.space == (5,) and launch.kernel.group == "loop"]) >= 7


def test_sizes_that_a_program_measures() -> None:
    f = dyn.jit(lambda x: dnp.nonzero(x)[0] + 1)
    f(np.array([1, 0, 3, 0, 5]))
    with dyn.profile() as prof:
        f(np.array([1, 0, 3, 0, 5]))
    assert (3,) in [launch.space for launch in prof.events().launches]


def test_a_call_that_fails_is_told() -> None:
    f = dyn.jit(lambda x, y: x + y, shapes="n, n")
    f(floats(3), floats(3))
    with dyn.profile() as prof:
        with pytest.raises(ShapeError):
            f(floats(3), floats(4))
    assert {call.failed for call in prof.events().calls} == {True}
    assert prof.events().launches == ()
    assert "failed" in str(prof)


def test_programs_that_have_ended_are_known() -> None:
    with dyn.profile() as prof:
        for number in range(5):
            dyn.grad(lambda x, k=number: (x * x * k).sum())(floats(4))
    launches = [launch for launch in prof.events().launches if launch.function == "lambda"]
    assert len(launches) >= 5


def test_programs_found_whole_on_disk_are_described(tmp_path: Path) -> None:
    code = (
        "import numpy as np, dyn, dyn.numpy as dnp\n"
        "f = dyn.jit(lambda x: dnp.exp(x) + 1)\n"
        "with dyn.profile() as prof: f(np.ones((3, 4), 'f4'))\n"
        "print([(l.kernel.title, l.space) for l in prof.events().launches], f.explain().versions[0].origins)\n"
    )
    environment = {"PATH": "/usr/bin:/bin", "DYN_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).parents[2]

    def run() -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout

    first, second = run(), run()
    assert first == "[('loop exponential_add [x_0, x_1]', (3, 4))] 1 compiled\n"
    assert second == first.replace("compiled", "from disk")


# ---- what is counted as bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arrays", "nbytes"),
    [
        (lambda x, y: x + y, [floats(7, 9), floats(9)], 4 * (63 + 63 + 9)),
        (lambda x: dnp.sum(x, axis=0), [floats(64, 9)], 4 * (64 * 9 + 9)),
        (lambda x: x[:, :3] * 2, [floats(5, 100)], 4 * (15 + 15)),
        (lambda x, i: x[i] + 1, [floats(1000, 4), np.arange(3)], 4 * 24 + 3 * 8),
        (lambda x, y: x @ y, [floats(9, 17), floats(17, 33)], 4 * (9 * 17 + 17 * 33 + 9 * 33)),
        (lambda x, y: dnp.concatenate([x, y]), [floats(8, 8), floats(3, 8)], 2 * 4 * (64 + 24)),
    ],
    ids=["broadcast", "reduce", "slice", "gather", "contract", "concatenate"],
)
def test_bytes_are_those_that_are_read_and_written(function: Any, arrays: list[Any], nbytes: int) -> None:
    f = dyn.jit(function)
    with dyn.profile() as prof:
        f(*arrays)
    total = sum(launch.nbytes or 0 for launch in prof.events().launches)
    assert nbytes <= total <= nbytes + 8 * 24  # small index arrays of a gather's own


# ---- other front ends ------------------------------------------------------------------------------------------------


def test_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from dyn.interop.torch import jit

    f = jit(lambda x: torch.softmax(x, -1) * 2)
    with torch.no_grad():
        f(torch.ones(3, 4))
        with dyn.profile() as prof:
            f(torch.ones(3, 4))
            f(torch.ones(5, 6))
    assert [call.failed for call in prof.events().calls] == [False, False]
    assert (5, 6) in [launch.space for launch in prof.events().launches]


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    from dyn.interop.jax import jit

    f = jit(lambda x: jax.nn.softmax(x) * 2)
    f(jax.numpy.ones((3, 4)))
    f(jax.numpy.ones((5, 6)))
    with dyn.profile() as prof:
        f(jax.numpy.ones((7, 8)))
    assert (7, 8) in [launch.space for launch in prof.events().launches]


def test_a_program_that_xla_calls() -> None:
    jax = pytest.importorskip("jax")
    from dyn.interop.jax import call

    f = call(dyn.jit(head))
    g = jax.jit(lambda x: f(x) + 1)
    x = jax.numpy.ones((3, 4))
    g(x)
    with dyn.profile() as prof:
        jax.block_until_ready(g(x))
    assert [launch.space for launch in prof.events().launches] == [(3, 4)]


# ---- compilations ----------------------------------------------------------------------------------------------------


def test_stages_of_compilations() -> None:
    def fresh(x: Any) -> Any:
        return dnp.exp(x) * 1234.5 + dnp.sin(x)

    f = dyn.jit(fresh)
    with dyn.profile() as prof:
        f(floats(3, 3))
    stages = [stage for stage in prof.events().compiles if stage.function == "fresh"]
    assert {"trace", "find", "load"} <= {stage.stage for stage in stages}
    assert all(stage.start_ns <= stage.end_ns for stage in stages)
    assert re.search(r"^compiling fresh: [\d.]+ ms \(", str(prof), re.MULTILINE)


# ---- profiles themselves ---------------------------------------------------------------------------------------------


def test_profiles_overlap() -> None:
    f = dyn.jit(head)
    f(floats(2, 2))
    with dyn.profile() as outer:
        f(floats(3, 2))
        with dyn.profile() as inner:
            f(floats(4, 2))
        f(floats(5, 2))
    f(floats(6, 2))
    assert [launch.space for launch in outer.events().launches] == [(3, 2), (4, 2), (5, 2)]
    assert [launch.space for launch in inner.events().launches] == [(4, 2)]


def test_a_profile_of_nothing() -> None:
    with dyn.profile() as prof:
        pass
    assert len(prof.key_averages()) == 0
    assert str(prof) == "\n".join([*str(prof).splitlines()[:-1], "0 calls of 0.000 ms"])
    assert "0 calls" in prof._repr_html_()


def test_a_profile_is_used_once_and_looked_at_afterwards() -> None:
    prof = Profile()
    assert str(prof) == "<a profile that was not started>"
    with pytest.raises(DynError, match="the profile was not started"):
        prof.events()
    with prof:
        assert repr(prof) == "<a profile that is running>"
        with pytest.raises(DynError, match="the profile is still running"):
            prof.key_averages()
    prof.stop()
    with pytest.raises(DynError, match="started already"):
        prof.start()


def test_an_error_in_the_block_ends_the_profile() -> None:
    f = dyn.jit(head)
    prof = dyn.profile()
    with pytest.raises(ZeroDivisionError), prof:
        _ = f(floats(2, 2)) / (1 // 0)
    f(floats(2, 2))
    assert len(prof.events().calls) == 1


def test_records_beyond_the_limit_are_counted_and_dropped() -> None:
    f = dyn.jit(lambda x: x + 1)
    x = floats(3)
    f(x)
    with dyn.profile(memory_limit=1) as prof:  # one more chunk
        for _ in range(2000):
            f(x)
    events = prof.events()
    assert 0 < len(events.calls) < 2000
    assert len(events.calls) + len(events.launches) <= 2 * Chunk.WORDS // 6  # the thread's last chunk has room
    assert events.dropped > 0
    assert "had no room" in str(prof)
    with dyn.profile() as again:
        for _ in range(2000):
            f(x)
    assert len(again.events().calls) == 2000
    assert again.events().dropped == 0


def test_threads_that_end_give_their_records_back() -> None:
    f = dyn.jit(lambda x: x + 1)
    f(floats(3))

    def recorded() -> int:
        count, thread = 0, recording._native().function("dyn_recorder_threads", ctypes.c_void_p)()
        while thread:
            count, thread = count + 1, ctypes.c_int64.from_address(thread + Thread.NEXT).value
        return count

    def round_of_threads() -> None:
        with dyn.profile() as prof:
            in_threads(lambda _: f(floats(3)), range(6))
        assert len(prof.events().calls) == 6

    round_of_threads()
    known = recorded()
    for _ in range(5):
        round_of_threads()
    assert recorded() <= known + 6


def test_a_forked_child_profiles_too() -> None:
    code = (
        "import os, numpy as np, dyn\n"
        "f = dyn.jit(lambda x: x + 1)\n"
        "x = np.ones(3, 'f4'); f(x)\n"
        "with dyn.profile() as prof: f(x)\n"
        "if os.fork() == 0:\n"
        "    with dyn.profile() as child:\n"
        "        for _ in range(3): f(x)\n"
        "    os._exit(len(child.events().calls))\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]), len(prof.events().calls))\n"
    )
    root = Path(__file__).parents[2]
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout == "3 1\n"


# ---- tables and traces -----------------------------------------------------------------------------------------------


def profiled(*, shares: bool = True) -> Profile:
    f = dyn.jit(head)
    f(floats(2, 2))
    with dyn.profile(limits=shares) as prof:
        for rows in (3, 3, 4):
            f(floats(rows, 8))
    return prof


def test_averages() -> None:
    prof = profiled()
    kernel, host = sorted(prof.key_averages(), key=lambda row: row.kernel == HOST)
    assert (kernel.function, kernel.group, kernel.count, kernel.space) == ("head", "stitch", 3, None)
    assert kernel.nbytes == 2 * 4 * 8 * (3 + 3 + 4)
    assert (host.kernel, host.count, host.nbytes) == (HOST, 3, None)
    assert abs(kernel.share + host.share - 1) < 1e-9
    assert kernel.least_ns <= kernel.mean_ns <= kernel.most_ns
    by_shape = prof.key_averages(group_by_input_shape=True)
    assert {(row.space, row.count) for row in by_shape if row.kernel != HOST} == {((3, 8), 2), ((4, 8), 1)}


def test_the_table() -> None:
    prof = profiled()
    lines = str(prof).splitlines()
    assert " ".join(lines[0].split()) == (
        "function kernel variant count total ms share mean us least us most us threads wait us MB GB/s GFLOP/s of limit"
    )
    assert " of limit" not in str(profiled(shares=False))
    assert any(line.startswith("head      stitch reduce_") for line in lines)
    assert any(line.startswith("head      (host program)") for line in lines)
    assert re.fullmatch(r"3 calls of [\d.]+ ms", lines[-1])
    rows = prof.key_averages(group_by_input_shape=True)
    assert "sizes" in rows.table()
    assert rows.table(sort_by="cpu_time_total") == rows.table(sort_by="total")
    assert "… and 2 more" in rows.table(sort_by="count", row_limit=1)
    with pytest.raises(ValueError, match=r"a profile is sorted by one of total, .*, and not by 'size'"):
        rows.table(sort_by="size")


def test_html_is_whole_and_loads_nothing() -> None:
    html = profiled()._repr_html_()
    assert "stitch" in html
    assert "<script" not in html
    assert "http" not in html
    for tag in ("div", "table", "tr", "td", "style"):
        assert len(re.findall(f"<{tag}[ >]", html)) == html.count(f"</{tag}>")


def test_a_chrome_trace(tmp_path: Path) -> None:
    prof = profiled()
    prof.export_chrome_trace(tmp_path / "trace.json")
    prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    text = (tmp_path / "trace.json").read_text()
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()).decode() == text
    events = json.loads(text)["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert {event["ph"] for event in events} == {"M", "X"}
    assert [event["cat"] for event in complete].count("call") == 3
    assert [event["cat"] for event in complete].count("stitch") == 3
    calls = [event for event in complete if event["cat"] == "call"]
    launches = [event for event in complete if event["cat"] == "stitch"]
    for call, launch in zip(calls, launches, strict=True):
        assert call["ts"] <= launch["ts"]
        assert launch["ts"] + launch["dur"] <= call["ts"] + call["dur"]
        assert launch["args"]["sizes"] == [call["args"]["dims"]["x_0"], 8]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names[threading.get_native_id()] == threading.current_thread().name
