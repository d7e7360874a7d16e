"""Calls of compiled functions of PyTorch by the native entry (``dyn.call``), and what has to be as it was for them.

A program relies on more than a call's arguments: on PyTorch's state, on the modules that the function calls, on where
the tensors lie that it closes over. Python asks for each of these at a call, and so does the entry, by itself: the same
lists are read by both.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_unflatten

from dyn.call import (
    STATIC,
    Argument,
    CallTable,
    Constant,
    Form,
    HeldDict,
    HeldTensor,
    LeafForm,
    NoPlanError,
    Results,
    Surroundings,
)
from dyn.hosts import TORCH
from dyn.interop.torch.results import Outputs, Plain, Plan, Returned, Tensor
from dyn.interop.torch.tensors import dyn_dtype
from dyn.specialize.version import Version
from dyn.trace.pytree import unflatten

#: What a module keeps by name, and what it calls before and after its own code.
_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def torch_state() -> Any:
    """PyTorch's state as a part of a program's key: default dtype, autocast, gradient mode."""
    autocast = torch.is_autocast_enabled("cpu")
    return torch.get_default_dtype(), autocast and torch.get_autocast_dtype("cpu"), torch.is_grad_enabled()


def entry_state(
    default_dtype: Callable[[], Any] = torch.get_default_dtype,
    is_autocast: Callable[[str], bool] = torch.is_autocast_enabled,
    autocast_dtype: Callable[[str], Any] = torch.get_autocast_dtype,
    has_gradients: Callable[[], bool] = torch.is_grad_enabled,
    function_modes: Callable[[], int] = torch._C._len_torch_function_stack,
    dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack,
) -> Any:
    """:func:`torch_state` for the entry; None where modes are active, which see what PyTorch does. It is asked at each
    call, so that what it calls is looked up once."""
    if function_modes() or dispatch_modes():
        return None
    return default_dtype(), is_autocast("cpu") and autocast_dtype("cpu"), has_gradients()


@dataclass(frozen=True, eq=False, slots=True)
class ModuleConditions:
    """Conditions of a program about modules: whether each trains, and the tables that it is made of.

    ``is_plain`` says that the entry can see all of it.
    """

    modules: tuple[weakref.ref[torch.nn.Module], ...]
    training: tuple[HeldDict, ...]
    structure: tuple[HeldDict, ...]
    is_plain: bool

    @staticmethod
    def of(called: Iterable[torch.nn.Module], ended: Callable[[Any], object]) -> ModuleConditions:
        """The conditions of modules and of those inside of them, as they are now; ``ended`` is called when one dies."""
        found = list(dict.fromkeys([module for one in called for module in one.modules()]))
        hooks: Any = torch.nn.modules.module
        structure = [_whole(one) for one in (hooks._global_forward_hooks, hooks._global_forward_pre_hooks) if found]
        training: list[HeldDict] = []
        is_plain = True
        for module in found:
            own = vars(module)
            tables: list[Any] = [own.get(name) for name in (*_TABLES, *_HOOKS)]
            if not all(isinstance(one, dict) for one in tables) or "training" not in own:
                is_plain = False  # TorchScript's
                continue
            training.append(HeldDict(own, (("training", own["training"]),), False))
            structure.append(HeldDict(own, tuple(zip((*_TABLES, *_HOOKS), tables, strict=True)), False))
            structure += [_whole(one) for one in tables]
        is_plain = is_plain and all(type(name) is str for one in structure for name, _ in one.entries)
        references = tuple([weakref.ref(module, ended) for module in found])
        return ModuleConditions(references, tuple(training), tuple(structure), is_plain)

    def is_current(self) -> bool:
        """Whether the modules are made of what they were."""
        return all(module() is not None for module in self.modules) and all(one.is_current() for one in self.structure)

    def is_training_same(self) -> bool:
        """Whether those train that did."""
        return all(one.is_current() for one in self.training)

    @property
    def dicts(self) -> list[HeldDict]:
        """Dicts that the entry looks at: each once, and none that only has what is in another one."""
        own = {id(one.names): one for one in self.structure if not one.whole}
        joined = [HeldDict(one.names, one.entries + own[id(one.names)].entries, False) for one in self.training]
        return [*joined, *[one for one in self.structure if one.whole]]


def _whole(names: Mapping[str, Any]) -> HeldDict:
    return HeldDict(names, tuple(names.items()), True)


@dataclass(frozen=True, eq=False, slots=True)
class Captured:
    """A tensor that a program captures, as it was then."""

    held: HeldTensor
    dtype: torch.dtype
    strides: tuple[int, ...]
    requires_grad: bool

    @staticmethod
    def of(tensor: torch.Tensor) -> Captured:
        """A tensor as it is now."""
        dtype = dyn_dtype(tensor.dtype)
        assert dtype is not None, "a trace captures what dyn has arrays of"
        held = HeldTensor(tensor, dtype, tuple(tensor.shape), tensor.data_ptr())
        return Captured(held, tensor.dtype, tensor.stride(), tensor.requires_grad)

    def is_current(self) -> bool:
        """Whether it lies where it did, and is read as it was."""
        held = self.held
        tensor: torch.Tensor = held.tensor
        return (
            tensor.data_ptr() == held.address
            and tensor.shape == held.shape
            and tensor.stride() == self.strides
            and tensor.dtype == self.dtype
            and not tensor.is_neg()
            and not tensor.is_conj()
            and tensor.requires_grad == self.requires_grad
        )


def accept(
    table: CallTable, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor], version: Version,
    modules: ModuleConditions, captured: Sequence[Captured],
) -> None:  # fmt: skip
    """Leave calls like this one, which ``version`` has made, to the native entry, if it can make them.

    All tensors lie in rows, and are different ones.
    """
    state = entry_state()
    outputs: Outputs = unflatten(version.traced.out_tree, list(range(version.traced.out_tree.num_leaves)))
    if state is None or not modules.is_plain:
        return
    around = Surroundings(modules.dicts, [one.held for one in captured])

    def form() -> Form:
        number = iter(range(len(tensors)))
        numbers = [_numbered(value, number) for value in (*args, *kwargs.values())]
        if next(number, None) is not None:
            raise NoPlanError
        return Form(args, kwargs, numbers, len(tensors), {n: LeafForm(rows=True) for n in range(len(tensors))}, state)

    with contextlib.suppress(NoPlanError):
        table.add(form, version.loaded, _results(outputs), around=around)


def _numbered(value: Any, numbers: Iterator[int]) -> Any:
    """A tree with a number in the place of each tensor; what is no plain container is static."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        number = next(numbers, None)
        if number is None:
            raise NoPlanError
        return number
    if kind is dict:
        return {name: _numbered(one, numbers) for name, one in value.items()}
    return kind([_numbered(one, numbers) for one in value]) if kind in (tuple, list) else STATIC


