"""The TensorFlow that is installed: nothing here works with another version, whose graphs may be written otherwise."""

from __future__ import annotations

import importlib
from typing import Any

from dyn.errors import BackendUnavailableError
from dyn.interop.internal_names import absent, find_module, lacks
from dyn.requirements import install_extra

#: The versions that the tests have passed with.
KNOWN = ("2.20", "2.21")
_NEEDS = f"dyn.interop.tf needs one of {', '.join(f'tensorflow=={version}.*' for version in KNOWN)}."
_REMEDY = f"install it with: {install_extra('tensorflow')}"


def check() -> None:
    """Raise BackendUnavailableError where TensorFlow cannot be imported, or is of another version."""
    try:
        tf = importlib.import_module("tensorflow")
    except ImportError as error:
        raise BackendUnavailableError(
            f"TensorFlow cannot be imported ({error}), and {_NEEDS}", remedy=_REMEDY
        ) from None
    if ".".join(_version(tf).split(".")[:2]) not in KNOWN:
        raise BackendUnavailableError(f"TensorFlow {_version(tf)} is installed, and {_NEEDS}", remedy=_REMEDY)


def asked(module: str, *names: str) -> Any:
    """A module of TensorFlow's which has the names that are used of it; BackendUnavailableError says which it has
    not."""
    missing = absent(module, names)
    if missing:
        raise lacks("TensorFlow", _version(importlib.import_module("tensorflow")), missing, KNOWN, _REMEDY)
    return find_module(module)


def _version(tf: Any) -> str:
    return str(getattr(tf, "__version__", "of no version"))
