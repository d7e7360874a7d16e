"""``torch.compile(backend="dyn")``: forward and backward graphs, beside eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import dyn

torch: Any = pytest.importorskip("torch")
nn = torch.nn

MODELS: dict[str, tuple[Callable[[], Any], list[tuple[int, ...]]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)),
        [(3, 4), (5, 4), (1, 4), (7, 4)],
    ),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3)),
        [(2, 3, 6, 6), (3, 3, 6, 8), (4, 3, 5, 5)],
    ),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        [(2, 5, 8), (3, 4, 8), (2, 7, 8)],
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def forgotten() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", MODELS)
def test_training_steps_are_those_of_pytorch(name: str) -> None:
    make, shapes = MODELS[name]
    torch.manual_seed(0)
    model = make()
    ours = copy.deepcopy(model)
    compiled = torch.compile(ours, backend="dyn", dynamic=True)
    steps = [torch.optim.SGD(m.parameters(), 0.05) for m in (model, ours)]
    for shape in shapes:
        x = torch.randn(shape)
        losses: list[Any] = []
        for run, step in zip((model, compiled), steps, strict=True):
            step.zero_grad()
            loss = (run(x) ** 2).mean()
            loss.backward()
            step.step()
            losses.append(loss.detach())
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
    for (key, wanted), found in zip(model.state_dict().items(), ours.state_dict().values(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4, msg=lambda text, key=key: f"{key}: {text}")


def test_inference() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    compiled = torch.compile(model, backend="dyn", dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 1, 8):
            x = torch.randn(n, 4)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


def test_options_are_refused_by_name() -> None:
    compiled = torch.compile(torch.sin, backend="dyn", options={"max_autotune": True})
    with pytest.raises(Exception) as error:
        compiled(torch.ones(3))
    assert "has no option max_autotune" in str(error.value)
    assert isinstance(error.value.__cause__ or error.value, dyn.errors.ArgumentError | RuntimeError)
