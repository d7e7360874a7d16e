"""Class names: each stands for one thing, so that a reader who meets it in a trace or a search knows which."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "dyn"


def test_a_class_name_is_defined_in_one_module() -> None:
    modules: dict[str, set[str]] = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                modules[node.name].add(str(path.relative_to(PACKAGE.parent)))
    shared = [f"{name}: {', '.join(sorted(found))}" for name, found in sorted(modules.items()) if len(found) > 1]
    assert not shared, "\n" + "\n".join(shared)
