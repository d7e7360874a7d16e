"""Sizes and numbers that depend on values, in PyTorch's functions through ``dyn.interop.torch.jit``."""

from __future__ import annotations

import builtins
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn

torch: Any = pytest.importorskip("torch")
F = torch.nn.functional

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402


def floats(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def ints(*numbers: int) -> Any:
    return torch.tensor(numbers, dtype=torch.int64)


def boxes(count: int) -> Any:
    generator = torch.Generator().manual_seed(count)
    corners = torch.rand(count, 2, generator=generator)
    return torch.cat([corners, corners + torch.rand(count, 2, generator=generator)], 1)


def set_by_mask(x: Any) -> Any:
    y = x.clone()
    y[y > 0] = 0
    y[y < -1] *= 2
    return y


def arange_of_item(n: Any) -> Any:
    k = n.item()
    torch._check(k >= 0)
    return torch.arange(k) * 2


def filled_by_item(n: Any) -> Any:
    k = n.item()
    torch._check_is_size(k)
    return torch.full((k, 2), 7), torch.zeros(k), torch.ones(3, k).sum(1)


def narrowed(x: Any, n: Any) -> Any:
    k = n.item()
    torch._check_is_size(k)
    torch._check(k <= x.shape[0])
    return x.narrow(0, 0, k) + 1


def written_part(x: Any, n: Any) -> Any:
    y = x * 1
    y[n.item() :] += 5
    y.select(0, 0).mul_(2)
    return y


def written_row(x: Any, n: Any) -> Any:
    y = x.clone()
    y[n.item()] = 3
    y[n[0], 1] += y[n.item(), 0]
    return y


def checked(x: Any) -> Any:
    torch._check((x > -100).all().item())
    torch._check(x.sum().item() > -1000)
    return x + 1


def suppressed(given: Any, scores: Any) -> Any:
    """Matrix NMS: boxes that overlap none with a higher score by more than a half."""
    keep = scores > 0
    corners, scores = given[keep], scores[keep]
    order = scores.argsort(descending=True)
    corners, scores = corners[order], scores[order]
    area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    low = torch.maximum(corners[:, None, :2], corners[None, :, :2])
    high = torch.minimum(corners[:, None, 2:], corners[None, :, 2:])
    size = (high - low).clamp(min=0)
    inner = size[..., 0] * size[..., 1]
    overlap = inner / (area[:, None] + area[None] - inner + 1e-9)
    alone = ((overlap > 0.5).triu(1)).sum(0) == 0
    return corners[alone], scores[alone], alone.nonzero()


VECTORS = [(floats(5),), (floats(1),), (floats(0),), (floats(9),)]
MATRICES = [(floats(3, 4),), (floats(1, 1),), (floats(0, 4),), (floats(7, 2),)]
COUNTS = [(ints(3, 1, 3, 2),), (ints(1),), (ints(),), (ints(2, 2, 2),), (ints(3, 3, 1, 3, 2, 2),)]
ROWS = [(torch.tensor([[1, 2], [1, 2], [0, 5]]),), (torch.tensor([[1, 2]]),)]
PARTS = [(floats(5, 2), ints(n)) for n in (3, 0, 5, 6, -2, -7)]
ITEMS = [(ints(3),), (ints(0),), (ints(1),), (ints(-1),)]


def items_of_constants(x: Any) -> Any:
    numbers = torch.ones(1).item(), torch.full((1, 1), 2.5).item(), torch.zeros((), dtype=torch.bool).item()
    return *numbers, x * numbers[1]


CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "nonzero": (lambda x: (x > 0).nonzero(), [*VECTORS, *MATRICES]),
    "nonzero as a tuple": (lambda x: torch.nonzero(x > 0, as_tuple=True), [*VECTORS, *MATRICES]),
    "where of one": (lambda x: torch.where(x > 0), MATRICES),
    "argwhere": (lambda x: torch.argwhere(x > 0), MATRICES),
    "nonzero_static": (lambda x: torch.nonzero_static(x > 0, size=4), MATRICES),
    "masked_select": (lambda x: (x.masked_select(x > 0), x.masked_select(x[:1] > 0)), MATRICES),
    "index by a mask": (lambda x: (x[x > 0] * 2, x[x > 0][1:], x[x > 0].sum()), [*VECTORS, *MATRICES]),
    "index rows by a mask": (
        lambda x, m: x[m].sum(0),
        [(floats(3, 4), torch.tensor([True, False, True])), (floats(2, 4), torch.tensor([False, False]))],
    ),
    "set by a mask": (set_by_mask, VECTORS),
    "integer": (lambda n: (n.item(), n.item() + 1, -n.item()), [*ITEMS, (torch.tensor(7, dtype=torch.uint8),)]),
    "float": (lambda x: (x[0].item() * 2, x.shape[0] / 3, -x.double()[0].item()), VECTORS),
    "truth value": (lambda x: (x > 0).any().item(), VECTORS),
    "axis that is an item of a constant": (
        lambda x: (x.cumsum(torch.ones([1], dtype=torch.int32).item()), x.sum(torch.zeros(1, 1).long().item() - 1)),
        MATRICES,
    ),
    "items of constants": (items_of_constants, VECTORS),
    "branch on an item of a constant": (lambda x: x * 2 if torch.ones(()).item() > 0.5 else x, VECTORS),
    "number of elements, asked of ATen": (
        lambda x: (torch.ops.aten.numel(x), x.reshape(torch.ops.aten.numel.default(x))), MATRICES,
    ),
    "equal": (
        lambda x, y: (torch.equal(x, y), x.equal(x), torch.allclose(x, y, atol=99), x[:1].allclose(x[:1] + 9)),
        [(floats(5), floats(5)), (floats(1), floats(1) + 1), (floats(0), floats(0))],
    ),
    "float as a size": (lambda x: x.new_zeros(torch.sym_int(x[0].abs().item() * 3)), VECTORS),
    "integer in arithmetic": (lambda x, n: (x * n.item(), x + n.item(), x / n.item()), PARTS[:1] + PARTS[2:]),
    "float in arithmetic": (lambda x: (x * x[0].item(), x + x[0].item()), VECTORS),
    "arange": (arange_of_item, ITEMS),
    "arange without a check": (lambda n: torch.arange(n.item()), ITEMS),
    "full, zeros, ones": (filled_by_item, ITEMS),
    "narrow": (narrowed, PARTS),
    "narrow by a tensor": (lambda x, n: torch.narrow(x, 0, n[0], 2) * 2, PARTS),
    "check that one of several holds": (
        lambda x, n: (torch._check((n.item() >= 2) | (n.item() + x.shape[0] <= 0)), x + 1)[1], PARTS,
    ),
    "slice to": (lambda x, n: x[: n.item()] + 1, PARTS),
    "slice from": (lambda x, n: x[n.item() :] + 1, PARTS),
    "slice that is returned": (lambda x, n: (x[n.item() :], x), PARTS),
    "slice that is written": (written_part, PARTS),
    "select": (lambda x, n: x.select(0, n.item()) + 1, PARTS),
    "index by an item": (lambda x, n: (x[n.item()] + 1, x[..., 0, n.item() - n.item()]), PARTS),
    "index by a scalar tensor": (lambda x, n: (x[n[0]] + 1, x[x[:, 0].argmax()], x[x[:, 1] > 9, n[0] * 0]), PARTS),
    "index by a size": (lambda x, n: (x[x.shape[0] - 1] * 2, x[None, x.shape[0] // 2, :, None]), PARTS[:3]),
    "slice to a scalar tensor": (lambda x, n: (x[: n[0]] + 1, x[n[0] :, 0] * 2), PARTS),
    "written by an item": (written_row, PARTS),
    "tolist": (lambda n: n.tolist(), [(ints(3, 2),), (ints(-1, 5),)]),
    "split": (
        lambda x, n: [part * 2 for part in x.split(n.tolist())],
        [(floats(5, 2), ints(3, 2)), (floats(5, 2), ints(0, 5)), (floats(5, 2), ints(1, 3))],
    ),
    "repeat_interleave": (
        lambda x, n: torch.repeat_interleave(x, n, dim=0),
        [(floats(3, 2), ints(1, 0, 2)), (floats(3, 2), ints(0, 0, 0)), (floats(2, 2), ints(5, 1)),
         (floats(2, 2), ints(5, -1))],
    ),
    "repeat_interleave of numbers": (torch.repeat_interleave, [(ints(1, 0, 2),), (ints(0),), (ints(),)]),
    "repeat_interleave of a size": (
        lambda x, n: torch.repeat_interleave(x, n, dim=0, output_size=3), [(floats(3, 2), ints(1, 0, 2))],
    ),
    "unique": (torch.unique, [*COUNTS, (torch.tensor([1.0, float("nan"), 1.0, float("nan")]),)]),
    "unique with places": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), COUNTS),
    "unique rows": (lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), ROWS),
    "unique columns": (lambda x: torch.unique(x, dim=1), ROWS),
    "unique in runs": (lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), COUNTS),
    "unique columns in runs": (
        lambda x: torch.unique_consecutive(x, dim=1, return_inverse=True), [(torch.tensor([[1, 1, 2], [3, 3, 4]]),)],
    ),
    "bincount": (torch.bincount, [*COUNTS, (ints(-1, 2),)]),
    "bincount of at least": (lambda x: torch.bincount(x, minlength=6), COUNTS),
    "bincount with weights": (torch.bincount, [(ints(3, 1, 3, 2), floats(4)), (ints(1), floats(1))]),
    "one_hot": (F.one_hot, [(ints(3, 0, 1),), (ints(2),), (ints(-1, 2),)]),
    "one_hot of classes": (lambda n: F.one_hot(n, 4), [(ints(3, 0, 1),), (ints(2),), (ints(5, 2),), (ints(),)]),
    "checks": (checked, [(floats(4),), (floats(4) - 200,), (floats(0),)]),
    "asserts": (lambda x: (torch._assert_async((x > -100).all()), x + 1)[1], [(floats(4),), (floats(4) - 200,)]),
    "suppressed boxes": (suppressed, [(boxes(n), floats(n)) for n in (20, 3, 0, 1, 40)]),
}  # fmt: skip


