"""Effects of backward passes: tensors that hooks and backward functions write, and what their Python code does."""

from __future__ import annotations

import cProfile
import gc
import io
import itertools
import pstats
import random
import sys
import warnings
import weakref
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.errors import NotYetError  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings(
        "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
    ),  # Dynamo reads it
]

Run = Callable[[Any], Any]


def _by_dynamo(function: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="dyn", dynamic=True)


def _by_jit(function: Any) -> Any:
    return dyn_torch.jit(function, strict=True)


def _doubled(effect: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``x * 2``, whose backward pass has an effect, and multiplies by the number that this gives, if any."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            number = effect(None)
            return cotangents[0] * (2.0 if number is None else number)

    return Doubled.apply


WAYS = [_by_jit, _by_dynamo]


class Square(torch.autograd.Function):
    """A square that adds the largest cotangent of each pass to a tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any, largest: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.largest = largest
        return x * x

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        (x,), (given,) = ctx.saved_tensors, cotangents
        ctx.largest.mul_(2).add_(given.abs().amax())
        return given * 2 * x, None


class Once(Square):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return Square.backward(ctx, *cotangents)


class Tripled(torch.autograd.Function):
    """A function in place, with its context set up apart."""

    @staticmethod
    def forward(x: Any, seen: Any) -> Any:
        return x.mul_(3)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(inputs[0])
        ctx.seen = inputs[1]

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        ctx.seen.copy_(cotangents[0].sum())
        return cotangents[0] * 3, None


def closed_over(kept: Any) -> Run:
    return lambda x: Square.apply(x.sin(), kept).cos()


def once_differentiable(kept: Any) -> Run:
    return lambda x: Once.apply(x.sin(), kept).cos()


def marked_dirty(kept: Any) -> Run:
    return lambda x: Tripled.apply(x * 1, kept).sin()


def read_by_the_forward(kept: Any) -> Run:
    return lambda x: (Square.apply(x * (kept + 1), kept) * (kept.exp() + 1)).cos()


def tensor_hook(kept: Any) -> Run:
    def f(x: Any) -> Any:
        y = x.sin()

        def hook(cotangent: Any) -> None:
            kept.add_(cotangent.sum())

        if y.requires_grad:
            y.register_hook(hook)
        return y * y

    return f


def two_writes_in_order(kept: Any) -> Run:
    def f(x: Any) -> Any:
        return Square.apply(Square.apply(x, kept), kept)

    return f


def in_a_checkpoint(kept: Any) -> Run:
    return lambda x: checkpoint(lambda y: Square.apply(y, kept).sin(), x, use_reentrant=False) * 2


WRITES = [
    closed_over, once_differentiable, marked_dirty, read_by_the_forward, tensor_hook, two_writes_in_order,
    in_a_checkpoint,
]  # fmt: skip


def passes(function: Any, kept: Any) -> list[Any]:
    """What each of several calls and backward passes leaves, with changes in between."""
    torch.manual_seed(0)
    left: list[Any] = []
    for n in (3, 5, 1, 3):
        with torch.no_grad():
            left.append(function(torch.randn(n)))
        x = torch.randn(n, requires_grad=True)
        made = function(x)
        left.append(kept.clone())
        kept += 1
        (made * n).sum().backward(retain_graph=True)
        left.append(kept.clone())
        kept *= 0.5
        made.sum().backward()
        left += [kept.clone(), x.grad]
    return left


#: Dynamo fails to trace the one, and of the other AOTAutograd saves what is written then: with any backend of theirs.
NOT_BY_DYNAMO = (once_differentiable, tensor_hook)


@pytest.mark.parametrize(
    ("make", "compile"),
    [(make, compile) for make in WRITES for compile in WAYS if compile is _by_jit or make not in NOT_BY_DYNAMO],
)
def test_each_pass_writes(make: Callable[[Any], Run], compile: Any) -> None:
    kept = torch.zeros(()), torch.zeros(())
    compiled = compile(make(kept[1]))
    same(passes(make(kept[0]), kept[0]), passes(compiled, kept[1]), 1e-4)
    if compile is _by_jit:
        nothing_fell_back(compiled)
        assert compiled.cache_info().compiles == 2  # one under no_grad


@pytest.mark.parametrize("compile", WAYS)
def test_each_pass_writes_an_argument(compile: Any) -> None:
    def f(x: Any, seen: Any) -> Any:
        return Square.apply(x, seen).sin()

    compiled = compile(f)
    for n in (3, 5, 1):
        left: list[Any] = []
        for run in (f, compiled):
            x, seen = torch.linspace(-1, 2, n).requires_grad_(), torch.ones(2, n).t()
            made = run(x, seen)
            seen += 1
            made.sum().backward()
            left.append((x.grad, seen))
        same(left[0], left[1], 1e-4)


def test_hooks_of_modules_write() -> None:
    def start(compile: Any) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        model.register_buffer("seen", torch.zeros(()))

        def hook(module: Any, given: Any, cotangents: Any) -> None:
            model.seen.add_(cotangents[0].abs().amax())

        model[1].register_full_backward_hook(hook)
        return model, compile(model)

    (plain, f), (model, compiled) = start(lambda model: model), start(_by_jit)
    for n in (2, 1, 3):
        x = torch.randn(n, 3)
        for run in (f, compiled):
            run(x).square().sum().backward()
        same(plain.seen, model.seen, 1e-4)
        same([one.grad for one in plain.parameters()], [one.grad for one in model.parameters()], 1e-4)
    nothing_fell_back(compiled)
    assert compiled.cache_info().compiles == 1


def test_hooks_of_parameters_are_called_once() -> None:
    """By PyTorch, with what a backward pass gives them: neither by the trace, nor twice."""
    calls: list[type] = []

    def triple(bias: Any) -> None:
        bias.grad.mul_(3)

    def start(compile: Any) -> Any:
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2)

        def hook(cotangent: Any) -> Any:
            calls.append(type(cotangent))
            return cotangent * 5

        layer.weight.register_hook(hook)
        layer.bias.register_post_accumulate_grad_hook(triple)
        return layer, compile(layer)

    (plain, f), (layer, compiled) = start(lambda model: model), start(_by_jit)
    for n in (2, 4):
        x = torch.randn(n, 3)
        for run in (f, compiled):
            run(x).square().sum().backward()
        same([one.grad for one in plain.parameters()], [one.grad for one in layer.parameters()], 1e-4)
    assert calls == [torch.Tensor] * 4
    nothing_fell_back(compiled)


def test_a_pass_of_a_part_writes_what_it_comes_to() -> None:
    kept = torch.zeros(2, 2)

    def f(x: Any, w: Any, kept: Any) -> Any:
        return Square.apply(x, kept[0]).sin() * w, x.cos()

    compiled = dyn_torch.jit(f, strict=True)
    for inputs in ((0,), (1,), (0, 1)):
        for results in ((0,), (1,), (0, 1)):
            for number, run in enumerate((f, compiled)):
                given = torch.linspace(0, 1, 3).requires_grad_(), torch.ones(3).requires_grad_()
                made = run(*given, kept[number : number + 1])
                if results != (1,) or inputs != (1,):  # of which nothing depends on the other
                    asked = [given[at] for at in inputs]
                    torch.autograd.grad([made[at].sum() for at in results], asked, allow_unused=True)
            same(kept[0], kept[1], 1e-4)


# ---- what Python does ------------------------------------------------------------------------------------------------


def appends(log: list[Any]) -> Callable[[], Any]:
    return lambda: log.append("passed")


def sets_a_variable(log: list[Any]) -> Callable[[], Any]:
    count = 0

    def effect() -> None:
        nonlocal count
        count += 1

    log.append(lambda: count)
    return effect


class Counter:
    count = 0


def sets_an_attribute(log: list[Any]) -> Callable[[], Any]:
    counter = Counter()

    def effect() -> None:
        counter.count += 1

    log.append(lambda: counter.count)
    return effect


def prints(log: list[Any]) -> Callable[[], Any]:
    return lambda: print("a pass")


EFFECTS = [
    (appends, "changes a list"),
    (sets_a_variable, "sets the variable count"),
    (sets_an_attribute, "sets an attribute of a Counter"),
    (prints, "prints or writes to a file"),
]


_COLLECTIONS = 0


def _count_collections(phase: str, _: Any) -> None:
    global _COLLECTIONS  # noqa: PLW0603 - what the test is about
    _COLLECTIONS += 1


@pytest.mark.parametrize("is_last", [True, False])
def test_what_the_collector_calls_is_not_the_passs(is_last: bool) -> None:
    """Callbacks of gc's run in the midst of any code, and set their variables at the start and at the end."""

    def collect(_: Any) -> None:
        gc.collect()

    collects = _doubled(collect)
    before, x = _COLLECTIONS, torch.ones(3, requires_grad=True)
    gc.callbacks.insert(len(gc.callbacks) if is_last else 0, _count_collections)
    try:
        dyn_torch.jit(lambda x: collects(x).sin(), strict=True)(x).sum().backward()
    finally:
        gc.callbacks.remove(_count_collections)
    assert before < _COLLECTIONS
    same(x.grad, 2 * torch.cos(2 * torch.ones(3)))


def test_a_profiler_goes_on() -> None:
    """Of the standard library or of a function: events of the traced pass are not its, those after it are."""

    def later() -> None:
        pass

    def f(x: Any) -> Any:
        return torch.autograd.grad((x * x).sin().sum(), x)[0]

    x = torch.ones(3, requires_grad=True)
    with cProfile.Profile() as profile:
        dyn_torch.jit(f, strict=True)(x)
        later()
    assert any(name == "later" for _, _, name in pstats.Stats(profile).stats)  # pyright: ignore[reportAttributeAccessIssue]

    names: list[str] = []
    sys.setprofile(lambda frame, event, _: names.append(frame.f_code.co_name))
    try:
        dyn_torch.jit(f, strict=True)(x)
        later()
    finally:
        sys.setprofile(None)
    assert "later" in names


def _seen(log: list[Any]) -> list[Any]:
    return [one() if callable(one) else one for one in log]


@pytest.mark.parametrize("compile", [dyn_torch.jit, _by_dynamo])
@pytest.mark.parametrize("kind", ["function", "hook", "inside"])
@pytest.mark.parametrize(("make", "reason"), EFFECTS, ids=lambda one: getattr(one, "__name__", ""))
def test_what_python_does_in_a_pass(make: Any, reason: str, kind: str, compile: Any, capsys: Any) -> None:
    def start() -> Any:
        log: list[Any] = []
        effect = make(log)

        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, *cotangents: Any) -> Any:
                effect()
                return cotangents[0] * 2

        def hooked(x: Any) -> Any:
            y = x * 2
            y.register_hook(lambda cotangent: effect() and None)
            return y.sin()

        def whole(x: Any) -> Any:
            return torch.autograd.grad(Doubled.apply(x).sin().sum(), x)[0]

        return {"function": lambda x: Doubled.apply(x).sin(), "hook": hooked, "inside": whole}[kind], log

    found: list[Any] = []
    (plain, its), (f, own) = start(), start()
    if compile is dyn_torch.jit:
        with pytest.raises(NotYetError, match=f"a backward pass that {reason}, which Python does, and no program"):
            dyn_torch.jit(f, strict=True)(torch.ones(2, requires_grad=True))
        assert _seen(own) == _seen(start()[1])  # undone
        capsys.readouterr()
    compiled = compile(f)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for run, log in ((plain, its), (compiled, own)):
            left: list[Any] = []
            for n in (3, 1, 3):
                x = torch.ones(n, requires_grad=True)
                made = run(x)
                left.append(_seen(log))
                if kind != "inside":
                    made.sum().backward()
                left += [_seen(log), x.grad]
            found += [left, capsys.readouterr().out]
    same(found[0], found[2], 1e-4)
    if compile is dyn_torch.jit:
        assert found[1] == found[3]
        assert [reason in str(one.message) for one in said] == [True]
        assert reason in str(compiled.explain())


