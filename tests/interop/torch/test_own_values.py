"""Values where PyTorch's operations are not NumPy's, and arguments that decide them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

NAN = float("nan")
INT8 = torch.arange(6, dtype=torch.int8).reshape(2, 3)
FLOATS = torch.arange(12.0).reshape(3, 4)
ATEN = torch.ops.aten


def nothing(*shape: int) -> Any:
    return torch.full(shape, NAN)


def scaled(function: Any, beta: Any, alpha: Any) -> Callable[..., Any]:
    return lambda c, a, b: function(c, a, b, beta=beta, alpha=alpha)


CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "sums in a dtype": (
        lambda x: (x.sum(dim=[], dtype=torch.int32), x.sum(dtype=torch.int16), x.prod(0, dtype=torch.int32),
                   x.cumsum(0, dtype=torch.int32), x.cumprod(1, dtype=torch.int8), x.sum(0, dtype=torch.bool)),
        [INT8],
    ),
    "truth over no axes": (lambda x: (x.any(dim=()), x.all(dim=()), x.any(dim=(0, 1)), x.all()), [INT8]),
    "hstack of dtypes": (lambda a, b: (torch.hstack([a, b]), torch.stack([a, b])), [INT8.long(), FLOATS[:2, :3]]),
    "cat of dtypes": (lambda a, b, c: torch.cat([a, b, c]), [INT8, INT8 > 1, FLOATS[:, :3].half()]),
    "heaviside of NaN": (torch.heaviside, [torch.tensor([NAN, -1.0, 0.0, 2.0]), torch.tensor([5.0, 5.0, 5.0, NAN])]),
    "threshold_backward": (
        lambda g, x: ATEN.threshold_backward(g, x, 0.5), [torch.ones(3), torch.tensor([0.0, NAN, 1.0]).double()]
    ),
    "a trilinear product along an axis that all lack": (
        lambda a, b, c: [ATEN._trilinear(a, b, c, [0], [0], [0], [2], n) for n in (0, 1)], [torch.ones(2, 3, 6)] * 3
    ),
    "a factor of 3 axes": (
        lambda x: torch.nn.functional.interpolate(x, scale_factor=1.3), [torch.arange(120.0).reshape(1, 2, 3, 4, 5)]
    ),
    **{
        f"addmm and its kin by {beta!r} and {alpha!r}": (
            lambda m, v, s, a, b, w, p, q, beta=beta, alpha=alpha: (
                scaled(torch.addmm, beta, alpha)(m, a, b), scaled(torch.addmv, beta, alpha)(v, a, w),
                scaled(torch.addbmm, beta, alpha)(m, p, q), scaled(torch.baddbmm, beta, alpha)(s, p, q),
                scaled(torch.addr, beta, alpha)(m, v.nan_to_num(1.0), b[0]),
            ),
            [nothing(2, 4), nothing(2), nothing(3, 2, 4), torch.ones(2, 5), torch.ones(5, 4), torch.ones(5),
             torch.ones(3, 2, 5), torch.ones(3, 5, 4)],
        )
        for beta, alpha in ((0, 1), (0.0, 2.5), (2, 1), (0.0, 0))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_are_pytorchs(name: str) -> None:
    function, arguments = CASES[name]
    same(function(*arguments), dyn_torch.jit(function, strict=True)(*arguments))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_all_results_of_bags_have_pytorchs_shapes(mode: int) -> None:
    def function(table: Any, at: Any, offsets: Any) -> Any:
        return [
            operation(table, at, offsets, False, mode, False, None, includes, padding)
            for operation in (ATEN._embedding_bag, ATEN._embedding_bag_forward_only)
            for includes in (False, True)
            for padding in (-1, 2)
        ]

    given = torch.randn(10, 3), torch.tensor([1, 2, 4, 5, 2, 9]), torch.tensor([0, 3, 3, 6])
    for wanted, found in zip(function(*given), dyn_torch.jit(function, strict=True)(*given), strict=True):
        same(wanted[0], found[0])
        same(wanted[2], found[2])  # which are 0 where the sums' gradient does not need them
        assert [(one.shape, one.dtype) for one in wanted] == [(one.shape, one.dtype) for one in found]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("factor", [1.3, 1.0001, 0.3])
def test_nearest_neighbours_are_pytorchs(mode: str, factor: float) -> None:
    def function(x: Any) -> Any:
        return torch.nn.functional.interpolate(x, scale_factor=factor, mode=mode)

    compiled = dyn_torch.jit(function, strict=True)
    for size in ((5, 4), (13, 29), (8, 7)):
        x, again = (torch.arange(size[0] * size[1] * 2.0).reshape(1, 2, *size).requires_grad_() for _ in range(2))
        wanted, found = function(x), compiled(again)
        same(wanted.detach(), found.detach())
        (wanted * wanted).sum().backward()
        (found * found).sum().backward()
        same(x.grad, again.grad)
    assert compiled.cache_info().compiles == 1


def test_operations_that_decompositions_leave() -> None:
    prims = torch.ops.prims

    def function(x: Any, i: Any) -> Any:
        kernel = torch.ones(2, 3, 2)
        return [
            prims.view_of(x), prims.squeeze(x, [1]), prims.split_dim(x, 2, 2), prims.collapse(x, 0, 2),
            prims.iota(x.shape[0], start=2, step=3, dtype=torch.int32, device=torch.device("cpu"), requires_grad=False),
            ATEN.__rshift__(i, 1), ATEN.__lshift__(i, i),
            ATEN._convolution(x.squeeze(1)[None], kernel, None, [1], [0], [1], False, [0], 1, False, False, True, True),
        ]  # fmt: skip

    compiled = dyn_torch.jit(function, strict=True)
    for width in (4, 6):
        given = torch.randn(3, 1, width), torch.arange(5)
        same(function(*given), compiled(*given))
    assert compiled.cache_info().compiles == 1
