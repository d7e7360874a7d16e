"""What the software GPU says of programs that misuse it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import pytest

from tests.gpu import build, kernels
from tests.gpu.calls import DriverError
from tests.gpu.machines import Machine, N

X = np.arange(N, dtype=np.float32)
INVALID_VALUE, OUT_OF_MEMORY, INVALID_IMAGE, INVALID_HANDLE, NOT_FOUND = 1, 2, 200, 400, 500
ILLEGAL_ADDRESS, TIMEOUT, LAUNCH_FAILED = 700, 702, 719


def answers(status: int, call: Callable[[], object]) -> None:
    with pytest.raises(DriverError) as caught:
        call()
    assert caught.value.status == status


def fails(machine: Machine, status: int, problem: str) -> None:
    """What is queued fails so, for that reason; and all calls from then on, until the device is reset."""
    answers(status, machine.synchronize)
    answers(status, lambda: machine.alloc(4))
    found = machine.gpu.problems()
    assert len(found) == 1
    assert problem in found[0]
    machine.reset()
    y = machine.given(X)
    machine.launch(machine.function(kernels.image(machine.warp), "plus_one"), y, N)
    np.testing.assert_array_equal(machine.floats(y), X + 1)


# ---- memory: what shows as a wrong result, as a fault or as a line of problems() ------------------------------------


def test_new_memory_is_poisoned(machine: Machine) -> None:
    assert np.isnan(machine.floats(machine.alloc(4 * N))).all()
    assert np.isnan(machine.floats(machine.alloc(4 * N, 0), 0)).all()
    assert (machine.pinned(16) == 0xFF).all()


def test_shared_memory_is_poisoned(machine: Machine) -> None:
    y = machine.alloc(4 * N)
    machine.launch(machine.kernel("first_of_shared"), y, shared=64)
    assert machine.floats(y).view(np.uint32)[0] == 0xCDCDCDCD


def test_use_after_free(machine: Machine) -> None:
    y = machine.given(X)
    machine.free(y)
    machine.launch(machine.kernel("plus_one"), y, N)
    answers(ILLEGAL_ADDRESS, machine.synchronize)
    given, fault = machine.gpu.problems()
    assert given == "kernel plus_one is given memory #1 of 400 bytes, which is freed"
    assert fault.startswith("kernel plus_one reads or writes at 0x")
    assert "of memory #1 of 400 bytes, which is freed)" in fault


def test_use_after_free_in_a_streams_order(machine: Machine) -> None:
    stream = machine.stream()
    y = machine.alloc(4 * N, stream)
    machine.copy_in(y, X, stream)
    machine.launch(machine.kernel("plus_one"), y, N, stream=stream)
    machine.free(y, stream)
    machine.synchronize(stream)
    assert machine.gpu.problems() == []
    answers(INVALID_VALUE, lambda: machine.floats(y, stream))
    (problem,) = machine.gpu.problems()
    assert problem.startswith("copy of 400 bytes from 0x")


def test_double_free(machine: Machine) -> None:
    y, z = machine.alloc(4), machine.alloc(4, 0)
    machine.free(y)
    answers(INVALID_VALUE, lambda: machine.free(y))
    machine.free(z, 0)
    answers(INVALID_VALUE, lambda: machine.free(z, 0))
    assert machine.gpu.problems() == [
        "memory #1 of 4 bytes is freed twice", "pool memory #2 of 4 bytes is freed twice"
    ]  # fmt: skip


def test_a_free_of_something_else(machine: Machine) -> None:
    y = machine.alloc(400)
    answers(INVALID_VALUE, lambda: machine.free(y + 4))
    answers(INVALID_VALUE, lambda: machine.free(X.ctypes.data))
    inside, host = machine.gpu.problems()
    assert "(byte 4 of memory #1 of 400 bytes), which no allocation begins with" in inside
    assert "(host memory), which no allocation begins with" in host


def test_leaks(machine: Machine) -> None:
    kept = machine.alloc(12)
    machine.free(machine.alloc(8))
    machine.free(machine.alloc(16, 0), 0)
    assert machine.gpu.leaks() == ["memory #1 of 12 bytes"]
    assert machine.gpu.counters().live_allocations == 1
    machine.free(kept)
    assert machine.gpu.leaks() == []
    assert machine.gpu.counters().bytes == 0


@pytest.mark.parametrize(("place", "text"), [(401, "1 bytes past the end of"), (511, "111 bytes past the end of")])
def test_red_zones(machine: Machine, place: int, text: str) -> None:
    """Between the end of an allocation and the next page, at most 255 bytes."""
    y = machine.given(X)
    machine.launch(machine.kernel("store_at"), y, place)
    machine.synchronize()
    (problem,) = machine.gpu.problems()
    assert problem.startswith("kernel store_at wrote to 0x")
    assert f"({text} memory #1 of 400 bytes)" in problem


@pytest.mark.parametrize(("kernel", "place"), [("store_at", 512), ("store_at", -4096), ("load_at", 600)])
def test_guard_pages(machine: Machine, kernel: str, place: int) -> None:
    y = machine.given(X)
    machine.launch(machine.kernel(kernel), *[y] * (2 if kernel == "load_at" else 1), place)
    where = f"{place - 400} bytes past the end of" if place > 0 else "4096 bytes before"
    fails(machine, ILLEGAL_ADDRESS, where)


def test_host_memory(machine: Machine) -> None:
    machine.launch(machine.kernel("plus_one"), X.ctypes.data, N)
    fails(machine, ILLEGAL_ADDRESS, "(host memory)")


def test_null(machine: Machine) -> None:
    machine.launch(machine.kernel("plus_one"), 0, N)
    fails(machine, ILLEGAL_ADDRESS, "(null)")


def test_copies_out_of_bounds(machine: Machine) -> None:
    y = machine.alloc(4 * N - 4)
    answers(INVALID_VALUE, lambda: machine.copy_in(y, X))
    answers(INVALID_VALUE, lambda: machine.floats(y))
    assert len(machine.gpu.problems()) == 2


def test_out_of_memory(machine: Machine) -> None:
    machine.gpu.set(memory=1000)
    y = machine.alloc(600)
    answers(OUT_OF_MEMORY, lambda: machine.alloc(600))
    answers(OUT_OF_MEMORY, lambda: machine.alloc(600, 0))
    free, total = c_size_t(), c_size_t()
    machine("MemGetInfo_v2", byref(free), byref(total))
    assert (free.value, total.value) == (400, 1000)
    machine.free(y)
    machine.alloc(600, 0)


_TOUCH = """
import ctypes, sys
from tests.gpu.machines import Machine
machine = Machine(sys.argv[1])
address = machine.alloc(64)
print("allocated", flush=True)
ctypes.string_at(address, 4)
"""


def test_the_host_cannot_reach_device_memory(machine: Machine) -> None:
    kind = next(kind for kind, warp in kernels.WARPS.items() if warp == machine.warp)
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", _TOUCH, kind]
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("allocated\n", -signal.SIGSEGV), done.stderr


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_use_on_a_stream_that_does_not_wait_for_the_allocation(machine: Machine) -> None:
    one, other = machine.stream(), machine.stream()
    y = machine.alloc(4 * N, one)
    machine.launch(machine.kernel("plus_one"), y, N, stream=other)
    assert machine.gpu.problems() == [
        "kernel plus_one on stream 2 is given pool memory #1 of 400 bytes, whose allocation on stream 1 it does not "
        "wait for"
    ]


@pytest.mark.parametrize("waits", [False, True])
def test_a_free_on_another_stream_than_the_last_use(machine: Machine, waits: bool) -> None:
    one, other = machine.stream(), machine.stream()
    y = machine.alloc(4 * N, one)
    machine.wait(other, machine.event(one))
    machine.launch(machine.kernel("plus_one"), y, N, stream=one)
    if waits:
        machine.wait(other, machine.event(one))
    machine.free(y, other)
    expected = ["pool memory #1 of 400 bytes is freed on stream 2 while stream 1 may still use it"]
    assert machine.gpu.problems() == [] if waits else expected


def test_pinned_memory_freed_under_a_copy(machine: Machine) -> None:
    stream, y, source = machine.stream(), machine.alloc(16), machine.pinned(16)
    machine.copy_in(y, source, stream)
    machine.free_pinned(source)
    assert machine.gpu.problems() == [
        "pinned memory #2 of 16 bytes is freed by the host while stream 1 may still use it"
    ]


def test_what_the_host_has_waited_for_is_ordered(machine: Machine) -> None:
    one, other = machine.stream(), machine.stream()
    y = machine.alloc(4 * N, one)
    machine.copy_in(y, X, one)
    machine.synchronize(one)
    machine.launch(machine.kernel("plus_one"), y, N, stream=other)
    machine.synchronize(other)
    machine.free(y, one)
    assert machine.gpu.problems() == []


# ---- launches --------------------------------------------------------------------------------------------------------


def test_an_endless_kernel(machine: Machine) -> None:
    machine.gpu.set(milliseconds=300)
    machine.launch(machine.kernel("endless"), machine.alloc(4))
    answers(TIMEOUT, machine.synchronize)
    assert machine.gpu.problems() == ["kernel endless does not end"]


def test_a_division_by_zero(machine: Machine) -> None:
    """GPUs do not stop there; that the result is used at all is a fault of the program's."""
    machine.launch(machine.kernel("divide"), machine.alloc(4), 0)
    fails(machine, LAUNCH_FAILED, f"kernel divide ended by signal {int(signal.SIGFPE)}")


