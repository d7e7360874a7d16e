"""Questions of sizes that have a default, and floats that are made of sizes."""

from __future__ import annotations

import functools
import math
import random
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.errors import DomainError  # noqa: E402
from dyn.interop.sizes.ratios import Ratio  # noqa: E402
from dyn.interop.torch.float_sizes import _small_ratio  # noqa: E402  # pyright: ignore[reportPrivateUsage]

F = torch.nn.functional
Shape = tuple[int, ...]


def check(function: Callable[..., Any], calls: Iterable[tuple[Shape, ...]]) -> int:
    """Compare calls on tensors of such shapes; how many programs there are for them."""
    compiled = dyn_torch.jit(function, strict=True)
    for shapes in calls:
        arguments = [torch.randn(shape) for shape in shapes]
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
    return compiled.cache_info().compiles


# ---- defaults --------------------------------------------------------------------------------------------------------


def test_a_broadcast_that_the_default_refuses_is_one_more_program() -> None:
    # The default takes no size for 1. One program is for equal sizes, one for each tensor that is repeated.
    calls = [((3, 4), (3, 4)), ((1, 4), (3, 4)), ((3, 4), (3, 1)), ((1, 5), (7, 5)), ((2, 6), (2, 1)), ((0, 4), (0, 4))]
    assert check(lambda a, b: torch.broadcast_tensors(a, b)[0] + 1, calls) == 3


def test_batches_of_one_are_repeated() -> None:
    calls = [((3, 2, 4), (3, 4, 5)), ((1, 2, 4), (3, 4, 5)), ((6, 2, 4), (1, 4, 5)), ((2, 1, 4), (1, 4, 1))]
    assert check(torch.matmul, calls) <= 3
    assert check(torch.cosine_similarity, [((3, 4), (3, 4)), ((1, 4), (3, 4)), ((5, 1, 4), (1, 3, 4))]) <= 4


def test_what_the_default_refuses_is_not_refused_where_the_function_catches_it() -> None:
    def caught(a: Any, b: Any) -> Any:
        try:
            return torch.broadcast_tensors(a, b)[0] * 1
        except RuntimeError:
            return a * 2

    assert check(caught, [((3, 4), (3, 4)), ((1, 4), (3, 4)), ((3, 4), (2, 4)), ((5, 4), (5, 1))]) == 4


def test_what_pytorch_refuses_is_its_error() -> None:
    compiled = dyn_torch.jit(lambda a, b: torch.broadcast_tensors(a, b)[0] + 1, strict=True)
    with pytest.raises(RuntimeError, match="broadcast"):
        compiled(torch.randn(3, 1), torch.randn(2, 4))


# ---- floats ----------------------------------------------------------------------------------------------------------

FACTORS = (0.7, 1.7, 0.1, 1 / 3, 1 / 49, 0.3, 0.55, 1.1, 2 / 3, 0.999, 0.07, 100.1, 0.123456789)


