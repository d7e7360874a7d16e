"""Adam with clipping by the norm of all gradients, of many tensors of unequal sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.memory.arguments import normal
from benchmarks.memory.program import Array, Program
from benchmarks.memory.programs import adam
from benchmarks.stitched.writing import forward

TENSORS = 200
#: Every so many tensors one is a matrix, and all matrices together are as large as the main array of a size.
_EVERY = 25
_RATE, _CORRECTION1, _CORRECTION2 = 0.001, 0.1, 0.001


def programs() -> Iterator[Program]:
    # PyTorch's compiler takes three minutes for so many tensors.
    yield forward(
        "Adam", "adam_clipped", f"Adam's update of {TENSORS} tensors, gradients clipped by their norm", _state,
        _adam_clipped, _torch_adam_clipped, without=("torchcompile", "inductor"),
    )  # fmt: skip


def _adam_clipped(lib: Any, parameters: list[Any], gradients: list[Any], firsts: list[Any], seconds: list[Any]) -> Any:
    total = lib.sqrt(sum(lib.sum(g * g) for g in gradients))
    scale = 1 / lib.maximum(total, lib.ones_like(total))
    rows = zip(parameters, gradients, firsts, seconds, strict=True)
    updated = [adam(lib, p, g * scale, m, v) for p, g, m, v in rows]
    return [p for p, _, _ in updated], [m for _, m, _ in updated], [v for _, _, v in updated]


def _torch_adam_clipped(parameters: list[Any], gradients: list[Any], firsts: list[Any], seconds: list[Any]) -> Any:
    """The same by PyTorch's functions of many tensors, as its own optimizer computes it."""
    import torch

    lists: Any = torch  # its functions of lists of tensors have private names
    total = torch.linalg.vector_norm(torch.stack(lists._foreach_norm(gradients)))
    clipped = lists._foreach_mul(gradients, 1 / total.clamp(min=1))
    m = lists._foreach_lerp(firsts, clipped, 0.1)
    v = lists._foreach_mul(seconds, 0.999)
    lists._foreach_addcmul_(v, clipped, clipped, 0.001)
    roots = lists._foreach_div(v, _CORRECTION2)
    lists._foreach_sqrt_(roots)
    lists._foreach_add_(roots, 1e-8)
    return lists._foreach_addcdiv(parameters, m, roots, -_RATE / _CORRECTION1), m, v


def _state(rng: np.random.Generator, rows: int, columns: int) -> tuple[list[Array], ...]:
    """Parameters, gradients, first and second moments: biases of 16 to 304 numbers, and matrices."""
    width = max(columns * _EVERY // TENSORS, 1)
    shapes = [(rows, width) if at % _EVERY == 0 else (16 + 48 * (at % 7),) for at in range(TENSORS)]
    p, g, m, v = ([normal(rng, *shape) for shape in shapes] for _ in range(4))
    return p, g, m, [np.abs(one) for one in v]
