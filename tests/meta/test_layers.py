"""Imports go down: walks dyn's sources and checks every import against the rooms of the house (CONTRIBUTING.md).

Imports inside functions and under ``TYPE_CHECKING`` count. The checker itself is tested on small made-up sources.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "dyn"

# The number of each room: a folder of dyn/, or a file beside them.
ROOMS = {
    "source": 0, "errors": 0, "config": 0, "events": 0, "shutdown": 0, "fork_safety": 0,
    "late_imports": 0, "lazy_property": 0, "requirements": 0, "tracebacks": 0,
    "dtypes": 0, "dtype_aliases": 0, "frozen": 0,
    "integers": 0, "version": 0,
    "shapes": 1,
    "ir": 2,
    "ops": 3,
    "passes": 4, "trace": 4, "stitch": 4,
    "schedule": 5, "lower": 5,
    "runtime": 6, "backends": 6, "hosts": 6,
    "progress": 7,
    "compilation_record": 7, "pipeline": 7, "explain": 7, "profiling": 7, "array": 7, "call": 7, "specialize": 7,
    "stages": 7, "diagnosis": 7, "frontend": 7, "api": 7, "eager": 7, "transforms": 7, "custom": 7,
    "checkpoint_policies": 7, "checkpointing": 7, "tree": 7,
    "callbacks": 7, "jupyter": 7, "debug": 7, "foreign": 7, "native_callable": 7,
    "lax": 8, "numpy": 8, "nn": 8, "random": 8, "interop": 8,
    "__init__": 9, "doctor": 9, "commands": 9, "__main__": 9,
}  # fmt: skip

# Among rooms of one number these may import those left of them; no others know each other.
LEFT_TO_RIGHT = [
    ("frozen", "source", "errors", "config", "events"),
    ("source", "errors", "config", "tracebacks"),
    ("fork_safety", "late_imports"),
    ("source", "errors", "requirements"),
    ("fork_safety", "requirements"),
    ("frozen", "source", "errors", "dtypes", "dtype_aliases"),
    ("passes", "trace"),
    ("passes", "stitch"),
    ("schedule", "lower"),
    ("runtime", "backends"),
    ("runtime", "hosts"),
    (
        "compilation_record",
        "pipeline",
        "explain",
        "array",
        "call",
        "specialize",
        "stages",
        "diagnosis",
        "frontend",
        "api",
        "eager",
        "transforms",
        "custom",
    ),
    ("compilation_record", "pipeline", "explain", "profiling"),
    ("call", "native_callable", "frontend", "api"),
    ("progress", "stages", "frontend", "jupyter"),
    ("eager", "transforms", "checkpoint_policies", "checkpointing"),
    ("array", "api", "eager", "transforms", "custom", "callbacks", "debug"),
    ("transforms", "custom", "callbacks", "foreign"),
    ("diagnosis", "debug"),
    ("lax", "numpy", "nn", "random", "interop"),
    ("__init__", "doctor", "commands", "__main__"),
]

# Imported only inside functions, so that `import dyn` stays quick and works without them. interop/ is exempt: its
# modules are imported by people who have the framework.
HEAVY = {"jax", "jaxlib", "torch", "tensorflow", "cuda", "scipy", "matplotlib"}

# What belongs to one family of targets is known to the rooms that it lies in, to what says what a machine can run, and
# to nobody else: who needs it asks for the family of a target.
FAMILIES = (
    "dyn.schedule.gpu",
    "dyn.schedule.x86",
    "dyn.lower.x86",
    "dyn.lower.gpu",
    "dyn.backends.x86",
    "dyn.backends.cuda",
    "dyn.backends.rocm",
)
KNOW_FAMILIES = {"schedule", "lower", "backends", "doctor"}

# Each is touched by one file only, in backends/; the rooms below generate text and start nothing.
ONE_FILE_IN_BACKENDS = {"llvmlite", "cuda"}
ONLY_IN_BACKENDS = {"subprocess"}


# ---- the checker -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """One imported module, absolute, and where it stands."""

    module: str
    line: int
    runs_on_import: bool  # at the top level of its module, and not under TYPE_CHECKING


def imports_of(module: str, tree: ast.Module, modules: frozenset[str]) -> Iterator[Import]:
    """Every import in a module. ``modules`` are dyn's own, to tell ``from dyn.ir import types`` from a plain name."""
    package = module if f"{module}.__init__" in modules else module.rpartition(".")[0]
    for node, runs in _walk(tree, True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, runs)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield Import(name if name in modules else base, node.lineno, runs)
        elif isinstance(node, ast.Call) and _dotted(node.func) in (
            "importlib.import_module",
            "import_module",
            "__import__",
        ):
            match node.args:
                case [ast.Constant(value=str(name)), *_]:
                    yield Import(name, node.lineno, runs)
                case _:
                    pass


