"""Gradients of operations whose backward pass PyTorch has as an operation of its own, against PyTorch's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dyn.errors import UnsupportedOpError

torch: Any = pytest.importorskip("torch")
F = torch.nn.functional

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch
from tests.rarely import rarely  # noqa: E402


def drawn(*shapes: tuple[int, ...]) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def pulled(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The result, and the gradients of floats for a cotangent that depends on the place."""
    given = [one.clone().requires_grad_() if one.is_floating_point() else one for one in arguments]
    result = function(*given)
    cotangent = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).reshape(result.shape)
    leaves = [one for one in given if one.requires_grad]
    return result.detach(), torch.autograd.grad(result, leaves, cotangent, allow_unused=True)


def check(function: Callable[..., Any], calls: Sequence[Sequence[Any]], programs: int = 1) -> None:
    """The same results and gradients in eager PyTorch and compiled once, for all calls."""
    compiled = dyn_torch.jit(function, strict=True)
    for arguments in calls:
        same(pulled(function, arguments), pulled(compiled, arguments), in_strides=False)
    assert compiled.cache_info().compiles == programs


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_distances(p: float) -> None:
    """Rows that are equal, and rows that are equal in one element, have no NaN."""
    calls = [drawn((4, 3), (5, 3)), drawn((1, 3), (2, 3)), drawn((2, 1), (3, 1)), drawn((0, 3), (2, 3))]
    calls[0][1][2] = calls[0][0][1]
    calls[0][1][3, 0] = calls[0][0][2, 0]
    # Matrix products are another formula, which is as good.
    check(lambda a, b: torch.cdist(a, b, p, "donot_use_mm_for_euclid_dist"), calls)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
def test_distances_of_pairs(p: float) -> None:
    check(lambda a: F.pdist(a, p), [drawn((5, 3)), drawn((2, 1)), drawn((1, 3))])


def test_distances_of_stacks() -> None:
    check(torch.cdist, [drawn((2, 4, 3), (2, 5, 3)), drawn((1, 1, 2), (1, 3, 2))])


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [False, rarely(True)])
def test_images_at_places(mode: str, padding: str, aligned: bool) -> None:
    """Places inside and far outside."""

    def sampled(a: Any, grid: Any) -> Any:
        return F.grid_sample(a, 2 * grid, mode, padding, aligned)

    check(
        sampled,
        [drawn((2, 3, 4, 5), (2, 3, 2, 2)), drawn((1, 1, 1, 6), (1, 4, 1, 2)), drawn((1, 2, 3, 3), (1, 0, 2, 2))],
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_volumes_at_places(mode: str) -> None:
    calls = [drawn((2, 2, 3, 4, 5), (2, 2, 3, 2, 3)), drawn((1, 1, 2, 1, 3), (1, 1, 1, 4, 3))]
    check(lambda a, grid: F.grid_sample(a, 2 * grid, mode, "reflection", False), calls)


def test_images_that_require_no_gradient() -> None:
    a, grid = drawn((1, 2, 3, 4), (1, 2, 2, 2))
    check(lambda grid: F.grid_sample(a, grid, align_corners=True), [[grid]])


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pads_of_replicated_elements(rank: int) -> None:
    widths = [1, 2, 0, 3, 2, 0][: 2 * rank]
    sizes = [(2, 3, 4, 2, 5)[: rank + 2], (1, 1, 1, 1, 1)[: rank + 2], (2, 3, 2, 4)[: rank + 1]]
    check(lambda a: F.pad(a, widths, "replicate"), [drawn(shape) for shape in sizes[:2]])
    check(lambda a: F.pad(a, widths, "replicate"), [drawn(sizes[2])])  # without a batch


def test_pads_that_cut() -> None:
    check(lambda a: F.pad(a, [-1, 2, 1, -2], "replicate"), [drawn((1, 2, 4, 3)), drawn((2, 1, 3, 2))])


def test_writes_where_a_mask_is() -> None:
    """More elements than places, all of them, none."""

    def written(a: Any, mask: Any, source: Any) -> Any:
        return a.masked_scatter(mask, source)

    calls: list[Any] = []
    for rows, columns, given in ((3, 4, 20), (1, 5, 5), (2, 2, 4), (0, 3, 1)):
        a, source = drawn((rows, columns), (given,))
        calls.append((a, a > 0 if rows != 2 else torch.ones(2, 2, dtype=torch.bool), source))
    calls.append((calls[0][0], torch.zeros(3, 4, dtype=torch.bool), calls[0][2]))
    check(written, calls)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1, -1])
