"""Calls of JAX functions, taken apart, and the keys of the programs that they take."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dyn.frozen import record
from dyn.interop.jax.arguments import CallTree
from dyn.late_imports import import_whole
from dyn.trace.static_keys import Static

if TYPE_CHECKING:
    from dyn.explain.versions import MadeFor


class CallKind(NamedTuple):
    """All that decides on a call's program but the sizes that are symbolic: its tree, static arguments, JAX's settings,
    the types of symbolic leaves, those of the others by number, the plan, and the device, None for the processor."""

    tree: Any
    static: tuple[Static, ...]
    settings: Any
    types: tuple[Any, ...]
    fixed: tuple[int, ...]
    plan: CallTree
    device: str | None


@record(eq=False)
class JaxCall:
    """A call taken apart. ``given`` are the leaves as they were passed, ``arrays`` as JAX's or NumPy's arrays; None
    where one is a ``jax.ShapeDtypeStruct``. ``shapes`` are those of the symbolic leaves."""

    given: list[Any]
    arrays: list[Any]
    avals: list[Any]
    shapes: tuple[tuple[int, ...], ...]
    kind: CallKind

    @property
    def key(self) -> Hashable:
        """Key of the programs that it can have."""
        # A size of 0 is no symbol to JAX: which are 0 tells programs apart.
        ranks = tuple([tuple([n == 0 for n in shape]) if 0 in shape else len(shape) for shape in self.shapes])
        return ranks, self.kind

    @property
    def plan(self) -> CallTree:
        """The plan of its tree."""
        return self.kind.plan

    @property
    def place(self) -> Any:
        """Key of the places of arrays in it."""
        return place_of(self.kind.tree, self.kind.static)

    def made_for(self) -> MadeFor:
        """Its key in words, without sizes."""
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import ArgumentKey, made_for_leaves

        arguments = [
            ArgumentKey(name, str(aval.dtype), len(aval.shape), bool(getattr(aval, "weak_type", False)))
            for name, aval in zip(self.plan.names, self.avals, strict=True)
        ]
        return made_for_leaves(arguments, self.plan.names, [(one.name, one.value) for one in self.kind.static])


def place_of(tree: Any, static: tuple[Static, ...]) -> Any:
    """Key of the places of arrays in a call with this tree."""
    return (tree, tuple([one.name for one in static])) if static else tree


def ranks_of(avals: Sequence[Any]) -> tuple[int, ...]:
    """Number of axes of each leaf."""
    return tuple([len(aval.shape) for aval in avals])
