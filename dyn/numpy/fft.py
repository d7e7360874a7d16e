"""Fourier transforms, by the names of NumPy and of the Python array API standard.

pocketfft computes them in the precision of what it is given: complex64 of float32 and of 16-bit floats, complex128 of
float64; integers become the default float first. Lengths may be dimensions. ``norm`` says where the factor ``1 / n``
stands: with the inverse ("backward", the default), with the other one ("forward"), or its square root with both
("ortho"). An axis of no elements is transformed to one of none, and for real numbers to one of ``0 // 2 + 1``, which is
0. All have derivatives, forward and backward.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import ArgumentError, InvalidValueError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import all_axes, distinct_axes, one_axis, shape_in, text_of
from dyn.numpy._binary import multiply
from dyn.numpy._joining import cut, roll
from dyn.numpy._manipulation import moveaxis
from dyn.numpy._operands import cast, default_float, emit, made, operand, promote, shape_of, to_float
from dyn.numpy._options import check_numbers
from dyn.numpy._public import Array, ArrayLike, Axis, DTypeLike, Size, checked, public, trace_of
from dyn.numpy._standard import check_device
from dyn.numpy._unary import conj, sqrt
from dyn.ops.fft import half_length
from dyn.ops.linalg.matrices import complex_of, real_of
from dyn.shapes import Dim, Reason, Relation, RelKind, dim_max, floordiv, format_dim, product
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

#: An op transforms so many axes at once.
_MOST_AXES = 3


# ---- what they have in common ----------------------------------------------------------------------------------------


def _input(what: str, x: ArrayLike, kind: str) -> Tracer:
    """The operand in a dtype that the transform takes."""
    (value,) = promote(what, x, choose=to_float)
    element = value.element_type
    value = cast(value, element.wide)
    if kind != "RFFT":
        return cast(value, complex_of(value.element_type))
    if element.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"{what} takes real numbers, not {element.name}.", loc=user_loc(), remedy="use fft, or pass x.real."
        )
    return value


def _resized(what: str, x: Tracer, axis: int, size: Dim) -> Tracer:
    """An axis cut off behind, or filled with zeros, to a size; both at once where it is not known which."""
    own = shape_of(x)[axis]
    facts = x._trace.facts
    if facts.eq(own, size).proved:
        return x
    if facts.ge(own, size).proved:
        return cut(x, axis, 0, size)
    zero = cast(promote(what, 0.0)[0], x.element_type)
    none = (0,) * x.ndim
    more = tuple(facts.simplify(size - own) if a == axis else 0 for a in range(x.ndim))
    return emit("pad", x, zero, edge_padding_low=none, edge_padding_high=more, interior_padding=none)


def _some_distance(n: Any = None, d: Any = 1.0, *_: Any, **__: Any) -> None:
    check_numbers("fftfreq", "d", d, lambda number: number != 0, "pass the distance of two samples.")


def _length(what: str, trace: Any, n: Size) -> Dim:
    (size,) = shape_in(trace, n, what)
    return size


def _transformed(x: Tracer, kind: str, axes: Sequence[int], lengths: Sequence[Dim]) -> Tracer:
    """The transform over ``axes`` of an array whose sizes there fit: the last axes for the op, and back."""
    last = tuple(range(x.ndim - len(axes), x.ndim))
    moved = x if tuple(axes) == last else moveaxis(x, tuple(axes), last)
    result = emit("fft", moved, fft_type=kind, fft_length=tuple(lengths))
    return result if tuple(axes) == last else moveaxis(result, last, tuple(axes))


def _scaled(what: str, x: Tracer, norm: str | None, lengths: Sequence[Dim], inverse: bool) -> Tracer:
    """The result of a transform with the factor that ``norm`` says; the op's own is 1, and ``1 / n`` of an inverse."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise InvalidValueError(
            f"{what}: norm is 'backward', 'forward' or 'ortho', not {norm!r}.", loc=user_loc(), remedy="use 'ortho'."
        )
    if norm in (None, "backward"):
        return x
    trace = x._trace
    size = trace.facts.simplify(dim_max(product(list(lengths)), 1))
    count = made(trace, "dim_size", size=size, dtype=real_of(x.element_type))
    factor = sqrt(count) if norm == "ortho" else count
    if not inverse:
        factor = emit("divide", cast(promote(what, 1.0)[0], factor.element_type), factor)
    return multiply(x, cast(factor, x.element_type))


