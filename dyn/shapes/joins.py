"""``min``, ``max`` and NumPy's ``broadcast`` of dimensions: n-ary, flat, sorted and without repeats."""

from __future__ import annotations

from collections.abc import Callable, Container

from dyn.errors import ShapeError
from dyn.shapes.expr import Dim, Opaque, OpaqueKind, SymExpr, dim_key, opaque
from dyn.source import user_loc


def dim_min(*dims: Dim) -> Dim:
    """The smallest. At least one is needed."""
    return _extremum(OpaqueKind.MIN, min, dims)


def dim_max(*dims: Dim) -> Dim:
    """The largest. At least one is needed."""
    return _extremum(OpaqueKind.MAX, max, dims)


def _extremum(kind: OpaqueKind, pick: Callable[[int, int], int], dims: tuple[Dim, ...]) -> Dim:
    # Dimensions that differ by a number are one dimension with the better offset.
    offsets: dict[Dim, int] = {}
    for dim in _flatten(kind, dims):
        offset = dim.constant if isinstance(dim, SymExpr) else dim
        base = dim - offset
        offsets[base] = pick(offsets[base], offset) if base in offsets else offset
    return _join(kind, [base + offset for base, offset in offsets.items()])


def broadcast(*dims: Dim) -> Dim:
    """The common size of axes that are broadcast together: that of those that are not 1, or 1.

    Associative, commutative, idempotent, with unit 1. It is not ``max``: 0 with 1 gives 0.
    Raises :class:`~dyn.errors.ShapeError` for two numbers that differ and are not 1.
    """
    rest: dict[Dim, None] = {}
    size = 1
    for dim in _flatten(OpaqueKind.BROADCAST, dims):
        if isinstance(dim, SymExpr):
            rest[dim] = None
        else:
            size = broadcast_sizes(size, dim)
    if size != 1 or not rest:
        rest[size] = None
    for dim in tuple(rest) if len(rest) > 1 else ():  # what another is joined from adds nothing
        parts = joined_from(dim)
        for part in parts if len(parts) > 1 else ():
            rest.pop(part, None)
    for dim in tuple(rest) if len(rest) > 1 else ():
        if _is_cut(dim, rest):
            del rest[dim]
    return _join(OpaqueKind.BROADCAST, list(rest))


def _is_cut(dim: Dim, others: Container[Dim]) -> bool:
    """Whether a size is the least of another one and of numbers from 1 on, as of a table that is cut to a length.

    Where both broadcast they are equal, or the least is 1 and the common size is the other one.
    """
    atom = dim.is_atom if isinstance(dim, SymExpr) else None
    if not (isinstance(atom, Opaque) and atom.kind is OpaqueKind.MIN):
        return False
    sizes = [one for one in atom.args if not isinstance(one, int)]
    return len(sizes) == 1 and sizes[0] in others and all(one >= 1 for one in atom.args if isinstance(one, int))


def joined_from(dim: Dim) -> tuple[Dim, ...]:
    """The sizes that one was broadcast from; that size itself where it was not."""
    atom = dim.is_atom if isinstance(dim, SymExpr) else None
    return atom.args if isinstance(atom, Opaque) and atom.kind is OpaqueKind.BROADCAST else (dim,)


def has_part(whole: Dim, part: Dim) -> bool:
    """Whether a size was broadcast from another, among others."""
    stack, seen = [whole], {whole}
    while stack:
        parts = joined_from(stack.pop())
        if len(parts) > 1:
            if part in parts:
                return True
            more = [dim for dim in parts if isinstance(dim, SymExpr) and dim not in seen]
            seen.update(more)
            stack += more
    return False


def broadcast_sizes(a: int, b: int, context: str = "") -> int:
    """:func:`broadcast` of two numbers."""
    if a != b and 1 not in (a, b):
        raise ShapeError(
            f"sizes {a} and {b} cannot be broadcast together{context}: they differ and neither is 1.",
            loc=user_loc(),
            remedy="make the sizes equal, or one of them 1.",
        )
    return b if a == 1 else a


#: What is joined from so many stays one argument where more is joined to it: a size that grows term by term in a loop
#: shares its parts, rather than having each of them again at every step.
_FLAT = 12


def _flatten(kind: OpaqueKind, dims: tuple[Dim, ...]) -> list[Dim]:
    flat: list[Dim] = []
    for dim in dims:
        atom = dim.is_atom if isinstance(dim, SymExpr) else None
        if isinstance(atom, Opaque) and atom.kind is kind and len(atom.args) < _FLAT:
            flat.extend(atom.args)
        else:
            flat.append(dim)
    return flat


def _join(kind: OpaqueKind, dims: list[Dim]) -> Dim:
    if len(dims) == 1:
        return dims[0]
    if not dims:
        raise TypeError(f"{kind}() needs at least one dimension")
    return opaque(kind, tuple(sorted(dims, key=dim_key)))
