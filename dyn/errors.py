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
    ├── RuntimeTableError          code misused the runtime, under python_runtime             (also a RuntimeError)
    ├── NotYetError                a thing that a later version will do                (also a NotImplementedError)
    ├── IRError                    a broken invariant of dyn's own IR; a bug in dyn
    ├── CompileError               a toolchain refused what dyn generated; a bug in dyn
    ├── BackendUnavailableError    a compiler, device or package that is not on this machine
    └── ArtifactError              a saved program or module that cannot be read

Messages have one form: what is wrong, with the names and values; where, with the user's line; and what to do about it.
"""

from __future__ import annotations

import errno

from dyn.source import Loc

__all__ = [
    "ArgumentError", "ArtifactError", "AxisError", "BackendUnavailableError", "CompileError", "DeviceError",
    "DomainError", "DonatedError", "DynError", "ExternalError", "IRError", "InvalidValueError", "LeakedTracerError",
    "NotFiniteError", "NotYetError", "OutOfRangeError", "OverrunError", "RuntimeTableError", "ShapeError",
    "TraceError", "UndecidedDimError", "UnsupportedOpError",
]  # fmt: skip


class DynError(Exception):
    """Base of every error that dyn raises.

    Attributes:
        problem: what is wrong, with the names and values.
        loc: where in the user's program, or None.
        remedy: what to do about it, or an empty string.
        notes: further lines.

    Example:
        >>> try:
        ...     dnp.reshape(np.zeros(4), (0, -1))
        ... except dyn.errors.DynError as error:
        ...     print(error.remedy)
        write the size instead of -1.
    """

    def __init__(self, problem: str, *, loc: Loc | None = None, remedy: str = "", notes: tuple[str, ...] = ()) -> None:
        self.problem = problem
        self.loc = loc
        self.remedy = remedy
        self.notes = notes
        super().__init__(render(problem, loc=loc, remedy=remedy, notes=notes))


class TraceError(DynError):
    """Python function that cannot be traced.

    Raised while a function is traced, for example where a Python branch asks for the value of an array: ``lax.cond`` or
    ``dnp.where`` choose in the program.

    Example:
        >>> dyn.jit(lambda x: x if x.sum() > 0 else -x)(np.ones(2))
        Traceback (most recent call last):
            ...
        dyn.errors.TraceError: a Python branch needs the elements of i1[], which are not kn...
    """


class UndecidedDimError(TraceError):
    """Question about a dimension that has no one answer for every shape.

    ``int(n)`` and ``range(n)`` of a symbolic dimension always raise it; ``n > 128`` and ``hash(n)`` do where there is
    no call whose sizes could answer, as in a trace of :class:`dyn.ShapeDtypeStruct`. Loops over a dimension are
    ``lax.fori_loop`` and ``lax.scan``.
    """


class LeakedTracerError(TraceError):
    """Tracer that was used after its trace had ended: one that a traced function stored in a global or an object."""


class UnsupportedOpError(TraceError, TypeError):
    """Operation, dtype or NumPy function that dyn does not know. It is a TypeError.

    Example:
        >>> dnp.floor(np.array([1j]))
        Traceback (most recent call last):
            ...
        dyn.errors.UnsupportedOpError: floor does not take complex arrays....
    """


class ShapeError(DynError, ValueError):
    """Shapes that do not fit together, found while tracing or, with actual sizes, when the function is called.

    It is a ValueError, and raised before anything that the caller could see is written.

    Example:
        >>> dnp.ones(3) + dnp.ones(4)
        Traceback (most recent call last):
            ...
        dyn.errors.ShapeError: x_0 broadcasts with y_0 is required, but x_0 is 3 and y_0 i...
    """


class AxisError(ShapeError, IndexError):
    """Number of an axis that an array does not have. As NumPy's, it is a ValueError and an IndexError."""


class OutOfRangeError(ShapeError, IndexError):
    """Index of an element that an axis does not have, known as a size or found in an array. It is an IndexError."""


class DomainError(DynError, ValueError):
    """Elements that an operation has no result for, found when the compiled function is called. It is a ValueError."""


class ArgumentError(DynError, TypeError):
    """Arguments that the function does not take: of a wrong dtype, rank, tree or kind. It is a TypeError."""


class InvalidValueError(ArgumentError, ValueError):
    """Argument of the right type whose value, known while tracing, is none that the function takes. It is a ValueError.

    Example:
        >>> dnp.quantile(np.ones(3), 2)
        Traceback (most recent call last):
            ...
        dyn.errors.InvalidValueError: quantile: q is 2....
    """


class DonatedError(DynError, RuntimeError):
    """Array that was donated to a call, and is used again. It is a RuntimeError."""


class ExternalError(DynError, RuntimeError):
    """Native function that a program calls answered that it failed. It is a RuntimeError."""


#: What drivers of either vendor answer for a stream, an event or a module that is no more.
INVALID_HANDLE = 400


class DeviceError(DynError, RuntimeError):
    """GPU's driver answered that something failed, perhaps a kernel that ran before. It is a RuntimeError."""


def device_remedy(answer: str) -> str:
    """Remedy for an answer of a GPU's driver: a name, and a number in parentheses."""
    if answer.endswith(f"({INVALID_HANDLE})"):
        return (
            "an array's stream may have been destroyed: keep a stream while there are arrays that were made on it, "
            "or read them before."
        )
    return "an error of an earlier kernel shows late; where it is one that the process does not survive, start another."


class NotFiniteError(DynError, FloatingPointError):
    """First NaN, or infinity, that an operation made while ``debug_nans`` or ``debug_infs`` was on.

    It is a FloatingPointError.
    """


class OverrunError(DynError, MemoryError):
    """Kernel or external function that wrote beside its arrays, while ``red_zones`` was on. It is a MemoryError."""


class RuntimeTableError(DynError, RuntimeError):
    """Misuse of the runtime by compiled code, found while ``python_runtime`` was on. It is a RuntimeError.

    Memory that was freed twice, or not at all; a buffer that no array has; a function that there is none of.
    """


class NotYetError(DynError, NotImplementedError):
    """Documented feature that this version does not have yet. It is a NotImplementedError."""


class IRError(DynError):
    """Broken invariant of dyn's own IR: always a bug in dyn."""


class CompileError(DynError):
    """Toolchain that refused what dyn generated: always a bug in dyn."""


class BackendUnavailableError(DynError):
    """Target or function whose compiler, device or package is not on this machine."""


class ArtifactError(DynError):
    """Saved program or module that cannot be read."""


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
