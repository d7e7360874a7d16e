"""The pages of the API reference: names by task, and what modules' pages begin with."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dyn

EXTENSIONS = Path(dyn.__file__).parents[1] / "docs" / "_extensions"
FRONT_ENDS = ("jax", "torch", "tensorflow", "keras", "onnx")


@pytest.fixture(scope="module")
def reference(require_module: Callable[[str], ModuleType]) -> Iterator[Any]:
    for name in FRONT_ENDS:
        require_module(name)
    sys.path.insert(0, str(EXTENSIONS))
    yield import_module("reference")
    sys.path.remove(str(EXTENSIONS))


@pytest.fixture(scope="module")
def pages(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("api")
    reference.write_pages(folder)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def listed(page: str) -> list[str]:
    """The names in a page's tables, in order, as they are found from ``dyn``."""
    names: list[str] = []
    module = ""
    for line in page.splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
        elif found := re.fullmatch(r"   ([A-Za-z_][\w.]*)", line):
            names.append(f"{module}.{found[1]}")
    return names


def test_jit_comes_first(pages: dict[str, str]) -> None:
    assert listed(pages["by_task.rst"])[0] == "dyn.jit"
    assert listed(pages["dyn.rst"])[0] == "dyn.jit"


def test_names_that_tasks_have_are_there(reference: Any) -> None:
    paths = [path for names in reference.TASKS.values() for path in names]
    paths += [f"{module}.{name}" for module, names in reference.FIRST.items() for name in names]
    assert [path for path in paths if not exported(path)] == []


def exported(path: str) -> bool:
    module, _, name = path.rpartition(".")
    return name in import_module(module).__all__


def test_each_public_function_is_listed_by_task(reference: Any, pages: dict[str, str]) -> None:
    """Those of small modules, such as hosts, are on their pages alone."""
    names = {*listed(pages["by_task.rst"])}
    missing = [
        f"{module}.{public}"
        for module in ("dyn", *reference.LISTED)
        for group in reference._groups(module)[0].values()
        for public in group
        if f"{module}.{public}" not in names
    ]
    assert missing == []


def test_each_name_that_is_listed_has_a_first_line(pages: dict[str, str]) -> None:
    def summary(path: str) -> str:
        module, _, name = path.rpartition(".")
        return (getattr(import_module(module), name).__doc__ or "").strip()

    assert [path for path in listed(pages["by_task.rst"]) if not summary(path)] == []


def test_a_modules_page_begins_with_its_docstring_and_what_it_is_opened_for(pages: dict[str, str]) -> None:
    page = pages["dyn-numpy.rst"]
    docstring = (dyn.numpy.__doc__ or "").partition("\n")[0]
    assert page.startswith(f"dyn.numpy\n=========\n\n.. currentmodule:: dyn.numpy\n\n{docstring}\n")
    assert listed(page)[:3] == ["dyn.numpy.asarray", "dyn.numpy.zeros", "dyn.numpy.arange"]
    assert "This file is longer" not in "".join(pages.values())


def test_pages_begin_with_what_people_do(reference: Any, pages: dict[str, str]) -> None:
    """``jit`` of a front end stands before what warns of it, whatever their files are called."""
    first = {name: listed(pages[f"{reference._file(name)}.rst"])[0] for name in reference.MODULES}
    done = {name: next(iter(reference._ranks(name)), None) for name in reference.MODULES if name != "dyn"}
    assert {name: first[name] for name, public in done.items() if public is not None} == {
        name: f"{name}.{public}" for name, public in done.items() if public is not None
    }
    assert first["dyn.interop.torch"] == "dyn.interop.torch.jit"
    assert first["dyn.interop.stablehlo"] == "dyn.interop.stablehlo.load"


def test_a_heading_is_one_sentence(pages: dict[str, str]) -> None:
    headings = re.findall(r"^(.+)\n([-=~])\2+$", "\n".join(pages.values()), re.MULTILINE)
    assert len(headings) > 100
    assert [text for text, _ in headings if re.search(r"\. [A-Z]|\.$", text)] == []


def test_constructors_that_nobody_calls_are_not_shown(reference: Any) -> None:
    """A class says by which function it is made."""
    classes = {
        f"{module}.{public}": getattr(import_module(module), public)
        for module in reference.MODULES
        for public in import_module(module).__all__
    }
    made = {path for path, value in classes.items() if isinstance(value, type) and "Made by" in (value.__doc__ or "")}
    assert made - reference.MADE.keys() == set()
    inside = [(path, name) for path, names in reference.MADE.items() for name in names]
    assert [(path, name) for path, name in inside if not hasattr(classes[path], name)] == []


def test_the_variable_of_a_setting_is_no_type(reference: Any) -> None:
    lines, body = ['``DYN_DUMP``: a folder; ``""``: none.'], ["Sizes: of all axes."]
    reference.keep_colons(None, "attribute", "dump", None, None, lines)
    reference.keep_colons(None, "function", "f", None, None, body)
    assert (lines, body) == (['``DYN_DUMP`` – a folder; ``""`` – none.'], ["Sizes: of all axes."])


def test_pages_of_dyn_itself_are_of_tasks(pages: dict[str, str]) -> None:
    assert pages["dyn-differentiate.rst"].startswith("Differentiate\n=============\n\n.. currentmodule:: dyn\n")
    assert ".. autofunction:: dyn.grad\n" in pages["dyn-differentiate.rst"]


def test_what_front_ends_derive_is_told_of_with_each(pages: dict[str, str]) -> None:
    """``explain`` and its kin are methods of a class that all compiled functions derive from."""
    entry = ".. autoclass:: dyn.Jitted()\n   :members:\n   :inherited-members: object\n"
    assert entry in pages["dyn-compile-a-function-for-every-shape.rst"]


def test_what_has_no_task_comes_last(reference: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "TASKS", {"Compile": ("dyn.jit",)})
    assert reference._grouped_by_task(["grad", "jit"]) == {"Compile": ["jit"], "Further names": ["grad"]}
