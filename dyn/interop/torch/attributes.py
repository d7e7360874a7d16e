"""Attributes of modules that a traced function reads and sets.

A program has the values in it that plain attributes of modules had: ``self.scale``, ``self.config.window``. While a
function is traced, reads of modules are recorded, so that calls look at these attributes again, and at no others. What
the function sets is taken back after the trace, and is set by each call.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from dyn.call import ABSENT, HeldDict
from dyn.errors import NotYetError
from dyn.interop.torch.distributed import check_module
from dyn.interop.torch.subclasses import check_wrapper, parts_of
from dyn.source import Loc, user_loc
from dyn.trace.held import VALUES
from dyn.trace.patched_names import Replacement

#: Contents of these tables of a module are conditions of each program that calls it, whatever is read.
TABLES = ("_parameters", "_buffers", "_modules")
FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
#: What is called in its derivative.
BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
HOOKS = (*FORWARD_HOOKS, *BACKWARD_HOOKS)
#: Types of attributes whose values are as good as equal ones.
_VALUES = (*VALUES, torch.dtype, torch.device)


@lru_cache(maxsize=1024)
def is_plain(kind: type) -> bool:
    """Whether objects of a class have all of their state in attributes by name, as classes have it that Python code
    declares without ``__slots__``. Modules, optimizers and enumerations are no such classes."""
    if issubclass(kind, torch.nn.Module | torch.optim.Optimizer | Enum | BaseException):
        return False
    layers = [one for one in kind.__mro__ if one is not object]
    is_python = all(one.__flags__ & _HEAP and not vars(one).get("__slots__") for one in layers)
    return bool(layers) and is_python and kind.__new__ is object.__new__ and kind.__basicsize__ == _Plain.__basicsize__


_HEAP = 1 << 9


class _Plain:
    pass


def own_names(value: Any) -> dict[str, Any]:
    """The attributes that an object itself has, and not its class."""
    return object.__getattribute__(value, "__dict__")


@dataclass(eq=False, slots=True)
class Watched:
    """A dict of names of a module's, with what it had before the function came to it.

    ``owner`` is the module, or the object that is an attribute of one. Of an object all names are ``read``: None.
    """

    owner: Any
    names: dict[str, Any]
    before: dict[str, Any]
    read: set[str] | None = field(default_factory=set)
    #: Names that are no conditions.
    given: frozenset[str] = frozenset()

    def changed(self) -> dict[str, Any]:
        """The names that have other values now, with these."""
        both = {**self.before, **self.names}
        return {
            name: self.names.get(name, ABSENT)
            for name in both
            if self.names.get(name, ABSENT) is not self.before.get(name, ABSENT)
        }

    def restore(self, names: Any) -> None:
        """Have the values again that some names had before."""
        for name in names:
            if name in self.before:
                self.names[name] = self.before[name]
            else:
                self.names.pop(name, None)

    def held(self, *, tensors: bool) -> HeldDict:
        """The values that were read, as a condition: ``tensors``, or all else."""
        read = self.before.keys() if self.read is None else sorted(self.read)
        entries = [(name, self.before.get(name, ABSENT)) for name in read]
        kept = tuple([
            entry for entry in entries if isinstance(entry[1], torch.Tensor) is tensors and entry[0] not in self.given
        ])  # fmt: skip
        return HeldDict(self.names, kept, self.read is None and len(kept) == len(entries))


#: Dicts of names, each with the names whose values changed, and these.
Changes = list[tuple[Watched, dict[str, Any]]]


class Reads:
    """Attributes that a function reads of modules, and of plain objects and dicts that are attributes of modules."""

    def __init__(self, given: frozenset[tuple[int, str]] = frozenset()) -> None:
        #: What is ``given`` at each call, and so is no condition: identities of dicts of attributes, with the names.
        self._given = given
        self.watched: dict[int, Watched] = {}
        #: Modules that the function itself makes.
        self._own: dict[int, Any] = {}
        #: The tables of hooks of the modules that it comes to, with what they had before.
        self._hooks: list[tuple[torch.nn.Module, dict[Any, Any], dict[Any, Any]]] = []

    def note(self, module: torch.nn.Module, name: str, value: Any) -> None:
        """Note that an attribute is read, which has a value.

        Raises NotYetError where a module is called that no program calls.
        """
        if name == "forward":
            check_module(module)
        watched = self.watched.get(id(module))
        if watched is None:
            if id(module) in self._own:
                return
            if "_modules" not in own_names(module):  # it is read before it is complete
                self._own[id(module)] = module
                return
            watched = self._watch(module)
        assert watched.read is not None, "of a module single names are read"
        if name in watched.read or name in _COVERED or (id(watched.names), name) in self._given:
            return
        own = watched.names.get(name, ABSENT)
        if own is not watched.before.get(name, ABSENT):
            return  # it is the function's own
        if own is ABSENT:
            # Parts are looked at with their tables, and nobody replaces PyTorch's own methods for one module.
            if name not in _METHODS and not any(name in watched.names[table] for table in TABLES):
                watched.read.add(name)
            return
        watched.read.add(name)
        names = value if type(value) is dict else own_names(value) if is_plain(type(value)) else None
        if names is not None and id(names) not in self.watched and all(type(one) is str for one in names):
            self.watched[id(names)] = Watched(value, names, dict(names), None, self._given_of(names))

    def _given_of(self, names: dict[str, Any]) -> frozenset[str]:
        return frozenset([name for known, name in self._given if known == id(names)])

    def note_wrapper(self, tensor: torch.Tensor) -> None:
        """Note that a wrapper is used, whose tensors are attributes. UnsupportedOpError for one that is not taken."""
        check_wrapper(tensor)
        names: dict[str, Any] = own_names(tensor)
        if id(names) not in self.watched and not any(isinstance(one, FakeTensor) for one in parts_of(tensor)):
            self.watched[id(names)] = Watched(tensor, names, dict(names), None)

    def _watch(self, module: torch.nn.Module) -> Watched:
        names = own_names(module)
        watched = self.watched[id(module)] = Watched(module, names, dict(names))
        for table in TABLES:
            own = names.get(table)
            if isinstance(own, dict):
                self.watched[id(own)] = Watched(module, own, dict(own))
        for table in HOOKS:
            own = names.get(table)
            if isinstance(own, dict):
                self._hooks.append((module, own, dict(own)))
        return watched

    def hooked(self) -> torch.nn.Module | None:
        """A module whose hooks the function has changed, which is undone; None where it has changed none."""
        found = None
        for module, own, before in self._hooks:
            if own.keys() != before.keys():
                own.clear()
                own.update(before)
                found = module
        return found

    def recording(self) -> contextlib.AbstractContextManager[None]:
        """Record the reads of this thread."""
        return _READER.active(self)

    def rewritten(self, changes: Changes) -> list[tuple[Watched, str]]:
        """The attributes among ``changes`` that were read, too, and are conditions."""
        return [
            (one, name)
            for one, changed in changes
            for name in changed
            if (one.read is None or name in one.read) and (id(one.names), name) not in self._given
        ]  # fmt: skip

    def taken_back(self) -> Changes:
        """The changes that the function has made, which are undone."""
        changes = [(one, changed) for one in list(self.watched.values()) if (changed := one.changed())]
        for one, changed in changes:
            one.restore(changed)
        own = [(one, {name: new for name, new in changed.items() if name not in _DERIVED}) for one, changed in changes]
        return [(one, changed) for one, changed in own if changed]


class HooksChanged(NotYetError):
    """The function registers or removes hooks of a module, which no program does."""

    def __init__(self, module: torch.nn.Module, loc: Loc) -> None:
        super().__init__(
            f"a hook of a {type(module).__name__} that the function registers or removes.",
            loc=loc,
            remedy="register it before the function is called.",
        )
        self.module = module


_METHODS = vars(torch.nn.Module).keys() - {"forward"}
#: What recurrent modules keep of their parameters, and make anew whenever one is set.
_DERIVED = frozenset({"_flat_weights", "_flat_weight_refs"})
_COVERED = frozenset({*TABLES, *HOOKS, *_DERIVED, "training", "__dict__", "__class__"})


def _read(module: torch.nn.Module, name: str) -> Any:
    """An attribute of a module; which it was is noted."""
    recorder = _READER.current
    if recorder is None:
        return object.__getattribute__(module, name)
    try:
        value = object.__getattribute__(module, name)
    except AttributeError:
        recorder.note(module, name, None)
        raise
    recorder.note(module, name, value)
    return value


_READER: Replacement[Reads] = Replacement(torch.nn.Module, "__getattribute__", _read)


def same_values(held: HeldDict) -> bool:
    """Return True if a dict has what it had, or what is as good."""
    return held.is_alike(_VALUES)


def settable(changes: Changes) -> list[tuple[Any, dict[str, Any]]]:
    """The attributes that each call sets. NotYetError where a parameter, a buffer or a module is replaced, or an entry
    of a dict."""
    for watched, changed in changes:
        kind, name = type(watched.owner), next(iter(changed))
        if kind is dict:
            what, remedy = f"the entry {name!r} of a dict", "return the value."
        elif watched.names is not own_names(watched.owner):
            what = f"{kind.__name__}.{name}, a parameter, a buffer or a module,"
            remedy = f"write to it in place: self.{name}.copy_(...)."
        else:
            continue
        raise NotYetError(f"{what} is replaced in the function.", loc=user_loc(), remedy=remedy)
    return [(watched.owner, changed) for watched, changed in changes]
