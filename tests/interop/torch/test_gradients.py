"""Gradients of functions and modules through ``dyn.interop.torch.jit``, against PyTorch's own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from dyn.errors import NotYetError, ShapeError

torch: Any = pytest.importorskip("torch")
nn = torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

Shape = tuple[int, ...]

MODULES: dict[str, tuple[Callable[[], Any], list[Shape]]] = {
    "linear": (lambda: nn.Linear(3, 4), [(5, 3), (1, 3), (0, 3)]),
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2), nn.Softmax(-1)),
        [(5, 3), (1, 3), (7, 3)],
    ),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        [(2, 3, 8, 8), (1, 3, 9, 7)],
    ),
    "encoder layer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        [(2, 5, 8), (1, 3, 8), (1, 1, 8)],
    ),
    "group norm": (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU()), [(2, 4, 5), (1, 4, 3)]),
    "weight norm": (
        lambda: nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 3, 2)),
            nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 3, 2), dim=2),
        ),
        [(2, 2, 5), (1, 2, 3)],
    ),
    "prelu": (lambda: nn.Sequential(nn.Linear(3, 3), nn.PReLU()), [(2, 3), (1, 3)]),
}


def pulled(result: Any) -> None:
    """Back through the sum of squares of whatever is returned."""
    tensors = result if isinstance(result, tuple) else (result,)
    torch.stack([t.pow(2).sum() for t in tensors if t.requires_grad]).sum().backward()


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    make, shapes = MODULES[name]
    torch.manual_seed(0)
    module = make()
    again = copy.deepcopy(module)
    compiled = dyn_torch.jit(again, strict=True)
    for shape in shapes:
        x = torch.randn(shape, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        wanted, found = module(x), compiled(y)
        same(wanted.detach(), found.detach(), 1e-4)
        pulled(wanted)
        pulled(found)
        same(x.grad, y.grad, 1e-4)
        same([p.grad for p in module.parameters()], [p.grad for p in again.parameters()], 1e-4)
        same(list(module.buffers()), list(again.buffers()), 1e-4)
    assert compiled.cache_info().compiles == 1


class Doubled(torch.autograd.Function):
    """A function with a derivative of its own, which is not the right one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x


def partly(x: Any) -> Any:
    with torch.no_grad():
        scale = x.sum()
    return x * scale + x.detach() ** 2, scale, x > 0


def aliases(x: Any) -> Any:
    y = x * 2
    return y[1:], y.t(), y, x.t(), y.clone()


def written(x: Any) -> Any:
    y = x * 2
    y[1:] *= 3
    y.relu_()
    return y, y.clone()


def checkpointed(x: Any) -> Any:
    return torch.utils.checkpoint.checkpoint(lambda v: torch.tanh(v).exp(), x, use_reentrant=False)


def broadcast(x: Any) -> Any:
    return x * x.sum(0), x.t().contiguous() + 1, x[:, :1] * x


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "no_grad and detach": partly, "views": aliases, "in place": written, "a custom function": Doubled.apply,
    "checkpoint": checkpointed, "broadcasting": broadcast, "what is given": lambda x: x,
    "copies": lambda x: (x.clone(), x.clone()), "nothing": lambda x: x.detach() * 2,
    "integers": lambda x: x[:, torch.tensor([0, 0])].cumsum(0),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function = FUNCTIONS[name]
    compiled = dyn_torch.jit(function)
    for shape in ((3, 2), (1, 2), (2, 1), (0, 2)):
        for strided in (False, True):
            x = torch.randn(shape[::-1]).t() if strided else torch.randn(shape)
            y = x.clone()
            x.requires_grad_()
            y.requires_grad_()
            wanted, found = function(x), compiled(y)
            leaves = (wanted, found) if isinstance(wanted, tuple) else ((wanted,), (found,))
            assert [t.requires_grad for t in leaves[0]] == [t.requires_grad for t in leaves[1]]
            same([t.detach() for t in leaves[0]], [t.detach() for t in leaves[1]])
            if any(t.requires_grad for t in leaves[0]):
                pulled(wanted)
                pulled(found)
                same(x.grad, y.grad)


