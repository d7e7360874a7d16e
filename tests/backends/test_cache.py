"""Compiled code on disk: what is kept, what is not believed, and what a disk may do to us."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.backends import binaries, cache, workers, x86
from dyn.backends.amx import INSTRUCTIONS
from dyn.backends.base import Effort, Source
from dyn.backends.binaries import Origin, cache_clear, cache_info
from dyn.backends.cache import CacheFolder, current_store
from dyn.backends.x86 import X86Backend, host_target, target_for
from dyn.config import parse_size
from dyn.errors import ArgumentError
from tests.threads import in_threads

ROOT = Path(__file__).resolve().parents[2]
MEGABYTE = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> CacheFolder:
    return CacheFolder(str(tmp_path / "code"), 64 * MEGABYTE)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    with caplog.at_level(logging.INFO, "dyn.cache"):
        yield lambda: [record.getMessage() for record in caplog.records if record.name == "dyn.cache"]


def files(folder: str | Path) -> list[str]:
    """The entries and temporary files, without the folder's own ``lock`` and ``pruned``."""
    return sorted(p.name for p in Path(folder).rglob("*") if p.is_file() and p.suffix in (".bin", ".tmp"))


# ---- entries ---------------------------------------------------------------------------------------------------------


def test_what_was_written_is_read(store: CacheFolder) -> None:
    assert store.read("a") is None
    for payload in (b"", b"x", bytes(range(256)) * 1000):
        store.write("a", payload)
        assert store.read("a") == payload
    assert CacheFolder(store.folder, 100).read("a") == payload
    assert files(store.folder) == ["a.bin"]
    assert os.stat(store.folder).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("cut", [0, 1, 8, 20, 55, 56, 57, 1000])
def test_a_truncated_entry_is_absent_and_removed(store: CacheFolder, cut: int, log: Any) -> None:
    store.write("a", b"x" * 1000)
    os.truncate(store.path("a"), cut)
    assert store.read("a") is None
    assert files(store.folder) == []
    assert log() == [f"{store.path('a')} is damaged or of another version; it is removed."]
    store.write("a", b"y")
    assert store.read("a") == b"y"


def test_every_damaged_bit_is_noticed(store: CacheFolder) -> None:
    store.write("a", b"payload")
    good = Path(store.path("a")).read_bytes()
    for at in [i for i in range(len(good)) if not 12 <= i < 16]:  # four bytes of padding mean nothing
        Path(store.path("a")).write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        assert store.read("a") is None, f"byte {at}"
    Path(store.path("a")).write_bytes(good + b"\0")
    assert store.read("a") is None


def test_an_entry_under_another_name_is_not_believed(store: CacheFolder) -> None:
    store.write("a", b"code of a")
    os.rename(store.path("a"), store.path("b"))
    assert store.read("b") is None


def test_another_format_is_absent(store: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    store.write("a", b"new")
    monkeypatch.undo()
    assert store.read("a") is None
    assert files(store.folder) == []


def test_what_is_no_file_is_absent(store: CacheFolder, log: Any) -> None:
    os.makedirs(store.path("folder"))
    os.mkfifo(store.path("pipe"))
    os.symlink(store.path("loop"), store.path("loop"))
    for key in ("folder", "pipe", "loop"):
        assert store.read(key) is None
        store.write(key, b"x")
    assert store.read("pipe") == store.read("loop") == b"x"
    assert store.read("folder") is None
    assert os.path.isdir(store.path("folder"))
    assert any("Is a directory" in line for line in log())


# ---- what a disk may do ----------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made(tmp_path: Path, log: Any) -> None:
    (tmp_path / "file").write_text("in the way")
    store = CacheFolder(str(tmp_path / "file" / "code"), MEGABYTE)
    for key in "abc":
        store.write(key, b"x")
        assert store.read(key) is None
    # One line for reading and one for writing, not one for each entry.
    assert log() == [
        f"cannot write in {store.folder}: Not a directory. Compiled code is not kept.",
        f"cannot read in {store.folder}: Not a directory. Compiled code is not kept.",
    ]
    assert store.entries() == []
    store.clear()
    store.prune()


def test_a_read_only_file_system(log: Any) -> None:
    store = CacheFolder("/proc/sys/dyn", MEGABYTE)
    store.write("a", b"x")
    assert store.read("a") is None
    assert len(log()) == 1
    assert log()[0].startswith("cannot write in /proc/sys/dyn: ")


def test_a_folder_that_is_deleted_under_us(store: CacheFolder) -> None:
    store.write("a", b"x")
    shutil.rmtree(store.folder)
    assert store.read("a") is None
    assert store.entries() == []
    store.write("b", b"y")
    assert store.read("b") == b"y"


def test_a_full_disk(tmp_path: Path) -> None:
    """A limit on the size of files makes a write fail in its middle, as a full disk does."""
    code = """
        import resource, sys
        from dyn.backends.cache import CacheFolder
        resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))
        store = CacheFolder(sys.argv[1], 1 << 30)
        store.write("small", b"x" * 100)
        store.write("large", b"x" * 100000)
        print(store.read("small") == b"x" * 100, store.read("large"))
    """
    assert python(code, str(tmp_path)).stdout == "True None\n"
    assert files(tmp_path) == ["small.bin"]


def test_an_entry_that_is_too_large_is_not_kept(tmp_path: Path) -> None:
    store = CacheFolder(str(tmp_path), 1000)
    store.write("a", b"x" * 1001)
    assert files(tmp_path) == []


# ---- many processes --------------------------------------------------------------------------------------------------


def python(code: str, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], cwd=ROOT, env=os.environ | environment,
        capture_output=True, text=True, check=check, timeout=120,
    )  # fmt: skip


