"""The page of errors explains every class of error and warning that users meet."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

import dyn
from dyn import errors

PACKAGE = Path(dyn.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "errors.md").read_text()


def declared_classes() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The public classes of the sources, with their bases' names. Sources are read: front ends need their libraries."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, tuple([ast.unparse(base).rpartition(".")[2] for base in node.bases])


def derived_from(*roots: str) -> set[str]:
    """Names of the classes that derive from one of these."""
    classes = dict(declared_classes())
    found = set(roots)
    while more := {name for name, bases in classes.items() if found & {*bases}} - found:
        found |= more
    return found & classes.keys()


def test_every_class_is_explained() -> None:
    explained, tree = PAGE.split("## The tree")
    assert "automodule:: dyn.errors" in tree
    named = set(re.findall(r"\b[A-Z]\w+", explained))
    missing = derived_from("DynError", "Warning", "UserWarning") - named
    assert missing == {"DynError"}, f"docs/errors.md says nothing of {sorted(missing - {'DynError'})}"


def test_every_class_of_the_tree_has_a_link() -> None:
    linked = set(re.findall(r"\{class\}`~dyn\.errors\.(\w+)`", PAGE))
    assert linked == {*errors.__all__} - {"DynError"}


def test_every_name_of_an_error_is_one() -> None:
    known = derived_from("DynError", "Warning", "UserWarning") | {*dir(builtins)} | {"LinAlgError"}
    named = set(re.findall(r"\b[A-Z]\w*(?:Error|Warning)\b", PAGE))
    assert named <= known


def test_every_message_that_is_quoted_is_raised() -> None:
    """Names and numbers in a quoted message are examples. The other words are those of one text of the sources, in
    their order."""
    texts = {tuple(_words(text)) for path in sorted(PACKAGE.rglob("*.py")) for text in _texts(path)}
    quoted = re.findall(r'\*"(.+?)"\*', PAGE)
    assert len(quoted) > 40
    wrong = [message for message in quoted if not any(_is_of(_words(message), text) for text in texts)]
    assert wrong == []


def _is_of(message: list[str], text: tuple[str, ...]) -> bool:
    """Whether all but the examples of a message, at most half of its words, are in a text."""
    if len({*message} & {*text}) * 2 < len({*message}):
        return False
    blocks = SequenceMatcher(None, message, text, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) * 2 >= len(message)


def _texts(path: Path) -> Iterator[str]:
    """The constant parts of the texts of a module, each f-string's joined."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield " ".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]+|>=|==|%", text)