def test_what_is_returned_twice_has_memory_of_its_own() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        return y, y.clone(), y * 1

    first, second, third = dyn_torch.jit(function)(torch.zeros(3))
    first.add_(1)
    second.add_(2)
    same([first, second, third], [torch.full((3,), n) for n in (2.0, 3.0, 1.0)])


def test_only_what_is_asked_for() -> None:
    compiled = dyn_torch.jit(lambda x, y: (x * y).sum())
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    compiled(x, y).backward()
    same(y, x.grad)
    compiled(y, x).backward()
    same(y * 2, x.grad)
    with torch.no_grad():
        assert not compiled(x, y).requires_grad
    assert not compiled(y, y).requires_grad


def test_a_parameter_that_is_frozen_between_calls() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    compiled, x = dyn_torch.jit(module), torch.randn(4, 3)
    compiled(x).sum().backward()
    module.zero_grad()
    module[0].weight.requires_grad_(False)
    compiled(x).sum().backward()
    assert module[0].weight.grad is None
    assert module[1].weight.grad is not None


def test_through_a_graph_on_both_sides() -> None:
    compiled = dyn_torch.jit(lambda x: x.exp())
    a = torch.randn(3, requires_grad=True)
    (compiled(a * 2) * 3).sum().backward()
    same((a * 2).exp().detach() * 6, a.grad)


def test_twice_with_retain_graph_and_not_without() -> None:
    x = torch.randn(3, requires_grad=True)
    y = dyn_torch.jit(torch.exp)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    same(2 * x.exp().detach(), x.grad)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_what_was_kept_and_written_since_is_noticed() -> None:
    weight = torch.randn(3, requires_grad=True)
    y = dyn_torch.jit(lambda x: (x * weight).sum())(torch.randn(3, requires_grad=True))
    with torch.no_grad():
        weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_training(optimizer: str) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    again = copy.deepcopy(module)
    compiled = dyn_torch.jit(again)
    first = getattr(torch.optim, optimizer)(module.parameters(), lr=0.05)
    second = getattr(torch.optim, optimizer)(again.parameters(), lr=0.05)
    for step in range(6):
        x = torch.randn(step % 4 + 1, 4)
        losses = []
        for call, by in ((module, first), (compiled, second)):
            by.zero_grad()
            for part in (x, x + 1):  # two batches for a step
                loss = call(part).pow(2).mean()
                loss.backward()
            nn.utils.clip_grad_norm_(module.parameters() if call is module else again.parameters(), 0.5)
            by.step()
            losses.append(loss.detach())
        same(losses[0], losses[1])
    same(list(module.parameters()), list(again.parameters()))
    assert compiled.cache_info().compiles == 1


def test_autocast() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    again = copy.deepcopy(module)
    x = torch.randn(3, 4)
    for call in (module, dyn_torch.jit(again)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = call(x).float().pow(2).sum()
        loss.backward()
    for a, b in zip(module.parameters(), again.parameters(), strict=True):
        assert b.grad.dtype is torch.float32
        torch.testing.assert_close(b.grad, a.grad, rtol=5e-2, atol=5e-2)


def test_a_buffer_that_is_read_before_it_is_written() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones(3))
            self.weight = nn.Parameter(torch.arange(3.0))

        def forward(self, x: Any) -> Any:
            result = x * self.weight * (self.scale * 0.5 + 1)
            self.scale.add_(1)
            return result

    module, again = Scaled(), Scaled()
    compiled = dyn_torch.jit(again, strict=True)
    for rows in (2, 4):
        x = torch.randn(rows, 3)
        module(x).sum().backward()
        compiled(x).sum().backward()
        same([module.weight.grad, module.scale], [again.weight.grad, again.scale])


