"""Objects with tensors in them, as arguments and results: caches of keys and values, batches, dataclasses.

PyTorch's trees (``torch.utils._pytree``) are of containers and of classes that are registered there. An object of
another class, whose state is its attributes by name, is a tree of these here. A function is given an object of its own
in the place of such an argument; what it changes of that, and of lists and dicts, is changed of the caller's.
"""

from __future__ import annotations

import functools
import gc
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.utils._pytree import (
    SUPPORTED_NODES,
    MappingKey,
    SequenceKey,
    TreeSpec,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)

from dyn.frozen import record
from dyn.interop.torch.attributes import HOOKS, is_plain, own_names
from dyn.interop.torch.carried_sizes import MOST_CARRIED, carried_size, size_carrier
from dyn.trace.static_keys import Static

#: What leads to what is closed over.
_LEADING: Any = (FunctionType, MethodType, functools.partial, torch.nn.Module)
#: More than so many objects are not looked through for a tensor.
MOST = 10_000


@record()
class ObjectNumber:
    """The object of a number among those that an object leads to, in the order in which they are come to."""

    number: int


@record()
class IntegerNumber:
    """The integer of a number among those of an object and of what it leads to, in the order in which they are come
    to. Equal integers at the same place in objects of one class, in one object, are one: the layers of a cache are of
    one length."""

    number: int


@dataclass(slots=True)
class _Read:
    """Objects and integers that an object leads to, with their numbers, and the tensors that are passed for it."""

    tensors: list[torch.Tensor]
    objects: dict[int, int] = field(default_factory=dict)
    integers: dict[tuple[int | None, type, int, int], int] = field(default_factory=dict)

    def integer(self, outer: int | None, kind: type, place: int, value: int) -> IntegerNumber:
        """The layout of an integer, which is passed as a size: the leaf at a place in an object that is in ``outer``,
        by number."""
        key = (outer, kind, place, value)
        if key not in self.integers:
            self.integers[key] = len(self.integers)
            self.tensors.append(size_carrier(value))
        return IntegerNumber(self.integers[key])


@dataclass(slots=True)
class _Made:
    """Objects and integers that were made of the tensors that are passed, by number."""

    objects: list[Any] = field(default_factory=list)
    integers: list[Any] = field(default_factory=list)


@record()
class ObjectLayout:
    """An object without its tensors and integers: its class, and the tree of its attributes, with its leaves. Of these
    None is a tensor."""

    kind: type
    tree: TreeSpec
    leaves: tuple[Static | ObjectLayout | ObjectNumber | IntegerNumber | None, ...]

    def made(self, tensors: Iterator[Any], known: _Made | None = None) -> Any:
        """An object like that, of these tensors."""
        known = _Made() if known is None else known
        made = object.__new__(self.kind)
        known.objects.append(made)
        leaves: list[Any] = []
        for leaf in self.leaves:
            match leaf:
                case None:
                    leaves.append(next(tensors))
                case ObjectNumber(number):
                    leaves.append(known.objects[number])
                case IntegerNumber(number):
                    if number == len(known.integers):
                        known.integers.append(carried_size(next(tensors)))
                    leaves.append(known.integers[number])
                case ObjectLayout():
                    leaves.append(leaf.made(tensors, known))
                case Static():
                    leaves.append(leaf.value)
        own_names(made).update(tree_unflatten(leaves, self.tree))
        return made

    def has_integers(self) -> bool:
        """Return True if integers of the object, or of what it leads to, are passed as sizes."""
        return any(
            isinstance(leaf, IntegerNumber) or (isinstance(leaf, ObjectLayout) and leaf.has_integers())
            for leaf in self.leaves
        )

    def tensor_names(self, name: str) -> Iterator[str]:
        """The tensors that are passed for an object of that name, as a user would write them."""
        return self._tensor_names(name, set())

    def _tensor_names(self, name: str, integers: set[int]) -> Iterator[str]:
        for (attribute, *rest), leaf in zip(_paths_in(self.tree, ()), self.leaves, strict=True):
            own = f"{name}.{getattr(attribute, 'key', attribute)}{keystr(tuple(rest))}"
            match leaf:
                case None:
                    yield own
                case IntegerNumber(number):
                    if number not in integers:
                        integers.add(number)
                        yield own
                case ObjectLayout():
                    yield from leaf._tensor_names(own, integers)
                case _:
                    pass

    def statics(self) -> Iterator[Any]:
        """The attributes that are passed as they are."""
        for leaf in self.leaves:
            if isinstance(leaf, Static):
                yield leaf.value
            elif isinstance(leaf, ObjectLayout):
                yield from leaf.statics()


