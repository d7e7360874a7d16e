"""Third-party packages that dyn works with, and the versions: what a remedy tells people to install.

Remedies name these packages themselves. dyn's own name among Python's distributions is ``DISTRIBUTION``; ``dyn`` there
is somebody else's, and an extra of a distribution is whatever its owner says. ``pyproject.toml`` has the same table,
which a test compares.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Mapping
from typing import Any

from dyn.errors import BackendUnavailableError
from dyn.fork_safety import importing

#: The name by which installers know dyn. It is imported as ``dyn``.
DISTRIBUTION = "dynhlo"
#: What dyn cannot do without.
REQUIRED = (
    "filelock>=3.12", "llvmlite>=0.50,<0.51", "ml_dtypes>=0.5,!=0.7.0", "numpy>=2", "optree>=0.14", "platformdirs>=4",
)  # fmt: skip
#: What parts of dyn need, by the name of the extra.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "linalg": ("scipy>=1.13",),
    "jax": ("jax>=0.9.2,<0.11",),
    "cuda": (
        "cuda-python==13.4.4", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.96",
    ),
    "torch": ("torch>=2.13,<2.16",),
    "transformers": ("torch>=2.13,<2.16", "transformers>=5.23,<6"),
    "onnx": ("onnx>=1.17",),
    "tensorflow": ("tensorflow-cpu>=2.20,<2.22",),
    "notebook": ("ipykernel>=6.29", "matplotlib>=3.9", "nbclient>=0.10"),
    "demo": ("matplotlib>=3.9", "rich>=13", "safetensors>=0.4"),
}  # fmt: skip


def install_extra(extra: str) -> str:
    """The command that installs what a part of dyn needs."""
    return _command(EXTRAS[extra])


def install_required(name: str) -> str:
    """The command that installs one of the packages that dyn cannot do without."""
    return _command([one for one in REQUIRED if _name(one) == name])


def scipy_module(name: str, purpose: str) -> Any:
    """The module ``scipy.<name>``, of the extra "linalg"; ``purpose`` is what is computed by it.

    BackendUnavailableError where it cannot be imported, with the command that installs it.
    """
    try:
        with importing:
            return importlib.import_module(f"scipy.{name}")
    except ImportError as error:
        raise BackendUnavailableError(
            f"{purpose} is computed by SciPy, which cannot be imported: {error}.", remedy=install_extra("linalg")
        ) from cause_of(error)


def cause_of(error: ImportError) -> ImportError | None:
    """Cause of an error that tells of a failed import: none where a package is not installed."""
    return None if isinstance(error, ModuleNotFoundError) else error


def _name(requirement: str) -> str:
    return requirement.partition(">")[0].partition("=")[0]


def _command(requirements: tuple[str, ...] | list[str]) -> str:
    return " ".join(["pip install", *map(shlex.quote, requirements)])
