"""``memory="low"``: gradients that compute more again are those that keep it, and less is kept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from dyn.errors import ArgumentError
from dyn.trace.partition import Memory
from dyn.trace.segments import _cuts

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

nn = torch.nn
WIDTH, ROWS = 16, 64


class Block(nn.Module):
    """A layer with a wide part in it, of which a derivative needs much."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 8 * WIDTH), nn.Linear(8 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


def deep(layers: int = 8) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(*[Block() for _ in range(layers)])


def kept_bytes(result: Any, module: Any) -> int:
    """Bytes of what a call keeps for its gradients, beside parameters."""
    own = {parameter.data_ptr() for parameter in module.parameters()}
    held = {tensor.data_ptr(): tensor.nbytes for tensor in result.grad_fn.saved_tensors}
    return sum(size for address, size in held.items() if address not in own)


def gradients(run: Callable[..., Any], module: Any, *arguments: Any) -> list[Any]:
    module.zero_grad()
    run(*arguments).square().sum().backward()
    return [parameter.grad.clone() for parameter in module.parameters()]


@pytest.mark.parametrize("compile", [
    lambda module: dyn_torch.jit(module, memory="low", strict=True),
    lambda module: torch.compile(module, backend="dyn", dynamic=True, options={"memory": "low", "strict": True}),
], ids=["jit", "backend"])  # fmt: skip
def test_gradients_are_the_same_at_every_size(compile: Callable[[Any], Any]) -> None:
    module = deep()
    compiled = compile(module)
    for rows in (ROWS, 3, 1, 0):
        x = torch.randn(rows, WIDTH)
        same(gradients(compiled, module, x), gradients(module, module, x), 1e-4)


def test_less_is_kept() -> None:
    module, x = deep(), torch.randn(ROWS, WIDTH)
    usual, low = [kept_bytes(dyn_torch.jit(module, memory=memory)(x), module) for memory in ("default", "low")]
    # Usually the wide part of each layer; now the ends of some, which are an eighth of it.
    assert usual >= 8 * ROWS * 8 * WIDTH * 4
    assert low <= usual / 8


def test_a_small_function_keeps_what_it_has_kept() -> None:
    weight = torch.randn(WIDTH, WIDTH, requires_grad=True)

    def function(x: Any) -> Any:
        return torch.tanh(x @ weight)

    x = torch.randn(ROWS, WIDTH)
    kept = [len(dyn_torch.jit(function, memory=m)(x).grad_fn.saved_tensors) for m in ("default", "low")]
    assert kept[0] == kept[1]


class Dropping(nn.Module):
    """Layers that draw random numbers, have statistics that are written, and call eager PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(6)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(WIDTH) for _ in range(6)])

    def forward(self, x: Any) -> Any:
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = nn.functional.dropout(torch.tanh(norm(linear(x))), 0.5)
            x = torch.special.airy_ai(x.detach()) + x  # no operation of dyn's
        return x


@pytest.mark.filterwarnings("ignore::dyn.interop.torch.FallbackWarning")
def test_what_is_computed_again_is_what_was_computed() -> None:
    """The same elements are dropped; statistics are written once."""
    torch.manual_seed(0)
    module = Dropping()
    other = copy.deepcopy(module)
    found: list[Any] = []
    pairs: list[tuple[Any, Memory]] = [(module, "default"), (other, "low")]
    for one, memory in pairs:
        compiled, x = dyn_torch.jit(one, memory=memory), torch.ones(ROWS, WIDTH)
        torch.manual_seed(1)
        found.append([gradients(compiled, one, x), [norm.running_var.clone() for norm in one.norms]])
    same(found[1], found[0], 1e-5)


def arena(function: Any) -> int:
    """Bytes of the arena of a compiled function's only program, of ROWS rows."""
    (way,) = function.explain().as_dict()["ways"]
    (program,) = way["programs"]
    formula = program["memory"]["arena"]
    return eval(formula, {"x_0": ROWS, "floordiv": lambda a, b: a // b, "max": max})


def step_of(module: Any, memory: Memory) -> Any:
    optimizer = torch.optim.SGD(module.parameters(), 0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return dyn_torch.jit(step, strict=True, memory=memory)


def test_a_training_step_computes_again_what_takes_memory() -> None:
    """In the one program that it is. The sizes of one step are not those of another."""
    modules = deep(), deep()
    found: list[tuple[int, list[float]]] = []
    pairs: list[tuple[Any, Memory]] = [(modules[0], "default"), (modules[1], "low")]
    for module, memory in pairs:
        step, losses = step_of(module, memory), list[float]()
        for rows in (ROWS, 3, 1, ROWS):
            for parameter in module.parameters():
                parameter.grad = None
            losses.append(step(torch.ones(rows, WIDTH) * torch.arange(WIDTH)).item())
        assert step.cache_info().compiles == 1
        found.append((arena(step), losses))
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-5)
    assert found[1][0] <= found[0][0] / 2.5  # neither keeps what is cheap to compute again
    for one, other in zip(*[module.parameters() for module in modules], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::dyn.interop.torch.FallbackWarning")
def test_a_step_with_random_numbers_and_statistics_computes_the_same_again() -> None:
    found: list[Any] = []
    torch.manual_seed(0)
    modules = [Dropping()]
    modules.append(copy.deepcopy(modules[0]))
    pairs: list[tuple[Any, Memory]] = [(modules[0], "default"), (modules[1], "low")]
    for module, memory in pairs:
        optimizer = torch.optim.SGD(module.parameters(), 0.1)

        def step(x: Any, module: Any = module, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            module(x).square().sum().backward()
            optimizer.step()

        compiled = dyn_torch.jit(step, memory=memory)
        torch.manual_seed(1)
        compiled(torch.ones(ROWS, WIDTH))
        compiled(torch.ones(5, WIDTH))
        found.append([*module.parameters(), *[norm.running_var for norm in module.norms]])
    same(found[1], found[0], 1e-4)


def test_the_option_has_two_values() -> None:
    with pytest.raises(ArgumentError, match=r"the option memory of dyn\.interop\.torch\.jit is 'least'"):
        dyn_torch.jit(deep(1), memory="least")  # pyright: ignore[reportArgumentType]  # that is what is tested


@pytest.mark.parametrize(
    ("before", "there", "cuts"),
    [
        ([0, 4, 8, 12, 16], [1, 1, 1, 0], [0, 1, 2, 3]),  # each end takes less than what it saves
        ([0, 1, 2, 3, 4], [3, 3, 3, 3], []),  # ends take more
        ([0, 8, 8, 16, 16], [9, 1, 9, 1], [1, 3]),  # where little crosses
    ],
)
def test_cuts(before: list[int], there: list[int], cuts: list[int]) -> None:
    assert _cuts(range(4), before, there) == cuts
