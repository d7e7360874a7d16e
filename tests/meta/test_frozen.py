"""Records (``dyn.frozen``) beside frozen dataclasses of Python's own, whose methods they have."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from dyn.frozen import record


@record()
class Point:
    x: object
    y: object = 0
    note: str = field(default="", compare=False)
    hidden: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Expected:
    x: object
    y: object = 0
    note: str = field(default="", compare=False)
    hidden: int = field(default=0, repr=False)


@record()
class Nothing:
    pass


@record()
class One:
    x: object


@record(eq=False)
class Apart:
    x: object


@record()
class Own:
    x: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.x % 10 == other.x % 10

    def __hash__(self) -> int:
        return self.x % 10

    def __repr__(self) -> str:
        return "own"


@record()
class Further(One):
    y: int = 1


class Plain(One):
    pass


NAN = float("nan")
VALUES: list[tuple[Any, ...]] = [
    (1,), (1, 2), (1, 2, "a"), (1, 2, "b"), (1, 2, "a", 3), ("1",), (NAN,), (NAN, 2), (1.0,), (True,), ((),),
]  # fmt: skip


def test_equality_hashes_and_texts_are_those_of_a_dataclass() -> None:
    for one in VALUES:
        for other in VALUES:
            assert (Point(*one) == Point(*other)) == (Expected(*one) == Expected(*other)), (one, other)
            assert (Point(*one) != Point(*other)) == (Expected(*one) != Expected(*other)), (one, other)
        assert hash(Point(*one)) == hash(Expected(*one))
        assert repr(Point(*one)) == repr(Expected(*one)).replace("Expected", "Point")
    assert Point(1) != Expected(1)
    assert Point(1).__eq__(Expected(1)) is NotImplemented
    assert Point.__match_args__ == Expected.__match_args__
    assert not hasattr(Point(1), "__dict__")


def test_records_of_no_and_of_one_field() -> None:
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(())
    assert (One(1) == One(1), One(1) == One(2), hash(One(1)) == hash((1,))) == (True, False, True)
    assert (Apart(1) == Apart(1), repr(Apart(1))) == (False, "Apart(x=1)")
    assert len({Apart(1), Apart(1)}) == 2


def test_methods_of_the_class_are_kept() -> None:
    assert Own(3) == Own(13)
    assert (hash(Own(13)), repr(Own(3))) == (3, "own")


def test_subclasses_have_fields_of_their_own() -> None:
    assert Further(1, 2) == Further(1, 2)
    assert (Further(1, 2) == Further(1, 3), Further(1) == One(1), One(1) == Further(1)) == (False, False, False)
    assert (Plain(1) == Plain(1), Plain(1) == One(1), repr(Plain(1))) == (True, False, "Plain(x=1)")
    assert hash(Further(1, 2)) == hash((1, 2))


def test_copies_and_recursion() -> None:
    point = Point([1], 2, "a", 3)
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == dataclasses.replace(point) == point
    assert dataclasses.replace(point, y=5).y == 5
    inside: list[object] = []
    around = One(inside)
    inside.append(around)
    assert repr(around) == "One(x=[...])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(point)


def test_threads_may_be_the_first_at_once() -> None:
    for _ in range(20):

        @record()
        class Fresh:
            x: int

        barrier, good = threading.Barrier(4), list[bool]()

        def compare(fresh: Any = Fresh, barrier: threading.Barrier = barrier, good: list[bool] = good) -> None:
            barrier.wait()
            good.append(fresh(1) == fresh(1) and hash(fresh(1)) == hash(fresh(1)))

        threads = [threading.Thread(target=compare) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert good == [True] * 4
