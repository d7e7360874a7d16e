"""A function's arguments: which are static, what each array leaf is called, and which dims were declared for it."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from dyn.dtypes import ArraySpec, DType
from dyn.errors import ArgumentError
from dyn.frozen import record
from dyn.shapes import parse_shapes
from dyn.source import Loc
from dyn.trace.annotations import Annotation, Axes, read_annotation
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, tree_text
from dyn.trace.static_keys import Static

#: What ``shapes=`` may be: text for the positional arguments, or trees of text by position or by name.
Shapes = str | Sequence[Any] | Mapping[str, Any] | None
#: What an annotation may say of a dtype.
Wanted = DType | Annotation | None


@record()
class _Declared:
    """The axes that text declares for a leaf."""

    axes: Axes


@dataclass(frozen=True)
class BoundArguments:
    """The arguments of a call: the array leaves, and all else, which is part of a version's key.

    ``keywords`` is the number of positional arguments, as text, and the name of each dynamic argument.
    """

    leaves: list[Any]
    tree: TreeSpec
    static: tuple[Static, ...]
    keywords: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The dynamic arguments, positional ones first."""
        return self.keywords[1:]


def check_compilable(function: Callable[..., Any]) -> None:
    """Raise ArgumentError for what makes something else of its arguments than arrays: classes, coroutines, modules of
    PyTorch."""
    name = getattr(function, "__name__", type(function).__name__)
    if isinstance(function, type):
        raise ArgumentError(
            f"jit takes a function, and {name} is a class.",
            remedy=f"compile a method of its objects, as dyn.jit({name}(…).method), or a function that makes one.",
        )
    module = sys.modules.get("torch.nn.modules.module")
    if module is not None and isinstance(function, module.Module):
        raise ArgumentError(
            f"jit takes a function of dyn's arrays, and {name} is a module of PyTorch.",
            remedy="compile it with dyn.interop.torch.jit.",
        )
    for kind, what in (
        (inspect.iscoroutinefunction, "a coroutine: it gives something to await"),
        (inspect.isasyncgenfunction, "an asynchronous generator"),
        (inspect.isgeneratorfunction, "a generator: what it yields is not known when it returns"),
    ):
        if kind(function):
            raise ArgumentError(
                f"jit takes a function that returns arrays, and {name} is {what}.",
                remedy="compile the function that computes, and call it from there.",
            )


