"""A function's arguments: which are static, what each array leaf is called, and which dims were declared for it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dyn.dtypes import ArraySpec, DType
from dyn.errors import ArgumentError
from dyn.shapes import DimDecl, parse_shapes
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, tree_text

#: What ``shapes=`` may be: text for the positional arguments, or trees of text by position or by name.
Shapes = str | Sequence[Any] | Mapping[str, Any] | None
Axes = tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class _Declared:
    """The axes that text declares for a leaf."""

    axes: Axes


@dataclass(frozen=True)
class Bound:
    """The arguments of a call: the array leaves, and all else, which is part of a version's key."""

    leaves: list[Any]
    tree: TreeSpec
    static: tuple[tuple[str, Any], ...]
    keywords: tuple[str, ...]


class Signature:
    """How a Python function takes its arguments."""

    def __init__(
        self,
        function: Callable[..., Any],
        shapes: Shapes,
        static_argnums: int | Sequence[int],
        static_argnames: str | Sequence[str],
    ) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self.signature = None
        self.names = self._positional_names()
        numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        count = len(self.names)
        for number in numbers:
            if not -max(count, 1) <= number and self.signature is not None:
                raise ArgumentError(f"static_argnums: {self.name} has no argument {number}.")
        self.static_numbers = frozenset(n % count if n < 0 and count else n for n in numbers)
        names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self.static_names = frozenset(names) | {self.names[n] for n in self.static_numbers if n < count}
        self.static_numbers |= {i for i, name in enumerate(self.names) if name in self.static_names}
        self.shapes = shapes
        self.annotations = self._annotations()

    def _positional_names(self) -> list[str]:
        if self.signature is None:
            return []
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p.name for p in self.signature.parameters.values() if p.kind in kinds]

    def _annotations(self) -> dict[str, ArraySpec]:
        try:
            hints = typing.get_type_hints(self.function)
        except Exception:  # annotations may mention anything; those that do not resolve declare nothing
            hints = getattr(self.function, "__annotations__", {})
        return {name: hint for name, hint in hints.items() if isinstance(hint, ArraySpec)}

    # Calls ----------------------------------------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
        """Split a call into array leaves and static parts. Defaults stay with the function."""
        if self.signature is not None:
            try:
                self.signature.bind(*args, **kwargs)
            except TypeError as error:
                raise ArgumentError(f"{self.name}(): {error}.", remedy=f"its signature is {self.signature}.") from None
        dynamic: dict[str, Any] = {}
        static: list[tuple[str, Any]] = []
        for number, value in enumerate(args):
            name = self._argument_name(number)
            if number in self.static_numbers:
                static.append((name, self._hashable(name, value)))
            else:
                dynamic[name] = value
        for name in sorted(kwargs):
            if name in self.static_names:
                static.append((name, self._hashable(name, kwargs[name])))
            else:
                dynamic[name] = kwargs[name]
        leaves, tree = flatten(tuple(dynamic.values()))
        return Bound(leaves, tree, tuple(static), (f"{len(args)}", *dynamic))

    def _argument_name(self, number: int) -> str:
        if number < len(self.names):
            return self.names[number]
        return f"args[{number - len(self.names)}]" if self.signature is not None else f"args[{number}]"

    def _hashable(self, name: str, value: Any) -> Any:
        try:
            hash(value)
        except TypeError:
            raise ArgumentError(
                f"{self.name}(): the static argument {name} is a {type(value).__name__}, which has no hash.",
                remedy="pass a tuple or another immutable value, or make the argument an array.",
            ) from None
        return value

    def call(self, bound: Bound, leaves: Sequence[Any], unflatten: Callable[[TreeSpec, list[Any]], Any]) -> Any:
        """Call the function with the leaves of ``bound`` replaced."""
        count, names = int(bound.keywords[0]), bound.keywords[1:]
        dynamic = dict(zip(names, unflatten(bound.tree, list(leaves)), strict=True))
        values = dynamic | dict(bound.static)
        positional = [values.pop(self._argument_name(number)) for number in range(count)]
        return self.function(*positional, **values)

    # What leaves are ------------------------------------------------------------------------------------------

    def leaf_names(self, bound: Bound) -> list[str]:
        """Each leaf as the user would write it: ``x``, ``params['w']``."""
        found: list[str] = []
        for name, child in zip(bound.keywords[1:], bound.tree.children(), strict=True):
            found += leaf_names(child, name)
        return found

    def declared(self, bound: Bound, ranks: Sequence[int]) -> tuple[list[Axes], list[DType | None]]:
        """The declared axes of each leaf (None for an axis of its own dim), and the declared dtypes."""
        names = self.leaf_names(bound)
        specs = self._specs(bound)
        axes: list[Axes] = []
        wanted: list[DType | None] = []
        for name, rank, spec in zip(names, ranks, specs, strict=True):
            dtype = spec.dtype if isinstance(spec, ArraySpec) else None
            shape = self._shape(spec)
            if shape is not None and len(shape) != rank:
                raise ArgumentError(
                    f"{self.name}(): {name} has {rank} axes, and it is declared with {len(shape)}: "
                    f"({', '.join('_' if d is None else str(d) for d in shape)}).",
                    remedy="pass an array of that rank, or change the declaration.",
                )
            axes.append((None,) * rank if shape is None else shape)
            wanted.append(dtype)
        return axes, wanted

    def _shape(self, spec: Any) -> Axes | None:
        if spec is None:
            return None
        return _axes(spec.shape) if isinstance(spec, ArraySpec) else spec.axes

    def _specs(self, bound: Bound) -> list[Any]:
        """For each leaf what was declared for it: an ArraySpec, axes, or None."""
        children = bound.tree.children()
        names = bound.keywords[1:]
        positional = int(bound.keywords[0]) - sum(1 for n, _ in bound.static if n in self.names)
        specs: list[Any] = [None] * len(names)
        if isinstance(self.shapes, str):
            parsed = parse_shapes(self.shapes)
            if len(parsed) > len(names):
                raise ArgumentError(
                    f"{self.name}(): shapes={self.shapes!r} declares {len(parsed)} arguments, the call has {len(names)}.",
                    remedy="write one group of dims an array argument, '...' for one that is not declared.",
                )
            specs[: len(parsed)] = [None if p is None else _Declared(_axes(p)) for p in parsed]
        elif isinstance(self.shapes, Mapping):
            for name in self.shapes:
                if name not in names:
                    raise ArgumentError(
                        f"{self.name}(): shapes= names the argument {name!r}, which this call does not pass.",
                        remedy=f"its array arguments are {', '.join(names)}.",
                    )
            specs = [self.shapes.get(name) for name in names]
        elif self.shapes is not None:
            entries = list(self.shapes)
            specs[: min(len(entries), positional)] = entries[:positional]
        result: list[Any] = []
        for name, child, spec in zip(names, children, specs, strict=True):
            result += self._spread(name, child, self.annotations.get(name) if spec is None else spec)
        return result

    def _spread(self, name: str, tree: TreeSpec, spec: Any) -> list[Any]:
        """A declaration, which may be a tree, over the leaves of an argument."""
        if spec is None or tree.num_leaves == 0:
            return [None] * tree.num_leaves
        if isinstance(spec, str):
            (parsed,) = parse_shapes(spec)
            return [None if parsed is None else _Declared(_axes(parsed))] * tree.num_leaves
        if isinstance(spec, ArraySpec | _Declared):
            return [spec] * tree.num_leaves
        if isinstance(spec, Mapping):
            children = dict(zip(tree.entries(), tree.children(), strict=True))
            unknown = [key for key in spec if key not in children]
            if unknown:
                raise ArgumentError(
                    f"{self.name}(): shapes= declares {name}[{unknown[0]!r}], and the argument is {tree_text(tree)}.",
                    remedy="declare only leaves that are there.",
                )
            return [leaf for key, child in children.items() for leaf in self._spread(name, child, spec.get(key))]
        entries = list(spec)
        children_list = tree.children()
        if len(entries) != len(children_list):
            raise ArgumentError(
                f"{self.name}(): shapes= has {len(entries)} entries for {name}, and the argument is {tree_text(tree)}.",
                remedy="write one entry a child, None for one that is not declared.",
            )
        return [leaf for e, child in zip(entries, children_list, strict=True) for leaf in self._spread(name, child, e)]


def _axes(declared: tuple[DimDecl, ...]) -> Axes:
    return tuple(None if d == "_" else d for d in declared)
