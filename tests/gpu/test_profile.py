"""Profiles of programs on devices: launches on the tracks of their streams, with the device's times."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import dyn
import dyn.numpy as dnp
from dyn.runtime import device_memory
from dyn.runtime.driver import context_of
from tests.gpu.programs import Device, names, new_stream


def open_events(device: Device) -> int:
    """How many more events were made than ended."""
    return device.gpu.calls(names(device)["create_event"]) - device.gpu.calls(names(device)["destroy_event"])


def test_launches_are_on_their_streams(device: Device, tmp_path: Path) -> None:
    f = dyn.jit(lambda x: dnp.exp(x).sum(0) * 2)
    x = dyn.device_put(np.ones((300, 70), "f4"), device.name)
    f(x)
    made = device.gpu.calls(names(device)["create_event"])
    f(x)
    assert device.gpu.calls(names(device)["create_event"]) == made, "nothing is recorded without a profile"
    before, open_before = device.gpu.counters(), open_events(device)
    with dyn.profile() as whole:
        with dyn.profile() as prof:
            found = [f(x) for _ in range(3)]
        f(x)
    launches = device.gpu.counters().since(before).launches
    assert open_events(device) == open_before
    events = prof.events()
    assert (len(events.calls), len(events.launches)) == (3, launches * 3 // 4)
    assert len(whole.events().launches) == launches
    (stream,) = {launch.thread for launch in events.launches}
    assert events.threads[stream] == f"{device.name}, default stream"
    assert events.threads.keys() == {stream, *[call.thread for call in events.calls]}
    times = [time for launch in events.launches for time in (launch.start_ns, launch.end_ns)]
    assert times == sorted(times)
    assert events.calls[0].start_ns <= times[0]
    assert {launch.grid is not None and launch.pieces == () for launch in events.launches} == {True}
    assert events.launches[0].space[-1] == 70
    assert "exponential" in str(prof)
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = [one["args"]["name"] for one in trace if one["ph"] == "M" and one["tid"] == stream]
    assert named == [events.threads[stream]]
    assert sum(one["ph"] == "X" and one["tid"] == stream for one in trace) == len(events.launches)
    del found


def test_streams_have_tracks_of_their_own(device: Device) -> None:
    f = dyn.jit(lambda x: x + 1)
    with new_stream(device) as stream:
        here = dyn.device_put(np.ones(10, "f4"), device.name)
        there = device_memory.put(context_of(device.name), np.ones(10, "f4"), stream)
        with dyn.profile() as prof:
            results = f(here), f(there), f(np.ones(10, "f4"))
        del here, there, results
    events = prof.events()
    threads = {call.thread for call in events.calls}
    tracks = [events.threads[launch.thread] for launch in events.launches if launch.thread not in threads]
    assert sorted(tracks) == [f"{device.name}, default stream", f"{device.name}, stream {stream:#x}"]
    assert len(events.launches) == 3, "and that of the processor is on its thread"


def test_events_of_records_without_room_end(device: Device) -> None:
    f = dyn.jit(lambda x: x + 1)
    x = dyn.device_put(np.ones(10, "f4"), device.name)
    f(x)
    before = open_events(device)
    with dyn.profile(memory_limit=1) as prof:  # one piece of memory
        for _ in range(2000):
            f(x)
    assert prof.events().dropped > 0
    assert open_events(device) == before


def test_a_device_that_fails_has_no_times(cuda: Device) -> None:
    f = dyn.jit(lambda x: x + 1)
    x = dyn.device_put(np.ones(10, "f4"), "cuda")
    f(x)
    before = open_events(cuda)
    with dyn.profile() as prof:
        f(x)
        cuda.gpu.fail(700, 1, "cuEventSynchronize")
    events = prof.events()
    (launch,) = events.launches
    assert launch.thread == events.calls[0].thread
    assert open_events(cuda) == before