def _walk(node: ast.AST, runs: bool) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes below ``node``, and whether each runs when the module is imported."""
    for child in ast.iter_child_nodes(node):
        child_runs = runs and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.If) and _dotted(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for part in child.body:
                yield part, False
                yield from _walk(part, False)
            for part in child.orelse:
                yield part, child_runs
                yield from _walk(part, child_runs)
            continue
        yield child, child_runs
        yield from _walk(child, child_runs)


def _dotted(node: ast.AST) -> str:
    """``a.b.c`` for such an expression, ``""`` for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


def room_of(module: str) -> str:
    """The room of a module of dyn: its second name."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def may_import(importer: str, imported: str) -> bool:
    """Whether a room may import another."""
    if importer == imported or ROOMS[imported] < ROOMS[importer]:
        return True
    return any(
        importer in order and imported in order and order.index(imported) < order.index(importer)
        for order in LEFT_TO_RIGHT
    )


def check(sources: Mapping[str, str]) -> list[str]:
    """The broken rules in ``{"dyn/ir/types.py": text}``, each as ``file:line: what is wrong``."""
    named = {path.removesuffix(".py").replace("/", "."): path for path in sources}
    modules = frozenset(named) | {name.removesuffix(".__init__") for name in named}
    problems: list[str] = []
    touched: dict[str, set[str]] = {name: set() for name in ONE_FILE_IN_BACKENDS}
    for name, path in sorted(named.items()):
        module = name.removesuffix(".__init__")
        room = room_of(module)
        if room not in ROOMS:
            problems.append(f"{path}:1: the room {room!r} has no number; give it one in ROOMS and in CONTRIBUTING.md")
            continue
        tree = ast.parse(sources[path], path)
        for found in imports_of(module, tree, modules):
            where = f"{path}:{found.line}"
            root = found.module.partition(".")[0]
            if root == "dyn":
                other = room_of(found.module)
                if other not in ROOMS:
                    problems.append(f"{where}: imports {found.module}, whose room has no number")
                elif not may_import(room, other):
                    problems.append(f"{where}: {room} ({ROOMS[room]}) imports {found.module} ({ROOMS[other]})")
            family = next((f for f in FAMILIES if f"{found.module}.".startswith(f"{f}.")), None)
            if family is not None and room not in KNOW_FAMILIES:
                problems.append(f"{where}: {family} belongs to one family of targets; use dyn.backends.families")
            if root in HEAVY and found.runs_on_import and room != "interop":
                problems.append(f"{where}: {root} is heavy; import it in the function that uses it")
            if root in ONE_FILE_IN_BACKENDS | ONLY_IN_BACKENDS and room != "backends":
                problems.append(f"{where}: {root} is for backends/ alone")
            elif root in ONE_FILE_IN_BACKENDS:
                touched[root].add(path)
        if path not in _WITHOUT_DYN:
            problems += [
                f"{path}:{line}: {name} is imported in a function, without import_whole({name!r}) before it"
                for name, line in divided_imports(tree, modules)
            ]
        if path != "dyn/config.py":
            problems += [
                f"{path}:{line}: reads the environment; only dyn/config.py does" for line in environment_reads(tree)
            ]
    problems += [
        f"{', '.join(sorted(paths))}: {name} is touched by {len(paths)} files; one is enough"
        for name, paths in sorted(touched.items())
        if len(paths) > 1
    ]
    return problems


#: A file that runs in a process of its own, and what others are imported by.
_WITHOUT_DYN = ("dyn/interop/stablehlo/mlir/untrusted_modules.py", "dyn/late_imports.py")
_WHOLE = ("import_whole", "load_modules")


def divided_imports(tree: ast.Module, modules: frozenset[str]) -> Iterator[tuple[str, int]]:
    """The modules of dyn's that functions import though a signal may find them half imported, and the lines."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        whole: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _dotted(node.func) in _WHOLE:
                whole |= {str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)}
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for found in imports_of("", ast.Module([node], []), modules):
                    if found.module.split(".")[0] == "dyn" and found.module not in whole:
                        yield found.module, node.lineno


