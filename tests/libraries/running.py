"""Run a call in this process: with eager arrays, and inside a jitted function."""

from __future__ import annotations

import contextlib
import importlib
import re
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.libraries.calls import SIZES, Call, Table
from tests.libraries.comparing import Differs, TypeDiffers, compare, compare_types, is_array, leaves

#: The modules with calls of each library, and the tables in them.
LIBRARIES = {
    "scipy": (
        "scipy.cluster:TABLE", "scipy.others:CONSTANTS", "scipy.others:DIFFERENTIATE", "scipy.fft:TABLE",
        "scipy.others:INTEGRATE", "scipy.others:INTERPOLATE", "scipy.others:LINALG", "scipy.ndimage:TABLE",
        "scipy.others:OPTIMIZE", "scipy.signal:TABLE", "scipy.filters:TABLE", "scipy.signal:WINDOWS",
        "scipy.transform:TABLE", "scipy.special:TABLE", "scipy.stats:TABLE",
    ),
    "sklearn": ("sklearn.estimators:TABLE", "sklearn.metrics:TABLE", "sklearn.estimators:PAIRWISE"),
    "array_api_extra": ("small:EXTRA",),
    "einops": ("small:EINOPS",),
    "xarray": ("labelled:TABLE",),
}  # fmt: skip
STAGES = ("eager", "jit")
#: The size of an eager call.
_EAGER = 12


@dataclass(frozen=True)
class Result:
    """The outcome of a call in a stage; ``programs`` is how many were compiled for the ten sizes."""

    library: str
    module: str
    name: str
    stage: str
    kind: str
    reason: str = ""
    programs: int = 0
    seconds: float = 0.0


@cache
def calls(library: str) -> dict[str, Call]:
    """The calls of a library by their keys."""
    made: dict[str, Call] = {}
    for place in LIBRARIES[library]:
        module, _, name = place.partition(":")
        table: Table = getattr(importlib.import_module(f"tests.libraries.{module}"), name)
        for call in table.calls:
            if call.key in made:
                raise ValueError(f"two calls are named {call.key}")
            made[call.key] = call
    return made


def run(task: tuple[str, str, str]) -> tuple[str, str, int]:
    """The kind, reason and number of programs of a call: its library, key and stage."""
    library, key, stage = task
    call = calls(library)[key]
    warnings.simplefilter("ignore")
    with _settings(library):
        try:
            wanted = _wanted(call, stage)
        except Exception as error:
            return "failed", f"NumPy itself: {_first_line(error)}", 0
        if stage == "jit":
            return _traced(call, wanted)
        return (*_eager(call, wanted), 0)


def _settings(library: str) -> Any:
    """The context in which a library takes arrays of others."""
    if library == "sklearn":
        return importlib.import_module("sklearn").config_context(array_api_dispatch=True)
    if library == "xarray":  # opt_einsum, which comes with JAX, leaves arrays that it does not know to NumPy
        return importlib.import_module("xarray").set_options(use_opt_einsum=False)
    return contextlib.nullcontext()


def _wanted(call: Call, stage: str) -> dict[Any, list[Any]]:
    """NumPy's results, by the size, and by the dtype of an eager call."""
    if stage == "jit":
        return {size: leaves(call.run(np, call.arrays(size))) for size in SIZES}
    return {dtype: leaves(call.run(np, call.arrays(_EAGER, dtype))) for dtype in dtypes(call)}


def dtypes(call: Call) -> list[str]:
    """The dtypes of an eager call: float32 too where the arrays are not the same in it."""
    wide, narrow = call.arrays(_EAGER), call.arrays(_EAGER, "float32")
    same = all(a.dtype == b.dtype for a, b in zip(wide, narrow, strict=True))
    return ["float64"] if same or call.wide_only else ["float64", "float32"]


def _eager(call: Call, wanted: dict[Any, list[Any]]) -> tuple[str, str]:
    """The kind and reason of a call with eager arrays."""
    import dyn
    import dyn.numpy as dnp

    for dtype, numpys in wanted.items():
        note = "" if dtype == "float64" else f"{dtype}: "
        try:
            arrays = [dnp.asarray(array) for array in call.arrays(_EAGER, dtype)]
            made = leaves(call.run(dnp, arrays))
            compare(made, numpys, dtype)
            _compare_types(call, dtype, made, numpys, dyn.Array)
        except Exception as error:
            kind, reason = judged(error)
            return kind, note + reason
    return "passed", ""


