"""Trees of arrays: flattening with names, through optree."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import optree

from dyn.errors import ArgumentError
from dyn.shutdown import enter_call, leave_call
from dyn.source import user_loc

#: What optree knows dyn's trees by: a type that is registered for it is a tree here.
NAMESPACE = "dyn"
#: How a tree is put together: hashable, and part of a version's key.
TreeSpec = optree.PyTreeSpec
#: The types of dicts that are trees.
_DICTS = (dict, OrderedDict, defaultdict)


def register_node(
    kind: type[Any], apart: Callable[[Any], Any], together: Callable[..., Any], entry: Any = None
) -> None:
    """Have a type be a tree: ``apart(node)`` is ``(children, aux)``, or with the names of the children after them, and
    ``together(aux, children)`` a node. ``entry`` is how a child is written. ValueError for a type that is one already.
    """
    how = optree.AutoEntry if entry is None else entry
    optree.register_pytree_node(kind, apart, together, path_entry_type=how, namespace=NAMESPACE)


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, in order, and its structure. ``None`` is structure, not a leaf."""
    enter_call()
    try:
        leaves, spec = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    finally:
        leave_call()
    return leaves, spec


def list_tree(count: int) -> TreeSpec:
    """The structure of a list of so many leaves."""
    return flatten([0] * count)[1]


def unflatten(spec: TreeSpec, leaves: list[Any]) -> Any:
    """The tree of this structure with these leaves."""
    enter_call()
    try:
        return optree.tree_unflatten(spec, leaves)
    finally:
        leave_call()


def unflatten_sorted(spec: TreeSpec, leaves: list[Any]) -> Any:
    """The tree with the keys of each dict in the order of their leaves, as in JAX.

    Trees whose dicts differ in the order of their keys alone are one structure, and share a program: what is traced
    for the first of them must not depend on its order.
    """
    return _sorted(unflatten(spec, leaves))


def _sorted(tree: Any) -> Any:
    one_level: Any = optree.tree_flatten_one_level

    def inner(node: Any) -> Any:
        if type(node) is not dict:
            return node
        keys = one_level(node, namespace=NAMESPACE)[1]
        return {key: _sorted(node[key]) for key in keys}

    return optree.tree_map(inner, tree, is_leaf=lambda node: type(node) is dict, namespace=NAMESPACE)


def map_keys(rename: Callable[[Any], Any], tree: Any) -> Any:
    """A tree with the keys in its dicts that ``rename`` gives for them."""

    def is_renamed(node: Any) -> bool:
        return type(node) in _DICTS and any(rename(key) is not key for key in node)

    def renamed(node: Any) -> Any:
        if not is_renamed(node):
            return node
        items = [(rename(key), map_keys(rename, value)) for key, value in node.items()]
        return defaultdict(node.default_factory, items) if type(node) is defaultdict else type(node)(items)

    enter_call()
    try:
        return optree.tree_map(renamed, tree, is_leaf=is_renamed, namespace=NAMESPACE)
    finally:
        leave_call()


class Names(Sequence[str]):
    """Names that errors call something, which are found once somebody asks: most are never read."""

    __slots__ = ("_count", "_find", "_found")

    def __init__(self, count: int, find: Callable[[], Iterable[str]]) -> None:
        self._count, self._find = count, find
        self._found: list[str] | None = None

    def __len__(self) -> int:
        return self._count

    def _names(self) -> list[str]:
        if self._found is None:
            self._found = list(self._find())
        return self._found

    def __getitem__(self, number: Any) -> Any:
        return self._names()[number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._names() == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # as that of a list

    def __repr__(self) -> str:
        return repr(self._names())


def leaf_names(spec: TreeSpec, root: str) -> Names:
    """Names of a tree's leaves, as the user would write them: ``params['layers'][0].w``."""
    return Names(spec.num_leaves, lambda: _written(spec, root))


def _written(spec: TreeSpec, root: str) -> list[str]:
    """The names of leaves below ``root``. optree's accessors, which know every node, take five times as long."""
    kind: Any = spec.type
    if kind is None:
        return [root]
    if kind is tuple or kind is list:
        children = enumerate(spec.children())
        return [name for place, child in children for name in _written(child, f"{root}[{place}]")]
    if kind is dict:
        named = zip(spec.entries(), spec.children(), strict=True)
        return [name for key, child in named for name in _written(child, f"{root}[{key!r}]")]
    return [accessor.codify(root) for accessor in spec.accessors()]


def tree_text(spec: TreeSpec) -> str:
    """A structure as people read it: ``({'w': *, 'b': *}, *)``."""
    text = str(spec).removeprefix("PyTreeSpec(").removesuffix(")")
    return text.removesuffix(f", namespace={NAMESPACE!r}")


def spread_prefix(prefix: Any, tree: Any, what: str) -> list[Any]:
    """An entry of ``prefix`` for each leaf of ``tree``: a number or None there stands for all below it."""
    found: list[Any] = []
    _spread(prefix, tree, what, found)
    return found


def _spread(prefix: Any, tree: Any, what: str, found: list[Any]) -> None:
    if prefix is None or isinstance(prefix, int):
        found.extend([prefix] * len(flatten(tree)[0]))
        return
    mine, theirs = _level(prefix), _level(tree)
    if type(prefix) is not type(tree) or mine[1] != theirs[1] or len(mine[0]) != len(theirs[0]):
        raise ArgumentError(
            f"{what} has {prefix!r} where the arrays are {tree_text(flatten(tree)[1])}.",
            loc=user_loc(),
            remedy="give a number or None for all, or a tree of the same structure.",
        )
    for own, part in zip(mine[0], theirs[0], strict=True):
        _spread(own, part, what, found)


def optional_leaves(given: Any, like: TreeSpec) -> list[Any] | None:
    """The leaves of a tree like ``like``, in which None may stand for any part; None where it is no such tree.

    What stands for a part is None for each of its leaves.
    """
    found: list[Any] = []
    return found if _optional(given, unflatten(like, [0] * like.num_leaves), found) else None


def _optional(given: Any, like: Any, found: list[Any]) -> bool:
    if given is None:
        found.extend([None] * len(flatten(like)[0]))
        return True
    mine, theirs = _level(given), _level(like)
    if type(like) is int:
        found.append(given)
        return mine == ([], type(given))
    if type(given) is not type(like) or mine[1] != theirs[1] or len(mine[0]) != len(theirs[0]):
        return False
    return all(_optional(own, part, found) for own, part in zip(mine[0], theirs[0], strict=True))


def _level(tree: Any) -> tuple[list[Any], Any]:
    """The children of a node and what it is; of a leaf none."""
    one_level: Any = optree.tree_flatten_one_level
    try:
        children, metadata, *_ = one_level(tree, namespace=NAMESPACE)
    except ValueError:
        return [], type(tree)
    return children, metadata
