"""The ELF loader: what it loads, what it leaves to a linker, and what it refuses."""

from __future__ import annotations

import ctypes
import random
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dyn.backends import elf, x86
from dyn.backends.base import Binary, Source
from dyn.backends.cpu import cpu_fingerprint
from dyn.backends.elf import UnsupportedObject, load_object, map_code, process_symbol
from dyn.backends.x86 import X86Backend, target_for
from dyn.errors import ArtifactError

I64 = ctypes.c_int64
ADD = "define i64 @add(i64 %a) {\n  %b = add i64 %a, 41\n  ret i64 %b\n}\n"


def compiled(text: str, *symbols: str) -> bytes:
    return X86Backend().compile(Source(text, symbols)).data


def function(address: int, result: type | None, *arguments: type) -> Any:
    return ctypes.CFUNCTYPE(result, *arguments)(address)


# ---- what it loads ---------------------------------------------------------------------------------------------------


def test_plain_code() -> None:
    address = load_object(compiled(ADD, "add"), ("add",))["add"]
    assert function(address, I64, I64)(1) == 42


def test_calls_out_of_the_object_at_any_distance() -> None:
    text = (
        "declare double @cos(double)\ndeclare i64 @strlen(ptr)\n"
        "define double @twice(double %x) {\n  %a = call double @cos(double %x)\n"
        "  %b = call double @cos(double %a)\n  ret double %b\n}\n"
        "define i64 @length(ptr %s) {\n  %n = call i64 @strlen(ptr %s)\n  ret i64 %n\n}\n"
    )
    found = load_object(compiled(text, "twice", "length"), ("twice", "length"))
    assert function(found["twice"], ctypes.c_double, ctypes.c_double)(0.0) == np.cos(1.0)
    assert function(found["length"], I64, ctypes.c_char_p)(b"seven..") == 7


def test_what_the_code_generator_calls_by_itself() -> None:
    text = (
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
        "define void @copy(ptr %to, ptr %from, i64 %n) {\n"
        "  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)\n  ret void\n}\n"
    )
    address = load_object(compiled(text, "copy"), ("copy",))["copy"]
    source, target = np.arange(1000), np.zeros(1000, int)
    function(address, None, ctypes.c_void_p, ctypes.c_void_p, I64)(target.ctypes.data, source.ctypes.data, 8000)
    assert (source == target).all()


def test_constants_tables_and_state() -> None:
    text = (
        "@table = internal constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5], align 32\n"
        "@names = internal constant [2 x ptr] [ptr @one, ptr @two]\n"
        "@count = internal global i64 40\n@zeros = internal global [100 x i64] zeroinitializer, align 64\n"
        "define i64 @one() {\n  ret i64 1\n}\ndefine i64 @two() {\n  ret i64 2\n}\n"
        "define double @pick(i64 %i) {\n  %p = getelementptr double, ptr @table, i64 %i\n"
        "  %v = load double, ptr %p\n  %w = fadd double %v, 0.125\n  ret double %w\n}\n"
        "define i64 @tick() {\n  %a = load i64, ptr @count\n  %b = add i64 %a, 1\n  store i64 %b, ptr @count\n"
        "  ret i64 %b\n}\n"
        "define i64 @call(i64 %i) {\n  %p = getelementptr ptr, ptr @names, i64 %i\n  %f = load ptr, ptr %p\n"
        "  %r = call i64 %f()\n  ret i64 %r\n}\n"
        "define i64 @zero(i64 %i) {\n  %p = getelementptr i64, ptr @zeros, i64 %i\n  %v = load i64, ptr %p\n"
        "  store i64 9, ptr %p\n  ret i64 %v\n}\n"
    )
    names = ("pick", "tick", "call", "zero")
    first, second = (load_object(compiled(text, *names), names) for _ in range(2))
    assert [function(first["pick"], ctypes.c_double, I64)(i) for i in range(4)] == [1.625, 2.625, 3.625, 4.625]
    assert [function(first["call"], I64, I64)(i) for i in (0, 1)] == [1, 2]
    assert [function(first["tick"], I64)() for _ in range(2)] == [41, 42]
    assert function(second["tick"], I64)() == 41  # each has a state of its own
    assert [function(first["zero"], I64, I64)(99) for _ in range(2)] == [0, 9]


