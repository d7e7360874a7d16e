"""Symbolic dims as user code sees them in ``x.shape``: a thin face over an expression.

Arithmetic gives dims; questions are decided by proof where the facts suffice, by the size that this trace has (and a
guard) where they do not, and not at all where there is no size to go by.
"""

from __future__ import annotations

import math
import operator
import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from dyn.errors import ArgumentError, LeakedTracerError, UndecidedDimError
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, dim_max, dim_min, floordiv, format_dim, mod, product
from dyn.source import user_loc
from dyn.trace.bytecode import callee
from dyn.trace.concretization_site import asking, refuse_torch
from dyn.trace.context import Trace, current_trace, installed_namespace
from dyn.trace.foreign import refuse_jax
from dyn.trace.size_comparisons import OrderSymbol, branch

#: Larger powers of a dim would be unwieldy expressions, and no shape needs them: they are computed as scalars.
_MAX_POWER = 8


def wrap_dim(trace: Trace, dim: Dim) -> int | SymbolicDim:
    """An int as it is; an expression behind its face."""
    return dim if isinstance(dim, int) else SymbolicDim(trace.program, dim)


def unwrap_dim(dim: object) -> Dim | None:
    """The Dim that a user's size stands for, or None when it is not a size (bools and arrays are not)."""
    if isinstance(dim, SymbolicDim):
        return dim.known_here()
    if isinstance(dim, bool | np.ndarray):
        return None
    if isinstance(dim, int | np.integer):
        return int(dim)
    kind = type(dim)
    if not hasattr(kind, "__index__") or hasattr(kind, "__array__"):
        return None
    return operator.index(dim)  # pyright: ignore[reportArgumentType]  # it has __index__