def bind_arguments(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], loc: Loc | None = None
) -> inspect.BoundArguments:
    """The arguments of a call by the names of a signature. ArgumentError for those that it does not take."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        problem = str(error)  # raised below, out of this error's context
    parameters = signature.parameters.values()
    taken = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    nearest = [get_close_matches(keyword, taken, 1, 0.5) for keyword in kwargs if keyword not in signature.parameters]
    meant = f"did you mean {nearest[0][0]}? Its" if len(nearest) == 1 and nearest[0] else "its"
    raise ArgumentError(f"{name}(): {problem}.", loc=loc, remedy=f"{meant} signature is {signature}.")


class Signature:
    """Parameters of a Python function: names, shapes, and which are static, donated or frozen.

    ``called`` are names of the first leaves, where a front end knows better ones than the function's parameters.

    Raises ArgumentError for such arguments that the function does not have, for one that is to be two of these,
    and for ``shapes`` that cannot be read.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        shapes: Shapes,
        static_argnums: int | Sequence[int],
        static_argnames: str | Sequence[str],
        donate_argnums: int | Sequence[int] = (),
        donate_argnames: str | Sequence[str] = (),
        called: Sequence[str] = (),
        freeze_argnums: int | Sequence[int] = (),
        freeze_argnames: str | Sequence[str] = (),
    ) -> None:
        self.function, self._called = function, list(called)
        self.name = getattr(function, "__name__", type(function).__name__)
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self.signature = None
        parameters = list(self.signature.parameters.values()) if self.signature is not None else []
        kinds = {p.kind for p in parameters}
        self.names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.keyword_names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        positional = all(p.kind is not p.KEYWORD_ONLY for p in required)
        #: A call by position with so many arguments is as it should be.
        self._fewest, self._most = len(required), len(self.names) if positional else -1
        #: What the function calls the arguments that its ``*args`` takes.
        self._rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "args")
        self.more_positional = self.signature is None or inspect.Parameter.VAR_POSITIONAL in kinds
        self.more_keywords = self.signature is None or inspect.Parameter.VAR_KEYWORD in kinds
        #: ``k`` of ``**k``.
        self.keywords_name = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "kwargs")
        self.static_numbers, self.static_names = self._chosen("static", static_argnums, static_argnames)
        self.donated_names = self._names_of("donate", donate_argnums, donate_argnames)
        self.frozen_names = self._names_of("freeze", freeze_argnums, freeze_argnames)
        static_names = {*self.static_names, *(self.argument_name(number) for number in self.static_numbers)}
        for what, how, names in (("donate", "donated", self.donated_names), ("freeze", "frozen", self.frozen_names)):
            for name in sorted(names & static_names):
                raise ArgumentError(
                    f"{self.name}(): the argument {name} is static, and it is {how}.",
                    remedy=f"leave it out of {what}_argnums and {what}_argnames: it is no array.",
                )
        for name in sorted(self.frozen_names & self.donated_names):
            raise ArgumentError(
                f"{self.name}(): the argument {name} is donated, and it is frozen.",
                remedy="donate what each call replaces, and freeze what it only reads.",
            )
        self.shapes = shapes
        self.groups = parse_shapes(shapes) if isinstance(shapes, str) else ()
        if isinstance(shapes, Mapping):
            self._check_names("shapes=", shapes, [*self.names, *self.keyword_names])
        self.annotations = _annotations(function)

    def _names_of(self, what: str, argnums: int | Sequence[int], argnames: str | Sequence[str]) -> frozenset[str]:
        """Names of chosen arguments."""
        numbers, names = self._chosen(what, argnums, argnames)
        return frozenset({*names, *(self.argument_name(number) for number in numbers)})

    def _chosen(
        self, what: str, argnums: int | Sequence[int], argnames: str | Sequence[str]
    ) -> tuple[frozenset[int], frozenset[str]]:
        """Numbers and names of chosen arguments, each completed by the other."""
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        count = len(self.names)
        for number in numbers:
            if number < -count or (number >= count and not self.more_positional):
                raise ArgumentError(
                    f"{what}_argnums: {self.name} has no argument {number}.",
                    remedy=f"it has {count} positional arguments: {', '.join(self.names) or 'none'}.",
                )
        self._check_names(f"{what}_argnames", names, [*self.names, *self.keyword_names])
        found = {n + count if n < 0 else n for n in numbers}
        all_names = {*names, *(self.names[n] for n in found if n < count)}
        return frozenset(found | {i for i, name in enumerate(self.names) if name in all_names}), frozenset(all_names)

    def _check_names(self, where: str, names: Any, known: list[str]) -> None:
        for name in names:
            if name not in known and not self.more_keywords:
                near = get_close_matches(str(name), known, 1, 0.5)
                meant = f"did you mean {near[0]!r}? " if near else ""
                raise ArgumentError(
                    f"{where}: {self.name} has no argument {name!r}.",
                    remedy=f"{meant}it has {', '.join(dict.fromkeys(known)) or 'none'}.".replace("? it", "? It"),
                )

    # Calls ----------------------------------------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundArguments:
        """Split a call into array leaves and static parts. Defaults stay with the function.

        An argument that may be positional is taken as such, so that ``f(x, w)`` and ``f(x, w=w)`` are one key.
        """
        if self.signature is not None and (kwargs or not self._fewest <= len(args) <= self._most):
            call = bind_arguments(self.name, self.signature, args, kwargs)
            args, kwargs = call.args, call.kwargs
        dynamic: dict[str, Any] = {}
        static: list[Static] = []
        for number, value in enumerate(args):
            name = self.argument_name(number)
            if number in self.static_numbers:
                static.append(self._static_value(name, value))
            else:
                dynamic[name] = value
        for keyword in sorted(kwargs, key=self._keyword_order):
            name = self.keyword_label(keyword)
            if name in self.static_names:
                static.append(self._static_value(name, kwargs[keyword]))
            else:
                dynamic[name] = kwargs[keyword]
        leaves, tree = flatten(tuple(dynamic.values()))
        return BoundArguments(leaves, tree, tuple(static), (f"{len(args)}", *dynamic))

    def _keyword_order(self, name: str) -> tuple[int, str]:
        return (self.keyword_names.index(name) if name in self.keyword_names else len(self.keyword_names), name)

    def keyword_label(self, keyword: str) -> str:
        """Name in errors of an argument by keyword: the keyword, or ``k['x']`` where another argument may be called so.

        ``def f(x, /, **k)`` may be called as ``f(1, x=2)``, and with any text for a keyword.
        """
        if keyword in self.keyword_names or (keyword.isidentifier() and keyword not in self.names):
            return keyword
        return f"{self.keywords_name}[{keyword!r}]"

    def _keyword_of(self, label: str) -> str:
        """The keyword of a label."""
        if label.isidentifier():
            return label
        return ast.literal_eval(label[len(self.keywords_name) + 1 : -1])

    def argument_name(self, number: int) -> str:
        """Name of a positional argument in errors."""
        if number < len(self.names):
            return self.names[number]
        return f"{self._rest}[{number - len(self.names)}]"

    def _static_value(self, name: str, value: Any) -> Static:
        try:
            hash(value)
        except TypeError:
            raise ArgumentError(
                f"{self.name}(): the static argument {name} is a {type(value).__name__}, which has no hash.",
                remedy="pass a tuple or another immutable value, or make the argument an array.",
            ) from None
        return Static(name, value)

    def arguments(
        self, bound: BoundArguments, leaves: Sequence[Any], unflatten: Callable[[TreeSpec, list[Any]], Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call with the leaves of ``bound`` replaced, by position and by keyword."""
        dynamic = dict(zip(bound.names, unflatten(bound.tree, list(leaves)), strict=True))
        values = dynamic | {s.name: s.value for s in bound.static}
        positional = [values.pop(self.argument_name(number)) for number in range(int(bound.keywords[0]))]
        return positional, {self._keyword_of(label): value for label, value in values.items()}

    def call(
        self, bound: BoundArguments, leaves: Sequence[Any], unflatten: Callable[[TreeSpec, list[Any]], Any]
    ) -> Any:
        """Call the function with the leaves of ``bound`` replaced."""
        positional, named = self.arguments(bound, leaves, unflatten)
        return self.function(*positional, **named)

    # What leaves are ------------------------------------------------------------------------------------------

    def leaf_names(self, bound: BoundArguments) -> list[str]:
        """Each leaf as the user would write it: ``x``, ``params['w']``."""
        found: list[str] = []
        for name, child in zip(bound.names, bound.tree.children(), strict=True):
            found += leaf_names(child, name)
        return [*self._called, *found[len(self._called) :]]

    def donated(self, bound: BoundArguments) -> list[bool]:
        """Flags of the leaves: whether each belongs to a donated argument."""
        return [
            name in self.donated_names
            for name, child in zip(bound.names, bound.tree.children(), strict=True)
            for _ in range(child.num_leaves)
        ]

    def declared(self, bound: BoundArguments, ranks: Sequence[int]) -> tuple[list[Axes], list[Wanted]]:
        """The declared axes of each leaf (None for an axis of its own dim), and the declared dtypes."""
        axes: list[Axes] = []
        wanted: list[Wanted] = []
        for name, rank, spec in zip(self.leaf_names(bound), ranks, self._specs(bound), strict=True):
            if isinstance(spec, Annotation):
                axes.append(self._annotated(name, rank, spec))
                wanted.append(spec)
                continue
            shape = self._axes(name, spec.shape) if isinstance(spec, ArraySpec) else None if spec is None else spec.axes
            if shape is not None and len(shape) != rank:
                plural = "axis" if rank == 1 else "axes"
                raise ArgumentError(
                    f"{self.name}(): {name} has {rank} {plural}, and it is declared with {len(shape)}: "
                    f"({', '.join('_' if d is None else str(d) for d in shape)}).",
                    remedy="pass an array of that rank, or change the declaration.",
                )
            axes.append((None,) * rank if shape is None else shape)
            wanted.append(spec.dtype if isinstance(spec, ArraySpec) else None)
        return axes, wanted

    def _annotated(self, name: str, rank: int, annotation: Annotation) -> Axes:
        if annotation.fits(rank):
            return annotation.for_rank(rank)
        several = annotation.variadic is not None
        count = len(annotation.axes) - several
        raise ArgumentError(
            f"{self.name}(): {name} has {rank} {'axis' if rank == 1 else 'axes'}, and it is annotated as "
            f"{annotation.text}, which has {'at least ' if several else ''}{count}.",
            remedy="pass an array of that rank, or change the annotation.",
        )

    def check_dtype(self, name: str, dtype: DType, wanted: Wanted) -> None:
        """Raise ArgumentError for a leaf of a dtype that is not the declared one, or not of the declared family."""
        if wanted is None or (wanted is dtype if isinstance(wanted, DType) else wanted.allows(dtype)):
            return
        remedy = "change the annotation, or convert the array with .astype()."
        if isinstance(wanted, DType):
            remedy = f"pass {name}.astype('{wanted.name}')."
        text = wanted.name if isinstance(wanted, DType) else wanted.text
        raise ArgumentError(f"{self.name}(): {name} is {dtype.name}, and it is annotated as {text}.", remedy=remedy)

    def _specs(self, bound: BoundArguments) -> list[ArraySpec | Annotation | _Declared | None]:
        """Declarations of the leaves."""
        names = bound.names
        specs: list[Any] = [None] * len(names)
        if isinstance(self.shapes, str):
            self._check_count(len(self.groups), names)
            specs[: len(self.groups)] = [None if group is None else _Declared(_plain(group)) for group in self.groups]
        elif isinstance(self.shapes, Mapping):
            specs = [self.shapes.get(name) for name in names]
        elif self.shapes is not None:
            entries = list(self.shapes)
            self._check_count(len(entries), names)
            specs[: len(entries)] = entries
        result: list[ArraySpec | Annotation | _Declared | None] = []
        for name, child, spec in zip(names, bound.tree.children(), specs, strict=True):
            result += self._spread(name, child, self.annotations.get(name) if spec is None else spec)
        return result

    def _check_count(self, count: int, names: tuple[str, ...]) -> None:
        if count > len(names):
            raise ArgumentError(
                f"{self.name}(): shapes={self.shapes!r} declares {count} arguments, and the call has {len(names)}.",
                remedy="write one group of dims an array argument, '...' for one that is not declared.",
            )

    def _spread(self, name: str, tree: TreeSpec, spec: Any) -> list[ArraySpec | Annotation | _Declared | None]:
        """A declaration, which may be a tree, over the leaves of an argument."""
        if spec is None or tree.num_leaves == 0:
            return [None] * tree.num_leaves
        if isinstance(spec, ArraySpec | Annotation | _Declared):
            return [spec] * tree.num_leaves
        if isinstance(spec, str):
            groups = parse_shapes(spec)
            if len(groups) != 1:
                raise ArgumentError(
                    f"{self.name}(): shapes= declares {name} as {spec!r}, which is {len(groups)} arguments.",
                    remedy="write the axes with spaces between them, without commas.",
                )
            return [None if groups[0] is None else _Declared(_plain(groups[0]))] * tree.num_leaves
        if isinstance(spec, Mapping):
            children = dict(zip(tree.entries(), tree.children(), strict=True))
            unknown = [key for key in spec if key not in children]
            if unknown:
                raise ArgumentError(
                    f"{self.name}(): shapes= declares {name}[{unknown[0]!r}], and the argument is {tree_text(tree)}.",
                    remedy="declare only leaves that are there.",
                )
            return [
                leaf
                for key, child in children.items()
                for leaf in self._spread(f"{name}[{key!r}]", child, spec.get(key))
            ]
        if not isinstance(spec, Sequence):
            raise ArgumentError(
                f"{self.name}(): shapes= declares {name} as {spec!r}, a {type(spec).__name__}.",
                remedy="write text such as 'b s 768', or a tree of such texts.",
            )
        entries: list[Any] = list(spec)
        if tree.is_leaf():  # an array: these are its axes
            return [_Declared(self._axes(name, entries))]
        children_list = tree.children()
        if len(entries) != len(children_list):
            raise ArgumentError(
                f"{self.name}(): shapes= has {len(entries)} entries for {name}, and the argument is {tree_text(tree)}.",
                remedy="write one entry a child, None for one that is not declared.",
            )
        return [
            leaf
            for number, (entry, child) in enumerate(zip(entries, children_list, strict=True))
            for leaf in self._spread(f"{name}[{number}]", child, entry)
        ]

    def _axes(self, name: str, entries: Sequence[Any]) -> Axes:
        """Axes that are written one by one: sizes, texts, and None for one that is not declared."""
        axes: list[int | str | None] = []
        for entry in entries:
            if entry is None:
                axes.append(None)
            elif isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0:
                axes.append(entry)
            elif isinstance(entry, str) and len(groups := parse_shapes(entry)) == 1 and groups[0] is not None:
                axes.extend(_plain(groups[0]))
            else:
                raise ArgumentError(
                    f"{self.name}(): {name} is declared with the axis {entry!r}, which is no size and no dim.",
                    remedy="write an int of at least 0, a name such as 's', or an expression such as '2*n'.",
                )
        return tuple(axes)


def _plain(group: tuple[int | str, ...]) -> Axes:
    return tuple([None if d == "_" else d for d in group])


def _annotations(function: Callable[..., Any]) -> dict[str, ArraySpec | Annotation]:
    """The annotations that declare arrays. Each is read on its own: others may mention anything, and not resolve."""
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__globals__") and not inspect.ismethod(function):
        function = getattr(type(function), "__call__", function)  # noqa: B004  # the method itself is wanted
    function = inspect.unwrap(function)
    scope: dict[str, Any] = dict(getattr(function, "__globals__", {}))
    with contextlib.suppress(TypeError, ValueError):  # a builtin, or a name of an outer function that is not set yet
        scope |= inspect.getclosurevars(function).nonlocals
    found: dict[str, ArraySpec | Annotation] = {}
    for name, hint in getattr(function, "__annotations__", {}).items():
        resolved = hint
        if isinstance(hint, str):
            try:
                resolved = eval(hint, scope)
            except Exception:  # what does not resolve declares nothing
                continue
        declaration = resolved if isinstance(resolved, ArraySpec) else read_annotation(resolved)
        if declaration is not None:
            found[name] = declaration
    return found
