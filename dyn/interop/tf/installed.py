"""The TensorFlow that is installed: nothing here works with another version, whose graphs may be written otherwise."""

from __future__ import annotations

import importlib

from dyn.errors import BackendUnavailableError
from dyn.requirements import install_extra

#: The versions, as the extra ``tensorflow`` has them.
NEEDED = "2.21"
_REMEDY = f"install it with: {install_extra('tensorflow')}"


def check() -> None:
    """Raise BackendUnavailableError where TensorFlow cannot be imported, or is of another version."""
    try:
        tf = importlib.import_module("tensorflow")
    except ImportError as error:
        raise BackendUnavailableError(
            f"TensorFlow cannot be imported ({error}), and dyn.interop.tf needs tensorflow=={NEEDED}.*.", remedy=_REMEDY
        ) from None
    version = str(getattr(tf, "__version__", "of no version"))
    if version.split(".")[:2] != NEEDED.split("."):
        raise BackendUnavailableError(
            f"TensorFlow {version} is installed, and dyn.interop.tf needs tensorflow=={NEEDED}.*.", remedy=_REMEDY
        )
