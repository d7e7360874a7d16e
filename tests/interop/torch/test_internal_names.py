"""The names of PyTorch's that have no public one are asked for before anything rests on them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dyn.errors import BackendUnavailableError  # noqa: E402
from dyn.interop.torch import installed  # noqa: E402
from dyn.interop.torch.aten.tables import operation  # noqa: E402

#: What PyTorch has under names that it makes when they are asked for.
_MADE = ("torch.ops.",)


def dotted(node: ast.expr) -> str:
    """``torch._C.DispatchKey`` of an attribute that begins with a name; "" of others."""
    if isinstance(node, ast.Name):
        return node.id
    owner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if owner and isinstance(node, ast.Attribute) else ""


def names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield dotted(node)


def is_private(name: str) -> bool:
    parts = name.split(".")
    return parts[0] == "torch" and any(part.startswith("_") and not part.startswith("__") for part in parts)


def test_all_that_are_used_are_asked_for() -> None:
    tables = (installed.NAMES, installed.BACKEND_NAMES)
    asked = {f"{module}.{name}" for table in tables for module, own in table.items() for name in own}
    used = set[str]()
    for path in Path(installed.__file__).parent.rglob("*.py"):
        used.update(filter(is_private, names(ast.parse(path.read_text(encoding="utf-8")))))
    assert len(used) > 100
    # A part of what is asked for is there, and what is below it is that thing's own.
    left = [
        name
        for name in used
        if not name.startswith(_MADE) and not any(f"{one}.".startswith(f"{name}.") for one in asked)
        and not any(name.startswith(f"{one}.") for one in asked)
    ]  # fmt: skip
    assert sorted(left) == []


def test_what_pytorch_lacks_is_named() -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        installed.check_names({"torch._C": ("DispatchKey.Autograd", "DispatchKey.Nowhere"), "torch._far": ("away",)})
    assert str(caught.value) == (
        f"PyTorch {torch.__version__} has no torch._C.DispatchKey.Nowhere, no torch._far, which dyn asks for by "
        "name; known to work: PyTorch 2.13, 2.14, 2.15.\n"
        "  help: install it with: pip install 'torch>=2.13,<2.16'"
    )


def test_an_operation_that_pytorch_lacks_is_named() -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        operation("addition.Tensor")
    assert str(caught.value).startswith(f"PyTorch {torch.__version__} has no torch.ops.aten.addition.Tensor, which")
    assert operation("add.Tensor") is torch.ops.aten.add.Tensor
    assert operation("library::addition") == "library::addition"
