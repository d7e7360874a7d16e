"""Programs that fail, made as small as they can be, and the scripts that are written of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import pipeline
from dyn.diagnosis.stored import StoredProgram
from dyn.ir.opdef import REGISTRY
from tests.diagnosis.test_bisection import arguments, model, plant_in_variants

Array = np.ndarray[Any, Any]


def ops(text: str) -> list[str]:
    return [name for name in REGISTRY if f" {name}(" in text or f"= {name} " in text]


def test_a_wrong_kernel_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in_variants(monkeypatch, lambda variant: True)
    found = dyn.minify(dyn.jit(model), arguments())
    assert found.failure == "differs from the reference"
    assert (found.after, found.before > 8) == (1, True)
    assert "tanh" in found.program.text
    assert found.arrays[0].size == 1
    made, wanted = found.program(*found.arrays), found.program.reference(*found.arrays)
    assert abs(made[0] - wanted[0]).max() > 1e-3
    assert repr(found).splitlines()[0] == f"1 operation of {found.before}: differs from the reference"
    assert dyn.bisect(found.program, found.arrays).culprit == "group"


def test_an_error_that_a_size_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    lower = pipeline.lower_plan

    def refuse(plan: Any, *args: Any) -> Any:
        if any(op.opdef.name == "exponential" for op in plan.function.ops):
            raise dyn.errors.CompileError("registers are gone")
        return lower(plan, *args)

    monkeypatch.setattr(pipeline, "lower_plan", refuse)
    found = dyn.minify(dyn.jit(model), arguments())
    assert found.failure == "raises CompileError"
    assert found.after == 1
    assert "exponential" in found.program.text


def test_a_failure_of_ones_own() -> None:
    def fails(program: StoredProgram, arrays: Sequence[Array]) -> str:
        return "not finite" if any(not np.isfinite(one).all() for one in program(*arrays)) else ""

    def f(x: Any, y: Any) -> Any:
        return dnp.sqrt(dnp.log(x) + dnp.sum(y)) * 2 + y[0]

    found = dyn.minify(dyn.jit(f), (np.linspace(0, 1, 50), np.ones(4)), fails=fails)
    assert found.failure == "not finite"
    assert found.after == 1
    assert max(x.size for x in found.arrays) == 1


def test_what_does_not_fail_is_refused() -> None:
    with pytest.raises(dyn.errors.InvalidValueError) as error:
        dyn.minify(dyn.jit(model), arguments())
    assert str(error.value) == (
        "minify: model() does not fail for these arguments.\n  help: say with fails= what is wrong with it."
    )


def test_sizes_that_a_program_finds_out() -> None:
    def fails(program: StoredProgram, arrays: Sequence[Array]) -> str:
        return "has a large one" if any(one.size and one.max() > 10 for one in program(*arrays)) else ""

    f = dyn.jit(lambda x: dnp.cumsum(x[x > 0] * 2))
    found = dyn.minify(f, (np.arange(-3, 9, dtype="f4"),), fails=fails)
    assert found.after <= 2
    assert fails(found.program, found.arrays)


@pytest.mark.parametrize("large", [False, True])
def test_the_script_runs(tmp_path: Path, large: bool) -> None:
    table = np.arange(100, dtype="f4")

    def fails(program: StoredProgram, arrays: Sequence[Array]) -> str:
        return "is large" if max(one.max(initial=0) for one in program(*arrays)) >= 60 * (1 + 9 * large) else ""

    def f(x: Any) -> Any:
        rows = dnp.asarray([list(range(80))], dtype="f4") if large else 1.0
        return (x * rows).sum(keepdims=True) + dnp.take(dnp.asarray(table), 3)

    path = tmp_path / "small.py"
    found = dyn.minify(dyn.jit(f), (np.full((1, 80) if large else (3, 1), 20.5, "f4"),), fails=fails, path=path)
    assert found.path == str(path)
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "nothing differs from the reference"
    assert path.read_text().startswith('"""A program of dyn that is large."""\n')


def test_programs_as_text() -> None:
    text = dyn.jit(lambda x: x + 1).trace(np.zeros(3)).as_text()
    program = dyn.debug.program(text)
    assert program(np.zeros(0))[0].shape == (0,)
    assert program([1, 2])[0].tolist() == [2.0, 3.0]
    with pytest.raises(dyn.errors.ArgumentError, match="takes 1 arrays, not 2"):
        program([1], [2])
    with pytest.raises(dyn.errors.IRError):
        dyn.debug.program("func @f(")


def test_the_script_holds_any_text(tmp_path: Path) -> None:
    """Names and failures may have what ends a string of Python's."""
    path = tmp_path / "small.py"
    f = dyn.jit(lambda tree: tree["a\\'b\"c"] * tree['"""'])
    given = {"a\\'b\"c": np.float32(2), '"""': np.float32(3)}
    dyn.minify(f, [given], fails=lambda program, arrays: 'says """ \\x' if len(arrays) == 2 else "", path=path)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("nothing differs from the reference\n")
