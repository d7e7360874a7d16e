"""Gradients of operations that have regions: each is run once more, recorded, in a region of the second half."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

import dyn.numpy as dnp
from dyn.errors import NotYetError
from dyn.interop.torch.composites import refuse_second_derivatives
from dyn.interop.torch.converters import HIGHER_ORDER
from dyn.interop.torch.devices import autocast, autocasts
from dyn.interop.torch.function_modes import FunctionMode
from dyn.interop.torch.regions import Needs, here, value_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


class _InPlaceOf(FunctionMode):
    """While it is active, operations are given other tensors in the place of some, by identity."""

    def __init__(self, others: Mapping[int, Any]) -> None:
        super().__init__(HIGHER_ORDER)
        self.others = others

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.call(func, *with_others((args, kwargs or {}), self.others))


class Recorded:
    """PyTorch's state in the forward pass, under which a region is run once more in the backward pass."""

    def __init__(self, tracing: TorchTracing, keys: Mapping[Any, int]) -> None:
        self.tracing, self.keys = tracing, keys
        self.autocasts = autocasts()
        #: The tensors in whose place others stand, by identity, where it is run in the second half of another region.
        self._others = tracing.others

    def alias(self, tensor: Any) -> Any:
        """A tensor from outside, of which autograd knows nothing but what the region does with it."""
        return self.tracing.taken(tensor).detach().requires_grad_()

    def pulled(
        self, run: Callable[[], Any], leaves: Sequence[Any], others: Mapping[int, Any], cotangents: Sequence[Any],
        step: Any = None,
    ) -> list[Tracer]:  # fmt: skip
        """Cotangents of ``leaves`` in the region that is being traced, from those of the tensors that ``run()`` gives.

        ``others`` stand in the place of tensors that it closes over, by their identity.
        """
        tracing, drawn = self.tracing, self.tracing.keys.position
        tracing.keys.go_to(self.keys)
        others = {**{key: others.get(id(one), one) for key, one in self._others.items()}, **others}
        with (
            tracing.scope() as scope, tracing.keys.drawing_in(here(), step), torch.enable_grad(),
            autocast(self.autocasts),
        ):  # fmt: skip
            with _InPlaceOf(others), tracing.standing_in(others):
                made = [one for one in tree_leaves(run()) if is_differentiable(one)]
            if scope.read or scope.written:
                raise NotYetError(
                    "gradients through a branch or loop, of a tensor that PyTorch's functions are not given as it is.",
                    loc=user_loc(),
                    remedy="pass tensors that have gradients as operands, and write to none of them.",
                )
            asked = [pair for pair in zip(made, cotangents, strict=True) if pair[0].requires_grad]
            found: Sequence[Any] = [None] * len(leaves)
            if asked:
                outputs, given = ([pair[side] for pair in asked] for side in (0, 1))
                found = torch.autograd.grad(outputs, list(leaves), given, allow_unused=True)
        tracing.keys.go_to(drawn)
        pairs = zip(found, [value_of(tracing, leaf) for leaf in leaves], strict=True)
        return [zeros_like(like) if one is None else value_of(tracing, one) for one, like in pairs]


def zeros_like(like: Tracer) -> Tracer:
    return dnp.zeros(like.shape, dtype=like.dtype)


def is_differentiable(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and (tensor.dtype.is_floating_point or tensor.dtype.is_complex)


class _RegionCall(torch.autograd.Function):
    """The node of autograd's graph that an operation is: ``pull`` gives cotangents of inputs from those of results."""

    @staticmethod
    def forward(ctx: Any, pull: Callable[..., Any], results: Sequence[Any], *inputs: Any) -> Any:
        ctx.pull = pull
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(*[one for one in results if not is_differentiable(one)])
        ctx.is_differentiable = [is_differentiable(one) for one in results]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        refuse_second_derivatives("a branch or loop")
        _ = ctx.saved_tensors  # PyTorch's check that none was written since
        given = [one for one, asked in zip(cotangents, ctx.is_differentiable, strict=True) if asked]
        return None, None, *ctx.pull(given)


def attached(
    tracing: TorchTracing,
    results: list[Any],
    pull: Callable[[Sequence[Any]], Mapping[int, Tracer]],
    inputs: dict[int, Any],
) -> list[Any]:
    """Results that know what they depend on.

    ``pull`` gives the cotangents of inputs, by identity, from those of the results that have some.
    """
    tensors = [one for one in results if isinstance(one, torch.Tensor)]
    if not inputs or not any(map(is_differentiable, tensors)):
        return results

    def pulled(cotangents: Sequence[Any]) -> list[Any]:
        found = pull(cotangents)
        return [tracing.maker.fresh(found[key], one.dtype, one.device) for key, one in inputs.items()]

    made = iter(_RegionCall.apply(pulled, tensors, *inputs.values()))
    return [next(made) if isinstance(one, torch.Tensor) else one for one in results]


def with_gradients(*trees: Any) -> dict[int, Any]:
    """The tensors of trees that get gradients, by identity."""
    return {id(leaf): leaf for leaf in tree_leaves(trees) if isinstance(leaf, torch.Tensor) and leaf.requires_grad}


def refuse_writes(needs: Needs, what: str) -> None:
    if needs.written:
        raise NotYetError(
            f"gradients through {what} that writes to tensors from outside.",
            loc=user_loc(),
            remedy="return what is written, or call it under torch.no_grad().",
        )


def with_others(tree: Any, others: Mapping[int, Any]) -> Any:
    """A tree with other leaves in the place of some, by identity."""
    return tree_map(lambda one: others.get(id(one), one), tree)
