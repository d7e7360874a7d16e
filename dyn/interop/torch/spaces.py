"""Spaces and windows of as many places as a size says, which PyTorch's own code in C++ takes as a number.

They are PyTorch's formulas, for sizes that are symbols. Whatever is not asked of such a size, and results whose type or
layout is said otherwise, are left to PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

#: What is asked of sizes below is asked by the function that is called here.
CALLS_USERS = True

#: The options that are passed on.
_OPTIONS = frozenset({"dtype", "device"})


def _is_plain(count: Any, options: dict[str, Any]) -> bool:
    """Whether a result is of as many places as a symbol says, and dense, of floating point numbers of the program's."""
    given = {name for name, value in options.items() if value is not None and value is not False}
    dtype = options.get("dtype")
    is_float = dtype is None or (dtype.is_floating_point and dtype.itemsize >= torch.float32.itemsize)
    return isinstance(count, torch.SymInt) and given <= _OPTIONS and is_float


def _places(count: Any, options: dict[str, Any]) -> Any:
    return torch.arange(count, dtype=options.get("dtype") or torch.get_default_dtype(), device=options.get("device"))


def _space(start: float, end: float, steps: Any, options: dict[str, Any]) -> Any:
    """From both ends to the middle, so that both come out exactly; the first alone, where there is one place."""
    place = _places(steps, options)
    last = torch.sym_max(steps - 1, 1)
    step = (torch.full_like(place, end) - start) / last
    return torch.where(2 * place < steps - steps % 2, start + step * place, end - step * (steps - 1 - place))


def linspace(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.linspace`` between two numbers."""

    def spaced(start: Any, end: Any, steps: Any, **options: Any) -> Any:
        if not (_are_numbers(start, end) and _is_plain(steps, options)):
            return func(*args, **kwargs)
        made = _space(start, end, steps, options)
        return torch.where(torch.scalar_tensor(steps) == 1, torch.full_like(made, start), made)

    return spaced(*args, **kwargs)


def logspace(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.logspace`` between two numbers."""

    def spaced(start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any) -> Any:
        if not (_are_numbers(start, end, base) and base > 0 and _is_plain(steps, options)):
            return func(*args, **kwargs)
        plain = {name: value for name, value in options.items() if name in _OPTIONS}
        return torch.pow(base, linspace(torch.linspace, (start, end, steps), plain))

    return spaced(*args, **kwargs)


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _window(terms: Callable[..., tuple[float, ...]]) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]:
    """A window that is a sum of cosines: the factors of those of 0, 1, 2, … turns."""

    def called(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def window(window_length: Any, periodic: bool = True, *numbers: Any, **options: Any) -> Any:
            named = {name: options.pop(name) for name in ("alpha", "beta") if name in options}
            if not (_is_plain(window_length, options) and _are_numbers(*numbers, *named.values())):
                return func(*args, **kwargs)
            place = _places(window_length, options)
            turn = 2 * math.pi / torch.sym_max(window_length if periodic else window_length - 1, 1)
            factors = terms(*numbers, **named)
            made = torch.full_like(place, factors[0])
            for n, factor in enumerate(factors[1:], start=1):
                made = made + factor * torch.cos(place * (turn * n))
            one = torch.scalar_tensor(window_length) == 1
            return torch.where(one, torch.ones_like(made), made)

        return window(*args, **kwargs)

    return called


def _hann() -> tuple[float, ...]:
    return 0.5, -0.5


def _hamming(alpha: float = 0.54, beta: float = 0.46) -> tuple[float, ...]:
    return alpha, -beta


def _blackman() -> tuple[float, ...]:
    return 0.42, -0.5, 0.08


hann_window, hamming_window, blackman_window = map(_window, (_hann, _hamming, _blackman))
