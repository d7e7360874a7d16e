"""Places in triangles of as many rows as a size says, which PyTorch's own code in C++ takes as numbers.

Of a triangle whose rows have 1, 2, 3, ... places, place ``p`` is in row ``r``, the greatest for which ``r * (r + 1) / 2
<= p``. Roots are rounded, and put right by a comparison. What is not asked of a square of such a size is left to
PyTorch, as are its errors.
"""

from __future__ import annotations

from typing import Any

import torch

#: What is asked of sizes below is asked by the function that is called here.
CALLS_USERS = True

#: The options that are passed on.
_OPTIONS = frozenset({"dtype", "device"})
_TYPES = (None, torch.int64)


def _is_plain(row: Any, col: Any, offset: Any, options: dict[str, Any]) -> bool:
    """Whether places are asked of a square of as many rows as a symbol says."""
    given = {name for name, value in options.items() if value is not None and value is not False}
    is_square = isinstance(row, torch.SymInt) and isinstance(col, torch.SymInt) and bool(row == col)
    return is_square and type(offset) is int and given <= _OPTIONS and options.get("dtype") in _TYPES


def _places(count: Any, device: Any) -> tuple[Any, Any]:
    """The rows and columns of the places in a triangle of ``count`` rows, from its top."""
    place = torch.arange(count * (count + 1) // 2, device=device)
    row = ((torch.sqrt(8.0 * place.double() + 1) - 1) / 2).long()
    row = row - (row * (row + 1) // 2 > place).long()
    row = row + ((row + 1) * (row + 2) // 2 <= place).long()
    return row, place - row * (row + 1) // 2


def tril_indices(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.tril_indices`` of a square, at and below a diagonal that is not above the main one."""

    def places(row: Any, col: Any, offset: Any = 0, **options: Any) -> Any:
        if not _is_plain(row, col, offset, options) or offset > 0:
            return func(*args, **kwargs)
        rows, columns = _places(torch.sym_max(row + offset, 0), options.get("device"))
        return torch.stack([rows - offset, columns])

    return places(*args, **kwargs)


def triu_indices(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.triu_indices`` of a square, at and above a diagonal that is not below the main one."""

    def places(row: Any, col: Any, offset: Any = 0, **options: Any) -> Any:
        if not _is_plain(row, col, offset, options) or offset < 0:
            return func(*args, **kwargs)
        # From its last place on it is a triangle whose rows grow.
        rows, columns = _places(torch.sym_max(row - offset, 0), options.get("device"))
        return torch.stack([row - offset - 1 - rows.flip(0), row - 1 - columns.flip(0)])

    return places(*args, **kwargs)


def combinations(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.combinations`` of pairs."""

    def pairs(input: Any, r: Any = 2, with_replacement: bool = False) -> Any:
        if r != 2 or input.ndim != 1 or not isinstance(input.shape[0], torch.SymInt):
            return func(*args, **kwargs)
        count = input.shape[0]
        offset = 0 if with_replacement else 1
        at = triu_indices(torch.triu_indices, (count, count, offset), {"device": input.device})
        return torch.stack([input[at[0]], input[at[1]]], 1)

    return pairs(*args, **kwargs)