@pytest.mark.parametrize("rounds_up", [False, True])
def test_ratios_have_the_floors_of_the_floats_that_they_stand_for(rounds_up: bool) -> None:
    draw, rounded = random.Random(0), math.ceil if rounds_up else math.floor
    found = {factor: _small_ratio(factor, rounds_up) for factor in FACTORS}
    assert found[0.7] == (Ratio(7, 10) if rounds_up else None)  # 170 * 0.7 < 119
    assert found[1.7] == Ratio(17, 10)
    assert found[0.123456789] is None
    for factor, ratio in found.items():
        if ratio is None:
            continue
        p, q = ratio.dividend, ratio.divisor
        assert isinstance(p, int)
        assert isinstance(q, int)
        most = (1 << 51) // p
        sizes = [*range(1000), *[draw.randrange(most) for _ in range(300)]]
        sizes += [q * draw.randrange(most // q) for _ in range(300)] + [q << k for k in range(25)]
        for n in sizes:
            assert rounded(n * factor) == (-(-n * p // q) if rounds_up else n * p // q), (factor, n)


def test_a_size_by_a_float_is_a_size_of_one_program() -> None:
    def scaled(x: Any, factor: float) -> tuple[Any, ...]:
        n = x.shape[0]
        sizes = [torch.sym_int(n * factor), torch.sym_int(n / 7 * factor), torch.sym_int((n - 5) * factor)]
        return *sizes, x.new_zeros(sizes[0]), x[: sizes[0]] + 1

    for factor in (0.7, 1.7):
        compiled = dyn_torch.jit(scaled, strict=True)
        for n in (10, 0, 1, 2, 3, 49, 170, 1000):
            x = torch.zeros(n)
            made, wanted = compiled(x, factor), scaled(x, factor)
            assert made[:3] == wanted[:3]
            assert [a.shape for a in made[3:]] == [a.shape for a in wanted[3:]]
        assert compiled.cache_info().compiles == 1


def test_integers_of_floats_of_sizes_are_guards() -> None:
    def integers(x: Any) -> Any:
        n = x.shape[0]
        return int(n * 0.7), math.ceil(n * 2.3), int(n / 49 * 49), round(n * 0.5), int(n / 1.7), int(-n * 0.7)

    compiled = dyn_torch.jit(integers, strict=True)
    for n in (0, 1, 3, 5, 49, 170):
        assert compiled(torch.zeros(n)) == integers(torch.zeros(n))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_images_are_scaled_by_a_float_in_one_program(mode: str) -> None:
    for factor in (0.7, 1.7):
        shapes = [((1, 3, 10, 30),), ((2, 1, 17, 2),)]
        assert check(lambda x, factor=factor: F.interpolate(x, scale_factor=factor, mode=mode), shapes) == 1


# ---- tensors of sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.tensor(x.shape[0]),
        lambda x: torch.tensor([[x.shape[0], 2], [x.shape[0] * 2, 3]]),
        lambda x: torch.tensor((x.shape[0] / 2, 2, True)),
        lambda x: torch.tensor([x.shape[0], 1], dtype=torch.bfloat16, device="cpu"),
        lambda x: torch.as_tensor(x.shape[0], dtype=torch.float32),
        lambda x: torch.as_tensor(x.shape),
        lambda x: torch.asarray(obj=[x.shape[0]], dtype=torch.int32),
        lambda x: x.new_tensor([x.shape[0], 1.5]),
        lambda x: x.new_tensor(data=x.shape[0], dtype=torch.int64),
    ],
)
def test_tensors_of_sizes_are_no_guards(make: Callable[[Any], Any]) -> None:
    compiled = dyn_torch.jit(make, strict=True)
    for n in (3, 5, 1, 0):
        made, wanted = compiled(torch.ones(n)), make(torch.ones(n))
        torch.testing.assert_close(made, wanted, rtol=0, atol=0)
    assert compiled.cache_info().compiles == 1


def test_a_tensor_of_a_size_may_ask_for_gradients() -> None:
    def f(x: Any) -> Any:
        count = torch.tensor(float(1) * x.shape[0], requires_grad=True)
        (count * x.sum()).backward()
        return count.grad

    compiled = dyn_torch.jit(f, strict=True)
    for n in (3, 1, 4):
        torch.testing.assert_close(compiled(torch.ones(n)), f(torch.ones(n)))


def test_lists_that_are_no_array_of_numbers_raise_as_in_pytorch() -> None:
    with pytest.raises(ValueError, match="expected sequence of length"):
        dyn_torch.jit(lambda x: torch.tensor([[x.shape[0]], [1, 2]]), strict=True)(torch.ones(3))


# ---- take_along_dim --------------------------------------------------------------------------------------------------


def taken(calls: Iterable[tuple[Shape, Shape]], *dim: int) -> int:
    compiled = dyn_torch.jit(lambda a, at: torch.take_along_dim(a, at, *dim), strict=True)
    for shape, places in calls:
        a, at = torch.randn(shape, requires_grad=True), torch.randint(0, 2, places)
        made, wanted = compiled(a, at), torch.take_along_dim(a, at, *dim)
        torch.testing.assert_close(made, wanted)
        (own,), (theirs,) = [torch.autograd.grad(one.sum(), a) for one in (made, wanted)]
        torch.testing.assert_close(own, theirs)
    return compiled.cache_info().compiles


def test_take_along_dim_is_one_program_for_all_batches() -> None:
    assert taken([((3, 4), (3, 1)), ((5, 4), (5, 2)), ((1, 6), (1, 1)), ((2, 2), (2, 7))], -1) == 1
    assert taken([((3, 4), (2, 1)), ((5, 4), (1, 1)), ((2, 1), (3, 1))]) == 1


def test_take_along_dim_repeats_places() -> None:
    taken([((3, 4), (2, 1)), ((5, 4), (1, 4)), ((2, 1), (3, 6)), ((2, 5), (0, 5))], 0)


def test_take_along_dim_of_axes_that_are_not_there() -> None:
    with pytest.raises(IndexError, match="no axis 2"):
        dyn_torch.jit(lambda a, at: torch.take_along_dim(a, at, 2), strict=True)(
            torch.ones(2, 2), torch.ones(2, 2).long()
        )
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        dyn_torch.jit(lambda a, at: torch.take_along_dim(a, at, 0), strict=True)(torch.ones(2, 2), torch.ones(2).long())


@pytest.mark.parametrize(
    "size",
    [
        lambda n: n & 6,
        lambda n: 12 & n,
        lambda n: n & -4,
        lambda n: (n | 5) + (n ^ 3),
        lambda n: divmod(n, 3)[0] * 10 + divmod(n, 3)[1],
        lambda n: sum(divmod(40, n + 1)),
    ],
)
def test_bits_and_quotients_of_sizes(size: Any) -> None:
    compiled = dyn_torch.jit(lambda x: x.new_ones(size(x.shape[0])), strict=True)
    for n in (1, 5, 9, 16, 31, 0):
        assert compiled(torch.ones(n)).shape == (size(n),)
    assert compiled.cache_info().compiles == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.new_ones(max(math.ceil(x.shape[0] / 4), 1)),
        lambda x: x.topk(max(1, int(x.shape[0] ** 0.5)), 0)[0],
        lambda x: torch.nn.functional.adaptive_avg_pool1d(x[None, None], math.ceil(x.shape[0] / 3)),
        lambda x: x.new_ones(round(x.shape[0] / 3) + math.trunc(x.shape[0] / 2.5) + (x.shape[0] & 6)),
        lambda x: x.new_ones(int(math.log2(x.shape[0])) + int(math.sqrt(x.shape[0]))),
    ],
)
def test_sizes_that_dynamo_computes(function: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="dyn", dynamic=True, options={"strict": True})
    for n in (5, 9, 16):
        x = torch.arange(float(n))
        torch.testing.assert_close(compiled(x), function(x))


