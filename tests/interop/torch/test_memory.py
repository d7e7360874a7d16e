"""Memory that tensors of PyTorch share: layouts of arguments, views that are returned, and writes to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dyn.errors import ArgumentError, NotYetError, ShapeError, UnsupportedOpError

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

Make = Callable[[], Any]


def rows(*shape: int) -> Make:
    return lambda: torch.randn(shape)


def turned(*shape: int) -> Make:
    return lambda: torch.randn(shape).mT


def gaps(*shape: int) -> Make:
    return lambda: torch.randn(shape)[..., ::2]


def part(*shape: int) -> Make:
    return lambda: torch.randn(shape)[..., 1:-1]


def last(*shape: int) -> Make:
    return lambda: torch.randn(shape).to(memory_format=torch.channels_last)


def repeated(*shape: int) -> Make:
    return lambda: torch.randn(shape[1:]).expand(shape)


WEIGHT = torch.arange(12.0).reshape(3, 4)


def several_views(x: Any) -> Any:
    y = (x + 1).t().contiguous().t() * 1
    return y[1:], y[:, 1:], y


def views_with_channels_last(x: Any) -> Any:
    y = x * 2
    return y, y[0], y.permute(0, 2, 3, 1)


def turned_in_place(x: Any) -> Any:
    y = x + 1
    y.t_()
    y.add_(1)
    return y


def grown_in_place(x: Any) -> Any:
    y = x + 1
    z = y[0]
    y.unsqueeze_(0)
    y.mul_(2)
    return y, z


def shrunk_in_place(x: Any) -> Any:
    y = x + 1
    y.squeeze_()
    y.transpose_(0, 1)
    return y


def filled_diagonal(x: Any) -> Any:
    y = x + 0
    y.diagonal().fill_(7)
    return y


def added_to_diagonals(x: Any) -> Any:
    y = x + 0
    y.diagonal(1, 0, 2).add_(1)
    y.diagonal(-1, -1, -2).mul_(2)
    return y


def kept_sizes(x: Any) -> Any:
    """Views of the sizes that there are, and a -1 that is one of them, of axes in another order."""
    y = (x + 1).transpose(0, -1)
    z = y.view(y.shape).reshape(y.shape[0], -1, y.shape[2])
    z.select(0, 0).add_(1)
    return y, z, z.transpose(2, 0).reshape(-1), x.permute(2, 0, 1)[1:].permute(1, 2, 0)


CASES: dict[str, tuple[Callable[..., Any], list[Make]]] = {
    "a view of a transposed argument": (lambda x: (x[1:], x.t(), x), [turned(3, 4), turned(1, 4), turned(0, 4)]),
    "results lie as a transposed argument": (lambda x: (x + 1, x * x.sum(0)), [turned(3, 4), turned(5, 4), rows(4, 3)]),
    "results lie as channels last": (
        lambda x: (x.relu(), x.mean((2, 3)), x[:, 1:], x[:, 1:] + 1, x.permute(0, 2, 3, 1)),
        [last(2, 3, 4, 5), last(1, 3, 2, 2), rows(2, 3, 4, 5)],
    ),
    "gaps": (lambda x: (x * 2, x[1:], x[1:] + x[:1]), [gaps(4, 6), gaps(3, 5), part(4, 6)]),
    "a view over gaps": (lambda x: x.reshape(-1), [gaps(4, 6), part(4, 6)]),
    "a write to a view over gaps": (lambda x: x.reshape(-1).add_(1), [gaps(4, 6), part(4, 6)]),
    "a split axis beside a gap": (lambda x: x.view(2, 2, -1) + 1, [part(4, 5), part(4, 8)]),
    "a write to a part of memory": (lambda x: x.add_(1), [part(4, 6), gaps(4, 6), turned(4, 6)]),
    "a written transposed argument": (lambda x: x.mul_(2).t(), [turned(4, 3), rows(4, 3)]),
    "repeated rows": (lambda x: (x + 1, x.sum(0)), [repeated(4, 3), repeated(2, 5)]),
    "several views of a result": (several_views, [rows(4, 3), turned(4, 3), rows(1, 2)]),
    "several views with channels last": (views_with_channels_last, [last(2, 3, 4, 5), last(3, 2, 2, 2)]),
    "views of what is closed over": (lambda x: (WEIGHT.t(), WEIGHT[1:], WEIGHT, x @ WEIGHT), [rows(2, 3), rows(1, 3)]),
    "views of the sizes that there are": (kept_sizes, [rows(2, 4, 3), rows(1, 2, 5), turned(3, 2, 2), rows(3, 1, 1)]),
    "other orders of no axes": (lambda x: (x.t(), x.transpose(0, -1) + 1, x.permute(())), [rows()]),
    "t_": (turned_in_place, [rows(4, 3), rows(1, 3), turned(4, 3)]),
    "unsqueeze_": (grown_in_place, [rows(4, 3), rows(1, 3)]),
    "squeeze_ and transpose_": (shrunk_in_place, [rows(4, 1, 3), rows(2, 1, 2)]),
    "squeeze": (lambda x: (x.squeeze(0), x.squeeze(), x.t().squeeze(1) + 1), [rows(1, 3), rows(2, 3), rows(1, 1)]),
    "a written diagonal": (filled_diagonal, [rows(4, 4), rows(4, 6), rows(1, 2)]),
    "written diagonals": (added_to_diagonals, [rows(4, 3, 5), rows(2, 3, 3)]),
    "nothing but an empty vector in rank 2": (lambda x: torch.cat([x, torch.empty(0), x]), [rows(2, 3), rows(0, 3)]),
    "no tensors": (lambda: (torch.ones(3), torch.ones(2, dtype=torch.bfloat16), WEIGHT * 2), []),
    "numbers of sizes": (
        lambda x: (x.shape[0] / 2, x.shape[0] * 0.5, x.shape[0] ** 0.5, x.numel(), x.shape[0] > 2, x.shape),
        [rows(5, 2), rows(1, 2), rows(0, 0)],
    ),
    "a compiled function in another": (dyn_torch.jit(lambda x: dyn_torch.jit(torch.neg)(x) * 2), [rows(3), rows(0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_strides_and_writes(name: str) -> None:
    function, makes = CASES[name]
    compiled = dyn_torch.jit(function)
    for number, make in enumerate(makes or [None]):
        torch.manual_seed(number)
        given = [] if make is None else [make()]
        torch.manual_seed(number)
        again = [] if make is None else [make()]
        with torch.no_grad():
            wanted, found = function(*given), compiled(*again)
        same(wanted, found)
        same(given, again)
        if given and given[0].numel():
            assert sharing(wanted, given[0]) == sharing(found, again[0])


def sharing(tree: Any, argument: Any) -> list[bool]:
    """For each tensor whether it lies in an argument's memory."""
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return [t.untyped_storage().data_ptr() == argument.untyped_storage().data_ptr() for t in tensors]


