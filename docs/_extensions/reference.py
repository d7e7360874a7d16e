"""The pages of the API reference, written before the site is built from what modules export.

A module has a page, and a page for each group of its functions: those that one file defines, under the first line of
that file's docstring; those of ``dyn`` itself by task (``tasks.py``). The module's page begins with its docstring and
the names that it is opened for. A page more lists all names by task.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from tasks import FIRST, LISTED, TASKS

#: The modules of the public interface, and what a reader finds there.
MODULES = {
    "dyn": "Compiling, transformations, dims, devices",
    "dyn.numpy": "NumPy's functions, on arrays of undecided shapes",
    "dyn.numpy.linalg": "Linear algebra",
    "dyn.numpy.fft": "Fourier transforms",
    "dyn.numpy.special": "Special functions, by SciPy's names",
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
    "dyn.diagnosis.replay.Replay": (),
    "dyn.diagnosis.replay.Stop": (),
    "dyn.diagnosis.bisection.Bisection": (),
    "dyn.diagnosis.bisection.StageComparison": (),
    "dyn.diagnosis.minimal.MinimalProgram": (),
    "dyn.diagnosis.stored.StoredProgram": ("arrays", "of", "read", "function"),
    "dyn.explain.cost_analysis.CostAnalysis": (),
    "dyn.explain.cost_analysis.KernelCost": (),
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
#: Exported classes that calls make, whose constructors nobody calls, with members that are inside.
MADE = {
    "dyn.Jitted": ("declares", "version_of"),
    "dyn.Traced": ("declarations", "again"),
    "dyn.Lowered": ("optimized", "record"),
    "dyn.Compiled": ("version",),
    "dyn.DType": ("accumulator", "dlpack", "dlpack_code", "floating", "format", "is_narrow", "wide"),
    "dyn.interop.jax.JaxCallable": (),
    "dyn.interop.jax.JaxJitted": (),
    "dyn.interop.torch.TorchJitted": (),
    "dyn.interop.tf.TfCallable": ("autograph_info__",),
    "dyn.interop.tf.TfJitted": ("autograph_info__", "build_by"),
    "dyn.hosts.Host": (),
}
#: Members of the class that front ends' compiled functions derive from, which are inside too.
INSIDE = ("single", "warns_of_many")
#: Exported names that have pages of their own.
ELSEWHERE = frozenset(
    "lax nn numpy random tree debug checkpoint_policies errors hosts interop config __version__".split()  # noqa: SIM905
)
#: Groups of at most so many functions stand on their module's page.
FEW = 30


def write_pages(folder: Path) -> None:
    """Write ``folder``: an index, a page a module, and pages of groups."""
    pages = {"index.md": _index(), "by_task.rst": _by_task(), "given.rst": _given()}
    for name in MODULES:
        pages |= _pages(name)
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
    files = ["by_task", *[_file(name) for name in MODULES], "given", "/errors"]
    lines += ["```{toctree}", ":maxdepth: 2", "", *files, "```", ""]
    return "\n".join(lines)


def _by_task() -> str:
    """The page of all names: by what people do, then those of the namespaces, group by group."""
    lines = _title("Names by task", "=")
    lines += ["*After this page you know which name does what, for all public functions and classes.*", ""]
    lines += ["What people do comes first, with names as they are in ``dyn``; then the namespaces, group by group.", ""]
    lines += [".. currentmodule:: dyn", ""]
    for task, names in TASKS.items():
        lines += [*_title(task, "-"), *_summary([name.removeprefix("dyn.") for name in names])]
    for module in LISTED:
        groups, _ = _groups(module)
        lines += [*_title(f"{MODULES[module]}: {module}", "-"), f".. currentmodule:: {module}", ""]
        for home, names in groups.items():
            lines += [*(_title(_heading(home, module), "~") if len(groups) > 1 else ()), *_summary(names)]
    return "\n".join(lines)


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _summary(names: Iterable[str]) -> list[str]:
    """A table of names with the first lines of their docstrings."""
    return [".. autosummary::", "   :nosignatures:", "", *[f"   {name}" for name in names], ""]


def _given() -> str:
    """The page of classes whose objects users are given."""
    lines = ["Objects that calls and traces give", "==================================", ""]
    lines += [
        "Nobody makes these: ``x.at``, ``cost_analysis()`` and :func:`dyn.profile` give them, and a function that is",
        "traced is called with them.",
        "",
    ]
    for path, inside in GIVEN.items():
        lines += [*_class(f"{path}()", inside), ""]
    return "\n".join(lines)


def _class(signature: str, inside: Iterable[str], *options: str) -> list[str]:
    """The entry of a class without the members that are inside."""
    names = ", ".join(inside)
    return [
        f".. autoclass:: {signature}", "   :members:", *[f"   {option}" for option in options],
        *([f"   :exclude-members: {names}"] if names else []),
    ]  # fmt: skip


def _file(*parts: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", "-".join(parts).lower()))


def _pages(name: str) -> dict[str, str]:
    """The pages of a module, by their files' names."""
    groups, constants = _groups(name)
    single = sum(map(len, groups.values())) <= FEW
    main = [*_title(name, "="), f".. currentmodule:: {name}", "", *_opening(name)]
    pages: dict[str, str] = {}
    if not single:
        main += [".. toctree::", "   :hidden:", "", *[f"   {_file(name, home)}" for home in groups], ""]
    for home, names in groups.items():
        heading = _heading(home, name)
        main += [*_title(heading, "-"), *_summary(names)]
        entries = [line for public in names for line in _entry(name, public)]
        if single:
            main += entries
        else:
            page = [*_title(heading, "="), f".. currentmodule:: {name}", "", *entries]
            pages[f"{_file(name, home)}.rst"] = "\n".join(page)
    if constants:
        main += ["Constants", "---------", "", ", ".join(f"``{public}``" for public in constants), ""]
    pages[f"{_file(name)}.rst"] = "\n".join(main)
    return pages


