"""The order in which results lie in memory, of operations that PyTorch has rules of their own for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
F = torch.nn.functional

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402

#: Four axes as they may lie: in rows, with channels last, and with two of them exchanged.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "the last two": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "the middle two": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "the first two": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
}
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "pad": lambda x: F.pad(x, (1, 1)),
    "pad by nothing": lambda x: F.pad(x, (0, 0)),
    "crop": lambda x: F.pad(x, (-1, 1)),
    "pad by reflection": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "group norm": lambda x: F.group_norm(x, 2),
    "flip": lambda x: x.flip(2),
    "flip nothing": lambda x: x.flip(()),
    "rot90": lambda x: x.rot90(1, (2, 3)),
    "roll": lambda x: x.roll(1, 2),
    "roll all": lambda x: x.roll(1),
    "sort": lambda x: x.sort(2),
    "argsort": lambda x: x.argsort(1),
    "frexp": lambda x: tuple(torch.frexp(x)),
    "one_hot": lambda x: F.one_hot((x > 0).long(), 2),
    "conv": lambda x: F.conv2d(x, torch.ones(2, 4, 2, 2)),
    "conv by channels": lambda x: F.conv2d(x, torch.ones(2, 4, 2, 2).to(memory_format=torch.channels_last)),
    "transposed conv": lambda x: F.conv_transpose2d(x, torch.ones(4, 2, 2, 2)),
    "max pool": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "mean pool": lambda x: F.avg_pool2d(x, 2),
    "adaptive pool": lambda x: F.adaptive_avg_pool2d(x, 2),
    "adaptive max pool": lambda x: F.adaptive_max_pool2d(x, 2),
    "norm pool": lambda x: F.lp_pool2d(x, 2, 2),
    "index_put": lambda x: x.index_put((torch.tensor([0]),), torch.ones(())),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([0]), 0.0),
    "upsample": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "softmax": lambda x: x.softmax(1),
    "cumsum": lambda x: x.cumsum(1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_lie_as_pytorchs(name: str) -> None:
    f = OPERATIONS[name]
    compiled = dyn_torch.jit(f, strict=True)
    for arrange in LAYOUTS.values():
        for shape in ((2, 4, 5, 6), (3, 4, 6, 7)):
            x = arrange(torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))))
            same(f(x), compiled(x), 1e-5)
    assert compiled.cache_info().compiles <= 2 * len(LAYOUTS)
