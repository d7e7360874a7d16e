"""Internals of frameworks, asked for by name before anything rests on them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import reduce
from typing import Any

from dyn.errors import BackendUnavailableError


def find_module(name: str) -> Any:
    """A module, imported; None where there is none. What fails inside of it is an error of its own."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and needs another that is not
        return None


def absent(module: str, names: Sequence[str]) -> list[str]:
    """Those of some names that a module has not, with its own before them; its own alone where there is no module."""
    owner = find_module(module)
    if owner is None:
        return [module]
    return [f"{module}.{name}" for name in names if reduce(_attribute, name.split("."), owner) is None]


def _attribute(owner: Any, name: str) -> Any:
    return getattr(owner, name, None)


def lacks(
    framework: str, version: str, names: Sequence[str], known: Sequence[str], remedy: str
) -> BackendUnavailableError:
    """The error of a framework of whose internals some are missing."""
    return BackendUnavailableError(
        f"{framework} {version} has no {', no '.join(names)}, which dyn asks for by name; "
        f"known to work: {framework} {', '.join(known)}.",
        remedy=remedy,
    )