def _axes_and_sizes(what: str, x: Tracer, s: Any, axes: Any) -> tuple[list[int], list[Any]]:
    """The axes that are transformed, and the size that was asked for of each, None for its own."""
    if s is not None and not isinstance(s, tuple | list):
        raise ArgumentError(f"{what}: s is a sequence of sizes, not {s!r}.", loc=user_loc(), remedy="pass a tuple.")
    if axes is None:
        count = x.ndim if s is None else len(s)
        axes = range(x.ndim - count, x.ndim)
    numbers = distinct_axes(what, tuple(axes), x.ndim)
    if s is not None and len(s) != len(numbers):
        raise ArgumentError(
            f"{what}: s has {len(s)} sizes for {len(numbers)} axes.", loc=user_loc(), remedy="give one for each axis."
        )
    if not numbers:
        raise ArgumentError(f"{what}: there is no axis to transform.", loc=user_loc(), remedy="name an axis.")
    return numbers, [None] * len(numbers) if s is None else [None if isinstance(n, int) and n == -1 else n for n in s]


def _complex(what: str, kind: str, x: ArrayLike, s: Any, axes: Any, norm: str | None) -> Tracer:
    """FFT or IFFT over several axes."""
    value = _input(what, x, kind)
    numbers, sizes = _axes_and_sizes(what, value, s, axes)
    for axis, n in zip(numbers, sizes, strict=True):
        if n is not None:
            value = _resized(what, value, axis, _length(what, value._trace, n))
    lengths = [shape_of(value)[axis] for axis in numbers]
    for start in range(0, len(numbers), _MOST_AXES):
        some = slice(start, start + _MOST_AXES)
        value = _transformed(value, kind, numbers[some], lengths[some])
    return _scaled(what, value, norm, lengths, kind == "IFFT")


def _real(what: str, x: ArrayLike, s: Any, axes: Any, norm: str | None) -> Tracer:
    """RFFT over several axes: the half of the last one first, then the others."""
    value = _input(what, x, "RFFT")
    numbers, sizes = _axes_and_sizes(what, value, s, axes)
    for axis, n in zip(numbers, sizes, strict=True):
        if n is not None:
            value = _resized(what, value, axis, _length(what, value._trace, n))
    lengths = [shape_of(value)[axis] for axis in numbers]
    first = max(0, len(numbers) - _MOST_AXES)
    value = _transformed(value, "RFFT", numbers[first:], lengths[first:])
    for start in range(0, first, _MOST_AXES):
        some = slice(start, min(start + _MOST_AXES, first))
        value = _transformed(value, "FFT", numbers[some], lengths[some])
    return _scaled(what, value, norm, lengths, False)


def _of_half(what: str, x: ArrayLike, s: Any, axes: Any, norm: str | None) -> Tracer:
    """IRFFT over several axes: the last one holds a half, of ``2 * (size - 1)`` numbers unless ``s`` says how many."""
    value = _input(what, x, "IRFFT")
    trace = value._trace
    numbers, sizes = _axes_and_sizes(what, value, s, axes)
    lengths: list[Dim] = []
    for place, (axis, n) in enumerate(zip(numbers, sizes, strict=True)):
        last = place == len(numbers) - 1
        own = shape_of(value)[axis]
        if n is not None:
            size = _length(what, trace, n)
        elif last:
            size = _twice(what, value, axis, own)
        else:
            size = own
        value = _resized(what, value, axis, trace.facts.simplify(half_length(size)) if last else size)
        lengths.append(size)
    first = max(0, len(numbers) - _MOST_AXES)
    for start in range(0, first, _MOST_AXES):
        some = slice(start, min(start + _MOST_AXES, first))
        value = _transformed(value, "IFFT", numbers[some], lengths[some])
    value = _transformed(value, "IRFFT", numbers[first:], lengths[first:])
    return _scaled(what, value, norm, lengths, True)