def test_one_program_for_each_layout() -> None:
    compiled = dyn_torch.jit(lambda x: x * 2 + 1)
    for make in (rows(3, 4), turned(3, 4), turned(5, 2), rows(7, 1), part(4, 6), part(4, 9)):
        compiled(make())
    assert compiled.cache_info().compiles == 3


def both_written(x: Any, y: Any) -> Any:
    x.add_(1)
    y.mul_(2)
    return x + y


def test_the_same_tensor_twice() -> None:
    compiled = dyn_torch.jit(both_written)
    for first in (torch.ones(3), torch.ones(5)):
        again = first.clone()
        same(both_written(first, first), compiled(again, again))
        same(first, again)
    one, other = torch.ones(3), torch.ones(3)
    same(torch.full((3,), 4.0), compiled(one, other))


def test_parts_of_one_tensor_that_do_not_overlap() -> None:
    whole, again = torch.arange(6.0), torch.arange(6.0)
    same(both_written(whole[:3], whole[3:]), dyn_torch.jit(both_written)(again[:3], again[3:]))
    same(whole, again)


def test_overlapping_tensors_that_are_written_are_left_to_pytorch_before_anything_is() -> None:
    whole = torch.arange(6.0)
    with pytest.raises(UnsupportedOpError, match=r"tensor 0 .* \(4,\)\), which shares memory with tensor 1 of its arg"):
        dyn_torch.jit(both_written, strict=True)(whole[:4], whole[2:])
    same(torch.arange(6.0), whole)
    compiled, again = dyn_torch.jit(both_written), torch.arange(6.0)
    with pytest.warns(dyn_torch.FallbackWarning, match="which shares memory with tensor 1"):
        same(both_written(whole[:4], whole[2:]), compiled(again[:4], again[2:]))
    same(whole, again)
    same(torch.full((3,), 4.0), compiled(torch.ones(3), torch.ones(3)))  # others are dyn's as before
    assert compiled.cache_info().compiles == 1
    weight = torch.ones(4)

    def grow(x: Any) -> Any:
        return weight.add_(x.sum())

    compiled = dyn_torch.jit(grow, strict=True)
    compiled(torch.ones(2))
    with pytest.raises(UnsupportedOpError, match="a tensor that it closes over"):
        compiled(weight[:2])
    same(torch.full((4,), 3.0), weight)


