"""What all compiled functions have is in ``dyn/frontend`` alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

INTEROP = Path(__file__).resolve().parents[2] / "dyn" / "interop"
JITS = sorted(INTEROP.glob("*/jit.py"))
#: What a compiled function of a front end does not define, since ``CompiledFunction`` does.
SHARED = {"cache_info", "explain", "trace", "lower", "prepare", "programs", "__get__"}


def test_there_are_front_ends() -> None:
    assert [path.parent.name for path in JITS] == ["jax", "tf", "torch"]


@pytest.mark.parametrize("path", JITS, ids=lambda path: path.parent.name)
def test_a_front_end_has_no_table_report_or_warning_of_its_own(path: Path) -> None:
    tree = ast.parse(path.read_text())
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"ProgramTable", "lock", "Fallbacks"}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "warnings" not in names
    (compiled,) = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(base, ast.Subscript) and ast.unparse(base.value) == "CompiledFunction" for base in node.bases
        )
    ]
    defined = {node.name for node in compiled.body if isinstance(node, ast.FunctionDef)}
    own = {"__get__"} if path.parent.name == "torch" else set()  # a module is no method
    assert not (defined & SHARED) - own


def test_traces_are_made_again_by_one_exception() -> None:
    found = [
        f"{path.relative_to(INTEROP)}: {node.name}"
        for path in sorted(INTEROP.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "BaseException" for base in node.bases)
    ]
    # Regions in a trace are written out again, which no program hears of; and Keras asks for a trace that builds.
    assert found == ["tf/keras_building.py: NeedsBuilding", "torch/scopes.py: RunAgain"]


def test_results_and_pieces_are_declared_in_one_place() -> None:
    """Plans are trees by ``frontend.outputs``, and a library's operations are called by ``trace.external``."""
    for path in sorted(INTEROP.rglob("*.py")):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not names & {"register_node", "DeclaredResults"}, path
