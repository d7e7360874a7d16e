"""The wheel: pure Python, with its licence and metadata; installed, it compiles and runs without the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from email import message_from_string
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest

import dyn
from dyn.requirements import DISTRIBUTION

ROOT = Path(dyn.__file__).parents[1]
PROGRAM = """
import sys, numpy as np, dyn, dyn.numpy as dnp
f = dyn.jit(lambda x: dnp.exp(x).sum(axis=-1))
assert f(np.zeros((2, 3), "f4")).tolist() == [3, 3] and f(np.zeros((0, 5), "f4")).shape == (0,)
print(dyn.__file__, f.cache_info().compiles)
"""


@pytest.fixture(scope="module")
def wheel(require_module: Callable[[str], ModuleType], tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_module("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = f"from hatchling.build import build_wheel; print(build_wheel({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", build], cwd=ROOT, capture_output=True, text=True, check=True)
    return folder / done.stdout.split()[-1]


def metadata(archive: zipfile.ZipFile, name: str) -> Message:
    (path,) = [entry for entry in archive.namelist() if entry.endswith(f".dist-info/{name}")]
    return message_from_string(archive.read(path).decode())


def test_it_is_pure_python_and_has_nothing_but_the_package(wheel: Path) -> None:
    assert wheel.name == f"{DISTRIBUTION}-{dyn.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert metadata(archive, "WHEEL")["Root-Is-Purelib"] == "true"
        names = archive.namelist()
        package = [name for name in names if ".dist-info/" not in name]
        assert {name.partition("/")[0] for name in package} == {"dyn"}
        assert {Path(name).suffix for name in package} == {".py", ".typed"}
        assert set(package) == {
            str(path.relative_to(ROOT)) for path in (ROOT / "dyn").rglob("*") if path.suffix in (".py", ".typed")
        }


def test_it_has_its_licence_and_says_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = metadata(archive, "METADATA")
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())
        assert "dyn = dyn.interop.torch.backend:backend" in str(metadata(archive, "entry_points.txt"))
    assert (found["Name"], found["License-Expression"], found["Requires-Python"]) == (
        DISTRIBUTION,
        "Apache-2.0",
        ">=3.11",
    )
    assert {"jax", "linalg", "torch", "tensorflow", "cuda", "notebook"} <= set(found.get_all("Provides-Extra") or ())
    needed = {re.split("[<>!=]", r)[0] for r in found.get_all("Requires-Dist") or () if "extra ==" not in r}
    assert needed == {"filelock", "llvmlite", "ml-dtypes", "numpy", "optree", "platformdirs"}


def test_installed_it_compiles_and_runs(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True, cwd=tmp_path)
    # The packages that it needs are this environment's; dyn itself is the wheel's.
    paths = os.pathsep.join([str(target), sysconfig.get_path("purelib")])
    environment = {**os.environ, "PYTHONPATH": paths, "DYN_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-S", "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(target / "dyn" / "__init__.py"), "1"]
