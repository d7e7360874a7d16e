"""Calls that ``prepare`` compiles ahead: what stands for their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dyn.errors import ArgumentError
from dyn.source import user_loc
from dyn.trace.pytree import flatten


def prepared_calls(shapes: Iterable[Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The calls that ``f.prepare(shapes)`` means: tuples of arguments, dicts by name, or each the only argument."""
    for given in shapes:
        if type(given) is dict:
            yield (), given
        else:
            yield given if type(given) is tuple else (given,), {}


def shapes_given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[int, ...]]:
    """The shapes that stand where a call to prepare for has arrays: the tuples and lists of sizes among its arguments,
    or all of them together. Empty for a call with anything else."""
    shapes: list[tuple[int, ...]] = []
    sizes: list[int] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, tuple | list) and value and all(map(_is_size, value)):
            shapes.append(tuple(value))
        elif isinstance(value, int) and _is_size(value):
            sizes.append(value)
        else:
            return []
    return shapes or ([tuple(sizes)] if sizes else [])


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def no_dtypes(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: list[tuple[int, ...]], reason: str
) -> ArgumentError:
    """The error of ``prepare`` for a call that fails, with shapes where arrays belong."""
    written = ", ".join([*map(repr, args), *[f"{key}={value!r}" for key, value in kwargs.items()]])
    structs = ", ".join([f"dyn.ShapeDtypeStruct({shape}, dtype)" for shape in shapes])
    return ArgumentError(
        f"prepare: {name}({written}) is a call with numbers and without arrays, and it fails: {reason.rstrip('.')}.",
        loc=user_loc(),
        remedy=f"pass {structs}, with the dtype that the array has: 'float32', or 'int64' for ids.",
    )


def arrays_given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The arrays of a call to prepare for, by dtypes and shapes."""
    leaves = [leaf for leaf in flatten((args, kwargs))[0] if hasattr(leaf, "dtype") and hasattr(leaf, "shape")]
    return ", ".join([f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}" for leaf in leaves])