def test_a_divergent_barrier(machine: Machine) -> None:
    machine.launch(machine.kernel("divergent"))
    fails(machine, LAUNCH_FAILED, "kernel divergent, block 0: divergent barrier: thread 0 waits at line")


def test_a_race(machine: Machine) -> None:
    racing = machine.function(kernels.image(machine.warp, races=True), "racing")
    machine.launch(racing, machine.alloc(4))
    fails(machine, LAUNCH_FAILED, "kernel racing, block 0: race: thread")


def test_limits_of_a_launch(machine: Machine) -> None:
    nothing = machine.kernel("nothing")
    for wrong in ({"block": 1025}, {"block": 0}, {"grid": 0}, {"shared": (48 if machine.cuda else 64) * 1024 + 1}):
        answers(INVALID_VALUE, lambda wrong=wrong: machine.launch(nothing, **wrong))
    answers(INVALID_HANDLE, lambda: machine.launch(nothing + 1))
    if machine.cuda:
        machine("FuncSetAttribute", c_void_p(nothing), 8, c_int(100 << 10))
        machine.launch(nothing, shared=100 << 10)
    machine.synchronize()


def test_modules(machine: Machine) -> None:
    answers(INVALID_IMAGE, lambda: machine.function(b".version 9.0  // PTX", "nothing"))
    answers(NOT_FOUND, lambda: machine.function(kernels.image(machine.warp), "missing"))
    answers(INVALID_IMAGE, lambda: machine.function(kernels.image(96 - machine.warp), "nothing"))
    no_module, other_warp = machine.gpu.problems()
    assert no_module == "a module is loaded that is no shared object of the shim's"
    assert other_warp == f"kernel nothing is compiled for warps of {96 - machine.warp} threads"


