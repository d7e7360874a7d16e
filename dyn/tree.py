"""Trees of arrays, with the names of ``jax.tree``: tuples, lists, dicts and whatever is registered, over optree.

``None`` is a tree without leaves, the keys of a dict go in their order, and anything that is no tree is a leaf.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import optree

from dyn.errors import ArgumentError
from dyn.source import user_loc
from dyn.trace.pytree import TreeSpec, register_node, tree_text
from dyn.trace.pytree import flatten as _flatten
from dyn.trace.pytree import unflatten as _unflatten

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "SequenceKey", "TreeSpec", "all", "broadcast", "flatten",
    "flatten_with_path", "keystr", "leaves", "leaves_with_path", "map", "map_with_path", "reduce",
    "register_dataclass", "register_pytree_node", "register_pytree_node_class", "structure", "transpose", "unflatten",
]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None
T = TypeVar("T")


# --- taking apart and putting together ----------------------------------------------------------------------------


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure. ``is_leaf(part)`` may say that a part is not taken apart."""
    return _flatten(tree, is_leaf)


def unflatten(treedef: TreeSpec, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves; ArgumentError where they are too few or too many."""
    own = list(leaves)
    if len(own) != treedef.num_leaves:
        raise ArgumentError(
            f"tree.unflatten: {len(own)} leaves for {tree_text(treedef)}, which has {treedef.num_leaves}.",
            loc=user_loc(),
            remedy="pass as many leaves as the structure has.",
        )
    return _unflatten(treedef, own)


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves in order."""
    return _flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure: equal for trees that differ in their leaves alone."""
    return _flatten(tree, is_leaf)[1]


def _up_to(what: str, spec: TreeSpec, tree: Any, other: Any) -> list[Any]:
    """The parts of ``other`` where ``tree``, of structure ``spec``, has leaves."""
    try:
        return cast("list[Any]", spec.flatten_up_to(other))
    except ValueError:
        raise ArgumentError(
            f"tree.{what}: the trees differ.",
            loc=user_loc(),
            notes=(f"first: {tree_text(spec)}", f"other: {tree_text(_flatten(other)[1])}"),
            remedy="pass trees that have the first one's structure down to its leaves.",
        ) from None


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of ``f`` of each leaf, and of what the trees of ``rest`` have in its place."""
    own, spec = _flatten(tree, is_leaf)
    columns = [own, *(_up_to("map", spec, tree, other) for other in rest)]
    return _unflatten(spec, [f(*column) for column in zip(*columns, strict=True)])


#: Where no initial value is given.
_NOTHING: Any = object()


def reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NOTHING, is_leaf: IsLeaf = None) -> Any:
    """The leaves folded from the first to the last, from ``initializer`` on where there is one."""
    own = leaves(tree, is_leaf)
    if initializer is not _NOTHING:
        return functools.reduce(function, own, initializer)
    if not own:
        raise ArgumentError("tree.reduce: the tree has no leaves.", loc=user_loc(), remedy="pass an initializer.")
    return functools.reduce(function, own)


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true."""
    return not any(not leaf for leaf in leaves(tree, is_leaf))


def transpose(outer_treedef: TreeSpec, inner_treedef: TreeSpec | None, pytree_to_transpose: Any) -> Any:
    """A tree of trees turned inside out: of structure ``outer_treedef`` of ``inner_treedef`` s, the other way round.

    Where ``inner_treedef`` is None it is that of the first of the trees.
    """
    parts = _up_to("transpose", outer_treedef, None, pytree_to_transpose)
    inner = inner_treedef if inner_treedef is not None else structure(parts[0] if parts else None)
    rows: list[list[Any]] = []
    for part in parts:
        own, spec = _flatten(part)
        if spec != inner:
            raise ArgumentError(
                "tree.transpose: a tree has another structure than inner_treedef.",
                loc=user_loc(),
                notes=(f"inner_treedef: {tree_text(inner)}", f"the tree:      {tree_text(spec)}"),
                remedy="pass a tree of trees that are alike.",
            )
        rows.append(own)
    columns = [_unflatten(outer_treedef, [row[i] for row in rows]) for i in range(inner.num_leaves)]
    return _unflatten(inner, columns)


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree like ``full_tree``, with the leaf of ``prefix_tree`` that stands in the place of each part."""
    own, spec = _flatten(prefix_tree, is_leaf)
    parts = _up_to("broadcast", spec, prefix_tree, full_tree)
    made = [map(lambda _, v=value: v, part, is_leaf=is_leaf) for value, part in zip(own, parts, strict=True)]
    return _unflatten(spec, made)


# --- paths --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """A place in a tuple or a list."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class DictKey:
    """A place in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """A child, by its number, of a registered type that says no more."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


