"""Optimizers: steps compiled by ``torch.compile`` and by ``jit``, beside eager ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn = torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.errors import NotYetError  # noqa: E402
from dyn.interop.torch import TorchJitted  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"  # PyTorch's own, where Dynamo loads itself
)

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "adam": lambda p: torch.optim.Adam(p, 0.01, foreach=True, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, foreach=False),
}


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """How many programs have been compiled since the test began."""
    torch._dynamo.reset()
    made: list[TorchJitted] = []
    make: Any = TorchJitted.__init__

    def noted(self: TorchJitted, *args: Any, **kwargs: Any) -> None:
        made.append(self)
        make(self, *args, **kwargs)

    monkeypatch.setattr(TorchJitted, "__init__", noted)
    yield lambda: sum(one.cache_info().compiles for one in made)
    torch._dynamo.reset()


def trained(step: Callable[[], Any], model: Any, optimizer: Any, programs: Callable[[], int], steps: int = 10) -> Any:
    """Losses of steps of two backward passes each, the learning rate falling, and how many programs there were then."""
    torch.manual_seed(1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    losses: list[float] = []
    counts: list[int] = []
    for number in range(steps):
        optimizer.zero_grad(set_to_none=number % 4 != 3)
        for _ in range(2):
            loss = (model(torch.randn(3 + number, 4)) ** 2).mean()
            loss.backward()
            losses.append(loss.item())
        step()
        scheduler.step()
        counts.append(programs())
    return losses, counts


def compare(found: Any, wanted: Any) -> None:
    for (name, a), b in zip(wanted.named_parameters(), found.parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_by_torch_compile_are_programs_for_all_parameters_and_learning_rates(
    name: str, programs: Callable[[], int]
) -> None:
    model, ours = network(), network()
    optimizers = [OPTIMIZERS[name](one.parameters()) for one in (model, ours)]

    def update() -> None:
        nn.utils.clip_grad_value_(ours.parameters(), 0.5)
        nn.utils.clip_grad_norm_(ours.parameters(), 0.1)
        optimizers[1].step()

    def eager() -> None:
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizers[0].step()

    wanted, _ = trained(eager, model, optimizers[0], programs)
    step = torch.compile(update, backend="dyn", options={"strict": True})
    compiled = dyn_torch.jit(ours)
    found, counts = trained(step, compiled, optimizers[1], programs)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    compare(ours, model)
    # Those of the model; clipping; the first step, the first with another learning rate, and all others.
    assert counts[-1] == counts[3] <= 5, counts


def test_operations_on_lists_are_those_of_their_entries() -> None:
    """Each form that such an operation has: numbers, lists, tensors of numbers; in place or not."""
    foreach = torch.ops.aten

    def f(a: Any, b: Any, numbers: Any) -> Any:
        list_, scalars = [2.0, 0.5, numbers[0].item()], numbers.sum().item()
        made = [
            *torch._foreach_add(a, b, alpha=2), *torch._foreach_add(a, scalars), *torch._foreach_mul(a, list_),
            *torch._foreach_div(a, numbers[0]), *torch._foreach_pow(2.0, b), *torch._foreach_lerp(a, b, 0.25),
            *torch._foreach_sqrt(a), *torch._foreach_norm(a, 2), *torch._foreach_maximum(a, 0.5),
            *torch._foreach_addcmul(a, b, b, value=scalars), *foreach._foreach_addcdiv.ScalarList(a, b, a, list_),
            *foreach._foreach_addcdiv.Tensor(a, b, a, numbers), *torch._foreach_clamp_min(a, b), *torch._foreach_max(b),
        ]  # fmt: skip
        torch._foreach_sub_(a, list_)
        foreach._foreach_addcmul_.Tensor(a, b, b, numbers)
        torch._foreach_copy_(b, a)
        torch._foreach_zero_(b[:1])
        return made, a, b

    def given(n: int) -> Any:
        torch.manual_seed(n)
        return [[torch.rand(n) + 0.5, torch.rand(2, n) + 0.5, torch.rand(()) + 0.5] for _ in range(2)]

    compiled = dyn_torch.jit(f, strict=True)
    for n in (3, 1, 4):
        numbers = torch.tensor([1.5, 0.5, 2.0])
        calls = [[*given(n), numbers] for _ in range(2)]
        found, wanted = compiled(*calls[0]), f(*calls[1])
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    assert compiled.cache_info().compiles == 1


# ---- whole steps in one program --------------------------------------------------------------------------------------

Setup = tuple[Callable[..., Any], Callable[[], list[Any]], Callable[[int], None]]


def clipped(jit: Callable[..., Any], make: Callable[[Any], Any], backward: bool) -> Setup:
    """A step with clipping, with the backward passes in it or before it."""
    model = network()
    optimizer = make(model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def update() -> Any:
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return norm

    def whole(x: Any) -> Any:
        optimizer.zero_grad()
        for factor in (1, 2):
            loss = (model(x * factor) ** 2).mean()
            loss.backward()
        return update(), loss  # pyright: ignore[reportPossiblyUnbound]

    compiled = jit(whole if backward else update)

    def step(x: Any) -> Any:
        if backward:
            return compiled(x)
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        return compiled()

    tensors = [*model.parameters()]
    return step, lambda: [*tensors, *[p.grad for p in tensors]], lambda number: scheduler.step()


def beside_eager(make: Callable[[Any], Setup], steps: int = 5, **options: Any) -> tuple[int, int]:
    """Compare each step of a function with eager PyTorch's; how many programs there are after three, and at last."""
    compiled: list[TorchJitted] = []

    def jit(function: Any) -> Any:
        compiled.append(dyn_torch.jit(function, **options))
        return compiled[-1]

    setups = [make(lambda function: function), make(jit)]
    counts: list[int] = []
    for number in range(steps):
        torch.manual_seed(number)
        x = torch.randn(3 + number, 4)
        results: list[Any] = []
        for step, seen, between in setups:
            result = step(x)
            results.append((result, seen()))
            between(number)
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)
        counts.append(sum(one.cache_info().compiles for one in compiled))
    return counts[2], counts[-1]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_with_its_backward_passes_is_one_program(name: str) -> None:
    assert beside_eager(lambda jit: clipped(jit, OPTIMIZERS[name], True)) == (1, 1)


