"""Lines of the user's, as they are found from below the functions of others."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable

from dyn.source import Loc, anchored, user_loc


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def through_a_library(function: Callable[[], Loc]) -> Loc:
    return functools.reduce(lambda _, f: f(), [function], Loc("none"))


def test_lines_go_on_where_an_anchor_is_set() -> None:
    def found() -> list[tuple[int, int]]:
        with anchored():
            first = user_loc().line, here()
            again = user_loc().line, here()
        return [first, again]

    assert all(line == wanted for line, wanted in found())  # its own lines are found as they go on


def test_a_line_below_an_anchor_is_found_first() -> None:
    def below() -> Loc:
        return user_loc()

    with anchored():
        assert through_a_library(below).function == "below"
        with anchored():
            assert through_a_library(below).function == "below"
        assert through_a_library(below).function == "below"


def test_an_anchor_is_of_its_thread() -> None:
    found: list[Loc] = []

    def other() -> None:
        found.append(user_loc())

    with anchored():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found[0].function == "other"


def test_below_the_last_line_none_is_looked_for() -> None:
    def below() -> Loc:
        return user_loc()

    def inner() -> list[str]:
        with anchored(is_last=True):
            found = [through_a_library(below).function]
            with anchored():  # somebody who may call the user's
                found.append(through_a_library(below).function)
            found.append(through_a_library(below).function)
        return [*found, user_loc().function]

    own = "test_below_the_last_line_none_is_looked_for"
    assert inner() == [own, "below", own, "inner"]


def test_an_error_leaves_the_line_looked_for() -> None:
    def inner() -> Loc:
        try:
            with anchored(is_last=True):
                raise ValueError
        except ValueError:
            return user_loc()

    assert inner().function == "inner"