def test_what_follows_from_less_is_not_kept() -> None:
    def function(x: Any, w: Any) -> Any:
        h = x @ w
        return (torch.tanh(h) * torch.exp(-h * h) + torch.sigmoid(h)).sum()

    x, w = torch.randn(5, 3, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    result = dyn_torch.jit(function)(x, w)
    kept = [tuple(t.shape) for t in result.grad_fn.saved_tensors]
    assert sorted(kept) == [(3, 4), (5, 3), (5, 4)]  # what is given, and one value: h


def test_an_input_of_results_without_cotangents_gets_no_gradient() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            hidden = self.body(x)
            return hidden, self.one(hidden), self.other(x)

    module = Heads()
    again = copy.deepcopy(module)
    compiled = dyn_torch.jit(again, strict=True)
    for picked in ((0,), (1,), (2,), (0, 2)):
        x = torch.randn(4, 3)
        for one, function in ((module, module), (again, compiled)):
            one.zero_grad()
            results = function(x)
            torch.stack([results[number].square().sum() for number in picked]).sum().backward()
        assert [p.grad is None for p in module.parameters()] == [p.grad is None for p in again.parameters()]
        wanted, found = [[p.grad for p in one.parameters() if p.grad is not None] for one in (module, again)]
        same(wanted, found, 1e-4)
    assert compiled.cache_info().compiles == 1


class Remembers(torch.nn.Module):
    """A module that writes what depends on its weight to a buffer."""

    def __init__(self, in_part: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(1.0, 4.0))
        self.register_buffer("memory", torch.zeros(3))
        self.in_part = in_part

    def forward(self, x: Any) -> Any:
        memory = self.memory[:2] if self.in_part else self.memory
        memory.add_(x[: memory.shape[0]] * self.weight[: memory.shape[0]])
        return (self.memory * 2).sum()


@pytest.mark.parametrize("in_part", [False, True])
def test_recorded_writes_to_what_is_closed_over_are_pytorchs(in_part: bool) -> None:
    wanted, x = Remembers(in_part), torch.ones(3)
    wanted(x).backward()
    given = Remembers(in_part)
    with pytest.raises(NotYetError, match="a write to a tensor that the function closes over"):
        dyn_torch.jit(given, strict=True)(x)
    assert given.memory.tolist() == [0, 0, 0]
    assert given.memory.is_leaf
    with pytest.warns(dyn_torch.FallbackWarning, match="a write to a tensor that the function closes over"):
        dyn_torch.jit(given)(x).backward()
    assert given.weight.grad.tolist() == wanted.weight.grad.tolist()
    assert given.memory.tolist() == wanted.memory.tolist()
    without = Remembers(in_part)
    with torch.no_grad():
        dyn_torch.jit(without, strict=True)(x)
    assert without.memory.tolist() == wanted.memory.tolist()


class Unfitting(torch.autograd.Function):
    """A function whose derivative adds what does not fit."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return torch.exp(g) @ x  # the line that is wrong


def test_an_error_in_a_derivative_of_ones_own_names_its_line() -> None:
    compiled = dyn_torch.jit(lambda x: Unfitting.apply(torch.tanh(x)), strict=True)
    result = compiled(torch.ones(2, 3, requires_grad=True)).sum()
    with pytest.raises(ShapeError) as caught:
        result.backward()
    assert caught.value.loc is not None
    assert caught.value.loc.code == "return torch.exp(g) @ x  # the line that is wrong"


def test_a_size_that_is_known_to_be_1_is_so_in_the_second_half() -> None:
    """What the first program demands of its sizes, and no branch asks."""

    def f(x: Any, w: Any, scale: Any, b: Any) -> Any:
        return ((x @ w.t()) * scale.t() + b).relu()

    compiled = dyn_torch.jit(f, strict=True)
    for n, k, m in ((2, 3, 4), (0, 3, 3), (5, 3, 3)):
        given = torch.randn(n, k, requires_grad=True), torch.randn(m, k), torch.randn(m, 1), torch.randn(m)
        wanted, found = (torch.autograd.grad(run(*given).square().sum(), given[0]) for run in (f, compiled))
        torch.testing.assert_close(found, wanted)


def test_results_without_cotangents_are_no_arrays() -> None:
    """A program is made for which results have one; of a result whose size no other has nothing is passed."""

    def function(x: Any, y: Any) -> tuple[Any, Any, Any]:
        return x * y, torch.sin(x) @ y.T, y.sum() * x

    compiled = dyn_torch.jit(function, strict=True)
    for shape in ((3, 4), (1, 4), (0, 2), (1, 1)):
        for wanted in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
            x, y = (torch.randn(shape, requires_grad=True) for _ in range(2))
            found = [
                torch.autograd.grad([run(x, y)[number].square().sum() for number in wanted], [x, y])
                for run in (function, compiled)
            ]
            same(found[0], found[1], 1e-4, in_strides=False)  # an expanded gradient is a whole one here
    assert compiled.cache_info().compiles == 1


PLACE, PLACES = torch.tensor(0), torch.zeros(1, dtype=torch.int64)

#: Functions of a tensor of these shapes, of which PyTorch's own formulas meet what their forward forms do not.
CORNERS: dict[str, tuple[Callable[[Any], Any], list[Shape]]] = {
    "topk of a number": (lambda x: x.topk(1, 0)[0], [()]),
    "kthvalue of a number": (lambda x: x.kthvalue(1, 0)[0], [()]),
    "scatter of a number": (lambda x: x.scatter(0, PLACE, x * 2), [()]),
    "scatter_add of a number": (lambda x: x.scatter_add(0, PLACE, x * 2), [()]),
    "scatter_reduce of a number": (lambda x: x.scatter_reduce(0, PLACE, x * 2, "amax", include_self=False), [()]),
    "gather at no places": (lambda x: x.gather(0, torch.zeros(2, 0, dtype=torch.int64)), [(5,), (1,)]),
    "index_add of a part": (lambda x: x.index_add(0, PLACES, x[:1], alpha=-1), [(1,), (3,)]),
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners_of_formulas(name: str) -> None:
    function, shapes = CORNERS[name]
    compiled = dyn_torch.jit(function, strict=True)
    for shape in shapes:
        x = torch.randn(shape, requires_grad=True)
        found, wanted = compiled(x), function(x)
        same(wanted.detach(), found.detach())
        cotangent = torch.randn(wanted.shape)
        same(*[torch.autograd.grad(one, x, cotangent, retain_graph=True)[0] for one in (wanted, found)])


def test_a_source_of_its_own_size_is_known_in_the_second_half() -> None:
    compiled = dyn_torch.jit(lambda x, at, source: x.index_add(0, at, source, alpha=-1), strict=True)
    for count in (1, 3):
        x, source = torch.randn(count, requires_grad=True), torch.randn(count, requires_grad=True)
        compiled(x, torch.arange(count), source).sum().backward()
        same([torch.ones(count), -torch.ones(count)], [x.grad, source.grad])


def test_results_that_get_no_cotangent_anywhere_require_gradients() -> None:
    """As in PyTorch, where ``backward()`` through them leaves no gradients; beside others they have some."""
    compiled = dyn_torch.jit(lambda x, y: (torch.linalg.vector_norm(x, 0), y * 2), strict=True)
    alone = dyn_torch.jit(lambda x: torch.linalg.vector_norm(x, 0), strict=True)
    x, y = torch.randn(3, requires_grad=True), torch.randn(2, requires_grad=True)
    result = alone(x)
    assert result.requires_grad
    result.backward()
    assert x.grad is None
    first, second = compiled(x, y)
    (first + second.sum()).backward()
    assert x.grad is None
    same(y.grad, torch.full((2,), 2.0))