def test_an_update_of_gradients_that_were_made_before_is_one_program() -> None:
    assert beside_eager(lambda jit: clipped(jit, OPTIMIZERS["adam"], False)) == (1, 1)


def test_gradients_are_read_and_left_at_each_call() -> None:
    """Descent that is written out, whose gradients are other tensors at each step, or none, or are added to."""

    def make(jit: Callable[..., Any]) -> Setup:
        model = network()

        def descend() -> list[bool]:
            missing: list[bool] = []
            with torch.no_grad():
                for number, parameter in enumerate(model.parameters()):
                    missing.append(parameter.grad is None)
                    if parameter.grad is not None:
                        parameter -= 0.1 * parameter.grad
                        parameter.grad = None if number % 2 else parameter.grad * 0.5
            return missing

        compiled = jit(descend)

        def step(x: Any) -> Any:
            if len(x) % 3:
                (model(x) ** 2).mean().backward()
            return compiled()

        return step, lambda: [*model.parameters(), *[p.grad for p in model.parameters()]], lambda number: None

    assert beside_eager(make, steps=7, strict=True)[1] == 3  # without gradients, with all, and with every other one


def test_what_else_of_an_optimizer_changes_makes_another_program() -> None:
    def make(jit: Callable[..., Any]) -> Setup:
        model = network()
        model[0].requires_grad_(False)
        optimizer = torch.optim.AdamW(model[2].parameters(), 0.01)

        def step(x: Any) -> None:
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()

        def between(number: int) -> None:
            if number == 1:
                optimizer.param_groups[0]["betas"] = (0.5, 0.9)
            if number == 2:
                optimizer.load_state_dict(optimizer.state_dict())
            if number == 3:
                model[0].requires_grad_(True)
                optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.1})

        return jit(step), lambda: list(model.parameters()), between

    beside_eager(make, steps=7)


def test_what_a_program_cannot_leave_behind_is_left_to_pytorch() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def scheduled(x: Any) -> Any:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()
        scheduler.step()

    x, weight = torch.ones(2, 4), torch.ones(4, 2, requires_grad=True)
    compiled = dyn_torch.jit(scheduled)
    with pytest.warns(dyn_torch.FallbackWarning, match="a change of hyperparameters of SGD"):
        compiled(x)
    compiled(x)
    assert optimizer.param_groups[0]["lr"] == 0.025
    assert all(type(p.grad) is torch.Tensor for p in model.parameters())

    def pulled(x: Any, weight: Any) -> Any:
        (x @ weight).sum().backward()

    with pytest.warns(dyn_torch.FallbackWarning, match=r"the gradient \(\.grad\) of an argument"):
        dyn_torch.jit(pulled)(x, weight)
    torch.testing.assert_close(weight.grad, torch.full((4, 2), 2.0))


class Trainer:
    def __init__(self, model: Any, optimizer: Any) -> None:
        self.model, self.optimizer = model, optimizer


class TrainingModule(nn.Module):
    def __init__(self, model: Any, optimizer: Any) -> None:
        super().__init__()
        self.model, self.optimizer = model, optimizer

    def forward(self, x: Any) -> Any:
        return trainer_step(self, x)


