"""Trees of arrays: flattening with names, through optree, which is imported with the first tree: it takes 10 ms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import optree

from dyn.ending import enter_call, leave_call

_NAMESPACE = "dyn"
#: How a tree is put together: hashable, and part of a version's key.
TreeSpec: TypeAlias = "optree.PyTreeSpec"


def flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, in order, and its structure. ``None`` is structure, not a leaf."""
    import optree

    enter_call()
    try:
        leaves, spec = optree.tree_flatten(tree, namespace=_NAMESPACE)
    finally:
        leave_call()
    return leaves, spec


def unflatten(spec: TreeSpec, leaves: list[Any]) -> Any:
    """The tree of this structure with these leaves."""
    import optree

    enter_call()
    try:
        return optree.tree_unflatten(spec, leaves)
    finally:
        leave_call()


def leaf_names(spec: TreeSpec, root: str) -> list[str]:
    """How the user would write each leaf: ``params['layers'][0].w``."""
    return [accessor.codify(root) for accessor in spec.accessors()]


def tree_text(spec: TreeSpec) -> str:
    """A structure as people read it: ``({'w': *, 'b': *}, *)``."""
    text = str(spec).removeprefix("PyTreeSpec(").removesuffix(")")
    return text.removesuffix(f", namespace={_NAMESPACE!r}")