def test_bags(mode: str, padding: int | None) -> None:
    """Empty bags, rows that are taken twice, rows of padding: the number of that is PyTorch's, one for each size."""

    def bags(table: Any, at: Any, offsets: Any) -> Any:
        return F.embedding_bag(at, table, offsets, mode=mode, padding_idx=padding)

    table, small = drawn((6, 3), (2, 1))
    check(bags, [
        (table, torch.tensor([0, 2, 2, 5, 1, 1]), torch.tensor([0, 0, 3, 6])),
        (small, torch.tensor([1]), torch.tensor([0])),
        (table, torch.tensor([1, 4]), torch.tensor([0, 2])),
    ], 1 if padding is None else 2)  # fmt: skip


def test_bags_with_weights() -> None:
    def bags(table: Any, weights: Any, at: Any, offsets: Any) -> Any:
        return F.embedding_bag(at, table, offsets, mode="sum", per_sample_weights=weights, padding_idx=2)

    (table, weights, one) = drawn((6, 3), (5,), (1,))
    calls = [
        (table, weights, torch.tensor([0, 2, 2, 5, 1]), torch.tensor([0, 3])),
        (table, one, torch.tensor([3]), torch.tensor([0, 0, 1])),
    ]
    check(bags, calls)


def test_bags_by_the_frequency_of_rows() -> None:
    """What is documented: PyTorch divides by the frequency of another row on the CPU, where rows repeat."""

    @functools.partial(dyn_torch.jit, strict=True)
    def bags(table: Any, at: Any, offsets: Any) -> Any:
        return F.embedding_bag(at, table, offsets, mode="sum", scale_grad_by_freq=True, include_last_offset=True)

    (table,) = drawn((6, 3))
    table.requires_grad_()
    at = torch.tensor([0, 2, 2, 5, 2])
    bags(table, at, torch.tensor([0, 3, 5])).sum().backward()
    wanted = torch.zeros(6, 3, dtype=torch.float64)
    wanted[at] = 1
    same(wanted, table.grad)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce: str) -> None:
    """An empty segment, one of a single element, one with a zero."""

    def segments(a: Any, lengths: Any) -> Any:
        return torch.segment_reduce(a, reduce, lengths=lengths, initial=1.0)

    (a,) = drawn((6, 2))
    a[4, 0] = 0
    check(segments, [(a, torch.tensor([2, 0, 1, 3])), (a[:1], torch.tensor([1]))])


def test_equal_maxima_of_segments() -> None:
    """They share the cotangent; PyTorch has it so where that is positive, and gives each the whole where it is not."""

    @functools.partial(dyn_torch.jit, strict=True)
    def segments(a: Any, lengths: Any) -> Any:
        return torch.segment_reduce(a, "max", lengths=lengths)

    a = torch.tensor([3.0, 3.0, 1.0, 2.0], requires_grad=True)
    (segments(a, torch.tensor([3, 1])) * torch.tensor([-1.0, 1.0])).sum().backward()
    same(torch.tensor([-0.5, -0.5, 0.0, 1.0]), a.grad)


@pytest.mark.slow
def test_products_of_reflections() -> None:
    """None of them too: PyTorch's derivative asks for that after they are multiplied."""
    compiled = dyn_torch.jit(torch.linalg.householder_product, strict=True)
    for shape, count in (((4, 3), 2), ((5, 5), 0), ((3, 3), 3), ((1, 1), 1)):
        arguments = drawn(shape, (count,))
        same(pulled(torch.linalg.householder_product, arguments), pulled(compiled, arguments), 1e-9, in_strides=False)


def test_parts_as_many_as_a_tensor_says() -> None:
    """How many results there are is not known before the call."""
    compiled = dyn_torch.jit(torch.tensor_split, strict=True)
    with pytest.raises(UnsupportedOpError, match="into as many parts as a tensor says"):
        compiled(torch.arange(5.0), torch.tensor(2))
    a, places = torch.arange(7.0), torch.tensor([2, 5])
    same(torch.tensor_split(a, places), compiled(a, places))
    with pytest.warns(dyn_torch.FallbackWarning, match="into as many parts as a tensor says"):
        found = dyn_torch.jit(torch.tensor_split)(a, torch.tensor(3))
    same(torch.tensor_split(a, 3), found)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")
@pytest.mark.parametrize("name", ["std", "var"])
def test_deviations_less_a_size(name: str) -> None:
    """Dynamo makes a size of the number that is taken from the number of elements."""
    function = getattr(torch, name)

    def deviation(a: Any, correction: int) -> Any:
        return function(a, dim=1, correction=correction)

    torch._dynamo.reset()
    compiled = torch.compile(deviation, backend="dyn", dynamic=True, options={"strict": True})
    (a,) = drawn((3, 6))
    for correction in (2, 3, 0, 5, 6, 9):
        wanted = function(a, dim=1, correction=correction)
        same(wanted, compiled(a, correction))