def test_memory_of_another_device(new_machine: Callable[..., Machine]) -> None:
    machine = new_machine(devices=2)
    y, stream, here = machine.given(X), machine.stream(), machine.kernel("plus_one")
    machine.use_device(1)
    there = machine.function(kernels.image(machine.warp), "plus_one")
    answers(INVALID_HANDLE, lambda: machine.launch(here, y, N))
    answers(INVALID_HANDLE, lambda: machine.launch(there, y, N, stream=stream))
    machine.launch(there, y, N)
    answers(ILLEGAL_ADDRESS, machine.synchronize)
    machine.use_device(0)
    np.testing.assert_array_equal(machine.floats(y), X)  # the other device is as it was


# ---- the driver ------------------------------------------------------------------------------------------------------


def scenario(machine: Machine) -> None:
    """A program that frees what it has, whichever call fails."""
    stream, held = machine.stream(), list[int]()
    try:
        for _ in range(2):
            held.append(machine.alloc(4 * N, stream))
        machine.copy_in(held[0], X, stream)
        machine.launch(machine.function(kernels.image(machine.warp), "twice"), *held, N, stream=stream)
        np.testing.assert_array_equal(machine.floats(held[1], stream), 2 * X)
    finally:
        for address in held:
            machine.free(address, stream)


def test_each_call_may_fail(machine: Machine) -> None:
    before = machine.gpu.calls()
    scenario(machine)
    for nth in range(1, machine.gpu.calls() - before + 1):
        machine.gpu.fail(OUT_OF_MEMORY, nth)
        answers(OUT_OF_MEMORY, lambda: scenario(machine))
    scenario(machine)
    assert machine.gpu.counters().live_allocations == 3  # once both, as the first's free failed, and once the second
    assert machine.gpu.problems() == []


def test_a_function_fails_by_its_name(machine: Machine) -> None:
    name = "cuMemAllocAsync" if machine.cuda else "hipMallocAsync"
    machine.gpu.fail(OUT_OF_MEMORY, 2, name)
    machine.alloc(4, 0)
    machine.alloc(4)
    answers(OUT_OF_MEMORY, lambda: machine.alloc(4, 0))
    machine.alloc(4, 0)
    assert machine.gpu.calls(name) == 3


def test_programs_do_not_find_a_private_driver(machine: Machine) -> None:
    """The loader would take it for the real one by the name that it gives itself."""
    path = build.driver(machine.gpu.family)
    assert path.name.encode() in path.read_bytes()
    assert path.name.encode() not in path.with_name(build.PRIVATE).read_bytes()


def test_hollow_launches_are_counted(machine: Machine) -> None:
    y = machine.given(X)
    machine.gpu.set(hollow=1)
    machine.launch(machine.kernel("plus_one"), y, N)
    np.testing.assert_array_equal(machine.floats(y), X)
    assert machine.gpu.counters().launches == 1


def test_a_forked_child_has_no_gpu(machine: Machine) -> None:
    y = machine.given(X)
    child = os.fork()
    if child == 0:
        status = 0
        try:
            machine.synchronize()
        except DriverError as error:
            status = error.status
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    np.testing.assert_array_equal(machine.floats(y), X)
