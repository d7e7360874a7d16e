"""Trees of arrays, with the names of ``jax.tree``: tuples, lists, dicts and whatever is registered, over optree.

``None`` is a tree without leaves, the keys of a dict go in their order, and anything that is no tree is a leaf.

This file is longer than most: half of it says what each function takes and gives.
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
    """Leaves of a tree in order, and its structure.

    Args:
        tree: tree of arrays and anything else: tuples, lists, dicts and what is registered; None has no leaves.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        A list and a ``TreeSpec``.

    Example:
        >>> dyn.tree.flatten({"b": 1, "a": (2, None)})[0]
        [2, 1]
    """
    return _flatten(tree, is_leaf)


def unflatten(treedef: TreeSpec, leaves: Iterable[Any]) -> Any:
    """Tree of a structure with given leaves.

    Args:
        treedef: the structure.
        leaves: the leaves, in order.

    Returns:
        The tree.

    Raises:
        ArgumentError: if there are too few or too many.

    Example:
        >>> dyn.tree.unflatten(dyn.tree.structure((0, [0])), [1, 2])
        (1, [2])
    """
    own = list(leaves)
    if len(own) != treedef.num_leaves:
        raise ArgumentError(
            f"tree.unflatten: {len(own)} leaves for {tree_text(treedef)}, which has {treedef.num_leaves}.",
            loc=user_loc(),
            remedy="pass as many leaves as the structure has.",
        )
    return _unflatten(treedef, own)


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Leaves of a tree in order.

    Args:
        tree: tree of arrays and anything else: tuples, lists, dicts and what is registered; None has no leaves.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        A list.

    Example:
        >>> dyn.tree.leaves({"b": 1, "a": (2, None)})
        [2, 1]
    """
    return _flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """Structure of a tree: equal for trees that differ in their leaves alone.

    Args:
        tree: tree of arrays and anything else: tuples, lists, dicts and what is registered; None has no leaves.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        A ``TreeSpec``.

    Example:
        >>> dyn.tree.structure((1, 2)) == dyn.tree.structure((3, 4))
        True
    """
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
    """Tree of a function of each leaf.

    Args:
        f: function of a leaf of ``tree``, and of what stands in its place in each of ``rest``.
        tree: tree of arrays and anything else: tuples, lists, dicts and what is registered; None has no leaves.
        *rest: trees that have the first one's structure down to its leaves.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        A tree like ``tree``.

    Raises:
        ArgumentError: if the trees differ.

    Example:
        >>> dyn.tree.map(lambda x, y: x + y, {"a": 1}, {"a": 2})
        {'a': 3}
    """
    own, spec = _flatten(tree, is_leaf)
    columns = [own, *(_up_to("map", spec, tree, other) for other in rest)]
    return _unflatten(spec, [f(*column) for column in zip(*columns, strict=True)])


#: Where no initial value is given.
_NOTHING: Any = object()


def reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NOTHING, is_leaf: IsLeaf = None) -> Any:
    """Fold of the leaves from the first to the last.

    Args:
        function: function of what the fold has come to, and the next leaf.
        tree: tree of arrays and anything else: tuples, lists, dicts and what is registered; None has no leaves.
        initializer: what it begins with; without, the first leaf is.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        What the fold comes to.

    Raises:
        ArgumentError: if there are no leaves, and no initializer.

    Example:
        >>> dyn.tree.reduce(lambda total, x: total + x, [1, (2, 3)])
        6
    """
    own = leaves(tree, is_leaf)
    if initializer is not _NOTHING:
        return functools.reduce(function, own, initializer)
    if not own:
        raise ArgumentError("tree.reduce: the tree has no leaves.", loc=user_loc(), remedy="pass an initializer.")
    return functools.reduce(function, own)


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Tell of a tree whether all leaves are true.

    Args:
        tree: tree of arrays and anything else: tuples, lists, dicts and what is registered; None has no leaves.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        A Python bool.

    Example:
        >>> dyn.tree.all([1, (2, 0)])
        False
    """
    return not any(not leaf for leaf in leaves(tree, is_leaf))


def transpose(outer_treedef: TreeSpec, inner_treedef: TreeSpec | None, pytree_to_transpose: Any) -> Any:
    """Tree of trees turned inside out.

    Args:
        outer_treedef: structure of the outer tree.
        inner_treedef: structure of the trees that are its leaves; None: that of the first.
        pytree_to_transpose: the tree of trees.

    Returns:
        A tree of structure ``inner_treedef``, whose leaves are trees of structure ``outer_treedef``.

    Raises:
        ArgumentError: if the trees have other structures.

    Example:
        >>> dyn.tree.transpose(dyn.tree.structure([0, 0]), None, [(1, 2), (3, 4)])
        ([1, 3], [2, 4])
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
    """Tree with the leaf of a smaller tree in the place of each part.

    Args:
        prefix_tree: tree that ends where the other goes on.
        full_tree: the other.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        A tree like ``full_tree``.

    Raises:
        ArgumentError: if the trees differ.

    Example:
        >>> dyn.tree.broadcast((1, 2), ((0, 0), 0))
        ((1, 1), 2)
    """
    own, spec = _flatten(prefix_tree, is_leaf)
    parts = _up_to("broadcast", spec, prefix_tree, full_tree)
    made = [map(lambda _, v=value: v, part, is_leaf=is_leaf) for value, part in zip(own, parts, strict=True)]
    return _unflatten(spec, made)