class Kept:
    """State that the passes below change, of each kind that Python has."""

    count = 0
    __slots__ = ("number",)


def of_a_class(state: Any) -> Any:
    Kept.count += 1


def of_a_slot(state: Any) -> Any:
    SLOTS.number += 1


def of_numpy(state: Any) -> Any:
    NUMBERS[0] += 1


def of_an_array(state: Any) -> Any:
    ARRAY[0] += 1


def behind_a_weak_reference(state: Any) -> Any:
    owner: Any = WEAK()
    owner.count += 1


def of_a_text(state: Any) -> Any:
    TEXT.write("x")


def printed_to_a_text(state: Any) -> Any:
    print("x", file=TEXT)


def of_an_iterator(state: Any) -> Any:
    return next(COUNT)


def of_a_map(state: Any) -> Any:
    return next(MAPPED)


def of_a_zip(state: Any) -> Any:
    return next(ZIPPED)[0]


def of_a_generator(state: Any) -> Any:
    return next(GENERATOR)


def of_pythons_random_numbers(state: Any) -> Any:
    return random.randint(1, 100)


SLOTS, NUMBERS, ARRAY, OWNER, TEXT = Kept(), np.zeros(2), array("i", [0]), Counter(), io.StringIO()
WEAK = weakref.ref(OWNER)
MAPPED, ZIPPED = map(int, range(1, 100)), zip(range(1, 100), range(99), strict=False)
COUNT, GENERATOR = itertools.count(1), (one for one in range(1, 100))