def test_a_killed_writer_leaves_nothing_to_read(tmp_path: Path) -> None:
    """It is killed with the bytes on disk and the entry not in place, then at any moment of a busy loop."""
    code = """
        import os, sys
        from dyn.backends.cache import CacheFolder
        store = CacheFolder(sys.argv[1], 1 << 30)
        if sys.argv[2] == "before":
            os.replace = lambda *names: os.kill(os.getpid(), 9)
        print("ready", flush=True)
        while True:
            for letter in b"ab":
                store.write("key", bytes([letter]) * (4 << 20))
    """
    first = python(code, str(tmp_path), "before", check=False)
    assert first.returncode == -9
    store = CacheFolder(str(tmp_path), 1 << 30)
    assert store.read("key") is None
    assert [Path(name).suffix for name in files(tmp_path)] == [".tmp"]
    for pause in (0.0, 0.003, 0.01, 0.02, 0.05):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), "any"], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pause)
        process.kill()
        process.communicate()
        found = store.read("key")
        assert found is None or found in (b"a" * (4 << 20), b"b" * (4 << 20))
    # What dead writers left goes when it is old enough that no writer can be at it.
    store.prune()
    left = [name for name in files(tmp_path) if name.endswith(".tmp")]
    assert left
    for name in left:
        os.utime(tmp_path / name, (0, 0))
    store.prune()
    assert [name for name in files(tmp_path) if name.endswith(".tmp")] == []


def test_processes_that_write_read_and_prune_at_once(tmp_path: Path) -> None:
    code = """
        import random, sys
        from dyn.backends.cache import CacheFolder
        store = CacheFolder(sys.argv[1], 200000)
        chance = random.Random(int(sys.argv[2]))
        hits = 0
        for _ in range(300):
            number = chance.randrange(20)
            right = bytes([number]) * (1000 * number)
            found = store.read(f"k{number}")
            assert found is None or found == right, number
            hits += found is not None
            store.write(f"k{number}", right)
        print(hits)
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), str(seed)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for seed in range(3)
    ]  # fmt: skip
    for process in processes:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert int(out) > 0
    store = CacheFolder(str(tmp_path), 200000)
    assert sum(entry.size for entry in store.entries()) < 200000 + 3 * 200000 // 16 + 20000
    assert not [name for name in files(tmp_path) if name.endswith(".tmp")]


def test_the_entries_unused_for_longest_go_first(tmp_path: Path) -> None:
    store = CacheFolder(str(tmp_path), 10000)
    for number in range(9):
        store.write(f"k{number}", b"x" * 1000)
        os.utime(store.path(f"k{number}"), (1000 + number, 1000 + number))
    assert store.read("k0") == b"x" * 1000  # used now
    store.write("k9", b"x" * 1000)
    store.prune()
    assert files(tmp_path) == ["k0.bin", "k4.bin", "k5.bin", "k6.bin", "k7.bin", "k8.bin", "k9.bin"]


# ---- compiled programs -----------------------------------------------------------------------------------------------

PROGRAM = """
    import json, sys
    import numpy as np, dyn, dyn.numpy as dnp
    @dyn.jit
    def f(x):
        return dnp.sum(dnp.exp(x) * 2, axis=-1) + 1
    for n in (0, 1, 2, 7, 64, 1000):
        x = np.linspace(0, 1, 3 * n, dtype="f4").reshape(3, n)
        np.testing.assert_allclose(f(x), np.sum(np.exp(x) * 2, axis=-1) + 1, rtol=1e-5)
    (version,) = f.programs
    info = dyn.backends.binaries.cache_info()
    print(json.dumps({
        "origins": [origin.value for origin in version.record.origins], "llvmlite": "llvmlite" in sys.modules,
        "explain": str(f.explain()), "hits": info.disk_hits, "misses": info.misses, "entries": info.entries,
        "compiles": f.cache_info().compiles,
    }))