def _twice(what: str, x: Tracer, axis: int, own: Dim) -> Dim:
    """Number of real numbers whose transform an axis holds half of: even. The axis has one element at least."""
    trace = x._trace
    text = f"{what} of axis {axis} has 2 * ({format_dim(own)} - 1) elements"
    if isinstance(own, int) and own < 1:
        raise ShapeError(
            f"{what}: axis {axis} of {text_of(x)} has no elements.",
            loc=user_loc(),
            remedy="say with n= how many elements the result has.",
        )
    trace.require(Relation(RelKind.GE, own, 1, Reason(text, user_loc())))
    return trace.facts.simplify(2 * (own - 1))


def _one(what: str, n: Size | None) -> tuple[Any, ...] | None:
    if isinstance(n, int) and n == -1:  # which stands for an axis's own size in ``s`` alone
        raise ShapeError(f"{what}: the shape (-1,) has a negative size.", loc=user_loc(), remedy="sizes are 0 or more.")
    return None if n is None else (n,)


# ---- over one axis ---------------------------------------------------------------------------------------------------


@public
def fft(x: ArrayLike, /, n: Size | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Discrete Fourier transform over one axis.

    Args:
        x: array of any dtype; sizes may be symbolic.
        n: size of the transform, an int or a dimension, to which the axis is cut or filled with zeros; None: its own.
        axis: axis to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128.

    Raises:
        InvalidValueError: if ``norm`` is another one.
        ShapeError: if ``axis`` is not one of ``x``, or a size is negative.

    Example:
        >>> dnp.fft.fft(np.array([1.0, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _complex("fft", "FFT", x, _one("fft", n), (axis,), norm)


@public
def ifft(x: ArrayLike, /, n: Size | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of :func:`fft`.

    Args:
        x: array of any dtype; sizes may be symbolic.
        n: size of the transform, an int or a dimension, to which the axis is cut or filled with zeros; None: its own.
        axis: axis to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128.

    Raises:
        InvalidValueError: if ``norm`` is another one.
        ShapeError: if ``axis`` is not one of ``x``, or a size is negative.

    Example:
        >>> dnp.fft.ifft(np.array([4.0, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _complex("ifft", "IFFT", x, _one("ifft", n), (axis,), norm)


@public
def rfft(x: ArrayLike, /, n: Size | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Half of the Fourier transform of real numbers, which says what the other half is.

    Args:
        x: array of any real dtype; sizes may be symbolic.
        n: size of the transform, an int or a dimension, to which the axis is cut or filled with zeros; None: its own.
        axis: axis to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128. The axis has ``n // 2 + 1`` elements.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        InvalidValueError: if ``norm`` is another one.
        ShapeError: if ``axis`` is not one of ``x``, or a size is negative.

    Example:
        >>> dnp.fft.rfft(np.array([1.0, 1.0, 1.0, 1.0]))
        array([4.+0.j, 0.+0.j, 0.+0.j])
    """
    return _real("rfft", x, _one("rfft", n), (axis,), norm)


@public
def irfft(x: ArrayLike, /, n: Size | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of :func:`rfft`.

    Args:
        x: array of any dtype; sizes may be symbolic.
        n: size of the result, an int or a dimension; None: ``2 * (size - 1)``.
        axis: axis to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of float32, or float64 of float64 and complex128.

    Raises:
        ShapeError: if the axis is empty and no size is given, at the call at the latest; if it is not one of ``x``.
        InvalidValueError: if ``norm`` is another one.

    Example:
        >>> dnp.fft.irfft(np.array([4.0, 0.0, 0.0]))
        array([1., 1., 1., 1.])
    """
    return _of_half("irfft", x, _one("irfft", n), (axis,), norm)


@public
def hfft(x: ArrayLike, /, n: Size | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Fourier transform of what is Hermitian about its start, of which the first half is given.

    Args:
        x: array of any dtype; sizes may be symbolic.
        n: size of the result, an int or a dimension; None: ``2 * (size - 1)``.
        axis: axis to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of float32, or float64 of float64 and complex128.

    Raises:
        ShapeError: if the axis is empty and no size is given, at the call at the latest; if it is not one of ``x``.
        InvalidValueError: if ``norm`` is another one.

    Example:
        >>> dnp.fft.hfft(np.array([1.0, 0.0, 0.0]))
        array([1., 1., 1., 1.])
    """
    return _of_half("hfft", conj(x), _one("hfft", n), (axis,), _turned(norm))


@public
def ihfft(x: ArrayLike, /, n: Size | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of :func:`hfft`: the first half.

    Args:
        x: array of any real dtype; sizes may be symbolic.
        n: size of the transform, an int or a dimension, to which the axis is cut or filled with zeros; None: its own.
        axis: axis to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128. The axis has ``n // 2 + 1`` elements.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        InvalidValueError: if ``norm`` is another one.
        ShapeError: if ``axis`` is not one of ``x``, or a size is negative.

    Example:
        >>> dnp.fft.ihfft(np.array([1.0, 1.0, 1.0, 1.0]))
        array([1.-0.j, 0.-0.j, 0.-0.j])
    """
    return conj(_real("ihfft", x, _one("ihfft", n), (axis,), _turned(norm)))


def _turned(norm: str | None) -> str | None:
    """The norm of the transform in the other direction."""
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


# ---- over several axes -----------------------------------------------------------------------------------------------


@public
def fftn(
    x: ArrayLike, /, s: Sequence[Size] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """Discrete Fourier transform over several axes.

    Args:
        x: array of any dtype; sizes may be symbolic.
        s: sizes of the transform, one for each axis, ints or dimensions, -1 for the axis's own; None: their own.
        axes: axes to transform; None: all, or the last ``len(s)``.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128.

    Raises:
        InvalidValueError: if ``norm`` is another one.
        ArgumentError: if ``s`` does not fit ``axes``, or there is no axis.
        ShapeError: if an axis is not one of ``x``, or a size is negative.

    Example:
        >>> dnp.fft.fftn(np.ones((2, 2)))
        array([[4.+0.j, 0.+0.j],
               [0.+0.j, 0.+0.j]])
    """
    return _complex("fftn", "FFT", x, s, axes, norm)


@public
def ifftn(
    x: ArrayLike, /, s: Sequence[Size] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """Inverse of :func:`fftn`.

    Args:
        x: array of any dtype; sizes may be symbolic.
        s: sizes of the transform, one for each axis, ints or dimensions, -1 for the axis's own; None: their own.
        axes: axes to transform; None: all, or the last ``len(s)``.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128.

    Raises:
        InvalidValueError: if ``norm`` is another one.
        ArgumentError: if ``s`` does not fit ``axes``, or there is no axis.
        ShapeError: if an axis is not one of ``x``, or a size is negative.
    """
    return _complex("ifftn", "IFFT", x, s, axes, norm)


@public
def rfftn(
    x: ArrayLike, /, s: Sequence[Size] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """:func:`rfft` over the last of several axes, and :func:`fft` over the others.

    Args:
        x: array of any real dtype; sizes may be symbolic.
        s: sizes of the transform, one for each axis, ints or dimensions, -1 for the axis's own; None: their own.
        axes: axes to transform; None: all, or the last ``len(s)``.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128. The last of the axes has ``n // 2 + 1``
        elements.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        InvalidValueError: if ``norm`` is another one.
        ArgumentError: if ``s`` does not fit ``axes``, or there is no axis.
        ShapeError: if an axis is not one of ``x``, or a size is negative.

    Example:
        >>> dnp.fft.rfftn(np.ones((2, 4))).shape
        (2, 3)
    """
    return _real("rfftn", x, s, axes, norm)


@public
def irfftn(
    x: ArrayLike, /, s: Sequence[Size] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """Inverse of :func:`rfftn`.

    Args:
        x: array of any dtype; sizes may be symbolic.
        s: sizes of the result, one for each axis, ints or dimensions; None: their own, and ``2 * (size - 1)`` for the
            last.
        axes: axes to transform; None: all, or the last ``len(s)``.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of float32, or float64 of float64 and complex128.

    Raises:
        InvalidValueError: if ``norm`` is another one.
        ArgumentError: if ``s`` does not fit ``axes``, or there is no axis.
        ShapeError: if an axis is not one of ``x``, or a size is negative.

    Example:
        >>> dnp.fft.irfftn(np.ones((2, 3))).shape
        (2, 4)
    """
    return _of_half("irfftn", x, s, axes, norm)


@public
def fft2(
    x: ArrayLike, /, s: Sequence[Size] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """:func:`fftn` over two axes.

    Args:
        x: array of any dtype; sizes may be symbolic.
        s: sizes of the transform, one for each axis, ints or dimensions, -1 for the axis's own; None: their own.
        axes: the two axes to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128.

    Raises:
        InvalidValueError: if ``norm`` is another one.
        ArgumentError: if ``s`` does not fit ``axes``, or there is no axis.
        ShapeError: if an axis is not one of ``x``, or a size is negative.
    """
    return _complex("fft2", "FFT", x, s, axes, norm)


@public
def ifft2(
    x: ArrayLike, /, s: Sequence[Size] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """:func:`ifftn` over two axes.

    Args:
        x: array of any dtype; sizes may be symbolic.
        s: sizes of the transform, one for each axis, ints or dimensions, -1 for the axis's own; None: their own.
        axes: the two axes to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128.

    Raises:
        InvalidValueError: if ``norm`` is another one.
        ArgumentError: if ``s`` does not fit ``axes``, or there is no axis.
        ShapeError: if an axis is not one of ``x``, or a size is negative.
    """
    return _complex("ifft2", "IFFT", x, s, axes, norm)


@public
def rfft2(
    x: ArrayLike, /, s: Sequence[Size] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """:func:`rfftn` over two axes.

    Args:
        x: array of any real dtype; sizes may be symbolic.
        s: sizes of the transform, one for each axis, ints or dimensions, -1 for the axis's own; None: their own.
        axes: the two axes to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of complex64, or complex128 of float64 and complex128. The last of the axes has ``n // 2 + 1``
        elements.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        InvalidValueError: if ``norm`` is another one.
        ArgumentError: if ``s`` does not fit ``axes``, or there is no axis.
        ShapeError: if an axis is not one of ``x``, or a size is negative.
    """
    return _real("rfft2", x, s, axes, norm)


@public
def irfft2(
    x: ArrayLike, /, s: Sequence[Size] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """:func:`irfftn` over two axes.

    Args:
        x: array of any dtype; sizes may be symbolic.
        s: sizes of the result, one for each axis, ints or dimensions; None: their own, and ``2 * (size - 1)`` for the
            last.
        axes: the two axes to transform.
        norm: scaling: None or ``"backward"``: the inverse has the factor 1 / n; ``"forward"``: the transform has it;
            ``"ortho"``: both have its root.

    Returns:
        An array of float32, or float64 of float64 and complex128.

    Raises:
        InvalidValueError: if ``norm`` is another one.
        ArgumentError: if ``s`` does not fit ``axes``, or there is no axis.
        ShapeError: if an axis is not one of ``x``, or a size is negative.
    """
    return _of_half("irfft2", x, s, axes, norm)


# ---- frequencies -----------------------------------------------------------------------------------------------------


def _frequencies(what: str, n: Size, d: ArrayLike, dtype: DTypeLike, half: bool) -> Tracer:
    trace = trace_of(n, d)
    size = _length(what, trace, n)
    element = default_float() if dtype is None else dtype_of(dtype)
    count = trace.facts.simplify(half_length(size) if half else size)
    places = made(trace, "iota", shape=(count,), dimension=0, dtype=dtypes.int64)
    if not half:  # from the middle on they are negative
        middle = made(trace, "dim_size", size=trace.facts.simplify(floordiv(size + 1, 2)), dtype=dtypes.int64)
        whole = made(trace, "dim_size", size=size, dtype=dtypes.int64)
        above = emit("compare", places, _everywhere(middle, places), direction="GE")
        places = emit("select", above, emit("subtract", places, _everywhere(whole, places)), places)
    divisor = made(trace, "dim_size", size=trace.facts.simplify(dim_max(size, 1)), dtype=element)
    return emit("divide", cast(places, element), _everywhere(cast(multiply(divisor, d), element), places))


def _everywhere(x: Tracer, like: Tracer) -> Tracer:
    return emit("broadcast_in_dim", x, shape=shape_of(like), dims=())


@checked(_some_distance)
@public
def fftfreq(n: Size, /, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """Frequency of each number of :func:`fft`, in turns for each unit of distance; negative from the middle on.

    Args:
        n: number of samples, an int or a dimension.
        d: distance of two samples, a number other than 0 or a traced scalar.
        dtype: float dtype of the result; None: the default float dtype.
        device: None or ``"cpu"`` in a trace; outside of one any device.

    Returns:
        A vector of ``n`` elements.

    Raises:
        InvalidValueError: if ``d`` is 0.
        ShapeError: if ``n`` is negative.

    Example:
        >>> dnp.fft.fftfreq(4)
        dyn.Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    check_device("fftfreq", device)
    return _frequencies("fftfreq", n, d, dtype, False)


@checked(_some_distance)
@public
def rfftfreq(n: Size, /, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """Frequency of each number of :func:`rfft`, in turns for each unit of distance.

    Args:
        n: number of samples, an int or a dimension.
        d: distance of two samples, a number other than 0 or a traced scalar.
        dtype: float dtype of the result; None: the default float dtype.
        device: None or ``"cpu"`` in a trace; outside of one any device.

    Returns:
        A vector of ``n // 2 + 1`` elements.

    Raises:
        InvalidValueError: if ``d`` is 0.
        ShapeError: if ``n`` is negative.

    Example:
        >>> dnp.fft.rfftfreq(4)
        dyn.Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    check_device("rfftfreq", device)
    return _frequencies("rfftfreq", n, d, dtype, True)


def _shifted(what: str, x: ArrayLike, axes: Axis, sign: int) -> Tracer:
    value = operand(what, x)
    for axis in all_axes(what, axes, value.ndim) if not isinstance(axes, int) else (one_axis(what, axes, value.ndim),):
        size = shape_of(value)[axis]
        # A half, rounded down, to the right; back it is to the left.
        half = floordiv(size, 2) if sign > 0 else size - floordiv(size, 2)
        value = roll(value, wrap_dim(value._trace, value._trace.facts.simplify(half)), axis)
    return value


@public
def fftshift(x: ArrayLike, /, axes: Axis = None) -> Array:
    """Array whose axes' starts, where the frequency is 0, are moved to their middles.

    Args:
        x: array of any dtype; sizes may be symbolic, or 0.
        axes: axis or axes; None: all.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> dnp.fft.fftshift(np.arange(5))
        array([3, 4, 0, 1, 2])
    """
    return _shifted("fftshift", x, axes, 1)


@public
def ifftshift(x: ArrayLike, /, axes: Axis = None) -> Array:
    """Inverse of :func:`fftshift`.

    Args:
        x: array of any dtype; sizes may be symbolic, or 0.
        axes: axis or axes; None: all.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> dnp.fft.ifftshift(np.arange(5))
        array([2, 3, 4, 0, 1])
    """
    return _shifted("ifftshift", x, axes, -1)
