"""The runtime table of a GPU, in LLVM IR: launches, memory and transfers through the driver's own functions.

::

    i32 dyn_device_launch(rt, kernel, i64 grid, dims, buffers, i64 scratch_bytes, i64 cost, i64 pieces,
                          i64 dispatch)
    ptr dyn_device_alloc(rt, i64 bytes)             void dyn_device_free(rt, block, i64 bytes)
    ptr dyn_device_output(rt, i32 number, tensor)   i32 dyn_device_fetch(rt, into, from, i64 bytes)
    i32 dyn_device_stage(rt, function, context, tensors, i64 inputs, i64 outputs)

are what ``dyn_launch`` and its neighbours are for the processor, for programs whose buffers are in a device's memory.
``kernel`` is a record (``dyn.lower.abi.DeviceKernel``). A kernel's parameters are its buffers and then its dims, 64
bits each, so that the driver reads them where the host program has put them. Kernels take their iterations in turns:
any number of blocks is right, and a launch has at most as many as the device runs at once.

All of it is put on the stream of the call, memory too: what is freed is taken again once the kernels before it are
done. ``fetch`` alone waits. ``stage`` calls a function of this processor with copies of the tensors, made by Python.

The table's state (``dyn.lower.abi.DeviceState``) is a call's own, so that no two calls share what is written there. It
has the addresses of the driver's functions. CUDA's and HIP's have the same parameters: one text serves both.
"""

from __future__ import annotations

from dyn.lower.abi import DeviceKernel, DeviceState, TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.pinned_ring import add_staging

SYMBOLS = (
    "dyn_device_launch", "dyn_device_alloc", "dyn_device_free", "dyn_device_output", "dyn_device_fetch",
    "dyn_device_stage", "dyn_staging_copy",
)  # fmt: skip


def device_text() -> str:
    """The module's LLVM IR."""
    m = Module()
    _launch(m)
    _memory(m)
    _fetch(m)
    _stage(m)
    add_staging(m)
    return m.text()


def _launch(m: Module) -> None:
    params = [("ptr", "rt"), ("ptr", "kernel"), ("i64", "grid"), ("ptr", "dims"), ("ptr", "buffers")]
    params += [("i64", "bytes"), ("i64", "cost"), ("i64", "pieces"), ("i64", "dispatch")]
    f = m.function("dyn_device_launch", "i32", params)
    with f.if_(f.icmp("sle", "%grid", "0")):
        f.ret("i32", "0")
    state = f.load("ptr", "%rt")
    buffers, dims = f.load("i64", "%kernel", DeviceKernel.BUFFERS), f.load("i64", "%kernel", DeviceKernel.DIMS)
    arguments = f.alloca(f.mul(f.add(buffers, dims), "8"))
    with f.count(buffers) as i:
        f.store("ptr", f.at("%buffers", i, "ptr"), f.at(arguments, i, "ptr"))
    rest = f.at(arguments, buffers, "ptr")
    with f.count(dims) as i:
        f.store("ptr", f.at("%dims", i, "i64"), f.at(rest, i, "ptr"))
    most = f.load("i64", "%kernel", DeviceKernel.BLOCKS)
    blocks = f.select(f.icmp("slt", "%grid", most), "%grid", most)
    one = ("i32", "1")
    shape = [("i32", _narrow(f, blocks)), one, one]
    shape += [("i32", _narrow(f, f.load("i64", "%kernel", DeviceKernel.THREADS))), one, one]
    bytes = _narrow(f, "%bytes")
    function, stream = f.load("ptr", "%kernel", DeviceKernel.FUNCTION), f.load("ptr", state, DeviceState.STREAM)
    status = f.call(
        "i32", f.load("ptr", state, DeviceState.LAUNCH),
        [("ptr", function), *shape, ("i32", bytes), ("ptr", stream), ("ptr", arguments), ("ptr", "null")],
    )  # fmt: skip
    with f.if_(f.icmp("ne", status, "0", "i32")):
        _note(f, state, status)
        f.store("i64", "%dispatch", state, DeviceState.DISPATCH)
    f.ret("i32", status)