def test_floats_of_sizes_at_their_ends() -> None:
    def endless(x: Any) -> Any:
        return x * (1 if x.shape[0] * math.inf == math.inf else 2)

    def of_nothing(x: Any, y: Any) -> Any:
        return x.sum() + 1.0 / (x.shape[0] ** (y.shape[0] / 3))

    def divided(x: Any) -> Any:
        try:
            scale = x.shape[0] / 0.0
        except ZeroDivisionError:
            scale = 5.0
        return x * scale

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dyn_torch.FallbackWarning)
        for n in (0, 1, 3):
            torch.testing.assert_close(dyn_torch.jit(endless)(torch.ones(n)), endless(torch.ones(n)))
    torch.testing.assert_close(dyn_torch.jit(of_nothing, strict=True)(torch.ones(0), torch.ones(0)), torch.tensor(1.0))
    torch.testing.assert_close(dyn_torch.jit(divided, strict=True)(torch.ones(2)), torch.full((2,), 5.0))


def test_sizes_as_keys_of_tables_that_outlive_the_trace() -> None:
    @functools.lru_cache(None)
    def half(n: int) -> int:
        return n // 2

    compiled = dyn_torch.jit(lambda x: x[: half(x.shape[0])] * 2, strict=True)
    for n in (8, 6, 8):
        for dtype in (torch.float32, torch.float64, torch.int32):
            assert compiled(torch.ones(n, dtype=dtype)).shape == (n // 2,)


def test_a_trace_that_is_made_again_though_the_function_excepts_anything() -> None:
    def moved(x: Any) -> Any:
        try:
            y = x.as_strided((2,), (1,), 1)
        except:  # noqa: E722  # as users write it
            y = torch.zeros(2)
        return y * 2

    torch.testing.assert_close(dyn_torch.jit(moved, strict=True)(torch.arange(4.0)), torch.tensor([2.0, 4.0]))


def test_texts_of_checks_are_no_patterns() -> None:
    def checked(x: Any) -> Any:
        torch._assert_async((x >= 0).all(), "x holds classes {0, 1}")
        return x * 2

    compiled = dyn_torch.jit(checked, strict=True)
    torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(DomainError, match=r"x holds classes \{0, 1\}\."):
        compiled(-torch.ones(3))
