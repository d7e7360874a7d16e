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
