"""What all compiled functions have is in ``dyn/frontend`` alone; a front end says what only its library knows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dyn.frontend.compiled_function import CompiledFunction
from dyn.frontend.library import LibraryFunction, LibraryProgram

INTEROP = Path(__file__).resolve().parents[2] / "dyn" / "interop"
JITS = sorted(INTEROP.glob("*/jit.py"))
#: A front end, in the order in which a call comes through it.
FRONT_END = ["_bind_call", "_make_program", "_run_program", "_run_eagerly"]
#: What a library may say besides, each for a reason that the base class tells.
MAY_SAY = {
    "_accept_call", "_binds", "_counted",
    "_fallback_for", "_find_program", "_info", "_leave_call", "_programs_but_for_sizes", "_made_of", "_while_making",
    "_notes", "_prepared", "_reason_of", "_rereading", "_use_program",
}  # fmt: skip
#: Where calls come from elsewhere: Dynamo, and graphs of TensorFlow's.
ENTRIES = {"jax": set[str](), "tf": {"__call__", "_call_slow"}, "torch": {"__call__", "_call_slow"}}


def compiled_class(path: Path) -> ast.ClassDef:
    tree = ast.parse(path.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    (found,) = [
        node
        for node in classes
        if any(isinstance(base, ast.Subscript) and ast.unparse(base.value) == "LibraryFunction" for base in node.bases)
    ]
    return found


def test_there_are_front_ends() -> None:
    assert [path.parent.name for path in JITS] == ["jax", "tf", "torch"]


@pytest.mark.parametrize("path", JITS, ids=lambda path: path.parent.name)
def test_a_front_end_has_no_table_lock_report_or_warning_of_its_own(path: Path) -> None:
    """Nor a memory of calls by program: ``ProgramTable`` remembers them, and forgets them with their programs."""
    tree = ast.parse(path.read_text())
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"ProgramTable", "lock", "Fallbacks", "Lock", "RLock"}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "warnings" not in names
    programs = {f"{name}]" for name in ("JaxProgram", "TensorProgram", "SizedProgram", "TfProgram")}
    kept = [ast.unparse(node.annotation) for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)]
    assert not [text for text in kept if text.startswith("dict[") and any(text.endswith(one) for one in programs)]


@pytest.mark.parametrize("path", JITS, ids=lambda path: path.parent.name)
def test_a_front_end_is_four_methods(path: Path) -> None:
    """What else it defines is a hook with a default, an entry, a method of Python's own, or a name of its own."""
    compiled = compiled_class(path)
    defined = {node.name for node in compiled.body if isinstance(node, ast.FunctionDef)}
    assert {"_bind_call", "_make_program"} <= defined
    common = {*vars(CompiledFunction), *vars(LibraryFunction)} - {"__init__", "__module__", "__doc__", "__reduce__"}
    overridden = defined & common - {*FRONT_END} - MAY_SAY
    assert overridden == ENTRIES[path.parent.name] & common


def test_all_hooks_are_told() -> None:
    own = {*vars(CompiledFunction), *vars(LibraryFunction)}
    assert {*FRONT_END} | MAY_SAY <= own
    assert [name for name in vars(LibraryFunction) if name in FRONT_END] == FRONT_END


def test_programs_derive_from_one() -> None:
    names = [
        base.id
        for path in sorted(INTEROP.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        for one in node.bases
        if isinstance(one, ast.Subscript) and isinstance(base := one.value, ast.Name)
    ]
    assert names.count(LibraryProgram.__name__) == names.count(LibraryFunction.__name__) == len(JITS)


def test_traces_are_made_again_by_one_exception() -> None:
    found = [
        f"{path.relative_to(INTEROP)}: {node.name}"
        for path in sorted(INTEROP.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "BaseException" for base in node.bases)
    ]
    # Regions in a trace are written out again, and ways of a fork run once more, which no program hears of; and Keras
    # asks for a trace that builds.
    assert found == ["tf/keras_building.py: NeedsBuilding", "torch/forks.py: _Asked", "torch/scopes.py: RunAgain"]


def test_results_and_pieces_are_declared_in_one_place() -> None:
    """Plans are trees by ``frontend.outputs``, and a library's operations are called by ``trace.external``."""
    for path in sorted(INTEROP.rglob("*.py")):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not names & {"register_node", "DeclaredResults"}, path