def strides(tensor: Any) -> list[int]:
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


@pytest.mark.filterwarnings("ignore:_check_is_size will be removed")
@pytest.mark.parametrize("name", CASES)
def test_as_pytorch_gives_it(name: str) -> None:
    function, calls = CASES[name]
    compiled = dyn_torch.jit(function)
    for arguments in calls:
        try:
            wanted = function(*arguments)
        except (RuntimeError, IndexError):
            with pytest.raises(Exception):  # noqa: B017
                compiled(*arguments)
            continue
        leaves, tree = torch.utils._pytree.tree_flatten(wanted)
        given, its = torch.utils._pytree.tree_flatten(compiled(*arguments))
        assert tree == its
        for a, b in zip(leaves, given, strict=True):
            if not isinstance(a, torch.Tensor):
                assert type(a) is type(b)
                assert a == b
                continue
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert not a.numel() or strides(a) == strides(b)
            torch.testing.assert_close(b, a, equal_nan=True)
    ranks = {tuple((a.ndim, a.dtype) for a in arguments) for arguments in calls}
    most = 2 if name == "repeat_interleave" else 1  # PyTorch asks whether there is one number of repeats
    assert compiled.cache_info().compiles <= len(ranks) * most


def test_a_branch_on_emptiness_is_one_of_the_inputs_sizes() -> None:
    """PyTorch Geometric asks whether a graph with a loop at each node has edges: if it has nodes."""

    def attention(x: Any, edges: Any) -> Any:
        edges = edges[:, edges[0] != edges[1]]
        edges = torch.cat([edges, torch.arange(x.shape[0]).expand(2, -1)], 1)
        scores = x[edges[0]].sum(1) - x[edges[1]].mean(1)
        if scores.numel() == 0:
            return x
        least = x.new_full((x.shape[0],), -torch.inf).scatter_reduce(0, edges[1], scores, "amax")
        weights = torch.exp(scores - least[edges[1]])
        total = torch.zeros(x.shape[0]).index_add(0, edges[1], weights)
        return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]] * (weights / total[edges[1]])[:, None])

    compiled = dyn_torch.jit(attention, strict=True)
    for nodes, edges in ((5, [[0, 1, 2, 2], [1, 1, 3, 2]]), (3, [[0], [0]]), (4, [[], []]), (0, [[], []])):
        inputs = floats(nodes, 3).requires_grad_(), torch.tensor(edges, dtype=torch.int64)
        found, wanted = compiled(*inputs), attention(*inputs)
        torch.testing.assert_close(found, wanted)
        (of_found, of_wanted) = (torch.autograd.grad(result.sum(), inputs[0])[0] for result in (found, wanted))
        torch.testing.assert_close(of_found, of_wanted)
    assert compiled.cache_info().compiles == 2