def environment_reads(tree: ast.Module) -> Iterator[int]:
    """The lines that reach the process's environment, under whatever name ``os`` was imported."""
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    nodes = list(ast.walk(tree))
    imported = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    aliases = {alias.asname or alias.name for alias in imported if alias.name == "os"}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in names and _dotted(node.value) in aliases:
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "os" and any(a.name in names for a in node.names):
            yield node.lineno


# ---- dyn's own sources -----------------------------------------------------------------------------------------------


def test_dyn_keeps_the_layers() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    problems = check({str(path.relative_to(PACKAGE.parent)): path.read_text(encoding="utf-8") for path in paths})
    assert not problems, "\n" + "\n".join(problems)


def test_importing_dyn_loads_nothing_heavy() -> None:
    code = f"import sys, dyn; print(*sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []


def test_nothing_waits_for_a_lock_of_all_objects_of_a_class() -> None:
    """Python 3.11's ``cached_property`` has one; ``dyn.lazy_property`` has none."""
    users = []
    for path in sorted(PACKAGE.rglob("*.py")):
        names = [
            n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.ImportFrom | ast.Attribute)
        ]
        if any(
            _dotted(n) == "functools.cached_property" or (isinstance(n, ast.ImportFrom) and _imports_cached(n))
            for n in names
        ):
            users.append(path)
    assert users == []


def _imports_cached(node: ast.ImportFrom) -> bool:
    return any(alias.name == "cached_property" for alias in node.names)


# ---- the checker's own tests -----------------------------------------------------------------------------------------

