"""dyn.tree: what jax.tree has, on the same trees."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import dyn
from dyn import tree
from dyn.errors import ArgumentError

TREES: list[Any] = [
    3, None, (), [], {}, (1, [2, {"b": 3, "a": (4, None)}]), {"x": [1, 2], "w": None}, [[[]]],
    (None, 1, [None]),
]  # fmt: skip


class Pair(NamedTuple):
    left: Any
    right: Any


def text_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ArgumentError) as caught:
        call()
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))


@pytest.mark.parametrize("given", [*TREES, Pair(1, {"a": 2})], ids=str)
def test_against_jax(given: Any) -> None:
    jax: ModuleType = pytest.importorskip("jax")
    theirs = jax.tree
    assert tree.leaves(given) == theirs.leaves(given)
    leaves, spec = tree.flatten(given)
    assert tree.structure(given) == spec
    assert tree.unflatten(spec, leaves) == given
    assert tree.map(lambda x, y: (x, y), given, given) == theirs.map(lambda x, y: (x, y), given, given)
    assert tree.map(lambda x: x, given, is_leaf=lambda x: x is None) == given
    assert tree.leaves(given, is_leaf=lambda x: isinstance(x, list)) == theirs.leaves(
        given, is_leaf=lambda x: isinstance(x, list)
    )
    assert tree.all(given) == theirs.all(given)
    assert tree.reduce(operator.add, given, 10) == theirs.reduce(operator.add, given, 10)
    mine = [(tree.keystr(path), leaf) for path, leaf in tree.leaves_with_path(given)]
    assert mine == [(jax.tree_util.keystr(path), leaf) for path, leaf in theirs.leaves_with_path(given)]
    shown = tree.map_with_path(lambda path, x, y: f"{tree.keystr(path)}={x}{y}", given, given)
    assert shown == theirs.map_with_path(lambda path, x, y: f"{jax.tree_util.keystr(path)}={x}{y}", given, given)
    assert tree.flatten_with_path(given)[1] == spec


def test_prefixes() -> None:
    assert tree.map(lambda x, part: (x, part), (1, 2), ([3, 4], {"a": 5})) == ((1, [3, 4]), (2, {"a": 5}))
    assert tree.broadcast((1, 2), ([3, 4], {"a": 5})) == ([1, 1], {"a": 2})
    assert text_of(lambda: tree.map(operator.add, {"a": 1, "b": 2}, {"a": 1})) == (
        "tree.map: the trees differ.\n"
        "  first: {'a': *, 'b': *}\n"
        "  other: {'a': *}\n"
        "  help: pass trees that have the first one's structure down to its leaves."
    )
    assert text_of(lambda: tree.unflatten(tree.structure((1, 2)), [1])) == (
        "tree.unflatten: 1 leaves for (*, *), which has 2.\n  help: pass as many leaves as the structure has."
    )
    assert text_of(lambda: tree.reduce(operator.add, ())) == (
        "tree.reduce: the tree has no leaves.\n  help: pass an initializer."
    )


def test_transposes() -> None:
    given = {"a": (1, [2]), "b": (3, [4])}
    outer, inner = tree.structure({"a": 0, "b": 0}), tree.structure((0, [0]))
    wanted = ({"a": 1, "b": 3}, [{"a": 2, "b": 4}])
    assert tree.transpose(outer, inner, given) == wanted
    assert tree.transpose(outer, None, given) == wanted
    assert text_of(lambda: tree.transpose(outer, inner, {"a": (1, [2]), "b": (3, 4)})) == (
        "tree.transpose: a tree has another structure than inner_treedef.\n"
        "  inner_treedef: (*, [*])\n"
        "  the tree:      (*, *)\n"
        "  help: pass a tree of trees that are alike."
    )
    assert text_of(lambda: tree.transpose(outer, inner, {"a": (1, [2])})).startswith(
        "tree.transpose: the trees differ."
    )


@tree.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Any
    b: Any
    name: str = dataclasses.field(default="layer", metadata={"static": True})


@tree.register_pytree_node_class
class Box:
    def __init__(self, inside: Any, label: str) -> None:
        self.inside, self.label = inside, label

    def tree_flatten(self) -> tuple[tuple[Any], str]:
        return (self.inside,), self.label

    @classmethod
    def tree_unflatten(cls, aux: str, children: Any) -> Box:
        (inside,) = children
        return cls(inside, aux)


def test_types_of_ones_own() -> None:
    layer = Layer(np.ones((2, 2), "f4"), None, "first")
    assert [tree.keystr(path) for path, _ in tree.leaves_with_path({"l": layer})] == ["['l'].w"]
    assert tree.structure(layer) != tree.structure(Layer(np.ones((2, 2)), None, "second"))
    found = dyn.jit(dyn.grad(lambda layer, x: dyn.numpy.sum(x @ layer.w)))(layer, np.ones((3, 2), "f4"))
    assert (type(found), found.name, found.b) == (Layer, "first", None)
    np.testing.assert_array_equal(found.w, np.full((2, 2), 3, "f4"))
    boxed = tree.map(lambda x: x + 1, Box([1, 2], "b"))
    assert (boxed.inside, boxed.label) == ([2, 3], "b")
    assert [tree.keystr(path) for path, _ in tree.leaves_with_path(Box(1, "b"))] == ["[<flat index 0>]"]

    class Odd:
        def __init__(self, parts: Any) -> None:
            self.parts = parts

    tree.register_pytree_node(Odd, lambda odd: (odd.parts, None), lambda aux, parts: Odd(list(parts)))
    assert tree.leaves(Odd([1, (2, 3)])) == [1, 2, 3]
    assert text_of(
        lambda: tree.register_pytree_node(Odd, lambda odd: (odd.parts, None), lambda aux, parts: Odd(parts))
    ) == ("tree: Odd is a tree already.\n  help: register a type once.")
    explicit = tree.register_dataclass(dataclasses.make_dataclass("D", ["x", "y"]), ["x"], ["y"])
    assert tree.leaves(explicit(1, 2)) == [1]
    assert text_of(lambda: tree.register_dataclass(dataclasses.make_dataclass("D", ["x", "y"]), ["x"], [])) == (
        "tree.register_dataclass: D has the fields x, y, and data_fields are x, meta_fields none.\n"
        "  help: name each field once."
    )
    assert text_of(lambda: tree.register_dataclass(Odd, ["x"])) == (
        "tree.register_dataclass: data_fields and meta_fields come together.\n  help: pass both, or neither."
    )
