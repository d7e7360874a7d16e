"""Divisors and multiples of integers."""

from __future__ import annotations

from dyn.errors import UnsupportedOpError
from dyn.numpy._broadcast import align
from dyn.numpy._operands import emit, promote
from dyn.numpy._public import Array, ArrayLike, public, trace_of
from dyn.numpy._reductions import any as any_of
from dyn.numpy._unary import abs as abs_of
from dyn.numpy._unary import filled, flag
from dyn.source import user_loc
from dyn.trace import control
from dyn.trace.tracer import Tracer

__all__ = ["gcd", "lcm"]


def _sizes(what: str, x: ArrayLike, y: ArrayLike) -> tuple[Tracer, Tracer]:
    """The absolute values of integers of one dtype and shape."""
    operands = promote(what, x, y)
    if not operands[0].element_type.is_integer:
        raise UnsupportedOpError(
            f"{what} takes integers, not {operands[0].element_type.name}.",
            loc=user_loc(),
            remedy="convert the arrays with .astype('int32').",
        )
    a, b = (abs_of(v) for v in align(what, operands))
    return a, b


def _divisor(x: Tracer, y: Tracer) -> Tracer:
    """Euclid's algorithm on all elements together (D. E. Knuth, TAOCP 2, section 4.5.2, algorithm A)."""

    def step(pair: tuple[Tracer, Tracer]) -> tuple[Tracer, Tracer]:
        a, b = pair
        done = flag("EQ", b, 0)
        rest = emit("remainder", a, emit("select", done, filled(b, 1), b))
        return emit("select", done, a, b), emit("select", done, b, rest)

    return control.while_loop(trace_of(x, y), lambda pair: any_of(pair[1] != 0), step, (x, y))[0]


@public
def gcd(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Greatest common divisor, element by element, by Euclid's algorithm in a loop over all elements together.

    Args:
        x: array of integers.
        y: array of integers that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype. Not negative, and 0 where both are 0.

    Raises:
        UnsupportedOpError: if they are not integers.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.

    Example:
        >>> dnp.gcd(np.array([12, 0, -9]), np.array([18, 5, 6]))
        array([6, 5, 3])
    """
    return abs_of(_divisor(*_sizes("gcd", x, y)))  # the least integer is its own absolute value, and its remainders


@public
def lcm(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Least common multiple, element by element.

    Args:
        x: array of integers.
        y: array of integers that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype. Not negative, 0 where either is 0; it wraps
        around where the dtype does not have it.

    Raises:
        UnsupportedOpError: if they are not integers.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.

    Example:
        >>> dnp.lcm(np.array([4, 0]), np.array([6, 5]))
        array([12,  0])
    """
    a, b = _sizes("lcm", x, y)
    divisor = _divisor(a, b)
    none = flag("EQ", divisor, 0)
    share = emit("divide", a, emit("select", none, filled(divisor, 1), divisor))
    return emit("multiply", share, b)