def test_data_of_the_process_by_address() -> None:
    text = "@environ = external global ptr\ndefine ptr @where() {\n  ret ptr @environ\n}\n"
    address = load_object(compiled(text, "where"), ("where",))["where"]
    assert function(address, ctypes.c_void_p)() == process_symbol("environ")


def test_imports_come_before_the_process() -> None:
    text = "declare i64 @labs(i64)\ndefine i64 @f(i64 %x) {\n  %y = call i64 @labs(i64 %x)\n  ret i64 %y\n}\n"
    data = compiled(text, "f")
    own = ctypes.CFUNCTYPE(I64, I64)(lambda x: x * 10)
    address = ctypes.cast(own, ctypes.c_void_p).value
    assert address is not None
    assert function(load_object(data, ("f",), {"labs": address})["f"], I64, I64)(-3) == -30
    assert function(load_object(data, ("f",))["f"], I64, I64)(-3) == 3


def test_memory_is_writable_or_executable_and_never_both() -> None:
    text = '@count = global i64 7\n@text = constant [3 x i8] c"abc"\n' + ADD
    found = load_object(compiled(text, "add", "count", "text"), ("add", "count", "text"))
    rights = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high, how = re.match(r"(\w+)-(\w+) (\S+)", line).groups()  # pyright: ignore[reportOptionalMemberAccess]
        for name, address in found.items():
            if int(low, 16) <= address < int(high, 16):
                rights[name] = how
    assert rights == {"add": "r-xp", "text": "r--p", "count": "rw-p"}


def test_everything_dyn_compiles_is_loaded_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """ORC is for surprises: softmax, a contraction, table lookups and double functions do without."""
    import dyn
    import dyn.numpy as dnp

    def refuse(binary: Binary, imports: object) -> None:
        raise AssertionError(f"{binary.symbols} went to ORC")

    monkeypatch.setattr(x86, "_load_by_orc", refuse)
    x = np.random.default_rng(0).normal(size=(5, 7)).astype("f4")

    @dyn.jit
    def f(x):
        e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
        return e / dnp.sum(e, axis=-1, keepdims=True) @ x.T, dnp.tanh(x.astype("f8"))

    a, b = f(x)
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(a, e / e.sum(-1, keepdims=True) @ x.T, rtol=1e-5)
    np.testing.assert_allclose(b, np.tanh(x.astype("f8")), rtol=1e-14)


# ---- what it leaves to a linker --------------------------------------------------------------------------------------


def test_an_unknown_name_is_left_to_orc() -> None:
    text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}\n"
    with pytest.raises(UnsupportedObject) as refused:
        load_object(compiled(text, "f"), ("f",))
    assert str(refused.value) == "no_such_function is not in this process"


def test_thread_local_data_is_left_to_orc() -> None:
    text = "@state = thread_local global i64 3\ndefine i64 @f() {\n  %v = load i64, ptr @state\n  ret i64 %v\n}\n"
    with pytest.raises(UnsupportedObject) as refused:
        load_object(compiled(text, "f"), ("f",))
    assert str(refused.value) == "it has thread-local data or constructors"


def test_orc_loads_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise UnsupportedObject("in a test")

    monkeypatch.setattr(x86, "load_object", refuse)
    text = ADD.replace("41", "4141").replace("@add", "@by_orc")
    address = X86Backend().load(X86Backend().compile(Source(text, ("by_orc",)))).address("by_orc")
    assert function(address, I64, I64)(1) == 4142


