"""``dynamic_shapes=`` of ``dyn.interop.torch.jit``: which axes are dynamic, as ``torch.export`` has it said.

A tree like the arguments', with a dict from axes to dims, or a sequence of dims, for each tensor. ``Dim("n", min=1)``
is a name with a range: used twice it is one size, which each call checks as it does the range. ``Dim.DYNAMIC`` and
``Dim.AUTO`` are dims of their own, an int is the one size that there is, and ``Dim.STATIC`` makes a program for each
size. An axis of which nothing is said, or None, is dynamic, unlike in ``torch.export``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.dynamic_shapes import _DerivedDim, _DimHint, _DimHintType
from torch.utils._pytree import GetAttrKey, KeyEntry, MappingKey, SequenceKey, tree_flatten_with_path

from dyn.errors import ArgumentError
from dyn.shapes import NamedDim
from dyn.source import user_loc

#: An axis as ``dyn.jit`` takes it: a size, the name of one or an expression, None for a dim of its own.
Axis = int | str | None
_STATIC = _DimHintType.STATIC


@dataclass(frozen=True)
class DeclaredShapes:
    """What is declared of the tensors of a call: their axes, where those of ``Dim.STATIC`` are, and the named dims."""

    axes: tuple[tuple[Axis, ...] | None, ...]
    static: tuple[tuple[int, int], ...] = ()
    dims: tuple[NamedDim, ...] = ()

    def of(self, tensors: Sequence[torch.Tensor]) -> DeclaredShapes:
        """The same with the sizes of these tensors in static axes: part of the key of a program."""
        if not self.static:
            return self
        axes = [None if one is None else list(one) for one in self.axes]
        for number, axis in self.static:
            row = axes[number]
            assert row is not None, "a static axis is declared"
            row[axis] = tensors[number].shape[axis]
        return DeclaredShapes(tuple([None if one is None else tuple(one) for one in axes]), (), self.dims)

    def among(self, tensors: Sequence[torch.Tensor], declared: Sequence[torch.Tensor]) -> DeclaredShapes:
        """Shapes of all ``tensors`` that are passed, those of objects too, of which nothing is ``declared``."""
        if len(tensors) == len(declared):
            return self
        left = iter(zip(declared, self.axes, strict=True))
        tensor, own = next(left, (None, None))
        axes: list[tuple[Axis, ...] | None] = []
        for one in tensors:
            axes.append(own if one is tensor else None)
            if one is tensor:
                tensor, own = next(left, (None, None))
        return DeclaredShapes(tuple(axes), self.static, self.dims)


class DynamicShapes:
    """What is said of the axes of a function's arguments.

    Raises ArgumentError for a tree that is none, and for an argument that the function does not have.
    """

    def __init__(self, function: Callable[..., Any], tree: Any) -> None:
        self._made_of = (function, tree)
        self.name = getattr(function, "__name__", type(function).__name__)
        try:
            called = function.forward if isinstance(function, torch.nn.Module) else function
            parameters = list(inspect.signature(called).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        self.positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        named = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
        self.by_name = self._by_name(tree, [p.name for p in parameters if p.name != named], named is not None)
        self._found: dict[Any, DeclaredShapes] = {}

    def __reduce__(self) -> Any:
        return DynamicShapes, self._made_of

    def _by_name(self, tree: Any, names: Sequence[str], takes_any: bool) -> dict[str, Any]:
        if isinstance(tree, Mapping):
            for name in tree:
                if name not in names and not takes_any:
                    raise _bad(f"{self.name} has no argument {name!r}", f"it has {', '.join(names) or 'none by name'}.")
            return dict(tree)
        if not isinstance(tree, list | tuple):
            raise _bad(f"{tree!r} is no tree of the arguments", "pass a dict by name, or a tuple by position.")
        if len(tree) > len(self.positional) and self.rest is None and self.positional:
            raise _bad(f"{len(tree)} entries, and {self.name} has {len(self.positional)} arguments", "leave some out.")
        return {self._called(number): entry for number, entry in enumerate(tree)}

    def _called(self, number: int) -> str:
        """The name of a positional argument."""
        if number < len(self.positional):
            return self.positional[number]
        return f"{'args' if self.rest is None else self.rest}[{number - len(self.positional)}]"

    def declared(self, args: tuple[Any, ...], kwargs: dict[str, Any], key: Any) -> DeclaredShapes:
        """What is declared of the tensors of a call. ``key`` has its tree and the ranks."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._spread(args, kwargs)
        return found

    def _spread(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DeclaredShapes:
        arguments: dict[str, list[tuple[tuple[KeyEntry, ...], Any]]] = {}
        for path, leaf in tree_flatten_with_path((args, kwargs))[0]:
            first = path[1]
            name = self._called(first.idx) if isinstance(first, SequenceKey) else str(getattr(first, "key", first))
            arguments.setdefault(name, []).append((tuple(path[2:]), leaf))
        by_name, rest = dict(self.by_name), self.by_name.get(self.rest or "")
        if isinstance(rest, list | tuple):
            by_name |= {f"{self.rest}[{number}]": entry for number, entry in enumerate(rest)}
        collector = _AxisCollector()
        for name, leaves in arguments.items():
            collector.spread(name, by_name.get(name), leaves)
        return DeclaredShapes(tuple(collector.axes), tuple(collector.static), tuple(collector.dims.values()))


class _AxisCollector:
    """Collects the axes of tensors, in their order, and the dims that are named."""

    def __init__(self) -> None:
        self.axes: list[tuple[Axis, ...] | None] = []
        self.static: list[tuple[int, int]] = []
        self.dims: dict[str, NamedDim] = {}

    def spread(self, name: str, spec: Any, leaves: Sequence[tuple[tuple[KeyEntry, ...], Any]]) -> None:
        """A declaration over the leaves of an argument, or a part of one."""
        if len(leaves) == 1 and not leaves[0][0]:
            self._leaf(name, spec, leaves[0][1])
            return
        parts: dict[KeyEntry, list[tuple[tuple[KeyEntry, ...], Any]]] = {}
        for path, leaf in leaves:
            parts.setdefault(path[0], []).append((path[1:], leaf))
        entries = _entries(name, spec, list(parts))
        for key, part in parts.items():
            self.spread(f"{name}{key}", entries.get(key), part)

    def _leaf(self, name: str, spec: Any, leaf: Any) -> None:
        if not isinstance(leaf, torch.Tensor):
            if spec is not None:
                raise _bad(f"{name} is {leaf!r}, and dims are declared of it", "declare None.")
            return
        if spec is None:
            self.axes.append(None)
            return
        axes: list[Axis] = [None] * leaf.ndim
        for axis, dim in _by_axis(name, spec, leaf.ndim).items():
            if isinstance(dim, _DimHint) and dim.type is _STATIC:
                self.static.append((len(self.axes), axis))
            else:
                axes[axis] = self._axis(f"{name}, axis {axis}", dim)
        self.axes.append(tuple(axes))

    def _axis(self, where: str, dim: Any) -> Axis:
        if dim is None:
            return None
        if isinstance(dim, int) and not isinstance(dim, bool) and dim >= 0:
            return dim
        if isinstance(dim, _DimHint):
            if dim.min is None and dim.max is None:
                return None
            own = "".join([c if c.isalnum() else "_" for c in where.replace(", axis ", "_")])
            return self._named(where, NamedDim(own, dim.min or 0, dim.max))
        if isinstance(dim, _DerivedDim):
            root = self._named(where, _named_dim(dim.root))
            offset = dim.fn(0)
            return f"{dim.fn(1) - offset}*{root}{offset:+d}"
        if isinstance(dim, torch.export.Dim | NamedDim):
            return self._named(where, _named_dim(dim))
        raise _bad(
            f"{dim!r}, of {where}, is no dim",
            "write an int of at least 0, torch.export.Dim('n'), Dim.DYNAMIC, Dim.AUTO, Dim.STATIC or None.",
        )

    def _named(self, where: str, dim: NamedDim) -> str:
        known = self.dims.setdefault(dim.name, dim)
        if known != dim:
            raise _bad(
                f"{where} is {dim.describe()}, and elsewhere {known.describe()}", "give each dim a name of its own."
            )
        return dim.name


def _named_dim(dim: Any) -> NamedDim:
    if isinstance(dim, NamedDim):
        return dim
    return NamedDim(dim.__name__, int(dim.min), int(dim.max) if isinstance(dim.max, int) else None)


def _by_axis(name: str, spec: Any, rank: int) -> Mapping[int, Any]:
    """A declaration of a tensor by its axes."""
    if isinstance(spec, Mapping):
        for axis in spec:
            if not isinstance(axis, int) or not 0 <= axis < rank:
                raise _bad(f"{name} is declared on axis {axis!r}, and it has {rank} axes", "count them from 0.")
        return spec
    if not isinstance(spec, list | tuple):
        raise _bad(f"{name} is a tensor, and is declared by {spec!r}", "write a dict from axes to dims, or a tuple.")
    if len(spec) != rank:
        raise _bad(f"{name} is declared with {len(spec)} axes, and it has {rank}", "write an entry for each axis.")
    return dict(enumerate(spec))


def _entries(name: str, spec: Any, keys: Sequence[KeyEntry]) -> dict[KeyEntry, Any]:
    """The entries of a declaration for the parts of an argument."""
    if spec is None:
        return {}
    if isinstance(spec, Mapping):
        known = {_label(key): key for key in keys}
        for label in spec:
            if label not in known:
                raise _bad(f"{name} has no part {label!r}", f"it has {', '.join(map(repr, known))}.")
        return {known[label]: entry for label, entry in spec.items()}
    if not isinstance(spec, list | tuple):
        raise _bad(f"{name} has {len(keys)} parts, and is declared by {spec!r}", "write a tree like the argument.")
    if len(spec) != len(keys):
        raise _bad(f"{name} has {len(keys)} parts, and {len(spec)} are declared", "write an entry for each part.")
    return dict(zip(keys, spec, strict=True))


def _label(key: KeyEntry) -> Any:
    """How a part of a tree is called in a dict."""
    match key:
        case SequenceKey(idx):
            return idx
        case MappingKey(label):
            return label
        case GetAttrKey(label):
            return label
        case _:
            return str(key)


def _bad(problem: str, remedy: str) -> ArgumentError:
    return ArgumentError(f"dynamic_shapes: {problem}.", loc=user_loc(), remedy=remedy)