def _opening(name: str) -> list[str]:
    """What a module's page begins with: its docstring, and the names that it is opened for."""
    paragraphs = (inspect.getdoc(import_module(name)) or "").split("\n\n")
    # Why a file is long is for those who write it.
    lines = [*"\n\n".join(p for p in paragraphs if not p.startswith("This file is longer")).splitlines(), ""]
    if name in FIRST:
        lines += [*_title("Begin with", "-"), *_summary(FIRST[name])]
    return lines


def _groups(name: str) -> tuple[dict[str, list[str]], list[str]]:
    """The exported functions and classes of a module by the modules that define them, and its other names.

    Those of ``dyn`` are by task; what has none comes last. Of other modules what it is opened for comes first.
    """
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
    if name == "dyn":
        return _grouped_by_task([public for names in groups.values() for public in names]), constants
    rank = _ranks(name)
    if name not in FIRST:  # a page of few functions: in each group too
        groups = {home: sorted(names, key=lambda p: rank.get(p, len(rank))) for home, names in groups.items()}
    order = {home: min(rank.get(public, len(rank)) for public in names) for home, names in groups.items()}
    return {home: groups[home] for home in sorted(groups, key=lambda h: (order[h], _heading(h, name)))}, constants


def _ranks(name: str) -> dict[str, int]:
    """Places of a module's names in what it is opened for, and then in what people do."""
    paths = [path.rpartition(".") for names in TASKS.values() for path in names]
    names = [*FIRST.get(name, ()), *[public for module, _, public in paths if module == name]]
    return {public: place for place, public in enumerate(dict.fromkeys(names))}


def _grouped_by_task(names: list[str]) -> dict[str, list[str]]:
    tasks = {task: [path.removeprefix("dyn.") for path in paths] for task, paths in TASKS.items()}
    groups = {task: [name for name in own if name in names] for task, own in tasks.items()}
    taken = {name for own in groups.values() for name in own}
    groups["Further names"] = [name for name in names if name not in taken]
    return {task: own for task, own in groups.items() if own}


def _entry(name: str, public: str) -> list[str]:
    value = getattr(import_module(name), public)
    if inspect.isclass(value):
        # Methods of a class that several front ends derive theirs from are told of with each.
        inherited = any(base.__module__.startswith("dyn.frontend") for base in value.__mro__[1:])
        path = f"{name}.{public}"
        signature = f"{path}()" if path in MADE else path
        inside = (*MADE.get(path, ()), *(INSIDE if inherited else ()))
        return [*_class(signature, inside, *([":inherited-members: object"] if inherited else [])), ""]
    return [f".. autofunction:: {name}.{public}", ""]


def _is_earlier(name: str, value: Any) -> bool:
    """Tell whether a module in front of ``name`` exports the same class, which has its entry there."""
    earlier = list(MODULES)[: list(MODULES).index(name)]
    modules = [import_module(module) for module in earlier]
    return any(getattr(module, public) is value for module in modules for public in module.__all__)


def _heading(home: str, name: str) -> str:
    """The heading of a group: a task's own, or the first sentence of the docstring of the file ``home``."""
    if name == "dyn":
        return home
    line = (inspect.getdoc(import_module(home)) or home).partition("\n")[0]
    sentence = re.split(r"\.(?: (?=[A-Z])|$)", line)[0]
    return name if home == name else sentence.replace("``", "").replace(":", " –")


def _call_by_public_names() -> None:
    """Give exported classes their public names: of one with another name autodoc says only that it is an alias."""
    for name in MODULES:
        module = import_module(name)
        for public in module.__all__:
            value = getattr(module, public)
            if inspect.isclass(value) and value.__module__.startswith("dyn.") and not _is_earlier(name, value):
                value.__name__ = public


def keep_colons(_app: Any, what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Keep Napoleon from taking what stands before a colon for the type of an attribute: the variable of a setting."""
    if what in ("attribute", "property") and lines:
        lines[0] = lines[0].replace(": ", " – ")


def setup(app: Any) -> dict[str, bool]:
    _call_by_public_names()
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # Napoleon's is 500
    app.connect("config-inited", lambda app, _: write_pages(Path(app.srcdir) / "api"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
