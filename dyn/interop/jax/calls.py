"""Calls of JAX functions, taken apart, and the keys of the programs that they take."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from dyn.frozen import record
from dyn.interop.jax.arguments import CallTree
from dyn.late_imports import import_whole
from dyn.trace.static_keys import Static

if TYPE_CHECKING:
    from dyn.explain.versions import MadeFor


@record(eq=False)
class JaxCall:
    """A call taken apart. ``given`` are the leaves as they were passed, ``arrays`` as JAX's or NumPy's arrays; None
    where one is a ``jax.ShapeDtypeStruct``. It runs on ``device``, None for the processor. ``exactly`` is all that
    decides on its program: the tree, static arguments, JAX's settings, the types of symbolic leaves, those of the
    others, the plan and the device."""

    tree: Any
    static: tuple[Static, ...]
    plan: CallTree
    given: list[Any]
    arrays: list[Any]
    avals: list[Any]
    device: str | None
    shapes: tuple[tuple[int, ...], ...]
    exactly: tuple[Any, ...]

    @property
    def key(self) -> Hashable:
        """Key of the programs that it can have: all that decides on it but the sizes."""
        # A size of 0 is no symbol to JAX: which are 0 tells programs apart.
        ranks = tuple([tuple([n == 0 for n in shape]) if 0 in shape else len(shape) for shape in self.shapes])
        return (ranks, *self.exactly)

    @property
    def settings(self) -> Any:
        """JAX's settings at the call."""
        return self.exactly[2]

    @property
    def place(self) -> Any:
        """Key of the places of arrays in a call."""
        return place_of(self.tree, self.static)

    @property
    def is_whole(self) -> bool:
        """Whether all of its arrays have elements."""
        return all(array is not None for array in self.arrays)

    def made_for(self) -> MadeFor:
        """Its key in words, without sizes."""
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import ArgumentKey, made_for_leaves

        arguments = [
            ArgumentKey(name, str(aval.dtype), len(aval.shape), bool(getattr(aval, "weak_type", False)))
            for name, aval in zip(self.plan.names, self.avals, strict=True)
        ]
        return made_for_leaves(arguments, self.plan.names, [(one.name, one.value) for one in self.static])


def place_of(tree: Any, static: tuple[Static, ...]) -> Any:
    """Key of the places of arrays in a call with this tree."""
    return (tree, tuple([one.name for one in static])) if static else tree


def ranks_of(avals: Sequence[Any]) -> tuple[int, ...]:
    """Number of axes of each leaf."""
    return tuple([len(aval.shape) for aval in avals])