def _memory(m: Module) -> None:
    f = m.function("device.alloc", "ptr", [("ptr", "state"), ("i64", "bytes")], exported=False)
    block = f.stack("ptr")
    f.store("ptr", "null", block)
    bytes = f.select(f.icmp("sgt", "%bytes", "1"), "%bytes", "1")  # of nothing the driver gives no memory
    stream = f.load("ptr", "%state", DeviceState.STREAM)
    arguments = [("ptr", block), ("i64", bytes), ("ptr", stream)]
    status = f.call("i32", f.load("ptr", "%state", DeviceState.ALLOC), arguments)
    with f.if_(f.icmp("ne", status, "0", "i32")):
        _note(f, "%state", status)
        f.ret("ptr", "null")
    f.ret("ptr", f.load("ptr", block))

    f = m.function("dyn_device_alloc", "ptr", [("ptr", "rt"), ("i64", "bytes")])
    f.ret("ptr", f.call("ptr", "@device.alloc", [("ptr", f.load("ptr", "%rt")), ("i64", "%bytes")]))

    f = m.function("dyn_device_free", "void", [("ptr", "rt"), ("ptr", "block"), ("i64", "bytes")])
    state = f.load("ptr", "%rt")
    stream = f.load("ptr", state, DeviceState.STREAM)
    status = f.call("i32", f.load("ptr", state, DeviceState.FREE), [("ptr", "%block"), ("ptr", stream)])
    with f.if_(f.icmp("ne", status, "0", "i32")):
        _note(f, state, status)
    f.ret()

    # A tensor says its dtype as DLPack does: its second byte is the width in bits. That the bytes of an output are no
    # more than 64 bits can count has been looked at by the host program.
    f = m.function("dyn_device_output", "ptr", [("ptr", "rt"), ("i32", "number"), ("ptr", "tensor")])
    tag = f.cast("zext", f.load("i32", "%tensor", TensorOffsets.TAG), "i32", "i64")
    bits = f.and_(f.binary("lshr", tag, "8"), "255")
    bytes_of = f.var("i64", f.binary("lshr", f.add(bits, "7"), "3"))
    dims = f.load("ptr", "%tensor", TensorOffsets.DIMS)
    rank = f.cast("zext", f.load("i32", "%tensor", TensorOffsets.RANK), "i32", "i64")
    with f.count(rank) as i:
        bytes_of.set(f.mul(bytes_of.get(), f.load("i64", f.at(dims, i, "i64"))))
    data = f.call("ptr", "@device.alloc", [("ptr", f.load("ptr", "%rt")), ("i64", bytes_of.get())])
    f.store("ptr", data, "%tensor", TensorOffsets.DATA)
    f.ret("ptr", data)


def _fetch(m: Module) -> None:
    f = m.function("dyn_device_fetch", "i32", [("ptr", "rt"), ("ptr", "into"), ("ptr", "from"), ("i64", "bytes")])
    state = f.load("ptr", "%rt")
    stream = f.load("ptr", state, DeviceState.STREAM)
    arguments = [("ptr", "%into"), ("ptr", "%from"), ("i64", "%bytes"), ("ptr", stream)]
    copied = f.call("i32", f.load("ptr", state, DeviceState.TO_HOST), arguments)
    with f.if_(f.icmp("ne", copied, "0", "i32")):
        _note(f, state, copied)
        f.ret("i32", copied)
    done = f.call("i32", f.load("ptr", state, DeviceState.SYNCHRONIZE), [("ptr", stream)])
    with f.if_(f.icmp("ne", done, "0", "i32")):
        _note(f, state, done)
    f.ret("i32", done)


def _stage(m: Module) -> None:
    params = [("ptr", "rt"), ("ptr", "function"), ("ptr", "context"), ("ptr", "tensors")]
    f = m.function("dyn_device_stage", "i32", [*params, ("i64", "inputs"), ("i64", "outputs")])
    answer = f.stack("i64")
    f.store("i64", "1", answer)
    ask = f.load("ptr", f.load("ptr", "%rt"), DeviceState.ASK_STAGE)
    same = [("ptr", f"%{name}") for _, name in params]
    f.call("void", ask, [*same, ("i64", "%inputs"), ("i64", "%outputs"), ("ptr", answer)])
    f.ret("i32", _narrow(f, f.load("i64", answer)))


def _narrow(f: FunctionBuilder, value: str) -> str:
    return f.cast("trunc", value, "i64", "i32")


def _note(f: FunctionBuilder, state: str, status: str) -> None:
    """Keep the first answer of the driver's that is not 0."""
    with f.if_(f.icmp("eq", f.load("i64", state, DeviceState.ERROR), "0")):
        f.store("i64", f.cast("zext", status, "i32", "i64"), state, DeviceState.ERROR)