def _started() -> None:
    global COUNT, GENERATOR, MAPPED, ZIPPED
    Kept.count, SLOTS.number, NUMBERS[0], ARRAY[0], OWNER.count = 0, 0, 0, 0, 0
    TEXT.seek(0)
    TEXT.truncate()
    COUNT, GENERATOR = itertools.count(1), (one for one in range(1, 100))
    MAPPED, ZIPPED = map(int, range(1, 100)), zip(range(1, 100), range(99), strict=False)
    random.seed(0)


def _state() -> Any:
    return Kept.count, SLOTS.number, NUMBERS[0], ARRAY[0], OWNER.count, TEXT.getvalue()


@pytest.mark.parametrize(
    "effect",
    [
        of_a_class,
        of_a_slot,
        of_numpy,
        of_an_array,
        behind_a_weak_reference,
        of_a_text,
        printed_to_a_text,
        of_an_iterator,
        of_a_map,
        of_a_zip,
        of_a_generator,
        of_pythons_random_numbers,
    ],
)
def test_what_a_pass_changes_is_changed_once_by_each(effect: Callable[[Any], Any]) -> None:
    doubled = _doubled(effect)
    found: list[Any] = []
    compiled = dyn_torch.jit(lambda x: doubled(x) * 1)
    for run in (lambda x: doubled(x) * 1, compiled):
        _started()
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", dyn_torch.FallbackWarning)
                run(x).sum().backward()
            found.append((x.grad.tolist(), _state()))
    assert found[:3] == found[3:]
    assert "backward pass" in str(compiled.explain())


def test_functions_that_reach_themselves() -> None:
    def factorial(k: int) -> int:
        return 1 if k < 2 else k * factorial(k - 1)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.shape = x.shape
            return x.sum()

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            return cotangents[0].expand(ctx.shape) * factorial(3)

    f = dyn_torch.jit(lambda x: Scaled.apply(x) * 1, strict=True)
    for rows in (3, 1, 5):
        x = torch.ones(rows, 4, requires_grad=True)
        f(x).backward()
        same(x.grad, torch.full((rows, 4), 6.0))
    assert f.cache_info().compiles == 1
