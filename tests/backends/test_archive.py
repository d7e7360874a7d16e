"""Archives of objects: what is packed comes back, other tools read it, and nothing else is taken for one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dyn
from dyn.backends.archive import is_archive, pack, unpack
from dyn.backends.x86 import X86Backend
from dyn.errors import ArtifactError

FILES = {"dyn.tile.packed.whole.v16f32.8x3.s48.u1": b"odd", "k": b"", "f": b"even"}


def test_what_is_packed_comes_back_in_order() -> None:
    data = pack(FILES)
    assert is_archive(data)
    assert list(unpack(data).items()) == list(FILES.items())


def test_binutils_reads_it(tmp_path: Path, require_tool: Callable[..., str]) -> None:
    path = tmp_path / "a.a"
    path.write_bytes(pack(FILES))
    listed = subprocess.run([require_tool("ar"), "t", str(path)], capture_output=True, text=True, check=True)
    assert listed.stdout.split() == list(FILES)


@pytest.mark.parametrize("cut", [1, 30, 59, 75, 130])
def test_what_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(ArtifactError, match="this is not an archive of kernels: it "):
        unpack(pack({"first": b"12", "second": b"3456"})[: -cut or None])


def test_kernels_share_their_micro_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    emit = X86Backend._object

    def counting(self: X86Backend, source: object) -> bytes:
        compiled.extend(source.symbols)  # pyright: ignore[reportAttributeAccessIssue]
        return emit(self, source)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(X86Backend, "_object", counting)
    with dyn.config.override(cache_dir=""):
        a, b = np.ones((37, 211), "f4"), np.ones((211, 53), "f4")
        f = dyn.jit(lambda a, b: a @ b * 3.25 + 1.5)
        np.testing.assert_allclose(f(a, b), a @ b * 3.25 + 1.5)
        first = [name for name in compiled if name.startswith("dyn.tile.")]
        compiled.clear()
        g = dyn.jit(lambda a, b: (a @ b - 1.25) * 7.5)
        np.testing.assert_allclose(g(a, b), (a @ b - 1.25) * 7.5)
    assert not [name for name in compiled if name in first]
    assert any(name.startswith("k_") for name in compiled)
    assert f.trace(a, b).lower().compile().as_text("llvm").count("define internal void @dyn.tile.") >= 1
