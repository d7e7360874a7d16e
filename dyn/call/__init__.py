"""Call tables: the records by which the native entry makes a jitted function's calls, a plan for each form of call.

The entry (``dyn.runtime.entry``) accepts only calls that a plan describes to the last detail, so that everything which
is rare, or wrong, is left to Python. Plans are written here after a call by the slow path, and live as long as the
table.

From the bottom: ``records`` (memory of words), ``form`` (a call as a plan describes it), ``plan`` (that, written down),
``results`` and ``surroundings`` (what is made of a program's arrays, and what it relies on beside the arguments),
``version`` (a program of a plan), ``table`` (the plans of a function).
"""

from dyn.call.form import STATIC, CallForm, LeafForm, NoPlanError, is_readable, private, same_objects
from dyn.call.results import ArgumentResult, ConstantResult, Results
from dyn.call.surroundings import ABSENT, HeldBuffer, HeldDict, HeldList, HeldTensor, Surroundings
from dyn.call.table import MOST_PLANS, CallTable, Step, begin_loading, make_table

__all__ = [
    "ABSENT",
    "MOST_PLANS",
    "STATIC",
    "ArgumentResult",
    "CallForm",
    "CallTable",
    "ConstantResult",
    "HeldBuffer",
    "HeldDict",
    "HeldList",
    "HeldTensor",
    "LeafForm",
    "NoPlanError",
    "Results",
    "Step",
    "Surroundings",
    "begin_loading",
    "is_readable",
    "make_table",
    "private",
    "same_objects",
]
