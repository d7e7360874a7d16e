"""Quantization of the kinds that compilers see: fake quantization with its gradients, the library
``quantized_decomposed``, and products of float8 matrices."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

pytest.importorskip("torch.ao.quantization.fx._decomposed")  # which defines the library

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402

OPS = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)


def channels(n: int, seed: int = 1) -> Any:
    return 0.05 + torch.arange(n) * 0.37 * seed % 1


#: Of a tensor of (n, 4), without gradients; with it in integers first where the name says so.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "quantize": lambda x: OPS.quantize_per_tensor(x, 0.1, 3, *INT8),
    "quantize bfloat16": lambda x: OPS.quantize_per_tensor(x.bfloat16(), 0.1, 3, 0, 255, torch.uint8),
    "quantize tensors": lambda x: OPS.quantize_per_tensor.tensor(x, x.abs().max() / 100, torch.tensor(3), *INT8),
    "quantize limits": lambda x: OPS.quantize_per_tensor.tensor2(
        x, torch.tensor(0.02), torch.tensor(3), torch.tensor(-100), torch.tensor(90), torch.int8
    ),
    "quantize channels": lambda x: OPS.quantize_per_channel(x, channels(4), torch.arange(4), 1, *INT8),
    "quantize tokens": lambda x: OPS.quantize_per_token(x, x.abs().amax(1, True) / 9, x[:, :1].long(), *INT8),
    "quantize groups": lambda x: OPS.quantize_per_channel_group(
        x, x.abs()[:, ::2] + 0.1, x[:, ::2].int(), -8, 7, torch.int8, 2
    ),
    "dequantize": lambda x: OPS.dequantize_per_tensor((9 * x).to(torch.int8), 0.1, 3, *INT8),
    "dequantize half": lambda x: OPS.dequantize_per_tensor(
        (9 * x).to(torch.int8), 0.1, 3, *INT8, out_dtype=torch.float16
    ),
    "dequantize tensors": lambda x: OPS.dequantize_per_tensor.tensor(
        (9 * x).to(torch.int8), torch.tensor(0.1), torch.tensor(3), *INT8
    ),
    "dequantize limits": lambda x: OPS.dequantize_per_tensor.tensor2(
        (9 * x).to(torch.int8), torch.tensor(0.1), torch.tensor(3), torch.tensor(-9), torch.tensor(9), torch.int8
    ),
    "dequantize channels": lambda x: OPS.dequantize_per_channel(
        (9 * x).to(torch.int8), channels(4), None, 1, *INT8
    ),
    "dequantize tokens": lambda x: OPS.dequantize_per_token(
        (9 * x).to(torch.int8), x.abs().amax(1, True), x[:, :1].long(), *INT8, torch.float32
    ),
    "dequantize groups": lambda x: OPS.dequantize_per_channel_group(
        (3 * x).to(torch.int8), x.abs()[:, ::2], None, -8, 7, torch.int8, 2, torch.float32
    ),
    "choose": lambda x: OPS.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8),
    "choose symmetric": lambda x: OPS.choose_qparams_symmetric.tensor(x, 0, 255, 1e-5, torch.uint8),
    "choose tokens": lambda x: OPS.choose_qparams_per_token(x, torch.int8),
    "choose asymmetric": lambda x: OPS.choose_qparams_per_token_asymmetric(x, torch.int8),
    "convert": lambda x: OPS.convert_element_type.no_fuse(x, torch.int8),
    "fake mask": lambda x: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 3, -5, 5),
    "fake half": lambda x: torch.fake_quantize_per_tensor_affine(x.half(), 0.1, 3, -5, 5),
    "scaled": lambda x: torch._scaled_mm(
        x.repeat(1, 4).to(torch.float8_e4m3fn), torch.ones(16, 16).to(torch.float8_e4m3fn).t(), torch.tensor(2.0),
        torch.tensor(0.5), out_dtype=torch.float32,
    ),
    "scaled rows": lambda x: torch._scaled_mm(
        x.repeat(1, 4).to(torch.float8_e4m3fn), torch.ones(16, 16).to(torch.float8_e4m3fn).t(),
        x.abs().amax(1, True), channels(16)[None], out_dtype=torch.bfloat16,
    ),
}  # fmt: skip
_OF_NONE_REFUSED = {"quantize tensors", "choose", "choose symmetric"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_pytorchs_by_one_program(name: str) -> None:
    function = FUNCTIONS[name]
    compiled = dyn_torch.jit(function, strict=True)
    for rows in (5, 1, 3, *(() if name in _OF_NONE_REFUSED else (0,))):
        x = 2 * torch.randn(rows, 4)
        same(function(x), compiled(x))
    assert compiled.cache_info().compiles == 1


@pytest.mark.parametrize("name", ["quantize", "dequantize channels", "choose"])
def test_torch_compile_leaves_nothing_to_eager_pytorch(name: str) -> None:
    function = FUNCTIONS[name]
    compiled = torch.compile(function, backend="dyn", dynamic=True)
    for rows in (5, 3):
        x = 2 * torch.randn(rows, 4)
        same(function(x), compiled(x))
    nothing_fell_back(compiled)


#: Of numbers, a scale and a zero point of each channel of the last axis.
FAKE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "per tensor": lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7),
    "of tensors": lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s[0], z[0].int(), -8, 7),
    "decomposed": lambda x, s, z: OPS.fake_quant_per_channel(x, s, z, 1, -8, 7),
    "per channel": lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z.int(), 1, -8, 7),
    "float zero points": lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -8, 7),
}


@pytest.mark.parametrize("name", FAKE)
def test_fake_quantization_and_its_straight_through_gradients(name: str) -> None:
    function = FAKE[name]
    compiled = dyn_torch.jit(function, strict=True)
    for rows in (6, 1, 0):
        found: list[Any] = []
        for one in (function, compiled):
            torch.manual_seed(rows)
            x = torch.randn(rows, 4).requires_grad_()
            made = one(x, channels(4, 2), channels(4, 3) * 4)
            made.backward(torch.linspace(-1, 2, made.numel()).reshape(made.shape))
            found.append([made.detach(), x.grad])
        same(found[0], found[1])


def test_transformations_of_fake_quantization_for_channels() -> None:
    def f(x: Any) -> Any:
        quantized = torch.fake_quantize_per_channel_affine(x, channels(4, 2), torch.arange(4).int(), 1, -8, 7)
        return (quantized * quantized).sum()

    compiled = dyn_torch.jit(torch.func.grad(f), strict=True)
    for rows in (6, 1):
        x = torch.randn(rows, 4)
        same(torch.func.grad(f)(x), compiled(x))


#: Of numbers, and of scales and zero points that are learned: for each channel of the last axis, or the first of them.
LEARNED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "for all": lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(x, s[:1], z[:1], -8, 7, 0.5),
    "for channels": lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x, s, z, 1, -8, 7, 2.0),
}


@pytest.mark.parametrize("compile", ["jit", "torch.compile"])
@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("offset", [0.0, 2.5, -20.0, 20.0])
def test_scales_that_are_learned(name: str, offset: float, compile: str) -> None:
    function = LEARNED[name]
    torch._dynamo.reset()
    compiled = (
        dyn_torch.jit(function, strict=True)
        if compile == "jit"
        else torch.compile(function, backend="dyn", dynamic=True, options={"strict": True})
    )
    for rows in (6, 1):  # of no numbers PyTorch gives the scales themselves as their gradients
        found: list[Any] = []
        for one in (function, compiled):
            torch.manual_seed(rows)
            x = torch.randn(rows, 4).requires_grad_()
            scale = channels(4, 2).requires_grad_()
            zero_point = (channels(4, 3) * 4 + offset).requires_grad_()
            made = one(x, scale, zero_point)
            made.backward(torch.linspace(-1, 2, made.numel()).reshape(made.shape))
            found.append([made.detach(), x.grad, scale.grad, zero_point.grad])
        same(found[0], found[1], 1e-5)


def _observing(is_symmetric: bool, count: int) -> Callable[..., Any]:
    def f(x: Any, *state: Any) -> Any:
        per_row = count != 1
        return torch.fused_moving_avg_obs_fake_quant(x, *state, 0.01, -8, 7, 0, per_row, is_symmetric)

    return f


@pytest.mark.parametrize("compile", ["jit", "torch.compile"])
@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize("count", [1, 4])
def test_ranges_that_are_observed(count: int, is_symmetric: bool, compile: str) -> None:
    """Results, gradients and all buffers are PyTorch's: of all signs, of numbers too small for a scale, of zeros."""
    function = _observing(is_symmetric, count)
    torch._dynamo.reset()
    compiled = (
        dyn_torch.jit(function, strict=True)
        if compile == "jit"
        else torch.compile(function, backend="dyn", dynamic=True, options={"strict": True})
    )
    torch.manual_seed(0)
    numbers = [torch.randn(4, n) for n in (6, 9, 1)]
    for x in (
        *numbers,
        numbers[0].abs(),
        -numbers[1].abs(),
        1e-6 * numbers[0],
        1e-6 * numbers[0].abs(),
        0 * numbers[1],
    ):
        inf = torch.full((count,), float("inf"))
        first = [inf, -inf, torch.ones(count), torch.zeros(count, dtype=torch.int32)]
        later = [torch.full((count,), -0.5), torch.full((count,), 2.0), *first[2:]]
        for observer_on, quantized_on, buffers in (
            (1, 1, first),
            (1, 1, later),
            (1, 0, first),
            (0, 1, later),
            (0, 0, first),
        ):
            found: list[Any] = []
            for one in (function, compiled):
                own = [torch.tensor([observer_on]), torch.tensor([quantized_on]), *[b.clone() for b in buffers]]
                leaf = x.clone().requires_grad_()
                made = one(leaf, *own)
                made.backward(torch.linspace(-1, 2, made.numel()).reshape(made.shape))
                found.append([made.detach(), leaf.grad, *own])
            same(found[0], found[1])


