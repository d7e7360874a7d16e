"""Functions of PyTorch through ``dyn.interop.torch.jit`` and as they are, each at sizes 0, 1 and more."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
F = torch.nn.functional

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import outcome, same  # noqa: E402  # needs PyTorch

SIZES = (2, 0, 1, 7)


@dataclass(frozen=True)
class Case:
    """A function, and its arguments: their dtype by a letter, and their axes, numbers or the names of sizes."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    sizes: tuple[int, ...] = SIZES


def case(name: str, function: Callable[..., Any], *arguments: str, sizes: tuple[int, ...] = SIZES) -> Any:
    return pytest.param(Case(name, function, arguments, sizes), id=name)


def draw(argument: str, sizes: dict[str, int], generator: Any) -> Any:
    kind, _, axes = argument.rpartition(":")
    shape = [int(axis) if axis.isdigit() else sizes[axis] for axis in axes.split()]
    if kind == "i":
        return torch.randint(-5, 6, shape, generator=generator)
    if kind == "n":
        return torch.randint(0, 3, shape, generator=generator)
    if kind == "c":
        return torch.randn(shape, generator=generator).to(memory_format=torch.channels_last)
    if kind == "b":
        return torch.rand(shape, generator=generator) < 0.5
    if kind == "d":
        return torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "h":
        return torch.randn(shape, generator=generator).to(torch.bfloat16)
    return torch.randn(shape, generator=generator)


def check(case: Case) -> None:
    """Compare at all combinations of sizes; what PyTorch refuses is refused, and is no program."""
    compiled = dyn_torch.jit(case.function)
    letters = sorted({a for text in case.arguments for a in text.rpartition(":")[2].split() if not a.isdigit()})
    for number, sizes in enumerate(itertools.product(case.sizes, repeat=len(letters))):
        generator = torch.Generator().manual_seed(number)
        arguments = [draw(text, dict(zip(letters, sizes, strict=True)), generator) for text in case.arguments]
        again = [a.clone() for a in arguments]
        wanted = outcome(case.function, arguments)
        if isinstance(wanted, type):
            with pytest.raises(Exception):  # noqa: B017
                compiled(*again)
            continue
        same(wanted, compiled(*again))
        for a, b in zip(arguments, again, strict=True):  # what is written to them, too
            torch.testing.assert_close(b, a, equal_nan=True, rtol=1e-5, atol=1e-5)


def written(x: Any) -> Any:
    y = x.clone()
    y[1:] += 2
    y[:, 0].fill_(1) if y.shape[1] else None
    z = y.t()
    z.mul_(3)
    return y, z


def write_argument(x: Any, y: Any) -> Any:
    x.add_(y)
    return x, x * 2


def view_of_argument(x: Any) -> Any:
    return x[1:], x.t(), x, x.reshape(-1)


