"""``dyn.Array`` on devices, and arrays of other libraries there, by DLPack with streams."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import UnsupportedOpError
from dyn.runtime import device_memory
from dyn.runtime.dlpack import import_capsule
from tests.gpu.programs import Device, new_stream
from tests.rarely import rarely


class StandIn:
    """An array of another library: it is read by DLPack alone."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.streams: list[Any] = []

    def __dlpack__(self, **options: Any) -> Any:
        self.streams.append(options.get("stream"))
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("device", ["cuda", rarely("rocm")], indirect=True)
def test_put_and_read(device: Device) -> None:
    x = np.arange(12.0).reshape(3, 4)
    there = dyn.device_put(x, device.name)
    x[:] = 0
    assert (there.device, there.shape, there.dtype, there.ndim, there.size, there.nbytes) == (
        device.name, (3, 4), np.float64, 2, 12, 96,
    )  # fmt: skip
    wanted = np.arange(12.0).reshape(3, 4)
    for found in (there.to_numpy(), np.asarray(there), there[:], there.T.T, there.mT.mT, there.to_device("cpu")):
        np.testing.assert_array_equal(np.asarray(found), wanted)
    assert dyn.device_put(there, device.name) is there
    assert there.to_device("cpu").device == "cpu"
    assert there[1, 2:].tolist() == [6, 7]
    assert there[1, 2:].device == device.name
    assert (len(there), float(there[0, 1]), bool(there[0, 1]), 5.0 in there) == (3, 1.0, True, True)
    assert (
        repr(dyn.device_put(np.zeros(2, "f4"), device.name))
        == f"dyn.Array([0., 0.], dtype=float32, device={device.name})"
    )
    other = copy.deepcopy(there)
    other[0] = 7.0
    other += 1
    other.sort()
    assert (other.device, other[0].tolist(), there[0].tolist()) == (device.name, [8, 8, 8, 8], [0, 1, 2, 3])
    assert pickle.loads(pickle.dumps(there)).device == "cpu"
    assert there.block_until_ready() is there


@pytest.mark.parametrize("dtype", ["bool", "i8", "bfloat16", "f2", "c8", "float8_e5m2"])
def test_dtypes_go_through(cuda: Device, dtype: str) -> None:
    own = dyn.dtype(dtype if dtype not in ("i8", "f2", "c8") else np.dtype(dtype)).np
    x = np.array([0, 1, 2]).astype(own)
    there = dyn.device_put(x, "cuda")
    assert there.dtype == own
    np.testing.assert_array_equal(there.to_numpy().view("u1"), x.view("u1"))


def test_nothing_and_numbers(device: Device) -> None:
    for x in (np.zeros((0, 3), "f4"), np.float32(3), 4.0, [[1, 2], [3, 4]]):
        there = dyn.device_put(x, device.name)
        assert there.device == device.name
        np.testing.assert_array_equal(there.to_numpy(), np.asarray(x))


@pytest.mark.parametrize("device", [rarely("cuda"), "rocm"], indirect=True)
def test_operators_run_where_their_operands_are(device: Device) -> None:
    there = dyn.device_put(np.arange(6, dtype="f4"), device.name)
    before = device.gpu.counters()
    made = [there + there, there * 2, -there, dnp.sum(there), dnp.where(there > 2, there, 0), there.reshape(2, 3)]
    assert {array.device for array in made} == {device.name}
    assert device.gpu.counters().since(before).launches >= 5
    assert made[1].tolist() == [0, 2, 4, 6, 8, 10]
    assert float(made[3]) == 15


def test_dlpack_both_ways_without_copies(device: Device) -> None:
    there = dyn.device_put(np.arange(6, dtype="f4"), device.name)
    default = {"cuda": 1, "rocm": 0}[device.name]
    other = StandIn(there)
    before = device.gpu.counters()
    found = dyn.jit(lambda x: x * 2)(other)
    spent = device.gpu.counters().since(before)
    assert (spent.copies_in, spent.copies_out, spent.allocations) == (0, 0, 1)
    assert other.streams == [default]
    assert isinstance(found, dyn.Array)
    assert found.tolist() == [0, 2, 4, 6, 8, 10]
    choices: list[dict[str, Any]] = [{}, {"stream": default}, {"stream": -1}, {"max_version": (1, 1)}, {"stream": None}]
    for options in choices:
        tensor, owner = import_capsule(there.__dlpack__(**options))
        assert (tensor.shape, tensor.strides, tensor.device) == ((6,), (1,), there.__dlpack_device__())
        del owner, tensor
    capsule = there.__dlpack__()  # nobody takes it
    with pytest.raises(BufferError, match="'now' is no stream"):
        there.__dlpack__(stream="now")
    with pytest.raises(BufferError, match="not exported to the device"):
        there.__dlpack__(dl_device=(1, 0))
    del capsule


def test_memory_outlives_its_array(device: Device) -> None:
    there = dyn.device_put(np.arange(6, dtype="f4"), device.name)
    capsule = there.__dlpack__(max_version=(1, 0))
    before = device.gpu.counters()
    del there
    gc.collect()
    assert device.gpu.counters().since(before).frees == 0
    del capsule
    gc.collect()
    assert device.gpu.counters().since(before).frees == 1


def test_elements_that_do_not_lie_row_by_row(cuda: Device) -> None:
    there = dyn.device_put(np.arange(6, dtype="f4"), "cuda")

    class Strided(StandIn):
        def __dlpack__(self, **options: Any) -> Any:
            capsule = super().__dlpack__(**options)
            tensor, _ = import_capsule(there.__dlpack__())
            del tensor
            return _with_strides(capsule)

    with pytest.raises(UnsupportedOpError, match="do not lie row by row"):
        device_memory.borrow(Strided(there))


def _with_strides(capsule: Any) -> Any:
    """A capsule that says every second element."""
    from dyn.runtime import dlpack

    name = dlpack._get_name(capsule)
    tensor = dlpack._KINDS[name].from_address(dlpack._get_pointer(capsule, name)).tensor
    tensor.shape[0], tensor.strides[0] = 3, 2
    return capsule


def test_streams_wait_for_one_another(device: Device) -> None:
    """An array on one stream used on another: the software GPU runs either as late as it may, and looks for races."""
    context = device_memory.context_of(device.name)
    with new_stream(device) as number:
        first = device_memory.put(context, np.arange(1000, dtype="f4"), number)
        doubled = dyn.jit(lambda x: x * 2)(first)
        here = dyn.device_put(np.ones(1000, "f4"), device.name)
        both = dyn.jit(lambda x, y: x + y)(here, doubled)
        del first, doubled
        np.testing.assert_array_equal(both.to_numpy(), np.arange(1000) * 2 + 1)
        del both, here
