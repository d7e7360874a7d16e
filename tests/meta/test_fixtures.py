"""The fixtures of ``tests/conftest.py``, each run inside a small pytest of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"

pytest_plugins = ["pytester"]


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with dyn's conftest, where toolchains may be missing."""
    monkeypatch.delenv("DYN_REQUIRE_TOOLCHAINS", raising=False)
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    return pytester


def golden_test(inner: pytest.Pytester, text: str) -> None:
    inner.makepyfile(test_inner=f"def test_g(golden):\n    golden('sub/g.txt', {text!r})\n")


def run(inner: pytest.Pytester, *arguments: str) -> tuple[int, str]:
    result = inner.runpytest_inprocess("-p", "no:cacheprovider", "-rs", *arguments)
    return int(result.ret), re.sub(r"^_+ .* _+$", "", result.stdout.str(), flags=re.MULTILINE)


def test_golden_life_cycle(inner: pytest.Pytester) -> None:
    path = inner.path / "golden" / "sub" / "g.txt"
    golden_test(inner, "one\ntwo")
    code, output = run(inner)
    assert code == 1
    assert "There is no golden/sub/g.txt yet." in output
    assert not path.exists()

    assert run(inner, "--update-golden")[0] == 0
    assert path.read_text(encoding="utf-8") == "one\ntwo\n"
    assert run(inner)[0] == 0

    golden_test(inner, "one\n2\n")
    code, output = run(inner)
    assert code == 1
    assert (
        "The text is not that of golden/sub/g.txt.\n"
        "\n"
        "--- golden/sub/g.txt\n"
        "+++ this run\n"
        "@@ -1,2 +1,2 @@\n"
        " one\n"
        "-two\n"
        "+2\n"
        "\n"
        "  help: if the new text is right: pytest --update-golden 'test_inner.py::test_g', and review the diff\n"
    ) in output
    assert path.read_text(encoding="utf-8") == "one\ntwo\n"

    assert run(inner, "--update-golden")[0] == 0
    assert path.read_text(encoding="utf-8") == "one\n2\n"


TOOLS = """
def test_there(require_tool, require_module):
    assert require_tool("no-such-tool", "sh").endswith("/sh")
    assert require_module("os.path").join("a", "b") == "a/b"

def test_no_tool(require_tool):
    require_tool("no-such-tool", "nor-this")

def test_no_module(require_module):
    require_module("cuda.no_such_module")
"""


def test_missing_toolchain_is_skipped_with_the_reason(inner: pytest.Pytester) -> None:
    inner.makepyfile(test_inner=TOOLS)
    code, output = run(inner)
    assert code == 0
    assert "1 passed, 2 skipped" in output
    assert "no-such-tool or nor-this is missing; install it and put it on the PATH\n" in output
    assert "the Python module cuda.no_such_module is missing; pip install -e '.[cuda]'\n" in output


def test_missing_toolchain_fails_where_it_is_required(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYN_REQUIRE_TOOLCHAINS", "1")
    inner.makepyfile(test_inner=TOOLS)
    code, output = run(inner)
    assert code == 1
    assert "2 failed, 1 passed" in output
    assert (
        "no-such-tool or nor-this is missing; install it and put it on the PATH."
        " (DYN_REQUIRE_TOOLCHAINS=0 skips this test instead.)\n"
    ) in output
