"""The folder of ``DYN_DUMP``: programs of one name keep apart, and the index tells why each was compiled."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dyn
from dyn.errors import CompileError
from dyn.explain.dump import dump_program

ROOT = Path(dyn.__file__).parents[1]


def step(x):
    return x + 1 if x.shape[0] > 2 else x * 2


_LINE = "return x + 1 if x.shape[0] > 2 else x * 2"


def entries(folder: Path) -> list[str]:
    return re.split(r"^(?=program )", (folder / "index.txt").read_text(), flags=re.MULTILINE)[1:]


def test_programs_of_one_name_keep_apart(tmp_path: Path) -> None:
    f = dyn.jit(step)
    with dyn.config.override(dump=str(tmp_path)):
        for x in (np.ones(1, "f4"), np.ones(3, "f4"), np.ones(3, "f8"), np.ones(9, "f4")):
            f(x)
    assert f.cache_info().compiles == 3
    texts = [(tmp_path / f"step.{n:04d}.00-trace.txt").read_text() for n in (1, 2, 3)]
    assert [("multiply" in text, "f64" in text) for text in texts] == [(True, False), (False, False), (False, True)]
    line = step.__code__.co_firstlineno + 1
    told = [re.sub(r"\d+\.\d", "0.0", entry) for entry in entries(tmp_path)]
    ms = re.compile(r"  ms: trace 0\.0, find 0\.0, inline_calls 0\.0, .*, render 0\.0, compile 0\.0; all 0\.0\n")
    assert [bool(ms.search(entry)) for entry in told] == [True] * 3
    day = re.compile(r", \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
    assert [day.sub("", ms.sub("", entry).strip()) for entry in told] == [
        f"program {number}: step\n  compiled {why}\n  dims: x_0 = x.shape[0]\n  files: step.{number:04d}.*\n"
        f"  process {os.getpid()}"
        for number, why in (
            (1, "as the first of its function"),
            (2, f"because program 1 is for 2 >= x_0, and x_0 is 3 (test_dump.py:{line}  {_LINE})"),
            (3, "because x is float64, and was float32 in program 2, the nearest"),
        )
    ]


def test_what_was_there_stays(tmp_path: Path) -> None:
    for _ in range(2):
        with dyn.config.override(dump=str(tmp_path)):
            dyn.jit(lambda x: x + 1)(np.ones(0, "f4"))
    pages = sorted(path.name for path in tmp_path.glob("*.compile.html"))
    assert pages == ["lambda.0001.compile.html", "lambda.0002.compile.html"]


def test_names_are_names_of_files(tmp_path: Path) -> None:
    def f(x):
        return x + 1

    f.__name__ = f.__qualname__ = "ö/../" + "ä" * 300
    with dyn.config.override(dump=str(tmp_path)):
        dyn.jit(f)(np.ones(0, "f4"))
    (page,) = tmp_path.glob("*.compile.html")
    assert re.fullmatch(r"ö_ä{46}\.0001\.compile\.html", page.name)


def test_a_program_that_no_compiler_takes_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise CompileError("the compiler said no", remedy="none")

    monkeypatch.setattr("dyn.pipeline.compile_parts", fail)
    with dyn.config.override(dump=str(tmp_path)), pytest.raises(CompileError):
        dyn.jit(step)(np.ones(3, "f4"))
    assert entries(tmp_path)[0].splitlines()[1] == "  not compiled: CompileError: the compiler said no"
    assert (tmp_path / "step.0001.16-host.txt").exists()
    assert not list(tmp_path.glob("*.compile.html"))
    index = (tmp_path / "index.html").read_text()
    assert "<li>step, program 1 <small>not compiled: CompileError: the compiler said no</small></li>" in index


_PROCESS = """
import sys, threading, numpy as np, dyn
def step(x, k):
    return x * k
f = dyn.jit(step, static_argnums=1)
threads = [threading.Thread(target=f, args=(np.ones(3, "f4"), k)) for k in range(int(sys.argv[1]))]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert f.cache_info().compiles == len(threads)
"""


def test_threads_and_processes_write_into_one_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "DYN_DUMP": str(tmp_path), "DYN_OPTIMIZE": "0"}
    command = [sys.executable, "-c", _PROCESS, "8"]
    processes = [subprocess.Popen(command, cwd=ROOT, env=environment) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    numbers = [int(entry.split(":")[0].removeprefix("program ")) for entry in entries(tmp_path)]
    assert sorted(numbers) == list(range(1, 25))
    by_process = [entry.partition("  process ")[2].partition(",")[0] for entry in entries(tmp_path)]
    assert sorted(by_process) == sorted([str(process.pid) for process in processes] * 8)
    index = (tmp_path / "index.html").read_text()
    assert index.count("<!DOCTYPE html>") == 1
    assert sorted(re.findall(r'href="([^"]*)"', index)) == sorted(p.name for p in tmp_path.glob("*.compile.html"))
    assert len(list(tmp_path.glob("step.*.00-trace.txt"))) == 24
    assert not list(tmp_path.glob("index.html.*"))


def test_a_thousand_programs_have_a_number_each(tmp_path: Path) -> None:
    f = dyn.jit(step)
    with dyn.config.override(dump=str(tmp_path)):
        f(np.ones(3, "f4"))
    (report,) = f.explain().versions
    record = dyn.jit(step).trace(np.ones(3, "f4")).lower().compile().version.record
    record.sources = ()

    def dump(number: int) -> str:
        return dump_program(str(tmp_path), report.optimized, record, lambda source: "")

    with ThreadPoolExecutor(8) as threads:
        stems = list(threads.map(dump, range(999)))
    assert sorted(stems) == [str(tmp_path / f"step.{number:04d}") for number in range(2, 1001)]
    assert len(entries(tmp_path)) == 1000