def trainer_step(trainer: Any, x: Any) -> Any:
    trainer.optimizer.zero_grad()
    loss = (trainer.model(x) ** 2).mean()
    loss.backward()
    trainer.optimizer.step()
    return loss.detach()


def test_optimizers_are_reached_by_arguments_objects_and_modules() -> None:
    def beside(how: Callable[[Any, Callable[..., Any]], Callable[[Any], Any]]) -> None:
        def make(jit: Callable[..., Any]) -> Setup:
            model = network()
            trainer = Trainer(model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9))
            return how(trainer, jit), lambda: [p.grad for p in model.parameters()], lambda number: None

        assert beside_eager(make, steps=3) == (1, 1)

    def by_object(trainer: Any, jit: Callable[..., Any]) -> Callable[[Any], Any]:
        step = jit(trainer_step)
        return lambda x: step(trainer, x)

    beside(by_object)
    beside(lambda trainer, jit: jit(lambda x: trainer_step(trainer, x)))
    beside(lambda trainer, jit: jit(TrainingModule(trainer.model, trainer.optimizer)))


def test_gradients_that_no_program_takes_are_left_to_pytorch() -> None:
    """One tensor that is the gradient of two, and a sparse one, before and after dense ones."""

    def shared(jit: Callable[..., Any]) -> Any:
        p, q = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
        p.grad = q.grad = torch.ones(3)

        def f() -> Any:
            p.grad.mul_(2)
            q.grad.add_(1)
            return p.grad + 0

        return jit(f)(), p.grad

    with pytest.warns(dyn_torch.FallbackWarning, match="shares memory with a gradient of a tensor"):
        torch.testing.assert_close(shared(dyn_torch.jit), shared(lambda f: f))

    def trained(jit: Callable[..., Any], is_sparse: list[bool]) -> Any:
        weight = nn.Parameter(torch.ones(5, 2))
        optimizer = torch.optim.SGD([weight], 0.1)
        step = jit(optimizer.step)
        for number, sparse in enumerate(is_sparse):
            optimizer.zero_grad()
            nn.functional.embedding(torch.tensor([1, number]), weight, sparse=sparse).sum().backward()
            step()
        return weight.detach()

    for is_sparse in ([True, False, True], [False, True, False, True]):
        with pytest.warns(dyn_torch.FallbackWarning, match="torch.sparse_coo"):
            torch.testing.assert_close(trained(dyn_torch.jit, is_sparse), trained(lambda f: f, is_sparse))


def test_gradients_that_start_elsewhere_in_memory_are_read_from_there() -> None:
    parameter, big = nn.Parameter(torch.ones(3)), torch.arange(12.0)
    step = dyn_torch.jit(lambda: parameter.grad.as_strided((2,), (1,), 1) + 1)
    parameter.grad = big[:3]
    assert step().tolist() == [2, 3]
    parameter.grad = big[3:6]
    with pytest.warns(dyn_torch.FallbackWarning, match="does not start where its memory does"):
        assert step().tolist() == [2, 3]


def test_the_first_step_that_makes_state_is_an_error_where_it_is_asked_for() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    (model(torch.ones(2, 4)) ** 2).mean().backward()
    step = dyn_torch.jit(optimizer.step, strict=True)
    with pytest.raises(NotYetError) as error:
        step()
    assert "the first step of Adam, which makes its state." in str(error.value)
    assert "help: call step() once before, outside of the function." in str(error.value)
    assert not any(optimizer.state.values())
    optimizer.step()
    step()
    assert step.cache_info().compiles == 1
    assert {state["step"].item() for state in optimizer.state.values()} == {2.0}


def test_a_result_that_backward_was_called_of_is_as_in_pytorch() -> None:
    weight = nn.Parameter(torch.ones(3))

    def f(x: Any) -> Any:
        loss = (x * weight).exp().sum()
        loss.backward()
        return loss, (x * weight).sum()

    loss, other = dyn_torch.jit(f, strict=True)(torch.ones(3))
    assert loss.requires_grad
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    other.backward()
    torch.testing.assert_close(weight.grad, torch.ones(3).exp() + 1)


def test_an_optimizer_that_each_trace_makes_anew_is_refused() -> None:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)

    def step(x: Any) -> Any:
        torch.optim.SGD([weight], lr=0.1).step()
        return x + 1

    with pytest.raises(NotYetError, match="an optimizer that the function itself makes"):
        dyn_torch.jit(step, strict=True)(torch.ones(3))
    with pytest.warns(dyn_torch.FallbackWarning, match="itself makes"):
        dyn_torch.jit(step)(torch.ones(3))
    torch.testing.assert_close(weight.detach(), torch.full((3,), 0.9))
