"""Tests of a version's conditions beside a call's arguments: dicts, lists, tensors, arrays.

``i1 is_current(version)`` answers whether they are what they were when the version was made. Keys are strings, which
are looked up without Python code, and tensors are read by PyTorch's own function. What was found to be so once need not
be asked again until it has changed: a dict's tag is another then, and so are the words of a tensor's impl.
"""

from __future__ import annotations

from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.api import call, type_of
from dyn.runtime.entry.foreign import computes_gradients, read_tensor, requires_grad
from dyn.runtime.entry.layout import (
    DictRecord,
    DLTensor,
    EntryRecord,
    EntryVersion,
    HeldTensorRecord,
    HostRecord,
    ListRecord,
    NameRecord,
    PyObjects,
)


def define_is_current(module: Module) -> None:
    """Define ``is_current``; it leaves no exception behind."""
    _define_dict(module)
    _define_list(module)
    _define_words(module)
    _define_tensors(module)
    f = module.function("is_current", "i1", [("ptr", "version")], exported=False)
    records, good = f.load("ptr", "%version", EntryVersion.DICTS), f.var("i1", "true")
    with f.count(f.load("i64", "%version", EntryVersion.DICT_COUNT)) as number:
        record = f.at(records, f.mul(number, str(DictRecord.BYTES)))
        tag = f.load("i64", f.load("ptr", record, DictRecord.DICT), PyObjects.DICT_TAG)
        known = f.icmp("eq", tag, f.load("i64", record, DictRecord.TAG))
        known = f.and_(known, f.icmp("ne", f.load("i64", record, DictRecord.TAGGED), "0"), "i1")
        with f.if_(f.icmp("eq", known, "false", "i1")):
            same = f.call("i1", "@same_dict", [("ptr", record)])
            with f.if_(f.icmp("eq", same, "false", "i1")):
                call(f, "void", "PyErr_Clear", [])
                f.ret("i1", "false")
            f.store("i64", tag, record, DictRecord.TAG)
    lists = f.load("ptr", "%version", EntryVersion.LISTS)
    with f.count(f.load("i64", "%version", EntryVersion.LIST_COUNT)) as number:
        record = f.at(lists, f.mul(number, str(ListRecord.BYTES)))
        f.ret_if(f.icmp("eq", f.call("i1", "@same_list", [("ptr", record)]), "false", "i1"), "i1", "false")
    names = f.load("ptr", "%version", EntryVersion.NAMES)
    with f.count(f.load("i64", "%version", EntryVersion.NAME_COUNT)) as number:
        record = f.at(names, f.mul(number, str(NameRecord.BYTES)))
        slot = f.at(f.load("ptr", record, NameRecord.OBJECT), f.load("i64", record, NameRecord.WHERE))
        f.ret_if(f.icmp("ne", f.load("ptr", slot), f.load("ptr", record, NameRecord.VALUE), "ptr"), "i1", "false")
    with f.if_(f.icmp("ne", f.load("i64", "%version", EntryVersion.TENSOR_COUNT), "0")):
        good.set(f.call("i1", "@same_tensors", [("ptr", "%version")]))
        with f.if_(f.icmp("eq", good.get(), "false", "i1")):
            call(f, "void", "PyErr_Clear", [])
    f.ret("i1", good.get())


def _define_dict(module: Module) -> None:
    """``i1 same_dict(record)``: perhaps with an exception where it is not."""
    f = module.function("same_dict", "i1", [("ptr", "record")], exported=False)
    dict, entries = f.load("ptr", "%record", DictRecord.DICT), f.load("ptr", "%record", DictRecord.ENTRIES)
    count = f.load("i64", "%record", DictRecord.COUNT)
    whole = f.icmp("ne", f.load("i64", "%record", DictRecord.WHOLE), "0")
    other = f.icmp("ne", f.load("i64", dict, PyObjects.SIZE), count)
    f.ret_if(f.and_(whole, other, "i1"), "i1", "false")
    position, key, value = f.var("i64", "0"), f.stack("ptr"), f.stack("ptr")
    with f.count(count) as number:
        entry = f.at(entries, f.mul(number, str(EntryRecord.BYTES)))
        wanted = f.load("ptr", entry, EntryRecord.KEY)
        branch = f.if_else(whole)
        with branch.then():
            arguments = [("ptr", dict), ("ptr", position.address), ("ptr", key), ("ptr", value)]
            more = call(f, "i32", "PyDict_Next", arguments)
            f.ret_if(f.icmp("eq", more, "0", "i32"), "i1", "false")
            same = f.call("i1", "@same_key", [("ptr", f.load("ptr", key)), ("ptr", wanted)])
            f.ret_if(f.icmp("eq", same, "false", "i1"), "i1", "false")
        with branch.otherwise():
            f.store("ptr", call(f, "ptr", "PyDict_GetItemWithError", [("ptr", dict), ("ptr", wanted)]), value)
        differ = f.icmp("ne", f.load("ptr", value), f.load("ptr", entry, EntryRecord.VALUE), "ptr")
        f.ret_if(differ, "i1", "false")
    f.ret("i1", "true")


