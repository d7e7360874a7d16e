"""The error tree is the one drawn in ``dyn/errors.py``, and every message has the one form."""

from __future__ import annotations

import builtins
import inspect
import linecache
import pickle
import re

import pytest

from dyn import errors
from dyn.source import Loc

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, BaseException) and value.__module__ == errors.__name__
}


def drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """The drawing in the module's docstring: the parent of each class, and the builtin that it also is."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    path: list[str] = []
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│├└─ ]*)(\w+Error)\b(?:.*\(also an? (\w+)\))?", line)
        if match is not None:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            tree[match[2]] = (path[depth - 1] if depth else None, match[3])
    return tree


def test_every_class_is_in_the_drawing_and_no_others() -> None:
    assert set(drawn_tree()) == set(CLASSES)


@pytest.mark.parametrize(("name", "parent", "also"), [(name, *rest) for name, rest in drawn_tree().items()])
def test_class_is_where_it_is_drawn(name: str, parent: str | None, also: str | None) -> None:
    cls = CLASSES[name]
    bases = [base.__name__ for base in cls.__bases__ if base.__name__ in CLASSES]
    assert bases == ([parent] if parent is not None else [])
    if also is not None:
        assert issubclass(cls, getattr(builtins, also))


@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
def test_class_is_documented_raised_and_pickled(cls: type[errors.DynError]) -> None:
    assert (cls.__doc__ or "").strip()
    assert issubclass(cls, errors.DynError)
    error = cls("It broke.", loc=Loc("model.py", 3, "f"), remedy="mend it.", notes=("a note",))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error)
    assert (copy.problem, copy.loc, copy.remedy, copy.notes) == (error.problem, error.loc, error.remedy, error.notes)


def test_message_in_full() -> None:
    linecache.cache["/home/me/model.py"] = (14, None, ["def f(x, w):\n", "    return x @ w\n"], "/home/me/model.py")
    error = errors.ShapeError(
        "dot_general: x has 768 columns, w has 512 rows.",
        loc=Loc("/home/me/model.py", 2, "f"),
        remedy="pass a w with 768 rows.",
        notes=("x: f32[b, 768]", "w: f32[512, n]"),
    )
    assert str(error) == (
        "dot_general: x has 768 columns, w has 512 rows.\n"
        "  x: f32[b, 768]\n"
        "  w: f32[512, n]\n"
        "  at model.py:2  return x @ w\n"
        "  help: pass a w with 768 rows."
    )


@pytest.mark.parametrize(
    ("loc", "text"),
    [
        (None, "It broke."),
        (Loc("<argument x>"), "It broke.\n  at <argument x>"),
        (Loc("gone.py", 7), "It broke.\n  at gone.py:7"),
    ],
)
def test_message_without_a_source_line(loc: Loc | None, text: str) -> None:
    assert str(errors.DynError("It broke.", loc=loc)) == text
