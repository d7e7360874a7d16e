"""Streams of the software GPU: what runs when, and what a missing dependency does."""

from __future__ import annotations

import threading
import time
from ctypes import addressof, c_size_t, c_uint, c_void_p

import numpy as np
import pytest

from tests.gpu.calls import HOST_FUNCTION, DriverError
from tests.gpu.machines import Machine, N

X = np.arange(N, dtype=np.float32)


def test_a_launch(machine: Machine) -> None:
    x, y = machine.given(X), machine.alloc(X.nbytes)
    machine.launch(machine.kernel("twice"), x, y, N, grid=3)
    np.testing.assert_array_equal(machine.floats(y), 2 * X)


def test_grids_and_blocks_of_several_dimensions(machine: Machine) -> None:
    y, size = machine.alloc(8 * 24), [2, 2, 1, 3, 2, 1, 0]
    holder = c_void_p(y)
    pointers = (c_void_p * 1)(addressof(holder))
    function = c_void_p(machine.kernel("where"))
    machine("LaunchKernel", function, *[c_uint(s) for s in size], c_void_p(0), pointers, None)
    found = np.zeros(24, np.int64)
    machine.copy_out(found, y)
    expected = [ty * 10 + by for by in range(2) for _ in range(2) for ty in range(2) for _ in range(3)]
    np.testing.assert_array_equal(found, expected)


def test_nothing_runs_before_somebody_waits(machine: Machine) -> None:
    stream, seen = machine.stream(), machine.pinned(4 * N)
    y = machine.alloc(4 * N, stream)
    machine.copy_in(y, X, stream)
    machine.launch(machine.kernel("plus_one"), y, N, stream=stream)
    machine.copy_out(seen, y, stream)
    time.sleep(0.05)
    assert (seen == 0xFF).all()
    machine.synchronize(stream)
    np.testing.assert_array_equal(seen.view(np.float32), X + 1)


def test_eager(machine: Machine) -> None:
    machine.gpu.set(eager=1)
    stream, seen = machine.stream(), machine.pinned(4 * N)
    machine.copy_in(machine.given(X), X)
    machine.copy_out(seen, machine.given(X), stream)
    deadline = time.monotonic() + 60
    while (seen == 0xFF).any() and time.monotonic() < deadline:
        time.sleep(0.001)
    np.testing.assert_array_equal(seen.view(np.float32), X)


def test_events_order_streams(machine: Machine) -> None:
    one, other = machine.stream(), machine.stream()
    y = machine.alloc(4 * N, one)
    machine.copy_in(y, X, one)
    machine.launch(machine.kernel("plus_one"), y, N, stream=one)
    machine.wait(other, machine.event(one))
    machine.launch(machine.kernel("plus_one"), y, N, stream=other)
    np.testing.assert_array_equal(machine.floats(y, other), X + 2)
    assert machine.gpu.problems() == []


def test_a_missing_event_shows(machine: Machine) -> None:
    one, other, y = machine.stream(), machine.stream(), machine.alloc(4 * N)
    machine.copy_in(y, X, one)
    machine.launch(machine.kernel("plus_one"), y, N, stream=other)
    assert np.isnan(machine.floats(y, other)).all()  # poison: the copy has not run


def test_an_event_is_a_moment_of_its_stream(machine: Machine) -> None:
    """Waiting for it does not run what is queued after it; recording it again moves it."""
    one, other, y = machine.stream(), machine.stream(), machine.given(X)
    event = machine.event(one)
    machine.launch(machine.kernel("plus_one"), y, N, stream=one)
    machine.wait(other, event)
    np.testing.assert_array_equal(machine.floats(y, other), X)
    machine.wait(other, machine.event(one))
    np.testing.assert_array_equal(machine.floats(y, other), X + 1)


def test_the_default_stream_waits_for_those_that_block(machine: Machine) -> None:
    y = machine.given(X)
    machine.launch(machine.kernel("plus_one"), y, N, stream=machine.stream(0))
    np.testing.assert_array_equal(machine.floats(y), X + 1)  # a copy on the default stream
    machine.launch(machine.kernel("plus_one"), y, N, stream=machine.stream())
    np.testing.assert_array_equal(machine.floats(y), X + 1)
    machine.synchronize()
    np.testing.assert_array_equal(machine.floats(y), X + 2)


