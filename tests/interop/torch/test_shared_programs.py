"""Programs for other attributes and other static arguments: where they compute the same, they are one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402  # needs PyTorch
from tests.interop.torch.comparing import same  # noqa: E402

SIZES = (2, 1, 5, 0)


class Decided(torch.nn.Module):
    """A module whose first call decides what it is, as transformers' ``problem_type`` is decided."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.kind: str | None = None
        self.scale = 1.0

    def forward(self, x: Any, wanted: Any) -> Any:
        if self.kind is None:
            self.kind = "classes" if wanted.dtype is torch.int64 else "numbers"
        made = self.layer(x) * self.scale
        if self.kind == "numbers":
            return (made - wanted).square().sum(0)
        return torch.nn.functional.cross_entropy(made, wanted, reduction="sum")


@pytest.mark.parametrize("has_gradients", [False, True])
def test_what_a_call_sets_and_the_next_one_reads(has_gradients: bool) -> None:
    torch.manual_seed(0)
    model = Decided()
    again = copy.deepcopy(model)
    compiled = dyn_torch.jit(again, strict=True)
    with torch.set_grad_enabled(has_gradients):
        for n in SIZES:
            x, wanted = torch.randn(n, 3), torch.randint(2, (n,))
            losses = model(x, wanted), compiled(x, wanted)
            same(*[one.detach() for one in losses])
            assert again.kind == "classes"
            if has_gradients:
                gradients = [
                    torch.autograd.grad(one, m.layer.weight) for one, m in zip(losses, (model, again), strict=True)
                ]
                same(*gradients)
        assert compiled.cache_info().compiles == 1
        # What does depend on an attribute is another program, and weights that lie elsewhere are seen.
        model.scale = again.scale = 2.0
        x, wanted = torch.randn(3, 3), torch.randint(2, (3,))
        same(model(x, wanted).detach(), compiled(x, wanted).detach())
        assert compiled.cache_info().compiles == 2
        for one in (model, again):
            one.layer.weight.data = torch.ones(2, 3)
            one.kind = None
        x, wanted = torch.randn(4, 3), torch.randint(2, (4,))
        for _ in range(2):
            same(model(x, wanted).detach(), compiled(x, wanted).detach())


def test_static_arguments_of_which_nothing_depends() -> None:
    def function(x: Any, use_cache: bool | None = None, scale: float = 1.0) -> Any:
        made = (x * scale).sum(-1)
        return (made, x.shape[0]) if use_cache else (made,)

    compiled = dyn_torch.jit(function, strict=True)
    calls: list[tuple[Any, ...]] = [(), (None,), (False,), (True,), (False, 2.0), (None, 2.0), (True, 2.0)]
    for n in SIZES:
        for rest in calls:
            x = torch.randn(n, 3)
            same(function(x, *rest), compiled(x, *rest))
    # By the scale, and by whether the size is a result.
    assert compiled.cache_info().compiles == 4


def test_programs_that_write_share_with_those_that_write_the_same() -> None:
    """What is written, kept and returned is that of the call's own trace."""

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.label: str | None = None

        def forward(self, x: Any) -> Any:
            first, self.label = self.label is None, "done"
            self.total.add_(x.sum(0))
            return {"label": self.label, "first": first, "x": x * self.total}

    model = Counting()
    again = copy.deepcopy(model)
    compiled = dyn_torch.jit(again, strict=True)
    for n in SIZES:
        x = torch.randn(n, 3)
        wanted, found = model(x), compiled(x)
        same(wanted, found)
        assert (wanted["label"], wanted["first"]) == (found["label"], found["first"])
        same(model.total, again.total)
    assert compiled.cache_info().compiles == 1
