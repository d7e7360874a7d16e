"""Choice of slots of the arena."""

from __future__ import annotations

from dyn.lower.slots import Life, chosen_slot
from dyn.shapes import Dim, Facts, as_dim, symbol

n = as_dim(symbol("n", "n"))


def chosen(size: Dim, free: list[int], life: Life | None) -> tuple[int, list[Dim]]:
    """The slot for an array, of slots of 512, 64 and 256 bytes a row, and all slots then."""
    slots: list[Dim] = [512 * n, 64 * n, 256 * n]
    return chosen_slot(size, 0, slots, [0, 0, 0], free, Facts.none(), life), slots


def test_a_slot_of_the_size_is_taken_first() -> None:
    assert chosen(64 * n, [0, 1], Life(0, 9, {64 * n: [5]}))[0] == 1


def test_a_larger_slot_is_taken_where_nobody_wants_it() -> None:
    assert chosen(64 * n, [0], None)[0] == 0
    assert chosen(64 * n, [0], Life(3, 9, {512 * n: [1, 3, 10]}))[0] == 0


def test_a_larger_slot_is_left_to_arrays_of_its_size() -> None:
    found, slots = chosen(64 * n, [0], Life(3, 9, {512 * n: [1, 9]}))
    assert (found, slots[found]) == (3, 64 * n)
    assert chosen(64 * n, [0, 2], Life(3, 9, {512 * n: [4]}))[0] == 2


def test_a_slot_that_grows_is_not() -> None:
    found, slots = chosen(512 * n, [1], Life(3, 9, {64 * n: [4]}))
    assert (found, slots[found]) == (1, 512 * n)