def test_an_observer_that_has_seen_nothing() -> None:
    function = _observing(False, 1)
    found: list[Any] = []
    for one in (function, dyn_torch.jit(function, strict=True)):
        own = [torch.tensor([0]), torch.tensor([1]), torch.tensor([float("inf")]), torch.tensor([-float("inf")])]
        own += [torch.ones(1), torch.zeros(1, dtype=torch.int32)]
        found.append([one(torch.linspace(-1, 1, 12).reshape(3, 4), *own), own])
    same(found[0], found[1])


@pytest.mark.parametrize("limits", [(0, 255), (-128, 127), (0, 127)])
def test_zero_points_of_ranges_around_0(limits: tuple[int, int]) -> None:
    """They lie between two integers, and rounding the scale decides."""

    def f(x: Any, *state: Any) -> Any:
        return torch.fused_moving_avg_obs_fake_quant(x, *state, 0.01, *limits, 0, False, False)

    compiled = dyn_torch.jit(f, strict=True)
    rng, differ = torch.Generator().manual_seed(0), 0
    for _ in range(200):
        a = float(torch.rand((), generator=rng)) * 100
        found: list[Any] = []
        for one in (f, compiled):
            own = [torch.ones(1, dtype=torch.long), torch.ones(1, dtype=torch.long)]
            own += [torch.tensor([float("inf")]), torch.tensor([-float("inf")])]
            own += [torch.ones(1), torch.zeros(1, dtype=torch.int32)]
            found.append((one(torch.tensor([-a, a, a / 3]), *own), own[-1]))
        differ += not torch.equal(found[0][1], found[1][1])
    assert differ <= 1


