"""Trees of arrays: how they come apart, how their leaves are called, and how they come together."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

import dyn
from dyn.errors import ArgumentError
from dyn.trace.pytree import flatten, leaf_names, tree_text, unflatten
from tests.trace.tracing import text_of


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Plain:
    x: Any


@dataclasses.dataclass
class Registered:
    w: Any
    b: Any


def _parts(tree: Any) -> Any:
    return (tree.w, tree.b), None, ("w", "b")


node: Any = Registered  # optree's own type asks for a Collection, and does not need one
optree.register_pytree_node(
    node, _parts, lambda _, children: node(*children), path_entry_type=optree.GetAttrEntry, namespace="dyn"
)


@pytest.mark.parametrize(
    ("tree", "names", "text"),
    [
        (1, ["x"], "*"),
        ((1, 2), ["x[0]", "x[1]"], "(*, *)"),
        ([1], ["x[0]"], "[*]"),
        (None, [], "None"),
        ((1, None), ["x[0]"], "(*, None)"),
        ({"b": 1, "a": [2]}, ["x['a'][0]", "x['b']"], "{'a': [*], 'b': *}"),
        ({2: 1, "a": 2}, ["x[2]", "x['a']"], "{2: *, 'a': *}"),
        (Pair(1, (2, 3)), ["x.left", "x.right[0]", "x.right[1]"], "Pair(left=*, right=(*, *))"),
        (collections.OrderedDict(b=1, a=2), ["x['b']", "x['a']"], "OrderedDict({'b': *, 'a': *})"),
        (collections.deque([1, 2]), ["x[0]", "x[1]"], "deque([*, *])"),
        (Registered(1, 2), ["x.w", "x.b"], "CustomTreeNode(Registered[None], [*, *])"),
        ((Registered(1, 2), 3), ["x[0].w", "x[0].b", "x[1]"], "(CustomTreeNode(Registered[None], [*, *]), *)"),
        (Plain(1), ["x"], "*"),
        ((), [], "()"),
    ],
)
def test_trees(tree: Any, names: list[str], text: str) -> None:
    leaves, spec = flatten(tree)
    assert leaf_names(spec, "x") == names
    assert tree_text(spec) == text
    assert unflatten(spec, leaves) == tree
    assert type(unflatten(spec, leaves)) is type(tree)


def test_the_order_of_a_dict_does_not_matter_and_is_kept() -> None:
    first, second = flatten({"a": 1, "b": 2}), flatten({"b": 2, "a": 1})
    assert first == second
    assert hash(first[1]) == hash(second[1])
    f = dyn.jit(lambda p: {"z": p["a"], "y": p["b"] * 2})
    x = np.ones(2, np.float32)
    assert list(f({"a": x, "b": x})) == ["z", "y"]
    f({"b": x, "a": x})
    assert f.cache_info()[:2] == (1, 1)


def test_many_leaves() -> None:
    tree = {f"layer{i:03}": (np.float32(i), [np.float32(-i)]) for i in range(100)}
    leaves, spec = flatten(tree)
    assert len(leaves) == 200
    assert leaf_names(spec, "p")[-1] == "p['layer099'][1][0]"
    assert dyn.jit(lambda p: p["layer007"][0] + p["layer050"][1][0])(tree) == -43


def test_results_of_every_kind() -> None:
    x = np.arange(3, dtype=np.float32)
    result = dyn.jit(lambda x: Pair(x + 1, {"a": [x * 2, None], "b": Registered(x, 1)}))(x)
    assert isinstance(result, Pair)
    assert np.asarray(result.left).tolist() == [1, 2, 3]
    assert result.right["a"][1] is None
    assert isinstance(result.right["b"], Registered)
    assert np.asarray(result.right["b"].b).tolist() == 1


def test_a_dataclass_that_nobody_registered() -> None:
    assert text_of(ArgumentError, dyn.jit(lambda p: p.x), Plain(np.ones(3))).split("\n") == [
        "<lambda>(): p is a Plain, which is not an array.",
        "  help: pass an array or a number, or name the argument in static_argnames=.",
    ]


@pytest.mark.parametrize(
    "tree",
    [
        1, None, (), [], {}, (1,), [1, (2, [3, None])], {"b": 1, "a": [2, {3: (4,)}], 7: 5} , Pair(1, {"x": (2, 3)}),
        collections.OrderedDict([("z", 1), ("a", (2,))]), collections.defaultdict(list, {"k": [1, 2]}),
        collections.deque([1, [2]]), {"p": Pair([1], 2)}, {(1, "t"): 1, 2.5: [None, 2]},
    ],
)  # fmt: skip
def test_names_are_those_that_optree_writes(tree: Any) -> None:
    leaves, spec = flatten(tree)
    names = leaf_names(spec, "root")
    assert list(names) == [accessor.codify("root") for accessor in spec.accessors()]
    assert len(names) == len(leaves)
    assert [eval(name, {"root": tree}) for name in names] == leaves