def _define_list(module: Module) -> None:
    """``i1 same_list(record)``: the items are looked at where the list has them, by no Python code."""
    f = module.function("same_list", "i1", [("ptr", "record")], exported=False)
    list, entries = f.load("ptr", "%record", ListRecord.LIST), f.load("ptr", "%record", ListRecord.ENTRIES)
    count = f.load("i64", "%record", ListRecord.COUNT)
    f.ret_if(f.icmp("ne", f.load("i64", list, PyObjects.SIZE), count), "i1", "false")
    items = f.load("ptr", list, PyObjects.LIST_ITEMS)
    with f.count(count) as number:
        item, wanted = (f.load("ptr", f.at(at, number, "ptr")) for at in (items, entries))
        f.ret_if(f.icmp("ne", item, wanted, "ptr"), "i1", "false")
    f.ret("i1", "true")


def _define_words(module: Module) -> None:
    """``i1 same_words(record)``: whether a tensor's impl has the words that it had; ``void keep_words(record)``."""
    first, count = 8 * HeldTensorRecord.FIRST_WORD, HeldTensorRecord.WORD_COUNT
    f = module.function("same_words", "i1", [("ptr", "record")], exported=False, inline=True)
    kept = f.load("ptr", "%record", HeldTensorRecord.WORDS)
    f.ret_if(f.is_null(kept), "i1", "false")
    impl, differ = _impl(f), "0"
    for word in range(count):
        differ = f.or_(differ, f.binary("xor", f.load("i64", impl, first + 8 * word), f.load("i64", kept, 8 * word)))
    f.ret_if(f.icmp("ne", differ, "0"), "i1", "false")
    # The storage is the one that it had, which it keeps.
    f.ret("i1", f.icmp("eq", _data(f, _storage(f, impl)), f.load("i64", kept, 8 * count)))

    f = module.function("keep_words", "void", [("ptr", "record")], exported=False)
    kept = f.load("ptr", "%record", HeldTensorRecord.WORDS)
    with f.if_(f.is_null(kept)):
        f.ret()
    impl = _impl(f)
    storage = _storage(f, impl)
    with f.if_(f.is_null(storage)):
        f.ret()
    for word in range(count):
        f.store("i64", f.load("i64", impl, first + 8 * word), kept, 8 * word)
    f.store("i64", _data(f, storage), kept, 8 * count)
    f.ret()


def _place(f: FunctionBuilder, pointer: str, field: int) -> str:
    """The address that a field of the record's host says, from a pointer on."""
    return f.at(pointer, f.load("i64", f.load("ptr", "%record", HeldTensorRecord.HOST), field))


def _impl(f: FunctionBuilder) -> str:
    return f.load("ptr", _place(f, f.load("ptr", "%record", HeldTensorRecord.OBJECT), HostRecord.IMPL))


def _storage(f: FunctionBuilder, impl: str) -> str:
    return f.load("ptr", _place(f, impl, HostRecord.STORAGE))


def _data(f: FunctionBuilder, storage: str) -> str:
    return f.load("i64", _place(f, storage, HostRecord.DATA))


def _define_tensors(module: Module) -> None:
    """``i1 same_tensors(version)``: perhaps with an exception where they are not."""
    f = module.function("same_tensors", "i1", [("ptr", "version")], exported=False)
    records = f.load("ptr", "%version", EntryVersion.TENSORS)
    gradients = computes_gradients(f, f.load("ptr", records, HeldTensorRecord.HOST))
    with f.count(f.load("i64", "%version", EntryVersion.TENSOR_COUNT)) as number:
        record = f.at(records, f.mul(number, str(HeldTensorRecord.BYTES)))
        object, host = f.load("ptr", record, HeldTensorRecord.OBJECT), f.load("ptr", record, HeldTensorRecord.HOST)
        f.ret_if(f.icmp("ne", type_of(f, object), f.load("ptr", host, HostRecord.TYPE), "ptr"), "i1", "false")
        with f.if_(gradients):
            f.ret_if(requires_grad(f, object), "i1", "false")
        known = f.call("i1", "@same_words", [("ptr", record)])
        with f.if_(f.icmp("eq", known, "false", "i1")):
            _same_memory(f, object, record)
            f.call("void", "@keep_words", [("ptr", record)])
    f.ret("i1", "true")


def _same_memory(f: FunctionBuilder, object: str, record: str) -> None:
    """Give up where a tensor is not of the sizes, in rows, and where it was."""
    rank = f.load("i64", record, HeldTensorRecord.RANK)
    host, kind = f.load("ptr", record, HeldTensorRecord.HOST), f.load("i64", record, HeldTensorRecord.TYPE)
    tensor = read_tensor(f, object, host, kind, rank)
    dims, strides = f.load("ptr", tensor, DLTensor.DIMS), f.load("ptr", tensor, DLTensor.STRIDES)
    sizes = f.load("ptr", record, HeldTensorRecord.SIZES)
    with f.count(rank) as axis:
        size = f.load("i64", f.at(dims, axis, "i64"))
        f.ret_if(f.icmp("ne", size, f.load("i64", f.at(sizes, axis, "i64"))), "i1", "false")
    dense = f.call("i1", "@is_dense", [("ptr", dims), ("ptr", strides), ("i64", rank)])
    f.ret_if(f.icmp("eq", dense, "false", "i1"), "i1", "false")
    wanted = f.load("ptr", record, HeldTensorRecord.ADDRESS)
    data = f.at(f.load("ptr", tensor, DLTensor.DATA), f.load("i64", tensor, DLTensor.OFFSET))
    moved = f.and_(f.icmp("ne", wanted, "null", "ptr"), f.icmp("ne", data, wanted, "ptr"), "i1")
    f.ret_if(moved, "i1", "false")
