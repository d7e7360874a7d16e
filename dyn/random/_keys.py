"""Keys: what random numbers are computed from. A key is two words, uint32 of shape (2,).

There are no typed keys: ``key`` and ``PRNGKey`` make the same, and any uint32 array of shape (2,) is a key, so that
keys of JAX are taken as ``jax.random.key_data`` gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import NotYetError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import shape_in
from dyn.numpy._operands import cast, constant, emit, made, operand, shape_of, tracer
from dyn.numpy._public import Array, ArrayLike, Key, Shape, found_trace, public
from dyn.numpy._unary import filled
from dyn.random._sampler import key_words, one_key
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["PRNGKey", "fold_in", "key", "key_data", "key_impl", "split", "wrap_key_data"]

_IMPL = "threefry2x32"


# ---- making and reading ----------------------------------------------------------------------------------------------


def _check_impl(what: str, impl: Any) -> None:
    if impl is not None and str(impl) not in (_IMPL, "fry"):
        raise NotYetError(
            f"{what}: the generator {impl!r} comes later.", loc=user_loc(), remedy=f"leave it out: it is {_IMPL!r}."
        )


def key(seed: int | ArrayLike, *, impl: str | None = None, dtype: str | None = None) -> Array:
    """Key of an integer seed: the upper and the lower half of its 64 bits.

    A Python number counts with all its 64 bits, as in JAX with ``jax_enable_x64``; JAX without it drops the upper half.
    An array of fewer bits has no upper half.

    Args:
        seed: a Python integer, a NumPy integer, or an integer array without axes, traced or not.
        impl: ``"threefry2x32"``, the only generator there is, or None.
        dtype: the same by JAX's other name.

    Returns:
        An array of uint32, of shape (2,).

    Raises:
        UnsupportedOpError: if ``seed`` is no integer, or has more than 64 bits.
        ShapeError: if it has axes: use ``dyn.vmap`` for several.
        NotYetError: for another generator.

    Example:
        >>> dyn.random.key(7)
        array([0, 7], dtype=uint32)
    """
    _check_impl("key", impl if impl is not None else dtype)
    return _key("key", seed)


def PRNGKey(seed: int | ArrayLike, *, impl: str | None = None) -> Array:
    """Key of an integer seed, by JAX's older name for :func:`key`.

    Args:
        seed: a Python integer, a NumPy integer, or an integer array without axes, traced or not.
        impl: ``"threefry2x32"``, the only generator there is, or None.

    Returns:
        An array of uint32, of shape (2,).

    Raises:
        UnsupportedOpError: if ``seed`` is no integer, or has more than 64 bits.
        ShapeError: if it has axes.
        NotYetError: for another generator.
    """
    _check_impl("PRNGKey", impl)
    return _key("PRNGKey", seed)


def _key(what: str, seed: Any) -> Any:
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        return _from_number(what, seed)
    return _from_array(seed)


def _from_number(what: str, seed: int | np.integer[Any]) -> Any:
    if not -(2**63) <= int(seed) < 2**64:
        raise UnsupportedOpError(
            f"{what} takes a seed of 64 bits, not {seed}.", loc=user_loc(), remedy="use seed % 2**64."
        )
    # As an array of n bits, shifted by 32 as if it were unsigned: there is nothing up there where n is 32 or less.
    upper = int(seed) >> 32 if not isinstance(seed, np.integer) or seed.itemsize == 8 else 0
    words = np.array([upper & 0xFFFFFFFF, int(seed) & 0xFFFFFFFF], np.uint32)
    trace = found_trace()
    return words if trace is None else Tracer(trace, trace.constant(words))


@public
def _from_array(seed: ArrayLike) -> Array:
    value = operand("key", seed)
    if not value.element_type.is_integer:
        raise UnsupportedOpError(
            f"key takes an integer seed, not {value.element_type.name}.",
            loc=user_loc(),
            remedy="convert it with .astype('uint32').",
        )
    if value.ndim:
        raise ShapeError(
            f"key takes one seed, not an array with {value.ndim} axes.",
            loc=user_loc(),
            remedy="use dyn.vmap for several.",
        )
    wide = cast(value, dtypes.uint64)
    if value.element_type.bits < 64:
        wide = emit("and", wide, filled(wide, 0xFFFFFFFF))
    return words_of(wide)


@public
def wrap_key_data(key_bits_array: ArrayLike, *, impl: str | None = None, dtype: str | None = None) -> Array:
    """Words of keys as keys, which they are already.

    Args:
        key_bits_array: array of uint32, of shape (..., 2).
        impl: ``"threefry2x32"``, the only generator there is, or None.
        dtype: the same by JAX's other name.

    Returns:
        The array.

    Raises:
        UnsupportedOpError: if it is not uint32.
        ShapeError: if its last axis has not two elements, at the call at the latest.
        NotYetError: for another generator.
    """
    _check_impl("wrap_key_data", impl if impl is not None else dtype)
    return key_words("wrap_key_data", key_bits_array)


@public
def key_data(keys: ArrayLike) -> Array:
    """Words of keys, which are what keys are.

    Args:
        keys: array of uint32, of shape (..., 2).

    Returns:
        The array.

    Raises:
        UnsupportedOpError: if it is not uint32.
        ShapeError: if its last axis has not two elements, at the call at the latest.
    """
    return key_words("key_data", keys)


def key_impl(keys: ArrayLike) -> str:
    """Name of the generator of keys.

    Args:
        keys: array of uint32, of shape (..., 2).

    Returns:
        ``"threefry2x32"``.
    """
    return _IMPL


# ---- deriving --------------------------------------------------------------------------------------------------------


@public
def split(key: Key, num: Shape = 2) -> Array:
    r"""New keys from one, whose numbers have nothing to do with each other.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        num: how many, an int or a dimension, or a tuple of sizes.

    Returns:
        An array of uint32, of shape (num, 2), or (\*num, 2) of a tuple.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32.
        ShapeError: if ``key`` is not one key, or a size is negative.

    Example:
        >>> dyn.random.split(dyn.random.key(7)).shape
        (2, 2)
    """
    value = one_key("split", key, num)
    return split_key(value, shape_in(value._trace, num, "split"))


@public
def fold_in(key: Key, data: int | ArrayLike) -> Array:
    """New key from one and an integer, such as the number of a step.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        data: integer, traced or not, of which 32 bits count.

    Returns:
        An array of uint32, of shape (2,).

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, or ``data`` no integer.
        ShapeError: if ``key`` is not one key, or ``data`` has axes.

    Example:
        >>> dyn.random.fold_in(dyn.random.key(7), 1).shape
        (2,)
    """
    value = one_key("fold_in", key, data)
    number = tracer(value._trace, data, "fold_in")
    if number.element_type.kind not in (Kind.INT, Kind.UINT):
        raise UnsupportedOpError(
            f"fold_in takes an integer, not {number.element_type.name}.",
            loc=user_loc(),
            remedy="convert it with .astype.",
        )
    if number.ndim:
        raise ShapeError(
            f"fold_in takes one integer, not an array with {number.ndim} axes.",
            loc=user_loc(),
            remedy="use dyn.vmap for several.",
        )
    first = cast(cast(number, dtypes.uint32), dtypes.uint64)
    return words_of(emit("threefry2x32", value, first, shape=()))


def split_key(key: Tracer, shape: tuple[Dim, ...]) -> Tracer:
    """Keys of shape (…, 2), one for each element of ``shape``."""
    return words_of(key_blocks(key, shape))


def key_blocks(key: Tracer, shape: tuple[Dim, ...]) -> Tracer:
    """64 random bits for each element of ``shape``."""
    return emit("threefry2x32", key, constant(key._trace, 0, dtypes.uint64), shape=shape)


def words_of(blocks: Tracer) -> Tracer:
    """The upper and the lower half of each block along a new last axis."""
    shape = (*shape_of(blocks), 2)
    both = emit("broadcast_in_dim", blocks, shape=shape, dims=tuple(range(len(shape) - 1)))
    word = made(blocks._trace, "iota", shape=shape, dimension=len(shape) - 1, dtype=dtypes.uint64)
    down = emit("multiply", emit("subtract", filled(word, 1), word), filled(word, 32))
    return cast(emit("shift_right_logical", both, down), dtypes.uint32)
