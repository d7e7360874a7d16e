"""Tensors of classes that wrap others, as quantized weights are (``__tensor_flatten__``, ``__torch_dispatch__``).

One that is an argument is taken apart: the program is given the tensors inside of it, and its sizes, and the function a
wrapper of what is traced. The class's own code says what operations on it are, in the trace as it does elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from dyn.errors import UnsupportedOpError
from dyn.frozen import record
from dyn.source import user_loc
from dyn.trace.static_keys import Static


def is_wrapper(value: Any) -> bool:
    """Whether a tensor is of a class that wraps others, and can be taken apart."""
    return type(value) not in _PLAIN and is_traceable_wrapper_subclass(value)


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def wrappers_in(types: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The wrappers among the arguments of an operation, whose tensors are of these classes."""
    if not any(kind is not FakeTensor and is_traceable_wrapper_subclass_type(kind) for kind in types):
        return []
    return [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor) and is_wrapper(one)]


def parts_of(tensor: Any) -> list[Any]:
    """The tensors in a wrapper, and those in wrappers in it."""
    found = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    return [part for one in found for part in (parts_of(one) if is_wrapper(one) else [one])]


def check_wrapper(tensor: torch.Tensor) -> None:
    """Raise UnsupportedOpError for a wrapper with gradients of its own, or whose operations talk to other processes."""
    name = type(tensor).__name__
    if tensor.requires_grad and torch.is_grad_enabled():
        raise UnsupportedOpError(
            f"gradients of a tensor of the class {name}.",
            loc=user_loc(),
            remedy="call it under torch.no_grad(), or with one that does not require gradients.",
        )
    distributed = sys.modules.get("torch.distributed.tensor")
    if distributed is not None and isinstance(tensor, distributed.DTensor):
        raise UnsupportedOpError(
            f"a tensor of the class {name}, which lies in several processes.",
            loc=user_loc(),
            remedy="pass a plain, dense torch.Tensor on the CPU: tensor.to_local().",
        )


@record()
class WrapperLayout:
    """A wrapper without the tensors inside: its class, their names, and what else it is made of.

    ``inside`` has for each of them None, or the layout of a wrapper again. The last tensor has its sizes, no elements.
    """

    kind: Any
    names: tuple[str, ...]
    context: tuple[Static, ...]
    tree: TreeSpec
    inside: tuple[WrapperLayout | None, ...]

    @staticmethod
    def of(tensor: Any, tensors: list[torch.Tensor]) -> WrapperLayout:
        """The layout of a wrapper, whose tensors join ``tensors``. Raises UnsupportedOpError for what is not taken."""
        check_wrapper(tensor)
        if not tensor.is_contiguous():
            raise UnsupportedOpError(
                f"a tensor of the class {type(tensor).__name__} that does not lie in rows.",
                loc=user_loc(),
                remedy="pass its contiguous().",
            )
        names, context = tensor.__tensor_flatten__()
        leaves, tree = tree_flatten(context)
        inside: list[WrapperLayout | None] = []
        for name in names:
            inner = getattr(tensor, name)
            if is_wrapper(inner):
                inside.append(WrapperLayout.of(inner, tensors))
            else:
                inside.append(None)
                tensors.append(inner)
        tensors.append(torch.empty((*tensor.shape, 0), dtype=torch.uint8))
        statics = tuple([Static("argument", leaf) for leaf in leaves])
        return WrapperLayout(type(tensor), tuple(names), statics, tree, tuple(inside))

    def tensor_names(self, name: str) -> Iterator[str]:
        """The tensors in a wrapper of that name, as a user would write them."""
        for inner, layout in zip(self.names, self.inside, strict=True):
            own = f"{name}.{inner}"
            yield from [own] if layout is None else layout.tensor_names(own)
        yield name

    def made(self, tensors: Iterator[Any]) -> Any:
        """A wrapper of these tensors."""
        inner = {
            name: next(tensors) if one is None else one.made(tensors)
            for name, one in zip(self.names, self.inside, strict=True)
        }
        size = tuple(next(tensors).shape[:-1])
        strides: list[Any] = [1] * len(size)
        for axis in range(len(size) - 1, 0, -1):
            strides[axis - 1] = strides[axis] * size[axis]
        context = tree_unflatten([one.value for one in self.context], self.tree)
        return self.kind.__tensor_unflatten__(inner, context, size, tuple(strides))
