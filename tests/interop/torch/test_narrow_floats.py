"""Functions of bfloat16 and float16: NaN count as those of float32 do, and results are as near as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

NARROW = (torch.bfloat16, torch.float16)
NAN = float("nan")
ORDERS: dict[str, Callable[[Any], Any]] = {
    "median": lambda x: torch.median(x, 1)[0], "nanmedian": lambda x: torch.nanmedian(x, 1)[0],
    "nanmedian of all": torch.nanmedian, "cummax": lambda x: torch.cummax(x, 1), "cummin": lambda x: torch.cummin(x, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_nan_among_ordered_numbers(dtype: Any, name: str) -> None:
    compiled = dyn_torch.jit(ORDERS[name], strict=True)
    x = torch.tensor([[3.0, NAN, 1, 2, NAN], [NAN] * 5, [5.0, 4, 3, 2, 1], [NAN, 1, 2, 3, 0]], dtype=dtype)
    for given in (x, x[:, :1], x[2:3], x[:, 1:4]):
        same(ORDERS[name](given), compiled(given))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_scores_of_attention_are_not_rounded(dtype: Any, is_causal: bool) -> None:
    """Results and gradients, for scores in the hundreds, are within twice PyTorch's own error."""
    attention = torch.nn.functional.scaled_dot_product_attention
    compiled = dyn_torch.jit(lambda q, k, v: attention(q, k, v, is_causal=is_causal), strict=True)
    torch.manual_seed(0)
    for shape in ((2, 3, 7, 8), (1, 1, 1, 4), (2, 2, 0, 8)):
        given = [(torch.randn(shape) * 6).to(dtype) for _ in range(3)]
        cotangent = torch.randn(shape).to(dtype)

        def run(function: Any, wide: Any, given: Any = given, cotangent: Any = cotangent) -> list[Any]:
            inputs = [x.to(wide).requires_grad_() for x in given]
            result = function(*inputs)
            return [result.detach(), *torch.autograd.grad(result, inputs, cotangent.to(wide))]

        exact = run(lambda q, k, v: attention(q, k, v, is_causal=is_causal), torch.float64)
        theirs = run(lambda q, k, v: attention(q, k, v, is_causal=is_causal), dtype)
        for mine, other, true in zip(run(compiled, dtype), theirs, exact, strict=True):
            assert mine.dtype == other.dtype
            own, its = ((one.double() - true).abs().max().item() if true.numel() else 0.0 for one in (mine, other))
            assert own <= 2 * its + torch.finfo(dtype).eps


@pytest.mark.parametrize("parameters", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("features", [2, 64, 96])
def test_norms_and_their_gradients_are_as_near_as_pytorchs(features: int, dtype: Any, parameters: Any) -> None:
    """To those of doubles: statistics are rounded once, and what is computed with them not at all before it is done."""
    parameters = dtype if parameters is torch.bfloat16 else parameters
    generator = torch.Generator().manual_seed(features)

    def drawn(*shape: int, dtype: Any) -> Any:
        return torch.randn(*shape, generator=generator).to(dtype)

    weights = [drawn(features, dtype=parameters) for _ in range(2)]
    norms = [
        lambda x, w, b: torch.nn.functional.layer_norm(x, (features,), w, b),
        lambda x, w, b: torch.nn.functional.group_norm(x, 1, w, b),
    ]
    for norm in norms:
        compiled = dyn_torch.jit(norm, strict=True)
        for rows in (40, 1):
            given = [drawn(rows, features, dtype=dtype), *weights]
            cotangent = drawn(rows, features, dtype=dtype)

            def found(function: Any, wide: bool, given: Any = given, cotangent: Any = cotangent) -> list[Any]:
                own = [(one.double() if wide else one.clone()).requires_grad_() for one in given]
                result = function(*own)
                gradients = torch.autograd.grad(result, own, cotangent.to(result.dtype))
                return [one.detach().double() for one in (result, *gradients)]

            exact, eager, ours = found(norm, True), found(norm, False), found(compiled, False)
            for wanted, theirs, mine in zip(exact, eager, ours, strict=True):
                # As far as sums in another order go: the last bit of a few floats that lie between two halves.
                assert (mine - wanted).abs().mean() <= 1.01 * (theirs - wanted).abs().mean() + 1e-6
                assert (mine - wanted).abs().max() <= 1.01 * (theirs - wanted).abs().max() + 1e-6
        assert compiled.cache_info().compiles == 1
