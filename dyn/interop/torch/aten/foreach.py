"""Operations on lists (``torch._foreach_*``) whose loops PyTorch cannot be left: these look at memory.

All others are PyTorch's own loops of operations (:class:`dyn.interop.torch.tracing.TorchTracing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dyn.interop.torch.aten.tables import in_place
from dyn.interop.torch.data_dependent_numbers import number_of
from dyn.interop.torch.tensors import record_of
from dyn.interop.torch.tracing import TorchTracing


@in_place("_foreach_max.default")
def max(tracing: TorchTracing, tensors: Sequence[Any]) -> list[Any]:
    with tracing:
        return [torch.ops.aten.max.default(tensor) for tensor in tensors]


def _by_entry(operation: Any) -> Callable[..., Any]:
    """``operation(tensor, a, b, value=number)`` for each entry of lists, with the numbers in one tensor."""

    def run(tracing: TorchTracing, tensors: Sequence[Any], a: Sequence[Any], b: Sequence[Any], scalars: Any) -> Any:
        with tracing:
            numbers = [number_of(tracing.env, record_of(one).value) for one in scalars.unbind()]
            made = [operation(*entry, value=n) for *entry, n in zip(tensors, a, b, numbers, strict=True)]
        return None if operation.__name__.endswith("_") else made

    return run


for _name in ("addcmul", "addcdiv", "addcmul_", "addcdiv_"):
    in_place(f"_foreach_{_name}.Tensor")(_by_entry(getattr(torch.ops.aten, _name)))