class SymbolicDim:
    """A size that is not known while tracing, such as ``x.shape[0]``.

    It adds, subtracts and multiplies with sizes, divides with ``//`` and ``%``, and compares. In arithmetic with
    arrays and floats it is a weakly typed scalar. Nobody makes one: they come from shapes.

    A comparison is proved, or answered by the call that is traced, with a guard; ``int(n)`` and
    ``range(n)``, which need one number, are an UndecidedDimError; ``hash(n)`` is that of the call, with a guard.

    Args:
        trace: trace that it belongs to.
        dim: expression that it stands for.

    Attributes:
        trace: trace that it belongs to.
        dim: expression that it stands for.

    Example:
        >>> show = dyn.jit(lambda x: print(2 * x.shape[0] + 1, x.shape[0] // 2, x.shape[0] >= 0))
        >>> show(np.ones(3, "f4"))
        2*x_0 + 1 floordiv(x_0, 2) True
    """

    __slots__ = ("dim", "trace")
    __array_priority__ = 1000

    def __init__(self, trace: Trace, dim: Dim) -> None:
        self.trace = trace
        self.dim = dim

    def __repr__(self) -> str:
        return format_dim(self.dim)

    # Arithmetic -----------------------------------------------------------------------------------------------

    def _dims(self, other: object, compute: Callable[[Dim, Dim], Dim], name: str, *, swap: bool = False) -> Any:
        dim = self._size(other)
        if dim is None:
            return self._as_value(other, name, swap=swap)
        own = self.known_here()
        trace = self.trace
        if isinstance(other, SymbolicDim) and trace.encloses(other.trace):
            trace = other.trace
        return wrap_dim(trace, compute(dim, own) if swap else compute(own, dim))

    def known_here(self) -> Dim:
        """Expression of the dim, for the trace that is current.

        Returns:
            An integer, or an expression of symbols.

        Raises:
            LeakedTracerError: if its own trace is over.
        """
        self.trace.check_alive(lambda: f"the dimension {self!r}")
        current = current_trace()
        if current is not None and current.outer is not None and self.trace.encloses(current):
            current.read_from(self.trace)
        return self.dim

    def _size(self, other: object) -> Dim | None:
        """``other`` as a size of the same trace, or of one around it; None when it is no size."""
        if isinstance(other, SymbolicDim) and not (
            self.trace.encloses(other.trace) or other.trace.encloses(self.trace)
        ):
            other.trace.check_alive(lambda: f"the dimension {other!r}")
            raise LeakedTracerError(
                f"the dimensions {self!r} and {other!r} belong to different traces, "
                f"of {self.trace.name!r} and of {other.trace.name!r}.",
                loc=user_loc(),
                remedy="pass arrays to the inner function as arguments, and take their shapes there.",
            )
        return unwrap_dim(other)

    def _as_value(self, other: object, name: str, *, swap: bool = False) -> Any:
        """Arithmetic that gives no size: as a scalar, in the NumPy namespace."""
        numpy = self.trace.namespace
        if not isinstance(other, SymbolicDim) and not numpy.is_operand(other):
            return NotImplemented
        if isinstance(other, SymbolicDim):
            other = other.value()
        fn = getattr(numpy, name)
        return fn(other, self.value()) if swap else fn(self.value(), other)

    def value(self) -> Any:
        """Weakly typed integer scalar that is this size when the program runs.

        Returns:
            A tracer of an array without axes.
        """
        return self.trace.here.dim_value(self.known_here())

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

    def _divided(self, divide: Callable[[Dim, Dim], Dim]) -> Callable[[Dim, Dim], Dim]:
        """A division that demands a divisor other than 0: as in Python, whether anybody needs the result or not."""

        def checked(a: Dim, b: Dim) -> Dim:
            if not isinstance(b, int):
                reason = Reason.about("{} is divided by {}", (a, b), user_loc())
                self.trace.require(Relation(RelKind.NONZERO, b, 0, reason))
            return divide(a, b)

        return checked

    def __floordiv__(self, other: object) -> Any:
        return self._dims(other, self._divided(floordiv), "floor_divide")

    def __rfloordiv__(self, other: object) -> Any:
        return self._dims(other, self._divided(floordiv), "floor_divide", swap=True)

    def __mod__(self, other: object) -> Any:
        return self._dims(other, self._divided(mod), "remainder")

    def __rmod__(self, other: object) -> Any:
        return self._dims(other, self._divided(mod), "remainder", swap=True)

    def __truediv__(self, other: object) -> Any:
        return self._as_value(other, "true_divide")

    def __rtruediv__(self, other: object) -> Any:
        return self._as_value(other, "true_divide", swap=True)

    def __pow__(self, other: object, modulus: Any = None) -> Any:
        if modulus is not None:
            self.known("pow() with a modulus", "write n ** k % m, or make it static with shapes=.")
        if isinstance(other, int) and 0 <= other <= _MAX_POWER:
            return wrap_dim(self.trace, product([self.known_here()] * other))
        return self._as_value(other, "power" if isinstance(other, int) and other >= 0 else "float_power")

    def __rpow__(self, other: object) -> Any:
        return self._as_value(other, "power", swap=True)

    def __divmod__(self, other: object) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return wrap_dim(self.trace, -self.known_here())

    def __pos__(self) -> SymbolicDim:
        return self

    def __abs__(self) -> Any:
        own = self.known_here()
        return wrap_dim(self.trace, own if self.trace.facts.ge(own, 0).proved else dim_max(own, -own))

    def __round__(self, ndigits: int | None = None) -> SymbolicDim:
        return self

    def __trunc__(self) -> SymbolicDim:
        return self

    __floor__ = __ceil__ = __trunc__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's integers with a dim (``np.int64(2) * n``) are sizes; everything else goes to the namespace."""
        plain = _UFUNCS.get(ufunc)
        if plain is not None and method == "__call__" and not kwargs:
            sizes = [_plain_size(x) for x in inputs]
            if all(size is not None for size in sizes):
                return plain(*sizes)
        return self.trace.namespace.from_ufunc(ufunc, method, inputs, kwargs)

    # Questions ------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        dim = self._size(other)
        if dim is None:
            return self._as_value(other, "equal")
        return self.trace.decide(*branch("==", self.known_here(), dim))

    def __ne__(self, other: object) -> Any:
        if self._size(other) is None:
            return self._as_value(other, "not_equal")
        return not self.__eq__(other)

    def _compare(self, other: object, symbol: OrderSymbol, name: str) -> Any:
        dim = self._size(other)
        if dim is None:
            return self._as_value(other, name)
        return self.trace.decide(*branch(symbol, self.known_here(), dim))

    def __lt__(self, other: object) -> Any:
        return self._compare(other, "<", "less")

    def __le__(self, other: object) -> Any:
        return self._compare(other, "<=", "less_equal")

    def __gt__(self, other: object) -> Any:
        return self._compare(other, ">", "greater")

    def __ge__(self, other: object) -> Any:
        return self._compare(other, ">=", "greater_equal")

    def __bool__(self) -> bool:
        return not self.__eq__(0)

    # Only where the facts leave one value ---------------------------------------------------------------------

    def known(self, what: str, remedy: str, *, whoever: bool = False) -> int:
        """The size, where the facts leave only one.

        Where it is a function of NumPy or its kin that asks, or an expression such as ``[0] * n``, the error names
        that, with what to use in its place.

        Args:
            what: what needs the number, for the error.
            remedy: what to write in its place, for the error.
            whoever: True to name any other function that asks, too.

        Returns:
            The number.

        Raises:
            UndecidedDimError: if the facts leave more than one.
        """
        value = self.trace.here.only_value(self.known_here())
        if value is not None:
            return value
        asks = asking(self.trace.namespace.has)
        if asks is not None and (asks.computes or not asks.library or (whoever and asks.library != "dyn")):
            what, remedy = asks.what, asks.remedy
        origin = self.trace.origin(self.dim)
        raise UndecidedDimError(
            f"{what} needs one value of the dimension {self!r} ({origin}), and it differs from call to call.",
            loc=user_loc(),
            remedy=remedy,
        )

    def __int__(self) -> int:
        return self.known("int()", "use the dimension itself in shapes and arithmetic, or make it static with shapes=.")

    @property
    def __jax_array__(self) -> NoReturn:
        refuse_jax(self.trace, f"the dimension {self!r}")

    def __index__(self) -> int:
        return self.known(
            "a Python index",
            "use functions of dyn.numpy, which take dimensions, or make it static with shapes=.",
            whoever=True,
        )

    def __float__(self) -> float:
        asks = callee(sys._getframe(1))
        if any(asks is one for one in (math.isnan, math.isinf, math.isfinite)):
            return 0.0  # each size is finite
        return float(
            self.known("float()", "write x / dim, dim ** -0.5 or dim * 1.0: they give a scalar, computed at each call.")
        )

    def __hash__(self) -> int:
        """The hash of the size of this call, with a guard: a set or a dict has room for one value alone."""
        own, here = self.known_here(), self.trace.here
        size = here.size_of_call(own)
        if size is None:
            remedy = "use a key that is no dimension, such as its name, or make it static with shapes=."
            return hash(self.known("hash()", remedy))
        if here.only_value(own) is None:
            here.decide(*branch("==", own, size))
            program = self.trace.program
            if not program.has_hashed:
                program.has_hashed, loc = True, user_loc()
                warnings.warn_explicit(
                    f"{program.name}: a set or a dict takes the value of the dimension {self!r}, "
                    f"so that this program is for {size} alone.\n"
                    "  help: compare shapes with ==, or use a key that is no dimension.",
                    UserWarning, loc.file or "<unknown>", loc.line,
                )  # fmt: skip
        return hash(size)

    def __format__(self, spec: str) -> str:
        if spec and spec[-1].isalpha() and not spec.endswith("s"):
            remedy = "write its name, with {n} or {n!s:>8}, or make it static with shapes=."
            return format(self.known(f"the format {spec!r}", remedy), spec)
        return format(str(self), spec)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        refuse_torch(func, installed_namespace().has)