SMALL = {
    "dyn/__init__.py": "",
    "dyn/errors.py": "",
    "dyn/shapes/__init__.py": "",
    "dyn/shapes/expr.py": "",
    "dyn/ir/__init__.py": "",
    "dyn/ir/types.py": "",
    "dyn/lax/__init__.py": "",
    "dyn/numpy/__init__.py": "",
}


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("dyn/ir/types.py", "from dyn.shapes import expr", ""),
        ("dyn/ir/types.py", "from dyn.ir import printer\nfrom . import anything", ""),
        ("dyn/shapes/expr.py", "from dyn.ir import types", "1: shapes (1) imports dyn.ir.types (2)"),
        ("dyn/shapes/expr.py", "import dyn.ir.types as t", "1: shapes (1) imports dyn.ir.types (2)"),
        ("dyn/shapes/expr.py", "from ..ir.types import T", "1: shapes (1) imports dyn.ir.types (2)"),
        ("dyn/shapes/expr.py", "from .. import ir", "1: shapes (1) imports dyn.ir (2)"),
        ("dyn/shapes/__init__.py", "from ..ir import types", "1: shapes (1) imports dyn.ir.types (2)"),
        ("dyn/shapes/__init__.py", "from .expr import a\nfrom dyn import errors", ""),
        ("dyn/shapes/expr.py", "import_whole('dyn.ir')\nimport dyn.ir", "2: shapes (1) imports dyn.ir (2)"),
        ("dyn/lax/a.py", "def f():\n    import_whole('dyn.ir.types')\n    from dyn.ir import types", ""),
        (
            "dyn/lax/a.py", "def f():\n    from dyn.ir import types",
            "2: dyn.ir.types is imported in a function, without import_whole('dyn.ir.types') before it",
        ),
        ("dyn/shapes/expr.py", "if TYPE_CHECKING:\n    import dyn.ir", "2: shapes (1) imports dyn.ir (2)"),
        ("dyn/shapes/expr.py", "importlib.import_module('dyn.ir')", "1: shapes (1) imports dyn.ir (2)"),
        ("dyn/shapes/expr.py", "from dyn import jit", "1: shapes (1) imports dyn (9)"),
        ("dyn/shapes/expr.py", "import dyn", "1: shapes (1) imports dyn (9)"),
        ("dyn/shapes/expr.py", "import dyn.attic", "1: imports dyn.attic, whose room has no number"),
        ("dyn/trace/t.py", "import dyn.stitch", "1: trace (4) imports dyn.stitch (4)"),
        ("dyn/stitch/s.py", "import dyn.trace", "1: stitch (4) imports dyn.trace (4)"),
        ("dyn/backends/b.py", "import dyn.runtime", ""),
        ("dyn/hosts/h.py", "import dyn.runtime", ""),
        ("dyn/runtime/r.py", "import dyn.backends", "1: runtime (6) imports dyn.backends (6)"),
        ("dyn/lower/l.py", "import dyn.runtime", "1: lower (5) imports dyn.runtime (6)"),
        ("dyn/hosts/h.py", "import dyn.backends", "1: hosts (6) imports dyn.backends (6)"),
        ("dyn/numpy/__init__.py", "import dyn.lax", ""),
        ("dyn/lax/__init__.py", "import dyn.numpy", "1: lax (8) imports dyn.numpy (8)"),
        ("dyn/numpy/linalg.py", "import dyn.interop", "1: numpy (8) imports dyn.interop (8)"),
        ("dyn/api.py", "import dyn.pipeline", ""),
        ("dyn/pipeline.py", "import dyn.api", "1: pipeline (7) imports dyn.api (7)"),
        ("dyn/pipeline.py", "from dyn.backends.families import family_of", ""),
        ("dyn/backends/families.py", "def f():\n    load_modules('dyn.lower.x86')\n    import dyn.lower.x86", ""),
        (
            "dyn/pipeline.py", "from dyn.lower.x86.emit import emit_kernel",
            "1: dyn.lower.x86 belongs to one family of targets; use dyn.backends.families",
        ),
        (
            "dyn/call.py", "import dyn.backends.x86",
            "1: dyn.backends.x86 belongs to one family of targets; use dyn.backends.families",
        ),
        ("dyn/errors.py", "from dyn.source import Loc", ""),
        ("dyn/source.py", "import dyn.errors", "1: source (0) imports dyn.errors (0)"),
        ("dyn/config.py", "import os, dyn.dtypes\nos.environ", "1: config (0) imports dyn.dtypes (0)"),
        ("dyn/__main__.py", "import dyn", ""),
        ("dyn/attic.py", "", "1: the room 'attic' has no number; give it one in ROOMS and in CONTRIBUTING.md"),
        ("dyn/ops/fft.py", "import scipy.fft", "1: scipy is heavy; import it in the function that uses it"),
        ("dyn/ops/fft.py", "if 1:\n    from jax import x", "2: jax is heavy; import it in the function that uses it"),
        ("dyn/ops/fft.py", "def f():\n    import scipy\nif TYPE_CHECKING:\n    import jax", ""),
        ("dyn/interop/jax.py", "import jax", ""),
        ("dyn/lower/x86.py", "from llvmlite import binding", "1: llvmlite is for backends/ alone"),
        ("dyn/lower/cuda.py", "def f():\n    import cuda.bindings", "2: cuda is for backends/ alone"),
        ("dyn/lower/hip.py", "import subprocess", "1: subprocess is for backends/ alone"),
        ("dyn/backends/x86.py", "from llvmlite import binding\nimport subprocess", ""),
        ("dyn/ir/types.py", "import os as _os\n_os.environ['A']", "2: reads the environment; only dyn/config.py does"),
        ("dyn/ir/types.py", "from os import getenv", "1: reads the environment; only dyn/config.py does"),
        ("dyn/ir/types.py", "import os\nos.path.join('a')", ""),
    ],
)  # fmt: skip
def test_checker(path: str, text: str, problem: str) -> None:
    assert check({**SMALL, path: text}) == ([f"{path}:{problem}"] if problem else [])


def test_checker_counts_the_files_that_touch_a_toolchain() -> None:
    sources = {"dyn/backends/x86.py": "import llvmlite", "dyn/backends/cuda.py": "def f():\n    import llvmlite"}
    assert check(sources) == [
        "dyn/backends/cuda.py, dyn/backends/x86.py: llvmlite is touched by 2 files; one is enough"
    ]
