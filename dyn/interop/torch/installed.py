"""The PyTorch that is installed: nothing here works with another version, whose internals are others."""

from __future__ import annotations

from dyn.errors import BackendUnavailableError
from dyn.requirements import install_extra

#: The versions, as the extra ``torch`` has them.
NEEDED = "2.13"
_REMEDY = f"install it with: {install_extra('torch')}"


def check() -> None:
    """Raise BackendUnavailableError where PyTorch cannot be imported, or is of another version."""
    try:
        import torch
    except ImportError as error:
        raise BackendUnavailableError(
            f"PyTorch cannot be imported ({error}), and dyn.interop.torch needs torch=={NEEDED}.*.", remedy=_REMEDY
        ) from None
    version = str(torch.__version__)
    if version.split(".")[:2] != NEEDED.split("."):
        raise BackendUnavailableError(
            f"PyTorch {version} is installed, and dyn.interop.torch needs torch=={NEEDED}.*.", remedy=_REMEDY
        )
