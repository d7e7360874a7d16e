"""Static values as keys: what a function can tell apart has programs of its own, wherever it is static."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.trace.static_keys import Static, is_plain, same_static


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass(frozen=True)
class Settings:
    scale: Any


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
#: Pairs that are ``==`` and have one hash, and that a function can tell apart.
CONFLATED = [
    (2, 2.0), (1, True), (0.0, -0.0), (2, np.int64(2)), (2.0, 2 + 0j), (0j, complex(0.0, -0.0)),
    (range(0, 3, 2), range(0, 4, 2)), (range(0), range(5, 5)), (Decimal("1.0"), Decimal("1.00")),
    (Fraction(2), 2), ((1, 2), (1, 2.0)), ((range(0, 3, 2),), (range(0, 4, 2),)),
    (frozenset({1}), frozenset({True})), (frozenset({Decimal("1.0")}), frozenset({Decimal("1.00")})),
    (Pair(1, 2), (1, 2)), (Pair(1, 2), Pair(1, 2.0)), (Settings(1), Settings(True)),
    (Settings(Decimal("1.0")), Settings(Decimal("1.00"))), (np.float32(0.0), np.float32(-0.0)),
    (NOON, NOON.astimezone(timezone(timedelta(hours=1)))), (NOON, NOON.replace(fold=1)),
]  # fmt: skip
ALIKE = [
    (2, 2), (2.5, 2.5), (float("nan"), float("nan")), ("a", "a"), (range(0, 4, 2), range(0, 4, 2)), (int, int),
    (Decimal("1.0"), Decimal("1.0")), ((1, (2.0, "x")), (1, (2.0, "x"))), (Settings(1), Settings(1)),
    (frozenset({1, 2}), frozenset({2, 1})), (np.float32(1), np.float32(1)), (NOON, NOON + timedelta(0)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), CONFLATED)
def test_what_a_function_can_tell_apart_is_not_the_same(a: Any, b: Any) -> None:
    assert a == b
    assert not same_static(a, b)
    assert not same_static(b, a)
    assert Static("s", a) != Static("s", b)


@pytest.mark.parametrize(("a", "b"), ALIKE)
def test_what_it_cannot_is(a: Any, b: Any) -> None:
    assert same_static(a, b)
    assert Static("s", a) != Static("t", b)
    if a == a:  # each NaN has a hash of its own
        assert hash(Static("s", a)) == hash(Static("s", b))


def _told(x: Any, value: Any) -> Any:
    """A result that says which value it was made with."""
    return x + sum(f"{type(value).__name__} {value!r}".encode()) % 1000


def _by_jit() -> Callable[[Any, Any], Any]:
    return dyn.jit(_told, static_argnums=1)


def _by_checkpoint() -> Callable[[Any, Any], Any]:
    return dyn.checkpoint(_told, static_argnums=1)


def _by_vectorize() -> Callable[[Any, Any], Any]:
    return dnp.vectorize(_told, excluded={1})


def _by_custom_vjp() -> Callable[[Any, Any], Any]:
    told = dyn.custom_vjp(_told, nondiff_argnums=(1,))
    told.defvjp(lambda x, value: (_told(x, value), ()), lambda value, kept, ct: (ct,))
    return told


@pytest.mark.filterwarnings("ignore::dyn.RecompileWarning")
@pytest.mark.parametrize("make", [_by_jit, _by_checkpoint, _by_vectorize, _by_custom_vjp])
def test_static_arguments_of_every_kind(make: Callable[[], Callable[[Any, Any], Any]]) -> None:
    function, x = make(), np.zeros(3, np.float32)
    for a, b in CONFLATED:
        for value in (a, b, a, b):
            np.testing.assert_array_equal(function(x, value), _told(x, value), err_msg=repr(value))


def test_warm_calls_tell_them_apart_too() -> None:
    function = dyn.jit(_told, static_argnums=1)
    x = np.zeros(3, np.float32)
    for _ in range(3):
        for value in (range(0, 3, 2), range(0, 4, 2), Decimal("1.0"), Decimal("1.00")):
            np.testing.assert_array_equal(function(x, value), _told(x, value))
    assert function.cache_info().compiles == 4


def test_plain_values() -> None:
    assert all(
        map(is_plain, [None, 1, 2.0, "x", (1, ("a",)), slice(1, None), ..., np.float32, dyn.f32, np.dtype("f4")])
    )
    assert not any(map(is_plain, [lambda: 0, [1], Settings(1), object(), (1, object()), Settings, np.ones(2)]))
