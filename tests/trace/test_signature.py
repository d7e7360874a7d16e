# ruff: noqa: F821, UP037  # annotations declare shapes with strings that are no types
# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false, reportArgumentType=false
"""Arguments: static ones, names, and the dims that are declared for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import dtypes
from dyn.dtypes import ArraySpec
from dyn.errors import ArgumentError
from dyn.trace.pytree import unflatten
from dyn.trace.signature import Shapes, Signature
from tests.trace.tracing import text_of


def plain(x: Any, w: Any, n: int = 2, *, mode: str = "a") -> Any:
    return (x, w, n, mode)


def several(x: Any, *rest: Any, **more: Any) -> Any:
    return (x, rest, more)


def signature(
    fn: Callable[..., Any] = plain, shapes: Shapes = None, argnums: Any = (), argnames: Any = ()
) -> Signature:
    return Signature(fn, shapes, argnums, argnames)


# ---- calls -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "args", "kwargs", "leaves", "static"),
    [
        ({}, (1, 2), {}, ["x", "w"], []),
        ({}, (1,), {"w": (2, [3])}, ["x", "w[0]", "w[1][0]"], []),
        ({}, (), {"w": 2, "x": 1}, ["x", "w"], []),
        ({"argnums": 2}, (1, 2, 3), {}, ["x", "w"], ["n"]),
        ({"argnums": (-1,)}, (1, 2, 3), {}, ["x", "w"], ["n"]),
        ({"argnums": 2}, (1, 2), {"n": 3}, ["x", "w"], ["n"]),
        ({"argnames": "n"}, (1, 2, 3), {}, ["x", "w"], ["n"]),
        ({"argnames": ("n", "mode")}, (1, 2, 3), {"mode": "b"}, ["x", "w"], ["n", "mode"]),
        ({"argnames": "mode"}, (1,), {"w": 2, "mode": "b"}, ["x", "w"], ["mode"]),
        ({"argnames": "n"}, (1, 2), {}, ["x", "w"], []),
        ({"fn": several}, (1, 2, 3), {"b": 1, "a": 2}, ["x", "rest[0]", "rest[1]", "a", "b"], []),
        (
            {"fn": several, "argnums": 2, "argnames": "b"}, (1, 2, 3), {"b": 1, "a": 2},
            ["x", "rest[0]", "a"], ["rest[1]", "b"],
        ),
    ],
)  # fmt: skip
def test_binding(options: Any, args: Any, kwargs: Any, leaves: list[str], static: list[str]) -> None:
    s = signature(**options)
    bound = s.bind(args, kwargs)
    assert s.leaf_names(bound) == leaves
    assert [v.name for v in bound.static] == static
    assert s.call(bound, bound.leaves, unflatten) == s.function(*args, **kwargs)
    doubled = s.call(bound, [v * 2 for v in bound.leaves], unflatten)
    assert doubled != s.function(*args, **kwargs)


def test_one_key_however_the_call_is_written() -> None:
    s = signature(argnames="n")
    calls = [((1, 2, 3), {}), ((1, 2), {"n": 3}), ((1,), {"n": 3, "w": 2}), ((), {"w": 2, "n": 3, "x": 1})]
    assert len({(b.tree, b.static, b.keywords) for b in (s.bind(a, k) for a, k in calls)}) == 1


def test_static_values_of_other_types_are_other_keys() -> None:
    s = signature(argnames="n")
    keys = {s.bind((1, 2, n), {}).static for n in (1, 1.0, True, "1", np.int64(1))}
    assert len(keys) == 5
    assert s.bind((1, 2, (1, 2)), {}).static == s.bind((1, 2, (1, 2)), {}).static
    f = dyn.jit(lambda x, n: x * n, static_argnums=1)
    x = np.ones(2, np.int32)
    assert [np.asarray(f(x, n)).dtype.kind for n in (2, 2.0, 2)] == ["i", "f", "i"]
    assert f.cache_info().compiles == 2


def test_an_annotation_with_none_declares_too() -> None:
    def fn(x: dyn.f32["n"], y: dyn.f32["n", 3] | None = None) -> Any:
        return x if y is None else y

    s = signature(fn)
    assert s.declared(s.bind((1, 2), {}), [1, 2])[0] == [("n",), ("n", 3)]
    assert s.declared(s.bind((1, None), {}), [1])[0] == [("n",)]
    assert (None | dyn.f32["n"]) == dyn.f32["n"]


def test_functions_without_a_signature() -> None:
    s = signature(max)
    bound = s.bind((1, 2), {})
    assert s.leaf_names(bound) == ["args[0]", "args[1]"]
    assert s.call(bound, [3, 4], unflatten) == 4
    assert signature(functools.partial(plain, 1)).name == "partial"


class Layer:
    def __call__(self, x: dyn.f32["n", 3], y: Any = None) -> Any:
        return x

    def method(self, x: dyn.f32["n"]) -> Any:
        return x


def test_callables() -> None:
    layer = Layer()
    for fn, shape in ((layer, ("n", 3)), (layer.method, ("n",)), (functools.partial(layer, y=1), ("n", 3))):
        assert signature(fn).annotations["x"] == ArraySpec(dtypes.float32, shape)
        assert signature(fn).leaf_names(signature(fn).bind((1,), {})) == ["x"]


@pytest.mark.parametrize(
    ("options", "call", "text"),
    [
        (
            {},
            ((1,), {}),
            "plain(): missing a required argument: 'w'.\n"
            "  help: its signature is (x: 'Any', w: 'Any', n: 'int' = 2, *, mode: 'str' = 'a') -> 'Any'.",
        ),
        (
            {},
            ((1, 2), {"k": 3}),
            "plain(): got an unexpected keyword argument 'k'.\n"
            "  help: its signature is (x: 'Any', w: 'Any', n: 'int' = 2, *, mode: 'str' = 'a') -> 'Any'.",
        ),
        (
            {"argnums": 2},
            ((1, 2, [3]), {}),
            "plain(): the static argument n is a list, which has no hash.\n"
            "  help: pass a tuple or another immutable value, or make the argument an array.",
        ),
        (
            {"argnames": "mode"},
            ((1, 2), {"mode": np.ones(2)}),
            "plain(): the static argument mode is a ndarray, which has no hash.\n"
            "  help: pass a tuple or another immutable value, or make the argument an array.",
        ),
    ],
)
def test_calls_that_do_not_fit(options: Any, call: Any, text: str) -> None:
    assert text_of(ArgumentError, signature(**options).bind, *call) == text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"argnums": 3},
            "static_argnums: plain has no argument 3.\n  help: it has 3 positional arguments: x, w, n.",
        ),
        (
            {"argnums": (0, -4)},
            "static_argnums: plain has no argument -4.\n  help: it has 3 positional arguments: x, w, n.",
        ),
        ({"argnames": "q"}, "static_argnames: plain has no argument 'q'.\n  help: it has x, w, n, mode."),
        ({"shapes": {"q": "n"}}, "shapes=: plain has no argument 'q'.\n  help: it has x, w, n, mode."),
    ],
)
def test_declarations_of_arguments_that_are_not_there(options: Any, text: str) -> None:
    assert text_of(ArgumentError, lambda: signature(**options)) == text


def test_shapes_are_read_when_declared() -> None:
    assert text_of(ArgumentError, lambda: signature(shapes="b s, (n")).startswith(
        "cannot read shapes: '(' at column 6 is not closed.\n  b s, (n\n       ^\n"
    )


# ---- shapes ----------------------------------------------------------------------------------------------------------

TREE = {"w": 1, "b": (2, 3)}


@pytest.mark.parametrize(
    ("shapes", "args", "ranks", "axes"),
    [
        (None, (1, 2), (2, 0), [(None, None), ()]),
        ("b s 768, 768 n", (1, 2), (3, 2), [("b", "s", 768), (768, "n")]),
        ("..., ()", (1, 2), (2, 0), [(None, None), ()]),
        ("_ 2*n", (1, 2), (2, 1), [(None, "2*n"), (None,)]),
        (["b s", None], (1, 2), (2, 1), [("b", "s"), (None,)]),
        ([["b", 3], None], (1, 2), (2, 1), [("b", 3), (None,)]),
        ([["b s", None, "2*n"]], (1, 2), (4, 1), [("b", "s", None, "2*n"), (None,)]),
        (("b s",), (1, 2), (2, 1), [("b", "s"), (None,)]),
        ({"w": "n"}, (1, 2), (2, 1), [(None, None), ("n",)]),
        ({"w": {"w": "n", "b": ["m", None]}}, (1, TREE), (0, 1, 1, 1), [(), ("m",), (None,), ("n",)]),
        ({"w": {"b": "m"}}, (1, TREE), (0, 1, 1, 1), [(), ("m",), ("m",), (None,)]),
        ("n, m", (1, TREE), (1, 1, 1, 1), [("n",), ("m",), ("m",), ("m",)]),
        ("n, m", (1, ()), (1,), [("n",)]),
        ({"mode": "n"}, (1, 2), (0, 0), [(), ()]),
    ],
)
def test_shapes(shapes: Shapes, args: Any, ranks: tuple[int, ...], axes: list[Any]) -> None:
    s = signature(shapes=shapes)
    found, wanted = s.declared(s.bind(args, {}), ranks)
    assert found == axes
    assert wanted == [None] * len(ranks)


def test_shapes_follow_arguments_by_name() -> None:
    s = signature(shapes="n, m")
    for args, kwargs in (((1, 2), {}), ((1,), {"w": 2}), ((), {"w": 2, "x": 1})):
        assert s.declared(s.bind(args, kwargs), (1, 1))[0] == [("n",), ("m",)]
    static = signature(shapes="n, m", argnums=0)
    assert static.declared(static.bind((1, 2, 3), {}), (1, 1))[0] == [("n",), ("m",)]


@pytest.mark.parametrize(
    ("shapes", "args", "ranks", "text"),
    [
        (
            "b s, n",
            (1, 2),
            (1, 1),
            "plain(): x has 1 axis, and it is declared with 2: (b, s).\n"
            "  help: pass an array of that rank, or change the declaration.",
        ),
        (
            {"w": {"b": ["_ 3", None]}},
            (1, TREE),
            (0, 1, 1, 1),
            "plain(): w['b'][0] has 1 axis, and it is declared with 2: (_, 3).\n"
            "  help: pass an array of that rank, or change the declaration.",
        ),
        (
            "n, m, k",
            (1, 2),
            (1, 1),
            "plain(): shapes='n, m, k' declares 3 arguments, and the call has 2.\n"
            "  help: write one group of dims an array argument, '...' for one that is not declared.",
        ),
        (
            ["n", "m", "k"],
            (1, 2),
            (1, 1),
            "plain(): shapes=['n', 'm', 'k'] declares 3 arguments, and the call has 2.\n"
            "  help: write one group of dims an array argument, '...' for one that is not declared.",
        ),
        (
            {"w": {"v": "n"}},
            (1, TREE),
            (0, 1, 1, 1),
            "plain(): shapes= declares w['v'], and the argument is {'b': (*, *), 'w': *}.\n"
            "  help: declare only leaves that are there.",
        ),
        (
            {"w": {"b": ["n"]}},
            (1, TREE),
            (0, 1, 1, 1),
            "plain(): shapes= has 1 entries for w['b'], and the argument is (*, *).\n"
            "  help: write one entry a child, None for one that is not declared.",
        ),
        (
            {"w": "n, m"},
            (1, 2),
            (0, 1),
            "plain(): shapes= declares w as 'n, m', which is 2 arguments.\n"
            "  help: write the axes with spaces between them, without commas.",
        ),
        (
            {"w": 3},
            (1, 2),
            (0, 1),
            "plain(): shapes= declares w as 3, a int.\n  help: write text such as 'b s 768', or a tree of such texts.",
        ),
        (
            [["n", -1]],
            (1, 2),
            (2, 1),
            "plain(): x is declared with the axis -1, which is no size and no dim.\n"
            "  help: write an int of at least 0, a name such as 's', or an expression such as '2*n'.",
        ),
        (
            [["n", dyn.Dim("s")]],
            (1, 2),
            (2, 1),
            "plain(): x is declared with the axis Dim('s'), "
            "which is no size and no dim.\n"
            "  help: write an int of at least 0, a name such as 's', or an expression such as '2*n'.",
        ),
    ],
)
def test_shapes_that_do_not_fit(shapes: Shapes, args: Any, ranks: tuple[int, ...], text: str) -> None:
    s = signature(shapes=shapes)
    bound = s.bind(args, {})
    assert text_of(ArgumentError, s.declared, bound, ranks) == text


# ---- annotations -----------------------------------------------------------------------------------------------------


def annotated(x: dyn.f32["b", "s", 768], y: NoSuchName, z: dyn.i32["2*n", "_"] = 1, *, k: Any) -> Any:
    return x


annotated.__annotations__["k"] = dyn.f64["b s"]  # several axes in one text, which type checkers cannot read


def test_annotations() -> None:
    s = signature(annotated)
    assert sorted(s.annotations) == ["k", "x", "z"]
    bound = s.bind((1, 2, 3), {"k": 4})
    axes, wanted = s.declared(bound, (3, 1, 2, 2))
    assert axes == [("b", "s", 768), (None,), ("2*n", None), ("b", "s")]
    assert wanted == [dtypes.float32, None, dtypes.int32, dtypes.float64]
    over = signature(annotated, shapes={"x": "n"})
    assert over.declared(over.bind((1, 2), {"k": 3}), (1, 1, 2))[0][0] == ("n",)


def test_annotations_of_inner_functions() -> None:
    local = 3

    def fn(x: dyn.f32["n", local]) -> Any:
        return x, local

    assert signature(fn).annotations["x"] == ArraySpec(dtypes.float32, ("n", 3))


def test_an_annotated_tree() -> None:
    def fn(params: dyn.f32["n"]) -> Any:
        return params

    s = signature(fn)
    assert s.declared(s.bind(([1, 2],), {}), (1, 1)) == ([("n",), ("n",)], [dtypes.float32] * 2)
