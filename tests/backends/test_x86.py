"""The x86 backend: targets, objects, loading, threads."""

from __future__ import annotations

import ctypes
import re

import pytest

from dyn import config
from dyn.backends import x86
from dyn.backends.amx import Compile
from dyn.backends.base import Backend, Source
from dyn.backends.x86 import X86Backend, host_target, target_for
from dyn.errors import CompileError
from tests.threads import in_threads

ADD = "define i64 @{name}(i64 %a) {{\n  %b = add i64 %a, {n}\n  ret i64 %b\n}}\n"


def test_it_is_a_backend() -> None:
    backend: Backend = X86Backend()
    assert backend.unavailable() is None
    assert backend.target == host_target()
    assert backend.target.family == "x86"


@pytest.mark.parametrize(
    ("cpu", "features", "width", "registers"),
    [
        ("znver4", "", 64, 32),
        ("x86-64-v3", "", 32, 16),
        ("x86-64", "", 16, 16),
        ("nocona", "", 16, 16),
        ("anything", "+avx512f,+avx512dq,+avx512bw,+avx512vl,+avx2", 64, 32),
        ("anything", "+avx512f,+avx2,+fma,+f16c,-avx512dq", 32, 16),
        ("anything", "+avx2,-fma", 16, 16),
    ],
)
def test_vector_widths(cpu: str, features: str, width: int, registers: int) -> None:
    target = target_for(cpu, features)
    assert (target.vector_bytes, target.registers) == (width, registers)


def test_features_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tile registers are asked for and tested, whether LLVM says what there is or the cache does."""
    seen: list[str] = []

    def usable(features: str, compile: Compile) -> str:
        symbol = "usable"
        address = compile(ADD.format(name=symbol, n=4), (symbol,))[symbol]
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(1) == 5
        seen.append(features)
        return f"{features},-amx-bf16"

    monkeypatch.setattr(x86, "usable_features", usable)
    whole = host_target().features
    assert x86._this_machine.__wrapped__().features == f"{whole},-amx-bf16"  # pyright: ignore[reportPrivateUsage]
    assert seen == [whole]


def test_the_setting_names_the_cpu() -> None:
    with config.override(target_cpu="x86-64-v3"):
        assert host_target() == target_for("x86-64-v3")
        assert X86Backend().target.vector_bytes == 32


def test_equal_sources_are_compiled_once() -> None:
    backend = X86Backend()
    text = ADD.format(name="once", n=1)
    first = backend.compile(Source(text, ("once",)))
    assert backend.compile(Source(text, ("once",))) is first
    assert first.data.startswith(b"\x7fELF")


def test_the_same_symbol_may_be_loaded_twice() -> None:
    backend = X86Backend()
    addresses = [
        backend.load(backend.compile(Source(ADD.format(name="twice", n=n), ("twice",)))).address("twice")
        for n in (1, 2)
    ]
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert [function(address)(10) for address in addresses] == [11, 12]


def test_bad_text_is_a_bug_that_is_shown() -> None:
    with pytest.raises(CompileError) as error:
        X86Backend().compile(Source("define void @f() {\n  ret i32 0\n}\n", ("f",)))
    assert str(error.value) == (
        "LLVM refused the text of f.\n"
        "  LLVM IR parsing error\n"
        "  <string>:2:7: error: value doesn't match function result type 'void'\n"
        "    ret i32 0\n"
        "        ^\n"
        "  help: this is a bug in dyn; please report it with the text."
    )


def test_many_threads() -> None:
    backend = X86Backend()

    def work(n: int) -> int:
        source = Source(ADD.format(name=f"thread{n}", n=n), (f"thread{n}",))
        address = backend.load(backend.compile(source)).address(f"thread{n}")
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(100)

    assert in_threads(work, range(16)) == [100 + n for n in range(16)]


def test_assembly() -> None:
    text = X86Backend(target_for("x86-64-v3")).assembly(Source(ADD.format(name="shown", n=7), ("shown",)))
    assert re.search(r"shown:\n(.*\n)*?\s+leaq\s+7\(%rdi\), %rax\n", text), text