def test_an_observer_that_sizes_its_buffers_is_left_to_pytorch() -> None:
    from torch.ao.quantization import FusedMovingAvgObsFakeQuantize, MovingAveragePerChannelMinMaxObserver

    def made() -> Any:
        return FusedMovingAvgObsFakeQuantize(
            MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8,
            qscheme=torch.per_channel_symmetric,
        )  # fmt: skip

    own, others = made(), made()
    compiled = dyn_torch.jit(others)
    for n in (5, 7, 9):
        x = torch.randn(4, n)
        with warnings.catch_warnings():  # of the first call
            warnings.simplefilter("ignore", dyn_torch.FallbackWarning)
            same(own(x), compiled(x))
        same(own.state_dict(), others.state_dict())


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # Dynamo's
@pytest.mark.filterwarnings("ignore:.*reduce_range will be deprecated:UserWarning")
def test_training_of_a_quantized_model_is_one_program() -> None:
    """PyTorch's own quantization-aware training: an observer for activations, one for the rows of weights."""
    from torch.ao.quantization import get_default_qat_qconfig, prepare_qat

    def trained(compile: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).train()
        model.qconfig = get_default_qat_qconfig("fbgemm")
        model = prepare_qat(model)
        model(torch.randn(2, 6))  # buffers get their sizes
        compiled, optimizer = compile(model), torch.optim.SGD(model.parameters(), 0.1)
        losses: list[Any] = []
        for n in (5, 7, 3):
            loss = compiled(torch.randn(n, 6)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses, model.state_dict()

    torch._dynamo.reset()
    wanted = trained(lambda model: model)
    same(wanted, trained(lambda model: dyn_torch.jit(model, strict=True)), 1e-5)
    compiled = lambda model: torch.compile(model, backend="dyn", dynamic=True, options={"strict": True})  # noqa: E731
    same(wanted, trained(compiled), 1e-5)


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning")
@pytest.mark.parametrize("compile", [dyn_torch.jit, lambda f: torch.compile(f, backend="dyn", dynamic=True)])
def test_tensors_that_are_quantized_are_pytorchs(compile: Any) -> None:
    """Its fake kernels say that they are floats."""

    def f(x: Any) -> Any:
        y = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
        return y.dequantize() * 2

    x = torch.randn(3, 4)
    with pytest.warns(dyn_torch.FallbackWarning, match="dyn has no arrays of torch.qint8"):
        found = compile(f)(x)
    same(f(x), found)


def test_nan_is_fake_quantized_to_the_least_number() -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, -0.0, 0.05, 0.15])
    function = lambda x: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, -5, 5)  # noqa: E731
    same(function(x), dyn_torch.jit(function, strict=True)(x))


def test_scales_of_blocks_are_left_to_pytorch() -> None:
    reason = "_scaled_mm with a scale for each block"
    a, b = torch.ones(16, 256).to(torch.float8_e4m3fn), torch.ones(16, 256).to(torch.float8_e4m3fn)
    with pytest.raises(NotImplementedError, match=reason):
        dyn_torch.jit(lambda a, b, s, t: torch._scaled_mm(a, b.t(), s, t, out_dtype=torch.float32), strict=True)(
            a, b, torch.ones(16, 2), torch.ones(2, 16)
        )