def test_those_that_block_wait_for_the_default_stream(machine: Machine) -> None:
    y, stream = machine.given(X), machine.stream(0)
    machine.launch(machine.kernel("plus_one"), y, N)
    np.testing.assert_array_equal(machine.floats(y, stream), X + 1)


def test_queries_run_what_they_ask_for(machine: Machine) -> None:
    stream, y = machine.stream(), machine.given(X)
    machine.launch(machine.kernel("plus_one"), y, N, stream=stream)
    with pytest.raises(DriverError) as caught:
        machine("StreamQuery", c_void_p(stream))
    assert caught.value.status == 600
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            machine("StreamQuery", c_void_p(stream))
            break
        except DriverError:
            time.sleep(0.001)
    np.testing.assert_array_equal(machine.floats(y), X + 1)


def test_pageable_memory_is_read_before_the_call_returns_and_pinned_memory_is_not(machine: Machine) -> None:
    stream, y, z = machine.stream(), machine.alloc(4 * N), machine.alloc(4 * N)
    pageable, pinned = X.copy(), machine.pinned(4 * N)
    pinned.view(np.float32)[:] = X
    machine.copy_in(y, pageable, stream)
    machine.copy_in(z, pinned, stream)
    pageable[:] = 7
    pinned.view(np.float32)[:] = 7
    np.testing.assert_array_equal(machine.floats(y, stream), X)
    np.testing.assert_array_equal(machine.floats(z, stream), np.full(N, 7))


def test_registered_memory_is_pinned(machine: Machine) -> None:
    stream, y, host = machine.stream(), machine.alloc(4 * N), X.copy()
    machine("MemHostRegister_v2", c_void_p(host.ctypes.data), c_size_t(host.nbytes), 0)
    machine.copy_in(y, host, stream)
    host[:] = 7
    np.testing.assert_array_equal(machine.floats(y, stream), np.full(N, 7))
    machine("MemHostUnregister", c_void_p(host.ctypes.data))


def test_a_deep_queue_runs_its_older_half(machine: Machine) -> None:
    machine.gpu.set(depth=8)
    stream, seen = machine.stream(), machine.pinned(4 * N)
    y = machine.given(X)
    machine.copy_out(seen, y, stream)
    for _ in range(20):
        machine.launch(machine.kernel("plus_one"), y, N, stream=stream)
    np.testing.assert_array_equal(seen.view(np.float32), X)
    np.testing.assert_array_equal(machine.floats(y, stream), X + 20)


def test_a_destroyed_stream_runs_what_is_queued(machine: Machine) -> None:
    stream, y = machine.stream(), machine.given(X)
    machine.launch(machine.kernel("plus_one"), y, N, stream=stream)
    machine("StreamDestroy_v2", c_void_p(stream))
    with pytest.raises(DriverError) as caught:
        machine.launch(machine.kernel("plus_one"), y, N, stream=stream)
    assert caught.value.status == 400
    machine.synchronize()
    np.testing.assert_array_equal(machine.floats(y), X + 1)


def test_host_functions_run_in_order_on_a_thread_of_the_driver(machine: Machine) -> None:
    stream, y, said = machine.stream(), machine.given(X), list[object]()

    def call(_: object) -> None:
        said.append(threading.get_ident() != threading.main_thread().ident)
        try:
            machine.synchronize()
        except DriverError as error:
            said.append(error.status)

    function = HOST_FUNCTION(call)
    machine.host_function(function, stream)
    machine.launch(machine.kernel("plus_one"), y, N, stream=stream)
    assert said == []
    np.testing.assert_array_equal(machine.floats(y, stream), X + 1)
    assert said == [True, 800]


def test_threads_share_a_driver(machine: Machine) -> None:
    machine.kernel("plus_one")
    results: list[bool] = []

    def work() -> None:
        machine.use_device(0)
        stream = machine.stream()
        for _ in range(5):
            y = machine.alloc(4 * N, stream)
            machine.copy_in(y, X, stream)
            machine.launch(machine.kernel("plus_one"), y, N, stream=stream)
            results.append(bool((machine.floats(y, stream) == X + 1).all()))
            machine.free(y, stream)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 20
    assert machine.gpu.problems() == []
    assert machine.gpu.leaks() == []
