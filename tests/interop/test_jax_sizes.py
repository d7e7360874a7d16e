"""Expressions of sizes as JAX writes them, and what they say of one name."""

from __future__ import annotations

import itertools

import pytest

from dyn.interop.jax.expressions import (
    UnreadableError,
    calls_in,
    difference,
    divisions,
    evaluate,
    is_term,
    linear,
    linear_text,
    names_in,
    plus_one,
    product,
    python_text,
    renamed,
    solved,
)
from dyn.interop.jax.questions import record_questions

TEXTS = [
    "b", "2*b - 1", "- floordiv(floordiv(- b, 2), 2)", "floordiv(- floordiv(- b, 2) - 1, 2) + 1", "b^2*c",
    "mod(- b, 8)", "max(b, 3*c) - min(c, 512)", "b - (c - 1)", "mod(b*c, - 8)", "-2*b*c + 4",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_texts_keep_their_values(text: str) -> None:
    python = python_text(text, {"b": "s[0][1]", "c": "(s[1][0] // 2)"})
    again, other = renamed(text, {}), renamed(text, {"b": "c + 1", "c": "2*b"})
    for b, c in itertools.product((1, 2, 7, 64), (1, 3, 10)):
        wanted = evaluate(text, {"b": b, "c": c})
        assert eval(python, {"s": [[0, b], [2 * c]], "max": max, "min": min}) == wanted
        assert evaluate(again, {"b": b, "c": c}) == wanted
        assert evaluate(other, {"b": b, "c": c}) == evaluate(text, {"b": c + 1, "c": 2 * b})
        assert evaluate(plus_one(text), {"b": b, "c": c}) == wanted + 1


def test_what_is_no_expression() -> None:
    for text in ("b.real", "f(b)", "b if c else 1", "'b'", "b b", "[b]", "lambda: 1", "1.5"):
        with pytest.raises(UnreadableError):
            evaluate(text, {"b": 1, "c": 2})
        with pytest.raises(UnreadableError):
            python_text(text, {"b": "s", "c": "t"})


def test_sums() -> None:
    assert linear("2*b - (c + 1)*1 + 4") == {"b": 2, "c": -1, "": 3}
    assert linear("b*c") is None
    assert linear_text({"": -1, "b": 2, "c": -1}) == "2*b - c - 1"
    assert linear_text({}) == "0"
    assert difference("2*b", "4*c + 2") == {"b": 1, "c": -2, "": -1}
    assert difference("b", "b") == {}


def test_solved() -> None:
    order = {"b": 0, "c": 1, "d": 2}
    assert solved("b", "c", order) == ("c", "b")
    assert solved("c", "b + 3", order) == ("c", "b + 3")
    assert solved("b - 1", "c", order) == ("b", "c + 1")  # positive wherever c is
    assert solved("2*b", "4", order) == ("b", "2")
    assert solved("2*b", "3*c", order) is None
    assert solved("floordiv(b, 2)", "c", order) is None


def test_parts() -> None:
    assert {*names_in("floordiv(b, 2) + max(c, b)")} == {"b", "c"}
    assert divisions("- floordiv(mod(b, 4), 2)") == [("mod(b, 4)", "2"), ("b", "4")]
    assert product("-8*b*c^2") == (-8, ["b", "c", "c"])
    assert product("b + c") is None
    assert is_term("min(b, 3)")
    assert is_term("2*b")
    assert not is_term("b + 1")
    assert calls_in("The remainder mod(4*b, - 8) of floordiv(mod(b, 2), 3) should be 0.") == [
        "mod(4*b, - 8)",
        "floordiv(mod(b, 2), 3)",
    ]


def test_who_asks_whether_sizes_are_equal() -> None:
    """Expressions do, and functions of Python's own; not JAX's tables, which know sizes of other traces."""
    jax = pytest.importorskip("jax")
    a, b, c = jax.export.symbolic_shape("a, b, c")
    with record_questions(type(a)) as ear:
        assert a != b
        assert a not in (b,)
        assert (a, c) != (c, c)
        with pytest.raises(ValueError, match="not in list"):
            [c].index(b)
    asked = {frozenset((q.left, q.right)) for q in ear.questions()}
    assert asked == {frozenset("ab"), frozenset("ac"), frozenset("bc")}
    assert all(q.direct for q in ear.questions())
