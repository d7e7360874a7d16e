"""Groups that an earlier program has had are lowered no more, and to the same as if they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import dyn
import dyn.numpy as dnp
from dyn.schedule import launch_cache, plan
from dyn.schedule.launch import Condition, Launch, Variant
from dyn.schedule.launch_cache import AskedFacts, KnownGroups
from dyn.shapes import Dim, Facts

F32 = "float32"


def _softmax(x: Any) -> Any:
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
    return e / dnp.sum(e, axis=-1, keepdims=True)


def _several(x: Any) -> Any:
    """Loops, a transpose, reductions of both axes, and their parts."""
    y = dnp.tanh(x) + 1
    return _softmax(y), y.T * 2, dnp.sum(x, axis=0), dnp.var(x, axis=-1)


def _product(x: Any) -> Any:
    return dnp.maximum(x @ x.T, 0)


def _broadcast(x: Any) -> Any:
    """A stretched axis, whose forms name a dim."""
    return x + dnp.sum(x, axis=0)[:, None]


FUNCTIONS = (_softmax, _several, _product)
SHAPES = (("p", "q"), ("q", "p"), ("n", 768), (1, "n"), (0, "m"), ("n", "n"))


def _texts(function: Callable[[Any], Any], shape: tuple[Any, ...], **options: Any) -> dict[str, str]:
    lowered = dyn.jit(function, **options).trace(dyn.ShapeDtypeStruct(shape, F32)).lower()
    compiled = lowered.compile()
    return {dialect: compiled.as_text(dialect) for dialect in ("stitch", "kernel", "host", "llvm")}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Callable[[], KnownGroups]:
    """Makes a table in which nothing is known yet the one in use."""

    def empty() -> KnownGroups:
        made = KnownGroups()
        monkeypatch.setattr(plan, "KNOWN", made)
        return made

    return empty


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that are lowered."""
    found: list[str] = []
    lowered = plan._lowered

    def note(lower: Any, group: Any, *rest: Any) -> Any:
        found.append(group.name)
        return lowered(lower, group, *rest)

    monkeypatch.setattr(plan, "_lowered", note)
    return found


@pytest.mark.parametrize(
    ("function", "shape"), [*[(f, shape) for f in FUNCTIONS for shape in SHAPES], (_broadcast, ("n", "n"))]
)
def test_what_is_known_is_what_would_be_made(
    function: Callable[[Any], Any], shape: tuple[Any, ...], table: Callable[[], KnownGroups], made: list[str]
) -> None:
    table()
    alone = _texts(function, shape)
    table()
    for other in FUNCTIONS:
        _texts(other, ("n", "m"))
    assert _texts(function, shape) == alone
    count = len(made)
    assert _texts(function, shape) == alone  # traced and lowered anew, with symbols of its own
    assert len(made) == count


def test_another_name_takes_the_same_launches(table: Callable[[], KnownGroups], made: list[str]) -> None:
    table()
    _texts(_softmax, ("n", "m"))
    count = len(made)
    found = _texts(_softmax, ("rows", "columns"))
    assert len(made) == count
    assert "rows" in found["host"]
    table()
    assert _texts(_softmax, ("rows", "columns")) == found


def test_each_dim_of_a_known_group_is_put_over_once(
    table: Callable[[], KnownGroups], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variants of a group have most of their dims in common."""
    table()
    _texts(_softmax, ("n", "m"))
    asked: list[Dim] = []
    substitute = launch_cache.substitute

    def note(dim: Dim, symbols: Any) -> Dim:
        asked.append(dim)
        return substitute(dim, symbols)

    monkeypatch.setattr(launch_cache, "substitute", note)
    _texts(_softmax, ("n", "m"))
    assert asked
    assert len(asked) == len(set(asked))


def test_other_facts_are_other_launches(table: Callable[[], KnownGroups], made: list[str]) -> None:
    """Fewer rows than parts are made for: the program has one way, and the general one two."""

    def total(x: Any) -> Any:
        return dnp.sum(x)

    table()
    few = _texts(total, ("m",), constraints="m <= 100")
    table()
    any_ = _texts(total, ("m",))
    assert few["host"] != any_["host"]
    count = len(made)
    again = _texts(total, ("m",), constraints="m <= 100")
    assert again["kernel"] == few["kernel"]
    assert len(made) > count
    count = len(made)
    assert _texts(total, ("m",)) == any_
    assert len(made) == count


def test_all_of_a_launch_is_kept() -> None:
    """A field that is new here, and has dims, values or texts, has to be rewritten in ``dyn.schedule.launch_cache``."""
    names = {kind.__name__: {field.name for field in fields(kind)} for kind in (Launch, Variant, Condition)}
    assert names == {
        "Launch": {"group", "buffers", "variants", "temporaries", "when", "bodies", "unless", "demands"},
        "Variant": {
            "kernel", "dims", "grid", "cost", "condition", "note", "in_place", "steps", "deferred", "strides", "folds"
        },
        "Condition": {"dim", "low", "high"},
    }  # fmt: skip


def test_lowering_asks_what_is_noted_and_nothing_else() -> None:
    facts: Any = AskedFacts(Facts.none())
    assert facts.eq(1, 1).proved
    assert facts.bounds(3) == (3, 3)
    assert set(facts.asked) == {("eq", (1, 1)), ("bounds", (3,))}
    with pytest.raises(AttributeError):
        facts.simplify(3)
