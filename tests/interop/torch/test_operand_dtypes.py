"""Operands of dtypes that do not go together: eager PyTorch's errors, never NumPy's promotion."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import dyn.interop.torch as dyn_torch
from dyn.errors import NotYetError
from dyn.interop.torch import FallbackWarning, operand_dtypes
from tests.interop.torch.whole import nothing_fell_back

#: Rows of floats, and the same of doubles, halves and integers.
ROWS = torch.arange(6.0).reshape(2, 3)
DOUBLES, HALVES, INTEGERS = ROWS.double(), ROWS.half(), ROWS.int()
TRUTHS = ROWS > 2
WEIGHT = torch.ones(3, 4)
PLACES = torch.tensor([0, 1])


def _add_in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.clone().add_(y)


REFUSED: list[tuple[Callable[..., Any], Sequence[torch.Tensor]]] = [
    (torch.mm, (DOUBLES, WEIGHT)),
    (torch.matmul, (DOUBLES[0], WEIGHT)),
    (torch.bmm, (DOUBLES[None], WEIGHT[None])),
    (F.linear, (HALVES, WEIGHT.T)),
    (F.linear, (INTEGERS, WEIGHT.T)),
    (F.linear, (ROWS, WEIGHT.T, torch.ones(4).double())),
    (F.conv1d, (DOUBLES[None], torch.ones(2, 2, 2))),
    (lambda x, w: F.layer_norm(x, (3,), w), (DOUBLES, torch.ones(3))),
    (lambda x, w: F.group_norm(x, 1, w), (DOUBLES, torch.ones(3))),
    (lambda x, y: x.index_add(0, PLACES, y), (ROWS, DOUBLES)),
    (lambda x, y: x.index_put((PLACES,), y), (ROWS, DOUBLES)),
    (lambda x, y: x.scatter_add(0, torch.zeros(2, 3, dtype=torch.int64), y), (ROWS, DOUBLES)),
    (lambda x, m: x.masked_fill(m, 0.0), (ROWS, ROWS)),
    (lambda m, x: torch.where(m, x, 0.0), (ROWS, ROWS)),
    (lambda x: x.mean(), (INTEGERS,)),
    (lambda x: x.softmax(-1), (INTEGERS,)),
    (F.gelu, (INTEGERS,)),
    (_add_in_place, (INTEGERS, ROWS)),
    # What fake kernels and converters both take.
    (F.cross_entropy, (ROWS, PLACES.int())),
    (F.linear, (TRUTHS, TRUTHS)),
    (lambda x, w: F.batch_norm(x, torch.zeros(3), torch.ones(3), w), (DOUBLES, torch.ones(3))),
    (F.binary_cross_entropy, (DOUBLES.sigmoid(), ROWS.sigmoid())),
    (F.relu, (TRUTHS,)),
    (lambda x: x.clone().relu_(), (TRUTHS,)),
    (torch.abs, (TRUTHS,)),
    (torch.sub, (TRUTHS, ROWS)),
    (lambda x: x.argmax(), (TRUTHS,)),
    (lambda x: x.topk(1), (TRUTHS,)),
    (F.silu, (INTEGERS,)),
    (F.hardswish, (INTEGERS,)),
    (F.hardsigmoid, (INTEGERS,)),
    (F.elu, (INTEGERS,)),
    (F.leaky_relu, (INTEGERS,)),
    (F.logsigmoid, (INTEGERS,)),
    (F.mish, (INTEGERS,)),
    (lambda x: F.glu(x, 0), (INTEGERS,)),
    (lambda x: F.avg_pool1d(x, 2), (INTEGERS,)),
    (lambda x: F.max_pool1d(x, 2), (TRUTHS,)),
    (torch.linalg.cross, (ROWS, DOUBLES)),
    (torch.masked_select, (ROWS, INTEGERS)),
    (lambda x: x.clone().exponential_(), (INTEGERS,)),
    (lambda x: F.adaptive_avg_pool1d(x, 1), (INTEGERS,)),
    (lambda x: F.interpolate(x[None], scale_factor=2.0), (INTEGERS,)),
    (lambda x: F.interpolate(x[None], scale_factor=2.0, mode="linear"), (INTEGERS,)),
    (F.mse_loss, (INTEGERS, INTEGERS)),
    (lambda x: x.softmax(-1), (TRUTHS,)),
    (torch.heaviside, (ROWS, DOUBLES)),
    (torch.frexp, (INTEGERS,)),
    (torch.logaddexp, (INTEGERS, INTEGERS)),
    (lambda x: torch.add(x, x, alpha=0.5), (INTEGERS,)),
    (lambda x: torch.cdist(x, x), (HALVES,)),
    (lambda x: torch.div(x, x, rounding_mode="trunc"), (TRUTHS,)),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_operands_that_pytorch_refuses_are_its_errors(number: int) -> None:
    function, operands = REFUSED[number]
    with pytest.raises((RuntimeError, NotImplementedError)) as eager:
        function(*operands)
    compiled = dyn_torch.jit(function)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            with pytest.raises(type(eager.value)) as ours:
                compiled(*operands)
        assert not isinstance(ours.value, NotYetError)
    with pytest.raises(NotYetError):
        dyn_torch.jit(function, strict=True)(*operands)


#: What PyTorch takes, promotes and computes with, and so does the program.
TAKEN: list[tuple[Callable[..., Any], Sequence[torch.Tensor]]] = [
    (torch.add, (ROWS, INTEGERS)),
    (torch.mul, (TRUTHS, DOUBLES)),
    (torch.sigmoid, (INTEGERS,)),
    (lambda x: x.clamp(1, 3), (INTEGERS,)),
    (lambda x: F.max_pool2d(x[None], 2), (INTEGERS,)),
    (F.relu, (INTEGERS,)),
    (F.hardtanh, (INTEGERS,)),
    (lambda x, y: F.l1_loss(x, y, reduction="sum"), (INTEGERS, INTEGERS)),
    (F.cross_entropy, (ROWS, PLACES)),
    (F.cross_entropy, (DOUBLES, PLACES)),
    (lambda x, k: x.clone().index_put_((k,), torch.tensor(1.0)), (ROWS, PLACES)),
    (lambda x, k: x.gather(1, k[:, None]), (HALVES, PLACES)),
    (F.embedding, (PLACES.int(), ROWS)),
    (torch.mm, (INTEGERS, INTEGERS.T)),
    (lambda x: x.cumsum(0), (TRUTHS,)),
    (lambda x: x.prod(), (TRUTHS,)),
    (torch.floor_divide, (INTEGERS, INTEGERS + 1)),
]


@pytest.mark.parametrize("number", range(len(TAKEN)))
def test_operands_that_pytorch_takes_are_the_programs(number: int) -> None:
    function, operands = TAKEN[number]
    compiled = dyn_torch.jit(function, strict=True)
    torch.testing.assert_close(compiled(*operands), function(*operands))
    nothing_fell_back(compiled)


@pytest.mark.parametrize("function", [F.relu, F.gelu])
def test_kernels_are_asked_once_for_dtypes(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    ask = operand_dtypes._is_refused
    monkeypatch.setattr(operand_dtypes, "_REFUSED", {})
    monkeypatch.setattr(operand_dtypes, "_is_refused", lambda func, *rest: asked.append(func) or ask(func, *rest))
    for x in (HALVES, torch.ones(5, 7).half(), torch.ones(3, 1).half()):
        dyn_torch.jit(lambda x: function(function(x)), strict=True)(x)
    assert len(asked) == len(set(asked)) == 1


def test_where_pytorch_has_a_kernel_for_both_it_runs_that() -> None:
    def solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve_triangular(a, b, upper=True) + 1

    compiled = dyn_torch.jit(solve)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        for n in (2, 1, 0, 5):
            a, b = torch.eye(n).double() * 2, torch.ones(n, 3)
            torch.testing.assert_close(compiled(a, b), solve(a, b))
    assert compiled.cache_info().compiles == 3  # PyTorch's fake kernel asks whether sizes are 0 and 1


def test_a_layer_says_which_dtypes_met() -> None:
    layer = dyn_torch.jit(torch.nn.Linear(3, 4), strict=True)
    assert layer(ROWS).dtype is torch.float32
    with pytest.raises(NotYetError) as caught:
        layer(DOUBLES)
    text = str(caught.value)
    assert text.startswith("aten.addmm.default of float32 and float64.\n  at test_operand_dtypes.py:")
    assert text.endswith("\n  help: convert the operands to one dtype.")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_norms_of_halves_with_parameters_of_floats_give_halves(dtype: torch.dtype, rows: int) -> None:
    torch.manual_seed(0)
    layer, group = torch.nn.LayerNorm(6), torch.nn.GroupNorm(2, 4)
    for norm, shape in ((layer, (rows, 4, 6)), (group, (rows, 4, 6))):
        torch.nn.init.normal_(norm.weight)
        x = torch.randn(shape).to(dtype)
        compiled = dyn_torch.jit(norm, strict=True)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), norm(x))
        assert compiled.cache_info().compiles == 1


def test_autocast_gives_what_a_norm_behind_a_layer_gives() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.LayerNorm(6))
    compiled = dyn_torch.jit(net, strict=True)
    for rows in (2, 1, 7):
        x = torch.randn(rows, 6)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            expected, result = net(x), compiled(x)
        assert expected.dtype is result.dtype is torch.bfloat16
        torch.testing.assert_close(result, expected, rtol=2e-2, atol=2e-2)
    assert compiled.cache_info().compiles == 1