def test_views_in_place_of_what_the_caller_has() -> None:
    with pytest.raises(NotYetError, match=r"t_ of an argument(.|\n)*call t, which gives a new tensor"):
        dyn_torch.jit(lambda x: x.t_(), strict=True)(torch.ones(2, 3))
    with pytest.raises(NotYetError, match="a tensor that is closed over"):
        dyn_torch.jit(lambda x: WEIGHT.unsqueeze_(0) + x, strict=True)(torch.ones(3, 4))
    assert WEIGHT.shape == (3, 4)


def test_writes_to_memory_that_elements_share() -> None:
    with pytest.raises(UnsupportedOpError, match="several elements share memory"):
        dyn_torch.jit(lambda x: (x + 0)[:1].expand(3, -1).add_(1), strict=True)(torch.ones(4, 4))


def test_t_of_more_than_two_axes() -> None:
    for function in (torch.t, dyn_torch.jit(torch.t)):
        with pytest.raises(RuntimeError, match="expects a tensor with <= 2 dimensions, but self is 3D"):
            function(torch.ones(2, 3, 4))


def test_tensors_of_other_rank_are_not_left_out() -> None:
    compiled = dyn_torch.jit(lambda x, y: torch.cat([x, y]))
    same(torch.ones(2, 3), compiled(torch.ones(2, 3), torch.ones(0)))
    with pytest.raises(ShapeError, match=r"tensor 1 of torch\.cat has rank 1"):
        compiled(torch.ones(2, 3), torch.ones(4))


def test_arguments_that_have_no_hash() -> None:
    with pytest.raises(ArgumentError, match=r"args\[1\]\['a'\] is a numpy.ndarray(.|\n)*torch.as_tensor"):
        dyn_torch.jit(lambda x, o: x + 1)(torch.ones(3), {"a": np.ones(3)})
    with pytest.raises(ArgumentError, match=r"kwargs\['y'\]\[0\] is a set"):
        dyn_torch.jit(lambda x, y: x + 1)(torch.ones(3), y=[{1}])


def test_autocast_keeps_no_casts_of_weights() -> None:
    linear = torch.nn.Linear(3, 3)
    compiled, x = dyn_torch.jit(linear), torch.randn(2, 3)
    for _ in range(2):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            same(linear(x), compiled(x))
            same(linear(x), compiled(x))
            linear.weight.mul_(3)
            assert type(linear(x)) is torch.Tensor


def test_places_in_memory_are_those_of_the_tensor() -> None:
    big = torch.arange(12.0)

    def check(function: Any, strict: bool, tensors: Any) -> Any:
        compiled = dyn_torch.jit(function, strict=strict)
        for x in tensors:
            made, wanted = compiled(x), function(x)
            assert torch.equal(made, wanted)
            assert made.stride() == wanted.stride()
        return compiled

    # Counted from the start of the memory, of arguments and of tensors that are closed over.
    from_start = check(lambda x: x.as_strided((2, 2), (2, 1), 1) + 1, True, [big, torch.ones(6), big[:5]])
    with pytest.raises(NotYetError, match="does not start where its memory does"):
        from_start(big[2:])
    assert check(lambda x: big[3:].as_strided((2, 2), (2, 1), 4) + x[0], True, [big]).cache_info().compiles == 1
    # What is outside of a tensor, and in its memory, is not the program's.
    by_rows = check(lambda x: x.as_strided((6,), (1,)) + 1, True, [big, big[2:]])
    with pytest.raises(NotYetError, match="outside of the tensor"):
        by_rows(big[:3])
    with pytest.warns(dyn_torch.FallbackWarning, match="does not start where its memory does"):
        check(lambda x: x.as_strided((2, 2), (2, 1), 1) + 1, False, [big[2:], big])
    with pytest.warns(dyn_torch.FallbackWarning, match="outside of the tensor"):
        check(lambda x: x.as_strided((6,), (1,)) + 1, False, [big[:3], big])


def by_columns(x: Any) -> Any:
    y = (x * 2).t()
    y.reshape(3, 2, -1).mul_(3)
    return y


def merged(x: Any) -> Any:
    made = x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)
    made += 1
    return made * 2


def merged_alone(x: Any) -> Any:
    made = (x * 2).transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)
    made += 1
    return made


