"""Choice of slots of the arena."""

from __future__ import annotations

from typing import cast

import pytest

from dyn.lower.layout import aligned
from dyn.lower.slots import GatedSize, Life, Slots
from dyn.shapes import Answer, Dim, Facts, as_dim, dim_max, dim_min, evaluate, free_symbols, symbol

n, m = as_dim(symbol("n", "n")), as_dim(symbol("m", "m"))


def chosen(size: Dim, free: list[int], life: Life | None) -> tuple[int, list[Dim]]:
    """The slot for an array, of slots of 512, 64 and 256 bytes a row, and all slots then."""
    slots: list[Dim] = [512 * n, 64 * n, 256 * n]
    return Slots(slots, [0, 0, 0], Facts.none(), aligned).choose(size, 0, free, life), slots


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


class CountedFacts:
    """No facts, which count what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[tuple[Dim, Dim]] = []

    def ge(self, a: Dim, b: Dim) -> Answer:
        self.asked.append((a, b))
        return Facts.none().ge(a, b)


def asked(size: Dim, free: list[Dim]) -> tuple[int, list[tuple[Dim, Dim]]]:
    """The slot for an array, of free slots of these sizes, and what is asked for it."""
    facts = CountedFacts()
    slots = list(free)
    slot = Slots(slots, [0] * len(free), cast(Facts, facts), aligned).choose(size, 0, list(range(len(free))))
    return slot, facts.asked


def test_behind_a_larger_slot_nothing_is_asked() -> None:
    assert asked(64 * n, [128 * n, 256 * n, 512 * n]) == (0, [(128 * n, 64 * n)])


def test_behind_a_slot_that_grows_only_larger_ones_are_asked_for() -> None:
    assert asked(256 * n, [64 * n, 128 * n, 32 * n, 512 * n]) == (
        3,
        [(64 * n, 256 * n), (256 * n, 64 * n), (128 * n, 256 * n), (32 * n, 256 * n), (512 * n, 256 * n)],
    )


def test_the_first_of_several_slots_that_are_neither_grows_to_both_sizes() -> None:
    slots: list[Dim] = [64 * m, 128 * m]
    assert Slots(slots, [0, 0], Facts.none(), aligned).choose(64 * n, 0, [0, 1]) == 0
    assert slots == [dim_max(64 * m, 64 * n), 128 * m]


# ---- sizes that are 0 where a variant does not run -------------------------------------------------------------------

gate, other = dim_max(0, dim_min(1, n - 4096)), dim_max(0, dim_min(1, m - 7))


def test_gated_sizes_are_compared_without_their_gates() -> None:
    assert asked(4 * n * gate, [8 * n]) == (0, [(8 * n, 4 * n)])
    assert asked(8 * n * gate, [4 * n * gate])[1] == [(4 * n, 8 * n), (8 * n, 4 * n)]
    assert asked(4 * n, [8 * n * gate])[1] == [(4 * n, 8 * n)]
    assert asked(4 * n * other, [8 * n * gate])[1] == []


def test_gates_that_both_sizes_have_are_1() -> None:
    both, facts = dim_max(8 * n * gate, 4 * n * other), Facts.none()
    room = GatedSize.of(both)
    assert room.holds(GatedSize.of(8 * n * gate), facts).proved
    assert room.holds(GatedSize.of(4 * n * other), facts).proved
    assert not room.holds(GatedSize.of(8 * n * other), facts).proved
    assert GatedSize.of(dim_max(4 * n, 8 * m * gate)).holds(GatedSize.of(4 * n), facts).proved


SIZES: list[Dim] = [
    4 * n, 4 * n * gate, 8 * n * gate, 8 * n * other, 8 * n * gate * other, dim_max(4 * n, 8 * m * gate),
    dim_max(4 * m, 8 * n * gate), dim_max(8 * n * gate, 4 * n * other),
    4 * n * gate + 4 * m * other, 4 * n * gate + 64, 64 * gate, 64,
    64 + 4 * n * gate * dim_min(m - 7, 3), 8 * n * m - 4 * n * gate, (8 * n * m - 4 * n) * gate,
]  # fmt: skip


@pytest.mark.parametrize("have", SIZES, ids=str)
def test_what_is_proved_of_gated_sizes_holds(have: Dim) -> None:
    facts = Facts.none()
    for size in SIZES:
        if not GatedSize.of(have).holds(GatedSize.of(size), facts).proved:
            continue
        for rows in (0, 1, 4096, 4097, 5000):
            for columns in (0, 1, 7, 8, 100):
                own = {symbol: rows if symbol.name == "n" else columns for symbol in free_symbols(n) | free_symbols(m)}
                assert evaluate(have, own) >= evaluate(size, own), (size, rows, columns)