def _compare_types(call: Call, dtype: str, made: Sequence[Any], wanted: Sequence[Any], kind: type) -> None:
    """Compare dtypes and classes with NumPy's, or with those that the library gives array-api-strict.

    SciPy has code of its own for NumPy's arrays here and there. It widens float32 to float64 (``Rotation``), or returns
    real roots where they happen to be real; some functions return NumPy's arrays for every other namespace.
    """
    try:
        compare_types(made, wanted, kind, np.ndarray)
    except TypeDiffers:
        import array_api_strict as strict

        try:
            others = leaves(call.run(strict, [strict.asarray(array) for array in call.arrays(_EAGER, dtype)]))
        except Exception:
            others = None
        if others is None or len(others) != len(made):
            raise
        compare_types(made, others, kind, type(strict.asarray(0)))


def _traced(call: Call, wanted: dict[Any, list[Any]]) -> tuple[str, str, int]:
    """The kind, reason and number of programs of a call inside a jitted function."""
    import dyn
    import dyn.numpy as dnp

    def function(*arrays: Any) -> list[Any]:
        """The arrays and numbers in the call's result."""
        return [leaf for leaf in leaves(call.run(dnp, arrays)) if _is_number(leaf)]

    compiled = dyn.jit(function)
    for size in SIZES:
        try:
            made = compiled(*[dnp.asarray(array) for array in call.arrays(size)])
            numpys = [leaf for leaf in wanted[size] if _is_number(leaf)]
            compare(made, numpys, "float64")
        except Exception as error:
            kind, reason = judged(error)
            note = f"at n = {size}: " if size != SIZES[0] and isinstance(error, Differs) else ""
            return kind, note + reason, compiled.cache_info().compiles
    programs = compiled.cache_info().compiles
    if programs != 1:
        return "programs", f"{programs} programs for ten sizes", programs
    return "passed", "", programs


def _is_number(leaf: Any) -> bool:
    """Return True if a leaf can be a result of a jitted function."""
    return is_array(leaf) or isinstance(leaf, (float, complex)) or hasattr(leaf, "__index__")


def judged(error: Exception) -> tuple[str, str]:
    """The kind and reason of an error: ``differs``, ``refused`` by dyn, or ``failed``; with the library's line."""
    if isinstance(error, Differs):
        return "differs", str(error)
    # dyn's errors are Python's too (a ShapeError is a ValueError): what dyn raised is known by its module.
    own = type(error).__module__.startswith("dyn")
    return "refused" if own else "failed", f"{_first_line(error)} [{_place(error)}]"


def _first_line(error: BaseException) -> str:
    """An error's class and the first line of its text."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:240] if lines else ''}"


def _place(error: BaseException) -> str:
    """The innermost line of an installed library."""
    frames: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    root = str(Path(__file__).resolve().parents[2])
    outside = [f for f in frames if not f.filename.startswith((root + "/dyn", root + "/tests", "<"))]
    if not outside:
        return "the call"
    last = outside[-1]
    file = re.sub(r".*/(?:site-packages|libs)/", "", last.filename)
    return f"{file}:{last.lineno} {(last.line or '').strip()[:90]}"


def listed(task: object) -> dict[str, tuple[bool, bool]]:
    """SciPy's functions that support the array API: those that only run on the CPU, and those that JAX can trace."""
    import pkgutil

    import scipy
    from scipy._lib._array_api import xp_capabilities_table

    for package in [scipy.cluster, scipy.optimize, scipy.signal, scipy.spatial, scipy.stats]:
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if not module.name.rpartition(".")[2].startswith(("_", "tests")):
                importlib.import_module(module.name)
    for name in ("constants", "differentiate", "fft", "integrate", "interpolate", "linalg", "ndimage", "special"):
        importlib.import_module(f"scipy.{name}")
    made = {"scipy.signal.get_window": (False, True)}  # the table has it under the name of its module alone
    for function, able in xp_capabilities_table.items():
        if able["np_only"] or able["out_of_scope"] or function.__name__.startswith(("_promote", "_xp_")):
            continue
        module = ".".join([part for part in function.__module__.split(".") if not part.startswith("_")])
        module = (
            "scipy.spatial.transform._rigid_transform" if function.__name__ == "normalize_dual_quaternion" else module
        )
        module = module + ".elementwise" if "optimize._elementwise" in function.__module__ else module
        made[f"{module}.{function.__qualname__}"] = bool(able["cpu_only"]), bool(able["jax_jit"])
    return made