def turned_or_not(x: Any) -> Any:
    y = x.t().contiguous()
    y.mul_(2)
    return y, x + 1


@pytest.mark.parametrize(
    ("function", "shapes", "programs"),
    [
        (by_columns, [(4, 6), (2, 6), (3, 12)], 2),
        (merged, [(2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 5), (3, 4, 2, 2)], 3),
        (
            merged_alone,
            [(2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 5), (3, 4, 2, 2)],
            1,
        ),  # whether it was a view nobody sees
        (turned_or_not, [(3, 4), (1, 4), (4, 1), (5, 6)], 3),
        (lambda x: (x * 2).t().reshape(3, 2, -1) + 1, [(4, 6), (2, 6)], 1),
        (lambda x: (x[..., None].to(memory_format=torch.channels_last) * 2).flatten(2), [(2, 3, 4), (5, 1, 2)], 2),
    ],
)
def test_a_reshape_is_a_view_where_it_is_one_in_pytorch(function: Any, shapes: Any, programs: int) -> None:
    compiled = dyn_torch.jit(function, strict=True)
    for shape in shapes:
        x = torch.randn(shape)
        again = x.clone()
        same(function(x), compiled(again))
        assert torch.equal(x, again)
    assert compiled.cache_info().compiles <= programs


def returned_with_its_source(x: Any) -> Any:
    y = x * 2
    return y.t().reshape(-1), y


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.t().reshape(-1),
        lambda x: x.t().contiguous(),
        lambda x: x.t().ravel(),
        lambda x: x.t().flatten()[1:],
        lambda x: x.t().contiguous().t().reshape(-1),
        lambda x: (x + 1, x.t().reshape(-1)),
        returned_with_its_source,
    ],
)
def test_a_result_is_a_view_at_the_sizes_where_it_is_one_in_pytorch(function: Any) -> None:
    compiled = dyn_torch.jit(function, strict=True)
    for shape in ((3, 4), (1, 4), (4, 1), (1, 1), (5, 2)):
        x = torch.randn(shape)
        again = x.clone()
        wanted, found = function(x), compiled(again)
        same(wanted, found)
        results = zip(*[one if isinstance(one, tuple) else (one,) for one in (wanted, found)], strict=True)
        for a, b in results:
            a.mul_(3)
            b.mul_(3)
            same((wanted, x), (found, again))
    assert compiled.cache_info().compiles == 1


def test_gradients_come_through_a_result_that_is_a_view_at_some_sizes() -> None:
    compiled = dyn_torch.jit(lambda x: x.t().reshape(-1), strict=True)
    for shape in ((3, 4), (1, 4)):
        x, again = (torch.ones(shape).requires_grad_() for _ in range(2))
        ((x * 2).t().reshape(-1) * torch.arange(x.numel())).sum().backward()
        (compiled(again * 2) * torch.arange(x.numel())).sum().backward()
        same(x.grad, again.grad)


def test_a_reshape_by_a_size_of_data_is_not_written_to() -> None:
    def written(x: Any) -> Any:
        rows = (x[x > 0][:, None] * torch.ones(3)).t()
        made = rows.reshape(-1)
        made.mul_(2)
        return made, rows + 1

    with pytest.raises(NotYetError, match="a view or a copy by a size"):
        dyn_torch.jit(written, strict=True)(torch.ones(5))


def test_what_is_written_and_reached_in_two_ways_is_refused() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)

    def argument_written(x: Any) -> Any:
        x.add_(1)
        return weight * 1

    def gradient_written(x: Any) -> Any:
        weight.grad.mul_(2)
        return x + 1

    with torch.no_grad():
        with pytest.raises(UnsupportedOpError, match=r"tensor 0 of its arguments \(.*\), which it also closes over"):
            dyn_torch.jit(argument_written, strict=True)(weight)
        with pytest.raises(
            UnsupportedOpError, match=r"a gradient of a tensor .* shares memory with tensor 0 of its arg"
        ):
            dyn_torch.jit(gradient_written, strict=True)(weight.grad)
    assert weight.tolist() == weight.grad.tolist() == [1, 1, 1]


def test_memory_of_arguments_parameters_and_buffers_can_be_freed() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2).bfloat16())
    compiled = dyn_torch.jit(lambda x: module[2](module[1](module[0](x)).bfloat16()))
    x = torch.ones(4, 2)
    for _ in range(2):
        compiled(x).sum().backward()
    with torch.no_grad():
        for _ in range(2):
            compiled(x)
    assert all(one.untyped_storage().resizable() for one in (x, *module.parameters(), *module.buffers()))
