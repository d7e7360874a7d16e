"""Views of bits as another dtype: ``x.view(torch.int32)``, read and written, of widths up and down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402

#: From and to which dtypes: of one width, narrower, wider; complex numbers and truth values.
PAIRS = [
    ("float32", "int32"), ("float32", "uint8"), ("float32", "float64"), ("int16", "int64"), ("bfloat16", "int16"),
    ("complex64", "float32"), ("float32", "complex64"), ("complex64", "int64"), ("complex64", "complex128"),
    ("complex128", "int16"), ("bool", "uint8"), ("uint8", "bool"), ("float8_e4m3fn", "uint8"), ("int64", "bool"),
]  # fmt: skip


def numbers(dtype: str, shape: tuple[int, ...]) -> Any:
    """Numbers of a dtype, whose bytes are 0 or 1 where they may be read as truth values."""
    kind = getattr(torch, dtype)
    if kind in (torch.uint8, torch.int64, torch.bool):
        return (torch.arange(torch.Size(shape).numel()).reshape(shape) % 2).to(kind)
    made = torch.randn(shape, dtype=torch.complex128 if kind.is_complex else torch.float64)
    return (made if kind.is_complex or kind.is_floating_point else 100 * made).to(kind)


@pytest.mark.parametrize(("own", "other"), PAIRS)
def test_the_bits_are_those_of_pytorch_at_every_size(own: str, other: str) -> None:
    function: Callable[[Any], Any] = lambda x: x.view(getattr(torch, other))  # noqa: E731
    compiled = dyn_torch.jit(lambda x: function(x.clone()), strict=True)
    for shape in [(3, 8), (1, 8), (0, 8), (2, 16)]:
        x = numbers(own, shape)
        wanted, found = function(x), compiled(x)
        same(wanted.view(torch.uint8), found.view(torch.uint8))
        assert (wanted.dtype, wanted.stride()) == (found.dtype, found.stride())
    assert compiled.cache_info().compiles == 1


@pytest.mark.parametrize("way", ["jit", "compile"])
def test_a_write_to_the_bits_is_one_to_the_numbers_and_the_other_way_round(way: str) -> None:
    def function(x: Any) -> Any:
        y = x + 0
        bits = y.view(torch.int32)
        bits &= 0x7FFFFFFF
        halves = y.view(torch.int16)
        y[0] = 1.5
        return y, bits, halves

    compiled: Any = dyn_torch.jit(function) if way == "jit" else torch.compile(function, backend="dyn", dynamic=True)
    for shape in [(3, 4), (2, 2), (1, 6)]:
        x = torch.randn(shape)
        same(function(x), compiled(x))
    nothing_fell_back(compiled)


def test_bits_of_an_argument_are_written_and_shared_with_the_caller() -> None:
    def function(x: Any) -> Any:
        x.view(torch.int16)[..., 0] = 0
        return x.view(torch.int32)

    compiled = dyn_torch.jit(function, strict=True)
    x = torch.randn(3, 4)
    other = x.clone()
    found = compiled(x)
    same(function(other), found)
    same(other, x)
    found.zero_()
    assert not x.any()


def test_tensors_in_other_orders_and_of_no_axes() -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda x: x.t().view(torch.int32), lambda x: x[:, ::2].view(torch.int32), lambda x: x[::2].view(torch.int16),
        lambda x: x.sum().view(torch.int32),
    ]  # fmt: skip
    for function in functions:
        x = torch.randn(4, 6)
        same(function(x), dyn_torch.jit(function, strict=True)(x))


def test_elements_that_do_not_go_into_one_are_refused_as_pytorch_does() -> None:
    compiled = dyn_torch.jit(lambda x: x.clone().view(torch.float64), strict=True)
    same(torch.ones(2, 4).view(torch.float64), compiled(torch.ones(2, 4)))
    with pytest.raises(RuntimeError):
        compiled(torch.ones(2, 3))
