"""A memory-bound program: the same computation as each library's users write it, and its arguments at each size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
#: Makes arguments of about so many rows and columns.
Make = Callable[[np.random.Generator, int, int], tuple[Any, ...]]

#: What is added to a variance before its root is taken.
EPSILON = 1e-5

#: Rows and columns of the main array, float32. On the machines that dyn was measured on, it and its result lie in the
#: first level of the cache, in the second, in the third, and beyond.
SIZES: Mapping[str, tuple[int, int]] = {"L1": (4, 768), "L2": (64, 768), "L3": (512, 768), "beyond": (2048, 3072)}


@dataclass(frozen=True)
class Program:
    """A program with its form for NumPy, dyn, JAX (``jax.jit``) and PyTorch (eager).

    Arguments are arrays and lists of arrays. ``family`` is whose mean the program is counted in. ``for_inductor`` is
    what ``torch.compile`` is given, where that is not what eager PyTorch is best at; ``without`` names peers that are
    not asked. ``own_numbers`` says that each library draws random numbers of its own: then only what is known of them
    is checked.
    """

    name: str
    what: str
    make: Make
    numpy: Function
    dyn: Function
    jax: Function
    torch: Function
    tolerance: float = 2e-4
    own_numbers: bool = False
    family: str = ""
    for_inductor: Function | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class TorchGradient:
    """PyTorch's gradients of ``forward`` by its ``leading`` arguments; with ``cotangent`` a further argument is that of
    the result. Its tensors may not be made in PyTorch's inference mode.
    """

    forward: Function
    leading: int
    cotangent: bool

    def __call__(self, *arguments: Any) -> Any:
        import torch

        *inputs, cotangent = arguments if self.cotangent else (*arguments, None)
        leaves = [tensor.requires_grad_() for tensor in inputs[: self.leading]]
        return torch.autograd.grad(self.forward(*inputs), leaves, cotangent)

    def compiled(self, compile_form: Callable[[Function], Function]) -> TorchGradient:
        """The same of a compiled function: so PyTorch's users write it, and both directions are compiled."""
        return replace(self, forward=compile_form(self.forward))


def over(plain: Callable[..., Any], namespace: Any) -> Function:
    """A function of a namespace and arrays, with the namespace given."""
    return lambda *arguments: plain(namespace, *arguments)


def same(result: Any, expected: Any, tolerance: float) -> bool:
    """Whether results agree; they may be trees of tuples."""
    if isinstance(expected, tuple | list):
        return len(result) == len(expected) and all(map(lambda a, b: same(a, b, tolerance), result, expected))
    got, wanted = np.asarray(result), np.asarray(expected)
    if got.shape != wanted.shape:
        return False
    scale = max(float(np.max(np.abs(wanted), initial=0.0)), 1e-6)
    return bool(np.all(np.abs(got.astype("f8") - wanted.astype("f8")) <= tolerance * scale))
