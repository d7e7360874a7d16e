"""The pages of the API reference, written before the site is built from what modules export.

Functions stand in groups, one for each module that defines some of them, under the first line of its docstring. Each
has a page.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

#: The modules of the public interface, and what a reader finds there.
MODULES = {
    "dyn": "Compiling, transformations, dims, devices",
    "dyn.numpy": "NumPy's functions, on arrays of undecided shapes",
    "dyn.lax": "Control flow, and operations that convert nothing",
    "dyn.nn": "Activations, normalisation, attention, convolutions",
    "dyn.random": "Random numbers from keys",
    "dyn.tree": "Trees of arrays",
    "dyn.debug": "Looking at values while a program runs",
    "dyn.checkpoint_policies": "What a checkpoint keeps",
    "dyn.interop.jax": "JAX",
    "dyn.interop.torch": "PyTorch",
    "dyn.interop.stablehlo": "StableHLO",
}
#: Exported names that have pages of their own, or are shorter names of others.
ELSEWHERE = {
    "lax",
    "nn",
    "numpy",
    "random",
    "tree",
    "debug",
    "checkpoint_policies",
    "errors",
    "hosts",
    "config",
    "__version__",
}


def write_pages(folder: Path) -> None:
    """Write ``folder``: an index, and a page a module."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "# API reference",
        "",
        "*After this page you know which names there are, and where each is explained.*",
        "",
    ]
    lines += ["```{toctree}", ":maxdepth: 1", "", *[name.replace(".", "-") for name in MODULES], "/errors", "```", ""]
    _write(folder / "index.md", "\n".join(lines))
    for name, about in MODULES.items():
        _write(folder / f"{name.replace('.', '-')}.rst", _page(name, about))


def _write(path: Path, text: str) -> None:
    """Write what has changed only: Sphinx reads again what is newer."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _page(name: str, about: str) -> str:
    module = import_module(name)
    lines = [name, "=" * len(name), "", about + ".", "", f".. currentmodule:: {name}", ""]
    constants: list[str] = []
    groups: dict[str, list[str]] = {}
    for public in sorted(module.__all__, key=str.lower):
        value = getattr(module, public)
        if public in ELSEWHERE:
            continue
        if inspect.isclass(value) or callable(value):
            groups.setdefault(getattr(value, "__module__", name), []).append(public)
        else:
            constants.append(public)
    for home, names in sorted(groups.items(), key=lambda group: _heading(group[0])):
        heading = _heading(home) if home.startswith("dyn.") and home != name else "Types of elements"
        lines += [
            heading,
            "-" * len(heading),
            "",
            ".. autosummary::",
            "   :toctree: generated",
            "   :nosignatures:",
            "",
        ]
        lines += [*[f"   {public}" for public in names], ""]
    if constants:
        lines += ["Constants", "---------", "", ", ".join(f"``{public}``" for public in constants), ""]
    return "\n".join(lines)


def _heading(module: str) -> str:
    doc = inspect.getdoc(import_module(module)) or module
    return doc.partition("\n")[0].rstrip(".").replace("``", "").replace(":", " –")


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", lambda app, _: write_pages(Path(app.srcdir) / "api"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
