"""The public functions, classes and methods of the package, and what their docstrings have to say.

A docstring is Google's: a summary line, then sections ``Args:``, ``Returns:``, ``Raises:``. A record that users only
read has ``Attributes:`` for its fields.
"""

from __future__ import annotations

import builtins
import doctest
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

import dyn
from dyn import errors

#: A section's heading, and one of its entries.
_HEADING = re.compile(r"(\w+):")
_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): ?\S")
#: What examples may use without an import.
NAMES = {"np": np, "dyn": dyn, "dnp": dyn.numpy, "lax": dyn.lax, "nn": dyn.nn}
#: Openings of a first line that says nothing of the thing (STYLE: a noun phrase or an imperative).
_RIDDLES = ("What ", "Who ", "Where ", "The same ", "Whether ")


@dataclass(frozen=True)
class PublicName:
    """One public function, class, method or property, with where it is found."""

    path: str
    value: Any
    #: Where the first parameter of a member is the object itself, or the class.
    is_bound: bool = False

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.value) or ""


def public_names(module: ModuleType, names: Iterable[str] | None = None) -> Iterator[PublicName]:
    """The functions and classes that a module exports and their public members, each object once.

    ``names`` are others than those that it exports.
    """
    seen: set[int] = set()
    for name in module.__all__ if names is None else names:
        value = getattr(module, name)
        if isinstance(value, ModuleType) or not callable(value) or not _is_ours(value) or id(value) in seen:
            continue
        seen.add(id(value))
        path = f"{module.__name__}.{name}"
        yield PublicName(path, value)
        if inspect.isclass(value):
            yield from _members(path, value)


def _is_ours(value: Any) -> bool:
    return getattr(value, "__module__", "").startswith("dyn") and not isinstance(value, _dtype_class())


def _dtype_class() -> type:
    return import_module("dyn.dtypes").DType


def _members(path: str, cls: type) -> Iterator[PublicName]:
    """The public methods and properties of a class, those of its own bases too."""
    for name in dir(cls):
        home = next((c for c in cls.__mro__ if name in vars(c)), object)
        if name.startswith("_") or not home.__module__.startswith("dyn"):
            continue
        member = vars(home)[name]
        is_bound = not isinstance(member, staticmethod)
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if inspect.isfunction(member) or isinstance(member, property) or hasattr(member, "__wrapped__"):
            yield PublicName(f"{path}.{name}", member, is_bound)


def sections_of(doc: str) -> dict[str, list[str]]:
    """The names that each section of a docstring has entries for; ``Returns`` has its text."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    returns = False
    for line in doc.splitlines():
        if heading := _HEADING.fullmatch(line):
            returns = heading[1] in ("Returns", "Yields")
            current = found.setdefault(heading[1], [])
        elif line and not line.startswith(" "):
            current = None
        elif current is not None and line.strip():
            if returns:
                current.append(line.strip())
            elif line.startswith("    ") and line[4] != " " and (entry := _ENTRY.match(line[4:])):
                current += entry[1].split(", ")
    return found


def parameters_of(value: Callable[..., Any], is_bound: bool = False) -> list[str]:
    """The names of a callable's parameters, as ``Args:`` writes them."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    given = list(inspect.signature(value).parameters.values())[int(is_bound) :]
    return [stars.get(p.kind, "") + p.name for p in given if not p.name.startswith("_")]


def faults(name: PublicName) -> list[str]:
    """What is missing or wrong in one docstring; nothing where it is whole."""
    doc, value = name.doc, name.value
    if not doc:
        return ["no docstring"]
    first = doc.partition("\n")[0]
    found = []
    if not first.endswith((".", "?", "…", "::")):
        found.append(f"the first line is no sentence: {first!r}")
    if first.startswith(_RIDDLES):
        found.append(f"the first line does not say what the thing is: {first!r}")
    sections = sections_of(doc)
    found += [f"Raises names {e}, which is no error" for e in sections.get("Raises", ()) if not _is_error(e)]
    if isinstance(value, property):
        if ": " in first:  # which the API reference reads as a type and a text
            found.append(f"the first line has a colon: {first!r}")
        return found
    if inspect.isclass(value):
        return found + _faults_of_class(value, sections)
    parameters = parameters_of(value, name.is_bound)
    if parameters != sections.get("Args", []):
        found.append(f"Args has {sections.get('Args', [])}, the signature {parameters}")
    returns = inspect.signature(value).return_annotation
    if returns not in (None, "None", "NoReturn", "Never") and not (sections.get("Returns") or sections.get("Yields")):
        found.append("no Returns")
    return found


def _faults_of_class(cls: type, sections: dict[str, list[str]]) -> list[str]:
    """A class says how it is made (``Args``), or what its fields are, where users only read it."""
    if issubclass(cls, Enum):
        members, told = list(cls.__members__), sections.get("Attributes", [])
        return [] if members == told else [f"Attributes has {told}, the enumeration {members}"]
    if issubclass(cls, BaseException) or "Attributes" in sections:
        missing = [a for a in sections.get("Attributes", ()) if not _has_attribute(cls, a)]
        return [f"Attributes names {a}, which the class does not have" for a in missing]
    if _fields_have_comments(cls):
        return []
    try:
        parameters = parameters_of(cls)
    except ValueError:
        return []
    given = sections.get("Args", [])
    return [] if parameters == given else [f"Args has {given}, the constructor {parameters}"]


def _fields_have_comments(cls: type) -> bool:
    """Tell of a record whether each field has a comment ``#:`` above it, as the API reference reads them."""
    if not is_dataclass(cls):
        return False
    lines = [line.strip() for line in inspect.getsource(cls).splitlines()]
    places = [n for n, line in enumerate(lines) if any(line.startswith(f"{f.name}: ") for f in fields(cls))]
    return bool(places) and all(lines[n - 1].startswith("#:") for n in places)


def _has_attribute(cls: type, name: str) -> bool:
    annotated = {a for c in cls.__mro__ for a in vars(c).get("__annotations__", ())}
    source = "".join(inspect.getsource(c) for c in cls.__mro__ if c.__module__.startswith("dyn"))
    return hasattr(cls, name) or name in annotated or f"self.{name}" in source


def _is_error(name: str) -> bool:
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)


def failed_examples(names: Iterable[PublicName]) -> str:
    """Run the examples of docstrings; what doctest says of those that give something else than they show."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    parser, said = doctest.DocTestParser(), list[str]()
    for name in names:
        test = parser.get_doctest(name.doc, dict(NAMES), name.path, None, None)
        if test.examples:
            runner.run(test, out=said.append)
    return "".join(said)
