"""Sizes of one trace as JAX and as dyn have them, and what is answered of them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import pytest

jax: Any = pytest.importorskip("jax")

from dyn.errors import BackendUnavailableError  # noqa: E402
from dyn.interop.jax import functions_of_sizes  # noqa: E402
from dyn.interop.jax.answers import Answers  # noqa: E402
from dyn.interop.jax.listening import answered  # noqa: E402
from dyn.interop.jax.sizes import AxisSource, ReasonKind, SizeGuard, TraceSizes  # noqa: E402
from dyn.shapes import RelKind, as_dim, evaluate, symbol  # noqa: E402
from dyn.source import UNKNOWN  # noqa: E402


def sizes(**values: int) -> TraceSizes:
    """A leaf with an axis for each name."""
    symbols = [symbol(name, f"x.shape[{axis}]") for axis, name in enumerate(values)]
    places = {own: AxisSource(0, axis) for axis, own in enumerate(symbols)}
    return TraceSizes({0: tuple(map(as_dim, symbols))}, dict(zip(symbols, values.values(), strict=True)), places)


def asked(answers: Answers) -> list[str]:
    names = {own: own.name for own in answers.sizes.actual}
    return [guard.text(names) for guard in answers.sizes.guards]


def test_jax_expressions_are_dims() -> None:
    own = sizes(b=6, c=4)
    answers = Answers(own)
    b, c = answers.shapes(jax)[0]
    for size, value in (
        (2 * b - 1, 11), (-(-b // 4), 2), (b**2 * c, 144), (-b % 8, 2), (b.max(3 * c) - c.min(512), 8),
        ((b * c) % 9, 6), (b - (c - 1), 3), (-2 * b * c + 4, -44),
    ):  # fmt: skip
        dim = answers.dim(size)
        assert dim is not None
        assert evaluate(dim, own.actual) == value
    assert answers.dim(jax.export.symbolic_shape("b")[0]) is None  # of another trace
    assert answers.dim(7) == 7


def test_answers_are_proofs_or_guards() -> None:
    answers = Answers(sizes(b=6, c=4))
    b, c = answers.shapes(jax)[0]
    with answered(type(b), answers):
        assert b >= 1
        assert b + c > c
        assert 2 * (b // 2) <= b
        assert asked(answers) == []
        assert b > c
        assert b >= c + 1  # follows
        assert not b < c
        assert b != c
        assert asked(answers) == ["b >= c + 1"]
        assert b % 2 == 0
        assert (b // 2) * 2 == b
        assert asked(answers)[1:] == ["b % 2 == 0"]
        assert int(c) == 4
        assert list(range(c)) == [0, 1, 2, 3]
        assert asked(answers)[2:] == ["c == 4"]
        assert b > 4  # follows
        assert asked(answers)[3:] == []
    with pytest.raises(Exception, match="inconclusive"):
        assert b > 5


def test_sizes_that_are_divided_by_are_positive() -> None:
    """JAX raises for the lesser of two sizes of which one is divided by what may be 0: that it is not is a guard."""
    for c, wanted in ((4, ["c - 1 >= 1"]), (1, [])):
        answers = Answers(sizes(b=6, c=c))
        b, size = answers.shapes(jax)[0]
        with answered(type(b), answers):
            if not wanted:
                with pytest.raises(Exception, match="Possible division by 0"):
                    jax.core.min_dim(b // (size - 1), 2)
            else:
                made = jax.core.min_dim(b // (size - 1), 1 + b % (size - 1))
                assert str(made) == "min(floordiv(b, c - 1), mod(b, c - 1) + 1)"
        assert asked(answers) == wanted


def test_who_asks_whether_sizes_are_equal() -> None:
    """Expressions do, and functions of Python's own; not JAX's tables, which know sizes of other traces."""
    answers = Answers(sizes(a=3, b=4, c=5))
    a, b, c = answers.shapes(jax)[0]
    with answered(type(a), answers):
        assert a != b
        assert a not in (b,)
        assert (a, c) != (c, c)
        with pytest.raises(ValueError, match="not in list"):
            [c].index(b)
    assert asked(answers) == ["a != b", "a != c", "c != b"]
    assert answers.doubts == []


@dataclass(frozen=True)
class Key:
    """What a table is asked for, with a size in it."""

    size: Any


def test_keys_of_tables_of_jax_ask_nothing() -> None:
    """They are compared with those of other traces, where hashes meet by chance; a user's line asks."""
    file = f"{importlib.import_module('jax._src').__path__[0]}/interpreters/batching.py"
    names: dict[str, Any] = {}
    exec(compile("def looked_up(key, other): return key.__eq__(other)", file, "exec"), names)
    answers = Answers(sizes(a=3, b=4))
    a, _ = answers.shapes(jax)[0]
    with answered(type(a), answers):
        assert not names["looked_up"](Key(a), Key(3))
        assert not names["looked_up"](Key(a), Key(7))
        assert asked(answers) == []
        assert Key(a) == Key(3)
    assert asked(answers) == ["a == 3"]


def test_what_was_learnt_holds_for_other_sizes_or_not() -> None:
    first, second = sizes(n=4, m=4), sizes(n=5, m=5)
    n, m = map(as_dim, first.actual)
    equal = SizeGuard.of(ReasonKind.EQUAL, RelKind.EQ, n, m, UNKNOWN)
    learnt = second.again(equal)
    assert learnt is not None
    assert [guard.text({own: own.name for own in second.actual}) for guard in learnt.guards] == ["n == m"]
    assert sizes(n=5, m=6).again(equal) is None
    assert second.again(SizeGuard.of(ReasonKind.ORDER, RelKind.GE, n, m, UNKNOWN)) is None
    static = first.static(next(iter(first.actual)), UNKNOWN, "")
    other = second.again(static.guards[-1])
    assert other is not None
    assert list(other.numbers.values()) == [5]


def test_equal_sizes_are_one_symbol_of_jax_where_they_merge() -> None:
    own = sizes(n=4, m=4, k=5)
    n, m, k = map(as_dim, own.actual)
    for lhs, rhs in ((n, m), (k, m + 1)):
        own = own.with_guard(SizeGuard.of(ReasonKind.EQUAL, RelKind.EQ, lhs, rhs, UNKNOWN))
    assert list(map(str, own.shapes(jax)[0])) == ["n", "m", "k"]
    merged = TraceSizes(own.axes, own.actual, own.places, own.guards, merges=True)
    assert list(map(str, merged.shapes(jax)[0])) == ["n", "n", "n + 1"]


def test_what_a_jax_lacks_is_said_before_any_of_it_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dimension:
        """A class of dimensions that has no listener yet."""

        def __int__(self) -> int:
            return 0

        def __pow__(self, power: int) -> int:
            return 0

    lacking = ("jax._src.lax.lax", "no_such_function", lambda own: own)
    monkeypatch.setattr(functions_of_sizes, "FUNCTIONS", (*functions_of_sizes.FUNCTIONS, lacking))
    before = {name: vars(Dimension).get(name) for name in ("__eq__", "__bool__", "__hash__", "__int__", "__pow__")}
    code = jax.lax.fori_loop.__code__
    for _ in range(2):
        with pytest.raises(BackendUnavailableError, match="no_such_function"), answered(Dimension, Answers(sizes(b=6))):
            pass
    assert {name: vars(Dimension).get(name) for name in before} == before
    assert jax.lax.fori_loop.__code__ is code