@pytest.mark.filterwarnings("ignore:_check_is_size will be removed")
def test_a_size_that_does_not_fit_is_named() -> None:
    compiled = dyn_torch.jit(narrowed)
    compiled(floats(5, 2), ints(2))
    with pytest.raises(dyn.errors.ShapeError) as error:
        compiled(floats(5, 2), ints(6))
    assert "torch._check(k <= x.shape[0])" in str(error.value)
    with pytest.raises(dyn.errors.ShapeError):
        compiled(floats(5, 2), ints(-1))
    assert compiled.cache_info().compiles == 1


# ---- float() and int() of what is returned ---------------------------------------------------------------------------


class _Loss(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.round().sum()

    def step(self, x: Any) -> Any:
        return float(self(x))


class _Number(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return {"loss": float(x.round().sum()), "item": float(x.round().sum().item())}


class _OfNumber(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.number = _Number()

    def forward(self, x: Any) -> Any:
        return f"{self.number(x)['loss']}"


def _with_all_that_functions_have(x: Any, times: Any = "2", *, more: Any = 3.5) -> Any:
    y = x * float(times) + float(more) + len([int(one) for one in "12"])
    return y, float(y.round().sum()), int("11", base=2)


RETURNED: dict[str, Callable[..., Any]] = {
    "float": lambda x: float((x * 4).round().sum()),
    "int": lambda x: int((x * 4).round().sum().long()),
    "float of integers": lambda x: float((x * 4).long().sum()),
    "truth": lambda x: (float((x > 0).all()), int((x > 0).all())),
    "bytes": lambda x: (int(x.abs().sum().to(torch.uint8)), float(x.abs().max().half())),
    "in a dict": lambda x: {"loss": float(x.round().sum()), "y": x.float() * 2, "n": [int(x.long().max()), 1]},
    "a method": _Loss().step,
    "a module": _Number(),
    "an item": lambda x: (int(x.long().sum().item()), float(x.long().sum().item())),
    "defaults and keywords": _with_all_that_functions_have,
    "of sizes": lambda x: (int(x.shape[0]), float(x.shape[0] + 1), f"{int(x.shape[0])} rows"),
}


@pytest.mark.parametrize("name", RETURNED)
def test_numbers_that_are_returned_are_the_programs(name: str) -> None:
    function = RETURNED[name]
    compiled = dyn_torch.jit(function, strict=True)
    for rows in (4, 1, 7):
        x = 2 * floats(rows)
        wanted, found = function(x), compiled(x)
        assert type(found) is type(wanted)
        same(wanted, found)
    assert compiled.cache_info().compiles == (3 if name == "of sizes" else 1)  # a text has one size


def _caught(x: Any) -> Any:
    try:
        return int(x.long())
    except ValueError:
        return -1


#: What Python does with a number beside returning it, or calls by these names.
PYTHONS: dict[str, Callable[..., Any]] = {
    "a text": lambda x: f"{float(x)}",
    "a module in another": _OfNumber(),
    "a quotient": lambda x: 1 / float(x),
    "a question": lambda x: float(x) > 1,
    "a list that is computed with": lambda x: [float(x)] * 2,
    "a variable": lambda x: (y := float(x), y)[1],
    "an attribute": lambda x: float(x).is_integer(),
    "a sum": lambda x: float(x) + 1,
    "a key": lambda x: {float(x): x},
    "what is caught": _caught,
    "of a float": lambda x: (int(x), x),
    "of one element": lambda x: float(x.reshape(1)),
}


@pytest.mark.parametrize("name", PYTHONS)
def test_numbers_that_python_uses_are_pythons(name: str) -> None:
    function = PYTHONS[name]
    compiled = dyn_torch.jit(function)
    for number in (2.5, 4.0):
        x = torch.tensor(number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dyn_torch.FallbackWarning)
            found = compiled(x)
        assert (repr(found), type(found)) == (repr(function(x)), type(function(x)))


def test_hooks_see_pythons_numbers() -> None:
    model, seen = _Number(), []
    model.register_forward_hook(lambda module, args, result: seen.append(f"{result['loss']}"))
    with pytest.warns(dyn_torch.FallbackWarning):
        found = dyn_torch.jit(model)(torch.tensor([2.0, 3.0]))
    assert (found["loss"], seen) == (5.0, ["5.0"])


USED: dict[str, Callable[..., Any]] = {
    "a size": lambda x, b: torch.zeros(int(b.max()) + 1, 2).index_add_(0, b, x),
    "a slice": lambda x, b: x[int(b.min()) : int(b[-1])],
    "a range": lambda x, b: torch.arange(int(b.max())) * 2,
    "a factor": lambda x, b: x * float(x.round().sum()) + int(b.sum()),
    "of floats": lambda x, b: torch.ones(int(x.abs().sum())),
    "below 0": lambda x, b: x + int(-(x.abs() * 3).sum()),
    "a class": lambda x, b: x * (isinstance(int(b.max()), int) and isinstance(2, int) and issubclass(bool, int)),
    "a dtype": lambda x, b: x + int(b.sum()) + torch.tensor(np.arange(2, dtype=int).sum()),
    "a text's": lambda x, b: x + int(b.sum()) + int("3") + float("0.5"),
    "in another function": lambda x, b: x.new_zeros(_count(b), 3),
}


def _count(batch: Any) -> int:
    return int(batch.max()) + 1


@pytest.mark.parametrize("name", USED)
def test_int_and_float_of_tensors_are_numbers_of_the_program(name: str) -> None:
    """As ``x.item()``: sizes and factors that each call finds, by one program, and never in eager."""
    function = USED[name]
    compiled = dyn_torch.jit(function, strict=True)
    for rows in (4, 2, 9):
        x, batch = floats(rows, 2), torch.sort(torch.randint(0, 5, (rows,), generator=torch.Generator())).values
        same(function(x, batch), compiled(x, batch))
    assert compiled.cache_info().compiles == 1
    assert not hasattr(sys.modules[__name__], "int")


def test_int_of_sizes_is_a_size() -> None:
    compiled = dyn_torch.jit(
        lambda x: (x.view(int(x.shape[0]), -1), x[: int(x.shape[0] * 0.3)], x[int(len(x) / 2) :]), strict=True
    )
    for rows in (10, 3, 27, 64):
        x = floats(rows, 4)
        for found, wanted in zip(compiled(x), (x, x[: int(rows * 0.3)], x[rows // 2 :]), strict=True):
            same(wanted, found)
    assert compiled.cache_info().compiles == 1


def test_names_that_mean_something_else_are_left_alone() -> None:
    def has_its_own(x: Any) -> Any:
        float = torch.neg
        return float(x)

    space: dict[str, Any] = {"float": torch.neg}
    exec("def f(x): return float(x)", space)
    for function in (has_its_own, space["f"]):
        x = torch.randn(3)
        same(function(x), dyn_torch.jit(function, strict=True)(x))
    assert (builtins.float, builtins.int) == (float, int)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_tensor_of_a_number_has_its_dtype(dtype: Any) -> None:
    def f(x: Any) -> Any:
        return torch.full((2,), x[0].item()), torch.full((2,), x.shape[0] * 0.5), torch.full((2,), x.shape[0])

    compiled = dyn_torch.jit(f, strict=True)
    for rows in (3, 1):
        x = (2.7 * torch.ones(rows)).to(dtype)
        same(f(x), compiled(x))


ROWS_OF_NUMBERS: dict[str, Any] = {
    "to an item": lambda x: torch.arange(x[0].item()),
    "from an item": lambda x: torch.arange(x[0].item(), 9),
    "down from an item": lambda x: torch.arange(x[0].item(), 0, -1),
    "in steps of an item": lambda x: torch.arange(0, 10, x[0].item()),
    "as integers": lambda x: torch.arange(x[0].item(), dtype=torch.int64),
    "to half a size": lambda x: torch.arange(x.shape[0] * 0.5),
    "in steps of half a size": lambda x: torch.arange(0, x.shape[0], x.shape[0] * 0.5),
    "to the root of a size": lambda x: torch.arange(x.shape[0] ** 0.5),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("name", ROWS_OF_NUMBERS)
def test_numbers_in_a_row_have_the_dtype_of_their_bounds(name: str, dtype: Any) -> None:
    f = ROWS_OF_NUMBERS[name]
    compiled = dyn_torch.jit(f, strict=True)
    for rows, first in ((3, 2.7), (1, 4.0), (5, 1.2)):
        x = torch.full((rows,), first).to(dtype)
        same(f(x), compiled(x))


@pytest.mark.parametrize("end", [-1.0, math.nan, math.inf])
def test_numbers_in_a_row_that_never_come_to_their_end(end: float) -> None:
    compiled = dyn_torch.jit(lambda x: torch.arange(x[0].item()), strict=True)
    with pytest.raises(RuntimeError, match="steps do not lead to its end"):
        compiled(torch.tensor([end]))


#: What Python has no result of at the second of two calls, and has at the first.
WITHOUT_RESULT: dict[str, tuple[Any, Any, Any]] = {
    "a float's inverse": (lambda x: x + 1 / x[0].item(), [2.0], [0.0]),
    "an integer's inverse": (lambda x: x + 1 / x[0].item(), [2], [0]),
    "a power": (lambda x: x + x[0].item() ** -1, [2.0], [0.0]),
    "a root": (lambda x: x + x[0].item() ** 0.5, [2.0], [-2.0]),
    "an overflow": (lambda x: x + x[0].item() ** 5000.0, [1.0], [2.0]),
    "a logarithm": (lambda x: x + torch._sym_log2(x[0].item()), [2.0], [0.0]),
    "by a difference of sizes": (lambda x: x * (2.0 / (x.shape[0] - 3)), [1.0], [1.0] * 3),
    "by the power of a size": (lambda x: x * (1 / (x.shape[0] ** 0.5)), [1.0], []),
    "a negative power of a size": (lambda x: x * x.shape[0] ** -0.5, [1.0], []),
}


@pytest.mark.parametrize("name", WITHOUT_RESULT)
def test_numbers_of_which_python_has_no_result(name: str) -> None:
    f, right, wrong = WITHOUT_RESULT[name]
    compiled = dyn_torch.jit(f, strict=True)
    same(f(torch.tensor(right)), compiled(torch.tensor(right)))
    with pytest.raises(RuntimeError, match=r"float division by zero|to the power|has no result"):
        compiled(torch.tensor(wrong))
    assert compiled.cache_info().compiles == 1


ARITHMETIC: dict[str, Any] = {
    "abs": lambda x, a: x + abs(a),
    "remainder": lambda x, a: x + a % 0.5,
    "of a number": lambda x, a: x + 7 % a,
    "whole": lambda x, a: x + a // 0.4,
    "of a size": lambda x, a: x + (x.shape[0] * 1.3) % 1.5 + abs(0.5 - x.shape[0]),
    "power": lambda x, a: x + a**2.0,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_of_numbers_is_pythons(name: str) -> None:
    def f(x: Any) -> Any:
        return ARITHMETIC[name](x, x[0].item())

    compiled = dyn_torch.jit(f, strict=True)
    for x in (torch.tensor([2.7]), torch.tensor([-2.7, 1.0]), torch.tensor([0.3, 1.0, 2.0])):
        same(f(x), compiled(x))
    assert compiled.cache_info().compiles == 1


TEXTS: dict[str, Any] = {
    "a size": lambda x: x * len(str(x.shape[0])),
    "in an f-string": lambda x: {f"{x.shape[0]}x{x.shape[1]}": x * 2},
    "in a form": lambda x: {f"{x.shape[0]:04d} {x.shape[0] / 2:.1f}": x * 2},
    "a shape": lambda x: {str(x.shape): x},
    "half a size": lambda x: {str(x.shape[0] / 2): x},
    "a key": lambda x: x * {3: 2.0, 12: 5.0}.get(x.shape[0], 1.0),
    "two keys": lambda x: x * {(3, 4): 2.0}.get(tuple(x.shape), 1.0),
    "a set": lambda x: x * 2 if x.shape[0] in {3} else x,
    "NumPy's root": lambda x: x / np.sqrt(x.shape[-1]) + np.log2(x.shape[0]),
    "infinity": lambda x: x[: min(x.shape[0], math.inf)] if x.shape[0] < math.inf else -x,
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_and_keys_of_sizes_are_the_calls(name: str) -> None:
    compiled = dyn_torch.jit(TEXTS[name], strict=True)
    for rows in (3, 12, 5, 3):
        x = torch.ones(rows, 4)
        made, expected = compiled(x), TEXTS[name](x)
        if isinstance(expected, dict):
            assert list(made) == list(expected)
            made, expected = [*made.values()], [*expected.values()]
        same(expected, made)


def test_rows_that_are_one_are_repeated_to_a_number_that_the_program_finds_out() -> None:
    def f(n: Any, x: Any) -> Any:
        return x[:1].expand(n.item(), -1), x[-1:].expand(n.item(), -1)

    compiled = dyn_torch.jit(f, strict=True)
    for n in (3, 1, 0, 2):
        for rows in (6, 1):
            given = torch.tensor(n), torch.randn(rows, 4)
            same(f(*given), compiled(*given))
    assert compiled.cache_info().compiles == 1


def test_infinities_and_nans_are_numbers_to_compute_with() -> None:
    def f(x: Any) -> Any:
        return x + x[0].item() ** 3.0, x + x[1].item() ** 2.0, x + 1 / x[0].item(), x - x[1].item() * 0.0

    compiled = dyn_torch.jit(f, strict=True)
    for x in (torch.tensor([2.0, 3.0]), torch.tensor([math.inf, math.nan]), torch.tensor([-math.inf, math.inf])):
        same(f(x), compiled(x))


@pytest.mark.parametrize("text", [str, repr, "{}".format, "{:.2f}".format, "%s".__mod__])
def test_the_text_of_a_number_is_of_each_call(text: Any) -> None:
    def f(x: Any) -> Any:
        return {text(x[0].item()): x * 2}

    compiled = dyn_torch.jit(f)
    with pytest.warns(dyn_torch.FallbackWarning, match=r"text of|__format__"):
        first = compiled(torch.tensor([2.5]))
    assert [*first] == [text(2.5)]
    assert [*compiled(torch.tensor([4.0]))] == [text(4.0)]


def test_the_truth_of_a_float_is_of_each_call() -> None:
    compiled = dyn_torch.jit(lambda x: x + 1 if x[0].item() else x, strict=True)
    for value in (2.0, 0.0, -0.0):
        x = torch.tensor([value])
        same(x + 1 if value else x, compiled(x))
    assert compiled.cache_info().compiles == 1


# ---- what PyTorch's own samples have found ---------------------------------------------------------------------------


def test_places_of_take_along_dim_go_round() -> None:
    compiled = dyn_torch.jit(lambda x, at: torch.take_along_dim(x, at, 1), strict=True)
    for columns in (5, 3, 1):
        x, at = floats(4, columns), torch.tensor([[-1, 7, -9, 0]]).expand(4, -1)
        same(torch.take_along_dim(x, at, 1), compiled(x, at))
    assert compiled.cache_info().compiles == 1
    assert compiled(floats(4, 0), torch.zeros((4, 0), dtype=torch.int64)).shape == (4, 0)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_one_axis(training: bool) -> None:
    """PyTorch takes it where it is empty, and reads a second size all the same: of symbolic ones it must not."""
    compiled = dyn_torch.jit(lambda x, *rest: F.batch_norm(x, *rest, training=training), strict=True)
    empty = torch.zeros(0)
    for _ in range(2):
        same(compiled(floats(3, 2), torch.zeros(2), torch.ones(2)),
             F.batch_norm(floats(3, 2), torch.zeros(2), torch.ones(2), training=training))  # fmt: skip
        assert compiled(empty, empty, empty).shape == (0,)
        one = torch.ones(1)
        assert compiled(empty, empty, empty, one, one).shape == (0,)
    with pytest.raises(RuntimeError, match="batch_norm takes inputs of 2 axes or more, and this has 1"):
        compiled(torch.ones(3), torch.zeros(3), torch.ones(3))


def test_a_factor_of_interpolate_that_the_program_finds_out() -> None:
    compiled = dyn_torch.jit(
        lambda x, s: F.interpolate(x, scale_factor=s.item(), mode="nearest-exact", recompute_scale_factor=True),
        strict=True,
    )
    for count, factor in ((4, 1.7), (5, 0.6), (9, 2.0)):
        x = floats(2, 3, count)
        wanted = F.interpolate(x, scale_factor=factor, mode="nearest-exact", recompute_scale_factor=True)
        same(wanted, compiled(x, torch.tensor(factor, dtype=torch.float64)))
    assert compiled.cache_info().compiles == 1
