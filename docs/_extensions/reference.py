"""The pages of the API reference, written before the site is built from what modules export.

A module has a page, and a page for each group of its functions: those that one file defines, under the first line of
that file's docstring.
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
    "dyn.numpy.linalg": "Linear algebra",
    "dyn.numpy.fft": "Fourier transforms",
    "dyn.lax": "Control flow, and operations that convert nothing",
    "dyn.lax.linalg": "Factors of matrices, as raw operations",
    "dyn.nn": "Activations, normalisation, attention, convolutions",
    "dyn.random": "Random numbers from keys",
    "dyn.tree": "Trees of arrays",
    "dyn.debug": "Looking at values while a program runs",
    "dyn.checkpoint_policies": "What a checkpoint keeps",
    "dyn.interop.jax": "JAX",
    "dyn.interop.torch": "PyTorch",
    "dyn.interop.tf": "TensorFlow",
    "dyn.interop.keras": "Keras 3",
    "dyn.interop.stablehlo": "StableHLO",
    "dyn.interop.onnx": "ONNX",
    "dyn.hosts": "Libraries of arrays: adapters of NumPy, PyTorch, JAX and DLPack",
}
#: Classes that no module exports, and whose objects calls give and traced functions get, with members that are inside.
GIVEN = {
    "dyn.trace.tracer.Tracer": ("dims", "element_type", "weak", "value_in", "renewed"),
    "dyn.trace.dims.SymbolicDim": ("dim", "trace", "known", "known_here", "value"),
    "dyn.numpy._indexing.at.At": (),
    "dyn.numpy._indexing.at.AtIndex": (),
    "dyn.profiling.session.Profile": (),
    "dyn.profiling.averages.Averages": (),
    "dyn.profiling.averages.Average": (),
    "dyn.profiling.events.Events": (),
    "dyn.profiling.events.CallEvent": (),
    "dyn.profiling.events.LaunchEvent": (),
    "dyn.profiling.events.KernelInfo": (),
    "dyn.profiling.events.PieceEvent": (),
    "dyn.profiling.events.CompileStage": (),
}
#: Exported names that have pages of their own.
ELSEWHERE = frozenset(
    "lax nn numpy random tree debug checkpoint_policies errors hosts interop config __version__".split()  # noqa: SIM905
)
#: Groups of at most so many functions stand on their module's page.
FEW = 30


def write_pages(folder: Path) -> None:
    """Write ``folder``: an index, a page a module, and pages of groups."""
    pages = {"index.md": _index(), "given.rst": _given()}
    for name, about in MODULES.items():
        pages |= _pages(name, about)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.*"):
        if old.name not in pages:
            old.unlink()
    for file, text in pages.items():
        path = folder / file
        if not path.exists() or path.read_text() != text:  # Sphinx reads again what is newer
            path.write_text(text)


def _index() -> str:
    lines = [
        "# API reference",
        "",
        "*After this page you know which names there are, and where each is explained.*",
        "",
    ]
    lines += ["```{toctree}", ":maxdepth: 2", "", *[_file(name) for name in MODULES], "given", "/errors", "```", ""]
    return "\n".join(lines)


def _given() -> str:
    """The page of classes whose objects users are given."""
    lines = ["Objects that calls and traces give", "==================================", ""]
    lines += [
        "Nobody makes these: ``x.at`` and :func:`dyn.profile` give them, and a function that is traced is called",
        "",
    ]
    lines[-2] += " with them."
    for path, inside in GIVEN.items():
        lines += [f".. autoclass:: {path}()", "   :members:"]
        lines += [f"   :exclude-members: {', '.join(inside)}"] if inside else []
        lines += [""]
    return "\n".join(lines)


def _file(*parts: str) -> str:
    return "-".join(parts).replace(".", "-").replace("_", "-").replace("--", "-")


def _pages(name: str, about: str) -> dict[str, str]:
    """The pages of a module, by their files' names."""
    groups, constants = _groups(name)
    single = sum(map(len, groups.values())) <= FEW
    main = [name, "=" * len(name), "", about + ".", "", f".. currentmodule:: {name}", ""]
    pages: dict[str, str] = {}
    if not single:
        main += [".. toctree::", "   :hidden:", "", *[f"   {_file(name, home)}" for home in groups], ""]
    for home, names in groups.items():
        heading = _heading(home, name)
        main += [heading, "-" * len(heading), "", ".. autosummary::", "   :nosignatures:", ""]
        main += [*[f"   {public}" for public in names], ""]
        entries = [line for public in names for line in _entry(name, public)]
        if single:
            main += entries
        else:
            page = [heading, "=" * len(heading), "", f".. currentmodule:: {name}", "", *entries]
            pages[f"{_file(name, home)}.rst"] = "\n".join(page)
    if constants:
        main += ["Constants", "---------", "", ", ".join(f"``{public}``" for public in constants), ""]
    pages[f"{_file(name)}.rst"] = "\n".join(main)
    return pages


def _groups(name: str) -> tuple[dict[str, list[str]], list[str]]:
    """The exported functions and classes of a module by the modules that define them, and its other names."""
    module = import_module(name)
    groups: dict[str, list[str]] = {}
    constants: list[str] = []
    for public in sorted(module.__all__, key=str.lower):
        value = getattr(module, public)
        if public in ELSEWHERE:
            continue
        home = getattr(value, "__module__", "")
        if callable(value) and home.startswith("dyn.") and not (inspect.isclass(value) and _is_earlier(name, value)):
            groups.setdefault(home, []).append(public)
        else:
            constants.append(public)
    return dict(sorted(groups.items(), key=lambda group: _heading(group[0], name))), constants


def _entry(name: str, public: str) -> list[str]:
    value = getattr(import_module(name), public)
    if inspect.isclass(value):
        return [f".. autoclass:: {name}.{public}", "   :members:", ""]
    return [f".. autofunction:: {name}.{public}", ""]


def _is_earlier(name: str, value: Any) -> bool:
    """Tell whether a module in front of ``name`` exports the same class, which has its entry there."""
    earlier = list(MODULES)[: list(MODULES).index(name)]
    modules = [import_module(module) for module in earlier]
    return any(getattr(module, public) is value for module in modules for public in module.__all__)


def _heading(home: str, name: str) -> str:
    doc = inspect.getdoc(import_module(home)) or home
    return name if home == name else doc.partition("\n")[0].rstrip(".").replace("``", "").replace(":", " –")


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", lambda app, _: write_pages(Path(app.srcdir) / "api"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
