"""Raw operations on whole arrays, by ``jax.lax``'s names: reductions, running ones, products, windows, random bits.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import ShapeError
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.lax._operands import (
    Array,
    ArrayLike,
    DTypeLike,
    Size,
    axis_of,
    lifted,
    lifted_all,
    lifted_each,
    raw,
    settled,
    sizes_of,
    trace_of,
)
from dyn.lax._reduce import window_padding
from dyn.ops.arithmetic import Arithmetic
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.lift import dtype_of
from dyn.trace.pytree import flatten
from dyn.trace.region import Expected, trace_region
from dyn.trace.tracer import Tracer
from dyn.transforms import Transformed


def _array(what: str, trace: Trace, x: Any) -> Value:
    return settled(trace, lifted(what, trace, x))


# --- reductions ---------------------------------------------------------------------------------------------------


def _reduction(
    name: str, combine: str, takes: str, text: str, nothing: str
) -> Callable[[ArrayLike, Sequence[int]], Array]:
    def fn(operand: ArrayLike, axes: Sequence[int]) -> Array:
        trace = trace_of(operand)
        x = _array(name, trace, operand)
        numbers = tuple(sorted(axis_of(name, axis, len(x.shape)) for axis in axes))
        return Tracer(trace, trace.emit("reduce", x, axes=numbers, combine=combine, nonempty=False))

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"""{text}

    Args:
        operand: array of {takes}.
        axes: axes to reduce; sizes there may be symbolic, or 0.

    Returns:
        An array without these axes, in the dtype of ``operand``; of no elements {nothing}.

    Raises:
        ShapeError: if an axis is not one of ``operand``.
        UnsupportedOpError: if ``operand`` has another dtype.
    """
    return raw(fn)


#: Dtypes that reductions take, as their docstrings say it.
_BITS, _NUMBER, _REAL = "any integer dtype, or bool", "any dtype but bool", "any real dtype"

reduce_and = _reduction("reduce_and", "and", _BITS, "Conjunction along axes, bit by bit.", "all bits are set")
reduce_max = _reduction("reduce_max", "maximum", _REAL, "Greatest element along axes; NaN where there is one.",
                        "the least there is")  # fmt: skip
reduce_min = _reduction("reduce_min", "minimum", _REAL, "Least element along axes; NaN where there is one.",
                        "the greatest there is")  # fmt: skip
reduce_or = _reduction("reduce_or", "or", _BITS, "Disjunction along axes, bit by bit.", "0")
reduce_prod = _reduction("reduce_prod", "multiply", _NUMBER, "Product along axes; integers wrap around.", "1")
reduce_sum = _reduction("reduce_sum", "add", _NUMBER, "Sum along axes; integers wrap around.", "0")
reduce_xor = _reduction("reduce_xor", "xor", _BITS, "Exclusive disjunction along axes, bit by bit.", "0")


def _extreme(name: str, combine: str, text: str) -> Callable[..., Array]:
    def fn(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
        trace = trace_of(operand)
        x = _array(name, trace, operand)
        number, to = axis_of(name, axis, len(x.shape)), dtype_of(index_dtype)
        best = trace.emit("reduce", x, axes=(number,), combine=combine, nonempty=True)
        others = tuple(a for a in range(len(x.shape)) if a != number)
        best = trace.emit("broadcast_in_dim", best, shape=x.shape, dims=others)
        a = Arithmetic(trace.builder)
        is_it = a.f("or", a.cmp(x, "EQ", best), a.cmp(x, "NE", x))
        places = trace.emit("iota", shape=x.shape, dimension=number, dtype=dtypes.int64)
        first = a.where(is_it, places, a.fill(places, 2**63 - 1))
        found = trace.emit("reduce", first, axes=(number,), combine="minimum", nonempty=False)
        return Tracer(trace, found if to is dtypes.int64 else trace.emit("convert", found, dtype=to))

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"""Place where the {text} element stands first along an axis; NaN is more and less than any.

    Args:
        operand: array of any real dtype.
        axis: axis to search along.
        index_dtype: dtype of the result, an integer one.

    Returns:
        An array without the axis, in ``index_dtype``.

    Raises:
        ShapeError: if ``axis`` is not one of ``operand``; when called, if it is empty.
        UnsupportedOpError: if ``operand`` is complex.
    """
    return raw(fn)


argmax = _extreme("argmax", "maximum", "greatest")
argmin = _extreme("argmin", "minimum", "least")


# --- products -----------------------------------------------------------------------------------------------------


@raw
def dot_general(
    lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: Any, precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:  # fmt: skip
    """Sums of products over axes of two arrays, with others that go together: StableHLO's contraction.

    Args:
        lhs: array of any dtype but bool.
        rhs: array of the same dtype.
        dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``, each a sequence of axes.
        precision: JAX's hint, which changes nothing here.
        preferred_element_type: dtype that operands, which may have two dtypes then, are converted to first; None: their
            own.

    Returns:
        An array with the batch axes, the other ones of ``lhs``, then those of ``rhs``.

    Raises:
        ShapeError: if sizes that go together differ: at once where that is proved, otherwise when called.
        UnsupportedOpError: if the dtypes differ.

    Example:
        >>> lax.dot_general(np.ones((2, 3)), np.ones((3, 4)), (((1,), (0,)), ((), ()))).shape
        (2, 4)
    """
    trace = trace_of(lhs, rhs)
    to = None if preferred_element_type is None else dtype_of(preferred_element_type)
    both = lifted_all("dot_general", trace, (lhs, rhs)) if to is None else lifted_each("dot_general", trace, (lhs, rhs))
    values = [settled(trace, v) for v in both]
    if to is not None:
        values = [v if v.dtype is to else trace.emit("convert", v, dtype=to) for v in values]
    (contracting, batch) = dimension_numbers
    attrs = {
        f"{side}_{kind}": tuple(axis_of("dot_general", axis, len(v.shape)) for axis in axes[i])
        for i, (side, v) in enumerate(zip(("lhs", "rhs"), values, strict=True))
        for kind, axes in (("contracting", contracting), ("batch", batch))
    }
    return Tracer(trace, trace.emit("dot_general", *values, **attrs))


@raw
def dot(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """Product of vectors and matrices.

    Args:
        lhs: vector or matrix of any dtype but bool.
        rhs: vector or matrix of the same dtype.
        precision: JAX's hint, which changes nothing here.
        preferred_element_type: dtype that operands are converted to first; None: their own.

    Returns:
        An array of the axes that are left.

    Raises:
        ShapeError: if one has another number of axes, or the inner sizes differ, at the call at the latest.
        UnsupportedOpError: if the dtypes differ.

    Example:
        >>> lax.dot(np.array([[1.0, 2.0]]), np.array([3.0, 4.0]))
        array([11.])
    """
    trace = trace_of(lhs, rhs)
    ranks = [len(lifted("dot", trace, v).shape) for v in (lhs, rhs)]
    if any(rank not in (1, 2) for rank in ranks):
        raise ShapeError(
            f"dot takes vectors and matrices, not arrays with {ranks[0]} and {ranks[1]} axes.",
            loc=user_loc(),
            remedy="use dot_general, or dyn.numpy.matmul.",
        )
    return dot_general(lhs, rhs, (((ranks[0] - 1,), (0,)), ((), ())), precision, preferred_element_type)


@raw
def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """Products of matrices, which lie along the last two axes.

    Args:
        lhs: array of any dtype but bool, of two axes or more.
        rhs: array of the same dtype and number of axes, with the same sizes in front.
        precision: JAX's hint, which changes nothing here.

    Returns:
        An array of that dtype.

    Raises:
        ShapeError: if sizes do not fit: at once where that is proved, otherwise when called.
        UnsupportedOpError: if the dtypes differ.

    Example:
        >>> lax.batch_matmul(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    trace = trace_of(lhs, rhs)
    rank = len(lifted("batch_matmul", trace, lhs).shape)
    batch = tuple(range(rank - 2))
    return dot_general(lhs, rhs, (((rank - 1,), (rank - 2,)), (batch, batch)), precision)


# --- windows ------------------------------------------------------------------------------------------------------


def select_and_scatter(
    operand: ArrayLike, select: Callable[[Any, Any], Any], window_dimensions: Sequence[Size],
    window_strides: Sequence[int], padding: str | Sequence[tuple[Size, Size]], source: ArrayLike,
    init_value: ArrayLike, scatter: Callable[[Any, Any], Any],
) -> Array:  # fmt: skip
    """Values of windows scattered to the elements that the windows select: StableHLO's.

    With ``select`` ``>=`` and ``scatter`` ``+`` it is the gradient of max pooling.

    Args:
        operand: array of any dtype, in whose windows elements are selected.
        select: function of two scalars: whether the first one stays selected, in the order of the window.
        window_dimensions: sizes of a window, ints or dimensions.
        window_strides: distances of windows.
        padding: ``"VALID"``, ``"SAME"``, ``"SAME_LOWER"`` or pairs; padding is never selected.
        source: array with a value for each window, of the dtype of ``operand``.
        init_value: scalar for elements that no window selects.
        scatter: function of two scalars: what is there, and the value that comes, to what is there then.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if there is not a number for each axis, or a value for each window, at the call at the latest.
        UnsupportedOpError: if the dtypes differ, or a function reads an array from outside.

    Example:
        >>> x, grads = np.array([1.0, 5.0, 2.0, 4.0]), np.array([10.0, 20.0])
        >>> lax.select_and_scatter(x, lambda a, b: a >= b, (2,), (2,), "VALID", grads, 0.0, lambda a, b: a + b)
        array([ 0., 10.,  0., 20.])
    """
    edges = padding if isinstance(padding, str) else tuple(tuple(pair) for pair in padding)
    window, strides = tuple(window_dimensions), tuple(window_strides)

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = lifted_all("select_and_scatter", trace, args)
        x, given, init = (settled(trace, v) for v in values)
        element = TensorType(x.dtype, ())
        _, tree = flatten(0)
        regions = tuple(
            trace_region(
                trace, fn, [element, element], name=f"what {name}s in select_and_scatter",
                expected=Expected(tree, (TensorType(dtype, ()),), "its results"), closes=False,
            ).region
            for name, fn, dtype in (("select", select, dtypes.bool_), ("scatter", scatter, x.dtype))
        )  # fmt: skip
        sizes = sizes_of("select_and_scatter", window)
        pads = window_padding("select_and_scatter", edges, x.shape, sizes, strides)
        attrs = {"window": sizes, "strides": strides, "padding": pads}
        (made,) = trace.emit_all("select_and_scatter", x, given, init, regions=regions, **attrs)
        return Tracer(trace, made)

    return Transformed("select_and_scatter", select, inside)(operand, source, init_value)


# --- random bits --------------------------------------------------------------------------------------------------


class RandomAlgorithm(IntEnum):
    """Generators of :func:`rng_bit_generator`, by JAX's names.

    Attributes:
        RNG_DEFAULT: the one that XLA takes on CPUs.
        RNG_THREE_FRY: Threefry, with keys of four uint32 or two uint64.
        RNG_PHILOX: Philox, with keys of two or three uint64 too.
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


@raw
def rng_bit_generator(
    key: ArrayLike, shape: Sequence[Size], dtype: DTypeLike = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
) -> tuple[Array, Array]:  # fmt: skip
    """Random bits of a key as integers, as XLA makes them on CPUs, and the next key.

    Args:
        key: four uint32, or two or three uint64: the key of a cipher and a counter.
        shape: sizes of the bits, ints or dimensions.
        dtype: dtype that the bits are numbers of, an integer one as a rule.
        algorithm: the generator.

    Returns:
        The key after these bits, in the dtype and shape of ``key``, and the bits.

    Raises:
        UnsupportedOpError: if the dtypes are others.
        ShapeError: if the key has another size: a symbolic one, as outside of traces, has to be that of Threefry's.

    Example:
        >>> lax.rng_bit_generator(np.zeros(4, np.uint32), (2,))[1].shape
        (2,)
    """
    trace = trace_of(key, shape)
    state = _array("rng_bit_generator", trace, key)
    words = state.dtype is dtypes.uint32
    if words:
        state = _joined(trace, state)
    name = RandomAlgorithm(int(algorithm)).name.removeprefix("RNG_")
    attrs: dict[str, Any] = {"shape": sizes_of("rng_bit_generator", shape), "dtype": dtype_of(dtype), "algorithm": name}
    new, bits = trace.emit_all("rng_bit_generator", state, **attrs)
    return Tracer(trace, _parted(trace, new) if words else new), Tracer(trace, bits)


def _joined(trace: Trace, words: Value) -> Value:
    """Pairs of uint32 as uint64, the low half first."""
    if words.shape != (4,):
        trace.builder.loc = user_loc()
        words = trace.emit("reshape", words, shape=(4,))
    wide = trace.emit("convert", trace.emit("reshape", words, shape=(2, 2)), dtype=dtypes.uint64)
    low, high = (
        trace.emit("reshape", trace.emit("slice", wide, start=(0, i), limit=(2, i + 1), strides=(1, 1)), shape=(2,))
        for i in range(2)
    )
    a = Arithmetic(trace.builder)
    return a.f("or", low, a.f("shift_left", high, a.fill(high, 32)))


def _parted(trace: Trace, state: Value) -> Value:
    a = Arithmetic(trace.builder)
    halves = [
        trace.emit("reshape", trace.emit("convert", v, dtype=dtypes.uint32), shape=(2, 1))
        for v in (state, a.f("shift_right_logical", state, a.fill(state, 32)))
    ]
    return trace.emit("reshape", trace.emit("concatenate", *halves, dimension=1), shape=(4,))


# --- normalisation ------------------------------------------------------------------------------------------------


def _normal(name: str, given: Sequence[Any], epsilon: float, feature_index: int) -> list[Tracer]:
    trace = trace_of(*given)
    values = [settled(trace, v) for v in lifted_all(name, trace, given)]
    axis = axis_of(name, feature_index, len(values[0].shape))
    return [Tracer(trace, v) for v in trace.emit_all(name, *values, epsilon=float(epsilon), feature_index=axis)]


@raw
def batch_norm_training(
    operand: ArrayLike, scale: ArrayLike, offset: ArrayLike, epsilon: float, feature_index: int
) -> tuple[Array, Array, Array]:
    """Batch normalisation with the batch's own statistics: StableHLO's.

    Args:
        operand: array of any float dtype, of one axis or more.
        scale: vector with a factor for each feature.
        offset: vector with a summand for each feature.
        epsilon: what is added to variances, a Python number.
        feature_index: axis of the features.

    Returns:
        The array with mean ``offset`` and deviation ``scale`` for each feature; and the vectors of means and variances
        it had.

    Raises:
        ShapeError: if there is not a number for each feature, at the call at the latest.
        UnsupportedOpError: if the dtypes differ.
    """
    made, mean, variance = _normal("batch_norm_training", (operand, scale, offset), epsilon, feature_index)
    return made, mean, variance


@raw
def batch_norm_inference(
    operand: ArrayLike, scale: ArrayLike, offset: ArrayLike, mean: ArrayLike, variance: ArrayLike, epsilon: float,
    feature_index: int,
) -> Array:  # fmt: skip
    """Batch normalisation by given statistics: ``(operand - mean) / sqrt(variance + epsilon) * scale + offset``.

    Args:
        operand: array of any float dtype, of one axis or more.
        scale: vector with a factor for each feature.
        offset: vector with a summand for each feature.
        mean: vector of means.
        variance: vector of variances.
        epsilon: what is added to variances, a Python number.
        feature_index: axis of the features.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if there is not a number for each feature, at the call at the latest.
        UnsupportedOpError: if the dtypes differ.
    """
    return _normal("batch_norm_inference", (operand, scale, offset, mean, variance), epsilon, feature_index)[0]


@raw
def batch_norm_grad(
    operand: ArrayLike, scale: ArrayLike, mean: ArrayLike, variance: ArrayLike, grad_output: ArrayLike,
    epsilon: float, feature_index: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradients of :func:`batch_norm_training`: StableHLO's.

    Args:
        operand: array that was normalised.
        scale: vector with a factor for each feature.
        mean: vector of means of the batch.
        variance: vector of variances of the batch.
        grad_output: cotangent of the result, in the shape of ``operand``.
        epsilon: what was added to variances, a Python number.
        feature_index: axis of the features.

    Returns:
        The cotangents of the operand, of the scale and of the offset.

    Raises:
        ShapeError: if shapes do not fit, at the call at the latest.
        UnsupportedOpError: if the dtypes differ.
    """
    given = (operand, scale, mean, variance, grad_output)
    of_x, of_scale, of_offset = _normal("batch_norm_grad", given, epsilon, feature_index)
    return of_x, of_scale, of_offset
