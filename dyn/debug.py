"""Looking into programs while they run: ``dyn.debug.print`` and ``dyn.debug.callback``, as JAX has them; and programs
as text, to be looked into elsewhere: ``dyn.debug.program``.

Both run each time the program comes by, and are no part of what is computed: derivatives leave them alone, ``vmap``
calls them once for each example. Calls of one program come in its order.
"""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.callbacks import argument_names, callback_name, own_array
from dyn.errors import ArgumentError
from dyn.ir.external import External, ExternalResult
from dyn.late_imports import import_whole
from dyn.source import Loc, user_loc
from dyn.trace.external import call_external, declared_results, operand_values
from dyn.trace.lift import is_liftable, weak_dtype
from dyn.trace.pytree import TreeSpec, flatten, unflatten
from dyn.trace.tracer import active_trace

if TYPE_CHECKING:
    from dyn.diagnosis.stored import StoredProgram

__all__ = ["callback", "print", "program"]

Array = np.ndarray[Any, Any]


def print(fmt: str, /, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print a line when the program comes by: ``fmt.format(*args, **kwargs)``, on the standard output.

    Args:
        fmt: a format string, with ``{}``, ``{0}`` or ``{x:.3f}`` for the arguments.
        *args: arrays, numbers and dimensions, whose values in the call are printed; anything else is printed as it is.
        ordered: whether vmap is refused, under which the lines of different examples follow one another.
        **kwargs: the same by name.

    Raises:
        ArgumentError: where ``fmt`` has a field that no argument is for, or an argument that it has no field for.

    Example:
        ``dyn.debug.print("x is {x}, of {} elements", x.shape[0], x=x)``
    """
    if not isinstance(fmt, str):
        raise ArgumentError(
            f"debug.print takes a format string, not a {type(fmt).__name__}.",
            loc=user_loc(),
            remedy='write dyn.debug.print("{}", x).',
        )
    _check_format(fmt, args, kwargs)

    def show(*given: Any, **named: Any) -> None:
        builtins.print(fmt.format(*given, **named))  # noqa: T201  # what the user asks for

    _call("debug.print", show, args, kwargs, ordered)


def callback(function: Callable[..., Any], /, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call a Python function when the program comes by; what it returns is dropped.

    It is called on the thread that made the call, with the GIL, and what it raises comes out of that call.

    Args:
        function: is given NumPy arrays of its own where ``args`` and ``kwargs`` have arrays or dimensions, and
            everything else as it is.
        *args: trees.
        ordered: whether vmap is refused, under which the calls for different examples follow one another.
        **kwargs: the same by name.
    """
    _call(callback_name("debug.callback", function), function, args, kwargs, ordered)


def program(text: str, constants: Mapping[str, Any] | None = None) -> StoredProgram:
    """Program that DHLO text describes, as :func:`dyn.minify` writes it.

    Args:
        text: a function, as :meth:`dyn.Traced.as_text` gives it.
        constants: its large constants, by the names that the text has for them.

    Returns:
        A program: called with an array for each parameter, of any sizes that it takes, it gives the list of its
        results; ``reference`` gives NumPy's. :func:`dyn.bisect` and :func:`dyn.minify` take it.

    Raises:
        IRError: if the text is malformed.

    Example:
        >>> text = dyn.jit(lambda x: x + 1).trace(np.zeros(3)).as_text()
        >>> dyn.debug.program(text)(np.array([1.0, 2.0]))
        [array([2., 3.])]
    """
    import_whole("dyn.diagnosis.stored")
    from dyn.diagnosis.stored import StoredProgram

    return StoredProgram.read(text, constants)


def _call(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], ordered: bool
) -> None:
    leaves, tree = flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if is_liftable(leaf) and weak_dtype(leaf) is None]
    others = [None if i in places else leaf for i, leaf in enumerate(leaves)]
    call = _DebugCall(name, function, tree, tuple(places), tuple(others), user_loc())
    trace = active_trace(*leaves)
    names = argument_names(tree)
    if trace is None:
        call([own_array(leaves[i], names[i], call) for i in places], ())
        return
    values = operand_values(trace, [leaves[i] for i in places], [names[i] for i in places], name)
    external = External(name, call.loc, call, True, ordered, "sequential")
    call_external(trace, external, values, declared_results(name, None))


@dataclass(frozen=True, eq=False)
class _DebugCall:
    """A function that is given the trees of its arguments: arrays at ``places``, and ``others`` elsewhere."""

    name: str
    function: Callable[..., Any]
    tree: TreeSpec
    places: tuple[int, ...]
    others: tuple[Any, ...]
    loc: Loc

    def __call__(self, arrays: Sequence[Array], expected: Sequence[ExternalResult]) -> tuple[Array, ...]:
        leaves = list(self.others)
        for place, array in zip(self.places, arrays, strict=True):
            leaves[place] = array
        args, kwargs = unflatten(self.tree, leaves)
        self.function(*args, **kwargs)
        return ()


# --- formats ------------------------------------------------------------------------------------------------------


class _FormatChecker(string.Formatter):
    """Looks fields up, formats nothing, and notes the arguments that no field is for."""

    def __init__(self) -> None:
        self.unused: list[str] = []

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value

    def check_unused_args(self, used_args: set[int | str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.unused = [f"argument {i}" for i in range(len(args)) if i not in used_args]
        self.unused += [name for name in kwargs if name not in used_args]


def _check_format(fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    checker = _FormatChecker()
    try:
        checker.vformat(fmt, args, kwargs)
    except (IndexError, KeyError) as error:
        field = (
            f"the field {{{error.args[0]}}}, and no argument of that name"
            if isinstance(error, KeyError)
            else "more fields than arguments by position"
        )
        raise ArgumentError(
            f"debug.print: {fmt!r} has {field}.",
            loc=user_loc(),
            remedy="pass an argument for each field; a brace that is printed is written twice.",
        ) from None
    except (ValueError, AttributeError, TypeError) as error:
        raise ArgumentError(
            f"debug.print: {fmt!r} is no format for its arguments: {error}.",
            loc=user_loc(),
            remedy="write fields as str.format takes them.",
        ) from None
    if checker.unused:
        raise ArgumentError(
            f"debug.print: {fmt!r} has no field for {', '.join(checker.unused)}.",
            loc=user_loc(),
            remedy="write {} for each argument by position, and {name} for each by name.",
        )
