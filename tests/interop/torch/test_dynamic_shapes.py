"""``dynamic_shapes=`` of ``dyn.interop.torch.jit``: names, ranges, static axes, and trees that are none."""

from __future__ import annotations

from typing import Any

import pytest

import dyn
from dyn.errors import ArgumentError, ShapeError

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402

Dim = torch.export.Dim
ones = torch.ones


def total(x: Any, y: Any, k: int = 1) -> Any:
    return x * k + y.sum()


def message(error: Any) -> str:
    return str(error.value).partition("\n")[0]


def test_nothing_said_is_all_dynamic() -> None:
    for said in (None, {}, (), {"x": None}, (None, {})):
        compiled = dyn_torch.jit(total, dynamic_shapes=said)
        for shape in ((2, 3), (1, 1), (0, 4)):
            same(total(ones(shape), ones(5)), compiled(ones(shape), ones(5)))
        assert compiled.cache_info().compiles == 1


def test_a_dim_is_one_size_in_its_range() -> None:
    n = Dim("n", min=2, max=8)
    compiled = dyn_torch.jit(total, dynamic_shapes={"x": {0: n}, "y": (n, None)})
    for size in (2, 5, 8):
        same(total(ones(size, 3), ones(size, size)), compiled(ones(size, 3), ones(size, size)))
    for size in (1, 9, 0):
        with pytest.raises(ShapeError) as error:
            compiled(ones(size, 3), ones(size, 2))
        assert message(error) == f"x.shape[0] is {size}, and 2 <= n <= 8 was declared."
    with pytest.raises(ShapeError) as error:
        compiled(ones(4, 3), ones(5, 2))
    assert message(error) == "y.shape[0] is 5, and it must be n = 4."
    assert compiled.cache_info().compiles == 1


def test_a_range_is_known_to_what_is_traced() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] > 3 else x - 1

    compiled = dyn_torch.jit(f, dynamic_shapes={"x": {0: Dim("n", min=4)}})
    same(f(ones(5)), compiled(ones(5)))
    assert compiled.cache_info()[:3] == (1, 0, 0)  # no guard


def test_dims_of_others_and_dims_without_a_name() -> None:
    q = Dim("q")
    compiled = dyn_torch.jit(lambda x, y: x[1:] + y, dynamic_shapes=({0: 2 * q + 1}, {0: 2 * q}))
    for size in (2, 0, 6):
        same(ones(size) * 2, compiled(ones(size + 1), ones(size)))
    with pytest.raises(ShapeError):
        compiled(ones(4), ones(3))
    assert compiled.cache_info().compiles == 1
    bounded = dyn_torch.jit(torch.nn.ReLU(), dynamic_shapes={"input": {0: Dim.DYNAMIC(min=2), 1: Dim.AUTO}})
    same(ones(2, 1), bounded(ones(2, 1)))
    with pytest.raises(ShapeError, match="is 1, and input_0 >= 2 was declared"):
        bounded(ones(1, 1))


def test_dims_of_dyn() -> None:
    compiled = dyn_torch.jit(torch.nn.ReLU(), dynamic_shapes=({0: dyn.Dim("n", multiple_of=4)},))
    same(ones(8), compiled(ones(8)))
    with pytest.raises(ShapeError):
        compiled(ones(6))


def test_a_static_axis_is_a_program_for_each_size_and_a_number_for_one() -> None:
    compiled = dyn_torch.jit(total, dynamic_shapes=({0: Dim.STATIC}, {0: 3}))
    for size in (2, 5, 2, 5):
        same(total(ones(size, size), ones(3)), compiled(ones(size, size), ones(3)))
    assert compiled.cache_info()[:2] == (2, 2)
    with pytest.raises(ShapeError) as error:
        compiled(ones(2, 2), ones(4))
    assert message(error) == "y.shape[0] is 4, and it is declared to be 3."


def test_trees_of_arguments() -> None:
    def f(tree: dict[str, Any], *rest: Any, **named: Any) -> Any:
        return tree["a"][0] + rest[1] + named["z"]

    n = Dim("n", min=2)
    said = {"tree": {"a": [{0: n}]}, "rest": (None, {0: n}), "z": (n,)}
    compiled = dyn_torch.jit(dynamic_shapes=said)(f)
    same(ones(3) * 3, compiled({"a": [ones(3)]}, None, ones(3), z=ones(3)))
    with pytest.raises(ShapeError):
        compiled({"a": [ones(1)]}, None, ones(1), z=ones(1))
    with pytest.raises(ShapeError):
        compiled({"a": [ones(3)]}, None, ones(3), z=ones(1))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (3, "3 is no tree of the arguments"),
        ({"z": None}, "total has no argument 'z'"),
        ((None,) * 4, "4 entries, and total has 3 arguments"),
        ({"x": {2: Dim("n")}}, "x is declared on axis 2, and it has 2 axes"),
        ({"x": {-1: Dim("n")}}, "x is declared on axis -1, and it has 2 axes"),
        ({"x": {0: "n"}}, "'n', of x, axis 0, is no dim"),
        ({"x": {0: True}}, "True, of x, axis 0, is no dim"),
        ({"x": {0: -3}}, "-3, of x, axis 0, is no dim"),
        ({"x": [Dim("n")]}, "x is declared with 1 axes, and it has 2"),
        ({"x": 3}, "x is a tensor, and is declared by 3"),
        ({"k": {0: Dim("n")}}, "k is 2, and dims are declared of it"),
        ({"x": {0: Dim("n")}, "y": {0: Dim("n", min=1)}}, "y, axis 0 is n >= 1, and elsewhere n >= 0"),
    ],
)
def test_trees_that_are_none(said: Any, problem: str) -> None:
    with pytest.raises(ArgumentError) as error:
        dyn_torch.jit(total, dynamic_shapes=said)(ones(2, 3), ones(2, 3), 2)
    assert message(error) == f"dynamic_shapes: {problem}."


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"tree": {"b": None}}, "tree has no part 'b'"),
        ({"tree": [None, None]}, "tree has 1 parts, and 2 are declared"),
        ({"tree": 4}, "tree has 1 parts, and is declared by 4"),
    ],
)
def test_parts_that_are_none(said: Any, problem: str) -> None:
    def f(tree: dict[str, Any]) -> Any:
        return tree["a"]

    with pytest.raises(ArgumentError) as error:
        dyn_torch.jit(f, dynamic_shapes=said)({"a": ones(2)})
    assert message(error) == f"dynamic_shapes: {problem}."


class Rows:
    """A tensor and a number, of which no dims are declared."""

    def __init__(self, length: int, number: int) -> None:
        self.x, self.number = torch.ones(length), number


@pytest.mark.parametrize("comes_first", [False, True])
def test_objects_beside_what_is_declared(comes_first: bool) -> None:
    def scaled(x: Any, one: Any) -> Any:
        return x * one.number + one.x.sum()

    def swapped(one: Any, x: Any) -> Any:
        return scaled(x, one)

    function = swapped if comes_first else scaled
    compiled = dyn_torch.jit(function, dynamic_shapes={"x": {0: Dim("n", max=4)}}, strict=True)
    for n in (3, 0, 1):
        x, one = torch.randn(n), Rows(n + 2, n)
        arguments = (one, x) if comes_first else (x, one)
        same(function(*arguments), compiled(*arguments))
    assert compiled.cache_info().compiles == 1
    with pytest.raises(ShapeError, match="0 <= n <= 4 was declared"):
        compiled(*((Rows(1, 1), torch.ones(5)) if comes_first else (torch.ones(5), Rows(1, 1))))
