"""Results lie in memory as PyTorch's do: by the rule of its iterator over elements, operand by operand."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402

#: Of one to three operands that are broadcast together.
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "neg": (1, torch.neg),
    "add": (2, torch.add),
    "sub": (2, lambda a, b: torch.sub(a, b, alpha=2)),
    "maximum": (2, torch.maximum),
    "lt": (2, torch.lt),
    "where": (3, lambda a, b, c: torch.where(a > 0, b, c)),
    "addcmul": (3, torch.addcmul),
    "addcdiv": (3, lambda a, b, c: torch.addcdiv(a, b, c.abs() + 1)),
    "lerp": (3, torch.lerp),
    "clamp": (3, torch.clamp),
    "masked_fill": (2, lambda a, b: a.masked_fill(b > 0, 2.0)),
    "mixed": (2, lambda a, b: a.double() + b),
    "chain": (3, lambda a, b, c: (a + b) * c - a),
    "views": (2, lambda a, b: ((a + b).transpose(0, -1), (a * b)[None], (a - b).reshape(-1))),
    "clone": (1, torch.clone),
    "zeros_like": (1, torch.zeros_like),
}


def operand(rng: random.Random, shape: tuple[int, ...]) -> Any:
    """A tensor of a shape that may be broadcast to it, in some order of axes, with gaps or repeated elements."""
    axes = list(range(len(shape)))
    kind = rng.choice(("rows", "permuted", "permuted", "gaps", "repeated", "ones", "short"))
    if kind == "short" and len(shape) > 1:
        return operand(rng, shape[1:])
    if kind == "ones":
        shape = tuple([1 if rng.random() < 0.5 else size for size in shape])
    order = rng.sample(axes, len(axes)) if kind != "rows" else axes
    back = sorted(axes, key=order.__getitem__)
    made = torch.randn([shape[axis] for axis in order]).permute(back)
    if kind == "gaps":
        return torch.randn([2 * shape[axis] for axis in order]).permute(back)[tuple([slice(None, None, 2)] * len(axes))]
    if kind == "repeated" and made.numel():
        return made[:1].expand(shape)
    return made


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_lie_as_pytorchs_do(name: str) -> None:
    count, function = FUNCTIONS[name]
    rng = random.Random(name)
    torch.manual_seed(0)
    compiled = dyn_torch.jit(function, strict=True)
    for _ in range(5):
        shape = tuple([rng.choice((0, 1, 2, 3, 4, 5)) for _ in range(rng.choice((1, 2, 3, 4)))])
        given = [operand(rng, shape) for _ in range(count)]
        same(function(*given), compiled(*given))


def test_the_first_operand_says_which_axis_is_the_outer_one() -> None:
    compiled = dyn_torch.jit(lambda x, b: x.t() + b, strict=True)
    made = compiled(torch.randn(6, 4), torch.randn(4, 6))
    assert made.stride() == (1, 4)
    assert not made.is_contiguous()
    assert compiled(torch.randn(3, 5), torch.randn(5, 3)).stride() == (1, 5)
    assert compiled.cache_info().compiles == 1
    turned = dyn_torch.jit(lambda x, b: b + x.t(), strict=True)
    assert turned(torch.randn(6, 4), torch.randn(4, 6)).stride() == (6, 1)


def test_an_operand_that_is_repeated_along_an_axis_does_not_say() -> None:
    function = lambda x, b: x.t() + b  # noqa: E731
    compiled = dyn_torch.jit(function, strict=True)
    for x, b in (((6, 4), (4, 6)), ((1, 4), (4, 6)), ((6, 1), (4, 6)), ((6, 4), (1, 6)), ((5, 3), (3, 5))):
        given = torch.randn(x), torch.randn(b)
        same(function(*given), compiled(*given))
    # Where every way to broadcast gives one order, nothing is asked.
    rows = dyn_torch.jit(lambda x, b: x + b, strict=True)
    for x, b in (((4, 6), (4, 6)), ((1, 6), (4, 6)), ((4, 6), (4, 1))):
        assert rows(torch.randn(x), torch.randn(b)).stride() == (6, 1)
    assert rows.cache_info().compiles == 1


def test_strides_by_torch_compile() -> None:
    def function(a: Any, b: Any) -> Any:
        return a.t() + b, torch.where(b > 0, a.t(), b), torch.lerp(a.t(), b, 0.25), (a.t() * b).contiguous()

    with warnings.catch_warnings():
        warnings.simplefilter("error", dyn_torch.FallbackWarning)
        compiled = torch.compile(function, backend="dyn", dynamic=True)
        for shape in ((6, 4), (3, 5), (2, 7)):
            given = torch.randn(shape), torch.randn(shape[::-1])
            same(function(*given), compiled(*given))


def test_conjugated_and_negated_views_are_views() -> None:
    """Of one memory: what is written to either is in both."""

    def both(z: Any) -> Any:
        conjugate = z.conj()
        z.mul_(2)
        conjugate.add_(1j)
        return conjugate + 0, z + 0

    def parts(x: Any) -> Any:
        z = torch.complex(x, x + 1)
        negated = z.conj().imag
        negated.mul_(2)
        return negated + 0, z

    for n in (3, 1, 0, 4):
        x = torch.arange(float(n))
        given = [torch.complex(x, x + 1) for _ in range(2)]
        same(both(given[0]), dyn_torch.jit(both)(given[1]))
        same(given[0], given[1])
        same(parts(x), dyn_torch.jit(parts)(x))
        compiled = dyn_torch.jit(lambda z: z.conj())
        assert compiled(given[1]).is_conj()
        nothing_fell_back(compiled)