POINTWISE = {
    "add": lambda x, y: x + y, "sub": lambda x, y: torch.sub(x, y, alpha=2), "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y, "max": torch.maximum, "min": torch.minimum, "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y, "pow": lambda x, y: torch.pow(x.abs(), y), "atan2": torch.atan2, "fmod": torch.fmod,
    "rem": torch.remainder, "and": torch.logical_and, "where": lambda x, y: torch.where(x > y, x, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3), "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
}  # fmt: skip
UNARY = {
    name: getattr(torch, name)
    for name in (
        "abs", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "neg", "reciprocal", "relu", "round",
        "sigmoid", "sign", "sin", "sinh", "tan", "tanh", "trunc", "isnan", "isinf", "isfinite", "square", "atan",
        "asinh", "logical_not", "signbit", "frac",
    )
} | {
    name: getattr(F, name)
    for name in (
        "gelu", "silu", "softplus", "elu", "leaky_relu", "hardtanh", "relu6", "selu", "mish", "hardswish",
        "hardsigmoid", "logsigmoid", "softsign", "tanhshrink",
    )
}  # fmt: skip
CASES = [
    *[case(f"{name}-rows", function, "n m", "m") for name, function in POINTWISE.items()],
    *[case(f"{name}-same", function, "n m", "n m") for name, function in POINTWISE.items()],
    *[case(f"{name}-bf16", function, "h:n", "h:n") for name, function in POINTWISE.items()],
    *[case(name, function, "n m") for name, function in UNARY.items()],
    *[case(f"{name}-int", UNARY[name], "i:n") for name in ("abs", "neg", "sign", "exp", "sigmoid", "cos", "square")],
    *[case(f"{name}-bf16", UNARY[name], "h:n") for name in ("exp", "tanh", "gelu", "silu", "sigmoid")],
    case("promote int float", lambda x, y: x + y, "i:n", "n"),
    case("promote int number", lambda x: x * 1.5, "i:n"),
    case("promote scalar tensor", lambda x, y: x + y, "n", "d:"),
    case("promote int division", lambda x, y: x / (y.abs() + 1), "i:n", "i:n"),
    case("promote bool", lambda x, y: x + y, "b:n", "b:n"),
    case("alpha", lambda x, y: torch.add(x, y, alpha=3), "i:n", "i:n"),
    case("floor division", lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="floor"), "i:n", "i:n"),
    case("trunc division", lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="trunc"), "i:n", "i:n"),
    case("clamp", lambda x: x.clamp(-0.5, 0.5), "n"),
    case("clamp int by float", lambda x: x.clamp(-0.5, 2.5), "i:n"),
    case("masked fill", lambda x, m: x.masked_fill(m, -1e9), "n m", "b:n m"),
    case("by size", lambda x: x * x.shape[0] / x.shape[0], "n m", sizes=(2, 1, 7)),
    case("by root of size", lambda x: x * x.shape[-1] ** -0.5, "n m", sizes=(2, 1, 7)),
    case("sum", lambda x: (x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.sum((0, 1))), "n m"),
    case("sum int", lambda x: (x.sum(), x.sum(0)), "i:n m"),
    case("mean", lambda x: (x.mean(0), x.mean(-1, keepdim=True)), "n m"),
    case("prod", lambda x: (x.prod(), x.prod(0)), "n m"),
    case("var", lambda x: (x.var(0), x.std(-1), torch.var_mean(x, -1, correction=0)), "n m", sizes=(2, 7)),
    case("amax", lambda x: (x.amax(0), x.amin(-1)), "n m", sizes=(2, 1, 7)),
    case("max with places", lambda x: (x.max(-1), x.min(0), x.max(), x.argmax(0), x.argmin()), "n m", sizes=(2, 1, 7)),
    case("any all", lambda x: (x.any(), x.all(-1), x.any(0)), "b:n m"),
    case("cumsum", lambda x: (x.cumsum(0), x.cumsum(-1)), "n m"),
    case("cumsum int", lambda x: x.cumsum(0), "i:n"),
    case("logsumexp", lambda x: x.logsumexp(-1), "n m", sizes=(2, 1, 7)),
    case("norm", lambda x: (x.norm(), torch.linalg.vector_norm(x, dim=-1)), "n m", sizes=(2, 1, 7)),
    case("matmul", lambda x, y: x @ y, "n m", "m k"),
    case("matmul batched", lambda x, y: x @ y, "b n m", "m 3"),
    case("bmm", torch.bmm, "b n m", "b m n"),
    case("linear", F.linear, "n m", "3 m", "3"),
    case("einsum", lambda x, y: torch.einsum("bnm,bkm->bnk", x, y), "b n m", "b k m", sizes=(2, 0, 1)),
    case("view", lambda x: (x.view(-1), x.reshape(x.shape[1], x.shape[0]), x.flatten()), "n m"),
    case("view with rest", lambda x: x.view(x.shape[0], 2, -1), "n 6"),
    case("permute", lambda x: (x.permute(2, 0, 1), x.transpose(0, 1) + 1), "n m k", sizes=(2, 0, 1)),
    case("contiguous", lambda x: x.t().contiguous(), "n m"),
    case("unsqueeze", lambda x: (x[:, None], x.unsqueeze(-1).squeeze(-1)), "n m"),
    case("expand", lambda x: x[None].expand(3, -1, -1) + 1, "n m"),
    case("slices", lambda x: (x[1:] + 0, x[:-1] + 0, x[::2] + 0, x[-3:] + 0, x[:, 1:3] + 0), "n m"),
    case("select", lambda x: (x[0] + 1, x[:, -1] + 1), "n m", sizes=(2, 1, 7)),
    case("half", lambda x: (x[: x.shape[0] // 2] + 1, x[x.shape[0] // 2 :] + 1), "n m"),
    case("cat", lambda x, y: (torch.cat([x, y]), torch.cat([x, y, x], -1) if x.shape == y.shape else 0), "n m", "k m"),
    case("stack", lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1)), "n m", "n m"),
    case("split", lambda x: [part * 2 for part in x.split(2, dim=1)], "n 6"),
    case("chunk", lambda x: [part * 2 for part in x.chunk(3, dim=-1)], "n 6"),
    case("unbind", lambda x: [part * 2 for part in x.unbind(1)], "n 3"),
    case("flip", lambda x: (x.flip(0), x.flip((0, 1))), "n m"),
    case("roll", lambda x: x.roll(1, 0), "n m", sizes=(2, 1, 7)),
    case("repeat", lambda x: x.repeat(2, 3), "n m"),
    case("pad", lambda x: F.pad(x, (1, 2)), "n m"),
    case("diagonal", lambda x: x.diagonal() + 1, "n m"),
    case("new", lambda x: (x.new_zeros(x.shape[0], 2), torch.ones_like(x), x.new_full((3,), 2.0)), "n m"),
    case("arange", lambda x: torch.arange(x.shape[0]) + torch.arange(1, x.shape[0] + 1, dtype=torch.float32), "n"),
    case("linspace", lambda x: torch.linspace(0, 1, 5) + x.sum(), "n"),
    case("tensor_split evenly", lambda x: [torch.tensor_split(x, k)[k - 1] + k for k in (1, 2, 3, 7)], "n"),
    case("tensor_split of the last axis", lambda x: [part.sum(-1) for part in x.tensor_split(4, -1)], "m n"),
    case("places below a diagonal",
         lambda x: [torch.tril_indices(x.shape[0], x.shape[0], k) for k in (0, -1, -3)], "n"),
    case("places above a diagonal",
         lambda x: [torch.triu_indices(x.shape[0], x.shape[0], k) for k in (0, 1, 3)], "n"),
    case("pairs", lambda x: [torch.combinations(x), torch.combinations(x, 2, True)], "n"),
    case("interactions", lambda x: (x @ x.t())[*torch.triu_indices(x.shape[0], x.shape[0], 1)], "m n"),
    case("arange by steps that are rounded",
         lambda x: [torch.arange(0, x.shape[0], 0.3), torch.arange(x.shape[0], -1, -0.7, dtype=torch.float64)], "n"),
    case("linspace by a size", lambda x: torch.linspace(-3.5, 7, x.shape[0]) * x, "n"),
    case("linspace by sizes",
         lambda x: torch.linspace(start=3, end=-2, steps=2 * x.shape[0] - 1, dtype=torch.float64), "n",
         sizes=(1, 2, 7)),
    case("logspace by a size",
         lambda x: (torch.logspace(0, 1, x.shape[0]), torch.logspace(0, 3, x.shape[0], base=2)), "n"),
    case("windows of nothing by a size", lambda x: (
        torch.hann_window(x.shape[0] - 1), torch.hamming_window(x.shape[0] - 1, False),
        torch.linspace(0, 1, x.shape[0] - 1)),
        "n", sizes=(3, 1, 2)),
    case("windows by a size", lambda x: (
        torch.hann_window(x.shape[0]), torch.hann_window(x.shape[0], periodic=False), torch.blackman_window(x.shape[0]),
        torch.hamming_window(x.shape[0], True, 0.5, 0.4), torch.hamming_window(x.shape[0], False, alpha=0.6)), "n"),
    case("full", lambda x: torch.full((x.shape[0], 2), 3), "n"),
    case("eye", lambda x: torch.eye(x.shape[0]), "n"),
    case("tril", lambda x: (x.tril(), x.triu(1)), "n m"),
    case("embedding", F.embedding, "n:b s", "3 m"),
    case("index", lambda x, i: (x[i], x[:, i]), "3 3", "n:k"),
    case("index by two", lambda x, i, j: x[i, j], "3 3", "n:k", "n:k"),
    case("index put", lambda x, i: x.clone().index_put((i,), x.new_tensor(1.0)), "3 m", "n:k"),
    case("gather", lambda x, i: x.gather(1, i), "n 3", "n:n k"),
    case("scatter", lambda x, i: torch.zeros(3, 4).scatter_add(0, i, x), "2 4", "n:2 4"),
    case("index select", lambda x, i: x.index_select(0, i), "3 m", "n:k"),
    case("sort", lambda x: x.sort(-1), "n m"),
    case("argsort", lambda x: x.argsort(0, descending=True), "n m"),
    case("topk", lambda x: (x.topk(2), x.topk(1, 0, largest=False)), "n m", sizes=(2, 3, 7)),
    case("topk of all", lambda x: x.topk(x.shape[-1]), "n m"),
    case("histc", lambda x: (x.histc(4, -1, 1), x.histc(5)), "n m"),
    case("grouped mm", lambda x, w: F.grouped_mm(x, w, offs=torch.arange(3, dtype=torch.int32) * x.shape[0] // 2),
         "n 8", "3 8 4"),
    case("grouped mm of columns",
         lambda x, y: F.grouped_mm(x, y, offs=torch.arange(3, dtype=torch.int32) * y.shape[0] // 2),
         "8 n", "n 8", sizes=(8, 4, 16)),
    case("grouped mm of matrices", lambda x, y: torch._grouped_mm(x, y, offs=torch.tensor([4, 4, 16]).int()),
         "3 4 8", "8 16"),
    case("grouped mm to matrices", lambda x, y: torch._grouped_mm(x, y, offs=torch.tensor([0, 4, 7]).int()),
         "4 8", "8 16"),
    case("softmax", lambda x: (x.softmax(-1), x.log_softmax(0)), "n m"),
    case("layer norm", lambda x, w, b: F.layer_norm(x, (5,), w, b), "n m 5", "5", "5"),
    case("cross entropy", lambda x, i: F.cross_entropy(x, i, reduction="none"), "n 3", "n:n"),
    case("mse", F.mse_loss, "n m", "n m", sizes=(2, 1, 7)),
    case("attention", F.scaled_dot_product_attention, "b 2 n 4", "b 2 m 4", "b 2 m 4",
         sizes=(2, 1, 3)),
    case("causal attention", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), "b 2 n 4",
         sizes=(2, 1, 3)),
    case("grouped attention", lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), "b 4 n 4",
         "b 2 m 4", sizes=(2, 1, 3)),
    case("gather by other ranks", lambda x, i, j: (x.gather(0, i[0]), x.gather(0, j), x[0].gather(0, i * 0)), "n",
         "n:1", "n:0 n", sizes=(3, 7)),
    case("truth values scattered", lambda m, i: [
         m.scatter_reduce(0, i, ~m, "amax", include_self=False), m.scatter_reduce(0, i, ~m, "prod"),
         m.scatter_add(0, i, ~m), m.index_add(0, i, ~m), m.sign(), m.sgn()], "b:3", "n:3"),
    case("dropped integers", lambda x, m: torch.ops.aten.native_dropout_backward(x, m, 2.0), "i:n", "b:n"),
    case("variances", lambda x, y: (F.gaussian_nll_loss(x, x, y.abs()), F.gaussian_nll_loss(x, y, y[:, :1].abs())),
         "n m", "n m"),
    case("index add to a number", lambda x, y: x.index_add(0, torch.tensor([0]), y, alpha=2), "", ""),
    case("cat of channels last", lambda x, y: torch.cat([x, y], 1), "c:n 2 m 3", "c:n 3 m 3",
         sizes=(2, 7)),
    case("pairs of a transpose", lambda x: torch.view_as_real(torch.complex(x, x).t()), "n m"),
    case("arange of bools", lambda x: torch.arange(False, True) + x, "n"),
    case("covariance", lambda x, w: (torch.cov(x), torch.corrcoef(x), torch.cov(x, aweights=w.abs())), "n m", "m",
         sizes=(2, 7)),
    case("weighted covariance", lambda x, i: torch.cov(x, correction=0, fweights=i + 1), "n m", "n:m",
         sizes=(2, 7)),
    case("gamma family", lambda x, y: (torch.polygamma(3, x), torch.special.zeta(x.abs() + 1.5, y),
         torch.igamma(x.abs(), y.abs() * 3), torch.igammac(x.abs(), y.abs() * 3)), "d:n", "n"),
    case("Bessel functions", lambda x: [f(9 * x) for f in (torch.special.i0, torch.special.i0e, torch.special.i1,
         torch.special.i1e)], "n"),
    case("fractional pools", lambda x, y: (
        F.fractional_max_pool2d(x, 2, (2, 1), _random_samples=x[:, :, 0, :2].sigmoid(), return_indices=True),
        F.fractional_max_pool3d(y, (1, 2, 2), (1, 2, 2), _random_samples=x[:, :, 0, :3].sigmoid(), return_indices=True),
    ), "n 2 m 5", "n 2 m 4 m", sizes=(4, 7)),
    case("average pool", lambda x: F.avg_pool2d(x, 2, padding=1, ceil_mode=True, count_include_pad=False), "1 2 n m",
         sizes=(2, 1, 7)),
    case("max pool", lambda x: F.max_pool2d(x, 2, 1, return_indices=True), "1 2 n m", sizes=(2, 7)),
    case("adaptive pools", lambda x: (F.adaptive_avg_pool1d(x, 3), F.adaptive_max_pool1d(x, 3)), "2 n m",
         sizes=(2, 1, 7)),
    case("distances", torch.cdist, "n m", "k m", sizes=(2, 0, 1)),
    case("orders", lambda x: (x.topk(1), x.median(-1), x.kthvalue(1), x.mode(-1).values, x.cummax(0)), "n m",
         sizes=(2, 1, 7)),
    case("places in a sequence", lambda x, y: torch.searchsorted(x.sort(-1).values, y), "n m", "n k",
         sizes=(2, 0, 1)),
    case("histogram", lambda x: x.histc(4), "n m", sizes=(2, 1, 7)),
    case("scatter reduce", lambda x, i: torch.zeros(3, 4).scatter_reduce(0, i, x, "amax", include_self=False), "2 4",
         "n:2 4"),
    case("solve", lambda a, b: torch.linalg.solve(a + 9 * torch.eye(3), b), "n 3 3", "n 3 m", sizes=(2, 1)),
    case("singular values", torch.linalg.svdvals, "n m", sizes=(2, 1, 7)),
    case("Fourier", lambda x: (torch.fft.rfft(x), torch.fft.fft(x, dim=0)), "n m", sizes=(2, 1, 7)),
    case("two rows of sizes", lambda x, y: (torch.fmax(x, y), torch.lerp(x, y, 0.3), torch.logaddexp(x, y)), "n m",
         "m"),
    case("bags", lambda table, at: F.embedding_bag(at, table, mode="mean"), "3 2", "n:n k", sizes=(2, 1)),
    case("arange of halves", lambda x: torch.arange(0, x.shape[0], 0.5), "n"),
    case("arange down in floats", lambda x: torch.arange(x.shape[0] * 3, 0, -0.75, dtype=torch.float64), "n"),
    case("arange of integers in floats", lambda x: torch.arange(-x.shape[0], x.shape[0], 1.0, dtype=torch.int64), "n"),
    case("arange of truncated floats", lambda x: torch.arange(0, x.shape[0] * 3, 1.5, dtype=torch.int32), "n"),
    case("arange from a float", lambda x: torch.arange(-0.5, x.shape[0], 1), "n"),
    case("strides in place", lambda x: (x + 1).as_strided_((2, x.shape[0]), (1, 2)), "n 2"),
    case("pooling of rows that are no rows", lambda x: F.adaptive_avg_pool1d(x.transpose(1, 2), 1), "n m 3"),
    case("by strides", lambda x: x.clone().as_strided((x.shape[0] - 1, 2), (1, 1)) + 0, "n", sizes=(2, 7)),
    case("written", written, "n m"),
    case("written argument", write_argument, "n m", "m"),
    case("views of an argument", view_of_argument, "n m"),
    case("no tensors", lambda x: (x.shape[0] + 1, x.shape, None, "text", 2.5), "n m"),
    case("branch", lambda x: x * 2 if x.shape[0] > 1 else x - 1, "n m"),
    case("mask from size", lambda x: torch.ones(x.shape[0], x.shape[0]).tril().bool(), "n"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_as_pytorch_gives_it(case: Case) -> None:
    check(case)