def leaf_paths(value: Any) -> list[tuple[Any, ...]]:
    """The path of each leaf of a tree, as PyTorch names its parts; those inside of classes that are registered without
    keys, which is how PyTorch does it unless it is asked, have numbers."""
    try:
        paths = [path for path, _ in tree_flatten_with_path(value)[0]]
    except Exception:  # of a class without keys, or the class's own
        paths = []
    structure = tree_structure(value)
    return paths if len(paths) == structure.num_leaves else list(_paths_in(structure, ()))


def _paths_in(tree: TreeSpec, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The paths of the leaves of a structure, without an object of it."""
    if tree.is_leaf():
        yield path
        return
    parts = tree.children()
    keys: Sequence[Any] = [SequenceKey(number) for number in range(len(parts))]
    if tree.type in (dict, OrderedDict):
        keys = [MappingKey(key) for key in tree.context]
    elif tree.type is defaultdict:
        keys = [MappingKey(key) for key in tree.context[1]]
    for key, part in zip(keys, parts, strict=True):
        yield from _paths_in(part, (*path, key))


class Opened:
    """The classes whose objects a function takes apart: those that held a tensor once, or that it changes, and those
    of objects that lead to such."""

    def __init__(self) -> None:
        self._kinds: set[type] = set()
        #: Whether their integers are sizes, and not parts of what programs are found by.
        self.integers_are_sizes = True

    def __contains__(self, value: Any) -> bool:
        return type(value) in self._kinds

    def add(self, value: Any) -> None:
        """Take objects like this one apart from now on."""
        self._kinds.add(type(value))

    def takes(self, value: Any) -> bool:
        """Whether an object is taken apart, which it is where it holds tensors."""
        kind = type(value)
        if kind in self._kinds:
            return True
        if kind in SIMPLE or not is_plain(kind) or not holds(value, self._is_inside):
            return False
        self._kinds.add(kind)
        return True

    def _is_inside(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) or type(value) in self._kinds

    def layout(self, value: Any, tensors: list[torch.Tensor]) -> ObjectLayout:
        """The layout of an object that is taken apart; its tensors, and those of its integers, join ``tensors``."""
        return self._layout(value, _Read(tensors), None)

    def _layout(self, value: Any, read: _Read, outer: int | None) -> ObjectLayout:
        own = read.objects[id(value)] = len(read.objects)
        made: list[Static | ObjectLayout | ObjectNumber | IntegerNumber | None] = []
        leaves, tree = tree_flatten(dict(own_names(value)), is_leaf=self.__contains__)
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                read.tensors.append(leaf)
                made.append(None)
            elif self.integers_are_sizes and type(leaf) is int and 0 <= leaf < MOST_CARRIED:  # below 0 are axes
                made.append(read.integer(outer, type(value), place, leaf))
            elif id(leaf) in read.objects:
                made.append(ObjectNumber(read.objects[id(leaf)]))
            else:
                made.append(self._layout(leaf, read, own) if self.takes(leaf) else Static("attribute", leaf))
        return ObjectLayout(type(value), tree, tuple(made))

    def containers(self, value: Any, *, plain: bool = False) -> list[Any]:
        """The lists, dicts and objects that arguments are made of, each once, in the order of the tree. With ``plain``
        all plain objects are looked into, and :data:`MOST` containers at most."""
        found: dict[int, Any] = {}
        left = [value]
        while left and not (plain and len(found) > MOST):
            one = left.pop()
            kind = type(one)
            if id(one) in found or kind in SIMPLE:
                continue
            if kind is list or kind in _DICTS:
                inside: Any = one if kind is list else one.values()
            elif kind in SUPPORTED_NODES:
                # One of a registered class is taken as a whole: a copy of it has what its tree says, and no more.
                inside = one if issubclass(kind, tuple) else ()
            elif one in self or (plain and is_plain(kind)):
                inside = own_names(one).values()
            else:
                continue
            if not isinstance(one, tuple):
                found[id(one)] = one
            if not plain or len(inside) <= MOST:
                left += reversed(list(inside))
        return list(found.values())


def closed_over(function: Any) -> tuple[Any, ...]:
    """The objects that a function reaches beside its arguments: those it closes over, lists and dicts that are its
    globals, and the same of the hooks of modules among these."""
    return tuple([one for one in reached(function) if not isinstance(one, _LEADING)])


def reached(function: Any) -> Iterator[Any]:
    """:func:`closed_over`, and the functions and modules that lead there, ``function`` among them."""
    left, seen = [function], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, FunctionType):
            names = [one.__globals__.get(name) for name in one.__code__.co_names]
            left += [value for value in names if type(value) in (list, dict) or isinstance(value, torch.nn.Module)]
            left += [cell.cell_contents for cell in one.__closure__ or () if is_set(cell)]
            left += one.__defaults__ or ()
        elif isinstance(one, MethodType):
            left += (one.__self__, one.__func__)
        elif isinstance(one, functools.partial):
            left += (one.func, *one.args, *one.keywords.values())
        elif isinstance(one, torch.nn.Module):
            for module in one.modules():
                for name in HOOKS:
                    left += (own_names(module).get(name) or {}).values()


def is_set(cell: CellType) -> bool:
    """Whether the variable of a closure has a value."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


#: Dicts that are changed as such.
_DICTS = (dict, OrderedDict, defaultdict)


def content(container: Any) -> Any:
    """A copy of what a container has: of an object its attributes, of one of a registered class its tree."""
    kind = type(container)
    if kind is list:
        return list(container)
    if kind in _DICTS:
        return dict(container)
    return tree_flatten(container) if kind in SUPPORTED_NODES else dict(own_names(container))


def fill(container: Any, new: Any) -> None:
    """Have a container hold this, and nothing else."""
    if type(container) is list:
        container[:] = new
        return
    own = container if type(container) in _DICTS else own_names(container)
    own.clear()
    own.update(new)


def is_filled(container: Any, old: Any) -> bool:
    """Whether a container has the very objects that it had."""
    now = content(container)
    if isinstance(old, dict):
        return [*now] == [*old] and all(a is b for a, b in zip(now.values(), old.values(), strict=True))
    if isinstance(old, tuple):
        (now, tree), (old, before) = now, old
        if tree != before:
            return False
    return len(now) == len(old) and all(a is b for a, b in zip(now, old, strict=True))


class Copies:
    """Containers with copies of what they had."""

    def __init__(self, containers: Sequence[Any]) -> None:
        self.containers = containers
        self._before = [content(one) for one in containers]

    def changed(self) -> list[int]:
        """The numbers of those that have something else now."""
        pairs = enumerate(zip(self.containers, self._before, strict=True))
        return [number for number, (one, old) in pairs if not is_filled(one, old)]

    def leading_to_changed(self) -> list[Any]:
        """The plain objects that have something else now, or lead to what has."""
        changed = {id(self.containers[number]) for number in self.changed()}
        if not changed:
            return []
        return [one for one in self.containers if is_plain(type(one)) and holds(one, lambda x: id(x) in changed)]

    def taken_back(self, wanted: Callable[[Any], bool]) -> Any:
        """A container that holds what is wanted now, which it did not before; all of these are as they were then."""
        found: Any = None
        for number in self.changed():
            one = self.containers[number]
            if type(one) in SUPPORTED_NODES and type(one) not in (list, *_DICTS):
                continue
            if holds(one, wanted):
                found = one
                fill(one, self._before[number])
        return found

    def restore(self) -> None:
        """Have everything as it was."""
        for number in self.changed():
            fill(self.containers[number], self._before[number])


def holds(value: Any, wanted: Callable[[Any], bool]) -> bool:
    """Whether an object is what is wanted, or leads to it: not by way of modules, classes and globals."""
    left, seen = [value], {id(value)}
    while left and len(seen) < MOST:
        one = left.pop()
        if wanted(one):
            return True
        if type(one) in SIMPLE or isinstance(one, _ENDS):
            continue
        if isinstance(one, FunctionType):
            inside: list[Any] = [*(one.__closure__ or ()), *(one.__defaults__ or ())]
        else:
            inside = gc.get_referents(one)
        for other in inside:
            if id(other) not in seen:
                seen.add(id(other))
                left.append(other)
    return False


#: Types of values that have no tensors and never change.
SIMPLE = (int, float, str, bool, bytes, complex, type(None), torch.dtype, torch.device)
_ENDS = (type, ModuleType, torch.nn.Module, torch.Tensor)
