"""``DYN_LOG``: what is logged, to whom, and what is refused."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import dyn
from dyn import events


def plain(text: str) -> list[str]:
    """The lines, with times as N."""
    return re.sub(r"\d+\.\d", "N", text).splitlines()


@dyn.jit
def branchy(x):
    if x.shape[0] > 128:
        return x * 2
    return x * 3


def test_compile_and_guards_are_lines_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    line = branchy.__wrapped__.__code__.co_firstlineno + 2
    with dyn.config.override(log="compile, guards"):
        branchy(np.ones(3, "f4"))
        branchy(np.ones(4, "f4"))
        branchy(np.ones(300, "f4"))
    captured = capsys.readouterr()
    assert captured.out == ""
    where = f"test_log.py:{line}"
    told = plain(captured.err)
    assert [re.sub(r"\(ms: .*\)", "STAGES", text) for text in told] == [
        "dyn.compile: branchy: compiling for its first call",
        "dyn.compile: branchy: compiled in N ms, 1 distinct kernel STAGES",
        f"dyn.guards: branchy: guard 128 >= x_0 recorded: the branch on not x_0 > 128 ({where})",
        f"dyn.compile: branchy: compiling because program 1 is for 128 >= x_0, and x_0 is 300 ({where}  "
        "if x.shape[0] > 128:)",
        "dyn.compile: branchy: compiled in N ms, 1 distinct kernel STAGES",
        f"dyn.guards: branchy: guard x_0 >= 129 recorded: the branch on x_0 > 128 ({where})",
    ]
    for stage in ("trace N", "stitch N", "compile N", "load N"):
        assert stage in told[1]


def test_silent_without_the_setting(capsys: pytest.CaptureFixture[str]) -> None:
    dyn.jit(lambda x: x - 1)(np.ones(3, "f4"))
    assert capsys.readouterr() == ("", "")


def test_only_the_topics_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with dyn.config.override(log="cache"):
        events.compiled("a %s", 1)
        events.cache("found %s", "k_1")
        events.guards("b")
    assert capsys.readouterr().err == "dyn.cache: found k_1\n"


def test_the_cache_tells_what_was_compiled_and_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    with dyn.config.override(log="cache"):
        for _ in range(2):
            dyn.jit(lambda x: x * 12.5 + 3.25)(np.ones(3, "f4"))
    lines = capsys.readouterr().err.splitlines()
    (compiled,) = [re.sub(r"k_[0-9a-f]+", "K", line) for line in lines if "k_" in line]
    assert compiled.startswith("dyn.cache: K: compiled for x86:")
    assert lines[-1] == "dyn.cache: lambda: the code of an equal program found in memory"


def test_programs_that_configure_logging_get_the_events(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="dyn"):
        dyn.jit(lambda x: x - 2)(np.ones(3, "f4"))
    assert [record.name for record in caplog.records if record.name == "dyn.compile"] == ["dyn.compile"] * 2
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_wanted_says_whether_anybody_listens() -> None:
    assert not events.wanted("compile")
    with dyn.config.override(log="compile"):
        assert events.wanted("compile")
        assert not events.wanted("cache")


UNKNOWN = (
    "DYN_LOG='compile,gards': there is no topic 'gards'.\n"
    "  help: name some of compile, guards, cache, with commas between them."
)


def test_an_unknown_topic_is_refused() -> None:
    with pytest.raises(dyn.errors.ArgumentError) as caught, dyn.config.override(log="compile,gards"):
        pass
    assert str(caught.value) == UNKNOWN


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_the_variable_is_read_when_dyn_is_imported() -> None:
    code = "import numpy as np, dyn; dyn.jit(lambda x: x + 1)(np.ones(3))"
    result = run(code, DYN_LOG="compile")
    assert (result.returncode, result.stdout) == (0, "")
    first, second = plain(result.stderr)
    assert first == "dyn.compile: <lambda>: compiling for its first call"
    assert second.startswith("dyn.compile: <lambda>: compiled in N ms, 1 distinct kernel")
    result = run("import dyn", DYN_LOG="compile,gards")
    assert result.returncode == 1
    assert result.stderr.endswith(f"ArgumentError: {UNKNOWN}\n")
