"""jaxtyping's annotations, ``Float32[Array, "b s 768"]``, as declarations of dims and dtypes.

They are known by what they publish (``dtypes``, ``dim_str`` and ``array_type`` of a class); jaxtyping itself is not
imported. The grammar of the text is that of https://docs.kidger.site/jaxtyping/api/array/.
"""

from __future__ import annotations

import itertools
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from dyn.dtypes import DType
from dyn.errors import ArgumentError
from dyn.frozen import record
from dyn.shapes import Dim, Reason, Relation, RelKind, parse_shapes
from dyn.source import Loc

#: A declared axis: a size, a name or an expression, ``"#name"`` for one that may also be 1, None for one of its own.
Axes = tuple[int | str | None, ...]


@record()
class Annotation:
    """Declaration of an argument by an annotation: dtypes and axes.

    ``variadic`` is the place in ``axes`` where any number of axes may stand: for ``...`` those of their own, for
    ``*batch`` dims that are counted from the last, ``batch_1``, ``batch_2`` and so on. ``dtypes`` are names; None is
    any.
    """

    text: str
    dtypes: frozenset[str] | None
    axes: Axes
    variadic: int | None = None

    def allows(self, dtype: DType) -> bool:
        """Whether an array of this dtype is meant."""
        return self.dtypes is None or dtype.name in self.dtypes

    def fits(self, rank: int) -> bool:
        """Whether an array of this rank is meant."""
        return rank == len(self.axes) if self.variadic is None else rank >= len(self.axes) - 1

    def for_rank(self, rank: int) -> Axes:
        """The axes of an array of a rank that fits."""
        if self.variadic is None:
            return self.axes
        name = self.axes[self.variadic]
        count = rank - len(self.axes) + 1
        several = [None if name is None else f"{name}_{count - i}" for i in range(count)]
        return (*self.axes[: self.variadic], *several, *self.axes[self.variadic + 1 :])


def read_annotation(hint: object) -> Annotation | None:
    """The declaration in an annotation of jaxtyping's; None for any other, and for a union of different ones.

    Raises :class:`~dyn.errors.ArgumentError` for an axis whose expression cannot be read.
    """
    if typing.get_origin(hint) is typing.Annotated:
        return read_annotation(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        found = [read_annotation(member) for member in typing.get_args(hint) if member is not types.NoneType]
        alike = {(a.dtypes, a.axes, a.variadic) for a in found if a is not None}
        return found[0] if len(alike) == 1 and None not in found else None
    text, array_type = getattr(hint, "dim_str", None), getattr(hint, "array_type", None)
    if not isinstance(hint, type) or not isinstance(text, str) or array_type is None or not hasattr(hint, "dtypes"):
        return None
    listed: Any = getattr(hint, "dtypes")  # noqa: B009  # a class of a library that may not be there
    dtypes = frozenset([name for name in listed if isinstance(name, str)]) if isinstance(listed, list | tuple) else None
    name = hint.__name__
    axes: list[int | str | None] = []
    variadic: int | None = None
    for word in text.split():
        axis, many = _axis(name, word)
        if many:
            variadic = len(axes)
        axes.append(axis)
    return Annotation(name, dtypes, tuple(axes), variadic)


def _axis(annotation: str, word: str) -> tuple[int | str | None, bool]:
    """The declaration of an axis by a word of the annotation, and whether it stands for several axes."""
    if word == "...":
        return None, True
    bare = word.lstrip("#*_?")
    marks = word[: len(word) - len(bare)]
    bare = bare.rpartition("=")[2]  # a name before a size is a comment
    many = "*" in marks
    if not bare or "_" in marks or "?" in marks or "{" in bare:  # nameless, or known only while the function runs
        return None, many
    if bare.isdecimal() and "#" not in marks:
        return int(bare), False
    if not bare.isidentifier():
        try:
            parse_shapes(f"({bare})")
        except ArgumentError as error:
            raise ArgumentError(
                f"cannot read the axis {word!r} of the annotation {annotation}: {error.problem}",
                remedy="write a size, a name, or an expression of names, + - * // % min max.",
            ) from None
    return f"#{bare}" if "#" in marks else bare, many


class Marked(NamedTuple):
    """The axis at ``place`` was declared ``#text``."""

    place: str
    dim: Dim
    text: str


def marked_relations(
    marked: Sequence[Marked], resolve: Callable[[str], Dim | None], loc: Loc | None = None
) -> Iterator[Relation]:
    """Relations of axes marked ``#``: each is 1 or the dim of that text; where no axis is the dim itself, in pairs."""
    alone: dict[str, list[Marked]] = {}
    for axis in marked:
        dim = resolve(axis.text)
        if dim is None:
            alone.setdefault(axis.text, []).append(axis)
            continue
        reason = Reason(f"{axis.place} is annotated as #{axis.text}, which is 1 or {axis.text}", loc)
        yield Relation(RelKind.BROADCASTS, axis.dim, dim, reason)
        yield Relation(RelKind.EQ, (axis.dim - 1) * (axis.dim - dim), 0, reason)
    for text, axes in alone.items():
        for a, b in itertools.combinations(axes, 2):
            reason = Reason(f"{a.place} and {b.place} are annotated as #{text}, which is one size or 1", loc)
            yield Relation(RelKind.BROADCASTS, a.dim, b.dim, reason)
