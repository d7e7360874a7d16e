"""The arguments of a call: which are static, what the leaves are called, and which axes are symbolic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dyn.errors import ArgumentError, ShapeError
from dyn.interop.jax.sizes import AxisSource, TraceSizes
from dyn.shapes import Dim, Symbol, SymExpr, as_dim, evaluate, free_symbols, parse_dim, parse_shapes, symbol
from dyn.trace.signature import Signature
from dyn.trace.static_keys import Static

#: The axes of a leaf: numbers, names and expressions of names, "_" for a name of its own, None for the size at hand.
#: None: it is not declared.
Axes = tuple[int | str | None, ...] | None
#: A container in which more axes differ between calls holds other arrays rather than other sizes: each its own program.
MOST_VARYING = 32


@dataclass(frozen=True, eq=False)
class CallTree:
    """Facts about calls whose arguments make one tree.

    For each leaf its name, and what ``shapes=`` says of its axes. ``symbolic`` are the leaves that have symbolic axes,
    ``fixed`` those that have others, ``donated`` those that are given away, ``frozen`` those that programs close over.
    ``varying`` are axes in containers, as users write them, that are symbolic since they differed between calls.
    """

    names: tuple[str, ...]
    declared: tuple[Axes, ...]
    symbolic: tuple[int, ...]
    fixed: tuple[int, ...]
    donated: tuple[int, ...]
    frozen: tuple[int, ...] = ()
    varying: tuple[str, ...] = ()

    def fixed_sizes(self, leaf: int, shape: Sequence[int]) -> tuple[int | None, ...]:
        """The sizes of a leaf that are part of a key; None for those that are symbolic."""
        declared = self.declared[leaf]
        if declared is None:
            return tuple(shape)
        return tuple([size if own is None else None for own, size in zip(declared, shape, strict=True)])

    def widened(self, before: Sequence[tuple[int, ...]], now: Sequence[tuple[int, ...]]) -> CallTree | None:
        """The plan with those axes symbolic that differ between two calls; None where that is no plan for both."""
        declared, varying = list(self.declared), list(self.varying)
        for leaf in self.fixed:
            if len(before[leaf]) != len(now[leaf]):
                return None
            own = declared[leaf] or (None,) * len(now[leaf])
            differ = [
                a for a, (n, m) in enumerate(zip(before[leaf], now[leaf], strict=True)) if n != m and own[a] is None
            ]
            if differ:
                declared[leaf] = tuple(["_" if axis in differ else word for axis, word in enumerate(own)])
                varying += [f"{self.names[leaf]}.shape[{axis}]" for axis in differ]
        if len(varying) == len(self.varying) or len(varying) > MOST_VARYING:
            return None
        return plan_of(self.names, declared, self.donated, self.frozen, tuple(varying))


def plan_of(
    names: Sequence[str], declared: Sequence[Axes], donated: Sequence[int], frozen: Sequence[int] = (),
    varying: tuple[str, ...] = (),
) -> CallTree:  # fmt: skip
    """The plan for leaves whose axes are declared so."""
    symbolic = tuple([n for n, axes in enumerate(declared) if axes is not None])
    fixed = tuple([n for n, axes in enumerate(declared) if axes is None or None in axes])
    return CallTree(tuple(names), tuple(declared), symbolic, fixed, tuple(donated), tuple(frozen), varying)


class Arguments:
    """Arguments of a function's calls, as leaves.

    Raises ArgumentError for static and donated arguments that the function does not have, and for ``shapes`` that
    cannot be read or that name no argument.
    """

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.has_static = bool(signature.static_numbers or signature.static_names)

    def split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Static, ...]]:
        """The dynamic arguments, and the static ones as part of a key."""
        numbers, names, label = self.signature.static_numbers, self.signature.static_names, self.signature.keyword_label
        static = [
            self._static(f"{n}", self.signature.argument_name(n), args[n]) for n in sorted(numbers) if n < len(args)
        ]
        dynamic = tuple([value for number, value in enumerate(args) if number not in numbers])
        named = {name: value for name, value in kwargs.items() if label(name) not in names}
        static += [self._static(name, name, kwargs[name]) for name in sorted(kwargs) if name not in named]
        return dynamic, named, tuple(static)

    def _static(self, key: str, name: str, value: Any) -> Static:
        try:
            hash(value)
        except TypeError:
            raise ArgumentError(
                f"{self.signature.name}(): the static argument {name} is a {type(value).__name__}, which has no hash.",
                remedy="pass a tuple or another immutable value, or make the argument an array.",
            ) from None
        return Static(key, value)

    def joined(
        self, dynamic: Sequence[Any], named: Mapping[str, Any], static: Sequence[Static]
    ) -> tuple[list[Any], dict[str, Any]]:
        """A call again: what :meth:`split` took apart."""
        args, kwargs = list(dynamic), dict(named)
        for one in static:  # by rising position
            if one.name.isdecimal():
                args.insert(int(one.name), one.value)
            else:
                kwargs[one.name] = one.value
        return args, kwargs

    def plan(self, jax: Any, tree: Any, static: Sequence[Static]) -> CallTree:
        """The plan for a tree of ``(dynamic, named)``."""
        dynamic, named = jax.tree.unflatten(tree, list(range(tree.num_leaves)))
        skipped = {int(one.name) for one in static if one.name.isdecimal()}
        numbers = [number for number in range(len(dynamic) + len(skipped)) if number not in skipped]
        positional = [self.signature.argument_name(number) for number in numbers]
        specs = self._specs([*positional, *named])
        leaves, _ = jax.tree_util.tree_flatten_with_path((dynamic, named))
        arguments: list[str] = []
        names: list[str] = []
        for path, _ in leaves:
            argument = positional[path[1].idx] if path[0].idx == 0 else path[1].key
            arguments.append(argument)
            names.append(argument + jax.tree_util.keystr(path[2:]))
        declared: list[Axes] = []
        for (path, _), argument, name in zip(leaves, arguments, names, strict=True):
            bare = len(path) == 2
            axes = self._declared(specs.get(argument), path[2:], name)
            declared.append(axes if axes is not None or not bare else ("...",))
        donated = [n for n, argument in enumerate(arguments) if argument in self.signature.donated_names]
        frozen = [n for n, argument in enumerate(arguments) if argument in self.signature.frozen_names]
        return plan_of(names, declared, donated, frozen)

    # What shapes= says --------------------------------------------------------------------------------------------

    def _specs(self, names: Sequence[str]) -> dict[str, Any]:
        shapes, signature = self.signature.shapes, self.signature
        if shapes is None:
            return {}
        if isinstance(shapes, Mapping):
            return dict(shapes)
        entries: list[Any] = list(shapes)
        if isinstance(shapes, str):
            entries = [None if group is None else " ".join(map(str, group)) or "()" for group in signature.groups]
        if len(entries) > len(names):
            raise ArgumentError(
                f"{signature.name}(): shapes={shapes!r} declares {len(entries)} arguments, "
                f"and the call has {len(names)}.",
                remedy="write one group of dims an array argument, '...' for one that is not declared.",
            )
        return dict(zip(names, entries, strict=False))

    def _declared(self, spec: Any, path: Sequence[Any], name: str) -> Axes:
        """The part of a declaration, which may be a tree, for the leaf at ``path``."""
        for step in path:
            if spec is None or isinstance(spec, str):
                break
            key = next(getattr(step, f) for f in ("key", "idx", "name") if hasattr(step, f))
            if isinstance(spec, Mapping):
                spec = spec.get(key)
            elif isinstance(spec, Sequence) and isinstance(key, int) and key < len(spec):
                spec = spec[key]
            else:
                self._no_spec(name, spec)
        if spec is None:
            return None
        if isinstance(spec, str):
            groups = parse_shapes(spec)
            if len(groups) != 1:
                self._no_spec(name, spec)
            return ("...",) if groups[0] is None else groups[0]
        if isinstance(spec, Sequence) and all(isinstance(axis, int | str) or axis is None for axis in spec):
            return tuple(["_" if axis is None else axis for axis in spec])
        return self._no_spec(name, spec)

    def _no_spec(self, name: str, spec: Any) -> Axes:
        raise ArgumentError(
            f"{self.signature.name}(): shapes= declares {name} as {spec!r}.",
            remedy="write text such as 'b s 768', or a tree of such texts; None for what is not declared.",
        )

    # The sizes of a call ------------------------------------------------------------------------------------------

    def sizes(self, plan: CallTree, shapes: Sequence[tuple[int, ...]]) -> TraceSizes:
        """The sizes of a call: a name for each symbolic axis. A size of 0 is a number, as JAX's names are at least 1.

        Raises ArgumentError for a declaration with another number of axes, ShapeError for sizes that are not what was
        declared.
        """
        words: dict[int, tuple[int | str, ...]] = {}
        for leaf in plan.symbolic:
            words[leaf] = self._axes(plan.names[leaf], leaf, plan.declared[leaf], shapes[leaf])
        symbols: dict[str, Symbol] = {}
        actual: dict[Symbol, int] = {}
        places: dict[Symbol, AxisSource] = {}
        # Names by themselves first: the others may be of these.
        for leaf, axis, word, size in _walk(words, shapes):
            if isinstance(word, str) and word.isidentifier() and word not in symbols:
                own = symbols[word] = symbol(word, f"{plan.names[leaf]}.shape[{axis}]")
                actual[own], places[own] = size, AxisSource(leaf, axis)
        dims: dict[int | str, Dim] = {}
        for leaf, axis, word, size in _walk(words, shapes):
            if word not in dims:
                origin = f"{plan.names[leaf]}.shape[{axis}]"
                dims[word] = self._dim(word, size, AxisSource(leaf, axis), origin, symbols, actual, places)
        self._check(plan, words, dims, shapes, actual)
        zeros = {own for own, size in actual.items() if size < 1}
        axes: dict[int, tuple[Dim, ...]] = {}
        for leaf, own_words in words.items():
            pairs = zip(own_words, shapes[leaf], strict=True)
            axes[leaf] = tuple([size if zeros & free_symbols(dims[word]) else dims[word] for word, size in pairs])
        return TraceSizes(
            axes,
            {own: size for own, size in actual.items() if own not in zeros},
            {own: place for own, place in places.items() if own not in zeros},
        )

    def _axes(self, name: str, leaf: int, declared: Axes, shape: tuple[int, ...]) -> tuple[int | str, ...]:
        words = ("_",) * len(shape) if declared is None or declared == ("...",) else declared
        if len(words) != len(shape):
            text = " ".join(map(str, words)) or "()"
            raise ArgumentError(
                f"{self.signature.name}(): {name} has {_axes_text(len(shape))}, and shapes= declares {text!r}.",
                remedy="pass an array of that rank, or change the declaration.",
            )
        plain = name if name.isidentifier() else f"a{leaf}"
        sized = [size if word is None else word for word, size in zip(words, shape, strict=True)]
        return tuple([f"{plain}_{axis}" if word == "_" else word for axis, word in enumerate(sized)])

    def _dim(
        self, word: int | str, size: int, place: AxisSource, origin: str, symbols: dict[str, Symbol],
        actual: dict[Symbol, int], places: dict[Symbol, AxisSource],
    ) -> Dim:  # fmt: skip
        """The dim that a declaration writes; a name in it that has no axis of its own is found by this one."""
        if isinstance(word, int):
            return word
        new: dict[str, Symbol] = {}

        def named(name: str) -> Symbol:
            return symbols.get(name) or new.setdefault(name, symbol(name, origin))

        made = parse_dim(word, named)
        if not new:
            return made
        name, own = next(iter(new.items()))
        terms = made.terms if isinstance(made, SymExpr) else ()
        factor = terms[0][1] if len(terms) == 1 and len(new) == 1 else 0
        offset = made.constant if isinstance(made, SymExpr) else 0
        if factor < 1 or made != factor * as_dim(own) + offset:
            raise ArgumentError(
                f"{self.signature.name}(): shapes= declares {word!r}, from which {name} cannot be found.",
                remedy=f"give {name} an axis of its own, or write a multiple of it, as in '2*{name} + 1'.",
            )
        symbols[name], places[own] = own, AxisSource(place.leaf, place.axis, factor, offset)
        actual[own] = (size - offset) // factor
        return made

    def _check(
        self, plan: CallTree, words: Mapping[int, tuple[int | str, ...]], dims: Mapping[int | str, Dim],
        shapes: Sequence[tuple[int, ...]], actual: Mapping[Symbol, int],
    ) -> None:  # fmt: skip
        for leaf, axis, word, size in _walk(words, shapes):
            wanted = evaluate(dims[word], actual)
            if wanted != size:
                value = "" if isinstance(word, int) else f", which is {wanted} here"
                raise ShapeError(
                    f"{self.signature.name}(): {plan.names[leaf]}.shape[{axis}] is {size}, "
                    f"and shapes= declares {word}{value}.",
                    remedy="pass arrays whose shapes satisfy it, or change the declaration.",
                )


def _walk(
    axes: Mapping[int, tuple[int | str, ...]], shapes: Sequence[tuple[int, ...]]
) -> list[tuple[int, int, int | str, int]]:
    """Leaf, axis, what it is declared as, and its size."""
    return [
        (leaf, axis, word, size)
        for leaf, words in axes.items()
        for axis, (word, size) in enumerate(zip(words, shapes[leaf], strict=True))
    ]


def _axes_text(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"
