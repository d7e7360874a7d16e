"""``torch.compile(backend="dyn")``: forward and backward graphs, beside eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import dyn

torch: Any = pytest.importorskip("torch")
nn = torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402

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


def runs(function: Callable[..., Any], calls: list[tuple[Any, ...]], **options: Any) -> int:
    """Compare calls with eager ones; the number of Dynamo's graphs."""
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(function, backend="dyn", **options)
    for arguments in calls:
        torch.testing.assert_close(compiled(*arguments), function(*arguments), rtol=1e-5, atol=1e-5)
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


ROWS = [(torch.ones(n),) for n in (3, 5, 8)]


def test_dynamic_is_dynamos() -> None:
    assert runs(lambda x: x * 2, ROWS, dynamic=True) == 1
    assert runs(lambda x: x * 3, ROWS, dynamic=None) == 2
    assert runs(lambda x: x * 4, ROWS, dynamic=False) == 3


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes_are_one(mode: str) -> None:
    assert runs(lambda x: x * 5, ROWS[:1], mode=mode, fullgraph=True) == 1


def test_graphs_that_break() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    assert runs(f, ROWS[:1]) == 2
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(f, backend="dyn", fullgraph=True)(torch.ones(3))


def test_numbers_are_arguments_of_graphs() -> None:
    calls = [(torch.ones(3), 4), (torch.ones(5), -7), (torch.ones(2), 9)]
    assert runs(lambda x, n: x * n + n, calls, dynamic=True) == 1
    sizes = [(torch.ones(3), 4), (torch.ones(5), 7), (torch.ones(2), 9)]
    assert runs(lambda x, n: x.sum() + torch.arange(n), sizes, dynamic=True) == 1
    floats = [(torch.ones(3), 0.5), (torch.ones(5), -0.25), (torch.ones(2), 1e-3)]
    assert runs(lambda x, s: x * (s * 2 + 1), floats, dynamic=True) == 1


def test_numbers_in_both_directions() -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    compiled = torch.compile(lambda x, n: (x @ weight) * n, backend="dyn", dynamic=True)
    for n in (4, 6, 9):
        weight.grad = None
        compiled(torch.ones(n, 3), n + 3).sum().backward()
        torch.testing.assert_close(weight.grad, torch.full((3, 3), float(n * (n + 3))))


def test_floats_that_no_tensor_carries() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from dyn.interop.torch.backend import compiled

    graph = torch.fx.Graph()
    x, factor = graph.placeholder("x"), graph.placeholder("factor")
    x.meta["val"], factor.meta["val"] = torch.ones(3), ShapeEnv().create_unbacked_symfloat()
    graph.output((graph.call_function(torch.ops.aten.mul.Tensor, (x, factor)),))
    run = compiled(torch.fx.GraphModule(torch.nn.Module(), graph), [])
    for number in (2.5, -0.125):
        (made,) = run([torch.ones(3), number])
        torch.testing.assert_close(made, torch.full((3,), number))


def without_converter(x: Any) -> Any:
    y = x + 1
    return torch.special.airy_ai(y) * 2


def test_an_operation_in_eager_pytorch_has_the_users_line() -> None:
    with pytest.warns(dyn_torch.FallbackWarning) as caught:
        runs(without_converter, ROWS, dynamic=True)
    assert str(caught[0].message).splitlines() == [
        "graph: 1 operation in eager PyTorch:",
        "  aten.special_airy_ai.default: has no converter.",
        f"    at test_backend.py:{without_converter.__code__.co_firstlineno + 2}  return torch.special.airy_ai(y) * 2",
        '  help: strict=True of jit, or options={"strict": True} of torch.compile, makes it an error.',
    ]
    assert len(caught) == 1


def test_strict_is_an_option() -> None:
    compiled = torch.compile(without_converter, backend="dyn", options={"strict": True})
    with pytest.raises(dyn.errors.NotYetError, match="airy_ai"):
        compiled(torch.ones(3))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"options": {"max_autotune": True, "strict": True}}, "has no option max_autotune"),
        ({"options": {"strict": 1}}, "the option strict of torch.compile(backend='dyn') is 1"),
        ({"mode": "fastest"}, "has no mode 'fastest'"),
    ],
)
def test_others_are_refused_by_name(options: dict[str, Any], problem: str) -> None:
    compiled = torch.compile(torch.sin, backend="dyn", **options)
    with pytest.raises(Exception) as error:
        compiled(torch.ones(3))
    assert problem in str(error.value)
    assert isinstance(error.value.__cause__ or error.value, dyn.errors.ArgumentError | RuntimeError)


def test_gradients_of_attention_with_shared_heads() -> None:
    """Four heads of the query on two of keys and values, whose cotangents are sums over those that share one."""

    def heads(x: Any, count: int) -> Any:
        return x.unflatten(-1, (count, 4)).transpose(1, 2)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(
            heads(q, 4), heads(k, 2), heads(v, 2), is_causal=True, enable_gqa=True
        )

    compiled = torch.compile(attention, backend="dyn", dynamic=True)
    for batch, length in ((2, 5), (3, 4)):
        inputs = [torch.randn(batch, length, width, requires_grad=True) for width in (16, 8, 8)]
        wanted, found = [torch.autograd.grad((f(*inputs) ** 2).sum(), inputs) for f in (attention, compiled)]
        for a, b in zip(wanted, found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
