"""The names of JAX's that have no public one are asked for before anything rests on them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")

from dyn.errors import BackendUnavailableError  # noqa: E402
from dyn.interop.jax import internals  # noqa: E402

#: What is used under another name where a version has it not.
REPLACED = {("jax._src.dtypes", "is_weakly_typed_scalar"), ("jax._src.dtypes", "is_python_scalar")}
HELP = "  help: install another one with: pip install 'jax>=0.9.2,<0.11'"


def asked(node: ast.AST) -> list[str]:
    """``[module]`` or ``[module, name]`` of ``required(…)``; empty for others."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "required":
        return []
    return [str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)]


def assigned(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Variables of a function, and the modules that they are."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            pairs: Iterable[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=True)
            yield from (
                (one.id, asked(value)[0])
                for one, value in pairs
                if isinstance(one, ast.Name) and len(asked(value)) == 1
            )


def used(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The names in modules that ``required`` gives."""
    for node in ast.walk(tree):
        if len(asked(node)) == 2:
            yield asked(node)[0], asked(node)[1]
        if isinstance(node, ast.FunctionDef):
            modules = dict(assigned(node))
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id in modules:
                    yield modules[inner.value.id], inner.attr


def test_all_that_are_used_are_asked_for() -> None:
    names = set[tuple[str, str]]()
    for path in Path(internals.__file__).parent.glob("*.py"):
        names.update(used(ast.parse(path.read_text(encoding="utf-8"))))
    private = {(module, name) for module, name in names if "._src." in module} - REPLACED
    assert len(private) > 10
    assert sorted(private - {(module, name) for module, own in internals._NAMES.items() for name in own}) == []


def test_what_jax_lacks_is_named() -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        internals.check_names({"jax._src.core": ("is_symbolic_dim", "is_far"), "jax._src.far": ("away",)})
    assert str(caught.value) == (
        f"JAX {jax.__version__} has no jax._src.core.is_far, no jax._src.far, which dyn asks for by name; "
        f"known to work: JAX 0.9, 0.10.\n{HELP}"
    )
    with pytest.raises(BackendUnavailableError) as caught:
        internals.required("jax._src.core", "is_far")
    assert str(caught.value) == (
        f"JAX {jax.__version__} has no jax._src.core.is_far, which dyn asks for by name; "
        f"known to work: JAX 0.9, 0.10.\n{HELP}"
    )


def test_names_that_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(internals._FORMER, "jax._src.elsewhere", "jax._src.core")
    assert internals.required("jax._src.elsewhere", "is_symbolic_dim") is internals.required(
        "jax._src.core", "is_symbolic_dim"
    )
    monkeypatch.setattr(internals, "_ADDED", {("jax._src.core", "is_far"), ("jax._src.core", "is_symbolic_dim")})
    assert internals.added_later("jax._src.core", "is_far")
    assert not internals.added_later("jax._src.core", "is_symbolic_dim")
    assert not internals.added_later("jax._src.core", "no_dim")