"""


def run_program(folder: Path | str) -> dict[str, Any]:
    """With the verifier, which has every pass run: the objects alone are found, no whole programs; and without kernels
    that calls can do without."""
    return json.loads(python(PROGRAM, DYN_CACHE_DIR=str(folder), DYN_VERIFY="1", DYN_VARIANTS="none").stdout)


def test_a_second_process_compiles_nothing_and_needs_no_llvm(tmp_path: Path) -> None:
    cold = run_program(tmp_path)
    assert cold["origins"] == ["compiled"] * len(cold["origins"])
    assert cold["llvmlite"]
    # The kernels and the host program, the runtime, the entry, the tests of tile instructions where this processor has
    # them, and its name.
    others = 2 + sum(host_target().has(one.feature) for one in INSTRUCTIONS)
    assert (cold["misses"], cold["hits"]) == (len(cold["origins"]) + others, 0)
    assert cold["entries"] == cold["misses"] + 1
    warm = run_program(tmp_path)
    assert warm["origins"] == ["from disk"] * len(cold["origins"])
    assert not warm["llvmlite"]
    assert (warm["misses"], warm["hits"], warm["entries"]) == (0, cold["misses"], cold["entries"])
    assert (cold["compiles"], warm["compiles"]) == (1, 1)
    count = len(cold["origins"]) - 1
    kernels = f"{count} distinct kernel{'s' if count > 1 else ''}"
    assert f"{kernels}: {count} compiled" in cold["explain"]
    assert f"{kernels}: {count} from disk" in warm["explain"]


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    cold = run_program(tmp_path)
    for number, path in enumerate(sorted(tmp_path.rglob("*.bin"))):
        data = path.read_bytes()
        path.write_bytes((b"", data[: len(data) // 2], data[:-1] + b"\xa5", b"\0" * len(data))[number % 4])
    again = run_program(tmp_path)
    assert again["origins"] == cold["origins"]
    assert run_program(tmp_path)["misses"] == 0


def test_two_processes_compile_the_same_at_once(tmp_path: Path) -> None:
    code = textwrap.dedent(PROGRAM)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"DYN_CACHE_DIR": str(tmp_path)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert run_program(tmp_path)["misses"] == 0


@pytest.mark.parametrize("folder", ["0", "/proc/sys/dyn"])
def test_programs_run_without_a_cache(folder: str) -> None:
    found = run_program(folder)
    assert set(found["origins"]) == {"compiled"}
    assert found["entries"] == 0


def test_other_targets_have_other_entries(tmp_path: Path) -> None:
    source = Source("define i64 @forty() {\n  ret i64 40\n}\n", ("forty",))
    backends = [X86Backend(target_for(cpu)) for cpu in ("x86-64", "x86-64-v3", "znver4")]
    with config.override(cache_dir=str(tmp_path)):
        origins = [backend.build(source).origin for backend in backends]
        again = [backend.build(source).origin for backend in backends]
    assert origins == [Origin.COMPILED] * 3
    assert again == [Origin.MEMORY] * 3
    assert len(list(tmp_path.rglob("*.bin"))) == 3
    keys = {X86Backend(host_target()).key(s) for s in (source, Source(source.text, source.symbols, Effort.QUICK))}
    assert len(keys) == 2


def test_another_llvm_has_other_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("text", ("f",))
    key = X86Backend().key(source)
    monkeypatch.setattr(x86, "toolchain", lambda: "llvmlite 0.51")
    assert X86Backend().key(source) != key


def test_origins_and_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x86, "_BINARIES", binaries.Binaries())
    monkeypatch.setattr(binaries, "_COUNTS", binaries._Counts())
    backend = X86Backend()
    sources = [Source(f"define i64 @n{n}() {{\n  ret i64 {n}\n}}\n", (f"n{n}",)) for n in range(5)]

    def origins() -> list[str]:
        return [built.origin.value for built in backend.build_all([*sources, sources[0]])]

    with config.override(cache_dir=str(tmp_path), cache_size=MEGABYTE):
        assert origins() == ["compiled"] * 6
        assert origins() == ["from memory"] * 6
        x86._BINARIES.clear()
        assert origins() == ["from disk"] * 6
        info = cache_info()
        assert info[:2] == (str(tmp_path / "v1"), 5)
        assert info[3:] == (MEGABYTE, 5, 5, 5)
        assert info.size == sum(p.stat().st_size for p in tmp_path.rglob("*.bin"))
        cache_clear()
        assert cache_info().entries == 0
    with config.override(cache_dir="0"):
        cache_clear()
        assert cache_info() == ("", 0, 0, 0, 5, 5, 5)


def test_many_sources_are_compiled_in_parallel_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "workers", lambda: 4)
    backend = X86Backend()
    sources = [Source(f"define i64 @p{n}() {{\n  ret i64 {n}\n}}\n", (f"p{n}",)) for n in range(40)]
    with config.override(cache_dir="0"):
        built = backend.build_all(sources)
    assert [b.binary.symbols for b in built] == [s.symbols for s in sources]
    assert {b.origin for b in built} == {Origin.COMPILED}


def test_a_program_may_be_compiled_while_the_interpreter_goes_down() -> None:
    code = """
        import atexit
        import numpy as np, dyn, dyn.numpy as dnp
        f = dyn.jit(lambda x: dnp.sum(dnp.exp(x), axis=-1) * 2)
        g = dyn.jit(lambda x: dnp.sum(dnp.exp(x), axis=-1) * 3)
        f(np.zeros((2, 3), "f4"))
        atexit.register(lambda: print(g(np.zeros((2, 3), "f4"))))
    """
    done = python(code, DYN_CACHE_DIR="0")
    assert (done.stdout, done.stderr) == ("[9. 9.]\n", "")


def test_the_child_of_a_fork_compiles_too() -> None:
    code = """
        import os, warnings
        import numpy as np, dyn, dyn.numpy as dnp
        warnings.simplefilter("ignore")
        f = dyn.jit(lambda x: dnp.sum(dnp.exp(x), axis=-1) * 2)
        g = dyn.jit(lambda x: dnp.sum(dnp.exp(x), axis=-1) * 3)
        f(np.zeros((2, 3), "f4"))
        child = os.fork()
        if child == 0:
            good = g(np.zeros((2, 3), "f4")).tolist() == [9.0, 9.0]
            os._exit(0 if good else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert python(code, DYN_CACHE_DIR="0").stdout == "0\n"


def test_threads_that_need_the_same_kernel_compile_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    emit = X86Backend._object

    def count(self: X86Backend, source: Source) -> bytes:
        compiled.append(source.symbols[0])
        return emit(self, source)

    monkeypatch.setattr(X86Backend, "_object", count)
    backend = X86Backend()
    sources = [Source(f"define i64 @q{n}() {{\n  ret i64 {n}\n}}\n", (f"q{n}",)) for n in range(6)]

    def work(turn: int) -> list[bytes]:
        with config.override(cache_dir="0"):
            built = backend.build_all(sources[turn % 6 :] + sources[: turn % 6])
        by_symbol = sorted(built, key=lambda b: b.binary.symbols)
        return [b.binary.data for b in by_symbol]

    results = in_threads(work, range(8))
    assert sorted(compiled) == [f"q{n}" for n in range(6)]
    assert all(found == results[0] for found in results)


def test_objects_compiled_at_the_same_time_are_those_compiled_in_turn() -> None:
    """Code generation runs past llvmlite's lock."""

    @dyn.jit
    def f(x, w):
        y = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
        return dnp.tanh(y / dnp.sum(y, axis=-1, keepdims=True) @ w), dnp.sum(dnp.sqrt(dnp.abs(x)), axis=0)

    shapes = [dyn.ShapeDtypeStruct((None, None), "float32")] * 2
    compiled = f.trace(*shapes).lower().compile()
    sources = compiled.version.record.sources
    assert len(sources) > 4
    backend = X86Backend()
    in_turn = [backend._object(source) for source in sources]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(3):
            assert list(pool.map(backend._object, sources)) == in_turn


# ---- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000", 1000), ("3k", 3072), ("512M", 512 << 20), (" 2 GiB ", 2 << 30), ("1TB", 1 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "DYN_CACHE_SIZE") == size


def test_what_is_no_size() -> None:
    for text in ("", "many", "1.5G", "-1", "1X"):
        with pytest.raises(ArgumentError) as error:
            parse_size(text, "DYN_CACHE_SIZE")
        assert str(error.value) == (
            f"DYN_CACHE_SIZE={text!r} is not a size.\n  help: write a number of bytes, or one with K, M, G or T: 512M."
        )


def test_the_folder_is_the_users_own_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache._store.cache_clear()
    with config.override(cache_dir=None):
        store = current_store()
    cache._store.cache_clear()
    assert store is not None
    assert store.folder == str(tmp_path / "dyn" / "v1")
    assert store.limit == 1 << 30


@pytest.mark.parametrize("folder", ["", "0", "off", "false"])
def test_nothing_is_kept_where_the_setting_says_so(folder: str) -> None:
    with config.override(cache_dir=folder):
        assert current_store() is None


def test_these_tests_do_not_use_it() -> None:
    folder = config.current().cache_dir
    assert folder is not None
    assert "dyn-tests-" in folder
