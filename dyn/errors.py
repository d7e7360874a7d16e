"""The tree of errors that dyn raises.

::

    DynError
    ├── TraceError                 a Python function that cannot be traced
    │   ├── UndecidedDimError      a question about a dimension that has no one answer for every shape
    │   ├── LeakedTracerError      a tracer used after its trace ended
    │   └── UnsupportedOpError     an operation, dtype or function that dyn does not know  (also a TypeError)
    ├── ShapeError                 shapes that do not fit, found while tracing or when called   (also a ValueError)
    │   ├── AxisError              an axis that an array does not have                       (also an IndexError)
    │   └── OutOfRangeError        an element that an axis does not have                     (also an IndexError)
    ├── DomainError                elements that an operation has no result for                      (also a ValueError)
    ├── ArgumentError              arguments that the function does not take                    (also a TypeError)
    │   └── InvalidValueError      of the right type, and a value that the function does not take   (also a ValueError)
    ├── DonatedError               an array that a call has used up, used again                (also a RuntimeError)
    ├── ExternalError              a function outside of a program failed                     (also a RuntimeError)
    ├── DeviceError                a GPU's driver answered that something failed            (also a RuntimeError)
    ├── NotFiniteError             the first NaN or infinity, under debug_nans, debug_infs (also a FloatingPointError)
    ├── OverrunError               code wrote beside its arrays, under red_zones                (also a MemoryError)
    ├── NotYetError                a thing that a later version will do                (also a NotImplementedError)
    ├── IRError                    a broken invariant of dyn's own IR; a bug in dyn
    ├── CompileError               a toolchain refused what dyn generated; a bug in dyn
    ├── BackendUnavailableError    a target whose compiler or device is not on this machine
    └── ArtifactError              a saved program or module that cannot be read

Messages have one form: what is wrong, with the names and values; where, with the user's line; and what to do about it.
"""

from __future__ import annotations

import errno

from dyn.source import Loc


class DynError(Exception):
    """Base of every error that dyn raises.

    ``problem`` says what is wrong, ``loc`` where in the user's program, ``remedy`` what to do about it.
    """

    def __init__(self, problem: str, *, loc: Loc | None = None, remedy: str = "", notes: tuple[str, ...] = ()) -> None:
        self.problem = problem
        self.loc = loc
        self.remedy = remedy
        self.notes = notes
        super().__init__(render(problem, loc=loc, remedy=remedy, notes=notes))


class TraceError(DynError):
    """A Python function that cannot be traced."""


class UndecidedDimError(TraceError):
    """A question about a dimension that has no one answer for every shape."""


class LeakedTracerError(TraceError):
    """A tracer that was used after its trace had ended."""


class UnsupportedOpError(TraceError, TypeError):
    """An operation, a dtype or a NumPy function that dyn does not know."""


class ShapeError(DynError, ValueError):
    """Shapes that do not fit together, found while tracing or, with actual sizes, when the function is called."""


class AxisError(ShapeError, IndexError):
    """The number of an axis that an array does not have. As NumPy's, it is a ValueError and an IndexError."""


class OutOfRangeError(ShapeError, IndexError):
    """The index of an element that an axis does not have, known as a size or found in an array of indices."""


class DomainError(DynError, ValueError):
    """Elements that an operation has no result for, found when the compiled function is called."""


class ArgumentError(DynError, TypeError):
    """Arguments that the function does not take: wrong dtype, rank, tree or kind."""


class InvalidValueError(ArgumentError, ValueError):
    """An argument of the right type, whose value, known while tracing, is none that the function takes."""


class DonatedError(DynError, RuntimeError):
    """An array that was donated to a call, and is used again."""


class ExternalError(DynError, RuntimeError):
    """A native function that a program calls answered that it failed."""


class DeviceError(DynError, RuntimeError):
    """A GPU's driver answered that something failed, perhaps a kernel that ran before."""


class NotFiniteError(DynError, FloatingPointError):
    """An operation made the first NaN, or infinity, while the setting ``debug_nans`` or ``debug_infs`` was on."""


class OverrunError(DynError, MemoryError):
    """A kernel or an external function wrote beside its arrays, while the setting ``red_zones`` was on."""


class NotYetError(DynError, NotImplementedError):
    """A documented feature that this version does not have yet."""


class IRError(DynError):
    """A broken invariant of dyn's own IR. Always a bug in dyn."""


class CompileError(DynError):
    """A toolchain refused what dyn generated. Always a bug in dyn."""


class BackendUnavailableError(DynError):
    """A target whose compiler or device is not on this machine."""


class ArtifactError(DynError):
    """A saved program or module that cannot be read."""


def render(problem: str, *, loc: Loc | None = None, remedy: str = "", notes: tuple[str, ...] = ()) -> str:
    """The one form of every message."""
    lines = [problem]
    lines += [f"  {note}" for note in notes]
    if loc is not None:
        lines.append(f"  at {loc.describe()}")
    if remedy:
        lines.append(f"  help: {remedy}")
    return "\n".join(lines)


def problem_of(error: BaseException) -> str:
    """The first line of an error: its problem, without the place and the remedy."""
    if isinstance(error, DynError):
        return error.problem
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


#: What the C library and the dynamic loader say of an address space that is full.
_TEXTS = ("cannot allocate memory", "failed to map segment", "cannot map", "cannot create shared object descriptor")


def is_short_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one in whose handling it came, says that there is no memory."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return True
        if isinstance(error, OSError | ImportError) and any(text in str(error).lower() for text in _TEXTS):
            return True
        error = error.__cause__ or error.__context__
    return False