Key = SequenceKey | DictKey | GetAttrKey | FlattenedIndexKey


def _key(entry: Any) -> Key:
    # A namedtuple's entry is both a place and an attribute, and people write the attribute.
    if isinstance(entry, optree.NamedTupleEntry):
        return GetAttrKey(entry.field)
    if isinstance(entry, optree.GetAttrEntry):
        return GetAttrKey(entry.name)
    if isinstance(entry, optree.MappingEntry):
        return DictKey(entry.key)
    if isinstance(entry, optree.SequenceEntry):
        return SequenceKey(entry.index)
    return FlattenedIndexKey(entry.entry)


def keystr(keys: Iterable[Key]) -> str:
    """A path as people write it: ``['layers'][0].w``."""
    return "".join([str(key) for key in keys])


def flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[tuple[Key, ...], Any]], TreeSpec]:
    """Pairs of a path and a leaf, and the structure."""
    own, spec = _flatten(tree, is_leaf)
    paths = [tuple([_key(entry) for entry in accessor]) for accessor in spec.accessors()]
    return list(zip(paths, own, strict=True)), spec


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Key, ...], Any]]:
    """Pairs of a path and a leaf."""
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """:func:`map` of a function that is given the path first."""
    pairs, spec = flatten_with_path(tree, is_leaf)
    columns = [*zip(*pairs, strict=True)] if pairs else [(), ()]
    others = [_up_to("map_with_path", spec, tree, other) for other in rest]
    return _unflatten(spec, [f(*column) for column in zip(*columns, *others, strict=True)])


# --- types of one's own -------------------------------------------------------------------------------------------


def register_pytree_node(
    nodetype: type[T], flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
) -> None:  # fmt: skip
    """Have a type be a tree, by ``flatten_func(node)``, ``(children, aux)``, and ``unflatten_func(aux, children)``.

    ``aux`` has a hash, and is part of the structure. ArgumentError for a type that is registered already.
    """
    _register(nodetype, flatten_func, unflatten_func, optree.AutoEntry)


def register_pytree_node_class(cls: type[T]) -> type[T]:
    """A decorator that does so by the class's own ``tree_flatten(self)`` and ``tree_unflatten(cls, aux, children)``."""
    own: Any = cls
    _register(cls, lambda node: cast("Any", node).tree_flatten(), own.tree_unflatten, optree.AutoEntry)
    return cls


def register_dataclass(
    nodetype: type[T] | None = None, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None
) -> Any:
    """Have a dataclass be a tree: ``data_fields`` are its children, ``meta_fields`` are part of its structure.

    Both may be left out: then fields made with ``dataclasses.field(metadata={"static": True})`` are meta fields, and
    the others data fields. Also a decorator.
    """
    if nodetype is None:
        return functools.partial(register_dataclass, data_fields=data_fields, meta_fields=meta_fields)
    if (data_fields is None) is not (meta_fields is None):
        raise ArgumentError(
            "tree.register_dataclass: data_fields and meta_fields come together.", loc=user_loc(),
            remedy="pass both, or neither.",
        )  # fmt: skip
    kinds = _field_kinds(nodetype)
    data = [name for name, static in kinds.items() if not static] if data_fields is None else list(data_fields)
    meta = [name for name, static in kinds.items() if static] if meta_fields is None else list(meta_fields)
    if kinds and {*data, *meta} != kinds.keys():
        raise ArgumentError(
            f"tree.register_dataclass: {nodetype.__name__} has the fields {', '.join(kinds)}, and data_fields are "
            f"{', '.join(data) or 'none'}, meta_fields {', '.join(meta) or 'none'}.",
            loc=user_loc(),
            remedy="name each field once.",
        )  # fmt: skip

    def apart(node: T) -> tuple[Any, Any, Any]:
        children = tuple([getattr(node, name) for name in data])
        return children, tuple([getattr(node, name) for name in meta]), tuple(data)

    def together(aux: Any, children: Any) -> T:
        whole: Any = nodetype
        return whole(**dict(zip(data, children, strict=True)), **dict(zip(meta, aux, strict=True)))

    _register(nodetype, apart, together, optree.GetAttrEntry)
    return nodetype


def _field_kinds(nodetype: Any) -> dict[str, bool]:
    """The fields of a dataclass that its constructor takes, and whether they are part of the structure."""
    if not dataclasses.is_dataclass(nodetype):
        return {}
    return {f.name: bool(f.metadata.get("static", False)) for f in dataclasses.fields(nodetype) if f.init}


def _register(nodetype: type[Any], apart: Any, together: Any, entry: Any) -> None:
    try:
        register_node(nodetype, apart, together, entry)
    except ValueError:
        raise ArgumentError(
            f"tree: {nodetype.__name__} is a tree already.", loc=user_loc(), remedy="register a type once."
        ) from None
