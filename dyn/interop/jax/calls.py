"""Calls of JAX functions, taken apart, and the keys of the programs that they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dyn.interop.jax.arguments import CallTree
from dyn.interop.jax.traced_program import JaxProgram
from dyn.trace.static_keys import Static


class JaxCall(NamedTuple):
    """A call taken apart. ``given`` are the leaves as they were passed, ``arrays`` as JAX's or NumPy's arrays; None
    where one is a ``jax.ShapeDtypeStruct``, so that they are not ``whole``. It runs on ``device``, None for the
    processor."""

    tree: Any
    static: tuple[Static, ...]
    plan: CallTree
    given: list[Any]
    arrays: list[Any]
    avals: list[Any]
    device: str | None = None
    whole: bool = True

    @property
    def place(self) -> Any:
        """Key of the places of arrays in a call."""
        return place_of(self.tree, self.static)


def place_of(tree: Any, static: tuple[Static, ...]) -> Any:
    """Key of the places of arrays in a call with this tree."""
    return (tree, tuple([one.name for one in static])) if static else tree


def ranks_of(avals: Sequence[Any]) -> tuple[int, ...]:
    """Number of axes of each leaf."""
    return tuple([len(aval.shape) for aval in avals])


def fits(shapes: Any) -> Callable[[JaxProgram], bool]:
    """Tell whether a program is for the shapes of a call."""
    return lambda program: program.fits(shapes)


def family_of(key: Any) -> Any:
    """Key of the programs that a call can have: its own key without the sizes."""
    tree, static, settings, shapes, *rest = key
    # A size of 0 is no symbol to JAX: which are 0 tells programs apart.
    ranks = tuple([tuple([n == 0 for n in shape]) if 0 in shape else len(shape) for shape in shapes])
    return tree, static, settings, ranks, *rest
