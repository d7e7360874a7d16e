"""Every notebook runs from its first cell to its last, and is kept without what it printed."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dyn

ROOT = Path(dyn.__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def nbformat(require_module: Callable[[str], ModuleType]) -> ModuleType:
    return require_module("nbformat")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_no_output_is_kept(path: Path, nbformat: Any) -> None:
    """``jupyter nbconvert --clear-output --inplace notebooks/*.ipynb`` removes what this finds."""
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            assert cell.outputs == [], f"cell {number} has outputs"
            assert cell.execution_count is None, f"cell {number} has a number"
        assert set(cell.metadata) <= {"tags"}, f"cell {number} has metadata"


def outputs(notebook: Any, kind: str) -> list[str]:
    """What all cells printed, or what they answered as ``kind``."""
    found: list[str] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and kind == output.name:
                found.append(output.text)
            elif output.output_type != "stream" and kind in output.data:
                found.append(output.data[kind])
    return found


def executed(name: str, nbformat: Any, require_module: Callable[[str], ModuleType]) -> Any:
    """A notebook after its last cell. An exception in a cell fails here, with the cell and its traceback."""
    require_module("ipykernel")
    require_module("matplotlib")
    nbclient = require_module("nbclient")
    notebook = nbformat.read(ROOT / "notebooks" / name, 4)
    # These sources, and one thread for NumPy's BLAS: several wait for one another where the machine is busy.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "DYN_LOG": ""}
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}})
    client.execute(env=environment)
    return notebook


@pytest.fixture(scope="module")
def first_steps(nbformat: Any, require_module: Callable[[str], ModuleType]) -> Any:
    return executed("01-first-steps.ipynb", nbformat, require_module)


def test_first_steps_compiles_once_for_many_shapes(first_steps: Any) -> None:
    printed = "".join(outputs(first_steps, "stdout"))
    assert printed.count("rows sum to 1 within") == 6
    answers = outputs(first_steps, "text/plain")
    assert any(text.startswith("CacheInfo(compiles=1, hits=6, guards=0") for text in answers)
    assert re.search(
        r"^NumPy, padded: \d+ ms, NumPy: \d+ ms, dyn: \d+ ms\nCacheInfo\(compiles=1, hits=26,", printed, re.M
    )


def test_first_steps_agrees_with_numpy(first_steps: Any) -> None:
    cell = next(cell for cell in first_steps.cells if "transformer(np, x)).max()" in cell.source)
    assert float(cell.outputs[0].data["text/plain"]) < 1e-4


def test_first_steps_shows_errors_guards_kernels_and_the_log(first_steps: Any) -> None:
    printed = "".join(outputs(first_steps, "stdout"))
    assert "w.shape[0] is 8, and it must be features = 9." in printed
    assert "x * weights broadcasts axis 1.\n" in printed
    assert "at cell:3  return dnp.sum(x * weights, axis=-1)" in printed
    assert "program 1 is for x_0 >= 2, and x_0 is 1 (cell:3  if x.shape[0] > 1:)" in printed
    assert "fold max" in printed
    logged = "".join(outputs(first_steps, "stderr"))
    assert "dyn.compile: <lambda>: compiling for its first call" in logged
    assert "dyn.guards: <lambda>: guard" in logged


def test_first_steps_has_pictures(first_steps: Any) -> None:
    pages = outputs(first_steps, "text/html")
    assert len(pages) == 2
    assert all("<svg" in page for page in pages)
    assert len(outputs(first_steps, "image/png")) == 1


def test_torch(nbformat: Any, require_module: Callable[[str], ModuleType]) -> None:
    for name in ("torch", "transformers"):
        require_module(name)
    printed = "".join(outputs(executed("torch.ipynb", nbformat, require_module), "stdout"))
    assert printed.count("of PyTorch\n") == 7
    assert "CacheInfo(compiles=1, hits=4," in printed
    assert printed.count("CacheInfo(compiles=1, ") >= 2
    assert "q_length > 1" in printed
    assert "an earlier program computes the same there" in printed
    assert "is required, but x_1 is 3 and weights_0 is 5" in printed
    assert "zeros: True 1 compile" in printed
    apart = re.search(r"apart from PyTorch by ([\d.e+-]+)$", printed, re.M)
    assert apart is not None
    assert float(apart[1]) < 1e-4


def test_tensorflow(nbformat: Any, require_module: Callable[[str], ModuleType]) -> None:
    """The kernel is a process of its own, in which nothing but TensorFlow is imported."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed: pip install 'tensorflow-cpu>=2.20,<2.22'")
    printed = executed("tensorflow.ipynb", nbformat, require_module)
    text, answers = "".join(outputs(printed, "stdout")), outputs(printed, "text/plain")
    assert text.count("of TensorFlow\n") == 5
    assert sum("CacheInfo(compiles=1, " in answer for answer in answers) == 2
    apart = re.search(r"^apart from Keras by ([\d.e+-]+)$", text, re.M)
    assert apart is not None
    assert float(apart[1]) < 1e-4
    assert "[[0.5, 0.5], [0.5, 0.5], [2.0, 2.0]]" in text
    assert "[(2, 3), (2, 3), (1, 3)] 1 compile" in text
    assert "Dilation2D: has no converter" in text


#: What notebooks that compare little need beside NumPy, and have to print.
SHORT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "02-symbolic-sizes.ipynb": ((), ("x[x > 0]: (count,)", "guard: x_0 == 7 |", "needed | x_0*x_1 % 6 == 0 |")),
    "03-shapes-beside-jax.ipynb": (
        ("jax",),
        ("CacheInfo(compiles=1, ", "JAX wants equal sizes", "training: CacheInfo(compiles=1, hits=13, guards=0, "),
    ),
    "04-gradients-and-loops.ipynb": ((), ("length 500: loss", "CacheInfo(compiles=1, hits=199, ")),
    "05-stablehlo.ipynb": (("jax",), ("stablehlo.dot_general", "f32[2*n, 3]", "it must be k = 5")),
    "06-signals.ipynb": ((), ("262 Hz", "2400 samples: nothing", "CacheInfo(compiles=1, hits=3, ")),
    "07-slow-or-recompiling.ipynb": ((), ("CacheInfo(compiles=3, hits=3, ", "ends: ", "one call of 1,000 steps")),
    "08-a-simulation.ipynb": (
        (),
        ("CacheInfo(compiles=1, hits=189, ", "3000 steps: ", "CacheInfo(compiles=1, hits=2, "),
    ),
}


#: What notebooks say of how near results are to others', and the most that may be.
NEAR = {
    "03-shapes-beside-jax.ipynb": (r"^losses differ by ([\d.e+-]+)$", 1e-4),
    "08-a-simulation.ipynb": (r"^after 50 steps within ([\d.e+-]+) of NumPy$", 1e-4),
}


@pytest.mark.parametrize("name", SHORT)
def test_runs_and_prints(name: str, nbformat: Any, require_module: Callable[[str], ModuleType]) -> None:
    modules, texts = SHORT[name]
    for module in modules:
        require_module(module)
    notebook = executed(name, nbformat, require_module)
    printed = "".join(outputs(notebook, "stdout"))
    for text in texts:
        assert text in printed
    if name in NEAR:
        assert len(outputs(notebook, "image/png")) == 2
        pattern, most = NEAR[name]
        found = re.search(pattern, printed, re.M)
        assert found is not None
        assert float(found[1]) <= most


def test_pytorch_served(
    nbformat: Any, require_module: Callable[[str], ModuleType], require_tool: Callable[..., str]
) -> None:
    require_module("torch")
    require_tool("g++")  # Inductor's
    notebook = executed("09-serving-pytorch.ipynb", nbformat, require_module)
    printed = "".join(outputs(notebook, "stdout"))
    apart = [float(text) for text in re.findall(r"within ([\d.e+-]+) of PyTorch$", printed, re.M)]
    assert len(apart) == 3
    assert max(apart) < 1e-4
    assert "CacheInfo(compiles=1, hits=29, guards=0, " in printed
    assert "CacheInfo(compiles=1, hits=62, guards=0, " in printed
    assert len(outputs(notebook, "image/png")) == 1


def test_gpu(nbformat: Any, require_module: Callable[[str], ModuleType]) -> None:
    require_module("cuda.bindings.nvrtc")
    printed = "".join(outputs(executed("gpu.ipynb", nbformat, require_module), "stdout"))
    assert 'extern "C" __global__ void __launch_bounds__(256) k_' in printed
    assert re.search(r"^ +\d+ shfl\.sync\.bfly\.b32$", printed, re.M)
    assert "buffers in the memory of a device" in printed
    assert printed.count(", none spilled") >= 4
    assert "spilled bytes: 0\n" in printed
    assert re.search(r"^\d+ kernels in [\d.]+ s of processor time$", printed, re.M)
    assert re.search(r"^product, float32 +4096 × 4096 × 4096 +1 +[\d.]+ +arithmetic +0\.\d\d$", printed, re.M)
