"""Functions that ask a dimension, or an array that is traced, for numbers: which one it is, and what to use instead."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import zeros as nothing
from numpy.random import default_rng

import dyn
from dyn.errors import TraceError, UndecidedDimError, UnsupportedOpError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
STATIC = "or make it static with shapes=."


def instead(name: str) -> str:
    return f"use dyn.numpy.{name}, which takes dimensions and arrays that are traced."


LOOP = f"use dyn.lax.fori_loop or scan for a loop, dyn.numpy.arange for an array of its numbers, {STATIC}"
OTHER = f"use functions of dyn.numpy, which take dimensions, {STATIC}"
REPEAT = f"use dyn.numpy.full, tile or repeat, which give an array, {STATIC}"
INDEX = f"make an array of what is indexed with dyn.numpy.asarray, and index that, {STATIC}"
FORMAT = f"write its name, with {{n}} or {{n!s:>8}}, {STATIC}"
GENERATOR = default_rng(0)

#: What is done with the first size of ``x``, what asks, and the remedy.
SIZES: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda x: np.zeros(x.shape[0]), "np.zeros()", instead("zeros")),
    (lambda x: np.zeros(x.shape), "np.zeros()", instead("zeros")),
    (lambda x: nothing(shape=(2, x.shape[0])), "numpy.zeros()", instead("zeros")),
    (lambda x: np.ones((x.shape[0], 2)), "np.ones()", instead("ones")),
    (lambda x: np.empty(x.shape), "np.empty()", instead("empty")),
    (lambda x: np.full(x.shape[0], 2.0), "np.full()", instead("full")),
    (lambda x: np.eye(x.shape[0]), "np.eye()", instead("eye")),
    (lambda x: np.identity(x.shape[0]), "np.identity()", instead("identity")),
    (lambda x: np.linspace(0, 1, x.shape[0]), "np.linspace()", instead("linspace")),
    (lambda x: np.broadcast_to(np.ones(3), (x.shape[0], 3)), "np.broadcast_to()", instead("broadcast_to")),
    (lambda x: np.ones(6).reshape(x.shape[0], 3), "reshape()", instead("reshape")),
    (lambda x: np.indices(x.shape), "np.indices()", instead("indices")),
    (lambda x: np.float32(x.shape[0]), "np.float32()",
     f"use dyn.numpy.asarray(n, dtype), which takes dimensions, {STATIC}"),
    (lambda x: np.random.randn(x.shape[0]), "np.random.randn()",  # as people write it
     f"use dyn.random.normal, which takes a key and dimensions, {STATIC}"),
    (lambda x: GENERATOR.normal(size=x.shape), "GENERATOR.normal()",
     f"use dyn.random.normal, which takes a key and dimensions, {STATIC}"),
    (lambda x: GENERATOR.vonmises(0, 1, x.shape), "GENERATOR.vonmises()",
     f"use dyn.random, whose functions take a key and dimensions, {STATIC}"),
    (lambda x: [i for i in range(x.shape[0])], "range()", LOOP),  # noqa: C416  # as people write it
    (lambda x: sum(x[i] for i in range(1, x.shape[0])), "range()", LOOP),
    (lambda x: math.sqrt(x.shape[0]), "math.sqrt()", instead("sqrt")),
    (lambda x: math.sqrt(
        x.shape[0]
        * 2
    ), "math.sqrt()", instead("sqrt")),
    (lambda x: math.comb(x.shape[0], 2), "math.comb()", OTHER),
    (lambda x: operator.index(x.shape[0]), "operator.index()", OTHER),
    (lambda x: hex(x.shape[0]), "hex()", OTHER),
    (lambda x: slice(None).indices(x.shape[0]), "indices()", OTHER),
    (lambda x: [0] * x.shape[0], "repeating a sequence", REPEAT),
    (lambda x: x.shape[0] * (0,), "repeating a sequence", REPEAT),
    (lambda x: [1, 2, 3][x.shape[0]], "indexing what is not traced", INDEX),
    (lambda x: "abc"[: x.shape[0]], "indexing what is not traced", INDEX),
    (lambda x: np.ones(4)[: x.shape[0]], "indexing what is not traced", INDEX),
    (lambda x: "%d" % x.shape[0], "a format with %", f"write its name with %s or f'{{n}}', {STATIC}"),  # noqa: UP031
    (lambda x: f"{x.shape[0]:d}", "the format 'd'", FORMAT),
    (lambda x: f"{x.shape[0]:8.2f}", "the format '8.2f'", FORMAT),
    (lambda x: pow(x.shape[0], 2, 5), "pow() with a modulus", f"write n ** k % m, {STATIC}"),
    (lambda x: int(x.shape[0]), "int()", f"use the dimension itself in shapes and arithmetic, {STATIC}"),
    (lambda x: "ä" * 3 + "ö" * x.shape[0], "repeating a sequence", REPEAT),  # columns count bytes
]  # fmt: skip


def refused(function: Callable[..., Any], error: type[Exception], *args: Any) -> list[str]:
    with pytest.raises(error) as caught:
        dyn.jit(function)(*args)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("case", SIZES, ids=lambda case: case[1])
def test_who_asks_a_size_for_its_value(case: tuple[Callable[[Any], Any], str, str]) -> None:
    function, what, remedy = case
    lines = refused(function, UndecidedDimError, X)
    size = "2*x_0" if "2*x_0" in lines[0] else "x_0"
    assert lines[0] == (
        f"{what} needs one value of the dimension {size} (x_0 is x.shape[0]), and it differs from call to call."
    )
    assert lines[1].startswith("  at test_concretization_site.py:")
    assert lines[2:] == [f"  help: {remedy}"]


#: The same of elements, which NumPy's functions ask for on the way.
ELEMENTS: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda x: np.arange(x.shape[0]), "np.arange() needs the elements of i1[]", instead("arange")),
    (lambda x: np.tri(x.shape[0]), "np.tri() needs the elements of i1[]", instead("tri")),
    (lambda x: np.hanning(x.shape[0]), "np.hanning() needs the elements of i1[]", instead("hanning")),
    (lambda x: np.array([x[0], x[1]]), "np.array() needs the elements of f32[x_1]", instead("array")),
    (lambda x: math.sqrt(x[0, 0]), "math.sqrt() needs the elements of f32[]", instead("sqrt")),
]


@pytest.mark.parametrize("case", ELEMENTS, ids=lambda case: case[1])
def test_who_asks_for_elements(case: tuple[Callable[[Any], Any], str, str]) -> None:
    function, what, remedy = case
    lines = refused(function, TraceError, X)
    assert lines[0] == f"{what}, which are not known while '<lambda>' is traced."
    assert lines[1].startswith("  at test_concretization_site.py:")
    assert lines[2:] == [f"  help: {remedy}"]


def test_arrays_of_objects_that_numpy_makes_silently() -> None:
    remedy = "  help: make it with dyn.numpy: asarray([...]), full(shape, value) or stack([...])."
    for function in (lambda x: x + np.full((2,), x.shape[1])[0:1], lambda x: x * np.array([x.shape[1]])):
        lines = refused(function, UnsupportedOpError, X)
        assert lines[0] == "NumPy has made an array of Python objects of the dimension x_1."
        assert lines[1].startswith("  at test_concretization_site.py:")
        assert lines[2] == remedy


def test_no_source_is_needed() -> None:
    space: dict[str, Any] = {"np": np}
    exec(compile("def f(x):\n    return np.zeros(x.shape[0])", "nowhere.py", "exec"), space)
    assert refused(space["f"], UndecidedDimError, X) == [
        "np.zeros() needs one value of the dimension x_0 (x_0 is x.shape[0]), and it differs from call to call.",
        "  at nowhere.py:2",
        f"  help: {instead('zeros')}",
    ]


def test_a_size_that_is_known_is_a_number() -> None:
    f = dyn.jit(lambda x: x + np.zeros(x.shape[1], x.dtype) + len([0] * x.shape[1]), shapes="n 3")
    np.testing.assert_array_equal(f(X), X + 3)


def test_names_of_sizes_are_formatted() -> None:
    found: list[str] = []

    @dyn.jit
    def f(x: Any) -> Any:
        n = x.shape[0]
        found.extend([f"{n}", f"{n!s:>5}", f"{n:>5}", f"{n:s}", "%s" % n, "{}".format(n + 1)])  # noqa: UP031, UP032
        return x

    f(X)
    assert found == ["x_0", "  x_0", "  x_0", "x_0", "x_0", "x_0 + 1"]


def test_lists_of_sizes_are_indices() -> None:
    first_and_last = dyn.jit(lambda x: (x[[0, x.shape[0] - 1]], x[:, [x.shape[1] - 1]], x[[x.shape[0] - 1, -1]]))
    chosen = dyn.jit(lambda x, i: x[[i, 0, x.shape[0] - 1]])
    for n in (1, 2, 7):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        for mine, wanted in zip(first_and_last(x), (x[[0, n - 1]], x[:, [2]], x[[n - 1, -1]]), strict=True):
            np.testing.assert_array_equal(mine, wanted)
        np.testing.assert_array_equal(chosen(x, np.int32(n - 1)), x[[n - 1, 0, n - 1]])
    assert first_and_last.cache_info().compiles == 1


def test_functions_of_torch(require_module: Callable[[str], Any]) -> None:
    torch = require_module("torch")
    what = "computes at once, with what is known only when the compiled function is called."
    for function, name, remedy in (
        (lambda x: torch.zeros(x.shape[0]), "zeros", instead("zeros")),
        (lambda x: torch.zeros((2, x.shape[0])), "zeros", instead("zeros")),
        (lambda x: torch.arange(x.shape[0]), "arange", instead("arange")),
        (lambda x: torch.ones(6).view(x.shape[0], 3), "view", instead("reshape")),
    ):
        lines = refused(function, UnsupportedOpError, X)
        assert lines[0] == f"torch.{name}() {what}"
        assert lines[1].startswith("  at test_concretization_site.py:")
        assert lines[2:] == [f"  help: {remedy}"]


def test_operators_of_torch_arrays_leave_it_to_dyn(require_module: Callable[[str], Any]) -> None:
    torch = require_module("torch")
    weights = torch.ones(3)
    f = dyn.jit(lambda x: weights + x * weights - weights * x.shape[0] + x.shape[0] / weights)
    np.testing.assert_array_equal(f(X), 1 + X)


def test_functions_of_jax(require_module: Callable[[str], Any]) -> None:
    jnp = require_module("jax.numpy")
    for function, what in ((lambda x: jnp.zeros(x.shape[0]), "zeros"),):
        lines = refused(function, UndecidedDimError, X)
        assert lines[0].startswith(f"jnp.{what}() needs one value of the dimension x_0")
        assert lines[1].startswith("  at test_concretization_site.py:")
        assert lines[2:] == [f"  help: {instead(what)}"]