# --- paths --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """Place in a tuple or a list, as a part of a path.

    Args:
        idx: its number.
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class DictKey:
    """Place in a dict, as a part of a path.

    Args:
        key: its key.
    """

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """Attribute, as a part of a path.

    Args:
        name: its name.
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """Child of a registered type that says no more than its number, as a part of a path.

    Args:
        key: its number.
    """

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
    """Text of a path, as people write it.

    Args:
        keys: keys of :func:`flatten_with_path`.

    Returns:
        A string.

    Example:
        >>> dyn.tree.keystr(dyn.tree.leaves_with_path({"layers": [3]})[0][0])
        "['layers'][0]"
    """
    return "".join([str(key) for key in keys])


def flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[tuple[Key, ...], Any]], TreeSpec]:
    """Leaves of a tree in order with their paths, and its structure.

    Args:
        tree: tree of arrays and anything else: tuples, lists, dicts and what is registered; None has no leaves.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        A list of pairs of a path, a tuple of keys, and a leaf; and a ``TreeSpec``.
    """
    own, spec = _flatten(tree, is_leaf)
    paths = [tuple([_key(entry) for entry in accessor]) for accessor in spec.accessors()]
    return list(zip(paths, own, strict=True)), spec


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Key, ...], Any]]:
    """Leaves of a tree in order with their paths.

    Args:
        tree: tree of arrays and anything else: tuples, lists, dicts and what is registered; None has no leaves.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        A list of pairs of a path, a tuple of keys, and a leaf.
    """
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Tree of a function of each leaf and its path.

    Args:
        f: function of a path, a tuple of keys, a leaf of ``tree``, and of what stands in its place in each of ``rest``.
        tree: tree of arrays and anything else: tuples, lists, dicts and what is registered; None has no leaves.
        *rest: trees that have the first one's structure down to its leaves.
        is_leaf: function of a part of the tree that may say that it is not taken apart.

    Returns:
        A tree like ``tree``.

    Raises:
        ArgumentError: if the trees differ.

    Example:
        >>> dyn.tree.map_with_path(lambda path, x: dyn.tree.keystr(path), {"a": 1, "b": [2]})
        {'a': "['a']", 'b': ["['b'][0]"]}
    """
    pairs, spec = flatten_with_path(tree, is_leaf)
    columns = [*zip(*pairs, strict=True)] if pairs else [(), ()]
    others = [_up_to("map_with_path", spec, tree, other) for other in rest]
    return _unflatten(spec, [f(*column) for column in zip(*columns, *others, strict=True)])


# --- types of one's own -------------------------------------------------------------------------------------------


def register_pytree_node(
    nodetype: type[T], flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
) -> None:  # fmt: skip
    """Have objects of a type be trees.

    Args:
        nodetype: the type.
        flatten_func: function of an object that gives ``(children, aux)``, where ``aux`` has a hash, and is part of the
            structure.
        unflatten_func: function of ``aux`` and the children that gives the object.

    Raises:
        ArgumentError: if the type is registered already.
    """
    _register(nodetype, flatten_func, unflatten_func, optree.AutoEntry)


def register_pytree_node_class(cls: type[T]) -> type[T]:
    """Have objects of a class be trees, by its own methods; a decorator.

    Args:
        cls: class with ``tree_flatten(self)``, which gives ``(children, aux)``, and a classmethod
            ``tree_unflatten(cls, aux, children)``.

    Returns:
        The class.

    Raises:
        ArgumentError: if it is registered already.
    """
    own: Any = cls
    _register(cls, lambda node: cast("Any", node).tree_flatten(), own.tree_unflatten, optree.AutoEntry)
    return cls


def register_dataclass(
    nodetype: type[T] | None = None, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None
) -> Any:
    """Have a dataclass be a tree; also a decorator.

    Args:
        nodetype: the dataclass; None: a decorator is made.
        data_fields: names of the fields that are children; None: those that are not meta fields.
        meta_fields: names of the fields that are part of the structure; None: those made with
            ``dataclasses.field(metadata={"static": True})``.

    Returns:
        The class.

    Raises:
        ArgumentError: if a field is not named once, only one of the lists is given, or the class is registered already.
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
