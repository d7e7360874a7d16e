"""Comparison of two trees of arrays, for errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.trace.lift import weak_dtype
from dyn.trace.pytree import TreeSpec, leaf_names
from dyn.trace.tracer import Tracer

#: Where there are more leaves, those that agree are left out.
_MOST_LEAVES = 12

#: The leaves of a tree: how the user would write each, and what it is.
Described = Sequence[tuple[str, str]]


def described(spec: TreeSpec, root: str, leaves: Sequence[Any]) -> Described:
    """The leaves of a tree that the user calls ``root``: values, tracers, numbers, or anything else."""
    return list(zip(leaf_names(spec, root), map(_text, leaves), strict=True))


def _text(leaf: Any) -> str:
    if isinstance(leaf, Tracer):
        return str(leaf._value.type)
    type_ = getattr(leaf, "type", None)
    if type_ is not None:
        return str(type_)
    return repr(leaf) if weak_dtype(leaf) is not None else type(leaf).__name__


def side_by_side(left: Described, right: Described, heads: tuple[str, str]) -> tuple[str, ...]:
    """A table of two trees, leaf by leaf, with a mark at those that differ; nothing where there is one leaf in all."""
    one, other = dict(left), dict(right)
    rows = [(name, one.get(name, "-"), other.get(name, "-")) for name in dict.fromkeys((*one, *other))]
    if len(rows) < 2:
        return ()
    shown = [row for row in rows if len(rows) <= _MOST_LEAVES or row[1] != row[2]]
    widths = [max(len(row[i]) for row in (("", *heads), *shown)) for i in range(3)]
    lines = [_line(("", *heads), widths, "")]
    lines += [_line(row, widths, "  <-- differs" if row[1] != row[2] else "") for row in shown]
    if len(shown) < len(rows):
        lines.append(f"and {len(rows) - len(shown)} leaves that agree")
    return tuple(lines)


def _line(row: Sequence[str], widths: Sequence[int], mark: str) -> str:
    return ("   ".join([f"{text:{width}}" for text, width in zip(row, widths, strict=True)]) + mark).rstrip()