def test_a_system_that_forbids_new_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf, "_protect", _forbid)
    with pytest.raises(UnsupportedObject) as refused:
        load_object(compiled(ADD, "add"), ("add",))
    assert str(refused.value) == "this system refuses to make memory executable"
    with pytest.raises(UnsupportedObject):
        map_code(b"\xc3")
    cpu_fingerprint.cache_clear()
    assert cpu_fingerprint() is None
    cpu_fingerprint.cache_clear()


def _forbid(address: int, size: int, how: int) -> None:
    raise UnsupportedObject("this system refuses to make memory executable")


# ---- what it refuses -------------------------------------------------------------------------------------------------


def broken(data: bytes, symbol: str = "add") -> str:
    with pytest.raises(ArtifactError) as refused:
        load_object(data, (symbol,))
    return str(refused.value)


def test_other_things_than_objects() -> None:
    head = "this is not an ELF object for x86-64: "
    assert broken(b"") == head + "it is cut off."
    assert broken(b"x" * 100) == head + "it does not begin as one."
    assert broken(Path("/proc/self/exe").read_bytes()[:4096]).startswith(head + "type ")
    data = compiled(ADD, "add")
    assert broken(data[:-1]) == head + "it is cut off."
    assert broken(data, "subtract") == head + "it does not define subtract."


def test_damage_is_an_error_and_never_a_crash() -> None:
    """Every field of the headers, symbols and relocations, set to extremes; and bytes at random."""
    text = "declare double @cos(double)\n@t = constant [2 x double] [double 1.0, double 2.0]\n" + (
        "define double @f(i64 %i) {\n  %p = getelementptr double, ptr @t, i64 %i\n  %v = load double, ptr %p\n"
        "  %r = call double @cos(double %v)\n  ret double %r\n}\n"
    )
    data = compiled(text, "f")
    chance = random.Random(0)
    outcomes = {"loaded": 0, "refused": 0, "broken": 0}

    def attempt(damaged: bytes) -> None:
        try:
            load_object(damaged, ("f",))
            outcomes["loaded"] += 1
        except UnsupportedObject:
            outcomes["refused"] += 1
        except ArtifactError:
            outcomes["broken"] += 1

    for at in range(0, len(data) - 8, 4):
        for value in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF):
            attempt(data[:at] + struct.pack("<I", value) + data[at + 4 :])
        attempt(data[:at] + b"\xff" * 8 + data[at + 8 :])
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(data))] = chance.randrange(256)
        attempt(bytes(damaged))
    for size in range(0, len(data), 7):
        attempt(data[:size])
    assert outcomes["broken"] > 300, outcomes


def test_nothing_stays_mapped_of_what_is_refused() -> None:
    text = (
        "declare void @dyn_no_such_function()\ndefine void @f() {\n  call void @dyn_no_such_function()\n  ret void\n}\n"
    )
    data = compiled(text, "f")

    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    before = mappings()
    for _ in range(200):
        with pytest.raises(UnsupportedObject):
            load_object(data, ("f",))
    assert mappings() - before < 50


# ---- the processor ---------------------------------------------------------------------------------------------------


def test_the_processor_answers_the_same_on_every_core() -> None:
    import os

    allowed = os.sched_getaffinity(0)
    answers = set()
    try:
        for core in sorted(allowed)[:4]:
            os.sched_setaffinity(0, {core})
            cpu_fingerprint.cache_clear()
            answers.add(cpu_fingerprint())
    finally:
        os.sched_setaffinity(0, allowed)
    (answer,) = answers
    assert answer is not None
    assert re.fullmatch("[0-9a-f]{64}", answer)


def test_the_host_target_is_what_llvm_says(tmp_path: Path) -> None:
    from dyn import config

    with config.override(cache_dir=str(tmp_path)):
        x86._this_machine.cache_clear()
        asked = x86._this_machine()
        x86._this_machine.cache_clear()
        remembered = x86._this_machine()
    x86._this_machine.cache_clear()
    binding = x86._binding()
    assert asked == remembered
    assert asked == target_for(binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())
    assert len(list(tmp_path.rglob("host_*.bin"))) == 1
