"""Names and sizes of files: what a reader who meets a class in a trace, or opens a long file, can count on."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "dyn"
#: A file has seldom more than 400 lines; one of so many says at its top why it is one file.
LONG = 500


def test_a_class_name_is_defined_in_one_module() -> None:
    modules: dict[str, set[str]] = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                modules[node.name].add(str(path.relative_to(PACKAGE.parent)))
    shared = [f"{name}: {', '.join(sorted(found))}" for name, found in sorted(modules.items()) if len(found) > 1]
    assert not shared, "\n" + "\n".join(shared)


def test_a_long_file_says_why() -> None:
    silent: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        said = ast.get_docstring(ast.parse(text)) or ""
        if text.count("\n") > LONG and "This file is long" not in said:
            silent.append(str(path.relative_to(PACKAGE.parent)))
    assert not silent, f"These have more than {LONG} lines: cut them at a joint, or say why: {', '.join(silent)}"
