"""Calls of compiled functions of PyTorch by the native entry (``dyn.call``), and what has to be as it was for them.

A program relies on more than a call's arguments: on PyTorch's state, on the modules that the function calls, on where
the tensors lie that it closes over. Python asks for each of these at a call, and so does the entry, by itself: the same
lists are read by both.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad
from torch.utils._pytree import TreeSpec, tree_unflatten

from dyn import api
from dyn.backends.host_programs import LoadedProgram
from dyn.call import (
    ABSENT,
    STATIC,
    ArgumentResult,
    CallForm,
    CallTable,
    ConstantResult,
    HeldDict,
    HeldTensor,
    LeafForm,
    NoPlanError,
    Results,
    Surroundings,
    make_table,
)
from dyn.frozen import record
from dyn.hosts import TORCH
from dyn.interop.torch.arguments import unsupported
from dyn.interop.torch.attributes import BACKWARD_HOOKS, FORWARD_HOOKS, TABLES, Watched, own_names, same_values
from dyn.interop.torch.devices import autocasts
from dyn.interop.torch.results import TorchOutputs
from dyn.interop.torch.return_plans import Plain, Returned, ReturnedEither, ReturnedTensor, ReturnPlan
from dyn.interop.torch.tensors import dyn_dtype
from dyn.interop.torch.threads import thread_limit
from dyn.specialize.version import Version
from dyn.trace.pytree import unflatten


def torch_state() -> Any:
    """PyTorch's state as a part of a program's key: default dtype, autocast, gradient mode."""
    return torch.get_default_dtype(), autocasts(), torch.is_grad_enabled()


def entry_state(
    default_dtype: Callable[[], Any] = torch.get_default_dtype,
    is_autocast: Callable[[], bool] = torch._C._is_any_autocast_enabled,
    has_gradients: Callable[[], bool] = torch.is_grad_enabled,
    function_modes: Callable[[], int] = torch._C._len_torch_function_stack,
    dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack,
    threads: Callable[[], int] = torch.get_num_threads,
    forward_mode: Any = forward_ad,
) -> Any:
    """:func:`torch_state` for the entry, and how many threads PyTorch allows; None where modes are active, which see
    what PyTorch does, or derivatives taken forwards. It is asked at each call: what it calls is looked up once."""
    if function_modes() or dispatch_modes() or forward_mode._current_level >= 0:
        return None
    return default_dtype(), is_autocast() and autocasts(), has_gradients(), threads()


def transformation() -> str | None:
    """A transformation of PyTorch's that the call at hand is a part of, in words; None where there is none.

    Any tensor may have a batch or a tangent then that nobody sees on it, those that are closed over among them.
    """
    if forward_ad._current_level >= 0:
        return "torch.autograd.forward_ad.dual_level"
    return None if peek_interpreter_stack() is None else "a transformation of torch.func (grad, vmap, jvp or another)"


@record(eq=False)
class ModuleConditions:
    """Conditions of a program about modules: the attributes that it read of each, whether each trains, and the tables
    that it is made of.

    ``is_plain`` says that the entry can see all of it. It need not look at ``backward``, the hooks of derivatives.
    """

    modules: tuple[weakref.ref[torch.nn.Module], ...]
    attributes: tuple[HeldDict, ...]
    structure: tuple[HeldDict, ...]
    backward: tuple[HeldDict, ...]
    is_plain: bool

    @staticmethod
    def of(watched: Iterable[Watched], ended: Callable[[Any], object]) -> ModuleConditions:
        """The conditions of modules and of those inside of them; ``ended`` is called when one dies."""
        read = list(watched)
        called = [one.owner for one in read if isinstance(one.owner, torch.nn.Module)]
        found = list(dict.fromkeys([module for one in called for module in one.modules()]))
        hooks: Any = torch.nn.modules.module
        structure = [_whole(getattr(hooks, f"_global{name}")) for name in FORWARD_HOOKS if found]
        backward = [_whole(getattr(hooks, f"_global{name}")) for name in BACKWARD_HOOKS if found]
        attributes = [held for one in read if (held := one.held(tensors=False)).entries or held.whole]
        structure += [held for one in read if (held := one.held(tensors=True)).entries]
        is_plain = True
        for module in found:
            own = own_names(module)
            tables: list[Any] = [own.get(name) for name in (*TABLES, *FORWARD_HOOKS)]
            if not all(isinstance(one, dict) for one in tables) or "training" not in own:
                is_plain = False  # TorchScript's
                continue
            attributes.append(HeldDict(own, (("training", own["training"]),), False))
            structure.append(HeldDict(own, tuple(zip((*TABLES, *FORWARD_HOOKS), tables, strict=True)), False))
            structure += [_whole(one) for one in tables]
            backward += [_whole(own[name]) for name in BACKWARD_HOOKS if isinstance(own.get(name), dict)]
        looked_at = [*structure, *attributes]
        is_plain = is_plain and all(type(name) is str for one in looked_at for name, _ in one.entries)
        references = tuple([weakref.ref(module, ended) for module in found])
        return ModuleConditions(references, tuple(attributes), tuple(structure), tuple(backward), is_plain)

    def joined(self, other: ModuleConditions) -> ModuleConditions:
        """These conditions and others, each once."""

        def once(held: Iterable[HeldDict]) -> tuple[HeldDict, ...]:
            return tuple({
                (id(one.names), one.whole, *[(name, id(value)) for name, value in one.entries]): one for one in held
            }.values())  # fmt: skip

        return ModuleConditions(
            tuple(dict.fromkeys((*self.modules, *other.modules))),
            once((*self.attributes, *other.attributes)),
            once((*self.structure, *other.structure)),
            once((*self.backward, *other.backward)),
            self.is_plain and other.is_plain,
        )

    def is_current(self) -> bool:
        """Whether the modules are made of what they were."""
        held = (*self.structure, *self.backward)
        return all(module() is not None for module in self.modules) and all(one.is_current() for one in held)

    def are_attributes_same(self) -> bool:
        """Whether attributes are what they were, or equal."""
        return all(map(same_values, self.attributes))

    def are_attributes_identical(self) -> bool:
        """Whether attributes are the objects that they were, which is what the entry looks at."""
        return all(one.is_current() for one in self.attributes)

    def renewed(self) -> ModuleConditions:
        """These conditions with the objects that the attributes are now."""
        now = [
            HeldDict(one.names, tuple([(name, one.names.get(name, ABSENT)) for name, _ in one.entries]), one.whole)
            for one in self.attributes
        ]
        return replace(self, attributes=tuple(now))

    @property
    def dicts(self) -> list[HeldDict]:
        """Dicts that the entry looks at: each once."""
        parts: dict[int, HeldDict] = {id(one.names): one for one in (*self.structure, *self.attributes) if one.whole}
        for one in (*self.attributes, *self.structure):
            known = parts.get(id(one.names))
            if known is None:
                parts[id(one.names)] = one
            elif not known.whole:
                entries = tuple(dict((*known.entries, *one.entries)).items())
                parts[id(one.names)] = HeldDict(one.names, entries, False)
        return list(parts.values())


def _whole(names: Mapping[str, Any]) -> HeldDict:
    return HeldDict(names, tuple(names.items()), True)


@record(eq=False)
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
        return self.held.tensor.data_ptr() == self.held.address and self._is_alike()

    def has_moved(self) -> bool:
        """Whether it lies elsewhere, and is read as it was."""
        if unsupported(self.held.tensor) is not None:
            return False
        return self.held.tensor.data_ptr() != self.held.address and self._is_alike()

    def _is_alike(self) -> bool:
        tensor: torch.Tensor = self.held.tensor
        return (
            tensor.shape == self.held.shape
            and tensor.stride() == self.strides
            and tensor.dtype == self.dtype
            and not tensor.is_neg()
            and not tensor.is_conj()
            and tensor.requires_grad == self.requires_grad
        )


@record(eq=False)
class Watch:
    """Native check of a program's conditions: a call by the entry, of a program of nothing, under these conditions.

    It says yes or does not know. Tensors are looked at with whether they require gradients, which the entry does not
    see.
    """

    modules: tuple[weakref.ref[torch.nn.Module], ...]
    tensors: tuple[torch.Tensor, ...]
    requires_grad: list[bool]
    check: Callable[[], Any]

    @staticmethod
    def of(modules: ModuleConditions, captured: Sequence[Captured]) -> Watch | None:
        """The check of what a program has read and captured; None where there is no entry, or it cannot see it all."""
        has_hooks = any(one.entries for one in modules.backward)  # by numbers, which the entry does not look up
        table = make_table(_unknown) if modules.is_plain and not has_hooks else None
        if table is None:
            return None
        dicts = [*modules.dicts, *modules.backward]
        around = Surroundings(dicts, [one.held for one in captured])
        table.add(lambda: CallForm((), {}, [], 0), _nothing(), Results((), tuple), around=around)
        flags = [one.requires_grad for one in captured]
        return Watch(modules.modules, tuple([one.held.tensor for one in captured]), flags, table.function)

    def holds(self) -> bool:
        """Whether all is known to be as it was."""
        has_gradients = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # the entry leaves tensors that require gradients to Python otherwise
        try:
            found = self.check()
        finally:
            torch._C._set_grad_enabled(has_gradients)
        return (
            found is not None
            and None not in [module() for module in self.modules]
            and [tensor.requires_grad for tensor in self.tensors] == self.requires_grad
        )


def _unknown() -> None:
    """The slow path of a check."""


@functools.lru_cache(maxsize=1)
def _nothing() -> LoadedProgram:
    """The program that :class:`Watch` has the entry call."""
    return api.jit(lambda: ()).version_of().loaded


def accept(
    table: CallTable, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor], version: Version,
    modules: ModuleConditions, captured: Sequence[Captured],
) -> None:  # fmt: skip
    """Leave calls like this one, which ``version`` has made, to the native entry, if it can make them.

    All tensors lie in rows, and are different ones.
    """
    state = entry_state()
    outputs: TorchOutputs = unflatten(version.traced.out_tree, list(range(version.traced.out_tree.num_leaves)))
    if state is None or not modules.is_plain:
        return
    around = Surroundings(modules.dicts, [one.held for one in captured], thread_limit())

    def form() -> CallForm:
        number = iter(range(len(tensors)))
        numbers = [_numbered(value, number) for value in (*args, *kwargs.values())]
        if next(number, None) is not None:
            raise NoPlanError
        return CallForm(
            args, kwargs, numbers, len(tensors), {n: LeafForm(rows=True) for n in range(len(tensors))}, state
        )

    with contextlib.suppress(NoPlanError):
        # Tensors on the CPU are numbers, and others that PyTorch takes among those on a GPU.
        table.add(form, version.loaded, _results(outputs), around=around, copies=True)


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


def _results(outputs: TorchOutputs) -> Results:
    """From the results of a program to what the function returns: a tree of the entry's, or what Python makes.

    Raises NoPlanError where tensors are written or have gradients, and where views of arguments are returned.
    """
    plan = outputs.plan
    returned, tree_of_results = plan.result.leaves, plan.result.tree
    leaves = [_leaf(one, plan) for one in returned]
    if plan.writes or plan.derivative is not None or not plan.is_of_results:
        raise NoPlanError
    for one in returned:
        if isinstance(one, ReturnedEither) or (isinstance(one, ReturnedTensor) and one.at_sizes is not None):
            raise NoPlanError
    each_once = sorted([leaf for leaf in leaves if type(leaf) is int]) == list(range(len(outputs.results)))
    is_plain = each_once and _Odd not in leaves and _has_plain_containers(tree_of_results)
    if not is_plain and any(isinstance(one, ReturnedTensor) and one.kind == "argument" for one in returned):
        raise NoPlanError
    tree: Any = tree_unflatten(leaves, tree_of_results) if is_plain else _Odd()
    return Results(tree, lambda results: plan.finish(results, ()), TORCH)


class _Odd:
    """In the place of what the entry cannot make."""


def _leaf(one: Returned, plan: ReturnPlan) -> Any:
    match one:
        case Plain(value):
            return ConstantResult(value)
        case ReturnedTensor("result", base, None, ()):
            return base
        case ReturnedTensor("argument", base, None, ()):
            return ArgumentResult(base)
        case ReturnedTensor("captured", base, None, ()):
            return ConstantResult(plan.captured[base])
        case _:
            return _Odd


def _has_plain_containers(tree: TreeSpec) -> bool:
    return tree.type in (None, tuple, list, dict) and all(map(_has_plain_containers, tree.children()))
