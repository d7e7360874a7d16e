"""Special functions, element by element, by the names of ``scipy.special``.

Those in ``__all__`` are dyn's own: they are stitched into kernels, and have derivatives. Each other ufunc of
``scipy.special`` is there by its name too, ``dyn.numpy.special.jv`` say: SciPy computes it, in compiled functions by a
call back (:func:`dyn.pure_callback`), at every shape by one program; it has no derivative.

SciPy finds this module where its array API is switched on (``SCIPY_ARRAY_API=1``), and NumPy's protocol where it is
not, so that ``scipy.special.jv(v, x)`` of an array that is being traced is the function here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn.callbacks import pure_callback
from dyn.dtypes import Kind
from dyn.errors import BackendUnavailableError, UnsupportedOpError
from dyn.numpy._broadcast import align
from dyn.numpy._operands import emit, operand
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._unary import real_float
from dyn.requirements import scipy_module
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["digamma", "erf", "erfc", "erfinv", "expit", "gammaln", "psi"]


def _own(name: str, op: str, text: str, example: str) -> Callable[[ArrayLike], Array]:
    """A row of the table below: the function ``name``, which is an op of dyn's."""

    def fn(x: ArrayLike, /) -> Array:
        return emit(op, *real_float(name, x))

    fn.__name__ = fn.__qualname__ = name
    fn.__module__ = __name__
    fn.__doc__ = f"""{text}

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        {example}
    """
    return public(fn)


erf = _own(
    "erf", "erf", "Error function, element by element.",
    ">>> dnp.special.erf(np.array([0.0, 0.5]))\n        array([0.        , 0.52049988])",
)  # fmt: skip
erfc = _own(
    "erfc", "erfc", "``1 - erf(x)``, element by element, precise where that is small too.",
    ">>> dnp.special.erfc(np.array([0.5]))\n        array([0.47950012])",
)  # fmt: skip
erfinv = _own(
    "erfinv", "erf_inv", "Inverse of ``erf``, element by element; NaN outside of -1 to 1.",
    ">>> dnp.special.erfinv(np.array([0.5]))\n        array([0.47693628])",
)  # fmt: skip
expit = _own(
    "expit", "logistic", "``1 / (1 + exp(-x))``, element by element.",
    ">>> dnp.special.expit(np.array([0.0, 1.0]))\n        array([0.5       , 0.73105858])",
)  # fmt: skip
gammaln = _own(
    "gammaln", "lgamma", "Logarithm of the absolute value of the gamma function, element by element.",
    ">>> dnp.special.gammaln(np.array([5.0]))\n        array([3.17805383])",
)  # fmt: skip
psi = _own(
    "psi", "digamma", "Derivative of ``gammaln``, element by element; NaN at the poles.",
    ">>> dnp.special.psi(np.array([1.0]))\n        array([-0.57721566])",
)  # fmt: skip
digamma = psi


class _UnavailableAttribute(BackendUnavailableError, AttributeError):
    """A function of SciPy's where SciPy is not; an AttributeError too, so that hasattr answers False."""


def __getattr__(name: str) -> Callable[..., Any]:
    """The function of that name which SciPy computes; AttributeError where it has none that goes by elements.

    Where there is no SciPy to ask, the AttributeError is a BackendUnavailableError with the remedy.
    """
    try:
        ufunc = None if name.startswith("_") else _ufunc_of_scipy(name)
    except BackendUnavailableError as error:
        raise _UnavailableAttribute(error.problem, loc=user_loc(), remedy=error.remedy) from error.__cause__
    if ufunc is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return _by_scipy(name, ufunc)


def _ufunc_of_scipy(name: str) -> np.ufunc | None:
    """The ufunc itself: with SciPy's array API ``scipy.special`` has a function around it."""
    found = getattr(scipy_module("special._ufuncs", f"special.{name}"), name, None)
    return found if isinstance(found, np.ufunc) else None


@functools.cache
def _by_scipy(name: str, ufunc: np.ufunc) -> Callable[..., Any]:
    def fn(*args: ArrayLike) -> Any:
        return _called(name, ufunc, args)

    fn.__name__ = fn.__qualname__ = name
    fn.__module__ = __name__
    fn.__doc__ = f"""``scipy.special.{name}``, element by element, which SciPy computes.

    Args:
        *args: {ufunc.nin} arrays of real or complex dtypes, which broadcast.

    Returns:
        {"An array" if ufunc.nout == 1 else f"{ufunc.nout} arrays"} of the shape that they have together.

    Raises:
        UnsupportedOpError: for another number of arrays, or dtypes that it does not take; and under a derivative.
    """
    return public(fn)


def _called(name: str, ufunc: np.ufunc, args: Sequence[Any]) -> Any:
    """The result of SciPy's ufunc. Python's numbers are weak, as they are for NumPy."""
    if len(args) != ufunc.nin:
        raise UnsupportedOpError(
            f"special.{name} takes {ufunc.nin} arrays, not {len(args)}.", loc=user_loc(), remedy="pass as many."
        )
    arrays = [operand(f"special.{name}", arg, *args) for arg in args]
    try:
        dtypes = ufunc.resolve_dtypes((*map(_kind, arrays), *[None] * ufunc.nout))
    except TypeError:
        names = ", ".join([array.dtype.name for array in arrays])
        raise UnsupportedOpError(
            f"special.{name} does not take {names}.", loc=user_loc(), remedy="convert them with .astype('float64')."
        ) from None
    wide: list[Tracer] = align(f"special.{name}", arrays)
    given = [array.astype(dtype) for array, dtype in zip(wide, dtypes, strict=False)]
    struct = tuple([_Result(wide[0].shape, dtype) for dtype in dtypes[ufunc.nin :]])
    return pure_callback(ufunc, struct if ufunc.nout > 1 else struct[0], *given, vmap_method="broadcast_all")


def _kind(array: Tracer) -> Any:
    """The dtype of an array as NumPy's ufuncs are asked: of Python's numbers, which are weak, their type."""
    if not array.weak:
        return array.dtype
    return {Kind.INT: int, Kind.FLOAT: float, Kind.COMPLEX: complex}.get(array.element_type.kind, array.dtype)


class _Result:
    """The shape and the dtype of a result."""

    def __init__(self, shape: Any, dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
