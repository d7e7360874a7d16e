"""What user code sees in ``x.shape``: a thin face over a symbolic dim.

Arithmetic gives dims; questions are decided by proof where the facts suffice, by the size that this trace has (and a
guard) where they do not, and not at all where there is no size to go by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from dyn.errors import UndecidedDimError
from dyn.shapes import Dim, Reason, Relation, RelKind, dim_max, dim_min, floordiv, format_dim, mod
from dyn.source import user_loc
from dyn.trace.context import Trace


def wrap_dim(trace: Trace, dim: Dim) -> int | SymbolicDim:
    """An int as it is; an expression behind its face."""
    return dim if isinstance(dim, int) else SymbolicDim(trace, dim)


def unwrap_dim(dim: object) -> Dim | None:
    """The Dim that a user's size stands for, or None when it is not a size (bools are not)."""
    if isinstance(dim, SymbolicDim):
        return dim.dim
    if isinstance(dim, bool):
        return None
    if isinstance(dim, int):
        return dim
    index = getattr(type(dim), "__index__", None)
    return int(index(dim)) if index is not None else None


class SymbolicDim:
    """A size that is not known while tracing, such as ``x.shape[0]``.

    It adds, subtracts and multiplies with sizes, divides with ``//`` and ``%``, and compares. In arithmetic with
    arrays and floats it is a weakly typed scalar.
    """

    __slots__ = ("dim", "trace")
    __hash__ = None  # pyright: ignore[reportAssignmentType]  # equality may need a guard, so it cannot be a key
    __array_priority__ = 1000

    def __init__(self, trace: Trace, dim: Dim) -> None:
        self.trace = trace
        self.dim = dim

    def __repr__(self) -> str:
        return format_dim(self.dim)

    # Arithmetic -----------------------------------------------------------------------------------------------

    def _dims(self, other: object, compute: Callable[[Dim, Dim], Dim], name: str, *, swap: bool = False) -> Any:
        dim = unwrap_dim(other)
        if dim is None:
            return self._as_value(other, name, swap=swap)
        result = compute(dim, self.dim) if swap else compute(self.dim, dim)
        return wrap_dim(self.trace, result)

    def _as_value(self, other: object, name: str, *, swap: bool) -> Any:
        """Arithmetic with something that is no size: as a scalar, in the NumPy namespace."""
        numpy = self.trace.namespace
        if not numpy.is_operand(other):
            return NotImplemented
        scalar = self.value()
        fn = getattr(numpy, name)
        return fn(other, scalar) if swap else fn(scalar, other)

    def value(self) -> Any:
        """This size as a weakly typed integer scalar of the program."""
        return self.trace.dim_value(self.dim)

    def __add__(self, other: object) -> Any:
        return self._dims(other, lambda a, b: a + b, "add")

    def __radd__(self, other: object) -> Any:
        return self._dims(other, lambda a, b: a + b, "add", swap=True)

    def __sub__(self, other: object) -> Any:
        return self._dims(other, lambda a, b: a - b, "subtract")

    def __rsub__(self, other: object) -> Any:
        return self._dims(other, lambda a, b: a - b, "subtract", swap=True)

    def __mul__(self, other: object) -> Any:
        return self._dims(other, lambda a, b: a * b, "multiply")

    def __rmul__(self, other: object) -> Any:
        return self._dims(other, lambda a, b: a * b, "multiply", swap=True)

    def __floordiv__(self, other: object) -> Any:
        return self._dims(other, floordiv, "floor_divide")

    def __rfloordiv__(self, other: object) -> Any:
        return self._dims(other, floordiv, "floor_divide", swap=True)

    def __mod__(self, other: object) -> Any:
        return self._dims(other, mod, "remainder")

    def __rmod__(self, other: object) -> Any:
        return self._dims(other, mod, "remainder", swap=True)

    def __truediv__(self, other: object) -> Any:
        return self.trace.namespace.true_divide(self.value(), _scalar_operand(other))

    def __rtruediv__(self, other: object) -> Any:
        return self.trace.namespace.true_divide(_scalar_operand(other), self.value())

    def __pow__(self, other: object) -> Any:
        if isinstance(other, int) and other >= 0:
            result: Dim = 1
            for _ in range(other):
                result = result * self.dim
            return wrap_dim(self.trace, result)
        return self.trace.namespace.float_power(self.value(), _scalar_operand(other))

    def __neg__(self) -> Any:
        return wrap_dim(self.trace, -self.dim)

    def __pos__(self) -> SymbolicDim:
        return self

    # Questions ------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        dim = unwrap_dim(other)
        if dim is None:
            if self.trace.namespace.is_operand(other):
                return self.trace.namespace.equal(self.value(), other)
            return False
        equal = Relation(RelKind.EQ, self.dim, dim, _guard_reason(f"{self!r} == {other!r}"))
        unequal = Relation(RelKind.NONZERO, self.dim - dim, 0, _guard_reason(f"{self!r} != {other!r}"))
        return self.trace.decide(equal, unequal)

    def __ne__(self, other: object) -> bool:
        result = self.__eq__(other)
        return not result if isinstance(result, bool) else self.trace.namespace.logical_not(result)

    def _at_least(self, low: Dim, high: Dim, text: str) -> bool:
        """Whether ``high >= low``."""
        yes = Relation(RelKind.GE, high, low, _guard_reason(text))
        no = Relation(RelKind.GE, low, high + 1, _guard_reason(f"not {text}"))
        return self.trace.decide(yes, no)

    def _compare(self, other: object, symbol: str, name: str) -> Any:
        dim = unwrap_dim(other)
        if dim is None:
            return self._as_value(other, name, swap=False)
        text = f"{self!r} {symbol} {other!r}"
        if symbol == ">=":
            return self._at_least(dim, self.dim, text)
        if symbol == "<=":
            return self._at_least(self.dim, dim, text)
        if symbol == ">":
            return self._at_least(dim + 1, self.dim, text)
        return self._at_least(self.dim + 1, dim, text)

    def __lt__(self, other: object) -> Any:
        return self._compare(other, "<", "less")

    def __le__(self, other: object) -> Any:
        return self._compare(other, "<=", "less_equal")

    def __gt__(self, other: object) -> Any:
        return self._compare(other, ">", "greater")

    def __ge__(self, other: object) -> Any:
        return self._compare(other, ">=", "greater_equal")

    def __bool__(self) -> bool:
        return self.__ne__(0)

    # Never ----------------------------------------------------------------------------------------------------

    def _undecided(self, what: str, remedy: str) -> NoReturn:
        raise UndecidedDimError(
            f"{what} of the dimension {self!r} ({self.trace.origin(self.dim)}) has no one value: it differs from call to call.",
            loc=user_loc(),
            remedy=remedy,
        )

    def __int__(self) -> int:
        self._undecided("int()", "use the dimension itself in shapes and arithmetic, or make it static with shapes=.")

    def __index__(self) -> int:
        self._undecided(
            "the integer value",
            "use dyn.numpy operations instead of Python loops and indices, or make it static with shapes=.",
        )

    def __float__(self) -> float:
        self._undecided(
            "float()", "write x / dim, dim ** -0.5 or dim * 1.0: they give a scalar that is computed at each call."
        )


def _guard_reason(text: str) -> Reason:
    return Reason(f"the branch on {text}", user_loc())


def _scalar_operand(other: object) -> Any:
    return other.value() if isinstance(other, SymbolicDim) else other


def min_dim(a: Any, b: Any) -> Any:
    """``min`` of two sizes without asking which is less."""
    return _combine(dim_min, a, b)


def max_dim(a: Any, b: Any) -> Any:
    """``max`` of two sizes without asking which is greater."""
    return _combine(dim_max, a, b)


def _combine(fn: Callable[..., Dim], a: Any, b: Any) -> Any:
    trace = a.trace if isinstance(a, SymbolicDim) else b.trace if isinstance(b, SymbolicDim) else None
    result = fn(unwrap_dim(a), unwrap_dim(b))
    return result if trace is None else wrap_dim(trace, result)
