"""Front ends on the device, where the versions of PyTorch and JAX are those that they are for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.gpu_check.calls import torch_with_gpu
from benchmarks.gpu_check.checks import Check, NotApplicableError, Options, compare
from benchmarks.gpu_check.versions import requirement


def checks() -> tuple[Check, ...]:
    """Inference and training of PyTorch's, a function of JAX's."""
    return Check("PyTorch, inference", _torch), Check("PyTorch, gradients", _gradients), Check("JAX", _jax)


def _matching_torch(options: Options) -> Any:
    torch = torch_with_gpu(options)
    _require("torch")
    return torch


def _require(name: str) -> None:
    found = requirement(name)
    if not found.holds:
        raise NotApplicableError(found.describe())


def _layer(torch: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True).cuda()


def _torch(options: Options) -> Mapping[str, object]:
    torch = _matching_torch(options)
    import dyn.interop.torch as front

    layer = _layer(torch).eval()
    compiled = front.jit(layer)
    with torch.no_grad():
        for shape in ((2, 5), (1, 1), (3, 33)):
            x = torch.randn(*shape, 32, device="cuda")
            compare(compiled(x).cpu().numpy(), layer(x).cpu().numpy(), shape, 40)
    return {"compiles": compiled.cache_info().compiles}


def _gradients(options: Options) -> Mapping[str, object]:
    torch = _matching_torch(options)
    import dyn.interop.torch as front

    plain, ours = _layer(torch), _layer(torch)
    compiled = front.jit(ours)
    for shape in ((2, 5), (3, 33)):
        x = torch.randn(*shape, 32, device="cuda")
        plain(x).square().sum().backward()
        compiled(x).square().sum().backward()
        for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
            compare(one.grad.cpu().numpy(), other.grad.cpu().numpy(), shape, 200)
            one.grad = other.grad = None
    return {"compiles": compiled.cache_info().compiles}


def _jax(options: Options) -> None:
    _require("jax")
    from jax import numpy as jnp

    import dyn.interop.jax as front

    def block(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w) / (1 + jnp.sum(x * x, axis=-1, keepdims=True))

    f = front.jit(block, device=options.device)
    w = np.random.default_rng(0).standard_normal((8, 5), np.float32)
    for rows in (3, 1, 33):
        x = np.random.default_rng(rows).standard_normal((rows, 8), np.float32)
        wanted = np.tanh(x @ w) / (1 + np.sum(x * x, axis=-1, keepdims=True))
        compare(np.asarray(f(x, w)), wanted, rows, 10)
