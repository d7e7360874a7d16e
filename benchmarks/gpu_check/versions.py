"""Versions of what a machine has, beside those that dyn is made for: what is missing, and what is left out for it."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
#: Packages that dyn cannot be imported without, and what others are for.
_NEEDED = ("numpy", "llvmlite", "ml_dtypes", "optree", "platformdirs", "filelock")
_FOR = {
    "scipy": "linear algebra on the host", "cuda-bindings": "compiling for NVIDIA's GPUs",
    "cuda-pathfinder": "finding NVRTC and its headers", "nvidia-cuda-nvrtc": "compiling for NVIDIA's GPUs",
    "nvidia-cuda-runtime": "headers of float16",
    "torch": "its front end (which reads this version's graphs), and PyTorch beside dyn",
    "jax": "its front end (which reads this version's traces)",
}  # fmt: skip


@dataclass(frozen=True)
class Requirement:
    """A package: the version that is there (None: it is missing), and those that dyn is made for (empty: any)."""

    name: str
    there: str | None
    wanted: str
    use: str

    @property
    def holds(self) -> bool:
        """Whether the version is one that dyn is made for."""
        return self.there is not None and _satisfies(self.there, self.wanted)

    def describe(self) -> str:
        """A line for people."""
        wanted = f" (dyn is made for {self.name}{self.wanted})" if self.wanted else ""
        if self.there is None:
            return f"{self.name} is missing{wanted}: {self.use}"
        return f"{self.name} {self.there}{'' if self.holds else wanted}"


def requirements() -> list[Requirement]:
    """All packages that have a part in it."""
    return [requirement(name) for name in (*_NEEDED, *_FOR)]


def requirement(name: str) -> Requirement:
    """What there is of a package, and what pyproject.toml wants of it."""
    try:
        there = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        there = None
    use = "dyn cannot be imported without it" if name in _NEEDED else _FOR.get(name, "")
    return Requirement(name, there, _pins().get(_plain(name), ""), use)


def missing() -> list[Requirement]:
    """What dyn cannot be imported without, and is not there."""
    return [one for one in map(requirement, _NEEDED) if one.there is None]


def describe_python() -> str:
    """``Python 3.12.3 on Linux x86_64``."""
    return f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins() -> dict[str, str]:
    """The versions in pyproject.toml, by the plain name of the package. cuda-python's are its bindings' too."""
    project = tomllib.loads(_PYPROJECT.read_text("utf-8"))["project"]
    texts = [*project["dependencies"], *[text for extra in project["optional-dependencies"].values() for text in extra]]
    pins: dict[str, str] = {}
    for text in texts:
        match = re.match(r"([\w.-]+)(\[[^]]*\])?\s*(.*)", text)
        assert match is not None
        pins.setdefault(_plain(match.group(1)), match.group(3))
    return pins


def _satisfies(version: str, wanted: str) -> bool:
    """Whether a version satisfies ``>=0.50,<0.51`` or ``==2.13.0``; local parts (``+cu130``) do not count."""
    own = _numbers(version)
    for condition in filter(None, wanted.split(",")):
        match = re.fullmatch(r"(==|>=|<|<=|>|!=)\s*([\w.]+)", condition.strip())
        if match is None:
            return False
        other = _numbers(match.group(2))
        length = max(len(own), len(other))
        a, b = (n + (0,) * (length - len(n)) for n in (own, other))
        holds = {"==": a == b, ">=": a >= b, "<": a < b, "<=": a <= b, ">": a > b, "!=": a != b}[match.group(1)]
        if not holds:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple([int(part) for part in re.findall(r"\d+", version.partition("+")[0])])
