"""Users' declarations of dimensions: named dimensions, shape texts and constraint texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from dyn.errors import ArgumentError
from dyn.frozen import record
from dyn.shapes.expr import Dim, Opaque, SymExpr
from dyn.shapes.parse import DimReader, Scope, text_error
from dyn.shapes.relation import RelKind
from dyn.shapes.symbols import OpaqueKind, Symbol, symbol
from dyn.source import user_loc

#: A declared axis: a static size, a name (``"_"`` for an axis that is symbolic and has none), or an expression's text.
DimDecl = int | str
Constraint = tuple[RelKind, Dim, Dim]

_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")


@record()
class NamedDim:
    """Named dimension with what is promised of it, for ``jit(dims=...)``; ``dyn.Dim``.

    Args:
        name: its name in ``shapes``, an identifier.
        min: least size.
        max: greatest size; None: there is none.
        multiple_of: number that divides every size.
        likely: sizes to expect: they choose variants of kernels, and promise nothing.

    Raises:
        ArgumentError: for a name that is none, and for numbers that no size satisfies.

    Example:
        >>> dyn.jit(lambda x: x + 1, shapes="s", dims=[dyn.Dim("s", max=512)])(np.array([1, 2]))
        array([2, 3])
    """

    name: str
    min: int = 0
    max: int | None = None
    multiple_of: int = 1
    likely: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier() or self.name == "_":
            raise _invalid(self.name, "the name must be an identifier, as in dyn.Dim('s')")
        object.__setattr__(self, "likely", tuple(self.likely))
        numbers = [("min", self.min), ("max", self.max), ("multiple_of", self.multiple_of)]
        for field, value in [*numbers, *[("likely", value) for value in self.likely]]:
            if not (_is_int(value) or (value is None and field == "max")):
                raise _invalid(self.name, f"{field} must be an integer, got {value!r}")
        if self.min < 0:
            raise _invalid(self.name, f"min is {self.min}, but a size is at least 0")
        if self.multiple_of < 1:
            raise _invalid(self.name, f"multiple_of is {self.multiple_of}, but must be at least 1")
        smallest = -(-self.min // self.multiple_of) * self.multiple_of
        if self.max is not None and smallest > self.max:
            raise _invalid(self.name, f"no size satisfies {self.describe()}")
        for value in self.likely:
            if not self.allows(value):
                raise _invalid(self.name, f"the likely size {value} does not satisfy {self.describe()}")

    def allows(self, size: int) -> bool:
        """Tell whether the dimension may have a size.

        Args:
            size: an int.

        Returns:
            A Python bool.

        Example:
            >>> dyn.Dim("s", max=512, multiple_of=8).allows(12)
            False
        """
        return self.min <= size and (self.max is None or size <= self.max) and size % self.multiple_of == 0

    def describe(self) -> str:
        """Text of what is promised.

        Returns:
            Text such as ``1 <= s <= 512, s % 8 == 0``.

        Example:
            >>> dyn.Dim("s", max=512, multiple_of=8).describe()
            '0 <= s <= 512, s % 8 == 0'
        """
        text = f"{self.name} >= {self.min}" if self.max is None else f"{self.min} <= {self.name} <= {self.max}"
        return text + (f", {self.name} % {self.multiple_of} == 0" if self.multiple_of > 1 else "")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        """The call that makes it: ``Dim('s', max=512)``."""
        given = [
            f"{one.name}={value!r}" for one in fields(self)[1:] if (value := getattr(self, one.name)) != one.default
        ]
        return f"Dim({', '.join([repr(self.name), *given])})"


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _invalid(name: object, problem: str) -> ArgumentError:
    return ArgumentError(f"dyn.Dim({name!r}): {problem}.", loc=user_loc(), remedy="correct the declaration.")


# --- shapes ------------------------------------------------------------------------------------------------------

_SHAPES_REMEDY = 'write an argument a comma and an axis a space, as in shapes="b s 768, 768 n".'


def parse_shapes(text: str) -> tuple[tuple[DimDecl, ...] | None, ...]:
    """The axes of each argument: ``"b s 768, ..., ()"`` gives ``(("b", "s", 768), None, ())``.

    Arguments are separated by commas and axes by spaces; inside parentheses both may be used freely. An axis is a
    number, a name, ``_``, or an expression (``2*n``, ``(n + 1)``). ``...`` leaves an argument undeclared; ``()`` is one
    of rank 0. Raises :class:`~dyn.errors.ArgumentError`, which shows the place.
    """
    return tuple([_parse_argument(text, start, stop) for start, stop in _split(text, ",")])


def _parse_argument(text: str, start: int, stop: int) -> tuple[DimDecl, ...] | None:
    axes = [(a, b) for a, b in _split(text, " \t\n", start, stop) if a < b]
    words = [text[a:b] for a, b in axes]
    if not words:
        column = start + len(text[start:stop]) // 2
        problem = f"cannot read shapes: there is no argument at column {column + 1}."
        raise text_error(problem, text, column, "write () for an argument of rank 0, or ... to leave one undeclared.")
    if words == ["..."]:
        return None
    if words == ["()"]:
        return ()
    return tuple([_parse_axis(text, a, b) for a, b in axes])


def _parse_axis(text: str, start: int, stop: int) -> DimDecl:
    word = text[start:stop]
    if word in ("...", "()"):
        problem = f"cannot read shapes: {word!r} stands for a whole argument, at column {start + 1}."
        raise text_error(problem, text, start, _SHAPES_REMEDY)
    if word.isdecimal():
        return int(word)
    scratch: dict[str, Symbol] = {}
    dim = DimReader(text, lambda name: scratch.setdefault(name, symbol(name)), start, stop).whole()
    if "_" in scratch and word != "_":
        problem = f"cannot read shapes: '_' has no value to compute with, at column {start + 1}."
        raise text_error(problem, text, start, "give the dimension a name.")
    if isinstance(dim, int):
        if dim < 0:
            raise text_error(f"cannot read shapes: the size {dim} at column {start + 1} is negative.", text, start)
        return dim
    return word


def _split(text: str, separators: str, start: int = 0, stop: int | None = None) -> list[tuple[int, int]]:
    """The pieces between separators that stand outside parentheses, as ranges of columns."""
    stop = len(text) if stop is None else stop
    pieces: list[tuple[int, int]] = []
    depth, begin = 0, start
    opened: list[int] = []
    for i in range(start, stop):
        if text[i] == "(":
            depth += 1
            opened.append(i)
        elif text[i] == ")":
            depth -= 1
            if depth < 0:
                raise text_error(f"cannot read shapes: ')' at column {i + 1} closes nothing.", text, i)
            opened.pop()
        elif depth == 0 and text[i] in separators:
            pieces.append((begin, i))
            begin = i + 1
    if opened:
        raise text_error(f"cannot read shapes: '(' at column {opened[-1] + 1} is not closed.", text, opened[-1])
    return [*pieces, (begin, stop)]


# --- constraints -------------------------------------------------------------------------------------------------


def parse_constraints(texts: str | Iterable[str], scope: Scope) -> tuple[Constraint, ...]:
    """Relations between dimensions: ``"1 <= s <= 512, n == 2*s, s % 8 == 0, n != 3"``.

    ``scope`` is a mapping of names to symbols, or a function that makes them. Raises
    :class:`~dyn.errors.ArgumentError`, which shows the place.
    """
    found: list[Constraint] = []
    for text in [texts] if isinstance(texts, str) else texts:
        reader = DimReader(text, scope)
        if not reader.token:
            continue
        found += _comparison(reader)
        while reader.accept(","):
            found += _comparison(reader)
        if reader.token:
            reader.unexpected("',' or the end")
    return tuple(found)


def _comparison(reader: DimReader) -> list[Constraint]:
    left = reader.sum()
    if reader.token not in _COMPARISONS:
        reader.unexpected("a comparison")
    found: list[Constraint] = []
    while sign := reader.accept(*_COMPARISONS):
        right = reader.sum()
        found.append(_constraint(left, sign, right))
        left = right
    return found


def _constraint(left: Dim, sign: str, right: Dim) -> Constraint:
    match sign:
        case "==":
            for remainder, zero in ((left, right), (right, left)):
                divided = _remainder(remainder) if zero == 0 else None
                if divided is not None:
                    return RelKind.DIVIDES, divided[1], divided[0]
            return RelKind.EQ, left, right
        case "!=":
            return RelKind.NONZERO, left - right, 0
        case ">=":
            return RelKind.GE, left, right
        case "<=":
            return RelKind.GE, right, left
        case ">":
            return RelKind.GE, left, right + 1
        case _:
            return RelKind.GE, right, left + 1


def _remainder(dim: Dim) -> tuple[Dim, Dim] | None:
    """``(a, k)`` where ``dim`` is a number times ``mod(a, k)``."""
    if not isinstance(dim, SymExpr) or len(dim.terms) != 1 or dim.constant:
        return None
    factors = dim.terms[0][0].factors
    atom, power = factors[0]
    if len(factors) > 1 or power > 1 or not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.MOD:
        return None
    a, k = atom.args
    # mod(a, k) has no value where a symbolic k is 0; "is a multiple of 0" has one
    return (a, k) if isinstance(k, int) else None
