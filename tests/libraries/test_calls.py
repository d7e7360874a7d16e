"""The suite of libraries' calls itself: its tables, its comparisons, and a few of its calls."""

from __future__ import annotations

import numpy as np
import pytest

import dyn.numpy as dnp
from dyn import Array
from tests.interop.processes import in_processes
from tests.libraries.__main__ import SETUP
from tests.libraries.comparing import Differs, TypeDiffers, compare, compare_types, leaves
from tests.libraries.page import general, plain
from tests.libraries.running import LIBRARIES, calls


def test_names_differ() -> None:
    """No call has the name of another one, which would hide it."""
    assert {library: len(calls(library)) > 10 for library in LIBRARIES} == dict.fromkeys(LIBRARIES, True)


def test_values_are_compared() -> None:
    wanted = leaves({"a": np.arange(3.0), "b": ("text", 2)})
    compare(leaves({"a": dnp.asarray(np.arange(3.0)), "b": ("text", 2)}), wanted, "float64")
    for other in ([np.arange(3.0) + 1e-6, "text", 2], [np.arange(4.0), "text", 2], [np.arange(3.0), "text", 3]):
        with pytest.raises(Differs):
            compare(other, wanted, "float64")


def test_types_are_compared() -> None:
    wanted = [np.arange(3.0)]
    compare_types([dnp.asarray(np.arange(3.0))], wanted, Array, np.ndarray)
    for other in (np.arange(3.0), dnp.asarray(np.arange(3))):
        with pytest.raises(TypeDiffers):
            compare_types([other], wanted, Array, np.ndarray)


def test_reasons_are_joined() -> None:
    problem = "UndecidedDimError: hash() needs one value of the dimension x (x is args[0].shape[0]), and it differs"
    assert (
        general(f"{problem} [a.py:1 f]")
        == "UndecidedDimError: hash() needs one value of the dimension that differs from call to call"
    )
    modules = ["<module 'numpy' from '/home/a/numpy/__init__.py'>", "<module 'dyn.numpy' from '/home/a/dyn"]
    for first, second in (modules, modules[::-1]):
        problem = f"TypeError: Multiple namespaces for array inputs: {{{first}, {second}"
        assert general(problem) == "TypeError: Multiple namespaces for array inputs: {…}"


def test_signs_of_markdown_in_reasons_mean_nothing() -> None:
    assert plain("a | `b` <c> __init__ *d* e_f") == r"a / b \<c> \_\_init\_\_ \*d\* e_f"


def test_some_calls() -> None:
    """Calls that work, in a process of their own: SciPy reads its setting when it is imported."""
    tasks = [("scipy", "scipy.special.erf", "eager"), ("scipy", "scipy.fft.rfft", "jit")]
    done = dict(in_processes("tests.libraries.running:run", tasks, workers=1, limit=60.0, setup=SETUP))
    assert done == {tasks[0]: ("passed", "", 0), tasks[1]: ("passed", "", 1)}
