"""What users' type checkers say of dyn: pyright, in strict mode, on a program that declares its arguments."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import dyn
from dyn.trace.methods import METHODS

ROOT = Path(dyn.__file__).parents[1]

PROGRAM = """
from __future__ import annotations

import numpy as np

import dyn
import dyn.numpy as dnp


@dyn.jit
def layer(x: dyn.f32["b", "s", 768], w: dyn.f32[768, "n"], *, bias: dyn.f32["n"] | None = None) -> dyn.f32["b s n"]:
    y = x @ w
    if bias is not None:
        y = y + bias
    return dnp.tanh(y) * x.shape[0] + (x.sum(axis=-1, keepdims=True) > 0.0)


def helper(ids: dyn.i32["b", "2*s"], scale: dyn.bf16[()]) -> dyn.f64["b"]:
    return -ids[:, 0].astype(np.float32) * scale


class Model:
    def __init__(self) -> None:
        self.weight = np.ones((768, 3), np.float32)

    @dyn.jit(static_argnums=0)
    def __call__(self, x: dyn.f32["b", "s", 768]) -> dyn.f32["b", "s", 3]:
        return layer(x, self.weight)


x = np.ones((2, 3, 768), np.float32)
print(layer(x, np.ones((768, 4), np.float32)), Model()(x).shape)
print(helper(np.ones((2, 4), np.int32), np.ones((), np.float32)))
print(dyn.f32.name, dyn.f32.itemsize + 1, dnp.zeros((3,), dtype=dyn.i64))
print(layer.explain(), layer.cache_info().compiles, [device.target for device in dyn.devices()])
"""

WRONG = """
import dyn


def f(x: dyn.f32["n"]) -> None:
    x.no_such_method()


print(dyn.f32.no_such_attribute)
"""


@pytest.fixture
def pyright(tmp_path: Path):
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "strict", "pythonVersion": "3.11",
                "venvPath": str(Path(sys.prefix).parent), "venv": Path(sys.prefix).name}  # fmt: skip
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")

    def check(program: str) -> list[str]:
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        result = subprocess.run(
            [sys.executable, "-m", "pyright", "--outputjson", "--project", str(tmp_path)],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        told = json.loads(result.stdout)
        assert told["summary"]["filesAnalyzed"] == 1
        return [f"{d['range']['start']['line']}: {d.get('rule')}: {d['message']}" for d in told["generalDiagnostics"]]

    return check


def test_a_declared_program_has_no_errors(pyright) -> None:
    assert pyright(PROGRAM) == []


def test_mistakes_are_still_found(pyright) -> None:
    found = [line.split(": ") for line in pyright(WRONG)]
    assert [line for line, rule, *_ in found if rule == "reportAttributeAccessIssue"] == ["5", "8"]


def test_the_program_runs() -> None:
    scope: dict[str, object] = {"__name__": "program"}
    exec(compile(PROGRAM, "program.py", "exec"), scope)


def test_the_short_names_are_the_dtypes() -> None:
    assert dyn.f32 is dyn.float32
    assert dyn.c128 is dyn.complex128
    assert dyn.bf16 is dyn.bfloat16


def test_checkers_know_every_method_that_traced_arrays_have() -> None:
    tree = ast.parse((ROOT / "dyn" / "dtype_aliases.py").read_text(encoding="utf-8"))
    (protocol,) = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == "_Annotated"]
    told = {node.name for node in protocol.body if isinstance(node, ast.FunctionDef)}
    assert told >= METHODS.keys()
