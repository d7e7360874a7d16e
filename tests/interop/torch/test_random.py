"""Random numbers of PyTorch's functions through ``dyn.interop.torch.jit``: seeds, distributions, dropout."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn

torch: Any = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402

COUNT = 20_000
#: Of two samples of COUNT numbers of one distribution, the distance of Kolmogorov and Smirnov is below this in all but
#: one of 10**6 pairs.
MOST = 2.7 * (2 / COUNT) ** 0.5

FLOATS: dict[str, Callable[[Any], Any]] = {
    "rand": lambda x: torch.rand(x.shape[0]),
    "rand in bfloat16": lambda x: torch.rand(x.shape[0], dtype=torch.bfloat16),
    "rand in float16": lambda x: torch.rand(x.shape[0], dtype=torch.float16),
    "rand in float64": lambda x: torch.rand(x.shape[0], dtype=torch.float64),
    "rand_like": torch.rand_like,
    "randn": lambda x: torch.randn(x.shape[0]),
    "randn in float64": lambda x: torch.randn(x.shape[0], dtype=torch.float64),
    "randn in bfloat16": lambda x: torch.randn(x.shape[0], dtype=torch.bfloat16),
    "randn_like": lambda x: torch.randn_like(x, dtype=torch.float64),
    "randint": lambda x: torch.randint(7, x.shape),
    "randint from": lambda x: torch.randint(-3, 7, x.shape, dtype=torch.int32),
    "randint in float32": lambda x: torch.randint(2, 5, x.shape, dtype=torch.float32),
    "randint_like": lambda x: torch.randint_like(x, 9),
    "randint_like from": lambda x: torch.randint_like(x, -2, 9, dtype=torch.int8),
    "randint wide": lambda x: torch.randint(-(2**62), 2**62, x.shape),
    "uniform_": lambda x: x.clone().uniform_(-2, 3),
    "normal_": lambda x: x.clone().normal_(2, 0.5),
    "normal_ in bfloat16": lambda x: x.to(torch.bfloat16).normal_(0.5, 2),
    "normal": lambda x: torch.normal(torch.ones_like(x), 2.0),
    "normal of stds": lambda x: torch.normal(1.0, torch.full_like(x, 0.5)),
    "normal of tensors": lambda x: torch.normal(torch.ones_like(x), torch.full_like(x, 0.5)),
    "normal of numbers": lambda x: torch.normal(1.0, 2.0, x.shape),
    "bernoulli": lambda x: torch.bernoulli(torch.full_like(x, 0.3)),
    "bernoulli_": lambda x: x.clone().bernoulli_(0.8),
    "bernoulli_ of a tensor": lambda x: x.to(torch.int64).bernoulli_(torch.full_like(x, 0.25)),
    "bernoulli of a number": lambda x: torch.bernoulli(x, 0.1),
    "exponential_": lambda x: x.clone().exponential_(2.5),
    "exponential_ in float64": lambda x: x.double().exponential_(),
    "geometric_": lambda x: x.clone().geometric_(0.3),
    "cauchy_": lambda x: x.clone().cauchy_(1, 2),
    "log_normal_": lambda x: x.clone().log_normal_(0.5, 0.25),
    "random_": lambda x: x.clone().random_(),
    "random_ of int64": lambda x: x.to(torch.int64).random_(),
    "random_ to": lambda x: x.to(torch.int64).random_(11),
    "random_ from": lambda x: x.to(torch.int16).random_(-4, 11),
    "random_ of bool": lambda x: x.bool().random_(),
    "poisson": lambda x: torch.poisson(torch.full_like(x, 4.5)),
    "gamma": lambda x: torch._standard_gamma(torch.full_like(x, 2.5)),
    "binomial": lambda x: torch.binomial(torch.full_like(x, 12.0), torch.full_like(x, 0.4)),
    "dropout": lambda x: F.dropout(x + 1, 0.3),
    "dropout of all": lambda x: F.dropout(x + 1, 1.0),
    "dropout in bfloat16": lambda x: F.dropout((x + 1).to(torch.bfloat16), 0.4),
    "alpha dropout": lambda x: F.alpha_dropout(x + 1, 0.4, training=True),
    "rrelu": lambda x: F.rrelu(x - 1, training=True),
    "rrelu in evaluation": lambda x: F.rrelu(x - 1),
    "dropout in place": lambda x: F.dropout(x + 1, 0.3, inplace=True),
    "feature alpha dropout": lambda x: F.feature_alpha_dropout((x + 1)[:, None, None], 0.4, True),
    "feature dropout": lambda x: F.dropout1d((x + 1)[:, None, None], 0.4, True),
    "multinomial": lambda x: torch.multinomial(torch.tensor([0.1, 0.0, 2.0, 0.4]), x.shape[0], True),
}  # fmt: skip

CONSTANT = {"dropout of all", "rrelu in evaluation"}


def distance(a: Any, b: Any) -> float:
    """The greatest difference between the distribution functions of two samples."""
    a, b = (np.sort(x.detach().double().numpy().ravel()) for x in (a, b))
    places = np.concatenate([a, b])
    below = [np.searchsorted(x, places, side="right") / max(len(x), 1) for x in (a, b)]
    return float(np.abs(below[0] - below[1]).max(initial=0))


@pytest.mark.parametrize("name", FLOATS)
def test_numbers_have_pytorchs_distribution(name: str) -> None:
    function = FLOATS[name]
    compiled = dyn_torch.jit(function)
    torch.manual_seed(0)
    for count in (COUNT, 0, 1, 3) if name != "multinomial" else (COUNT, 1, 3):
        x = torch.zeros(count)
        wanted, found = function(x), compiled(x)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if count == COUNT:
            assert distance(wanted, found) < MOST
    again = compiled(torch.zeros(COUNT))
    first = compiled(torch.zeros(COUNT))
    assert torch.equal(again, first) == (name in CONSTANT)
    # neighbours have nothing to do with each other
    if first.dtype is not torch.bool and name not in ("cauchy_", *CONSTANT):
        a = first.double().numpy().ravel()
        assert abs(np.corrcoef(a[:-1], a[1:])[0, 1]) < 0.04
    assert compiled.cache_info().compiles == 1


def test_a_seed_repeats_what_follows() -> None:
    def f(x: Any) -> Any:
        return torch.rand_like(x), torch.randn(x.shape[0], 2), F.dropout(x, 0.5)

    compiled = dyn_torch.jit(f)
    x = torch.ones(50, 4)
    compiled(x)
    torch.manual_seed(3)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(3)
    for wanted in (first, second):
        for a, b in zip(wanted, compiled(x), strict=True):
            assert torch.equal(a, b)
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    with torch.random.fork_rng():
        compiled(x)
    torch.manual_seed(3)
    again = dyn_torch.jit(f)  # traced by a call that counts
    for a, b in zip(first, again(x), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(second, again(x), strict=True):
        assert torch.equal(a, b)
    assert compiled.cache_info().compiles == again.cache_info().compiles == 1


def test_operations_draw_apart_from_each_other() -> None:
    a, b, c = dyn_torch.jit(lambda x: (torch.rand_like(x), torch.rand_like(x), torch.rand(x.shape)))(torch.ones(1000))
    for one, other in ((a, b), (b, c), (a, c)):
        assert abs(np.corrcoef(one.numpy(), other.numpy())[0, 1]) < 0.15


def test_what_draws_nothing_leaves_pytorchs_generator_alone() -> None:
    compiled = dyn_torch.jit(lambda x, p=0.0: F.dropout(x, p) * 2)
    before = torch.get_rng_state()
    compiled(torch.ones(3))
    compiled(torch.ones(4))
    assert torch.equal(before, torch.get_rng_state())
    compiled(torch.ones(4), 0.5)
    assert not torch.equal(before, torch.get_rng_state())


def test_a_module_in_training_and_not() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Dropout1d(0.5))
    compiled = dyn_torch.jit(module)
    x = torch.randn(20, 8)
    with torch.no_grad():
        module.train()
        assert not torch.equal(compiled(x), compiled(x))
        module.eval()
        torch.testing.assert_close(compiled(x), module(x))
        state = torch.get_rng_state()
        compiled(x)
        assert torch.equal(state, torch.get_rng_state())
        module.train()
        assert not torch.equal(compiled(x), compiled(x))


def test_dropout_keeps_the_mean_and_drops_as_often_as_it_says() -> None:
    compiled = dyn_torch.jit(lambda x: F.dropout(x, 0.25))
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.ones(300, 200, dtype=dtype)
        made = compiled(x)
        assert made.dtype is dtype
        assert set(made.unique().tolist()) == {0.0, (torch.ones((), dtype=dtype) / 0.75).item()}
        assert abs((made == 0).double().mean().item() - 0.25) < 0.01
    with pytest.raises((RuntimeError, ValueError)):
        dyn_torch.jit(lambda x: F.dropout(x, 1.5))(torch.ones(3))
    assert compiled(torch.ones(0, 3)).shape == (0, 3)


def test_dropout_that_drops_nothing_is_its_argument() -> None:
    def f(x: Any, train: bool, p: float) -> Any:
        F.dropout(x, p, train).add_(1)
        F.alpha_dropout(x, p, train).mul_(2)

    compiled = dyn_torch.jit(f)
    for train, p in ((False, 0.5), (True, 0.0)):
        x, ours = torch.ones(3), torch.ones(3)
        f(x, train, p)
        compiled(ours, train, p)
        assert torch.equal(x, ours)


def test_other_traces_of_pytorch_have_dropout_as_before() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: F.dropout(x, 0.5), tracing_mode="symbolic")(torch.ones(3))
    assert "native_dropout" in graph.code
    graph = make_fx(lambda x: F.alpha_dropout(x, 0.5, True), tracing_mode="symbolic")(torch.ones(3))
    assert "bernoulli" in graph.code


def test_dropout_of_attention() -> None:
    def f(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    compiled = dyn_torch.jit(f)
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 5, 4), torch.randn(1, 1, 5, 4)
    mean = sum(compiled(q, k, v) for _ in range(2000)) / 2000
    torch.testing.assert_close(mean, F.scaled_dot_product_attention(q, k, v), rtol=0.1, atol=0.1)
    for n in (1, 3):
        assert compiled(torch.randn(2, 2, n, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 2, 7, 4)).shape == (2, 2, n, 4)


def test_the_derivative_of_native_dropout() -> None:
    cotangent, mask = torch.randn(3, 4), torch.rand(3, 4) < 0.5
    compiled = dyn_torch.jit(torch.ops.aten.native_dropout_backward.default)
    torch.testing.assert_close(compiled(cotangent, mask, 2.0), cotangent * mask * 2.0)


def test_training_by_torch_compile_drops() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    compiled = torch.compile(lambda x: F.dropout(x, 0.5) * 2, backend="dyn", dynamic=True)
    for n in (300, 400):
        x = torch.ones(n, 10, requires_grad=True)
        made = compiled(x)
        made.sum().backward()
        torch.testing.assert_close(x.grad, made.detach())  # of one mask
        assert abs((made == 0).double().mean().item() - 0.5) < 0.05


def test_permutations() -> None:
    compiled = dyn_torch.jit(lambda x: (torch.randperm(x.shape[0]), torch.randperm(x.shape[0], dtype=torch.int32)))
    for n in (5, 0, 1, 100):
        for made in compiled(torch.ones(n)):
            assert sorted(made.tolist()) == list(range(n))
    torch.manual_seed(0)
    firsts = np.bincount([compiled(torch.ones(4))[0][0].item() for _ in range(2000)], minlength=4)
    assert (np.abs(firsts - 500) < 100).all()


def test_multinomial_without_replacement() -> None:
    compiled = dyn_torch.jit(lambda w, x: torch.multinomial(w, x.shape[0]))
    weights = torch.tensor([[1.0, 2.0, 0.0, 5.0], [0.0, 1.0, 1.0, 1.0]])
    torch.manual_seed(0)
    for count in (1, 2, 3):
        made = compiled(weights, torch.ones(count))
        assert (made.dtype, made.shape) == (torch.int64, (2, count))
        assert all(len(set(row)) == count for row in made.tolist())
        assert (weights.gather(1, made) > 0).all()
    with pytest.raises(dyn.errors.ShapeError, match="as many categories as are drawn"):
        compiled(weights, torch.ones(5))
    many = torch.cat([compiled(weights[:1], torch.ones(1)) for _ in range(4000)]).ravel()
    theirs = torch.cat([torch.multinomial(weights[:1], 1) for _ in range(4000)]).ravel()
    counts = [torch.bincount(x, minlength=4) for x in (many, theirs)]
    assert (abs(counts[0] - counts[1]) < 200).all()


def test_bounds_of_integers() -> None:
    compiled = dyn_torch.jit(lambda x: torch.randint(x.shape[0], (100,)))
    assert compiled(torch.ones(3)).max() == 2
    assert compiled(torch.ones(1)).max() == 0
    with pytest.raises(dyn.errors.ShapeError, match="from at least one"):
        compiled(torch.ones(0))


def drawing(generator: Any) -> list[Callable[[Any], Any]]:
    """Functions that draw from a generator that they close over."""
    return [
        lambda x: x + torch.rand(x.shape, generator=generator),
        lambda x: x.clone().normal_(generator=generator),
        lambda x: x.clone().uniform_(generator=generator).bernoulli_(0.5, generator=generator),
        lambda x: torch.randint(5, x.shape, generator=generator),
        lambda x: torch.bernoulli(x / 2, generator=generator) + torch.rand(x.shape),
        lambda x: torch.randperm(x.shape[0], generator=generator),
        lambda x: torch.multinomial(x, 2, generator=generator),
    ]


def test_generators_that_a_function_closes_over() -> None:
    generator, other = torch.Generator(), torch.Generator()
    for function in drawing(generator):
        compiled = dyn_torch.jit(function, strict=True)
        state = other.get_state()
        made: list[list[Any]] = []
        for _ in range(2):
            torch.manual_seed(0)
            generator.manual_seed(5)
            made.append([compiled(torch.ones(n, 40)) for n in (30, 30, 31)])
        for a, b in zip(*made, strict=True):
            assert torch.equal(a, b)
        assert not torch.equal(made[0][0], made[0][1])
        assert compiled.cache_info().compiles == 1
        assert torch.equal(state, other.get_state())


def test_generators_are_arguments() -> None:
    """A program is for all of them; the same one passed twice is one."""

    def f(x: Any, a: Any, *, b: Any) -> Any:
        return torch.rand(x.shape, generator=a), torch.rand(x.shape, generator=b), torch.rand(x.shape, generator=a)

    compiled = dyn_torch.jit(f, strict=True)
    x = torch.ones(50)
    one, other, again = (
        compiled(x, torch.Generator().manual_seed(a), b=torch.Generator().manual_seed(b))
        for a, b in ((1, 2), (3, 2), (1, 4))
    )
    assert [torch.equal(a, b) for a, b in zip(one, other, strict=True)] == [False, True, False]
    assert [torch.equal(a, b) for a, b in zip(one, again, strict=True)] == [True, False, True]
    assert not torch.equal(one[0], one[2])
    assert compiled.cache_info().compiles == 1
    same = torch.Generator().manual_seed(1)
    first = compiled(x, same, b=same)
    assert not any(torch.equal(first[a], first[b]) for a, b in ((0, 1), (1, 2), (0, 2)))
    second = compiled(x, same, b=same)
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert compiled.cache_info().compiles == 2


def test_a_generator_whose_state_is_set_back() -> None:
    def f(x: Any, generator: Any) -> Any:
        state = generator.get_state()
        first = torch.rand(x.shape, generator=generator), torch.rand(x.shape, generator=generator)
        generator.set_state(state)
        return first, torch.rand(x.shape, generator=generator)

    compiled = dyn_torch.jit(f, strict=True)
    (first, second), again = compiled(torch.ones(9), torch.Generator())
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def _seeded(x: Any, generator: Any) -> Any:
    generator.manual_seed(3)
    return torch.rand(x.shape, generator=generator)


def _seeded_later(x: Any, generator: Any) -> Any:
    y = torch.rand(x.shape, generator=generator)
    generator.manual_seed(3)
    return y


def _made(x: Any, generator: Any) -> Any:
    return torch.rand(x.shape, generator=torch.Generator().manual_seed(3))


def _all_seeded(x: Any, generator: Any) -> Any:
    torch.manual_seed(3)
    return torch.rand(x.shape)


@pytest.mark.parametrize("f", [_seeded, _seeded_later, _made, _all_seeded])
def test_functions_that_seed_generators_are_pytorchs(f: Any) -> None:
    x, generator = torch.ones(5), torch.Generator()
    with pytest.raises(dyn.errors.NotYetError, match="a random generator that the function itself makes, seeds or set"):
        dyn_torch.jit(f, strict=True)(x, generator)
    compiled = dyn_torch.jit(f)
    for number in range(3):
        torch.manual_seed(number)
        generator.manual_seed(number)
        wanted = f(x, generator), torch.rand(3), torch.rand(3, generator=generator)
        torch.manual_seed(number)
        generator.manual_seed(number)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = compiled(x, generator), torch.rand(3), torch.rand(3, generator=generator)
        assert len(caught) == (number == 0)
        for a, b in zip(wanted, found, strict=True):
            assert torch.equal(a, b)


def test_a_seed_that_holds_for_a_part() -> None:
    def f(x: Any) -> Any:
        first = torch.rand(x.shape)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            same = torch.rand(x.shape), torch.rand(x.shape)
        with torch.random.fork_rng():
            torch.manual_seed(4)
            other = torch.rand(x.shape)
        return first, torch.rand(x.shape), *same, other

    compiled = dyn_torch.jit(f, strict=True)
    one, two = compiled(torch.ones(9)), compiled(torch.ones(9))
    assert [torch.equal(a, b) for a, b in zip(one, two, strict=True)] == [False, False, True, True, True]
    assert len({tuple(made.tolist()) for made in one}) == 5
    torch.manual_seed(0)
    state = torch.get_rng_state()
    dyn_torch.jit(lambda x: f(x)[2:], strict=True)(torch.ones(9))
    torch.manual_seed(0)
    assert torch.equal(state, torch.get_rng_state())


def test_threads_have_seeds_of_their_own() -> None:
    compiled = dyn_torch.jit(torch.rand_like)
    made: list[Any] = []

    def work() -> None:
        made.extend(compiled(torch.ones(10)) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(one.tolist()) for one in made}) == 160
    assert compiled.cache_info().compiles == 1


def test_an_except_clause_of_the_users_does_not_lose_the_seed() -> None:
    def f(x: Any) -> Any:
        try:
            return torch.rand_like(x)
        except BaseException:
            return x

    compiled = dyn_torch.jit(f)
    assert not torch.equal(compiled(torch.ones(9)), compiled(torch.ones(9)))
