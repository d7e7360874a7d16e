"""Operations whose results are those of PyTorch's own kernels, where its decompositions have others, or none."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch


def test_nearest_neighbours_by_a_factor_that_is_not_the_ratio_of_the_sizes() -> None:
    function = lambda x: torch.ops.aten.upsample_nearest2d(x, [18, 48], 3.0, 4.0)  # noqa: E731
    compiled = dyn_torch.jit(function, strict=True)
    for sizes in ((6, 12), (12, 24)):
        x = torch.rand(1, 1, *sizes)
        same(function(x), compiled(x))
    assert compiled.cache_info().compiles == 1


def test_huber_loss_and_mish_are_of_the_dtype_of_the_number() -> None:
    a, b = torch.randn(5).half(), torch.randn(5)
    for function, given in ((torch.nn.functional.huber_loss, (a, b)),
                            (torch.ops.aten.mish_backward, (b, a))):  # fmt: skip
        same(function(*given), dyn_torch.jit(function, strict=True)(*given), 2e-3)


@pytest.mark.filterwarnings("ignore::dyn.interop.torch.FallbackWarning")
def test_results_without_elements_have_pytorchs_strides() -> None:
    for function in (lambda x: x * 2, torch.special.airy_ai):
        compiled = dyn_torch.jit(function)
        for shape in ((0, 3), (3, 0), (0, 0), (2, 0, 3)):
            x = torch.ones(shape)
            for _ in range(2):
                assert compiled(x).stride() == function(x).stride()