def _plain_size(value: object) -> Any:
    """A size of any sort that NumPy hands to a ufunc; None for anything else."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu":
        return int(value)  # np.int64(3) == n arrives as an array
    return value if isinstance(value, SymbolicDim) else unwrap_dim(value)


def counted_from_front(facts: Facts, place: Dim, size: Dim) -> Dim:
    """A place on an axis of ``size`` elements: where it is negative it counts from the end, ``size`` more."""
    if isinstance(place, int):
        return place if place >= 0 else size + place
    if facts.ge(place, 0).proved:
        return place
    if facts.ge(-1, place).proved:
        return size + place
    # Of ``size - c``, ``size`` is added where ``size <= c - 1``: then ``(c - 1) * (c - size)`` is at least as much, and
    # elsewhere it is at most 0. That is linear, and so more of it is proved.
    short = size - place
    if isinstance(short, int):
        return place + dim_min(size, short - 1, (short - 1) * dim_max(short - size, 0))
    return place + size * dim_min(dim_max(-place, 0), 1)


def min_dim(a: Any, b: Any) -> Any:
    """``min`` of two sizes without asking which is less."""
    return _combine(dim_min, a, b)


def max_dim(a: Any, b: Any) -> Any:
    """``max`` of two sizes without asking which is greater."""
    return _combine(dim_max, a, b)


def _combine(fn: Callable[..., Dim], a: Any, b: Any) -> Any:
    dims = [unwrap_dim(a), unwrap_dim(b)]
    for value, dim in zip((a, b), dims, strict=True):
        if dim is None:
            raise ArgumentError(
                f"{value!r} is a {type(value).__name__}, not a size.",
                loc=user_loc(),
                remedy="pass ints and dimensions.",
            )
    result = fn(*dims)
    trace: Trace | None = None
    for size in (a, b):
        if isinstance(size, SymbolicDim) and (trace is None or trace.encloses(size.trace)):
            trace = size.trace
    return result if trace is None else wrap_dim(trace, result)


#: NumPy's functions of sizes that are sizes.
_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.floor_divide: operator.floordiv,
    np.remainder: operator.mod, np.equal: operator.eq, np.not_equal: operator.ne, np.less: operator.lt,
    np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge,
    np.minimum: min_dim, np.maximum: max_dim, np.negative: operator.neg,
}  # fmt: skip
