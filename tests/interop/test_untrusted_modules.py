"""The process that reads modules before this one does: it stays, it ends, and it has what address space there is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dyn.backends.python_process import PythonServer
from dyn.errors import ArtifactError
from dyn.interop.stablehlo import load
from dyn.interop.stablehlo.mlir import guard, untrusted_modules

pytest.importorskip("jaxlib")
FOUND = Path(__file__).parent / "fuzz_corpus" / "found"

DOUBLE = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.add %x, %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
ASIN = """
func.func @main(%x: tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>> {
  %0 = chlo.asin %x : tensor<?xcomplex<f32>> -> tensor<?xcomplex<f32>>
  return %0 : tensor<?xcomplex<f32>>
}
"""


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[PythonServer]:
    made = PythonServer(untrusted_modules.__file__)
    monkeypatch.setattr(guard, "_READER", made)
    yield made
    made.end()


def pids(reader: PythonServer) -> list[int]:
    return [process.pid for process in reader.idle]


def test_one_process_reads_one_module_after_the_other(reader: PythonServer) -> None:
    """Texts, and what is written out of CHLO; one that ends its reader ends a fork alone."""
    np.testing.assert_array_equal(load(DOUBLE)(np.ones(3, "f4")), [2, 2, 2])
    (first,) = pids(reader)
    with pytest.raises(ArtifactError, match="MLIR's reader ended with signal 8"):
        load((FOUND / "no_groups.mlir").read_text())
    x = np.array([0.25 + 0.5j], "c8")
    np.testing.assert_allclose(load(ASIN)(x), np.arcsin(x), 1e-6)
    assert pids(reader) == [first]
    os.kill(first, 9)  # as if it had waited too long
    np.testing.assert_array_equal(load(DOUBLE)(np.ones(2, "f4")), [2, 2])
    assert pids(reader) != [first]


def test_what_is_trusted_is_read_here(reader: PythonServer) -> None:
    np.testing.assert_array_equal(load(DOUBLE, trusted=True)(np.ones(3, "f4")), [2, 2, 2])
    assert pids(reader) == []


def test_an_interrupted_question_ends_its_process(reader: PythonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to it is nobody's, and not that to the next."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    load(DOUBLE)
    (first,) = pids(reader)
    with monkeypatch.context() as patched:
        patched.setattr("dyn.backends.python_process.Ended", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load(DOUBLE)
    assert pids(reader) == []
    load(DOUBLE)
    assert pids(reader) not in ([], [first])


def test_a_forked_child_has_a_process_of_its_own(reader: PythonServer) -> None:
    load(DOUBLE)
    before = pids(reader)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if pids(reader) == []:
                load(DOUBLE)
                status = int(pids(reader) in ([], before))
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    load(DOUBLE)
    assert pids(reader) == before


LIMITED = f"""
import resource
import numpy as np
from dyn.interop.stablehlo import load
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
print(load({DOUBLE!r})(np.ones(2, "f4")))
from dyn.errors import ArtifactError
from dyn.interop.stablehlo.mlir import guard
try:
    load(open({str(FOUND)!r} + "/segfault.bin", "rb").read())
except ArtifactError as error:
    print(error)
"""


def test_little_address_space_is_no_damage() -> None:
    """Where there is less than the reader may take, modules are read all the same, and what fails says so."""
    made = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert made.stdout.splitlines() == [
        "[2. 2.]",
        "this module is not read: MLIR's reader ended with signal 11, where processes have 3072 MiB of address space "
        "(ulimit -v).",
        "  help: the least that is sure to do is 8192 MiB; with that much the bytes would be damaged, or made by "
        "something else than MLIR.",
    ]