def _results(outputs: Outputs) -> Results:
    """From the results of a program to what the function returns: a tree of the entry's, or what Python makes.

    Raises NoPlanError where tensors are written or have gradients, and where views of arguments are returned.
    """
    plan = outputs.plan
    leaves = [_leaf(one, plan) for one in plan.returned]
    if plan.to_arguments or plan.to_captured or plan.derivative is not None:
        raise NoPlanError
    each_once = sorted([leaf for leaf in leaves if type(leaf) is int]) == list(range(len(outputs.results)))
    is_plain = each_once and _Odd not in leaves and _has_plain_containers(plan.tree)
    if not is_plain and any(isinstance(one, Tensor) and one.kind == "argument" for one in plan.returned):
        raise NoPlanError
    tree: Any = tree_unflatten(leaves, plan.tree) if is_plain else _Odd()
    return Results(tree, lambda results: plan.finish(results, ()), TORCH)


class _Odd:
    """In the place of what the entry cannot make."""


def _leaf(one: Returned, plan: Plan) -> Any:
    match one:
        case Plain(value):
            return Constant(value)
        case Tensor("result", base, None, ()):
            return base
        case Tensor("argument", base, None, ()):
            return Argument(base)
        case Tensor("captured", base, None, ()):
            return Constant(plan.captured[base])
        case _:
            return _Odd


def _has_plain_containers(tree: TreeSpec) -> bool:
    return tree.type in (None, tuple, list, dict) and all(map(_has_plain_containers, tree.children()))
